"""Mazes of the crossing environments: their text, random mazes, shortest paths.

A maze is a grid of Minigrid's object numbers, written as rows of text:

    #########
    #.#.....#      # wall   . floor   ~ lava   G goal
    #...~...#
    ...            the agent starts in the upper left corner, looking right
"""

from collections.abc import Sequence
from types import ModuleType
from typing import TypeAlias, TypeVar

import jax
import numpy as np
from jaxtyping import Array, Float, Int, UInt8

from personae.errors import require

Grid: TypeAlias = UInt8[np.ndarray, "rows columns"]
Number: TypeAlias = int | Int[Array, ""] | UInt8[Array, ""]
"""A number, which JAX may trace."""
AnyArray = TypeVar("AnyArray", np.ndarray, jax.Array)
EMPTY, WALL, GOAL, LAVA = 1, 2, 8, 9
"""Minigrid's numbers of the objects; 0 is a cell that is not in view."""
SYMBOLS = {".": EMPTY, "#": WALL, "G": GOAL, "~": LAVA}
OBSTACLES = {"wall": WALL, "lava": LAVA}
DIRECTIONS = np.array([(0, 1), (1, 0), (0, -1), (-1, 0)])
"""Rows and columns to the next cell, looking right, down, left and up."""
LEFT, RIGHT, FORWARD = range(3)


def to_grid(maze: Sequence[str]) -> Grid:
    """Read a maze from its rows of text."""
    require(
        len(maze) >= 3, f"crossing maze: at least 3 rows are needed, not {len(maze)}"
    )
    widths = {len(row) for row in maze}
    require(
        len(widths) == 1 and min(widths) >= 3,
        f"crossing maze: rows must be equally long, at least 3, not {sorted(widths)}",
    )
    unknown = sorted(set("".join(maze)) - SYMBOLS.keys())
    allowed = " ".join(SYMBOLS)
    require(
        not unknown, f"crossing maze: {unknown} are not among the symbols {allowed}"
    )
    grid = np.array([[SYMBOLS[symbol] for symbol in row] for row in maze], np.uint8)
    border = np.concatenate([grid[0], grid[-1], grid[:, 0], grid[:, -1]])
    require(bool((border == WALL).all()), "crossing maze: walls (#) must surround it")
    goals = int((grid == GOAL).sum())
    require(goals == 1, f"crossing maze: one goal (G) is needed, not {goals}")
    start = maze[1][1]
    require(start == ".", f"crossing maze: the agent starts where {start!r} is")
    return grid


def to_text(grid: Grid) -> tuple[str, ...]:
    """Write a maze as rows of text."""
    symbols = {number: symbol for symbol, number in SYMBOLS.items()}
    return tuple("".join(symbols[int(cell)] for cell in row) for row in grid)


def max_crossings(size: int) -> int:
    """Return the largest number of crossings in a square maze of a size."""
    return 2 * len(range(2, size - 2, 2))


def check_crossings(size: int, crossings: int, obstacle: str) -> None:
    """Raise an error unless mazes of this kind exist."""
    require(
        size >= 5 and size % 2 == 1,
        f"crossing maze: size must be odd and at least 5, not {size}",
    )
    largest = max_crossings(size)
    require(
        1 <= crossings <= largest,
        f"crossing maze: size {size} has room for 1 to {largest} crossings, not "
        f"{crossings}",
    )
    require(
        obstacle in OBSTACLES,
        f"crossing maze: obstacle must be wall or lava, not {obstacle!r}",
    )


def num_draws(width: int) -> int:
    """Return the number of random numbers that a maze of at most this width takes."""
    # One for each row and column, to choose the rivers; two for each crossing.
    return 2 * width + 2 * max_crossings(width)


def carve_maze(
    xp: ModuleType,
    chances: Float[AnyArray, " draws"],
    width: int,
    size: Number,
    crossings: Number,
    obstacle: Number,
) -> UInt8[AnyArray, "width width"]:
    """Make a maze from random numbers, in the upper left corner of a square grid.

    As in Minigrid's crossing environments: rivers of the obstacle run from wall to
    wall, at even rows and columns; a path is drawn from chamber to chamber, in a random
    order of the rivers, and each is opened where the path crosses it.

    Args:
        xp: numpy, or jax.numpy for mazes that are drawn on a device; there all
            arguments but the width may be traced.
        chances: Random numbers in 0..1, as many as `num_draws` says.
        width: Rows and columns of the grid.
        size: Rows and columns of the maze, at most the width; walls fill up the rest.
        crossings: Number of rivers.
        obstacle: Object of which rivers consist.
    """
    indices = xp.arange(width)
    possible = (indices % 2 == 0) & (indices >= 2) & (indices < size - 2)
    # The rivers are the possible ones with the largest chances: a rank, not a sort or
    # a choice, because the number of crossings may be traced.
    chance = xp.where(possible, chances[: 2 * width].reshape(2, width), -1)
    rank = xp.sum(chance.reshape(-1) > chance[..., None], axis=-1)
    rivers = possible & (rank < crossings)  # across: at rows; down: at columns
    inside = (indices > 0) & (indices < size - 1)
    kinds = xp.where(rivers[0][:, None] | rivers[1], obstacle, EMPTY)
    grid = xp.where(inside[:, None] & inside, kinds, WALL)
    # The upper left corner of the path's current chamber: the rivers above and left.
    corner = xp.zeros(2, int)
    for turn, offset in chances[2 * width :].reshape(-1, 2):
        ahead = rivers & (indices > corner[:, None])
        num_ahead = xp.sum(ahead, axis=1)
        border = xp.min(xp.where(ahead, indices, size - 1), axis=1)
        crossed = xp.arange(2) == (turn * xp.sum(num_ahead) >= num_ahead[0])
        within = xp.floor(offset * (border - corner - 1)).astype(int)
        row, column = xp.where(crossed, border, corner + 1 + within)
        # The number of rounds is that of the largest maze. Once all rivers are crossed,
        # the border is the outer wall, which must stay whole.
        is_river = xp.sum(num_ahead) > 0
        opening = (indices == row)[:, None] & (indices == column)
        grid = xp.where(opening & is_river, EMPTY, grid)
        corner = xp.where(crossed & is_river, border, corner)
    goal = indices == size - 2
    maze: AnyArray = xp.where(goal[:, None] & goal, GOAL, grid).astype(xp.uint8)
    return maze


def make_maze(
    seed: int, size: int = 9, crossings: int = 1, obstacle: str = "wall"
) -> tuple[str, ...]:
    """Return a random maze as text; the same seed gives the same maze."""
    check_crossings(size, crossings, obstacle)
    chances = np.random.default_rng(seed).random(num_draws(size))
    grid = carve_maze(np, chances, size, size, crossings, OBSTACLES[obstacle])
    return to_text(grid)


def distances(grid: Grid) -> Float[np.ndarray, "rows columns 4"]:
    """Return the fewest steps to the goal from each cell and direction."""
    steps = np.full((*grid.shape, 4), np.inf)
    steps[grid == GOAL] = 0
    # Lava and walls keep an infinite distance: no path leads through them.
    is_floor = (grid == EMPTY)[..., None]
    while True:
        best = 1 + _distances_after_actions(steps).min(0)
        shorter = np.where(is_floor, np.minimum(steps, best), steps)
        if (shorter == steps).all():
            return steps
        steps = shorter


def best_actions(grid: Grid) -> Int[np.ndarray, "rows columns 4"]:
    """Return an optimal action in each cell and direction; forward if it is one."""
    # argmin takes the first of equals, so this order is the order of preference.
    preference = [FORWARD, LEFT, RIGHT]
    remaining = _distances_after_actions(distances(grid))[preference]
    return np.array(preference, np.int32)[remaining.argmin(0)]


def _distances_after_actions(
    steps: Float[np.ndarray, "rows columns 4"],
) -> Float[np.ndarray, "3 rows columns 4"]:
    """Return the distance to the goal after turning left, right and going forward."""
    # Rolling wraps around at the border, which is wall and thus infinitely far anyway.
    ahead = [np.roll(steps[..., d], -DIRECTIONS[d], (0, 1)) for d in range(4)]
    turned = (np.roll(steps, 1, -1), np.roll(steps, -1, -1))
    return np.stack([*turned, np.stack(ahead, -1)])
