"""Every field of a legacy database's files, for `dump`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from callgrove.binary.filebytes import FileBytes
from callgrove.formats.hpctoolkit import legacy_records as rec
from callgrove.formats.hpctoolkit.fields import Dumper, plain, xml_fields
from callgrove.formats.hpctoolkit.legacy_traces import TraceFile, merged_traces, open_trace
from callgrove.formats.hpctoolkit.legacy_values import open_metric_db
from callgrove.formats.interface import Field

__all__ = ["fields_of"]


def fields_of(path: Path) -> Iterator[Field]:
    """The fields of one file, by what it begins with."""
    with path.open("rb") as file:
        head = file.read(18)
    if head == rec.METRIC_DB_MAGIC:
        yield from _metric_db(path)
    elif path.suffix == ".hpctrace" or head == rec.TRACE_MAGIC:
        yield from _trace(Dumper(FileBytes(path), path.name), open_trace(path), 0, "trace")
    elif path.suffix == ".mt":
        yield from _merged(path)
    else:
        yield from xml_fields(path)


def _metric_db(path: Path) -> Iterator[Field]:
    file = FileBytes(path)
    yield from Dumper(file, path.name).record("header", rec.METRIC_DB, 0)
    found = open_metric_db(path, [])
    for node in range(found.n_nodes):
        at = rec.METRIC_DB.itemsize + node * found.n_metrics * rec.VALUE.itemsize
        for column, value in enumerate(file.array(rec.VALUE, found.n_metrics, at, "values").tolist()):
            yield Field(
                path.name, "node", node + 1, at + column * rec.VALUE.itemsize, f"metric[{column}]", plain(value)
            )


def _trace(dumper: Dumper, trace: TraceFile, start: int, section: str) -> Iterator[Field]:
    if not dumper.file.size:
        return
    yield from dumper.record(f"{section} header", rec.TRACE, start)
    if trace.start > start + rec.TRACE.itemsize:
        yield from dumper.record(f"{section} header", rec.TRACE_FLAGS, start + rec.TRACE.itemsize)
    yield from dumper.table(section, trace.record, trace.count, trace.start)


def _merged(path: Path) -> Iterator[Field]:
    file = FileBytes(path)
    dumper = Dumper(file, path.name)
    yield from dumper.record("header", rec.MT_HEADER, 0)
    traces = merged_traces(path)
    yield from dumper.table("table", rec.MT_ENTRY, len(traces), rec.MT_HEADER.itemsize)
    offsets = file.array(rec.MT_ENTRY, len(traces), rec.MT_HEADER.itemsize, "table")["offset"].tolist()
    for number, (trace, start) in enumerate(zip(traces, offsets, strict=True)):
        yield from _trace(dumper, trace, start, f"trace {number}")
    yield from dumper.footer()
