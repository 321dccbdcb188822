"""Reading of curricula from TOML and JSON files."""

import json
import tomllib
from pathlib import Path

from personae.curricula.curriculum import LEARNERS, Curriculum, Preset
from personae.errors import UsageError
from personae.serialise import PlainData


def load_curriculum(path: Path) -> Curriculum:
    """Read a curriculum from a TOML or JSON file.

    Args:
        path: A file whose name ends in .toml; any other is read as JSON.

    Returns:
        The curriculum, with defaults for all settings that the file does not give.

    Raises:
        UsageError: If the file cannot be read, has an unknown or ill-typed field, or
            has a table of a learner that nothing in it chooses.
    """
    try:
        text = path.read_text(encoding="utf-8")
        data = tomllib.loads(text) if path.suffix == ".toml" else json.loads(text)
    except (OSError, ValueError) as error:
        raise UsageError(f"cannot read the curriculum {path}: {error}") from error
    curriculum = Curriculum.from_plain(data, path.name)
    _check_learner_is_named(data, path.name)
    return curriculum


def _check_learner_is_named(data: PlainData, file: str) -> None:
    """Raise an error if a learner has a table, but the default one would be used."""
    # Only files are strict here. A file that names its learner may have tables of
    # others, which a flag can choose; the ProcGen preset has both.
    if "learner" in data:
        return
    for learner in LEARNERS:
        if learner in data and learner != Preset.learner:
            raise UsageError(
                f"{file}: the table [{learner}] has no effect, because the learner is "
                f'{Preset.learner} by default: add `learner = "{learner}"` at the top, '
                "or remove the table"
            )
