"""An OTF2 archive: from its files to columns of spans, against OTF2's own Python reader."""

from __future__ import annotations

import importlib
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench.conditions import Conditions
from bench.results import Finding
from bench.timing import processor_seconds
from callgrove.formats.events.columns import ColumnStore
from callgrove.formats.interface import ReadOptions
from callgrove.formats.timeline.otf2.reader import read_archive

__all__ = ["make_archive", "run"]

N_LOCATIONS, N_EVENTS, N_REGIONS, DEPTH = 8, 100_000, 300, 12
N_REPEATS = 3


def make_archive(folder: Path, n_events: int) -> Path:
    """Write an archive of some processes with so many events each; return its anchor. One that is there is kept."""
    anchor = folder / "traces.otf2"
    if not anchor.is_file():
        otf2: Any = importlib.import_module("otf2")
        folder.parent.mkdir(parents=True, exist_ok=True)
        with otf2.writer.open(str(folder)) as trace:
            node = trace.definitions.system_tree_node("machine")
            regions = [trace.definitions.region(f"function {k}") for k in range(N_REGIONS)]
            for rank in range(N_LOCATIONS):
                group = trace.definitions.location_group(f"MPI Rank {rank}", system_tree_parent=node)
                _write_events(trace.event_writer("Master thread", group=group), regions, n_events, rank)
    return anchor


def _write_events(writer: Any, regions: list[Any], n_events: int, rank: int) -> None:
    chance, time, stack = random.Random(rank), 1000, list[Any]()
    for left in range(n_events, 0, -1):
        time += chance.randrange(1, 5000)
        if len(stack) < min(DEPTH, left) and (not stack or chance.random() < 0.5):
            stack.append(chance.choice(regions))
            writer.enter(time, stack[-1])
        else:
            writer.leave(time, stack.pop())


def columns(anchor: Path) -> int:
    """All locations decoded, their spans in columns."""
    return read_archive(anchor, ReadOptions(), ColumnStore()).count()


def count_with_wheel(anchor: Path) -> int:
    """All events as objects of OTF2's own Python layer, and nothing else."""
    otf2: Any = importlib.import_module("otf2")
    with otf2.reader.open(str(anchor)) as trace:
        return sum(1 for _ in trace.events)


def run(conditions: Conditions) -> Iterator[Finding]:
    """Processor time of both; that of the process which the library runs in counts."""
    what = "OTF2's own reader / columns of spans"
    try:
        importlib.import_module("otf2")
    except ImportError:
        yield Finding("otf2", what, float("nan"), at_least=10, note="the extra otf2 is not installed")
        return
    n = max(100, int(N_EVENTS * conditions.largest))
    anchor = make_archive(conditions.folder / f"{n}.otf2", n)
    n_events = count_with_wheel(anchor)
    if 2 * columns(anchor) != n_events:
        raise AssertionError(f"{anchor}: not all spans were read")
    theirs = min(processor_seconds(lambda: count_with_wheel(anchor)) for _ in range(N_REPEATS))
    ours = min(processor_seconds(lambda: columns(anchor)) for _ in range(N_REPEATS))
    note = f"{n_events:,} events of {N_LOCATIONS} locations, {n_events / ours / 1e6:.1f} million in a second"
    yield Finding("otf2", what, theirs / ours, at_least=10, note=note)
