"""Metrics in TensorBoard's files and in W&B's offline runs are those of the run."""

import dataclasses
import json

import numpy as np
import pytest

import personae
from personae.errors import UsageError
from personae.learners import IMPALA
from personae.runs import sinks
from personae.runs.directory import RunDirectory
from personae.runs.progress import make_reporter
from personae.training.config import RunConfig
from personae.training.loop import start


@pytest.fixture
def short(tiny):
    return dataclasses.replace(tiny, tasks=tiny.tasks[:1])


def logged_records(out):
    return list(map(json.loads, (out / "metrics.jsonl").read_text().splitlines()))


def logged_to_tensorboard(folder):
    """Return all numbers in TensorBoard's files, `(key, step, value)`."""
    from tensorboardX.proto import event_pb2

    found = []
    for path in sorted(folder.iterdir()):
        data = path.read_bytes()
        while data:  # length (8), its checksum (4), the event, its checksum (4)
            length = int.from_bytes(data[:8], "little")
            event = event_pb2.Event.FromString(data[12 : 12 + length])
            data = data[16 + length :]
            values = event.summary.value
            found += [(v.tag, event.step, v.simple_value) for v in values]
    return found


def test_tensorboard_has_every_number_once_also_over_a_resume(
    short, tmp_path, stop_after
):
    pytest.importorskip("tensorboardX")
    config, directory = RunConfig(short, "ppo", (0, 1)), RunDirectory(tmp_path)
    with pytest.raises(KeyboardInterrupt):
        start(config, directory, stop_after(1), log_to=["tensorboard"])
    reporter = make_reporter(quiet=True)
    start(config, directory, reporter, resume=True, log_to=["tensorboard"])
    logged = logged_to_tensorboard(tmp_path / "tensorboard" / "seed-1")
    found = {(key, step): value for key, step, value in logged}
    assert len(found) == len(logged)
    for record in logged_records(tmp_path):
        step = record["iteration"] * 64
        if record["kind"] == "train":
            assert found["train/return", step] == pytest.approx(record["return"][1])
            assert found["train/loss", step] == pytest.approx(record["loss"][1])
        elif record["kind"] == "evaluation":
            expected = record["returns"][1]
            assert found["evaluation/d1-0", step] == pytest.approx(expected[0])
            assert found["evaluation_sum", step] == pytest.approx(np.sum(expected))


@pytest.mark.slow
def test_iterations_of_impala_are_as_long_as_they_are(short, tmp_path):
    pytest.importorskip("tensorboardX")
    impala = IMPALA(num_envs=4, rollout_length=16, batch_size=4)
    short = dataclasses.replace(short, learner="impala", impala=impala)
    start(
        RunConfig(short, "impala", (0,)),
        RunDirectory(tmp_path),
        make_reporter(quiet=True),
        log_to=["tensorboard"],
    )
    logged = logged_to_tensorboard(tmp_path / "tensorboard" / "seed-0")
    steps = [step for key, step, _ in logged if key == "train/return"]
    assert steps == [64, 128, 192, 256]


@pytest.mark.slow
def test_wandb_offline_has_the_run(short, tmp_path, monkeypatch):
    pytest.importorskip("wandb")
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_SILENT", "true")
    personae.learn(short, "ppo", seeds=2, out=tmp_path, quiet=True, log_to=["wandb"])
    (folder,) = (tmp_path / "wandb").glob("offline-run-*")
    (file,) = folder.glob("*.wandb")
    content = file.read_bytes()
    for key in (b"train/return", b"evaluation/d1-0", b"evaluation_sum/seed-1"):
        assert key in content


def test_keys_and_steps_by_hand():
    evaluation = {"kind": "evaluation", "iteration": 3, "returns": [[1, 0], [1, 1]]}
    step, numbers = sinks.scalars(evaluation, ["a", "b"], 64)
    assert step == 192
    assert numbers == {
        "evaluation/a": [1, 1],
        "evaluation/b": [0, 1],
        "evaluation_sum": [1, 2],
    }
    train = {"kind": "train", "visit": 0, "task": "a", "iteration": 1, "step": 64}
    assert sinks.scalars(train | {"loss": [0.5]}, ["a"], 64) == (
        64,
        {"train/loss": [0.5]},
    )
    assert sinks.scalars({"kind": "preview", "iteration": 0}, ["a"], 64) == (0, {})


def test_an_unknown_sink_and_a_missing_library_are_named(short, tmp_path, monkeypatch):
    with pytest.raises(UsageError, match="Did you mean 'tensorboard'"):
        personae.learn(short, "ppo", out=tmp_path / "a", log_to=["tensorbord"])
    monkeypatch.setattr(sinks, "find_spec", lambda name: None)
    with pytest.raises(UsageError, match=r"personae\[wandb\]"):
        personae.learn(short, "ppo", out=tmp_path / "a", log_to=["wandb"])
    assert not (tmp_path / "a").exists()
