"""What was given to see an input, for the commands that its page tells: with other options they would print other
numbers.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from callgrove.cli.options import VALUES_OF_RUNS, InputOptions, SelectionOptions
from callgrove.cli.parser import SELECTING

if TYPE_CHECKING:
    from callgrove.viewer.commands import Given

__all__ = ["PageOptions", "describe_input"]

MODELS = ("model", "predict")
OF_STUDIES = ("--value", "--scaling", "--inclusive", "--extrap-compat")  # to other verbs they mean something else
VERBS_OF_PAGES = (
    *("info", "top", "tree", "hot", "imbalance", "explain", "export", "check", "prof", "sql", "diff"),
    *("summary", "timeline", "pop", *MODELS),
)


@dataclass(frozen=True, kw_only=True)
class PageOptions(InputOptions, SelectionOptions):
    """What verbs take that make pages."""


def describe_input(options: PageOptions) -> Given:
    """Return what was given to see an input, and which verbs take it."""
    from callgrove.cli.main import VERBS, load_command
    from callgrove.viewer.commands import FLAGS_OF_LOOKS, Given

    said = tuple(_say_options(options))
    chosen = tuple(one for one in said if one[0] in SELECTING or one[0] == "--run")
    flags = dict.fromkeys((*(flag for flag, _ in chosen), *FLAGS_OF_LOOKS))
    taken = {verb.name: load_command(verb).flags for verb in VERBS if verb.name in VERBS_OF_PAGES}
    by_verb = {
        verb: tuple(one for one in said if one[0] in known and (one[0] not in OF_STUDIES or verb in MODELS))
        for verb, known in taken.items()
    }
    refused = {verb: tuple(flag for flag in flags if flag not in known) for verb, known in taken.items()}
    return Given(tuple(_say_points(options)), chosen, by_verb, refused)


def _say_points(options: PageOptions) -> Iterator[str]:
    """Yield the words that name runs with their parameters; none where paths name the input."""
    for point, run in options.points:
        yield from ("--point", point, run)


def _say_options(options: PageOptions) -> Iterator[tuple[str, str]]:
    """Yield the options that say what of an input is seen, and how it is read, as flags with their values."""
    values = {
        "--from": options.from_format,
        "--rank-env": options.rank_env,
        "--align": options.align,
        "--kernel-names": options.kernel_names,
        "--folder-pattern": options.folder_pattern,
        "--points": options.points_file,
        "--spec": options.spec,
        "--run": options.run,
        "--rank": options.rank,
        "--thread": options.thread,
        "--node": options.node,
        "--gpu": options.gpu,
        "--stream": options.stream,
        "--window": options.window,
        "--value" if options.scaling in VALUES_OF_RUNS else "--scaling": options.scaling,
    }
    switches = {
        "--strict": options.strict,
        "--salvage": options.salvage,
        "--remap": options.remap,
        "--idle-threads": options.idle_threads,
        "--extrap-compat": options.extrap_compat,
        "--inclusive": options.study_scope == "inclusive",
    }
    yield from ((flag, str(value)) for flag, value in values.items() if value not in (None, ""))
    yield from ((flag, "") for flag, is_given in switches.items() if is_given)
    yield from ((f"--{field.replace('_', '-')}", text) for field, text in options.contexts)
    if options.rest != "path":
        yield "--rest", options.rest
    yield from (("--derive", text) for text in options.derive)
