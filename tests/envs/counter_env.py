"""A tiny environment that counts its steps."""

import gymnasium as gym
import numpy as np


class Counter(gym.Env):
    """Observes the number of its steps; after three it is over, or cut."""

    observation_space = gym.spaces.Box(-1000, 1000, (1,), np.float32)
    action_space = gym.spaces.Discrete(2)

    def __init__(self, cut: bool = False):
        self.cut = cut

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps = 0
        return self._observation(), {}

    def step(self, action):
        self.steps += 1
        over = self.steps == 3
        ends = over and not self.cut, over and self.cut
        return self._observation(), float(action), *ends, {}

    def _observation(self):
        return np.array([self.steps], np.float32)
