"""Runs in Gymnasium's environments keep the promises of runs in JAX's."""

import dataclasses
import signal
from concurrent.futures import ThreadPoolExecutor
from typing import ClassVar

import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from personae.api import learn
from personae.curricula import (
    Curriculum,
    Evaluation,
    Hosting,
    Inputs,
    NetworkOptions,
    Normalisers,
    Task,
)
from personae.errors import PersonaeError, UsageError
from personae.files import read_tensors
from personae.learners import PPO
from personae.report.data.comparable import check_whole
from personae.report.data.comparison import compare_records
from personae.rollouts.evaluator import VectorEvaluator
from personae.rollouts.vector_actors import VectorActors
from personae.runs.directory import RunDirectory
from personae.training import Callback, RestoredRun
from personae.training.config import RunConfig
from personae.training.factory import make_training
from personae.training.loop import start

pytestmark = pytest.mark.slow

REVERSED = Task("reversed", "CartPole-v1", target=500.0, attributes={"force_mag": -10})


@pytest.fixture(scope="session")
def carts() -> Curriculum:
    """Two carts and a small network."""
    return Curriculum(
        id="test/Carts-v0",
        tasks=(Task("cart", "CartPole-v1", target=500.0), REVERSED),
        steps_per_task=4 * 64,
        network=NetworkOptions(hidden=(16,)),
        ppo=PPO(num_envs=2, rollout_length=32, num_minibatches=4, learning_rate=1e-2),
        evaluation=Evaluation(interval=2, episodes=3),
        normalise=Normalisers(observations=True, rewards=True),
    )


@pytest.fixture(scope="session")
def whole(carts, tmp_path_factory):
    """Return a function: method to the directory of its uninterrupted run."""
    out = tmp_path_factory.mktemp("carts")

    def directory(method):
        if not (out / method).exists():
            learn(carts, method, seeds=2, out=out / method, quiet=True)
        return out / method

    return directory


@pytest.mark.parametrize("chunks", [1, 3])
def test_a_resumed_run_ends_bit_identical(
    carts, whole, tmp_path, stop_after, assert_same_run, chunks
):
    """The run stops in its first or its second task; test_pairs.py has all methods."""
    method = "mask-lc"
    config = RunConfig(carts, method, (0, 1))
    directory = RunDirectory(tmp_path / "run")
    with pytest.raises(KeyboardInterrupt):
        start(config, directory, stop_after(chunks))
    learn(carts, method, seeds=2, out=tmp_path / "run", resume=True, quiet=True)
    assert_same_run(tmp_path / "run", whole(method))


def test_evaluation_of_a_learned_task_never_changes(whole):
    from personae.report import read_record

    record = read_record(whole("mask-lc"))
    own = record.evaluations[:, record.evaluation_visit == 1, 0]
    at_end = record.evaluations[:, record.evaluation_visit == 0, 0][:, -1:]
    np.testing.assert_array_equal(own, np.broadcast_to(at_end, own.shape))


def test_an_agent_does_not_depend_on_its_neighbours(carts, whole, tmp_path):
    learn(carts, "mask-lc", seeds=[1], out=tmp_path / "alone", quiet=True)
    alone, _ = read_tensors(RunDirectory(tmp_path / "alone").mask_file(1, "reversed"))
    both, _ = read_tensors(RunDirectory(whole("mask-lc")).mask_file(1, "reversed"))
    for name, array in alone.items():
        if array.dtype == np.float32:
            np.testing.assert_allclose(array[0], both[name][1], atol=1e-5)


def small(*tasks, **changes):
    return Curriculum(
        id="test/Small-v0",
        tasks=tasks,
        steps_per_task=64,
        network=NetworkOptions((8,)),
        ppo=PPO(num_envs=2, rollout_length=16, num_minibatches=2),
        evaluation=Evaluation(interval=1, episodes=1),
        **changes,
    )


class TwoDials(gym.Env):
    """Pay for turning two dials to the right positions."""

    metadata: ClassVar = {"render_modes": ["rgb_array"], "render_fps": 10}
    observation_space = gym.spaces.Box(0, 255, (2, 3), np.uint8)
    action_space = gym.spaces.MultiDiscrete([2, 3])

    def __init__(self, render_mode=None):
        self.render_mode = render_mode

    def render(self):
        return np.full((8, 8, 3), self.steps, np.uint8)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps = 0
        return np.full((2, 3), 7, np.uint8), {}

    def step(self, action):
        assert self.action_space.contains(action)
        self.steps += 1
        reward = float(tuple(action) == (1, 2))
        return np.full((2, 3), 7, np.uint8), reward, False, self.steps == 5, {}


gym.register("tests/TwoDials-v0", TwoDials)


@pytest.mark.parametrize(
    "task",
    [
        Task("lake", "FrozenLake-v1", {"max_episode_steps": 20}),
        Task("taxi", "Taxi-v4", {"max_episode_steps": 20}, floor=-500.0),
        Task("dials", "tests/TwoDials-v0", target=5.0),
        Task("swing", "Pendulum-v1", floor=-2000.0),
    ],
    ids=lambda task: task.name,
)
@pytest.mark.parametrize("bodies", [None, "separate"])
def test_agents_learn_in_spaces_of_every_kind(task, bodies, tmp_path):
    curriculum = small(task)
    network = NetworkOptions((8,), bodies)
    curriculum = dataclasses.replace(curriculum, network=network)
    record = learn(curriculum, "mask-ri", out=tmp_path / "run", quiet=True)
    assert np.isfinite(record.evaluations).all()


def test_agents_are_restored_and_filmed(tmp_path):
    curriculum = small(Task("dials", "tests/TwoDials-v0", target=5.0))
    record = learn(curriculum, "mask-ri", seeds=2, out=tmp_path / "run", quiet=True)
    restored = RestoredRun(tmp_path / "run")
    returns = restored.evaluate().returns
    np.testing.assert_array_equal(returns.mean(-1), record.evaluations[:, -1])
    film = restored.film("dials", seed=1)
    assert [int(frame[0, 0, 0]) for frame in film.frames] == [0, 1, 2, 3, 4, 5]
    assert film.whole
    assert film.total == returns[1, 0, 0]


def test_tasks_of_different_shapes_are_refused_unless_padded(tmp_path, capsys):
    cart = Task("cart", "CartPole-v1", target=500.0)
    acrobot = Task("acrobot", "Acrobot-v1", floor=-500.0)
    with pytest.raises(UsageError, match=r"observations differ.*fit = \"pad\""):
        learn(small(cart, acrobot), "ppo", out=tmp_path / "no", quiet=True)
    assert not (tmp_path / "no").exists()
    curriculum = small(cart, acrobot, inputs=Inputs(fit="pad"))
    record = learn(curriculum, "mask-blc", out=tmp_path / "run")
    assert record.finished
    # All displays count returns from floors, and say so.
    evaluation, best = record.evaluations[:, -1].sum(-1).mean(), record.targets.sum()
    *_, last = capsys.readouterr().err.splitlines()
    assert f"evaluation {evaluation:.2f}/{best:g} " in last
    assert evaluation > 0
    assert record.measure == "return above floor"
    assert record.sum_of_measures == "sum of returns above floors over all tasks"
    mixed = small(cart, Task("swing", "Pendulum-v1", floor=-2000.0))
    with pytest.raises(UsageError, match="actions of one kind"):
        learn(
            dataclasses.replace(mixed, inputs=Inputs(fit="pad")),
            out=tmp_path / "no",
            quiet=True,
        )


@pytest.mark.parametrize("shared", [False, True])
def test_statistics_are_those_of_the_observations(carts, tmp_path, shared):
    """Check one row per task, of which one is trained, or one row for both."""
    normalise = dataclasses.replace(carts.normalise, shared=shared)
    curriculum = dataclasses.replace(carts, normalise=normalise)
    training, agents = begun(curriculum, "mask-ri")
    observations = []
    collect = training.actors.collect

    def watch(policy, visit):
        collected = collect(policy, visit)
        observations.append(collected.rollout.steps.observation[0].reshape(-1, 4))
        return collected

    training.actors.collect = watch
    agents, _ = training.trainer.chunk(agents, 0, 3, None)
    moments = agents.train.statistics.observations
    samples = np.concatenate(observations)
    assert moments.number[0].tolist() == [len(samples)] + [0] * (not shared)
    np.testing.assert_allclose(moments.mean[0, 0], samples.mean(0), atol=1e-4)
    deviation = np.sqrt(moments.squares[0, 0] / len(samples))
    np.testing.assert_allclose(deviation, samples.std(0), rtol=1e-3, atol=1e-5)
    training.close()


def stopping(carts, at):
    tasks = tuple(dataclasses.replace(task, stop_at=at) for task in carts.tasks)
    return dataclasses.replace(carts, tasks=tasks)


@pytest.mark.parametrize("method", ["mask-lc", "ewc-mh"])
def test_a_task_ends_early_at_its_target(
    carts, tmp_path, stop_after, assert_same_run, method
):
    curriculum = stopping(carts, at=1.0)  # the first evaluation is enough
    record = learn(curriculum, method, seeds=2, out=tmp_path / "whole", quiet=True)
    assert record.evaluation_visit.tolist() == [0, 1]
    assert [curve.steps[-1] for curve in record.training] == [128, 128]
    check_whole(record)
    config, directory = RunConfig(curriculum, method, (0, 1)), tmp_path / "stopped"
    with pytest.raises(KeyboardInterrupt):
        start(config, RunDirectory(directory), stop_after(1))
    learn(curriculum, method, seeds=2, out=directory, resume=True, quiet=True)
    assert_same_run(directory, tmp_path / "whole")
    patient = stopping(carts, at=1e6)
    record = learn(patient, method, seeds=2, out=tmp_path / "patient", quiet=True)
    assert record.evaluation_visit.tolist() == [0, 0, 1, 1]


def test_a_method_of_several_phases_cannot_stop_early(carts):
    with pytest.raises(UsageError, match="packnet trains a task in 2 phases"):
        RunConfig(stopping(carts, at=1.0), "packnet", (0,))


def test_callbacks_receive_evaluations_and_may_end_a_task(carts, tmp_path):
    events = []

    class Listener(Callback):
        def on_evaluation(self, event):
            events.append(("evaluation", event.visit, event.steps))
            assert event.returns.keys() == {"cart", "reversed"}
            assert event.training_return.shape == (2,)
            assert event.returns[event.task].shape == (2,)
            return np.bool_(event.task == "reversed")

        def on_task_end(self, event):
            events.append(("end", event.visit, event.steps))

    callbacks, out = [Listener()], tmp_path / "ppo"
    record = learn(carts, "ppo", seeds=2, out=out, callbacks=callbacks, quiet=True)
    assert events == [
        ("evaluation", 0, 128),
        ("evaluation", 0, 256),
        ("end", 0, 256),
        ("evaluation", 1, 384),
        ("end", 1, 384),
    ]
    assert record.evaluation_visit.tolist() == [0, 0, 1]
    check_whole(record)
    longer = learn(carts, "l2", seeds=2, out=tmp_path / "l2", quiet=True)
    with pytest.raises(PersonaeError, match="ended early"):
        compare_records([record, longer], "ppo")


def test_a_callback_cannot_skip_a_phase(carts, tmp_path):
    class Stop(Callback):
        def on_evaluation(self, event):
            return True

    with pytest.raises(UsageError, match="packnet trains in 2 phases"):
        learn(carts, "packnet", out=tmp_path / "run", callbacks=[Stop()], quiet=True)


@pytest.mark.parametrize("evaluators", [1, 3])
def test_evaluation_beside_training_uses_the_agents_of_the_chunk(
    carts, whole, tmp_path, monkeypatch, assert_same_run, evaluators
):
    monkeypatch.setattr(VectorActors, "acts_during_training", True)
    hosting = dataclasses.replace(carts.hosting, evaluators=evaluators)
    several = dataclasses.replace(carts, hosting=hosting)
    learn(several, "mask-lc", seeds=2, out=tmp_path, quiet=True)
    assert_same_run(tmp_path, whole("mask-lc"))


def test_finished_evaluation_tasks_are_not_stepped(carts, monkeypatch):
    limits = (3, 3, 40, 3, 3)
    tasks = tuple(
        Task(f"cart{i}", "CartPole-v1", target=9.0, options={"max_episode_steps": n})
        for i, n in enumerate(limits)
    )
    five = dataclasses.replace(carts, tasks=tasks, steps_per_task=64)
    training, agents = begun(five, "mask-ri", seeds=(0, 1))
    protocol = Evaluation(episodes=3, greedy=False)
    numbers, make_act_on = [], VectorEvaluator._make_act_on

    def counted(*arguments):
        act_on = make_act_on(*arguments)
        return lambda tasks: numbers.append(len(tasks)) or act_on(tasks)

    monkeypatch.setattr(VectorEvaluator, "_make_act_on", counted)
    together = training.evaluation.evaluate(agents, protocol).returns
    assert numbers == [5, 2, 1]
    assert (together[:, [0, 1, 3, 4]] == 3).all()
    assert (together[:, 2] > 3).all()
    evaluation, context = training.evaluation, training.evaluation._context
    for index, task in enumerate(context.eval_tasks):
        one = dataclasses.replace(context, eval_tasks=(task,))
        evaluator = VectorEvaluator(one, evaluation._policies)
        alone = evaluator.evaluate(
            lambda i: evaluation._policies_of(agents, i), protocol
        )
        np.testing.assert_array_equal(alone[0, :, 0], together[:, index])
        evaluator.close()
    training.close()


def test_a_run_with_each_environment_in_a_process(carts, whole, tmp_path):
    """Run in a thread, as the command line does."""
    before = signal.getsignal(signal.SIGINT)
    apart = dataclasses.replace(carts, hosting=Hosting(stepping="async"))
    with ThreadPoolExecutor() as pool:
        out = tmp_path / "run"
        pool.submit(learn, apart, "mask-lc", seeds=2, out=out, quiet=True).result()
    assert signal.getsignal(signal.SIGINT) is before
    metrics = (out / "metrics.jsonl").read_bytes()
    assert metrics == (whole("mask-lc") / "metrics.jsonl").read_bytes()


def begun(curriculum, method, seeds=(0,), visit=0):
    """Return what trains a curriculum, and agents at the start of a visit."""
    built = RunConfig(curriculum, method, seeds).make_method()
    training = make_training(curriculum, built, seeds)
    agents, _ = training.programs.begin(training.programs.init(), visit, 0)
    training.begin_visit(visit)
    return training, agents


def test_actions_missing_from_a_task_are_never_taken():
    cart = Task("cart", "CartPole-v1", target=500.0)
    acrobot = Task("acrobot", "Acrobot-v1", floor=-500.0)
    curriculum = small(acrobot, cart, inputs=Inputs(fit="pad"))
    training, agents = begun(curriculum, "ewc-mh", visit=1)
    policy = jax.tree.map(lambda leaf: leaf[0], training.trainer.behaviour(agents, 1))
    programs = training.programs
    network = programs.spec.pipeline.apply(
        policy.network, policy.statistics, programs.table.task(1)
    )
    distribution, _ = network(jnp.zeros(6))
    assert float(jnp.exp(distribution.log_prob(jnp.asarray(2)))) == 0
    assert np.isfinite(float(distribution.entropy()))
    # EWC's gradients do not reach these actions either.
    agents, _, samples = training.trainer.iterate(agents, 1, None)
    part = jax.tree.map(lambda leaf: leaf[:, None], samples)
    accumulated = programs.accumulate_gradient(agents, 1, 0, part)
    squares = accumulated.method_state.regulariser.squares
    importance = squares.heads[0].logits.bias[0, 1]
    assert importance[2] == 0 < importance[0]
    training.close()


def test_a_time_limit_is_bootstrapped_and_an_end_is_not(tmp_path):
    """TwoDials is cut after five steps: the next value is added to the reward."""
    curriculum = small(Task("dials", "tests/TwoDials-v0", target=5.0))
    for bootstraps in (True, False):
        ppo = dataclasses.replace(curriculum.ppo, bootstrap_truncated=bootstraps)
        training, agents = begun(dataclasses.replace(curriculum, ppo=ppo), "ppo")
        policy = training.trainer.behaviour(agents, 0)
        rollout, bootstrap, *_ = training.actors.collect(policy, 0)
        done = rollout.steps.done[0]
        assert done[4].all()
        assert not done[:4].any()
        if bootstraps:  # all observations are alike, so all values are
            values = 0.99 * rollout.steps.value[0][done]
            np.testing.assert_allclose(bootstrap[0][done], values, rtol=1e-5)
            assert np.abs(values).min() > 0
        assert not bootstrap[0][~done].any()
        assert bootstraps or not bootstrap.any()
        training.close()
