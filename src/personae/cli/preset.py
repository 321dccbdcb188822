"""A curriculum's settings as flags of a command."""

import dataclasses
from typing import Any

from personae.curricula import Curriculum, Preset, find_curriculum


def settings_of(source: Preset) -> dict[str, Any]:
    """Return the settings that have flags, as a curriculum or a command has them."""
    names = [field.name for field in dataclasses.fields(Preset)]
    return {name: getattr(source, name) for name in names}


def with_preset(name: str, command: Preset, cycles: int | None = None) -> Curriculum:
    """Return a curriculum with the settings of a command, and as many cycles."""
    curriculum = dataclasses.replace(find_curriculum(name), **settings_of(command))
    if cycles is None:
        return curriculum
    return dataclasses.replace(curriculum, cycles=cycles)
