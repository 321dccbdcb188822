"""Calling what somebody else wrote, which may raise whatever it likes."""

import traceback
from collections.abc import Callable
from typing import Any

from personae.errors import PersonaeError


class ThirdPartyError(PersonaeError):
    """What an environment raised, with the place where it did."""

    def __init__(self, original: Exception):
        super().__init__("".join(traceback.format_exception(original)).rstrip())
        self.original = original


def call(function: Callable[..., Any], *given: Any, **named: Any) -> Any:
    """Call a function of an environment; our own errors pass as they are."""
    try:
        return function(*given, **named)
    except PersonaeError:
        raise
    except Exception as error:  # what others wrote may raise anything
        raise ThirdPartyError(error) from error
