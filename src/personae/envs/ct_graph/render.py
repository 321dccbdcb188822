"""Pictures of the CT-graph for people: the tree, the goal, the path, the agent."""

from typing import TypeAlias

import matplotlib.patheffects as effects
import numpy as np
from jaxtyping import UInt8
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

HOME, WAIT, DECISION, LEAF, CRASH = range(5)
"""The kinds of state."""
Point: TypeAlias = tuple[float, float]

GREY, BLUE, ORANGE, GREEN = "#c9ced6", "#0072b2", "#d55e00", "#009e73"


def draw_graph(
    *,
    branch: int,
    depth: int,
    goal: int,
    kind: int,
    node: int,
    observation: UInt8[np.ndarray, "n n"],
) -> UInt8[np.ndarray, "height width 3"]:
    """Draw one state; nodes are numbered breadth first as in `ct_graph`."""
    # Not by pyplot, which would keep the figure and need the main thread.
    figure = Figure(figsize=(7.2, 4.8), dpi=100, layout="constrained")
    tree, picture = figure.subplots(1, 2, width_ratios=[3.2, 1])
    _draw_tree(tree, branch, depth, goal)
    _draw_path(tree, branch, depth, kind, node)
    tree.set_title(["home", "wait", "decision", "leaf", "crash"][kind], loc="left")
    picture.imshow(observation, cmap="gray", vmin=0, vmax=255)
    picture.set_title("observation", fontsize=10)
    for axes in (tree, picture):
        axes.set_axis_off()
    canvas = FigureCanvasAgg(figure)
    canvas.draw()  # type: ignore[no-untyped-call]
    pixels = np.asarray(canvas.buffer_rgba())  # type: ignore[no-untyped-call]
    return pixels[..., :3].copy()


def _level(branch: int, node: int) -> tuple[int, int]:
    """Return a node's depth and its index among the nodes of that depth."""
    depth, first, width = 0, 0, 1
    while node >= first + width:
        first, width, depth = first + width, width * branch, depth + 1
    return depth, node - first


def _wait_point(branch: int, node: int) -> Point:
    depth, index = _level(branch, node)
    return 2.0 * depth + 1, (index + 0.5) / branch**depth


def _state_point(branch: int, kind: int, node: int) -> Point:
    x, y = _wait_point(branch, node)
    # A crash comes from the wait or the decision of its node: it is drawn between them.
    points = {HOME: (0.0, 0.5), WAIT: (x, y), CRASH: (x + 0.5, y)}
    return points.get(kind, (x + 1, y))


def _draw_tree(axes: Axes, branch: int, depth: int, goal: int) -> None:
    num_decisions = (branch**depth - 1) // (branch - 1)
    for node in range(num_decisions + branch**depth):
        wait, end = _wait_point(branch, node), _state_point(branch, DECISION, node)
        parent = (node - 1) // branch
        before = (0.0, 0.5) if node == 0 else _state_point(branch, DECISION, parent)
        _line(axes, [before, wait, end], GREY, 1.5)
        axes.plot(*wait, "o", color=GREY, markersize=4)
        is_decision = node < num_decisions
        axes.plot(*end, "D" if is_decision else "s", color="#8a93a0", markersize=6)
    axes.plot(0, 0.5, "o", color="#8a93a0", markersize=9)
    point = _state_point(branch, LEAF, goal)
    axes.plot(*point, "*", color=GREEN, markersize=20, label="goal")
    axes.invert_yaxis()


def _draw_path(axes: Axes, branch: int, depth: int, kind: int, node: int) -> None:
    agent = _state_point(branch, kind, node)
    # The graph is a tree, so the node alone determines the path to it.
    if kind != HOME:
        points, ancestor = [agent, _wait_point(branch, node)], node
        while ancestor > 0:
            ancestor = (ancestor - 1) // branch
            points += [
                _state_point(branch, DECISION, ancestor),
                _wait_point(branch, ancestor),
            ]
        _line(axes, [*points, (0.0, 0.5)], BLUE, 3.0)
    marker, colour = ("X", ORANGE) if kind == CRASH else ("o", BLUE)
    (spot,) = axes.plot(*agent, marker, color=colour, markersize=13, label="agent")
    spot.set_path_effects([effects.withStroke(linewidth=4, foreground="white")])
    axes.legend(
        loc="upper center",
        bbox_to_anchor=(0.5, 0.0),
        ncols=2,
        frameon=False,
        fontsize=9,
    )


def _line(axes: Axes, points: list[Point], colour: str, width: float) -> None:
    axes.plot(*zip(*points, strict=True), color=colour, linewidth=width, zorder=1)
