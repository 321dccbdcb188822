"""What tasks show and take, with and without Gymnasium's spaces."""

import gymnasium as gym
import numpy as np
import pytest

from personae.envs.spaces import fit_spaces
from personae.errors import UsageError
from personae.policy.spaces import ActionSpec, ObservationSpec
from personae.training.export import shown_of, taken_of

SEEN = {
    "numbers": gym.spaces.Box(-1, 1, (5,)),
    "image": gym.spaces.Box(0, 255, (2, 3), np.uint8),
    "choice": gym.spaces.Discrete(4, start=-1),
}
DONE = {
    "discrete": [gym.spaces.Discrete(3, start=2), gym.spaces.Discrete(5)],
    "several": [gym.spaces.MultiDiscrete([[2, 3], [4, 2]], start=[[0, 1], [2, 0]])] * 2,
    "box": [
        gym.spaces.Box(np.array([-1, 0.5]), np.array([1, np.inf]), dtype=np.float64),
        gym.spaces.Box(-2, 2, (3, 1)),
    ],
    "whole": [gym.spaces.Box(-2, 2, (3,), np.int32)] * 2,
}


@pytest.mark.parametrize("done", DONE)
@pytest.mark.parametrize("seen", SEEN)
def test_they_do_what_training_does(seen, done):
    """Two tasks, the second larger: observations and actions are filled up."""
    spaces = [SEEN[seen], gym.spaces.Box(-1, 1, (7,))]
    fit = fit_spaces(spaces, DONE[done], ["a", "b"], pad=True)
    for task, (shows, takes) in enumerate(zip(spaces, DONE[done], strict=True)):
        shown, taken = shown_of(shows), taken_of(takes)
        assert taken.number == fit.num_actions[task] or done == "several"
        batch = np.stack([shows.sample() for _ in range(20)])
        flat = fit.to_network(task, batch).reshape(20, -1)
        np.testing.assert_array_equal(shown.flat(batch, 7), flat)
        np.testing.assert_array_equal(shown.flat(np.asarray(batch[3]), 7), flat[3])
        wide = fit.action_space
        actions = np.stack([wide.sample() for _ in range(20)])
        if done == "discrete":
            actions = actions % taken.number
        elif done == "several":
            actions = (actions - wide.start).reshape(20, -1)
        else:
            actions = actions.reshape(20, -1).astype(np.float32)
        wanted, found = fit.to_env(task, actions), taken.own(actions)
        np.testing.assert_array_equal(found, wanted)
        assert (found.shape, found.dtype) == (wanted.shape, wanted.dtype)
        np.testing.assert_array_equal(taken.own(np.asarray(actions[3])), wanted[3])
        assert all(takes.contains(each) for each in found) or done == "several"


def test_things_that_are_not_shown_are_named():
    shown = ObservationSpec((), 4, -1)
    with pytest.raises(UsageError, match=r"lie in -1\.\.2, not at \[3\]"):
        shown.flat(np.array([0, 3]), 4)
    with pytest.raises(UsageError, match=r"shape \(2,\), or .*, not \(1, 1, 2\)"):
        ObservationSpec((2,)).flat(np.zeros((1, 1, 2)), 2)


@pytest.mark.parametrize(
    ("space", "fields"),
    [
        (ObservationSpec, {"shape": (-1,)}),
        (ObservationSpec, {"shape": (2,), "choices": 3}),
        (ObservationSpec, {"shape": (), "choices": 0}),
        (ActionSpec, {"kind": "discrete", "sizes": (0,), "start": (0,)}),
        (ActionSpec, {"kind": "discrete", "sizes": (2,)}),
        (ActionSpec, {"kind": "box", "shape": (2,), "low": (0.0,), "high": (1.0,)}),
        (ActionSpec, {"kind": "box", "shape": (1,), "low": (0.0,), "high": ()}),
        (ActionSpec, {"kind": "multi-discrete", "shape": (2,), "sizes": (2,)}),
        (
            ActionSpec,
            {"kind": "discrete", "sizes": (2,), "start": (0,), "dtype": "object"},
        ),
    ],
)
def test_spaces_that_cannot_be_are_refused(space, fields):
    with pytest.raises(UsageError):
        space(**fields)
