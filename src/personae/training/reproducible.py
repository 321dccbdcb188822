"""The same seed on the same device gives the same run, bit for bit."""

import os

FLAG = "--xla_gpu_deterministic_ops"


def make_reproducible() -> None:
    """Ask XLA for deterministic operations on GPUs; CPUs have no others.

    Left to itself XLA times several kernels on the GPU and keeps the fastest, so that
    two runs round differently. Without that, compilation is shorter and training about
    a tenth slower (docs/reproducibility.md). It must be said before JAX starts a
    backend; who has chosen otherwise in XLA_FLAGS keeps that.
    """
    flags = os.environ.get("XLA_FLAGS", "")
    if FLAG not in flags:
        os.environ["XLA_FLAGS"] = f"{flags} {FLAG}=true".strip()
