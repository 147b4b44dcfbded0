"""Traces for Perfetto: encoding against Perfetto's own protobuf classes, converting against reading alone, and memory.

The peer builds the same packets one by one (`Trace.packet.add()`, which the upb library does in C) and serialises them.
`fetchmany` reads the columns that a conversion needs from the same database and does nothing with them.
"""

from __future__ import annotations

import json
import re
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from bench.conditions import ROOT, Conditions
from bench.gpu_databases import GpuShape, make_gpu_database
from bench.memory import STATUS
from bench.results import Finding
from bench.timing import Work, best_seconds
from callgrove.formats.interface import ReadOptions, WriteOptions
from callgrove.formats.registry import open_paths, writer_of
from callgrove.formats.timeline.content import Losses, Places, Slices, Value
from callgrove.formats.timeline.perfetto.writer import FLOW_BITS, TRACK_BITS, PerfettoPart
from callgrove.formats.timeline.slices import SliceMaker, SliceOptions
from callgrove.formats.timeline.source import Annotations
from callgrove.formats.writing.transfer import write_experiment
from callgrove.model.experiment import Experiment

__all__ = ["run"]

N_EVENTS, N_SMALL, N_ENCODED = 2_000_000, 200_000, 60_000
TIMES = ("start", "end")
GRID = tuple(f"{word}_size_{axis}" for word in ("grid", "workgroup") for axis in "xyz")
NEEDED = {
    "event": ("id", "category_id", "stack_id"),
    "region": (*TIMES, "tid", "name_id", "event_id"),
    "kernel_dispatch": (*TIMES, "agent_id", "kernel_id", "queue_id", "stream_id", "event_id", *GRID),
    "memory_copy": (*TIMES, "name_id", "dst_agent_id", "src_agent_id", "size", "queue_id", "stream_id", "event_id"),
    "memory_allocate": (*TIMES, "tid", "agent_id", "type", "level", "address", "size", "event_id"),
}


def run(conditions: Conditions) -> Iterator[Finding]:
    """Encoding, a large database, memory."""
    scale = float(conditions.largest)
    yield from _encoding(conditions, max(1000, round(N_ENCODED * min(1.0, scale * 4))))
    yield from _large(conditions, max(1000, round(N_EVENTS * scale)))
    yield from _memory(conditions, max(1000, round(N_SMALL * scale)))


# -- encoding ----------------------------------------------------------------------------------------------------------


def _encoding(conditions: Conditions, n: int) -> Iterator[Finding]:
    try:
        from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace
    except ImportError:
        return
    shape = GpuShape(n)
    path = make_gpu_database(conditions.folder / shape.name, shape)
    for level, at_least, what in (
        (Annotations.NONE, 40, "correlation and flow"),
        (Annotations.DEFAULT, 20, "default notes"),
    ):
        batches = [_with_correlation(b) if level is Annotations.NONE else b for b in _batches(path)]
        best = best_seconds(
            {"ours": partial(_ours, batches), "upb": partial(_upb, batches, Trace)}, conditions.n_repeats
        )
        note = f"{sum(map(len, batches)):,} slices"
        yield Finding(
            "traces", f"packet.add() / ours, {what}", best["upb"] / best["ours"], at_least=at_least, note=note
        )


def _opened(paths: Sequence[Path]) -> Experiment:
    experiment = open_paths(paths, "rocpd", ReadOptions(fold=False))
    assert isinstance(experiment, Experiment)
    return experiment


def _batches(path: Path) -> list[Slices]:
    experiment = _opened([path])
    maker = SliceMaker(experiment.traces, 0, None, Places.of(experiment), SliceOptions(), Losses())
    maker.read()
    return [item for item in maker.make() if isinstance(item, Slices)]


def _with_correlation(batch: Slices) -> Slices:
    """The same slices, of which the correlation is the only note."""
    from dataclasses import replace

    return replace(batch, notes=[note for note in batch.notes if note.key == "corr"])


def _ours(batches: Sequence[Slices]) -> Work:
    def work() -> object:
        encoder = PerfettoPart({})
        return b"".join(data for batch in batches for data in encoder.slices(batch))

    return work


def _upb(batches: Sequence[Slices], trace_class: Callable[[], Any]) -> Work:
    rows = [_plain(batch) for batch in batches]

    def work() -> object:
        trace = trace_class()
        for batch in rows:
            for one in batch:
                _add(trace, *one)
        return trace.SerializeToString()

    return work


def _plain(batch: Slices) -> list[tuple[Any, ...]]:
    """One tuple of Python's own numbers for every slice, made before the clock starts."""
    base = batch.process.process.index + 1
    notes: list[list[tuple[int, str, Any]]] = [[] for _ in range(len(batch))]
    for iid, note in enumerate(batch.notes, 1):
        field = {Value.INTEGER: "int_value", Value.TEXT: "string_value_iid", Value.FLOAT: "double_value"}[note.value]
        shift = 1 if note.value is Value.TEXT else 0
        for row, value in zip(note.rows.tolist(), note.values.tolist(), strict=True):
            notes[row].append((iid, field, value + shift))
    columns = (
        batch.start_ns.tolist(),
        batch.end_ns.tolist(),
        (batch.track + (base << TRACK_BITS)).tolist(),
        (batch.name.index + 1).tolist(),
        (batch.category.index + 1).tolist(),
        notes,
        [
            [(base << FLOW_BITS) + f for f in range(a, a + k)]
            for a, k in zip(batch.launched.tolist(), batch.n_launched.tolist(), strict=True)
        ],
        np.where(batch.flow >= 0, batch.flow + (base << FLOW_BITS), 0).tolist(),
    )
    return list(zip(*columns, strict=True))


def _add(
    trace: Any, start: int, end: int, track: int, name: int, category: int, notes: Any, flows: Any, flow: int
) -> None:
    packet = trace.packet.add()
    packet.timestamp = start
    packet.trusted_packet_sequence_id = 1
    packet.sequence_flags = 2
    event = packet.track_event
    event.type = 1
    event.track_uuid = track
    event.name_iid = name
    event.category_iids.append(category)
    for iid, field, value in notes:
        annotation = event.debug_annotations.add()
        annotation.name_iid = iid
        setattr(annotation, field, value)
    if flows:
        event.flow_ids.extend(flows)
    if flow:
        event.terminating_flow_ids.append(flow)
    packet = trace.packet.add()
    packet.timestamp = end
    packet.trusted_packet_sequence_id = 1
    packet.sequence_flags = 2
    packet.track_event.type = 2
    packet.track_event.track_uuid = track


# -- a large database --------------------------------------------------------------------------------------------------


def _large(conditions: Conditions, n: int) -> Iterator[Finding]:
    shape = GpuShape(n)
    path = make_gpu_database(conditions.folder / shape.name, shape)
    target = conditions.folder / f"{path.stem}.pftrace"
    size = _convert([path], target)
    works = {
        "ours": partial(_converting, [path], target),
        "fetchmany": partial(_fetching, path),
        "bytes": partial(_copying, path, target, size),
    }
    best = best_seconds(works, min(conditions.n_repeats, 3))
    note = f"{n:,} events, {path.stat().st_size / 1e6:.0f} MB -> {size / 1e6:.0f} MB"
    yield Finding(
        "traces", "fetchmany of the same columns / converting", best["fetchmany"] / best["ours"], at_least=1, note=note
    )
    yield Finding("traces", "converting / reading and writing the bytes", best["ours"] / best["bytes"], note=note)


def _convert(paths: Sequence[Path], target: Path) -> int:
    """The size of the trace that these databases make, on one core."""
    write_experiment(_opened(paths), writer_of("perfetto"), target, WriteOptions(overwrite=True))
    return target.stat().st_size


def _converting(paths: Sequence[Path], target: Path) -> Work:
    return lambda: _convert(paths, target)


def _copying(path: Path, target: Path, size: int) -> Work:
    data = bytes(size)

    def work() -> object:
        path.read_bytes()
        return target.write_bytes(data)

    return work


def _fetching(path: Path) -> Work:
    def work() -> object:
        n = 0
        with closing(sqlite3.connect(path)) as connection:
            query = "SELECT name FROM sqlite_master WHERE type = 'table'"
            tables = [name for (name,) in connection.execute(query)]
            for base, columns in NEEDED.items():
                name = next(t for t in tables if re.fullmatch(rf"rocpd_{base}_[0-9a-f_]+", t))
                cursor = connection.execute(f'SELECT {", ".join(columns)} FROM "{name}"')
                while rows := cursor.fetchmany(65_536):
                    n += len(rows)
        return n

    return work


# -- memory ------------------------------------------------------------------------------------------------------------


def _memory(conditions: Conditions, n: int) -> Iterator[Finding]:
    if not STATUS.is_file():
        return
    shapes = [GpuShape(n, rank, 10) for rank in range(10)]
    files = [make_gpu_database(conditions.folder / shape.name, shape) for shape in shapes]
    ten_times = GpuShape(10 * n)
    large = make_gpu_database(conditions.folder / ten_times.name, ten_times)
    one, ten, single = (_peak(paths) for paths in (files[:1], files, [large]))
    note = f"{n:,} events each: {one / 1e6:.0f} MB, {ten / 1e6:.0f} MB"
    yield Finding("traces", "memory for ten databases / for one", ten / one, at_most=1.3, note=note)
    note = f"{10 * n:,} events: {single / 1e6:.0f} MB"
    yield Finding("traces", "memory for one ten times larger / for one", single / one, at_most=1.5, note=note)


def _peak(paths: Sequence[Path]) -> int:
    command = [sys.executable, "-m", "bench.cases.timeline", *map(str, paths)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return int(json.loads(done.stdout))


def main(paths: Sequence[str]) -> None:
    """The measured process."""
    with TemporaryDirectory() as folder:
        _convert([Path(path) for path in paths], Path(folder) / "out.pftrace")
    found = re.search(r"VmHWM:\s*(\d+) kB", STATUS.read_text())
    assert found is not None
    print(json.dumps(int(found.group(1)) * 1024))


if __name__ == "__main__":
    main(sys.argv[1:])
