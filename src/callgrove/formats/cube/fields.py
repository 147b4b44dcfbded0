"""Every field of a Cube file in the file's order: headers of members, indices, tables of rows, the anchor."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import numpy as np

from callgrove.binary.filebytes import FileBytes
from callgrove.binary.tar import HEADER, Archive, Member
from callgrove.errors import CorruptFile
from callgrove.formats.cube.anchor import Anchor, read_anchor
from callgrove.formats.cube.reading import ANCHOR, anchor_text, open_archive
from callgrove.formats.cube.rows import (
    DATA_MAGIC,
    ENDIAN_BIG,
    INDEX,
    INDEX_MAGIC,
    SPARSE,
    ZDATA_MAGIC,
    ZROW,
    byte_order,
)
from callgrove.formats.interface import Field

__all__ = ["fields"]

Order = Literal["<", ">"]
SHOWN_HEADER = ("name", "mode", "size", "mtime", "checksum", "type", "magic", "version", "prefix")


def fields(path: Path) -> Iterator[Field]:
    """Members as they lie in the archive; damage raises after what is intact."""
    archive = open_archive(FileBytes(path))
    big: dict[str, bool] = {}
    for member in archive.members.values():
        if member.name.endswith(".index") and member.size - member.missing >= INDEX.itemsize:
            endian = int(archive.file.record(INDEX, member.offset, member.name)["endian"])
            big[member.name.removesuffix(".index")] = endian == ENDIAN_BIG
    for member in sorted(archive.members.values(), key=lambda m: m.header):
        yield from _header(archive, member)
        yield from _content(archive, member, big)
    if archive.damage:
        raise archive.damage[0]


def _header(archive: Archive, member: Member) -> Iterator[Field]:
    record = archive.file.record(HEADER, member.header, "tar header")
    for name in SHOWN_HEADER:
        place = HEADER.fields
        assert place is not None
        value = bytes(record[name]).decode("utf-8", "backslashreplace").strip()
        yield Field(member.name, "tar header", -1, member.header + int(place[name][1]), name, value)


def _content(archive: Archive, member: Member, big: dict[str, bool]) -> Iterator[Field]:
    size = member.size - member.missing
    head = archive.file.copy(member.offset, min(size, len(ZDATA_MAGIC)), member.name)
    order = byte_order(big.get(member.name.rpartition(".")[0], False))
    if member.name == ANCHOR:
        yield from _anchor(member, read_anchor(archive.file.path, anchor_text(archive)))
    elif head == INDEX_MAGIC and size >= INDEX.itemsize:
        yield from _index(archive.file, member, order, size)
    elif head == ZDATA_MAGIC:
        yield from _table(archive.file, member, order, size)
    elif head.startswith(DATA_MAGIC):
        yield Field(member.name, "data", -1, member.offset, "magic", DATA_MAGIC.decode())
        yield Field(member.name, "data", -1, member.offset + len(DATA_MAGIC), "bytes", size - len(DATA_MAGIC))
    else:
        yield Field(member.name, "attachment", -1, member.offset, "bytes", size)


def _index(file: FileBytes, member: Member, order: Order, size: int) -> Iterator[Field]:
    record = file.record(INDEX.newbyteorder(order), member.offset, member.name)
    for name, (_, at, *_rest) in (INDEX.fields or {}).items():
        value = record[name]
        shown = bytes(value).decode() if name == "magic" else int(value)
        yield Field(member.name, "index", -1, member.offset + at, name, shown)
    at = member.offset + INDEX.itemsize
    if int(record["format"]) != SPARSE or size < INDEX.itemsize + 4:
        return
    number = np.dtype("u4").newbyteorder(order)
    n = int(file.array(number, 1, at, member.name)[0])
    yield Field(member.name, "index", -1, at, "n", n)
    if at + 4 + 4 * n > member.offset + size:
        raise CorruptFile(file.path, member.name, offset=at, expected=f"{n} positions", found=f"{size} bytes in all")
    for k, position in enumerate(file.array(number, n, at + 4, member.name).tolist()):
        yield Field(member.name, "index", k, at + 4 + 4 * k, "position", position)


def _table(file: FileBytes, member: Member, order: Order, size: int) -> Iterator[Field]:
    at = member.offset + len(ZDATA_MAGIC)
    yield Field(member.name, "data", -1, member.offset, "magic", ZDATA_MAGIC.decode())
    if size < len(ZDATA_MAGIC) + 8:
        raise CorruptFile(
            file.path, member.name, offset=at, expected="a count of 8 bytes", found=f"{size} bytes in all"
        )
    n = int(file.array(np.dtype("u8").newbyteorder(order), 1, at, member.name)[0])
    yield Field(member.name, "data", -1, at, "n", n)
    if n * ZROW.itemsize > size - len(ZDATA_MAGIC) - 8:
        raise CorruptFile(file.path, member.name, offset=at, expected=f"{n} rows", found=f"{size} bytes in all")
    table = file.array(ZROW.newbyteorder(order), n, at + 8, member.name)
    for k, row in enumerate(table.tolist()):
        for name, value in zip(ZROW.names or (), row, strict=True):
            place = at + 8 + k * ZROW.itemsize + 8 * (ZROW.names or ()).index(name)
            yield Field(member.name, "data", k, place, name, value)


def _anchor(member: Member, anchor: Anchor) -> Iterator[Field]:
    """What the anchor says; its texts have no offsets of their own, so that of the member is given."""

    def field(section: str, index: int, name: str, value: int | str) -> Field:
        return Field(member.name, section, index, member.offset, name, value)

    yield field("cube", -1, "version", anchor.version)
    for key, value in anchor.attributes.items():
        yield field("attr", -1, key, value)
    for k, metric in enumerate(anchor.metrics):
        for name, value in (("id", str(metric.id)), *metric.given.items(), *metric.texts.items(), *metric.attributes):
            yield field("metric", k, name, value)
    for k, region in enumerate(anchor.regions):
        for name, number in (("id", region.id), ("begin", region.begin), ("end", region.end)):
            yield field("region", k, name, number)
        for name, value in (("mod", region.mod), *region.texts.items(), *region.attributes):
            yield field("region", k, name, value)
    columns = (anchor.cnode_id, anchor.cnode_parent, anchor.cnode_callee, anchor.cnode_line)
    for k, row in enumerate(zip(*columns, strict=True)):
        for name, number in zip(("id", "parent", "calleeId", "line"), row, strict=True):
            yield field("cnode", k, name, number)
        for kind, key, value in anchor.parameters.get(k, []):
            yield field("cnode", k, f"parameter {key} ({kind})", value)
    for k, place in enumerate(anchor.places):
        yield field(place.element, k, "Id", place.id)
        yield field(place.element, k, "parent", place.parent)
        for name, value in (*place.texts.items(), *place.attributes):
            yield field(place.element, k, name, value)
    for k, cart in enumerate(anchor.carts):
        yield field("cart", k, "name", cart.name)
        for dim in cart.dims:
            yield field("cart", k, "dim", " ".join(f"{name}={value}" for name, value in dim.items()))
        for _, word, id_, text in cart.coordinates:
            yield field("cart", k, f"coord {word}={id_}", text)
