"""Makes Cube files of any size, byte by byte and with known values: `python -m bench.cubes FILE`.

A tree of cnodes, one rank for each location, and metrics by turns exclusive (UINT64) and inclusive (DOUBLE). The value
of a cell follows from its metric, its row and its location alone: see `values_of`.
"""

from __future__ import annotations

import argparse
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np

__all__ = ["CubeShape", "make_cube", "values_of"]

BLOCK = 512
PERIOD = 9973  # values repeat after so many cells, so that rows compress about as real ones do


@dataclass(frozen=True)
class CubeShape:
    """How large a file is. As it stands: 49 million values."""

    n_cnodes: int = 2000
    n_locations: int = 4096
    n_metrics: int = 6
    compressed: bool = False

    @property
    def name(self) -> str:
        kind = "compressed" if self.compressed else "plain"
        return f"{kind}-{self.n_cnodes}x{self.n_locations}x{self.n_metrics}.cubex"


def values_of(metric: int, position: int, n_locations: int) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """The row at one position of a metric: whole numbers below a thousand, in quarters for inclusive metrics."""
    cells = (position * 7919 + np.arange(n_locations) * 104729 + metric * 31) % PERIOD
    return (cells % 4000) / 4.0 if metric % 2 else np.floor(cells % 1000)


def make_cube(path: Path, shape: CubeShape) -> Path:
    """The file; one that is there already is kept."""
    if path.is_file():
        return path
    partial = path.with_suffix(".part")
    with partial.open("wb") as file:
        for metric in range(shape.n_metrics):
            _member(file, f"{metric}.data", _data(metric, shape))
            positions = np.arange(shape.n_cnodes, dtype="<u4").tobytes()
            head = b"CUBEX.INDEX" + struct.pack("<IHBI", 1, 0, 1, shape.n_cnodes)
            _member(file, f"{metric}.index", iter([head + positions]))
        _member(file, "anchor.xml", iter([_anchor(shape).encode()]))
        file.write(bytes(2 * BLOCK))
    partial.rename(path)
    return path


def _data(metric: int, shape: CubeShape) -> Iterator[bytes]:
    kind = "<f8" if metric % 2 else "<u8"
    rows = (values_of(metric, k, shape.n_locations).astype(kind).tobytes() for k in range(shape.n_cnodes))
    if not shape.compressed:
        yield b"CUBEX.DATA"
        yield from rows
        return
    streams = [zlib.compress(row) for row in rows]
    sizes = np.array([len(s) for s in streams])
    table = np.stack([np.arange(len(streams)) * shape.n_locations * 8, np.cumsum(sizes) - sizes, sizes], axis=1)
    yield b"ZCUBEX.DATA" + struct.pack("<Q", len(streams)) + table.astype("<u8").tobytes()
    yield from streams


def _member(file: BinaryIO, name: str, pieces: Iterator[bytes]) -> None:
    start = file.tell()
    file.write(bytes(BLOCK))
    size = sum(file.write(piece) for piece in pieces)
    if size % BLOCK == 0:
        size += file.write(b"\n" if name == "anchor.xml" else b"\0")
    file.write(bytes(-size % BLOCK))
    end = file.tell()
    header = bytearray(BLOCK)
    for at, text in (
        (0, name.encode()),
        (100, b"0000600\0"),
        (124, b"%011o\0" % size),
        (156, b"0"),
        (257, b"ustar\x0000"),
    ):
        header[at : at + len(text)] = text
    header[148:156] = b" " * 8
    header[148:156] = b"%06o\0 " % sum(header)
    file.seek(start)
    file.write(header)
    file.seek(end)


def _anchor(shape: CubeShape) -> str:
    metrics = "".join(
        f'<metric id="{m}" type="{("EXCLUSIVE", "INCLUSIVE")[m % 2]}"><disp_name>m{m}</disp_name>'
        f"<uniq_name>m{m}</uniq_name><dtype>{('UINT64', 'DOUBLE')[m % 2]}</dtype><uom>{('occ', 'sec')[m % 2]}</uom>"
        "<url></url><descr></descr></metric>\n"
        for m in range(shape.n_metrics)
    )
    regions = "".join(
        f'<region id="{r}" mod="a.c" begin="{r}" end="{r}"><name>f{r}</name><mangled_name>f{r}</mangled_name>'
        "<paradigm>compiler</paradigm><role>function</role><url></url><descr></descr></region>\n"
        for r in range(shape.n_cnodes)
    )
    groups = "".join(
        f'<locationgroup Id="{p}"><name>rank {p}</name><rank>{p}</rank><type>process</type><location Id="{p}">'
        f"<name>thread</name><rank>0</rank><type>thread</type></location></locationgroup>\n"
        for p in range(shape.n_locations)
    )
    return (
        f'<?xml version="1.0" encoding="UTF-8"?>\n<cube version="4.4">\n<metrics>\n{metrics}</metrics>\n'
        f"<program>\n{regions}{_cnodes(shape.n_cnodes)}</program>\n<system>\n"
        '<systemtreenode Id="0"><name>machine</name><class>machine</class><systemtreenode Id="1"><name>node</name>'
        f"<class>node</class>\n{groups}</systemtreenode></systemtreenode></system>\n</cube>\n"
    )


def _cnodes(n: int) -> str:
    """A tree in preorder, about as deep as those of C++ programs: the first child has most of what is below."""
    out, open_ends = [], [n]
    for k in range(n):
        while open_ends[-1] <= k:
            open_ends.pop()
            out.append("</cnode>\n")
        out.append(f'<cnode id="{k}" calleeId="{k}">\n')
        left = open_ends[-1] - k - 1
        open_ends.append(open_ends[-1] if k == 0 else k + 1 + left * 9 // 10)
    return "".join(out) + "</cnode>\n" * (len(open_ends) - 1)


def main() -> None:
    """The command line."""
    usual = CubeShape()
    parser = argparse.ArgumentParser(prog="python -m bench.cubes", description=__doc__.partition(":")[0])
    parser.add_argument("file", type=Path)
    parser.add_argument("--cnodes", type=int, default=usual.n_cnodes)
    parser.add_argument("--locations", type=int, default=usual.n_locations)
    parser.add_argument("--metrics", type=int, default=usual.n_metrics)
    parser.add_argument("--compressed", action="store_true")
    args = parser.parse_args()
    print(make_cube(args.file, CubeShape(args.cnodes, args.locations, args.metrics, args.compressed)))


if __name__ == "__main__":
    main()
