"""Agents that act by themselves in processes, one for each core."""

import dataclasses
import os
import signal

import jax.numpy as jnp
import numpy as np
import pytest

from personae.api import learn
from personae.curricula import (
    Curriculum,
    Evaluation,
    Hosting,
    NetworkOptions,
    Normalisers,
    Task,
)
from personae.errors import PersonaeError, UsageError
from personae.learners import PPO
from personae.methods.registry import make_method
from personae.rollouts.host_tasks import TRAINING, episode_seed
from personae.runs.directory import RunDirectory
from personae.training import RestoredRun
from personae.training.config import RunConfig
from personae.training.factory import make_training
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


def test_evaluation_in_processes_equals_that_of_jax(swings, whole):
    """The same episodes with greedy policies, in this process and in others."""
    restored = RestoredRun(whole)
    apart = restored.evaluate().returns
    together_curriculum = dataclasses.replace(swings, hosting=Hosting("sync"))
    training = make_training(together_curriculum, restored.method, (0, 1))
    together = training.evaluation.evaluate(restored.agents, swings.evaluation)
    training.close()
    np.testing.assert_allclose(apart, together.returns, rtol=1e-3)


def begun(curriculum, method):
    """Return what trains a curriculum, and the policies that act in its first task."""
    training = make_training(curriculum, make_method(method), (0, 1))
    agents, _ = training.programs.begin(training.programs.init(), 0, 0)
    training.begin_visit(0)
    return training, training.trainer.behaviour(agents, 0)


@pytest.fixture
def acting(swings):
    """Two agents at the start of their first task."""
    training, policy = begun(swings, "ppo")
    yield training, policy
    training.close()


def test_a_rollout_holds_the_answers_of_environments(acting):
    training, behaviour = acting
    rollout, bootstrap, measures, _ = training.actors.collect(behaviour, 0)
    steps, snapshot = rollout.steps, training.actors.snapshot()
    assert steps.observation.shape == (2, 32, 2, 3)
    ended = np.flatnonzero(steps.done[1, :, 1])
    assert ended.tolist() == [19]
    # The bootstrapped value there, and log-probabilities and values everywhere.
    programs = training.programs
    one = programs.sharding.select(behaviour, 1)
    network = programs.spec.pipeline.apply(
        one.network, one.statistics, programs.table.task(0)
    )
    env = training.actors._context.tasks.factories[0]()
    rewards = []
    for episode, first, length in ((0, 0, 20), (1, 20, 12)):
        observation, _ = env.reset(seed=episode_seed(TRAINING, 1, 0, 1, episode))
        for t in range(first, first + length):
            np.testing.assert_array_equal(observation, steps.observation[1, t, 1])
            policy, value = network(jnp.asarray(observation))
            action = steps.action[1, t, 1]
            log_prob = float(policy.log_prob(jnp.asarray(action)))
            assert steps.log_prob[1, t, 1] == pytest.approx(log_prob, rel=1e-4)
            assert steps.value[1, t, 1] == pytest.approx(float(value), abs=1e-5)
            observation, reward, *_ = env.step(np.clip(action, -2, 2))
            rewards.append(reward)
            if t == 19:
                after = float(network(jnp.asarray(observation))[1])
                assert bootstrap[1, t, 1] == pytest.approx(0.99 * after, abs=1e-5)
    np.testing.assert_allclose(steps.reward[1, :, 1], rewards, rtol=1e-5)
    np.testing.assert_array_equal(rollout.last_observation[1, 1], observation)
    np.testing.assert_array_equal(snapshot["observations"][1, 1], observation)
    assert snapshot["lengths"].tolist() == [12] * 4
    assert np.count_nonzero(bootstrap) == 4
    first_episodes = steps.reward[:, :20].sum(1)
    np.testing.assert_allclose(measures[:, 0], first_episodes.mean(-1), rtol=1e-5)


@pytest.mark.parametrize("stepping", ["sync", "actors"])
def test_collected_observations_never_change(swings, stepping):
    """Though the environment returns the same array again and again."""
    counts = Task("counts", "small_envs:tests/Counts-v0", target=7.0)
    curriculum = dataclasses.replace(swings, tasks=(counts,), hosting=Hosting(stepping))
    training, policy = begun(curriculum, "ppo")
    first, second = (training.actors.collect(policy, 0).rollout for _ in range(2))
    for agent in (0, 1):
        observations = first.steps.observation[agent, :, 1, 0]
        assert observations.tolist() == [t % 7 for t in range(32)]
        assert first.last_observation[agent, 1, 0] == 32 % 7
        assert second.steps.observation[agent, 0, 1, 0] == 32 % 7
    for compiled in training.actors._policies._compiled.values():
        assert compiled._cache_size() == 1
    training.close()


@pytest.mark.parametrize("stepping", ["sync", "actors"])
def test_success_that_is_never_reported_ends_a_run(swings, tmp_path, stepping):
    counts = Task("counts", "small_envs:tests/Counts-v0")
    curriculum = dataclasses.replace(
        swings,
        tasks=(counts,),
        evaluation=Evaluation(measure="success"),
        hosting=Hosting(stepping),
    )
    with pytest.raises(PersonaeError, match=r"'counts' is measured by success"):
        learn(curriculum, "ppo", out=tmp_path / "run", quiet=True)


def test_success_has_no_floor(swings):
    with pytest.raises(UsageError, match="'swing' is measured by success"):
        dataclasses.replace(swings, evaluation=Evaluation(measure="success"))


def test_a_process_that_dies_is_an_error(acting):
    training, policy = acting
    victim = training.actors._pool.processes._processes[0]
    os.kill(victim.pid, signal.SIGKILL)
    with pytest.raises(PersonaeError, match=r"has died \(exit code -9\).*--resume"):
        training.actors.collect(policy, 0)


def test_an_error_of_an_environment_is_shown(swings, tmp_path):
    broken = Task("broken", "small_envs:tests/Breaks-v0", floor=-1.0)
    curriculum = dataclasses.replace(swings, tasks=(broken,))
    with pytest.raises(PersonaeError, match="ValueError: the robot is on fire"):
        learn(curriculum, "ppo", out=tmp_path / "run", quiet=True)


@pytest.mark.parametrize("stepping", ["sync", "async", "actors"])
def test_success_can_be_the_measure(swings, tmp_path, stepping):
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
        make_training(pool, make_method("ppo"), (0,))
