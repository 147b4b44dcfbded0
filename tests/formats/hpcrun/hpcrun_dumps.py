"""What HPCToolkit's own hpcproftt printed about measurement files: the text files beside the samples, all fields.

Three releases print three layouts; what one of them does not print is absent here.
"""

from __future__ import annotations

import lzma
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

PAIR = re.compile(r"\[nv-pair: '(.*?)', '(.*)'\]")
MODULE = re.compile(r"\[\(id: (\d+)\) \(nm: (.*)\) \(flg: (0x[0-9a-f]+)\)\]")
NODE = re.compile(
    r"\[node: \(id: (-?\d+)\) \(id-parent: (\d+)\) \(lm-id: (\d+)\) \(lm-ip: (0x[0-9a-f]+)\)(?: '(.{8})')?"
)
METRIC = re.compile(
    r"\[(?:\(id: \d+\) )?\(nm: (.*)\) \(desc: (.*)\) \(\(ty: (\d)\) \(val-ty: (\d)\) \(val-fmt: (\d)\) "
    r"\(partner: (\d+)\) \(show: (\d)\) \(showPercent: (\d)\)\) \(period: (\d+)\) \(formula: (.*?)\) \(format: (.*?)\)"
)
TAIL = re.compile(r"\(frequency: (\d+)\) \(multiplexed: (\d+)\) \(period-mean: ([^)]+)\) \(num-samples: (\d+)\)")
KIND = re.compile(r"\(kind: (\d+)\) \(kindStr: (.*)\)")
IDENTIFIER = re.compile(r"\((\w+)\((SINGLE|GEN LOCAL|GEN GLOBAL|BOTH)\): (\d+)(?:, (\d+))?\)")
VALUE = re.compile(r"\(value: ([^,]+), metric id: (\d+)\)")
INDEX = re.compile(r"\(cct node id: (\d+|END), index: (\d+)\)")
FOOTER = re.compile(r"\[\s*([\w -]+?) start: (\d+)(?:, end: (\d+))?\]")


@dataclass
class DumpedFile:
    """Everything printed about one file. Numbers of nodes and values keep their text."""

    name: str
    version: str = ""
    pairs: list[tuple[str, str]] = field(default_factory=list)
    epoch_pairs: list[tuple[str, str]] = field(default_factory=list)
    epoch_flags: str = ""
    granularity: str = ""
    ra: str = ""
    metrics: list[tuple[str, ...]] = field(default_factory=list)
    tails: list[tuple[str, ...]] = field(default_factory=list)
    modules: list[tuple[str, ...]] = field(default_factory=list)
    nodes: list[tuple[str, str, str, str]] = field(default_factory=list)
    codes: dict[str, str] = field(default_factory=dict)
    node_values: list[list[str]] = field(default_factory=list)  # 02.00
    kinds: list[tuple[str, str]] = field(default_factory=list)
    identifiers: list[tuple[str, ...]] = field(default_factory=list)
    values: list[tuple[str, str]] = field(default_factory=list)  # 04.00: value, metric
    index: list[tuple[str, str]] = field(default_factory=list)
    footer: dict[str, tuple[str, str | None]] = field(default_factory=dict)


def lines_of(folder: Path) -> list[str]:
    plain = folder.with_name(f"{folder.name.removesuffix('.m')}.hpcproftt.txt")
    if plain.is_file():
        return plain.read_text("utf-8").splitlines()
    with lzma.open(plain.with_name(f"{plain.name}.xz"), "rt", encoding="utf-8") as file:
        return file.read().splitlines()


def dumped(folder: Path) -> dict[str, DumpedFile]:
    """What the text beside a measurement folder says, by file name."""
    found: dict[str, DumpedFile] = {}
    lines = lines_of(folder)
    starts = [k for k, line in enumerate(lines[:-1]) if lines[k + 1].startswith("====") and line.endswith(".hpcrun")]
    for first, last in zip(starts, [*starts[1:], len(lines)], strict=True):
        file = DumpedFile(lines[first])
        for line in lines[first + 2 : last]:
            _take(file, line.strip())
        found[file.name] = file
    return found


def _take(file: DumpedFile, line: str) -> None:
    if found := re.match(r"\(version: (.*)\)", line):
        file.version = found[1]
    elif found := PAIR.match(line):
        (file.epoch_pairs if file.epoch_flags else file.pairs).append((found[1], found[2]))
    elif found := re.match(r"\(flags: (.*)\)", line):
        file.epoch_flags = found[1]
    elif found := re.match(r"\(measurement-granularity: (.*)\)", line):
        file.granularity = found[1]
    elif found := re.match(r"\(RA-to-callsite-offset: (.*)\)", line):
        file.ra = found[1]
    elif found := METRIC.match(line):
        file.metrics.append(found.groups())
    elif found := TAIL.match(line):
        file.tails.append(found.groups())
    elif found := MODULE.match(line):
        file.modules.append(found.groups())
    elif found := NODE.match(line):
        file.nodes.append((found[1], found[2], found[3], found[4]))
        if found[5]:
            file.codes[found[1]] = found[5]
    elif found := re.match(r"\(metrics:(.*)\)$", line):
        file.node_values.append(found[1].split())
    elif found := KIND.match(line):
        file.kinds.append((found[1], found[2]))
    elif line.startswith("id tuple:"):
        file.identifiers = [tuple(g or "" for g in one) for one in IDENTIFIER.findall(line)]
    else:
        _take_values(file, line)


def _take_values(file: DumpedFile, line: str) -> None:
    for found in VALUE.finditer(line):
        file.values.append((found[1], found[2]))
    for found in INDEX.finditer(line):
        file.index.append((found[1], found[2]))
    if place := FOOTER.match(line):
        file.footer[place[1]] = (place[2], place[3])


def folders(data: Path) -> Iterator[Path]:
    """The measurement folders with a dump beside them."""
    yield from sorted(p for p in data.glob("own/hpcrun-*/**/*.m") if p.is_dir())
