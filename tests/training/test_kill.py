"""Killed processes lose the current chunk and nothing else."""

import dataclasses
import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from personae.learners import IMPALA
from personae.methods import CLEAROptions

pytestmark = pytest.mark.slow

CACHE = Path(__file__).parents[2] / ".cache" / "xla"
ENVIRONMENT = os.environ | {
    "JAX_NUM_CPU_DEVICES": "2",
    "JAX_COMPILATION_CACHE_DIR": str(CACHE),
    "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
}


CART = """
id = "test/Cart-v0"
steps_per_task = 768
ppo = {num_envs = 2, rollout_length = 32, num_minibatches = 4}
evaluation = {interval = 1, episodes = 2}
network = {hidden = [16]}
normalise = {observations = true}
tasks = [
    {name = "cart", env = "CartPole-v1", target = 500.0},
    {name = "acrobot", env = "Acrobot-v1", target = -80.0, floor = -500.0},
]
inputs = {fit = "pad"}
"""


@pytest.fixture(scope="module")
def curriculum_file(tiny, tmp_path_factory) -> Path:
    """Three tasks of twelve chunks each, so that kills fall at many different times."""
    longer = dataclasses.replace(tiny, tasks=tiny.tasks[:3], steps_per_task=24 * 64)
    path = tmp_path_factory.mktemp("kill") / "curriculum.toml"
    path.write_text(longer.to_toml())
    return path


def begin(curriculum_file, out, *flags, method="mask-lc", **environment):
    """Start the command in a process of its own."""
    command = [sys.executable, "-m", "personae.cli", "learn", str(curriculum_file)]
    options = ["--method", method, "--seeds", "2", "--out", str(out), *flags]
    return subprocess.Popen(
        [*command, *options],
        env=ENVIRONMENT | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(curriculum_file, out, *flags, method="mask-lc"):
    process = begin(curriculum_file, out, *flags, method=method)
    output, errors = process.communicate()
    assert process.returncode == 0, errors
    return output


def chunks_saved(out) -> int:
    names = [path.name for path in (Path(out) / "checkpoints").glob("chunk-*.saf*")]
    return max((int(name[6:12]) for name in names), default=0)


def kill_at_random(curriculum_file, out, random_numbers, method) -> bool:
    """Kill a run at a random time; return whether it was still running."""
    saved = chunks_saved(out)
    process = begin(curriculum_file, out, "--resume", method=method)
    shown = 0
    if random_numbers.random() < 0.7:  # while training; otherwise while starting
        for _ in range(random_numbers.randint(1, 6)):
            line = process.stderr.readline()
            shown += "steps/s" in line
        time.sleep(random_numbers.uniform(0, 0.05))
    else:
        time.sleep(random_numbers.uniform(0, 4))
    process.kill()
    process.communicate()
    assert chunks_saved(out) >= saved + shown, "a chunk was shown that was not saved"
    return process.returncode == -signal.SIGKILL


@pytest.fixture(scope="module")
def assert_like_whole(curriculum_file, tmp_path_factory, assert_same_run):
    """Return a check that a run equals one that was never interrupted."""
    whole = tmp_path_factory.mktemp("whole") / "run"
    finish(curriculum_file, whole)
    return lambda out: assert_same_run(out, whole)


def kill_and_compare(curriculum_file, out, kills, seed, assert_same, method="mask-lc"):
    random_numbers = random.Random(seed)
    count = 0
    while count < kills:
        alive = kill_at_random(curriculum_file, out, random_numbers, method)
        count += alive
        if not alive:  # a finished run cannot be killed: start another one
            assert_same(out)
            out = out.with_name(f"{out.name}-{count}")
    finish(curriculum_file, out, "--resume", method=method)
    assert_same(out)


def test_a_run_killed_three_times_ends_bit_identical(
    curriculum_file, assert_like_whole, tmp_path
):
    kill_and_compare(curriculum_file, tmp_path / "run", 3, 0, assert_like_whole)


def test_a_run_outside_jax_killed_twice_ends_bit_identical(tmp_path, assert_same_run):
    path = tmp_path / "cart.toml"
    path.write_text(CART)
    finish(path, tmp_path / "whole")

    def check(out):
        assert_same_run(out, tmp_path / "whole")

    kill_and_compare(path, tmp_path / "run", 2, 1, check)


def test_a_run_with_replay_killed_twice_ends_bit_identical(
    tiny, tmp_path, assert_same_run
):
    """Replay is overwritten all the time, except for records a checkpoint needs."""
    learner = IMPALA(num_envs=4, rollout_length=16, batch_size=4)
    curriculum = dataclasses.replace(
        tiny,
        tasks=tiny.tasks[:2],
        steps_per_task=24 * 64,
        learner="impala",
        impala=learner,
        clear=CLEAROptions(frames=20 * 16),
    )
    path = tmp_path / "curriculum.toml"
    path.write_text(curriculum.to_toml())
    finish(path, tmp_path / "whole", method="clear")

    def check(out):
        assert_same_run(out, tmp_path / "whole")

    kill_and_compare(path, tmp_path / "run", 2, 3, check, method="clear")


@pytest.mark.stress
@pytest.mark.parametrize("seed", range(1, 6))
def test_runs_killed_again_and_again(
    curriculum_file, assert_like_whole, tmp_path, seed
):
    kill_and_compare(curriculum_file, tmp_path / "run", 5, seed, assert_like_whole)


def wait_for_progress(process, lines=1):
    for _ in range(lines):
        while "steps/s" not in process.stderr.readline():
            assert process.poll() is None


def test_ctrl_c_saves_the_chunk_and_prints_the_resume_command(
    ctrl_c, curriculum_file, assert_like_whole, tmp_path
):
    """The directory may be moved before the run is resumed."""
    out = tmp_path / "run"
    process = begin(curriculum_file, out)
    wait_for_progress(process)
    process.send_signal(ctrl_c)
    _, errors = process.communicate()
    assert process.returncode == 130
    assert "stopping after this chunk is saved; Ctrl-C again stops at once" in errors
    resume = f"--method mask-lc --seeds 2 --out {out} --resume"
    assert f"go on with: personae learn {curriculum_file} {resume}" in errors
    assert json.loads((out / "run.json").read_text())["status"] == "running"
    saved = 1 + sum("steps/s" in line for line in errors.splitlines())
    assert chunks_saved(out) == saved
    moved = out.rename(tmp_path / "moved")
    finish(curriculum_file, moved, "--resume")
    assert_like_whole(moved)


def test_ctrl_c_twice_stops_at_once(ctrl_c, tiny, tmp_path):
    """Chunks are long here, and the current one is not waited for."""
    long = dataclasses.replace(tiny.evaluation, interval=1500)
    curriculum = dataclasses.replace(tiny, steps_per_task=64 * 6000, evaluation=long)
    file, out = tmp_path / "long.toml", tmp_path / "run"
    file.write_text(curriculum.to_toml())
    process = begin(file, out)
    wait_for_progress(process)
    os.kill(process.pid, signal.SIGSTOP)  # both signals arrive before either is handled
    process.send_signal(ctrl_c)
    process.send_signal(signal.SIGTERM)
    os.kill(process.pid, signal.SIGCONT)
    _, errors = process.communicate()
    assert process.returncode == 130
    assert "go on with: personae learn" in errors
    assert chunks_saved(out) == 1
    again = begin(file, out, "--resume")
    wait_for_progress(again)
    again.kill()
    again.communicate()
    assert chunks_saved(out) >= 2


def test_a_second_process_on_the_same_directory_is_refused(
    curriculum_file, assert_like_whole, tmp_path
):
    out = tmp_path / "run"
    first = begin(curriculum_file, out)
    wait_for_progress(first)
    os.kill(first.pid, signal.SIGSTOP)
    for flag in ("--resume", "--overwrite"):
        second = begin(curriculum_file, out, flag)
        _, errors = second.communicate()
        assert second.returncode == 2
        assert f"another process is writing to {out}" in errors
    os.kill(first.pid, signal.SIGCONT)
    _, errors = first.communicate()
    assert first.returncode == 0, errors
    assert_like_whole(out)


def test_a_change_of_devices_is_named(curriculum_file, tmp_path):
    out = tmp_path / "run"
    process = begin(curriculum_file, out)
    wait_for_progress(process)
    process.send_signal(signal.SIGTERM)
    process.communicate()
    elsewhere = begin(curriculum_file, out, "--resume", JAX_NUM_CPU_DEVICES="1")
    _, errors = elsewhere.communicate()
    assert elsewhere.returncode == 0
    assert "the software has changed (count 2 -> 1)" in errors
    run = json.loads((out / "run.json").read_text())
    assert run["device"]["count"] == 2
    assert [session["device"]["count"] for session in run["resumed"]] == [1]
