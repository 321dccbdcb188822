"""Checks of an environment before a long run, with a hint for each problem."""

import copy
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np
from numpy.typing import ArrayLike

from personae.envs.spaces import check_action_space, check_observation_space
from personae.envs.third_party import ThirdPartyError, call
from personae.envs.vector import EnvFactory
from personae.errors import PersonaeError, UsageError
from personae.types import Env

STEPS = 2_000
"""Steps of a trial; an episode that has not ended by then is a finding."""
LARGE = 50.0
"""Size of inputs from which networks learn badly."""
SEED = 7


class Finding(NamedTuple):
    """A problem of a task's environment."""

    task: str
    problem: str
    hint: str
    stops: bool = True
    """Whether it would stop a run, or spoil it."""


class Trial(NamedTuple):
    """The episode of a random policy, or its first `STEPS` steps."""

    observations: list[ArrayLike]
    rewards: list[float]
    success: bool | None
    """Whether any step succeeded; None if the environment does not report it."""
    ended: bool
    seconds: float

    @property
    def total(self) -> float:
        """The undiscounted return."""
        return float(sum(self.rewards))


class _Problem(NamedTuple):
    """A problem that a whole trial shows."""

    text: str
    hint: str
    stops: bool = False


class _MistakeError(Exception):
    """A mistake in an environment that ends its check."""

    def __init__(self, problem: str, hint: str):
        super().__init__(problem)
        self.problem, self.hint = problem, hint


def check_env(
    name: str,
    make: EnvFactory,
    *,
    scaled: bool,
    target: float,
    floor: float,
    by_success: bool = False,
) -> tuple[list[Finding], Trial | None]:
    """Check one task's environment with a random policy.

    Args:
        name: Name of the task, for the findings.
        make: Makes the environment.
        scaled: Whether inputs are scaled or normalised, so that they may be large.
        target: Return of a good policy, as the task states it.
        floor: Return of a bad policy, as the task states it.
        by_success: Whether success is the measure, instead of the return.

    Returns:
        The findings, and the trial unless a mistake ended it.
    """
    try:
        # Two environments, not two episodes of one: their seeds must be independent of
        # anything that an environment did before.
        with closing(_call(make)) as env, closing(_call(make)) as twin:
            check_observation_space(name, env.observation_space)
            check_action_space(name, env.action_space)
            trial, repetition = _run_trial(env, SEED), _run_trial(twin, SEED)
    except _MistakeError as mistake:
        return [Finding(name, mistake.problem, mistake.hint)], None
    except PersonaeError as error:
        return [Finding(name, str(error), "")], None
    problems = [
        *_repetition_problems(trial, repetition),
        *_space_problems(env, trial, scaled),
        *_length_problems(trial),
        *(
            _success_problems(trial)
            if by_success
            else _return_problems(trial, target, floor)
        ),
    ]
    return [Finding(name, *problem) for problem in problems], trial


def curriculum_finding(error: UsageError) -> Finding:
    """Return the finding for an error that concerns all tasks together."""
    return Finding("all tasks", str(error), "")


def _run_trial(env: Env, seed: int) -> Trial:
    """Play with random actions, and check every answer."""
    env.action_space.seed(seed)
    answer = _call(env.reset, seed=seed)
    if not (isinstance(answer, tuple) and len(answer) == 2):
        raise _MistakeError(
            "reset does not return (observation, info)",
            "Gymnasium's reset returns two values; old Gym's returned one",
        )
    observation, info = answer
    _check_observation(env, observation, info)
    # Deep copies, so that an environment that reuses its array is caught at it.
    observations, rewards = [copy.deepcopy(observation)], []
    successes: list[bool] = []
    start = time.perf_counter()
    for _ in range(STEPS):
        previous = observation
        answer = _call(env.step, env.action_space.sample())
        observation, reward, terminated, truncated = _check_answer(env, answer)
        successes += [answer[4]["success"] > 0] if "success" in answer[4] else []
        if observation is previous and not np.array_equal(previous, observations[-1]):
            raise _MistakeError(
                "step changes the observation that it returned before",
                "return a copy (observation.copy()): the old one is still in use",
            )
        observations.append(copy.deepcopy(observation))
        rewards.append(float(reward))
        ended = bool(terminated or truncated)
        if ended:
            break
    seconds = time.perf_counter() - start
    success = any(successes) if successes else None
    return Trial(observations, rewards, success, ended, seconds)


def _call(function: Callable[..., object], *arguments: object, **keywords: int) -> Any:
    """Call a method of the environment; an exception of it is a mistake."""
    try:
        return call(function, *arguments, **keywords)
    except ThirdPartyError as error:
        original = error.original
        if isinstance(original, TypeError) and "'seed'" in str(original):
            raise _MistakeError(
                "reset takes no seed", "def reset(self, *, seed=None, options=None)"
            ) from error
        raise _MistakeError(
            f"it raised {type(original).__name__}: {original}",
            "try env.reset(seed=0) and a few steps",
        ) from error


def _check_answer(env: Env, answer: object) -> tuple[ArrayLike, float, bool, bool]:
    """Return the answer of `step` without its info; raise unless it is in order."""
    if not (isinstance(answer, tuple) and len(answer) == 5):
        count = len(answer) if isinstance(answer, tuple) else 1
        raise _MistakeError(
            f"step returns {count} {'value' if count == 1 else 'values'}, not 5",
            "observation, reward, terminated, truncated, info; old Gym had one done",
        )
    observation, reward, terminated, truncated, info = answer
    _check_observation(env, observation, info)
    for name, flag in (("terminated", terminated), ("truncated", truncated)):
        if not isinstance(flag, bool | np.bool_):
            raise _MistakeError(
                f"{name} is {flag!r}, not a boolean", "bool(...) makes one"
            )
    return observation, _check_reward(reward), bool(terminated), bool(truncated)


def _check_reward(reward: Any) -> float:
    """Return the reward as a number; raise unless it is one."""
    if not np.isscalar(reward) and np.ndim(reward) != 0:
        raise _MistakeError(
            f"the reward has shape {np.shape(reward)}", "return one number"
        )
    try:
        number = float(reward)
    except (TypeError, ValueError):
        raise _MistakeError(f"the reward is {reward!r}", "return one number") from None
    if not np.isfinite(number):
        raise _MistakeError(
            f"the reward is {number}", "look for a division by zero, or a log"
        )
    return number


def _check_observation(env: Env, observation: object, info: object) -> None:
    """Raise unless an observation lies in the space, with its shape and type."""
    if not isinstance(info, dict):
        raise _MistakeError(f"info is {type(info).__name__}, not a dict", "return {}")
    space = env.observation_space
    if isinstance(space, gym.spaces.Discrete):
        if not space.contains(observation):
            raise _MistakeError(
                f"the observation {observation!r} is not in {space}", ""
            )
        return
    if not isinstance(observation, np.ndarray):
        raise _MistakeError(
            f"the observation is {type(observation).__name__}, not a numpy array",
            f"np.asarray(observation, np.{space.dtype})",
        )
    if observation.shape != space.shape:
        raise _MistakeError(
            f"the observation has shape {observation.shape}, the space {space.shape}",
            "give observation_space the shape that reset and step return",
        )
    if observation.dtype != space.dtype:
        raise _MistakeError(
            f"the observation is {observation.dtype}, the space {space.dtype}",
            f"observation.astype(np.{space.dtype}), or another dtype for the space",
        )
    # Before the bounds: a space without bounds contains infinity.
    if not np.isfinite(observation).all():
        raise _MistakeError(
            f"the observation has {observation[~np.isfinite(observation)][0]} in it",
            "look for a division by zero, or a sensor that has no reading",
        )
    if not space.contains(observation):
        raise _MistakeError(
            f"the observation lies outside its space (from {observation.min():g} to "
            f"{observation.max():g})",
            "widen the bounds of observation_space, or clip",
        )


def _repetition_problems(trial: Trial, repetition: Trial) -> Iterator[_Problem]:
    """Compare two episodes with the same seed and actions."""
    hint = "use self.np_random, after super().reset(seed=seed), for all randomness"
    if not np.array_equal(trial.observations[0], repetition.observations[0]):
        yield _Problem(
            "reset(seed) is ignored: the same seed starts differently", hint, stops=True
        )
    elif trial.rewards != repetition.rewards or not all(
        map(np.array_equal, trial.observations, repetition.observations)
    ):
        # Only resuming needs exact repetition; the run itself is sound.
        yield _Problem(
            "the same seed and actions give another episode",
            f"{hint}; otherwise a resumed run is not bit-exact",
        )


def _space_problems(env: Env, trial: Trial, scaled: bool) -> Iterator[_Problem]:
    space = env.observation_space
    if isinstance(space, gym.spaces.Box) and not scaled:
        largest = max(float(np.abs(x).max()) for x in trial.observations)
        if space.dtype == np.uint8 and largest > LARGE:
            yield _Problem("observations are bytes", "scale = 0.00392156862745098")
        elif largest > LARGE:
            problem = f"observations are as large as {largest:g}"
            yield _Problem(problem, "[normalise] observations = true")
    action_space = env.action_space
    if isinstance(action_space, gym.spaces.Box) and not action_space.is_bounded():
        hint = 'clip them: wrappers = [{name = "ClipAction"}]'
        yield _Problem("actions have no bounds", hint)


def _length_problems(trial: Trial) -> Iterator[_Problem]:
    if not trial.ended:
        yield _Problem(
            f"an episode has not ended after {STEPS} steps",
            'a time limit: wrappers = [{name = "TimeLimit", max_episode_steps = 500}]',
        )


def _success_problems(trial: Trial) -> Iterator[_Problem]:
    if trial.success is None:
        yield _Problem(
            "the measure is success, but the environment does not report it",
            'set info["success"] in step, or leave measure out',
            stops=True,
        )
    elif trial.success:
        yield _Problem("random actions succeed", "is it the task that was meant?")


def _return_problems(trial: Trial, target: float, floor: float) -> Iterator[_Problem]:
    if not trial.ended:  # its return so far says nothing
        return
    if trial.total < floor:
        problem = f"random actions collect {trial.total:g}, less than floor {floor:g}"
        yield _Problem(problem, "set floor to the return of a bad policy")
    if trial.total >= target:
        problem = f"random actions collect {trial.total:g}; the target is {target:g}"
        yield _Problem(problem, "set target to the return of a good policy")
