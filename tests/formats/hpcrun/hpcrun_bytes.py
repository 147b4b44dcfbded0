"""Measurement files made with `struct` alone, field by field as the specification lists them.

Nothing of the package takes part, so that what is read can be compared with what was meant.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

Pair = tuple[str, str]
RAW, DERIVED = 1, 3
INT, REAL = 1, 2


def u16(number: int) -> bytes:
    return struct.pack(">H", number)


def u32(number: int) -> bytes:
    return struct.pack(">I", number)


def u64(number: int) -> bytes:
    return struct.pack(">Q", number)


def value(number: int | float) -> bytes:
    """Eight bytes: a double if the number is one."""
    return u64(number) if isinstance(number, int) else struct.pack(">d", number)


def text(string: str) -> bytes:
    data = string.encode()
    return u32(len(data)) + data


def pairs(items: Sequence[Pair]) -> bytes:
    return u32(len(items)) + b"".join(text(k) + text(v) for k, v in items)


@dataclass(frozen=True)
class RawMetric:
    name: str
    fmt: int = INT
    period: int = 1
    formula: str = ""
    ty: int = RAW
    show: int = 1
    tail: tuple[int, int, float, int] = (0, 0, 0.0, 0)
    move2proc: int = 0

    def packed(self, has_tail: bool) -> bytes:
        flags = struct.pack("<BBBBHBB8s", self.ty, 0, self.fmt, self.move2proc, 0, self.show, 1, bytes(8))
        body = text(self.name) + text(f"about {self.name}") + flags + u64(self.period) + text(self.formula) + text("")
        return body + (struct.pack(">HHdQ", *self.tail) if has_tail else b"")


def start(version: str, header: Sequence[Pair]) -> bytes:
    return b"HPCRUN-profile____" + version.encode() + b"b" + pairs(header)


def loadmap(modules: Sequence[tuple[int, str]]) -> bytes:
    return u32(len(modules)) + b"".join(u16(id_) + text(path) + u64(0) for id_, path in modules)


HEADER = (("program-name", "app"), ("mpi-rank", "3"), ("thread-id", "1"), ("host-id", "7f"), ("process-id", "42"))
MODULES = ((1, "/bin/app"), (2, "/lib/libm.so"))

# -- 02.00 -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class RawNode:
    """A node of 02.00; the id of a leaf is negative."""

    id: int
    parent: int
    lm: int
    ip: int
    values: tuple[float, ...] = ()
    association: int = 0
    lip: bytes = bytes(16)


@dataclass(frozen=True)
class RawEpoch:
    metrics: tuple[RawMetric, ...]
    nodes: tuple[RawNode, ...]
    modules: tuple[tuple[int, str], ...] = MODULES
    flags: int = 0
    granularity: int = 1
    ra: int = 0
    pairs: tuple[Pair, ...] = (("TODO:epoch-name", "TODO:epoch-value"),)

    def packed(self, dialect: str) -> bytes:
        metrics = u32(len(self.metrics)) + b"".join(m.packed(dialect == "B") for m in self.metrics)
        nodes = b"".join(self._node(node) for node in self.nodes)
        head = b"EPOCH___" + u64(self.flags) + u64(self.granularity) + u32(self.ra) + pairs(self.pairs)
        return head + metrics + loadmap(self.modules) + u64(len(self.nodes)) + nodes

    def _node(self, node: RawNode) -> bytes:
        logical = bool(self.flags & 1)
        out = struct.pack(">iI", node.id, node.parent) + (u32(node.association) if logical else b"")
        out += u16(node.lm) + u64(node.ip) + (node.lip if logical else b"")
        return out + b"".join(map(value, node.values))


def file_02(*epochs: RawEpoch, dialect: str = "B", version: str = "02.00", header: Sequence[Pair] = HEADER) -> bytes:
    return start(version, header) + b"".join(epoch.packed(dialect) for epoch in epochs)


# -- 04.00 -------------------------------------------------------------------------------------------------------------


def code(characters: str) -> int:
    return int.from_bytes(characters.encode("latin-1"), "big")


ROOT = (12, 0, 0, code("^Primary"), 1)
KINDS = ((0, "SUMMARY"), (1, "NODE"), (2, "RANK"), (3, "THREAD"))


@dataclass(frozen=True)
class File04:
    """A file of 04.00; `values` are (node, [(metric, value), ...]) in the order of the index."""

    nodes: tuple[tuple[int, int, int, int, int], ...] = (
        ROOT,
        (14, 12, 0, code("| Thread"), 1),
        (16, 14, 1, 0x1000, 1),
        (18, 16, 1, 0x2000, 1),
        (21, 16, 2, 0x30, 1),
    )
    metrics: tuple[RawMetric, ...] = (RawMetric("CPUTIME (sec)", REAL),)
    values: tuple[tuple[int, tuple[tuple[int, float], ...]], ...] = ((21, ((0, 0.5),)), (18, ((0, 0.25),)))
    modules: tuple[tuple[int, str], ...] = MODULES
    header: tuple[Pair, ...] = HEADER
    identifiers: tuple[tuple[int, int, int, int], ...] = ((1, 0x7F, 0, 1), (2, 3, 3, 3), (3, 1, 1, 3))
    kinds: tuple[tuple[int, str], ...] = KINDS
    has_flags: bool = True
    padding: bytes = b"\0"
    extra: dict[int, bytes] = field(default_factory=dict)  # section -> bytes behind its content
    swap: tuple[int, int] | None = None  # positions of the footer to exchange

    def sections(self) -> list[bytes]:
        nodes = b"".join(
            struct.pack(">IIHQ", *node[:4]) + (bytes([node[4]]) if self.has_flags else b"") for node in self.nodes
        )
        kinds = u16(len(self.kinds)) + b"".join(u16(k) + text(name) for k, name in self.kinds)
        return [
            start("04.00", self.header),
            loadmap(self.modules),
            u64(len(self.nodes)) + nodes,
            u32(len(self.metrics)) + b"".join(m.packed(True) for m in self.metrics),
            kinds,
            self.sparse(),
        ]

    def sparse(self) -> bytes:
        identifiers = b"".join(u16(kind | how << 14) + u64(p) + u64(i) for kind, p, i, how in self.identifiers)
        n = sum(len(own) for _, own in self.values)
        stored = b"".join(value(number) + u16(metric) for _, own in self.values for metric, number in own)
        index, first = b"", 0
        for node, own in self.values:
            index += u32(node) + u64(first)
            first += len(own)
        head = u16(len(self.identifiers)) + identifiers + u64(n) + u32(len(self.values))
        return head + stored + index + u32(0x656E6421) + u64(n)

    def packed(self) -> bytes:
        out, bounds = b"", []
        for number, section in enumerate(self.sections()):
            section += self.extra.get(number, b"")
            bounds += [len(out), len(out) + len(section)]
            out += section
            out += self.padding * (-len(out) % 1024)
        bounds.append(len(out))
        if self.swap is not None:
            a, b = self.swap
            bounds[a], bounds[b] = bounds[b], bounds[a]
        return out + b"".join(map(u64, bounds)) + b"HPCRUNsm"

    def changed(self, **fields: object) -> bytes:
        return replace(self, **fields).packed()  # type: ignore[arg-type]
