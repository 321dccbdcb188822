"""The configurable tree graph (CT-graph; Soltoggio et al.) in pure JAX.

An episode walks down a tree with branching b and depth d:

    home -> wait -> decision -> wait -> decision -> ... -> wait -> leaf

* home: any action leads to the first wait state.
* wait: action 0 moves on (with probability p it stays); any other action crashes.
* decision: action 1..b takes that branch; action 0 crashes.
* crash: the episode ends at once with the crash reward (0).
* leaf: entering it pays the high reward if it is the goal, else 0, and paints the
  reward into the picture; the next action, whatever it is, ends the episode.

Random actions find the goal with probability 3^-(2d+1) for b = 2 and p = 0. An
observation is a 12x12 grey picture: 0 home, 1 crash, then those of waits, decisions and
leaves. A state type is an MDP if each of its states has a picture of its own, else its
states share a set of pictures, drawn at random if there are several.

Nodes are numbered breadth first: child a (1..b) of node n is `n * b + a`.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.ndimage import map_coordinates
from jaxtyping import Array, Bool, Float, Int, UInt8

from personae.envs.ct_graph.images import CUE, SIZE, WHITE, draw_images
from personae.envs.ct_graph.render import (
    CRASH,
    DECISION,
    HOME,
    LEAF,
    WAIT,
    draw_graph,
)
from personae.errors import require
from personae.serialise import from_plain
from personae.types import PRNGKey, TimeStep


@dataclass(frozen=True)
class CTGraphOptions:
    """One task: the shape of the graph, the goal, and the pictures."""

    depth: int = 2
    """Number of decisions on the way to a leaf, d."""
    goal: tuple[int, ...] = (0, 0)
    """Branch (0..b-1) to take at each decision to reach the reward."""
    branch: int = 2
    """Branches at each decision, b."""
    wait_probability: float = 0.0
    """Probability p that a wait state repeats itself."""
    high_reward: float = 1.0
    """Reward of the goal leaf."""
    crash_reward: float = 0.0
    """Reward of a crash."""
    reward_noise: float = 0.0
    """Standard deviation of the goal reward, as a share of it."""
    mdp_waits: bool = False
    """Whether each wait state has a picture of its own."""
    mdp_decisions: bool = True
    """Whether each decision state has a picture of its own."""
    mdp_leaves: bool = True
    """Whether each leaf has a picture of its own."""
    shared_images: int = 1
    """Pictures that a state type which is not an MDP draws from."""
    image_seed: int = 1
    """Seed of the pictures."""
    noise_on_read: int = 0
    """Largest value added to each pixel at each reading."""
    rotation_on_read: int = 1
    """Pictures are rotated by 0 to this many degrees, exclusive, at each reading."""

    def __post_init__(self) -> None:
        for name, low, high in (
            ("depth", 1, None),
            ("branch", 2, None),
            ("shared_images", 1, None),
            ("noise_on_read", 0, WHITE - 1),
            ("rotation_on_read", 1, None),
            ("wait_probability", 0, 0.999),
        ):
            value = getattr(self, name)
            bounds = f"at least {low}" if high is None else f"in {low}..{high}"
            fits = low <= value and (high is None or value <= high)
            require(fits, f"CT-graph: {name} must be {bounds}, not {value}")
        # The pictures show the reward as a share of the high one.
        require(self.high_reward != 0, "CT-graph: high_reward must not be 0")
        require(
            len(self.goal) == self.depth,
            f"CT-graph: goal {list(self.goal)} must name a branch for each of the "
            f"{self.depth} decisions (depth)",
        )
        require(
            all(0 <= turn < self.branch for turn in self.goal),
            f"CT-graph: goal {list(self.goal)} must name branches 0 to "
            f"{self.branch - 1}",
        )

    @property
    def num_decisions(self) -> int:
        """Decision states in the graph, and the number of its first leaf's node."""
        return (self.branch**self.depth - 1) // (self.branch - 1)

    @property
    def num_leaves(self) -> int:
        """Leaves of the graph, each of which is the goal of one possible task."""
        return self.branch**self.depth

    @property
    def goal_node(self) -> int:
        """Node of the goal leaf."""
        node = 0
        for turn in self.goal:
            node = node * self.branch + 1 + turn
        return node


class CTGraphParams(NamedTuple):
    """A task as arrays. Vectors of five are indexed by the kind of state."""

    images: UInt8[Array, "images 12 12"]
    first_image: Int[Array, " 5"]
    own_image: Bool[Array, " 5"]
    shared_images: Int[Array, ""]
    num_decisions: Int[Array, ""]
    num_leaves: Int[Array, ""]
    goal: Int[Array, ""]
    wait_probability: Float[Array, ""]
    high_reward: Float[Array, ""]
    crash_reward: Float[Array, ""]
    reward_noise: Float[Array, ""]
    noise_on_read: Int[Array, ""]
    rotation_on_read: Int[Array, ""]


class CTGraphState(NamedTuple):
    """The kind of state the agent is in, and its node."""

    kind: Int[Array, ""]
    node: Int[Array, ""]


@dataclass(frozen=True)
class CTGraph:
    """The dynamics for one branching factor; depth, goal and the rest are params."""

    branch: int
    depth: int
    """Depth of the deepest graph that it is to cover."""
    random_waits: bool
    random_rewards: bool
    random_images: bool
    noise: bool
    rotation: bool

    @property
    def observation_space(self) -> gym.spaces.Box:
        """Grey pictures."""
        return gym.spaces.Box(0, 255, (SIZE, SIZE), np.uint8)

    @property
    def action_space(self) -> gym.spaces.Discrete:
        """Wait or move on (0), or a branch (1..b)."""
        return gym.spaces.Discrete(self.branch + 1)

    @property
    def deterministic(self) -> bool:
        """Whether nothing is drawn at random, as in the paper's curricula."""
        random_parts = (self.random_waits, self.random_rewards, self.random_images)
        return not any((*random_parts, self.noise, self.rotation))

    def reset(
        self, params: CTGraphParams, key: PRNGKey
    ) -> tuple[CTGraphState, UInt8[Array, "12 12"]]:
        """Start at home."""
        state = CTGraphState(jnp.asarray(HOME, jnp.int32), jnp.asarray(0, jnp.int32))
        return state, self._observe(params, state, jnp.zeros(()), key)

    def step(
        self,
        params: CTGraphParams,
        state: CTGraphState,
        action: Int[Array, ""],
        key: PRNGKey,
    ) -> tuple[CTGraphState, TimeStep]:
        """Advance along the graph."""
        move_key, reward_key, observe_key = jax.random.split(key, 3)
        new = self._move(params, state, action, move_key)
        goal_reward = self._goal_reward(params, reward_key)
        at_goal = (new.kind == LEAF) & (new.node == params.goal)
        was_at_goal = (state.kind == LEAF) & (state.node == params.goal)
        reward = jnp.where(at_goal, goal_reward, 0.0)
        crashed = new.kind == CRASH
        step = TimeStep(
            observation=self._observe(params, new, reward, observe_key),
            reward=jnp.where(crashed, params.crash_reward, reward),
            terminated=crashed | (state.kind == LEAF),
            truncated=jnp.asarray(False),
            # The episode lasts one step longer than the way to the goal.
            success=at_goal | was_at_goal,
        )
        return new, step

    def _move(
        self,
        params: CTGraphParams,
        state: CTGraphState,
        action: Int[Array, ""],
        key: PRNGKey,
    ) -> CTGraphState:
        kind, node = state
        # All possible kinds are computed and one is picked: a branch in a batched
        # program computes every case anyway.
        beyond_wait = jnp.where(node >= params.num_decisions, LEAF, DECISION)
        if self.random_waits:
            is_waiting = jax.random.uniform(key) < params.wait_probability
            beyond_wait = jnp.where(is_waiting, WAIT, beyond_wait)
        next_kinds = jnp.stack(
            [
                jnp.asarray(WAIT),
                jnp.where(action == 0, beyond_wait, CRASH),
                jnp.where(action == 0, CRASH, WAIT),
                jnp.asarray(HOME),
                jnp.asarray(HOME),
            ]
        )
        branches = (kind == DECISION) & (action > 0)
        child = jnp.where(branches, node * self.branch + action, node)
        return CTGraphState(next_kinds[kind], jnp.where(kind == LEAF, 0, child))

    @property
    def longest_solution(self) -> int:
        """Steps to the goal: home, then a wait before each decision and the leaf."""
        return 2 * self.depth + 2

    def optimal_action(
        self, params: CTGraphParams, state: CTGraphState
    ) -> Int[Array, ""]:
        """Move on, and take the branch that leads to the goal at each decision."""
        towards = params.goal
        for _ in range(self.depth):  # climb until the decision lies right above
            above = (towards - 1) // self.branch
            towards = jnp.where(above > state.node, above, towards)
        turn = towards - state.node * self.branch
        return jnp.where(state.kind == DECISION, turn, 0)

    def _goal_reward(self, params: CTGraphParams, key: PRNGKey) -> Float[Array, ""]:
        if not self.random_rewards:
            return params.high_reward
        noise = params.reward_noise * jax.random.normal(key)
        return params.high_reward * (1 + noise)

    def _observe(
        self,
        params: CTGraphParams,
        state: CTGraphState,
        reward: Float[Array, ""],
        key: PRNGKey,
    ) -> UInt8[Array, "12 12"]:
        image_key, noise_key, angle_key = jax.random.split(key, 3)
        image = params.images[self._image_index(params, state, image_key)]
        if self.noise:
            top = params.noise_on_read + 1
            image = image + jax.random.randint(noise_key, image.shape, 0, top)
        if self.rotation:
            angle = jax.random.randint(angle_key, (), 0, params.rotation_on_read)
            image = _rotate(image.astype(jnp.float32), angle)
        cue = (WHITE - params.noise_on_read) * reward / params.high_reward
        shade = jnp.clip(cue, 0, WHITE).astype(jnp.uint8)
        image = image.astype(jnp.uint8)
        return jnp.where(state.kind == LEAF, image.at[CUE, CUE].set(shade), image)

    def _image_index(
        self, params: CTGraphParams, state: CTGraphState, key: PRNGKey
    ) -> Int[Array, ""]:
        kind, node = state
        # Note: as published, leaf pictures are shifted by one against the leaves.
        leaf = (node - params.num_decisions - 1) % params.num_leaves
        own = jnp.stack([jnp.zeros_like(node), node, node, leaf, jnp.zeros_like(node)])
        shared = jnp.asarray(0)
        if self.random_images:
            shared = jax.random.randint(key, (), 0, params.shared_images)
        offset = jnp.where(params.own_image[kind], own[kind], shared)
        return params.first_image[kind] + offset

    def render(
        self,
        params: CTGraphParams,
        state: CTGraphState,
        observation: UInt8[np.ndarray, "12 12"],
    ) -> UInt8[np.ndarray, "height width 3"]:
        """Draw the graph with the agent, the goal and the path so far."""
        return draw_graph(
            branch=self.branch,
            # The tree of this task, which may be smaller than the deepest one.
            depth=round(math.log(int(params.num_leaves), self.branch)),
            goal=int(params.goal),
            kind=int(state.kind),
            node=int(state.node),
            observation=observation,
        )


def _rotate(image: Float[Array, "n n"], degrees: Int[Array, ""]) -> Float[Array, "n n"]:
    # Beside `images.rotate`, whose rounding has to be exact: this one runs on devices.
    centre = (image.shape[0] - 1) / 2
    cos, sin = jnp.cos(jnp.deg2rad(degrees)), jnp.sin(jnp.deg2rad(degrees))
    dy, dx = jnp.mgrid[: image.shape[0], : image.shape[1]] - centre
    source = [sin * dx + cos * dy + centre, cos * dx - sin * dy + centre]
    return map_coordinates(image, source, order=1, mode="constant")


def build(tasks: Sequence[Mapping[str, object]]) -> tuple[CTGraph, CTGraphParams]:
    """Build the graph that covers these tasks, and their stacked params."""
    options = [from_plain(CTGraphOptions, task, "CT-graph options") for task in tasks]
    branches = {o.branch for o in options}
    require(
        len(branches) == 1,
        f"CT-graph: tasks of one curriculum need the same branch, not {branches}",
    )
    # Random parts that no task has are left out of the program: they cost time, and
    # evaluation plays a deterministic environment once only.
    env = CTGraph(
        branch=options[0].branch,
        depth=max(o.depth for o in options),
        random_waits=any(o.wait_probability > 0 for o in options),
        random_rewards=any(o.reward_noise > 0 for o in options),
        random_images=any(o.shared_images > 1 for o in options),
        noise=any(o.noise_on_read > 0 for o in options),
        rotation=any(o.rotation_on_read > 1 for o in options),
    )
    # Params are stacked, so every task gets as many pictures as the one with most.
    num_images = max(_first_images(o)[-1] for o in options)
    params = [_params(o, num_images) for o in options]
    return env, jax.tree.map(lambda *leaves: jnp.stack(leaves), *params)


def _first_images(options: CTGraphOptions) -> tuple[int, int, int, int]:
    """Return the first picture of waits, decisions and leaves, and their number."""
    num_waits = options.num_decisions + options.num_leaves
    waits = 2
    decisions = waits + (num_waits if options.mdp_waits else options.shared_images)
    own = options.num_decisions if options.mdp_decisions else options.shared_images
    leaves = decisions + own
    ends = options.num_leaves if options.mdp_leaves else options.shared_images
    return waits, decisions, leaves, leaves + ends


def _params(options: CTGraphOptions, num_images: int) -> CTGraphParams:
    waits, decisions, leaves, _ = _first_images(options)
    own = [True, options.mdp_waits, options.mdp_decisions, options.mdp_leaves, True]
    images = draw_images(num_images, options.image_seed, options.noise_on_read)
    return CTGraphParams(
        images=jnp.asarray(images),
        first_image=jnp.asarray([0, waits, decisions, leaves, 1], jnp.int32),
        own_image=jnp.asarray(own),
        shared_images=jnp.asarray(options.shared_images, jnp.int32),
        num_decisions=jnp.asarray(options.num_decisions, jnp.int32),
        num_leaves=jnp.asarray(options.num_leaves, jnp.int32),
        goal=jnp.asarray(options.goal_node, jnp.int32),
        wait_probability=jnp.asarray(options.wait_probability, jnp.float32),
        high_reward=jnp.asarray(options.high_reward, jnp.float32),
        crash_reward=jnp.asarray(options.crash_reward, jnp.float32),
        reward_noise=jnp.asarray(options.reward_noise, jnp.float32),
        noise_on_read=jnp.asarray(options.noise_on_read, jnp.int32),
        rotation_on_read=jnp.asarray(options.rotation_on_read, jnp.int32),
    )
