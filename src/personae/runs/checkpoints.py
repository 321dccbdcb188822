"""Checkpoints: the whole state of a run is a pytree, and a checkpoint is that pytree.

A run resumes from its newest chunk and the state that belongs to it. CCCCCC counts the
chunks of the run so far:

    state-CCCCCC       the method's state, saved when it changes, which is seldom
    chunk-CCCCCC       all that training changes, saved after each chunk
    envs-CCCCCC        how to restore environments that are not arrays
    replay-CCCCCC      which records of the replay store are in use
    experience-CCCCCC  the samples of one chunk, saved until the visit is over, for
                       methods that compute gradients of a whole visit
"""

from collections import deque
from pathlib import Path
from typing import NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from personae.errors import PersonaeError
from personae.files import Arrays, DamagedFileError, read_tensors, write_tensors
from personae.keys import is_key, key_data
from personae.migration import CHECKPOINT_KINDS, SCHEMA, migrate_checkpoint
from personae.serialise import PlainData

State = TypeVar("State")
TrainState = TypeVar("TrainState")
T = TypeVar("T")

CHECKPOINTS_KEPT = 2
"""Number of chunks that stay on disk: the newest, and the one before in case the newest
cannot be read."""


class Position(NamedTuple):
    """The point in a run at which a checkpoint is taken."""

    visit: int
    """The visit being trained."""
    chunk: int
    """Chunks of this visit that are trained."""
    total_chunks: int
    """Chunks of the whole run that are trained."""
    state: int
    """Chunks that were trained when the method's state last changed."""
    iteration: int
    """Iterations of the whole run so far."""
    metrics_length: int
    """Bytes of metrics.jsonl up to here."""
    seconds: float
    """Wall time so far."""
    over: bool = False
    """Whether the visit ends here, before its steps are up."""

    @classmethod
    def start(cls) -> "Position":
        """Return the position at the start of a run."""
        return cls(0, 0, 0, 0, 0, 0, 0.0)


def flatten(tree: PyTree) -> dict[str, np.ndarray]:
    """Return the arrays of a tree in host memory by their path."""
    leaves = jax.tree_util.tree_leaves_with_path(tree)
    return {jax.tree_util.keystr(path): leaf for path, leaf in leaves}


def unflatten(template: T, arrays: Arrays, source: Path) -> T:
    """Return a tree of the template's structure, shapes and types with these arrays.

    Args:
        template: The tree, whose leaves are arrays or the shapes of arrays.
        arrays: Arrays by their path, as `flatten` returns them.
        source: The file that they come from, for the error message.
    """
    leaves, structure = jax.tree_util.tree_flatten_with_path(template)
    restored = []
    for path, leaf in leaves:
        name = jax.tree_util.keystr(path)
        expected = jax.eval_shape(key_data, leaf)
        array = arrays.get(name)
        # Unchecked, it would show only later, as an error inside a compiled program.
        fits = array is not None and array.shape == expected.shape
        if array is None or not fits or array.dtype != expected.dtype:
            actual = "nothing" if array is None else f"{array.dtype}{list(array.shape)}"
            raise PersonaeError(
                f"{source} does not fit this run: {name} should be "
                f"{expected.dtype}{list(expected.shape)}, found {actual}"
            )
        value = jnp.asarray(array)
        restored.append(jax.random.wrap_key_data(value) if is_key(leaf) else value)
    return jax.tree.unflatten(structure, restored)


class Checkpoints:
    """The checkpoints of one run directory."""

    def __init__(self, folder: Path, config: PlainData):
        self._folder = folder
        self._config = config
        self._visit_starts: deque[int] = deque(maxlen=CHECKPOINTS_KEPT)

    def save_state(self, chunks: int, state: PyTree) -> None:
        """Save the method's state as it is after so many chunks."""
        self._write("state", chunks, state, {})

    def save_experience(self, chunks: int, experience: PyTree) -> None:
        """Save the samples that the last of so many chunks learned from."""
        self._write("experience", chunks, experience, {})

    def load_experience(self, chunks: int, experience: T) -> T:
        """Load the samples that the last of so many chunks learned from."""
        return self._load("experience", chunks, experience)

    def save_envs(self, chunks: int, envs: Arrays) -> None:
        """Save the arrays that restore environments outside JAX."""
        self._write("envs", chunks, dict(envs), {})

    def load_envs(self, chunks: int) -> dict[str, np.ndarray] | None:
        """Load the arrays that restore environments outside JAX, if there are any."""
        if not self._file("envs", chunks).exists():
            return None
        return self._load_mapping("envs", chunks)

    def save_replay(self, chunks: int, replay: Arrays) -> None:
        """Save the snapshot of a replay store."""
        self._write("replay", chunks, dict(replay), {})

    def load_replay(
        self, chunks: int
    ) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray] | None]:
        """Load the snapshot of a replay store, and the one before it if there is one.

        The run may resume from the checkpoint before, should this one turn out to be
        damaged: until then the records of both must stay on disk.
        """
        try:
            previous = self._load_mapping("replay", chunks - 1)
        except DamagedFileError:  # or it does not exist
            previous = None
        return self._load_mapping("replay", chunks), previous

    def save_chunk(self, position: Position, train_state: PyTree) -> None:
        """Save all that training changes, then delete checkpoints of no more use."""
        chunks = position.total_chunks
        self._write("chunk", chunks, train_state, {"position": position._asdict()})
        self._visit_starts.append(chunks - position.chunk)
        kinds = ("chunk", "state", "envs", "replay")
        unused = [p for kind in kinds for p in self._files(kind)[CHECKPOINTS_KEPT:]]
        if len(self._visit_starts) == CHECKPOINTS_KEPT:
            # A run that resumes from the older chunk needs the experience of that
            # chunk's visit, which may be the visit before.
            last = self._file("experience", min(self._visit_starts))
            unused += [path for path in self._files("experience") if path <= last]
        # After the new chunk is safe: there is always one to resume from.
        for path in unused:
            path.unlink(missing_ok=True)

    def latest(self) -> Position | None:
        """Return the position of the newest whole checkpoint, or None without any."""
        problem = None
        for path in self._files("chunk"):
            try:
                return Position(**self._read(path)[1]["position"])
            except DamagedFileError as error:
                problem = problem or error
        # Starting anew where checkpoints are damaged would lose the run.
        if problem is not None:
            raise problem
        return None

    def load(
        self, position: Position, state: State, train_state: TrainState
    ) -> tuple[State, TrainState]:
        """Load a checkpoint into trees of the right structure."""
        return (
            self._load("state", position.state, state),
            self._load("chunk", position.total_chunks, train_state),
        )

    def _file(self, kind: str, chunks: int) -> Path:
        name = f"-{chunks:06d}.safetensors"
        path, old = (self._folder / f"{k}{name}" for k in (kind, _old_kind(kind)))
        return old if old.exists() else path

    def _files(self, kind: str) -> list[Path]:
        """Return the files of a kind, the newest first."""
        names = {kind, _old_kind(kind)}
        paths = [p for n in names for p in self._folder.glob(f"{n}-*.safetensors")]
        return sorted(paths, key=lambda path: path.stem.split("-")[-1], reverse=True)

    def _write(self, kind: str, chunks: int, tree: PyTree, metadata: PlainData) -> None:
        metadata = {"schema": SCHEMA, "config": self._config, **metadata}
        write_tensors(self._file(kind, chunks), flatten(tree), metadata)

    def _load(self, kind: str, chunks: int, template: T) -> T:
        path = self._file(kind, chunks)
        return unflatten(template, self._read(path)[0], path)

    def _load_mapping(self, kind: str, chunks: int) -> dict[str, np.ndarray]:
        arrays, _ = self._read(self._file(kind, chunks))
        # Keys of a mapping have paths like those of a tree: ['name'].
        return {path[2:-2]: array for path, array in arrays.items()}

    def _read(self, path: Path) -> tuple[dict[str, np.ndarray], PlainData]:
        arrays, metadata = migrate_checkpoint(*read_tensors(path))
        if metadata.get("config") != self._config:
            raise PersonaeError(f"{path} belongs to a run with another configuration")
        return arrays, metadata


def _old_kind(kind: str) -> str:
    return CHECKPOINT_KINDS.get(kind, kind)
