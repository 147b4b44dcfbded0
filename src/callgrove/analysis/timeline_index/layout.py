"""The files of an index: columns that grow while it is built, and are mapped into memory when it is read.

    index/
      state.json      what there is: version, key, clock, sizes of columns; written anew, by renaming, as lines are done
      names.json      names by number
      checks          CRC-32 of every MiB of every column, in the order of COLUMNS; when the index is complete
      lines           a record for each line (LINE)
      page_key        line (26 bits) | level (6) | number (32), ascending      page_at     where the page lies
      pages           64 cells each
      hist_key        as page_key, with cell numbers                           hist_first, hist_n   its entries
      entry_name      entries of histograms below level 32: the name           entry_ns    and its time
      wide_name       those of level 32 and above                              wide_ns
      item_start      spans and samples, line by line, by start: ns since the start of their block
      item_ns         how long; 2^32 - 1: see long_item                        item_name   65535 (or 2^32 - 1): idle
      item_parent     the name of the parent, of calls only                    item_row    the number in the source
      block_start     some 256 items of a line: the start of the first         block_item, block_n   which items
      block_stack     where its stack begins in stack_item, block_open: how deep it is
      stack_item      what is open when the block starts: how many items before its first one
      long_item       items that are long, or outlasted by a later one that started while they were open, ascending;
                      long_start; long_ns: for how long they count, long_whole: how long they really were

All numbers are little-endian. Names have 16 bits, or 32 where there are more than 65,534.
"""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from types import TracebackType
from typing import IO, Any

import numpy as np

from callgrove.analysis.timeline_index.levels import PAGE
from callgrove.arrays import Array, Bools, Ints
from callgrove.errors import CallgroveError

__all__ = [
    "COLUMNS",
    "LINE",
    "LONG",
    "Columns",
    "DamagedIndex",
    "IndexState",
    "IndexWriter",
    "read_state",
]

VERSION = 1
CHECK_BYTES = 1 << 20
LONG = 2**32 - 1
# fmt: off
COLUMNS = {
    "page_key": "<u8", "page_at": "<u4", "pages": "cell",
    "hist_key": "<u8", "hist_first": "<u8", "hist_n": "<u4",
    "entry_name": "name", "entry_ns": "<u4", "wide_name": "name", "wide_ns": "<u8",
    "item_start": "<u4", "item_ns": "<u4", "item_name": "name", "item_parent": "name", "item_row": "row",
    "block_start": "<i8", "block_item": "<u8", "block_n": "<u4",
    "block_stack": "<u8", "block_open": "<u4", "stack_item": "<u4",
    "long_item": "<u8", "long_start": "<i8", "long_ns": "<i8", "long_whole": "<i8", "lines": "line", "tracks": "<i8",
}
# fmt: on
LINE = np.dtype(
    [
        *((name, "<i8") for name in ("profile", "kind", "lane", "base", "first_ns", "last_ns", "busy_ns")),
        *((name, "<i8") for name in ("n_items", "parent_shift", "row_shift", "first_block", "n_blocks")),
    ]
)


class DamagedIndex(CallgroveError):
    """An index on disk that does not hold what was written."""


@dataclass(frozen=True)
class IndexState:
    """What an index holds so far. Times are ns since `origin`; at level `top` one cell holds everything."""

    key: str
    origin: int = 0
    length: int = 0
    top: int = 0
    name_bytes: int = 2
    row_bytes: int = 4
    n_left_out: int = 0
    n_done: int = 0
    n_total: int = 0
    n_tracks_done: int = 0
    n_tracks: int = 0
    is_complete: bool = False
    version: int = VERSION
    sizes: Mapping[str, int] | None = None  # of each column, in entries
    names_check: int = 0
    checks_check: int = 0

    def dtype(self, name: str) -> np.dtype[Any]:
        """Return the type of a column."""
        code = COLUMNS[name]
        if code == "line":
            return LINE
        if code == "cell":
            return np.dtype(f"<u{2 * self.name_bytes}")
        return np.dtype(f"<u{self.name_bytes}" if code == "name" else f"<u{self.row_bytes}" if code == "row" else code)


def read_state(folder: Path) -> IndexState:
    """Return what an index holds; DamagedIndex where nobody can tell."""
    try:
        check, _, text = (folder / "state.json").read_text("utf-8").partition("\n")
        if int(check) != zlib.crc32(text.encode()):
            raise DamagedIndex(f"{folder}: state.json is damaged")
        state = IndexState(**json.loads(text))
    except (OSError, ValueError, TypeError) as error:
        raise DamagedIndex(f"{folder}: state.json cannot be read: {error}") from error
    if state.version != VERSION:
        raise DamagedIndex(f"{folder}: version {state.version}, where {VERSION} is expected")
    return state


# -- writing -----------------------------------------------------------------------------------------------------------


class _Column:
    """A file that grows. Sums of its blocks are kept as it is written."""

    def __init__(self, path: Path) -> None:
        self.path, self.n_bytes = path, 0
        self._file: IO[bytes] = path.open("w+b", buffering=1 << 16)
        self._checks: list[int] = []
        self._check = 0

    def append(self, data: Array) -> None:
        view = np.ascontiguousarray(data).reshape(-1).view(np.uint8).data
        self._file.write(view)
        while len(view):
            some = view[: CHECK_BYTES - self.n_bytes % CHECK_BYTES]
            self._check = zlib.crc32(some, self._check)
            self.n_bytes += len(some)
            view = view[len(some) :]
            if self.n_bytes % CHECK_BYTES == 0:
                self._checks.append(self._check)
                self._check = 0

    def replace(self, at: int, data: bytes) -> None:
        """Write over what is there. Its sum is computed anew when the file is complete."""
        self._file.seek(at)
        self._file.write(data)
        self._file.seek(0, os.SEEK_END)

    def flush(self) -> None:
        self._file.flush()

    def checks(self, changed: set[int]) -> list[int]:
        """Return the sums of all blocks; those of blocks that were written over are made from the file."""
        out = [*self._checks, self._check] if self.n_bytes % CHECK_BYTES else list(self._checks)
        self.flush()
        for block in sorted(changed):
            self._file.seek(block * CHECK_BYTES)
            out[block] = zlib.crc32(self._file.read(CHECK_BYTES))
        return out

    def close(self) -> None:
        self._file.close()


class IndexWriter:
    """Writes the columns of an index into a folder. What `commit` has said is there can be read at once."""

    def __init__(self, folder: Path, state: IndexState) -> None:
        self.folder, self.state = folder, state
        self._columns = {name: _Column(folder / name) for name in COLUMNS}
        self._changed: dict[str, set[int]] = {}
        self.sizes = dict.fromkeys(COLUMNS, 0)

    def __enter__(self) -> IndexWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for column in self._columns.values():
            column.close()

    def append(self, name: str, data: Array) -> None:
        """Append entries to a column, as its type."""
        type_ = self.state.dtype(name)
        self._columns[name].append(data if data.dtype == type_ else data.astype(type_))
        self.sizes[name] += data.size // PAGE if name == "pages" else data.size

    def replace(self, name: str, at: Ints, value: int) -> None:
        """Set entries of a column that were written before."""
        type_ = self.state.dtype(name)
        for number in at.tolist():
            self._columns[name].replace(number * type_.itemsize, np.array(value, type_).tobytes())
            self._changed.setdefault(name, set()).add(number * type_.itemsize // CHECK_BYTES)

    def write_names(self, texts: list[str], kinds: list[str]) -> int:
        """Write the table of names; return its sum."""
        data = json.dumps([texts, kinds], ensure_ascii=True).encode()
        (self.folder / "names.json").write_bytes(data)
        return zlib.crc32(data)

    def commit(self, state: IndexState) -> None:
        """Say that all that was appended is there."""
        for column in self._columns.values():
            column.flush()
        values = {entry.name: getattr(state, entry.name) for entry in fields(state)}
        if state.is_complete:
            checks = [
                check
                for name, column in self._columns.items()
                for check in column.checks(self._changed.get(name, set()))
            ]
            data = np.array(checks, "<u4").tobytes()
            (self.folder / "checks").write_bytes(data)
            values["checks_check"] = zlib.crc32(data)
        self.state = IndexState(**{**values, "sizes": dict(self.sizes)})
        text = json.dumps(asdict(self.state))
        beside = self.folder / "state.json.new"
        beside.write_text(f"{zlib.crc32(text.encode())}\n{text}", "utf-8")
        beside.replace(self.folder / "state.json")


# -- reading -----------------------------------------------------------------------------------------------------------


class Columns:
    """The columns of an index, mapped. Blocks are checked when they are first used."""

    def __init__(self, folder: Path, state: IndexState) -> None:
        self.folder, self.state = folder, state
        sizes = state.sizes or {}
        self._arrays = {name: self._map(name, sizes.get(name, 0)) for name in COLUMNS}
        self._checks: dict[str, Array] = {}
        self._unchecked: dict[str, Bools] = {}
        if state.is_complete:
            self._read_checks()

    def _map(self, name: str, n: int) -> Array:
        type_ = self.state.dtype(name)
        n_entries = n * PAGE if name == "pages" else n
        if not n_entries:
            out: Array = np.empty(0, type_)
        else:
            try:
                out = np.asarray(np.memmap(self.folder / name, type_, "r", shape=(n_entries,)))
            except (OSError, ValueError) as error:
                raise DamagedIndex(f"{self.folder / name}: {error}") from error
        return out.reshape(-1, PAGE) if name == "pages" else out

    def _read_checks(self) -> None:
        try:
            data = (self.folder / "checks").read_bytes()
        except OSError as error:
            raise DamagedIndex(f"{self.folder}: checks cannot be read: {error}") from error
        if zlib.crc32(data) != self.state.checks_check:
            raise DamagedIndex(f"{self.folder}: checks are damaged")
        checks = np.frombuffer(data, "<u4")
        for name, array in self._arrays.items():
            n = -(-array.nbytes // CHECK_BYTES)
            self._checks[name], checks = checks[:n], checks[n:]
            self._unchecked[name] = np.ones(n, np.bool_)

    def names(self) -> tuple[list[str], list[str]]:
        """Return texts and kinds of names."""
        try:
            data = (self.folder / "names.json").read_bytes()
            if zlib.crc32(data) != self.state.names_check:
                raise DamagedIndex(f"{self.folder}: names.json is damaged")
            texts, kinds = json.loads(data)
        except (OSError, ValueError) as error:
            raise DamagedIndex(f"{self.folder}: names.json cannot be read: {error}") from error
        return texts, kinds

    def whole(self, name: str) -> Array:
        """Return a column of which any entry may be used."""
        return self.within(name, 0, len(self._arrays[name]))

    def within(self, name: str, first: int, last: int) -> Array:
        """Return a column of which the entries from `first` up to `last` will be used."""
        array = self._arrays[name]
        if last > first and name in self._unchecked:
            size = array.nbytes // len(array)
            self._check(name, slice(first * size // CHECK_BYTES, (last * size - 1) // CHECK_BYTES + 1))
        return array

    def gather(self, name: str, rows: Ints) -> Array:
        """Return some entries of a column."""
        array = self._arrays[name]
        if len(rows) and name in self._unchecked:
            size = array.nbytes // len(array)
            blocks = rows * size // CHECK_BYTES
            todo = self._unchecked[name][blocks]
            if todo.any():
                for block in set(blocks[todo].tolist()):
                    self._check(name, slice(block, block + 1))
        out: Array = array[rows]
        return out

    def _check(self, name: str, blocks: slice) -> None:
        todo = self._unchecked[name][blocks]
        if not todo.any():
            return
        data = self._arrays[name].reshape(-1).view(np.uint8).data
        for block in (np.flatnonzero(todo) + blocks.start).tolist():
            if zlib.crc32(data[block * CHECK_BYTES : (block + 1) * CHECK_BYTES]) != self._checks[name][block]:
                raise DamagedIndex(f"{self.folder / name}: damaged in its MiB number {block}")
            self._unchecked[name][block] = False
