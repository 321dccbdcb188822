"""Curricula: tasks, their order, their presets, and the registry of all of them."""

from personae.backbones.build import NetworkOptions as NetworkOptions
from personae.curricula.curriculum import LEARNERS as LEARNERS
from personae.curricula.curriculum import Curriculum as Curriculum
from personae.curricula.curriculum import LearnerName as LearnerName
from personae.curricula.curriculum import Preset as Preset
from personae.curricula.load import load_curriculum as load_curriculum
from personae.curricula.options import Evaluation as Evaluation
from personae.curricula.options import Hosting as Hosting
from personae.curricula.options import Inputs as Inputs
from personae.curricula.options import Normalisers as Normalisers
from personae.curricula.registry import find_curriculum as find_curriculum
from personae.curricula.registry import registered as registered
from personae.curricula.task import Task as Task
