"""One NVIDIA GPU for several processes at once.

Left alone the driver lets processes take turns, and each turn of a small network leaves
most of the GPU idle. NVIDIA's Multi-Process Service lets them compute side by side.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress

CONTROL, PIPES = "nvidia-cuda-mps-control", "CUDA_MPS_PIPE_DIRECTORY"
"""The service's program, and the variable with the folder in which it listens."""
ON_DEMAND = {"XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
"""Without this the first process would take three quarters of the memory."""
SECONDS_TO_END = 20


@contextmanager
def shared_gpu() -> Iterator[Mapping[str, str]]:
    """Yield environment variables for processes that share a GPU.

    Without the service, or if it does not work here, they take turns.
    """
    control = shutil.which(CONTROL)
    # A machine where the variable is set has a service running already.
    if control is None or PIPES in os.environ:
        yield ON_DEMAND
        return
    # A folder of its own, so that two programs do not share one service.
    with tempfile.TemporaryDirectory(prefix="personae-mps-") as folder:
        service = dict.fromkeys((PIPES, "CUDA_MPS_LOG_DIRECTORY"), folder)
        environment = os.environ | service
        subprocess.run([control, "-d"], env=environment, capture_output=True)
        try:
            yield ON_DEMAND | (service if _answers(environment) else {})
        finally:
            with suppress(OSError, subprocess.TimeoutExpired):
                subprocess.run(
                    [control],
                    input=b"quit\n",
                    env=environment,
                    capture_output=True,
                    timeout=SECONDS_TO_END,
                )


def _answers(environment: Mapping[str, str]) -> bool:
    """Tell whether a process can compute through the service.

    JAX would say nothing and compute on the CPU.
    """
    start = "import ctypes, sys; sys.exit(ctypes.CDLL('libcuda.so.1').cuInit(0))"
    probe = [sys.executable, "-c", start]
    return subprocess.run(probe, env=environment, capture_output=True).returncode == 0
