"""Lifelong reinforcement learning with modulating masks.

One fixed backbone, one learned mask per task: an agent that learns a lifetime of tasks
one after another and forgets none of them.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

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

_HOMES = {
    "compare": "api",
    "learn": "api",
    "Curriculum": "curricula",
    "Task": "curricula",
    "find_curriculum": "curricula",
    "load_curriculum": "curricula",
    "PersonaeError": "errors",
    "PPO": "learners",
    "METHODS": "methods",
    "EWCOptions": "methods",
    "L2Options": "methods",
    "MaskOptions": "methods",
    "PackNetOptions": "methods",
    "Record": "report",
    "lifelong_curves": "report",
    "read_record": "report",
    "Callback": "training",
    "EvaluationEvent": "training",
}


def __getattr__(name: str) -> Any:
    # Names are imported when used: reading a run or acting must not import JAX.
    if name not in _HOMES:
        raise AttributeError(f"module 'personae' has no attribute {name!r}")
    return getattr(import_module(f"personae.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted(_HOMES)
