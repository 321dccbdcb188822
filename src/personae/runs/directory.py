"""The files of a run directory, and writes that leave nothing half-done to read.

    run.json                 configuration, versions, fingerprints, wall times, status
    metrics.jsonl            one record a line: training iterations and evaluations
    backbone.safetensors     arrays that never change, one entry per agent
    masks/VVV-TASK.safetensors   the results of visit V: scores, bits, coefficients
    checkpoints/             the state to resume from
    replay/                  the replay store of methods that have one
    warm-start.persona       the agent that the run starts from, if there is one

Neither JAX nor anything of the training is needed to read it. docs/run-directory.md
describes every field.
"""

import json
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from personae.errors import PersonaeError, UsageError
from personae.files import explain_write_errors, write_atomically
from personae.migration import (
    READABLE_SCHEMAS,
    SCHEMA,
    existing_path,
    migrate_record,
    migrate_run,
)
from personae.serialise import PlainData


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

    @property
    def warm_start_file(self) -> Path:
        """The agent that the run starts from."""
        return existing_path(self.root / "warm-start.persona")

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Keep other processes from writing here until this one leaves or dies.

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
        if self.run_file.exists() or self.checkpoints.exists():
            return True
        # An empty file is what a run leaves that was stopped while it compiled.
        return self.metrics_file.exists() and self.metrics_file.stat().st_size > 0

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
        # run.json last: a directory half cleared still says that a run was here.
        for path in (*files, self.run_file):
            path.unlink(missing_ok=True)

    def delete_replay(self) -> None:
        """Delete the replay store, which is of no use once the run has finished."""
        # Version 0.1 called its files memories.
        for pattern in ("records.*", "memories.*"):
            for path in self.replay.glob(pattern):
                path.unlink()
        if self.replay.exists() and not any(self.replay.iterdir()):
            self.replay.rmdir()

    def read_run(self) -> PlainData:
        """Return run.json in the form of this version."""
        run = self._read_raw_run()
        schema = run.get("schema")
        if schema not in READABLE_SCHEMAS:
            raise PersonaeError(
                f"{self.run_file} has schema {schema!r}; this version reads "
                f"{' and '.join(map(str, READABLE_SCHEMAS))}"
            )
        missing = {"config", "status"} - run.keys()
        if missing:
            raise PersonaeError(f"{self.run_file} lacks {', '.join(sorted(missing))}")
        return migrate_run(run)

    def check_current_schema(self) -> None:
        """Refuse to continue a run of an earlier version."""
        schema = self._read_raw_run().get("schema")
        if schema != SCHEMA:
            raise UsageError(
                f"the run in {self.root} was begun by an earlier version (schema "
                f"{schema}; this version writes {SCHEMA}), whose checkpoints can be "
                "evaluated, exported and reported, but not resumed: finish it with "
                "that version, or start anew with --overwrite"
            )

    def _read_raw_run(self) -> PlainData:
        if not self.run_file.exists():
            raise PersonaeError(f"{self.root} holds no readable run: {self._problem()}")
        try:
            return dict(json.loads(self.run_file.read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError) as error:
            raise PersonaeError(
                f"{self.root} holds no readable run: {error}"
            ) from error

    def _problem(self) -> str:
        """Return why there is no run.json, in words that help a user."""
        if not self.root.exists():
            return "there is no such directory"
        if not self.root.is_dir():
            return "it is a file; agents in one file are for `personae policy`"
        below = sorted(path.parent.name for path in self.root.glob("*/run.json"))
        if below:
            return f"its directories do ({', '.join(below)}); name one of them"
        return "there is no run.json in it"

    def write_run(self, run: PlainData) -> None:
        """Write run.json."""
        text = json.dumps({"schema": SCHEMA, **run}, indent=2) + "\n"
        write_atomically(self.run_file, text.encode())

    def mask_file(self, visit: int, task: str) -> Path:
        """Return the path of the masks that a visit has learned."""
        return self.masks / f"{visit:03d}-{task}.safetensors"

    def append_metrics(self, records: Iterable[PlainData]) -> int:
        """Append records and force them to disk; return the file's new length."""
        text = "".join(json.dumps(r, separators=(",", ":")) + "\n" for r in records)
        # Synced before the checkpoint that refers to this length is written.
        with (
            explain_write_errors(self.metrics_file),
            open(self.metrics_file, "ab") as file,
        ):
            file.write(text.encode())
            file.flush()
            os.fsync(file.fileno())
            return file.tell()

    def truncate_metrics(self, length: int) -> None:
        """Cut off all records after the checkpoint that a run resumes from."""
        with open(self.metrics_file, "ab") as file:
            if file.tell() < length:
                raise PersonaeError(
                    f"{self.metrics_file} is shorter ({file.tell()} bytes) than the "
                    f"checkpoint says ({length}): it was changed since"
                )
            file.truncate(length)

    def read_metrics(self) -> Iterator[PlainData]:
        """Yield all whole records; a line still being written is left out."""
        if not self.metrics_file.exists():
            return
        with open(self.metrics_file, encoding="utf-8", errors="replace") as file:
            for number, line in enumerate(file, start=1):
                # A report may read while the run is writing.
                if line.endswith("\n"):
                    yield self._record(number, line)

    def _record(self, number: int, line: str) -> PlainData:
        try:
            return migrate_record(dict(json.loads(line)))
        except (ValueError, TypeError) as error:
            raise PersonaeError(
                f"{self.metrics_file}, line {number}, is damaged: {error}"
            ) from error
