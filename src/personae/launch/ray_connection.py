"""Being connected with a Ray cluster."""

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from personae.errors import PersonaeError
from personae.launch.ray_nodes import check_versions
from personae.rollouts.contract import MakeActors
from personae.rollouts.ray_actors import RayActors
from personae.training.config import RunConfig

HERE = "ray"
"""What stands for a cluster of this machine alone."""
SECONDS_TO_ANSWER = 10
"""Within which something has to listen at an address."""


@contextmanager
def acting_on_ray(config: RunConfig, where: str) -> Iterator[MakeActors]:
    """Give what acts on the nodes of a cluster, as long as it is needed."""
    ray = import_ray()
    with connected(ray, where):
        check_versions(ray)
        yield partial(RayActors, ray=ray, curriculum=config.curriculum.to_plain())


@contextmanager
def connected(ray: Any, where: str) -> Iterator[None]:
    """Stay connected with a cluster, or with one of this machine for the time being."""
    address = "local" if where == HERE else where
    try:
        if where != HERE:
            _check_that_something_listens(address)
        ray.init(
            address=address,
            include_dashboard=False if where == HERE else None,
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
            f"cannot connect with a Ray cluster at {where!r}: {str(error).strip()}. "
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
        place = host.strip("[]"), int(port)
        socket.create_connection(place, timeout=SECONDS_TO_ANSWER).close()
    # What listens may be no cluster: Ray then tries once more, not twenty times.
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
