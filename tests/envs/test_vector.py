"""Environments outside JAX: episodes repeat, and every way to start anew is right."""

import os

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from personae.envs.adapters.envpool import SelfResettingEnvs, make_envpool
from personae.envs.adapters.gymnasium import make_env
from personae.envs.episode_stats import EpisodeStats
from personae.envs.vector import SeededEnvs
from personae.errors import UsageError


class Counter(gym.Env):
    """Shows how many steps were made; ends or is cut after three."""

    observation_space = gym.spaces.Box(-1000, 1000, (1,), np.float32)
    action_space = gym.spaces.Discrete(2)

    def __init__(self, cut: bool = False):
        self.cut = cut

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps = 0
        return self._show(), {}

    def step(self, action):
        self.steps += 1
        over = self.steps == 3
        ends = over and not self.cut, over and self.cut
        return self._show(), float(action), *ends, {}

    def _show(self):
        return np.array([self.steps], np.float32)


def seed_of(slot, episode):
    return 100 * slot + episode


@pytest.mark.parametrize("cut", [False, True])
def test_a_seeded_episode_is_followed_by_the_next_at_once(cut):
    worlds = SeededEnvs(lambda: Counter(cut), 2, seed_of, "sync")
    assert worlds.start().ravel().tolist() == [0, 0]
    steps = [worlds.step(np.array([1, 0])) for _ in range(4)]
    assert [s.observations[0, 0] for s in steps] == [1, 2, 0, 1]
    assert [s.next_observations[0, 0] for s in steps] == [1, 2, 3, 1]
    assert [bool(s.terminated[0]) for s in steps] == [False, False, not cut, False]
    assert [bool(s.truncated[0]) for s in steps] == [False, False, cut, False]
    assert all(s.valid.all() for s in steps)
    assert [s.rewards.tolist() for s in steps] == [[1.0, 0.0]] * 4
    assert worlds.episodes.tolist() == [1, 1]


def test_a_vector_environment_that_starts_anew_in_the_same_step():
    env = SyncVectorEnv([Counter] * 2, autoreset_mode=AutoresetMode.SAME_STEP)
    worlds = SelfResettingEnvs(env, seed=0)
    worlds.start()
    steps = [worlds.step(np.array([1, 1])) for _ in range(4)]
    assert [s.observations[0, 0] for s in steps] == [1, 2, 0, 1]
    assert [s.next_observations[0, 0] for s in steps] == [1, 2, 3, 1]
    assert all(s.valid.all() for s in steps)


def test_a_vector_environment_that_starts_anew_in_the_next_step():
    env = SyncVectorEnv([Counter] * 2, autoreset_mode=AutoresetMode.NEXT_STEP)
    worlds = SelfResettingEnvs(env, seed=0)
    worlds.start()
    steps = [worlds.step(np.array([1, 1])) for _ in range(5)]
    assert [s.observations[0, 0] for s in steps] == [1, 2, 3, 0, 1]
    assert [s.valid.tolist() for s in steps] == [[True] * 2] * 3 + [
        [False] * 2,
        [True] * 2,
    ]
    assert steps[3].rewards.tolist() == [0.0, 0.0]


def test_environments_of_envpool_that_are_unsound_are_refused():
    pytest.importorskip("envpool")
    with pytest.raises(UsageError, match="its goal runs away"):
        make_envpool("MetaWorld/Hammer-v3", 1, 0, {})


@pytest.mark.filterwarnings("ignore:.*precision lowered")
def test_envpool_tells_success_of_robots():
    pytest.importorskip("envpool")
    options = {"max_episode_steps": 200, "partially_observable": False}
    worlds = SelfResettingEnvs(make_envpool("MetaWorld/FaucetClose-v3", 2, 0, options))
    shown = worlds.start()
    assert shown.shape == (2, 39)
    assert (np.abs(shown[:, -3:]) > 0).any()  # the goal
    step = worlds.step(np.zeros((2, 4), np.float32))
    assert step.success.tolist() == [False, False]
    worlds.close()


@pytest.mark.filterwarnings("ignore:.*precision lowered")
def test_envpool_starts_anew_in_the_next_step():
    envpool = pytest.importorskip("envpool")
    env = envpool.make_gymnasium("CartPole-v1", num_envs=2, seed=3)
    worlds = SelfResettingEnvs(env)  # whose seed was fixed when it was made
    worlds.start()
    steps = [worlds.step(np.zeros(2, np.int32)) for _ in range(30)]
    ended = np.array([s.terminated for s in steps])
    valid = np.array([s.valid for s in steps])
    assert ended.any()
    np.testing.assert_array_equal(valid[1:], ~ended[:-1])
    after = np.argwhere(ended[:-1])
    for t, i in after:  # what comes after the end is the start of an episode
        assert np.abs(steps[t + 1].observations[i]).max() <= 0.05


@pytest.mark.parametrize("stepping", ["sync", "async"])
def test_environments_are_brought_back_from_seeds_and_actions(stepping):
    def make():
        return make_env("CartPole-v1", {})

    worlds = SeededEnvs(make, 3, seed_of, stepping)
    worlds.start()
    random = np.random.default_rng(0)
    for _ in range(45):  # several episodes, of different lengths
        step = worlds.step(random.integers(0, 2, 3))
    assert len({len(done) for done in worlds.actions}) > 1
    again = SeededEnvs(make, 3, seed_of, stepping)
    again.start()
    tally = EpisodeStats(3)
    shown = again.repeat(worlds.episodes, worlds.actions, tally)
    np.testing.assert_array_equal(shown, step.observations)
    assert tally.collected.tolist() == [len(done) for done in worlds.actions]
    for _ in range(20):
        actions = random.integers(0, 2, 3)
        ours, theirs = worlds.step(actions), again.step(actions)
        np.testing.assert_array_equal(ours.observations, theirs.observations)
        np.testing.assert_array_equal(ours.terminated, theirs.terminated)
    worlds.close()
    again.close()


def test_episodes_of_one_slot_differ_and_repeat_with_their_seed():
    starts = []
    for _ in range(2):
        worlds = SeededEnvs(lambda: make_env("CartPole-v1", {}), 2, seed_of, "sync")
        shown = [worlds.start()]
        for _ in range(40):
            step = worlds.step(np.zeros(2, np.int64))
            if step.terminated[0]:
                shown.append(step.observations)
        starts.append(np.stack(shown)[:, 0])
    np.testing.assert_array_equal(*starts)
    assert len(np.unique(starts[0], axis=0)) == len(starts[0]) > 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("CartPole-v9", {}), "cannot make 'CartPole-v9'"),
        (("no_such_module:Env-v0", {}), "no_such_module"),
        (("CartPole-v1", {"gravity": 3}), "does not take these options"),
        (("CartPole-v1", {}, {"gravty": 3.0}), "Did you mean 'gravity'?"),
        (("CartPole-v1", {}, None, [{"name": "TimeLimt"}]), "Did you mean 'TimeLimit"),
        (("CartPole-v1", {}, None, [{"max_episode_steps": 3}]), "needs a name"),
        (("CartPole-v1", {}, None, [{"name": "TimeLimit"}]), "does not take that"),
    ],
)
def test_what_cannot_be_made_is_named(arguments, message):
    with pytest.raises(UsageError, match=message.replace("?", r"\?")):
        make_env(*arguments)


def test_attributes_and_wrappers_reach_the_environment():
    limit = {"name": "TimeLimit", "max_episode_steps": 7}
    env = make_env("CartPole-v1", {}, {"gravity": 3.0}, [limit])
    assert env.unwrapped.gravity == 3.0
    env.reset(seed=0)
    cuts = [env.step(env.action_space.sample())[3] for _ in range(7)]
    assert cuts == [False] * 6 + [True]


@pytest.mark.parametrize(("screen", "driver"), [(None, "dummy"), (":0", None)])
def test_pictures_are_drawn_without_looking_for_a_screen(monkeypatch, screen, driver):
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "SDL_VIDEODRIVER"):
        monkeypatch.setenv(name, "")  # to be restored afterwards
        monkeypatch.delenv(name)
    if screen:
        monkeypatch.setenv("DISPLAY", screen)
    monkeypatch.setattr("sys.platform", "linux")
    make_env("CartPole-v1", {}, render_mode="rgb_array").close()
    assert os.environ.get("SDL_VIDEODRIVER") == driver
