"""A trace as fields and as text, in the order of the file and with the file's own numbers.

hpctrace 01.01 big-endian flags=0x0
TIME NODE [METRIC]                        one line per record, times in the unit of the file
end
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from callgrove.formats.hpcrun.hpctrace_records import MAGIC, MICROSECONDS, START, TraceFile
from callgrove.formats.hpcrun.hpctrace_samples import scan
from callgrove.formats.interface import Field

__all__ = ["fields", "json_text", "summary", "text"]

CHUNK = 1 << 14  # records


def fields(trace: TraceFile) -> Iterator[Field]:
    """Every field; damage raises after what is intact was given."""
    name = trace.path.name
    if trace.version:
        yield Field(name, "header", -1, 0, "magic", MAGIC.decode())
        yield Field(name, "header", -1, len(MAGIC), "version", trace.version)
        yield Field(name, "header", -1, START - 1, "endian", "b")
    if trace.version == "01.01" and trace.records_at == START + 8:
        yield Field(name, "header", -1, START, "flags", f"{trace.flags:#x}")
    names = trace.record.names or ()
    places = [int(place) for _, place, *_ in (trace.record.fields or {}).values()]
    index, at = 0, trace.records_at
    for records in trace.chunks(CHUNK):
        for record in records.tolist():
            for column, place, value in zip(names, places, record, strict=True):
                yield Field(name, "records", index, at + place, column, value)
            index, at = index + 1, at + trace.record.itemsize
    _damage(trace)


def text(trace: TraceFile, limit: int | None = None) -> Iterator[str]:
    """Pieces of text, each of whole lines, of at most `limit` records; damage raises after what is intact was given."""
    yield _head(trace)
    row = " ".join(["%d"] * len(trace.record.names or ()))
    for rows in _rows(trace, limit):
        yield "".join([f"{row % record}\n" for record in rows])
    if limit is not None and limit < trace.n_records:
        yield f"... and {trace.n_records - limit} more\n"
    _damage(trace)
    yield "end\n"


def json_text(trace: TraceFile, limit: int | None = None) -> Iterator[str]:
    """The same as one JSON object."""
    yield f'{{"version": {json.dumps(trace.version)}, "flags": {trace.flags}, "records": ['
    row = ", ".join(f'"{name}": %d' for name in trace.record.names or ())
    comma = ""
    for rows in _rows(trace, limit):
        yield comma + ",\n ".join([f"{{{row % record}}}" for record in rows])
        comma = ",\n "
    yield "]}\n"
    _damage(trace)


def summary(trace: TraceFile, limit: int | None = None) -> Iterator[str]:
    """Counts and times. There is nothing of which `limit` could cut rows."""
    found = scan(trace)
    yield _head(trace)
    yield f"records {trace.n_records} disordered={found.disordered}\n"
    if found.time_range is not None:
        first, last = (time // trace.time_scale for time in found.time_range)
        yield f"time {first} to {last} {'us' if trace.time_scale == MICROSECONDS else 'ns'}\n"
    yield f"nodes {len(found.node_ids)}\n"
    if trace.data_centric:
        yield f"metrics {len(found.metric_ids)}\n"
    _damage(trace)
    yield "end\n"


def _head(trace: TraceFile) -> str:
    return f"hpctrace {trace.version} big-endian flags={trace.flags:#x}\n"


def _rows(trace: TraceFile, limit: int | None) -> Iterator[list[tuple[int, ...]]]:
    n = trace.n_records if limit is None else min(limit, trace.n_records)
    for first in range(0, n, CHUNK):
        yield trace.records(first, min(CHUNK, n - first)).tolist()


def _damage(trace: TraceFile) -> None:
    if trace.problems:
        raise trace.problems[0]
