"""Small environments, which other processes import by name."""

import gymnasium as gym
import numpy as np


class Breaks(gym.Env):
    """Works three times."""

    observation_space = gym.spaces.Box(-1, 1, (2,))
    action_space = gym.spaces.Discrete(2)
    steps = 0

    def reset(self, *, seed=None, options=None):
        return np.zeros(2, np.float32), {}

    def step(self, action):
        self.steps += 1
        if self.steps > 3:
            raise ValueError("the robot is on fire")
        return np.zeros(2, np.float32), 0.0, False, False, {}


class Lucky(gym.Env):
    """Succeeds at the third of five steps if the first action was 1; pays nothing."""

    observation_space = gym.spaces.Box(-1, 1, (2,))
    action_space = gym.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        self.steps = 0
        return np.zeros(2, np.float32), {}

    def step(self, action):
        self.steps += 1
        if self.steps == 1:
            self.lucky = action == 1
        info = {"success": float(self.lucky and self.steps == 3)}
        return np.zeros(2, np.float32), 0.0, False, self.steps == 5, info


class Counts(gym.Env):
    """Shows how many steps were made, always in the same array; tells no success."""

    observation_space = gym.spaces.Box(0, 100, (1,))
    action_space = gym.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        self.shown = np.zeros(1, np.float32)
        return self.shown, {}

    def step(self, action):
        self.shown += 1
        return self.shown, 1.0, False, bool(self.shown[0] == 7), {}


class Paced(gym.Env):
    """Pays its pace at each step, and 24 in all; shows what is left."""

    observation_space = gym.spaces.Box(0, 24, (2,))
    action_space = gym.spaces.Discrete(3)

    def __init__(self, pace=1):
        self.pace = pace

    def _show(self):
        return np.array([self.left, self.pace], np.float32)

    def reset(self, *, seed=None, options=None):
        self.left = 24
        return self._show(), {}

    def step(self, action):
        self.left -= self.pace
        return self._show(), float(self.pace), self.left <= 0, False, {}


gym.register("tests/Breaks-v0", Breaks)
gym.register("tests/Paced-v0", Paced)
gym.register("tests/Counts-v0", Counts)
gym.register("tests/Lucky-v0", Lucky)
