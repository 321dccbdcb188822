"""The crossing environments, step for step beside the `minigrid` package."""

from collections import Counter

import gymnasium as gym
import jax
import minigrid  # noqa: F401  registers its environments
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from minigrid.core.grid import Grid
from minigrid.core.world_object import Goal, Lava, Wall
from minigrid.envs.crossing import CrossingEnv
from minigrid.wrappers import ImgObsWrapper
from scipy.stats import chi2_contingency

from personae.curricula import find_curriculum
from personae.envs import find_family
from personae.envs.crossing.env import CrossingOptions
from personae.envs.crossing.maze import (
    EMPTY,
    GOAL,
    LAVA,
    WALL,
    distances,
    make_maze,
    max_crossings,
    to_grid,
    to_text,
)
from personae.errors import UsageError

KINDS = {WALL: Wall, GOAL: Goal, LAVA: Lava}
MG10 = find_curriculum("mg10")


class MinigridMaze(CrossingEnv):
    """Minigrid's environment with a maze of ours."""

    def __init__(self, maze, **options):
        self.cells = to_grid(maze)
        super().__init__(size=len(maze), obstacle_type=Wall, **options)

    def _gen_grid(self, width, height):
        self.grid = Grid(width, height)
        for (y, x), cell in np.ndenumerate(self.cells):
            if cell != EMPTY:
                self.grid.set(x, y, KINDS[cell]())
        self.agent_pos, self.agent_dir, self.mission = (1, 1), 0, ""


def in_minigrid(maze, **options):
    return ImgObsWrapper(MinigridMaze(maze, **options))


def walk_both(env, reference, steps, actions, seed):
    """Take the same random actions in both, in episodes; every answer must be equal."""
    generator = np.random.default_rng(seed)
    np.testing.assert_array_equal(env.reset(seed=0)[0], reference.reset()[0])
    ends = set()
    for _ in range(steps):
        # Forward more often than not, or the agent would only turn.
        action = generator.choice([2, generator.integers(actions)])
        observation, reward, *ended, info = env.step(action)
        expected, expected_reward, *expected_ended, _ = reference.step(action)
        np.testing.assert_array_equal(observation, expected)
        assert observation.dtype == expected.dtype
        assert reward == pytest.approx(expected_reward, rel=1e-6)
        assert ended == expected_ended
        assert info == {"success": expected_reward > 0}
        if any(ended):
            ends.add((*ended, reward > 0))
            np.testing.assert_array_equal(env.reset()[0], reference.reset()[0])
    return ends


def in_gymnasium(maze, **options):
    return gym.make("personae/Crossing-v0", maze=list(maze), **options)


@pytest.mark.parametrize("task", MG10.tasks, ids=lambda task: task.name)
def test_each_maze_of_mg10_is_minigrids_step_for_step(task):
    kind, rivers, seed = task.name.split("-")
    name = f"MiniGrid-{kind.capitalize()}CrossingS9{rivers.upper()}-v0"
    original = ImgObsWrapper(gym.make(name))
    original.reset(seed=int(seed))
    grid = original.unwrapped.grid.encode()[..., 0].T
    np.testing.assert_array_equal(to_grid(task.options["maze"]), grid)
    reference = gym.wrappers.TransformObservation(original, np.asarray, None)
    reference.reset = lambda: original.reset(seed=int(seed))  # the same maze
    env = gym.make(task.env, **task.options)
    ends = walk_both(env, reference, 1500, actions=3, seed=int(seed))
    fell = (True, False, False)
    assert (fell in ends) == (kind == "lava")


def test_all_seven_actions_and_every_end_are_minigrids():
    maze = ("######", "#..~.#", "#.#..#", "#..#.#", "#...G#", "######")
    env = in_gymnasium(maze, all_actions=True, max_steps=16)
    ends = walk_both(env, in_minigrid(maze, max_steps=16), 4000, actions=7, seed=1)
    # Lava, the goal, the time limit, and the first two in the very last moment.
    assert ends == {
        (True, False, False),
        (True, False, True),
        (False, True, False),
        (True, True, False),
        (True, True, True),
    }


@pytest.mark.parametrize("seed", range(6))
def test_random_mazes_put_into_minigrid_are_the_same_there(seed):
    size = (5, 7, 9, 11, 13, 15)[seed]
    crossings = min(1 + seed, max_crossings(size))
    maze = make_maze(seed, size, crossings, ("wall", "lava")[seed % 2])
    walk_both(in_gymnasium(maze), in_minigrid(maze), 600, actions=3, seed=seed)


def test_random_mazes_look_and_behave_as_in_minigrid():
    options = {"size": 9, "crossings": 3, "obstacle": "lava", "max_steps": 40}
    env = gym.make("personae/RandomCrossing-v0", **options)
    generator, mazes = np.random.default_rng(0), set()
    for episode in range(25):
        observation, _ = env.reset(seed=episode)
        maze = to_text(np.asarray(env.unwrapped._state.grid))
        mazes.add(maze)
        reference = in_minigrid(maze, max_steps=40)
        expected, _ = reference.reset()
        ended = False
        while not ended:
            np.testing.assert_array_equal(observation, expected)
            action = generator.choice([2, generator.integers(3)])
            observation, reward, *ends, info = env.step(action)
            expected, expected_reward, *expected_ends, _ = reference.step(action)
            assert reward == pytest.approx(expected_reward, rel=1e-6)
            assert ends == expected_ends
            assert info == {"success": expected_reward > 0}
            ended = any(ends)
    assert len(mazes) > 20


def draw_in_numpy(count):
    return [to_grid(make_maze(seed, 7, 2)) for seed in range(count)]


def draw_in_jax(count):
    env, params = find_family("personae/RandomCrossing-v0")(
        [{"size": 7, "crossings": 2}]
    )
    single = jax.tree.map(lambda leaf: leaf[0], params)
    keys = jax.random.split(jax.random.key(0), count)
    return list(np.asarray(jax.vmap(env.reset, (None, 0))(single, keys)[0].grid))


@pytest.mark.parametrize("draw", [draw_in_numpy, draw_in_jax])
def test_random_mazes_are_as_likely_as_minigrids(draw):
    """All mazes of size 7 with two rivers, counted."""
    env = CrossingEnv(size=7, num_crossings=2, obstacle_type=Wall)
    minigrids = []
    for seed in range(4000):
        env.reset(seed=seed)
        minigrids.append(np.uint8(env.grid.encode()[..., 0].T))
    samples = [
        Counter(maze.tobytes() for maze in mazes) for mazes in (draw(4000), minigrids)
    ]
    kinds = sorted(samples[0] | samples[1])
    # Two rivers side by side: 25 openings each way. Crossing ones, at four places, by
    # which is crossed first: 3 + 3, 9 + 1, 1 + 9 and 3 + 3.
    assert len(kinds) == 50 + 32
    counts = np.array([[mazes[kind] for kind in kinds] for mazes in samples])
    assert chi2_contingency(counts).pvalue > 0.01


@settings(max_examples=60)
@given(seed=st.integers(0, 2**31 - 1), data=st.data())
def test_every_random_maze_has_its_rivers_and_a_way(seed, data):
    size = data.draw(st.sampled_from([5, 7, 9]))
    crossings = data.draw(st.integers(1, max_crossings(size)))
    grid = to_grid(make_maze(seed, size, crossings, "lava"))
    assert np.isfinite(distances(grid)[1, 1, 0])
    lava = grid == LAVA
    # Only a river across has lava in an odd column of an even row, and so on.
    across = [row for row in range(2, size - 2, 2) if lava[row, 1::2].any()]
    down = [column for column in range(2, size - 2, 2) if lava[1::2, column].any()]
    assert len(across) + len(down) == crossings
    rivers = np.zeros_like(lava)
    rivers[across, 1:-1] = True
    rivers[1:-1, down] = True
    assert not (lava & ~rivers).any()
    assert (rivers & ~lava).sum() == crossings  # each is open at one place
    assert grid[size - 2, size - 2] == GOAL


def test_random_mazes_of_several_sizes_share_an_environment():
    kinds = [{"size": 5, "obstacle": "lava"}, {"size": 9, "crossings": 3}]
    env, params = find_family("personae/RandomCrossing-v0")(kinds)
    for task, kind in enumerate(kinds):
        own = jax.tree.map(lambda leaf, task=task: leaf[task], params)
        state, observation = env.reset(own, jax.random.key(task))
        wide, size = np.asarray(state.grid), kind["size"]
        to_grid(to_text(wide[:size, :size]))
        assert (wide[size:] == WALL).all()
        assert (wide[:, size:] == WALL).all()
        picture = env.render(own, state, np.asarray(observation))
        assert picture.shape == (32 * size, 32 * size, 3)


def test_mazes_of_several_sizes_share_an_environment():
    mazes = [make_maze(0, 5), make_maze(1, 9, 2)]
    build = find_family("personae/Crossing-v0")
    env, params = build([{"maze": list(maze)} for maze in mazes])
    longest = []
    for task, maze in enumerate(mazes):
        alone, expected = build([{"maze": list(maze)}])
        size, own = len(maze), jax.tree.map(lambda leaf, t=task: leaf[t], params)
        for name in ("views", "best"):
            inside = slice(1, size - 1), slice(1, size - 1)
            wide, narrow = getattr(own, name), getattr(expected, name)[0]
            np.testing.assert_array_equal(wide[inside], narrow[inside])
        state, observation = env.reset(own, jax.random.key(0))
        picture = env.render(own, state, np.asarray(observation))
        assert picture.shape[0] == 32 * size
        longest.append(alone.longest_solution)
    assert env.longest_solution == max(longest)


def test_shortest_paths_of_mg10():
    steps = [
        CrossingOptions(tuple(task.options["maze"])).shortest_path
        for task in MG10.tasks
    ]
    assert steps == [14, 13, 15, 14, 13, 19, 14, 13, 15, 14]
    assert sum(task.target for task in MG10.tasks) / 10 == pytest.approx(0.96, abs=2e-4)


@pytest.mark.parametrize("task", MG10.tasks[5:9], ids=lambda task: task.name)
def test_optimal_actions_lead_to_the_goal_on_a_shortest_path(task):
    env, params = find_family(task.env)([task.options])
    single = jax.tree.map(lambda leaf: leaf[0], params)
    key = jax.random.key(0)
    state, _ = env.reset(single, key)
    total, successes = 0.0, []
    for _ in range(env.longest_solution):
        state, step = env.step(single, state, env.optimal_action(single, state), key)
        total += float(step.reward)
        successes.append(bool(step.success))
    assert bool(step.terminated)
    assert successes == [False] * (env.longest_solution - 1) + [True]
    assert total == pytest.approx(task.target, rel=1e-6)


def test_distances_by_hand():
    grid = to_grid(("#####", "#.#G#", "#.~.#", "#...#", "#####"))
    steps = distances(grid)
    # Turn right, two down, turn left, two ahead, turn left, two up.
    assert steps[1, 1, 0] == 9
    assert steps[1, 1, 1] == 8  # already looking down
    assert steps[2, 3, 3] == 1
    assert np.isinf(steps[2, 2]).all()  # lava


@pytest.mark.parametrize("direction", range(4))
@pytest.mark.parametrize("task", MG10.tasks[4:8:3], ids=lambda task: task.name)
def test_pictures_are_minigrids(task, direction):
    maze = task.options["maze"]
    env = in_gymnasium(maze, render_mode="rgb_array")
    reference = in_minigrid(maze, render_mode="rgb_array")
    reference.reset()
    env.reset()
    for action in [1] * direction + [2]:
        env.step(action)
        reference.step(action)
    picture, expected = env.render(), reference.render()
    assert picture.shape == expected.shape == (288, 288, 3)
    assert np.abs(picture.astype(int) - expected).max() <= 1


@pytest.mark.parametrize(
    ("maze", "message"),
    [
        (("###", "#G#"), "at least 3 rows"),
        (("####", "#.G#", "###"), "equally long"),
        (("####", "#.X#", "####"), r"\['X'\] are not among"),
        (("####", "#.G.", "####"), "walls .* must surround"),
        (("####", "#..#", "####"), "one goal .* not 0"),
        (("####", "#~G#", "####"), "starts where '~' is"),
        (("#####", "#.#G#", "#####"), "no path"),
        (("#####", "#.~G#", "#####"), "no path"),
    ],
)
def test_impossible_mazes_are_refused(maze, message):
    with pytest.raises(UsageError, match=message):
        in_gymnasium(maze)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"size": 8}, "odd and at least 5, not 8"),
        ({"size": 7, "crossings": 5}, "room for 1 to 4 crossings, not 5"),
        ({"obstacle": "water"}, "wall or lava, not 'water'"),
        ({"max_steps": 0}, "must lie in 1..2147483647, not 0"),
        ({"max_steps": 3 * 10**9}, "must lie in 1..2147483647, not 3000000000"),
    ],
)
def test_impossible_kinds_of_maze_are_refused(options, message):
    with pytest.raises(UsageError, match=message):
        gym.make("personae/RandomCrossing-v0", **options)


def test_a_maze_that_needs_more_than_the_time_limit_is_refused():
    with pytest.raises(UsageError, match=r"has 14 steps, more than .* of 13"):
        in_gymnasium(MG10.tasks[0].options["maze"], max_steps=13)
    in_gymnasium(MG10.tasks[0].options["maze"], max_steps=14)
