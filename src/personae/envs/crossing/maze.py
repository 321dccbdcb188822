"""Mazes of the crossing environments: as text, at random, and how they are solved.

A maze is a grid of Minigrid's object numbers; people write it as rows of text:

    #########
    #.#.....#      # wall   . floor   ~ lava   G goal
    #...~...#
    ...            the agent starts in the upper left corner, looking right
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float, Int, UInt8

from personae.errors import require

Grid = UInt8[np.ndarray, "rows columns"]
EMPTY, WALL, GOAL, LAVA = 1, 2, 8, 9
"""Minigrid's numbers of the objects."""
SYMBOLS = {".": EMPTY, "#": WALL, "G": GOAL, "~": LAVA}
OBSTACLES = {"wall": WALL, "lava": LAVA}
DIRECTIONS = np.array([(0, 1), (1, 0), (0, -1), (-1, 0)])
"""Rows and columns to the next cell, looking right, down, left and up."""
LEFT, RIGHT, FORWARD = range(3)


def to_grid(maze: Sequence[str]) -> Grid:
    """Read a maze from its rows of text."""
    where = "crossing maze"
    require(len(maze) >= 3, f"{where}: at least 3 rows are needed, not {len(maze)}")
    widths = {len(row) for row in maze}
    require(
        len(widths) == 1 and min(widths) >= 3,
        f"{where}: rows must be equally long, at least 3, not {sorted(widths)}",
    )
    unknown = sorted(set("".join(maze)) - SYMBOLS.keys())
    allowed = " ".join(SYMBOLS)
    require(not unknown, f"{where}: {unknown} are not among the symbols {allowed}")
    grid = np.array([[SYMBOLS[symbol] for symbol in row] for row in maze], np.uint8)
    border = np.concatenate([grid[0], grid[-1], grid[:, 0], grid[:, -1]])
    require(bool((border == WALL).all()), f"{where}: walls (#) must surround it")
    goals = int((grid == GOAL).sum())
    require(goals == 1, f"{where}: one goal (G) is needed, not {goals}")
    start = maze[1][1]
    require(start == ".", f"{where}: the agent starts where {start!r} is")
    return grid


def to_text(grid: Grid) -> tuple[str, ...]:
    """Write a maze as rows of text."""
    symbols = {number: symbol for symbol, number in SYMBOLS.items()}
    return tuple("".join(symbols[int(cell)] for cell in row) for row in grid)


def most_crossings(size: int) -> int:
    """Return how many crossings a square maze has room for."""
    return 2 * len(range(2, size - 2, 2))


def check_crossings(size: int, crossings: int, obstacle: str) -> None:
    """Refuse mazes that cannot be made."""
    require(
        size >= 5 and size % 2 == 1,
        f"crossing maze: size must be odd and at least 5, not {size}",
    )
    most = most_crossings(size)
    require(
        1 <= crossings <= most,
        f"crossing maze: size {size} has room for 1 to {most} crossings, not "
        f"{crossings}",
    )
    require(
        obstacle in OBSTACLES,
        f"crossing maze: obstacle must be wall or lava, not {obstacle!r}",
    )


def draws_for(room: int) -> int:
    """Return how many random numbers a maze of at most this size takes."""
    return 2 * room + 2 * most_crossings(room)


def carve_maze(
    xp: Any, chances: Any, room: int, size: Any, crossings: Any, obstacle: Any
) -> Any:
    """Make a maze of random numbers in 0..1, in the upper left of a square room.

    As Minigrid's crossing environments: rivers of the obstacle run from wall to wall,
    at even rows and columns; a path is drawn from chamber to chamber, in a random order
    of the rivers, and each is opened where the path crosses it. `xp` is numpy, or
    jax.numpy for mazes that are drawn on a device, where all but the room may vary.
    """
    places = xp.arange(room)
    possible = (places % 2 == 0) & (places >= 2) & (places < size - 2)
    chance = xp.where(possible, chances[: 2 * room].reshape(2, room), -1)
    before = xp.sum(chance.reshape(-1) > chance[..., None], axis=-1)
    rivers = possible & (before < crossings)  # across: at rows; down: at columns
    inside = (places > 0) & (places < size - 1)
    kinds = xp.where(rivers[0][:, None] | rivers[1], obstacle, EMPTY)
    grid = xp.where(inside[:, None] & inside, kinds, WALL)
    corner = xp.zeros(2, int)  # of the chamber: the rivers that lie behind
    for turn, where in chances[2 * room :].reshape(-1, 2):
        ahead = rivers & (places > corner[:, None])
        left = xp.sum(ahead, axis=1)
        far = xp.min(xp.where(ahead, places, size - 1), axis=1)
        crossed = xp.arange(2) == (turn * xp.sum(left) >= left[0])
        within = xp.floor(where * (far - corner - 1)).astype(int)
        row, column = xp.where(crossed, far, corner + 1 + within)
        more = xp.sum(left) > 0  # otherwise `far` is the wall at the end
        here = (places == row)[:, None] & (places == column)
        grid = xp.where(here & more, EMPTY, grid)
        corner = xp.where(crossed & more, far, corner)
    goal = places == size - 2
    return xp.where(goal[:, None] & goal, GOAL, grid).astype(xp.uint8)


def make_maze(
    seed: int, size: int = 9, crossings: int = 1, obstacle: str = "wall"
) -> tuple[str, ...]:
    """Return a random maze as text; the same seed gives the same maze."""
    check_crossings(size, crossings, obstacle)
    chances = np.random.default_rng(seed).random(draws_for(size))
    kind = OBSTACLES[obstacle]
    return to_text(carve_maze(np, chances, size, size, crossings, kind))


def distances(grid: Grid) -> Float[np.ndarray, "rows columns 4"]:
    """Return the fewest steps to the goal from each cell and direction."""
    steps = np.full((*grid.shape, 4), np.inf)
    steps[grid == GOAL] = 0
    open_ = (grid == EMPTY)[..., None]
    while True:
        best = 1 + _after_each_action(steps).min(0)
        shorter = np.where(open_, np.minimum(steps, best), steps)
        if (shorter == steps).all():
            return steps
        steps = shorter


def best_actions(grid: Grid) -> Int[np.ndarray, "rows columns 4"]:
    """Return an optimal action in each cell and direction; forward if it is one."""
    after = _after_each_action(distances(grid))[[FORWARD, LEFT, RIGHT]]
    return np.array([FORWARD, LEFT, RIGHT], np.int32)[after.argmin(0)]


def _after_each_action(
    steps: Float[np.ndarray, "rows columns 4"],
) -> Float[np.ndarray, "3 rows columns 4"]:
    """Return the steps that are left after turning left, right and going forward."""
    ahead = [np.roll(steps[..., d], -DIRECTIONS[d], (0, 1)) for d in range(4)]
    turned = (np.roll(steps, 1, -1), np.roll(steps, -1, -1))
    return np.stack([*turned, np.stack(ahead, -1)])
