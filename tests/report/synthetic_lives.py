"""Lives on CT8 whose numbers can be computed by hand."""

from pathlib import Path

import numpy as np

import personae
from personae.report import Record
from personae.report.data.comparable import METHOD_SETTINGS
from personae.report.data.record import TrainingCurve

CT8 = personae.find_curriculum("ct8").to_plain()
SETTINGS = {"mask-lc": "masks", "mask-blc": "masks", "ewc-mh": "ewc"}
TASKS = tuple(task["name"] for task in CT8["tasks"])


def make_life(method, lateness, changes=None):
    """Return a life on CT8.

    Seed s learns task j at evaluation `lateness[s] + j` of its visit.
    """
    tasks = np.repeat(np.arange(8), 20)
    evaluation_of_visit = np.tile(np.arange(20), 8)
    start = np.asarray(lateness)[:, None] + np.arange(8)
    solved = (np.arange(8) < tasks[:, None])[None] | (
        (np.arange(8) == tasks[:, None])[None]
        & (evaluation_of_visit[:, None] >= start[:, None])
    )
    shared = {n: v for n, v in CT8.items() if n not in METHOD_SETTINGS}
    own = {n: CT8[n] for n in METHOD_SETTINGS if n == SETTINGS.get(method)}
    curriculum = shared | own | (changes or {})
    seeds = list(range(len(lateness)))
    config = {"curriculum": curriculum, "method": method, "seeds": seeds}
    curves = [np.arange(20) >= start[:, j, None] for j in range(8)]
    return Record(
        directory=Path(method),
        run={"status": "finished", "config": config},
        tasks=TASKS,
        targets=np.ones(8),
        evaluation_steps=np.arange(160),
        evaluation_task=tasks,
        evaluation_visit=tasks,
        evaluations=solved.astype(float),
        training=tuple(
            TrainingCurve(task, 5120 * (1 + np.arange(20)), curve.astype(float))
            for task, curve in zip(TASKS, curves, strict=True)
        ),
    )


def texts(table):
    """Return the cells of each row by its first cell."""
    return {row[0]: row[1:] for row in table.rows}
