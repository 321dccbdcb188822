"""Long runs that check the learning itself; `make learning` runs them."""

import dataclasses

import numpy as np
import pytest

import personae

pytestmark = pytest.mark.learning


def first_tasks(count):
    curriculum = personae.find_curriculum("ct8")
    return dataclasses.replace(
        curriculum,
        tasks=curriculum.tasks[:count],
        inputs=dataclasses.replace(curriculum.inputs, label_dim=8),
    )


@pytest.fixture(scope="module")
def records(tmp_path_factory):
    root = tmp_path_factory.mktemp("learning")
    return {
        method: personae.learn(
            first_tasks(3), method, seeds=4, out=root / method, quiet=True
        )
        for method in ("mask-ri", "mask-blc")
    }


def test_three_tasks_are_learned_and_retained(records):
    for record in records.values():
        np.testing.assert_array_equal(record.evaluations[:, -1], 1.0)
        assert record.total_evaluation.min() > 0.9 * record.ideal_total


def test_composition_learns_faster_than_random_masks(records):
    def area(method):
        """Return the mean training return of all tasks with masks to compose."""
        return np.mean([curve.returns for curve in records[method].training[1:]])

    assert area("mask-blc") > area("mask-ri") + 0.05


def test_without_training_nothing_is_solved(tmp_path):
    curriculum = first_tasks(2)
    still = dataclasses.replace(curriculum.ppo, learning_rate=0.0)
    record = personae.learn(
        dataclasses.replace(curriculum, ppo=still),
        "mask-ri",
        seeds=2,
        steps_per_task=20_480,
        out=tmp_path,
        quiet=True,
    )
    assert record.training[0].returns.mean() < 0.05


def test_fine_tuning_forgets_and_ewc_with_a_head_per_task_does_not(tmp_path):
    lives = {
        method: personae.learn(
            first_tasks(2), method, seeds=4, out=tmp_path / method, quiet=True
        )
        for method in ("ppo", "ewc-mh", "packnet")
    }
    for method, record in lives.items():
        learned = record.matrix[:, 0, 0].mean(), record.matrix[:, 1, 1].mean()
        assert min(learned) > 0.7, method
    assert lives["ppo"].matrix[:, 1, 0].mean() < 0.3
    for method in ("ewc-mh", "packnet"):
        np.testing.assert_array_equal(
            lives[method].matrix[:, 1, 0], lives[method].matrix[:, 0, 0]
        )


def test_methods_with_memory_forget_less(tmp_path):
    """Thirty lives of three tasks; docs/methods.md has fifty."""
    curriculum = personae.find_curriculum("examples/forgetting.toml")
    at_the_end, total = {}, {}
    for method in ("impala", "online-ewc", "clear"):
        out = tmp_path / method
        record = personae.learn(curriculum, method, seeds=30, out=out, quiet=True)
        at_the_end[method] = record.evaluations[:, -1, 0].mean()
        total[method] = record.evaluations.sum((1, 2)).mean()
    assert at_the_end["impala"] < at_the_end["online-ewc"] < at_the_end["clear"]
    assert total["impala"] + 4 < total["online-ewc"] < total["clear"] - 3
    assert at_the_end["clear"] > 0.9
