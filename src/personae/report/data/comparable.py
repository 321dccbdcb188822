"""The conditions under which runs may be compared, and remarks on their differences."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

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
"""Settings that may never differ: numbers of different things would be compared."""
MAX_VALUE_LENGTH = 60
"""Letters of a value in a message."""

T = TypeVar("T")
Values = list[tuple[Record, T]]
"""A value for each run."""


def check_whole(record: Record) -> None:
    """Raise an error unless a run is finished and has all of its metrics."""
    schedule = record.schedule
    if not record.finished:
        raise PersonaeError(
            f"the run in {record.directory} is not finished: it is at visit "
            f"{schedule.visits_begun} of {schedule.num_visits}; go on with it "
            "(--resume) before it is compared"
        )
    # Lines at the end of the metrics may be missing although run.json is complete, as
    # after a copy that was cut off: the count in run.json tells.
    present = schedule.num_evaluations
    expected = record.description.made_evaluations
    visits = set(record.evaluation_visit.tolist())
    if present != expected or visits != set(range(schedule.num_visits)):
        raise PersonaeError(
            f"the metrics of the run in {record.directory} are not whole: "
            f"{present} evaluations of {expected}, in {len(visits)} visits"
        )


def check_comparable(records: Sequence[Record], despite: Sequence[str] = ()) -> None:
    """Raise an error if settings differ that `despite` does not name.

    Args:
        records: The runs to compare.
        despite: Settings (`impala.num_envs`) or groups of settings (`impala`) that may
            differ.
    """
    for name in despite:
        if not any(_has_setting(record, name) for record in records):
            groups = {n for r in records for n in r.run["config"]["curriculum"]}
            raise nearest_match_error("setting", name, groups | set(METHOD_SETTINGS))
    differences = differing_settings(records)
    decisive = [name for name in differences if _is_in(name, DECISIVE)]
    refused = decisive or [name for name in differences if not _is_in(name, despite)]
    if not refused:
        return
    values = differences[refused[0]]
    record, value = values[0]
    other, other_value = next((r, v) for r, v in values if not _equal(v, value))
    # All differences at once: one more run of the command is then enough.
    listed = ",".join(differences)
    hint = f"; add --despite {listed} to `personae report` to compare them nevertheless"
    raise UsageError(
        f"{record.directory} and {other.directory} cannot be compared: {refused[0]} is "
        f"{_short(value)} in the one and {_short(other_value)} in the other"
        + ("" if decisive else hint)
    )


def _has_setting(record: Record, path: str) -> bool:
    """Tell whether a run has a setting or a group, or could have it."""
    # A run of another method leaves out the settings of a method, which are valid names
    # all the same.
    if path in METHOD_SETTINGS:
        return True
    value: object = record.run["config"]["curriculum"]
    for name in path.split("."):
        if not isinstance(value, Mapping) or name not in value:
            return False
        value = value[name]
    return True


def _is_in(path: str, groups: Sequence[str]) -> bool:
    """Tell whether a setting, or a group around it, is among these."""
    return any(path == group or path.startswith(f"{group}.") for group in groups)


def differing_settings(records: Sequence[Record]) -> dict[str, Values[object]]:
    """Return the settings that differ among the runs that read them.

    Returns:
        For the path of each such setting, such as `ppo.epochs`, the value of each run.
    """
    return dict(_differing([(r, r.run["config"]["curriculum"]) for r in records]))


def _differing(
    values: Values[object], path: str = ""
) -> Iterator[tuple[str, Values[object]]]:
    parts = [_parts(value) for _, value in values]
    tables = [part for part in parts if part is not None]
    if len(tables) < len(parts):
        if not _same(values):
            yield path, values
        return
    for name in sorted({name for table in tables for name in table}):
        inner: Values[object] = [
            (r, t.get(name)) for (r, _), t in zip(values, tables, strict=True)
        ]
        inner_path = f"{path}.{name}" if path else name
        # Other methods leave out the group of a method that they do not read; that is
        # no difference.
        if inner_path in METHOD_SETTINGS:
            inner = [(record, value) for record, value in inner if value is not None]
        yield from _differing(inner, inner_path)


def _parts(value: object) -> Mapping[str, object] | None:
    """Return the named or numbered parts of a value that has some."""
    if isinstance(value, Mapping):
        return value
    if isinstance(value, list) and any(isinstance(part, Mapping) for part in value):
        return {str(number): part for number, part in enumerate(value)}
    return None


def check_same_visits(records: Sequence[Record]) -> None:
    """Raise an error if tasks ended early at different times.

    Sums over evaluations would then have different terms.
    """
    ends = {tuple(record.schedule.visit_ends.tolist()) for record in records}
    if len(ends) > 1 and any(record.schedule.ended_early for record in records):
        steps = [(record, record.evaluation_steps[-1].item()) for record in records]
        raise PersonaeError(
            "tasks ended early (stop_at) at different times, so that sums over "
            f"evaluations cannot be compared; steps in all: {by_method(steps)}"
        )


def remarks_on_settings(records: Sequence[Record]) -> list[str]:
    """Return remarks on the settings that differ and the effect on curves."""
    differences = differing_settings(records).items()
    settings = [f"{path}: {by_method(values)}" for path, values in differences]
    spacing = [(record, record.description.steps_per_iteration) for record in records]
    remarks = []
    if settings:
        remarks.append(f"Settings differ. {'; '.join(settings)}.")
    if not _same(spacing):
        remarks.append(
            "Steps between two points of a training curve differ: "
            f"{by_method(spacing)}. Curves with more points are noisier, and noise "
            "reaches a target early."
        )
    return remarks


def by_method(values: Iterable[tuple[Record, T]]) -> str:
    """Return a text with each value and the methods that have it."""
    # Values may be lists, which no dictionary takes as keys.
    groups: list[tuple[T, list[str]]] = []
    for record, value in values:
        equal = [methods for other, methods in groups if _equal(value, other)]
        if equal:
            equal[0].append(record.method)
        else:
            groups.append((value, [record.method]))
    return ", ".join(
        f"{_short(value)} ({', '.join(methods)})" for value, methods in groups
    )


def _same(values: Values[T]) -> bool:
    return all(_equal(value, values[0][1]) for _, value in values)


def _equal(one: object, other: object) -> bool:
    """Tell whether two values are the same; not-a-number equals itself."""
    return bool(one == other) or repr(one) == repr(other)


def _short(value: object) -> str:
    text = "not set" if value is None else repr(value)
    if len(text) <= MAX_VALUE_LENGTH:
        return text
    return f"{text[:MAX_VALUE_LENGTH]}..."
