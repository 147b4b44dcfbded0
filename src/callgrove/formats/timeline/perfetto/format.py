"""The format `perfetto`: recognising traces, reading one or several, what `check` and `dump` say; and the writer.

A trace has no mark of its own. It is known by its first packets: their fields have numbers and types that Perfetto's
packets have. Several files, or a folder of them, are one run with a rank each.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from callgrove.binary.archives import gunzip_head
from callgrove.binary.files import HEAD_BUDGET, Source, open_regular
from callgrove.binary.protobuf_reader import LENGTH, VARINT, NotProtobuf, read_varint, scalar_fields
from callgrove.errors import InputError, NotRecognised
from callgrove.formats.events.checks import find_problems
from callgrove.formats.events.columns import ColumnData, ColumnStore
from callgrove.formats.events.experiment import experiment_of
from callgrove.formats.interface import Field, Grade, Match, Problem, ReadOptions, WriteOptions
from callgrove.formats.timeline.perfetto.fields import (
    OTHER_PACKETS,
    PACKET,
    ClockSnapshot,
    Interned,
    InternedData,
    Packet,
    ProcessDescriptor,
    ThreadDescriptor,
    TrackDescriptor,
    TrackEvent,
)
from callgrove.formats.timeline.perfetto.packets import PacketFile, split_packets
from callgrove.formats.timeline.perfetto.reader import read_trace
from callgrove.formats.timeline.perfetto.sequences import decode_text
from callgrove.model.experiment import Experiment, InputWarning, Severity

if TYPE_CHECKING:
    from enum import IntEnum

    from callgrove.formats.timeline.writer import TimelineWriter

__all__ = ["FORMAT", "PerfettoFormat"]

GZIP = b"\x1f\x8b"
FIRST_PACKETS = 3
LOOKED_AT = 16 << 10  # bytes of one file
FILES_LOOKED_AT = 4  # of a folder
NUMBERS = frozenset(  # fields of packets that are numbers
    (
        *(Packet.TIMESTAMP, Packet.TRUSTED_PACKET_SEQUENCE_ID, Packet.SEQUENCE_FLAGS, Packet.TIMESTAMP_CLOCK_ID),
        *(Packet.INCREMENTAL_STATE_CLEARED, Packet.PREVIOUS_PACKET_DROPPED, Packet.FIRST_PACKET_ON_SEQUENCE),
        *(Packet.TRUSTED_UID, Packet.TRUSTED_PID, Packet.MACHINE_ID),
    )
)
LARGEST_NUMBER = 140  # of a field of packets, in 2026


# -- recognising -------------------------------------------------------------------------------------------------------


def is_trace(head: bytes, size: int) -> bool:
    """Return whether a file of so many bytes that begins like this is a trace. At least one packet has fields; all
    fields of the first packets, as far as they are there, have numbers and types of Perfetto's packets."""
    try:
        start, end, used, wanted = split_packets(head)
    except NotProtobuf:
        return False
    if not head or head[0] != PACKET << 3 | LENGTH:
        return False
    packets = [head[first:last] for first, last in zip(start[:FIRST_PACKETS].tolist(), end.tolist(), strict=False)]
    try:
        if not packets:
            return used + wanted <= size and _begins_like_packet(head)
        fields = [(number, type_) for packet in packets for number, type_, _, _ in scalar_fields(packet)]
    except (NotProtobuf, IndexError):
        return False
    return bool(fields) and all(_is_known(*field) for field in fields)


def _is_known(number: int, type_: int) -> bool:
    return 0 < number <= LARGEST_NUMBER and type_ == (VARINT if number in NUMBERS else LENGTH)


def _begins_like_packet(head: bytes) -> bool:
    """Return whether the first field of a packet that is longer than what was read is one of Perfetto's."""
    length, at = read_varint(head, 1)
    tag, start = read_varint(head, at)
    if not _is_known(tag >> 3, tag & 7):
        return False
    size, start = read_varint(head, start)
    return tag & 7 != LENGTH or start + size <= at + length


def _head_of(path: Path, head: bytes) -> tuple[bytes, int]:
    """Return how a trace begins, and how many bytes it has at most; inflated, where it is compressed."""
    if head.startswith(GZIP):
        return gunzip_head(head, HEAD_BUDGET), 1 << 62
    try:
        return head, path.stat().st_size
    except OSError:  # it is gone
        return b"", 0


def traces_in(paths: Sequence[Path]) -> list[Path]:
    """Return the trace files behind some paths: these, or those in a folder that begin like traces."""
    out: list[Path] = []
    for path in paths:
        inside = sorted(file for file in path.rglob("*") if file.is_file()) if path.is_dir() else [path]
        out += [file for file in inside if not path.is_dir() or _is_trace_file(file)]
    return list(dict.fromkeys(out))


def _is_trace_file(path: Path) -> bool:
    try:
        with open_regular(path) as file:
            return is_trace(*_head_of(path, file.read(LOOKED_AT)))
    except OSError:  # not ours to read
        return False


# -- the format --------------------------------------------------------------------------------------------------------


class PerfettoFormat:
    """Traces of Perfetto's track events, as its SDK, rocprof-sys, Kokkos and callgrove write them."""

    name = "perfetto"
    title = "Perfetto trace (protocol buffers)"

    def match(self, source: Source) -> Match | None:
        if source.is_folder:
            return self._match_folder(source)
        head = source.head(LOOKED_AT)
        if not is_trace(*_head_of(source.path, head)):
            return None
        packed = head.startswith(GZIP)
        reason = "packets of a Perfetto trace" + " in gzip data" * packed
        return Match(Grade.EXACT if packed else Grade.STRONG, reason)

    def _match_folder(self, source: Source) -> Match | None:
        names = sorted(name for name, is_file in (source.listing or {}).items() if is_file and not name.startswith("."))
        heads = [(name, source.head(LOOKED_AT, name)) for name in names[:FILES_LOOKED_AT]]
        traces = [name for name, head in heads if is_trace(*_head_of(source.path / name, head))]
        if not traces or 2 * len(traces) < len(heads):
            return None
        return Match(Grade.STRONG, f"{traces[0]} in it is a Perfetto trace")

    def read(self, source: Source, options: ReadOptions) -> Experiment:
        files = traces_in(source.paths)
        if not files:
            raise NotRecognised(f"{source.path}: holds no Perfetto trace")
        datasets: list[ColumnData] = []
        skipped: list[InputWarning] = []
        store = ColumnStore()
        for done, file in enumerate(files, 1):
            try:
                data = read_trace(file, store)
                _refuse_empty(data)
                datasets.append(data)
            except OSError as error:
                skipped.append(InputWarning(Severity.DAMAGE, f"{file}: {error.strerror or error}"))
            except InputError as error:
                if len(files) == 1:
                    raise
                skipped.append(InputWarning(Severity.DAMAGE, str(error)))
            options.progress("reading traces", done, len(files))
        if not datasets:
            raise InputError(skipped[0].text)
        return experiment_of(self.name, source.path, datasets, options, skipped)

    def check(self, source: Source, options: ReadOptions) -> Iterator[Problem]:
        """Read everything, and yield the warnings of reading and the problems of events."""
        return find_problems(self.read(source, options))

    def dump(self, source: Source) -> Iterator[Field]:
        """Yield the fields of every packet, with those of what it holds."""
        for path in traces_in(source.paths):
            yield from _dump(path)

    def open_writer(self, target: Path, options: WriteOptions) -> TimelineWriter:
        from callgrove.formats.timeline.perfetto.writer import open_writer

        return open_writer(target, options)


def _refuse_empty(data: ColumnData) -> None:
    """Raise an error if a trace has nothing that can be used."""
    if data.count() or data.counters() is not None:
        return
    reasons = "; ".join(warning.text.removeprefix(f"{data.path}: ") for warning in data.warnings[:3])
    raise InputError(f"{data.path}: a Perfetto trace without events of tracks{f' ({reasons})' if reasons else ''}")


FORMAT = PerfettoFormat()


# -- the raw structure -------------------------------------------------------------------------------------------------


INSIDE: dict[tuple[str, int], tuple[str, type[IntEnum]]] = {  # messages whose fields are shown too
    ("packet", Packet.TRACK_EVENT): ("track_event", TrackEvent),
    ("packet", Packet.TRACK_DESCRIPTOR): ("track_descriptor", TrackDescriptor),
    ("packet", Packet.INTERNED_DATA): ("interned_data", InternedData),
    ("packet", Packet.CLOCK_SNAPSHOT): ("clock_snapshot", ClockSnapshot),
    ("track_descriptor", TrackDescriptor.PROCESS): ("process", ProcessDescriptor),
    ("track_descriptor", TrackDescriptor.THREAD): ("thread", ThreadDescriptor),
    **{("interned_data", number): (f"{number.name.lower()}", Interned) for number in InternedData},
}
TEXTS = frozenset(
    (
        *(
            ("track_event", TrackEvent.NAME),
            ("track_event", TrackEvent.CATEGORIES),
            ("track_descriptor", TrackDescriptor.NAME),
        ),
        *(("process", ProcessDescriptor.PROCESS_NAME), ("process", ProcessDescriptor.CMDLINE)),
        *(("process", ProcessDescriptor.PROCESS_LABELS), ("thread", ThreadDescriptor.THREAD_NAME)),
        *((number.name.lower(), Interned.TEXT) for number in InternedData),
    )
)


def _dump(path: Path) -> Iterator[Field]:
    file = PacketFile(path)
    index = 0
    for block in file.blocks():
        for start, end in zip(block.start.tolist(), block.end.tolist(), strict=True):
            try:
                rows = list(_fields(block.content(start, end), "packet", Packet))
            except NotProtobuf as error:
                rows = [("packet", f"damaged: {error}", end - start)]
            for section, name, value in rows:
                yield Field(path.name, section, index, start, name, value)
            index += 1
    if file.problems:
        raise InputError(f"{path}: {file.problems[0]}")


def _fields(content: bytes, section: str, names: type[IntEnum]) -> Iterator[tuple[str, str, int | str]]:
    known = {int(member): member.name.lower() for member in names}
    for number, type_, value, start in scalar_fields(content):
        name = known.get(number) or (OTHER_PACKETS.get(number) if section == "packet" else None) or f"field {number}"
        part = content[start : start + value] if type_ == LENGTH else b""
        if type_ == LENGTH and (section, number) in INSIDE:
            yield from _fields(part, *INSIDE[section, number])
        elif (section, number) in TEXTS and type_ == LENGTH:
            yield section, name, decode_text(part)
        else:
            yield section, name, f"({value} bytes)" if type_ == LENGTH else value
