"""Several runs at a time, in real processes."""

import io
import json
import os
import shlex
import subprocess
import sys
import time
from dataclasses import replace

import pytest
from rich.console import Console

from personae.api import compare
from personae.errors import PersonaeError, UsageError
from personae.launch.display import JobsDisplay
from personae.launch.jobs import Job, learn_jobs, room
from personae.launch.mps import CONTROL, shared_gpu
from personae.runs.directory import RunDirectory
from personae.training.config import RunConfig

METHODS = ("ppo", "ewc-mh")


@pytest.fixture(autouse=True)
def _alike(monkeypatch):
    """Give workers the devices of this process, so that numbers can be equal."""
    monkeypatch.setenv("JAX_NUM_CPU_DEVICES", "2")


def test_runs_side_by_side_equal_runs_alone(
    tiny, tmp_path, baselines, assert_same_run, capsys
):
    comparison = compare(tiny, METHODS, seeds=2, jobs=2, out=tmp_path)
    assert [*comparison.records] == [*METHODS]
    errors = capsys.readouterr().err
    for method in (*METHODS, "expert"):
        assert f"{method}: task 4/4" in errors
        assert f"{method}: done" in errors
        assert_same_run(tmp_path / method, baselines[method].directory)
    compare(tiny, METHODS, seeds=2, jobs=2, out=tmp_path)
    assert "task 4/4" not in capsys.readouterr().err


@pytest.mark.slow
def test_if_one_fails_the_others_go_on(tiny, tmp_path):
    jobs = [Job(m, RunConfig(tiny, m, (0, 1)), tmp_path / m) for m in METHODS]
    (tmp_path / "ppo").write_text("no directory")
    board = JobsDisplay([job.name for job in jobs], quiet=True)
    with pytest.raises(PersonaeError, match=r"ppo: .*File exists") as caught:
        learn_jobs(jobs, 1, board)
    assert not isinstance(caught.value, UsageError)
    assert RunDirectory(tmp_path / "ewc-mh").read_run()["status"] == "finished"


def test_jobs_must_be_positive(personae_command, tiny_file, tmp_path):
    words = ["compare", tiny_file, "--methods", "ppo", "--out", tmp_path / "none"]
    code, _, errors = personae_command(*words, "--jobs", 0)
    assert code == 2
    assert "jobs must be 1 or more, not 0" in errors
    assert not (tmp_path / "none").exists()


@pytest.fixture
def endless(tiny, tmp_path):
    """Start two runs of more chunks than anybody waits for; wait until both learn."""
    path = tmp_path / "endless.toml"
    longer = replace(tiny, tasks=tiny.tasks[:1], steps_per_task=10**7)
    path.write_text(longer.to_toml())
    flags = f"--methods ppo --seeds 1 --jobs 2 --out {tmp_path / 'runs'}"
    words = ["compare", str(path), *shlex.split(flags)]
    with subprocess.Popen(
        [sys.executable, "-m", "personae.cli", *words],
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        seen = set()
        while seen != {"ppo:", "expert:"}:
            _, name, first, *_ = process.stderr.readline().split()
            seen |= {name} if first == "task" else set()
        yield process, [tmp_path / "runs" / name for name in ("ppo", "expert")]
        process.kill()


def wait_until_free(out):
    """Wait until no process works on a run, a minute at most."""
    for _ in range(600):
        try:
            with RunDirectory(out).lock():
                return
        except PersonaeError:
            time.sleep(0.1)
    raise AssertionError(f"somebody still works on {out}")


def test_ctrl_c_stops_all_runs_after_their_chunk(ctrl_c, endless):
    process, outs = endless
    process.send_signal(ctrl_c)
    errors = process.communicate()[1]
    assert process.returncode == 130
    assert errors.count("stopping after this chunk is saved") == 1
    assert "go on with: personae compare" in errors
    for out in outs:
        wait_until_free(out)
        assert [*(out / "checkpoints").glob("chunk-*.safetensors")]
        assert json.loads((out / "run.json").read_text())["status"] == "running"


@pytest.mark.slow
def test_workers_end_if_nobody_listens_any_more(endless):
    process, outs = endless
    process.kill()
    for out in outs:
        wait_until_free(out)
        assert [*(out / "checkpoints").glob("chunk-*.safetensors")]


@pytest.fixture
def screen():
    return Console(file=io.StringIO(), force_terminal=True, width=120)


def test_a_terminal_shows_a_line_for_each_run(progress, screen):
    with JobsDisplay(["ct8 mask-ri", "ct8 ppo", "ct8 expert"], console=screen) as board:
        board.begin("ct8 mask-ri")
        board.begin("ct8 ppo")
        board.show("ct8 mask-ri", progress)
        board.note("ct8 ppo", "a [remark]")
    *_, first, second, third, _ = screen.file.getvalue().split("\n")
    for part in ("ct8 mask-ri", "task 3/8 d3-010", "evaluation 2.60/8", "ETA 1:01:15"):
        assert part in first
    assert "starting" in second
    assert "waiting" in third
    assert "ct8 ppo: a [remark]" in screen.file.getvalue()


def test_a_run_that_ended_keeps_its_line(progress, screen):
    with JobsDisplay(["ppo"], console=screen) as board:
        board.show("ppo", progress)
        board.end("ppo", "done")
    last = screen.file.getvalue().split("\n")[-2]
    assert "evaluation 2.60/8" in last
    assert "done" in last
    assert "ETA" not in last


def test_cores_decide_how_many_runs_fit(monkeypatch):
    monkeypatch.setenv("JAX_PLATFORMS", "cpu")
    cores = len(os.sched_getaffinity(0))
    assert room(1) == cores
    assert room(cores) == 1
    assert room(10 * cores) == 1


def test_without_the_service_processes_take_turns_on_a_gpu(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with shared_gpu() as environment:
        assert environment == {"XLA_PYTHON_CLIENT_PREALLOCATE": "false"}


def test_a_service_that_does_not_work_is_not_used(monkeypatch, tmp_path):
    control = tmp_path / CONTROL
    control.write_text("#!/bin/sh\nexit 1\n")
    control.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr("personae.launch.mps._answers", lambda environment: False)
    with shared_gpu() as environment:
        assert environment == {"XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
