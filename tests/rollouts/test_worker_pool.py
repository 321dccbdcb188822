"""Agents that act by themselves in processes, one for each core."""

import dataclasses
import os
import signal

import jax.numpy as jnp
import numpy as np
import pytest

from personae.api import learn
from personae.curricula import Curriculum, Evaluation, NetworkOptions, Task
from personae.curricula.curriculum import Hosting, Normalisers
from personae.errors import PersonaeError, UsageError
from personae.learners import PPO
from personae.methods.registry import make_method
from personae.rollouts.host_tasks import TRAINING, episode_seed
from personae.runs.directory import RunDirectory
from personae.training import RestoredRun
from personae.training.config import RunConfig
from personae.training.host_trainer import HostPrograms
from personae.training.loop import start

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def swings() -> Curriculum:
    """Two short pendulums."""
    options = {"max_episode_steps": 20}
    return Curriculum(
        id="test/Swings-v0",
        tasks=(
            Task("swing", "Pendulum-v1", options, floor=-400.0),
            Task("moon", "Pendulum-v1", options | {"g": 2.0}, floor=-400.0),
        ),
        steps_per_task=4 * 64,
        network=NetworkOptions((16,), "separate"),
        ppo=PPO(num_envs=2, rollout_length=32, num_minibatches=4, learning_rate=1e-2),
        evaluation=Evaluation(interval=2, episodes=3),
        normalise=Normalisers(observations=True),
        hosting=Hosting("actors"),
    )


@pytest.fixture(scope="module")
def whole(swings, tmp_path_factory):
    out = tmp_path_factory.mktemp("swings") / "whole"
    learn(swings, "mask-lc", seeds=2, out=out, quiet=True)
    return out


def test_a_run_that_was_stopped_ends_bit_identical(
    swings, whole, tmp_path, stop_after, assert_same_run
):
    config = RunConfig(swings, "mask-lc", (0, 1))
    directory = RunDirectory(tmp_path / "run")
    with pytest.raises(KeyboardInterrupt):
        start(config, directory, stop_after(3))  # in its second visit
    learn(swings, "mask-lc", seeds=2, out=tmp_path / "run", resume=True, quiet=True)
    assert_same_run(tmp_path / "run", whole)


def test_what_is_evaluated_is_what_jax_would_do(swings, whole):
    """The same episodes with greedy policies, here and in processes."""
    revival = RestoredRun(whole)
    apart = revival.evaluate()
    here = dataclasses.replace(swings, hosting=Hosting("sync"))
    programs = HostPrograms(here, revival.config.make_method(), (0, 1))
    together = programs.evaluate(revival.agents, swings.evaluation)
    programs.close()
    np.testing.assert_allclose(apart, together, rtol=1e-3)


@pytest.fixture
def acting(swings):
    """Two agents at the start of their first task, and what acts for them."""
    programs = HostPrograms(
        swings, RunConfig(swings, "ppo", (0, 1)).make_method(), (0, 1)
    )
    agents, _ = programs.begin(programs.init(), 0, 0)
    yield programs, programs._acting(agents, programs.task(0))
    programs.close()


def test_a_rollout_is_what_environments_answer(acting):
    programs, networks = acting
    rollout, cut, brought, _ = programs.players.collect(networks, 0)
    steps, saved = rollout.steps, programs.players.snapshot()
    assert steps.observation.shape == (2, 32, 2, 3)
    ended = np.flatnonzero(steps.done[1, :, 1])
    assert ended.tolist() == [19]
    # The value of what was cut off there, and of what was done everywhere.
    network = programs.on_task(programs.lanes.pick(networks, 1), programs.task(0))
    env = programs.tasks.makes[0]()
    rewards = []
    for episode, first, length in ((0, 0, 20), (1, 20, 12)):
        shown, _ = env.reset(seed=episode_seed(TRAINING, 1, 0, 1, episode))
        for t in range(first, first + length):
            np.testing.assert_array_equal(shown, steps.observation[1, t, 1])
            policy, value = network(jnp.asarray(shown))
            action = steps.action[1, t, 1]
            log_prob = float(policy.log_prob(jnp.asarray(action)))
            assert steps.log_prob[1, t, 1] == pytest.approx(log_prob, rel=1e-4)
            assert steps.value[1, t, 1] == pytest.approx(float(value), abs=1e-5)
            shown, reward, *_ = env.step(np.clip(action, -2, 2))
            rewards.append(reward)
            if t == 19:
                after = float(network(jnp.asarray(shown))[1])
                assert cut[1, t, 1] == pytest.approx(0.99 * after, abs=1e-5)
    np.testing.assert_allclose(steps.reward[1, :, 1], rewards, rtol=1e-5)
    np.testing.assert_array_equal(rollout.last_observation[1, 1], shown)
    np.testing.assert_array_equal(saved["observations"][1, 1], shown)
    assert saved["lengths"].tolist() == [12] * 4
    assert np.count_nonzero(cut) == 4
    first_episodes = steps.reward[:, :20].sum(1)
    np.testing.assert_allclose(brought[:, 0], first_episodes.mean(-1), rtol=1e-5)


@pytest.mark.parametrize("stepping", ["sync", "actors"])
def test_what_was_seen_stays_as_it_was(swings, stepping):
    """Though the environment shows the same array again and again."""
    counts = Task("counts", "small_envs:tests/Counts-v0", target=7.0)
    curriculum = dataclasses.replace(swings, tasks=(counts,), hosting=Hosting(stepping))
    programs = HostPrograms(curriculum, make_method("ppo"), (0, 1))
    agents, _ = programs.begin(programs.init(), 0, 0)
    acting = programs._acting(agents, programs.task(0))
    first, second = (programs.players.collect(acting, 0).rollout for _ in range(2))
    for agent in (0, 1):
        seen = first.steps.observation[agent, :, 1, 0]
        assert seen.tolist() == [t % 7 for t in range(32)]
        assert first.last_observation[agent, 1, 0] == 32 % 7
        assert second.steps.observation[agent, 0, 1, 0] == 32 % 7
    for compiled in programs.players._compiled.values():
        assert compiled._cache_size() == 1
    programs.close()


@pytest.mark.parametrize("stepping", ["sync", "actors"])
def test_success_that_is_never_told_ends_a_run(swings, tmp_path, stepping):
    counts = Task("counts", "small_envs:tests/Counts-v0")
    curriculum = dataclasses.replace(
        swings,
        tasks=(counts,),
        evaluation=Evaluation(measure="success"),
        hosting=Hosting(stepping),
    )
    with pytest.raises(PersonaeError, match=r"'counts' is judged by success"):
        learn(curriculum, "ppo", out=tmp_path / "run", quiet=True)


def test_success_has_no_floor(swings):
    with pytest.raises(UsageError, match="'swing' is judged by success"):
        dataclasses.replace(swings, evaluation=Evaluation(measure="success"))


def test_a_process_that_dies_is_told(acting):
    programs, networks = acting
    victim = programs.players.crew._processes[0]
    os.kill(victim.pid, signal.SIGKILL)
    with pytest.raises(PersonaeError, match=r"has died \(exit code -9\).*--resume"):
        programs.players.collect(networks, 0)


def test_what_an_environment_raises_is_told(swings, tmp_path):
    broken = Task("broken", "small_envs:tests/Breaks-v0", floor=-1.0)
    curriculum = dataclasses.replace(swings, tasks=(broken,))
    with pytest.raises(PersonaeError, match="ValueError: the robot is on fire"):
        learn(curriculum, "ppo", out=tmp_path / "run", quiet=True)


@pytest.mark.parametrize("stepping", ["sync", "async", "actors"])
def test_success_is_what_counts_if_one_says_so(swings, tmp_path, stepping):
    """Of the first actions of episodes, half are lucky: no return tells."""
    lucky = Task("lucky", "small_envs:tests/Lucky-v0")
    curriculum = dataclasses.replace(
        swings,
        tasks=(lucky,),
        steps_per_task=64,
        evaluation=Evaluation(1, episodes=20, greedy=False, measure="success"),
        hosting=Hosting(stepping),
    )
    record = learn(curriculum, "ppo", seeds=2, out=tmp_path / "run", quiet=True)
    assert ((record.evaluations > 0) & (record.evaluations < 1)).all()
    trained = record.training[0].returns
    assert ((trained > 0) & (trained < 1)).all()
    *_, last = RunDirectory(tmp_path / "run").read_metrics()
    assert last["returns"] == [[0.0], [0.0]]
    assert last["success"] == record.evaluations[:, -1].tolist()
    assert record.by_success


@pytest.mark.filterwarnings("ignore:.*precision lowered")
def test_environments_of_envpool_are_refused(swings):
    pytest.importorskip("envpool")
    pool = dataclasses.replace(swings, tasks=(Task("c", "envpool/CartPole-v1"),))
    with pytest.raises(UsageError, match="threads of their own"):
        HostPrograms(pool, RunConfig(pool, "ppo", (0,)).make_method(), (0,))
