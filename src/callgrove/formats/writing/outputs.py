"""Files that are written as a stream: beside their place until they are complete, compressed where that is wanted; or
stdout.

What was written before a failure is removed, or stays as OUT.part where that was asked for.
"""

from __future__ import annotations

import gzip
import sys
from abc import abstractmethod
from contextlib import suppress
from glob import escape
from pathlib import Path
from typing import IO, NoReturn

from callgrove.formats.writing.targets import Pending, PendingFile, refuse_existing

__all__ = ["Data", "FileOutput", "Output"]


Data = bytes | bytearray | memoryview

STDOUT = "-"
BYTES_AT_ONCE = 1 << 20  # bytes at a time


class Output(Pending):
    """Something in the making that is written to once it is open."""

    @property
    @abstractmethod
    def n_written(self) -> int:
        """Grows with everything that is written."""

    @abstractmethod
    def open(self) -> None: ...

    @abstractmethod
    def write(self, data: Data) -> None: ...

    @abstractmethod
    def flush(self) -> None: ...


class FileOutput(Output):
    """A file in the making, or stdout."""

    def __init__(
        self,
        target: Path,
        overwrite: bool,
        keep_partial: bool = False,
        *,
        compressed: bool = False,
        in_place: bool = False,
    ) -> None:
        """Make an output. In place, others read what was flushed, and what was written stays after a failure."""
        super().__init__(target)
        self._keep, self._in_place = keep_partial, in_place
        if in_place:
            refuse_existing(target, overwrite)
        self._compressed = compressed or target.name.endswith(".gz")
        self._pending = None if str(target) == STDOUT or in_place else PendingFile(target, overwrite)
        self._file: IO[bytes] | None = None
        self._raw: IO[bytes] | None = None
        self._n_bytes = 0

    @property
    def n_written(self) -> int:
        return self._n_bytes

    def _refuse(self, error: OSError) -> NoReturn:
        if self._pending is None and isinstance(error, BrokenPipeError):
            raise error  # whoever reads has seen enough
        super()._refuse(error)

    def _open_raw(self) -> IO[bytes]:
        if self._pending is not None:
            return self._pending.place.open("wb")
        return self.target.open("wb") if self._in_place else sys.stdout.buffer

    def _what_stays(self) -> str:
        if self._pending is None:
            return ""
        return f"; what was written is {self._part}" if self._keep else super()._what_stays()

    @property
    def _part(self) -> Path:
        return self.target.with_name(self.target.name + ".part")

    def open(self) -> None:
        self._raw = self._open_raw()
        # no name and no time in the header: the same input gives the same bytes
        self._file = gzip.GzipFile("", "wb", 6, self._raw, mtime=0) if self._compressed else self._raw  # type: ignore[assignment]

    def write(self, data: Data) -> None:
        assert self._file is not None
        self._file.write(data)
        self._n_bytes += len(data)

    def append(self, path: Path) -> None:
        """Append the content of a file, which is removed."""
        with path.open("rb") as file:
            while data := file.read(BYTES_AT_ONCE):
                self.write(data)
        path.unlink()

    def place_of_part(self, number: int) -> Path:
        """Return a place for a part that is put together elsewhere."""
        if self._pending is None:
            raise AssertionError("parts are written beside a file")
        return self._pending.place.absolute().with_suffix(f".{number}.partial")

    @property
    def is_file(self) -> bool:
        return self._pending is not None

    def flush(self) -> None:
        if self._file is not None:
            self._file.flush()

    def _close(self) -> None:
        if self._file is not None and self._file is not self._raw:
            self._file.close()
        if self._raw is not None:
            if self._pending is None and not self._in_place:
                self._raw.flush()
            else:
                self._raw.close()
        self._file = self._raw = None

    def complete(self) -> None:
        self._close()
        if self._pending is not None:
            self._pending.complete()

    def discard(self) -> None:
        """Discard the output after a failure."""
        with suppress(OSError):  # of a full disk, also when it is closed
            self._close()
        if self._pending is None:
            return
        for part in self._pending.place.parent.glob(escape(self._pending.place.stem) + ".*.partial"):
            with suppress(OSError):
                part.unlink()
        place = self._pending.place
        if self._keep and place.exists() and place.stat().st_size:
            place.replace(self._part)
        else:
            self._pending.discard()
