"""Shared by all tests: a compilation cache, and one tiny life per method."""

import os
import signal
from contextlib import contextmanager
from pathlib import Path

import jax
import numpy as np
import pytest
from hypothesis import settings

import personae
from personae.cli import main
from personae.curricula import Curriculum, Evaluation, Inputs, NetworkOptions
from personae.curricula.ct_graph import ct_task
from personae.files import read_tensors
from personae.learners import PPO
from personae.runs.directory import RunDirectory
from personae.runs.progress import Progress

# Two agents are trained on two devices, three with one of them twice as busy.
jax.config.update("jax_num_cpu_devices", 2)
CACHE = Path(__file__).parent.parent / ".cache" / "xla"
jax.config.update("jax_compilation_cache_dir", str(CACHE))
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
jax.config.update("jax_persistent_cache_min_entry_size_bytes", 0)

# The same examples each time: what fails, fails again. First examples compile.
settings.register_profile("steady", derandomize=True, deadline=None)
settings.load_profile("steady")


def pytest_addoption(parser):
    """Let long runs be compiled as users compile them."""
    told = "optimise programs: for tests that train for minutes"
    parser.addoption("--optimise", action="store_true", help=told)


def pytest_configure(config):
    """Compile in a hurry, where it is not the run that takes long.

    Half of the time would go into optimising programs that run once. Runs that tests
    start in processes of their own are told the same.
    """
    if config.getoption("optimise"):
        return
    os.environ["JAX_DISABLE_MOST_OPTIMIZATIONS"] = "1"
    jax.config.update("jax_disable_most_optimizations", True)
    if jax.__version_info__ < (0, 11):  # an unknown flag would be an error
        os.environ["XLA_FLAGS"] = "--xla_cpu_use_fusion_emitters=false"


METHODS = ("mask-ri", "mask-lc", "mask-blc")
BASELINES = ("ppo", "expert", "ewc-mh", "packnet")


@pytest.fixture(scope="session")
def tiny() -> Curriculum:
    """Four easy tasks, a small network and short rollouts: seconds, not minutes."""
    return Curriculum(
        id="test/Tiny-v3",
        tasks=tuple(ct_task(depth=1, leaf=leaf % 2, label=leaf) for leaf in (0, 1))
        + tuple(ct_task(depth=2, leaf=leaf) for leaf in (0, 3)),
        steps_per_task=4 * 64,
        inputs=Inputs(scale=1 / 255),
        network=NetworkOptions(hidden=(24, 24)),
        ppo=PPO(
            num_envs=4,
            rollout_length=16,
            num_minibatches=8,
            learning_rate=1e-2,
            bootstrap_truncated=False,
        ),
        evaluation=Evaluation(interval=2, episodes=3),
    )


def live_through(curriculum, methods, root) -> dict[str, personae.Record]:
    def live(method):
        out = root / method
        return personae.learn(curriculum, method, seeds=2, out=out, quiet=True)

    return {method: live(method) for method in methods}


@pytest.fixture(scope="session")
def lives(tiny, tmp_path_factory) -> dict[str, personae.Record]:
    """The tiny curriculum lived through once with each method, two seeds."""
    return live_through(tiny, METHODS, tmp_path_factory.mktemp("lives"))


@pytest.fixture(scope="session")
def baselines(tiny, tmp_path_factory) -> dict[str, personae.Record]:
    """The same with networks that are trained as a whole."""
    return live_through(tiny, BASELINES, tmp_path_factory.mktemp("baselines"))


@pytest.fixture
def tiny_file(tiny, tmp_path) -> Path:
    """The tiny curriculum as a file."""
    path = tmp_path / "tiny.toml"
    path.write_text(tiny.to_toml())
    return path


@pytest.fixture
def personae_command(capsys):
    """Return the command: words in; exit code, output and errors out."""

    def run(*words):
        try:
            code = main([str(word) for word in words])
        except SystemExit as exit_:
            code = exit_.code
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


@pytest.fixture
def stop_after():
    """Return a reporter that stops the run after so many chunks, as Ctrl-C would."""

    @contextmanager
    def reporter(chunks):
        left = iter(range(chunks - 1))

        def show(progress):
            if next(left, None) is None:
                raise KeyboardInterrupt

        yield show

    return reporter


@pytest.fixture(scope="session")
def assert_same_run():
    """Return a check that all that was learned and measured is equal, bit for bit."""

    def check(one, other):
        one, other = RunDirectory(one), RunDirectory(other)
        assert one.metrics_file.read_bytes() == other.metrics_file.read_bytes()
        names = sorted(path.name for path in one.masks.iterdir())
        assert names == sorted(path.name for path in other.masks.iterdir())
        for path in [one.backbone_file, *(one.masks / name for name in names)]:
            ours, metadata = read_tensors(path)
            theirs, expected = read_tensors(other.root / path.relative_to(one.root))
            assert metadata == expected
            assert ours.keys() == theirs.keys()
            for name, array in ours.items():
                np.testing.assert_array_equal(array, theirs[name])

    return check


@pytest.fixture
def ctrl_c():
    """Skip where Ctrl-C cannot be tried: who ignores it, starts others that do."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        pytest.skip("these tests were started to ignore Ctrl-C (nohup, or a job)")
    return signal.SIGINT


@pytest.fixture
def progress():
    """A run in the middle of its third task."""
    return Progress(
        visit=3,
        num_visits=8,
        task="d3-010",
        steps=266_240,
        total_steps=819_200,
        training_return=0.87,
        evaluation=2.6,
        best_evaluation=8.0,
        steps_per_second=12_345.0,
        seconds_left=3_675.0,
    )
