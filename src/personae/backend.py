"""The start of JAX: reproducible kernels, one core an agent, a cache of programs.

All settings must be made before JAX touches a device. Where it has done so already, or
where the environment sets them, they stay unchanged.
"""

import hashlib
import os
import platform
from contextlib import suppress
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path

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

    On CPUs there will be as many devices as asked for, or as there are cores for
    agents.
    """
    require(
        devices is None or devices >= 1,
        f"agents cannot be spread over {devices} devices",
    )
    _set_xla_flags()
    # At least two: programs for several devices all round alike, but not always like
    # those for one device, and results should not depend on the number of cores.
    limit = max(2, available_cores()) if devices is None else devices
    devices_used = min(limit, num_agents)
    # Convolutions are large enough to be shared, if cores would be left over.
    if not images or devices is not None or num_agents >= available_cores():
        _give_each_agent_a_core(devices_used)
    _cache_programs()


def _set_xla_flags() -> None:
    flags = os.environ.get("XLA_FLAGS", "")
    added = [
        f"{name}={value}" for name, value in XLA_FLAGS.items() if name not in flags
    ]
    os.environ["XLA_FLAGS"] = " ".join([flags, *added]).strip()


def _give_each_agent_a_core(devices: int) -> None:
    """Make so many cores devices of their own, with one thread each.

    The matrices are too small to share: handing a part to a second thread costs more
    than computing it (docs/performance.md).
    """
    # An accelerator's compiler would be left with one thread, too.
    if not _has_accelerator():
        os.environ.setdefault("PJRT_NPROC", "1")
    if "host_platform_device_count" in os.environ["XLA_FLAGS"]:
        return
    with suppress(RuntimeError):  # JAX has started: its devices cannot change
        _set_default("jax_num_cpu_devices", devices, unset=-1)


def available_cores() -> int:
    """Return the number of cores that this process may use; 1 if it is unknown."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1


def _has_accelerator() -> bool:
    """Tell whether JAX may find more than CPUs, without making it look."""
    if os.environ.get("JAX_PLATFORMS", "") == "cpu":
        return False
    packages = ("jax_plugins", "libtpu")
    return bool(entry_points(group="jax_plugins")) or any(map(find_spec, packages))


def can_share_accelerator() -> bool | None:
    """Tell whether processes can share an accelerator; None if there is none.

    NVIDIA's GPUs can be shared. JAX itself is not asked: it would take a GPU for this
    process.
    """
    if not _has_accelerator():
        return None
    return any("cuda" in plugin.name for plugin in entry_points(group="jax_plugins"))


def _cache_programs() -> None:
    """Cache compiled programs on disk for the next run."""
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    folder = Path(cache) / "personae" / "xla" / _processor()
    _set_default("jax_compilation_cache_dir", str(folder), unset=None)
    _set_default("jax_persistent_cache_min_compile_time_secs", 0.1, unset=1.0)


def _set_default(option: str, value: object, *, unset: object) -> None:
    """Set an option of JAX unless it is set already."""
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
