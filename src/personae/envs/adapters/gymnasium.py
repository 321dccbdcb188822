"""Single environments of Gymnasium: making them with wrappers, and drawing them."""

import os
import sys
from collections.abc import Callable, Mapping, Sequence

import gymnasium as gym
import numpy as np

from personae.errors import PersonaeError, UsageError, nearest_match_error
from personae.serialise import PlainData
from personae.types import Env


def make_env(
    env_id: str,
    options: Mapping[str, object],
    attributes: Mapping[str, object] | None = None,
    wrappers: Sequence[Mapping[str, object]] | None = None,
    **overrides: object,
) -> Env:
    """Make one environment from a task's settings.

    Args:
        env_id: Id that `gymnasium.make` knows; `module:Id-v0` imports the module.
        options: Keywords of the environment.
        attributes: Values to set on the environment itself, below all wrappers.
        wrappers: Gymnasium's wrappers, the innermost first: a name and its keywords.
        overrides: Keywords that replace options, such as `render_mode`.
    """
    if "render_mode" in overrides:
        _use_no_screen()
    keywords: PlainData = {**options, **overrides}
    try:
        # Gymnasium's own checker would warn at every environment that is made;
        # `personae check` examines each task once instead.
        env = gym.make(env_id, disable_env_checker=True, **keywords)
    except (gym.error.Error, ModuleNotFoundError) as error:
        raise UsageError(f"cannot make {env_id!r}: {error}") from error
    except TypeError as error:
        raise UsageError(f"{env_id!r} does not take these options: {error}") from error
    for name, value in (attributes or {}).items():
        # setattr would accept any name: a misspelt one would have no effect.
        if not hasattr(env.unwrapped, name):
            names = [n for n in vars(env.unwrapped) if not n.startswith("_")]
            raise nearest_match_error(f"attribute of {env_id}", name, names)
        setattr(env.unwrapped, name, value)
    for wrapper in wrappers or ():
        env = _wrap(env, wrapper)
    return env


def _use_no_screen() -> None:
    """Have pygame draw in memory if there is no screen; else it prints errors."""
    screens = os.environ.keys() & {"DISPLAY", "WAYLAND_DISPLAY"}
    if sys.platform == "linux" and not screens:
        os.environ.setdefault("SDL_VIDEODRIVER", "dummy")


def _wrap(env: Env, wrapper: Mapping[str, object]) -> Env:
    keywords = dict(wrapper)
    if "name" not in keywords:
        raise UsageError(f"a wrapper needs a name: {dict(wrapper)}")
    name, available = str(keywords.pop("name")), _wrapper_types()
    if name not in available:
        raise nearest_match_error("wrapper of Gymnasium", name, available)
    try:
        return available[name](env, **keywords)
    except TypeError as error:
        raise UsageError(f"the wrapper {name} does not take that: {error}") from error


def _wrapper_types() -> dict[str, Callable[..., Env]]:
    members = vars(gym.wrappers)  # modules and functions among them
    return {name: kind for name, kind in members.items() if isinstance(kind, type)}


def render_frame(env: Env, task: str) -> np.ndarray:
    """Draw the current state of a task's environment, `[height, width, 3]`."""
    try:
        frame = env.render()
    except (gym.error.DependencyNotInstalled, RuntimeError) as error:
        raise PersonaeError(f"task {task!r} cannot be filmed: {error}") from error
    if not isinstance(frame, np.ndarray):
        raise PersonaeError(
            f"task {task!r} cannot be filmed: its environment draws no rgb_array"
        )
    return frame.astype(np.uint8)
