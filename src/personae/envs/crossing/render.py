"""Pictures of a maze for people, in Minigrid's look."""

from functools import cache
from itertools import pairwise

import numpy as np
from jaxtyping import Bool, UInt8

from personae.envs.crossing.maze import EMPTY, GOAL, LAVA, WALL
from personae.envs.crossing.view import cells_ahead

TILE = 32
"""Pixels of a cell."""
FINE = 3
"""Subpixels of a pixel along each axis, whose mean is its colour."""
GREY, GREEN, ORANGE, RED, BLACK = (
    (100, 100, 100),
    (0, 255, 0),
    (255, 128, 0),
    (255, 0, 0),
    (0, 0, 0),
)
FILL = {WALL: GREY, GOAL: GREEN, LAVA: ORANGE}
LINE, WAVE = 0.031, 0.03
"""Width of the lines between cells, half the width of a wave in the lava."""
AGENT = ((0.12, 0.19), (0.87, 0.50), (0.12, 0.81))
"""Corners of the agent when it looks right."""
SHINE = 0.3
"""Share by which the colours of cells in view are moved towards white."""


def draw_maze(
    grid: UInt8[np.ndarray, "rows columns"],
    pose: tuple[int, int, int],
    observation: UInt8[np.ndarray, "7 7 3"],
) -> UInt8[np.ndarray, "height width 3"]:
    """Draw a maze with the agent in it, and its view in a lighter shade.

    The pose is the agent's row, column and direction.
    """
    row, column, direction = pose
    in_view = _cells_in_view(grid.shape, pose, observation)

    def tile(y: int, x: int) -> np.ndarray:
        agent = direction if (y, x) == (row, column) else None
        return _tile(int(grid[y, x]), agent, bool(in_view[y, x]))

    height, width = grid.shape
    return np.block([[[tile(y, x)] for x in range(width)] for y in range(height)])


def _cells_in_view(
    shape: tuple[int, ...],
    pose: tuple[int, int, int],
    observation: UInt8[np.ndarray, "7 7 3"],
) -> Bool[np.ndarray, "rows columns"]:
    """Return which cells of the maze the observation shows."""
    rows, columns = cells_ahead(np, *map(np.asarray, pose))
    # The observation, not the maze, says which cells walls hide: 0 is a hidden cell.
    visible = observation[..., 0] > 0
    visible &= (rows >= 0) & (rows < shape[0]) & (columns >= 0) & (columns < shape[1])
    in_view = np.zeros(shape, bool)
    in_view[rows[visible], columns[visible]] = True
    return in_view


@cache
def _tile(
    cell: int, agent: int | None, in_view: bool
) -> UInt8[np.ndarray, "height width 3"]:
    """Draw one cell; `agent` is the direction of the agent if it is in the cell."""
    # Cached: a maze has hundreds of cells, but only a few kinds of tile.
    points = (np.arange(TILE * FINE) + 0.5) / (TILE * FINE)
    x, y = np.meshgrid(points, points)
    fine = np.zeros((*x.shape, 3), np.uint8)
    fine[(x <= LINE) | (y <= LINE)] = GREY
    if cell != EMPTY:
        fine[:] = FILL[cell]
    if cell == LAVA:
        fine[_waves(x, y)] = BLACK
    if agent is not None:
        fine[_triangle(*_turned(x, y, agent))] = RED
    if in_view:
        fine = (fine + SHINE * (255 - fine)).astype(np.uint8)
    # Rounded down as by Minigrid, with whose pictures these agree up to one shade.
    blocks = fine.reshape(TILE, FINE, TILE, FINE, 3).astype(int)
    return (blocks.sum((1, 3)) // FINE**2).astype(np.uint8)


def _waves(x: np.ndarray, y: np.ndarray) -> Bool[np.ndarray, "n n"]:
    """Return which points lie on one of three zigzag lines."""
    on = np.zeros(x.shape, bool)
    for low in (0.3, 0.5, 0.7):
        corners = [(0.1 + 0.2 * i, low + 0.1 * (i % 2)) for i in range(5)]
        for (x0, y0), (x1, y1) in pairwise(corners):
            dx, dy = x1 - x0, y1 - y0
            # The nearest point of the segment, as a share of the way along it.
            share = ((x - x0) * dx + (y - y0) * dy) / (dx**2 + dy**2)
            share = np.clip(share, 0, 1)
            on |= np.hypot(x - x0 - share * dx, y - y0 - share * dy) <= WAVE
    return on


def _turned(
    x: np.ndarray, y: np.ndarray, quarters: int
) -> tuple[np.ndarray, np.ndarray]:
    """Rotate points about the middle, by a number of quarter turns."""
    for _ in range(quarters):
        x, y = y, 1 - x
    return x, y


def _triangle(x: np.ndarray, y: np.ndarray) -> Bool[np.ndarray, "n n"]:
    """Return which points lie in the agent's triangle: inside each of its edges."""
    inside = np.ones(x.shape, bool)
    for (x0, y0), (x1, y1) in zip(AGENT, AGENT[1:] + AGENT[:1], strict=True):
        inside &= (x1 - x0) * (y - y0) - (y1 - y0) * (x - x0) >= 0
    return inside
