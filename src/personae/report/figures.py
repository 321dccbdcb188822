"""Figures fit for a paper, made from records alone."""

import itertools
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from scipy import stats

from personae.report.record import Record

# Okabe and Ito's palette, told apart by colour-blind readers too.
PALETTE = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000")


def lifelong_curves(records: Sequence[Record]) -> Figure:
    """Draw the sum over all tasks of each evaluation along the life (paper, Fig. left).

    Lines are means over seeds with their 95 % t-interval; the dotted staircase is an
    agent that masters each task at once. Vertical lines are the changes of task.
    """
    figure = Figure(figsize=(8, 4.5), dpi=150, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    first = records[0]
    thousands = first.evaluation_steps / 1000
    seen = np.maximum.accumulate(
        [first.targets[: t + 1].sum() for t in first.evaluation_task]
    )
    axes.step(thousands, seen, "k:", where="mid", linewidth=1, label="ideal")
    for record, colour in zip(records, itertools.cycle(PALETTE), strict=False):
        sums = record.evaluations.sum(-1)
        x, mean = record.evaluation_steps / 1000, sums.mean(0)
        axes.plot(x, mean, color=colour, linewidth=1.8, label=record.method)
        if len(sums) > 1:
            quantile = stats.t.ppf(0.975, len(sums) - 1)
            margin = quantile * sums.std(0, ddof=1) / np.sqrt(len(sums))
            low, high = mean - margin, mean + margin
            axes.fill_between(x, low, high, color=colour, alpha=0.2, linewidth=0)
    changes = np.flatnonzero(np.diff(first.evaluation_task)) + 1
    for change in changes:
        axes.axvline(thousands[change - 1], color="#dddddd", linewidth=0.8, zorder=0)
    axes.set_xlim(0, thousands[-1])
    every_sum = np.concatenate([r.evaluations.sum(-1).ravel() for r in records])
    axes.set_ylim(min(0.0, every_sum.min()), max(seen[-1], every_sum.max()) * 1.04)
    axes.set_xlabel("environment steps (thousands)")
    axes.set_ylabel("sum of returns over all tasks")
    axes.set_title(f"Lifelong evaluation on {first.curriculum}")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, loc="upper left")
    return figure


def save_figure(figure: Figure, path: Path) -> Path:
    """Save a figure in the format of the path's suffix; return the path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path)
    return path
