"""Observations and actions are encoded as in training, without Gymnasium's spaces."""

import gymnasium as gym
import numpy as np
import pytest

from personae.envs.spaces import fit_spaces
from personae.errors import UsageError
from personae.policy.jax.export import action_spec, observation_spec
from personae.policy.spaces import ActionSpec, ObservationSpec

OBSERVATION_SPACES = {
    "numbers": gym.spaces.Box(-1, 1, (5,)),
    "image": gym.spaces.Box(0, 255, (2, 3), np.uint8),
    "choice": gym.spaces.Discrete(4, start=-1),
}
ACTION_SPACES = {
    "discrete": [gym.spaces.Discrete(3, start=2), gym.spaces.Discrete(5)],
    "several": [gym.spaces.MultiDiscrete([[2, 3], [4, 2]], start=[[0, 1], [2, 0]])] * 2,
    "box": [
        gym.spaces.Box(np.array([-1, 0.5]), np.array([1, np.inf]), dtype=np.float64),
        gym.spaces.Box(-2, 2, (3, 1)),
    ],
    "whole": [gym.spaces.Box(-2, 2, (3,), np.int32)] * 2,
}


@pytest.mark.parametrize("actions_kind", ACTION_SPACES)
@pytest.mark.parametrize("observations_kind", OBSERVATION_SPACES)
def test_specs_do_the_same_as_training(observations_kind, actions_kind):
    """Two tasks, the second larger: observations and actions are padded."""
    observation_spaces = [
        OBSERVATION_SPACES[observations_kind],
        gym.spaces.Box(-1, 1, (7,)),
    ]
    action_spaces = ACTION_SPACES[actions_kind]
    fit = fit_spaces(observation_spaces, action_spaces, ["a", "b"], pad=True)
    for task, space in enumerate(observation_spaces):
        spec = observation_spec(space)
        batch = np.stack([space.sample() for _ in range(20)])
        flat = fit.to_network(task, batch).reshape(20, -1)
        np.testing.assert_array_equal(spec.encode(batch, 7), flat)
        np.testing.assert_array_equal(spec.encode(np.asarray(batch[3]), 7), flat[3])
    for task, space in enumerate(action_spaces):
        spec, network_space = action_spec(space), fit.action_space
        assert spec.num_actions == fit.num_actions[task] or actions_kind == "several"
        actions = np.stack([network_space.sample() for _ in range(20)])
        if actions_kind == "discrete":
            actions = actions % spec.num_actions
        elif actions_kind == "several":
            actions = (actions - network_space.start).reshape(20, -1)
        else:
            actions = actions.reshape(20, -1).astype(np.float32)
        expected, decoded = fit.to_env(task, actions), spec.decode(actions)
        np.testing.assert_array_equal(decoded, expected)
        assert (decoded.shape, decoded.dtype) == (expected.shape, expected.dtype)
        single = spec.decode(np.asarray(actions[3]))
        np.testing.assert_array_equal(single, expected[3])
        inside = all(space.contains(action) for action in decoded)
        assert inside or actions_kind == "several"


@pytest.mark.parametrize(
    "space",
    [
        gym.spaces.Box(-1, 1, ()),
        gym.spaces.Box(-1, 1, (), np.int32),
        gym.spaces.MultiDiscrete(np.array(4)),
    ],
    ids=str,
)
def test_actions_without_dimensions_are_decoded(space):
    spec = action_spec(space)
    action = spec.decode(np.array([1], np.float32))
    assert (action.shape, action.dtype) == ((), space.dtype)
    assert action == 1
    assert spec.decode(np.ones((3, 1), np.float32)).shape == (3,)


def test_impossible_observations_are_named():
    spec = ObservationSpec((), 4, -1)
    with pytest.raises(UsageError, match=r"lie in -1\.\.2, not at \[3\]"):
        spec.encode(np.array([0, 3]), 4)
    with pytest.raises(UsageError, match=r"shape \(2,\), or .*, not \(1, 1, 2\)"):
        ObservationSpec((2,)).encode(np.zeros((1, 1, 2)), 2)


@pytest.mark.parametrize(
    ("spec", "fields"),
    [
        (ObservationSpec, {"shape": (-1,)}),
        (ObservationSpec, {"shape": (2,), "num_values": 3}),
        (ObservationSpec, {"shape": (), "num_values": 0}),
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
def test_impossible_specs_are_refused(spec, fields):
    with pytest.raises(UsageError):
        spec(**fields)
