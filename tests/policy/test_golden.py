"""Files of version 1 act as they did in the release that wrote them.

Personae 0.1 wrote the agents in golden-0.1/, the second of two seeds each, and
recorded what they did:

masks: mask-blc with scores, two tasks of the CT-graph
continuous: mask-lc with continuous masks on CartPole, normalised, with previous step
heads: ppo-mh, CartPole and Acrobot padded to one size
ternary: mask-ri with ternary masks and separate bodies, two pendulums
"""

import dataclasses
from pathlib import Path

import numpy as np
import pytest

import personae
from personae.curricula.ct_graph import ct_task
from personae.policy import load
from personae.policy.manifest import VERSION
from personae.runs.directory import RunDirectory
from personae.training import RestoredRun

GOLDEN = Path(__file__).parent / "golden-0.1"
NAMES = ("masks", "continuous", "heads", "ternary")


@pytest.fixture(params=NAMES)
def name(request):
    return request.param


def assert_same_actions(actions, expected):
    """Compare actions; real ones may differ by rounding between machines."""
    assert (actions.shape, actions.dtype) == (expected.shape, expected.dtype)
    if expected.dtype.kind == "f":
        np.testing.assert_allclose(actions, expected, atol=1e-5)
    else:
        np.testing.assert_array_equal(actions, expected)


def test_it_acts_as_recorded(name):
    agent = load(GOLDEN / f"{name}.persona")
    records = np.load(GOLDEN / f"{name}.npz")
    assert agent.manifest.version == VERSION
    assert {record.split("/")[0] for record in records} == set(agent.tasks)
    for task in agent.tasks:
        observations = records[f"{task}/observations"]
        step = {
            field: records[f"{task}/{field}"]
            for field in ("last_action", "last_reward")
            if agent.manifest.previous_step
        }
        assert_same_actions(
            agent.act(observations, task, **step), records[f"{task}/greedy"]
        )
        # Without a previous step, as at the start of an episode.
        assert_same_actions(agent.act(observations, task), records[f"{task}/first"])
        rng = np.random.default_rng(1)
        samples = agent.act(observations, task, sample=True, rng=rng, **step)
        assert_same_actions(samples, records[f"{task}/sampled"])


def test_its_fields_have_the_names_of_today():
    masks, continuous, heads, ternary = (
        load(GOLDEN / f"{name}.persona").manifest for name in NAMES
    )
    assert [layer.storage for layer in masks.layers] == ["bits"] * 3
    assert masks.scores
    assert masks.observation_size == 144
    assert [layer.storage for layer in continuous.layers] == ["per-task"] * 3
    assert continuous.previous_step
    assert continuous.normalised
    assert heads.architecture.head == "categorical"
    assert heads.architecture.action_sizes == (3,)
    assert heads.architecture.scalar_action
    assert (heads.layers[0].bias, heads.layers[-1].bias) == ("shared", "per-task")
    assert heads.tasks[0].action.num_actions == 2
    assert {layer.storage for layer in ternary.layers} == {"signed-bits"}
    assert ternary.architecture.log_std_bounds == pytest.approx(
        (-0.6931, 0.4055), abs=1e-4
    )
    assert ternary.tasks[1].options == {"g": 12.0}


def test_it_is_shown(name, personae_command):
    code, output, _ = personae_command("policy", "show", GOLDEN / f"{name}.persona")
    assert code == 0
    assert f"golden/{name.capitalize()}-v0, seed 1" in output


def test_a_run_begins_with_its_masks(tiny, tmp_path):
    file = GOLDEN / "masks.persona"
    curriculum = dataclasses.replace(
        tiny,
        id="test/Following-v0",
        tasks=(ct_task(depth=2, leaf=1, label=0),),
        steps_per_task=64,
        network=dataclasses.replace(tiny.network, hidden=(8, 8)),
        inputs=dataclasses.replace(tiny.inputs, label_dim=2),
    )
    out = tmp_path / "run"
    personae.learn(curriculum, "mask-lc", out=out, quiet=True, warm_start=file)
    assert RunDirectory(out).warm_start_file.read_bytes() == file.read_bytes()
    bank = RestoredRun(out).agents.method_state.bank
    assert bank.num_inherited == 2
    scores = np.asarray(bank.scores.trunk[0].weight)[0, :2]
    np.testing.assert_array_equal(scores, load(file).arrays["scores/trunk.0"])
