"""What an agent sees in a grid: the 7x7 cells before it that walls do not hide."""

from functools import cache
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int, UInt8

from personae.envs.crossing.maze import DIRECTIONS, EMPTY, GOAL, LAVA, WALL

VIEW = 7
"""Rows and columns that are seen; the agent is in the middle of the last row."""
CODES = np.zeros((10, 3), np.uint8)
"""Minigrid's code of each object: its number, its colour, its state; 0 is unseen."""
CODES[[EMPTY, WALL, GOAL, LAVA]] = [(1, 0, 0), (2, 5, 0), (8, 1, 0), (9, 0, 0)]


@cache
def _light() -> UInt8[np.ndarray, "lit clear 2"]:
    """Tabulate how light spreads, for each row of seven bits.

    Given the cells of a row that are lit from below and those that can be seen through,
    it holds all cells of the row that are lit, and those that they light in the next.
    Minigrid goes over a row to the right and then to the left; each lit cell that is
    clear lights its neighbour on that side, and both cells before them.
    """
    lit, clear = np.meshgrid(*[np.arange(2**VIEW)] * 2, indexing="ij")
    beyond = np.zeros_like(lit)
    for columns, side in ((range(VIEW - 1), 1), (range(VIEW - 1, 0, -1), -1)):
        for column in columns:
            shines = (lit & clear) >> column & 1
            lit |= shines << column + side
            beyond |= (shines << column) | (shines << column + side)
    return np.stack([lit, beyond], -1).astype(np.uint8)


def cells_ahead(xp: Any, row: Any, column: Any, direction: Any) -> tuple[Any, Any]:
    """Return rows and columns of the cells in view, `[across, along]` as Minigrid's.

    `xp` is numpy or jax.numpy, according to what the place is given in.
    """
    directions = xp.asarray(DIRECTIONS)
    ahead, aside = directions[direction], directions[(direction + 1) % 4]
    along = VIEW - 1 - xp.arange(VIEW)[None, :]
    across = xp.arange(VIEW)[:, None] - VIEW // 2
    rows, columns = (
        start + ahead[axis] * along + aside[axis] * across
        for axis, start in enumerate((row, column))
    )
    return rows, columns


def visible(cells: UInt8[Array, "7 7"]) -> Bool[Array, "7 7"]:
    """Tell which cells in view no wall hides."""
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
    """Return what is seen from a cell; beyond the surrounding walls there are walls."""
    rows, columns = cells_ahead(jnp, row, column, direction)
    height, width = grid.shape
    cells = grid[jnp.clip(rows, 0, height - 1), jnp.clip(columns, 0, width - 1)]
    seen = jnp.where(visible(cells), cells.at[VIEW // 2, VIEW - 1].set(EMPTY), 0)
    return jnp.asarray(CODES)[seen]
