"""Tests of damaged or swapped run directories, full disks and losses that are not
finite: the message is clear, the exit code is right, and saved files stay whole."""

import dataclasses
import json
import pickle
import shutil
from contextlib import nullcontext

import pytest

from personae.curricula.ct_graph import ct_task
from personae.files import read_tensors, write_tensors
from personae.runs.directory import RunDirectory
from personae.training.config import RunConfig
from personae.training.loop import start

pytestmark = pytest.mark.slow

SEEDS = (0, 1)


@pytest.fixture(scope="module")
def stopped_runs(tiny, tmp_path_factory):
    """Return two runs stopped in their second task, with different pairs of seeds."""
    root = tmp_path_factory.mktemp("stopped")

    def stop(progress):
        if progress.visit == 2:
            raise KeyboardInterrupt

    for name, seeds in (("run", SEEDS), ("other-run", (7, 8))):
        reporter = nullcontext(stop)
        with pytest.raises(KeyboardInterrupt):
            start(
                RunConfig(tiny, "mask-blc", seeds), RunDirectory(root / name), reporter
            )
    return root


@pytest.fixture
def out(stopped_runs, tmp_path):
    """Return a copy of the stopped run with one record after its checkpoint."""
    copy = shutil.copytree(stopped_runs / "run", tmp_path / "run")
    RunDirectory(copy).append_metrics([{"kind": "train", "visit": 1}])
    return copy


@pytest.fixture
def resume(personae_command, tiny_file):
    def command(out, *flags):
        words = ("--method", "mask-blc", "--seeds", 2, "--out", out, "--resume")
        return personae_command("learn", tiny_file, *words, "--quiet", *flags)

    return command


def contents(out):
    return {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}


def cut_off_both_checkpoints(out, stopped_runs):
    for path in (out / "checkpoints").glob("chunk-*"):
        path.write_bytes(path.read_bytes()[:-100])


def replace_checkpoints_by_pickles(out, stopped_runs):
    class Trap:
        def __reduce__(self):
            return (pytest.fail, ("the contents of a file were executed",))

    for path in (out / "checkpoints").iterdir():
        path.write_bytes(pickle.dumps(Trap()))


def take_another_runs_checkpoint(out, stopped_runs):
    for path in (stopped_runs / "other-run" / "checkpoints").iterdir():
        shutil.copy(path, out / "checkpoints")


def take_another_runs_bank(out, stopped_runs):
    """Write the other run's masks with the labels of this one, as if forged."""
    bank = out / "checkpoints" / "state-000002.safetensors"
    other_bank = stopped_runs / "other-run" / "checkpoints" / bank.name
    write_tensors(bank, read_tensors(other_bank)[0], read_tensors(bank)[1])


def lose_the_bank(out, stopped_runs):
    (out / "checkpoints" / "state-000002.safetensors").unlink()


def lose_all_checkpoints(out, stopped_runs):
    shutil.rmtree(out / "checkpoints")


def cut_off_the_metrics(out, stopped_runs):
    metrics = out / "metrics.jsonl"
    metrics.write_bytes(metrics.read_bytes()[:-400])


def break_the_description(out, stopped_runs):
    (out / "run.json").write_text("{")


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (cut_off_both_checkpoints, "chunk-000003.safetensors is not a whole file"),
        (
            replace_checkpoints_by_pickles,
            "chunk-000003.safetensors is not a whole file",
        ),
        (take_another_runs_checkpoint, "belongs to a run with another configuration"),
        (take_another_runs_bank, "were learned on another backbone: agent 0"),
        (lose_the_bank, "state-000002.safetensors"),
        (lose_all_checkpoints, "holds results but no checkpoint to resume from"),
        (cut_off_the_metrics, "metrics.jsonl is shorter"),
        (break_the_description, "holds no readable run"),
    ],
)
def test_a_damaged_run_is_refused_and_not_changed(
    out, stopped_runs, resume, damage, message
):
    damage(out, stopped_runs)
    before = contents(out)
    code, _, errors = resume(out)
    assert code == 1
    assert message in errors
    assert contents(out) == before


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--ppo.epochs", "3"], "config.curriculum.ppo.epochs was 1"),
        (["--seeds", "3"], "config.seeds was [0, 1]"),
        (["--overwrite"], "choose one of --resume and --overwrite"),
    ],
)
def test_a_run_is_not_resumed_as_another(out, resume, flags, message):
    before = contents(out)
    code, _, errors = resume(out, *flags)
    assert code == 2
    assert message in errors
    assert contents(out) == before


def test_overwrite_with_a_typing_mistake_loses_nothing(
    out, personae_command, tiny_file
):
    before = contents(out)
    mistake = ("--masks.layer-rules", "actr", "continuous")
    code, _, errors = personae_command(
        "learn", tiny_file, "--out", out, "--overwrite", *mistake
    )
    assert code == 2
    assert "unknown layer in layer_rules 'actr'" in errors
    assert contents(out) == before


@pytest.mark.parametrize(
    "file", ["checkpoints/chunk-000004", "masks/001-d1-1", "checkpoints/state-000004"]
)
def test_a_full_disk_costs_one_chunk(out, resume, lives, assert_same_run, file):
    """Write to /dev/full, where the kernel itself reports a full disk."""
    path = out / f"{file}.safetensors"
    full = path.with_name(f".{path.name}.tmp")
    full.symlink_to("/dev/full")
    before = contents(out / "checkpoints") | contents(out / "masks")
    code, _, errors = resume(out)
    assert code == 1
    assert f"cannot write {path}: No space left on device" in errors
    assert "--resume continues from there" in errors
    after = contents(out / "checkpoints") | contents(out / "masks")
    # The oldest checkpoint makes room for the new one.
    others = {path for path in before if path.name != "chunk-000002.safetensors"}
    assert all(after.get(path) == before[path] for path in others)
    assert not full.is_symlink()
    code, _, errors = resume(out)
    assert (code, errors) == (0, "")
    assert_same_run(out, lives["mask-blc"].directory)


def test_a_loss_that_is_not_finite_names_the_iteration_and_spares_old_tasks(
    tiny, tmp_path, personae_command
):
    """Learn a task whose rewards are too large to be squared in single precision."""
    rich = ct_task(depth=1, leaf=1)
    rich = dataclasses.replace(rich, options=rich.options | {"high_reward": 1e30})
    curriculum = dataclasses.replace(tiny, tasks=(tiny.tasks[0], rich))
    file, out = tmp_path / "rich.toml", tmp_path / "run"
    file.write_text(curriculum.to_toml())
    code, _, errors = personae_command("learn", file, "--out", out, "--quiet")
    assert code == 1
    assert "of seed 0 is inf at iteration" in errors
    assert "the last checkpoint was taken before it" in errors
    files = RunDirectory(out)
    assert files.mask_file(0, "d1-0").exists()
    assert {record["task"] for record in files.read_metrics()} == {"d1-0"}
    assert json.loads(files.run_file.read_text())["status"] == "running"
