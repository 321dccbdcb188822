"""Faster steps for Meta-World's arm.

Much of the time that a step of Meta-World takes goes into small NumPy calls around
the simulation. The methods here compute the very same numbers, bit for bit (a test
plays both side by side), with fewer of them.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

_PALM_DOWN = np.array([1.0, 0.0, 1.0, 0.0])
_FULLY_OPEN = 0.1
"""Distance of the fingers, in metres, when the gripper is open."""


def speed_up(task_class: type) -> type:
    """Return a subclass of a task whose arm takes its steps in less time."""
    return type(task_class.__name__, (FastArm, task_class), {})


class FastArm:
    """Faster methods of `metaworld.SawyerXYZEnv`, version 3.1.1, as a mixin.

    It stands before the class of a task, whose attributes it uses.
    """

    # Only declared, never set: values here would hide those of the task's class.
    data: Any  # MuJoCo's, which has no types
    action_scale: float
    mocap_low: np.ndarray
    mocap_high: np.ndarray
    get_endeff_pos: Callable[[], np.ndarray]
    _get_pos_objects: Callable[[], np.ndarray]
    _get_quat_objects: Callable[[], np.ndarray]
    _get_pos_goal: Callable[[], np.ndarray]
    _obs_obj_max_len: int
    _partially_observable: bool
    _prev_obs: np.ndarray

    def set_xyz_action(self, action: np.ndarray) -> None:
        """Move the point that drags the hand along."""
        delta = np.minimum(np.maximum(action, -1), 1) * self.action_scale
        position = np.maximum(self.data.mocap_pos[0] + delta, self.mocap_low)
        self.data.mocap_pos[0] = np.minimum(position, self.mocap_high)
        self.data.mocap_quat[0] = _PALM_DOWN

    def _get_curr_obs_combined_no_goal(self) -> np.ndarray:
        """Return hand, gripper, and positions and turns of up to two objects."""
        data = self.data
        apart = data.body("rightclaw").xpos - data.body("leftclaw").xpos
        positions, turns = self._get_pos_objects(), self._get_quat_objects()
        observation = np.zeros(4 + self._obs_obj_max_len)
        observation[:3] = self.get_endeff_pos()
        # The dot product is what np.linalg.norm computes, at a fraction of its cost.
        observation[3] = min(math.sqrt(apart.dot(apart)) / _FULLY_OPEN, 1.0)
        for index in range(len(positions) // 3):
            start = 4 + 7 * index
            observation[start : start + 3] = positions[3 * index : 3 * index + 3]
            observation[start + 3 : start + 7] = turns[4 * index : 4 * index + 4]
        return observation

    def _get_obs(self) -> np.ndarray:
        """Return the current observation, the previous one, and the goal."""
        current = self._get_curr_obs_combined_no_goal()
        goal = self._get_pos_goal()
        if self._partially_observable:
            goal = np.zeros_like(goal)
        combined = np.concatenate((current, self._prev_obs, goal))
        self._prev_obs = current
        return combined
