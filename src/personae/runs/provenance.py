"""The origin of a result: time, versions, commit and machine."""

import platform
import subprocess
import time
from importlib.metadata import version
from pathlib import Path

import jax

from personae.serialise import PlainData

PACKAGES = ("personae", "jax", "jaxlib", "equinox", "optax", "numpy", "gymnasium")
"""Packages that decide numbers."""


def provenance() -> PlainData:
    """Return all that is needed to repeat a run, besides its configuration."""
    return {
        "started": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        "versions": {"python": platform.python_version()} | versions(),
        "commit": _commit(),
        "device": {
            "backend": jax.default_backend(),
            "kind": jax.devices()[0].device_kind,
            # Programs for one device may round differently than those for several.
            "count": jax.device_count(),
            "platform": platform.platform(),
        },
    }


def versions() -> dict[str, str | None]:
    """Return the versions of the packages that decide numbers."""
    return {name: _version(name) for name in PACKAGES}


def _version(package: str) -> str | None:
    try:
        return version(package)
    except ImportError:
        return None  # used from a source tree that was not installed


def _commit() -> str | None:
    """Return the commit of the source tree, marked if it was changed since."""
    source = Path(__file__)
    try:
        # An installed copy may lie inside somebody else's repository.
        _git(source, "ls-files", "--error-unmatch", source.name)
        return _git(source, "describe", "--always", "--dirty", "--abbrev=40")
    except (OSError, subprocess.CalledProcessError):
        return None


def _git(source: Path, *arguments: str) -> str:
    command = ["git", "-C", str(source.parent), *arguments]
    process = subprocess.run(command, capture_output=True, text=True, check=True)
    return process.stdout.strip()
