"""The interactive charts of the report, as Plotly figures."""

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
from personae.report.render.downsample import downsample, top_of_returns, top_of_sums
from personae.report.render.palette import PALETTE, SCALE, with_colours
from personae.report.render.plot_data import (
    longest_evaluated,
    longest_trained,
    num_previews,
    preview_policies,
)
from personae.runs.learned_masks import LearnedMasks

LAYOUT = {
    "template": "plotly_white",
    "margin": {"l": 60, "r": 20, "t": 40, "b": 50},
    "height": 420,
    "font": {"size": 14},
    "legend": {"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0},
    "hovermode": "closest",
}
MAX_LABELLED_TASKS = 12
"""Tasks up to which the numbers of a matrix fit into its cells."""


@dataclass(frozen=True)
class Chart:
    """A chart of the page; a reader may choose among its variants."""

    name: str
    title: str
    text: str
    variants: Mapping[str, go.Figure]
    choice: str = ""
    """The label of the choice, such as "task", if there are variants."""


Colours = Mapping[str, str]


def colours(records: Sequence[Record]) -> Colours:
    """Return one colour per method, the same in every chart."""
    return {record.method: colour for record, colour in with_colours(records)}


def _figure(x: str, y: str) -> go.Figure:
    figure = go.Figure(layout=LAYOUT)
    return figure.update_layout(xaxis_title=x, yaxis_title=y)


def _curve(
    figure: go.Figure, x: np.ndarray, values: np.ndarray, name: str, colour: str
) -> None:
    """Draw the mean over seeds, and its interval as a band."""
    mean, half = interval_bands(values)
    if len(values) > 1:
        # The band is one closed outline: forwards along its top, back along its bottom.
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
            # A click on the name hides the line and its band together.
            legendgroup=name,
        )
    figure.add_scatter(
        x=x, y=mean, name=name, line={"color": colour, "width": 2}, legendgroup=name
    )


def lifelong_chart(records: Sequence[Record], colours: Colours) -> Chart:
    """Draw the sum over all tasks of each evaluation."""
    longest = longest_evaluated(records)
    figure = _figure("environment steps", longest.sum_of_measures)
    # An ideal far above all curves would press them flat: readers can switch it on.
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
    text = (
        "Mean over seeds with its 95 % interval. The ideal line steps up where a new "
        "task begins."
    )
    return Chart("lifelong", "Lifelong evaluation", text, {"": figure})


def training_chart(records: Sequence[Record], colours: Colours) -> Chart:
    """Draw the training return on each task."""
    variants = {}
    for visit, name in enumerate(_visits(records)):
        measure = f"training {records[0].measure}"
        figure = _figure("environment steps on the task", measure)
        for record in records:
            if visit < len(record.training):
                curve = downsample(record.training[visit])
                colour = colours[record.method]
                _curve(figure, curve.steps, curve.returns, record.method, colour)
        variants[name] = figure
    text = "Mean of the episodes of each iteration, with sampled actions."
    return Chart("training", "Training on each task", text, variants, "task")


def _visits(records: Sequence[Record]) -> list[str]:
    training = longest_trained(records).training
    # A task of several cycles has several visits: the number tells them apart.
    return [f"{i + 1} {curve.task}" for i, curve in enumerate(training)]


def evaluation_chart(records: Sequence[Record]) -> Chart:
    """Draw the evaluation of every task over time, one picture per method."""
    variants, top = {}, top_of_returns(records)
    for record in records:
        figure = _figure("environment steps", "task")
        # The same scale in all variants: colours of two methods can be compared.
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
    text = (
        "Tasks are trained from top to bottom; a task that turns dark again is "
        "forgotten."
    )
    title = "Every task over time"
    return Chart("evaluation", title, text, variants, "method")


def transfer_chart(comparison: Comparison, colours: Colours) -> Chart:
    """Draw forward transfer per task, with intervals over seeds."""
    figure = _figure("task", "forward transfer").update_layout(barmode="group")
    for method in comparison.records:
        mean, half = interval_bands(comparison.transfer(method))
        figure.add_bar(
            x=list(comparison.first_record.tasks),
            y=mean,
            error_y={"array": half, "thickness": 1},
            name=method,
            marker_color=colours[method],
        )
    text = (
        "1: the agent masters the task at once; 0: it learns as fast as an expert that "
        "learns this task alone."
    )
    return Chart("transfer", "Forward transfer", text, {"": figure})


def steps_chart(records: Sequence[Record], colours: Colours) -> Chart:
    """Draw the steps to a share of each task's target."""
    variants = {}
    for share in (0.75, 0.5):
        figure = _figure("task", "environment steps").update_layout(barmode="group")
        for record in records:
            # A visit that goes on may yet reach the target.
            ended = slice(record.schedule.visits_ended)
            steps = record.steps_to_target(share)[ended]
            lengths = [int(curve.steps[-1]) for curve in record.training[ended]]
            figure.add_bar(
                x=_visits([record])[ended],
                y=[n if s is None else s for s, n in zip(steps, lengths, strict=True)],
                text=["fail" if s is None else "" for s in steps],
                name=record.method,
                marker={
                    "color": colours[record.method],
                    "pattern": {"shape": ["/" if s is None else "" for s in steps]},
                },
            )
        variants[f"{share:.0%} of the target"] = figure
    text = "Steps of the mean over seeds, as in the paper. Hatched: never reached."
    return Chart("steps", "Time to target", text, variants, "target")


def coefficients_chart(learned: Mapping[str, LearnedMasks]) -> Chart:
    """Draw the final coefficients of every layer."""
    variants = {}
    for method, masks in learned.items():
        for layer, weights in masks.coefficients.items():
            figure = _matrix(weights.mean(0), masks.tasks, "weight")
            figure.update_layout(
                xaxis_title="mask of task", yaxis_title="learning task"
            )
            variants[f"{method} · {layer}"] = figure
    text = (
        "Weight of each mask, after the softmax, at the end of a task; mean over "
        "seeds. The diagonal is the task's own new mask."
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
        texttemplate="%{z:.2f}" if len(tasks) <= MAX_LABELLED_TASKS else None,
    )
    return figure.update_yaxes(autorange="reversed")


def similarity_chart(learned: Mapping[str, LearnedMasks]) -> Chart:
    """Draw the similarity of the masks of each two tasks."""
    variants = {}
    for method, masks in learned.items():
        # Only some rules for masks are binary: others have scores alone.
        for layer, scores in masks.scores.items():
            label = f"{method} · {layer}"
            distances = l2_distances(scores).mean(0)
            variants[f"{label} · L2"] = _matrix(distances, masks.tasks, "L2")
            if layer in masks.masks:
                bits = masks.masks[layer]
                pairs = {"Hamming": hamming_distances(bits), "overlap": overlaps(bits)}
                for name, values in pairs.items():
                    matrix = _matrix(values.mean(0), masks.tasks, name)
                    variants[f"{label} · {name}"] = matrix
    text = (
        "Mean over seeds. L2: distance of scores, as in the paper. Hamming: share of "
        "weights that only one of two tasks uses. Overlap: share of the weights of "
        "either task that both use."
    )
    title = "Mask similarity"
    return Chart("similarity", title, text, variants, "method, layer and measure")


def capacity_chart(learned: Mapping[str, LearnedMasks], colours: Colours) -> Chart:
    """Draw the share of the network in use, by the number of tasks that use it."""
    # Only binary masks switch weights off; others use all of them a little.
    binary = {method: m for method, m in learned.items() if m.masks}
    shares = {method: usage(m.masks.values()) for method, m in binary.items()}
    by_tasks = _figure("", "share of weights").update_layout(barmode="stack")
    for name, colour in with_colours(("by_none", "by_one", "by_several", "by_all")):
        by_tasks.add_bar(
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
    text = (
        "Share of weights by the number of tasks that use them, and the share of "
        "weights that each task uses."
    )
    variants = {"use by tasks": by_tasks, "density of masks": dense}
    return Chart("capacity", "Capacity", text, variants, "measure")


def reuse_chart(records: Sequence[Record]) -> Chart:
    """Draw the policies of agents on a new task, along its optimal path."""
    variants = {}
    for visit in range(num_previews(records)):
        preview, policies = preview_policies(records, visit)
        titles = list(policies)
        figure = make_subplots(len(titles), 1, shared_xaxes=True, subplot_titles=titles)
        for row, policy in enumerate(policies.values(), start=1):
            for action in range(policy.shape[1]):
                figure.add_bar(
                    x=list(range(len(policy))),
                    y=policy[:, action],
                    name=f"action {action}",
                    marker_color=PALETTE[action % len(PALETTE)],
                    showlegend=row == 1,  # all rows share one legend
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
        "Probabilities of all actions at each state of the optimal path, before any "
        "training on the task; mean over seeds."
    )
    return Chart("reuse", "Knowledge reuse", text, variants, "task")
