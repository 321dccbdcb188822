"""How JAX is started: the same bits each time, one core an agent, programs kept.

All of it must be said before JAX touches a device. Where that has happened already, or
where the environment says otherwise, things stay as they are.
"""

import hashlib
import os
import platform
from contextlib import suppress
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import jax

from personae.errors import require

XLA_FLAGS = {
    # Left to itself XLA times several kernels on a GPU and keeps the fastest, so that
    # two runs round differently (docs/reproducibility.md).
    "--xla_gpu_deterministic_ops": "true",
    # Hand even a single small kernel to the GPU as part of a graph: an update is some
    # sixty of them, and launched one by one they leave it idle for a third of the time.
    "--xla_gpu_graph_min_graph_size": "1",
}


def prepare_backend(
    num_agents: int, images: bool = False, devices: int | None = None
) -> None:
    """Prepare JAX for a run of so many agents, whose networks may see images.

    On CPUs as many devices are made as are wanted, or as there are cores for agents;
    two at least, as programs for several devices round as one another, but not always
    as those for one.
    """
    require(
        devices is None or devices >= 1,
        f"agents cannot be spread over {devices} devices",
    )
    _choose_xla_flags()
    wanted = max(2, available_cores()) if devices is None else devices
    lanes = min(wanted, num_agents)
    # Convolutions are large enough to be shared, if cores would be left over.
    if not images or devices is not None or num_agents >= available_cores():
        _give_each_agent_a_core(lanes)
    _keep_compiled_programs()


def _choose_xla_flags() -> None:
    flags = os.environ.get("XLA_FLAGS", "")
    ours = [f"{flag}={value}" for flag, value in XLA_FLAGS.items() if flag not in flags]
    os.environ["XLA_FLAGS"] = " ".join([flags, *ours]).strip()


def _give_each_agent_a_core(devices: int) -> None:
    """Make so many cores devices of their own, with one thread each.

    The matrices are too small to share: handing a part to a second thread costs more
    than computing it (docs/performance.md).
    """
    if not _has_accelerator():  # whose compiler would be left with one thread, too
        os.environ.setdefault("PJRT_NPROC", "1")
    if "host_platform_device_count" in os.environ["XLA_FLAGS"]:
        return
    with suppress(RuntimeError):  # if JAX has started, the devices are what they are
        _set_default("jax_num_cpu_devices", devices, unset=-1)


def available_cores() -> int:
    """Count the cores that this process may use; 1 where the system does not tell."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1


def _has_accelerator() -> bool:
    """Tell whether JAX may find more than CPUs, without making it look."""
    if os.environ.get("JAX_PLATFORMS", "") == "cpu":
        return False
    packages = ("jax_plugins", "libtpu")
    return bool(entry_points(group="jax_plugins")) or any(map(find_spec, packages))


def can_share_accelerator() -> bool | None:
    """Tell whether several processes can compute on one; None if there is none.

    NVIDIA's GPUs can be shared. JAX is not made to look: this process would take one.
    """
    if not _has_accelerator():
        return None
    return any("cuda" in plugin.name for plugin in entry_points(group="jax_plugins"))


def _keep_compiled_programs() -> None:
    """Keep compiled programs for the next run."""
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    folder = Path(cache) / "personae" / "xla" / _processor()
    _set_default("jax_compilation_cache_dir", str(folder), unset=None)
    _set_default("jax_persistent_cache_min_compile_time_secs", 0.1, unset=1.0)


def _set_default(option: str, value: Any, *, unset: Any) -> None:
    """Set an option of JAX that nobody has set."""
    if jax.config.values[option] == unset:
        jax.config.update(option, value)


def _processor() -> str:
    """Return a digest of the processor: another one may lack its instructions."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
        names = ("model name", "flags", "CPU part", "Features")
        lines = {line for line in text.splitlines() if line.startswith(names)}
        description = "\n".join(sorted(lines))
    except OSError:
        description = platform.machine() + platform.processor()
    return hashlib.sha256(description.encode()).hexdigest()[:16]
