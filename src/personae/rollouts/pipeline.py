"""The one pipeline between environments and networks, on the device and on the host.

An observation is normalised, joined by the previous step if networks see it, scaled and
labelled; a reward is divided by its deviation and clipped. Collectors, updates,
evaluations and films use the functions here, so that a setting means the same wherever
an environment runs. Processes act in NumPy, with the same steps (`policy/runtime.py`).
"""

from dataclasses import dataclass

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from personae.backbones.distributions import Categorical
from personae.backbones.encoder import Encoder
from personae.curricula import Curriculum
from personae.rollouts.normalise import Moments, Statistics
from personae.rollouts.task_data import TaskData
from personae.types import (
    Distribution,
    Network,
    Observation,
    Scalar,
    Space,
    WithPreviousStep,
    current_observation,
)

IMPOSSIBLE = -1e9
"""Logit of an action that a task does not have."""


@dataclass(frozen=True)
class Pipeline:
    """The settings of a curriculum that observations and rewards go through."""

    encoder: Encoder
    """Scale, previous step and task label."""
    normalise_observations: bool = False
    normalise_rewards: bool = False
    share_statistics: bool = False
    """One set of statistics for all tasks; otherwise each task has its own."""
    clip_rewards: float | None = None
    """Largest absolute reward to learn from."""

    def initial_statistics(self, num_tasks: int, inputs: int) -> Statistics:
        """Return the statistics of no experience, for observations of a size."""
        rows = 1 if self.share_statistics else num_tasks
        return Statistics(
            Moments.empty(rows, (inputs,)) if self.normalise_observations else None,
            Moments.empty(rows, ()) if self.normalise_rewards else None,
        )

    def apply(
        self, network: Network, statistics: Statistics, task: TaskData
    ) -> Network:
        """Return a network that takes observations as the task's environment has them.

        Args:
            network: Takes encoded observations.
            statistics: What normalises observations, if anything does.
            task: Gives the label, and the number of actions that the task has.
        """

        def act(observation: Observation) -> tuple[Distribution, Scalar]:
            flat = statistics.normalise(task.position, current_observation(observation))
            if isinstance(observation, WithPreviousStep):
                policy, value = network(
                    self.encoder(observation._replace(current=flat), task.label)
                )
            else:
                policy, value = network(self.encoder(flat, task.label))
            # Inside the pipeline, so that gradients do not reach these actions either.
            if task.num_actions is not None and isinstance(policy, Categorical):
                exists = jnp.arange(policy.logits.size) < task.num_actions
                policy = Categorical(jnp.where(exists, policy.logits, IMPOSSIBLE))
            return policy, value

        return act

    def rewards_to_learn(
        self,
        statistics: Statistics,
        task: TaskData,
        rewards: Float[Array, "..."],
        bootstrap: Float[Array, "..."] | None,
    ) -> Float[Array, "..."]:
        """Return rewards as the learner sees them.

        Args:
            statistics: What divides rewards, this rollout's included.
            task: The task that they belong to.
            rewards: As environments pay them.
            bootstrap: Discounted values of states that a time limit cut off. They are
                in the learner's units already, so they are added last.
        """
        scaled = statistics.scale_rewards(task.position, rewards)
        # After scaling, so that the bound is in units of the learner.
        if self.clip_rewards is not None:
            scaled = jnp.clip(scaled, -self.clip_rewards, self.clip_rewards)
        return scaled if bootstrap is None else scaled + bootstrap


def make_pipeline(curriculum: Curriculum, action_space: Space) -> Pipeline:
    """Return the pipeline that a curriculum's settings ask for."""
    inputs, normalise = curriculum.inputs, curriculum.normalise
    # The policy's own actions, before they are clipped to an environment's bounds.
    previous = action_space if inputs.previous_step else None
    return Pipeline(
        Encoder(inputs.scale, curriculum.label_dim, previous),
        normalise.observations,
        normalise.rewards,
        normalise.shared,
        normalise.clip_rewards,
    )


def valid_steps(
    done: Bool[Array, "..."], valid: Bool[Array, "..."] | None
) -> Bool[Array, "..."]:
    """Return the steps at which an action was taken; all of them if none is marked."""
    return jnp.ones_like(done) if valid is None else valid
