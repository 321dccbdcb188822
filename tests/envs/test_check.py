"""Broken environments with one mistake each, which the check names with a hint."""

import gymnasium as gym
import numpy as np
import pytest

from personae.envs.check import check_env


class Sound(gym.Env):
    """A walk on a line that does everything right."""

    observation_space = gym.spaces.Box(-10, 10, (2,), np.float32)
    action_space = gym.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps = 0
        self.position = float(self.np_random.uniform(-1, 1))
        return self.observe(), {}

    def step(self, action):
        self.steps += 1
        self.position += 0.1 * (2 * action - 1)
        return self.observe(), 0.1, False, self.steps == 9, {}

    def observe(self):
        return np.array([self.position, 0.0], np.float32)


def run_check(kind, scaled=False, target=5.0, floor=0.0):
    return check_env("task", kind, scaled=scaled, target=target, floor=floor)


def test_a_sound_environment_passes():
    findings, trial = run_check(Sound)
    assert findings == []
    assert trial.ended
    assert trial.total == pytest.approx(0.9)


class OldReset(Sound):
    def reset(self, *, seed=None, options=None):
        return super().reset(seed=seed)[0]


class NoSeed(Sound):
    def reset(self):
        return super().reset(seed=0)


class IgnoresSeeds(Sound):
    def reset(self, *, seed=None, options=None):
        return super().reset(seed=None)


class OldStep(Sound):
    def step(self, action):
        return super().step(action)[:4]


class WrongType(Sound):
    def observe(self):
        return super().observe().astype(np.float64)


class WrongShape(Sound):
    def observe(self):
        return super().observe()[:1]


class NoArray(Sound):
    def observe(self):
        return [1.0, 2.0]


class NotFinite(Sound):
    observation_space = gym.spaces.Box(-np.inf, np.inf, (2,), np.float32)

    def observe(self):
        return np.array([np.nan if self.steps == 4 else 0, 0], np.float32)


class OutOfBounds(Sound):
    def observe(self):
        return super().observe() + np.float32(20) * (self.steps > 3)


class Reused(Sound):
    def observe(self):
        self.buffer = getattr(self, "buffer", np.zeros(2, np.float32))
        self.buffer[:] = super().observe()
        return self.buffer


class RewardNotFinite(Sound):
    def step(self, action):
        observation, _, *ends = super().step(action)
        return observation, float("inf"), *ends


class RewardArray(Sound):
    def step(self, action):
        observation, _, *ends = super().step(action)
        return observation, np.ones(2), *ends


class RewardNothing(Sound):
    def step(self, action):
        observation, _, *ends = super().step(action)
        return observation, None, *ends


class FlagNumber(Sound):
    def step(self, action):
        observation, reward, _, truncated, info = super().step(action)
        return observation, reward, 0, truncated, info


class InfoNothing(Sound):
    def step(self, action):
        return *super().step(action)[:4], None


class OddObservations(Sound):
    observation_space = gym.spaces.Text(5)


class OddActions(Sound):
    action_space = gym.spaces.Tuple([gym.spaces.Discrete(2)] * 2)


class Raises(Sound):
    def step(self, action):
        raise ZeroDivisionError("oh")


class StateOutside(Sound):
    observation_space = gym.spaces.Discrete(3)

    def observe(self):
        return 5


@pytest.mark.parametrize(
    ("kind", "problem", "hint"),
    [
        (OldReset, "reset does not return (observation, info)", "two values"),
        (NoSeed, "reset takes no seed", "seed=None"),
        (IgnoresSeeds, "reset(seed) is ignored", "self.np_random"),
        (OldStep, "step returns 4 values, not 5", "terminated, truncated"),
        (WrongType, "is float64, the space float32", "astype(np.float32)"),
        (WrongShape, "has shape (1,), the space (2,)", "observation_space"),
        (NoArray, "is list, not a numpy array", "np.asarray"),
        (NotFinite, "has nan in it", "division by zero"),
        (OutOfBounds, "lies outside its space", "widen the bounds"),
        (Reused, "changes the observation that it returned before", "copy"),
        (RewardNotFinite, "the reward is inf", "division by zero"),
        (RewardArray, "the reward has shape (2,)", "one number"),
        (RewardNothing, "the reward is None", "one number"),
        (FlagNumber, "terminated is 0, not a boolean", "bool"),
        (InfoNothing, "info is NoneType, not a dict", "{}"),
        (OddObservations, "observations are Text", ""),
        (OddActions, "actions are Tuple", ""),
        (Raises, "it raised ZeroDivisionError: oh", "a few steps"),
        (StateOutside, "the observation 5 is not in Discrete(3)", ""),
    ],
)
def test_every_mistake_is_named(kind, problem, hint):
    findings, _ = run_check(kind)
    assert len(findings) == 1
    (finding,) = findings
    assert problem in finding.problem
    assert hint in finding.hint
    assert finding.stops


class Endless(Sound):
    def step(self, action):
        self.position = 0.0
        return *super().step(action)[:3], False, {}


class Unrepeatable(Sound):
    def step(self, action):
        observation, reward, *ends = super().step(action)
        return observation, np.random.default_rng().random() * reward, *ends


class Large(Sound):
    observation_space = gym.spaces.Box(-1e6, 1e6, (2,), np.float32)

    def observe(self):
        return super().observe() * 1000 + 200


class Bytes(Sound):
    observation_space = gym.spaces.Box(0, 255, (2,), np.uint8)

    def observe(self):
        return np.array([200, 0], np.uint8)


class Boundless(Sound):
    action_space = gym.spaces.Box(-np.inf, np.inf, (1,), np.float32)

    def step(self, action):
        return super().step(1)


@pytest.mark.parametrize(
    ("kind", "changes", "problem", "hint"),
    [
        (Endless, {}, "has not ended", "TimeLimit"),
        (Unrepeatable, {}, "give another episode", "bit-exact"),
        (Large, {}, "as large as", "[normalise]"),
        (Bytes, {}, "are bytes", "scale = 0.0039"),
        (Boundless, {}, "no bounds", "ClipAction"),
        (Sound, {"target": 0.5}, "the target is 0.5", "a good policy"),
        (Sound, {"floor": 2.0}, "less than floor 2", "a bad policy"),
    ],
)
def test_a_weakness_is_named_but_does_not_stop_a_run(kind, changes, problem, hint):
    findings, _ = run_check(kind, **changes)
    assert len(findings) == 1
    assert problem in findings[0].problem
    assert hint in findings[0].hint
    assert not findings[0].stops


class Succeeds(Sound):
    def step(self, action):
        return *super().step(action)[:4], {"success": float(self.steps == 4)}


def test_success_must_be_reported_if_it_is_the_measure():
    limits = {"scaled": True, "target": 1.0, "floor": 0.0, "by_success": True}
    [finding], _ = check_env("task", Sound, **limits)
    assert "does not report it" in finding.problem
    assert 'info["success"]' in finding.hint
    assert finding.stops
    [remark], trial = check_env("task", Succeeds, **limits)
    assert remark.problem == "random actions succeed"
    assert trial.success
    assert not remark.stops


def test_scaled_inputs_may_be_large():
    assert run_check(Large, scaled=True)[0] == []


@pytest.fixture
def curriculum_file(tmp_path):
    def write(*tasks):
        path = tmp_path / "mine.toml"
        path.write_text('id = "me/Mine-v0"\n' + "".join(tasks))
        return path

    return write


CART = '[[tasks]]\nname = "cart"\nenv = "CartPole-v1"\ntarget = 500.0\n'
ACROBOT = '[[tasks]]\nname = "acro"\nenv = "Acrobot-v1"\ntarget = -80.0\nfloor = -500\n'


def test_the_command_approves_a_sound_curriculum(personae_command, curriculum_file):
    code, output, _ = personae_command("check", curriculum_file(CART))
    assert code == 0
    assert "steps/s" in output
    assert "me/Mine-v0 can be learned" in output


@pytest.mark.parametrize(
    ("tasks", "message"),
    [
        ([CART.replace("CartPole-v1", "CartPole-v7")], "cannot make 'CartPole-v7'"),
        ([CART + "options = {gravity = 3}\n"], "does not take these options"),
        ([CART + "attributes = {gravty = 3.0}\n"], "Did you mean 'gravity'?"),
        ([CART + 'wrappers = [{name = "Timelimit"}]\n'], "Did you mean 'TimeLimit'?"),
        ([CART, ACROBOT], "observations differ"),
    ],
)
def test_the_command_names_a_mistake(personae_command, curriculum_file, tasks, message):
    code, output, errors = personae_command("check", curriculum_file(*tasks))
    assert code == 1
    assert message in " ".join(output.replace("│", " ").replace("┃", " ").split())
    assert "would stop or spoil a run" in errors
