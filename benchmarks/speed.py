"""Training speed on the CT-graph, beside an eager PyTorch program in the same run.

    python benchmarks/speed.py --out benchmarks/results/cpu-2-cores.json

The library and the rival are timed in turn, so that a machine that slows down slows
both. The rival trains one agent at a time; without torch it is left out.
"""

import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from typing import Any

import tyro
from machine import machine
from parts import INTERVAL, Situation, seconds
from rich.console import Console
from rich.table import Table

from personae.backend import prepare_backend

SITUATIONS = [("mask-ri", 0)] + [
    (method, num_learned)
    for method in ("mask-lc", "mask-blc")
    for num_learned in (1, 3, 7, 11)
]
MOST_TURNS, LEAST_SECONDS = 7, 5.0
"""The library and the rival take this many turns, or turns for this long."""


@dataclass
class Measurement:
    """The speed of one method, with a number of masks to compose and of agents."""

    method: str
    num_learned: int
    """Tasks learned before, whose masks are composed."""
    agents: int
    steps_per_second: float
    collect_us: float
    """One step of all environments, microseconds."""
    update_us: float
    """One update from one mini-batch."""
    evaluate_us: float
    """The evaluation of all tasks that ends a chunk."""
    first_call_s: float
    """Tracing and compiling, or loading, the program of a chunk, and running it."""
    rival_steps_per_second: float | None = None
    rival_update_us: float | None = None

    @property
    def ratio(self) -> float | None:
        """The speed as a multiple of the rival's."""
        rival = self.rival_steps_per_second
        return None if rival is None else self.steps_per_second / rival


class Rival:
    """The PyTorch program at the start of a task, with masks of other tasks."""

    def __init__(self, method: str, num_learned: int):
        import torch_rival

        self._network = torch_rival.Network(method.removeprefix("mask-"))
        for layer in self._network.layers:
            for _ in range(num_learned):
                layer.begin_task()
                layer.end_task()
        self.training = torch_rival.Training(self._network, task=0)
        self.training.iterate()

    def turn(self) -> tuple[float, float]:
        """Return the seconds of one iteration and of the updates in it."""
        start = time.perf_counter()
        rollout = self.training.collect()
        middle = time.perf_counter()
        self.training.update(rollout)
        end = time.perf_counter()
        return end - start, end - middle


def measure(method: str, num_learned: int, agents: int, rival: bool) -> Measurement:
    situation = Situation(method, num_learned, agents)
    ppo, chunk = situation.curriculum.ppo, situation.chunk()
    start = time.perf_counter()
    chunk()
    first_call = time.perf_counter() - start
    opponent = Rival(method, num_learned) if rival else None
    times: list[float] = []
    rival_times: list[tuple[float, float]] = []
    while len(times) < 2 or (len(times) < MOST_TURNS and sum(times) < LEAST_SECONDS):
        times.append(seconds(chunk, least=0.5))
        if opponent is not None:
            rival_times += [opponent.turn(), opponent.turn()]
    result = Measurement(
        method,
        num_learned,
        agents,
        steps_per_second=situation.steps * INTERVAL / median(times),
        collect_us=1e6 * _best(situation.collect()) / ppo.rollout_length,
        update_us=1e6 * _best(situation.update()) / ppo.num_minibatches,
        evaluate_us=1e6 * _best(situation.evaluate()),
        first_call_s=first_call,
    )
    if rival_times:
        iteration, updates = (
            median(column) for column in zip(*rival_times, strict=True)
        )
        result.rival_steps_per_second = situation.steps / agents / iteration
        result.rival_update_us = 1e6 * updates / ppo.num_minibatches
    return result


def _to_row(measurement: Measurement) -> dict[str, Any]:
    row = asdict(measurement)
    # The committed results have this name.
    return {"method": row.pop("method"), "earlier": row.pop("num_learned")} | {
        **row,
        "ratio": measurement.ratio,
    }


def _best(call: Callable[[], Any]) -> float:
    call()
    return min(seconds(call, least=0.3) for _ in range(3))


def table_of(measurements: list[Measurement]) -> Table:
    headings = ("method", "earlier", "agents", "steps/s", "rival", "ratio")
    table = Table(*headings, "update us", "step us", "evaluation us")
    for m in measurements:
        table.add_row(
            m.method,
            str(m.num_learned),
            str(m.agents),
            f"{m.steps_per_second:,.0f}",
            "" if m.ratio is None else f"{m.rival_steps_per_second:,.0f}",
            "" if m.ratio is None else f"{m.ratio:.1f}",
            f"{m.update_us:.0f}",
            f"{m.collect_us:.0f}",
            f"{m.evaluate_us:.0f}",
        )
    return table


def main(
    out: Path | None = None,
    agents: tuple[int, ...] = (1, 5, 25),
    methods: tuple[str, ...] = ("mask-ri", "mask-lc", "mask-blc"),
) -> None:
    """Measure training speed.

    Args:
        out: File to write the results to, as JSON.
        agents: Numbers of agents to train side by side.
        methods: Methods to measure.
    """
    prepare_backend(max(agents))
    measurements = []
    for number in agents:
        for method, num_learned in SITUATIONS:
            if method in methods:
                rival = number == 1 and find_spec("torch") is not None
                measurements.append(measure(method, num_learned, number, rival))
                Console().print(table_of(measurements[-1:]))
    Console().print(table_of(measurements))
    if out is not None:
        out.parent.mkdir(parents=True, exist_ok=True)
        rows = [_to_row(m) for m in measurements]
        out.write_text(json.dumps({**machine(), "measurements": rows}, indent=1) + "\n")


if __name__ == "__main__":
    tyro.cli(main)
