"""What CubeLib's tools printed for the sample files: cube_dump, cube_stat, cube_calltree.

csv2 of cube_dump has one line for each cnode and location, and a tuple cell reads `(n,min,max):mean,stddev`.
"""

from __future__ import annotations

import lzma
import re
from collections.abc import Iterator
from pathlib import Path

__all__ = ["calltree", "dump", "stat", "text"]

CELL = re.compile(r"\(([^)]*)\):([^,]*),([^,]*)|([^,]*)")
Tuple = tuple[float, ...]


def text(path: Path) -> str | None:
    """An oracle, compressed or not; None where there is none."""
    if path.is_file():
        return path.read_text()
    packed = path.with_name(path.name + ".xz")
    return lzma.open(packed, "rt").read() if packed.is_file() else None


def dump(path: Path) -> dict[str, dict[tuple[int, int], float | Tuple]] | None:
    """{metric: {(cnode, location): value}}; tuples are (n, min, max, mean, stddev), `-` is absent."""
    lines = text(path)
    if lines is None:
        return None
    names, *rows = lines.splitlines()
    metrics = names.split(",")[2:]
    out: dict[str, dict[tuple[int, int], float | Tuple]] = {name: {} for name in metrics}
    for line in rows:
        if line.strip():
            cnode, location, *cells = list(_cells(line))
            assert len(cells) == len(metrics)
            for name, cell in zip(metrics, cells, strict=True):
                if cell is not None:
                    out[name][int(str(cnode)), int(str(location))] = cell
    return out


def _cells(line: str) -> Iterator[float | Tuple | None]:
    at = 0
    while at <= len(line):
        found = CELL.match(line, at)
        assert found is not None
        if found[1] is not None:
            fields = [*found[1].split(","), found[2], found[3]]
            yield tuple(float("nan") if field == "-" else float(field) for field in fields)
        else:
            word = found[4].strip()
            yield None if word == "-" else int(word) if re.fullmatch(r"-?\d+", word) else float(word)
        at = found.end() + 1


def stat(path: Path) -> dict[str, tuple[int, float, float]]:
    """{region: (visits, exclusive time, inclusive time)} of cube_stat, over all cnodes of the region."""
    lines = (text(path) or "").splitlines()[1:]
    found = (re.fullmatch(r"(.*?)\s+(\d+)\s+([0-9.e+-]+)\s+([0-9.e+-]+)\s*", line) for line in lines)
    return {f[1].strip(): (int(f[2]), float(f[3]), float(f[4])) for f in found if f}


def calltree(path: Path) -> list[tuple[float, int, str]]:
    """(inclusive time, depth, region) of cube_calltree, in preorder."""
    out = []
    for line in (text(path) or "").splitlines():
        found = re.fullmatch(r"(?:  ((?:\|   )*)\+ )?(.*?)\s*", line[16:])
        assert found is not None
        depth = 0 if found[1] is None else len(found[1]) // 4 + 1
        out.append((float(line[:16]), depth, found[2]))
    return out
