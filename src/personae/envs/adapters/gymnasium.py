"""One environment of Gymnasium: making it with wrappers, and drawing it."""

import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import gymnasium as gym
import numpy as np

from personae.errors import PersonaeError, UsageError, nearest_match_error


def make_env(
    env_id: str,
    options: Mapping[str, Any],
    attributes: Mapping[str, Any] | None = None,
    wrappers: Sequence[Mapping[str, Any]] | None = None,
    **more: Any,
) -> gym.Env[Any, Any]:
    """Make one environment, with attributes of its own and wrappers."""
    if "render_mode" in more:
        _draw_without_a_screen()
    try:
        env = gym.make(env_id, disable_env_checker=True, **{**options, **more})
    except (gym.error.Error, ModuleNotFoundError) as error:
        raise UsageError(f"cannot make {env_id!r}: {error}") from error
    except TypeError as error:
        raise UsageError(f"{env_id!r} does not take these options: {error}") from error
    for name, value in (attributes or {}).items():
        if not hasattr(env.unwrapped, name):
            known = [n for n in vars(env.unwrapped) if not n.startswith("_")]
            raise nearest_match_error(f"attribute of {env_id}", name, known)
        setattr(env.unwrapped, name, value)
    for wrapper in wrappers or ():
        env = _wrap(env, wrapper)
    return env


def _draw_without_a_screen() -> None:
    """Tell pygame to look for none where there is none: it says so as an error."""
    screens = os.environ.keys() & {"DISPLAY", "WAYLAND_DISPLAY"}
    if sys.platform == "linux" and not screens:
        os.environ.setdefault("SDL_VIDEODRIVER", "dummy")


def _wrap(env: Any, wrapper: Mapping[str, Any]) -> Any:
    keywords = dict(wrapper)
    name = keywords.pop("name", None)
    if name is None:
        raise UsageError(f"a wrapper needs a name: {dict(wrapper)}")
    known = [n for n in dir(gym.wrappers) if isinstance(_attribute(n), type)]
    if name not in known:
        raise nearest_match_error("wrapper of Gymnasium", name, known)
    try:
        return _attribute(name)(env, **keywords)
    except TypeError as error:
        raise UsageError(f"the wrapper {name} does not take that: {error}") from error


def _attribute(name: str) -> Any:
    return getattr(gym.wrappers, name, None)


def render_frame(env: Any, task: str) -> np.ndarray:
    """Return what a task's environment looks like now."""
    try:
        frame = env.render()
    except (gym.error.DependencyNotInstalled, RuntimeError) as error:
        raise PersonaeError(f"task {task!r} cannot be filmed: {error}") from error
    if not isinstance(frame, np.ndarray):
        raise PersonaeError(
            f"task {task!r} cannot be filmed: its environment draws no rgb_array"
        )
    return frame.astype(np.uint8)
