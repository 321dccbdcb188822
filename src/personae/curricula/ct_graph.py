"""Curricula of CT-graphs, with the preset that produced the published tables."""

from itertools import product

from personae.curricula.crossing import PUBLISHED_PPO
from personae.curricula.curriculum import Curriculum
from personae.curricula.options import Inputs
from personae.curricula.task import Task

# The images are bytes; the published runs scale them to 0..1.
CT_SCALE = 1 / 255


def ct_task(depth: int, leaf: int, label: int | None = None) -> Task:
    """Return the task of reaching a leaf of a graph.

    Args:
        depth: Number of turns on the way to a leaf.
        leaf: Index of the leaf, in lexicographic order of the turns.
        label: Position of the 1 in the one-hot label, if it is not the task's index.
    """
    goal = list(product(range(2), repeat=depth))[leaf]
    name = f"d{depth}-" + "".join(map(str, goal))
    options = {"depth": depth, "goal": list(goal)}
    return Task(name, "personae/CTGraph-v0", options, label)


def ct8() -> Curriculum:
    """Return CT8: all eight leaves of one graph of depth 3."""
    return Curriculum(
        id="personae/CT8-v0",
        description="CT-graph: the 8 leaves of a graph of depth 3 (paper: CT8).",
        tasks=tuple(ct_task(3, leaf) for leaf in range(8)),
        inputs=Inputs(scale=CT_SCALE),
        ppo=PUBLISHED_PPO,
    )


def ct12() -> Curriculum:
    """Return CT12: the leaves of two graphs, of depth 2 and 3, interleaved.

    Note: the paper prints depth 2 for both graphs; the published runs used 2 and 3.
    """
    interleaved = [ct_task(depth, leaf) for leaf in range(4) for depth in (2, 3)]
    return Curriculum(
        id="personae/CT12-v0",
        description="CT-graph: leaves of depth 2 and 3, interleaved (paper: CT12).",
        tasks=(*interleaved, *(ct_task(3, leaf) for leaf in range(4, 8))),
        inputs=Inputs(scale=CT_SCALE),
        ppo=PUBLISHED_PPO,
    )


def ct8_md() -> Curriculum:
    """Return CT8 multi depth: two leaves each of graphs of depth 2, 3, 4 and 5.

    Note: the published label has 60 entries, one for each leaf of the four graphs, and
    the tasks use those of the first two leaves of each.
    """
    tasks, first = [], 0
    for depth in (2, 3, 4, 5):
        tasks += [ct_task(depth, leaf, label=first + leaf) for leaf in range(2)]
        first += 2**depth
    return Curriculum(
        id="personae/CT8-MD-v0",
        description="CT-graph: 2 leaves each of depth 2 to 5 (paper: CT8 multi depth).",
        tasks=tuple(tasks),
        inputs=Inputs(scale=CT_SCALE, label_dim=first),
        ppo=PUBLISHED_PPO,
    )


def curricula() -> list[Curriculum]:
    """Return the curricula of CT-graphs."""
    return [ct8(), ct12(), ct8_md()]
