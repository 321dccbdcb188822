"""Mazes of the crossing environments: as text, at random, and how they are solved.

A maze is a grid of Minigrid's object numbers; people write it as rows of text:

    #########
    #.#.....#      # wall   . floor   ~ lava   G goal
    #...~...#
    ...            the agent starts in the upper left corner, looking right
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, UInt8

from personae.errors import require
from personae.types import PRNGKey

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
    reachable = bool(np.isfinite(distances(grid)[1, 1, 0]))
    require(reachable, f"{where}: no path leads from the start to the goal")
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


@partial(jax.jit, static_argnums=1)
def random_maze(
    key: PRNGKey,
    room: int,
    size: Int[Array, ""],
    crossings: Int[Array, ""],
    obstacle: UInt8[Array, ""],
) -> UInt8[Array, "room room"]:
    """Draw a maze as Minigrid's crossing environments do, in the corner of the room.

    Rivers of the obstacle run from wall to wall, at even rows and columns. A path is
    drawn from room to room, in a random order of the rivers, and each is opened where
    the path crosses it.
    """
    steps = most_crossings(room)
    # One draw for all that is random: many small ones would take most of the time.
    drawn = jax.random.uniform(key, (2 * room + 2 * steps,))
    places = jnp.arange(room)
    possible = (places % 2 == 0) & (places >= 2) & (places < size - 2)
    chance = jnp.where(possible, drawn[: 2 * room].reshape(2, room), -1)
    before = jnp.sum(chance.ravel() > chance[..., None], axis=-1)
    rivers = possible & (before < crossings)  # across: at rows; down: at columns

    def next_river(lines: Array, place: Array) -> Array:
        return jnp.min(jnp.where(lines & (places > place), places, size - 1))

    def cross(walk: tuple[Array, Array], chances: Float[Array, "2"]) -> Any:
        grid, corner = walk  # the room's upper left corner: the rivers behind it
        left = jnp.sum(rivers & (places > corner[:, None]), axis=1)
        axis = (chances[0] * left.sum() >= left[0]).astype(int)
        far = jax.vmap(next_river)(rivers, corner)
        within = jnp.floor(chances[1] * (far - corner - 1)).astype(int)
        crossed = jnp.arange(2) == axis
        opening = jnp.where(crossed, far, corner + 1 + within)
        here = (places == opening[0])[:, None] & (places == opening[1])
        more = left.sum() > 0  # otherwise `far` is the wall at the end
        grid = jnp.where(here & more, EMPTY, grid).astype(jnp.uint8)
        return (grid, jnp.where(crossed & more, far, corner)), None

    blocked = rivers[0][:, None] | rivers[1][None, :]
    inside = (places > 0) & (places < size - 1)
    kinds = jnp.where(blocked, obstacle, EMPTY)
    grid = jnp.where(inside[:, None] & inside[None, :], kinds, WALL).astype(jnp.uint8)
    chances = drawn[2 * room :].reshape(steps, 2)
    walk = (grid, jnp.zeros(2, int))
    (grid, _), _ = jax.lax.scan(cross, walk, chances, unroll=True)
    return grid.at[size - 2, size - 2].set(GOAL)


def make_maze(
    seed: int, size: int = 9, crossings: int = 1, obstacle: str = "wall"
) -> tuple[str, ...]:
    """Return a random maze as text; the same seed gives the same maze."""
    check_crossings(size, crossings, obstacle)
    numbers = (jnp.asarray(size), jnp.asarray(crossings))
    drawn = random_maze(
        jax.random.key(seed),
        size,
        *numbers,
        jnp.asarray(OBSTACLES[obstacle], jnp.uint8),
    )
    return to_text(np.asarray(drawn))


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
