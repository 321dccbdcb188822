"""The registry of curricula, to which other packages add theirs by an entry point.

An entry point of the group `personae.curricula` names a function without arguments that
returns a list of curricula, like `ct_graph.curricula` here.
"""

import functools
from importlib.metadata import entry_points
from pathlib import Path

from personae.curricula import continual_world, crossing, ct_graph, procgen
from personae.curricula.curriculum import Curriculum
from personae.curricula.load import load_curriculum
from personae.errors import PersonaeError, UsageError, nearest_match_error
from personae.ids import version

FAMILIES = (ct_graph, crossing, continual_world, procgen)
"""The modules of this package that make curricula, in the order of the paper."""
GROUP = "personae.curricula"
"""The group of entry points by which other packages add curricula."""


@functools.cache
def registered() -> dict[str, Curriculum]:
    """Return all curricula by their full ids.

    Raises:
        PersonaeError: If another package's curricula cannot be loaded.
        UsageError: If two packages register the same id.
    """
    curricula = [c for family in FAMILIES for c in family.curricula()]
    for point in entry_points(group=GROUP):
        # A plug-in that fails is named: a traceback would not say who installed it.
        try:
            curricula += point.load()()
        except (ImportError, AttributeError, TypeError) as error:
            message = f"the curricula of {point.value!r} cannot be loaded: {error}"
            raise PersonaeError(message) from error
    by_id: dict[str, Curriculum] = {}
    for curriculum in curricula:
        if curriculum.id in by_id:
            raise UsageError(f"two packages register the curriculum {curriculum.id!r}")
        by_id[curriculum.id] = curriculum
    return by_id


def find_curriculum(name: str) -> Curriculum:
    """Return a curriculum by its id, its short name, or from a file.

    Args:
        name: An id such as "personae/CT8-v0"; a short name such as "ct8", which means
            the newest version; "crossing-N" or "lava-crossing-N" for N random mazes;
            or the path of a .toml or .json file.

    Raises:
        UsageError: If no curriculum has the name, or if the file has a mistake.
    """
    if name.endswith((".toml", ".json")):
        return load_curriculum(Path(name))
    by_id = registered()
    if name in by_id:
        return by_id[name]
    matches = [c for c in by_id.values() if c.short_name == name]
    if matches:
        return max(matches, key=lambda curriculum: version(curriculum.id))
    # Random mazes come last, so that a package can register a name such as crossing-5.
    mazes = crossing.random_mazes(name)
    if mazes is not None:
        return mazes
    short_names = {c.short_name for c in by_id.values()} | {"crossing-20"}
    raise nearest_match_error("curriculum", name, short_names)
