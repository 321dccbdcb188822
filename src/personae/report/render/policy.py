"""Tables of what is in an agent's file."""

import numpy as np

from personae.policy.agent import Agent
from personae.policy.compact import parts_of
from personae.report.render.table import Table


def tasks_table(agent: Agent) -> Table:
    """Return the tasks, what the agent had on them, and how much of it they use."""
    manifest, rows = agent.manifest, []
    for index, task in enumerate(manifest.tasks):
        found = task.evaluation
        rows.append(
            (
                task.name,
                task.env,
                "" if found is None else f"{found:.2f} {task.measure}",
                f"{task.target:g}",
                f"{_density(agent, index):.0%}",
            )
        )
    header = ("task", "environment", "last evaluation", "target", "weights used")
    note = "Weights that are not 0, on each task."
    return Table("Tasks", header, rows, note)


def _density(agent: Agent, task: int) -> float:
    weights = [w for n, w in agent.weights(task).items() if n.endswith(".weight")]
    return float(sum(map(np.count_nonzero, weights)) / sum(w.size for w in weights))


def layers_table(agent: Agent) -> Table:
    """Return how each layer is stored, and what it takes."""
    rows: list[tuple[str, ...]] = []
    for layer in agent.manifest.layers:
        size = sum(agent.arrays[name].nbytes for name in parts_of(layer))
        shape = " x ".join(map(str, layer.shape))
        rows.append((layer.name, shape, layer.storage, f"{size / 1024:.1f}"))
    for part in ("scores", "backbone"):
        found = [a for name, a in agent.arrays.items() if name.startswith(f"{part}/")]
        if found:
            size = sum(array.nbytes for array in found)
            rows.append((part, "", "to go on from", f"{size / 1024:.1f}"))
    return Table("Layers", ("layer", "shape", "stored as", "KiB"), rows, "")
