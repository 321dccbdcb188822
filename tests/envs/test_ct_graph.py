"""The CT-graph against hand-derived episodes and the bytes of the published images."""

import functools
import hashlib
from itertools import product

import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from personae.envs.ct_graph.env import CTGraphOptions, build
from personae.envs.ct_graph.images import draw_images
from personae.errors import UsageError

# sha1 of the stacked uint8 images of the published environment (image seed 1).
PUBLISHED = {
    2: "3f2c86e66b222bd067c87ce09587a7f94753e291",
    3: "f6e71f1d87d81da7b851006f5ce2600656e88275",
    4: "607f81c0669e9b44009562e5a396a854104be890",
    5: "cdd3df9a5b37a96464015a6733ddf5d57ec6dfaa",
}
HOME, CRASH, WAIT = 0, 1, 2
IMAGES = draw_images(80, seed=1)


@functools.cache
def make(**options):
    """Make an environment, once for the same options: compilation takes the time."""
    return gym.make("personae/CTGraph-v0", disable_env_checker=True, **options)


def walk(actions, seed=0, **options):
    """Play actions; return a list of (image index or cue, reward, done)."""
    env = make(**options)
    episode = [_name(env.reset(seed=seed)[0])]
    for action in actions:
        observation, reward, terminated, truncated, _ = env.step(action)
        assert not truncated
        episode.append((_name(observation), round(reward, 3), terminated))
    return episode


def _name(observation):
    matches = np.flatnonzero((observation == IMAGES).all((1, 2)))
    if matches.size:
        return int(matches[0])
    centre = np.unique(observation[3:9, 3:9])
    assert centre.size == 1
    without = np.ones((12, 12), bool)
    without[3:9, 3:9] = False
    (leaf,) = np.flatnonzero((observation == IMAGES)[:, without].all(1))
    return ("leaf", int(leaf), int(centre[0]))


@pytest.mark.parametrize("depth", PUBLISHED)
def test_images_equal_the_published_bytes(depth):
    images = draw_images(2 + 1 + (2**depth - 1) + 2**depth, seed=1)
    assert hashlib.sha1(images.tobytes()).hexdigest() == PUBLISHED[depth]


def test_a_successful_episode_by_hand():
    # Depth 3, goal right-left-right: root decision 3, then 5, then 8; leaves from 10.
    # Leaf 5 (binary 101) shows image 10 + (5 - 1) = 14 with a white centre.
    episode = walk([0, 0, 2, 0, 1, 0, 2, 0, 1], depth=3, goal=(1, 0, 1))
    assert episode == [
        HOME,
        (WAIT, 0.0, False),
        (3, 0.0, False),
        (WAIT, 0.0, False),
        (5, 0.0, False),
        (WAIT, 0.0, False),
        (8, 0.0, False),
        (WAIT, 0.0, False),
        (("leaf", 14, 254), 1.0, False),
        (HOME, 0.0, True),
    ]


def test_the_wrong_leaf_shows_a_black_centre_and_pays_nothing():
    # Depth 2, leaf 00: decisions 3..5, leaves from 6; leaf 0 shows the last image, 9.
    episode = walk([2, 0, 1, 0, 1, 0, 0], depth=2, goal=(1, 1))
    assert episode[4] == (4, 0.0, False)
    assert episode[6:] == [(("leaf", 9, 0), 0.0, False), (HOME, 0.0, True)]


@pytest.mark.parametrize(
    "actions", [[0, 1], [0, 2], [0, 0, 0], [0, 0, 1, 2], [0, 0, 1, 0, 0]]
)
def test_a_wrong_action_crashes_at_once(actions):
    *_, before, last = walk(actions, depth=2, goal=(0, 0), crash_reward=-0.5)
    assert before[2] is False or before == HOME
    assert last == (CRASH, -0.5, True)


@pytest.mark.parametrize(("depth", "goal"), [(1, (1,)), (2, (0, 1))])
def test_exactly_one_action_sequence_is_rewarded(depth, goal):
    # A random policy succeeds with probability 3^-(2 depth + 1): count all sequences.
    env, params = build([{"depth": depth, "goal": goal}])
    params = jax.tree.map(lambda leaf: leaf[0], params)
    length = 2 * depth + 1
    key = jax.random.key(0)

    def total(actions):
        state, _ = env.reset(params, key)
        state, _ = env.step(params, state, jnp.asarray(0), key)

        def step(carry, action):
            state, ended = carry
            state, new = env.step(params, state, action, key)
            return (state, ended | new.terminated), jnp.where(ended, 0, new.reward)

        return jax.lax.scan(step, (state, False), actions)[1].sum()

    sequences = jnp.asarray(list(product(range(3), repeat=length)))
    totals = np.asarray(jax.jit(jax.vmap(total))(sequences))
    assert totals.sum() == 1
    decisions = np.asarray(sequences[totals.argmax()])[1::2]
    np.testing.assert_array_equal(decisions, np.array(goal) + 1)


def test_three_branches_number_their_nodes_breadth_first():
    # b = 3, d = 2: root 3, children 4..6, leaves from 7; goal 2-1 is leaf 7, image 13.
    episode = walk([0, 0, 3, 0, 2, 0, 0], branch=3, depth=2, goal=(2, 1))
    assert [e[0] for e in episode[2:6:2]] == [3, 6]
    assert episode[6] == (("leaf", 13, 254), 1.0, False)


def test_waits_repeat_with_their_probability():
    env, params = build([{"depth": 1, "goal": (0,), "wait_probability": 0.75}])
    params = jax.tree.map(lambda leaf: leaf[0], params)

    def is_waiting(key):
        state, _ = env.reset(params, key)
        state, _ = env.step(params, state, jnp.asarray(0), key)
        new, _ = env.step(params, state, jnp.asarray(0), key)
        return new.kind == state.kind

    share = jax.vmap(is_waiting)(jax.random.split(jax.random.key(0), 4000)).mean()
    assert abs(float(share) - 0.75) < 0.03
    assert not env.deterministic


def test_mdp_waits_have_images_of_their_own():
    waits = [e[0] for e in walk([0, 0, 2], depth=1, goal=(1,), mdp_waits=True)[1::2]]
    # Three waits at images 2..4 (root, then children), the decision after them.
    assert waits == [2, 4]
    assert walk([0, 0], depth=1, goal=(1,), mdp_waits=True)[2][0] == 5


def test_shared_decision_images_are_drawn_at_random():
    options = {"depth": 1, "goal": (0,), "mdp_decisions": False, "shared_images": 3}
    images = {walk([0, 0], seed=seed, **options)[2][0] for seed in range(20)}
    assert images == {5, 6, 7}


def test_reward_noise_spreads_the_reward_and_the_cue():
    options = {"depth": 1, "goal": (0,), "reward_noise": 0.1}
    rewards = [walk([0, 0, 1, 0], s, **options)[4][1] for s in range(20)]
    assert 0.02 < np.std(rewards) < 0.25
    assert abs(np.mean(rewards) - 1) < 0.1


def test_noise_and_rotation_change_each_reading():
    noisy = make(depth=1, goal=(0,), noise_on_read=20)
    first, _ = noisy.reset(seed=0)
    second, _ = noisy.reset()
    clean = draw_images(1, seed=1, noise=20)[0]
    difference = first.astype(int) - clean
    assert difference.min() >= 0
    assert 15 <= difference.max() <= 20
    assert (first != second).any()
    turning = make(depth=1, goal=(0,), rotation_on_read=90)
    assert len({turning.reset(seed=s)[0].tobytes() for s in range(10)}) > 5


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"depth": 3, "goal": (0, 1, 1), "mdp_waits": True},
        {"wait_probability": 0.5, "noise_on_read": 5, "rotation_on_read": 10},
        {"reward_noise": 0.1, "mdp_decisions": False, "shared_images": 3},
    ],
)
def test_gymnasium_accepts_the_environment(options):
    check_env(make(render_mode="rgb_array", **options).unwrapped)


@pytest.mark.parametrize("actions", [[], [0], [0, 0, 2, 0, 1, 0], [0, 0, 0]])
def test_rendering_shows_the_state(actions):
    env = make(depth=2, goal=(1, 0), render_mode="rgb_array")
    env.reset(seed=0)
    before = env.render()
    for action in actions:
        env.step(action)
    after = env.render()
    assert before.dtype == np.uint8
    assert before.shape[2] == 3
    assert (before != after).any() == bool(actions)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"depth": 0, "goal": ()}, "depth must be at least 1, not 0"),
        ({"goal": (0, 2)}, "must name branches 0 to 1"),
        ({"goal": (0,)}, "for each of the 2 decisions"),
        ({"wait_probability": 1.0}, "wait_probability must be in 0..0.999, not 1.0"),
        ({"noise_on_read": 300}, "not 300"),
    ],
)
def test_bad_options_are_named(options, message):
    with pytest.raises(UsageError, match=message):
        CTGraphOptions(**options)


def test_tasks_of_different_depth_are_one_environment():
    tasks = [{"depth": 2, "goal": (0, 0)}, {"depth": 5, "goal": (0, 0, 0, 0, 1)}]
    env, params = build(tasks)
    assert env.deterministic
    assert params.images.shape == (2, 66, 12, 12)
    with pytest.raises(UsageError, match="same branch"):
        build([*tasks, {"branch": 3}])


@pytest.mark.parametrize("depths", [(3,), (2, 3), (2, 4, 5)])
def test_the_optimal_policy_reaches_every_goal_in_time(depths):
    tasks = [
        {"depth": depth, "goal": list(goal)}
        for depth in depths
        for goal in product(range(2), repeat=depth)
    ]
    env, params = build(tasks)
    assert env.longest_solution == 2 * max(depths) + 2
    key = jax.random.key(0)

    def solve(params):
        state, _ = env.reset(params, key)

        def step(state, _):
            state, new = env.step(params, state, env.optimal_action(params, state), key)
            return state, new.reward

        return jax.lax.scan(step, state, length=env.longest_solution)[1]

    rewards = np.asarray(jax.vmap(solve)(params))
    for task, reward in zip(tasks, rewards, strict=True):
        assert reward[2 * task["depth"] + 1] == 1.0


@pytest.mark.parametrize(
    ("actions", "success"),
    [
        # The goal leaf, and the step that ends the episode after it.
        ([0, 0, 2, 0, 0], [False, False, False, True, True]),
        ([0, 0, 1, 0, 0], [False] * 5),
        ([0, 1], [False] * 2),
    ],
)
def test_success_is_reported_from_the_goal_on(actions, success):
    env = make(depth=1, goal=(1,))
    env.reset(seed=0)
    steps = [env.step(action) for action in actions]
    assert [info["success"] for *_, info in steps] == success
    assert steps[-1][2]  # terminated


def test_success_does_not_depend_on_the_size_of_the_reward():
    env, params = build([{"depth": 1, "goal": (0,), "high_reward": -2.0}])
    params = jax.tree.map(lambda leaf: leaf[0], params)
    key = jax.random.key(0)
    state, _ = env.reset(params, key)
    for _ in range(env.longest_solution):
        action = env.optimal_action(params, state)
        state, step = env.step(params, state, action, key)
    assert float(step.reward) == -2.0
    assert bool(step.success)
    assert step.success.dtype == bool
