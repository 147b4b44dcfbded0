"""The format `cube`: detection by the members of an archive, reading, checking, dumping and writing."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from callgrove.binary.filebytes import FileBytes
from callgrove.binary.inflating import gunzip_head
from callgrove.binary.sources import Source
from callgrove.binary.tar import BLOCK, Member, headers, is_archive
from callgrove.errors import CallgroveError, NotRecognised, UnsupportedVersion
from callgrove.formats.cube.consistency import problems
from callgrove.formats.cube.fields import fields
from callgrove.formats.cube.reading import ANCHOR, GZIP_MAGIC, read_experiment
from callgrove.formats.cube.rows import DATA_MAGIC, INDEX_MAGIC, ZDATA_MAGIC
from callgrove.formats.interface import Field, Grade, Match, Problem, ReadOptions, WriteOptions, Writer
from callgrove.model.experiment import Experiment

__all__ = ["FORMAT", "CubeFormat"]

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
        """By a member anchor.xml, or by members that begin as Cube's do."""
        if source.is_folder:
            return None
        head = source.head(BLOCK)
        if head.startswith(GZIP_MAGIC):
            return self._match_gzipped(source)
        if is_archive(head):
            return self._match_archive(FileBytes(source.path))
        if found := CUBE3.match(head):
            return Match(Grade.STRONG, f"it is a Cube {found[2].decode()} file")
        if _is_named(source.path):
            return Match(Grade.WEAK, "its name ends like that of a Cube file")
        return None

    def _match_archive(self, file: FileBytes) -> Match | None:
        with suppress(CallgroveError):  # damaged before anything of Cube's was found
            for member in headers(file, [], MOST_HEADERS):
                if found := _claim(member, file):
                    return found
        return Match(Grade.WEAK, "it is an archive named like a Cube file") if _is_named(file.path) else None

    def _match_gzipped(self, source: Source) -> Match | None:
        inner = gunzip_head(source.head(GZIP_HEAD), GZIP_INFLATED)
        if is_archive(inner):
            found = self._match_archive(FileBytes.over(source.path, inner))
            return found if found is None else Match(found.grade, f"{found.reason}, gzipped")
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
        """A file that appears at `target` when the writer is closed; dialects: plain, compressed."""
        from callgrove.formats.cube.writer import CubeWriter

        return CubeWriter(target, options)

    def check(self, source: Source, options: ReadOptions) -> Iterator[Problem]:
        """What reading tells, and what every single value tells."""
        return problems(self.read(source, options), options.progress)

    def dump(self, source: Source) -> Iterator[Field]:
        """Headers of all members, indices, tables of rows, and the anchor."""
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
