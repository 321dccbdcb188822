"""Single environments of Gymnasium, and our own behind its interface."""

import os

import gymnasium as gym
import numpy as np
import pytest

from personae.envs.adapters.gymnasium import make_env, render_frame
from personae.errors import PersonaeError, UsageError


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
def test_mistakes_in_the_settings_are_named(arguments, message):
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
def test_pictures_need_no_screen(monkeypatch, screen, driver):
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "SDL_VIDEODRIVER"):
        monkeypatch.setenv(name, "")  # to be restored afterwards
        monkeypatch.delenv(name)
    if screen:
        monkeypatch.setenv("DISPLAY", screen)
    monkeypatch.setattr("sys.platform", "linux")
    make_env("CartPole-v1", {}, render_mode="rgb_array").close()
    assert os.environ.get("SDL_VIDEODRIVER") == driver


def test_a_picture_is_an_array_of_bytes():
    env = make_env("personae/CTGraph-v0", {}, render_mode="rgb_array")
    env.reset(seed=0)
    frame = render_frame(env, "tree")
    assert frame.dtype == np.uint8
    assert frame.shape[2] == 3


def test_an_environment_without_pictures_is_named():
    env = make_env("personae/CTGraph-v0", {})
    env.reset(seed=0)
    with pytest.raises(PersonaeError, match="'tree' cannot be filmed"):
        render_frame(env, "tree")


def test_the_info_of_our_environments_holds_success():
    env = gym.make("personae/CTGraph-v0", depth=1, goal=(1,))
    _, info = env.reset(seed=0)
    assert info == {}
    infos = [env.step(action)[4] for action in (0, 0, 2, 0, 0)]
    assert infos == [{"success": success} for success in [False] * 3 + [True] * 2]
