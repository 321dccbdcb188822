"""The masks that a run has written to disk, task by task."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Bool, Float

from personae.bits import unpack_bits
from personae.errors import PersonaeError
from personae.files import Arrays, read_tensors
from personae.migration import migrate_mask_metadata
from personae.runs.directory import RunDirectory

HEADS = ("actor", "critic")
"""Layers that come after all others."""


@dataclass(frozen=True)
class LearnedMasks:
    """Masks by layer; tasks are in the order in which they were learned."""

    tasks: tuple[str, ...]
    scores: Mapping[str, Float[np.ndarray, "agents tasks _"]]
    """Consolidated scores, real-valued."""
    masks: Mapping[str, Bool[np.ndarray, "agents tasks _"]]
    """The weights that are on, in layers whose rule is binary."""
    coefficients: Mapping[str, Float[np.ndarray, "agents tasks tasks"]]
    """Weight (after the softmax) of each older mask, and on the diagonal of the new
    one, at the end of each task's first visit; not a number where there is none. Empty
    for RI; under the name "all layers" where layers share them."""


def read_learned_masks(directory: Path | str) -> LearnedMasks | None:
    """Return the masks of a run, or None if its method has none."""
    learned, warm_start_masks = _read_tasks(RunDirectory(directory))
    tasks = list(learned.values())
    names = set().union(*tasks) if tasks else set()
    scored = [name.split("/", 1)[1] for name in names if name.startswith("scores/")]
    layers = sorted(scored, key=lambda layer: (layer.startswith(HEADS), layer))
    if not layers:
        return None
    composed = [n for n in ("all layers", *layers) if _coefficients_key(n) in names]
    return LearnedMasks(
        tasks=tuple(learned),
        scores={layer: _scores(tasks, layer) for layer in layers},
        masks={
            layer: _masks(tasks, layer) for layer in layers if f"bits/{layer}" in names
        },
        coefficients={
            name: _coefficients(tasks, name, warm_start_masks) for name in composed
        },
    )


def _coefficients_key(layer: str) -> str:
    return "coefficients" if layer == "all layers" else f"coefficients/{layer}"


def _read_tasks(directory: RunDirectory) -> tuple[dict[str, Arrays], int]:
    """Return the arrays of each task, and how many masks the run started with.

    Of a task with several visits the arrays are the newest, but for coefficients: from
    the second visit on a mask is trained further and no longer composed of others.
    """
    learned: dict[str, Arrays] = {}
    warm_start_masks = 0
    for visit, path in enumerate(sorted(directory.masks.glob("*.safetensors"))):
        arrays, metadata = read_tensors(path)
        metadata = migrate_mask_metadata(metadata)
        if metadata.get("visit") != visit:
            raise PersonaeError(
                f"{directory.masks} lacks the masks of visit {visit}: those of later "
                "visits cannot be told apart without it"
            )
        task = str(metadata["task"])
        warm_start_masks = int(metadata.get("warm_start_masks", 0))
        if task in learned:
            arrays = _without_coefficients(arrays) | _coefficients_of(learned[task])
        learned[task] = arrays
    return learned, warm_start_masks


def _without_coefficients(arrays: Arrays) -> dict[str, np.ndarray]:
    return {name: a for name, a in arrays.items() if not _is_coefficient(name)}


def _coefficients_of(arrays: Arrays) -> dict[str, np.ndarray]:
    return {name: a for name, a in arrays.items() if _is_coefficient(name)}


def _is_coefficient(name: str) -> bool:
    return name.startswith("coefficients")


def _scores(tasks: list[Arrays], layer: str) -> np.ndarray:
    scores = [arrays[f"scores/{layer}"] for arrays in tasks]
    return np.stack([array.reshape(len(array), -1) for array in scores], axis=1)


def _masks(tasks: list[Arrays], layer: str) -> np.ndarray:
    # Bits fill whole bytes; only the scores tell how many of them are weights.
    count = tasks[0][f"scores/{layer}"][0].size
    bits = [unpack_bits(arrays[f"bits/{layer}"], (count,)) for arrays in tasks]
    return np.stack(bits, axis=1)


def _coefficients(tasks: list[Arrays], layer: str, warm_start_masks: int) -> np.ndarray:
    agents = len(next(iter(tasks[0].values())))
    matrix = np.full((agents, len(tasks), len(tasks)), np.nan)
    for task, arrays in enumerate(tasks):
        slots = arrays.get(_coefficients_key(layer))
        # Slots are in the order of learning: the masks of the warm start, this run's,
        # empty ones, and the new mask last.
        if slots is not None:
            matrix[:, task, :task] = slots[:, warm_start_masks:][:, :task]
            matrix[:, task, task] = slots[:, -1]
    return matrix
