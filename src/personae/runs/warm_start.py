"""The warm start of a run: the agent that it began with, kept in its directory."""

from personae.curricula.curriculum import Curriculum
from personae.errors import PersonaeError, require
from personae.methods.contract import Method
from personae.policy.jax.warm_start import InputSettings, digest, with_warm_start
from personae.runs.directory import RunDirectory


def read_warm_start(directory: RunDirectory) -> bytes:
    """Return the file of the agent that a run began with."""
    try:
        return directory.warm_start_file.read_bytes()
    except OSError as error:
        raise PersonaeError(
            f"the agent of the run's warm start cannot be read: {error}"
        ) from error


def apply_warm_start(
    method: Method, curriculum: Curriculum, data: bytes, expected_digest: str
) -> Method:
    """Return a method that starts with the masks of an agent.

    Args:
        method: The run's method.
        curriculum: The run's curriculum, whose inputs must be those of the agent.
        data: The content of the agent's file.
        expected_digest: The digest of that file in the run's configuration.
    """
    # A resumed run must not continue with another agent than it began with.
    require(
        digest(data) == expected_digest,
        "the agent in warm-start.persona is not the one of this run's configuration: "
        "one of them was changed",
    )
    inputs = InputSettings(
        label_dim=curriculum.label_dim,
        scale=curriculum.inputs.scale,
        previous_step=curriculum.inputs.previous_step,
        normalised=curriculum.normalise.observations,
    )
    return with_warm_start(method, inputs, data)
