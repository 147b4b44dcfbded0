"""Tables to stdout or to a file."""

from __future__ import annotations

import errno
import os
import shutil
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, cast

from callgrove.cli.messages import note
from callgrove.model.table import UNCOUNTED, Table, first_rows
from callgrove.render import PLAIN, Look, render

if TYPE_CHECKING:
    from callgrove.cli.options import TableOutput
    from callgrove.render import TableFormat

__all__ = ["emit", "emit_each", "emit_text", "replacing", "stdout_look"]

_SHOWS_WHAT_IS_LEFT = ("table", "markdown")


def emit(tables: Table | Iterable[Table], options: TableOutput, n_rows: int | None = None) -> None:
    """Prints one table, given whole or in chunks, as --format, --output and --limit say. `n_rows` is how many rows
    there are in all, where that is known without reading them."""
    stream = [tables] if isinstance(tables, Table) else tables
    if options.limit is not None:
        stream = first_rows(stream, options.limit, n_rows)
    cut: list[int] = []
    look = PLAIN if options.output else stdout_look()
    pieces = render(_counting_cut(stream, cut), _text_format(options), look)
    emit_text(pieces, options.output)
    if cut and options.format not in _SHOWS_WHAT_IS_LEFT:  # data has no place to say so
        note(f"{'' if UNCOUNTED in cut else f'{sum(cut):,} '}more rows were left out by --limit")


def emit_each(tables: Iterable[Table], options: TableOutput) -> None:
    """Prints tables that have different columns one after the other, for people."""
    look = PLAIN if options.output else stdout_look()
    emit_text(_apart(render([table], _text_format(options), look) for table in tables), options.output)


def _text_format(options: TableOutput) -> TableFormat:
    """The format of a verb that prints: those that print in other ways have further ones."""
    return cast("TableFormat", options.format)


def _apart(texts: Iterable[Iterable[str]]) -> Iterator[str]:
    for number, pieces in enumerate(texts):
        if number:
            yield "\n"
        yield from pieces


def emit_text(pieces: Iterable[str], output: str | None) -> None:
    """Prints text as it comes, or writes it to a file."""
    if output:
        _write_file(pieces, output)
    else:
        sys.stdout.writelines(pieces)


def _counting_cut(tables: Iterable[Table], cut: list[int]) -> Iterator[Table]:
    for table in tables:
        if table.left:
            cut.append(table.left)
        yield table


def stdout_look() -> Look:
    """What stdout can show: NO_COLOR and dumb terminals stay without colours, a pipe also without a width."""
    unicode = (getattr(sys.stdout, "encoding", None) or "").lower().startswith("utf")
    if not sys.stdout.isatty():
        return Look(unicode=unicode)
    colour = not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    return Look(shutil.get_terminal_size().columns, colour, unicode)


def _write_file(pieces: Iterable[str], target: str) -> None:
    with (
        replacing(Path(target)) as path,
        path.open("w", encoding="utf-8", errors="backslashreplace", newline="") as file,
    ):
        file.writelines(pieces)


@contextmanager
def replacing(target: Path) -> Iterator[Path]:
    """A path beside `target` to write to, renamed into place at the end; on an error the old file stays.

    What is no regular file (/dev/null, a pipe) is written directly. A link keeps pointing where it did.
    """
    from callgrove.formats.writing.targets import make_hidden_place, remove_leftovers

    final = Path(os.path.realpath(target))
    if final.exists() and not final.is_file():
        yield from _directly(final, target)
        return
    remove_leftovers(final.parent, final.name)
    beside = make_hidden_place(final.parent, final.name)
    try:
        yield beside
        _settle(beside, final)
    except OSError as error:
        if error.filename == str(beside) or error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            error.filename = str(target)
        raise
    finally:
        beside.unlink(missing_ok=True)


def _directly(final: Path, target: Path) -> Iterator[Path]:
    try:
        yield final
    except OSError as error:
        if error.filename in (None, str(final)):
            error.filename = str(target)
        raise


def _settle(beside: Path, final: Path) -> None:
    with beside.open("rb") as file:
        os.fsync(file.fileno())  # a crash after the rename must not leave an empty file
    if final.exists():
        shutil.copymode(final, beside)
    beside.replace(final)
