"""The options that choose contexts and places: the same words on every verb that reads an experiment.

    --name --file --module --kind     contexts by what they belong to
    --under --callers-of --query      contexts by the paths that lead to them, in the language of docs/selecting.md
    --exclude --prune --fold --leaf   contexts to leave out, and who takes their cost
    --rest                            what becomes of contexts that were not chosen
    --node --gpu --stream             profiles by where they were measured

The same option again is "or", different ones are "and". `open_any` heeds all of them: what a verb gets to see is the
experiment that they leave.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from callgrove.cli.parser import JoinValues
from callgrove.errors import UsageError
from callgrove.model.runs import IntSet

if TYPE_CHECKING:
    from callgrove.algebra.selecting import ContextSelection
    from callgrove.model.experiment import Experiment

__all__ = [
    "ContextOptions",
    "add_contexts",
    "add_kind",
    "add_places",
    "int_set",
    "refuse_rest",
    "select_asked",
]

RESTS = ("path", "drop", "fold")
SPAN_KINDS = ("kernel", "copy", "alloc", "memset", "api", "marker", "region", "sync", "overhead")  # SpanKind's words
KINDS = (  # ContextKind's words, and those of spans
    *("entry", "function", "inlined", "loop", "line", "instruction", "call", "placeholder", "region"),
    *("kernel", "copy", "marker", "unknown", "alloc", "memset", "api", "sync", "overhead"),
)
BY_TEXT = (
    ("name", "GLOB", "only contexts of functions of this name, like 'MPI_*' or /^MPI_/"),
    ("file", "GLOB", "only contexts in this source file"),
    ("module", "GLOB", "only contexts in this load module"),
    ("under", "PATTERN", "only what this finds and all below it, like 'main -> ** -> solve'"),
    ("callers-of", "PATTERN", "only the call paths to what this finds, of which all below it is a part"),
    ("query", "PATTERN", "only contexts on a call path that this matches, like 'solve -> *[?time > 5%%]'"),
    ("exclude", "PATTERN", "without these and all below them; their cost is gone"),
    ("prune", "PATTERN", "without these and all below them; callers take their cost"),
    ("fold", "PATTERN", "without these alone: what they call moves up, callers take their cost"),
    ("leaf", "PATTERN", "without all below these, which take the cost"),
)
PLACES = ((("--node",), "nodes"), (("--gpu", "--device"), "devices"), (("--stream",), "streams"))


@dataclass(frozen=True, kw_only=True)
class ContextOptions:
    """Which contexts were asked for, and what becomes of the others; where profiles were measured."""

    contexts: Sequence[tuple[str, str]] = ()  # keywords of `Experiment.select`, and what was given
    rest: str = "path"
    node: IntSet | None = None
    gpu: IntSet | None = None
    stream: IntSet | None = None

    @property
    def asks_places(self) -> bool:
        """Whether profiles are chosen by where they were measured."""
        return self.node is not None or self.gpu is not None or self.stream is not None

    @property
    def selection(self) -> ContextSelection:
        """What the selection engine is asked for."""
        from callgrove.algebra.selecting import ContextSelection

        texts: dict[str, list[str]] = {}
        for field, text in self.contexts:
            texts.setdefault(field, []).extend(text.split(",") if field == "kind" else [text])
        return ContextSelection(**texts, rest=self.rest)

    @property
    def span_kinds(self) -> list[str]:
        """The kinds of spans that were asked for."""
        words = (word for field, text in self.contexts if field == "kind" for word in text.split(","))
        return [word for word in words if word in SPAN_KINDS]


def add_contexts(parser: argparse.ArgumentParser, *, kinds: bool = True) -> None:
    """Add the options that choose contexts; `kinds`: --kind, too."""
    group = parser.add_argument_group("contexts: keep a part of the call tree, see docs/selecting.md")
    if kinds:
        add_kind(group)
    for word, metavar, what in BY_TEXT:
        pair = partial(_pair, word.replace("-", "_"))
        group.add_argument(
            f"--{word}", dest="contexts", metavar=metavar, action="append", type=pair, default=[], help=what
        )
    group.add_argument(
        "--rest",
        choices=RESTS,
        default=RESTS[0],
        help="what becomes of contexts that were not chosen: they stay without cost where they lead to chosen ones "
        "(path, the default), are gone (drop), or give their cost to the nearest one above (fold)",
    )


def _pair(field: str, text: str) -> tuple[str, str]:
    return field, text


def add_kind(group: argparse._ActionsContainer) -> None:
    """Add the option that chooses contexts and spans by their kind."""
    group.add_argument(
        "--kind",
        dest="contexts",
        metavar="LIST",
        action="append",
        type=_kind_pair,
        default=[],
        help="only contexts, and spans of traces, of these kinds, like function,loop,kernel",
    )


def _kind_pair(text: str) -> tuple[str, str]:
    words = [word.strip().lower() for word in text.split(",")]
    for word in words:
        if word not in KINDS:
            raise argparse.ArgumentTypeError(f"there is no kind {word!r}; there are {', '.join(KINDS)}")
    return "kind", ",".join(words)


def add_places(group: argparse._ActionsContainer) -> None:
    """Add the options that choose profiles by the node, device and stream that they were measured on."""
    for words, what in PLACES:
        group.add_argument(
            *words,
            metavar="LIST",
            type=int_set,
            action=JoinValues,
            help=f"only these {what}, like 0-3,7",
        )


def int_set(text: str) -> IntSet:
    """Parse a list of numbers like `0-3,7,13-`."""
    try:
        return IntSet.parse(text)
    except UsageError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def select_asked(
    experiment: Experiment, options: ContextOptions, ranks: IntSet | None = None, threads: IntSet | None = None
) -> Experiment:
    """Return the part of an experiment that was asked for: first places, ranks and threads, whose costs conditions
    see, then contexts."""
    from callgrove.algebra.selecting import select_contexts

    if options.contexts or options.asks_places:
        experiment = experiment.select(
            ranks=ranks, threads=threads, nodes=options.node, gpus=options.gpu, streams=options.stream
        )
    refuse_rest(options)
    return select_contexts(experiment, options.selection) if options.contexts else experiment


def refuse_rest(options: ContextOptions) -> None:
    """Refuse --rest where nothing was selected that could have a rest."""
    if options.rest != RESTS[0] and not options.contexts:
        raise UsageError("--rest says what becomes of contexts that were not selected; select some, as with --name")
