"""The ZIP archive of an `.extra-p` file, read with care: nothing is extracted, sizes are checked before inflating."""

from __future__ import annotations

import errno
import struct
import zlib
from pathlib import Path
from zipfile import BadZipFile, ZipFile, ZipInfo

from callgrove.errors import CorruptFile, InputError, RefusedInput

__all__ = ["MEMBER", "ZIP_TROUBLE", "open_archive", "read_member"]

MEMBER = "experiment.json"
LARGEST = 4 << 30
UNSUSPICIOUS = 64 << 20  # bytes that may be inflated whatever their size in the file
MOST_INFLATION = 250  # beyond that; JSON of measurements shrinks to a tenth or so
ZIP_TROUBLE = (BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, struct.error, ValueError, OSError)


def open_archive(path: Path) -> ZipFile:
    """The archive, or an error that says what is wrong with it."""
    try:
        return ZipFile(path)
    except FileNotFoundError as error:
        raise InputError(f"{path}: {error.strerror}") from error
    except ZIP_TROUBLE as error:
        raise CorruptFile(
            path, "ZIP archive", expected="its table of contents", found=_reason(error), remedy=CUT
        ) from error


CUT = "the file is truncated or damaged"


def read_member(archive: ZipFile, name: str, path: Path) -> bytes:
    """A member in full; what is not there, too large or damaged is an error that names it."""
    try:
        info = archive.getinfo(name)
    except KeyError:
        there = ", ".join(archive.namelist()[:6]) or "nothing"
        raise CorruptFile(path, "ZIP archive", expected=f"the member {name}", found=there) from None
    _refuse_bombs(info, path)
    try:
        return archive.read(info)
    except ZIP_TROUBLE as error:
        raise CorruptFile(path, name, expected="an intact member", found=_reason(error), remedy=CUT) from error


def _reason(error: Exception) -> str:
    """What is wrong, in words for a reader. Offsets before the file are an invalid argument to the system."""
    if isinstance(error, OSError) and error.errno != errno.EINVAL:
        return error.strerror or "none"
    return "none" if isinstance(error, OSError | struct.error) or not str(error) else str(error)


def _refuse_bombs(info: ZipInfo, path: Path) -> None:
    size, packed = info.file_size, max(1, info.compress_size)
    if size > LARGEST:
        raise RefusedInput(f"{path}: {info.filename} says it has {size:,} bytes; more than {LARGEST:,} are not read")
    if size > UNSUSPICIOUS and size > MOST_INFLATION * packed:
        raise RefusedInput(f"{path}: {info.filename} says that {packed:,} bytes inflate to {size:,}; this is not read")
