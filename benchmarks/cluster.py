"""What runs lose on a Ray cluster: the same comparison here, and on Ray.

    pip install 'personae[ray]'
    python benchmarks/cluster.py [FILE] [--steps N] [--seeds N] [--on ADDRESS]

Both are the command as users give it, its start and that of the cluster included. They
take turns after one that fills the cache of compiled programs, and the medians count.
"""

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from machine import machine

TURNS = 3
METHODS = ("mask-ri", "mask-lc")


def seconds(out: Path, steps: int, seeds: int, *more: str) -> float:
    """Return how long a comparison on CT8 takes."""
    words = ["ct8", "--methods", ",".join(METHODS), "--seeds", str(seeds), "--quiet"]
    given = [*words, "--steps-per-task", str(steps), "--out", str(out), *more]
    began = time.perf_counter()
    program = [sys.executable, "-m", "personae.cli", "compare"]
    subprocess.run([*program, *given], check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - began


def main() -> None:
    """Measure, print, and write to the file if one is given."""
    parser = argparse.ArgumentParser()
    parser.add_argument("file", nargs="?", type=Path)
    parser.add_argument("--steps", type=int, default=51_200)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--on", default="ray")
    given = parser.parse_args()
    ways = {"here": ("--jobs", "1"), "on Ray": ("--on", given.on)}
    took: dict[str, list[float]] = {name: [] for name in ways}
    with TemporaryDirectory() as folder:
        seconds(Path(folder) / "first", given.steps, given.seeds, *ways["here"])
        for turn in range(TURNS):
            for name, words in ways.items():
                out = Path(folder) / f"{name}-{turn}"
                took[name].append(seconds(out, given.steps, given.seeds, *words))
    medians = {name: median(times) for name, times in took.items()}
    for name, value in medians.items():
        print(f"{name:8} {value:7.1f} s   {[round(t, 1) for t in took[name]]}")
    lost = medians["on Ray"] / medians["here"] - 1
    print(f"lost on Ray: {lost:.1%}")
    if given.file is not None:
        told = {**vars(given), "file": None, "seconds": took, "lost": lost}
        given.file.write_text(json.dumps({**machine(), **told}, indent=2) + "\n")


if __name__ == "__main__":
    main()
