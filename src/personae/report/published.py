"""The paper's own numbers, shipped with their source to be put beside ours."""

import functools
import json
from collections.abc import Mapping
from importlib import resources
from typing import Any

from personae.metrics import Interval
from personae.report.record import Record

REFERENCE = "mask-lc"
"""The method that the paper tests the others against."""


@functools.cache
def published() -> Mapping[str, Any]:
    """Return all of the paper's tables."""
    text = resources.files("personae.report").joinpath("published.json").read_text()
    return dict(json.loads(text))


def published_tables(record: Record) -> Mapping[str, Any]:
    """Return the paper's tables for a run's curriculum, by method.

    Empty where the paper has none, and where a run made more or fewer steps per task.
    """
    protocol = published()["protocol"].get(record.short_name)
    if protocol is None or protocol["steps_per_task"] != record.steps_per_task:
        return {}
    return dict(published()["tables"][record.short_name])


def published_significance(record: Record) -> Mapping[str, Any]:
    """Return the paper's tests of Mask LC against each method."""
    if not published_tables(record):
        return {}
    return dict(published()["significance_vs_mask_lc"][record.short_name])


def published_interval(value: Mapping[str, float] | None) -> Interval | None:
    """Return a published mean with its interval."""
    return None if value is None else Interval(value["mean"], value["ci95"])
