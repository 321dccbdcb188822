"""What decides a run."""

from dataclasses import dataclass
from typing import Any

from personae.curricula.spec import Curriculum
from personae.errors import nearest_match_error, require
from personae.methods.registry import METHODS, unread_settings
from personae.plain import to_plain


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

    def to_plain(self) -> dict[str, Any]:
        """Return it as plain data, without the settings of other methods."""
        plain = dict(to_plain(self))
        for name in unread_settings(self.method):
            del plain["curriculum"][name]
        return plain
