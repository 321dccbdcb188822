"""Invariants of every run: later tasks change nothing that was learned before."""

import itertools

import jax
import numpy as np
import pytest

import personae
from personae.files import read_tensors
from personae.methods import make_method
from personae.report import read_record
from personae.runs.directory import RunDirectory
from personae.training.factory import make_training

pytestmark = pytest.mark.slow

METHODS = ("mask-ri", "mask-lc", "mask-blc")
SEEDS = (0, 1)


def one_life(tiny, method):
    """Train on the tiny curriculum; yield programs, agents and results by visit."""
    training = make_training(tiny, make_method(method), SEEDS)
    resting = training.programs.init()
    for visit in range(4):
        agents = training.programs.begin(resting, visit, learned=visit)[0]
        result = None
        for _ in range(2):
            agents, result = training.trainer.chunk(agents, visit, 2, None)
        resting = training.programs.end(agents, learned=visit + 1)
        yield training, agents, result, resting


@pytest.fixture(scope="module", params=METHODS)
def life(request, tiny):
    """All visits of one run with each method."""
    return list(one_life(tiny, request.param))


def arrays(tree):
    return [np.asarray(leaf) for leaf in jax.tree.leaves(tree)]


def assert_same(one, other):
    for a, b in zip(arrays(one), arrays(other), strict=True):
        np.testing.assert_array_equal(a, b)


def test_backbone_and_older_masks_stay_bit_identical(life):
    states = [resting.method_state for *_, resting in life]
    for learned, (before, after) in enumerate(itertools.pairwise(states), start=1):
        assert_same(before.backbone, after.backbone)
        for old, new in zip(
            arrays(before.bank.scores), arrays(after.bank.scores), strict=True
        ):
            np.testing.assert_array_equal(old[:, :learned], new[:, :learned])
            assert np.abs(new[:, learned]).max() > 0


def test_consolidation_does_not_change_the_policy(life):
    for training, agents, _, resting in life[:3]:
        policy = training.programs.spec.method.policy
        task = agents.method_state.task
        before = jax.vmap(policy)(agents.method_state, agents.train.trainable, task)
        # Another task is begun: the finished one is now read from the bank.
        visit = int(task[0]) + 1
        later = training.programs.begin(resting, visit, learned=visit)[0]
        after = jax.vmap(policy)(later.method_state, later.train.trainable, task)
        assert_same(before, after)


def test_evaluation_of_a_learned_task_never_changes(lives, tiny):
    for method, record in lives.items():
        for task in range(len(tiny.tasks)):
            learned = np.flatnonzero(record.evaluation_task == task)[-1]
            later = record.evaluations[:, learned:, task]
            assert (later == later[:, :1]).all(), (method, task)


def test_the_methods_agree_on_the_first_task_and_lc_and_blc_on_the_second(lives):
    def returns(method, visit):
        return lives[method].training[visit].returns

    def scores(method, visit):
        files = RunDirectory(lives[method].directory)
        task = lives[method].training[visit].task
        tensors, _ = read_tensors(files.mask_file(visit, task))
        return {k: v for k, v in tensors.items() if not k.startswith("coefficients")}

    assert_same(scores("mask-ri", 0), scores("mask-lc", 0))
    assert_same(scores("mask-ri", 0), scores("mask-blc", 0))
    assert_same(scores("mask-lc", 1), scores("mask-blc", 1))
    np.testing.assert_array_equal(returns("mask-lc", 1), returns("mask-blc", 1))
    for a, b in (("mask-ri", "mask-lc"), ("mask-lc", "mask-blc")):
        different = scores(a, 2), scores(b, 2)
        assert any((x != y).any() for x, y in zip(*map(arrays, different), strict=True))


def test_programs_are_compiled_once_per_capacity(life):
    *_, (training, *_) = life
    # Capacities 0, 1, 2 and 4 for tasks one to four; two chunks each.
    assert training.trainer._chunk(2).times_compiled == 4


def test_a_repeated_task_continues_its_own_mask(life):
    training, _, _, resting = life[2]
    again = training.programs.begin(resting, visit=1, learned=3)[0]
    state = resting.method_state
    for start, stored in zip(
        arrays(again.train.trainable.scores), arrays(state.bank.scores), strict=True
    ):
        np.testing.assert_array_equal(start, stored[:, 1])
    assert not np.asarray(again.method_state.active).any()
    agents, _ = training.trainer.chunk(again, 1, 2, None)
    after = training.programs.end(agents, learned=3).method_state
    assert after.bank.slot_of_task[0].tolist() == [0, 1, 2, -1]
    for old, new in zip(
        arrays(state.bank.scores), arrays(after.bank.scores), strict=True
    ):
        np.testing.assert_array_equal(old[:, [0, 2]], new[:, [0, 2]])
        assert (old[:, 1] != new[:, 1]).any()


def test_an_agent_does_not_depend_on_its_neighbours(tiny, lives, tmp_path):
    alone = personae.learn(tiny, "mask-blc", seeds=[1], out=tmp_path, quiet=True)
    beside = lives["mask-blc"]
    np.testing.assert_allclose(alone.evaluations[0], beside.evaluations[1])
    np.testing.assert_allclose(
        alone.training[0].returns[0], beside.training[0].returns[1], atol=1e-5
    )
    assert alone.run["fingerprints"][0] == beside.run["fingerprints"][1]


def test_mask_files_name_their_backbone(lives):
    record = lives["mask-lc"]
    files = RunDirectory(record.directory)
    for visit, curve in enumerate(record.training):
        tensors, metadata = read_tensors(files.mask_file(visit, curve.task))
        assert metadata["fingerprints"] == record.run["fingerprints"]
        assert tensors["scores/trunk.0"].shape == (2, 24, 148)
        assert tensors["bits/trunk.0"].shape == (2, 24 * 148 // 8)
        coefficients = tensors.get("coefficients/actor.logits")
        if visit == 0:
            assert coefficients is None
        else:
            np.testing.assert_allclose(coefficients.sum(-1), 1, rtol=1e-5)
            assert (coefficients[:, visit:-1] == 0).all()
    assert read_record(record.directory).run["status"] == "finished"


@pytest.mark.parametrize("method", METHODS)
def test_saved_bits_are_the_mask_of_the_saved_scores(lives, method):
    record = lives[method]
    files = RunDirectory(record.directory)
    tensors, _ = read_tensors(files.mask_file(2, record.training[2].task))
    for name, scores in tensors.items():
        if name.startswith("scores/"):
            bits = tensors[name.replace("scores/", "bits/")]
            expected = np.packbits(scores.reshape(2, -1) >= 0, axis=1)
            np.testing.assert_array_equal(bits, expected)
