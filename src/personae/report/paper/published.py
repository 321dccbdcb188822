"""The paper's own numbers, shipped with their source, to stand beside ours."""

import functools
import hashlib
import json
from collections.abc import Mapping
from importlib import resources

from personae.metrics import Interval
from personae.report.data.collection import REFERENCE
from personae.report.data.record import Record
from personae.serialise import PlainData

SHARED_SETTINGS = (
    "id",
    "tasks",
    "steps_per_task",
    "cycles",
    "inputs",
    "network",
    "ppo",
    "evaluation",
)
"""The parts of a curriculum that decide the numbers of every method."""


@functools.cache
def published() -> PlainData:
    """Return all of the paper's tables."""
    return _read_shipped("published.json")


@functools.cache
def anchors() -> PlainData:
    """Return the returns of random and constant actions, by environment.

    `benchmarks/anchors.py` measured them.
    """
    return _read_shipped("anchors.json")


def _read_shipped(name: str) -> PlainData:
    text = resources.files("personae.report.paper").joinpath(name).read_text("utf-8")
    return dict(json.loads(text))


def digest(settings: object) -> str:
    """Return a hash of plain settings."""
    return hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()


def as_published(record: Record) -> bool:
    """Tell whether a run has the settings that the paper's tables belong to."""
    curriculum = record.run["config"]["curriculum"]
    presets = published()["protocol"].get(record.short_name, {}).get("presets", {})
    # Settings are compared by their hash: the table of presets stays small, and a
    # preset that changes makes a test fail instead of passing for the paper's.
    shared = {n: curriculum[n] for n in SHARED_SETTINGS if n in curriculum}
    if presets.get("shared") != digest(shared):
        return False
    return all(
        presets[name] == digest(curriculum[name])
        for name in ("masks", "ewc")
        if name in curriculum
    )


def published_numbers(record: Record) -> PlainData:
    """Return the paper's numbers for a run's curriculum and method, if it has any."""
    if not as_published(record):
        return {}
    return dict(published()["tables"][record.short_name].get(record.method, {}))


def published_test(record: Record, reference: Record, measure: str) -> PlainData:
    """Return the paper's test of Mask LC against a run's method, if there is one."""
    comparable = as_published(record) and as_published(reference)
    if reference.method != REFERENCE or not comparable:
        return {}
    tests = published()["significance_vs_mask_lc"][record.short_name]
    return dict(tests.get(record.method, {}).get(measure, {}))


def published_interval(value: Mapping[str, float] | None) -> Interval | None:
    """Return a published mean with its interval."""
    return None if value is None else Interval(value["mean"], value["ci95"])
