"""Acting beside learning, what is recalled, and what was never trained on."""

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
from personae.curricula import Curriculum, Evaluation, Inputs, NetworkOptions, Task
from personae.curricula.curriculum import Hosting, Normalisers
from personae.errors import PersonaeError
from personae.learners import IMPALA
from personae.methods import make_method
from personae.rollouts.collector import Stage
from personae.rollouts.evaluator import Judge
from personae.rollouts.host_tasks import EVALUATION, Exam, episode_seed
from personae.rollouts.vector_actors import Players
from personae.runs import sinks
from personae.runs.checkpoints import Checkpoints
from personae.runs.directory import RunDirectory
from personae.runs.progress import make_reporter
from personae.training.config import RunConfig
from personae.training.host_trainer import HostPrograms
from personae.training.loop import Run, start
from personae.training.programs import Programs

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


def test_a_run_that_recalls_and_was_stopped_ends_bit_identical(
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


def test_networks_see_what_led_to_what_they_see(carts):
    programs = HostPrograms(carts, make_method("mask-ri"), (0, 1))
    agents, _ = programs.begin(programs.init(), 1, 0)
    acting = programs._acting(agents, programs.task(1))
    first, second = (programs.players.collect(acting, 1).rollout for _ in range(2))
    steps = jax.tree.map(
        lambda *parts: np.concatenate(parts, 1), first.steps, second.steps
    )
    seen = steps.observation
    ended = steps.done[:, :-1]
    assert ended.any()
    np.testing.assert_array_equal(
        seen.action[:, 1:], np.where(ended, 0, steps.action[:, :-1])
    )
    np.testing.assert_array_equal(
        seen.reward[:, 1:], np.where(ended, 0, steps.reward[:, :-1])
    )
    assert (seen.reward == 4).any()  # as it is; the network sees it clipped


def test_rewards_are_clipped_for_learning_and_reported_as_they_are(carts, tmp_path):
    found = []
    for bound in (None, 1.0):
        chosen = replace(carts, normalise=Normalisers(clip_rewards=bound))
        found.append(
            personae.learn(chosen, "impala", out=tmp_path / str(bound), quiet=True)
        )
    raw, clipped = (
        [r for r in RunDirectory(x.directory).read_metrics() if r["kind"] == "train"]
        for x in found
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


def test_a_rollout_that_comes_late_is_of_no_later_task(carts, monkeypatch):
    """It pays 1 a step in the first task, and 4 in the second."""
    programs = HostPrograms(
        replace(carts, hosting=Hosting("threads", 1)), make_method("mask-ri"), (0,)
    )
    usual = sys.getswitchinterval()
    late, go_on = threading.Event(), threading.Event()
    collect, rollouts = Stage.collect, []

    def slowly(self, acting):
        rollouts.append(self)
        if len(rollouts) == 2:
            late.set()
            assert go_on.wait(10)
        return collect(self, acting)

    monkeypatch.setattr(Stage, "collect", slowly)
    monkeypatch.setattr("personae.rollouts.threads.PATIENCE", 0.001)

    def rewards(visit):
        acting = programs._acting(agents, programs.task(visit))
        collected = programs.players.collect(acting, visit)
        return set(np.unique(collected.rollout.steps.reward))

    agents, _ = programs.begin(programs.init(), 0, 0)
    assert rewards(0) == {1.0}
    (slow,) = programs.players._actors
    assert sys.getswitchinterval() < usual
    assert late.wait(10)
    programs.players.begin(1)
    assert slow.is_alive()
    assert sys.getswitchinterval() == usual
    go_on.set()
    slow.join(10)
    assert not slow.is_alive()
    assert rewards(1) == {4.0}
    programs.close()
    assert sys.getswitchinterval() == usual


def test_chunks_are_saved_and_logged_though_a_later_one_fails(
    carts, tmp_path, monkeypatch
):
    """The first is judged only when the second has failed."""
    logged, failed, evaluate = [], threading.Event(), Players.evaluate

    @contextmanager
    def sink(directory, seeds):
        writes = [logged.extend]
        yield lambda records: writes[-1](records)
        writes.clear()

    def when_failed(*given):
        assert failed.wait(10)
        return evaluate(*given)

    monkeypatch.setitem(sinks.SINKS, "tensorboard", sink)
    monkeypatch.setattr(Players, "evaluate", when_failed)
    chunk, chunks = HostPrograms.chunk, []

    def only_once(*given):
        if chunks:
            failed.set()
            raise PersonaeError("it broke")
        chunks.append(given)
        return chunk(*given)

    monkeypatch.setattr(HostPrograms, "chunk", only_once)
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
def test_chunks_that_are_judged_may_need_what_is_forgotten(
    carts, tmp_path, stepping, evaluators
):
    """Beside two checkpoints; several are judged at a time beside threads only."""
    hosting = Hosting(stepping, evaluators=3)
    config = RunConfig(replace(carts, hosting=hosting), "clear", (0,))
    run = Run(config, RunDirectory(tmp_path), make_reporter(quiet=True))
    run.directory.root.mkdir(exist_ok=True)
    run._open_memory(run.traits.replay, fresh=True)
    assert run.programs.memory._tenants._in_flight == 2 + evaluators
    run.programs.close()


def test_judges_play_episodes_of_their_own(carts, monkeypatch):
    """In environments that draw episodes from a seed by themselves."""
    programs = HostPrograms(carts, make_method("impala"), (7,))
    tasks, seeds = programs.tasks, []

    def pool(index, num, seed, unseen):
        seeds.append(seed)
        return SimpleNamespace(metadata={}, num_envs=num)

    other = replace(carts.tasks[1], env="envpool/Other-v0")
    curriculum = replace(carts, tasks=(carts.tasks[0], other))
    monkeypatch.setattr(tasks, "_curriculum", curriculum)
    monkeypatch.setattr(tasks, "_pool", pool)
    for number in (0, 1):
        Judge(programs.players, number).room(Exam(1), slots=3)
    first, second = seeds
    assert first == episode_seed(EVALUATION, 7, 1, 0, 0) != second
    programs.close()


def test_a_thread_whose_environment_breaks_is_named(carts, tmp_path):
    broken = Task("broken", "small_envs:tests/Breaks-v0")
    curriculum = replace(
        carts, tasks=(broken,), hosting=Hosting("threads"), inputs=Inputs()
    )
    with pytest.raises(PersonaeError, match=r"task 'broken' .* the robot is on fire"):
        personae.learn(curriculum, "impala", out=tmp_path, quiet=True)


def test_environments_that_hang_are_named(carts, tmp_path, monkeypatch):
    monkeypatch.setattr("personae.rollouts.threads.SECONDS_OF_SILENCE", 0.01)
    monkeypatch.setattr("personae.rollouts.threads.Actor.run", lambda self: None)
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
    ("change", "said"),
    [
        ({"inputs": Inputs()}, "leave out unseen"),
        ({}, "leave out inputs.previous_step"),
    ],
)
def test_agents_in_processes_of_their_own_do_without(carts, change, said):
    curriculum = replace(carts, hosting=Hosting("actors"), **change)
    with pytest.raises(ValueError, match=said):
        HostPrograms(curriculum, make_method("mask-ri"), (0,))


def test_environments_in_jax_recall_nothing(tiny):
    recalling = replace(tiny, inputs=Inputs(previous_step=True))
    with pytest.raises(ValueError, match=r"\(inputs\.recall\)"):
        Programs(recalling, make_method("mask-ri"), (0,))
