"""Speed of the replay store on disk, beside the same in arrays in memory.

    python benchmarks/replay.py [FILE] [--frames N] [--folder DIR]

Unrolls of 20 ProcGen frames of one agent: 64 of a rollout are stored, and 64 are drawn
from the whole store. Both take turns, and the medians count. The growth of the process
is printed too.
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


def random_unrolls() -> ReplayRecord:
    """Return unrolls of random numbers, `[agent, unroll, time, ...]`."""
    rng = np.random.default_rng(0)
    shape = (1, UNROLLS, LENGTH)
    images = rng.integers(0, 255, (*shape, 3, 64, 64), np.uint8)
    numbers = rng.random(shape, np.float32)
    steps = Transition(images, numbers.astype(np.int32), *[numbers] * 3, numbers > 0.9)
    policy = rng.random((*shape, 15), np.float32)
    return ReplayRecord(
        Rollout(steps, images[:, :, 0]), policy, np.zeros(shape[:2], np.int32)
    )


def resident() -> float:
    """Return the resident memory of the process, in gigabytes."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1]) / 1e6
    return float("nan")


class OnDisk:
    """The replay store of Personae."""

    def __init__(self, frames: int, folder: str, unrolls: ReplayRecord):
        replay = ReplaySpec(frames, "newest", share=1.0)

        def unroll_shape(leaf: Any) -> Any:
            return jax.ShapeDtypeStruct((1, *leaf.shape[2:]), leaf.dtype)

        form = jax.tree.map(unroll_shape, unrolls)
        self._memory = ReplayStore(
            Path(folder), replay, form, UNROLLS, {}, chunks_in_flight=3
        )
        self._unrolls = unrolls

    def turn(self) -> None:
        """Store the unrolls of a rollout, and draw as many."""
        self._memory.add(self._unrolls)
        self._memory.sample()


class InMemory:
    """The rival: an array for each part, written and read in place."""

    def __init__(self, frames: int, unrolls: ReplayRecord):
        self._new = [leaf[0] for leaf in jax.tree.leaves(unrolls)]
        number = frames // LENGTH
        self._arrays = [np.zeros((number, *x.shape[1:]), x.dtype) for x in self._new]
        self._rng, self._at, self._number = np.random.default_rng(0), 0, number

    def turn(self) -> None:
        """Store the unrolls of a rollout, and draw as many."""
        oldest = (self._at + np.arange(UNROLLS)) % self._number
        self._at += UNROLLS
        sample = self._rng.integers(0, min(self._at, self._number), UNROLLS)
        for array, new in zip(self._arrays, self._new, strict=True):
            array[oldest] = new
            array[sample]


def frames_per_second(turn: Callable[[], None], frames: int) -> float:
    """Return the frames per second of as many turns as fill the store."""
    num_turns = frames // (LENGTH * UNROLLS)
    start = time.perf_counter()
    for _ in range(num_turns):
        turn()
    return num_turns * LENGTH * UNROLLS / (time.perf_counter() - start)


def main() -> None:
    """Measure, print, and write to the file named, if any."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", nargs="?", type=Path)
    parser.add_argument("--frames", type=int, default=100_000)
    parser.add_argument("--folder", default=None)
    arguments = parser.parse_args()
    unrolls, speeds = random_unrolls(), {"on disk": [], "in memory": []}
    growth: dict[str, float] = {}
    with TemporaryDirectory(dir=arguments.folder) as folder:
        for name, make in {
            "on disk": lambda: OnDisk(arguments.frames, folder, unrolls),
            "in memory": lambda: InMemory(arguments.frames, unrolls),
        }.items():
            before, store = resident(), make()
            for _ in range(TURNS):
                speeds[name].append(frames_per_second(store.turn, arguments.frames))
            growth[name] = resident() - before
    for name, turns in speeds.items():
        print(
            f"{name:10} {median(turns):9,.0f} frames/s, grew by {growth[name]:.2f} GB"
        )
    print(f"ratio {median(speeds['on disk']) / median(speeds['in memory']):.2f}")
    if arguments.file is not None:
        result = {
            "machine": machine(),
            "frames": arguments.frames,
            "frames_per_second": speeds,
            "gigabytes_grown": growth,
        }
        arguments.file.write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
