"""Databases made from those of the corpus by editing bytes: what genuine samples do not show.

`copied` gives a database of one's own; `File` finds fields by the names of the specification and overwrites them.
"""

from __future__ import annotations

import shutil
import struct
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from callgrove.binary.files import Source
from callgrove.formats.hpctoolkit.prerelease import files as old
from callgrove.formats.hpctoolkit.release import files as new
from callgrove.formats.interface import Dumps, Field
from callgrove.formats.registry import detect
from tests.formats.samples import CORPUS

FOOTER = 8


def corpus(generation: str, name: str = "pth4.d") -> Path:
    return CORPUS / "hpctoolkit" / generation / name


def copied(generation: str, folder: Path, name: str = "pth4.d") -> Path:
    """A copy of a corpus database, called `data`."""
    target = folder / "data"
    shutil.copytree(corpus(generation, name), target)
    return target


# What the specification calls counts and offsets, and how wide they are. Records say so; what is not a record, here.
WIDTHS = {"len": 2, "nIds": 2}


def _widths() -> dict[tuple[str, str], int]:
    """(record, field) -> bytes, of every record of both generations."""
    found: dict[tuple[str, str], int] = {}
    for module in (old, new):
        for name, record in vars(module).items():
            if isinstance(record, np.dtype) and record.fields is not None:
                found.update({(name, field): kind.itemsize for field, (kind, *_) in record.fields.items()})
    return found


RECORD_FIELDS = _widths()
# Fields of this name have different widths in different records; the section tells which it is.
AMBIGUOUS = {"nMetrics": {"Metrics": 4, "Ctx": 2}, "flags": {}, "kind": {}, "id": {}}


def width_of(field: Field) -> int | None:
    """The bytes that a dumped field takes, where its name tells."""
    if field.name in AMBIGUOUS:
        return AMBIGUOUS[field.name].get(field.section)
    if field.name in WIDTHS:
        return WIDTHS[field.name]
    if field.name.startswith("flex["):
        return 8
    found = {width for (_, name), width in RECORD_FIELDS.items() if name == field.name}
    return found.pop() if len(found) == 1 else None


@dataclass
class File:
    """One file of a database as bytes that can be changed, and its fields as `dump` finds them."""

    path: Path
    data: bytearray
    fields: list[Field]

    @classmethod
    def of(cls, path: Path) -> File:
        source = Source.of(path)
        format_ = detect(source)[0]
        assert isinstance(format_, Dumps)
        return cls(path, bytearray(path.read_bytes()), list(format_.dump(source)))

    @property
    def order(self) -> str:
        return "<" if self.data.startswith(b"HPCTOOLKIT") else ">"

    def find(self, name: str, section: str = "", index: int | None = None) -> list[Field]:
        """Fields of that name, in sections whose name begins so."""
        return [
            f
            for f in self.fields
            if f.name == name and f.section.startswith(section) and (index is None or f.index == index)
        ]

    def one(self, name: str, section: str = "", index: int | None = None) -> Field:
        [found] = self.find(name, section, index)
        return found

    def put(self, offset: int, value: int, width: int) -> None:
        """A number in the byte order of the file."""
        self.data[offset : offset + width] = value.to_bytes(width, "little" if self.order == "<" else "big")

    def set(self, field: Field, value: int, width: int | None = None) -> None:
        wide = width or width_of(field)
        assert wide is not None, field
        self.put(field.offset, value, wide)

    def replace(self, text: bytes, other: bytes) -> None:
        """Every occurrence of a string by one that is not longer."""
        assert len(other) <= len(text)
        assert text in self.data
        self.data[:] = self.data.replace(text, other + bytes(len(text) - len(other)))

    def save(self) -> None:
        self.path.write_bytes(self.data)


def edit(path: Path, change: Callable[[File], None]) -> None:
    """Change one file of a database."""
    file = File.of(path)
    change(file)
    file.save()


def edit_text(path: Path, *changes: tuple[str, str]) -> None:
    """Replace texts in a text file; each must be there."""
    text = path.read_text("utf-8")
    for before, after in changes:
        assert before in text, before
        text = text.replace(before, after)
    path.write_text(text, "utf-8")


# -- profile.db of the pre-release generation ------------------------------------------------------------------------


def replace_summary(path: Path, values: dict[int, list[tuple[int, float]]]) -> None:
    """Another summary block: {context: [(metric, value)]}. It is the last block of the file."""
    data = path.read_bytes()
    (at,) = struct.unpack_from(">Q", data, 128 + 44)
    rows = [(metric, value) for context in sorted(values) for metric, value in values[context]]
    block = b"".join(struct.pack(">dH", value, metric) for metric, value in rows)
    start = 0
    for context in sorted(values):
        block += struct.pack(">IQ", context, start)
        start += len(values[context])
    block += struct.pack(">IQ", 0x656E6421, start)
    changed = bytearray(data[:at] + block + b"tfBDFORP")
    struct.pack_into(">QI", changed, 128 + 32, len(rows), len(values))
    path.write_bytes(changed)


# -- longer records in the released generation -----------------------------------------------------------------------


def lengthen(file: File, first: Field, n: int, stride: Field, by: int = 8) -> dict[int, int]:
    """Move an array to the end of the file with longer records; gives where each record lies now.

    `first` points to the array, `stride` says how far apart its records are. The new bytes are rubbish.
    """
    assert isinstance(first.value, int)
    assert isinstance(stride.value, int)
    at, size = first.value, stride.value
    footer = file.data[-FOOTER:]
    del file.data[-FOOTER:]
    file.data.extend(bytes(-len(file.data) % 8))
    moved = {}
    for k in range(n):
        moved[at + k * size] = len(file.data)
        file.data.extend(file.data[at + k * size : at + (k + 1) * size] + b"\xee" * by)
    file.data.extend(footer)
    file.set(first, moved.get(at, at))
    file.set(stride, size + by)
    return moved
