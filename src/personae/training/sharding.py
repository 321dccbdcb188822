"""The agent axis, shared out over the devices that there are.

Everything else is written for one agent. On accelerators the agents of a device are
mapped with `vmap` and share their kernels. On CPUs, where each core is a device, they
are computed one after another: an agent's working set then stays in the core's cache.
"""

import threading
from collections import defaultdict
from collections.abc import Callable
from typing import Any, Generic, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jaxtyping import PyTree

from personae.backend import available_cores
from personae.errors import require
from personae.keys import key_data

T = TypeVar("T")
AXIS = "agents"
CAN_SPLIT = jax.__version_info__[:2] != (0, 11)
"""JAX 0.11 crashes when it splits empty arrays, such as a bank without slots."""


class Sharding:
    """Agents on devices; the last agent is repeated until all devices have as many."""

    def __init__(self, num_agents: int, max_devices: int | None = None):
        """Spread agents over all devices there are, or over so many at most."""
        devices = jax.devices()
        wanted = num_agents if max_devices is None else min(num_agents, max_devices)
        require(
            max_devices is None or 1 <= wanted <= len(devices),
            f"agents cannot be spread over {max_devices} devices: there are "
            f"{len(devices)} ({devices[0].device_kind})",
        )
        require(
            max_devices is None or wanted == 1 or CAN_SPLIT,
            f"JAX {jax.__version__} cannot spread agents over devices; 0.10 can",
        )
        devices = devices[: wanted if CAN_SPLIT else 1]
        self._num_agents = num_agents
        self._repeated = -num_agents % len(devices)
        self._one_by_one = devices[0].platform == "cpu"
        mesh = Mesh(np.asarray(devices), (AXIS,))
        self._sharding = NamedSharding(mesh, PartitionSpec(AXIS))

    def compile(self, of_one: Callable[[Any, Any], T]) -> "Program[T]":
        """Turn a function of one agent and shared data into one of all agents."""

        def of_device(agents: PyTree, shared: PyTree) -> T:
            if self._one_by_one:
                return jax.lax.map(lambda agent: of_one(agent, shared), agents)
            return jax.vmap(of_one, (0, None))(agents, shared)

        mesh = self._sharding.mesh
        of_all = jax.shard_map(
            of_device,
            mesh=mesh,
            in_specs=(PartitionSpec(AXIS), PartitionSpec()),
            out_specs=PartitionSpec(AXIS),
            check_vma=False,
        )
        everywhere = NamedSharding(mesh, PartitionSpec())
        # Explicit, as empty arrays would otherwise come out on every device.
        inputs, outputs = (self._sharding, everywhere), self._sharding
        return Program(jax.jit(of_all, in_shardings=inputs, out_shardings=outputs))

    def to_devices(self, agents: T) -> T:
        """Bring one entry per agent onto the devices."""

        def repeat_last(leaf: Any) -> Any:
            return jnp.concatenate([leaf, *[leaf[-1:]] * self._repeated])

        padded = jax.tree.map(repeat_last, agents) if self._repeated else agents
        # One transfer for all devices; each gets its own agents only.
        return jax.device_put(padded, self._sharding)

    def select(self, agents: T, index: int | slice) -> T:
        """Return one agent, or some, on one device.

        Cut out where they lie, they would be exchanged between devices, whose threads
        may then wait for each other until XLA gives up.
        """
        gathered = jax.device_put(agents, self._sharding.mesh.devices.flat[0])
        return jax.tree.map(lambda leaf: leaf[index], gathered)

    def on_one_device(self, agents: T, device: jax.sharding.Sharding) -> T:
        """Return all agents on one device, without the repeated ones."""
        if self.num_devices > 1:
            agents = self.select(agents, slice(self._num_agents))
        return jax.device_put(agents, device)

    @property
    def num_devices(self) -> int:
        """Number of devices that agents are spread over."""
        return self._sharding.num_devices

    @property
    def spare_cores(self) -> int:
        """Number of cores that no agent is trained on."""
        busy = self.num_devices if self._one_by_one else 1
        return available_cores() - busy

    def host_shapes(self, on_devices: T) -> T:
        """Return the shapes of arguments of `to_devices`, from those of its results."""
        return self._with_agents(on_devices, self._num_agents)

    def device_shapes(self, agents: T) -> T:
        """Return the shapes of results of `to_devices`, from those of its arguments."""
        return self._with_agents(agents, self._num_agents + self._repeated)

    def _with_agents(self, shapes: T, number: int) -> T:
        return jax.tree.map(
            lambda leaf: jax.ShapeDtypeStruct((number, *leaf.shape[1:]), leaf.dtype),
            shapes,
        )

    def to_host(self, agents: PyTree) -> Any:
        """Return one entry per agent in NumPy; random keys become their data."""

        def fetch(leaf: Any) -> np.ndarray:
            # Repeated agents are dropped: checkpoints know nothing of devices.
            return np.asarray(key_data(leaf))[: self._num_agents]

        return jax.tree.map(fetch, agents)


class Program(Generic[T]):
    """A function of all agents and of shared data, compiled once for given shapes.

    It can be compiled before there are arguments to call it with, in another thread.
    """

    def __init__(self, jitted: Any):
        self._jitted = jitted
        self._compiled: dict[Any, Callable[[Any, Any], T]] = {}
        self._locks: defaultdict[Any, threading.Lock] = defaultdict(threading.Lock)

    def __call__(self, agents: PyTree, shared: PyTree) -> T:
        """Call the function."""
        return self.prepare(agents, shared)(agents, shared)

    def prepare(self, agents: PyTree, shared: PyTree) -> Callable[[Any, Any], T]:
        """Compile it for arguments of these shapes, unless that has been done."""
        leaves, structure = jax.tree.flatten((agents, shared))
        shapes = (structure, *((leaf.shape, leaf.dtype) for leaf in leaves))
        if shapes not in self._compiled:
            # A second thread waits for the first instead of compiling it again.
            with self._locks[shapes]:
                if shapes not in self._compiled:
                    lowered = self._jitted.lower(agents, shared)
                    self._compiled[shapes] = lowered.compile()
        return self._compiled[shapes]

    def shapes(self, agents: PyTree, shared: PyTree) -> T:
        """Return the shapes of the results."""
        return jax.eval_shape(self._jitted, agents, shared)

    @property
    def times_compiled(self) -> int:
        """Number of sets of shapes that it was compiled for."""
        return len(self._compiled)
