"""A SQLite database in the making: beside its place until it is complete, or in place for readers that cannot wait."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from callgrove.errors import CallgroveError, UsageError
from callgrove.formats.targets import Pending, PendingFile

__all__ = ["SqliteTarget"]


class SqliteTarget(Pending):
    """`database` is connected, without a transaction; failing inside `or_nothing` leaves nothing of a pending file."""

    def __init__(self, path: Path, overwrite: bool, *, in_place: bool = False) -> None:
        super().__init__(path)
        if in_place and path.exists():
            raise UsageError(f"{path}: exists already; choose another name")
        self.pending = None if in_place else PendingFile(path, overwrite)
        with self.or_nothing():
            self.database = sqlite3.connect(self.pending.place if self.pending else path, isolation_level=None)
            # of a pending file there is nothing to go back to; in place, readers need the log
            for pragma in (f"journal_mode={'WAL' if in_place else 'OFF'}", "synchronous=OFF", "foreign_keys=ON"):
                self.database.execute(f"PRAGMA {pragma}")

    @contextmanager
    def or_nothing(self, before: Callable[[], None] = lambda: None) -> Iterator[None]:
        try:
            with super().or_nothing(before):
                yield
        except sqlite3.Error as error:
            raise CallgroveError(f"{self.target}: cannot be written: {error}; nothing was changed") from error

    def _disconnect(self) -> None:
        if hasattr(self, "database"):
            self.database.close()

    def complete(self) -> None:
        """Close, and move it into place."""
        self._disconnect()
        if self.pending is not None:
            self.pending.complete()

    def discard(self) -> None:
        """Nothing stays of a pending file; of one in place, what was committed."""
        self._disconnect()
        if self.pending is not None:
            self.pending.discard()
