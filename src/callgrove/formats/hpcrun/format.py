"""hpcrun measurement files, versions 02.00 (both dialects), 03.00 and 04.00: one file, or a folder of them.

Specification: hpcrun-format.txt of HPCToolkit ("hpcrun binary data format") for 02.00, and hpcrun-and-prof.md for what
genuine files do; the layouts are in `records`, the deviations of each version in `version_02` and `version_04`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

from callgrove.binary.filebytes import FileBytes
from callgrove.binary.sources import Source
from callgrove.errors import CallgroveError, CorruptFile
from callgrove.formats.hpcrun import records as rec
from callgrove.formats.hpcrun.consistency import problems
from callgrove.formats.hpcrun.cursor import Cursor
from callgrove.formats.hpcrun.experiment import assemble, open_files
from callgrove.formats.hpcrun.fields import fields
from callgrove.formats.hpcrun.files import SUFFIX, measurement_files, read_tables
from callgrove.formats.hpcrun.listing import header_text, json_text, text
from callgrove.formats.hpcrun.measurement import Measurement
from callgrove.formats.hpcrun.overview import summary, tree
from callgrove.formats.hpcrun.primitives import Header, quoted
from callgrove.formats.interface import DumpView, Field, Grade, Match, Problem, ReadOptions, WriteOptions, Writer
from callgrove.model.builder import ExperimentBuilder
from callgrove.model.experiment import Experiment

__all__ = ["FORMAT", "HpcrunFormat"]

MOST_HEADS = 64  # files of a folder that detection looks at


class HpcrunFormat:
    """Reads, prints, checks and writes measurement files."""

    name = "hpcrun"
    title = "HPCToolkit measurements"

    def match(self, source: Source) -> Match | None:
        """By the magic of the file, or of some file that a folder has under the tool's ending."""
        if not source.is_folder:
            return _of_head(source.head(rec.START_SIZE))
        with suppress(OSError):
            names = [path.name for path in measurement_files(source.path)]
            for name in names[:MOST_HEADS]:
                if source.head(rec.START_SIZE, name).startswith(rec.MAGIC):
                    return Match(Grade.EXACT, f"it has {name}, a measurement file")
            if names:
                return Match(Grade.WEAK, f"it has a file that ends with {SUFFIX}")
        return None

    def read(self, source: Source, options: ReadOptions) -> Experiment:
        builder = ExperimentBuilder(self.name, path=str(source.path), title=source.path.name)
        return assemble(builder, open_files(source, builder, options.progress))

    def check(self, source: Source, options: ReadOptions) -> Iterator[Problem]:
        """Everything that `consistency` verifies."""
        return problems(self.read(source, options), _paths(source))

    def dump(self, source: Source) -> Iterator[Field]:
        """Every field of the file, or of every file of a folder."""
        for path in _paths(source):
            yield from fields(FileBytes(path))

    def dump_text(self, source: Source) -> Iterator[str]:
        """Every field as text."""
        return self.dump_view(source, DumpView.TEXT)

    def dump_view(self, source: Source, view: DumpView, limit: int | None = None) -> Iterator[str]:
        """A file as text or JSON, its summary or its tree; the files of a folder one after the other, each after a
        line with its name (in JSON: as an array)."""
        show = {DumpView.TEXT: text, DumpView.JSON: json_text, DumpView.SUMMARY: summary, DumpView.TREE: tree}[view]
        if not source.is_folder:
            yield from _shown(source.path, show, limit)
            return
        is_json, damage = view == DumpView.JSON, list[CallgroveError]()
        n = 0
        for path in measurement_files(source.path):
            head = ("[\n" if not n else ",\n") if is_json else f"file {quoted(path.name)}\n"
            try:
                for number, piece in enumerate(_shown(path, show, limit)):
                    yield piece if number else head + piece
                    n += 1
            except CallgroveError as error:
                damage.append(error)
        if is_json:
            yield "]\n" if n else "[]\n"
        if damage:
            raise damage[0]

    def open_writer(self, target: Path, options: WriteOptions) -> Writer:
        """Files that appear at `target` when the writer is closed."""
        from callgrove.formats.hpcrun.writer import MeasurementWriter

        return MeasurementWriter(target, options)

    def refuse_target(self, target: Path) -> None:
        from callgrove.formats.hpcrun.writer import refuse_other_targets

        refuse_other_targets(target)


FORMAT = HpcrunFormat()


def _paths(source: Source) -> list[Path]:
    return measurement_files(source.path) if source.is_folder else [source.path]


def _shown(path: Path, show: Callable[[Measurement, int | None], Iterator[str]], limit: int | None) -> Iterator[str]:
    """A file; where it is damaged, its header at least."""
    file = FileBytes(path)
    try:
        measurement = read_tables(file).with_values(file)
    except CorruptFile:
        if show is text:
            header: Header | None = None
            with suppress(CallgroveError):
                header = Header.read(Cursor(file, "header"))
            yield from header_text(header) if header is not None else ()
        raise
    yield from show(measurement, limit)


def _of_head(head: bytes) -> Match | None:
    if head.startswith(rec.MAGIC):
        return Match(Grade.EXACT, "it begins as a measurement file")
    cut = len(head) > 6 and rec.MAGIC.startswith(head)
    return Match(Grade.WEAK, "it is the beginning of a measurement file") if cut else None
