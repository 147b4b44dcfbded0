"""Cube files put together byte by byte, by the specification and without any of the package's code.

    cube = Cube(tree, metrics)        a system of four locations: two ranks on two nodes, two threads each
    cube.write(path, zipped=True, big=True, ...)

Values are given per metric as {cnode id: row}; which position a row has follows from the tree.
"""

from __future__ import annotations

import gzip
import struct
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from xml.sax.saxutils import escape, quoteattr

BLOCK = 512
Node = tuple[int, str, list["Node"]]
CODES = {
    "INT8": "b", "CHAR": "b", "UINT8": "B", "INT16": "h", "SHORT INT": "h", "SIGNED SHORT INT": "h", "UINT16": "H",
    "UNSIGNED SHORT INT": "H", "INT32": "i", "INT": "i", "SIGNED INT": "i", "UINT32": "I", "UNSIGNED INT": "I",
    "INT64": "q", "INTEGER": "q", "SIGNED INTEGER": "q", "UINT64": "Q", "UNSIGNED INTEGER": "Q", "DOUBLE": "d",
    "FLOAT": "d", "MINDOUBLE": "d", "MAXDOUBLE": "d", "COMPLEX": "dd", "RATE": "dd", "TAU_ATOMIC": "Idddd",
    "HISTOGRAM(3)": "ddddd", "NDOUBLES(2)": "dd",
}  # fmt: skip


@dataclass
class RawMetric:
    """One metric and its stored rows, by cnode id."""

    name: str
    type: str = "EXCLUSIVE"
    dtype: str = "DOUBLE"
    rows: Mapping[int, Sequence[object]] = field(default_factory=dict)
    id: int = -1
    more: str = ""  # attributes of the element
    inside: str = ""  # further elements
    below: list[RawMetric] = field(default_factory=list)
    uom: str = "sec"

    @property
    def stem(self) -> str:
        return f"ghost_{self.id}" if 'viztype="GHOST"' in self.more else str(self.id)


def preorder(roots: Sequence[Node]) -> list[int]:
    return [id_ for node in roots for id_ in [node[0], *preorder(node[2])]]


def wide(roots: Sequence[Node]) -> list[int]:
    def visit(node: Node) -> list[int]:
        return [child[0] for child in node[2]] + [id_ for child in node[2] for id_ in visit(child)]

    return [id_ for root in roots for id_ in [root[0], *visit(root)]]


def header(name: str, size: int, *, checksum: int = 0, kind: bytes = b"0", magic: bytes = b"ustar\x0000") -> bytes:
    out = bytearray(BLOCK)
    for at, text in ((0, name.encode()), (100, b"0000600\0"), (124, b"%011o\0" % size), (156, kind), (257, magic)):
        out[at : at + len(text)] = text
    out[148:156] = b" " * 8
    out[148:156] = b"%06o\0 " % (sum(out) + checksum)
    return bytes(out)


def archive(
    members: Iterable[tuple[str, bytes]],
    *,
    extra_block: bool = True,
    end: int = 2,
    checksum: int = 0,
    prefix: str = "",
    magic: bytes = b"ustar\x0000",
) -> bytes:
    """A tar file; `extra_block` after members whose size is a multiple of 512, as CubeLib does."""
    out = b""
    for name, data in members:
        out += header(prefix + name, len(data), checksum=checksum, magic=magic) + data + bytes(-len(data) % BLOCK)
        if extra_block and data and len(data) % BLOCK == 0:
            out += bytes(BLOCK)
    return out + bytes(BLOCK * end)


def index(positions: Sequence[int], *, big: bool = False, form: int = 1, version: int = 0) -> bytes:
    order = ">" if big else "<"
    out = b"CUBEX.INDEX" + struct.pack(order + "IHB", 1, version, form)
    return out if form == 3 else out + struct.pack(f"{order}I{len(positions)}I", len(positions), *positions)


def packed(dtype: str, row: Sequence[object], big: bool) -> bytes:
    code = ("<", ">")[big] + CODES[dtype]
    return b"".join(struct.pack(code, *(cell if isinstance(cell, tuple) else (cell,))) for cell in row)


def plain_data(rows: Sequence[bytes]) -> bytes:
    return b"CUBEX.DATA" + b"".join(rows)


def zipped_data(rows: Sequence[bytes], *, big: bool = False, order: Callable[[list[int]], list[int]] = list) -> bytes:
    """Compressed rows; `order` may put the table into another order than the rows."""
    streams, size = [zlib.compress(row) for row in rows], len(rows[0]) if rows else 0
    starts = [sum(map(len, streams[:k])) for k in range(len(rows))]
    table = b"".join(
        struct.pack((">" if big else "<") + "3Q", k * size, starts[k], len(streams[k]))
        for k in order(list(range(len(rows))))
    )
    return b"ZCUBEX.DATA" + struct.pack((">" if big else "<") + "Q", len(rows)) + table + b"".join(streams)


SYSTEM = """<systemtreenode Id="0"><name>M</name><class>machine</class>
{nodes}</systemtreenode>
"""
NODE = """<systemtreenode Id="{id}"><name>n{name}</name><class>node</class>
<locationgroup Id="{rank}"><name>rank {rank}</name><rank>{rank}</rank><type>process</type>
{locations}</locationgroup></systemtreenode>
"""
LOCATION = '<location Id="{id}"><name>thread {rank}</name><rank>{rank}</rank><type>thread</type></location>\n'


def system(ids: Sequence[int] = (0, 1, 2, 3)) -> str:
    """Two nodes with one rank each, with half of the locations each."""
    half = (len(ids) + 1) // 2
    nodes = ""
    for rank, part in enumerate((ids[:half], ids[half:])):
        locations = "".join(LOCATION.format(id=id_, rank=k) for k, id_ in enumerate(part))
        nodes += NODE.format(id=rank + 1, name="AB"[rank], rank=rank, locations=locations)
    return SYSTEM.format(nodes=nodes)


REGIONS = {
    "main": 'mod="m.c" begin="1" end="9"|main|compiler|function',
    "foo": 'mod="m.c" begin="10" end="19"|_Z3foo|compiler|function',
    "bar": 'mod="b.c" begin="-1" end="-1"||user|function',
    "MPI_Send": 'mod="MPI" begin="-1" end="-1"|MPI_Send|mpi|point2point',
    "MPI_Barrier": 'mod="MPI" begin="-1" end="-1"|MPI_Barrier|mpi|barrier',
}


@dataclass
class Cube:
    """A whole file. `parts` may replace the pieces of the anchor, `members` any member (None: leave it out)."""

    tree: Sequence[Node]
    metrics: list[RawMetric]
    ids: Sequence[int] = (0, 1, 2, 3)
    version: str = "4.4"
    head: str = ""
    system: str = ""
    cnode_more: Mapping[int, str] = field(default_factory=dict)
    attachments: list[tuple[str, bytes]] = field(default_factory=list)

    def __post_init__(self) -> None:
        for number, metric in enumerate(self.all_metrics()):
            if metric.id < 0:
                metric.id = number

    def all_metrics(self) -> list[RawMetric]:
        def walk(some: list[RawMetric]) -> list[RawMetric]:
            return [m for metric in some for m in [metric, *walk(metric.below)]]

        return walk(self.metrics)

    def anchor(self) -> str:
        names = list(dict.fromkeys(name for node in self.tree for name in _names(node)))
        regions = "".join(_region(number, name) for number, name in enumerate(names))
        return (
            f'<?xml version="1.0" encoding="UTF-8"?>\n<cube version="{self.version}">\n{self.head}'
            f"<metrics>\n{''.join(map(_metric, self.metrics))}</metrics>\n<program>\n{regions}"
            f"{''.join(self._cnode(node, names) for node in self.tree)}</program>\n"
            f"<system>\n{self.system or system(self.ids)}</system>\n</cube>\n"
        )

    def _cnode(self, node: Node, names: list[str]) -> str:
        inside = self.cnode_more.get(node[0], "") + "".join(self._cnode(child, names) for child in node[2])
        return f'<cnode id="{node[0]}" calleeId="{names.index(node[1])}">\n{inside}</cnode>\n'

    def position(self, metric: RawMetric) -> dict[int, int]:
        order = wide(self.tree) if metric.type in ("INCLUSIVE", "SIMPLE") else preorder(self.tree)
        return {id_: k for k, id_ in enumerate(order)}

    def members(self, *, zipped: bool = False, big: bool = False, dense: bool = False) -> dict[str, bytes]:
        out: dict[str, bytes] = dict(self.attachments)
        for metric in self.all_metrics():
            if not metric.rows:
                continue
            position = self.position(metric)
            rows = {position[id_]: packed(metric.dtype, row, big) for id_, row in metric.rows.items()}
            if dense:
                size = len(next(iter(rows.values())))
                rows = {k: rows.get(k, bytes(size)) for k in range(len(position))}
            ordered = [rows[k] for k in sorted(rows)]
            out[f"{metric.stem}.data"] = zipped_data(ordered, big=big) if zipped else plain_data(ordered)
            out[f"{metric.stem}.index"] = index(sorted(rows), big=big, form=3 if dense else 1)
        out["anchor.xml"] = self.anchor().encode()
        return out

    def write(
        self,
        path: Path,
        changes: Mapping[str, bytes | None] | None = None,
        *,
        zipped: bool = False,
        big: bool = False,
        dense: bool = False,
        gz_anchor: bool = False,
        gz_archive: bool = False,
    ) -> Path:
        """The file, with some members changed or left out."""
        members = {**self.members(zipped=zipped, big=big, dense=dense), **(changes or {})}
        if gz_anchor and members["anchor.xml"] is not None:
            members["anchor.xml"] = gzip.compress(members["anchor.xml"])
        data = archive((name, data) for name, data in members.items() if data is not None)
        path.write_bytes(gzip.compress(data) if gz_archive else data)
        return path


UNKNOWN_REGION = 'mod="" begin="-1" end="-1"||user|function'


def _names(node: Node) -> list[str]:
    return [node[1], *(name for child in node[2] for name in _names(child))]


def _region(number: int, name: str) -> str:
    """`f@@_Z1fi` is a function of the display name f; all such ones have the same place."""
    name, overloaded, said = name.partition("@@")
    default = f'mod="a.cpp" begin="1" end="9"|{said}|compiler|function' if overloaded else UNKNOWN_REGION
    given, mangled, paradigm, role = REGIONS.get(name, default).split("|")
    return (
        f'<region id="{number}" {given}><name>{escape(name)}</name><mangled_name>{mangled}</mangled_name>'
        f"<paradigm>{paradigm}</paradigm><role>{role}</role><url></url><descr></descr></region>\n"
    )


def _metric(metric: RawMetric) -> str:
    kind = f" type={quoteattr(metric.type)}" if metric.type else ""
    return (
        f'<metric id="{metric.id}"{kind} {metric.more}><disp_name>{escape(metric.name)}</disp_name>'
        f"<uniq_name>{escape(metric.name)}</uniq_name><dtype>{metric.dtype}</dtype><uom>{metric.uom}</uom>"
        f"<url></url><descr></descr>{metric.inside}{''.join(map(_metric, metric.below))}</metric>\n"
    )


# -- the reference cube R1 of the specification ------------------------------------------------------------------------

R1_TREE: list[Node] = [
    (0, "main", [
        (1, "foo", [(2, "bar", []), (3, "MPI_Send", [])]),
        (4, "bar", [(5, "foo", [])]),
        (6, "MPI_Barrier", []),
    ])
]  # fmt: skip
R1_VISITS = {
    0: (1, 0, 1, 0),
    1: (10, 20, 30, 40),
    2: (2,) * 4,
    3: (5, 6, 7, 8),
    4: (1,) * 4,
    5: (3,) * 4,
    6: (4, 0, 4, 0),
}
R1_TIME = {
    0: (10, 1, 12, 3), 1: (5, 6, 7, 8), 2: (1, 2, 3, 4), 3: (8, 7, 6, 5), 4: (2,) * 4, 5: (1, 3, 5, 7), 6: (4,) * 4,
}  # fmt: skip
R1_TIME_INCLUSIVE = {
    0: (31, 25, 39, 33), 1: (14, 15, 16, 17), 2: (1, 2, 3, 4), 3: (8, 7, 6, 5), 4: (3, 5, 7, 9), 5: (1, 3, 5, 7),
    6: (4,) * 4,
}  # fmt: skip


def r1() -> Cube:
    return Cube(
        R1_TREE,
        [
            RawMetric("visits", "EXCLUSIVE", "UINT64", R1_VISITS, uom="occ"),
            RawMetric("time", "INCLUSIVE", "DOUBLE", R1_TIME_INCLUSIVE),
            RawMetric("lo", "EXCLUSIVE", "MINDOUBLE", {k: [0.5 * v for v in row] for k, row in R1_TIME.items()}),
            RawMetric("hi", "EXCLUSIVE", "MAXDOUBLE", {k: [2.0 * v for v in row] for k, row in R1_TIME.items()}),
            RawMetric("bytes", "EXCLUSIVE", "UINT64", {3: (100, 200, 300, 400)}, uom="bytes"),
        ],
    )
