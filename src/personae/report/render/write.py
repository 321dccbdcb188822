"""A whole report on disk: the page, the figures, the tables."""

import re
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path

import matplotlib
from matplotlib.figure import Figure

from personae.errors import UsageError
from personae.files import write_atomically
from personae.report.data.collection import Collection
from personae.report.render import figures

PAGE = "report.html"
PLOTLY = "the report's page needs plotly: pip install 'personae[report]'"


def has_plotly() -> bool:
    """Tell whether the page can be made; figures and tables always can."""
    return find_spec("plotly") is not None


def make_page(collections: Sequence[Collection], version: str = "") -> str:
    """Return the interactive page; its version tells a served page when to reload."""
    if not has_plotly():
        raise UsageError(PLOTLY)
    from personae.report.render.page import page

    return page(collections, version)


def write_report(collection: Collection, out: Path) -> Path | None:
    """Write figures as PNG and PDF, tables as Markdown, LaTeX and CSV, and the page.

    Return where the page is, or None without plotly.
    """
    with matplotlib.rc_context({"text.parse_math": False}):  # names are not formulas
        for name, figure in _figures(collection):
            for suffix in ("png", "pdf"):
                path = out / "figures" / f"{_slug(name)}.{suffix}"
                figures.save_figure(figure, path)
    write_tables(collection, out)
    return write_page([collection], out)


def write_page(collections: Sequence[Collection], out: Path) -> Path | None:
    """Write a page of one or more curricula; return where it is."""
    if not has_plotly():
        return None
    write_atomically(out / PAGE, make_page(collections).encode())
    return out / PAGE


def _slug(name: str) -> str:
    """Return a name that is safe as a file's."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:80]


def _figures(collection: Collection) -> Iterator[tuple[str, Figure]]:
    records, comparison = collection.records, collection.comparison
    yield "lifelong", figures.lifelong_curves(records)
    yield "training", figures.training_curves(records)
    yield "evaluation", figures.evaluation_maps(records)
    yield "steps-to-75", figures.steps_bars(records)
    if comparison is not None and comparison.experts is not None:
        yield "forward-transfer", figures.transfer_bars(comparison)
    for method, masks in collection.masks.items():
        if masks.coefficients:
            yield f"coefficients-{method}", figures.coefficient_maps(masks)
        yield f"similarity-{method}", figures.similarity_maps(masks)
    for visit in range(max(len(record.previews) for record in records)):
        yield f"reuse-{visit + 1}", figures.reuse_bars(records, visit)


def write_tables(collection: Collection, out: Path) -> None:
    """Write every table in every form, and all of them as one page of Markdown."""
    tables = collection.tables
    for table in tables:
        name = _slug(table.title)
        forms = {"md": table.to_markdown, "tex": table.to_latex, "csv": table.to_csv}
        for suffix, form in forms.items():
            write_atomically(out / "tables" / f"{name}.{suffix}", form().encode())
    text = [table.to_markdown() for table in tables] + collection.remarks
    write_atomically(out / "comparison.md", "\n".join(text).encode())
