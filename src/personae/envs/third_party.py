"""Calls into code of third parties, such as a user's environment."""

import traceback
from collections.abc import Callable
from typing import Any, ParamSpec

from personae.errors import PersonaeError

P = ParamSpec("P")


class ThirdPartyError(PersonaeError):
    """An exception of third-party code, with the traceback to its cause."""

    def __init__(self, original: Exception):
        super().__init__("".join(traceback.format_exception(original)).rstrip())
        self.original = original


def call(
    function: Callable[P, object], *arguments: P.args, **keywords: P.kwargs
) -> Any:
    """Call a third-party function; raise a `ThirdPartyError` if it fails.

    The result has no type: third-party code may return other types than it declares.
    """
    try:
        return function(*arguments, **keywords)
    except PersonaeError:  # our own code below it already explains the mistake
        raise
    except Exception as error:  # an environment may raise any type
        raise ThirdPartyError(error) from error
