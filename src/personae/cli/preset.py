"""A curriculum's settings as flags of a command."""

import dataclasses
from collections.abc import Sequence
from typing import Any

from personae.curricula import Curriculum, Preset, find_curriculum
from personae.errors import UsageError
from personae.methods.registry import METHODS, unread_settings
from personae.serialise import first_difference, to_plain

LEARNERS = {"ppo", "impala"}


def settings_of(source: Preset) -> dict[str, Any]:
    """Return the settings that have flags, as a curriculum or a command has them."""
    names = [field.name for field in dataclasses.fields(Preset)]
    return {name: getattr(source, name) for name in names}


def with_preset(
    name: str, command: Preset, methods: Sequence[str], cycles: int | None = None
) -> Curriculum:
    """Return a curriculum with the settings of a command, and as many cycles."""
    found = find_curriculum(name)
    _check_read(found, command, methods)
    curriculum = dataclasses.replace(found, **settings_of(command))
    if cycles is None:
        return curriculum
    return dataclasses.replace(curriculum, cycles=cycles)


def _check_read(own: Preset, command: Preset, methods: Sequence[str]) -> None:
    """Refuse settings that neither the learner nor any of the methods reads."""
    for learner in LEARNERS - {command.learner}:
        changed = _changed(own, command, learner)
        if changed is not None:
            raise UsageError(
                f"{changed} is read by --learner {learner} only, and the learner here "
                f"is {command.learner}"
            )
    unread = [unread_settings(method) for method in methods if method in METHODS]
    for settings in sorted(set.intersection(*unread)) if unread else []:
        changed = _changed(own, command, settings)
        if changed is not None:
            readers = [m for m in METHODS if settings not in unread_settings(m)]
            raise UsageError(
                f"{changed} is not read by {', '.join(methods)}, but by "
                f"{', '.join(readers)}"
            )


def _changed(own: Preset, command: Preset, group: str) -> str | None:
    """Return the first flag of a group that was given, if any was."""
    before, after = (to_plain(getattr(each, group)) for each in (own, command))
    difference = first_difference(before, after, group)
    if difference is None:
        return None
    return f"--{difference[0].replace('_', '-')}"
