"""Acting in environments on the device: one rollout is one scan.

Everything here is written for one agent; `training` maps it over the agents.
"""

from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PyTree

from personae.envs.contract import Environment, within_space
from personae.learners.contract import Learner
from personae.rollouts.pipeline import Pipeline
from personae.rollouts.previous_step import action_layout
from personae.rollouts.task_data import TaskData
from personae.types import (
    Action,
    Network,
    Observation,
    PRNGKey,
    Rollout,
    Transition,
    WithPreviousStep,
)


class DeviceEnvs(NamedTuple):
    """The environments of one agent, side by side."""

    states: PyTree[Array]
    observations: Observation
    """The observations that the next actions answer, with the previous step if
    networks see it."""
    returns: Float[Array, " envs"]
    """Reward collected in each running episode."""
    succeeded: Bool[Array, " envs"] | None
    """Whether each running episode has succeeded, if that is measured."""


class EndedEpisodes(NamedTuple):
    """The episodes that ended at each step; entries are 0 where none did."""

    ended: Bool[Array, "..."]
    returns: Float[Array, "..."]
    success: Float[Array, "..."] | None


class DeviceRollout(NamedTuple):
    """A rollout, and the environments after it."""

    envs: DeviceEnvs
    rollout: Rollout
    bootstrap: Float[Array, "time envs"] | None
    """Discounted values of states that a time limit cut off, if they count."""
    episodes: EndedEpisodes


@dataclass(frozen=True)
class DeviceActor:
    """An environment, and the settings that agents act in it with."""

    env: Environment
    pipeline: Pipeline
    learner: Learner
    by_success: bool
    """Whether episodes are measured by success."""

    def attach_previous(
        self, observation: Observation, action: Action, reward: Float[Array, " envs"]
    ) -> Observation:
        """Join observations with the steps that led to them, if networks see those."""
        if self.pipeline.encoder.previous_action_space is None:
            return observation
        # Environments may count rewards in integers; a scan needs one type throughout.
        _, kind = action_layout(self.env.action_space)
        return WithPreviousStep(
            observation, action.astype(kind), reward.astype(jnp.float32)
        )

    def without_previous(self, observations: Observation) -> Observation:
        """Join observations with zeros, as at the start of an episode."""
        number = jax.tree.leaves(observations)[0].shape[0]
        shape, kind = action_layout(self.env.action_space)
        action, reward = jnp.zeros((number, *shape), kind), jnp.zeros(number)
        return self.attach_previous(observations, action, reward)

    def reset(
        self, task: TaskData, key: PRNGKey, number: int
    ) -> tuple[PyTree[Array], Observation]:
        """Start so many episodes; return states and observations."""
        states, observations = jax.vmap(self.env.reset, (None, 0))(
            task.params, jax.random.split(key, number)
        )
        return states, self.without_previous(observations)

    def start(self, task: TaskData, key: PRNGKey) -> DeviceEnvs:
        """Start the first episodes of a visit."""
        number = self.learner.num_envs
        states, observations = self.reset(task, key, number)
        succeeded = jnp.zeros(number, bool) if self.by_success else None
        return DeviceEnvs(states, observations, jnp.zeros(number), succeeded)

    def collect(
        self, network: Network, task: TaskData, envs: DeviceEnvs, key: PRNGKey
    ) -> DeviceRollout:
        """Act for one rollout; episodes that end are started anew at once.

        `network` takes observations as the environment gives them.
        """
        number, bootstraps = self.learner.num_envs, self.learner.bootstrap_truncated

        def step(
            envs: DeviceEnvs, key: PRNGKey
        ) -> tuple[DeviceEnvs, tuple[Transition, Array | None, EndedEpisodes]]:
            # Every step draws the same number of keys, so that randomness does not
            # depend on where episodes end.
            act_key, env_key, reset_key = jax.random.split(key, 3)
            policy, value = jax.vmap(network)(envs.observations)
            action = policy.sample(act_key)
            states, new = jax.vmap(self.env.step, (None, 0, 0, 0))(
                task.params,
                envs.states,
                within_space(self.env.action_space, action),
                jax.random.split(env_key, number),
            )
            ended = new.terminated | new.truncated
            observation = self.attach_previous(new.observation, action, new.reward)
            bootstrap = None
            if bootstraps:
                _, cut_value = jax.vmap(network)(observation)
                cut = new.truncated & ~new.terminated
                # Not added to the reward yet: rewards are scaled and clipped first.
                bootstrap = self.learner.discount * jnp.where(cut, cut_value, 0)
            # All environments are reset at each step, and the result is used where
            # one has ended: under vmap a branch would be computed for all anyway.
            started = self.reset(task, reset_key, number)
            states, observation = _where(ended, started, (states, observation))
            total = envs.returns + new.reward
            succeeded, success = _count_success(envs.succeeded, new.success, ended)
            transition = Transition(
                envs.observations,
                action,
                policy.log_prob(action),
                value,
                new.reward,
                ended,
            )
            envs = DeviceEnvs(
                states, observation, jnp.where(ended, 0, total), succeeded
            )
            episodes = EndedEpisodes(ended, jnp.where(ended, total, 0), success)
            return envs, (transition, bootstrap, episodes)

        keys = jax.random.split(key, self.learner.rollout_length)
        envs, (steps, bootstrap, episodes) = jax.lax.scan(step, envs, keys)
        return DeviceRollout(
            envs, Rollout(steps, envs.observations), bootstrap, episodes
        )


def _count_success(
    succeeded: Bool[Array, " envs"] | None,
    success: Bool[Array, " envs"] | None,
    ended: Bool[Array, " envs"],
) -> tuple[Bool[Array, " envs"] | None, Float[Array, " envs"] | None]:
    """Return which running episodes have succeeded, and the success of ended ones."""
    if succeeded is None or success is None:
        return None, None
    # Success at any step counts, as Continual World has it.
    total = succeeded | success.astype(bool)
    return total & ~ended, (total & ended).astype(jnp.float32)


def _where(condition: Array, yes: PyTree[Array], no: PyTree[Array]) -> PyTree[Array]:
    def select(a: Array, b: Array) -> Array:
        # States have axes of their own behind that of the environments.
        shape = condition.shape + (1,) * (a.ndim - condition.ndim)
        return jnp.where(condition.reshape(shape), a, b)

    return jax.tree.map(select, yes, no)


def training_measures(episodes: EndedEpisodes) -> dict[str, Float[Array, ""]]:
    """Return the mean measures of the episodes that ended in a rollout.

    They are averaged per environment first, then over environments. As published, an
    environment in which no episode ended counts as 0.
    """
    # At least 1, or environments without an end would divide by zero.
    number = jnp.maximum(jnp.sum(episodes.ended, axis=0), 1)

    def mean(values: Float[Array, "time envs"]) -> Float[Array, ""]:
        return jnp.mean(jnp.sum(values, axis=0) / number)

    measures = {"return": mean(episodes.returns)}
    if episodes.success is not None:
        measures["success"] = mean(episodes.success)
    return measures
