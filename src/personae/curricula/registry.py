"""Curricula by id. Other packages add theirs by an entry point.

An entry point of the group `personae.curricula` names a function without arguments that
returns a list of curricula, like `ct_graph.curricula` here.
"""

import functools
from importlib.metadata import entry_points
from pathlib import Path

from personae.curricula import ct_graph
from personae.curricula.crossing import random_mazes
from personae.curricula.curriculum import Curriculum, load_curriculum
from personae.errors import PersonaeError, UsageError, nearest_match_error
from personae.ids import version

GROUP = "personae.curricula"


@functools.cache
def registered() -> dict[str, Curriculum]:
    """Return all curricula by their full ids."""
    found = ct_graph.curricula()
    for point in entry_points(group=GROUP):
        try:
            found += point.load()()
        except (ImportError, AttributeError, TypeError) as error:
            message = f"the curricula of {point.value!r} cannot be loaded: {error}"
            raise PersonaeError(message) from error
    by_id: dict[str, Curriculum] = {}
    for curriculum in found:
        if curriculum.id in by_id:
            raise UsageError(f"two packages register the curriculum {curriculum.id!r}")
        by_id[curriculum.id] = curriculum
    return by_id


def find_curriculum(name: str) -> Curriculum:
    """Return a curriculum by id, by short name (its newest version) or from a file.

    `crossing-N` and `lava-crossing-N` are N random mazes.
    """
    if name.endswith((".toml", ".json")):
        return load_curriculum(Path(name))
    by_id = registered()
    if name in by_id:
        return by_id[name]
    matching = [c for c in by_id.values() if c.short_name == name]
    render_frame = random_mazes(name)
    if not matching and render_frame is not None:
        return render_frame
    if not matching:
        short = {c.short_name for c in by_id.values()} | {"crossing-20"}
        raise nearest_match_error("curriculum", name, short)
    return max(matching, key=lambda curriculum: version(curriculum.id))
