"""Agents learn the same on any number of devices."""

import os
import subprocess
import sys

import jax
import numpy as np
import pytest

from personae.errors import UsageError
from personae.methods import make_method
from personae.training.factory import make_training
from personae.training.sharding import CAN_SPLIT, Sharding

pytestmark = pytest.mark.slow

SEEDS = (0, 1, 2)


def trained(curriculum, devices):
    method = make_method("mask-lc", curriculum.method_options)
    training = make_training(curriculum, method, SEEDS, devices)
    assert training.programs.sharding.num_devices == devices
    agents, _ = training.programs.begin(training.programs.init(), 0, 0)
    agents, _ = training.trainer.chunk(agents, 0, 2, None)
    agents, _ = training.programs.begin(training.programs.end(agents, 1), 1, 1)
    agents, chunk = training.trainer.chunk(agents, 1, 2, None)
    return {**chunk.metrics, **training.programs.export(agents)}


@pytest.mark.skipif(not CAN_SPLIT, reason="this version of JAX cannot split agents")
def test_agents_are_the_same_on_one_device_and_on_two(tiny):
    """Equal up to rounding: programs for one device are compiled differently."""
    one, two = trained(tiny, 1), trained(tiny, 2)
    assert one.keys() == two.keys()
    for name, array in one.items():
        np.testing.assert_allclose(array, two[name], rtol=1e-4, atol=1e-6)


@pytest.mark.stress
@pytest.mark.skipif(not CAN_SPLIT, reason="this version of JAX cannot split agents")
def test_agents_are_bit_identical_on_two_devices_and_on_three(
    tiny_file, tmp_path, assert_same_run
):
    """Compile with optimisation, as users do.

    Without it, loops of different lengths round differently. JAX makes three devices
    on any number of cores.
    """
    unoptimised = ("JAX_DISABLE_MOST_OPTIMIZATIONS", "XLA_FLAGS")
    env = {name: value for name, value in os.environ.items() if name not in unoptimised}
    for devices in "23":
        program = [sys.executable, "-m", "personae.cli", "learn", str(tiny_file)]
        words = ["--method", "mask-lc", "--seeds", "3", "--quiet", "--devices", devices]
        out = ["--out", str(tmp_path / devices)]
        subprocess.run([*program, *words, *out], check=True, env=env)
    assert_same_run(tmp_path / "2", tmp_path / "3")


def test_asking_for_too_many_devices_names_the_number_present():
    number = len(jax.devices())
    with pytest.raises(UsageError, match=rf"over 64 devices: there are {number} \(cpu"):
        Sharding(100, 64)
    with pytest.raises(UsageError, match="over 0 devices"):
        Sharding(100, 0)
