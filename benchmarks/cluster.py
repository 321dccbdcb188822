"""What is lost on a Ray cluster: the same commands here, and on Ray.

    pip install 'personae[ray]'
    python benchmarks/cluster.py [FILE] [--steps N] [--seeds N] [--on ADDRESS]

Runs: a comparison on CT8. Actors: IMPALA with four of them, in threads here and as
processes there. Both are the command as users give it, its start included, and that of
the cluster unless there is one at an address. They take turns after one that fills the
cache of compiled programs, and the medians count.
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
METHODS = "mask-ri,mask-lc"
CARTS = Path(__file__).parent.parent / "examples/carts-impala.toml"


def seconds(*words: str) -> float:
    """Return how long a command takes."""
    began = time.perf_counter()
    program = [sys.executable, "-m", "personae.cli"]
    subprocess.run([*program, *words, "--quiet"], check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - began


def in_turns(command: list[str], ways: dict[str, list[str]]) -> dict[str, list[float]]:
    """Return how long a command takes in each way, several times."""
    took: dict[str, list[float]] = {name: [] for name in ways}
    with TemporaryDirectory() as folder:
        for turn in range(-1, TURNS):
            for name, words in ways.items():
                out = Path(folder) / f"{name}-{turn}"
                time_taken = seconds(*command, *words, "--out", str(out))
                if turn >= 0:
                    took[name].append(time_taken)
    return took


def main() -> None:
    """Measure, print, and write to the file if one is given."""
    parser = argparse.ArgumentParser()
    parser.add_argument("file", nargs="?", type=Path)
    parser.add_argument("--steps", type=int, default=51_200)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--on", default="ray")
    given = parser.parse_args()
    runs = ["compare", "ct8", "--methods", METHODS, "--seeds", str(given.seeds)]
    actors = ["learn", str(CARTS), "--method", "mask-ri", "--actors", "4"]
    there = ["--on", given.on]
    found = {
        "runs": in_turns(
            [*runs, "--steps-per-task", str(given.steps)],
            {"here": ["--jobs", "1"], "on Ray": there},
        ),
        "actors": in_turns(
            actors, {"here": ["--hosting.stepping", "threads"], "on Ray": there}
        ),
    }
    for what, took in found.items():
        here, there_too = (median(times) for times in took.values())
        lost = f"{there_too / here - 1:.1%} lost"
        print(f"{what:7} here {here:6.1f} s, on Ray {there_too:6.1f} s: {lost}")
    if given.file is not None:
        told = {**vars(given), "file": None, "seconds": found}
        told = {"machine": machine(), **told}
        given.file.write_text(json.dumps(told, indent=2) + "\n")


if __name__ == "__main__":
    main()
