"""Every learner with every method: two axes that know nothing of each other."""

from dataclasses import replace

import pytest

import personae
from personae.curricula import LEARNERS, Evaluation, NetworkOptions
from personae.errors import UsageError
from personae.learners import IMPALA, PPO
from personae.methods import (
    METHODS,
    CLEAROptions,
    OnlineEWCOptions,
    ProgressCompressOptions,
)
from personae.runs.directory import RunDirectory
from personae.runs.progress import make_reporter
from personae.training.config import RunConfig
from personae.training.loop import start

REFUSED = {
    ("impala", "ppo"): "what fine-tuning with the learner ppo is called",
    ("impala", "ppo-mh"): "what fine-tuning with the learner ppo is called",
    ("ppo", "impala"): "what fine-tuning with the learner impala is called",
    ("ppo", "clear"): "which ppo cannot: .* Choose --learner impala",
}
PAIRS = [(learner, method) for learner in LEARNERS for method in METHODS]


@pytest.fixture(scope="module")
def two_tasks(tiny):
    """Two tasks of four short iterations; what is remembered is soon overwritten."""
    sizes = {"num_envs": 2, "rollout_length": 8}
    looked_back = OnlineEWCOptions(frames=24, batches=2)
    return replace(
        tiny,
        id="test/Pairs-v0",
        tasks=tiny.tasks[1:3],
        steps_per_task=4 * 16,
        network=NetworkOptions(hidden=(8,)),
        ppo=PPO(num_minibatches=2, bootstrap_truncated=False, **sizes),
        impala=IMPALA(batch_size=1, **sizes),
        clear=CLEAROptions(frames=32),
        online_ewc=looked_back,
        progress_compress=ProgressCompressOptions(ewc=looked_back),
        evaluation=Evaluation(interval=2, episodes=1),
    )


@pytest.mark.parametrize(("learner", "method"), [p for p in PAIRS if p not in REFUSED])
def test_a_life_is_lived_and_goes_on_as_if_never_stopped(
    two_tasks, tmp_path, learner, method, stop_after, assert_same_run
):
    curriculum = replace(two_tasks, learner=learner)
    whole = personae.learn(curriculum, method, out=tmp_path / "whole", quiet=True)
    assert whole.evaluations.shape == (1, 4, 2)
    directory = RunDirectory(tmp_path / "stopped")
    config = RunConfig(curriculum, method, (0,))
    with pytest.raises(KeyboardInterrupt):
        start(config, directory, stop_after(3))
    remembers = config.make_method().traits.replay is not None
    assert directory.replay.exists() == remembers
    start(config, directory, make_reporter(quiet=True), resume=True)
    assert_same_run(directory.root, whole.directory)
    assert not directory.replay.exists()  # which may be large


@pytest.mark.parametrize(("learner", "method"), REFUSED)
def test_a_pair_that_makes_no_sense_is_refused(two_tasks, learner, method):
    curriculum = replace(two_tasks, learner=learner)
    with pytest.raises(UsageError, match=REFUSED[learner, method]):
        RunConfig(curriculum, method, (0,))


@pytest.mark.parametrize("share", [0.1, 0.7, 1.5])
def test_memories_that_do_not_fill_batches_are_refused(two_tasks, share):
    curriculum = replace(
        two_tasks,
        learner="impala",
        impala=IMPALA(num_envs=4, rollout_length=8, batch_size=1),
        clear=CLEAROptions(frames=64, share=share),
    )
    if share == 1.5:  # six unrolls in four batches
        message = r"share\): 6 for 4 .* the 4 batches"
    else:
        message = rf"replay {share} unrolls for each new one"
    with pytest.raises(UsageError, match=message):
        RunConfig(curriculum, "clear", (0,))


def test_too_few_memories_are_refused(two_tasks):
    curriculum = replace(two_tasks, learner="impala", clear=CLEAROptions(frames=15))
    with pytest.raises(UsageError, match=r"15 frames .* the 16 of one rollout"):
        RunConfig(curriculum, "clear", (0,))
