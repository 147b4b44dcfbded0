"""Which part of an experiment is wanted: the options of verbs that cut, and the experiment that they leave.

--window START:END    times since the experiment's start: 250ms:1.5s, 10%:20%, plain numbers are ns; @ is absolute
"""

from __future__ import annotations

import argparse
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from callgrove.cli.options import IntSet, add_run
from callgrove.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from callgrove.model.experiment import Experiment
    from callgrove.model.selected_traces import SpanChoice
    from callgrove.model.traces import Window

__all__ = ["TimeWindow", "add_cutting", "cut", "is_cut"]

KINDS = ("kernel", "copy", "alloc", "memset", "api", "marker", "region", "sync", "overhead")  # SpanKind's words
_TIME = re.compile(r"(?P<number>\d{1,19}(?:\.\d{1,19})?)(?P<unit>ns|us|ms|s|%)?|@(?P<absolute>\d{1,19})", re.ASCII)
_NS = {"": 1, "ns": 1, "us": 10**3, "ms": 10**6, "s": 10**9}


@dataclass(frozen=True)
class TimeWindow:
    """The text of --window, checked; what it means depends on the experiment."""

    start: str
    end: str

    @classmethod
    def parse(cls, text: str) -> TimeWindow:
        start, colon, end = text.partition(":")
        if not colon or not all(part == "" or _TIME.fullmatch(part) for part in (start, end)):
            raise argparse.ArgumentTypeError(f"{text!r} is not a window like 250ms:1.5s, 10%:20% or 1000:2000 (ns)")
        return cls(start, end)

    def __str__(self) -> str:
        return f"{self.start}:{self.end}"

    def of(self, span: Window) -> Window:
        """In ns of the traces' own clock. The last moment belongs to the window that ends with 100 %."""
        return _moment(self.start or "0%", span), _moment(self.end or "100%", span)


def _moment(text: str, span: Window) -> int:
    from fractions import Fraction

    found = _TIME.fullmatch(text)
    assert found is not None
    if found["absolute"]:
        return int(found["absolute"])
    number, unit = Fraction(found["number"]), found["unit"] or ""
    if unit == "%":
        if number > 100:
            raise UsageError(f"{text}: traces end at 100%; a percentage of a window lies between 0% and 100%")
        return span[0] + int((span[1] - span[0]) * number / 100) + (number >= 100)
    return span[0] + int(number * _NS[unit])


def add_cutting(parser: argparse.ArgumentParser) -> None:
    """What to keep; everything that is not named is kept."""
    group = parser.add_argument_group("selection: keep a part only")
    group.add_argument(
        "-m", "--metric", metavar="NAME", action="append", default=[], help="only this metric; may be repeated, or a,b"
    )
    group.add_argument("--rank", metavar="LIST", type=IntSet.parse, help="only these ranks, like 0-3,7")
    group.add_argument("--thread", metavar="LIST", type=IntSet.parse, help="only these threads, like 0-3,7")
    add_run(group)
    traces = group.add_mutually_exclusive_group()
    traces.add_argument("--no-traces", action="store_true", help="leave traces out")
    traces.add_argument(
        "--window",
        metavar="START:END",
        type=TimeWindow.parse,
        help="of traces, only this time since the start, like 250ms:1.5s or 10%%:20%% (plain numbers: ns)",
    )
    for side, word in (("start", "from the first"), ("end", "until the last")):
        group.add_argument(
            f"--{side}-marker", metavar="NAME", default="", help=f"of traces, {word} marker of that name"
        )
    kinds = ", ".join(KINDS)
    group.add_argument("--kind", metavar="LIST", type=_kinds, help=f"only spans of these kinds: {kinds}")
    group.add_argument(
        "--category",
        metavar="NAME",
        action="append",
        default=[],
        help="only spans of this category, like HIP or HIP_RUNTIME_API; may be repeated",
    )
    group.add_argument(
        "--keep-contexts", action="store_true", help="keep contexts that the selection has nothing to say about"
    )


def _kinds(text: str) -> list[str]:
    names = [name.strip().lower() for name in text.split(",")]
    for name in names:
        if name not in KINDS:
            raise argparse.ArgumentTypeError(f"{name!r} is no kind of span; there are {', '.join(KINDS)}")
    return names


def is_cut(args: argparse.Namespace) -> bool:
    """Was any part asked for?"""
    times = args.window or args.start_marker or args.end_marker
    return bool(args.metric or args.rank or args.thread or args.no_traces or times or args.kind or args.category)


def cut(experiment: Experiment, args: argparse.Namespace) -> Experiment:
    """The part of the experiment that was asked for; says on stderr how much of it is left."""
    from callgrove.analysis.costs import select as select_profiles
    from callgrove.cli.messages import note
    from callgrove.model.selection import select

    if args.no_traces and (args.kind or args.category or args.start_marker or args.end_marker):
        raise UsageError("--no-traces leaves all traces out; choose a part of them, or none")
    if not is_cut(args):
        return experiment
    part = select(
        experiment,
        profiles=select_profiles(experiment, args.rank, args.thread),
        metrics=list(_named(experiment, args.metric)) or None,
        window=_window(experiment, args),
        traces=not args.no_traces,
        drop_unused=not args.keep_contexts,
        spans=_choice(args),
    )
    counts = (
        ("profiles", len(part.profiles.measured), len(experiment.profiles.measured)),
        ("contexts", len(part.contexts), len(experiment.contexts)),
        ("metrics", len(part.metrics.quantities), len(experiment.metrics.quantities)),
        ("samples", part.traces.n_samples, experiment.traces.n_samples),
        ("spans", part.traces.n_spans, experiment.traces.n_spans),
    )
    if (args.kind or args.category) and experiment.traces.n_spans and not part.traces.n_spans:
        raise UsageError(f"{experiment.path}: no span is left; there are {_there(experiment)}")
    note("selected " + ", ".join(f"{kept:,} of {there:,} {word}" for word, kept, there in counts if there))
    for warning in part.warnings[len(experiment.warnings) :]:
        note(warning.text)
    return part


def _there(experiment: Experiment) -> str:
    """The kinds of spans that an experiment has, with their categories."""
    import numpy as np

    from callgrove.model.traces import SpanKind

    found: dict[str, set[str]] = {}
    backend = experiment.traces.spans_backend
    for chunk in experiment.traces.spans(("kind", "category")):
        pairs = np.unique(np.stack([chunk["kind"], chunk["category"]]), axis=1).T.tolist()
        for kind, category in pairs:
            names = found.setdefault(SpanKind(kind).name.lower(), set())
            names.update([backend.strings[category]] if backend is not None and category >= 0 else [])
    return ", ".join(f"{kind} ({', '.join(sorted(names))})" if names else kind for kind, names in sorted(found.items()))


def _named(experiment: Experiment, asked: list[str]) -> Iterator[str]:
    """Quantities by name; a text that is no name by itself is a list of them."""
    for text in asked:
        names = [text] if text in experiment.metrics.quantities else text.split(",")
        for name in names:
            yield experiment.metrics.resolve(name.strip())


def _choice(args: argparse.Namespace) -> SpanChoice:
    from callgrove.model.selected_traces import SpanChoice
    from callgrove.model.traces import SpanKind

    kinds = None if args.kind is None else frozenset(SpanKind[name.upper()] for name in args.kind)
    return SpanChoice(kinds, frozenset(args.category) or None)


def _window(experiment: Experiment, args: argparse.Namespace) -> Window | None:
    from callgrove.analysis.summary import marker_window
    from callgrove.model.selection import time_span
    from callgrove.render.units import duration_ns

    asked: TimeWindow | None = args.window
    if not (asked or args.start_marker or args.end_marker):
        return None
    words = f"--window {asked}" if asked else "a window from marker to marker"
    span = time_span(experiment.traces)
    if span is None:
        raise UsageError(f"{experiment.path}: has no traces, so {words} selects nothing; leave it out")
    found = (asked or TimeWindow("", "")).of(span)
    if args.start_marker or args.end_marker:
        found = marker_window(experiment, args.start_marker, args.end_marker, found)
    if found[0] >= found[1] or found[1] <= span[0] or found[0] > span[1]:
        lasts = duration_ns(span[1] - span[0])
        raise UsageError(f"{experiment.path}: {words} is empty; the traces last {lasts} from {span[0]} on")
    return found
