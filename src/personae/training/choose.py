"""Which programs a curriculum is learned with: all in JAX, or stepped from the host."""

from personae.curricula.spec import Curriculum
from personae.envs.registry import FAMILIES
from personae.errors import require
from personae.methods.base import Method
from personae.training.host import HostPrograms
from personae.training.programs import Programs
from personae.training.rehearsing import RehearsingPrograms


def make_programs(
    curriculum: Curriculum, method: Method, seeds: tuple[int, ...]
) -> Programs:
    """Return the programs of a run."""
    in_jax = all(task.env in FAMILIES for task in curriculum.tasks)
    require(
        not in_jax or curriculum.evaluation.measure is None,
        "environments in JAX do not tell success: leave out evaluation.measure",
    )
    if not in_jax:
        return HostPrograms(curriculum, method, seeds)
    remembers = method.traits.replay is not None
    return (RehearsingPrograms if remembers else Programs)(curriculum, method, seeds)
