"""A run whose seeds are split over nodes, and joined when all groups are finished.

Agents know nothing of each other, so a run of some seeds equals that part of a run of
all. Groups have their directories in `.groups` beside the run's own, which appears when
it is whole.
"""

import itertools
import math
import shutil
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import numpy as np

from personae.errors import PersonaeError, UsageError
from personae.files import read_tensors, write_tensors
from personae.launch.jobs import Job
from personae.runs.directory import RunDirectory
from personae.serialise import PlainData

T = TypeVar("T")

FOLDER = ".groups"
MIN_SEEDS = 2
"""Smallest group: programs of a single agent round a little differently."""
OF_AGENTS = ("seeds", "fingerprints")
"""Fields of metadata and run.json that are lists with an entry for each agent."""
SHARED = ("actions",)
"""Fields of metrics.jsonl that are lists, but not with an entry for each agent."""


def split(job: Job, size: int) -> list[Job]:
    """Split the seeds of a run into groups of about that size, if there are more.

    A run that was begun keeps the groups that it has. A task that ends as soon as all
    agents have learned it keeps them together.
    """
    seeds, home = job.config.seeds, _groups_folder(job)
    number = min(math.ceil(len(seeds) / size), len(seeds) // MIN_SEEDS)
    together = any(task.stop_at is not None for task in job.config.curriculum.tasks)
    begun = job.out.exists() and any(job.out.iterdir())
    # Groups on disk go before the size: a cluster may have grown since.
    if not home.exists():
        if number < 2 or together or begun:
            return [job]
        _make_group_folders(home, np.array_split(np.asarray(seeds), number))
    groups = [_group(job, folder) for folder in home.glob("[!.]*")]
    groups.sort(key=lambda group: seeds.index(group.config.seeds[0]))
    if tuple(itertools.chain(*(group.config.seeds for group in groups))) != seeds:
        raise UsageError(
            f"{home} holds groups of a run with other seeds; delete it, or choose "
            "another --out"
        )
    return groups


def _groups_folder(job: Job) -> Path:
    return job.out.parent / FOLDER / job.out.name


def _make_group_folders(home: Path, parts: Sequence[np.ndarray]) -> None:
    """Make the folders of all groups, whose names are their first and last seeds."""
    # All at once, by a rename: half of them would be taken for another split.
    new = home.with_name(f"{home.name}.new")
    shutil.rmtree(new, ignore_errors=True)
    for part in parts:
        (new / f"{part[0]}-{part[-1]}").mkdir(parents=True)
    new.rename(home)


def _group(job: Job, folder: Path) -> Job:
    """Return the run of the seeds that a folder is named after."""
    seeds = job.config.seeds
    first, last = (int(seed) for seed in folder.name.split("-"))
    if first not in seeds or last not in seeds:
        # Groups of another run: with all seeds this one does not fit to the others.
        return replace(job, out=folder)
    own_seeds = seeds[seeds.index(first) : seeds.index(last) + 1]
    config = replace(job.config, seeds=own_seeds)
    return Job(f"{job.name} {folder.name}", config, folder)


def join(job: Job, groups: Sequence[Job]) -> None:
    """Join finished groups into the run of all seeds."""
    parts = [RunDirectory(group.out) for group in groups]
    config = job.config.to_plain()
    with new_folder(job.out) as folder:
        whole = RunDirectory(folder)
        length = _join_metrics(whole, parts)
        for path in _files(parts[0]):
            files = [part.root / path for part in parts]
            _join_tensors(whole.root / path, files, config, length)
        runs = [part.read_run() for part in parts]
        # Groups ran side by side.
        seconds = {
            name: max(run["seconds"][name] for run in runs)
            for name in runs[0]["seconds"]
        }
        lists = _join_lists(runs)
        whole.write_run({**runs[0], **lists, "config": config, "seconds": seconds})
    drop_groups(job)


def drop_groups(job: Job) -> None:
    """Delete the groups of a finished run."""
    home = _groups_folder(job)
    shutil.rmtree(home, ignore_errors=True)
    if home.parent.exists() and not any(home.parent.iterdir()):
        home.parent.rmdir()


@contextmanager
def new_folder(out: Path) -> Iterator[Path]:
    """Yield a temporary folder, which replaces an empty `out` once it is filled."""
    folder = out.with_name(f".{out.name}.arriving")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    yield folder
    folder.rename(out)


def _files(part: RunDirectory) -> list[Path]:
    """Return the files of a finished run that hold arrays of agents."""
    paths = [part.backbone_file, *part.masks.glob("*.safetensors")]
    for kind in ("chunk", "state"):
        paths += part.checkpoints.glob(f"{kind}-*.safetensors")
    return [path.relative_to(part.root) for path in sorted(paths) if path.exists()]


def _join_lists(parts: Sequence[PlainData]) -> PlainData:
    """Join the lists that have an entry for each agent."""
    names = [name for name in OF_AGENTS if name in parts[0]]
    return {name: _chain(part[name] for part in parts) for name in names}


def _chain(lists: Iterable[list[T]]) -> list[T]:
    return [*itertools.chain.from_iterable(lists)]


def _join_tensors(
    path: Path, parts: Sequence[Path], config: PlainData, length: int
) -> None:
    # Every array of every file has the agents as its first axis.
    arrays, metadata_of_parts = zip(*map(read_tensors, parts), strict=True)
    joined = {
        name: np.concatenate([part[name] for part in arrays]) for name in arrays[0]
    }
    metadata = {**metadata_of_parts[0], **_join_lists(metadata_of_parts)}
    if "config" in metadata:
        metadata["config"] = config
    if "position" in metadata:
        metadata["position"] = {**metadata["position"], "metrics_length": length}
    write_tensors(path, joined, metadata)


def _join_metrics(whole: RunDirectory, parts: Sequence[RunDirectory]) -> int:
    records = [list(part.read_metrics()) for part in parts]
    lengths = {len(part) for part in records}
    # Tasks that end early do so for all agents, which groups cannot know.
    if len(lengths) > 1:
        raise PersonaeError(
            f"the groups in {parts[0].root.parent} cannot be joined: they have "
            f"{sorted(lengths)} records"
        )
    return whole.append_metrics(map(_join_records, zip(*records, strict=True)))


def _join_records(parts: Sequence[PlainData]) -> PlainData:
    return {
        name: _chain(part[name] for part in parts)
        if isinstance(value, list) and name not in SHARED
        else value
        for name, value in parts[0].items()
    }
