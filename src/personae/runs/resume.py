"""How a run goes on: what must be the same, and what may differ if it is said."""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from personae.errors import PersonaeError, UsageError
from personae.runs.directory import RunDirectory
from personae.serialise import first_difference


def check_same_config(directory: RunDirectory, asked: Mapping[str, Any]) -> None:
    """Refuse to resume a run with another configuration; name the first difference."""
    stored = directory.read_run()["config"]
    difference = first_difference(stored, asked, "config")
    if difference is not None:
        where, old, new = difference
        raise UsageError(
            f"cannot go on with the run in {directory.root}: {where} was {old!r} when "
            f"it began, now it is {new!r}"
        )


def check_nothing_is_lost(directory: RunDirectory) -> None:
    """Refuse to start over where results lie whose checkpoints are gone.

    A run that was killed before its first checkpoint has one evaluation at most.
    """
    kinds = [record["kind"] for record in directory.read_metrics()]
    if kinds.count("evaluation") > 1 or any(directory.masks.glob("*.safetensors")):
        raise PersonaeError(
            f"{directory.root} holds results but no checkpoint to go on from; "
            "--overwrite starts anew and loses them"
        )


def check_same_backbones(
    expected: Sequence[str], found: Sequence[str], where: Path
) -> None:
    """Refuse masks that were learned on other backbones than the run's."""
    for agent, (ours, theirs) in enumerate(zip(expected, found, strict=True)):
        if ours != theirs:
            raise PersonaeError(
                f"the masks in {where} were learned on another backbone: agent {agent} "
                f"has the fingerprint {theirs[:12]}, in run.json it is {ours[:12]}"
            )


def warn_of_changes(before: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    """Warn that a run goes on where it will round differently than before."""
    changes = [
        f"{name} {before[part].get(name)} -> {value}"
        for part in ("device", "versions")
        for name, value in now[part].items()
        if before[part].get(name) != value
    ]
    if changes:
        print(
            f"going on in other surroundings ({', '.join(changes)}): from here on the "
            "numbers may differ from an uninterrupted run's",
            file=sys.stderr,
        )
