"""Environments that are no JAX programs: Gymnasium's and EnvPool's, side by side.

`SeededEnvs` gives each episode a seed of its own, so that an episode can be repeated
from its seed and its actions. `SelfResettingEnvs` takes vector environments as they are,
whenever they start episodes anew.
"""

import multiprocessing
import os
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv, VectorEnv

from personae.envs.adapters.procgen import is_procgen, load_qt
from personae.envs.episode_stats import EpisodeStats
from personae.errors import PersonaeError, UsageError, nearest_match_error

ENVPOOL = "envpool/"
RUNAWAY = (
    "from reset to reset its goal runs away (seen in EnvPool 1.2.5); "
    "personae/MetaWorld-v0 has the task, too"
)
UNSOUND = {"MetaWorld/Hammer-v3": RUNAWAY, "MetaWorld/ShelfPlace-v3": RUNAWAY}
"""Environments of EnvPool that are not what they should be."""
Make = Callable[[], gym.Env[Any, Any]]


class Step(NamedTuple):
    """What all environments answer to one action each."""

    observations: np.ndarray
    """What each shows now; after the end of an episode the start of the next."""
    last: np.ndarray
    """The same, but after the end of an episode what it ended with."""
    rewards: np.ndarray
    terminated: np.ndarray
    truncated: np.ndarray
    valid: np.ndarray
    """Where not, the action was ignored, as the environment was starting anew."""
    success: np.ndarray | None
    """Whether each has succeeded, if environments tell: `info["success"]`."""


def success_in(info: Mapping[str, Any]) -> np.ndarray | None:
    """Return which environments have succeeded, if they tell."""
    if "success" not in info:
        return None
    success = np.asarray(info["success"], float) > 0
    return success & np.asarray(info.get("_success", True))


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


class SeededEnvs:
    """Gymnasium environments in which each episode starts from a seed of its own."""

    def __init__(
        self, make: Make, num: int, seed_of: Callable[[int, int], int], stepping: str
    ):
        self._env = _vector_env([make] * num, stepping)
        self._seed_of = seed_of
        self.episodes = np.zeros(num, np.int64)
        """The number of the running episode of each."""
        self.actions: list[list[Any]] = [[] for _ in range(num)]
        """What was done in it so far."""

    def start(self) -> np.ndarray:
        """Begin the first episode in each; return what they show."""
        self.episodes[:] = 0
        return self._begin(np.ones(len(self.episodes), bool))

    def _begin(self, which: np.ndarray) -> np.ndarray:
        seeds = [0] * len(which)
        for index in np.flatnonzero(which):
            self.actions[index] = []
            seeds[index] = self._seed_of(int(index), int(self.episodes[index]))
        reset: Any = self._env.reset  # whose type knows of one seed only
        observations, _ = reset(seed=seeds, options={"reset_mask": which})
        return np.asarray(observations)

    def repeat(
        self,
        episodes: np.ndarray,
        actions: Sequence[Sequence[Any]],
        tally: EpisodeStats,
    ) -> np.ndarray:
        """Bring each to where it was: an episode, and the actions done in it so far.

        All are stepped together, so those with fewer actions begin later; until then
        whatever they do does not count. Return what they show.
        """
        self.episodes[:] = episodes
        lengths = np.array([len(done) for done in actions])
        observations = self._begin(lengths >= 0)
        idle = np.asarray(self._env.action_space.sample())
        for left in range(lengths.max(initial=0), 0, -1):
            begun = lengths >= left
            rows = [
                done[len(done) - left] if now else rest
                for done, now, rest in zip(actions, begun, idle, strict=True)
            ]
            observations, rewards, terminated, truncated, info = self._env.step(
                np.stack(rows)
            )
            tally.count(rewards, success_in(info), begun)
            again = (terminated | truncated | (lengths == left - 1)) & ~begun
            if again.any():
                observations = self._begin(again)
        self.actions = [list(done) for done in actions]
        return observations

    def send(self, actions: np.ndarray) -> None:
        """Act in each, when the answers are asked for."""
        self._sent = actions

    def receive(self) -> Step:
        """Return what each answers."""
        return self.step(self._sent)

    def step(self, actions: np.ndarray) -> Step:
        """Act in each, and start the next episode where one has ended."""
        for log, action in zip(self.actions, actions, strict=True):
            log.append(action)
        last, rewards, terminated, truncated, info = self._env.step(actions)
        ended = terminated | truncated
        observations = last
        if ended.any():
            last = last.copy()
            self.episodes += ended
            observations = self._begin(ended)
        return Step(
            observations,
            last,
            rewards,
            terminated,
            truncated,
            valid=np.ones_like(ended),
            success=success_in(info),
        )

    def close(self) -> None:
        """End them."""
        self._env.close()


def _vector_env(makes: Sequence[Make], stepping: str) -> VectorEnv[Any, Any, Any]:
    mode = AutoresetMode.DISABLED
    if stepping in ("sync", "threads"):
        return SyncVectorEnv(makes, autoreset_mode=mode)
    # A forked process would inherit locks that threads of JAX hold.
    return AsyncVectorEnv(
        [partial(_make_in_process, make) for make in makes],
        autoreset_mode=mode,
        context="spawn",
    )


def _make_in_process(make: Make) -> gym.Env[Any, Any]:
    """Make an environment in a process of its own, which Ctrl-C is no business of."""
    if multiprocessing.parent_process() is not None:  # one is made here, to look at it
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    return make()


class SelfResettingEnvs:
    """A vector environment of EnvPool, which starts episodes anew by itself."""

    def __init__(self, env: Any, seed: int | None = None):
        self._env, self._seed = env, seed
        self._mode = AutoresetMode(env.metadata.get("autoreset_mode", "NextStep"))
        self._starting = np.zeros(env.num_envs, bool)

    def start(self) -> np.ndarray:
        """Begin an episode in each; return what they show."""
        self._starting[:] = False
        return np.asarray(self._env.reset(seed=self._seed)[0])

    def send(self, actions: np.ndarray) -> None:
        """Act in each, without waiting for the answers."""
        self._env.send(actions)

    def receive(self) -> Step:
        """Return what each answers; not valid where one starts anew instead."""
        return self._answer(*self._env.recv())

    def step(self, actions: np.ndarray) -> Step:
        """Act in each; where one starts anew instead, the step is not valid."""
        return self._answer(*self._env.step(actions))

    def _answer(
        self,
        shown: np.ndarray,
        rewards: np.ndarray,
        terminated: np.ndarray,
        truncated: np.ndarray,
        info: Mapping[str, Any],
    ) -> Step:
        ended, valid = terminated | truncated, ~self._starting
        last = shown
        if self._mode is AutoresetMode.SAME_STEP and ended.any():
            last = shown.copy()
            for index in np.flatnonzero(ended):
                last[index] = info["final_obs"][index]
        if self._mode is AutoresetMode.NEXT_STEP:
            self._starting = ended
        success = success_in(info)
        return Step(shown, last, rewards, terminated, truncated, valid, success)

    def close(self) -> None:
        """End them."""
        self._env.close()


def make_envpool(name: str, num: int, seed: int, options: Mapping[str, Any]) -> Any:
    """Make environments of EnvPool, which is an extra."""
    if is_procgen(name):
        load_qt()  # before EnvPool looks for it
    try:
        import envpool
    except ImportError as error:
        extra = "procgen" if is_procgen(name) else "envpool"
        raise PersonaeError(
            f"{ENVPOOL}{name} needs EnvPool: pip install 'personae[{extra}]'"
        ) from error
    known = envpool.list_all_envs()
    if name not in known:
        raise nearest_match_error("environment of EnvPool", name, known)
    if name in UNSOUND:
        raise UsageError(f"{ENVPOOL}{name} cannot be learned: {UNSOUND[name]}")
    return envpool.make_gymnasium(name, num_envs=num, seed=seed, **options)


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
