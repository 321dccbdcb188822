"""One self-contained HTML page: charts, tables and the provenance of runs.

All texts from a run directory are escaped, and the page may load nothing from
elsewhere: a stranger's run is safe to look at.
"""

import base64
import gzip
import html
import json
from collections.abc import Iterable, Sequence
from importlib import resources

from plotly.offline import get_plotlyjs

from personae.report.data.collection import Collection
from personae.report.data.record import Record
from personae.report.render import charts
from personae.report.render.charts import Chart
from personae.report.render.remarks import collection_remarks
from personae.report.render.table import Table
from personae.report.render.tables import collection_tables
from personae.serialise import PlainData

# Scripts are inline, so that a stranger's text must never become one; `connect-src`
# is for a served page that asks for its version.
CONTENT_POLICY = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; "
    "img-src data: blob:; connect-src 'self'"
)


def page(collections: Sequence[Collection], version: str = "") -> str:
    """Return the page, with one part for each collection, one of them visible.

    Args:
        collections: The runs to show.
        version: The version of a served page, which reloads when it changes.
    """
    several = len(collections) > 1
    # Elements of several parts must not share an id.
    prefixes = [f"part{i}-" if several else "" for i in range(len(collections))]
    titles = [_title(collection) for collection in collections]
    figures: PlainData = {}
    parts = []
    for collection, prefix, title in zip(collections, prefixes, titles, strict=True):
        page_charts = _charts(collection)
        figures |= {prefix + chart.name: _variants(chart) for chart in page_charts}
        parts.append(_part(collection, page_charts, prefix, title))
    return _document(
        title=html.escape(titles[0] if not several else "The tables of the paper"),
        version=html.escape(version),
        choice=_choice("report", "Table", titles) if several else "",
        parts="".join(parts),
        figures=_packed(json.dumps(figures)),
        plotly=_packed(get_plotlyjs()),
    )


def _title(collection: Collection) -> str:
    records = collection.records
    return f"{records[0].short_name}: {', '.join(r.method for r in records)}"


def _part(
    collection: Collection, page_charts: Sequence[Chart], prefix: str, title: str
) -> str:
    # Anchors have a prefix: the bare name is the id of the chart itself.
    links = [(chart.name, chart.title) for chart in page_charts]
    links += [("tables", "Tables"), ("provenance", "Provenance")]
    bar = "".join(f'<a href="#s-{prefix}{name}">{text}</a>' for name, text in links)
    tables = "".join(map(_table, collection_tables(collection)))
    provenance = _table(provenance_table(collection.all_records))
    return f"""<article id="{prefix or "all-"}report">
<header><h1>{html.escape(title)}</h1><p>A report by Personae.</p>
{_remarks(collection_remarks(collection))}</header>
<nav><div>{bar}</div></nav>
<main>
{"".join(_chart(chart, prefix) for chart in page_charts)}
<section id="s-{prefix}tables"><h2>Tables</h2>{tables}</section>
<section id="s-{prefix}provenance"><h2>Provenance</h2>{provenance}</section>
</main>
</article>
"""


def _packed(text: str) -> str:
    """Return a text compressed, in base64: the page becomes a third as large."""
    # No time of writing: the same runs make the same page.
    return base64.b64encode(gzip.compress(text.encode(), 9, mtime=0)).decode()


def _charts(collection: Collection) -> list[Chart]:
    records, comparison = collection.records, collection.comparison
    colours, masks = charts.colours(records), collection.masks
    page_charts = [
        charts.lifelong_chart(records, colours),
        charts.training_chart(records, colours),
        charts.evaluation_chart(records),
    ]
    if comparison is not None and comparison.experts is not None:
        page_charts.append(charts.transfer_chart(comparison, colours))
    page_charts.append(charts.steps_chart(records, colours))
    if any(learned.coefficients for learned in masks.values()):
        page_charts.append(charts.coefficients_chart(masks))
    if masks:
        page_charts.append(charts.similarity_chart(masks))
    if any(learned.masks for learned in masks.values()):
        page_charts.append(charts.capacity_chart(masks, colours))
    if any(record.previews for record in records):
        page_charts.append(charts.reuse_chart(records))
    return page_charts


def provenance_table(records: Iterable[Record]) -> Table:
    """Return the origin of each run: seeds, commit, device, versions and time."""
    rows = []
    for record in records:
        # A run in progress, or one of an older version, may lack any of these.
        run = record.run
        versions, device = run.get("versions", {}), run.get("device", {})
        rows.append(
            (
                record.method,
                ", ".join(map(str, record.seeds)),
                str(run["status"]),
                str(run.get("started", "")),
                str(run.get("commit") or "unknown")[:12],
                f"{device.get('kind', '')} ({device.get('backend', '')})",
                f"{versions.get('jax', '')} / {versions.get('python', '')}",
                str(run.get("seconds", {}).get("total", "")),
            )
        )
    header = (
        "method",
        "seeds",
        "status",
        "started",
        "commit",
        "device",
        "jax / python",
        "seconds",
    )
    note = "The whole configuration of each run is in its run.json."
    return Table("Provenance", header, rows, note)


def _remarks(remarks: Sequence[str]) -> str:
    if not remarks:
        return ""
    lines = "".join(f"<p>{html.escape(remark)}</p>" for remark in remarks)
    return f'<div class="remarks">{lines}</div>'


def _variants(chart: Chart) -> PlainData:
    return {
        label: json.loads(figure.to_json()) for label, figure in chart.variants.items()
    }


def _chart(chart: Chart, prefix: str) -> str:
    name, labels = prefix + chart.name, [*chart.variants]
    # One variant leaves nothing to choose.
    choice = _choice(name, chart.choice, labels) if len(labels) > 1 else ""
    return (
        f'<section id="s-{name}"><h2>{chart.title}</h2><p>{chart.text}</p>{choice}'
        f'<div class="chart" id="{name}"></div></section>'
    )


def _choice(name: str, title: str, labels: Sequence[str]) -> str:
    options = "".join(f"<option>{html.escape(label)}</option>" for label in labels)
    select = f"choose-{name}"
    return (
        f'<label for="{select}">{title}</label> '
        f'<select id="{select}">{options}</select>'
    )


def _table(table: Table) -> str:
    def row(cells: Sequence[str], tag: str) -> str:
        content = "".join(f"<{tag}>{html.escape(cell)}</{tag}>" for cell in cells)
        return f"<tr>{content}</tr>"

    # Tables may be wider than a phone: the box around each one scrolls.
    body = "".join(row(cells, "td") for cells in table.rows)
    return (
        f'<h3>{html.escape(table.title)}</h3><div class="wide">'
        f'<table class="{"prose" if table.prose else "numbers"}">'
        f"<caption>{html.escape(table.note)}</caption>"
        f"<thead>{row(table.header, 'th')}</thead><tbody>{body}</tbody></table></div>"
    )


def _document(**parts: str) -> str:
    folder = resources.files("personae.report.render").joinpath("assets")
    style = folder.joinpath("page.css").read_text(encoding="utf-8")
    script = folder.joinpath("page.js").read_text(encoding="utf-8")
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{CONTENT_POLICY}">
<title>{parts["title"]}</title>
<style>{style}</style>
</head>
<body data-version="{parts["version"]}">
<div id="top">{parts["choice"]}</div>
{parts["parts"]}
<footer>Definitions: docs/metrics.md. This page loads nothing from elsewhere.</footer>
<script type="application/gzip" id="figures">{parts["figures"]}</script>
<script type="application/gzip" id="plotly">{parts["plotly"]}</script>
<script type="module">{script}</script>
</body>
</html>
"""
