"""Storage that all nodes of a cluster reach, if they share no folder: any fsspec URL.

A node works in a folder of its own and sends all changes after each chunk, the
checkpoint last: at whatever time a node dies, the store can be resumed from.
"""

import posixpath
import secrets
from pathlib import Path
from typing import Any

from personae.envs.third_party import ThirdPartyError, call
from personae.errors import PersonaeError

LAST = ("checkpoints/chunk-", "run.json")
"""Files that refer to others, and are therefore sent after them."""
UNFINISHED = ".tmp"
"""Ending of the names of files that are still being written."""


class Store:
    """Run directories under a URL."""

    def __init__(self, url: str):
        try:
            import fsspec
        except ImportError as error:
            raise PersonaeError(
                "runs on a cluster need fsspec: pip install 'personae[ray]'"
            ) from error
        self._url = url
        try:
            self._files, root = fsspec.core.url_to_fs(url)
        except (ValueError, ImportError, OSError) as error:
            raise PersonaeError(f"the store {url!r} cannot be used: {error}") from error
        self._root: str = root
        self._sent: dict[str, tuple[int, int]] = {}

    def _call(self, operation: str, *arguments: object, **keywords: object) -> Any:
        """Return the result of an operation of the file system."""
        # Every file system of fsspec raises errors of its own, none of which is ours.
        try:
            return call(getattr(self._files, operation), *arguments, **keywords)
        except ThirdPartyError as error:
            raise PersonaeError(
                f"the store {self._url!r} fails ({operation}): {error.original!r}"
            ) from error

    def _path(self, *names: str) -> str:
        return posixpath.join(self._root, *names)

    def write(self, name: str, text: str) -> None:
        """Write a small file."""
        path = self._path(name)
        self._call("makedirs", posixpath.dirname(path), exist_ok=True)
        self._call("pipe_file", path, text.encode())

    def read(self, name: str) -> str | None:
        """Return the text of a small file, or None if it does not exist."""
        if not self.has(name):
            return None
        return bytes(self._call("cat_file", self._path(name))).decode()

    def has(self, name: str) -> bool:
        """Tell whether a file or folder exists."""
        self._call("invalidate_cache")  # other nodes may have written since
        return bool(self._call("exists", self._path(name)))

    def remove(self, name: str) -> None:
        """Delete a file if it exists."""
        if self.has(name):
            self._call("rm_file", self._path(name))

    def pull(self, name: str, folder: Path) -> None:
        """Copy a run directory, if it exists, into a folder of this machine."""
        root = self._path(name)
        for source in self._call("find", root) if self.has(name) else []:
            relative = posixpath.relpath(source, root)
            if relative != Claim.FILE and not relative.endswith(UNFINISHED):
                path = folder / relative
                path.parent.mkdir(parents=True, exist_ok=True)
                self._call("get_file", source, str(path))
                self._sent[f"{name}/{relative}"] = _stamp(path)

    def push(self, folder: Path, name: str) -> None:
        """Send all changes of a run directory, then delete files that it lost."""
        paths = [path for path in folder.rglob("*") if path.is_file()]
        files = {path.relative_to(folder).as_posix(): path for path in paths}
        for file in sorted(files, key=lambda file: (file.startswith(LAST), file)):
            if not file.endswith(UNFINISHED):
                self._send(files[file], f"{name}/{file}")
        # Only files that this object has sent or pulled: others are another task's.
        sent = [file for file in self._sent if file.startswith(f"{name}/")]
        for file in sent:
            if file[len(name) + 1 :] not in files:
                self.remove(file)
                del self._sent[file]

    def _send(self, path: Path, name: str) -> None:
        """Send a file, so that readers get the old one or the whole new one."""
        stamp, target = _stamp(path), self._path(name)
        if self._sent.get(name) == stamp:
            return
        self._call("makedirs", posixpath.dirname(target), exist_ok=True)
        self._call("put_file", str(path), target + UNFINISHED)
        self._call("mv", target + UNFINISHED, target)
        self._sent[name] = stamp


class Claim:
    """The ownership of a run: the last task that claimed it is the one to make it.

    A node that was cut off may not know that another task has taken over.
    """

    FILE = ".owner"

    def __init__(self, store: Store, name: str):
        self._store, self._name = store, f"{name}/{self.FILE}"
        self._token = secrets.token_hex(8)
        store.write(self._name, self._token)

    def check(self) -> None:
        """Raise an error if another task has claimed the run since."""
        if self._store.read(self._name) != self._token:
            raise PersonaeError("another task has taken this run over")

    def __enter__(self) -> "Claim":
        return self

    def __exit__(self, *_: object) -> None:
        # The claim of a task that has taken over must stay.
        if self._store.read(self._name) == self._token:
            self._store.remove(self._name)


def _stamp(path: Path) -> tuple[int, int]:
    """Return the time and size of a file, by which changes are noticed."""
    status = path.stat()
    return status.st_mtime_ns, status.st_size
