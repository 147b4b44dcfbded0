"""Where a trace is written: beside its place until it is complete, compressed where its name ends in .gz, or to stdout.

What was written before a failure is removed, or stays as OUT.part where that was asked for: all formats of this package
are readable up to the last batch, or can be made so.
"""

from __future__ import annotations

import gzip
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from glob import escape
from pathlib import Path
from typing import IO

from callgrove.errors import CallgroveError
from callgrove.formats.targets import Pending, PendingFile

__all__ = ["Data", "Output"]

Data = bytes | bytearray | memoryview

STDOUT = "-"
COPIED = 1 << 20  # bytes at a time


class Output(Pending):
    """A file in the making. `write` takes bytes; `complete` moves it into place."""

    def __init__(self, target: Path, overwrite: bool, keep_partial: bool) -> None:
        super().__init__(target)
        self._keep = keep_partial
        self._pending = None if str(target) == STDOUT else PendingFile(target, overwrite)
        self._file: IO[bytes] | None = None
        self._raw: IO[bytes] | None = None
        self._n_bytes = 0

    @property
    def n_written(self) -> int:
        """Grows with everything that is written."""
        return self._n_bytes

    @contextmanager
    def or_nothing(self, before: Callable[[], None] = lambda: None) -> Iterator[None]:
        """Whatever fails inside leaves nothing behind, but for OUT.part where that is wanted."""
        try:
            yield
        except OSError as error:
            self._discard(before)
            if self._pending is None and isinstance(error, BrokenPipeError):
                raise  # whoever reads has seen enough
            reason = error.strerror or str(error)
            raise CallgroveError(f"{self.target}: cannot be written: {reason}{self._what_stays()}") from error
        except BaseException:
            self._discard(before)
            raise

    def _what_stays(self) -> str:
        if self._pending is None:
            return ""
        return f"; what was written is {self._part}" if self._keep else "; nothing was changed"

    @property
    def _part(self) -> Path:
        return self.target.with_name(self.target.name + ".part")

    def open(self) -> None:
        self._raw = sys.stdout.buffer if self._pending is None else self._pending.place.open("wb")
        compressed = self.target.name.endswith(".gz")
        # no name and no time in the header: the same input gives the same bytes
        self._file = gzip.GzipFile("", "wb", 6, self._raw, mtime=0) if compressed else self._raw  # type: ignore[assignment]

    def write(self, data: Data) -> None:
        assert self._file is not None
        self._file.write(data)
        self._n_bytes += len(data)

    def append(self, path: Path) -> None:
        """The content of a file, which is removed."""
        with path.open("rb") as file:
            while data := file.read(COPIED):
                self.write(data)
        path.unlink()

    def beside(self, number: int) -> Path:
        """A place for a part that is put together elsewhere."""
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
            if self._pending is None:
                self._raw.flush()
            else:
                self._raw.close()
        self._file = self._raw = None

    def complete(self) -> None:
        self._close()
        if self._pending is not None:
            self._pending.complete()

    def discard(self) -> None:
        """After a failure."""
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
