"""Meta-World's arm with less to do between two steps of its physics.

Much of the time that a step of Meta-World takes goes into small NumPy calls around
the simulation. The methods here compute the very same numbers, bit for bit (a test
plays both side by side), with fewer of them.
"""

import math
from typing import Any

import numpy as np

_PALM_DOWN = np.array([1.0, 0.0, 1.0, 0.0])
_FULLY_OPEN = 0.1
"""How far apart the fingers are, in metres, when the gripper is open."""


def speed_up(task_class: type) -> type:
    """Return the class of a task whose arm takes its steps in less time."""
    return type(task_class.__name__, (FastArm, task_class), {})


class FastArm:
    """What stands in front of a `metaworld.SawyerXYZEnv`, version 3.1.1."""

    data: Any

    def set_xyz_action(self: Any, action: np.ndarray) -> None:
        """Move the point that drags the hand along."""
        delta = np.minimum(np.maximum(action, -1), 1) * self.action_scale
        place = np.maximum(self.data.mocap_pos[0] + delta, self.mocap_low)
        self.data.mocap_pos[0] = np.minimum(place, self.mocap_high)
        self.data.mocap_quat[0] = _PALM_DOWN

    def _get_curr_obs_combined_no_goal(self: Any) -> np.ndarray:
        """Return hand, gripper, and places and turns of up to two objects."""
        data = self.data
        apart = data.body("rightclaw").xpos - data.body("leftclaw").xpos
        places, turns = self._get_pos_objects(), self._get_quat_objects()
        seen = np.zeros(4 + self._obs_obj_max_len)
        seen[:3] = self.get_endeff_pos()
        seen[3] = min(math.sqrt(apart.dot(apart)) / _FULLY_OPEN, 1.0)
        for thing in range(len(places) // 3):
            start = 4 + 7 * thing
            seen[start : start + 3] = places[3 * thing : 3 * thing + 3]
            seen[start + 3 : start + 7] = turns[4 * thing : 4 * thing + 4]
        return seen

    def _get_obs(self: Any) -> np.ndarray:
        """Return what is seen now, what was seen before, and the goal."""
        now = self._get_curr_obs_combined_no_goal()
        goal = self._get_pos_goal()
        if self._partially_observable:
            goal = np.zeros_like(goal)
        both = np.concatenate((now, self._prev_obs, goal))
        self._prev_obs = now
        return both
