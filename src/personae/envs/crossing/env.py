"""Minigrid's crossing environments in pure JAX: find the way through walls or lava.

The agent starts in the upper left corner, looking right. It turns left (0), right (1)
or goes forward (2); Minigrid's other four actions can be allowed and do nothing here.
The goal ends the episode with the reward 1 - 0.9 t / max_steps, lava ends it without.
An observation is the 7x7 cells ahead, as far as walls do not hide them: number, colour
and state of the object in each.

`Crossing` is a fixed maze per task: views depend on position and direction only, so all
of them are made once and a step looks its own up. `RandomCrossing` draws a new maze for
each episode.
"""

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from functools import cached_property
from typing import NamedTuple, TypeAlias

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
    num_draws,
    to_grid,
)
from personae.envs.crossing.render import draw_maze
from personae.envs.crossing.view import VIEW, view
from personae.errors import require
from personae.serialise import from_plain
from personae.types import PRNGKey, TimeStep

Grid: TypeAlias = UInt8[Array, "rows columns"]
OBSERVATIONS = gym.spaces.Box(0, 255, (VIEW, VIEW, 3), np.uint8)
LONGEST_LIMIT = 2**31 - 1
PENALTY = 0.9
"""Share of the reward that is lost if the goal is reached at the last moment."""


class Pose(NamedTuple):
    """The cell of the agent, and the direction in which it looks."""

    row: Int[Array, ""]
    column: Int[Array, ""]
    direction: Int[Array, ""]


def start_pose() -> Pose:
    """Return the upper left corner, looking right."""
    first = jnp.asarray(1, jnp.int32)
    return Pose(first, first, jnp.asarray(0, jnp.int32))


def move(
    grid: Grid, pose: Pose, action: Int[Array, ""]
) -> tuple[Pose, UInt8[Array, ""]]:
    """Turn or go forward; return the new pose and the object in a cell entered."""
    row, column, direction = pose
    ahead = jnp.asarray(DIRECTIONS, jnp.int32)[direction]
    cell = grid[row + ahead[0], column + ahead[1]]
    moves = (action == FORWARD) & (cell != WALL)
    turn = (action == RIGHT).astype(jnp.int32) - (action == LEFT)
    new_pose = Pose(
        jnp.where(moves, row + ahead[0], row),
        jnp.where(moves, column + ahead[1], column),
        (direction + turn) % 4,
    )
    # 0 without a move: an agent that only turns next to lava has not entered it.
    return new_pose, jnp.where(moves, cell, 0)


def outcome(
    cell: UInt8[Array, ""], time: Int[Array, ""], max_steps: Int[Array, ""]
) -> tuple[Float[Array, ""], Bool[Array, ""], Bool[Array, ""], Bool[Array, ""]]:
    """Return reward, termination, truncation and success of entering a cell."""
    reward = jnp.where(cell == GOAL, 1 - PENALTY * time / max_steps, 0.0)
    # The goal ends the episode, so it is never reached before the current step.
    success = cell == GOAL
    return reward, success | (cell == LAVA), time >= max_steps, success


def _check_max_steps(max_steps: int | None) -> None:
    require(
        max_steps is None or 1 <= max_steps <= LONGEST_LIMIT,
        f"crossing: max_steps must lie in 1..{LONGEST_LIMIT}, not {max_steps}",
    )


@dataclass(frozen=True)
class CrossingOptions:
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
    _: KW_ONLY
    max_steps: int | None = None
    """Time limit of an episode; by default 4 steps for each cell, as in Minigrid."""
    all_actions: bool = False
    """Whether Minigrid's other four actions are there too; they do nothing."""

    def __post_init__(self) -> None:
        _check_max_steps(self.max_steps)
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


def _action_space(all_actions: Sequence[bool]) -> gym.spaces.Discrete:
    # One curriculum has one action space: its network has one output per action.
    kinds = set(all_actions)
    require(len(kinds) == 1, "crossing: all_actions must be the same in all tasks")
    return gym.spaces.Discrete(7 if kinds.pop() else 3)


class CrossingParams(NamedTuple):
    """A maze as arrays."""

    grid: Grid
    views: UInt8[Array, "rows columns 4 7 7 3"]
    best: Int[Array, "rows columns 4"]
    """An optimal action for each pose."""
    shape: Int[Array, "2"]
    """Rows and columns; the arrays are as large as the curriculum's largest maze."""
    max_steps: Int[Array, ""]


class CrossingState(NamedTuple):
    """The pose of the agent, and the steps of the episode so far."""

    pose: Pose
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
        """True: nothing is drawn at random."""
        return True

    def reset(
        self, params: CrossingParams, key: PRNGKey
    ) -> tuple[CrossingState, UInt8[Array, "7 7 3"]]:
        """Start in the corner."""
        state = CrossingState(start_pose(), jnp.asarray(0, jnp.int32))
        return state, params.views[state.pose]

    def step(
        self,
        params: CrossingParams,
        state: CrossingState,
        action: Int[Array, ""],
        key: PRNGKey,
    ) -> tuple[CrossingState, TimeStep]:
        """Turn or go forward."""
        pose, cell = move(params.grid, state.pose, action)
        time = state.time + 1
        step = TimeStep(params.views[pose], *outcome(cell, time, params.max_steps))
        return CrossingState(pose, time), step

    def optimal_action(
        self, params: CrossingParams, state: CrossingState
    ) -> Int[Array, ""]:
        """Return the first action of a shortest path; forward if it is one."""
        return params.best[state.pose]

    def render(
        self,
        params: CrossingParams,
        state: CrossingState,
        observation: UInt8[np.ndarray, "7 7 3"],
    ) -> UInt8[np.ndarray, "height width 3"]:
        """Draw the maze as Minigrid does, the view in a lighter shade."""
        rows, columns = map(int, params.shape)
        return _draw(params.grid, rows, columns, state.pose, observation)


def _draw(
    grid: Grid,
    rows: int,
    columns: int,
    pose: Pose,
    observation: UInt8[np.ndarray, "7 7 3"],
) -> UInt8[np.ndarray, "height width 3"]:
    row, column, direction = map(int, pose)
    maze = np.asarray(grid)[:rows, :columns]
    return draw_maze(maze, (row, column, direction), observation)


def build(tasks: Sequence[Mapping[str, object]]) -> tuple[Crossing, CrossingParams]:
    """Build the environment of fixed mazes, and their stacked params."""
    options = [from_plain(CrossingOptions, task, "crossing options") for task in tasks]
    shapes = np.array([o.grid.shape for o in options], np.int32)
    space = _action_space([o.all_actions for o in options])
    env = Crossing(space, max(o.shortest_path for o in options))
    grids = [_widen(o.grid, shapes.max(0)) for o in options]
    stacked = jnp.asarray(np.stack(grids))
    return env, CrossingParams(
        grid=stacked,
        views=all_views(stacked),
        best=jnp.asarray(np.stack([best_actions(grid) for grid in grids])),
        shape=jnp.asarray(shapes),
        max_steps=jnp.asarray([o.step_limit for o in options], jnp.int32),
    )


def _widen(grid: np.ndarray, shape: np.ndarray) -> np.ndarray:
    """Fill a maze up to a shape, with walls below and on the right."""
    # Views beyond the border of a maze show walls too, so no observation changes.
    missing = shape - grid.shape
    return np.pad(grid, [(0, missing[0]), (0, missing[1])], constant_values=WALL)


@jax.jit
def all_views(grids: UInt8[Array, "mazes rows columns"]) -> UInt8[Array, "..."]:
    """Return the view in each maze from each row and column, in each direction."""
    in_directions = jax.vmap(view, (None, None, None, 0))
    in_row = jax.vmap(in_directions, (None, None, 0, None))
    in_maze = jax.vmap(in_row, (None, 0, None, None))
    rows, columns = map(jnp.arange, grids.shape[1:])
    return jax.vmap(in_maze, (0, None, None, None))(grids, rows, columns, jnp.arange(4))


@dataclass(frozen=True)
class RandomCrossingOptions:
    """One task: mazes of one kind."""

    size: int = 9
    """Rows and columns, walls included; odd."""
    crossings: int = 1
    """Rivers of obstacles on the way."""
    obstacle: str = "wall"
    """wall or lava."""
    _: KW_ONLY
    max_steps: int | None = None
    """Time limit of an episode; by default 4 steps for each cell, as in Minigrid."""
    all_actions: bool = False
    """Whether Minigrid's other four actions are there too; they do nothing."""

    def __post_init__(self) -> None:
        _check_max_steps(self.max_steps)
        check_crossings(self.size, self.crossings, self.obstacle)


class RandomCrossingParams(NamedTuple):
    """The kind of maze as numbers."""

    size: Int[Array, ""]
    crossings: Int[Array, ""]
    obstacle: UInt8[Array, ""]
    max_steps: Int[Array, ""]


class RandomCrossingState(NamedTuple):
    """The maze of the episode, the pose of the agent, and the steps so far."""

    grid: Grid
    pose: Pose
    time: Int[Array, ""]


@dataclass(frozen=True)
class RandomCrossing:
    """A maze that is drawn anew for each episode."""

    action_space: gym.spaces.Discrete
    width: int
    """Rows and columns of the largest maze."""

    @property
    def observation_space(self) -> gym.spaces.Box:
        """Object, colour and state of the cells ahead."""
        return OBSERVATIONS

    @property
    def deterministic(self) -> bool:
        """False: the maze is random."""
        return False

    def reset(
        self, params: RandomCrossingParams, key: PRNGKey
    ) -> tuple[RandomCrossingState, UInt8[Array, "7 7 3"]]:
        """Draw a maze and start in its corner."""
        chances = jax.random.uniform(key, (num_draws(self.width),))
        kind = params.size, params.crossings, params.obstacle
        grid = carve_maze(jnp, chances, self.width, *kind)
        pose = start_pose()
        state = RandomCrossingState(grid, pose, jnp.asarray(0, jnp.int32))
        return state, view(grid, *pose)

    def step(
        self,
        params: RandomCrossingParams,
        state: RandomCrossingState,
        action: Int[Array, ""],
        key: PRNGKey,
    ) -> tuple[RandomCrossingState, TimeStep]:
        """Turn or go forward."""
        pose, cell = move(state.grid, state.pose, action)
        time = state.time + 1
        observation = view(state.grid, *pose)
        step = TimeStep(observation, *outcome(cell, time, params.max_steps))
        return RandomCrossingState(state.grid, pose, time), step

    def render(
        self,
        params: RandomCrossingParams,
        state: RandomCrossingState,
        observation: UInt8[np.ndarray, "7 7 3"],
    ) -> UInt8[np.ndarray, "height width 3"]:
        """Draw the maze as Minigrid does, the view in a lighter shade."""
        size = int(params.size)
        return _draw(state.grid, size, size, state.pose, observation)


def build_random(
    tasks: Sequence[Mapping[str, object]],
) -> tuple[RandomCrossing, RandomCrossingParams]:
    """Build the environment of random mazes, and the stacked kinds of maze."""
    name = "random crossing options"
    options = [from_plain(RandomCrossingOptions, task, name) for task in tasks]
    space = _action_space([o.all_actions for o in options])
    env = RandomCrossing(space, max(o.size for o in options))
    limits = [o.max_steps or 4 * o.size**2 for o in options]
    obstacles = [OBSTACLES[o.obstacle] for o in options]
    return env, RandomCrossingParams(
        size=jnp.asarray([o.size for o in options], jnp.int32),
        crossings=jnp.asarray([o.crossings for o in options], jnp.int32),
        obstacle=jnp.asarray(obstacles, jnp.uint8),
        max_steps=jnp.asarray(limits, jnp.int32),
    )
