"""One HTML page that needs nothing but itself: charts, tables, where they come from.

Everything that a run directory says is escaped, and the page may load nothing from
elsewhere: a stranger's run can be looked at.
"""

import base64
import gzip
import html
import json
from collections.abc import Iterable, Mapping, Sequence
from importlib import resources
from typing import Any

from plotly.offline import get_plotlyjs

from personae.report.data.collection import Collection
from personae.report.data.record import Record
from personae.report.render import charts
from personae.report.render.charts import Chart
from personae.report.render.table import Table

POLICY = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; "
    "img-src data: blob:; connect-src 'self'"
)


def page(collections: Sequence[Collection], version: str = "") -> str:
    """Return the whole page, one part for each collection, one of them shown.

    `version` tells a page that is served when to reload.
    """
    several = len(collections) > 1
    prefixes = [f"part{i}-" if several else "" for i in range(len(collections))]
    titles = [_title(collection) for collection in collections]
    figures: dict[str, Any] = {}
    parts = []
    for collection, prefix, title in zip(collections, prefixes, titles, strict=True):
        charts_shown = _charts(collection)
        figures |= {prefix + chart.name: _variants(chart) for chart in charts_shown}
        parts.append(_part(collection, charts_shown, prefix, title))
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
    collection: Collection, charts_shown: Sequence[Chart], prefix: str, title: str
) -> str:
    links = [(chart.name, chart.title) for chart in charts_shown]
    links += [("tables", "Tables"), ("provenance", "Provenance")]
    bar = "".join(f'<a href="#s-{prefix}{name}">{text}</a>' for name, text in links)
    tables = "".join(map(_table, collection.tables))
    provenance = _table(provenance_table(collection.everything))
    return f"""<article id="{prefix or "all-"}report">
<header><h1>{html.escape(title)}</h1><p>A report by Personae.</p>
{_remarks(collection.remarks)}</header>
<nav><div>{bar}</div></nav>
<main>
{"".join(_chart(chart, prefix) for chart in charts_shown)}
<section id="s-{prefix}tables"><h2>Tables</h2>{tables}</section>
<section id="s-{prefix}provenance"><h2>Where it comes from</h2>{provenance}</section>
</main>
</article>
"""


def _packed(text: str) -> str:
    """Return a text compressed, in letters: the page is a third as large."""
    return base64.b64encode(gzip.compress(text.encode(), 9, mtime=0)).decode()


def _charts(collection: Collection) -> list[Chart]:
    records, comparison = collection.records, collection.comparison
    colours, kept = charts.colours(records), collection.masks
    charts_shown = [
        charts.lifelong_chart(records, colours),
        charts.training_chart(records, colours),
        charts.evaluation_chart(records),
    ]
    if comparison is not None and comparison.experts is not None:
        charts_shown.append(charts.transfer_chart(comparison, colours))
    charts_shown.append(charts.steps_chart(records, colours))
    if any(masks.coefficients for masks in kept.values()):
        charts_shown.append(charts.coefficients_chart(kept))
    if kept:
        charts_shown.append(charts.similarity_chart(kept))
    if any(masks.masks for masks in kept.values()):
        charts_shown.append(charts.capacity_chart(kept, colours))
    if any(record.previews for record in records):
        charts_shown.append(charts.reuse_chart(records))
    return charts_shown


def provenance_table(records: Iterable[Record]) -> Table:
    """Return where each run comes from."""
    rows = []
    for record in records:
        run: Mapping[str, Any] = record.run
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


def _remarks(said: Sequence[str]) -> str:
    if not said:
        return ""
    lines = "".join(f"<p>{html.escape(remark)}</p>" for remark in said)
    return f'<div class="remarks">{lines}</div>'


def _variants(chart: Chart) -> dict[str, Any]:
    return {
        label: json.loads(figure.to_json()) for label, figure in chart.variants.items()
    }


def _chart(chart: Chart, prefix: str) -> str:
    name, labels = prefix + chart.name, [*chart.variants]
    choice = _choice(name, chart.choice, labels) if len(labels) > 1 else ""
    return (
        f'<section id="s-{name}"><h2>{chart.title}</h2><p>{chart.text}</p>{choice}'
        f'<div class="chart" id="{name}"></div></section>'
    )


def _choice(name: str, what: str, labels: Sequence[str]) -> str:
    options = "".join(f"<option>{html.escape(label)}</option>" for label in labels)
    place = f"choose-{name}"
    return (
        f'<label for="{place}">{what}</label> <select id="{place}">{options}</select>'
    )


def _table(table: Table) -> str:
    def row(cells: Sequence[str], tag: str) -> str:
        inside = "".join(f"<{tag}>{html.escape(cell)}</{tag}>" for cell in cells)
        return f"<tr>{inside}</tr>"

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
<meta http-equiv="Content-Security-Policy" content="{POLICY}">
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
