"""What decides a run."""

from dataclasses import dataclass
from typing import Any

from personae.curricula.spec import Curriculum
from personae.errors import nearest_match_error, require
from personae.methods.base import Method
from personae.methods.registry import METHODS, make_method, unread_settings
from personae.plain import to_plain
from personae.training.schedule import Schedule


@dataclass(frozen=True)
class RunConfig:
    """Everything that decides what a run computes."""

    curriculum: Curriculum
    method: str
    seeds: tuple[int, ...]

    def __post_init__(self) -> None:
        if self.method not in METHODS:
            raise nearest_match_error("method", self.method, METHODS)
        outside = [seed for seed in self.seeds if not 0 <= seed < 2**32]
        require(not outside, f"seeds must lie in 0..2**32-1, not {outside}")
        different = len(set(self.seeds)) == len(self.seeds) > 0
        require(
            different,
            f"seeds must be one or more different numbers, not {list(self.seeds)}",
        )
        self.make_schedule()  # which finds chunks that do not fit the method

    def make_method(self) -> Method:
        """Return the method, with its settings."""
        return make_method(self.method, self.curriculum.method_options)

    def make_schedule(self) -> Schedule:
        """Return when what happens."""
        return Schedule(self.curriculum, self.make_method().traits.phases)

    def to_plain(self) -> dict[str, Any]:
        """Return it as plain data, without the settings of other methods."""
        plain = dict(to_plain(self))
        for name in unread_settings(self.method):
            del plain["curriculum"][name]
        return plain
