"""An agent as a file: how large it is, how soon it is there, how fast it acts.

python benchmarks/shipping.py runs/demo

exports the first agent of a run, compares it with the trained one on 10,000
observations a task, and measures on one core, in turns: loading from a cold start, and
one observation through our runtime, through plain NumPy with the same weights as
floats, through onnxruntime, and through a product that uses the three values of the
weights (sums of chosen inputs, no multiplication).
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import jax
import numpy as np
from machine import machine

from personae.policy import Agent, load
from personae.policy.onnx import to_onnx
from personae.training import RestoredRun, export_agent

COLD = """
import sys, time
start = time.perf_counter()
import numpy as np
there = time.perf_counter()
from personae.policy import load
imported = time.perf_counter()
agent = load(sys.argv[1])
loaded = time.perf_counter()
task = agent.manifest.tasks[0]
agent.act(np.zeros(task.observation.shape), task=task.name)
acted = time.perf_counter()
print(there - start, imported - there, loaded - imported, acted - loaded)
"""
STARTS, TURNS, ACTS = 11, 5, 4000


def cold_starts(path: Path) -> dict[str, float]:
    """Return milliseconds of each part of a cold start, the median of some."""
    command = [sys.executable, "-c", COLD, str(path)]
    times = [
        [1000 * float(part) for part in subprocess.check_output(command).split()]
        for _ in range(STARTS)
    ]
    names = ("import numpy", "import personae.policy", "load", "first action")
    return dict(zip(names, np.median(times, 0).round(2).tolist(), strict=True))


def microseconds(act, observation) -> float:
    """Return how long one action takes."""
    start = time.perf_counter()
    for _ in range(ACTS):
        act(observation)
    return 1e6 * (time.perf_counter() - start) / ACTS


def in_numpy(agent: Agent, task: str):
    """Return the same network as plain float products."""
    policy = agent.on(task).policy
    scale = np.float32(policy.scale)
    layers = [(layer.weight.T.copy(), layer.bias) for layer in policy.body]
    head = policy.head.logits.weight.T.copy()

    def act(observation):
        x = observation.ravel() * scale
        for weight, bias in layers:
            x = x @ weight
            if bias is not None:
                x += bias
            np.maximum(x, 0, out=x)
        return (x @ head).argmax()

    return act


def in_ternary(agent: Agent, task: str):
    """Return the same with sums of inputs whose weight is on, by sign."""
    policy = agent.on(task).policy
    scale = np.float32(policy.scale)

    def summed(weight):
        size = np.abs(weight).max()
        parts = []
        for sign in (1, -1):
            rows, columns = np.nonzero(weight == sign * size)
            starts = np.searchsorted(rows, np.arange(len(weight)))
            parts.append((columns, np.minimum(starts, max(len(columns) - 1, 0))))
        return size, parts

    layers = [(summed(layer.weight), layer.bias) for layer in policy.body]
    head = summed(policy.head.logits.weight)

    def product(x, form):
        size, ((plus, start), (minus, begin)) = form
        return size * (
            np.add.reduceat(x[plus], start) - np.add.reduceat(x[minus], begin)
        )

    def act(observation):
        x = observation.ravel() * scale
        for form, bias in layers:
            x = product(x, form)
            if bias is not None:
                x += bias
            np.maximum(x, 0, out=x)
        return product(x, head).argmax()

    return act


def in_onnx(agent: Agent, task: str):
    """Return the same in onnxruntime."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(to_onnx(agent, task), options)
    return lambda x: session.run(["action"], {"observation": x[None]})[0]


def different_actions(run: Path, agent: Agent) -> int:
    """Return how many of 10,000 actions a task are not the trained agent's."""
    restored, different = RestoredRun(run), 0
    programs, trained = restored.training.programs, restored.agents
    trained = jax.tree.map(lambda leaf: leaf[0], trained)
    encoder, rng = programs.spec.pipeline.encoder, np.random.default_rng(1)
    for index, task in enumerate(agent.manifest.tasks):
        shape = (10_000, *task.observation.shape)
        observations = rng.integers(0, 256, shape).astype(np.float32)
        data = programs.table.task(index)
        network = restored.method.policy(
            trained.method_state, trained.train.trainable, data.position
        )

        def act(observation, network=network, data=data):
            return network(encoder(observation, data.label))[0].mode()

        expected = np.asarray(jax.jit(jax.vmap(act))(observations))
        different += int((agent.act(observations, task=task.name) != expected).sum())
    return different


def main() -> None:
    """Measure, print and, if asked, write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("run", type=Path)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = export_agent(given.run, Path(folder) / "agent.persona")
        agent, task = load(path), load(path).tasks[0]
        rng = np.random.default_rng(0)
        shape = agent.manifest.tasks[0].observation.shape
        seen = rng.integers(0, 256, shape).astype(np.float32)
        rivals = {
            "ours": agent.on(task).act,
            "ours, by name": lambda x: agent.act(x, task=task),
            "numpy floats": in_numpy(agent, task),
            "sums by sign": in_ternary(agent, task),
            "onnxruntime": in_onnx(agent, task),
        }
        chosen = {name: int(np.ravel(act(seen))[0]) for name, act in rivals.items()}
        assert len(set(chosen.values())) == 1, chosen
        times = {name: [] for name in rivals}
        for _ in range(TURNS):
            for name, act in rivals.items():
                times[name].append(microseconds(act, seen))
        sizes = [to_onnx(agent, name) for name in agent.tasks]
        results = {
            "tasks": len(agent.tasks),
            "actions unlike the trained agent's": different_actions(given.run, agent),
            "KiB": round(path.stat().st_size / 1024, 1),
            "KiB as onnx": round(sum(map(len, sizes)) / 1024, 1),
            "cold start, ms": cold_starts(path),
            "one action, microseconds": {
                name: round(float(np.median(each)), 1) for name, each in times.items()
            },
            "machine": machine(),
        }
    text = json.dumps(results, indent=1)
    print(text)
    if given.out is not None:
        given.out.write_text(text + "\n")


if __name__ == "__main__":
    main()
