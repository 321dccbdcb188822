"""The paper's own numbers, shipped with their source to be put beside ours."""

import functools
import hashlib
import json
from collections.abc import Mapping
from importlib import resources
from typing import Any

from personae.metrics import Interval
from personae.report.data.record import Record

REFERENCE = "mask-lc"
"""The method that the paper tests the others against."""
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
"""What of a curriculum decides the numbers of every method."""


@functools.cache
def published() -> Mapping[str, Any]:
    """Return all of the paper's tables."""
    text = (
        resources.files("personae.report.paper").joinpath("published.json").read_text()
    )
    return dict(json.loads(text))


@functools.cache
def anchors() -> Mapping[str, Any]:
    """Return what environments bring to who has learned nothing, by their names.

    Measured by `benchmarks/anchors.py`.
    """
    text = resources.files("personae.report.paper").joinpath("anchors.json").read_text()
    return dict(json.loads(text))


def digest(settings: Any) -> str:
    """Return what identifies plain settings."""
    return hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()


def as_published(record: Record) -> bool:
    """Tell whether a run has the settings that the paper's tables belong to."""
    curriculum = record.run["config"]["curriculum"]
    presets = published()["protocol"].get(record.short_name, {}).get("presets", {})
    shared = {n: curriculum[n] for n in SHARED_SETTINGS if n in curriculum}
    if presets.get("shared") != digest(shared):
        return False
    return all(
        presets[name] == digest(curriculum[name])
        for name in ("masks", "ewc")
        if name in curriculum
    )


def published_numbers(record: Record) -> Mapping[str, Any]:
    """Return the paper's numbers for a run's curriculum and method, if it has any."""
    if not as_published(record):
        return {}
    return dict(published()["tables"][record.short_name].get(record.method, {}))


def published_test(
    record: Record, reference: Record, measure: str
) -> Mapping[str, Any]:
    """Return the paper's test of Mask LC against a run's method, if there is one."""
    comparable = as_published(record) and as_published(reference)
    if reference.method != REFERENCE or not comparable:
        return {}
    tests = published()["significance_vs_mask_lc"][record.short_name]
    return dict(tests.get(record.method, {}).get(measure, {}))


def published_interval(value: Mapping[str, float] | None) -> Interval | None:
    """Return a published mean with its interval."""
    return None if value is None else Interval(value["mean"], value["ci95"])
