"""What is learned, in which order: tasks, curricula and their registry."""

from personae.backbones.build import NetworkOptions as NetworkOptions
from personae.curricula.curriculum import Curriculum as Curriculum
from personae.curricula.curriculum import Evaluation as Evaluation
from personae.curricula.curriculum import Inputs as Inputs
from personae.curricula.curriculum import Preset as Preset
from personae.curricula.curriculum import Task as Task
from personae.curricula.curriculum import load_curriculum as load_curriculum
from personae.curricula.registry import find_curriculum as find_curriculum
from personae.curricula.registry import registered as registered
