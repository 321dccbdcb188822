"""What a run directory holds, and how it is written so that nothing half-done is read.

    run.json                 configuration, versions, fingerprints, wall times, status
    metrics.jsonl            one record a line: training iterations and evaluations
    backbone.safetensors     what never changes, one entry per agent
    masks/VVV-TASK.safetensors   what visit V left behind: scores, bits, coefficients
    checkpoints/             the state to resume from
    replay/                  what agents remember of their experience, if they do
    warm-start.persona          the agent that the run goes on from, if it does

Neither JAX nor anything of the training is needed to read it. docs/run-directory.md
describes every field.
"""

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from personae.errors import PersonaeError, UsageError
from personae.files import explain_write_errors, write_atomically

SCHEMA = 1


class LockedError(UsageError):
    """Another process is writing to a run directory."""


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
        self.warm_start_file = self.root / "warm-start.persona"

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
        self.delete_replay()
        for path in (self.root / "videos").glob("*.gif"):
            path.unlink()
        files = (self.metrics_file, self.backbone_file, self.warm_start_file)
        for path in (*files, self.run_file):
            path.unlink(missing_ok=True)

    def delete_replay(self) -> None:
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
        with (
            explain_write_errors(self.metrics_file),
            open(self.metrics_file, "ab") as file,
        ):
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
