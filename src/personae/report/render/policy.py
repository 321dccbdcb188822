"""Tables of the contents of an agent's file."""

import numpy as np

from personae.policy.agent import Agent
from personae.policy.compact import parts_of
from personae.report.render.table import Table


def tasks_table(agent: Agent) -> Table:
    """Return the tasks with the agent's last evaluations and their use of weights."""
    manifest, rows = agent.manifest, []
    for index, task in enumerate(manifest.tasks):
        evaluation = task.evaluation
        rows.append(
            (
                task.name,
                task.env,
                "" if evaluation is None else f"{evaluation:.2f} {task.measure}",
                f"{task.target:g}",
                f"{_density(agent, index):.0%}",
            )
        )
    header = ("task", "environment", "last evaluation", "target", "weights used")
    note = "Weights used: the share of weights that are not 0 on the task."
    return Table("Tasks", header, rows, note)


def _density(agent: Agent, task: int) -> float:
    # Biases are few and never masked away: they would only blur the share.
    weights = [w for n, w in agent.weights(task).items() if n.endswith(".weight")]
    return float(sum(map(np.count_nonzero, weights)) / sum(w.size for w in weights))


def layers_table(agent: Agent) -> Table:
    """Return each layer's form of storage and its size."""
    rows: list[tuple[str, ...]] = []
    for layer in agent.manifest.layers:
        size = sum(agent.arrays[name].nbytes for name in parts_of(layer))
        shape = " x ".join(map(str, layer.shape))
        rows.append((layer.name, shape, layer.storage, _kib(size)))
    for part in ("scores", "backbone"):
        sizes = [
            array.nbytes
            for name, array in agent.arrays.items()
            if name.startswith(f"{part}/")
        ]
        # Acting needs neither: only a file for a warm start has them.
        if sizes:
            rows.append((part, "", "for a warm start", _kib(sum(sizes))))
    return Table("Layers", ("layer", "shape", "stored as", "KiB"), rows, "")


def _kib(size: int) -> str:
    return f"{size / 1024:.1f}"
