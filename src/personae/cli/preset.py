"""The settings of a curriculum as flags of a command."""

import dataclasses
from collections.abc import Sequence
from typing import Any

from personae.curricula import LEARNERS, Curriculum, Preset, find_curriculum
from personae.errors import UsageError
from personae.methods.registry import METHODS, unread_settings
from personae.serialise import first_difference, to_plain


def settings_of(source: Preset) -> dict[str, Any]:
    """Return the settings of a curriculum, or of a command, that are flags."""
    # Not all fields: a curriculum also has tasks, and a command an output directory.
    names = [field.name for field in dataclasses.fields(Preset)]
    return {name: getattr(source, name) for name in names}


def with_preset(
    name: str, command: Preset, methods: Sequence[str], cycles: int | None = None
) -> Curriculum:
    """Return a curriculum with the settings of a command.

    Args:
        name: The name of the curriculum, as for `find_curriculum`.
        command: The settings on the command line.
        methods: The methods that the curriculum is learned with.
        cycles: The number of cycles, if it is not the curriculum's own.

    Raises:
        UsageError: If a flag was given that nothing reads.
    """
    curriculum = find_curriculum(name)
    _check_flags_are_read(curriculum, command, methods)
    if cycles is None:
        cycles = curriculum.cycles
    return dataclasses.replace(curriculum, cycles=cycles, **settings_of(command))


def _check_flags_are_read(
    preset: Preset, command: Preset, methods: Sequence[str]
) -> None:
    """Raise an error if neither the learner nor any method reads a flag."""
    # Only changes are refused: presets carry the settings of all learners and methods.
    for learner in LEARNERS:
        flag = _first_changed_flag(preset, command, learner)
        if flag is not None and learner != command.learner:
            raise UsageError(
                f"{flag} is read by --learner {learner} only, and the learner here "
                f"is {command.learner}"
            )
    # An unknown method gets an error of its own later.
    unread = [unread_settings(method) for method in methods if method in METHODS]
    # Of several methods one that reads a flag is enough.
    for settings in sorted(set.intersection(*unread)) if unread else []:
        flag = _first_changed_flag(preset, command, settings)
        if flag is not None:
            readers = [m for m in METHODS if settings not in unread_settings(m)]
            raise UsageError(
                f"{flag} is not read by {', '.join(methods)}, but by "
                f"{', '.join(readers)}"
            )


def _first_changed_flag(preset: Preset, command: Preset, group: str) -> str | None:
    """Return the first flag of a group whose value is not the preset's, or None."""
    # As plain data, in which fields have the names of flags.
    before, after = (
        to_plain(getattr(settings, group)) for settings in (preset, command)
    )
    difference = first_difference(before, after, group)
    if difference is None:
        return None
    return f"--{difference[0].replace('_', '-')}"
