"""A trace as fields and as text, in the order of the file and with the file's own numbers.

hpctrace 01.01 big-endian flags=0x0
TIME NODE [METRIC]                        one line per record, times in the unit of the file
end
"""

from __future__ import annotations

from collections.abc import Iterator

from callgrove.formats.hpcrun.hpctrace_records import MAGIC, START, TraceFile
from callgrove.formats.interface import Field

__all__ = ["fields", "text"]

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
    if trace.problems:
        raise trace.problems[0]


def text(trace: TraceFile) -> Iterator[str]:
    """Pieces of text, each of whole lines; damage raises after what is intact was given."""
    yield f"hpctrace {trace.version} big-endian flags={trace.flags:#x}\n"
    row = " ".join(["%d"] * len(trace.record.names or ()))
    for records in trace.chunks(CHUNK):
        yield "".join([f"{row % record}\n" for record in records.tolist()])
    if trace.problems:
        raise trace.problems[0]
    yield "end\n"
