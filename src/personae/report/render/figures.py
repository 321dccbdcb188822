"""Figures for a paper, drawn from records alone."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from personae.analysis import l2_distances
from personae.metrics import interval_bands
from personae.report.data.comparison import Comparison
from personae.report.data.record import Record
from personae.report.render.downsample import downsample, top_of_returns, top_of_sums
from personae.report.render.palette import PALETTE, SCALE, with_colours
from personae.report.render.plot_data import (
    longest_evaluated,
    longest_trained,
    preview_policies,
)
from personae.runs.learned_masks import LearnedMasks

MAX_LETTERS = 80
"""Letters of task names that fit side by side under bars."""
MAX_LABELS = 6
"""Names in a row of the legend."""


def _sheet(width: float, height: float) -> Figure:
    # Not pyplot, which keeps figures in a global list and may want a screen.
    figure = Figure(figsize=(width, height), dpi=150, layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def _grid(
    count: int, max_columns: int, size: tuple[float, float]
) -> tuple[Figure, list[Axes]]:
    """Return a sheet with a number of axes in rows."""
    columns = min(max_columns, count)
    rows = math.ceil(count / columns)
    figure = _sheet(columns * size[0], rows * size[1])
    grid = figure.subplots(rows, columns, squeeze=False).ravel()
    for spare in grid[count:]:
        spare.set_visible(False)
    return figure, list(grid[:count])


def _curve(
    axes: Axes, x: np.ndarray, values: np.ndarray, name: str, colour: str
) -> None:
    """Draw the mean over seeds with its 95 % t-interval."""
    mean, half = interval_bands(values)
    axes.plot(x, mean, color=colour, linewidth=1.8, label=name)
    band = (mean - half, mean + half)
    axes.fill_between(x, *band, color=colour, alpha=0.2, linewidth=0)
    axes.spines[["top", "right"]].set_visible(False)


def _legend(figure: Figure, axes: Axes) -> None:
    """Name the lines above all axes, in rows about equally long."""
    handles, labels = axes.get_legend_handles_labels()
    rows = max(1, math.ceil(len(labels) / MAX_LABELS))
    columns = max(1, math.ceil(len(labels) / rows))
    figure.legend(
        handles, labels, loc="outside upper center", ncols=columns, frameon=False
    )


def lifelong_curves(records: Sequence[Record]) -> Figure:
    """Draw the sum over all tasks of each evaluation along the life (paper, Fig. left).

    Lines are means over seeds with their 95 % t-interval. The dotted staircase, drawn
    where it fits the scale, is an agent that masters each task at once. Vertical lines
    mark changes of task.

    Args:
        records: Runs of one curriculum, finished or not.

    Returns:
        The figure; `save_figure` writes it to a file.
    """
    figure = _sheet(8.0, 4.5)
    axes = figure.add_subplot()
    longest = longest_evaluated(records)
    thousands, ideal = longest.evaluation_steps / 1000, longest.ideal_sums
    # An ideal far above all curves would press them flat.
    if top_of_sums(records) >= ideal[-1]:
        axes.step(thousands, ideal, "k:", where="mid", linewidth=1, label="ideal")
    for record, colour in with_colours(records):
        sums = record.evaluations.sum(-1)
        _curve(axes, record.evaluation_steps / 1000, sums, record.method, colour)
    # A visit ends with an evaluation: the task changes right after it.
    changes = np.flatnonzero(np.diff(longest.evaluation_task)) + 1
    for change in changes:
        axes.axvline(thousands[change - 1], color="#dddddd", linewidth=0.8, zorder=0)
    axes.set_xlim(0, thousands[-1])
    # Returns above a floor may be negative.
    lowest = min(record.evaluations.sum(-1).min() for record in records)
    axes.set_ylim(min(0.0, lowest), top_of_sums(records) * 1.04)
    axes.set_xlabel("environment steps (thousands)")
    axes.set_ylabel(longest.sum_of_measures)
    axes.set_title(f"Lifelong evaluation on {longest.curriculum}")
    _legend(figure, axes)
    return figure


def training_curves(records: Sequence[Record]) -> Figure:
    """Draw the training return on each task, with one panel per visit."""
    longest = longest_trained(records)
    figure, panels = _grid(len(longest.training), 4, (3.2, 2.4))
    for visit, axes in enumerate(panels):
        for record, colour in with_colours(records):
            if visit < len(record.training):
                curve = downsample(record.training[visit])
                _curve(axes, curve.steps / 1000, curve.returns, record.method, colour)
        axes.set_title(f"{visit + 1}: {longest.training[visit].task}", fontsize=9)
    _legend(figure, panels[0])
    figure.supxlabel("environment steps on the task (thousands)", fontsize=9)
    figure.supylabel(f"training {longest.measure}", fontsize=9)
    return figure


def evaluation_maps(records: Sequence[Record]) -> Figure:
    """Draw the evaluation of every task over time, with one panel per method."""
    figure, panels = _grid(len(records), 3, (3.6, 2.8))
    # One scale for all methods, so that one colour bar is right for every panel.
    images, top = [], top_of_returns(records)
    for record, axes in zip(records, panels, strict=True):
        image = axes.imshow(
            record.evaluations.mean(0).T,
            aspect="auto",
            cmap=SCALE,
            vmin=0,
            vmax=top,
            extent=(0, record.evaluation_steps[-1] / 1000, len(record.tasks), 0),
        )
        images.append(image)
        axes.set_yticks(np.arange(len(record.tasks)) + 0.5, record.tasks, fontsize=7)
        axes.set_title(record.method, fontsize=9)
    figure.supxlabel("environment steps (thousands)", fontsize=9)
    figure.colorbar(images[0], ax=panels, label=records[0].measure)
    return figure


def transfer_bars(comparison: Comparison) -> Figure:
    """Draw forward transfer per task, with intervals over seeds."""
    values = {m: interval_bands(comparison.transfer(m)) for m in comparison.records}
    return _bars(comparison.first_record.tasks, values, "forward transfer")


def steps_bars(records: Sequence[Record], share: float = 0.75) -> Figure:
    """Draw the steps to a share of the target; bars that never reach it are hatched."""
    values, failed = {}, {}
    for record in records:
        # A visit that goes on may yet reach the target.
        ended = slice(record.schedule.visits_ended)
        # None becomes nan.
        steps = np.array(record.steps_to_target(share)[ended], float)
        lengths = np.array([curve.steps[-1] for curve in record.training[ended]])
        failed[record.method] = np.isnan(steps)
        heights = np.where(np.isnan(steps), lengths, steps) / 1000
        # A step count of a mean curve has no interval: nan draws no error bar.
        values[record.method] = (heights, np.full_like(steps, np.nan))
    tasks = [curve.task for curve in longest_trained(records).training]
    label = f"thousands of steps to {share:.0%}"
    if any(visits.any() for visits in failed.values()):
        label += " (hatched: never)"
    return _bars(tasks, values, label, failed)


def _bars(
    tasks: Sequence[str],
    values: Mapping[str, tuple[np.ndarray, np.ndarray]],
    label: str,
    hatched: Mapping[str, np.ndarray] | None = None,
) -> Figure:
    figure = _sheet(8.0, 3.6)
    axes = figure.add_subplot()
    width = 0.8 / len(values)
    # The bars of a task share 0.8 of its width, centred on its tick.
    for index, ((method, (mean, half)), colour) in enumerate(
        with_colours(values.items())
    ):
        x = np.arange(len(mean)) + (index - (len(values) - 1) / 2) * width
        error = {"elinewidth": 0.8}
        bars = axes.bar(
            x, mean, width, yerr=half, color=colour, label=method, error_kw=error
        )
        for bar in np.array(bars.patches)[hatched[method]] if hatched else []:
            bar.set(facecolor="white", edgecolor=colour, hatch="////", linewidth=0.8)
    axes.axhline(0, color="k", linewidth=0.8)
    axes.set_xticks(np.arange(len(tasks)), tasks, fontsize=8)
    if sum(map(len, tasks)) > MAX_LETTERS:
        axes.tick_params("x", rotation=20)
    axes.set_ylabel(label)
    axes.spines[["top", "right"]].set_visible(False)
    _legend(figure, axes)
    return figure


def coefficient_maps(masks: LearnedMasks) -> Figure:
    """Draw the final coefficients of every layer (paper, appendix)."""
    means = {layer: w.mean(0) for layer, w in masks.coefficients.items()}
    return _maps(means, masks.tasks, "weight of a mask")


def similarity_maps(masks: LearnedMasks) -> Figure:
    """Draw the L2 distance of each two tasks' scores, in every layer."""
    means = {layer: l2_distances(s).mean(0) for layer, s in masks.scores.items()}
    return _maps(means, masks.tasks, "L2 distance")


def _maps(values: Mapping[str, np.ndarray], tasks: Sequence[str], label: str) -> Figure:
    figure, panels = _grid(len(values), 3, (3.2, 2.8))
    for (layer, matrix), axes in zip(values.items(), panels, strict=True):
        image = axes.imshow(matrix, cmap=SCALE)
        axes.set_title(layer, fontsize=9)
        axes.set_xticks(range(len(tasks)), tasks, rotation=90, fontsize=6)
        axes.set_yticks(range(len(tasks)), tasks, fontsize=6)
        figure.colorbar(image, ax=axes, shrink=0.8)
    figure.supylabel(label, fontsize=9)
    return figure


def reuse_bars(records: Sequence[Record], visit: int) -> Figure:
    """Draw the policies of agents on a new task, beside the optimal policy."""
    preview, policies = preview_policies(records, visit)
    figure, panels = _grid(len(policies), 1, (6.0, 1.1))
    # Probabilities are stacked, so that each bar is one state and adds up to 1.
    for (name, policy), axes in zip(policies.items(), panels, strict=True):
        below = np.zeros(len(policy))
        for action in range(policy.shape[1]):
            colour, label = PALETTE[action % len(PALETTE)], f"action {action}"
            x = np.arange(len(policy))
            axes.bar(x, policy[:, action], bottom=below, color=colour, label=label)
            below += policy[:, action]
        axes.set_ylabel(name, fontsize=8)
        axes.set_ylim(0, 1)
        axes.spines[["top", "right"]].set_visible(False)
    _legend(figure, panels[0])
    panels[-1].set_xlabel(f"step on the optimal path of {preview.task}")
    return figure


def save_figure(figure: Figure, path: Path) -> Path:
    """Save a figure in the format of the path's suffix; return the path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path)
    # The layout is slow to find, and the same for every other format.
    figure.set_layout_engine("none")
    return path
