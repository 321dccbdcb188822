"""Fixtures that tests share: a compilation cache, and one tiny run per method."""

import fcntl
import itertools
import os
import signal
from collections import ChainMap
from collections.abc import Iterator, Mapping, Sequence
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

# Two agents are trained on two devices; three agents fill them unevenly.
jax.config.update("jax_num_cpu_devices", 2)
CACHE = Path(__file__).parent.parent / ".cache" / "xla"
jax.config.update("jax_compilation_cache_dir", str(CACHE))
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
jax.config.update("jax_persistent_cache_min_entry_size_bytes", 0)

# The same examples each time, so that a failure can be repeated. There is no deadline,
# because the first example compiles.
settings.register_profile("steady", derandomize=True, deadline=None)
settings.load_profile("steady")


def pytest_addoption(parser):
    """Add a flag that compiles programs as users do."""
    description = "optimise programs: for tests that train for minutes"
    parser.addoption("--optimise", action="store_true", help=description)


def pytest_configure(config):
    """Switch off most optimisations of the compiler, unless --optimise is given.

    Half of the time would go into optimising programs that run once. Processes that
    tests start read the environment variable.
    """
    if config.getoption("optimise"):
        return
    os.environ["JAX_DISABLE_MOST_OPTIMIZATIONS"] = "1"
    jax.config.update("jax_disable_most_optimizations", True)
    if jax.__version_info__ < (0, 11):  # an unknown flag would be an error
        os.environ["XLA_FLAGS"] = "--xla_cpu_use_fusion_emitters=false"


# Fixtures that serve whole runs only: a test that asks for one of them is slow.
FIXTURES_OF_RUNS = {"lives", "baselines", "stop_after", "assert_same_run", "ctrl_c"}


@pytest.hookimpl(tryfirst=True)  # before -m chooses among the tests
def pytest_collection_modifyitems(items):
    """Mark tests of whole runs as slow."""
    for item in items:
        if FIXTURES_OF_RUNS.intersection(item.fixturenames):
            item.add_marker("slow")


@pytest.fixture(scope="session")
def tiny() -> Curriculum:
    """Four easy tasks, a small network and short rollouts: a run takes seconds."""
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


class TrainedRuns(Mapping[str, personae.Record]):
    """Runs of one curriculum by method, each trained when a test first asks for it.

    All workers of a session share the directories: one trains, the others wait for it
    and read the record.
    """

    def __init__(self, curriculum: Curriculum, methods: Sequence[str], root: Path):
        self._curriculum = curriculum
        self._methods = tuple(methods)
        self._root = root
        self._records: dict[str, personae.Record] = {}

    def __getitem__(self, method: str) -> personae.Record:
        if method not in self._methods:
            raise KeyError(method)
        if method not in self._records:
            with locked(self._root / f"{method}.lock"):
                self._records[method] = self._train(method)
        return self._records[method]

    def __iter__(self) -> Iterator[str]:
        return iter(self._methods)

    def __len__(self) -> int:
        return len(self._methods)

    def __or__(self, other: Mapping[str, personae.Record]):
        return ChainMap(other, self)

    def _train(self, method: str) -> personae.Record:
        out = self._root / method
        if RunDirectory(out).finished:
            return personae.read_record(out)
        # A run that failed is resumed, so that its error is raised in each test.
        return personae.learn(
            self._curriculum, method, seeds=2, out=out, resume=True, quiet=True
        )


@contextmanager
def locked(path: Path):
    """Hold a lock between processes; the system releases it if the holder dies."""
    with open(path, "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def shared_folder(tmp_path_factory, name: str) -> Path:
    """Return a folder that all workers of this session share."""
    root = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        root = root.parent  # each worker has a base folder of its own below it
    path = root / name
    path.mkdir(exist_ok=True)
    return path


@pytest.fixture(scope="session")
def lives(tiny, tmp_path_factory) -> TrainedRuns:
    """Runs of the tiny curriculum with each kind of masks, two seeds."""
    methods = ("mask-ri", "mask-lc", "mask-blc")
    return TrainedRuns(tiny, methods, shared_folder(tmp_path_factory, "lives"))


@pytest.fixture(scope="session")
def baselines(tiny, tmp_path_factory) -> TrainedRuns:
    """Runs of the tiny curriculum with methods that train the whole network."""
    methods = ("ppo", "expert", "ewc-mh", "packnet")
    return TrainedRuns(tiny, methods, shared_folder(tmp_path_factory, "baselines"))


@pytest.fixture
def tiny_file(tiny, tmp_path) -> Path:
    """The tiny curriculum as a file."""
    path = tmp_path / "tiny.toml"
    path.write_text(tiny.to_toml())
    return path


@pytest.fixture
def personae_command(capsys):
    """Return a function: words to the command's exit code, output and errors."""

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
    """Return a reporter that stops the run after some chunks, as Ctrl-C would."""

    @contextmanager
    def reporter(chunks):
        calls = itertools.count(1)

        def show(progress):
            if next(calls) >= chunks:
                raise KeyboardInterrupt

        yield show

    return reporter


@pytest.fixture(scope="session")
def assert_same_run():
    """Return a check that two runs hold the same results, bit for bit."""

    def check(one, other):
        one, other = RunDirectory(one), RunDirectory(other)
        assert one.metrics_file.read_bytes() == other.metrics_file.read_bytes()
        names = sorted(path.name for path in one.masks.iterdir())
        assert names == sorted(path.name for path in other.masks.iterdir())
        for path in [one.backbone_file, *(one.masks / name for name in names)]:
            tensors, metadata = read_tensors(path)
            expected, expected_metadata = read_tensors(
                other.root / path.relative_to(one.root)
            )
            assert metadata == expected_metadata
            assert tensors.keys() == expected.keys()
            for name, array in tensors.items():
                np.testing.assert_array_equal(array, expected[name])

    return check


@pytest.fixture
def ctrl_c():
    """Return the signal of Ctrl-C; skip if child processes would ignore it too."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        pytest.skip("these tests were started to ignore Ctrl-C (nohup, or a job)")
    return signal.SIGINT


@pytest.fixture
def progress():
    """The progress of a run in the middle of its third task."""
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
