"""Pre-release HPCToolkit databases: experiment.xml 4.0 + profile.db + cct.db + trace.db [+ src/].

Specification: HPCToolkit's FORMATS.md before the 4.0 release ("HPCToolkit Database File Formats"). Deviations of
genuine files that are honoured here: version bytes are 1.0; trace.db has no footer; identifier kinds carry two bits of
interpretation; with several statistics the XML repeats one id for all of them; the stored sum of squares is a plain
sum; instructions whose line is known are left out of the tree but keep their values.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np

from callgrove.binary.files import Source
from callgrove.formats.hpctoolkit.database import Database, DatabaseFormat, unit_of
from callgrove.formats.hpctoolkit.experiment_xml import (
    HEAD,
    ExperimentXml,
    TreeHandler,
    XmlMetric,
    major_version,
    names_by_number,
    parse,
)
from callgrove.formats.hpctoolkit.prerelease import files as prerelease_files
from callgrove.formats.hpctoolkit.prerelease import files as rec
from callgrove.formats.interface import Field, Grade, Match, ReadOptions, WriteOptions, Writer
from callgrove.formats.registry import check_dialect
from callgrove.model.builder import ExperimentBuilder
from callgrove.model.experiment import Experiment, Severity
from callgrove.model.metrics import Aggregation, Column, Metric, Scope
from callgrove.model.profiles import DEFAULT_ID_NAMES

__all__ = ["FORMAT", "PrereleaseFormat"]

XML = "experiment.xml"
PARTS = (XML, "profile.db", "cct.db", "trace.db")
MAGICS = {
    **dict.fromkeys(rec.PROFILE_MAGICS, "profile.db"),
    **dict.fromkeys(rec.CCT_MAGICS, "cct.db"),
    **dict.fromkeys(rec.TRACE_MAGICS, "trace.db"),
}
SLOTS = 3  # ids that one statistic of a metric owns: point, function, inclusive
SLOT_SCOPES = {1: Scope.FUNCTION, 2: Scope.INCLUSIVE}
SUFFIXES = {" (E)": Scope.FUNCTION, " (I)": Scope.INCLUSIVE}
AGGREGATIONS = {"sum": Aggregation.SUM, "min": Aggregation.MINIMUM, "max": Aggregation.MAXIMUM}
PARTIAL = re.compile(r"(.*):PARTIAL:([0-9]{1,5})", re.DOTALL)
# What the view of a statistic refers to, in the order of its formula: $s, $s/$n, sqrt($q/$n-($s/$n)^2)
REFERRED = {
    "Sum": ("sum",),
    "Mean": ("sum", "count"),
    "StdDev": ("sum of squares", "count", "sum"),
    "CfVar": ("sum of squares", "count", "sum"),
}


class PrereleaseFormat(DatabaseFormat):
    """Reads pre-release databases, whole or in parts, and writes them."""

    name = "hpctoolkit-prerelease"
    title = "HPCToolkit database, pre-release 4.0"

    def match(self, source: Source) -> Match | None:
        """Recognise a database by the version inside experiment.xml, or the magic of a part that was given alone."""
        if not source.is_folder:
            part = MAGICS.get(source.head(16)) or (XML if major_version(source.head(HEAD)) == "4" else None)
            return Match(Grade.EXACT, f"it is the {part} of a pre-release database") if part else None
        version = major_version(source.head(HEAD, XML))
        if version == "4":
            return Match(Grade.EXACT, "experiment.xml has version 4")
        known = [name for name in PARTS if MAGICS.get(source.head(16, name)) == name]
        if known and not version:
            return Match(Grade.STRONG, f"it has {known[0]} of a pre-release database")
        return Match(Grade.WEAK, "it has a file experiment.xml") if source.has(XML) and not version else None

    def read(self, source: Source, options: ReadOptions) -> Experiment:
        builder = ExperimentBuilder(self.name, path=str(source.path), title=source.path.name)
        database = Database.locate(source, builder, PARTS, MAGICS.get(source.head(16), XML))
        id_names = DEFAULT_ID_NAMES
        if XML in database.parts:
            tables = _read_xml(database, options)
            id_names = names_by_number(tables.id_names, DEFAULT_ID_NAMES)
        _add_values(database, id_names)
        _add_traces(database)
        if XML not in database.parts:
            database.name_metrics()
        return database.finish()

    def open_writer(self, target: Path, options: WriteOptions) -> Writer:
        """Return the writer of a database that appears at `target`, a folder, when the writer is closed."""
        from callgrove.formats.hpctoolkit.database_writer import DatabaseWriter
        from callgrove.formats.hpctoolkit.prerelease.writer import Prerelease

        dialect = check_dialect(self.name, options.dialect)
        return DatabaseWriter(target, options, partial(Prerelease, dialect=dialect))

    def dump(self, source: Source) -> Iterator[Field]:
        """Yield every field of every part."""
        from callgrove.formats.hpctoolkit.dump import prerelease_fields, xml_fields

        names = [n for n in PARTS if source.has(n)] if source.is_folder else [MAGICS.get(source.head(16), XML)]
        for name in names:
            path = source.path / name if source.is_folder else source.path
            if name == XML:
                yield from xml_fields(path)
            else:
                yield from prerelease_fields(source.bytes(name if source.is_folder else ""), name)


FORMAT = PrereleaseFormat()


def _read_xml(database: Database, options: ReadOptions) -> ExperimentXml:
    path, builder = database.parts[XML], database.builder

    def damage(text: str) -> None:
        builder.warn(Severity.DAMAGE, text if text.startswith(str(path)) else f"{path}: {text}")

    options.progress(f"reading {XML}", 0, path.stat().st_size)
    tables = parse(path, TreeHandler(builder, damage), damage, options.salvage)
    builder.version, builder.title = tables.version, tables.title or builder.title
    database.time_range = tables.time_range
    _add_metrics(database, tables)
    return tables


def _split(name: str, id_: int) -> tuple[str, Scope]:
    """Return the quantity and scope of a stored metric. A quantity with one scope has no suffix; its slot tells."""
    for suffix, scope in SUFFIXES.items():
        if name.endswith(suffix):
            return name.removesuffix(suffix), scope
    return name, SLOT_SCOPES.get(id_ % SLOTS, Scope.POINT)


def _add_metrics(database: Database, tables: ExperimentXml) -> None:
    shown = {_split(m.name, m.id)[0].rpartition(":")[0] for m in tables.metrics if m.id < 0 and m.show in (1, 2, 3)}
    described = {_split(m.name, m.id)[0].rpartition(":")[0]: m.description for m in tables.metrics if m.id < 0}
    stored: dict[tuple[str, Scope], int] = {}
    for id_, full_name in tables.metric_dbs:
        name, scope = _split(full_name, id_)
        stored[name, scope] = id_
        database.metrics[id_] = database.builder.add_metric(
            Metric(
                name,
                scope,
                unit=unit_of(name),
                description=described.get(name, ""),
                visible=not shown or name in shown,
                source_id=id_,
            )
        )
    _add_statistics(database, tables, stored)
    for metric in tables.metrics:
        if "view" in metric.formulas:
            database.builder.add_column(_column(metric))


def _add_statistics(database: Database, tables: ExperimentXml, stored: dict[tuple[str, Scope], int]) -> None:
    """Add what the ids mean in the summary: `X:PARTIAL:k (E)` is stored under the id of `X (E)` plus 3k.

    Genuine files repeat the first id for every k, so the number is taken from the name.
    """
    partials: dict[tuple[str, Scope], dict[int, XmlMetric]] = {}
    for metric in tables.metrics:
        full, scope = _split(metric.name, metric.id)
        if (match := PARTIAL.fullmatch(full)) and (match[1], scope) in stored:
            partials.setdefault((match[1], scope), {})[int(match[2])] = metric
    views = {metric.name: metric.formulas.get("view", "") for metric in tables.metrics}
    for (name, scope), parts in partials.items():
        first, meaning = stored[name, scope], _meaning(name, scope, views)
        for k, metric in parts.items():
            id_ = first + SLOTS * k
            aggregation = AGGREGATIONS.get(metric.formulas.get("combine", "sum").partition("(")[0], Aggregation.NONE)
            statistic = "sum" if len(parts) == 1 else meaning.get(id_, f"partial {k}")
            if aggregation in (Aggregation.MINIMUM, Aggregation.MAXIMUM):
                statistic = aggregation.value
            if statistic == "sum":
                database.summary_metrics[id_] = database.metrics[first]
            else:
                database.summary_metrics[id_] = database.builder.add_metric(
                    Metric(name, scope, statistic=statistic, aggregation=aggregation, visible=False, source_id=id_)
                )
    for id_, row in database.metrics.items():  # a summary that the XML does not describe holds sums
        if not partials:
            database.summary_metrics.setdefault(id_, row)


def _meaning(name: str, scope: Scope, views: dict[str, str]) -> dict[int, str]:
    """Return which statistic an id of the summary is, as far as the view formulas of a metric tell."""
    suffix = next((s for s, meant in SUFFIXES.items() if meant == scope), "")
    out: dict[int, str] = {}
    for view, statistics in REFERRED.items():
        formula = views.get(f"{name}:{view}{suffix}") or views.get(f"{name}:{view}", "")  # one scope: no suffix
        ids = map(int, re.findall(r"\$(-?[0-9]{1,9})", formula))
        for id_, statistic in zip(ids, statistics, strict=False):
            out.setdefault(id_, statistic)
    return out


def _column(metric: XmlMetric) -> Column:
    full, scope = _split(metric.name, metric.id)
    name, _, statistic = full.rpartition(":")
    return Column(
        name or full,
        Scope.INCLUSIVE if metric.type == "inclusive" else scope,
        metric.formulas["view"],
        metric.description,
        statistic if name else "",
        metric.show in (1, 2, 3),
        metric.show_percent,
        metric.number_format,
        metric.id,
        metric.partner,
    )


def _add_values(database: Database, id_names: tuple[str, ...]) -> None:
    profiles = database.part("profile.db", prerelease_files.read_profiles, prerelease_files.footer_missing)
    if profiles is not None:
        database.by_profile, pointers = profiles
        database.is_summary = np.arange(len(pointers)) == 0
        database.read_identifiers(pointers, prerelease_files.TUPLE_LAYOUT, id_names)
    contexts = database.part("cct.db", prerelease_files.read_cct, prerelease_files.footer_missing)
    if contexts is not None:
        database.by_context, ids = contexts
        database.dense_ids = True
        if not np.array_equal(ids, np.arange(len(ids))):
            wrong = int(np.flatnonzero(ids != np.arange(len(ids)))[0])
            text = f"ContextInfo: record {wrong} is of context {int(ids[wrong])}; the file is left out"
            database.builder.warn(Severity.DAMAGE, f"{database.parts['cct.db']}: {text}")
            database.by_context = None


def _add_traces(database: Database) -> None:
    lines = database.part("trace.db", prerelease_files.read_traces, prerelease_files.footer_missing)
    if lines is not None:
        database.lines, database.sample_record = lines, rec.SAMPLE
