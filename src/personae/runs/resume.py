"""Checks before a run is resumed: what must be the same, and what may differ."""

import sys
from collections.abc import Sequence
from pathlib import Path

from personae.errors import PersonaeError, UsageError
from personae.runs.directory import RunDirectory
from personae.serialise import PlainData, first_difference


def check_same_config(directory: RunDirectory, config: PlainData) -> None:
    """Raise an error unless a directory's run can go on with this configuration."""
    run = directory.read_run()
    difference = first_difference(run["config"], config, "config")
    if difference is not None:
        field, old, new = difference
        raise UsageError(
            f"cannot resume the run in {directory.root}: {field} was {old!r} when it "
            f"began, now it is {new!r}"
        )
    if run["status"] != "finished":
        directory.check_current_schema()


def check_nothing_is_lost(directory: RunDirectory) -> None:
    """Refuse to start over where there are results but no checkpoints.

    A run that was killed before its first checkpoint has one evaluation at most.
    """
    # One evaluation: metrics are appended just before the checkpoint is written.
    kinds = [record["kind"] for record in directory.read_metrics()]
    if kinds.count("evaluation") > 1 or any(directory.masks.glob("*.safetensors")):
        raise PersonaeError(
            f"{directory.root} holds results but no checkpoint to resume from; "
            "--overwrite starts anew and loses them"
        )


def check_same_backbones(
    expected: Sequence[str], fingerprints: Sequence[str], path: Path
) -> None:
    """Refuse masks that were learned on other backbones than the run's.

    Args:
        expected: The fingerprints in run.json, one per agent.
        fingerprints: Those of the backbones in the checkpoint.
        path: The checkpoint, for the error message.
    """
    for agent, (own, other) in enumerate(zip(expected, fingerprints, strict=True)):
        if own != other:
            raise PersonaeError(
                f"the masks in {path} were learned on another backbone: agent {agent} "
                f"has the fingerprint {other[:12]}, in run.json it is {own[:12]}"
            )


def warn_of_changes(before: PlainData, current: PlainData) -> None:
    """Warn if a run is resumed where it may round differently than before.

    Args:
        before: The provenance of the run's last stretch.
        current: The provenance of this process.
    """
    changes = [
        f"{name} {before[part].get(name)} -> {value}"
        for part in ("device", "versions")
        for name, value in current[part].items()
        if before[part].get(name) != value
    ]
    # A warning only: the numbers are as valid as before, just not bit-identical.
    if changes:
        print(
            f"the machine or the software has changed ({', '.join(changes)}): from "
            "here on the numbers may differ from an uninterrupted run's",
            file=sys.stderr,
        )
