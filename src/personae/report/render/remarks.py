"""Remarks below the tables: missing numbers and limits of a comparison."""

import numpy as np

from personae.report.data.collection import Collection
from personae.report.data.comparable import by_method, remarks_on_settings
from personae.report.data.comparison import Comparison
from personae.report.data.unseen import has_unseen
from personae.report.paper.published import as_published, published
from personae.report.render.cora_tables import published_rows


def collection_remarks(collection: Collection) -> list[str]:
    """Return the problems of a collection and the limits of its comparison."""
    comparison = collection.comparison
    on_comparison = [] if comparison is None else remarks(comparison)
    on_settings = remarks_on_settings(collection.all_records)
    return [*collection.problems, *on_settings, *on_comparison]


def remarks(comparison: Comparison) -> list[str]:
    """Return the numbers that are missing or cannot be compared, with reasons."""
    candidates = (
        _remark_on_evaluations(comparison),
        _remark_on_experts(comparison),
        _remark_on_transfer(comparison),
        _remark_on_seeds(comparison),
        _remark_on_the_paper(comparison),
    )
    return [remark for remark in candidates if remark is not None]


def _remark_on_evaluations(comparison: Comparison) -> str | None:
    if comparison.life_measure == "total_evaluation":
        return None
    records = comparison.records.values()
    counts = by_method((record, record.schedule.num_evaluations) for record in records)
    # CORA smooths over a fixed number of evaluations, whatever their distance.
    cora = ", and CORA's numbers depend on the evaluations per visit"
    return (
        f"Numbers of evaluations differ: {counts}. A total is the sum of all of them; "
        "only shares of the ideal and means can be compared"
        f"{cora * has_unseen(comparison)}."
    )


def _remark_on_experts(comparison: Comparison) -> str | None:
    if comparison.experts is None:
        return "Forward transfer is left out: there is no run of the method 'expert'."
    if len(comparison.experts.seeds) == 1:
        return "Forward transfer is measured against experts of one seed only."
    return None


def _remark_on_transfer(comparison: Comparison) -> str | None:
    if comparison.experts is None:
        return None
    # The experts alone decide on which tasks transfer is undefined: one method tells.
    transfer = comparison.transfer(comparison.reference)
    tasks = comparison.first_record.tasks
    lacking = [t for t, v in zip(tasks, transfer.T, strict=True) if np.isnan(v).any()]
    if not lacking:
        return None
    return (
        f"Forward transfer on {', '.join(lacking)} is left out: experts have the best "
        "possible area already, or returns exceed the task's target."
    )


def _remark_on_seeds(comparison: Comparison) -> str | None:
    single = [m for m, r in comparison.records.items() if len(r.seeds) == 1]
    if not single:
        return None
    if comparison.reference in single:
        return f"No tests: {comparison.reference}, the reference, has one seed only."
    return f"No intervals and no tests for {', '.join(single)}: one seed only."


def _remark_on_the_paper(comparison: Comparison) -> str | None:
    name = comparison.first_record.short_name
    if name not in published()["tables"]:
        return f"No published numbers: the paper has none for {name}."
    other = {m: r for m, r in comparison.records.items() if not as_published(r)}
    # For ProcGen there is no preset to compare settings with: its published totals
    # stand beside every run.
    shown = [
        m for m, r in other.items() if has_unseen(comparison) and published_rows(r)
    ]
    lacking = [method for method in other if method not in shown]
    sentences = []
    if shown:
        sentences.append(
            f"Published numbers beside {', '.join(shown)} are of other settings."
        )
    if lacking:
        sentences.append(
            f"No published numbers beside {', '.join(lacking)}: their settings are not "
            "those that the paper's tables belong to."
        )
    return " ".join(sentences) or None
