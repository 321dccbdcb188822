"""What decides a run."""

from dataclasses import dataclass
from typing import Any

from personae.curricula.spec import Curriculum
from personae.methods.registry import unread_settings
from personae.plain import to_plain


@dataclass(frozen=True)
class RunConfig:
    """Everything that decides what a run computes."""

    curriculum: Curriculum
    method: str
    seeds: tuple[int, ...]

    def to_plain(self) -> dict[str, Any]:
        """Return it as plain data, without the settings of other methods."""
        plain = dict(to_plain(self))
        for name in unread_settings(self.method):
            del plain["curriculum"][name]
        return plain
