"""A folder as an experiment: tables are read at once; values row group by row group, traces and attachments when asked
for.

The tables were made by the builder once and come back as they are, so it is not asked again: the same invariants are
checked instead. Contexts, regions, profiles, places, runs and metrics must be whole; everything else may be missing or
broken, and is then left out with a warning.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from callgrove.arrays import ABSENT, Array, Bools, Floats, Ids, Ints
from callgrove.errors import CallgroveError, CorruptFile, count_of
from callgrove.formats.columnar.experiment_tables import read_contexts, read_profiles, read_runs, read_system
from callgrove.formats.columnar.folder import REMEDY, Folder, Group, Manifest, StoredTable, warnings_from
from callgrove.formats.columnar.metric_tables import Attributes, dtype_of, read_metrics, read_stored_formulas
from callgrove.formats.columnar.row_groups import TableIndex
from callgrove.formats.columnar.schema import (
    EXPERIMENT,
    FIELD,
    FILLER,
    FORMAT_NAME,
    FORMAT_VERSION,
    LIST,
    MANIFEST,
    SOURCES,
    VALUES,
    TableColumn,
    arrow,
    list_of,
    schema_of,
    table_of,
    value_columns,
)
from callgrove.formats.columnar.stored_formulas import read_formulas
from callgrove.formats.columnar.traces import read_counters, read_samples, read_spans, split_of
from callgrove.formats.columnar.traces_writer import read_beside
from callgrove.model.experiment import Attachment, Experiment, Sources, problems_of_experiment
from callgrove.model.metrics import Metrics
from callgrove.model.profiles import Profiles
from callgrove.model.traces.events import Traces, Window
from callgrove.model.values import Block, SparseBlock, Values

__all__ = [
    "FilledFolderValues",
    "FolderValues",
    "ValueLayout",
    "origin_of",
    "read_experiment",
    "read_values",
    "version_text",
]


# -- values: a table for each type of value ----------------------------------------------------------------------------


# -- layout of a table -------------------------------------------------------------------------------------------------
# Numbers are in the column `value`, the fields of composite values beside it.
#
# A composite value has its scalar reading in `value`, and a column for each number it is made of: `field_sum`, a list
# where it is an array (`field_bins`), and `field_terms_a` where it is inside of another.


@dataclass(frozen=True)
class ValueLayout:
    """The layout of one type of values; a composite type belongs to one metric."""

    dtype: np.dtype[Any]
    metric: int | None
    fillers: bool

    @property
    def table(self) -> str:
        if self.metric is not None:
            return f"{VALUES}-metric-{self.metric}"
        return VALUES if self.dtype == np.float64 else f"{VALUES}-{self.dtype.name}"

    @property
    def columns(self) -> tuple[TableColumn, ...]:
        """All of the table, those of fields last."""
        plain = self.dtype.names is None and self.dtype != np.float64
        return (*value_columns(self.dtype.name if plain else "double", self.fillers), *self._field_columns())

    def _leaves(self) -> list[tuple[str, tuple[str, ...], np.dtype[Any], bool]]:
        """Return column, path, type and whether it is a list, of every number of a composite value."""
        pending: list[tuple[tuple[str, ...], np.dtype[Any], bool]] = [((), self.dtype, False)]
        leaves: list[tuple[str, tuple[str, ...], np.dtype[Any], bool]] = []
        while pending:
            path, dtype, is_list = pending.pop(0)
            if dtype.base.names is None:
                name = FIELD + "_".join(path)
                taken = {known for known, *_ in leaves}
                leaves.append((name if name not in taken else f"{name}_{len(leaves)}", path, dtype.base, is_list))
                continue
            inner = [(name, dtype.base[name]) for name in dtype.base.names]
            pending = [((*path, name), kind, is_list or bool(kind.shape)) for name, kind in inner] + pending
        return leaves if self.dtype.names is not None else []

    def _field_columns(self) -> tuple[TableColumn, ...]:
        return tuple(
            TableColumn(name, f"{LIST if is_list else ''}{_type_name(kind)}")
            for name, _, kind, is_list in self._leaves()
        )

    def encode(self, rows: Mapping[str, Array]) -> Any:
        """Return an Arrow table of some rows, in which composite values are structures."""
        if self.dtype.names is None:
            return table_of(self.columns, rows)
        plain = [c for c in self.columns if not c.name.startswith(FIELD)]
        table = table_of(plain, {**rows, "value": rows["scalar"]})
        arrays = {name: table.column(name) for name in table.column_names}
        for name, path, kind, is_list in self._leaves():
            values = rows["value"]
            for part in path:
                values = values[part]
            numbers = np.ascontiguousarray(values, kind.newbyteorder("="))
            arrays[name] = list_of(numbers) if is_list else arrow().array(numbers)
        schema = schema_of(self.columns)
        return arrow().Table.from_arrays([arrays[name] for name in schema.names], schema=schema)

    def decode(self, group: Group) -> Array:
        """Return the values of a row group."""
        if self.dtype.names is None:
            return group.numbers("value")
        out = np.zeros(len(group), self.dtype)
        for name, path, _, is_list in self._leaves():
            place = out
            for part in path[:-1]:
                place = place[part]
            numbers = group.lists(name) if is_list else group.numbers(name)
            place[path[-1]] = numbers.reshape(place[path[-1]].shape)
        return out

    @property
    def needed(self) -> list[str]:
        """The columns that values are made of."""
        fields = [c.name for c in self._field_columns()]
        return ["profile", "context", "metric", *(fields or ["value"])]


def _type_name(kind: np.dtype[Any]) -> str:
    return "double" if kind == np.float64 else kind.name


# -- values ------------------------------------------------------------------------------------------------------------


@dataclass
class ValueTable:
    """One table of values; without an index, every row group has to be looked at."""

    table: StoredTable
    layout: ValueLayout
    index: TableIndex | None

    def groups(self, profiles: Ints | None) -> Ints:
        if self.index is None:
            return np.arange(self.table.n_groups)
        return self.index.groups(profiles)


Limits = tuple[int, int, int]  # how many profiles, contexts and metrics there are
Run = tuple[int, int, int]  # table, first row, one past the last


class FolderValues:
    """The values of all tables, in the order in which they were given to the writer."""

    def __init__(
        self,
        tables: Sequence[ValueTable],
        runs: Sequence[Run],
        limits: Limits,
        summary: Bools,
        summarised: set[int],
        neutral: Floats,
    ) -> None:
        self._tables, self._runs, self._limits, self._neutral = tuple(tables), tuple(runs), limits, neutral
        self._summary, self._summarised = summary, summarised
        self.problems: list[CallgroveError] = []
        self._last: dict[tuple[int, bool], tuple[int, SparseBlock]] = {}  # of each table the row group read last

    def n_stored(self) -> int | None:
        return sum(one.table.n_rows for one in self._tables)

    def summarises(self, metric: int) -> bool:
        return metric in self._summarised

    def profile(self, profile: int, metrics: Ints | None = None) -> SparseBlock:
        blocks = []
        for number, one in enumerate(self._tables):
            for group in one.groups(np.array([profile])).tolist():
                block = self._group(number, group)
                part = block.take(block.profile == profile).of_metrics(metrics)
                if len(part):
                    blocks.append(part)
        return SparseBlock.concatenate(blocks)

    def context(self, context: int) -> SparseBlock:
        """Return the values of one context. Every row group is looked at: values lie by profile."""
        blocks = []
        for block in self._stream(None, None):
            part = block.take((block.context == context) & ~self._summary[block.profile])
            if len(part):
                blocks.append(part)
        return SparseBlock.concatenate(blocks)

    def blocks(self, profiles: Ints | None = None, metrics: Ints | None = None) -> Iterator[Block]:
        return self._stream(profiles, metrics)

    def _stream(self, profiles: Ints | None, metrics: Ints | None, measured: bool = False) -> Iterator[SparseBlock]:
        """Yield values with one row group of each table in memory. Damaged ones are stepped over, and kept in
        `problems`."""
        wanted = [set(one.groups(profiles).tolist()) for one in self._tables]
        for number, first, last in self._runs:
            table = self._tables[number].table
            for group in table.groups_of(first, last):
                if group not in wanted[number]:
                    continue
                start = int(table.first_rows[group])
                try:
                    rows = self._group(number, group, measured).take(slice(max(first - start, 0), last - start))
                except CorruptFile as error:
                    self._record_problem(error)
                    wanted[number].discard(group)
                    continue
                kept = _choose_rows(rows, profiles, metrics)
                if kept is not None:
                    rows = rows.take(kept)
                if len(rows):
                    yield rows

    def _group(self, number: int, group: int, measured: bool = False) -> SparseBlock:
        if (number, measured) in self._last and self._last[number, measured][0] == group:
            return self._last[number, measured][1]
        block = self._read(number, group, measured)
        self._last[number, measured] = group, block
        return block

    def _read(self, number: int, group: int, measured: bool) -> SparseBlock:
        one = self._tables[number]
        rows = one.table.group(group, [*one.layout.needed, *([FILLER] if measured else [])])
        ids = [rows.numbers(name) for name in ("profile", "context", "metric")]
        block = SparseBlock(ids[0], ids[1], ids[2], one.layout.decode(rows))
        fields = zip(ids, ("profile", "context", "metric"), self._limits, strict=True)
        unknown = np.zeros(len(block), np.bool_)
        for column, what, n in fields:
            wrong = (column < 0) | (column >= n)
            if what == "metric" and one.layout.metric is not None:
                wrong |= column != one.layout.metric
            if wrong.any():
                self._record_problem(
                    one.table.damage(
                        f"row group {group}",
                        f"{what} ids below {n}",
                        f"{count_of(int(wrong.sum()), 'value')} with others, left out",
                    )
                )
            unknown |= wrong
        if unknown.any():  # they stay in place as rows of no profile, so that row numbers still fit
            block = replace(block, profile=np.where(unknown, np.int32(ABSENT), block.profile))
        if measured and block.value.dtype.names is None:
            neutral = self._neutral[np.where(unknown, 0, block.metric)]
            filler = rows.numbers(FILLER).astype(np.bool_)
            value = block.value if np.isfinite(neutral[filler]).all() else block.value.astype(np.float64)
            fillers = filler if filler.any() else None
            block = replace(block, value=np.where(filler, neutral.astype(value.dtype), value), fillers=fillers)
        return block

    def _record_problem(self, error: CallgroveError) -> None:
        if str(error) not in {str(known) for known in self.problems}:
            self.problems.append(error)


class FilledFolderValues(FolderValues):
    """Values among which are numbers that nobody measured; see `HasFillers`."""

    def blocks_without_fillers(self, profiles: Ints | None = None, metrics: Ints | None = None) -> Iterator[Block]:
        return self._stream(profiles, metrics, measured=True)


def _choose_rows(block: SparseBlock, profiles: Ints | None, metrics: Ints | None) -> Bools | None:
    """Return which rows are wanted; None is all of them."""
    kept: Bools | None = None
    if len(block) and int(block.profile.min()) < 0:
        kept = block.profile >= 0
    if profiles is not None:
        matches = np.isin(block.profile, profiles)
        kept = matches if kept is None else kept & matches
    if metrics is not None:
        matches = np.isin(block.metric, metrics)
        kept = matches if kept is None else kept & matches
    return None if kept is None or kept.all() else kept


def read_values(
    folder: Folder,
    profiles: Profiles,
    n_contexts: int,
    metrics: Metrics,
    index: Callable[[StoredTable], TableIndex | None],
) -> FolderValues:
    """Return what the manifest says of values; tables that cannot be read are left out, and said."""
    fillers = folder.manifest.get(folder.path, "fillers", bool, False)
    limits = len(profiles), n_contexts, len(metrics)
    tables: dict[int, ValueTable] = {}
    for number, entry in enumerate(folder.manifest.get(folder.path, "values", list)):
        layout = _layout(folder, entry, fillers, limits[2])
        one = folder.or_warn(lambda layout=layout: _value_table(folder, layout, index), None)  # type: ignore[misc]
        if one is not None:
            tables[number] = one
    numbers = {number: place for place, number in enumerate(tables)}
    runs = folder.or_warn(lambda: _read_runs(folder, tables), _one_after_another(tables))
    kind = FilledFolderValues if fillers else FolderValues
    summarised = {m for m in folder.manifest.get(folder.path, "summarised", list, []) if isinstance(m, int)}
    runs_by_place = [(numbers[number], first, last) for number, first, last in runs]
    neutral = np.array([metric.aggregation.neutral for metric in metrics] or [0.0])
    return kind(list(tables.values()), runs_by_place, limits, profiles.is_summary, summarised, neutral)


def _value_table(
    folder: Folder, layout: ValueLayout, index: Callable[[StoredTable], TableIndex | None]
) -> ValueTable | None:
    table = folder.table(layout.table, layout.columns).check()
    return ValueTable(table, layout, index(table))


def _layout(folder: Folder, entry: object, fillers: bool, n_metrics: int) -> ValueLayout:
    try:
        assert isinstance(entry, dict)
        metric = entry["metric"]
        layout = ValueLayout(dtype_of(entry["dtype"]), metric, fillers)
        fits = (metric is None) == (layout.dtype.names is None) and (
            metric is None or (type(metric) is int and 0 <= metric < n_metrics)
        )
        if fits and entry["table"] == layout.table:
            return layout
        found = repr(entry)[:80]
    except (AssertionError, KeyError, ValueError) as error:
        found = str(error)[:80]
    path = folder.path / MANIFEST
    raise CorruptFile(path, "values", expected="tables with types of values", found=found, remedy=REMEDY)


def _read_runs(folder: Folder, tables: dict[int, ValueTable]) -> list[Run]:
    """Return the runs of all tables that can be read; they must cover these."""
    table = folder.table("value_order")
    rows = table.whole()
    columns = [rows.numbers(name).tolist() for name in ("file", "first", "rows")]
    at = dict.fromkeys(tables, 0)
    runs: list[Run] = []
    for number, first, length in zip(*columns, strict=True):
        if number in tables:
            if first != at[number] or length <= 0:
                raise table.damage("rows", "runs that follow one another", f"one from row {first} of table {number}")
            at[number] += length
            runs.append((number, first, first + length))
    for number, one in tables.items():
        if at[number] != one.table.n_rows:
            expected = f"{one.table.n_rows:,} rows of {one.table.path.name}"
            raise table.damage("rows", expected, f"{at[number]:,}")
    return runs


def _one_after_another(tables: dict[int, ValueTable]) -> list[Run]:
    return [(number, 0, one.table.n_rows) for number, one in tables.items() if one.table.n_rows]


# -- the experiment ----------------------------------------------------------------------------------------------------


Index = Callable[[StoredTable], TableIndex | None]


def version_text(manifest: Manifest) -> str:
    """Return the version of a folder, with what it was made from: `1.1 (hpctoolkit-release 4.0)`."""
    made_from = " ".join(filter(None, manifest.origin))
    version = f"{FORMAT_VERSION}.{manifest.minor}"
    return f"{version} ({made_from})" if made_from else version


def origin_of(format_: str, version: str) -> tuple[str, str]:
    """Return what an experiment was made from, also where it was a folder before."""
    if format_ != FORMAT_NAME:
        return format_, version
    match = re.fullmatch(r"\d+\.\d+ \((\S*) ?(.*)\)", version, re.DOTALL)
    return (match[1], match[2]) if match else ("", "")


def read_experiment(path: Path, manifest: Manifest) -> Experiment:
    folder = Folder(path, manifest, EXPERIMENT)
    attributes = folder.or_warn(lambda: Attributes.read(folder), Attributes({}))
    metrics = read_metrics(folder, attributes)
    system = read_system(folder, attributes)
    runs = read_runs(folder, attributes)
    profiles, part = read_profiles(folder, attributes, len(runs), len(system))
    profiles = profiles.of_runs(runs)
    contexts = read_contexts(folder, attributes)
    lost: Index = lambda table: None  # noqa: E731
    index = folder.or_warn(lambda: TableIndex.read_all(folder), lost)
    values = read_values(folder, profiles, len(contexts), metrics, index)
    experiment = Experiment(
        title=manifest.title,
        format=FORMAT_NAME,
        version=version_text(manifest),
        runs=runs,
        profiles=profiles,
        system=system,
        contexts=contexts,
        metrics=metrics,
        values=Values(values, metrics, profiles, contexts),
        traces=_traces(folder, profiles, part, len(contexts), metrics, index),
        sources=Sources(path / SOURCES, contexts.regions.files.copied),
        attributes=dict(attributes.of("experiment")),
        attachments=folder.or_warn(lambda: _attachments(folder), {}),
        warnings=(*warnings_from(manifest, path), *folder.warnings),
        path=str(path),
    )
    if problems := problems_of_experiment(experiment, []):
        raise CorruptFile(path, "tables", expected="an experiment without contradictions", found=problems[0])
    return read_formulas(experiment, read_stored_formulas(folder, metrics))


def _traces(folder: Folder, profiles: Profiles, part: Ids, n_contexts: int, metrics: Metrics, index: Index) -> Traces:
    n = len(profiles)
    samples = folder.or_warn(lambda: read_samples(folder, n, n_contexts, len(metrics)), None)
    spans = folder.or_warn(lambda: read_spans(folder, part, n_contexts, index), None)
    counters = partial(read_counters, folder, n) if folder.has("counters") else None
    splits = spans is not None and folder.manifest.more.get("splits") is True
    split = split_of(spans, counters) if spans is not None and splits else None
    sizes = spans.part_sizes() if spans is not None and splits else ()
    return Traces(samples, spans, counters, _time_range(folder), split, read_beside(folder), sizes)


def _time_range(folder: Folder) -> Window | None:
    stored = folder.manifest.more.get("time_range")
    if stored is None:
        return None
    if not (isinstance(stored, list) and len(stored) == 2 and all(type(one) is int for one in stored)):
        raise CorruptFile(folder.path / MANIFEST, "time_range", expected="two times", found=repr(stored)[:60])
    return stored[0], stored[1]


@dataclass(frozen=True)
class StoredAttachment:
    """An attachment whose bytes are in a row group of its own."""

    table: StoredTable
    row: int

    def read(self) -> bytes:
        group = self.table.groups_of(self.row, self.row + 1)[0]
        data: bytes = self.table.group(group, ("data",)).cells("data")[self.row - int(self.table.first_rows[group])]
        return data


def _attachments(folder: Folder) -> dict[str, Attachment]:
    table = folder.table("attachments")
    groups = [table.group(number, ("name",)) for number in range(table.n_groups)]
    names = [name for group in groups for name in group.names("name")]
    return {name: StoredAttachment(table, row) for row, name in enumerate(names)}
