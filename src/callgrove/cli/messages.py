"""What goes to stderr, and what an error means for the exit code.

Every message is one line `callgrove: ...`; what comes from files is made visible first, so that a hostile name cannot
move the cursor or forge a second line.
"""

from __future__ import annotations

import errno
import os
import sys
import traceback
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from callgrove.cli.ending import Ended
from callgrove.errors import CallgroveError, IncompleteResult, PluginWarning
from callgrove.model.visible import visible

if TYPE_CHECKING:
    from callgrove.formats.interface import LossReport

__all__ = ["exit_code_of", "note", "say_losses", "say_unexplained", "saying_broken_plugins", "settle_stdout"]

WHEN_WRITING = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
INTERRUPTED = 130  # as a shell reports a program that Ctrl-C ended


def note(message: str) -> None:
    """Say something on stderr; options are spelled as one types them."""
    if "Options(" in message or "format_name=" in message:
        from callgrove.render.shell import spell_options  # few messages need it

        message = spell_options(message)
    print(f"callgrove: {visible(message)}", file=sys.stderr)


@contextmanager
def saying_broken_plugins() -> Iterator[None]:
    """Say what is wrong with plug-ins as everything else is said, whatever Python is told to do with warnings."""
    with warnings.catch_warnings():
        warnings.simplefilter("always", PluginWarning)
        show = warnings.showwarning

        def say(message: Warning | str, category: type[Warning], *where: Any, **more: Any) -> None:
            if issubclass(category, PluginWarning):
                note(str(message))
            else:
                show(message, category, *where, **more)

        warnings.showwarning = say
        yield


def say_losses(report: LossReport, target: str, *, strict: bool) -> None:
    """Say what a target does not hold; with `strict`, what nothing explains is an error."""
    for loss in report.lines:
        note(f"lost: {loss}")
    for hint in report.hints:
        note(hint)
    say_unexplained(report.unexplained)
    if strict and report.unexplained:
        raise IncompleteResult(f"{target}: was written, but does not hold all that it was given")


def say_unexplained(differences: Sequence[str]) -> None:
    """Say what should be equal and is not, though nothing is known to be lost."""
    for difference in differences:
        note(f"unexplained: {difference}; this is a bug in callgrove, please report it")


def exit_code_of(error: BaseException, *, debug: bool) -> int:
    """Says on stderr what went wrong (with a traceback when debugging) and gives the exit code."""
    if isinstance(error, BrokenPipeError):  # the reader of a pipe has seen enough: `callgrove ... | head`
        return 0
    if debug:
        traceback.print_exception(error)
    note(_sentence(error))
    if isinstance(error, KeyboardInterrupt):
        return error.exit_code if isinstance(error, Ended) else INTERRUPTED
    return error.exit_code if isinstance(error, CallgroveError) else 1


def _sentence(error: BaseException) -> str:
    if isinstance(error, CallgroveError):
        return str(error)
    if isinstance(error, KeyboardInterrupt):
        return str(error) or "interrupted"
    if isinstance(error, MemoryError):
        return "not enough memory; choose fewer profiles (--rank, --thread) or use a larger node"
    if isinstance(error, OSError):
        return _sentence_of_system(error)
    text = f"{type(error).__name__}: {error}"
    if plugin := _plugin_at_fault(error):
        return f"this is a bug in the plug-in {plugin}: {text}; run again with --debug and report it to its authors"
    return f"this is a bug in callgrove: {text}; run again with --debug and report it"


def _plugin_at_fault(error: BaseException) -> str:
    """Return the package of the plug-in in whose code an error came up; where none was looked for, none is at fault."""
    if "callgrove.formats.plugins" not in sys.modules:
        return ""
    from callgrove.formats.plugins import package_at_fault
    from callgrove.formats.registry import plugins

    return package_at_fault(error, plugins())


def _sentence_of_system(error: OSError) -> str:
    reason = error.strerror or str(error) or type(error).__name__
    if error.filename is not None:
        return f"{os.fsdecode(error.filename)}: {reason}"
    if error.errno == errno.ENOENT:
        return "the current folder was removed; change to another one"
    if error.errno == errno.EBADF:
        return "stdout: is closed"
    return f"stdout: {reason}" if error.errno in WHEN_WRITING else reason  # files that are written have names


def settle_stdout() -> None:
    """Writes what stdout still holds, or drops it: the interpreter would fail on it again when it ends."""
    try:
        sys.stdout.flush()
    except OSError:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
