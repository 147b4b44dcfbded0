"""The format `otf2`: recognising archives, reading them, what `check` and `dump` say; and the writer.

    DIR/traces.otf2     the anchor: 03, 42 or 23 (the order of bytes), "OTF2", 00
    DIR/traces.def      definitions
    DIR/traces/*.evt    events of each location, in chunks that begin with 03 and the order of bytes

An archive is its anchor, or the folder that it lies in. Reading it needs the extra `otf2`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from callgrove.binary.files import Source
from callgrove.errors import InputError, NotRecognised
from callgrove.formats.events.checks import find_problems
from callgrove.formats.events.columns import ColumnStore
from callgrove.formats.events.experiment import experiment_of
from callgrove.formats.interface import Field, Grade, Match, Problem, ReadOptions, WriteOptions
from callgrove.model.experiment import Experiment

if TYPE_CHECKING:
    from callgrove.formats.timeline.otf2.writer import Otf2Writer

__all__ = ["FORMAT", "Otf2Format"]

MAGIC = (b"\x03\x42OTF2\x00", b"\x03\x23OTF2\x00")
SUFFIX = ".otf2"


class Otf2Format:
    """Archives of Score-P, TAU, rocprofv3 and callgrove."""

    name = "otf2"
    title = "OTF2 archive (a folder) of Score-P, for Vampir and its like"

    def match(self, source: Source) -> Match | None:
        if not source.is_folder:
            is_anchor = source.head(len(MAGIC[0])).startswith(MAGIC)
            return Match(Grade.EXACT, "the anchor of an OTF2 archive") if is_anchor else None
        anchors = [name for name, is_file in (source.listing or {}).items() if is_file and name.endswith(SUFFIX)]
        if len(anchors) != 1 or not source.head(len(MAGIC[0]), anchors[0]).startswith(MAGIC):
            return None
        return Match(Grade.EXACT, f"{anchors[0]} in it is the anchor of an OTF2 archive")

    def read(self, source: Source, options: ReadOptions) -> Experiment:
        from callgrove.formats.timeline.otf2.reader import read_archive

        data = read_archive(_anchor(source), options, ColumnStore())
        if not data.count() and data.counters() is None and data.stacks() is None:
            reasons = "; ".join(warning.text.removeprefix(f"{data.path}: ") for warning in data.warnings[:3])
            raise InputError(f"{data.path}: an OTF2 archive without events{f' ({reasons})' if reasons else ''}")
        return experiment_of(self.name, source.path, [data], options)

    def check(self, source: Source, options: ReadOptions) -> Iterator[Problem]:
        """Read everything, and yield the warnings of reading and the problems of events."""
        return find_problems(self.read(source, options))

    def dump(self, source: Source) -> Iterator[Field]:
        """Yield what the anchor says, all definitions, and how many events of each type the locations have."""
        from callgrove.formats.timeline.otf2.dump import dump_archive

        return dump_archive(_anchor(source))

    def open_writer(self, target: Path, options: WriteOptions) -> Otf2Writer:
        from callgrove.formats.timeline.otf2.writer import Otf2Writer

        return Otf2Writer(target, options)

    def refuse_target(self, target: Path) -> None:
        """Raise an error if something else is in the way of a target."""
        from callgrove.formats.timeline.otf2.writer import FOLDER

        FOLDER.refuse_others(target)


def _anchor(source: Source) -> Path:
    if not source.is_folder:
        return source.path
    anchors = sorted(source.path.glob(f"*{SUFFIX}"))
    if len(anchors) != 1:
        many = f"has {len(anchors)} of them; name one" if anchors else "has none"
        raise NotRecognised(f"{source.path}: an OTF2 archive has an anchor, *{SUFFIX}, and this folder {many}")
    return anchors[0]


FORMAT = Otf2Format()
