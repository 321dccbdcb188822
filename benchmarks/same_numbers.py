"""Record short runs with one version of the package, and compare them with another's.

python benchmarks/same_numbers.py record FOLDER --source ../old/src --names 0.1
python benchmarks/same_numbers.py record FOLDER2
python benchmarks/same_numbers.py compare FOLDER FOLDER2

Both versions must run on the same machine. The comparison reads every evaluation and
every mask: all numbers must be equal to the last bit.
"""

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file

ROOT = Path(__file__).parent.parent
CARTS = """
id = "check/{name}-v0"
steps_per_task = 4096
learner = "{learner}"
[inputs]
previous_step = {previous_step}
label_dim = 2
[network]
hidden = [32, 32]
[normalise]
observations = true
rewards = true
clip_rewards = 2.0
[ppo]
num_envs = 4
rollout_length = 128
num_minibatches = 8
epochs = 2
optimiser = "adam"
bootstrap_truncated = true
[impala]
num_envs = 4
rollout_length = 32
batch_size = 4
[evaluation]
interval = 4
episodes = 3
[hosting]
stepping = "{stepping}"
[[tasks]]
name = "cart"
env = "CartPole-v1"
target = 500.0
[[tasks]]
name = "short"
env = "CartPole-v1"
target = 500.0
attributes = {{force_mag = -10}}
wrappers = [{{name = "TimeLimit", max_episode_steps = 30}}]
"""
CURRICULA = {
    "sync": CARTS.format(
        name="Sync", previous_step="true", stepping="sync", learner="ppo"
    ),
    "async": CARTS.format(
        name="Async", previous_step="false", stepping="async", learner="ppo"
    ),
    "actors": CARTS.format(
        name="Actors", previous_step="false", stepping="actors", learner="ppo"
    ),
    "impala-sync": CARTS.format(
        name="ImpalaSync",
        previous_step="true",
        stepping="sync",
        learner="impala",
    ),
}
"""Curricula on the host that turn on what the pipeline can do there."""
CT8 = ("mask-ri", "mask-lc", "mask-blc", "ppo", "ewc-mh")
RUNS: dict[str, tuple[str, str, int]] = {
    **{f"ct8-{method}": ("ct8", method, 5_120) for method in CT8},
    "ct8-packnet": ("ct8", "packnet", 10_240),
    "ct8-md-mask-lc": ("ct8-md", "mask-lc", 5_120),
    "mg10-mask-blc": ("mg10", "mask-blc", 10_240),
    **{
        f"classic-{method}": ("examples/classic.toml", method, 20_480)
        for method in ("mask-ri", "ppo")
    },
    "pendulum-mask-lc": ("examples/pendulum.toml", "mask-lc", 40_960),
    "carts-impala": ("examples/carts-impala.toml", "mask-ri", 5_120),
    **{
        f"forgetting-{method}": ("examples/forgetting.toml", method, 5_120)
        for method in ("impala", "clear", "online-ewc", "progress-compress")
    },
    "sync-mask-blc": ("sync", "mask-blc", 4_096),
    "async-mask-ri": ("async", "mask-ri", 4_096),
    "actors-ewc-sh": ("actors", "ewc-sh", 4_096),
    "sync-l2": ("sync", "l2", 4_096),
    "sync-clear": ("impala-sync", "clear", 4_096),
}
"""Curriculum, method and steps of each task, by the name of the run."""
OLD_KEYS = {"previous_step = ": "recall = "}
"""Keys of curricula in version 0.1, by their name in this one."""
NEW_FIELDS = {"rehearsal_loss": "replay_loss"}
"""Fields of metrics.jsonl in this version, by their name in version 0.1."""


def curriculum_file(name: str, folder: Path, version: str) -> str:
    """Return what the command line calls a curriculum."""
    if name not in CURRICULA:
        return str(ROOT / name) if name.endswith(".toml") else name
    text = CURRICULA[name]
    if version == "0.1":
        for new, old in OLD_KEYS.items():
            text = text.replace(new, old)
    path = folder / f"{name}.toml"
    path.write_text(text)
    return str(path)


def record(folder: Path, source: Path, version: str, only: str) -> None:
    """Make every run with the package that lies at `source`."""
    folder.mkdir(parents=True, exist_ok=True)
    for run, (curriculum, method, steps) in RUNS.items():
        if only not in run or (folder / run / "lifelong.png").exists():
            continue
        command = [
            *(sys.executable, "-m", "personae.cli", "learn"),
            curriculum_file(curriculum, folder, version),
            *("--method", method, "--seeds", "2", "--steps-per-task", str(steps)),
            *("--out", str(folder / run), "--overwrite", "--quiet"),
        ]
        environment = os.environ | {"PYTHONPATH": str(source.resolve())}
        subprocess.run(command, check=True, env=environment)


def differences(old: Path, new: Path) -> Iterator[str]:
    """Yield what differs between two run directories."""
    lines = [(run / "metrics.jsonl").read_text().splitlines() for run in (old, new)]
    if len(lines[0]) != len(lines[1]):
        yield f"{len(lines[0])} and {len(lines[1])} evaluations"
    for number, (one, two) in enumerate(zip(*lines, strict=False)):
        if with_new_fields(json.loads(one)) != json.loads(two):
            yield f"line {number + 1} of metrics.jsonl"
    for path in sorted(old.rglob("*.safetensors")):
        if "checkpoints" not in path.parts:
            yield from different_tensors(path, new / path.relative_to(old))


def with_new_fields(record: Mapping[str, object]) -> dict[str, object]:
    """Return a line of metrics.jsonl with the field names of this version."""
    return {NEW_FIELDS.get(name, name): value for name, value in record.items()}


def different_tensors(old: Path, new: Path) -> Iterator[str]:
    """Yield the tensors that differ between two files."""
    one, two = load_file(old), load_file(new)
    if one.keys() != two.keys():
        yield f"the names in {old.name}"
    for name in one.keys() & two.keys():
        if not np.array_equal(one[name], two[name], equal_nan=True):
            yield f"{name} of {old.name}"


def compare(old: Path, new: Path) -> int:
    """Print what differs, run by run; return how many runs differ."""
    wrong = 0
    for run in RUNS:
        if not (new / run).exists():
            continue
        found = list(differences(old / run, new / run))
        wrong += bool(found)
        print(f"{run}: {', '.join(found[:5]) if found else 'equal'}", flush=True)
    return wrong


def main() -> None:
    """Record or compare."""
    parser = argparse.ArgumentParser(description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    recording = commands.add_parser("record")
    recording.add_argument("folder", type=Path)
    recording.add_argument("--source", type=Path, default=ROOT / "src")
    recording.add_argument("--names", default="now", choices=["now", "0.1"])
    recording.add_argument("--only", default="", help="runs whose name contains this")
    comparing = commands.add_parser("compare")
    comparing.add_argument("old", type=Path)
    comparing.add_argument("new", type=Path)
    given = parser.parse_args()
    if given.command == "record":
        record(given.folder, given.source, given.names, given.only)
    else:
        sys.exit(compare(given.old, given.new))


if __name__ == "__main__":
    main()
