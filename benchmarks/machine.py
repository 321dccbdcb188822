"""The machine on which a benchmark runs."""

import platform
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from personae.runs.provenance import provenance


def machine() -> dict[str, Any]:
    """Return the processor, the device, and the versions of libraries."""
    description = {"processor": platform.processor(), **provenance()}
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        lines = cpuinfo.read_text(encoding="utf-8").splitlines()
        models = [x.split(": ")[1] for x in lines if x.startswith("model name")]
        description["processor"] = f"{len(models)} x {models[0]}" if models else ""
    for rival in ("torch", "minigrid", "envpool", "onnxruntime"):
        if find_spec(rival):
            description["versions"][rival] = version(rival)
    return description
