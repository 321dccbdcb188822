"""The schedule of a run: visits cut into chunks of iterations, and phases."""

from collections.abc import Sequence
from itertools import accumulate

from personae.chunks import chunk_lengths
from personae.curricula.curriculum import Curriculum
from personae.errors import require


class Schedule:
    """The order of events in a run."""

    def __init__(self, curriculum: Curriculum, phases: Sequence[float]):
        self._curriculum = curriculum
        self._phases = phases
        self.num_visits = len(curriculum.visits)
        self.steps_per_iteration = curriculum.steps_per_iteration
        for visit in range(self.num_visits):
            chunks, needed = len(self.chunks(visit)), len(phases)
            every = curriculum.evaluation.interval * self.steps_per_iteration
            require(
                chunks >= needed,
                f"a method of {needed} phases, which change at evaluations, needs "
                f"{needed} on each task, and {self.task(visit)!r} has {chunks}: give "
                f"it more than {(needed - 1) * every:,} steps (--steps-per-task), or "
                f"evaluate it more often than each {every:,} (--evaluation.interval)",
            )

    def chunks(self, visit: int) -> list[int]:
        """Return the iterations of each chunk of a visit; the last may be shorter."""
        steps = self._curriculum.steps_of(self._curriculum.visits[visit])
        interval = self._curriculum.evaluation.interval
        return chunk_lengths(steps, self.steps_per_iteration, interval)

    @property
    def iterations(self) -> int:
        """Iterations of the whole run."""
        return sum(sum(self.chunks(visit)) for visit in range(self.num_visits))

    def changes_phase(self, visit: int, chunk: int) -> bool:
        """Tell whether a phase other than the first begins with a chunk."""
        count = len(self.chunks(visit))
        ends = [round(share * count) for share in accumulate(self._phases[:-1])]
        # Clamped: rounding must not leave the first or the last phase empty.
        return chunk > 0 and chunk in (min(max(end, 1), count - 1) for end in ends)

    def task(self, visit: int) -> str:
        """Return the name of the task of a visit."""
        return self._curriculum.tasks[self._curriculum.visits[visit]].name

    def learned(self, visit: int) -> int:
        """Count the different tasks learned before a visit."""
        return len(set(self._curriculum.visits[:visit]))
