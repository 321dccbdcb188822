"""Which programs a curriculum is learned with: all in JAX, or stepped from the host."""

from personae.curricula.curriculum import Curriculum
from personae.envs.registry import FAMILIES
from personae.errors import require
from personae.methods.contract import Method
from personae.training.device_trainer import RehearsingPrograms
from personae.training.host_trainer import HostPrograms, MakePlayers
from personae.training.programs import Programs


def in_jax(curriculum: Curriculum) -> bool:
    """Tell whether agents act and learn in one program."""
    return all(task.env in FAMILIES for task in curriculum.tasks)


def make_programs(
    curriculum: Curriculum,
    method: Method,
    seeds: tuple[int, ...],
    devices: int | None = None,
    make_players: MakePlayers | None = None,
) -> Programs:
    """Return the programs of a run, on so many devices at most.

    `make_players` gives what acts in environments outside JAX, if the curriculum is
    not to choose it.
    """
    compiled = in_jax(curriculum)
    require(
        not compiled or curriculum.evaluation.measure is None,
        "environments in JAX do not tell success: leave out evaluation.measure",
    )
    if not compiled:
        return HostPrograms(curriculum, method, seeds, devices, make_players)
    require(
        make_players is None,
        f"{curriculum.id} acts and learns in one program on this machine; --on is for "
        "environments outside JAX. Whole runs go to a cluster by `personae compare`",
    )
    remembers = method.traits.replay is not None
    kind = RehearsingPrograms if remembers else Programs
    return kind(curriculum, method, seeds, devices)
