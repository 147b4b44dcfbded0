"""A text file by lines: UTF-8, a byte order mark is dropped, lines end with LF, CRLF or CR.

Lines come in blocks, so that a million of them cost little; a block is what is in memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from callgrove.errors import CorruptFile, InputError

__all__ = ["as_text", "line_blocks", "numbered_lines"]

BOM = b"\xef\xbb\xbf"
BLOCK = 1 << 20  # bytes
LONGEST_LINE = 256 << 20  # bytes
NO_TEXT = "the file is damaged, or no text"


def as_text(data: bytes, path: Path, section: str, offset: int = 0, line: int | None = None) -> str:
    """Bytes as text; what is no UTF-8 is an error that says where. `line` is the number of the first line."""
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise CorruptFile(
            path,
            section,
            offset=offset + error.start,
            line=None if line is None else line + len(_lines(data[: error.start])) - 1,
            expected="UTF-8",
            found=f"the byte 0x{data[error.start]:02x}",
            remedy="convert the file to UTF-8",
        ) from None


def _lines(data: bytes) -> list[bytes]:
    return data.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")


def line_blocks(path: Path, size: int = BLOCK) -> Iterator[tuple[int, list[str]]]:
    """(number of the first line, from 1; lines without their ends) of block after block."""
    number, offset, rest = 1, 0, bytearray()
    try:
        with path.open("rb") as file:
            while data := file.read(size):
                cut = data.rfind(b"\n") + 1
                if cut == 0:  # a line that is longer than a block
                    rest += data
                    _refuse_endless(rest, path, number)
                    continue
                lines = _split(bytes(rest) + data[:cut], path, number, offset)
                del lines[-1]  # after the last end there is nothing yet
                yield number, lines
                number, offset, rest = number + len(lines), offset + len(rest) + cut, bytearray(data[cut:])
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror or error}") from error
    if rest:
        yield number, _split(bytes(rest), path, number, offset)


def _refuse_endless(line: bytearray, path: Path, number: int) -> None:
    if len(line) > LONGEST_LINE:
        wanted = f"at most {LONGEST_LINE:,} bytes"
        raise CorruptFile(path, "text", line=number, expected=wanted, found="a line that is longer", remedy=NO_TEXT)


def _split(data: bytes, path: Path, number: int, offset: int) -> list[str]:
    skipped = len(BOM) if number == 1 and data.startswith(BOM) else 0
    text = as_text(data[skipped:] if skipped else data, path, "text", offset + skipped, number)
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    return text.split("\n")


def numbered_lines(path: Path) -> Iterator[tuple[int, str]]:
    """(number from 1, text without its end) of every line."""
    for first, lines in line_blocks(path):
        yield from enumerate(lines, first)
