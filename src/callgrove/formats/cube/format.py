"""The format `cube`: detection by the members of an archive, reading, checking, dumping and writing."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Literal

import numpy as np

from callgrove.binary.archives import BLOCK, HEADER, Archive, Member, gunzip_head, headers, is_archive
from callgrove.binary.files import FileBytes, Source
from callgrove.errors import CallgroveError, CorruptFile, NotRecognised, UnsupportedVersion, count_of
from callgrove.execute import Progress
from callgrove.formats.cube.anchor import Anchor, read_anchor
from callgrove.formats.cube.reading import ANCHOR, GZIP_MAGIC, WRAPPED, anchor_text, open_archive, read_experiment
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
from callgrove.formats.interface import Field, Grade, Match, Problem, ReadOptions, WriteOptions, Writer
from callgrove.model.experiment import Experiment, Severity
from callgrove.model.metrics import Scope
from callgrove.model.values import DenseBlock

__all__ = ["FORMAT", "CubeFormat", "fields", "problems"]


# -- what `check` looks for --------------------------------------------------------------------------------------------


def problems(experiment: Experiment, progress: Progress) -> Iterator[Problem]:
    """Yield every problem; all values are read for it, one band of rows at a time."""
    for warning in experiment.warnings:
        if warning.severity == Severity.DAMAGE:
            yield Problem(warning.severity, experiment.path, "opening", warning.text)
    total, done = experiment.values.n_stored() or 0, 0
    wrapped: dict[int, int] = {}
    for block in experiment.values.blocks():
        done += len(block)
        progress("checking values", done, max(done, total))
        if isinstance(block, DenseBlock) and block.matrix.dtype == np.uint64:
            count = int(np.count_nonzero(block.matrix >= WRAPPED))
            wrapped[block.metric] = wrapped.get(block.metric, 0) + count
    for error in experiment.values.problems:
        yield Problem(Severity.DAMAGE, experiment.path, getattr(error, "section", "values"), str(error))
    for metric, count in wrapped.items():
        if count:
            many = count_of(count, "value is", "values are")
            text = f"{many} 2^63 or more: counters that went below zero; computed views leave them out"
            yield Problem(Severity.NOTE, experiment.path, experiment.metrics[metric].name, text)
    yield from _negative(experiment)


def _negative(experiment: Experiment) -> Iterator[Problem]:
    """Yield inclusive counters that are smaller than those below them."""
    for row, metric in enumerate(experiment.metrics):
        if metric.scope == Scope.INCLUSIVE and metric.dtype.upper().startswith("U") and metric.composite is None:
            if not (experiment.values.totals(row) > 0).any():
                continue
            n_contexts = int(np.count_nonzero(experiment.totals(metric.name, Scope.EXCLUSIVE) < 0))
            if n_contexts:
                who = count_of(n_contexts, "context has", "contexts have")
                text = f"{who} less than what it calls: the exclusive value is negative"
                yield Problem(Severity.NOTE, experiment.path, metric.name, text)


# -- fields in the order of the file -----------------------------------------------------------------------------------


Order = Literal["<", ">"]
SHOWN_HEADER = ("name", "mode", "size", "mtime", "checksum", "type", "magic", "version", "prefix")


def fields(path: Path) -> Iterator[Field]:
    """Yield the members as they lie in the archive; damage raises after what is intact."""
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
    """Yield what the anchor says; its texts have no offsets of their own, so that of the member is given."""

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


# -- the format --------------------------------------------------------------------------------------------------------


MOST_HEADERS = 48  # of a tar archive; 24 KiB
GZIP_HEAD, GZIP_INFLATED = 16 * 1024, 1 << 20
OWN = re.compile(r"(ghost_)?[0-9]+\.(data|index)")
MAGICS = (DATA_MAGIC, ZDATA_MAGIC, INDEX_MAGIC)
SUFFIXES = (".cubex", ".cube", ".cube.gz")
CUBE3 = re.compile(rb"\s*(<\?xml[^>]*>)?\s*<cube\s+version=[\"']([23]\.[0-9]+)")


class CubeFormat:
    """Reads and writes Cube 4."""

    name = "cube"
    title = "Cube 4 (.cubex) of Score-P, Scalasca and CubeLib"

    def match(self, source: Source) -> Match | None:
        """Recognise a file by a member anchor.xml, or by members that begin as Cube's do."""
        if source.is_folder:
            return None
        head = source.head(BLOCK)
        if head.startswith(GZIP_MAGIC):
            return self._match_gzipped(source)
        if is_archive(head):
            return self._match_archive(FileBytes(source.path))
        if match := CUBE3.match(head):
            return Match(Grade.STRONG, f"it is a Cube {match[2].decode()} file")
        if _is_named(source.path):
            return Match(Grade.WEAK, "its name ends like that of a Cube file")
        return None

    def _match_archive(self, file: FileBytes) -> Match | None:
        with suppress(CallgroveError):  # damaged before anything of Cube's was found
            for member in headers(file, [], MOST_HEADERS):
                if claim := _claim(member, file):
                    return claim
        return Match(Grade.WEAK, "it is an archive named like a Cube file") if _is_named(file.path) else None

    def _match_gzipped(self, source: Source) -> Match | None:
        inner = gunzip_head(source.head(GZIP_HEAD), GZIP_INFLATED)
        if is_archive(inner):
            claim = self._match_archive(FileBytes.over(source.path, inner))
            return claim if claim is None else Match(claim.grade, f"{claim.reason}, gzipped")
        if cube3 := CUBE3.match(inner):
            return Match(Grade.STRONG, f"it is a gzipped Cube {cube3[2].decode()} file")
        return None

    def read(self, source: Source, options: ReadOptions) -> Experiment:
        if source.is_folder:
            raise NotRecognised(f"{source.path}: is a folder, and a Cube profile is a file; name the .cubex in it")
        head = source.head(BLOCK)
        if CUBE3.match(gunzip_head(head, BLOCK) if head.startswith(GZIP_MAGIC) else head):
            text = "is a Cube 3 file, which is not read; CubeLib's cube3to4 makes a .cubex of it"
            raise UnsupportedVersion(f"{source.path}: {text}")
        return read_experiment(source.path, self.name)

    def open_writer(self, target: Path, options: WriteOptions) -> Writer:
        """Return the writer of a file that appears at `target` when the writer is closed; dialects: plain,
        compressed."""
        from callgrove.formats.cube.writer import CubeWriter

        return CubeWriter(target, options)

    def check(self, source: Source, options: ReadOptions) -> Iterator[Problem]:
        """Yield what reading tells, and what every single value tells."""
        return problems(self.read(source, options), options.progress)

    def dump(self, source: Source) -> Iterator[Field]:
        """Yield the headers of all members, indices, tables of rows, and the anchor."""
        return fields(source.path)


FORMAT = CubeFormat()


def _is_named(path: Path) -> bool:
    return path.name.endswith(SUFFIXES)


def _claim(member: Member, file: FileBytes) -> Match | None:
    if member.name == ANCHOR:
        return Match(Grade.EXACT, "it is an archive with an anchor.xml")
    if OWN.fullmatch(member.name) and member.size >= len(DATA_MAGIC):
        size = min(len(INDEX_MAGIC), file.size - member.offset)
        if size > 0 and file.copy(member.offset, size, member.name).startswith(MAGICS):
            return Match(Grade.EXACT, f"it is an archive with {member.name} of Cube")
    return None
