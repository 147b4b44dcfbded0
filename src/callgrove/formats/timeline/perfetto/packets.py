"""A trace as blocks of packets: bytes of the file, gzip and compressed packets inflated, and where each packet lies.

    0a len packet 0a len packet ...        Trace.packet, field 1; there is no header and no end

Blocks hold whole packets in the order of the file. What a compressed packet holds becomes blocks of its own at its
place. A file that breaks off inside of a packet gives all packets before; so does one that goes on with other bytes.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from callgrove.arrays import Array, Ints
from callgrove.binary.archives import GZIP, engine
from callgrove.binary.files import open_regular
from callgrove.binary.protobuf_reader import (
    LENGTH,
    PADDING,
    Fields,
    NotProtobuf,
    read_fields,
    read_varint,
    scalar_fields,
    skip_field,
)
from callgrove.formats.timeline.perfetto.fields import PACKET, Packet

__all__ = ["Block", "PacketFile", "first_packets", "split_packets"]

PIECE = 1 << 22  # bytes of the file that are looked at at a time
LARGEST_PACKET = 1 << 28  # what a packet of a compressed file may take of memory
MOST_INFLATED = 1 << 28  # bytes of one compressed packet: recorders compress some hundred kB at a time
BROKEN: tuple[type[Exception], ...] = (zlib.error, engine.error)
FIRST = PACKET << 3 | LENGTH


@dataclass(frozen=True)
class Block:
    """Whole packets: packet k is `data[start[k]:end[k]]`. `PADDING` bytes follow the last one."""

    data: Array
    start: Ints
    end: Ints
    fields: Fields

    def __len__(self) -> int:
        return len(self.start)

    def content(self, start: int, end: int) -> bytes:
        return self.data[start:end].tobytes()


@dataclass
class PacketFile:
    """A trace file. `problems` says what was damaged, as far as it was read."""

    path: Path
    problems: list[str] = field(default_factory=list)
    n_broken: int = 0  # packets that are not messages
    n_nested: int = 0  # compressed packets inside of others, which are not read

    def blocks(self) -> Iterator[Block]:
        """Yield the packets of the file in blocks."""
        for data, start, end in self._split(self._pieces()):
            yield from self._expand(data, start, end)

    def _expand(self, data: Array, start: Ints, end: Ints) -> Iterator[Block]:
        """Yield the packets of a piece, with what compressed ones hold in their place."""
        block = self._block(data, start, end)
        packets, first, last = block.fields.contents(Packet.COMPRESSED_PACKETS)
        if not len(packets):
            yield block
            return
        done = 0
        for packet, at, to in zip(packets.tolist(), first.tolist(), last.tolist(), strict=True):
            if packet > done:
                yield self._block(data, start[done:packet], end[done:packet])
            done = packet + 1
            for inner in self._split(self._inflate(block.content(at, to))):
                inflated = self._block(*inner)
                self.n_nested += int(inflated.fields.has(Packet.COMPRESSED_PACKETS).sum())
                yield inflated
        if done < len(start):
            yield self._block(data, start[done:], end[done:])

    def _block(self, data: Array, start: Ints, end: Ints) -> Block:
        fields = read_fields(data, start, end)
        self.n_broken += int(fields.broken.sum())
        return Block(data, start, end, fields)

    def _split(self, pieces: Iterator[bytes]) -> Iterator[tuple[Array, Ints, Ints]]:
        """Yield bytes with whole packets, and where these lie. Stops where the bytes are not packets."""
        rest, offset = b"", 0
        wanted = 0  # bytes that the next packet needs
        for piece in pieces:
            rest += piece
            if len(rest) < wanted:
                continue
            try:
                start, end, used, wanted = split_packets(rest)
            except NotProtobuf as error:
                self.problems.append(f"at byte {offset + int(error.args[1])}: expected a packet, found {error.args[0]}")
                start, end = error.args[2:]
                if len(start):
                    yield _pad(rest), start, end
                return
            if wanted > LARGEST_PACKET:
                self.problems.append(f"at byte {offset + used}: a packet of {wanted} bytes, which is not read")
                wanted = 0
                if len(start):
                    yield _pad(rest[:used]), start, end
                return
            if len(start):
                yield _pad(rest[:used]), start, end
            rest, offset = rest[used:], offset + used
        if rest:
            self.problems.append(f"it breaks off at byte {offset + len(rest)}, inside of the packet at byte {offset}")

    def _pieces(self) -> Iterator[bytes]:
        with open_regular(self.path) as file:
            head = file.read(2)
            file.seek(0)
            if head == b"\x1f\x8b":
                yield from self._gunzip(iter(lambda: file.read(PIECE), b""))
            else:
                yield from iter(lambda: file.read(PIECE), b"")

    def _gunzip(self, pieces: Iterator[bytes]) -> Iterator[bytes]:
        """Yield what a gzip file holds; parts may follow each other."""
        machine: Any = engine.decompressobj(GZIP)
        for piece in pieces:
            rest = piece
            while rest:
                try:
                    content = machine.decompress(rest, PIECE)
                except BROKEN as error:
                    self.problems.append(f"the gzip data is broken ({error}); what comes before it is read")
                    return
                yield content
                rest = machine.unconsumed_tail
                if machine.eof:
                    rest = machine.unused_data.lstrip(b"\0")
                    if not rest.startswith(b"\x1f\x8b"):
                        return
                    machine = engine.decompressobj(GZIP)
        self.problems.append("the gzip data breaks off; what comes before is read")

    def _inflate(self, stream: bytes) -> Iterator[bytes]:
        """Yield what a compressed packet holds, up to a limit."""
        machine: Any = engine.decompressobj()
        done, rest = 0, stream
        while not machine.eof:
            try:
                content = machine.decompress(rest, PIECE)
            except BROKEN as error:
                self.problems.append(f"a compressed packet is broken ({error})")
                return
            if not content:
                self.problems.append("a compressed packet breaks off")
                return
            done += len(content)
            if done > MOST_INFLATED:
                self.problems.append(f"a compressed packet holds more than {MOST_INFLATED} bytes; the rest is not read")
                return
            yield content
            rest = machine.unconsumed_tail


def _pad(content: bytes) -> Array:
    return np.frombuffer(content + bytes(PADDING), np.uint8)


def split_packets(content: bytes) -> tuple[Ints, Ints, int, int]:
    """Return where packets start and end, how many bytes whole packets take, and how many bytes the next one would
    need. Fields of a trace that are not packets are skipped."""
    start: list[int] = []
    end: list[int] = []
    add_start, add_end = start.append, end.append
    position, size, wanted = 0, len(content), 0
    try:
        while position < size:
            if content[position] != FIRST:
                position = skip_field(content, position)
                continue
            at = position + 2
            length = content[position + 1]
            if length >= 0x80:
                length, at = read_varint(content, position + 1)
            if at + length > size:
                wanted = at + length - position
                break
            add_start(at)
            position = at + length
            add_end(position)
    except IndexError:  # the end of the bytes, inside of a number
        wanted = size - position + 1
    except NotProtobuf as error:
        raise NotProtobuf(error.args[0], position, np.array(start, np.int64), np.array(end, np.int64)) from None
    return np.array(start, np.int64), np.array(end, np.int64), position, wanted


def first_packets(head: bytes, n: int) -> list[list[int]]:
    """Return the field numbers of the first packets of a file whose first bytes these are, as far as they are whole;
    raise `NotProtobuf` where they are not packets."""
    start, end, _, _ = split_packets(head)
    return [
        [number for number, *_ in scalar_fields(head[first:last])]
        for first, last in zip(start[:n].tolist(), end[:n].tolist(), strict=True)
    ]
