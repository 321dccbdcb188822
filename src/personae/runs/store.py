"""A place that all nodes reach, for clusters that share no folder: any fsspec URL.

A node works in a folder of its own and sends what has changed after each chunk, the
checkpoint last: whatever moment a node dies at, what is in the store can be resumed.
"""

import posixpath
import secrets
from pathlib import Path
from typing import Any

from personae.envs.third_party import ThirdPartyError, call
from personae.errors import PersonaeError

LAST = ("checkpoints/chunk-", "run.json")
"""What tells that other files are there."""
UNFINISHED = ".tmp"
"""How files end that are still being written."""


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

    def _do(self, what: str, *given: Any, **named: Any) -> Any:
        """Have the file system do something; each has errors of its own."""
        try:
            return call(getattr(self._files, what), *given, **named)
        except ThirdPartyError as error:
            raise PersonaeError(
                f"the store {self._url!r} fails ({what}): {error.original!r}"
            ) from error

    def _there(self, *names: str) -> str:
        return posixpath.join(self._root, *names)

    def write(self, name: str, text: str) -> None:
        """Leave a small file, for others to see."""
        there = self._there(name)
        self._do("makedirs", posixpath.dirname(there), exist_ok=True)
        self._do("pipe_file", there, text.encode())

    def read(self, name: str) -> str | None:
        """Return a small file, if there is one."""
        there = self._there(name)
        return bytes(self._do("cat_file", there)).decode() if self.has(name) else None

    def has(self, name: str) -> bool:
        """Tell whether there is such a file or folder."""
        self._do("invalidate_cache")  # others may have written since
        return bool(self._do("exists", self._there(name)))

    def remove(self, name: str) -> None:
        """Delete a file, if it is there."""
        if self.has(name):
            self._do("rm_file", self._there(name))

    def pull(self, name: str, folder: Path) -> None:
        """Bring a run directory here, if there is one."""
        root = self._there(name)
        for there in self._do("find", root) if self.has(name) else []:
            own = posixpath.relpath(there, root)
            if own != Claim.FILE and not own.endswith(UNFINISHED):
                path = folder / own
                path.parent.mkdir(parents=True, exist_ok=True)
                self._do("get_file", there, str(path))
                self._sent[f"{name}/{own}"] = _stamp(path)

    def push(self, folder: Path, name: str) -> None:
        """Send what has changed in a run directory, then drop what is gone from it."""
        here = [p for p in folder.rglob("*") if p.is_file()]
        names = {path.relative_to(folder).as_posix(): path for path in here}
        for own in sorted(names, key=lambda each: (each.startswith(LAST), each)):
            if not own.endswith(UNFINISHED):
                self._send(names[own], f"{name}/{own}")
        ours = [sent for sent in self._sent if sent.startswith(f"{name}/")]
        for gone in {sent for sent in ours if sent[len(name) + 1 :] not in names}:
            self.remove(gone)
            del self._sent[gone]

    def _send(self, path: Path, name: str) -> None:
        """Send a file; who looks at the store sees the old one or the whole new one."""
        stamp, there = _stamp(path), self._there(name)
        if self._sent.get(name) == stamp:
            return
        self._do("makedirs", posixpath.dirname(there), exist_ok=True)
        self._do("put_file", str(path), there + UNFINISHED)
        self._do("mv", there + UNFINISHED, there)
        self._sent[name] = stamp


class Claim:
    """Says whose a run is: that of the task that began to make it last.

    A node that was cut off may not know that another has taken its place.
    """

    FILE = ".owner"

    def __init__(self, store: Store, name: str):
        self._store, self._name = store, f"{name}/{self.FILE}"
        self._token = secrets.token_hex(8)
        store.write(self._name, self._token)

    def check(self) -> None:
        """Raise an error if somebody else has the run now."""
        if self._store.read(self._name) != self._token:
            raise PersonaeError("another task has taken this run over")

    def __enter__(self) -> "Claim":
        return self

    def __exit__(self, *_: object) -> None:
        if self._store.read(self._name) == self._token:
            self._store.remove(self._name)


def _stamp(path: Path) -> tuple[int, int]:
    told = path.stat()
    return told.st_mtime_ns, told.st_size
