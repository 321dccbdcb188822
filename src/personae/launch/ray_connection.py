"""The connection with a Ray cluster."""

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from personae.errors import PersonaeError, require
from personae.launch.ray_nodes import check_versions
from personae.rollouts.contract import MakeActors
from personae.rollouts.host_context import HostContext
from personae.rollouts.ray_actors import RayActors
from personae.training.config import RunConfig

THIS_MACHINE = "ray"
"""The name of a cluster of this machine alone."""
SECONDS_TO_CONNECT = 10


@contextmanager
def acting_on_ray(config: RunConfig, address: str) -> Iterator[MakeActors]:
    """Yield a factory of actors on the nodes of a cluster, connected meanwhile."""
    ray, curriculum = import_ray(), config.curriculum

    def make_actors(context: HostContext) -> RayActors:
        require(
            curriculum.chosen_learner.off_policy,
            "rollouts of actors on other nodes are a little out of date, for which "
            "only IMPALA corrects: say --learner impala",
        )
        return RayActors(context, ray, curriculum.to_plain())

    with connection(ray, address):
        check_versions(ray)
        yield make_actors


@contextmanager
def connection(ray: Any, address: str) -> Iterator[None]:
    """Stay connected with a cluster, or with a temporary one of this machine."""
    is_local = address == THIS_MACHINE
    try:
        if not is_local:
            _check_that_something_listens(address)
        # The driver would print the output of all nodes between the lines of the table.
        ray.init(
            address="local" if is_local else address,
            include_dashboard=False if is_local else None,
            log_to_driver=False,
            logging_level="ERROR",
        )
    except (
        ConnectionError,
        RuntimeError,
        ValueError,
        OSError,
        ray.exceptions.RayError,
    ) as error:
        raise PersonaeError(
            f"cannot connect with a Ray cluster at {address!r}: {str(error).strip()}. "
            "`ray start --head` starts one; --on ray makes one of this machine alone"
        ) from error
    try:
        yield
    finally:
        ray.shutdown()


def _check_that_something_listens(address: str) -> None:
    """Raise an OSError at once if nothing does: Ray would try for ten minutes."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if port.isdecimal():  # else it is a name that Ray knows, such as auto
        target = host.strip("[]"), int(port)
        socket.create_connection(target, timeout=SECONDS_TO_CONNECT).close()
    # The listener may be no cluster: Ray then tries once more, not twenty times.
    os.environ.setdefault("RAY_gcs_server_port_wait_time_s", "1")


def import_ray() -> Any:
    """Import Ray, which is an extra."""
    try:
        import ray
        import ray.exceptions
    except ImportError as error:
        raise PersonaeError(
            "runs on a cluster need Ray: pip install 'personae[ray]'"
        ) from error
    return ray
