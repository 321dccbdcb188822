"""Which runs may stand beside each other, and what is to be said if they differ."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from personae.errors import PersonaeError, UsageError, nearest_match_error
from personae.report.data.record import Record

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
DECISIVE = ("id", "tasks", "cycles", "steps_per_task", "evaluation.measure")
"""Settings without which numbers are of different things, whatever one accepts."""
LONGEST = 60
"""Letters of a value that are shown."""

Differences = dict[str, list[tuple[Record, Any]]]
"""Where settings differ, and what each run that reads the setting has there."""


def check_whole(record: Record) -> None:
    """Refuse a run that is not finished, or of which something was lost since."""
    if not record.finished:
        raise PersonaeError(
            f"the run in {record.directory} is not finished: it is at visit "
            f"{len(record.training)} of {record.num_visits}; go on with it (--resume) "
            "before it is compared"
        )
    found, made = record.num_evaluations, record.made_evaluations
    visits = set(record.evaluation_visit.tolist())
    if found != made or visits != set(range(record.num_visits)):
        raise PersonaeError(
            f"the metrics of the run in {record.directory} are not whole: "
            f"{found} evaluations of {made}, in {len(visits)} visits"
        )


def check_comparable(records: Sequence[Record], despite: Sequence[str] = ()) -> None:
    """Refuse runs whose settings differ, but where `despite` names it.

    It names settings (`impala.num_envs`) or groups of them (`impala`).
    """
    for name in despite:
        if not any(_has_setting(record, name) for record in records):
            known = {n for r in records for n in r.run["config"]["curriculum"]}
            raise nearest_match_error("setting", name, known | set(METHOD_SETTINGS))
    found = differing_settings(records)
    decisive = [place for place in found if _is_in(place, DECISIVE)]
    refused = decisive or [place for place in found if not _is_in(place, despite)]
    if not refused:
        return
    values = found[refused[0]]
    one, ours = values[0]
    other, theirs = next((r, value) for r, value in values if not _equal(value, ours))
    listed = ",".join(found)
    way_out = f"; add --despite {listed} to `personae report` to do so nevertheless"
    raise UsageError(
        f"{one.directory} and {other.directory} cannot be compared: {refused[0]} is "
        f"{_short(ours)} in the one and {_short(theirs)} in the other"
        + ("" if decisive else way_out)
    )


def _has_setting(record: Record, place: str) -> bool:
    """Tell whether a run has a setting or a group, or could have it."""
    found: Any = record.run["config"]["curriculum"]
    if place in METHOD_SETTINGS:
        return True
    for name in place.split("."):
        if not isinstance(found, Mapping) or name not in found:
            return False
        found = found[name]
    return True


def _is_in(place: str, groups: Sequence[str]) -> bool:
    """Tell whether a setting, or a group that it is in, is named."""
    return any(place == group or place.startswith(f"{group}.") for group in groups)


def differing_settings(records: Sequence[Record]) -> Differences:
    """Return where settings differ among runs that read them."""
    return dict(_differing([(r, r.run["config"]["curriculum"]) for r in records]))


def _differing(
    values: list[tuple[Record, Any]], place: str = ""
) -> Iterator[tuple[str, list[tuple[Record, Any]]]]:
    parts = [_parts(value) for _, value in values]
    known = [part for part in parts if part is not None]
    if len(known) < len(parts):
        if not _same(values):
            yield place, values
        return
    for name in sorted({name for part in known for name in part}):
        inside = [(r, p.get(name)) for (r, _), p in zip(values, known, strict=True)]
        where = f"{place}.{name}" if place else name
        if where in METHOD_SETTINGS:
            inside = [(record, value) for record, value in inside if value is not None]
        yield from _differing(inside, where)


def _parts(value: Any) -> Mapping[str, Any] | None:
    """Return the named or numbered parts of a value that has some."""
    if isinstance(value, Mapping):
        return value
    if isinstance(value, list) and any(isinstance(each, Mapping) for each in value):
        return {str(number): each for number, each in enumerate(value)}
    return None


def check_same_visits(records: Sequence[Record]) -> None:
    """Refuse runs in which tasks ended at different times: sums would mean nothing."""
    ends = {tuple(record.visit_ends.tolist()) for record in records}
    if len(ends) > 1 and any(record.ended_early for record in records):
        steps = [(record, record.evaluation_steps[-1].item()) for record in records]
        raise PersonaeError(
            "tasks ended early (stop_at) at different times, so that sums over "
            f"evaluations cannot be compared; steps in all: {by_method(steps)}"
        )


def remarks_on_settings(records: Sequence[Record]) -> list[str]:
    """Say in what settings runs differ, and what that does to their curves."""
    found = differing_settings(records).items()
    settings = [f"{place}: {by_method(values)}" for place, values in found]
    paces = [(record, record.steps_per_iteration) for record in records]
    said = []
    if settings:
        said.append(f"Settings differ. {'; '.join(settings)}.")
    if not _same(paces):
        said.append(
            f"Training curves have a point every so many steps: {by_method(paces)}. "
            "Fine curves are noisier, and noise reaches a target early."
        )
    return said


def by_method(values: Iterable[tuple[Record, Any]]) -> str:
    """Say which methods have which value."""
    groups: list[tuple[Any, list[str]]] = []
    for record, value in values:
        known = [methods for other, methods in groups if _equal(value, other)]
        if known:
            known[0].append(record.method)
        else:
            groups.append((value, [record.method]))
    return ", ".join(f"{_short(value)} ({', '.join(who)})" for value, who in groups)


def _same(values: Sequence[tuple[Record, Any]]) -> bool:
    return all(_equal(value, values[0][1]) for _, value in values)


def _equal(one: Any, other: Any) -> bool:
    """Tell whether two values are the same; what is not a number equals itself."""
    return bool(one == other) or repr(one) == repr(other)


def _short(value: Any) -> str:
    text = "not set" if value is None else repr(value)
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}..."
