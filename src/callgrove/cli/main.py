"""The command line: the table of verbs, and the way from arguments to a verb and its exit code.

Only the chosen verb's module is imported, and the overview needs none, so help is immediate on a slow file system.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib import import_module
from io import TextIOWrapper
from typing import Any, NamedTuple

from callgrove.cli.bus_errors import saying_bus_errors
from callgrove.cli.messages import exit_code_of, saying_broken_plugins, settle_stdout, tidy_ending
from callgrove.cli.parser import Command, Parser, did_you_mean
from callgrove.errors import UsageError

__all__ = ["VERBS", "Verb", "load_command", "main", "make_overview"]


# The table of verbs: name, what the overview says, and where it is. A new verb is one module and one line here.


class Verb(NamedTuple):
    name: str
    help: str
    module: str
    group: str = ""  # under which the overview lists it
    command: str = "COMMAND"  # what the module calls it


LOOK, COMPARE, DATA, WRITE, BEGIN = "look", "compare and predict", "data", "write", "begin"


def _verb(name: str, help_: str, module: str, group: str) -> Verb:
    return Verb(name, help_, f"callgrove.cli.verbs.{module}", group, name.upper())


VERBS = (
    _verb("info", "what is this: format, runs, profiles, metrics, damage, what to do next", "info", LOOK),
    _verb("formats", "every format, and whether it can be read and written here", "info", LOOK),
    _verb("top", "where the cost is: a flat table of functions, lines, loops, files", "views", LOOK),
    _verb("tree", "the call tree with its cost, top-down or bottom-up", "views", LOOK),
    _verb("hot", "the hot path: from the root along the costliest calls", "views", LOOK),
    _verb("imbalance", "who is slowest: costs over ranks, threads, GPUs, nodes or runs", "imbalance", LOOK),
    _verb("explain", "a few sentences: what dominates, is uneven, waits, will not scale", "explain", LOOK),
    _verb("explore", "look around in a terminal: call tree, callers, source, spread, two inputs", "explore", LOOK),
    _verb("diff", "what differs between two or more experiments, call path by call path", "diff", COMPARE),
    _verb("why", "why one run takes longer than another, in a few sentences, the cause first", "explain", COMPARE),
    _verb("model", "how costs scale: functions of the parameters, as Extra-P makes them", "scaling.model", COMPARE),
    _verb("predict", "what will cost most at a scale that was not measured", "scaling.model", COMPARE),
    _verb("advise", "which points of a scaling study to measure next, and what they cost", "scaling.advise", COMPARE),
    _verb("pop", "efficiencies as in POP audits: load balance, communication, scaling", "pop", COMPARE),
    _verb("summary", "GPU runs: kernels, calls, copies, overlap, busy and idle time", "summary", LOOK),
    _verb("timeline", "traces: exact times in any window, a picture of it, phases that repeat", "timeline", LOOK),
    _verb("report", "one HTML page: flame graph, call tree, spread, timeline, scaling", "report", LOOK),
    _verb("view", "a page in a browser that asks a local server: any size, panes coupled", "report", LOOK),
    _verb("watch", "a folder that a job is still writing: what has arrived, and its totals", "lasting.watch", LOOK),
    _verb("mcp", "answers for an assistant, over the Model Context Protocol (stdin, stdout)", "lasting.mcp", LOOK),
    _verb("export", "one table in full: contexts, values, profiles, samples, spans, ...", "export", DATA),
    _verb("sql", "SQL over the tables of any input, and over rocprofv3's view names", "sql", DATA),
    _verb("convert", "write an experiment in another format", "convert", WRITE),
    _verb("anonymize", "replace names, paths and hosts consistently, to share a file", "algebra", WRITE),
    _verb("prof", "make a database of HPCToolkit measurements, as hpcprof does", "prof", WRITE),
    _verb("merge", "several experiments combined into one", "algebra", WRITE),
    _verb("mean", "the mean of several experiments", "algebra", WRITE),
    _verb("cut", "a call tree with other roots, or without some calls", "algebra", WRITE),
    _verb("part", "an experiment with some of its ranks, threads or runs only", "algebra", WRITE),
    _verb("common", "several experiments, cut down to the call paths they share", "algebra", WRITE),
    _verb("remap", "time divided by what contexts do, as Scalasca does: mpi, omp_time, ...", "algebra", WRITE),
    Verb(
        "rocpd",
        "ROCm's rocpd command: convert, merge, package, query, summary",
        "callgrove.cli.rocpd",
        DATA,
        "ROCPD",
    ),
    _verb("dump", "the raw structure of a file as text", "dump", DATA),
    _verb("check", "validate an input, and list all damage", "dump", DATA),
    Verb(
        "help",
        "the documentation in the terminal: pages, verbs, formats; manual pages",
        "callgrove.cli.help",
        BEGIN,
        "HELP",
    ),
    _verb("completion", "a script for bash, zsh or fish that completes verbs, options, metrics", "completion", BEGIN),
    _verb("demo", "make a small experiment of every kind and walk through it", "demo", BEGIN),
)


_BARE_PATH_VERB = "info"

_OVERVIEW = """\
usage: callgrove VERB ...     'callgrove VERB --help' tells more
       callgrove PATH         the same as 'callgrove info PATH'

Opens the files of HPC profilers: query, compare, convert and model them.
Begin with 'callgrove PATH': it says what is there and what to ask next.

{verbs}

options:
  -h, --help   show this
  --version    show the version
  --debug      show a traceback when something fails (also: CALLGROVE_DEBUG=1)

exit codes:
  0 done, 1 failed, 2 wrong usage, 3 input not recognised, damaged or refused,
  4 printed but incomplete or undecided under --strict, 5 slower (diff --fail-above),
  130 interrupted (143 by SIGTERM)
"""


def main(argv: Sequence[str] | None = None, verbs: Sequence[Verb] = VERBS) -> int:
    """Run one command and return its exit code; every error ends here."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    debug = _wants_debug(arguments)
    try:
        _replace_closed_streams()
        _accept_every_character()
        with tidy_ending(), saying_bus_errors(), saying_broken_plugins():
            code = _run(arguments, verbs)
        sys.stdout.flush()  # here, where a full disk or a closed pipe can still be reported
    except (Exception, KeyboardInterrupt) as error:
        code = exit_code_of(error, debug=debug)
        settle_stdout()
    return code


def _run(arguments: list[str], verbs: Sequence[Verb]) -> int:
    words = _skip_global_options(arguments)
    first = words[0] if words else None
    if first is None:
        sys.stderr.write(make_overview(verbs))
        return UsageError.exit_code
    if first in ("-h", "--help"):
        return _print(make_overview(verbs))
    if first == "--version":
        return _print(f"callgrove {_version()}\n")
    verb, rest = _choose_verb(words, verbs)
    command = load_command(verb)
    parser = Parser(f"callgrove {verb.name}", verb.help, _find_examples(verb.name) if _wants_help(rest) else ())
    command.add_arguments(parser)
    try:
        options = parser.read(rest, command.options)
    except SystemExit:  # argparse has printed the help
        return 0
    from callgrove.cli.options import enter_cluster
    from callgrove.cli.results import refuse_outputs

    with enter_cluster(options) as ready:
        refuse_outputs(ready)
        return command.run(ready)


def load_command(verb: Verb) -> Command[Any]:
    """Import the module of a verb, and return its command."""
    command = getattr(import_module(verb.module), verb.command)
    assert isinstance(command, Command)
    return command


def _wants_help(arguments: Sequence[str]) -> bool:
    return any(word in ("-h", "--help") for word in arguments)


def _find_examples(verb: str) -> Sequence[str]:
    from callgrove.cli.parser import EXAMPLES

    return EXAMPLES.get(verb, ())


def _skip_global_options(arguments: list[str]) -> list[str]:
    n_leading = next((index for index, word in enumerate(arguments) if word != "--debug"), len(arguments))
    return arguments[n_leading:]


def _choose_verb(words: list[str], verbs: Sequence[Verb]) -> tuple[Verb, list[str]]:
    """Return the verb and its arguments; a word that is not a verb but exists is a path to look at."""
    by_name = {verb.name: verb for verb in verbs}
    first = words[0]
    if first in by_name:
        return by_name[first], words[1:]
    if first.startswith("-"):
        raise UsageError(f"unknown option {first!r} before the verb; see 'callgrove --help'")
    if os.path.lexists(first):
        return by_name[_BARE_PATH_VERB], words
    nearest = did_you_mean(first, by_name)
    raise UsageError(f"{first!r} is neither a verb nor an existing path{nearest}; see 'callgrove --help'")


def _wants_debug(arguments: list[str]) -> bool:
    options = arguments[: arguments.index("--")] if "--" in arguments else arguments
    return "--debug" in options or os.environ.get("CALLGROVE_DEBUG", "0") not in ("", "0")


def _replace_closed_streams() -> None:
    """Replace stdout and stderr where the program was started without them (`>&-`): its files must not get their
    numbers. Printing to such a stdout fails, and what is said to such a stderr is lost."""
    if sys.stdout is None:
        sys.stdout = os.fdopen(os.open(os.devnull, os.O_RDONLY), "w", encoding="utf-8")
    if sys.stderr is None:
        sys.stderr = os.fdopen(os.open(os.devnull, os.O_WRONLY), "w", encoding="utf-8", errors="backslashreplace")


def _accept_every_character() -> None:
    """Let stdout escape names that the locale cannot write, instead of ending the program."""
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")


def make_overview(verbs: Sequence[Verb]) -> str:
    """Return what `callgrove --help` prints."""
    width = max(len(verb.name) for verb in verbs)
    blocks = []
    for group in dict.fromkeys(verb.group for verb in verbs):
        lines = [f"  {verb.name:{width}}   {verb.help}" for verb in verbs if verb.group == group]
        blocks.append("\n".join([f"{group or 'verbs'}:", *lines]))
    return _OVERVIEW.format(verbs="\n\n".join(blocks))


def _print(text: str) -> int:
    sys.stdout.write(text)
    return 0


def _version() -> str:
    from callgrove._version import __version__

    return __version__
