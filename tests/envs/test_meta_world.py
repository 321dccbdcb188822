"""Meta-World's tasks, if the extra is installed."""

import pickle
import sys

import gymnasium as gym
import numpy as np
import pytest

from personae.curricula import find_curriculum
from personae.envs.meta_world.env import FIXED
from personae.errors import PersonaeError, UsageError


def test_a_missing_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "metaworld.env_dict", None)
    with pytest.raises(PersonaeError, match=r"personae\[continual-world\]"):
        gym.make("personae/MetaWorld-v0", task="push")


def robot(**options):
    pytest.importorskip("metaworld")
    return gym.make("personae/MetaWorld-v0", disable_env_checker=True, **options)


def play(env, seed, steps=30):
    actions = np.random.default_rng(0).uniform(-1, 1, (steps, 4)).astype(np.float32)
    observations = [env.reset(seed=seed)[0]]
    observations += [env.step(action)[0] for action in actions]
    return np.array(observations)


@pytest.mark.parametrize("task", ["faucet-close", "push"])
@pytest.mark.parametrize("goal", ["fixed", "random"])
def test_episodes_depend_on_their_seed_and_actions_alone(task, goal):
    env, twin = robot(task=task, goal=goal), robot(task=task, goal=goal)
    first = play(env, seed=3)
    different = play(env, seed=4)
    np.testing.assert_array_equal(play(env, seed=3), first)
    np.testing.assert_array_equal(play(twin, seed=3), first)
    assert np.array_equal(different, first) == (goal == "fixed")


@pytest.mark.parametrize("task", FIXED)
@pytest.mark.parametrize("goal", ["fixed", "random"])
def test_fast_steps_equal_those_of_meta_world(task, goal, monkeypatch):
    fast = robot(task=task, goal=goal)
    monkeypatch.setattr(
        "personae.envs.meta_world.env.speed_up", lambda task_class: task_class
    )
    original = robot(task=task, goal=goal)
    assert type(fast.unwrapped) is not type(original.unwrapped)
    rng = np.random.default_rng(0)
    for seed in (5, 6):
        observation, expected = fast.reset(seed=seed)[0], original.reset(seed=seed)[0]
        np.testing.assert_array_equal(observation, expected, strict=True)
        for _ in range(100):
            action = rng.normal(size=4, scale=2).astype(np.float32)
            step, expected_step = fast.step(action), original.step(action)
            np.testing.assert_array_equal(step[0], expected_step[0], strict=True)
            assert step[1:] == expected_step[1:]


def test_every_observation_holds_the_goal():
    env = robot(task="push", goal="random")
    observations = play(env, seed=1)
    target = env.unwrapped._target_pos
    np.testing.assert_allclose(observations[:, -3:], np.tile(target, (31, 1)))
    assert all(env.observation_space.contains(row) for row in observations)


@pytest.mark.parametrize("horizon", [500, 7])
def test_an_episode_is_cut_after_its_horizon(horizon):
    env = robot(task="faucet-close", horizon=horizon)
    env.reset(seed=0)
    for step in range(horizon):
        _, _, terminated, truncated, info = env.step(np.zeros(4, np.float32))
        assert not terminated
        assert truncated == (step + 1 == horizon)
        assert "success" in info


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"task": "pusch"}, "'push'"),
        ({"task": "push", "goal": "fix"}, "'fixed'"),
        ({"task": "reach", "goal": "fixed"}, "only the tasks of CW10"),
        ({"task": "push", "horizon": 501}, "1 to 500, not 501"),
    ],
)
def test_bad_options_are_named(options, message):
    with pytest.raises(UsageError, match=message):
        robot(**options)


@pytest.mark.learning  # Meta-World makes fifty environments for this
def test_fixed_positions_are_the_first_of_mt50():
    metaworld = pytest.importorskip("metaworld")
    first = {}
    for task in metaworld.MT50(seed=1).train_tasks:
        first.setdefault(task.env_name, pickle.loads(task.data)["rand_vec"])
    for name, layout in FIXED.items():
        np.testing.assert_array_equal(first[f"{name}-v3"], layout)


def test_the_published_settings():
    cw10 = find_curriculum("cw10")
    assert [task.name for task in cw10.tasks][:2] == ["hammer", "push-wall"]
    assert cw10.steps_per_task == 10_240_000
    assert (cw10.label_dim, cw10.network.hidden) == (10, (128, 128))
    assert cw10.ppo.rollout_length // cw10.ppo.num_minibatches == 32
    assert cw10.normalise.shared
    assert cw10.evaluation.measure == "success"
    assert len(find_curriculum("cw20").tasks) == 20
    official = find_curriculum("cw10-official")
    assert official.tasks[0].options["goal"] == "random"
    assert {task.options["horizon"] for task in official.tasks} == {200}
