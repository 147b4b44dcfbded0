"""Measurement files of any version: read, written, and named as the tool names them.

PROGRAM-RRRRRR-TTT-HOSTID-PID-GENERATION.hpcrun     fields counted from the right: PROGRAM may have dashes
                                       .hpctrace    the trace of the same thread
"""

from __future__ import annotations

import re
from pathlib import Path

from callgrove.binary.filebytes import FileBytes
from callgrove.formats.hpcrun.cursor import Cursor, Seen
from callgrove.formats.hpcrun.measurement import Measurement
from callgrove.formats.hpcrun.primitives import read_version
from callgrove.formats.hpcrun.version_02 import pack_02, read_02
from callgrove.formats.hpcrun.version_04 import pack_04, read_04

__all__ = [
    "SUFFIX",
    "TRACE_SUFFIX",
    "file_name",
    "measurement_bytes",
    "measurement_files",
    "read_measurement",
    "read_tables",
    "sort_key",
]

SUFFIX, TRACE_SUFFIX = ".hpcrun", ".hpctrace"


def read_tables(file: FileBytes, seen: list[Seen] | None = None) -> Measurement:
    """Everything but the values, which stay in the file; nothing given refers to it, so it may be closed."""
    version = read_version(Cursor(file, "header"))
    return read_04(file, seen) if version == "04.00" else read_02(file, seen)


def read_measurement(path: Path) -> Measurement:
    """A whole file."""
    file = FileBytes(path)
    return read_tables(file).with_values(file)


def measurement_bytes(measurement: Measurement) -> bytes:
    """The bytes of a file in the version, and the dialect, that the measurement names."""
    return pack_02(measurement) if measurement.is_old else pack_04(measurement)


def measurement_files(folder: Path) -> list[Path]:
    """The measurement files of a folder, in the order of their names; nothing below it. A link that leads nowhere is
    one: whoever reads it says so."""
    found = (p for p in folder.iterdir() if p.suffix == SUFFIX and not p.name.startswith("."))
    return sorted((p for p in found if _may_be_file(p)), key=lambda p: sort_key(p.name))


def _may_be_file(path: Path) -> bool:
    try:
        return path.is_file() or (path.is_symlink() and not path.exists())
    except OSError:  # it lies where nobody may look: reading it will say so
        return True


def sort_key(name: str) -> tuple[tuple[int, str], ...]:
    """Names in the order of the numbers in them."""
    parts = re.split(r"(\d+)", name)
    return tuple((int(part) if part.isascii() and part.isdigit() else -1, part) for part in parts)


def file_name(program: str, rank: int, thread: int, host: int, process: int, generation: int) -> str:
    """The name of a measurement file, without its ending."""
    plain = re.sub(r"[/\0]", "_", program) or "program"
    return f"{plain}-{rank:06d}-{thread:03d}-{host:08x}-{process}-{generation}"
