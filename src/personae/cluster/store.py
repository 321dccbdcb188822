"""A place that all nodes reach, for clusters that share no folder: any fsspec URL.

A node works in a folder of its own and sends what has changed after each chunk, the
checkpoint last: whatever moment a node dies at, what is in the store can be resumed.
"""

import posixpath
from pathlib import Path
from typing import Any

from personae.errors import PersonaeError

LAST = ("checkpoints/chunk-", "run.json")
"""What tells that other files are there."""
LOCAL = ".tmp"
"""How files end that are still being written."""


class Store:
    """Run directories under a URL."""

    def __init__(self, url: str):
        try:
            import fsspec
        except ImportError as error:
            raise PersonaeError(
                "--store needs fsspec: pip install 'personae[ray]'"
            ) from error
        try:
            self._files, root = fsspec.core.url_to_fs(url)
        except (ValueError, ImportError, OSError) as error:
            raise PersonaeError(f"the store {url!r} cannot be used: {error}") from error
        self._root: str = root
        self._sent: dict[Path, tuple[int, int]] = {}

    def _there(self, *names: str) -> str:
        return posixpath.join(self._root, *names)

    def mark(self, name: str) -> None:
        """Leave an empty file, for others to see."""
        self._files.makedirs(self._root, exist_ok=True)
        self._files.pipe_file(self._there(name), b"-")

    def has(self, name: str) -> bool:
        """Tell whether there is such a file."""
        return bool(self._files.exists(self._there(name)))

    def remove(self, name: str) -> None:
        """Delete a file."""
        self._files.rm_file(self._there(name))

    def pull(self, name: str, folder: Path) -> None:
        """Bring a run directory here, if there is one."""
        for there in self._listed(name):
            path = folder / posixpath.relpath(there, self._there(name))
            path.parent.mkdir(parents=True, exist_ok=True)
            self._files.get_file(there, str(path))
            self._sent[path] = _stamp(path)

    def _listed(self, name: str) -> list[str]:
        root = self._there(name)
        return list(self._files.find(root)) if self._files.exists(root) else []

    def push(self, folder: Path, name: str) -> None:
        """Send what has changed in a run directory, then drop what is gone."""
        here = [p for p in folder.rglob("*") if p.is_file() and p.suffix != LOCAL]
        names = {path.relative_to(folder).as_posix(): path for path in here}
        for own in sorted(names, key=lambda each: (each.startswith(LAST), each)):
            self._send(names[own], self._there(name, own))
        for there in self._listed(name):
            if posixpath.relpath(there, self._there(name)) not in names:
                self._files.rm_file(there)

    def _send(self, path: Path, there: str) -> None:
        stamp = _stamp(path)
        if self._sent.get(path) == stamp:
            return
        self._files.makedirs(posixpath.dirname(there), exist_ok=True)
        self._files.put_file(str(path), there)
        self._sent[path] = stamp


def _stamp(path: Path) -> tuple[int, int]:
    told: Any = path.stat()
    return told.st_mtime_ns, told.st_size
