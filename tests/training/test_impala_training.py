"""Whole runs with IMPALA; test_pairs.py has it with every method."""

from dataclasses import replace

import numpy as np
import pytest

import personae
from personae.errors import UsageError
from personae.learners import IMPALA
from personae.training.config import RunConfig


@pytest.fixture(scope="module")
def tiny_impala(tiny):
    """The tiny curriculum, learned with IMPALA: two updates in each iteration."""
    learner = IMPALA(num_envs=4, rollout_length=16, batch_size=2, learning_rate=0.005)
    return replace(tiny, id="test/TinyIMPALA-v0", impala=learner, learner="impala")


def test_a_configuration_names_its_own_learner_only(tiny, tiny_impala):
    data = RunConfig(tiny_impala, "mask-ri", (0,)).to_plain()["curriculum"]
    assert data["learner"] == "impala"
    assert data["impala"]["batch_size"] == 2
    assert "ppo" not in data
    default = RunConfig(tiny, "mask-ri", (0,)).to_plain()["curriculum"]
    assert "ppo" in default
    assert not {"impala", "learner"} & default.keys()


@pytest.mark.parametrize("method", ["ppo", "impala"])
def test_fine_tuning_is_named_after_its_learner(tiny, tiny_impala, method):
    wrong = tiny_impala if method == "ppo" else tiny
    with pytest.raises((UsageError, ValueError), match=f"with the learner {method}"):
        RunConfig(wrong, method, (0,))


@pytest.mark.slow
def test_the_first_tasks_are_learned(tiny_impala, tmp_path):
    longer = replace(tiny_impala, tasks=tiny_impala.tasks[:2], steps_per_task=80 * 64)
    learned = personae.learn(longer, "mask-ri", seeds=2, out=tmp_path, quiet=True)
    np.testing.assert_array_equal(learned.evaluations[:, -1], 1)
