"""The view of an agent in a grid: the 7x7 cells ahead that no wall hides."""

from functools import cache
from types import ModuleType

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int, UInt8

from personae.envs.crossing.maze import DIRECTIONS, EMPTY, GOAL, LAVA, WALL, AnyArray

VIEW = 7
"""Rows and columns of the view; the agent is in the middle of the last row."""
CODES = np.zeros((10, 3), np.uint8)
"""Minigrid's code of each object: number, colour and state; all 0 out of view."""
CODES[[EMPTY, WALL, GOAL, LAVA]] = [(1, 0, 0), (2, 5, 0), (8, 1, 0), (9, 0, 0)]


@cache
def _light() -> UInt8[np.ndarray, "lit clear 2"]:
    """Return a table of the spread of light, for rows of seven bits.

    The first index is the cells of a row that are lit from below, the second the cells
    without a wall. The entry is all lit cells of the row, and the cells that they light
    in the next row. Minigrid goes over a row to the right and then to the left; each
    lit cell that is clear lights its neighbour on that side, and both cells ahead.
    """
    # A table, because a pass over a row is sequential: twelve dependent steps for each
    # of seven rows would be slow on a device.
    lit, clear = np.meshgrid(*[np.arange(2**VIEW)] * 2, indexing="ij")
    beyond = np.zeros_like(lit)
    for columns, side in ((range(VIEW - 1), 1), (range(VIEW - 1, 0, -1), -1)):
        for column in columns:
            shines = (lit & clear) >> column & 1
            lit |= shines << column + side
            beyond |= (shines << column) | (shines << column + side)
    return np.stack([lit, beyond], -1).astype(np.uint8)


def cells_ahead(
    xp: ModuleType,
    row: Int[AnyArray, ""],
    column: Int[AnyArray, ""],
    direction: Int[AnyArray, ""],
) -> tuple[AnyArray, AnyArray]:
    """Return rows and columns of the cells in view, `[across, along]` as Minigrid's.

    `xp` is numpy or jax.numpy, as the arrays are; cells may lie outside the grid.
    """
    directions = xp.asarray(DIRECTIONS)
    ahead, aside = directions[direction], directions[(direction + 1) % 4]
    along = VIEW - 1 - xp.arange(VIEW)[None, :]
    across = xp.arange(VIEW)[:, None] - VIEW // 2
    rows, columns = (
        own + ahead[axis] * along + aside[axis] * across
        for axis, own in enumerate((row, column))
    )
    return rows, columns


def visible(cells: UInt8[Array, "7 7"]) -> Bool[Array, "7 7"]:
    """Return which cells in view no wall hides."""
    # Rows are bit patterns, so that one look into the table replaces a pass over cells.
    bits = jnp.arange(VIEW)
    clear = jnp.sum((cells != WALL) << bits[:, None], axis=0)
    light, lit = jnp.asarray(_light()), jnp.asarray(1 << VIEW // 2)
    rows = []
    for along in reversed(range(VIEW)):
        row, lit = light[lit, clear[along]]
        rows.append(row)
    return (jnp.stack(rows[::-1]) >> bits[:, None] & 1).astype(bool)


def view(
    grid: UInt8[Array, "rows columns"],
    row: Int[Array, ""],
    column: Int[Array, ""],
    direction: Int[Array, ""],
) -> UInt8[Array, "7 7 3"]:
    """Return the view from a cell; beyond the grid there are walls."""
    rows, columns = cells_ahead(jnp, row, column, direction)
    height, width = grid.shape
    # Clipping repeats the border, and the border of every maze is wall.
    cells = grid[jnp.clip(rows, 0, height - 1), jnp.clip(columns, 0, width - 1)]
    # Minigrid shows the agent's own cell as what it carries: nothing here.
    numbers = jnp.where(visible(cells), cells.at[VIEW // 2, VIEW - 1].set(EMPTY), 0)
    return jnp.asarray(CODES)[numbers]
