"""ProcGen's games in EnvPool: which they are, and the libraries that they need.

EnvPool draws them with Qt 5, which it does not bring along. The package PyQt5-Qt5 has
it; its libraries are loaded here, so that nobody has to install any.
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
"""Each needs those before it."""
SYSTEM_LIBRARY = "libQt5Gui.so.5"
_NAME = re.compile(rf"({'|'.join(GAMES)})[a-z]+-v\d+", re.IGNORECASE)


def is_procgen(name: str) -> bool:
    """Tell whether an environment of EnvPool is one of ProcGen's games."""
    return _NAME.fullmatch(name) is not None


@cache
def load_qt() -> None:
    """Load the libraries that ProcGen needs, for the rest of the program.

    They are those of the extra, or else the system's own.
    """
    try:
        _load(_installed())
    except PersonaeError:
        if not _on_this_machine():
            raise
    looked_before = sys.modules.get("envpool.procgen")
    if looked_before is not None:  # in vain, as they were not there
        importlib.reload(looked_before)


def _installed() -> Iterable[PackagePath]:
    try:
        return files("PyQt5-Qt5") or []
    except PackageNotFoundError as error:
        raise PersonaeError(
            "ProcGen needs the libraries of Qt 5: pip install 'personae[procgen]'"
        ) from error


def _on_this_machine() -> bool:
    """Tell whether the system has the libraries itself."""
    try:
        ctypes.CDLL(SYSTEM_LIBRARY, mode=ctypes.RTLD_GLOBAL)
    except OSError:
        return False
    return True


def _load(found: Iterable[PackagePath]) -> None:
    for library in LIBRARIES:
        paths = [path for path in found if path.name.startswith(f"lib{library}.so")]
        if not paths:
            raise PersonaeError(
                f"ProcGen needs lib{library}.so, which the installed PyQt5-Qt5 lacks: "
                "pip install --force-reinstall 'PyQt5-Qt5>=5.15'"
            )
        try:
            ctypes.CDLL(str(paths[0].locate()), mode=ctypes.RTLD_GLOBAL)
        except OSError as error:
            raise PersonaeError(
                f"ProcGen needs lib{library}.so of Qt 5, which cannot be loaded: "
                f"{error}. On Debian and Ubuntu what it needs is in libgl1 and "
                "libglib2.0-0"
            ) from error
