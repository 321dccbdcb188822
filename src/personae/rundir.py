"""What a run directory holds, and how it is written so that nothing half-done is read.

    run.json                 configuration, versions, fingerprints, wall times, status
    metrics.jsonl            one record a line: training iterations and evaluations
    backbone.safetensors     what never changes, one entry per agent
    masks/VVV-TASK.safetensors   what visit V left behind: scores, bits, coefficients
    checkpoints/             the state to resume from
    replay/                  what agents remember of their experience, if they do
    earlier.persona          the agent that the run goes on from, if it does

Neither JAX nor anything of the training is needed to read it. docs/run-directory.md
describes every field.
"""

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save as encode_tensors

from personae.errors import PersonaeError, UsageError

SCHEMA = 1


class NotWholeError(PersonaeError):
    """A file was cut off, changed, or never one of ours."""


class LockedError(UsageError):
    """Another process is writing to a run directory."""


@contextmanager
def _saving(path: Path) -> Iterator[None]:
    """Say what could not be written, and that nothing else is lost."""
    try:
        yield
    except OSError as error:
        raise PersonaeError(
            f"cannot write {path}: {error.strerror}. What was saved before is whole; "
            "--resume goes on from there"
        ) from error


def write_atomically(path: Path, data: bytes) -> None:
    """Write a file so that a reader sees the old one or the whole new one."""
    temporary = path.with_name(f".{path.name}.tmp")
    with _saving(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with open(temporary, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, path)
        except OSError:
            temporary.unlink(missing_ok=True)  # the room it takes may be needed
            raise


def write_tensors(
    path: Path, tensors: Mapping[str, np.ndarray], metadata: Mapping[str, Any]
) -> None:
    """Write named arrays with metadata as one safetensors file."""
    contiguous = {name: np.ascontiguousarray(array) for name, array in tensors.items()}
    text = {"personae": json.dumps(dict(metadata))}
    write_atomically(path, encode_tensors(contiguous, text))


def read_tensors(path: Path) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Read a file that `write_tensors` wrote; nothing in it is ever executed."""
    try:
        with safe_open(path, framework="numpy") as file:
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            metadata = json.loads((file.metadata() or {})["personae"])
    except (OSError, ValueError, KeyError, SafetensorError) as error:
        raise NotWholeError(f"{path} is not a whole file of ours: {error!r}") from error
    return tensors, metadata


class RunDirectory:
    """The files of one run."""

    def __init__(self, root: Path | str):
        self.root = Path(root)
        self.run_file = self.root / "run.json"
        self.metrics_file = self.root / "metrics.jsonl"
        self.backbone_file = self.root / "backbone.safetensors"
        self.masks = self.root / "masks"
        self.checkpoints = self.root / "checkpoints"
        self.replay = self.root / "replay"
        self.earlier_file = self.root / "earlier.persona"

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Keep other processes from writing here until this one is done or dies.

        Note: on a network file system other machines may not be kept out.
        """
        import fcntl  # not on Windows, where run directories can still be read

        self.root.mkdir(parents=True, exist_ok=True)
        handle = os.open(self.root, os.O_RDONLY)
        try:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise LockedError(
                    f"another process is writing to {self.root}; choose another --out, "
                    "or wait for it"
                ) from None
            yield
        finally:
            os.close(handle)

    def exists(self) -> bool:
        """Tell whether a run was ever started here."""
        metrics = self.metrics_file
        begun = self.run_file.exists() or self.checkpoints.exists()
        return begun or (metrics.exists() and metrics.stat().st_size > 0)

    @property
    def finished(self) -> bool:
        """Whether the run here is over."""
        return self.run_file.exists() and self.read_run()["status"] == "finished"

    def clear(self) -> None:
        """Delete the run's files, and no others."""
        for folder in (self.masks, self.checkpoints):
            for path in folder.glob("*.safetensors*"):
                path.unlink()
            if folder.exists() and not any(folder.iterdir()):
                folder.rmdir()
        self.drop_memories()
        for path in (self.root / "videos").glob("*.gif"):
            path.unlink()
        files = (self.metrics_file, self.backbone_file, self.earlier_file)
        for path in (*files, self.run_file):
            path.unlink(missing_ok=True)

    def drop_memories(self) -> None:
        """Delete what agents remember: of a life that is over nobody needs it."""
        for path in self.replay.glob("memories.*"):
            path.unlink()
        if self.replay.exists() and not any(self.replay.iterdir()):
            self.replay.rmdir()

    def _what_it_is(self) -> str:
        if not self.root.exists():
            return "there is no such directory"
        if not self.root.is_dir():
            return "it is a file; agents in one file are for `personae policy`"
        below = sorted(path.parent.name for path in self.root.glob("*/run.json"))
        if below:
            return f"its directories do ({', '.join(below)}); name one of them"
        return "there is no run.json in it"

    def read_run(self) -> dict[str, Any]:
        """Return run.json."""
        if not self.run_file.exists():
            raise PersonaeError(
                f"{self.root} holds no readable run: {self._what_it_is()}"
            )
        try:
            run = dict(json.loads(self.run_file.read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError) as error:
            raise PersonaeError(
                f"{self.root} holds no readable run: {error}"
            ) from error
        if run.get("schema") != SCHEMA:
            found = run.get("schema")
            raise PersonaeError(
                f"{self.run_file} has schema {found!r}; this version reads {SCHEMA}"
            )
        missing = {"config", "status"} - run.keys()
        if missing:
            raise PersonaeError(f"{self.run_file} lacks {', '.join(sorted(missing))}")
        return run

    def write_run(self, run: Mapping[str, Any]) -> None:
        """Write run.json."""
        text = json.dumps({"schema": SCHEMA, **run}, indent=2) + "\n"
        write_atomically(self.run_file, text.encode())

    def mask_file(self, visit: int, task: str) -> Path:
        """Return the file that a visit leaves behind."""
        return self.masks / f"{visit:03d}-{task}.safetensors"

    def append_metrics(self, records: Iterable[Mapping[str, Any]]) -> int:
        """Append records and force them to disk; return the file's new length."""
        text = "".join(json.dumps(r, separators=(",", ":")) + "\n" for r in records)
        with _saving(self.metrics_file), open(self.metrics_file, "ab") as file:
            file.write(text.encode())
            file.flush()
            os.fsync(file.fileno())
            return file.tell()

    def truncate_metrics(self, length: int) -> None:
        """Cut off what was appended after the checkpoint that a run resumes from."""
        with open(self.metrics_file, "ab") as file:
            if file.tell() < length:
                raise PersonaeError(
                    f"{self.metrics_file} is shorter ({file.tell()} bytes) than the "
                    f"checkpoint says ({length}): it was changed since"
                )
            file.truncate(length)

    def read_metrics(self) -> Iterator[dict[str, Any]]:
        """Yield all whole records; a line still being written is left out."""
        if not self.metrics_file.exists():
            return
        with open(self.metrics_file, encoding="utf-8", errors="replace") as file:
            for number, line in enumerate(file, start=1):
                if line.endswith("\n"):
                    yield self._record(number, line)

    def _record(self, number: int, line: str) -> dict[str, Any]:
        try:
            return dict(json.loads(line))
        except (ValueError, TypeError) as error:
            raise PersonaeError(
                f"{self.metrics_file}, line {number}, is damaged: {error}"
            ) from error
