"""The data that interactive charts and printed figures draw alike."""

from collections.abc import Mapping, Sequence

import numpy as np
from jaxtyping import Float

from personae.report.data.record import Preview, Record

Policy = Float[np.ndarray, "steps actions"]


def longest_evaluated(records: Sequence[Record]) -> Record:
    """Return the record with the most evaluations."""
    return max(records, key=lambda record: len(record.evaluation_steps))


def longest_trained(records: Sequence[Record]) -> Record:
    """Return the record with the most visits begun."""
    return max(records, key=lambda record: len(record.training))


def num_previews(records: Sequence[Record]) -> int:
    """Return the number of visits of which some record has a preview."""
    return max(len(record.previews) for record in records)


def preview_policies(
    records: Sequence[Record], visit: int
) -> tuple[Preview, Mapping[str, Policy]]:
    """Return the preview of a visit, and all methods' policies along its path.

    The policies are means over agents; the last of them is the optimal one.
    """
    shown = [record for record in records if visit < len(record.previews)]
    preview = shown[0].previews[visit]
    policies = {r.method: r.previews[visit].probabilities.mean(0) for r in shown}
    policies["optimal"] = np.eye(preview.probabilities.shape[-1])[preview.actions]
    return preview, policies
