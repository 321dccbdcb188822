"""Lifelong reinforcement learning with modulating masks.

One fixed backbone, one learned mask per task: an agent that learns a lifetime of tasks
one after another and forgets none of them.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from personae.api import compare as compare
    from personae.api import learn as learn
    from personae.curricula import Curriculum as Curriculum
    from personae.curricula import Task as Task
    from personae.curricula import find_curriculum as find_curriculum
    from personae.curricula import load_curriculum as load_curriculum
    from personae.errors import PersonaeError as PersonaeError
    from personae.learners import PPO as PPO
    from personae.methods import METHODS as METHODS
    from personae.methods import EWCOptions as EWCOptions
    from personae.methods import L2Options as L2Options
    from personae.methods import MaskOptions as MaskOptions
    from personae.methods import PackNetOptions as PackNetOptions
    from personae.report import Record as Record
    from personae.report import lifelong_curves as lifelong_curves
    from personae.report import read_record as read_record
    from personae.training import Callback as Callback
    from personae.training import EvaluationEvent as EvaluationEvent
else:
    # Names are imported when used: reading a run or acting must not import JAX. Type
    # checkers need import statements, which say the same above; a test compares both.
    from importlib import import_module

    _NAMES_OF_MODULES = {
        "api": "compare learn",
        "curricula": "Curriculum Task find_curriculum load_curriculum",
        "errors": "PersonaeError",
        "learners": "PPO",
        "methods": "METHODS EWCOptions L2Options MaskOptions PackNetOptions",
        "report": "Record lifelong_curves read_record",
        "training": "Callback EvaluationEvent",
    }
    _MODULES = {
        name: f"personae.{module}"
        for module, names in _NAMES_OF_MODULES.items()
        for name in names.split()
    }

    def __getattr__(name: str) -> object:
        if name not in _MODULES:
            raise AttributeError(f"module 'personae' has no attribute {name!r}")
        return getattr(import_module(_MODULES[name]), name)

    def __dir__() -> list[str]:
        return sorted(_MODULES)
