"""`callgrove dump`: the raw structure of a file; `callgrove check`: validate, and list every damage."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeVar

from callgrove.cli.options import (
    ExecutionOptions,
    PathOptions,
    TableOutput,
    add_execution,
    add_from,
    add_path,
    add_salvage,
    add_table_output,
    workers_for,
)
from callgrove.cli.output import emit, emit_text
from callgrove.cli.parser import Command
from callgrove.errors import CallgroveError, count_of

if TYPE_CHECKING:
    from callgrove.binary.files import Source
    from callgrove.formats.interface import Field, Format, Problem
    from callgrove.model.table import Table


# -- dump --------------------------------------------------------------------------------------------------------------


CHUNK = 4096
MOST_NAMED = 12  # sections that an error lists
# text: the table, where a format has no text
FORMATS = ("text", "table", "csv", "jsonl", "json", "markdown", "latex", "html")
FIELD_COLUMNS = ("file", "offset", "section", "index", "field", "value")


@dataclass(frozen=True, kw_only=True)
class DumpOptions(PathOptions, TableOutput):
    section: str
    summary: bool
    tree: bool


def add_dump_arguments(parser: argparse.ArgumentParser) -> None:
    add_path(parser, "a file, or a folder whose files are dumped one after the other")
    add_from(parser)
    parser.add_argument("--section", metavar="TEXT", default="", help="only sections whose name contains this")
    view = parser.add_mutually_exclusive_group()
    view.add_argument("--summary", action="store_true", help="counts, totals and modules instead of every field")
    view.add_argument("--tree", action="store_true", help="the call tree instead of every field")
    add_table_output(parser, formats=FORMATS)


def run_dump(options: DumpOptions) -> int:
    from callgrove.binary.files import Source
    from callgrove.errors import UsageError
    from callgrove.formats.interface import Dumps
    from callgrove.formats.registry import settle_format

    [path] = options.paths
    chosen, source = settle_format(Source.of(path), options.from_format)
    if not isinstance(chosen, Dumps):
        raise UsageError(f"{path}: the format {chosen.name} has no raw structure to print")
    damage: list[CallgroveError] = []
    pieces = None if options.section else _dump_text(chosen, source, options)
    if pieces is not None:
        emit_text(_yield_until_damage(pieces, damage), options.output)
    else:
        shown = replace(options, given_format="table") if options.format == "text" else options
        emit(
            _make_tables(_choose_section(_yield_until_damage(chosen.dump(source), damage), path, options.section)),
            shown,
        )
    if damage:
        raise damage[0]
    return 0


def _dump_text(chosen: Format, source: Source, options: DumpOptions) -> Iterator[str] | None:
    """Return the text form that was asked for; None where fields are to be printed as a table."""
    from callgrove.errors import UsageError
    from callgrove.formats.interface import DumpsText, DumpsViews, DumpView

    view = DumpView.SUMMARY if options.summary else DumpView.TREE if options.tree else None
    if isinstance(chosen, DumpsViews):
        view = view or {"text": DumpView.TEXT, "json": DumpView.JSON}.get(options.format)
        return None if view is None else chosen.dump_view(source, view, options.limit)
    if view is not None:
        raise UsageError(
            f"{options.paths[0]}: the format {chosen.name} has no {view.value} to print; leave out --{view.value}"
        )
    if isinstance(chosen, DumpsText) and options.format == "text":
        return _take_lines(chosen.dump_text(source), options.limit)
    return None


def _take_lines(pieces: Iterator[str], limit: int | None) -> Iterator[str]:
    """Yield at most `limit` lines."""
    if limit is None:
        yield from pieces
        return
    left = limit
    for piece in pieces:
        lines = piece.splitlines(keepends=True)[: left + 1]
        if len(lines) > left:
            yield "".join([*lines[:left], "...\n"])
            return
        left -= len(lines)
        yield piece


T = TypeVar("T")


def _yield_until_damage(parts: Iterator[T], damage: list[CallgroveError]) -> Iterator[T]:
    """Yield fields or text up to the first damage, which is added to `damage`: what is intact is printed first."""
    try:
        yield from parts
    except CallgroveError as error:
        damage.append(error)


def _choose_section(fields: Iterator[Field], path: str, section: str) -> Iterator[Field]:
    """Yield the fields of sections whose name contains a text; none at all is an error that names the sections."""
    from callgrove.errors import UsageError

    passed, n_chosen = dict[str, None](), 0
    for f in fields:
        if section in f.section:
            n_chosen += 1
            yield f
        elif not n_chosen and len(passed) < MOST_NAMED:
            passed[f.section] = None
    if not n_chosen and passed:
        there = f"{', '.join(passed)}{', ...' if len(passed) == MOST_NAMED else ''}"
        raise UsageError(f"{path}: no section has {section!r} in its name; there are {there}")


def _make_tables(fields: Iterable[Field]) -> Iterator[Table]:
    from callgrove.model.table import Table

    rows: list[tuple[object, ...]] = []
    for f in fields:
        rows.append((f.file, f.offset, f.section, f.index if f.index >= 0 else None, f.name, f.value))
        if len(rows) == CHUNK:
            yield Table.from_rows(FIELD_COLUMNS, rows)
            rows = []
    yield Table.from_rows(FIELD_COLUMNS, rows)


DUMP = Command(DumpOptions, add_dump_arguments, run_dump)


# -- check -------------------------------------------------------------------------------------------------------------


PROBLEM_COLUMNS = ("severity", "file", "place", "problem")


@dataclass(frozen=True, kw_only=True)
class CheckOptions(PathOptions, ExecutionOptions, TableOutput):
    salvage: bool
    record: str
    against: str


def add_check_arguments(parser: argparse.ArgumentParser) -> None:
    add_path(parser, "a file or folder that a profiler wrote")
    add_from(parser)
    add_salvage(parser)
    digests = parser.add_mutually_exclusive_group()
    digests.add_argument(
        "--record", metavar="FILE", default="", help="if the input is sound, write digests of its files to FILE"
    )
    digests.add_argument(
        "--against", metavar="FILE", default="", help="compare every byte with the digests that --record wrote"
    )
    add_execution(parser)
    add_table_output(parser)


def run_check(options: CheckOptions) -> int:
    """Print every problem of an input. The exit code is 3 when there is damage; notes alone are not damage."""
    from callgrove.cli.messages import note, progress, with_flags
    from callgrove.errors import InputError
    from callgrove.formats.interface import ReadOptions
    from callgrove.formats.registry import check_path
    from callgrove.model.experiment import Severity
    from callgrove.model.table import Table
    from callgrove.render.text_formats import Prose

    [path] = options.paths
    with progress() as report, workers_for(options, options.paths) as workers:
        how = ReadOptions(options.salvage, report, workers=workers)
        chosen, problems = check_path(path, options.from_format, how)
    if options.against:
        problems = [*_compare_digests(path, options.against), *problems]
    rows = [(p.severity.value, p.file, p.section, with_flags(p.text).removeprefix(f"{path}: ")) for p in problems]
    table = Table.from_rows(PROBLEM_COLUMNS, rows)
    if rows or not options.is_printed_table:  # for people, no problem is not a table
        emit(Table((*table.columns[:-1], Prose("problem", table.columns[-1].values))), options)
    damage = sum(p.severity == Severity.DAMAGE for p in problems)
    places = count_of(damage, "damaged place")
    note(f"{path}: {places}" if damage else f"{path}: sound ({chosen.title})")
    if options.record:
        _record_digests(path, options.record, damage)
    return InputError.exit_code if damage else 0


def _compare_digests(path: str, manifest: str) -> Iterator[Problem]:
    from pathlib import Path

    from callgrove.binary.manifest import compare_with_manifest
    from callgrove.formats.interface import Problem
    from callgrove.model.experiment import Severity

    for one in compare_with_manifest(Path(path), Path(manifest)):
        yield Problem(Severity.DAMAGE if one.is_damage else Severity.NOTE, one.file, one.place, one.text)


def _record_digests(path: str, manifest: str, damage: int) -> None:
    """Write the digests of a sound input; those of a damaged one would call it sound later."""
    from pathlib import Path

    from callgrove.binary.manifest import take_digests, write_manifest
    from callgrove.cli.messages import note
    from callgrove.cli.output import replacing

    if damage:
        note(f"{manifest}: not written, as the input is damaged")
        return
    digests = take_digests(Path(path))
    with replacing(Path(manifest)) as place:
        write_manifest(digests, place)
    size = sum(one.size for one in digests.values())
    note(f"{manifest}: digests of {count_of(len(digests), 'file')}, {size:,} bytes")


CHECK = Command(CheckOptions, add_check_arguments, run_check)
