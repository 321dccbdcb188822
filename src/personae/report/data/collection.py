"""The runs to report on, found in directories; what cannot be used is named."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from personae.errors import PersonaeError, UsageError
from personae.report.data.comparable import (
    check_comparable,
    check_whole,
    remarks_on_settings,
)
from personae.report.data.comparison import Comparison, compare_records
from personae.report.data.record import Record, read_record
from personae.report.paper.claims import Runs, claims_table
from personae.report.paper.published import REFERENCE
from personae.report.render.table import Table
from personae.report.render.tables import comparison_tables, remarks, task_table
from personae.runs.learned_masks import LearnedMasks, read_learned_masks


@dataclass(frozen=True)
class Collection:
    """Runs of one curriculum, finished or not."""

    records: list[Record]
    """One per method, without experts."""
    experts: Record | None
    comparison: Comparison | None
    """The finished ones side by side, if there is one or more."""
    masks: Mapping[str, LearnedMasks] = field(default_factory=dict)
    """What methods that learn masks left on disk."""
    problems: list[str] = field(default_factory=list)
    """What was found but left out, and why."""

    @property
    def everything(self) -> list[Record]:
        """All runs, experts included."""
        return self.records + ([self.experts] if self.experts is not None else [])

    @property
    def tables(self) -> list[Table]:
        """The paper's claims and the comparison, or each run if none is finished."""
        if self.comparison is None:
            return [task_table(record) for record in self.records]
        claims = claims_table(Runs(self.comparison, self.masks))
        return [*([claims] if claims.rows else []), *comparison_tables(self.comparison)]

    @property
    def remarks(self) -> list[str]:
        """What is missing, in what runs differ, and what that means."""
        said = [] if self.comparison is None else remarks(self.comparison)
        return [*self.problems, *remarks_on_settings(self.everything), *said]


def find_runs(directories: Sequence[Path]) -> list[Path]:
    """Return the run directories among these and right below them."""
    found = []
    for directory in directories:
        if not directory.is_dir():
            raise UsageError(f"there is no directory {directory}")
        if (directory / "run.json").exists():
            found.append(directory)
            continue
        below = sorted(path.parent for path in directory.glob("*/run.json"))
        if not below:
            raise UsageError(f"{directory} holds no run: there is no run.json in it")
        found += below
    return list(dict.fromkeys(found))


def collect(
    directories: Sequence[Path],
    reference: str | None = None,
    despite: Sequence[str] = (),
) -> Collection:
    """Read all runs; say which cannot be read, and which are not finished.

    Settings may differ where `despite` names them.
    """
    records: dict[str, Record] = {}
    problems = []
    for directory in find_runs(directories):
        try:
            record = read_record(directory)
        except PersonaeError as error:
            problems.append(f"{directory} is left out: {error}")
            continue
        if record.method in records:
            other = records[record.method].directory
            raise UsageError(f"two runs of {record.method}: {other} and {directory}")
        records[record.method] = record
    check_comparable([*records.values()], despite)
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
            problems.append(f"{record.method} is compared with nothing: {error}")
    compared = _compare(whole, reference, despite, problems)
    return with_masks(list(records.values()), experts, compared, problems)


def with_masks(
    records: list[Record],
    experts: Record | None,
    comparison: Comparison | None,
    problems: list[str],
) -> Collection:
    """Read the masks of all runs; say which cannot be read."""
    masks = {}
    for record in records:
        try:
            kept = read_learned_masks(record.directory)
        except PersonaeError as error:
            problems.append(f"no masks of {record.method}: {error}")
            continue
        if kept is not None:
            masks[record.method] = kept
    return Collection(records, experts, comparison, masks, problems)


def _rank(method: str) -> tuple[int, str]:
    """Put masks first, in the paper's order, then the other methods by name."""
    masks = ("mask-ri", "mask-lc", "mask-blc")
    return masks.index(method) if method in masks else len(masks), method


def _compare(
    whole: list[Record],
    reference: str | None,
    despite: Sequence[str],
    problems: list[str],
) -> Comparison | None:
    methods = [record.method for record in whole if record.method != "expert"]
    if not methods:
        return None
    chosen = REFERENCE if REFERENCE in methods else methods[0]
    if reference in methods:
        chosen = reference
    elif reference is not None:
        problems.append(f"{reference} is not among the whole runs: {chosen} is tested")
    return compare_records(whole, chosen, despite)
