"""Time lost on a Ray cluster: the same commands on this machine, and on Ray.

    pip install 'personae[ray]'
    python benchmarks/cluster.py [FILE] [--steps N] [--seeds N] [--on ADDRESS]

Runs: a comparison on CT8. Actors: IMPALA with four of them, in threads on this machine
and as processes on Ray. Times are those of whole commands, the start of the program
included, and the start of the cluster unless there is one at an address. The commands
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
METHODS = "mask-ri,mask-lc"
CARTS = Path(__file__).parent.parent / "examples/carts-impala.toml"


def seconds(*words: str) -> float:
    """Return the seconds that a command takes."""
    start = time.perf_counter()
    program = [sys.executable, "-m", "personae.cli"]
    subprocess.run([*program, *words, "--quiet"], check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - start


def in_turns(
    command: list[str], variants: dict[str, list[str]]
) -> dict[str, list[float]]:
    """Return the seconds of several turns of a command, by its variant."""
    times: dict[str, list[float]] = {name: [] for name in variants}
    with TemporaryDirectory() as folder:
        for turn in range(-1, TURNS):
            for name, words in variants.items():
                out = Path(folder) / f"{name}-{turn}"
                elapsed = seconds(*command, *words, "--out", str(out))
                if turn >= 0:  # the one before fills the cache
                    times[name].append(elapsed)
    return times


def main() -> None:
    """Measure, print, and write to the file if one is given."""
    parser = argparse.ArgumentParser()
    parser.add_argument("file", nargs="?", type=Path)
    parser.add_argument("--steps", type=int, default=51_200)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--on", default="ray")
    arguments = parser.parse_args()
    runs = ["compare", "ct8", "--methods", METHODS, "--seeds", str(arguments.seeds)]
    actors = ["learn", str(CARTS), "--method", "mask-ri", "--actors", "4"]
    on_ray = ["--on", arguments.on]
    times = {
        "runs": in_turns(
            [*runs, "--steps-per-task", str(arguments.steps)],
            {"here": ["--jobs", "1"], "on Ray": on_ray},
        ),
        "actors": in_turns(
            actors, {"here": ["--hosting.stepping", "threads"], "on Ray": on_ray}
        ),
    }
    for name, by_variant in times.items():
        local, ray = (median(turns) for turns in by_variant.values())
        loss = f"{ray / local - 1:.1%} lost"
        print(f"{name:7} here {local:6.1f} s, on Ray {ray:6.1f} s: {loss}")
    if arguments.file is not None:
        settings = {**vars(arguments), "file": None}
        result = {"machine": machine(), **settings, "seconds": times}
        arguments.file.write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
