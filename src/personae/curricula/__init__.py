"""What is learned, in which order: tasks, curricula and their registry."""

from personae.curricula.registry import find_curriculum as find_curriculum
from personae.curricula.registry import registered as registered
from personae.curricula.spec import Curriculum as Curriculum
from personae.curricula.spec import Evaluation as Evaluation
from personae.curricula.spec import Inputs as Inputs
from personae.curricula.spec import NetworkOptions as NetworkOptions
from personae.curricula.spec import Preset as Preset
from personae.curricula.spec import Task as Task
from personae.curricula.spec import load_curriculum as load_curriculum
