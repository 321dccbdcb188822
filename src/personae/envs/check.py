"""What is wrong with an environment, found before a long run and said with a hint."""

import copy
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np

from personae.envs.spaces import check_action_space, check_observation_space
from personae.envs.third_party import ThirdPartyError, call
from personae.errors import PersonaeError, UsageError

STEPS = 2_000
"""Steps to try; an episode that has not ended by then is remarked on."""
LARGE = 50.0
"""Size of inputs that networks learn badly from."""
SEED = 7


class Finding(NamedTuple):
    """Something that was noticed about a task."""

    task: str
    problem: str
    hint: str
    stops: bool = True
    """Whether it would stop a run, or spoil it."""


class Trial(NamedTuple):
    """What a random policy met in one episode, or in as much of it as was tried."""

    observations: list[Any]
    rewards: list[float]
    success: bool | None
    """At any step; None if nothing was told of it."""
    ended: bool
    seconds: float

    @property
    def total(self) -> float:
        """What it collected."""
        return float(sum(self.rewards))


class _WrongError(Exception):
    """A finding that ends the examination of a task."""

    def __init__(self, problem: str, hint: str):
        super().__init__(problem)
        self.problem, self.hint = problem, hint


def check_env(
    name: str,
    make: Callable[[], gym.Env[Any, Any]],
    *,
    scaled: bool,
    target: float,
    floor: float,
    by_success: bool = False,
) -> tuple[list[Finding], Trial | None]:
    """Examine one task's environment.

    Inputs may be normalised (`scaled`), and episodes be judged by their success.
    """
    try:
        with closing(_call(make)) as env, closing(_call(make)) as twin:
            check_observation_space(name, env.observation_space)
            check_action_space(name, env.action_space)
            trial, again = _try(env, SEED), _try(twin, SEED)
    except _WrongError as wrong:
        return [Finding(name, wrong.problem, wrong.hint)], None
    except PersonaeError as error:
        return [Finding(name, str(error), "")], None
    found = [
        *_repeats(trial, again),
        *_looks(env, trial, scaled),
        *_ends(trial),
        *(_succeeds(trial) if by_success else _pays(trial, target, floor)),
    ]
    return [Finding(name, *rest) for rest in found], trial


def _try(env: gym.Env[Any, Any], seed: int) -> Trial:
    """Play with random actions, looking at all that comes back."""
    env.action_space.seed(seed)
    answer = _call(env.reset, seed=seed)
    if not (isinstance(answer, tuple) and len(answer) == 2):
        raise _WrongError(
            "reset does not return (observation, info)",
            "Gymnasium's reset returns two things; old Gym's returned one",
        )
    observation, info = answer
    _look(env, observation, info)
    seen, rewards, kept = [copy.deepcopy(observation)], [], observation
    told: list[bool] = []
    began = time.perf_counter()
    for _ in range(STEPS):
        answer = _call(env.step, env.action_space.sample())
        observation, reward, terminated, truncated = _unpack(env, answer)
        told += [answer[4]["success"] > 0] if "success" in answer[4] else []
        if observation is kept and not np.array_equal(kept, seen[-1]):
            raise _WrongError(
                "step changes the observation that it returned before",
                "return a copy (observation.copy()): what was seen is still needed",
            )
        kept = observation
        seen.append(copy.deepcopy(observation))
        rewards.append(float(reward))
        ended = bool(terminated or truncated)
        if ended:
            break
    seconds = time.perf_counter() - began
    return Trial(seen, rewards, any(told) if told else None, ended, seconds)


def _call(function: Callable[..., Any], *given: Any, **named: Any) -> Any:
    """Call what somebody else wrote; whatever it raises is a finding."""
    try:
        return call(function, *given, **named)
    except ThirdPartyError as error:
        raised = error.original
        if isinstance(raised, TypeError) and "'seed'" in str(raised):
            raise _WrongError(
                "reset takes no seed", "def reset(self, *, seed=None, options=None)"
            ) from error
        raise _WrongError(
            f"it raised {type(raised).__name__}: {raised}",
            "try env.reset(seed=0) and a few steps",
        ) from error


def _unpack(env: gym.Env[Any, Any], answer: Any) -> tuple[Any, Any, Any, Any]:
    if not (isinstance(answer, tuple) and len(answer) == 5):
        count = len(answer) if isinstance(answer, tuple) else 1
        raise _WrongError(
            f"step returns {count} things, not 5",
            "observation, reward, terminated, truncated, info; old Gym had one done",
        )
    observation, reward, terminated, truncated, info = answer
    _look(env, observation, info)
    for name, flag in (("terminated", terminated), ("truncated", truncated)):
        if not isinstance(flag, bool | np.bool_):
            raise _WrongError(
                f"{name} is {flag!r}, not a boolean", "bool(...) makes one"
            )
    if not np.isscalar(reward) and np.ndim(reward) != 0:
        raise _WrongError(
            f"the reward has shape {np.shape(reward)}", "return one number"
        )
    try:
        number = float(reward)
    except (TypeError, ValueError):
        raise _WrongError(f"the reward is {reward!r}", "return one number") from None
    if not np.isfinite(number):
        raise _WrongError(
            f"the reward is {number}", "apply_network for a division by zero, or a log"
        )
    return observation, number, terminated, truncated


def _look(env: gym.Env[Any, Any], observation: Any, info: Any) -> None:
    """Compare an observation with what the space promises."""
    if not isinstance(info, dict):
        raise _WrongError(f"info is {type(info).__name__}, not a dict", "return {}")
    space = env.observation_space
    if isinstance(space, gym.spaces.Discrete):
        if not space.contains(observation):
            raise _WrongError(f"the observation {observation!r} is not in {space}", "")
        return
    if not isinstance(observation, np.ndarray):
        raise _WrongError(
            f"the observation is {type(observation).__name__}, not a numpy array",
            f"np.asarray(observation, np.{space.dtype})",
        )
    if observation.shape != space.shape:
        raise _WrongError(
            f"the observation has shape {observation.shape}, the space {space.shape}",
            "make observation_space what reset and step return",
        )
    if observation.dtype != space.dtype:
        raise _WrongError(
            f"the observation is {observation.dtype}, the space {space.dtype}",
            f"observation.astype(np.{space.dtype}), or another dtype for the space",
        )
    if not np.isfinite(observation).all():
        raise _WrongError(
            f"the observation has {observation[~np.isfinite(observation)][0]} in it",
            "apply_network for a division by zero, or a sensor that has no reading",
        )
    if not space.contains(observation):
        raise _WrongError(
            f"the observation lies outside its space (from {observation.min():g} to "
            f"{observation.max():g})",
            "widen the bounds of observation_space, or clip",
        )


Found = tuple[str, str, bool]


def _repeats(trial: Trial, again: Trial) -> Iterator[Found]:
    """Compare two episodes with the same seed and actions."""
    hint = "use self.np_random, after super().reset(seed=seed), for all randomness"
    if not np.array_equal(trial.observations[0], again.observations[0]):
        yield "reset(seed) is ignored: the same seed starts differently", hint, True
    elif trial.rewards != again.rewards or not all(
        map(np.array_equal, trial.observations, again.observations)
    ):
        problem = "the same seed and actions give another episode"
        yield problem, f"{hint}; otherwise a resumed run is not bit-exact", False


def _looks(env: gym.Env[Any, Any], trial: Trial, scaled: bool) -> Iterator[Found]:
    space = env.observation_space
    if isinstance(space, gym.spaces.Box) and not scaled:
        largest = max(float(np.abs(seen).max()) for seen in trial.observations)
        if space.dtype == np.uint8 and largest > LARGE:
            yield "observations are bytes", "scale = 0.00392156862745098", False
        elif largest > LARGE:
            problem = f"observations are as large as {largest:g}"
            yield problem, "[normalise] observations = true", False
    action = env.action_space
    if isinstance(action, gym.spaces.Box) and not action.is_bounded():
        problem = "actions have no bounds"
        yield problem, 'clip them: wrappers = [{name = "ClipAction"}]', False


def _ends(trial: Trial) -> Iterator[Found]:
    if not trial.ended:
        yield (
            f"an episode has not ended after {STEPS} steps",
            'a time limit: wrappers = [{name = "TimeLimit", max_episode_steps = 500}]',
            False,
        )


def _succeeds(trial: Trial) -> Iterator[Found]:
    if trial.success is None:
        problem = "success is what counts, but nothing tells of it"
        yield problem, 'info["success"] = ... in step, or leave measure out', True
    elif trial.success:
        yield "random actions succeed", "is it the task that was meant?", False


def _pays(trial: Trial, target: float, floor: float) -> Iterator[Found]:
    if not trial.ended:
        return
    if trial.total < floor:
        problem = f"random actions collect {trial.total:g}, less than floor {floor:g}"
        yield problem, "set floor to what a bad policy gets", False
    if trial.total >= target:
        problem = f"random actions collect {trial.total:g}; the target is {target:g}"
        yield problem, "set target to what a good policy gets", False


def curriculum_finding(error: UsageError) -> Finding:
    """Return what is wrong with tasks that do not fit together."""
    return Finding("all tasks", str(error), "")
