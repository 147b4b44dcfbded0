"""Released HPCToolkit databases: meta.db + profile.db + cct.db [+ trace.db] [+ metrics/default.yaml] [+ src/].

Specification: HPCToolkit's FORMATS.md of the 4.0 release. Deviations of genuine files that are honoured here: the
summary's sum of squares holds plain sums; a minimum may be wrong; `lex_aware` of threads is plain function at loops;
instructions below lines are left out of the tree but keep their values; siblings need not be distinct.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from callgrove.arrays import ABSENT, Array, Bools, Ids
from callgrove.binary.files import FileBytes, Source
from callgrove.errors import CallgroveError
from callgrove.formats.hpctoolkit.database import Database, DatabaseFormat, split_source_path, unit_of
from callgrove.formats.hpctoolkit.release import files as rec
from callgrove.formats.hpctoolkit.release import files as release_files
from callgrove.formats.hpctoolkit.release.files import (
    COLUMNS_FILE,
    COMBINATIONS,
    LEXICAL_TYPES,
    SCOPES,
    SUMMARIES,
    UNKNOWN_FUNCTION,
)
from callgrove.formats.hpctoolkit.release.meta_db import MetaDb, RawContexts, RawMetric, RawScope, RawSummary
from callgrove.formats.hpctoolkit.release.shown_columns import add_columns
from callgrove.formats.interface import Field, Grade, Match, ReadOptions, WriteOptions, Writer
from callgrove.formats.registry import check_dialect
from callgrove.model.builder import ExperimentBuilder
from callgrove.model.contexts import ContextKind, Relation
from callgrove.model.experiment import Experiment, Severity
from callgrove.model.metrics import Aggregation, Metric, Scope
from callgrove.model.profiles import DEFAULT_ID_NAMES

__all__ = ["FORMAT", "ReleaseFormat", "add_contexts"]


# -- from meta.db to contexts of the model -----------------------------------------------------------------------------


def add_contexts(builder: ExperimentBuilder, meta: MetaDb) -> None:
    """Add the whole tree, in the file's order."""
    raw = meta.contexts()
    kind = _kinds(raw, np.array([_is_placeholder(f.module, f.name) for f in meta.functions], np.bool_))
    known = raw.relation < len(Relation)
    builder.add_contexts(
        parent=raw.parent,
        kind=kind,
        relation=np.where(known, raw.relation, Relation.CALL),
        region=_regions(builder, meta, raw, kind),
        source_id=raw.id,
    )
    ids, count = np.unique(raw.id, return_counts=True)
    for id_ in ids[(count > 1) | (ids == 0)].tolist()[:1]:
        builder.warn(Severity.DAMAGE, f"{meta.file.path}: Context: context id {id_} is used more than once")


def _is_placeholder(module: int, name: str) -> bool:
    return module < 0 and name.startswith("<")


def _kinds(raw: RawContexts, placeholders: Bools) -> Ids:
    lexical = np.array([*LEXICAL_TYPES, ContextKind.UNKNOWN], np.int32)
    kind = lexical[np.minimum(raw.lexical_type, len(LEXICAL_TYPES))]
    is_function = kind == ContextKind.FUNCTION
    kind = np.where(is_function & (raw.relation == Relation.INLINED), ContextKind.INLINED, kind)
    kind = np.where(is_function & np.append(placeholders, np.False_)[raw.function], ContextKind.PLACEHOLDER, kind)
    kind = np.where(is_function & (raw.function < 0), ContextKind.UNKNOWN, kind)
    return np.where(raw.entry >= 0, ContextKind.ENTRY, kind).astype(np.int32)


def _regions(builder: ExperimentBuilder, meta: MetaDb, raw: RawContexts, kind: Ids) -> Ids:
    """Return the region of every context. Functions are regions of their own; other contexts are their place."""
    modules = [builder.module(path) for path in meta.modules]
    files = [builder.file(*(split_source_path(path) if copied else (path, ""))) for path, copied in meta.files]
    functions = _functions(builder, meta, files, modules)
    plain = (raw.function >= 0) & (raw.file < 0) & (raw.module < 0)
    region = np.full(len(raw), ABSENT, np.int32)
    region[plain] = functions[raw.function[plain]]
    rest = np.flatnonzero(~plain)
    columns = [c[rest] for c in (kind, raw.entry, raw.function, raw.file, raw.line, raw.module, raw.offset)]
    first, number = _distinct(columns)
    kinds = tuple(ContextKind)
    made: list[int] = []
    for row in zip(*(c[first].tolist() for c in columns), strict=True):
        of_kind, entry, function, file, line, module, offset = row
        name = UNKNOWN_FUNCTION if of_kind == ContextKind.UNKNOWN else ""
        name = meta.entry_names[entry] if entry >= 0 else meta.functions[function].name if function >= 0 else name
        made.append(
            builder.region(
                ContextKind.FUNCTION if of_kind == ContextKind.INLINED else kinds[of_kind],
                name,
                file=files[file] if file >= 0 else ABSENT,
                line=line if file >= 0 else ABSENT,
                module=modules[module] if module >= 0 else ABSENT,
                offset=offset if module >= 0 else None,
            )
        )
    region[rest] = np.array(made, np.int32)[number] if len(made) else region[rest]
    return region


def _functions(builder: ExperimentBuilder, meta: MetaDb, files: list[int], modules: list[int]) -> Ids:
    regions = [
        builder.region(
            ContextKind.PLACEHOLDER if _is_placeholder(f.module, f.name) else ContextKind.FUNCTION,
            f.name,
            file=files[f.file] if f.file >= 0 else ABSENT,
            line=f.line if f.file >= 0 else ABSENT,
            module=modules[f.module] if f.module >= 0 else ABSENT,
            offset=f.offset if f.module >= 0 else None,
        )
        for f in meta.functions
    ]
    return np.array(regions, np.int32)


def _distinct(columns: list[Array]) -> tuple[Array, Array]:
    """Return the first row of each distinct combination, in order of appearance, and the combination of every row."""
    n = len(columns[0])
    order = np.lexsort(columns)
    is_new = np.ones(n, np.bool_)
    is_new[1:] = np.logical_or.reduce([np.diff(c[order]) != 0 for c in columns]) if n > 1 else is_new[1:]
    group = np.cumsum(is_new) - 1
    first = order[is_new]  # lexsort is stable: the first of equal rows comes first
    rank = np.empty(len(first), np.int64)
    rank[np.argsort(first, kind="stable")] = np.arange(len(first))
    number = np.empty(n, np.int64)
    number[order] = rank[group]
    return np.sort(first), number


# -- the format --------------------------------------------------------------------------------------------------------


PARTS = ("meta.db", "profile.db", "cct.db", "trace.db")
MAGICS = {rec.MAGIC + kind.encode(): name for name, kind in release_files.KINDS.items()}
STATISTICS = {(formula, COMBINATIONS.index(word)): statistic for statistic, (formula, word) in SUMMARIES.items()}
COMBINE = (Aggregation.SUM, Aggregation.MINIMUM, Aggregation.MAXIMUM)


class ReleaseFormat(DatabaseFormat):
    """Reads released databases, whole or in parts, and writes them."""

    name = "hpctoolkit-release"
    title = "HPCToolkit database, released 4.x"

    def match(self, source: Source) -> Match | None:
        """Recognise a database by the magic of meta.db, or of any part that was given alone."""
        if source.is_folder:
            if MAGICS.get(source.head(14, "meta.db")) == "meta.db":
                return Match(Grade.EXACT, "meta.db is that of a released database")
            if source.has("meta.db"):
                return Match(Grade.WEAK, "it has a file meta.db")
            known = [name for name in PARTS if MAGICS.get(source.head(14, name)) == name]
            return Match(Grade.STRONG, f"it has {known[0]} of a released database") if known else None
        part = MAGICS.get(source.head(14))
        return Match(Grade.EXACT, f"it is the {part} of a released database") if part else None

    def read(self, source: Source, options: ReadOptions) -> Experiment:
        builder = ExperimentBuilder(self.name, path=str(source.path), title=source.path.name)
        part = MAGICS.get(source.head(14), "meta.db")
        database = Database.locate(source, builder, PARTS, part)
        id_names = DEFAULT_ID_NAMES
        if "meta.db" in database.parts:
            meta = MetaDb(FileBytes(database.parts["meta.db"]))
            if release_files.footer_missing(meta.file, "meta.db"):
                database.record_unfinished(meta.file)
            builder.version, builder.title = meta.version, meta.title or builder.title
            if meta.description:
                builder.attributes["description"] = meta.description
            id_names = meta.id_names
            options.progress("reading meta.db", 0, meta.file.size)
            _add_metrics(database, meta.metrics)
            add_contexts(builder, meta)
            _add_columns(database, meta)
        _add_values(database, id_names)
        _add_traces(database)
        if "meta.db" not in database.parts:
            database.name_metrics()
        return database.finish()

    def open_writer(self, target: Path, options: WriteOptions) -> Writer:
        """Return the writer of a database that appears at `target`, a folder, when the writer is closed."""
        from callgrove.formats.hpctoolkit.database_writer import DatabaseWriter
        from callgrove.formats.hpctoolkit.release.writer import Released

        check_dialect(self.name, options.dialect)
        return DatabaseWriter(target, options, Released)

    def dump(self, source: Source) -> Iterator[Field]:
        """Yield every field of every part."""
        from callgrove.formats.hpctoolkit.dump import release_fields

        names = [n for n in PARTS if source.has(n)] if source.is_folder else [MAGICS.get(source.head(14), "meta.db")]
        for name in names:
            file = source.bytes(name if source.is_folder else "")
            yield from release_fields(file, name)


FORMAT = ReleaseFormat()


def _add_metrics(database: Database, metrics: tuple[RawMetric, ...]) -> None:
    """Add one row per metric and scope; statistics other than the plain sum get rows of their own."""
    for metric in metrics:
        rows: dict[RawScope, int] = {}
        for scope, id_ in metric.scopes:
            rows[scope] = database.metrics[id_] = database.builder.add_metric(
                Metric(_name_metric(metric.name, scope), _scope(scope), unit=unit_of(metric.name), source_id=id_)
            )
        for summary in metric.summaries:
            statistic = _statistic(summary)
            if statistic == "sum" and summary.scope in rows:
                database.summary_metrics[summary.id] = rows[summary.scope]
            else:
                database.summary_metrics[summary.id] = database.builder.add_metric(
                    Metric(
                        _name_metric(metric.name, summary.scope),
                        _scope(summary.scope),
                        unit=unit_of(metric.name) if statistic in ("min", "max") else "",
                        statistic=statistic,
                        aggregation=COMBINE[summary.combine] if summary.combine < len(COMBINE) else Aggregation.NONE,
                        formula=summary.formula,
                        visible=False,
                        source_id=summary.id,
                    )
                )


def _scope(scope: RawScope) -> Scope:
    return SCOPES.get(scope.name, Scope.NONE)


def _name_metric(name: str, scope: RawScope) -> str:
    """Return the name of a metric. A scope that we do not know becomes part of it: its values are kept, but nothing is
    computed of them."""
    return name if scope.name in SCOPES else f"{name} [{scope.name}]"


def _statistic(summary: RawSummary) -> str:
    return STATISTICS.get((summary.formula, summary.combine), f"{summary.combine}: {summary.formula}")


def _add_columns(database: Database, meta: MetaDb) -> None:
    """Add the columns that metrics/default.yaml wants shown. A broken one costs the columns, nothing else."""
    path = database.folder / COLUMNS_FILE
    if not path.is_file() or database.parts.get("meta.db") != database.folder / "meta.db":
        return
    try:
        add_columns(database.builder, path, meta.metrics)
    except CallgroveError as error:
        database.record_damage(error)
    except OSError as error:
        database.builder.warn(Severity.DAMAGE, f"{path}: cannot be read: {error.strerror or error}")


def _add_values(database: Database, id_names: tuple[str, ...]) -> None:
    profiles = database.part("profile.db", release_files.read_profiles, release_files.footer_missing)
    if profiles is not None:
        database.by_profile, pointers, database.is_summary = profiles
        database.read_identifiers(pointers, release_files.TUPLE_LAYOUT, id_names)
    database.by_context = database.part("cct.db", release_files.read_cct, release_files.footer_missing)


def _add_traces(database: Database) -> None:
    traces = database.part("trace.db", release_files.read_traces, release_files.footer_missing)
    if traces is not None:
        database.lines, database.time_range = traces
        database.sample_record = rec.SAMPLE
