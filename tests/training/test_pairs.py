"""Every learner with every method, on the device and on the host.

`make test` resumes one method for each set of traits. Training branches on traits only,
so that other methods take the same paths. `make stress` resumes all methods.
"""

from dataclasses import replace

import pytest

import personae
from personae.curricula import Evaluation, Inputs, NetworkOptions, Task
from personae.curricula.curriculum import LEARNERS, Normalisers
from personae.errors import UsageError
from personae.learners import IMPALA, PPO
from personae.methods import (
    METHODS,
    CLEAROptions,
    MethodOptions,
    OnlineEWCOptions,
    ProgressCompressOptions,
    make_method,
)
from personae.runs.directory import RunDirectory
from personae.runs.progress import make_reporter
from personae.training.config import RunConfig
from personae.training.loop import start

REFUSED = {
    ("impala", "ppo"): "is fine-tuning with the learner ppo",
    ("impala", "ppo-mh"): "is fine-tuning with the learner ppo",
    ("ppo", "impala"): "is fine-tuning with the learner impala",
    ("ppo", "clear"): "which ppo cannot: .* Choose --learner impala",
}
# Replay is so small that it is soon overwritten.
SMALL_REPLAY = OnlineEWCOptions(frames=24, batches=2)
OPTIONS = MethodOptions(
    clear=CLEAROptions(frames=32),
    online_ewc=SMALL_REPLAY,
    progress_compress=ProgressCompressOptions(ewc=SMALL_REPLAY),
)
CARTS = tuple(
    Task(name, "CartPole-v1", target=500.0, attributes={"force_mag": force})
    for name, force in (("cart", 10), ("reversed", -10))
)


PAIRS = [
    (acting, learner, method)
    for acting in ("device", "host")
    for learner in LEARNERS
    for method in METHODS
    if (learner, method) not in REFUSED
]


def one_per_kind():
    """Return the first of all pairs that training cannot tell apart."""
    kinds = {}
    for acting, learner, method in PAIRS:
        traits = make_method(method, OPTIONS).traits
        kinds.setdefault((acting, learner, traits), (acting, learner, method))
    return list(kinds.values())


@pytest.fixture(scope="module")
def two_tasks(tiny):
    """Two tasks of four short iterations."""
    sizes = {"num_envs": 2, "rollout_length": 8}
    return replace(
        tiny,
        id="test/Pairs-v0",
        tasks=tiny.tasks[1:3],
        steps_per_task=4 * 16,
        network=NetworkOptions(hidden=(8,)),
        ppo=PPO(num_minibatches=2, bootstrap_truncated=False, **sizes),
        impala=IMPALA(batch_size=1, **sizes),
        clear=OPTIONS.clear,
        online_ewc=OPTIONS.online_ewc,
        progress_compress=OPTIONS.progress_compress,
        evaluation=Evaluation(interval=2, episodes=1),
    )


@pytest.fixture(scope="module")
def curricula(two_tasks):
    """The two tasks in JAX, and two others that are stepped from the host."""
    return {
        "device": two_tasks,
        "host": replace(
            two_tasks,
            id="test/Carts-v1",
            tasks=CARTS,
            inputs=Inputs(),
            normalise=Normalisers(observations=True, rewards=True),
        ),
    }


@pytest.fixture
def check_resume(curricula, tmp_path, stop_after, assert_same_run):
    """Return a check that a run that was stopped and resumed equals a whole one."""

    def check(acting, learner, method):
        curriculum = replace(curricula[acting], learner=learner)
        whole = personae.learn(curriculum, method, out=tmp_path / "whole", quiet=True)
        assert whole.evaluations.shape == (1, 4, 2)
        directory = RunDirectory(tmp_path / "stopped")
        config = RunConfig(curriculum, method, (0,))
        with pytest.raises(KeyboardInterrupt):
            start(config, directory, stop_after(3))
        has_replay = config.make_method().traits.replay is not None
        assert directory.replay.exists() == has_replay
        start(config, directory, make_reporter(quiet=True), resume=True)
        assert_same_run(directory.root, whole.directory)
        # Replay may be large, so that a finished run deletes it.
        assert not directory.replay.exists()

    return check


@pytest.mark.slow
@pytest.mark.parametrize(("acting", "learner", "method"), one_per_kind())
def test_methods_of_each_kind_resume(check_resume, acting, learner, method):
    check_resume(acting, learner, method)


@pytest.mark.stress
@pytest.mark.parametrize(("acting", "learner", "method"), PAIRS)
def test_all_methods_resume(check_resume, acting, learner, method):
    check_resume(acting, learner, method)


@pytest.mark.parametrize(("learner", "method"), REFUSED)
def test_a_pair_that_makes_no_sense_is_refused(two_tasks, learner, method):
    curriculum = replace(two_tasks, learner=learner)
    with pytest.raises(UsageError, match=REFUSED[learner, method]):
        RunConfig(curriculum, method, (0,))


@pytest.mark.parametrize("share", [0.1, 0.7, 1.5])
def test_replay_that_does_not_fill_batches_is_refused(two_tasks, share):
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


def test_replay_smaller_than_a_rollout_is_refused(two_tasks):
    curriculum = replace(two_tasks, learner="impala", clear=CLEAROptions(frames=15))
    with pytest.raises(UsageError, match=r"15 frames .* the 16 of one rollout"):
        RunConfig(curriculum, "clear", (0,))
