"""ProcGen's games in EnvPool: their names, and the libraries that they need.

EnvPool draws them with Qt 5, which it does not contain. The package PyQt5-Qt5 does;
its libraries are loaded from there, so that users need not install any by hand.
"""

import ctypes
import importlib
import re
import sys
from collections.abc import Iterable
from functools import cache
from importlib.metadata import PackageNotFoundError, PackagePath, files

from personae.errors import PersonaeError

GAMES = (
    "bigfish",
    "bossfight",
    "caveflyer",
    "chaser",
    "climber",
    "coinrun",
    "dodgeball",
    "fruitbot",
    "heist",
    "jumper",
    "leaper",
    "maze",
    "miner",
    "ninja",
    "plunder",
    "starpilot",
)
LIBRARIES = ("icudata", "icuuc", "icui18n", "Qt5Core", "Qt5Gui")
"""The libraries to load, in order: each needs those before it."""
SYSTEM_LIBRARY = "libQt5Gui.so.5"
_NAME = re.compile(rf"({'|'.join(GAMES)})[a-z]+-v\d+", re.IGNORECASE)


def is_procgen(name: str) -> bool:
    """Return whether an environment of EnvPool is one of ProcGen's games."""
    return _NAME.fullmatch(name) is not None


@cache
def load_qt() -> None:
    """Load the libraries that ProcGen needs, for the rest of the program.

    They are those of the extra, or else the system's own.
    """
    try:
        _load(_packaged_files())
    except PersonaeError:
        if not _load_from_system():
            raise
    # EnvPool may have been imported before: then it looked for the libraries in vain.
    module = sys.modules.get("envpool.procgen")
    if module is not None:
        importlib.reload(module)


def _packaged_files() -> Iterable[PackagePath]:
    try:
        return files("PyQt5-Qt5") or []
    except PackageNotFoundError as error:
        raise PersonaeError(
            "ProcGen needs the libraries of Qt 5: pip install 'personae[procgen]'"
        ) from error


def _load_from_system() -> bool:
    """Load the system's own library; return whether it has one."""
    try:
        ctypes.CDLL(SYSTEM_LIBRARY, mode=ctypes.RTLD_GLOBAL)
    except OSError:
        return False
    return True


def _load(package_files: Iterable[PackagePath]) -> None:
    for library in LIBRARIES:
        prefix = f"lib{library}.so"  # a version follows, which the package decides
        paths = [path for path in package_files if path.name.startswith(prefix)]
        if not paths:
            raise PersonaeError(
                f"ProcGen needs lib{library}.so, which the installed PyQt5-Qt5 lacks: "
                "pip install --force-reinstall 'PyQt5-Qt5>=5.15'"
            )
        try:
            # Global, so that EnvPool's own library finds the symbols.
            ctypes.CDLL(str(paths[0].locate()), mode=ctypes.RTLD_GLOBAL)
        except OSError as error:
            raise PersonaeError(
                f"ProcGen needs lib{library}.so of Qt 5, which cannot be loaded: "
                f"{error}. On Debian and Ubuntu what it needs is in libgl1 and "
                "libglib2.0-0"
            ) from error
