"""The formats of this package: which tables each is known by, who reads them, and what `check` and `dump` say.

Specification: gpu-traces.md 1.1. Versions overlap between families, so the names of tables decide. Readers and writers
are imported when they are needed: most runs see one family, and opening a small database takes no longer than that.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from callgrove.arrays import bundles
from callgrove.binary.files import Source, open_regular, size_of
from callgrove.binary.sqlite.database import SqliteCache, SqliteFile
from callgrove.binary.sqlite.plan import BUNDLE_BYTES
from callgrove.binary.sqlite.schema import HEADER_BYTES, MAGIC, header_problem
from callgrove.errors import InputError, NotRecognised, Parameter, UsageError
from callgrove.execute import IN_PROCESS
from callgrove.formats.events.checks import find_problems
from callgrove.formats.events.experiment import experiment_of
from callgrove.formats.gpu.event_tables import TableData
from callgrove.formats.gpu.files import (
    ENDINGS,
    INDEX,
    Listings,
    candidates,
    databases,
    find_begun,
    find_unfinished,
    names_of_files,
    read_ahead,
)
from callgrove.formats.interface import Field, Grade, Match, Problem, ReadOptions, WriteOptions
from callgrove.model.experiment import Experiment, InputWarning, Severity
from callgrove.model.study.series import Study

if TYPE_CHECKING:
    from callgrove.formats.gpu.draft.writer import DraftWriter
    from callgrove.formats.gpu.rocpd.places import ReadBefore
    from callgrove.formats.gpu.rocpd.spans_writer import RocpdAnyWriter

__all__ = ["DRAFT", "NSIGHT", "ROCPD", "RPD", "GpuFormat", "fields"]


LOOKED_AT = 16  # databases of a folder that detection opens
REFUSED = {  # by names of tables: what else profilers put into SQLite
    ("compute_workload", "compute_kernel"): "a database of rocprof-compute",
    ("HIP", "OPS", "COPY", "KERN"): "a database of the first rocprof",
}


Opened = Sequence[TableData] | InputError | None


Named = tuple[Path, Path, bool | None]  # where a file lies, what the user calls it, and whether it may still be written
Task = tuple["GpuFormat", SqliteCache, Sequence[Named], Sequence[Path]]


def _open_data_sets(task: Task) -> list[Opened]:
    """Open the data sets of files, or return the error of a file. None stands for a file that is being written: its
    reader has to open it, in one transaction. (Workers may have another current folder, so messages use the user's
    path.)"""
    format_, cache, paths, wanted_next = task
    read_ahead(wanted_next)
    out: list[SqliteFile | Opened] = []
    for path, named, live in paths:
        try:
            file = SqliteFile.unread(named if named is path or named.exists() else path, cache, live)
            out.append(None if file.live else file)
        except InputError as error:
            out.append(error)
    opened = iter(format_.open_all([item for item in out if isinstance(item, SqliteFile)]))
    return [next(opened) if isinstance(item, SqliteFile) else item for item in out]


KERNEL_NAMES = ("short", "demangled")


@dataclass(frozen=True)
class GpuFormat:
    """One family of databases. `knows` decides by the names of tables, `datasets` reads one file."""

    name: str
    title: str
    knows: Callable[[Collection[str]], str]  # why a file with these tables is of this family; empty if it is not
    datasets: Callable[[SqliteFile], Sequence[TableData]]
    has_kernel_names: bool = True  # whether kernels have a short name and a demangled one

    def match(self, source: Source) -> Match | None:
        if source.is_folder or source.path.name == INDEX:
            return self._match_folder(source)
        if not source.head(len(MAGIC)).startswith(MAGIC):
            return None
        reason = self._reason(source, source.path)
        return Match(Grade.EXACT, reason) if reason else None

    def _match_folder(self, source: Source) -> Match | None:
        """Match a folder in which some databases are of this format; without an index, at least as many as are not
        SQLite.

        Where they lie deeper, the folders between may tell more, such as the parameters of runs.
        """
        has_index = (source.folder / INDEX).is_file()
        reasons, strangers, grade = [], 0, Grade.EXACT if has_index else Grade.STRONG
        for path in candidates(source.folder, LOOKED_AT, _listings_of(source)):
            if not _is_sqlite(path):
                strangers += 1
            elif reason := self._reason(source, path):
                reasons.append(f"{path.name} in it: {reason}")
                grade = Grade.EXACT if path.parent == source.folder else grade
        enough = has_index or len(reasons) >= strangers
        return Match(grade, reasons[0]) if reasons and enough else None

    def _reason(self, source: Source, path: Path) -> str:
        try:
            return self.knows(SqliteFile.open(path, _cache_of(source)).tables)
        except InputError:  # no database, or one too damaged to tell
            return ""

    def read(self, source: Source, options: ReadOptions) -> Experiment | Study:
        if options.kernel_names not in ("", *KERNEL_NAMES):
            known = " and ".join(KERNEL_NAMES)
            raise UsageError(f"there are {known} names of kernels, not {options.kernel_names!r}")
        if options.kernel_names and not self.has_kernel_names:
            only = f" chooses among names, and kernels have one name in {self.name}"
            raise UsageError(f"{source.path}: ", Parameter("kernel_names"), only)
        return self._experiment(source, options)

    def _experiment(self, source: Source, options: ReadOptions) -> Experiment:
        datasets: list[TableData] = []
        cache = _cache_of(source)
        names = names_of_files(source.paths, _listings_of(source))
        files = [names_of_file[0] for names_of_file in names]
        skipped = [_warn_named_again(names_of_file) for names_of_file in names if len(names_of_file) > 1]
        workers = options.workers if len(files) > 1 else IN_PROCESS
        absolute = [path if path.is_absolute() else path.absolute() for path in files]
        unfinished = find_unfinished(files, _listings_of(source))
        named = list(zip(absolute, files, unfinished, strict=True))
        sizes = [size_of(path) for path in files]
        together = bundles(sizes, BUNDLE_BYTES)
        small = [[named[k][0] for k in range(*some) if sizes[k] <= BUNDLE_BYTES] for some in together]
        tasks = [
            (self, cache, named[slice(*some)], after) for some, after in zip(together, [*small[1:], []], strict=True)
        ]
        opened = workers.map(_open_data_sets, tasks, label="opening databases", progress=options.progress)
        results = list(chain.from_iterable(opened))
        for number in find_begun(files, unfinished):
            results[number] = None
        for path, result in zip(files, results, strict=True):
            if isinstance(result, InputError):
                if len(files) == 1:
                    raise result
                skipped.append(InputWarning(Severity.DAMAGE, str(result)))
            else:
                datasets += self._open(path, cache) if result is None else result
        if not datasets:
            damage = [warning.text for warning in skipped if warning.severity == Severity.DAMAGE]
            raise InputError(damage[0]) if damage else NotRecognised(f"{source.path}: holds no database")
        for dataset in datasets:
            dataset.file.cache = cache  # those of workers came with others
        if options.kernel_names:
            for dataset in datasets:
                dataset.choose_kernel_names(options.kernel_names)
        return experiment_of(self.name, source.path, datasets, options, skipped)

    def _open(self, path: Path, cache: SqliteCache) -> Sequence[TableData]:
        return self._read_file(SqliteFile.unread(path, cache))

    def _read_file(self, file: SqliteFile) -> Sequence[TableData]:
        self._refuse_others(file)
        return self.datasets(file)

    def _refuse_others(self, file: SqliteFile) -> None:
        file.require_tables()
        if self.knows(file.tables):
            return
        for tables, description in REFUSED.items():
            if set(tables) & set(file.tables) and (len(tables) < 3 or set(tables) <= set(file.tables)):
                raise NotRecognised(f"{file.path}: {description}, which holds no trace that can be read")
        first = ", ".join(list(file.tables)[:8])
        raise NotRecognised(f"{file.path}: a SQLite file, but without the tables of a known GPU trace: it has {first}")

    def open_all(self, files: Sequence[SqliteFile]) -> list[Opened]:
        """Open the data sets of files that nobody writes; an error stands for a file without any."""
        return [self._read_or_error(file) for file in files]

    def _read_or_error(self, file: SqliteFile) -> Opened:
        try:
            return self._read_file(file)
        except InputError as error:
            return error

    def check(self, source: Source, options: ReadOptions) -> Iterator[Problem]:
        """Read everything, and yield the warnings of opening and the problems of events."""

        return find_problems(self._experiment(source, options), options.workers)

    def write_index(self, source: Source, target: Path, options: WriteOptions, *, copies: bool = False) -> int:
        """Write an index of databases, all of which must be of this format, and copies of them if wanted."""
        from callgrove.formats.gpu.files import FOLDER, write_index

        if target.resolve() != Path.cwd():
            FOLDER.refuse_others(target)
        files = databases(source.paths)
        for path in files:
            self._open(path, _cache_of(source))
        write_index(files, target, options.overwrite, copies=copies)
        return len(files)

    def dump(self, source: Source) -> Iterator[Field]:
        """Yield every table with its columns and first rows."""

        for path in databases(source.paths):
            yield from fields(SqliteFile.open(path))


def _cache_of(source: Source) -> SqliteCache:
    """Return what all databases of a source share, from those who recognise it to those who read it."""
    return source.keep(SqliteCache, SqliteCache)


def _listings_of(source: Source) -> Listings:
    """Return what lies in the folders of a source, for all who look into them."""
    return source.keep(Listings, Listings)


def _warn_named_again(names: Sequence[Path]) -> InputWarning:
    """Return a warning that a file was named twice: it counts once, and the user may have meant another one."""
    others = ", ".join(dict.fromkeys(str(name) for name in names[1:] if name != names[0]))
    text = f"{names[0]}: is named {len(names)} times{f' (also as {others})' * bool(others)}; it is read once"
    return InputWarning(Severity.NOTE, text)


def _is_sqlite(path: Path) -> bool:
    try:
        with open_regular(path) as file:
            return file.read(len(MAGIC)) == MAGIC
    except OSError:  # not ours to read
        return False


def _rocpd_tables(tables: Collection[str]) -> str:
    named = [t for t in tables if t.startswith(("rocpd_info_node", "rocpd_kernel_dispatch"))]
    return f"a SQLite file with the table {named[0]}" if named else ""


class RocpdFormat(GpuFormat):
    """rocprofv3's databases, of which many can be written as one. It also matches SQLite files of no known family, so
    that these are refused with the reason."""

    def match(self, source: Source) -> Match | None:
        match = super().match(source)
        if match is not None or not source.path.is_file():
            return match
        head = source.head(HEADER_BYTES)
        if head.startswith(MAGIC):
            return Match(Grade.WEAK, "a SQLite file")
        broken = not head.strip(b"\0") or head.startswith(b"version https://git-lfs")
        if broken and source.path.suffix in ENDINGS and header_problem(source.path, head, len(head)):
            return Match(Grade.WEAK, "named like a database")
        return None

    def open_all(self, files: Sequence[SqliteFile]) -> list[Opened]:
        """Open data sets, reading the tables and places of small databases for all of them at once."""
        from callgrove.formats.gpu.rocpd.places import join_files, read_together

        joined = join_files(files, keeps=True)
        try:
            before = read_together(joined) if len(files) > 1 else []
        except InputError:  # then of each by itself, which also tells what is wrong with it
            before = []
        try:
            if not before:
                return super().open_all(files)
            return [self._read_known(file, places) for file, places in zip(files, before, strict=True)]
        finally:
            joined.give_back()

    def _read_known(self, file: SqliteFile, before: ReadBefore) -> Opened:
        from callgrove.formats.gpu.rocpd import reader as rocpd

        try:
            if not before.is_plain:
                self._refuse_others(file)
            return rocpd.datasets(file, before)
        except InputError as error:
            return error

    def open_writer(self, target: Path, options: WriteOptions) -> RocpdAnyWriter:
        from callgrove.formats.gpu.rocpd.spans_writer import RocpdAnyWriter

        return RocpdAnyWriter(target, options)


def _rocpd_datasets(file: SqliteFile) -> Sequence[TableData]:
    from callgrove.formats.gpu.rocpd import reader as rocpd

    return rocpd.datasets(file)


ROCPD = RocpdFormat("rocpd", "rocprofv3 database (rocpd, SQLite)", _rocpd_tables, _rocpd_datasets)


def _rpd_tables(tables: Collection[str]) -> str:
    return "a SQLite file with the tables rocpd_api and rocpd_op" if {"rocpd_api", "rocpd_op"} <= set(tables) else ""


def _rpd_datasets(file: SqliteFile) -> Sequence[TableData]:
    from callgrove.formats.gpu import rpd

    return rpd.datasets(file)


RPD = GpuFormat("rpd", "RPD database (rocmProfileData, SQLite)", _rpd_tables, _rpd_datasets, has_kernel_names=False)


def _nsight_tables(tables: Collection[str]) -> str:
    others = {"ThreadNames", "ProcessStreams", "NVTX_EVENTS"} & set(tables)
    return f"a SQLite file with the tables StringIds and {min(others)}" if "StringIds" in tables and others else ""


class NsightFormat(GpuFormat):
    """Nsight Systems' exports; a folder of them may be read as the study that Extra-P makes of it."""

    def read(self, source: Source, options: ReadOptions) -> Experiment | Study:
        if not options.extrap_compat:
            return super().read(source, options)
        if options.kernel_names:
            names = " names kernels as Extra-P does, by their short names: no "
            raise UsageError(Parameter("extrap_compat", True), names, Parameter("kernel_names"))
        from callgrove.formats.gpu.nsight.extrap import extra_p_study

        return extra_p_study(source, options)


def _nsight_datasets(file: SqliteFile) -> Sequence[TableData]:
    from callgrove.formats.gpu.nsight import reader as nsight

    return nsight.datasets(file)


NSIGHT = NsightFormat("nsight", "Nsight Systems export (SQLite)", _nsight_tables, _nsight_datasets)


def _draft_tables(tables: Collection[str]) -> str:
    others = {"gpu_kernel_launches", "instrumentation_regions", "call_stacks"} & set(tables)
    return f"a SQLite file with the tables strings and {min(others)}" if "strings" in tables and others else ""


class DraftFormat(GpuFormat):
    """The draft schema, which can be written."""

    def open_writer(self, target: Path, options: WriteOptions) -> DraftWriter:
        from callgrove.formats.gpu.draft.writer import DraftWriter

        return DraftWriter(target, options, in_place=options.in_place)


def _draft_datasets(file: SqliteFile) -> Sequence[TableData]:
    from callgrove.formats.gpu.draft import reader as draft

    return draft.datasets(file)


DRAFT = DraftFormat(
    "rocpd-draft",
    "draft of rocprofv3's multi-node schema (SQLite)",
    _draft_tables,
    _draft_datasets,
    has_kernel_names=False,
)


# The raw structure of a database: every table, its columns, how many rows it has, and the first of them.


FIRST_ROWS = 3
LONGEST = 120  # characters of a text that are shown
SECRET = "environment"  # variables of the process: they may hold passwords


def fields(file: SqliteFile) -> Iterator[Field]:
    """Yield the number of rows, the columns and the first rows of every table; offsets are those of its first page."""
    with file.reading():
        for table, offset in file.root_offsets().items():
            columns = file.tables[table]
            yield Field(file.path.name, table, -1, offset, "rows", file.count(table))
            yield Field(file.path.name, table, -1, offset, "columns", ", ".join(columns))
            for number, row in enumerate(file.first_rows(table, FIRST_ROWS)):
                for column, cell in zip(columns, row, strict=True):
                    yield Field(file.path.name, table, number, offset, column, _show_cell(column, cell))


def _show_cell(column: str, cell: object) -> int | float | str:
    if isinstance(cell, int | float):
        return cell
    if cell is None:
        return "NULL"
    if column == SECRET or isinstance(cell, bytes):
        return f"({len(cell) if isinstance(cell, bytes | str) else 0} bytes)"
    text = str(cell)
    return text if len(text) <= LONGEST else text[:LONGEST] + "..."
