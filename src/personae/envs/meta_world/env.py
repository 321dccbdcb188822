"""Meta-World's robot tasks, as Continual World uses them.

A wrapper around the package `metaworld`, which is an extra. What it mends: `reset`
heeds its seed, the goal can be seen, and episodes end after a horizon of their own.
"""

import os
import pickle
from typing import Any, Literal

import gymnasium as gym
import numpy as np

from personae.envs.meta_world.arm import speed_up
from personae.errors import PersonaeError, UsageError, nearest_match_error, require

Goal = Literal["fixed", "random"]

FIXED: dict[str, tuple[float, ...]] = {
    "hammer": (0.0012461242479873402, 0.46243793262172644, 0.0),
    "push-wall": (
        *(-0.029601817921621056, 0.608732884720249, 0.015),
        *(-0.027769982480836997, 0.8913429820446541, 0.018742652881592728),
    ),
    "faucet-close": (-0.07983104218753186, 0.80777711997452, 0.0),
    "push-back": (
        *(0.08876635101405761, 0.8256491074865558, 0.02),
        *(-0.04253338048433724, 0.6940482734556601, 0.019962241071781704),
    ),
    "stick-pull": (
        *(-0.04460508410290112, 0.6497980599042461, 0.0008199111874653556),
        *(0.3546337627690315, 0.5160152955595001, 0.020028194823247324),
    ),
    "handle-press-side": (
        *(-0.3259516196234134, 0.6698093698370474, 0.0007265218506855228),
    ),
    "push": (
        *(0.019167615112388625, 0.6685276289497989, 0.02),
        *(0.037482434172745605, 0.8224317593093019, 0.01874827552520846),
    ),
    "shelf-place": (
        *(-0.02425200159525534, 0.5842111300794346, 0.019351288003227794),
        *(-0.05928586553532309, 0.8318425800022595, 0.30098963568393855),
    ),
    "window-close": (0.0, 0.7892284776739109, 0.2),
    "peg-unplug-side": (
        *(-0.2063734862624433, 0.7936632097676117, -0.0008563421226860428),
    ),
}
"""Where objects and goal are in each task of CW10: the first of the 50 places that
Meta-World 3.1.1 draws for it in `MT50(seed=1)`, which takes half a minute."""


class Robot(gym.Wrapper[Any, Any, Any, Any]):
    """A robot arm and one thing to do with it."""

    def __init__(self, env: Any, place: np.ndarray | None):
        super().__init__(env)
        self._arm: Any = env.unwrapped
        self._set_task(place)
        # The one that it announces knows no goal.
        self.observation_space = self._arm.sawyer_observation_space

    def _set_task(self, place: np.ndarray | None) -> None:
        """Set the task, whose data Meta-World wants as bytes of its own making."""
        import metaworld

        arm = self._arm
        any_place = arm._random_reset_space.low
        task = {
            "env_cls": object,  # of which it asks that the arm is one
            "rand_vec": any_place if place is None else place,
            "partially_observable": False,
        }
        arm.set_task(metaworld.Task("", pickle.dumps(task)))
        arm._freeze_rand_vec = place is not None
        arm.seeded_rand_vec = True

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Start an episode, whose goal depends on the seed if it is random."""
        if seed is not None:
            self._arm.seed(seed)
        return self.env.reset()

    def render(self) -> Any:
        """Draw the robot; the camera hangs upside down."""
        return np.asarray(self.env.render())[::-1, ::-1]


def make(
    task: str,
    goal: str = "fixed",
    horizon: int = 500,
    render_mode: str | None = None,
) -> Robot:
    """Make a task of Meta-World, by its name without version: push-wall.

    A fixed goal, and fixed places of all objects, are those of the paper; with random
    ones each episode has others.
    """
    if render_mode is not None and "DISPLAY" not in os.environ:
        os.environ.setdefault("MUJOCO_GL", "egl")  # draws without a screen
    try:
        from metaworld.env_dict import ALL_V3_ENVIRONMENTS
    except ImportError as error:
        raise PersonaeError(
            "Meta-World's tasks need an extra: pip install 'personae[continual-world]'"
        ) from error
    known = [name.removesuffix("-v3") for name in ALL_V3_ENVIRONMENTS]
    if task not in known:
        raise nearest_match_error("task of Meta-World", task, known)
    if goal not in ("fixed", "random"):
        raise nearest_match_error("goal", goal, ("fixed", "random"))
    if goal == "fixed" and task not in FIXED:
        raise UsageError(
            f"only the tasks of CW10 have a fixed goal, not {task!r}; choose "
            'goal = "random"'
        )
    require(1 <= horizon <= 500, f"horizon must be 1 to 500, not {horizon}")
    arm = speed_up(ALL_V3_ENVIRONMENTS[f"{task}-v3"])(
        render_mode=render_mode, camera_name="corner2", width=320, height=320
    )
    if render_mode is not None:  # without a GPU shadows are most of a picture's work
        arm.model.light_castshadow[:] = 0
        arm.model.mat_reflectance[:] = 0
    arm.max_path_length = horizon
    return Robot(arm, np.array(FIXED[task]) if goal == "fixed" else None)
