"""Where a result came from: time, versions, commit and machine."""

import platform
import subprocess
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

import jax

PACKAGES = ("personae", "jax", "jaxlib", "equinox", "optax", "numpy", "gymnasium")


def provenance() -> dict[str, Any]:
    """Return what is needed to repeat a run, besides its configuration."""
    return {
        "started": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        "versions": {"python": platform.python_version()} | versions(),
        "commit": _commit(),
        "device": {
            "backend": jax.default_backend(),
            "kind": jax.devices()[0].device_kind,
            "count": jax.device_count(),
            "platform": platform.platform(),
        },
    }


def versions() -> dict[str, str | None]:
    """Return the versions of what decides numbers."""
    return {name: _version(name) for name in PACKAGES}


def _version(package: str) -> str | None:
    try:
        return version(package)
    except ImportError:
        return None  # used from a source tree that was not installed


def _commit() -> str | None:
    """Return the commit of the source tree, marked if it was changed since."""
    here = Path(__file__)
    try:
        # An installed copy may lie inside somebody else's repository.
        _git(here, "ls-files", "--error-unmatch", here.name)
        return _git(here, "describe", "--always", "--dirty", "--abbrev=40")
    except (OSError, subprocess.CalledProcessError):
        return None


def _git(here: Path, *arguments: str) -> str:
    command = ["git", "-C", str(here.parent), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return done.stdout.strip()
