"""Checkpoints: the whole state is a pytree, and saving it is the checkpoint.

The method's state seldom changes, so it is saved when it does (`state-CCCCCC`, after so
many chunks); what changes while training is saved after each chunk (`chunk-CCCCCC`),
and how to bring back environments that are no arrays beside it (`worlds-CCCCCC`), and
where memories are (`memory-CCCCCC`).
The newest chunk and its state are what a run resumes from. Experience that a method
will look back on is saved once, chunk by chunk (`experience-CCCCCC`), until the visit
is over.
"""

from collections import deque
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from personae.errors import PersonaeError
from personae.files import DamagedFileError, read_tensors, write_tensors
from personae.keys import is_key, key_data

T = TypeVar("T")
CHECKPOINTS_KEPT = 2
"""Chunks kept: the newest, and one more should the newest not be readable."""


class Position(NamedTuple):
    """Where in the run a checkpoint was taken."""

    visit: int
    """The visit being trained."""
    chunk: int
    """Chunks of this visit that are done."""
    total_chunks: int
    """Chunks of the whole run that are done."""
    state: int
    """Chunks that were done when the method's state last changed."""
    iteration: int
    """Iterations of the whole run that are done."""
    metrics_length: int
    """Bytes of metrics.jsonl that belong to what is done."""
    seconds: float
    """Wall time so far."""
    over: bool = False
    """Whether the visit ends here, before its steps are up."""

    @classmethod
    def start(cls) -> "Position":
        """Return the position before anything is done."""
        return cls(0, 0, 0, 0, 0, 0, 0.0)


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
        self._visits_begun: deque[int] = deque(maxlen=CHECKPOINTS_KEPT)

    def _file(self, kind: str, chunks: int) -> Path:
        return self._folder / f"{kind}-{chunks:06d}.safetensors"

    def _files(self, kind: str) -> list[Path]:
        """Return the files of a kind, the newest first."""
        return sorted(self._folder.glob(f"{kind}-*.safetensors"), reverse=True)

    def save_state(self, chunks: int, state: Any) -> None:
        """Save the method's state as it is after so many chunks."""
        self._write("state", chunks, state, {})

    def save_experience(self, chunks: int, experience: Any) -> None:
        """Save what the last of so many chunks learned from."""
        self._write("experience", chunks, experience, {})

    def save_envs(self, chunks: int, worlds: Mapping[str, np.ndarray]) -> None:
        """Save what brings environments outside JAX back."""
        self._write("worlds", chunks, dict(worlds), {})

    def load_envs(self, chunks: int) -> dict[str, np.ndarray] | None:
        """Load that, if there is any."""
        if not self._file("worlds", chunks).exists():
            return None
        return self._plain("worlds", chunks)

    def save_replay(self, chunks: int, memory: Mapping[str, np.ndarray]) -> None:
        """Save where memories are."""
        self._write("memory", chunks, dict(memory), {})

    def load_replay(
        self, chunks: int
    ) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray] | None]:
        """Load that, and also what the checkpoint before needs, if there is one."""
        try:
            older = self._plain("memory", chunks - 1)
        except DamagedFileError:  # or not there
            older = None
        return self._plain("memory", chunks), older

    def _plain(self, kind: str, chunks: int) -> dict[str, np.ndarray]:
        """Load a mapping of arrays; their paths are written like those of a tree."""
        arrays, _ = self._read(self._file(kind, chunks))
        return {name[2:-2]: array for name, array in arrays.items()}

    def save_chunk(self, position: Position, live: Any) -> None:
        """Save what changes, then drop what is no longer needed."""
        done = position.total_chunks
        self._write("chunk", done, live, {"position": position._asdict()})
        self._visits_begun.append(done - position.chunk)
        kinds = ("chunk", "state", "worlds", "memory")
        old = [path for kind in kinds for path in self._files(kind)[CHECKPOINTS_KEPT:]]
        if len(self._visits_begun) == CHECKPOINTS_KEPT:
            # The older chunk that is kept may need the experience of its own visit.
            last = self._file("experience", min(self._visits_begun))
            old += [path for path in self._files("experience") if path <= last]
        for path in old:
            path.unlink(missing_ok=True)

    def _write(
        self, kind: str, chunks: int, tree: Any, metadata: dict[str, Any]
    ) -> None:
        whole = {"config": self._config, **metadata}
        write_tensors(self._file(kind, chunks), flatten(tree), whole)

    def latest(self) -> Position | None:
        """Return the position of the newest whole checkpoint, or None without any."""
        problem = None
        for path in self._files("chunk"):
            try:
                return Position(**self._read(path)[1]["position"])
            except DamagedFileError as error:
                problem = problem or error
        if problem is not None:
            raise problem
        return None

    def load(self, position: Position, state: T, live: Any) -> tuple[T, Any]:
        """Load a checkpoint into trees of the right structure."""
        return (
            self._load("state", position.state, state),
            self._load("chunk", position.total_chunks, live),
        )

    def load_experience(self, chunks: int, experience: T) -> T:
        """Load what the last of so many chunks learned from."""
        return self._load("experience", chunks, experience)

    def _load(self, kind: str, chunks: int, template: T) -> T:
        path = self._file(kind, chunks)
        return unflatten(template, self._read(path)[0], path)

    def _read(self, path: Path) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        tensors, metadata = read_tensors(path)
        if metadata.get("config") != self._config:
            raise PersonaeError(f"{path} belongs to a run with another configuration")
        return tensors, metadata
