"""Algorithm 1: compiled programs, evaluation, checkpoints, progress."""

from personae.training.backend import prepare_backend as prepare_backend
from personae.training.board import Board as Board
from personae.training.callbacks import Callback as Callback
from personae.training.callbacks import Now as Now
from personae.training.config import RunConfig as RunConfig
from personae.training.earlier import digest as digest
from personae.training.earlier import earlier_file as earlier_file
from personae.training.earlier import earlier_of as earlier_of
from personae.training.film import Film as Film
from personae.training.fleet import Job as Job
from personae.training.fleet import learn_jobs as learn_jobs
from personae.training.fleet import room as room
from personae.training.lifelong import start as start
from personae.training.progress import Reporter as Reporter
from personae.training.progress import make_reporter as make_reporter
from personae.training.resumption import check_same_config as check_same_config
from personae.training.revival import Revival as Revival
from personae.training.shipping import export_agent as export_agent
