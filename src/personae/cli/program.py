"""The program, which parses arguments, runs a command and returns an exit code."""

import dataclasses
import itertools
import os
import shlex
import sys
from collections.abc import Sequence
from typing import (
    Annotated,
    Any,
    Literal,
    TypeAlias,
    get_args,
    get_origin,
    get_type_hints,
)

import rich.markup
import tyro

from personae.cli.check import Check
from personae.cli.compare import Compare
from personae.cli.console import ERRORS
from personae.cli.curricula import Curricula
from personae.cli.evaluate import Evaluate
from personae.cli.learn import Learn
from personae.cli.policy import Policy
from personae.cli.preset import settings_of
from personae.cli.report import Report
from personae.cli.reproduce import Reproduce
from personae.curricula import Preset, find_curriculum
from personae.errors import PersonaeError, UsageError, nearest_match_error

COMMANDS = (
    "learn",
    "compare",
    "reproduce",
    "report",
    "evaluate",
    "policy",
    "check",
    "curricula",
)
Command: TypeAlias = (
    Learn | Compare | Reproduce | Report | Evaluate | Policy | Check | Curricula
)
INTERRUPTED = 130
"""Exit code after Ctrl-C: 128 and the number of SIGINT, as in shells."""
BROKEN_PIPE = 141
"""Exit code if the reader of the output has gone: 128 and the number of SIGPIPE."""


def _parse(arguments: Sequence[str], curriculum: str | None) -> Command:
    """Parse the command line, with a curriculum's own settings as defaults."""
    # tyro takes defaults per subcommand, so only these two can get the curriculum's.
    learn_default: dict[str, Any] = {}
    compare_default: dict[str, Any] = {}
    if curriculum is not None:
        settings = settings_of(find_curriculum(curriculum))
        learn_default["default"] = Learn(curriculum, **settings)
        compare_default["default"] = Compare(curriculum, **settings)
    return tyro.cli(
        Annotated[Learn, tyro.conf.subcommand("learn", **learn_default)]
        | Annotated[Compare, tyro.conf.subcommand("compare", **compare_default)]
        | Annotated[Reproduce, tyro.conf.subcommand("reproduce")]
        | Annotated[Report, tyro.conf.subcommand("report")]
        | Annotated[Evaluate, tyro.conf.subcommand("evaluate")]
        | Annotated[Policy, tyro.conf.subcommand("policy")]
        | Annotated[Check, tyro.conf.subcommand("check")]
        | Annotated[Curricula, tyro.conf.subcommand("curricula")],
        prog="personae",
        description="Lifelong reinforcement learning with modulating masks.",
        args=arguments,
    )


def _check_choices(arguments: Sequence[str]) -> None:
    """Raise an error that names the nearest match of a mistyped command or choice."""
    # Beforehand, because tyro lists the allowed words without a suggestion.
    first = arguments[0] if arguments else ""
    if first and not first.startswith("-") and first not in COMMANDS:
        raise nearest_match_error("command", first, COMMANDS)
    # `--flag=value` is the same as `--flag value`.
    words = [part for word in arguments for part in word.split("=", 1)]
    choices = _choices(Preset)
    for flag, value in itertools.pairwise(words):
        if value not in choices.get(flag, (value,)):
            raise nearest_match_error(f"value of {flag}", value, choices[flag])


def _choices(settings: type, prefix: str = "--") -> dict[str, tuple[str, ...]]:
    """Return the allowed words of the flags of a dataclass that take certain words."""
    choices = {}
    for name, kind in get_type_hints(settings).items():
        flag = prefix + name.replace("_", "-")
        if get_origin(kind) is Literal:
            choices[flag] = get_args(kind)
        elif dataclasses.is_dataclass(kind) and isinstance(kind, type):
            choices |= _choices(kind, f"{flag}.")
    return choices


def parse_command(arguments: Sequence[str]) -> Command:
    """Return the command that the arguments describe; calling it runs it."""
    _check_choices(arguments)
    match arguments:
        # Usually the curriculum comes first, and the command is parsed only once.
        case ["learn" | "compare", name, *_] if not name.startswith("-"):
            return _parse(arguments, name)
    command = _parse(arguments, None)
    if isinstance(command, Learn | Compare):
        # The name follows other words: parse again, now that the preset is known.
        return _parse(arguments, command.curriculum)
    return command


def _stop_message(arguments: Sequence[str]) -> str:
    """Return the message after Ctrl-C, with the command that continues, if any."""
    match arguments:
        # These continue by themselves; `learn` has to be told, and not to overwrite.
        case ["compare" | "reproduce", *_]:
            words = arguments
        case ["learn", *_]:
            flags = ("--overwrite", "--resume")
            words = [*(word for word in arguments if word not in flags), "--resume"]
        case _:
            return "stopped"
    return f"stopped; go on with: {shlex.join(['personae', *words])}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit code.

    Args:
        arguments: The words after `personae`; those of this process by default.
    """
    arguments = sys.argv[1:] if arguments is None else arguments
    try:
        parse_command(arguments)()
    except BrokenPipeError:
        # As in `personae learn --help | head`. Python flushes its output on exit, which
        # would raise the same error again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return BROKEN_PIPE
    except (PersonaeError, OSError) as error:
        # Other exceptions are mistakes of the program, whose traceback is needed.
        text = rich.markup.escape(str(error))
        ERRORS.print(f"[bold red]error:[/] {text}", highlight=False, soft_wrap=True)
        return 2 if isinstance(error, UsageError) else 1
    except KeyboardInterrupt:
        text = rich.markup.escape(_stop_message(arguments))
        ERRORS.print(text, highlight=False, soft_wrap=True)
        return INTERRUPTED
    return 0


def run() -> None:
    """Run the command line and exit with its exit code."""
    # As with `python -m`: tasks can name environments of modules in this folder.
    sys.path.insert(0, os.getcwd())
    code = main()
    if code == INTERRUPTED:
        # A thread may still be computing, and a normal exit would wait for it.
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    sys.exit(code)
