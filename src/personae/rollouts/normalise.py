"""Running statistics of observations and rewards, a row for each task or one for all.

They grow while a task is trained and are read only otherwise, so that with rows of
their own tasks stay exactly as they were learned.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

EPSILON = 1e-6
"""Added to variances, as published."""


class Moments(NamedTuple):
    """Number, mean and sum of squared deviations, `[row, ...]`."""

    number: Float[Array, " rows"]
    mean: Float[Array, "rows ..."]
    squares: Float[Array, "rows ..."]

    @classmethod
    def empty(cls, rows: int, shape: tuple[int, ...]) -> "Moments":
        """Return the statistics of no values."""
        zeros = jnp.zeros((rows, *shape))
        return cls(jnp.zeros(rows), zeros, zeros)

    def row_of(self, task: Int[Array, ""]) -> Int[Array, ""]:
        """Return the row for a task.

        A task that was never trained has the first task's, whose mask it uses.
        """
        row = jnp.minimum(task, self.number.size - 1)
        # As published: an unlearned task is met with what the first one left.
        return jnp.where(self.number[row] > 0, row, 0)

    def deviation(self, row: Int[Array, ""]) -> Float[Array, "..."]:
        """Return the standard deviation of a row; 1 if the row has no values yet."""
        variance = self.squares[row] / jnp.maximum(self.number[row], 1)
        # Both branches are computed, so the root must not see a division by zero.
        return jnp.where(self.number[row] > 0, jnp.sqrt(variance + EPSILON), 1.0)

    def with_values(
        self,
        task: Int[Array, ""],
        values: Float[Array, "steps ..."],
        valid: Bool[Array, " steps"],
    ) -> "Moments":
        """Return the statistics with a batch of values added (Chan et al., 1983)."""
        row = jnp.minimum(task, self.number.size - 1)
        # Steps without an action count 0, as shapes cannot depend on the data.
        weight = valid.reshape(-1, *[1] * (values.ndim - 1)).astype(float)
        added = weight.sum()
        mean = jnp.sum(values * weight, 0) / jnp.maximum(added, 1)
        squares = jnp.sum(weight * (values - mean) ** 2, 0)
        before, total = self.number[row], self.number[row] + added
        # Batches are merged by their moments: sums of squares would lose digits.
        shift = mean - self.mean[row]
        share = added / jnp.maximum(total, 1)
        return Moments(
            self.number.at[row].set(total),
            self.mean.at[row].add(shift * share),
            self.squares.at[row].add(squares + shift**2 * before * share),
        )


class Statistics(NamedTuple):
    """Statistics that inputs are normalised by; None where they stay as they are."""

    observations: Moments | None
    rewards: Moments | None

    def normalise(
        self, task: Int[Array, ""], observation: Array
    ) -> Float[Array, " inputs"]:
        """Return one observation, flat, with mean 0 and deviation 1."""
        flat = jnp.ravel(observation).astype(jnp.float32)
        if self.observations is None:
            return flat
        row = self.observations.row_of(task)
        moments = self.observations
        return (flat - moments.mean[row]) / moments.deviation(row)

    def scale_rewards(
        self, task: Int[Array, ""], rewards: Float[Array, "..."]
    ) -> Float[Array, "..."]:
        """Return rewards with deviation 1; they are not centred."""
        if self.rewards is None:
            return rewards
        return rewards / self.rewards.deviation(self.rewards.row_of(task))

    def with_rewards(
        self,
        task: Int[Array, ""],
        rewards: Float[Array, "..."],
        valid: Bool[Array, "..."],
    ) -> "Statistics":
        """Return the statistics with the rewards of a rollout added."""
        if self.rewards is None:
            return self
        moments = self.rewards.with_values(task, jnp.ravel(rewards), jnp.ravel(valid))
        return self._replace(rewards=moments)

    def with_observations(
        self,
        task: Int[Array, ""],
        observations: Array,
        valid: Bool[Array, "..."],
    ) -> "Statistics":
        """Return the statistics with a rollout's observations, `[time, env, ...]`."""
        if self.observations is None:
            return self
        flat = jax.vmap(jnp.ravel)(observations.reshape(-1, *observations.shape[2:]))
        moments = self.observations.with_values(
            task, flat.astype(jnp.float32), jnp.ravel(valid)
        )
        return self._replace(observations=moments)
