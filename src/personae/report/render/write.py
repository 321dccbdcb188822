"""A report on disk: the page, the figures, the tables."""

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
from personae.report.render.plot_data import num_previews
from personae.report.render.remarks import collection_remarks
from personae.report.render.tables import collection_tables

PAGE = "report.html"
PLOTLY = "the report's page needs plotly: pip install 'personae[report]'"
MAX_NAME_LENGTH = 80
"""Letters of a file's name; some file systems allow no more than 255 bytes."""


def has_plotly() -> bool:
    """Tell whether the page can be made; figures and tables always can."""
    return find_spec("plotly") is not None


def make_page(collections: Sequence[Collection], version: str = "") -> str:
    """Return the interactive page; a served page reloads when its version changes."""
    if not has_plotly():
        raise UsageError(PLOTLY)
    # Here and not above: plotly is an optional dependency.
    from personae.report.render.page import page

    return page(collections, version)


def write_report(collection: Collection, out: Path) -> Path | None:
    """Write figures as PNG and PDF, tables as Markdown, LaTeX and CSV, and the page.

    Args:
        collection: The runs to report on.
        out: The directory to write to; the page is `report.html` in it.

    Returns:
        The path of the page, or None without plotly.
    """
    # Names of tasks and methods may hold a dollar sign and are no formulas.
    with matplotlib.rc_context({"text.parse_math": False}):
        for name, figure in _figures(collection):
            for suffix in ("png", "pdf"):
                path = out / "figures" / f"{_slug(name)}.{suffix}"
                figures.save_figure(figure, path)
    write_tables(collection, out)
    return write_page([collection], out)


def write_page(collections: Sequence[Collection], out: Path) -> Path | None:
    """Write a page of one or more curricula; return its path, or None."""
    if not has_plotly():
        return None
    write_atomically(out / PAGE, make_page(collections).encode())
    return out / PAGE


def _slug(name: str) -> str:
    """Return a file name made of a title or a name, which may come from elsewhere."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:MAX_NAME_LENGTH]


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
    # One figure per visit: all of them together would not fit on a page of a paper.
    for visit in range(num_previews(records)):
        yield f"reuse-{visit + 1}", figures.reuse_bars(records, visit)


def write_tables(collection: Collection, out: Path) -> None:
    """Write every table in every form, and all of them as one page of Markdown."""
    tables = collection_tables(collection)
    for table in tables:
        name = _slug(table.title)
        forms = {"md": table.to_markdown, "tex": table.to_latex, "csv": table.to_csv}
        for suffix, form in forms.items():
            write_atomically(out / "tables" / f"{name}.{suffix}", form().encode())
    parts = [table.to_markdown() for table in tables] + collection_remarks(collection)
    write_atomically(out / "comparison.md", "\n".join(parts).encode())
