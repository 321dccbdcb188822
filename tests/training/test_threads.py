"""Acting beside learning, what is recalled, and what was never trained on."""

from dataclasses import replace

import jax
import numpy as np
import pytest
import small_worlds  # noqa: F401  registers environments

import personae
from personae.curricula import Curriculum, Evaluation, Inputs, NetworkOptions, Task
from personae.curricula.spec import Hosting, Normalisers
from personae.errors import PersonaeError
from personae.learners import IMPALA
from personae.methods import make_method
from personae.rundir import RunDirectory
from personae.training import RunConfig, start
from personae.training.host import HostPrograms
from personae.training.programs import Programs
from personae.training.progress import make_reporter


@pytest.fixture(scope="module")
def carts():
    """Two carts that start differently, tested where they start elsewhere."""
    tasks = (
        Task("cart", "small_worlds:tests/Paced-v0", target=8.0, unseen={"pace": 2}),
        Task("other", "small_worlds:tests/Paced-v0", {"pace": 4}, unseen={"pace": 3}),
    )
    return Curriculum(
        id="test/Paced-v0",
        tasks=tasks,
        steps_per_task=4 * 32,
        network=NetworkOptions(hidden=(8,)),
        learner="impala",
        impala=IMPALA(num_envs=4, rollout_length=8, batch_size=2),
        inputs=Inputs(recall=True),
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


def test_a_thread_whose_environment_breaks_is_named(carts, tmp_path):
    broken = Task("broken", "small_worlds:tests/Breaks-v0")
    curriculum = replace(
        carts, tasks=(broken,), hosting=Hosting("threads"), inputs=Inputs()
    )
    with pytest.raises(PersonaeError, match=r"task 'broken' .* the robot is on fire"):
        personae.learn(curriculum, "impala", out=tmp_path, quiet=True)


def test_environments_that_hang_are_named(carts, tmp_path, monkeypatch):
    monkeypatch.setattr("personae.training.host_threads.SECONDS_OF_SILENCE", 0.01)
    monkeypatch.setattr("personae.training.host_threads.Actor.run", lambda self: None)
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
    [({"inputs": Inputs()}, "leave out unseen"), ({}, "leave out inputs.recall")],
)
def test_agents_in_processes_of_their_own_do_without(carts, change, said):
    curriculum = replace(carts, hosting=Hosting("actors"), **change)
    with pytest.raises(ValueError, match=said):
        HostPrograms(curriculum, make_method("mask-ri"), (0,))


def test_environments_in_jax_recall_nothing(tiny):
    recalling = replace(tiny, inputs=Inputs(recall=True))
    with pytest.raises(ValueError, match=r"\(inputs\.recall\)"):
        Programs(recalling, make_method("mask-ri"), (0,))
