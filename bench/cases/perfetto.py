"""A Perfetto trace, as written by us: from packets to columns of spans, against Perfetto's own protobuf classes."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from bench.cases.chrome import best_processor_seconds, make_trace
from bench.conditions import Conditions
from bench.results import Finding
from callgrove.formats.interface import ReadOptions, WriteOptions
from callgrove.formats.registry import open_path
from callgrove.formats.timeline.perfetto.writer import open_writer
from callgrove.formats.writing.transfer import transfer
from callgrove.model.experiment import Experiment

__all__ = ["run"]

N_STEPS = 60_000  # of three slices, with flows


def make_packets(folder: Path, n_steps: int) -> Path:
    """Convert a trace as Kineto writes it; one that is there already is kept."""
    target = folder / f"{n_steps}.pftrace"
    if not target.is_file():
        transfer(_open(make_trace(folder / f"{n_steps}.trace.json", n_steps)), open_writer(target, WriteOptions()))
    return target


def _open(path: Path) -> Experiment:
    experiment = open_path(path, "", ReadOptions(fold=False))
    assert isinstance(experiment, Experiment)
    return experiment


def count_columns(path: Path) -> int:
    """Decode all packets; slices are paired, names and flows found."""
    return _open(path).traces.n_spans


def walk_classes(parse: Any, content: bytes) -> int:
    """Parse with compiled code, and look at type, track and time of every event, as a script would."""
    n = 0
    for packet in parse(content).packet:
        if packet.HasField("track_event"):
            event = packet.track_event
            n += (event.type, event.track_uuid, packet.timestamp)[0] == event.TYPE_SLICE_BEGIN
    return n


def run(conditions: Conditions) -> Iterator[Finding]:
    """Columns against looking at every event once; neither pairs, names nor nests anything in the latter."""
    n = max(100, int(N_STEPS * conditions.largest))
    path = make_packets(conditions.folder, n)
    content = path.read_bytes()
    try:
        from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace
    except ImportError:
        note = "the package perfetto is not installed"
        yield Finding("perfetto", "columns / walking protobuf classes", float("nan"), at_most=2.5, note=note)
        return
    walk = partial(walk_classes, Trace.FromString, content)
    if not count_columns(path) == walk() == 3 * n:
        raise AssertionError(f"{path}: not all slices were read")
    ours, floor = best_processor_seconds(partial(count_columns, path)), best_processor_seconds(walk)
    megabytes = len(content) / 1e6
    note = f"{3 * n:,} slices, {megabytes:,.1f} MB at {megabytes / ours:,.0f} MB/s, classes {floor:.2f} s"
    yield Finding("perfetto", "columns / walking protobuf classes", ours / floor, at_most=2.5, note=note)
