"""Checkpoints: the whole state is a pytree, and saving it is the checkpoint.

The method's state changes between tasks only, so it is saved once per visit
(`visit-VVV`); what changes while training is saved after each chunk (`chunk-CCCCCC`).
The newest chunk and its visit are what a run resumes from.
"""

from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from personae.errors import PersonaeError
from personae.rundir import NotWholeError, read_tensors, write_tensors
from personae.training.lanes import is_key, key_data

T = TypeVar("T")
KEPT = 2
"""Chunks kept: the newest, and one more should the newest not be readable."""


class Position(NamedTuple):
    """Where in the run a checkpoint was taken."""

    visit: int
    """The visit being trained."""
    chunk: int
    """Chunks of this visit that are done."""
    total_chunks: int
    """Chunks of the whole run that are done."""
    iteration: int
    """Iterations of the whole run that are done."""
    metrics_length: int
    """Bytes of metrics.jsonl that belong to what is done."""
    seconds: float
    """Wall time so far."""

    @classmethod
    def start(cls) -> "Position":
        """Return the position before anything is done."""
        return cls(0, 0, 0, 0, 0, 0.0)


def flatten(tree: Any) -> dict[str, np.ndarray]:
    """Return the arrays of a tree in host memory by their path."""
    leaves = jax.tree_util.tree_leaves_with_path(tree)
    return {jax.tree_util.keystr(path): leaf for path, leaf in leaves}


def unflatten(template: T, arrays: dict[str, np.ndarray], where: Path) -> T:
    """Put arrays back into a tree of the template's structure, shapes and types."""
    leaves, structure = jax.tree_util.tree_flatten_with_path(template)
    restored = []
    for path, leaf in leaves:
        name = jax.tree_util.keystr(path)
        expected = jax.eval_shape(key_data, leaf)
        array = arrays.get(name)
        fits = array is not None and array.shape == expected.shape
        if array is None or not fits or array.dtype != expected.dtype:
            found = "nothing" if array is None else f"{array.dtype}{list(array.shape)}"
            raise PersonaeError(
                f"{where} does not fit this run: {name} should be "
                f"{expected.dtype}{list(expected.shape)}, found {found}"
            )
        value = jnp.asarray(array)
        restored.append(jax.random.wrap_key_data(value) if is_key(leaf) else value)
    return jax.tree.unflatten(structure, restored)


class Checkpoints:
    """The checkpoints of one run directory."""

    def __init__(self, folder: Path, config: dict[str, Any]):
        self._folder = folder
        self._config = config

    def _visit_file(self, visit: int) -> Path:
        return self._folder / f"visit-{visit:03d}.safetensors"

    def _chunk_files(self) -> list[Path]:
        return sorted(self._folder.glob("chunk-*.safetensors"), reverse=True)

    def save_visit(self, visit: int, state: Any) -> None:
        """Save what stays the same during a visit."""
        metadata = {"config": self._config, "visit": visit}
        write_tensors(self._visit_file(visit), flatten(state), metadata)

    def save_chunk(self, position: Position, live: Any) -> None:
        """Save what changes, then drop what is no longer needed."""
        path = self._folder / f"chunk-{position.total_chunks:06d}.safetensors"
        metadata = {"config": self._config, "position": position._asdict()}
        write_tensors(path, flatten(live), metadata)
        for old in self._chunk_files()[KEPT:]:
            old.unlink(missing_ok=True)
        for visit in range(position.visit - 1):
            self._visit_file(visit).unlink(missing_ok=True)

    def latest(self) -> Position | None:
        """Return the position of the newest whole checkpoint, or None without any."""
        problem = None
        for path in self._chunk_files():
            try:
                return Position(**self._read(path)[1]["position"])
            except NotWholeError as error:
                problem = problem or error
        if problem is not None:
            raise problem
        return None

    def load(self, position: Position, state: T, live: Any) -> tuple[T, Any]:
        """Load a checkpoint into trees of the right structure."""
        chunk = self._folder / f"chunk-{position.total_chunks:06d}.safetensors"
        visit = self._visit_file(position.visit)
        loaded_state = unflatten(state, self._read(visit)[0], visit)
        return loaded_state, unflatten(live, self._read(chunk)[0], chunk)

    def _read(self, path: Path) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        tensors, metadata = read_tensors(path)
        if metadata.get("config") != self._config:
            raise PersonaeError(f"{path} belongs to a run with another configuration")
        return tensors, metadata
