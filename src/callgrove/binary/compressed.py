"""Compressed files (gzip, zstd, xz, bzip2) as streams that are never inflated beyond a limit.

    open_stream(path)       the bytes of a file, inflated where it is compressed; `problem` says why it ended early
    inflate_head(head, n)   what the first bytes of a compressed file inflate to
    inflate_copy(path)      the content as a private temporary file, for readers that need to go back and forth

A stream that inflates to far more than its size, or to more than any trace has, is refused: it is made to fill memory
and disks. Sizes that headers announce are never believed. A stream that breaks off gives what comes before.
"""

from __future__ import annotations

import atexit
import bz2
import importlib
import lzma
import shutil
import tempfile
import weakref
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import IO, Any, Protocol

from callgrove.binary.archives import GZIP, engine
from callgrove.binary.files import open_regular
from callgrove.errors import CorruptFile, InputError, MissingExtra, RefusedInput

__all__ = ["InflatedCopy", "Stream", "compression_of", "inflate_copy", "inflate_head", "open_stream"]

PIECE = 1 << 20  # compressed bytes that are read at a time
MOST_TIMES = 200  # of the compressed size: traces in JSON, the most redundant ones, reach 60
FREE_BYTES = 256 << 20  # however small the file is
MOST_BYTES = 1 << 36
ENDINGS = (".gz", ".zst", ".xz", ".bz2")
BROKEN = (engine.error, EOFError, OSError, lzma.LZMAError, ValueError)


class Machine(Protocol):
    """What inflates one stream, as `bz2` and `lzma` have it."""

    @property
    def eof(self) -> bool: ...
    @property
    def needs_input(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    def decompress(self, data: bytes, max_length: int = -1) -> bytes: ...


class _Gunzip:
    """zlib's way to inflate, with the interface of `bz2`."""

    def __init__(self) -> None:
        self._machine: Any = engine.decompressobj(GZIP)
        self._rest = b""

    @property
    def eof(self) -> bool:
        return bool(self._machine.eof)

    @property
    def needs_input(self) -> bool:
        return not self._rest and not self.eof

    @property
    def unused_data(self) -> bytes:
        return bytes(self._machine.unused_data)

    def decompress(self, data: bytes, max_length: int = -1) -> bytes:
        content: bytes = self._machine.decompress(self._rest + data, max(max_length, 0))
        self._rest = bytes(self._machine.unconsumed_tail)
        return content


class _Unzstd:
    """The standard library's way to inflate zstd, or that of its backport; errors are those that others raise."""

    def __init__(self) -> None:
        module = _import_zstd()
        self._machine: Any = module.ZstdDecompressor()
        self._error: type[Exception] = module.ZstdError

    @property
    def eof(self) -> bool:
        return bool(self._machine.eof)

    @property
    def needs_input(self) -> bool:
        return bool(self._machine.needs_input)

    @property
    def unused_data(self) -> bytes:
        return bytes(self._machine.unused_data)

    def decompress(self, data: bytes, max_length: int = -1) -> bytes:
        try:
            content: bytes = self._machine.decompress(data, max_length)
        except self._error as error:
            raise ValueError(str(error)) from None
        return content


def _import_zstd() -> ModuleType:
    for module in ("compression.zstd", "backports.zstd"):
        with suppress(ImportError):
            return importlib.import_module(module)
    raise MissingExtra("zstd", "reading a file that zstd compressed")


KINDS: dict[bytes, tuple[str, Callable[[], Machine], str]] = {  # by magic: name, what inflates, the command that does
    b"\x1f\x8b": ("gzip", _Gunzip, "gunzip -k"),
    b"\x28\xb5\x2f\xfd": ("zstd", _Unzstd, "unzstd"),
    b"\xfd7zXZ": ("xz", lzma.LZMADecompressor, "unxz -k"),
    b"BZh": ("bzip2", bz2.BZ2Decompressor, "bunzip2 -k"),
}


def compression_of(head: bytes) -> str:
    """Return how a file that begins so is compressed; empty where it is not."""
    return next((name for magic, (name, _, _) in KINDS.items() if head.startswith(magic)), "")


def inflate_head(head: bytes, most: int) -> bytes:
    """Return what the first bytes of a compressed file inflate to, at most so many; empty where that fails."""
    kind = next((kind for magic, kind in KINDS.items() if head.startswith(magic)), None)
    if kind is None:
        return head[:most]
    try:
        return kind[1]().decompress(head, most)
    except (*BROKEN, MissingExtra):
        return b""


class Stream:
    """The inflated bytes of a file, in order. `problem` says, after the end, why the stream is not whole."""

    def __init__(self, path: Path) -> None:
        self.path, self.problem = path, ""
        try:
            self._file: IO[bytes] = open_regular(path)
            self._size = path.stat().st_size
        except OSError as error:
            raise InputError(f"{path}: {error.strerror or error}") from error
        weakref.finalize(self, self._file.close)
        self._waiting = self._read_file(PIECE)
        magic = next((magic for magic in KINDS if self._waiting.startswith(magic)), b"")
        self._magic = magic
        self._machine = KINDS[magic][1]() if magic else None
        self.n_read = 0  # inflated bytes so far

    @property
    def compression(self) -> str:
        return KINDS[self._magic][0] if self._magic else ""

    def _read_file(self, size: int) -> bytes:
        try:
            return self._file.read(size)
        except OSError as error:
            raise InputError(f"{self.path}: cannot be read: {error.strerror or error}") from error

    def read(self, size: int) -> bytes:
        """Return the next bytes, at most so many; none at the end."""
        content = self._next_plain(size) if self._machine is None else self._next_inflated(size)
        self.n_read += len(content)
        if self._machine is not None:
            self._refuse_bomb()
        return content

    def _next_plain(self, size: int) -> bytes:
        content = self._waiting or self._read_file(size)
        self._waiting = content[size:]
        return content[:size]

    def _next_inflated(self, size: int) -> bytes:
        while not self.problem:
            machine = self._machine
            assert machine is not None
            if machine.eof and not self._begin_next():
                return b""
            machine = self._machine
            assert machine is not None
            piece = b""
            if machine.needs_input:
                piece, self._waiting = self._waiting or self._read_file(PIECE), b""
                if not piece:
                    self.problem = f"the {self.compression} stream breaks off after {self.n_read} inflated bytes"
                    return b""
            try:
                content = machine.decompress(piece, size)
            except BROKEN as error:
                self.problem = f"the {self.compression} stream is broken after {self.n_read} inflated bytes ({error})"
                return b""
            if content:
                return content
        return b""

    def _begin_next(self) -> bool:
        """Begin the next of several streams in one file. Padding, and what is no such stream, ends the last one."""
        assert self._machine is not None
        rest = self._machine.unused_data + self._waiting
        while not rest.strip(b"\0"):
            rest = self._read_file(PIECE)
            if not rest:
                return False
        rest = rest.lstrip(b"\0") + (self._read_file(PIECE) if len(rest) < PIECE else b"")
        if not rest.startswith(self._magic):
            return False
        self._machine, self._waiting = KINDS[self._magic][1](), rest
        return True

    def _refuse_bomb(self) -> None:
        most = min(MOST_BYTES, max(FREE_BYTES, MOST_TIMES * self._size))
        if self.n_read > most:
            unpack = KINDS[self._magic][2]
            raise RefusedInput(
                f"{self.path}: inflates to more than {most:,} bytes, {most // max(self._size, 1):,} times its size; "
                f"if you trust it, unpack it with {unpack} and open what comes out"
            )


def open_stream(path: Path) -> Stream:
    """Return the bytes of a file as a stream, inflated where it is compressed."""
    return Stream(path)


@dataclass(frozen=True)
class InflatedCopy:
    """A compressed file as a temporary one. `problem` says why the stream ended early, empty where it did not."""

    path: Path
    original: Path
    problem: str = ""


def inflate_copy(path: Path) -> InflatedCopy:
    """Inflate a file to a private temporary folder, under the name that it has without its ending. It is removed when
    the process ends: workers, and what is read later, need it until then."""
    stream = open_stream(path)
    folder = tempfile.mkdtemp(prefix="callgrove-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    copy = Path(folder) / (path.stem if path.suffix in ENDINGS else path.name)
    try:
        with copy.open("wb") as out:
            while content := stream.read(PIECE):
                out.write(content)
    except OSError as error:
        reason = f"no room for what it inflates to: {error.strerror}"
        raise InputError(f"{path}: {reason} ({folder}); set TMPDIR to another folder") from error
    if stream.problem and not stream.n_read:
        raise CorruptFile(path, "compressed data", expected=f"a {stream.compression} stream", found=stream.problem)
    return InflatedCopy(copy, path, stream.problem)
