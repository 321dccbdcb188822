"""An environment that fails after a while; processes import it by name."""

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


gym.register("tests/Breaks-v0", Breaks)
