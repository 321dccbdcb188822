"""The agent axis, split over the devices there are: each device is a lane.

Everything else is written for one agent. On accelerators the agents of a lane are
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

from personae.backend import available_cores
from personae.errors import require
from personae.keys import key_data

T = TypeVar("T")
AXIS = "agents"
CAN_SPLIT = jax.__version_info__[:2] != (0, 11)
"""JAX 0.11 crashes when it splits empty arrays, such as a bank without slots."""


class Sharding:
    """Agents on devices; the last one is repeated until all lanes are equally long."""

    def __init__(self, num_agents: int, most: int | None = None):
        """Spread agents over all devices there are, or over so many at most."""
        there = jax.devices()
        wanted = num_agents if most is None else min(num_agents, most)
        require(
            most is None or 1 <= wanted <= len(there),
            f"agents cannot be spread over {most} devices: there are {len(there)} "
            f"({there[0].device_kind})",
        )
        require(
            most is None or wanted == 1 or CAN_SPLIT,
            f"JAX {jax.__version__} cannot spread agents over devices; 0.10 can",
        )
        devices = there[: wanted if CAN_SPLIT else 1]
        self._num_agents = num_agents
        self._repeated = -num_agents % len(devices)
        self._one_by_one = devices[0].platform == "cpu"
        mesh = Mesh(np.asarray(devices), (AXIS,))
        self._sharding = NamedSharding(mesh, PartitionSpec(AXIS))

    def compile(self, of_one: Callable[[Any, Any], T]) -> "Program[T]":
        """Turn a function of one agent and shared data into one of all agents."""

        def of_lane(agents: Any, shared: Any) -> T:
            if self._one_by_one:
                return jax.lax.map(lambda agent: of_one(agent, shared), agents)
            return jax.vmap(of_one, (0, None))(agents, shared)

        mesh = self._sharding.mesh
        of_all = jax.shard_map(
            of_lane,
            mesh=mesh,
            in_specs=(PartitionSpec(AXIS), PartitionSpec()),
            out_specs=PartitionSpec(AXIS),
            check_vma=False,
        )
        everywhere = NamedSharding(mesh, PartitionSpec())
        # Said outright, or empty arrays would come out in every lane.
        ours, lanes = (self._sharding, everywhere), self._sharding
        return Program(jax.jit(of_all, in_shardings=ours, out_shardings=lanes))

    def place(self, agents: T) -> T:
        """Bring one entry per agent onto the devices."""

        def pad(leaf: Any) -> Any:
            return jnp.concatenate([leaf, *[leaf[-1:]] * self._repeated])

        padded = jax.tree.map(pad, agents) if self._repeated else agents
        return jax.device_put(padded, self._sharding)

    def pick(self, agents: T, which: int | slice) -> T:
        """Return one agent, or some, on one device.

        Cut out where they lie, they would be exchanged between devices, whose threads
        may then wait for each other until XLA gives up.
        """
        gathered = jax.device_put(agents, self._sharding.mesh.devices.flat[0])
        return jax.tree.map(lambda leaf: leaf[which], gathered)

    @property
    def number(self) -> int:
        """How many there are."""
        return self._sharding.num_devices

    @property
    def spare_cores(self) -> int:
        """Cores that no agent is trained on."""
        busy = self.number if self._one_by_one else 1
        return available_cores() - busy

    def shapes_of_agents(self, placed: T) -> T:
        """Return the shapes of what `place` takes, from those of what it returns."""

        def trim(leaf: Any) -> Any:
            shape = (self._num_agents, *leaf.shape[1:])
            return jax.ShapeDtypeStruct(shape, leaf.dtype)

        return jax.tree.map(trim, placed)

    def shapes_placed(self, agents: T) -> T:
        """Return the shapes of what `place` returns, from those of what it takes."""

        def pad(leaf: Any) -> Any:
            shape = (self._num_agents + self._repeated, *leaf.shape[1:])
            return jax.ShapeDtypeStruct(shape, leaf.dtype)

        return jax.tree.map(pad, agents)

    def fetch(self, agents: Any) -> Any:
        """Return one entry per agent in numpy; random keys become their data."""

        def host(leaf: Any) -> np.ndarray:
            return np.asarray(key_data(leaf))[: self._num_agents]

        return jax.tree.map(host, agents)


class Program(Generic[T]):
    """A function of all agents and of shared data, compiled once for given shapes.

    It can be compiled before there is anything to call it with, in another thread.
    """

    def __init__(self, jitted: Any):
        self._jitted = jitted
        self._compiled: dict[Any, Callable[[Any, Any], T]] = {}
        self._compiling: defaultdict[Any, threading.Lock] = defaultdict(threading.Lock)

    def __call__(self, agents: Any, shared: Any) -> T:
        """Call the function."""
        return self.prepare(agents, shared)(agents, shared)

    def prepare(self, agents: Any, shared: Any) -> Callable[[Any, Any], T]:
        """Compile it for arguments of these shapes, unless somebody has or does."""
        leaves, structure = jax.tree.flatten((agents, shared))
        shapes = (structure, *((leaf.shape, leaf.dtype) for leaf in leaves))
        if shapes not in self._compiled:
            with self._compiling[shapes]:  # who comes second waits for the first
                if shapes not in self._compiled:
                    lowered = self._jitted.lower(agents, shared)
                    self._compiled[shapes] = lowered.compile()
        return self._compiled[shapes]

    def shapes(self, agents: Any, shared: Any) -> T:
        """Return the shapes of what it would return."""
        return jax.eval_shape(self._jitted, agents, shared)

    @property
    def times_compiled(self) -> int:
        """For how many sets of shapes it was compiled."""
        return len(self._compiled)
