"""Speed of what agents remember on disk, beside the same in arrays in memory.

    python benchmarks/replay.py [FILE] [--frames N] [--folder DIR]

Unrolls of 20 ProcGen frames of one agent: 64 come with a rollout and are kept, 64 are
drawn from all that are remembered. Both take turns, and the medians count. Also told:
by how much the process grew meanwhile.
"""

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import jax
import numpy as np
from machine import machine

from personae.methods import ReplaySpec
from personae.runs.replay import ReplayRecord, ReplayStore
from personae.types import Rollout, Transition

TURNS, LENGTH, UNROLLS = 3, 20, 64


def some_unrolls() -> ReplayRecord:
    """Make up what a rollout brings, `[agent, unroll, time, ...]`."""
    rng = np.random.default_rng(0)
    each = (1, UNROLLS, LENGTH)
    images = rng.integers(0, 255, (*each, 3, 64, 64), np.uint8)
    numbers = rng.random(each, np.float32)
    steps = Transition(images, numbers.astype(np.int32), *[numbers] * 3, numbers > 0.9)
    policy = rng.random((*each, 15), np.float32)
    return ReplayRecord(
        Rollout(steps, images[:, :, 0]), policy, np.zeros(each[:2], np.int32)
    )


def resident() -> float:
    """Return the gigabytes of memory that the process has."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1]) / 1e6
    return float("nan")


class OnDisk:
    """What Personae does."""

    def __init__(self, frames: int, folder: str, unrolls: ReplayRecord):
        replay = ReplaySpec(frames, "newest", share=1.0)

        def one(leaf: Any) -> Any:
            return jax.ShapeDtypeStruct((1, *leaf.shape[2:]), leaf.dtype)

        form = jax.tree.map(one, unrolls)
        self._memory = ReplayStore(
            Path(folder), replay, form, UNROLLS, {}, chunks_in_flight=3
        )
        self._unrolls = unrolls

    def turn(self) -> None:
        """Keep a rollout and draw another."""
        self._memory.add(self._unrolls)
        self._memory.sample()


class InMemory:
    """The rival: an array for each part, written and read in place."""

    def __init__(self, frames: int, unrolls: ReplayRecord):
        self._new = [leaf[0] for leaf in jax.tree.leaves(unrolls)]
        number = frames // LENGTH
        self._all = [np.zeros((number, *x.shape[1:]), x.dtype) for x in self._new]
        self._rng, self._at, self._number = np.random.default_rng(0), 0, number

    def turn(self) -> None:
        """Keep a rollout and draw another."""
        places = (self._at + np.arange(UNROLLS)) % self._number
        self._at += UNROLLS
        render_frame = self._rng.integers(0, min(self._at, self._number), UNROLLS)
        for whole, new in zip(self._all, self._new, strict=True):
            whole[places] = new
            whole[render_frame]


def frames_per_second(turn: Callable[[], None], frames: int) -> float:
    """Go once through all that can be remembered."""
    turns = frames // (LENGTH * UNROLLS)
    began = time.perf_counter()
    for _ in range(turns):
        turn()
    return turns * LENGTH * UNROLLS / (time.perf_counter() - began)


def main() -> None:
    """Measure, print, and write to the file named, if any."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", nargs="?", type=Path)
    parser.add_argument("--frames", type=int, default=100_000)
    parser.add_argument("--folder", default=None)
    chosen = parser.parse_args()
    unrolls, found = some_unrolls(), {"on disk": [], "in memory": []}
    grown: dict[str, float] = {}
    with TemporaryDirectory(dir=chosen.folder) as folder:
        for name, make in {
            "on disk": lambda: OnDisk(chosen.frames, folder, unrolls),
            "in memory": lambda: InMemory(chosen.frames, unrolls),
        }.items():
            before, store = resident(), make()
            for _ in range(TURNS):
                found[name].append(frames_per_second(store.turn, chosen.frames))
            grown[name] = resident() - before
    for name, speeds in found.items():
        usual = median(speeds)
        print(f"{name:10} {usual:9,.0f} frames/s, grew by {grown[name]:.2f} GB")
    print(f"ratio {median(found['on disk']) / median(found['in memory']):.2f}")
    if chosen.file is not None:
        result = {
            "machine": machine(),
            "frames": chosen.frames,
            "frames_per_second": found,
            "gigabytes_grown": grown,
        }
        chosen.file.write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
