"""One HTML page that needs nothing but itself: charts, tables, where they come from.

Everything that a run directory says is escaped, and the page may load nothing from
elsewhere: a stranger's run can be looked at.
"""

import html
import json
from collections.abc import Iterable, Mapping, Sequence
from importlib import resources
from typing import Any

from plotly.offline import get_plotlyjs

from personae.report import charts
from personae.report.charts import Chart
from personae.report.collection import Collection
from personae.report.record import Record
from personae.report.table import Table

POLICY = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; "
    "img-src data: blob:; connect-src 'self'"
)


def page(collection: Collection, version: str) -> str:
    """Return the whole page; `version` tells a page that is served when to reload."""
    records, drawn = collection.records, _charts(collection)
    title = f"{records[0].short_name}: {', '.join(r.method for r in records)}"
    links = [(chart.name, chart.title) for chart in drawn]
    links += [("tables", "Tables"), ("provenance", "Provenance")]
    return _document(
        title=html.escape(title),
        version=html.escape(version),
        links="".join(f'<a href="#s-{name}">{text}</a>' for name, text in links),
        remarks=_remarks(collection.remarks),
        charts="".join(map(_chart, drawn)),
        tables="".join(map(_table, collection.tables)),
        provenance=_table(provenance_table(collection.everything)),
    )


def _charts(collection: Collection) -> list[Chart]:
    records, comparison = collection.records, collection.comparison
    colours, kept = charts.colours(records), collection.masks
    drawn = [
        charts.lifelong_chart(records, colours),
        charts.training_chart(records, colours),
        charts.evaluation_chart(records),
    ]
    if comparison is not None and comparison.experts is not None:
        drawn.append(charts.transfer_chart(comparison, colours))
    drawn.append(charts.steps_chart(records, colours))
    if any(masks.coefficients for masks in kept.values()):
        drawn.append(charts.coefficients_chart(kept))
    if kept:
        drawn.append(charts.similarity_chart(kept))
    if any(masks.masks for masks in kept.values()):
        drawn.append(charts.capacity_chart(kept, colours))
    if any(record.previews for record in records):
        drawn.append(charts.reuse_chart(records))
    return drawn


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
    return f'<div class="remarks" id="remarks">{lines}</div>'


def _chart(chart: Chart) -> str:
    figures = {
        label: json.loads(figure.to_json()) for label, figure in chart.variants.items()
    }
    # A script's text ends at the first "</": none may come from a run's names.
    data = json.dumps(figures).replace("<", "\\u003c")
    choice = ""
    if len(figures) > 1:
        options = "".join(f"<option>{html.escape(label)}</option>" for label in figures)
        place = f"choose-{chart.name}"
        choice = (
            f'<label for="{place}">{chart.choice}</label> '
            f'<select id="{place}">{options}</select>'
        )
    return (
        f'<section id="s-{chart.name}"><h2>{chart.title}</h2>'
        f"<p>{chart.text}</p>{choice}"
        f'<div class="chart" id="{chart.name}"></div>'
        f'<script type="application/json" id="data-{chart.name}">{data}</script>'
        "</section>"
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
    folder = resources.files("personae.report").joinpath("assets")
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
<script>{get_plotlyjs()}</script>
</head>
<body data-version="{parts["version"]}">
<header><h1>{parts["title"]}</h1><p>A report by Personae.</p>{parts["remarks"]}</header>
<nav><div>{parts["links"]}</div></nav>
<main>
{parts["charts"]}
<section id="s-tables"><h2>Tables</h2>{parts["tables"]}</section>
<section id="s-provenance"><h2>Where it comes from</h2>{parts["provenance"]}</section>
</main>
<footer>Definitions: docs/metrics.md. This page loads nothing from elsewhere.</footer>
<script>{script}</script>
</body>
</html>
"""
