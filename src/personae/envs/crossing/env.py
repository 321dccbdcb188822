"""Minigrid's crossing environments in pure JAX: find the way through walls or lava.

The agent starts in the upper left corner, looking right. It turns left (0), right (1)
or goes forward (2); Minigrid's other four actions can be allowed and do nothing here.
The goal ends the episode with the reward 1 - 0.9 t / max_steps, lava ends it without.
What is seen are the 7x7 cells ahead, as far as walls do not hide them: number, colour
and state of the object in each.

`Crossing` is a fixed maze per task: what is seen there depends on place and direction
only, so all views are made once and a step looks its own up. `RandomCrossing` draws a
new maze for each episode.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, UInt8

from personae.envs.crossing.maze import (
    DIRECTIONS,
    FORWARD,
    GOAL,
    LAVA,
    LEFT,
    OBSTACLES,
    RIGHT,
    WALL,
    best_actions,
    carve_maze,
    check_crossings,
    distances,
    draws_for,
    to_grid,
)
from personae.envs.crossing.render import draw_maze
from personae.envs.crossing.view import VIEW, view
from personae.errors import require
from personae.serialise import from_plain
from personae.types import PRNGKey, TimeStep

Grid = UInt8[Array, "rows columns"]
OBSERVATIONS = gym.spaces.Box(0, 255, (VIEW, VIEW, 3), np.uint8)
LONGEST_LIMIT = 2**31 - 1
PENALTY = 0.9
"""Share of the reward that is lost if the goal is reached at the last moment."""


class Place(NamedTuple):
    """Where the agent stands and looks."""

    row: Int[Array, ""]
    column: Int[Array, ""]
    direction: Int[Array, ""]


def _numbers(place: Place) -> tuple[int, int, int]:
    return int(place.row), int(place.column), int(place.direction)


def start() -> Place:
    """Return the upper left corner, looking right."""
    one = jnp.asarray(1, jnp.int32)
    return Place(one, one, jnp.asarray(0, jnp.int32))


def move(grid: Grid, place: Place, action: Int[Array, ""]) -> tuple[Place, Array]:
    """Turn or go forward; return the new place and the object that was walked onto."""
    row, column, direction = place
    ahead = jnp.asarray(DIRECTIONS, jnp.int32)[direction]
    cell = grid[row + ahead[0], column + ahead[1]]
    moves = (action == FORWARD) & (cell != WALL)
    turn = (action == RIGHT).astype(jnp.int32) - (action == LEFT)
    walked = Place(
        jnp.where(moves, row + ahead[0], row),
        jnp.where(moves, column + ahead[1], column),
        (direction + turn) % 4,
    )
    return walked, jnp.where(moves, cell, 0)


def outcome(
    cell: Array, time: Int[Array, ""], max_steps: Int[Array, ""]
) -> tuple[Float[Array, ""], Bool[Array, ""], Bool[Array, ""]]:
    """Return the reward, and whether the task or the time limit ends the episode."""
    reward = jnp.where(cell == GOAL, 1 - PENALTY * time / max_steps, 0.0)
    return reward, (cell == GOAL) | (cell == LAVA), time >= max_steps


@dataclass(frozen=True, kw_only=True)
class Rules:
    """What all mazes have."""

    max_steps: int | None = None
    """Time limit of an episode; by default 4 steps for each cell, as in Minigrid."""
    all_actions: bool = False
    """Whether Minigrid's other four actions are there too; they do nothing."""

    def __post_init__(self) -> None:
        fits = self.max_steps is None or 1 <= self.max_steps <= LONGEST_LIMIT
        require(
            fits,
            f"crossing: max_steps must lie in 1..{LONGEST_LIMIT}, not {self.max_steps}",
        )


@dataclass(frozen=True)
class CrossingOptions(Rules):
    """One task: a maze, drawn in text."""

    maze: tuple[str, ...] = (
        "#########",
        "#...#...#",
        "#...#...#",
        "#...#...#",
        "#.......#",
        "#...#...#",
        "#...#...#",
        "#...#..G#",
        "#########",
    )
    """Rows of the maze: # wall, . floor, ~ lava, G goal."""

    def __post_init__(self) -> None:
        super().__post_init__()
        steps = self._distance
        require(steps < np.inf, "crossing maze: no path leads from start to goal")
        require(
            steps <= self.step_limit,
            f"crossing: the shortest path has {steps:g} steps, more than the time "
            f"limit (max_steps) of {self.step_limit}",
        )

    @cached_property
    def grid(self) -> UInt8[np.ndarray, "rows columns"]:
        """The maze as numbers of objects."""
        return to_grid(self.maze)

    @cached_property
    def _distance(self) -> float:
        return float(distances(self.grid)[1, 1, 0])

    @property
    def step_limit(self) -> int:
        """The time limit of an episode."""
        return self.max_steps or 4 * self.grid.size

    @property
    def shortest_path(self) -> int:
        """Steps of an optimal policy."""
        return int(self._distance)

    @property
    def best_return(self) -> float:
        """Return of an optimal policy."""
        return 1 - PENALTY * self.shortest_path / self.step_limit


def _action_space(options: Sequence[Rules]) -> gym.spaces.Discrete:
    kinds = {o.all_actions for o in options}
    require(len(kinds) == 1, "crossing: all_actions must be the same in all tasks")
    return gym.spaces.Discrete(7 if kinds.pop() else 3)


class CrossingParams(NamedTuple):
    """A maze as arrays."""

    grid: Grid
    views: UInt8[Array, "rows columns 4 7 7 3"]
    best: Int[Array, "rows columns 4"]
    """An optimal action in each place."""
    shape: Int[Array, "2"]
    """Rows and columns; what is beyond is there for larger mazes of the curriculum."""
    max_steps: Int[Array, ""]


class CrossingState(NamedTuple):
    """Where the agent is, and since when."""

    place: Place
    time: Int[Array, ""]


@dataclass(frozen=True)
class Crossing:
    """A maze that is the same in every episode."""

    action_space: gym.spaces.Discrete
    longest_solution: int

    @property
    def observation_space(self) -> gym.spaces.Box:
        """Object, colour and state of the cells ahead."""
        return OBSERVATIONS

    @property
    def deterministic(self) -> bool:
        """Nothing is drawn at random."""
        return True

    def reset(
        self, params: CrossingParams, key: PRNGKey
    ) -> tuple[CrossingState, UInt8[Array, "7 7 3"]]:
        """Start in the corner."""
        state = CrossingState(start(), jnp.asarray(0, jnp.int32))
        return state, params.views[state.place]

    def step(
        self,
        params: CrossingParams,
        state: CrossingState,
        action: Int[Array, ""],
        key: PRNGKey,
    ) -> tuple[CrossingState, TimeStep]:
        """Turn or go forward."""
        place, cell = move(params.grid, state.place, action)
        time = state.time + 1
        ends = outcome(cell, time, params.max_steps)
        return CrossingState(place, time), TimeStep(params.views[place], *ends)

    def optimal_action(
        self, params: CrossingParams, state: CrossingState
    ) -> Int[Array, ""]:
        """Return the first action of a shortest path; forward if it is one."""
        return params.best[state.place]

    def render(
        self,
        params: CrossingParams,
        state: CrossingState,
        observation: UInt8[np.ndarray, "7 7 3"],
    ) -> UInt8[np.ndarray, "height width 3"]:
        """Draw the maze as Minigrid does, what is seen in a lighter shade."""
        rows, columns = np.asarray(params.shape)
        grid = np.asarray(params.grid)[:rows, :columns]
        return draw_maze(grid, _numbers(state.place), observation)


def build(tasks: Sequence[Mapping[str, Any]]) -> tuple[Crossing, CrossingParams]:
    """Build the environment of fixed mazes, and their params stacked."""
    options = [from_plain(CrossingOptions, task, "crossing options") for task in tasks]
    shapes = np.array([o.grid.shape for o in options], np.int32)
    env = Crossing(_action_space(options), max(o.shortest_path for o in options))
    grids = [_widen(o.grid, shapes.max(0)) for o in options]
    stacked = jnp.asarray(np.stack(grids))
    return env, CrossingParams(
        grid=stacked,
        views=all_views(stacked),
        best=jnp.asarray(np.stack([best_actions(grid) for grid in grids])),
        shape=jnp.asarray(shapes),
        max_steps=jnp.asarray([o.step_limit for o in options], jnp.int32),
    )


def _widen(grid: np.ndarray, room: np.ndarray) -> np.ndarray:
    """Surround a maze by more walls, which is what is seen beyond a maze anyway."""
    more = room - grid.shape
    return np.pad(grid, [(0, more[0]), (0, more[1])], constant_values=WALL)


@jax.jit
def all_views(grids: UInt8[Array, "mazes rows columns"]) -> UInt8[Array, "..."]:
    """Return what is seen in each maze from each row and column, in each direction."""
    in_directions = jax.vmap(view, (None, None, None, 0))
    in_row = jax.vmap(in_directions, (None, None, 0, None))
    in_maze = jax.vmap(in_row, (None, 0, None, None))
    rows, columns = map(jnp.arange, grids.shape[1:])
    return jax.vmap(in_maze, (0, None, None, None))(grids, rows, columns, jnp.arange(4))


@dataclass(frozen=True)
class RandomCrossingOptions(Rules):
    """One task: mazes of one kind."""

    size: int = 9
    """Rows and columns, walls included; odd."""
    crossings: int = 1
    """Rivers of obstacles on the way."""
    obstacle: str = "wall"
    """wall or lava."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_crossings(self.size, self.crossings, self.obstacle)


class RandomCrossingParams(NamedTuple):
    """The kind of maze as numbers."""

    size: Int[Array, ""]
    crossings: Int[Array, ""]
    obstacle: UInt8[Array, ""]
    max_steps: Int[Array, ""]


class RandomCrossingState(NamedTuple):
    """This episode's maze, where the agent is, and since when."""

    grid: Grid
    place: Place
    time: Int[Array, ""]


@dataclass(frozen=True)
class RandomCrossing:
    """A maze that is drawn anew for each episode."""

    action_space: gym.spaces.Discrete
    room: int
    """Rows and columns of the largest maze."""

    @property
    def observation_space(self) -> gym.spaces.Box:
        """Object, colour and state of the cells ahead."""
        return OBSERVATIONS

    @property
    def deterministic(self) -> bool:
        """The maze is random."""
        return False

    def reset(
        self, params: RandomCrossingParams, key: PRNGKey
    ) -> tuple[RandomCrossingState, UInt8[Array, "7 7 3"]]:
        """Draw a maze and start in its corner."""
        chances = jax.random.uniform(key, (draws_for(self.room),))
        grid = carve_maze(jnp, chances, self.room, *params[:3])
        place = start()
        state = RandomCrossingState(grid, place, jnp.asarray(0, jnp.int32))
        return state, view(grid, *place)

    def step(
        self,
        params: RandomCrossingParams,
        state: RandomCrossingState,
        action: Int[Array, ""],
        key: PRNGKey,
    ) -> tuple[RandomCrossingState, TimeStep]:
        """Turn or go forward."""
        place, cell = move(state.grid, state.place, action)
        time = state.time + 1
        ends = outcome(cell, time, params.max_steps)
        step = TimeStep(view(state.grid, *place), *ends)
        return RandomCrossingState(state.grid, place, time), step

    def render(
        self,
        params: RandomCrossingParams,
        state: RandomCrossingState,
        observation: UInt8[np.ndarray, "7 7 3"],
    ) -> UInt8[np.ndarray, "height width 3"]:
        """Draw the maze as Minigrid does, what is seen in a lighter shade."""
        size = int(params.size)
        grid = np.asarray(state.grid)[:size, :size]
        return draw_maze(grid, _numbers(state.place), observation)


def build_random(
    tasks: Sequence[Mapping[str, Any]],
) -> tuple[RandomCrossing, RandomCrossingParams]:
    """Build the environment of random mazes, and the kinds of maze stacked."""
    where = "random crossing options"
    options = [from_plain(RandomCrossingOptions, task, where) for task in tasks]
    env = RandomCrossing(_action_space(options), max(o.size for o in options))
    limits = [o.max_steps or 4 * o.size**2 for o in options]
    obstacles = [OBSTACLES[o.obstacle] for o in options]
    return env, RandomCrossingParams(
        size=jnp.asarray([o.size for o in options], jnp.int32),
        crossings=jnp.asarray([o.crossings for o in options], jnp.int32),
        obstacle=jnp.asarray(obstacles, jnp.uint8),
        max_steps=jnp.asarray(limits, jnp.int32),
    )
