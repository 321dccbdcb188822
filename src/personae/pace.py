"""How a visit is cut into chunks: iterations up to an evaluation."""

import math


def chunk_lengths(steps: int, steps_per_iteration: int, interval: int) -> list[int]:
    """Return the iterations of each chunk; the last may be shorter."""
    iterations = math.ceil(steps / steps_per_iteration)
    full, rest = divmod(iterations, interval)
    return [interval] * full + [rest] * (rest > 0)
