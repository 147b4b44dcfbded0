"""`callgrove watch`: a folder that a job is still writing."""

from __future__ import annotations

import argparse
import json
import math
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from callgrove.cli.parser import Command

if TYPE_CHECKING:
    from callgrove.watch.watching import Event, Look, Totals

FORMATS = ("text", "json")
SECONDS = {"ms": 1e-3, "s": 1.0, "min": 60.0, "m": 60.0, "h": 3600.0}
DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|min|m|h)?")
MOST_EVENTS = 5  # of one kind that are named
CLEAR = "\x1b[H\x1b[2J"


@dataclass(frozen=True, kw_only=True)
class Options:
    folder: str
    every: float
    once: bool
    lasting: float
    until_quiet: float
    limit: int
    format: str


def parse_duration(text: str) -> float:
    """Parse `2s`, `500ms`, `10m`; plain numbers are seconds."""
    match = DURATION.fullmatch(text)
    if match is None:
        raise argparse.ArgumentTypeError(f"{text!r} is not a time like 2s, 500ms or 10m")
    return float(match[1]) * SECONDS[match[2] or "s"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", metavar="DIR", help="where a job writes measurements, databases or Cube files")
    when = parser.add_argument_group("when")
    when.add_argument("--every", metavar="TIME", type=parse_duration, default=2.0, help="look this often (default: 2s)")
    when.add_argument("--once", action="store_true", help="look once; files that changed lately are not read")
    when.add_argument(
        "--for", dest="lasting", metavar="TIME", type=parse_duration, default=math.inf, help="end after this time"
    )
    when.add_argument(
        "--until-quiet",
        metavar="TIME",
        type=parse_duration,
        default=math.inf,
        help="end when nothing has happened for this long, and nothing grows",
    )
    output = parser.add_argument_group("output")
    output.add_argument("--format", choices=FORMATS, default=FORMATS[0], help="json: a line for each look")
    output.add_argument("--limit", metavar="N", type=int, default=5, help="functions that are shown (default: 5)")


def run(options: Options) -> int:
    from time import monotonic, sleep, time_ns

    from callgrove.watch.watching import Watch

    watch = Watch(Path(options.folder), monotonic, time_ns, options.every)
    show = _choose_display(options)
    start = last_event = monotonic()
    while True:
        look = watch.look(math.inf if options.once else max(options.every, 1.0), options.limit)
        show(look)
        sys.stdout.flush()
        now = monotonic()
        if not look.is_quiet:
            last_event = now
        if options.once or now - start >= options.lasting or now - last_event >= options.until_quiet:
            return 0
        sleep(max(0.0, min(options.every, start + options.lasting - now)))


def _choose_display(options: Options) -> Callable[[Look], None]:
    """Return how looks are shown: as JSON lines, as a screen that is drawn anew, or as lines of what happened."""
    from callgrove.cli.output import emit_text
    from callgrove.model.table import visible

    if options.format == "json":
        return lambda look: emit_text([json.dumps(_describe(look), ensure_ascii=False), "\n"], None)
    if sys.stdout.isatty() and not options.once:
        return lambda look: print(
            CLEAR + "\n".join([visible(str(options.folder)), *_list_incomplete(look), *_say_totals(look)])
        )
    return _Lines().show


class _Lines:
    """Lines of what happened, and the totals where they changed."""

    def __init__(self) -> None:
        self._said: list[str] = []

    def show(self, look: Look) -> None:
        for line in _say_events(look):
            print(line)
        totals = list(_say_totals(look))
        if totals != self._said:
            print("\n".join(totals))
        self._said = totals


def _describe(look: Look) -> dict[str, Any]:
    totals = look.totals
    return {
        "seconds": round(look.seconds, 3),
        "files": look.n_files,
        "bytes": look.n_bytes,
        **{f"n_{state}": n for state, n in sorted(look.counts.items())},
        "events": [asdict(event) for event in look.events],
        "incomplete": [{"path": path, "why": why} for path, why in look.incomplete],
        "ranks": list(totals.ranks),
        "profiles": totals.n_profiles,
        "time_range_ns": totals.time_range,
        "formats": totals.formats,
        "totals": [
            {"metric": metric, "unit": unit or None, "total": totals.costs[metric, unit], "functions": dict(functions)}
            for (metric, unit), functions in totals.functions.items()
        ],
        "cut": look.is_cut,
    }


def _say_events(look: Look) -> Iterator[str]:
    """Yield what happened since the last look: the first files of each kind, and how many more."""
    from callgrove.model.table import visible

    by_kind: dict[str, list[Event]] = {}
    for event in look.events:
        by_kind.setdefault(event.what, []).append(event)
    for what, events in by_kind.items():
        for event in events[:MOST_EVENTS]:
            why = f" ({event.why})" if event.what == "complete" else f": {event.why}" if event.why else ""
            yield visible(f"[{look.seconds:6.1f} s] {what}: {event.path}{why}")
        if len(events) > MOST_EVENTS:
            yield f"[{look.seconds:6.1f} s] {what}: {len(events) - MOST_EVENTS:,} more files"


def _list_incomplete(look: Look) -> Iterator[str]:
    from callgrove.model.table import visible

    for path, why in look.incomplete[:MOST_EVENTS]:
        yield visible(f"incomplete: {path}: {why}")
    if len(look.incomplete) > MOST_EVENTS:
        yield f"incomplete: {len(look.incomplete) - MOST_EVENTS:,} more files"


def _say_totals(look: Look) -> Iterator[str]:
    """Yield what is there, and what the complete files come to."""
    from callgrove.model.table import visible
    from callgrove.render.units import amount, duration_ns, percent, si

    totals: Totals = look.totals
    states = ", ".join(f"{n:,} {state}" for state, n in sorted(look.counts.items())) or "none"
    yield f"files: {look.n_files:,} ({states}), {si(look.n_bytes, 'bytes')}" + (", and more" if look.is_cut else "")
    places = f"ranks: {len(totals.ranks):,}, " if totals.ranks else ""
    if totals.n_profiles:
        span = totals.time_range
        lasting = f", over {duration_ns(span[1] - span[0])}" if span is not None else ""
        yield f"{places}profiles: {totals.n_profiles:,}{lasting}"
    for (metric, unit), functions in totals.functions.items():
        whole = totals.costs[metric, unit]
        parts = [f"{name} {percent(cost / whole)}" for name, cost in functions] if whole > 0 else []
        yield visible(f"{metric}: {amount(unit)(whole)} in all; {', '.join(parts)}".removesuffix("; "))


WATCH = Command(Options, add_arguments, run)
