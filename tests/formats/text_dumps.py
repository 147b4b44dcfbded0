"""What HPCToolkit's own hpcproftt printed about a database: the text files beside the samples.

Values keep the text that was printed (six significant digits); ids are those of the file.

    NAME.profile.txt   the values of each profile, identifier tuples
    NAME.cct.txt       the values of each context
    NAME.trace.txt     the samples of each profile
    NAME.meta.txt      released databases: tables and the tree
"""

from __future__ import annotations

import lzma
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

Key = tuple[int, int, int]  # profile, context, metric
Texts = dict[Key, str]
Identifier = tuple[str, int | None, int]  # kind, physical number where it is printed, logical number

VALUE = re.compile(r"value: ([^,)]+)")
VALUE_ID = re.compile(r"(?:metric id|profile idx|profile index): (\d+)")
INDEX = re.compile(r"\((?:ctx id|metric id): (\d+), index: (\d+)\)")


def lines_of(database: Path, part: str) -> list[str]:
    """The dump of one part (`profile`, `cct`, `trace`, `meta`) of a sample database."""
    plain = database.with_name(f"{database.name.removesuffix('.d')}.{part}.txt")
    if plain.is_file():
        return plain.read_text("utf-8").splitlines()
    with lzma.open(plain.with_name(f"{plain.name}.xz"), "rt", encoding="utf-8") as file:
        return file.read().splitlines()


def _is_prerelease(lines: list[str]) -> bool:
    return lines[3].startswith("HPCPROF")


def _blocks(lines: list[str], opening: str) -> Iterator[tuple[int, list[str]]]:
    """(number, lines) of the blocks at the margin that begin with `opening`, which captures the number."""
    number: int | None = None
    block: list[str] = []
    for line in lines:
        if line.startswith(" "):
            block.append(line)
            continue
        if number is not None:
            yield number, block
        found = re.match(opening, line)
        number, block = (int(found[1], 0) if found else None), []


def _entries(block: list[str]) -> Iterator[tuple[int, int, str]]:
    """(id of the index, id of the value, text of the value) of one sparse block."""
    values = [(int(VALUE_ID.findall(line)[0]), VALUE.findall(line)[0]) for line in block if VALUE.search(line)]
    starts = [(int(found[1]), int(found[2])) for line in block if (found := INDEX.search(line))]
    for k, (major, start) in enumerate(starts):
        end = starts[k + 1][1] if k + 1 < len(starts) else len(values)
        for minor, text in values[start:end]:
            yield major, minor, text


def _numbered(lines: list[str], kind: str, array: str) -> Iterator[tuple[int, list[str]]]:
    """(profile or context, lines): by its number, or in released databases by where its values lie."""
    if _is_prerelease(lines):
        yield from _blocks(lines, rf"\[{kind} (\d+)")
        return
    data = dict(_blocks(lines, rf"\((0x[0-9a-f]+)\) \[{kind} data:"))
    number = -1
    for line in lines:
        if found := re.match(rf"  \[{array}\[(\d+)\]:", line):
            number = int(found[1])
        if (found := re.search(r"\(nValues: (\d+)\) \(pValues: (0x[0-9a-f]+)\)", line)) and int(found[1]):
            yield number, data[int(found[2], 16)]


def values_by_profile(database: Path) -> Texts:
    found: Texts = {}
    for profile, block in _numbered(lines_of(database, "profile"), "profile", "pProfiles"):
        found.update({(profile, context, metric): text for context, metric, text in _entries(block)})
    return found


def values_by_context(database: Path) -> Texts:
    found: Texts = {}
    for context, block in _numbered(lines_of(database, "cct"), "context", "pCtxs"):
        found.update({(profile, context, metric): text for metric, profile, text in _entries(block)})
    return found


def identifiers(database: Path) -> list[list[Identifier]]:
    """The identifier tuple of every profile; a summary has none."""
    lines = lines_of(database, "profile")
    if _is_prerelease(lines):
        tuples = [
            found[1] for line in lines if (found := re.match(r"  \d+\[(\(.*\)) ?\]$", line)) and "tuple" not in line
        ]
        return [[_prerelease_identifier(*e) for e in re.findall(r"\((\w+)\((\w+)\): ([^)]*)\)", t)] for t in tuples]
    at = {
        int(found[1], 16): found[2] for line in lines if (found := re.match(r"  \((0x[0-9a-f]+)\) \[(\(.*\))\]", line))
    }
    pointers = [int(found[1], 16) for line in lines if (found := re.search(r"\(pIdTuple: (0x[0-9a-f]+)\)", line))]
    return [
        [_release_identifier(*e) for e in re.findall(r"\((\w+) (\d+)(?: / (0x[0-9a-f]+))?\)", at[p])] if p else []
        for p in pointers
    ]


def _prerelease_identifier(kind: str, interpretation: str, numbers: str) -> Identifier:
    first, _, second = numbers.partition(", ")
    return (kind, int(first), int(second)) if interpretation == "BOTH" else (kind, None, int(first))


def _release_identifier(kind: str, logical: str, physical: str) -> Identifier:
    return kind, int(physical, 16) if physical else None, int(logical)


def samples(database: Path) -> dict[int, list[tuple[int, int]]]:
    """{profile: [(time, context)]}."""
    lines = lines_of(database, "trace")
    if _is_prerelease(lines):
        return {
            profile: [(int(a), int(b)) for a, b in re.findall(r"\((\d+), (\d+)\)", "".join(block))]
            for profile, block in _blocks(lines, r"\[Trace (\d+):")
        }
    data = dict(_blocks(lines, r"\((0x[0-9a-f]+)\) \[context trace:"))
    headers = re.findall(r"\(profIndex: (\d+)\)\s*\(pStart: (0x[0-9a-f]+)\)", "".join(lines))
    pattern = r"\(timestamp: (\d+), ctxId: (\d+)\)"
    return {
        int(profile): [(int(a), int(b)) for a, b in re.findall(pattern, "".join(data.get(int(start, 16), [])))]
        for profile, start in headers
    }


@dataclass(frozen=True)
class DumpedContext:
    """One context of meta.db; names are resolved, absent is None."""

    id: int
    parent: int | None
    relation: str
    kind: str
    function: str | None = None
    file: str | None = None
    line: int | None = None
    module: str | None = None
    offset: int | None = None


def contexts(database: Path) -> list[DumpedContext]:
    """The tree of a released database in preorder.

    The tool's stream stays hexadecimal after the first context, so that the ids of later entry points are so, too.
    """
    lines = lines_of(database, "meta")
    names = _names(lines)
    found: list[DumpedContext] = []
    above: list[tuple[int, int]] = []  # (indentation, context id)
    begins = [k for k, line in enumerate(lines) if re.match(r" *\[(context: |entry point: )", line)]
    for first, last in zip(begins, [*begins[1:], len(lines)], strict=True):
        depth = len(lines[first]) - len(lines[first].lstrip())
        while above and above[-1][0] >= depth:
            above.pop()
        text = " ".join(lines[first:last])
        if found and "[entry point:" in text:
            text = text.replace("(ctxId: ", "(ctxId: 0x", 1)
        context = _context(text, above[-1][1] if above else None, names)
        above.append((depth, context.id))
        found.append(context)
    return found


def _names(lines: list[str]) -> dict[int, str]:
    """What modules, files and functions are called, by the place of their record."""
    found: dict[int, str] = {}
    place = 0
    for line in lines:
        if begins := re.match(r"  \[p(?:Modules|Files|Functions)\[\d+\]: \((0x[0-9a-f]+)\)", line):
            place = int(begins[1], 16)
        if place and (text := re.match(r'    \(p(?:Path|Name): 0x[0-9a-f]+ = &"(.*)"\)$', line)):
            found[place] = text[1]
    return found


def _context(text: str, parent: int | None, names: dict[int, str]) -> DumpedContext:
    def field(pattern: str) -> int | None:
        found = re.search(pattern, text)
        return int(found[1], 0) if found else None

    def named(pattern: str) -> str | None:
        at = field(pattern)
        return names[at] if at else None

    entry = re.search(r'pPrettyName: 0x[0-9a-f]+ = &"([^"]*)"', text)
    relation = re.search(r"\(relation: ([a-z ]+)\)", text)
    kind = re.search(r"\(lexicalType: ([a-z]+)\)", text)
    id_ = field(r"\(ctxId: (\w+)\)")
    assert id_ is not None
    if entry:
        return DumpedContext(id_, None, "call", "entry", entry[1])
    assert relation is not None
    assert kind is not None
    return DumpedContext(
        id_,
        parent,
        relation[1],
        kind[1],
        named(r"\(pFunction: (0x[0-9a-f]+)\)"),
        named(r"\(pFile: (0x[0-9a-f]+)\)"),
        field(r"\(line: (\d+)\)"),
        named(r"\(pModule: (0x[0-9a-f]+)\)"),
        field(r"\(offset: (0x[0-9a-f]+)\)"),
    )
