"""The buffer that a rollout on the host is written to, and the shapes of all its parts.

It lies where networks are computed, so that observations are carried there once.
"""

from typing import Any, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from personae.envs.episode_stats import MEASURES
from personae.rollouts.host_context import HostContext
from personae.rollouts.previous_step import action_layout
from personae.types import Action, Observation, Rollout, Transition, WithPreviousStep


class ActedStep(NamedTuple):
    """The part of a step that the policy decides: one step, or all of a rollout."""

    observation: Observation
    action: Action
    log_prob: Float[Array, "..."]
    value: Float[Array, "..."]


class RolloutBuffer(NamedTuple):
    """A rollout while it is collected."""

    steps: ActedStep
    """`[agent, time, env, ...]`."""
    time: Int[Array, ""]
    """Number of steps written so far."""


RolloutShapes: TypeAlias = tuple[Rollout, jax.ShapeDtypeStruct, jax.ShapeDtypeStruct]
"""The shapes of a rollout, its bootstrapped values and its measures."""


def blank_buffer(context: HostContext) -> RolloutBuffer:
    """Return a buffer without steps."""
    shapes = step_shapes(context)
    steps = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), shapes)
    # A typed zero: a Python number would make the first step a program of its own.
    return RolloutBuffer(steps, jnp.int32(0))


def step_shapes(context: HostContext) -> ActedStep:
    """Return the shapes of the steps of a rollout, `[agent, time, env, ...]`."""
    axes = (context.num_agents, context.rollout_length, context.num_envs)
    shape, kind = action_layout(context.action_space)
    number: Any = jax.ShapeDtypeStruct(axes, np.float32)
    action: Any = jax.ShapeDtypeStruct((*axes, *shape), kind)
    return ActedStep(_observation_shapes(context, *axes), action, number, number)


def _observation_shapes(context: HostContext, *axes: int) -> Any:
    space = context.tasks.spaces.observation_space
    previous = context.pipeline.encoder.previous_action_space
    # Without 64-bit numbers JAX narrows types; the compiled update must expect those.
    kind = jax.dtypes.canonicalize_dtype(space.dtype)
    current: Any = jax.ShapeDtypeStruct((*axes, *(space.shape or ())), kind)
    if previous is None:
        return current
    shape, action_kind = action_layout(previous)
    action: Any = jax.ShapeDtypeStruct((*axes, *shape), action_kind)
    reward: Any = jax.ShapeDtypeStruct(axes, np.float32)
    return WithPreviousStep(current, action, reward)


def rollout_shapes(context: HostContext) -> RolloutShapes:
    """Return the shapes of `CollectedRollout.to_learn`."""
    steps = step_shapes(context)
    number: Any = steps.value
    flag: Any = jax.ShapeDtypeStruct(number.shape, np.bool_)
    # Seeded environments are reset between steps, so all of their steps are valid.
    valid = None if context.tasks.seeded else flag
    transitions = Transition(*steps, number, flag, valid)
    last = _observation_shapes(context, context.num_agents, context.num_envs)
    measures = jax.ShapeDtypeStruct((context.num_agents, len(MEASURES)), np.float32)
    return Rollout(transitions, last), number, measures
