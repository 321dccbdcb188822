"""Meta-World's robot tasks, as Continual World uses them.

A wrapper around the package `metaworld`, which is an extra. It corrects three points:
`reset` uses its seed, observations hold the goal, and episodes have a horizon of their
own.
"""

import os
import pickle
from typing import Any, Literal, TypeAlias

import gymnasium as gym
import numpy as np

from personae.envs.meta_world.arm import speed_up
from personae.errors import PersonaeError, UsageError, nearest_match_error, require
from personae.serialise import PlainData

Goal: TypeAlias = Literal["fixed", "random"]

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
"""The positions of objects and goal in each task of CW10: the first of the 50 that
Meta-World 3.1.1 draws for it in `MT50(seed=1)`, which takes half a minute."""


class Robot(gym.Wrapper[np.ndarray, np.ndarray, np.ndarray, np.ndarray]):
    """A robot arm with one task.

    Args:
        env: The task's environment in Meta-World, which has no types.
        layout: Positions of objects and goal; None draws new ones for each episode.
    """

    def __init__(self, env: Any, layout: np.ndarray | None):
        super().__init__(env)
        self._arm: Any = env.unwrapped
        self._set_task(layout)
        # The space that Meta-World announces does not hold the goal.
        self.observation_space = self._arm.sawyer_observation_space

    def _set_task(self, layout: np.ndarray | None) -> None:
        """Set the task; Meta-World takes its data pickled, as its own tasks are."""
        import metaworld

        arm = self._arm
        # Meta-World needs some positions; unless they are fixed, `reset` draws others.
        any_layout = arm._random_reset_space.low
        task = {
            "env_cls": object,  # Meta-World requires the arm to be an instance of it
            "rand_vec": any_layout if layout is None else layout,
            "partially_observable": False,
        }
        arm.set_task(metaworld.Task("", pickle.dumps(task)))
        arm._freeze_rand_vec = layout is not None
        # Without this positions come from NumPy's global generator, whatever the seed.
        arm.seeded_rand_vec = True

    def reset(
        self, *, seed: int | None = None, options: PlainData | None = None
    ) -> tuple[np.ndarray, PlainData]:
        """Start an episode, whose goal depends on the seed if it is random."""
        # Meta-World's own reset ignores the seed that it takes.
        if seed is not None:
            self._arm.seed(seed)
        return self.env.reset()

    def render(self) -> np.ndarray:
        """Draw the robot; the camera hangs upside down."""
        return np.asarray(self.env.render())[::-1, ::-1]


def make(
    task: str,
    goal: str = "fixed",
    horizon: int = 500,
    render_mode: str | None = None,
) -> Robot:
    """Make a task of Meta-World.

    Args:
        task: Name without version, such as push-wall.
        goal: "fixed" for the paper's positions of goal and objects; with "random" each
            episode has others.
        horizon: Steps of an episode.
        render_mode: Gymnasium's.
    """
    # MuJoCo reads this when it is imported, and fails where there is no screen.
    if render_mode is not None and "DISPLAY" not in os.environ:
        os.environ.setdefault("MUJOCO_GL", "egl")
    try:
        from metaworld.env_dict import ALL_V3_ENVIRONMENTS
    except ImportError as error:
        raise PersonaeError(
            "Meta-World's tasks need an extra: pip install 'personae[continual-world]'"
        ) from error
    tasks = [name.removesuffix("-v3") for name in ALL_V3_ENVIRONMENTS]
    if task not in tasks:
        raise nearest_match_error("task of Meta-World", task, tasks)
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
    if render_mode is not None:
        # Without a GPU, shadows and reflections take most of the time of a picture.
        arm.model.light_castshadow[:] = 0
        arm.model.mat_reflectance[:] = 0
    arm.max_path_length = horizon
    return Robot(arm, np.array(FIXED[task]) if goal == "fixed" else None)
