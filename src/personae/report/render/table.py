"""A table of text, for the terminal or as Markdown, CSV or LaTeX."""

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import rich.table
from rich.text import Text


@dataclass(frozen=True)
class Table:
    """Rows of text under a header; the first column names the rows."""

    title: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    note: str = ""
    """An explanation for readers, printed below the rows."""
    prose: bool = False
    """Whether cells hold sentences, set to the left, instead of numbers."""

    def to_rich(self) -> rich.table.Table:
        """Return the table for the terminal."""
        table = rich.table.Table(title=self.title, caption=self.note or None)
        table.add_column(Text(self.header[0]), no_wrap=True)
        for name in self.header[1:]:
            side: Literal["left", "right"] = "left" if self.prose else "right"
            table.add_column(Text(name), justify=side, overflow="fold")
        for row in self.rows:
            # Cells are names from files: as strings they could hold rich's markup.
            table.add_row(*map(Text, row))
        return table

    def to_markdown(self) -> str:
        """Return the table in Markdown, under its title."""
        lines = [f"### {self.title}", "", _line(self.header)]
        rule = "| --- " if self.prose else "| ---: "
        lines.append("| --- " + rule * (len(self.header) - 1) + "|")
        lines += [_line(row) for row in self.rows]
        return "\n".join([*lines, "", *([self.note, ""] if self.note else [])])

    def to_csv(self) -> str:
        """Return header and rows, separated by commas."""
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows([self.header, *self.rows])
        return text.getvalue()

    def to_latex(self) -> str:
        """Return a booktabs table with its title as the caption."""
        # LaTeX breaks lines only in columns of a fixed width.
        width = rf"p{{{0.75 / max(len(self.header) - 1, 1):.2f}\textwidth}}"
        columns = "l" + (width if self.prose else "r") * (len(self.header) - 1)
        body = [" & ".join(map(_escaped, row)) + r" \\" for row in self.rows]
        head = " & ".join(map(_escaped, self.header)) + r" \\"
        caption = _escaped(" ".join(filter(None, [f"{self.title}.", self.note])))
        return "\n".join(
            [
                r"\begin{table}",
                rf"\caption{{{caption}}}",
                rf"\begin{{tabular}}{{{columns}}}",
                r"\toprule",
                head,
                r"\midrule",
                *body,
                r"\bottomrule",
                r"\end{tabular}",
                r"\end{table}",
                "",
            ]
        )


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _escaped(text: str) -> str:
    # The backslash comes first: the other replacements contain it.
    for symbol, latex in (
        ("\\", r"\textbackslash{}"),
        ("&", r"\&"),
        ("%", r"\%"),
        ("#", r"\#"),
        ("_", r"\_"),
        ("±", r"$\pm$"),
    ):
        text = text.replace(symbol, latex)
    return text
