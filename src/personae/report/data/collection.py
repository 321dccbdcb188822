"""The runs of a report, read from directories, with the problems of reading them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from personae.errors import PersonaeError, UsageError
from personae.report.data.comparable import check_comparable, check_whole
from personae.report.data.comparison import Comparison, compare_records
from personae.report.data.record import Record, read_record
from personae.runs.learned_masks import LearnedMasks, read_learned_masks

MASK_METHODS = ("mask-ri", "mask-lc", "mask-blc")
"""The paper's methods with masks, in its order."""
REFERENCE = "mask-lc"
"""The method that the paper tests the others against."""


@dataclass(frozen=True)
class Collection:
    """Runs of one curriculum, finished or not."""

    records: list[Record]
    """One per method, without experts."""
    experts: Record | None
    comparison: Comparison | None
    """The finished ones side by side, if there is one or more."""
    masks: Mapping[str, LearnedMasks] = field(default_factory=dict)
    """The masks on disk of methods that learn masks."""
    problems: list[str] = field(default_factory=list)
    """The runs and masks left out, with the reasons."""

    @property
    def all_records(self) -> list[Record]:
        """All runs, experts included."""
        return self.records + ([self.experts] if self.experts is not None else [])


def find_runs(directories: Sequence[Path]) -> list[Path]:
    """Return the run directories among these and right below them."""
    runs = []
    for directory in directories:
        if not directory.is_dir():
            raise UsageError(f"there is no directory {directory}")
        if (directory / "run.json").exists():
            runs.append(directory)
            continue
        inner = sorted(path.parent for path in directory.glob("*/run.json"))
        if not inner:
            raise UsageError(f"{directory} holds no run: there is no run.json in it")
        runs += inner
    # A shell's pattern may name a directory and its parent.
    return list(dict.fromkeys(runs))


def collect(
    directories: Sequence[Path],
    reference: str | None = None,
    despite: Sequence[str] = (),
) -> Collection:
    """Read all runs and compare the finished ones.

    Args:
        directories: Run directories, or directories that hold some.
        reference: The method that the others are tested against.
        despite: Settings, or groups of settings, that may differ.

    Returns:
        The runs; those that cannot be read or compared are among its problems.
    """
    records, problems = _read_records(find_runs(directories))
    check_comparable([*records.values()], despite)
    # Experts are the base of forward transfer and no method of their own.
    experts = records.pop("expert", None)
    records = dict(sorted(records.items(), key=lambda item: _rank(item[0])))
    if not records:
        raise PersonaeError("; ".join(["there is no method to report on", *problems]))
    whole = []
    for record in [*records.values(), *([experts] if experts is not None else [])]:
        try:
            check_whole(record)
            whole.append(record)
        except PersonaeError as error:
            problems.append(f"{record.method} is left out of comparisons: {error}")
    # Unfinished runs are still drawn: they stay among the records.
    comparison = _compare(whole, reference, despite, problems)
    return with_masks(list(records.values()), experts, comparison, problems)


def _read_records(directories: Sequence[Path]) -> tuple[dict[str, Record], list[str]]:
    """Return the readable runs by method, and the problems of the others."""
    records: dict[str, Record] = {}
    problems = []
    for directory in directories:
        # One damaged run must not cost the report of all others.
        try:
            record = read_record(directory)
        except PersonaeError as error:
            problems.append(f"{directory} is left out: {error}")
            continue
        if record.method in records:
            other = records[record.method].directory
            raise UsageError(f"two runs of {record.method}: {other} and {directory}")
        records[record.method] = record
    return records, problems


def with_masks(
    records: list[Record],
    experts: Record | None,
    comparison: Comparison | None,
    problems: list[str],
) -> Collection:
    """Return a collection with the masks of all runs.

    Masks that cannot be read are among its problems.
    """
    masks = {}
    for record in records:
        try:
            learned = read_learned_masks(record.directory)
        except PersonaeError as error:
            problems.append(f"no masks of {record.method}: {error}")
            continue
        if learned is not None:
            masks[record.method] = learned
    return Collection(records, experts, comparison, masks, problems)


def _rank(method: str) -> tuple[int, str]:
    """Put masks first, in the paper's order, then the other methods by name."""
    is_mask = method in MASK_METHODS
    return MASK_METHODS.index(method) if is_mask else len(MASK_METHODS), method


def _compare(
    whole: list[Record],
    reference: str | None,
    despite: Sequence[str],
    problems: list[str],
) -> Comparison | None:
    methods = [record.method for record in whole if record.method != "expert"]
    if not methods:
        return None
    default = REFERENCE if REFERENCE in methods else methods[0]
    if reference in methods:
        default = reference
    elif reference is not None:
        problems.append(
            f"{reference} is not among the whole runs: {default} is the reference"
        )
    return compare_records(whole, default, despite)
