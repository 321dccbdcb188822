"""Acting beside learning, the previous step, and unseen variants of tasks."""

import sys
import threading
from contextlib import contextmanager
from dataclasses import replace
from types import SimpleNamespace

import jax
import numpy as np
import pytest
import small_envs  # noqa: F401  registers environments

import personae
from personae.curricula import (
    Curriculum,
    Evaluation,
    Hosting,
    Inputs,
    NetworkOptions,
    Normalisers,
    Task,
)
from personae.errors import PersonaeError
from personae.learners import IMPALA
from personae.methods import make_method
from personae.rollouts.collector import RolloutCollector
from personae.rollouts.evaluator import EvaluationEnvs
from personae.rollouts.host_context import make_host_context
from personae.rollouts.host_tasks import EVALUATION, episode_seed
from personae.rollouts.task_data import EvalTask
from personae.rollouts.threads import ActorThread
from personae.runs import sinks
from personae.runs.checkpoints import Checkpoints
from personae.runs.directory import RunDirectory
from personae.runs.progress import make_reporter
from personae.training.config import RunConfig
from personae.training.factory import make_training
from personae.training.host_trainer import HostEvaluation, HostTrainer
from personae.training.loop import Run, start

pytestmark = pytest.mark.slow

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def carts():
    """Two carts that start differently, tested where they start elsewhere."""
    tasks = (
        Task("cart", "small_envs:tests/Paced-v0", target=8.0, unseen={"pace": 2}),
        Task("other", "small_envs:tests/Paced-v0", {"pace": 4}, unseen={"pace": 3}),
    )
    return Curriculum(
        id="test/Paced-v0",
        tasks=tasks,
        steps_per_task=4 * 32,
        network=NetworkOptions(hidden=(8,)),
        learner="impala",
        impala=IMPALA(num_envs=4, rollout_length=8, batch_size=2),
        inputs=Inputs(previous_step=True),
        normalise=Normalisers(clip_rewards=1.0),
        evaluation=Evaluation(interval=2, episodes=3),
    )


def test_a_stopped_run_with_previous_steps_ends_bit_identical(
    carts, tmp_path, stop_after, assert_same_run
):
    """Three agents on two devices, of which one is twice as busy."""
    whole = personae.learn(carts, "clear", seeds=3, out=tmp_path / "a", quiet=True)
    directory = RunDirectory(tmp_path / "b")
    config = RunConfig(carts, "clear", (0, 1, 2))
    for chunks in (1, 2):
        with pytest.raises(KeyboardInterrupt):
            start(config, directory, stop_after(chunks), resume=True)
    start(config, directory, make_reporter(quiet=True), resume=True)
    assert_same_run(directory.root, whole.directory)
    # Episodes of 24 // pace steps, each paying its pace.
    np.testing.assert_array_equal(whole.evaluations, 24)
    np.testing.assert_array_equal(whole.unseen, 24)
    assert whole.total_unseen is not None


def begin(training, visit):
    """Return agents at the start of a visit, and the policies that act in it."""
    programs = training.programs
    agents, _ = programs.begin(programs.init(), visit, 0)
    training.begin_visit(visit)
    return training.trainer.behaviour(agents, visit)


def test_networks_see_the_previous_step(carts):
    training = make_training(carts, make_method("mask-ri"), (0, 1))
    policy = begin(training, 1)
    first, second = (training.actors.collect(policy, 1).rollout for _ in range(2))
    steps = jax.tree.map(
        lambda *parts: np.concatenate(parts, 1), first.steps, second.steps
    )
    observation = steps.observation
    ended = steps.done[:, :-1]
    assert ended.any()
    np.testing.assert_array_equal(
        observation.action[:, 1:], np.where(ended, 0, steps.action[:, :-1])
    )
    np.testing.assert_array_equal(
        observation.reward[:, 1:], np.where(ended, 0, steps.reward[:, :-1])
    )
    # As it was paid; the network sees it clipped.
    assert (observation.reward == 4).any()


def test_rewards_are_clipped_for_learning_and_reported_as_they_are(carts, tmp_path):
    runs = []
    for bound in (None, 1.0):
        curriculum = replace(carts, normalise=Normalisers(clip_rewards=bound))
        out = tmp_path / str(bound)
        runs.append(personae.learn(curriculum, "impala", out=out, quiet=True))
    raw, clipped = (
        [r for r in RunDirectory(x.directory).read_metrics() if r["kind"] == "train"]
        for x in runs
    )
    assert raw[-1]["return"] == clipped[-1]["return"] == [24.0]
    assert raw[0]["value_loss"] == clipped[0]["value_loss"]  # pace 1, at first
    assert raw[-1]["value_loss"][0] > 2 * clipped[-1]["value_loss"][0]


@pytest.mark.parametrize("actors", [1, 3])
def test_threads_act_while_agents_learn(carts, tmp_path, actors):
    curriculum = replace(carts, hosting=Hosting("threads", actors))
    record = personae.learn(curriculum, "mask-lc", seeds=2, out=tmp_path, quiet=True)
    np.testing.assert_array_equal(record.evaluations, 24)
    lines = [r for r in RunDirectory(tmp_path).read_metrics() if r["kind"] == "train"]
    lags = [line["policy_lag"][0] for line in lines]
    assert lags[0] == 0
    assert min(lags) >= 0
    if actors == 1:  # which begins when what it made before is taken
        assert max(lags) == 1


def test_threads_of_a_run_that_goes_on_begin_anew(carts, tmp_path, stop_after):
    curriculum = replace(carts, hosting=Hosting("threads", 2))
    config, directory = RunConfig(curriculum, "impala", (0,)), RunDirectory(tmp_path)
    with pytest.raises(KeyboardInterrupt):
        start(config, directory, stop_after(3))
    start(config, directory, make_reporter(quiet=True), resume=True)
    assert len(list(directory.read_metrics())) == 8 + 4


def test_a_late_rollout_belongs_to_no_later_task(carts, monkeypatch):
    """It pays 1 a step in the first task, and 4 in the second."""
    curriculum = replace(carts, hosting=Hosting("threads", 1))
    training = make_training(curriculum, make_method("mask-ri"), (0,))
    usual = sys.getswitchinterval()
    late, go_on = threading.Event(), threading.Event()
    collect, rollouts = RolloutCollector.collect, []

    def collect_slowly(self, policy):
        rollouts.append(self)
        if len(rollouts) == 2:
            late.set()
            assert go_on.wait(10)
        return collect(self, policy)

    monkeypatch.setattr(RolloutCollector, "collect", collect_slowly)
    monkeypatch.setattr("personae.rollouts.threads.POLL_INTERVAL", 0.001)
    programs = training.programs
    agents, _ = programs.begin(programs.init(), 0, 0)

    def rewards(visit):
        policy = training.trainer.behaviour(agents, visit)
        collected = training.actors.collect(policy, visit)
        return set(np.unique(collected.rollout.steps.reward))

    training.begin_visit(0)
    assert rewards(0) == {1.0}
    (slow,) = training.actors._threads
    assert sys.getswitchinterval() < usual
    assert late.wait(10)
    training.begin_visit(1)
    assert slow.is_alive()
    assert sys.getswitchinterval() == usual
    go_on.set()
    slow.join(10)
    assert not slow.is_alive()
    assert rewards(1) == {4.0}
    training.close()
    assert sys.getswitchinterval() == usual


def test_chunks_are_saved_and_logged_though_a_later_one_fails(
    carts, tmp_path, monkeypatch
):
    """The first is evaluated only when the second has failed."""
    logged, failed, evaluate = [], threading.Event(), HostEvaluation.evaluate

    @contextmanager
    def sink(directory, seeds):
        writes = [logged.extend]
        yield lambda records: writes[-1](records)
        writes.clear()

    def when_failed(*arguments):
        assert failed.wait(10)
        return evaluate(*arguments)

    monkeypatch.setitem(sinks.SINKS, "tensorboard", sink)
    monkeypatch.setattr(HostEvaluation, "evaluate", when_failed)
    chunk, chunks = HostTrainer.chunk, []

    def only_once(*arguments):
        if chunks:
            failed.set()
            raise PersonaeError("it broke")
        chunks.append(arguments)
        return chunk(*arguments)

    monkeypatch.setattr(HostTrainer, "chunk", only_once)
    curriculum = replace(carts, hosting=Hosting("threads", 1))
    directory = RunDirectory(tmp_path)
    config = RunConfig(curriculum, "impala", (0,))
    with pytest.raises(PersonaeError, match="it broke"):
        start(config, directory, make_reporter(quiet=True), log_to=["tensorboard"])
    kinds = [record["kind"] for record in logged]
    assert kinds == ["train", "train", "evaluation"]
    latest = Checkpoints(directory.checkpoints, config.to_plain()).latest()
    assert latest is not None
    assert latest.total_chunks == 1


@pytest.mark.parametrize(("stepping", "evaluators"), [("threads", 3), ("sync", 1)])
def test_unrolls_are_spared_for_chunks_that_are_being_evaluated(
    carts, tmp_path, stepping, evaluators
):
    """Beside two checkpoints; several are evaluated at a time beside threads only."""
    hosting = Hosting(stepping, evaluators=3)
    config = RunConfig(replace(carts, hosting=hosting), "clear", (0,))
    run = Run(config, RunDirectory(tmp_path), make_reporter(quiet=True))
    store = run._open_store(run._traits.replay)
    assert store._allocator._chunks_in_flight == 2 + evaluators
    store.close()
    run._training.close()


def test_evaluators_play_episodes_of_their_own(carts, monkeypatch):
    """In environments that draw episodes from a seed by themselves."""
    context, seeds = make_host_context(carts, (7,)), []

    def pool(name, num, seed, options):
        seeds.append(seed)
        return SimpleNamespace(metadata={}, num_envs=num)

    other = replace(carts.tasks[1], env="envpool/Other-v0")
    curriculum = replace(carts, tasks=(carts.tasks[0], other))
    monkeypatch.setattr(context.tasks, "_curriculum", curriculum)
    monkeypatch.setattr("personae.rollouts.host_tasks.make_envpool", pool)
    for number in (0, 1):
        EvaluationEnvs(context, number).of(EvalTask(1), slots=3)
    first, second = seeds
    assert first == episode_seed(EVALUATION, 7, 1, 0, 0) != second


def test_a_thread_whose_environment_breaks_is_named(carts, tmp_path):
    broken = Task("broken", "small_envs:tests/Breaks-v0")
    curriculum = replace(
        carts, tasks=(broken,), hosting=Hosting("threads"), inputs=Inputs()
    )
    with pytest.raises(PersonaeError, match=r"task 'broken' .* the robot is on fire"):
        personae.learn(curriculum, "impala", out=tmp_path, quiet=True)


def test_environments_that_hang_are_named(carts, tmp_path, monkeypatch):
    monkeypatch.setattr("personae.rollouts.threads.SILENCE_LIMIT", 0.01)
    monkeypatch.setattr(ActorThread, "run", lambda self: None)
    curriculum = replace(carts, hosting=Hosting("threads"))
    with pytest.raises(
        PersonaeError, match=r"task 'cart' have not answered .*--resume"
    ):
        personae.learn(curriculum, "impala", out=tmp_path, quiet=True)


def test_unseen_is_for_all_tasks_or_for_none(carts):
    tasks = (carts.tasks[0], replace(carts.tasks[1], unseen=None))
    with pytest.raises(ValueError, match=r"to all tasks or to none, not to cart only"):
        replace(carts, tasks=tasks)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"inputs": Inputs()}, "leave out unseen"),
        ({}, "leave out inputs.previous_step"),
    ],
)
def test_processes_refuse_settings_that_they_cannot_honour(carts, change, message):
    curriculum = replace(carts, hosting=Hosting("actors"), **change)
    with pytest.raises(ValueError, match=message):
        make_training(curriculum, make_method("mask-ri"), (0,))
