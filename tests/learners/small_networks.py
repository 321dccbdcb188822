"""A network of two parameters, and experience drawn at random."""

import jax.numpy as jnp
import numpy as np

from personae.backbones import Categorical
from personae.types import Rollout, Transition


class Table:
    """A "network" of two parameters: a logit per action and a constant value."""

    def __init__(self, parameters):
        self.parameters = parameters

    def __call__(self, observation):
        logits, value = self.parameters
        return Categorical(logits), value + 0 * observation.sum()


def random_rollout(learner, seed=0):
    random = np.random.RandomState(seed)
    shape = (learner.rollout_length, learner.num_envs)
    return Rollout(
        Transition(
            observation=jnp.arange(np.prod(shape), dtype=float).reshape(*shape, 1),
            action=jnp.asarray(random.randint(0, 2, shape)),
            log_prob=jnp.log(jnp.full(shape, 0.5)),
            value=jnp.asarray(random.randn(*shape).astype(np.float32)),
            reward=jnp.asarray(random.randn(*shape).astype(np.float32)),
            done=jnp.asarray(random.rand(*shape) < 0.2),
        ),
        jnp.zeros((shape[1], 1)),
    )


def parameters():
    return jnp.array([0.2, -0.1]), jnp.asarray(0.3)
