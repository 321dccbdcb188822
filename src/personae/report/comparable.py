"""Which runs may stand beside each other, and what it takes if they differ."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from personae.errors import PersonaeError, UsageError
from personae.plain import differences
from personae.report.record import Record

METHOD_SETTINGS = (
    "masks",
    "ewc",
    "l2",
    "packnet",
    "online_ewc",
    "progress_compress",
    "clear",
)
"""Parts of a run's configuration that one method reads and another does not."""
INTERVAL = "evaluation.interval"
"""The setting that decides how often a run is evaluated."""


def check_whole(record: Record) -> None:
    """Refuse a run that is not finished, or of which something was lost since."""
    if not record.finished:
        raise PersonaeError(
            f"the run in {record.directory} is not finished: it is at visit "
            f"{len(record.training)} of {record.num_visits}; go on with it (--resume) "
            "before it is compared"
        )
    found, planned = len(record.evaluation_steps), record.planned_evaluations
    if found != planned:
        raise PersonaeError(
            f"the metrics of the run in {record.directory} are not whole: "
            f"{found} evaluations of {planned}"
        )


def check_comparable(one: Record, other: Record, despite: Sequence[str] = ()) -> None:
    """Refuse runs whose curricula or settings differ, but where `despite` names it.

    It names settings (`impala.num_envs`) or groups of them (`impala`). Runs of other
    tasks cannot be compared whatever it names.
    """
    same_tasks = one.tasks == other.tasks and one.num_visits == other.num_visits
    found = list(differing_settings(one, other))
    for where, ours, theirs in found:
        if same_tasks and is_accepted(where, despite):
            continue
        listed = " ".join(where for where, *_ in found)
        way = f"; --despite {listed} compares them nevertheless" * same_tasks
        raise UsageError(
            f"{one.directory} and {other.directory} cannot be compared: {where} is "
            f"{ours!r} in the one and {theirs!r} in the other{way}"
        )


def is_accepted(where: str, despite: Sequence[str]) -> bool:
    """Tell whether a setting may differ: it or a group that it is in is named."""
    return any(where == name or where.startswith(f"{name}.") for name in despite)


def differing_settings(one: Record, other: Record) -> Iterator[tuple[str, Any, Any]]:
    """Yield where the settings of two runs differ, leaving out what one has not."""
    ours, theirs = (dict(record.run["config"]["curriculum"]) for record in (one, other))
    for name in METHOD_SETTINGS:  # each run has those that its method reads
        if not (name in ours and name in theirs):
            ours.pop(name, None)
            theirs.pop(name, None)
    return differences(ours, theirs)


def remark_on_settings(records: Mapping[str, Record]) -> str | None:
    """Say in what settings runs that were compared differ, and who has which."""
    first, *others = records.values()
    said = []
    for place in sorted({d[0] for o in others for d in differing_settings(first, o)}):
        who: dict[str, list[str]] = {}
        for method, record in records.items():
            who.setdefault(_setting(record, place), []).append(method)
        values = [f"{value} ({', '.join(methods)})" for value, methods in who.items()]
        said.append(f"{place}: {', '.join(values)}")
    return f"Settings differ. {'; '.join(said)}." if said else None


def _setting(record: Record, place: str) -> str:
    found: Any = record.run["config"]["curriculum"]
    for name in place.split("."):
        found = found.get(name) if isinstance(found, Mapping) else None
    return "not set" if found is None else str(found)


def equally_often(records: Sequence[Record]) -> list[Record]:
    """Leave as many evaluations of each run as the rarest evaluated one has.

    Kept are those that each evaluation of the rarest would have found last.
    """
    rarest = min(records, key=lambda record: len(record.evaluation_steps))
    return [record.at_evaluations(_last_before(record, rarest)) for record in records]


def remark_on_evaluations(records: Mapping[str, Record]) -> str | None:
    """Say of which runs only some evaluations are used, and how many."""
    some = [m for m, r in records.items() if r.planned_evaluations > r.num_evaluations]
    if not some:
        return None
    used = records[some[0]].num_evaluations
    return (
        f"Of {', '.join(some)}, evaluated more often than the others, tables have "
        f"{used} evaluations only: the last ones before each of the others'."
    )


def _last_before(record: Record, rarest: Record) -> Int[np.ndarray, " kept"]:
    """Return which evaluations of a run are the last before those of another.

    Visits need not be equally long, as they are made of whole iterations: what counts
    is the share of the visit.
    """
    kept = []
    for visit in range(record.num_visits):
        (evaluations,) = np.nonzero(record.evaluation_visit == visit)
        shares, wanted = _shares(record, visit), _shares(rarest, visit)
        before = np.searchsorted(shares, wanted, side="right") - 1
        kept.append(evaluations[np.maximum(before, 0)])
    return np.unique(np.concatenate(kept))


def _shares(record: Record, visit: int) -> Float[np.ndarray, " evaluations"]:
    """Return how far into a visit its evaluations were made; the last one is at 1."""
    steps = record.evaluation_steps[record.evaluation_visit == visit]
    start = max(record.evaluation_steps[record.evaluation_visit < visit], default=0)
    return np.asarray((steps - start) / (steps[-1] - start))
