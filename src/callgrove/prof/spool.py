"""What workers and the process that writes hand each other through a folder beside the target.

    .NAME.TOKEN.work/
      beacon            a word that only this run knows: who reads it sees the same folder
      plan/             what the second pass needs to know of the merged tree; workers map it into memory
      17.spool          what one task made: values, then samples as the target stores them, where they go through here

Samples are most of what there is. Workers of this machine write them into the target's own file, where they will lie.
From other machines, whose file systems need not agree about a file that several of them write, they come through the
folder: the kernel copies them from a worker's file into the target's. Through the pipes of a pool every byte would pass
the one process that writes, several times. Workers that do not see the folder (the target lies on a disk of one node)
get the plan with each task, and send what they made.
"""

from __future__ import annotations

import secrets
import shutil
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO, NamedTuple

import numpy as np

from callgrove.arrays import Array, Floats
from callgrove.binary.files import FilePart
from callgrove.execute import Workers
from callgrove.formats.interface import PackedSamples, SamplePlaces
from callgrove.model.values import SparseBlock

__all__ = ["Done", "Line", "Meeting", "SpooledValues", "meeting", "spool"]

BEACON, PLAN = "beacon", "plan"


@dataclass(frozen=True)
class Meeting:
    """A folder that workers may see; `word` is what its beacon says."""

    folder: str
    word: str

    def is_seen(self) -> bool:
        """Return whether it is the same folder on a worker, where this is asked."""
        try:
            return (Path(self.folder) / BEACON).read_text() == self.word
        except (OSError, ValueError):
            return False

    @property
    def plan(self) -> Path:
        return Path(self.folder) / PLAN


@contextmanager
def meeting(target: Path, workers: Workers) -> Iterator[Meeting | None]:
    """Yield a folder beside the target, for as long as the context is open; None where the work is done here."""
    if not workers.are_elsewhere:
        yield None
        return
    word = secrets.token_hex(16)
    folder = target.parent.resolve() / f".{target.name}.{word[:8]}.work"
    folder.mkdir()
    try:
        (folder / BEACON).write_text(word)
        yield Meeting(str(folder), word)
    finally:
        _remove(folder)


def _remove(folder: Path) -> None:
    """Remove a folder, under another name first: a worker that is still busy cannot put anything there any more."""
    doomed = folder.with_suffix(".gone")
    with suppress(OSError):
        folder.rename(doomed)
    shutil.rmtree(doomed, ignore_errors=True)


@dataclass(frozen=True)
class SpooledValues:
    """The columns of a block of values in a file."""

    parts: tuple[tuple[str, FilePart], ...]  # the type of each column, and where it lies

    def block(self) -> SparseBlock:
        profile, context, metric, value = (part.array(np.dtype(kind)) for kind, part in self.parts)
        return SparseBlock(profile, context, metric, value)


class Line(NamedTuple):
    """The samples of one profile, and how many were left out."""

    samples: PackedSamples
    n_left_out: int


@dataclass(frozen=True)
class Done:
    """What was made of the files of a task: values and lines of samples, here or in a file; lines may still be made
    when they are asked for, which is once, and each is good until the next. `n_left_out` are values; `measured` is what
    the files hold of each quantity, without these."""

    values: SparseBlock | SpooledValues
    lines: Iterable[Line]
    n_left_out: int
    measured: Floats
    file: str = ""

    @property
    def block(self) -> SparseBlock:
        return self.values.block() if isinstance(self.values, SpooledValues) else self.values

    def copy_lines(self) -> Done:
        """Return this result with all lines made."""
        lines = (Line(replace(one, records=_records(one).copy()), n_left_out) for one, n_left_out in self.lines)
        return replace(self, lines=tuple(lines))

    def forget(self) -> None:
        """Forget what has been written."""
        if self.file:
            Path(self.file).unlink(missing_ok=True)


def spool(done: Done, meeting: Meeting, number: int, places: SamplePlaces | None = None) -> Done:
    """Put values and samples into a file of the folder, or samples in their places in the target; `number` is
    that of the first profile, and of the first place."""
    path = Path(meeting.folder) / f"{number}.spool"
    assert isinstance(done.values, SparseBlock)
    block = done.values
    with path.open("wb") as file, _open_places(places) as target:
        columns = (block.profile, block.context, block.metric, block.value)
        values = SpooledValues(tuple((column.dtype.str, _put(column, file, path)) for column in columns))
        lines = []
        for one, n_left_out in done.lines:
            records, row = _records(one), one.profile - number
            if target is None or places is None:
                part = _put(records, file, path)
            else:
                target.seek(int(places.offsets[row]))
                part = _put(records, target, Path(places.path))
            lines.append(Line(replace(one, records=part), n_left_out))
    return replace(done, values=values, lines=tuple(lines), file=str(path))


def _open_places(places: SamplePlaces | None) -> AbstractContextManager[BinaryIO | None]:
    return nullcontext() if places is None else Path(places.path).open("r+b", buffering=0)


def _records(samples: PackedSamples) -> Array:
    assert isinstance(samples.records, np.ndarray)
    return samples.records


def _put(column: Array, file: BinaryIO, path: Path) -> FilePart:
    at = file.tell()
    rest = np.ascontiguousarray(column).view(np.uint8).data
    while len(rest):
        rest = rest[file.write(rest) :]
    return FilePart(str(path), at, column.nbytes)
