"""A whole report on disk: the page, the figures, the tables."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from matplotlib.figure import Figure

from personae.analysis import KeptMasks, read_masks
from personae.errors import UsageError
from personae.report import figures
from personae.report.collection import Collection
from personae.report.tables import comparison_tables, remarks, task_table
from personae.rundir import write_atomically

PAGE = "report.html"


def make_page(collection: Collection, version: str = "") -> str:
    """Return the interactive page; its version tells a served page when to reload."""
    try:
        from personae.report.page import page
    except ImportError as error:
        raise UsageError(
            "the report's page needs plotly: pip install 'personae[report]'"
        ) from error
    return page(collection, _kept(collection), version)


def write_report(collection: Collection, out: Path) -> Path:
    """Write the page, figures as PNG and PDF, tables as Markdown, LaTeX and CSV."""
    path = out / PAGE
    write_atomically(path, make_page(collection).encode())
    for name, figure in _figures(collection, _kept(collection)):
        for suffix in ("png", "pdf"):
            figures.save_figure(figure, out / "figures" / f"{name}.{suffix}")
    write_tables(collection, out)
    return path


def _kept(collection: Collection) -> dict[str, KeptMasks]:
    read = {r.method: read_masks(r.directory) for r in collection.records}
    return {method: masks for method, masks in read.items() if masks is not None}


def _figures(
    collection: Collection, kept: Mapping[str, KeptMasks]
) -> Iterator[tuple[str, Figure]]:
    records, comparison = collection.records, collection.comparison
    yield "lifelong", figures.lifelong_curves(records)
    yield "training", figures.training_curves(records)
    yield "evaluation", figures.evaluation_maps(records)
    yield "steps-to-75", figures.steps_bars(records)
    if comparison is not None and comparison.experts is not None:
        yield "forward-transfer", figures.transfer_bars(comparison)
    for method, masks in kept.items():
        if masks.coefficients:
            yield f"coefficients-{method}", figures.coefficient_maps(masks)
        yield f"similarity-{method}", figures.similarity_maps(masks)
    for visit in range(max(len(record.previews) for record in records)):
        yield f"reuse-{visit + 1}", figures.reuse_bars(records, visit)


def write_tables(collection: Collection, out: Path) -> None:
    """Write every table in every form, and all of them as one page of Markdown."""
    comparison = collection.comparison
    said = list(collection.problems)
    if comparison is None:
        tables = [task_table(record) for record in collection.records]
    else:
        tables = comparison_tables(comparison)
        said += remarks(comparison)
    for table in tables:
        name = re.sub(r"[^a-z0-9]+", "-", table.title.lower()).strip("-")
        forms = {"md": table.to_markdown, "tex": table.to_latex, "csv": table.to_csv}
        for suffix, form in forms.items():
            write_atomically(out / "tables" / f"{name}.{suffix}", form().encode())
    text = "\n".join([table.to_markdown() for table in tables])
    write_atomically(out / "comparison.md", "\n".join([text, *said]).encode())
