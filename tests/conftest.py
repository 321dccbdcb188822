"""Shared by all tests: a compilation cache, and one tiny life per method."""

from pathlib import Path

import jax
import pytest

import personae
from personae.curricula import Curriculum, Evaluation, Inputs, NetworkOptions
from personae.curricula.paper import ct_task
from personae.learners import PPO

# Two agents are trained on two devices, three with one of them twice as busy.
jax.config.update("jax_num_cpu_devices", 2)
CACHE = Path(__file__).parent.parent / ".cache" / "xla"
jax.config.update("jax_compilation_cache_dir", str(CACHE))
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
jax.config.update("jax_persistent_cache_min_entry_size_bytes", 0)

METHODS = ("mask-ri", "mask-lc", "mask-blc")


@pytest.fixture(scope="session")
def tiny() -> Curriculum:
    """Four easy tasks, a small network and short rollouts: seconds, not minutes."""
    return Curriculum(
        id="test/Tiny-v3",
        tasks=tuple(ct_task(depth=1, leaf=leaf % 2, label=leaf) for leaf in (0, 1))
        + tuple(ct_task(depth=2, leaf=leaf) for leaf in (0, 3)),
        steps_per_task=4 * 64,
        inputs=Inputs(scale=1 / 255),
        network=NetworkOptions(hidden=(24, 24)),
        ppo=PPO(num_envs=4, rollout_length=16, num_minibatches=8, learning_rate=1e-2),
        evaluation=Evaluation(interval=2, episodes=3),
    )


@pytest.fixture(scope="session")
def lives(tiny, tmp_path_factory) -> dict[str, personae.Record]:
    """The tiny curriculum lived through once with each method, two seeds."""
    root = tmp_path_factory.mktemp("lives")
    return {
        method: personae.learn(tiny, method, seeds=2, out=root / method, quiet=True)
        for method in METHODS
    }
