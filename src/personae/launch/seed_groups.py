"""A run whose seeds are shared out over nodes, and put together when all are done.

Agents know nothing of each other, so a run of some seeds is that part of a run of all.
Groups have their directories in `.groups` beside the run's own, which appears when it
is whole.
"""

import itertools
import math
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from personae.errors import PersonaeError, UsageError
from personae.files import read_tensors, write_tensors
from personae.launch.jobs import Job
from personae.runs.directory import RunDirectory

FOLDER = ".groups"
FEWEST = 2
"""Seeds of a group: programs of a single agent round a little differently."""
OF_AGENTS = ("seeds", "fingerprints")
"""What is a list with an entry for each agent, beside arrays."""
SHARED = ("actions",)
"""Lists of metrics.jsonl that are the same for all agents."""


def split(job: Job, size: int) -> list[Job]:
    """Share the seeds of a run out over groups of about that size, if there are more.

    A run that was begun goes on as it is, in the groups that it has. A task that ends
    as soon as all agents have learned it keeps them together.
    """
    seeds, home = job.config.seeds, _home(job)
    number = min(math.ceil(len(seeds) / size), len(seeds) // FEWEST)
    together = any(task.stop_at is not None for task in job.config.curriculum.tasks)
    begun = job.out.exists() and any(job.out.iterdir())
    if not home.exists():
        if number < 2 or together or begun:
            return [job]
        _plan(home, np.array_split(np.asarray(seeds), number))
    groups = [_group(job, folder) for folder in home.glob("[!.]*")]
    groups.sort(key=lambda group: seeds.index(group.config.seeds[0]))
    if tuple(itertools.chain(*(group.config.seeds for group in groups))) != seeds:
        raise UsageError(
            f"{home} holds groups of a run with other seeds; delete it, or choose "
            "another --out"
        )
    return groups


def _home(job: Job) -> Path:
    return job.out.parent / FOLDER / job.out.name


def _plan(home: Path, parts: Sequence[np.ndarray]) -> None:
    """Make the folders of all groups at once: they say how seeds are shared out."""
    new = home.with_name(f"{home.name}.new")
    shutil.rmtree(new, ignore_errors=True)
    for part in parts:
        (new / f"{part[0]}-{part[-1]}").mkdir(parents=True)
    new.rename(home)


def _group(job: Job, folder: Path) -> Job:
    """Return the run of the seeds that a folder is named after."""
    every = job.config.seeds
    first, last = (int(seed) for seed in folder.name.split("-"))
    if first not in every or last not in every:
        return replace(job, out=folder)  # which fits to no other
    config = replace(
        job.config, seeds=every[every.index(first) : every.index(last) + 1]
    )
    return Job(f"{job.name} {folder.name}", config, folder)


def join(job: Job, groups: Sequence[Job]) -> None:
    """Put the run of all seeds together, once those of its groups are finished."""
    parts = [RunDirectory(group.out) for group in groups]
    config = job.config.to_plain()
    with arriving(job.out) as folder:
        whole = RunDirectory(folder)
        length = _join_metrics(whole, parts)
        for path in _files(parts[0]):
            files = [part.root / path for part in parts]
            _join_tensors(whole.root / path, files, config, length)
        runs = [part.read_run() for part in parts]
        seconds = {
            name: max(run["seconds"][name] for run in runs)
            for name in runs[0]["seconds"]
        }
        joined = {**runs[0], **_lists(runs), "config": config, "seconds": seconds}
        whole.write_run(joined)
    drop_groups(job)


def drop_groups(job: Job) -> None:
    """Delete the groups of a run that is whole."""
    home = _home(job)
    shutil.rmtree(home, ignore_errors=True)
    if home.parent.exists() and not any(home.parent.iterdir()):
        home.parent.rmdir()


@contextmanager
def arriving(out: Path) -> Iterator[Path]:
    """Give a folder to fill, which takes the place of an empty one when it is whole."""
    folder = out.with_name(f".{out.name}.arriving")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    yield folder
    folder.rename(out)


def _files(part: RunDirectory) -> list[Path]:
    """Return the files of a finished run that tell of agents."""
    found = [part.backbone_file, *part.masks.glob("*.safetensors")]
    for kind in ("chunk", "state"):
        found += part.checkpoints.glob(f"{kind}-*.safetensors")
    return [path.relative_to(part.root) for path in sorted(found) if path.exists()]


def _lists(told: Sequence[Mapping[str, Any]]) -> dict[str, list[Any]]:
    """Put lists together that have an entry for each agent."""
    return {
        name: [*itertools.chain.from_iterable(each[name] for each in told)]
        for name in OF_AGENTS
        if name in told[0]
    }


def _join_tensors(
    path: Path, parts: Sequence[Path], config: Mapping[str, Any], length: int
) -> None:
    arrays, told = zip(*map(read_tensors, parts), strict=True)
    joined = {
        name: np.concatenate([each[name] for each in arrays]) for name in arrays[0]
    }
    metadata = {**told[0], **_lists(told)}
    if "config" in metadata:
        metadata["config"] = config
    if "position" in metadata:
        metadata["position"] = {**metadata["position"], "metrics_length": length}
    write_tensors(path, joined, metadata)


def _join_metrics(whole: RunDirectory, parts: Sequence[RunDirectory]) -> int:
    records = [list(part.read_metrics()) for part in parts]
    lengths = {len(each) for each in records}
    if len(lengths) > 1:
        raise PersonaeError(
            f"the groups in {parts[0].root.parent} cannot be put together: they have "
            f"{sorted(lengths)} records"
        )
    return whole.append_metrics(_joined(records))


def _joined(records: Sequence[Sequence[Mapping[str, Any]]]) -> Iterator[dict[str, Any]]:
    for same in zip(*records, strict=True):
        yield {
            name: [*itertools.chain.from_iterable(each[name] for each in same)]
            if isinstance(value, list) and name not in SHARED
            else value
            for name, value in same[0].items()
        }
