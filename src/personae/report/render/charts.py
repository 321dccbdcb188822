"""The interactive charts of the report, as Plotly figures."""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from personae.analysis import (
    densities,
    hamming_distances,
    l2_distances,
    overlaps,
    usage,
)
from personae.metrics import interval_bands
from personae.report.data.comparison import Comparison
from personae.report.data.record import Record
from personae.report.render.downsample import thinned, top_of_returns, top_of_sums
from personae.report.render.palette import PALETTE
from personae.runs.learned_masks import LearnedMasks

LAYOUT = {
    "template": "plotly_white",
    "margin": {"l": 60, "r": 20, "t": 40, "b": 50},
    "height": 420,
    "font": {"size": 14},
    "legend": {"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0},
    "hovermode": "closest",
}
SCALE = "Cividis"  # read alike by colour-blind people, and in grey


@dataclass(frozen=True)
class Chart:
    """One place on the page; a reader may choose among its variants."""

    name: str
    title: str
    text: str
    variants: Mapping[str, go.Figure]
    choice: str = ""
    """What tells the variants apart."""


Colours = Mapping[str, str]


def colours(records: Sequence[Record]) -> Colours:
    """Return one colour per method, the same in every chart."""
    pairs = zip(records, itertools.cycle(PALETTE), strict=False)
    return {record.method: colour for record, colour in pairs}


def _figure(x: str, y: str) -> go.Figure:
    figure = go.Figure(layout=LAYOUT)
    return figure.update_layout(xaxis_title=x, yaxis_title=y)


def _curve(
    figure: go.Figure, x: np.ndarray, values: np.ndarray, name: str, colour: str
) -> None:
    """Draw the mean over seeds, and its interval as a band."""
    mean, half = interval_bands(values)
    if len(values) > 1:
        edge = np.concatenate([mean + half, (mean - half)[::-1]])
        figure.add_scatter(
            x=np.concatenate([x, x[::-1]]),
            y=edge,
            fill="toself",
            fillcolor=colour,
            opacity=0.2,
            line={"width": 0},
            hoverinfo="skip",
            showlegend=False,
            legendgroup=name,
        )
    figure.add_scatter(
        x=x, y=mean, name=name, line={"color": colour, "width": 2}, legendgroup=name
    )


def lifelong_chart(records: Sequence[Record], colours: Colours) -> Chart:
    """Draw what all tasks have together at each evaluation."""
    longest = max(records, key=lambda record: len(record.evaluation_steps))
    figure = _figure("environment steps", longest.sum_of_measures)
    fits = top_of_sums(records) >= longest.ideal_sums[-1]
    figure.add_scatter(
        x=longest.evaluation_steps,
        y=longest.ideal_sums,
        name="ideal",
        line={"color": "#777777", "dash": "dot", "width": 1.5},
        visible=True if fits else "legendonly",
    )
    for record in records:
        sums = record.evaluations.sum(-1)
        colour = colours[record.method]
        _curve(figure, record.evaluation_steps, sums, record.method, colour)
    text = "Mean over seeds, 95 % interval; tasks change where the ideal steps up."
    return Chart("lifelong", "Lifelong evaluation", text, {"": figure})


def training_chart(records: Sequence[Record], colours: Colours) -> Chart:
    """Draw the training return on each task."""
    variants = {}
    for visit, name in enumerate(_visits(records)):
        measure = f"training {records[0].measure}"
        figure = _figure("environment steps on the task", measure)
        for record in records:
            if visit < len(record.training):
                curve = thinned(record.training[visit])
                colour = colours[record.method]
                _curve(figure, curve.steps, curve.returns, record.method, colour)
        variants[name] = figure
    text = "Mean of the episodes of each iteration, with sampled actions."
    return Chart("training", "Training on each task", text, variants, "task")


def _visits(records: Sequence[Record]) -> list[str]:
    longest = max(records, key=lambda record: len(record.training))
    return [f"{i + 1} {curve.task}" for i, curve in enumerate(longest.training)]


def evaluation_chart(records: Sequence[Record]) -> Chart:
    """Draw the evaluation of every task over time, one picture per method."""
    variants, top = {}, top_of_returns(records)
    for record in records:
        figure = _figure("environment steps", "task")
        figure.add_heatmap(
            x=record.evaluation_steps,
            y=list(record.tasks),
            z=record.evaluations.mean(0).T,
            zmin=0,
            zmax=top,
            colorscale=SCALE,
            colorbar={"title": record.measure},
        )
        variants[record.method] = figure.update_yaxes(autorange="reversed")
    text = "Tasks are learned from top to bottom; what turns dark again is forgotten."
    title = "Every task over time"
    return Chart("evaluation", title, text, variants, "method")


def transfer_chart(comparison: Comparison, colours: Colours) -> Chart:
    """Draw forward transfer per task, with intervals over seeds."""
    figure = _figure("task", "forward transfer").update_layout(barmode="group")
    for method in comparison.records:
        mean, half = interval_bands(comparison.transfer(method))
        figure.add_bar(
            x=list(comparison.first.tasks),
            y=mean,
            error_y={"array": half, "thickness": 1},
            name=method,
            marker_color=colours[method],
        )
    text = "1: learned at once; 0: as fast as an expert that learns this task alone."
    return Chart("transfer", "Forward transfer", text, {"": figure})


def steps_chart(records: Sequence[Record], colours: Colours) -> Chart:
    """Draw the steps that each task takes."""
    variants = {}
    for share in (0.75, 0.5):
        figure = _figure("task", "environment steps").update_layout(barmode="group")
        for record in records:
            steps = record.steps_to_target(share)[: record.visits_ended]
            taken = [int(c.steps[-1]) for c in record.training[: record.visits_ended]]
            figure.add_bar(
                x=_visits([record])[: record.visits_ended],
                y=[t if s is None else s for s, t in zip(steps, taken, strict=True)],
                text=["fail" if s is None else "" for s in steps],
                name=record.method,
                marker={
                    "color": colours[record.method],
                    "pattern": {"shape": ["/" if s is None else "" for s in steps]},
                },
            )
        variants[f"{share:.0%} of the target"] = figure
    text = "Read off the mean over seeds, as in the paper. Hatched: never reached."
    return Chart("steps", "Time to target", text, variants, "target")


def coefficients_chart(kept: Mapping[str, LearnedMasks]) -> Chart:
    """Draw the final coefficients of every layer."""
    variants = {}
    for method, masks in kept.items():
        for layer, weights in masks.coefficients.items():
            figure = _matrix(weights.mean(0), masks.tasks, "weight")
            figure.update_layout(
                xaxis_title="mask of task", yaxis_title="learning task"
            )
            variants[f"{method} · {layer}"] = figure
    text = (
        "Weight of each mask after the softmax when a task ends, mean over seeds; the "
        "diagonal is the task's own new mask."
    )
    title = "Coefficients"
    return Chart("coefficients", title, text, variants, "method and layer")


def _matrix(values: np.ndarray, tasks: Sequence[str], name: str) -> go.Figure:
    figure = _figure("", "")
    figure.add_heatmap(
        z=values,
        x=list(tasks),
        y=list(tasks),
        colorscale=SCALE,
        colorbar={"title": name},
        texttemplate="%{z:.2f}" if len(tasks) <= 12 else None,
    )
    return figure.update_yaxes(autorange="reversed")


def similarity_chart(kept: Mapping[str, LearnedMasks]) -> Chart:
    """Draw how alike the masks of each two tasks are."""
    variants = {}
    for method, masks in kept.items():
        for layer, scores in masks.scores.items():
            label = f"{method} · {layer}"
            distances = l2_distances(scores).mean(0)
            variants[f"{label} · L2"] = _matrix(distances, masks.tasks, "L2")
            if layer in masks.masks:
                bits = masks.masks[layer]
                hamming, shared = hamming_distances(bits), overlaps(bits)
                variants[f"{label} · Hamming"] = _matrix(
                    hamming.mean(0), masks.tasks, "Hamming"
                )
                variants[f"{label} · overlap"] = _matrix(
                    shared.mean(0), masks.tasks, "overlap"
                )
    text = (
        "Mean over seeds. L2: distance of scores, as in the paper; Hamming: share of "
        "weights that only one of two tasks uses; overlap: shared of all used."
    )
    title = "Mask similarity"
    return Chart("similarity", title, text, variants, "method, layer and measure")


def capacity_chart(kept: Mapping[str, LearnedMasks], colours: Colours) -> Chart:
    """Draw how much of the network is used, and by how many tasks."""
    binary = {method: m for method, m in kept.items() if m.masks}
    shares = {method: usage(m.masks.values()) for method, m in binary.items()}
    used = _figure("", "share of weights").update_layout(barmode="stack")
    for name, colour in zip(
        ("by_none", "by_one", "by_several", "by_all"), PALETTE, strict=False
    ):
        used.add_bar(
            x=list(shares),
            y=[getattr(share, name).mean() for share in shares.values()],
            name=name.replace("by_", "used by "),
            marker_color=colour,
        )
    dense = _figure("task", "density").update_layout(barmode="group")
    for method, masks in binary.items():
        density = densities(masks.masks.values()).mean(0)
        colour, tasks = colours[method], list(masks.tasks)
        dense.add_bar(x=tasks, y=density, name=method, marker_color=colour)
    text = "How many tasks use a weight, and the share of weights that each task uses."
    variants = {"use by tasks": used, "density of masks": dense}
    return Chart("capacity", "Capacity", text, variants, "what to show")


def reuse_chart(records: Sequence[Record]) -> Chart:
    """Draw what agents would do on a new task, along its optimal path."""
    shown = [record for record in records if record.previews]
    variants = {}
    for visit in range(max(len(record.previews) for record in shown)):
        there = [record for record in shown if visit < len(record.previews)]
        preview = there[0].previews[visit]
        titles = [*(record.method for record in there), "optimal"]
        figure = make_subplots(len(titles), 1, shared_xaxes=True, subplot_titles=titles)
        optimal = np.eye(preview.probabilities.shape[-1])[preview.actions]
        policies = [r.previews[visit].probabilities.mean(0) for r in there]
        for row, policy in enumerate([*policies, optimal], start=1):
            for action in range(policy.shape[1]):
                figure.add_bar(
                    x=list(range(len(policy))),
                    y=policy[:, action],
                    name=f"action {action}",
                    marker_color=PALETTE[action % len(PALETTE)],
                    showlegend=row == 1,
                    legendgroup=str(action),
                    row=row,
                    col=1,
                )
        figure.update_layout(LAYOUT | {"height": 110 * len(titles) + 120})
        figure.update_layout(barmode="stack", margin={"t": 60})
        figure.update_yaxes(range=[0, 1])
        figure.update_xaxes(title_text="step on the optimal path", row=len(titles))
        variants[f"{visit + 1} {preview.task}"] = figure
    text = (
        "Probabilities of all actions before any training on the task, while the agent "
        "is led along the optimal path; mean over seeds."
    )
    return Chart("reuse", "Knowledge reuse", text, variants, "task")
