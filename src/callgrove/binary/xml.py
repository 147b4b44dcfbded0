"""XML from strangers: parsed as a stream, entities refused before anything is expanded, a DTD without them skipped.

`parse` runs the whole file through a handler; `pieces` gives control back between pieces, for those who give out
what they find on the way. Elements may nest as deep as they like: nothing recurses.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO
from xml.parsers import expat

from callgrove.binary.files import open_regular
from callgrove.errors import CorruptFile, InputError, RefusedInput

__all__ = ["new_parser", "parse", "pieces", "readable"]

CHUNK = 1 << 16


def new_parser(path: Path | str) -> expat.XMLParserType:
    """Return a parser that refuses entities; set its handlers, then give it to `parse` or `pieces`."""
    parser = expat.ParserCreate()
    parser.buffer_text = True

    def refuse(*declaration: object) -> None:
        line = parser.CurrentLineNumber
        raise RefusedInput(f"{path}: line {line}: the XML declares entities, which are never expanded")

    parser.EntityDeclHandler = refuse
    return parser


def parse(path: Path | str, parser: expat.XMLParserType, file: BinaryIO) -> None:
    """Pass the whole of a file through a parser's handlers. `path` is what errors name."""
    with _errors(path):
        parser.ParseFile(file)


def pieces(path: Path | str, parser: expat.XMLParserType, file: BinaryIO) -> Iterator[None]:
    """Parse piece by piece. Damage raises after the handlers saw what comes before it."""
    while True:
        piece = file.read(CHUNK)
        with _errors(path):
            parser.Parse(piece, not piece)
        yield
        if not piece:
            return


@contextmanager
def _errors(path: Path | str) -> Iterator[None]:
    try:
        yield
    except expat.ExpatError as error:
        found = expat.ErrorString(error.code) or "an error"
        raise CorruptFile(path, "XML", line=error.lineno, expected="well-formed XML", found=found) from None
    except (LookupError, ValueError) as error:
        # Handlers answer for their own; here the XML declares an encoding that Python or expat does not know.
        raise CorruptFile(path, "XML", line=1, expected="a known encoding", found=str(error)) from error


@contextmanager
def readable(path: Path) -> Iterator[BinaryIO]:
    """Yield the file, open for reading; one that is not ours to read is an input that cannot be used."""
    try:
        with open_regular(path) as file:
            yield file
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror or error}") from error
