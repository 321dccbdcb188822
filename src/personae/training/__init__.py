"""Algorithm 1: tasks are trained, evaluated and consolidated one after another."""

from personae.training.callbacks import Callback as Callback
from personae.training.callbacks import EvaluationEvent as EvaluationEvent
from personae.training.config import RunConfig as RunConfig
from personae.training.export import export_agent as export_agent
from personae.training.loop import start as start
from personae.training.restore import RestoredRun as RestoredRun
