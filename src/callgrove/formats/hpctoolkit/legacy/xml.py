"""The tables of a legacy experiment.xml, versions 2.0 to 2.2, and what its metrics mean.

    HPCToolkitExperiment version="2.x"
      Header n="title"
      SecCallPathProfile
        SecHeader                MetricTable, MetricDBTable, TraceDBTable, LoadModuleTable, FileTable, ProcedureTable
        SecCallPathProfileData   M (values of the root) and the tree

A DTD of some 10 kB comes first; it is skipped. Attributes came with time: `em es ep` of metrics and loops with 2.1,
`o md` of metrics, offsets `v` and inlined frames `Pr` with 2.2. All are optional here.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from pathlib import Path
from xml.parsers import expat

from callgrove.binary import xml
from callgrove.errors import CorruptFile, RefusedInput, UnsupportedVersion
from callgrove.formats.hpctoolkit.database import unit_of
from callgrove.formats.hpctoolkit.experiment_xml import (
    Attributes,
    Warn,
    XmlMetric,
    offset_of,
    parse_document,
    xml_metric,
)
from callgrove.formats.hpctoolkit.legacy.tree import LegacyTree, Procedure, Tables
from callgrove.model.builder import ExperimentBuilder
from callgrove.model.metrics import Aggregation, Column, Metric, Scope

__all__ = ["LegacyXml", "MetricDb", "MetricRows", "TraceDb", "add_metrics", "parse"]


VERSIONS = ("2.", "3.")
ALL_METRIC_DBS = "*.metric-db"
ALL_TRACES = "*.hpctrace"
NS_PER_SEC = 1_000_000_000


@dataclass(frozen=True)
class MetricDb:
    """One `MetricDB` element: a column of the files that a glob describes."""

    id: int
    name: str
    type: str
    glob: str
    column: int


@dataclass(frozen=True)
class TraceDb:
    """The `TraceDB` element, in ticks of the file; `ticks_per_sec` 0 is unknown."""

    glob: str = ALL_TRACES
    first: int = 0
    last: int = 0
    ticks_per_sec: int = 0


@dataclass
class LegacyXml:
    """What experiment.xml says, but for the tree."""

    version: str = ""
    title: str = ""
    metrics: list[XmlMetric] = field(default_factory=list)
    metric_dbs: list[MetricDb] = field(default_factory=list)
    trace_db: TraceDb | None = None
    tables: Tables = field(default_factory=Tables)


class _Handler:
    """Receives the events of the XML parser."""

    def __init__(self, path: Path, parser: expat.XMLParserType, builder: ExperimentBuilder, warn: Warn) -> None:
        self.path, self.parser = path, parser
        self.xml = LegacyXml()
        self.tree = LegacyTree(builder, self.xml.tables, warn)
        self._tags = self.tree.tags
        self.data_begun = False
        parser.StartElementHandler = self.start
        parser.EndElementHandler = self.end

    def start(self, tag: str, attributes: Attributes) -> None:
        try:
            if tag in self._tags:
                self.tree.start(tag, attributes)
            elif tag == "M":
                self.tree.value(attributes)
            elif tag in _TABLES:
                _TABLES[tag](self.xml, attributes)
            else:
                self._section(tag, attributes)
        except (KeyError, ValueError) as error:
            wrong = f"no attribute {error}" if isinstance(error, KeyError) else f"{error}"
            line, expected = self.parser.CurrentLineNumber, "its attributes to be numbers"
            raise CorruptFile(self.path, f"<{tag}>", line=line, expected=expected, found=wrong) from error

    def _section(self, tag: str, attributes: Attributes) -> None:
        if tag == "HPCToolkitExperiment":
            self.xml.version = attributes.get("version", "")
            if not self.xml.version.startswith(VERSIONS):
                raise UnsupportedVersion(
                    f"{self.path}: experiment.xml of version {self.xml.version or '(none)'}, not 2.x"
                )
        elif tag == "SecFlatProfile":
            raise RefusedInput(f"{self.path}: holds a flat profile; only call path profiles are read")
        elif tag == "SecCallPathProfileData":
            self.data_begun = True

    def end(self, tag: str) -> None:
        if tag in self._tags:
            self.tree.end()


def _metric_db(xml: LegacyXml, a: Attributes) -> None:
    column = int(a.get("db-id", len(xml.metric_dbs)))
    xml.metric_dbs.append(MetricDb(int(a["i"]), a["n"], a.get("t", "nil"), a.get("db-glob", ALL_METRIC_DBS), column))


def _trace_db(xml: LegacyXml, a: Attributes) -> None:
    first, last, ticks = (int(a.get(k, "0")) for k in ("db-min-time", "db-max-time", "u"))
    if not (0 <= first < 2**64 and 0 <= last < 2**64 and 0 <= ticks <= NS_PER_SEC):
        raise ValueError(f"times from {first} to {last} in 1/{ticks} s")
    xml.trace_db = TraceDb(a.get("db-glob", ALL_TRACES), first, last, ticks)


def _procedure(xml: LegacyXml, a: Attributes) -> None:
    xml.tables.procedures[a["i"]] = Procedure(a["n"], offset_of(a), a.get("f", "0") != "0")


def _formula(xml: LegacyXml, a: Attributes) -> None:
    if xml.metrics:
        xml.metrics[-1].formulas[a.get("t", "finalize")] = a["frm"]


def _title(xml: LegacyXml, a: Attributes) -> None:
    xml.title = a.get("n", "")


_TABLES = {
    "Header": _title,
    "Metric": lambda found, a: found.metrics.append(xml_metric(a)),
    "MetricFormula": _formula,
    "MetricDB": _metric_db,
    "TraceDB": _trace_db,
    "LoadModule": lambda found, a: found.tables.modules.update({a["i"]: a["n"]}),
    "File": lambda found, a: found.tables.files.update({a["i"]: a["n"]}),
    "Procedure": _procedure,
}


def parse(path: Path, builder: ExperimentBuilder, warn: Warn, salvage: bool = False) -> tuple[LegacyXml, LegacyTree]:
    """Parse the file: tables and values are returned, the contexts are the builder's."""
    parser = xml.new_parser(path)
    handler = _Handler(path, parser, builder, warn)
    parse_document(path, parser, lambda: handler.data_begun, warn, salvage)
    if not handler.xml.version:
        raise CorruptFile(path, "XML", expected="an element HPCToolkitExperiment", found="none")
    handler.tree.finish()
    return handler.xml, handler.tree


# -- metrics -----------------------------------------------------------------------------------------------------------
#     CPUTIME (usec):Sum (I)        the sum over all threads, inclusive: the summary
#     CPUTIME (usec):Mean (E)       another statistic of the summary, as far as it is accumulated
#     CPUTIME (usec).[3,0] (I)      of rank 3, thread 0 alone
#     CPUTIME (usec) (I)            of a MetricDB: a column of every thread's metric-db
#
# A value of type `derived-incr` is accumulated; its `finalize` formula makes the number to show of it. The scope is the
# attribute `t`. Metrics without one (`nil`) have the cost where it arose: on statements, on nothing above them.


NAME = re.compile(r"(?P<base>.+?)(?:\.\[(?P<rank>\d{1,9}),(?P<thread>\d{1,9})\])?(?:(?P<mark> \([IE]\)))?", re.DOTALL)
STATISTICS = ("Sum", "Mean", "StdDev", "CfVar", "Min", "Max", "Num")
SCOPES = {"inclusive": Scope.INCLUSIVE, "exclusive": Scope.FUNCTION}
MARKS = {" (I)": Scope.INCLUSIVE, " (E)": Scope.FUNCTION}
AGGREGATIONS = {"sum": Aggregation.SUM, "min": Aggregation.MINIMUM, "max": Aggregation.MAXIMUM}
Thread = tuple[int, int]  # rank, thread


@dataclass(frozen=True)
class Meaning:
    """The parts of a metric's name."""

    quantity: str
    scope: Scope
    statistic: str = ""
    thread: Thread | None = None


@dataclass
class MetricRows:
    """Where values go: ids of inline values and columns of metric-db files as metric rows."""

    summary: dict[int, int] = field(default_factory=dict)  # id of an M in the summary -> row
    threads: dict[int, tuple[Thread, int]] = field(default_factory=dict)  # id of an M of one thread -> (thread, row)
    files: list[tuple[MetricDb, int]] = field(default_factory=list)


def meaning(name: str, type_: str) -> Meaning:
    """Return what a metric's name and type say."""
    match = NAME.fullmatch(name)
    if match is None:
        return Meaning(name, SCOPES.get(type_, Scope.EXCLUSIVE))
    base, _, statistic = match["base"].rpartition(":")
    known = bool(base) and statistic in STATISTICS
    scope = SCOPES.get(type_) or MARKS.get(match["mark"] or "", Scope.EXCLUSIVE)
    thread = (int(match["rank"]), int(match["thread"])) if match["rank"] else None
    return Meaning(base if known else match["base"], scope, statistic if known else "", thread)


def add_metrics(builder: ExperimentBuilder, xml: LegacyXml) -> MetricRows:
    """Rows for every quantity and scope, for statistics of the summary, and the columns that the file shows."""
    rows: dict[tuple[str, Scope, str], int] = {}
    out = MetricRows()
    shown = {meaning(m.name, m.type).quantity for m in xml.metrics if m.show}
    summed = {(w.quantity, w.scope): m for m in xml.metrics if (w := meaning(m.name, m.type)).statistic in ("", "Sum")}
    for db in xml.metric_dbs:
        word = meaning(db.name, db.type)
        key = (word.quantity, word.scope, "")
        if key not in rows:
            rows[key] = builder.add_metric(_row(word, summed.get(key[:2]), shown, db.id))
        out.files.append((db, rows[key]))
    for metric in xml.metrics:
        word = meaning(metric.name, metric.type)
        word = replace(word, statistic=_statistic_in_file(word, metric))
        key = (word.quantity, word.scope, word.statistic)
        if key not in rows:
            source_id = metric.id if word.thread is None else None
            rows[key] = builder.add_metric(_row(word, metric, shown, source_id))
        if word.thread is None:
            out.summary.setdefault(metric.id, rows[key])
            builder.add_column(_column(metric))
        else:
            out.threads.setdefault(metric.id, (word.thread, rows[key]))
    builder.name_summaries(out.summary)
    return out


def _statistic_in_file(word: Meaning, metric: XmlMetric) -> str:
    """Return the statistic that is stored: one that a formula finishes is only accumulated so far."""
    if word.statistic in ("", "Sum"):
        return ""
    finished = metric.formulas.get("finalize", "").strip() in ("", f"${metric.id}")
    statistic = word.statistic.lower()
    return {"num": "count"}.get(statistic, statistic) if finished else f"{statistic}, accumulated"


def _row(word: Meaning, metric: XmlMetric | None, shown: set[str], source_id: int | None) -> Metric:
    combine = metric.formulas.get("combine", "sum").partition("(")[0].strip() if metric else "sum"
    return Metric(
        word.quantity,
        word.scope,
        unit=unit_of(word.quantity) if word.statistic in ("", "min", "max", "mean") else "",
        aggregation=AGGREGATIONS.get(combine, Aggregation.NONE) if word.statistic else Aggregation.SUM,
        description=metric.description if metric else "",
        visible=not word.statistic and (not shown or word.quantity in shown),
        show_percent=metric.show_percent if metric else True,
        number_format=metric.number_format if metric else "",
        statistic=word.statistic,
        source_id=source_id,
    )


def _column(metric: XmlMetric) -> Column:
    word = meaning(metric.name, metric.type)
    return Column(
        word.quantity,
        word.scope,
        metric.formulas.get("finalize", f"${metric.id}"),
        metric.description,
        word.statistic,
        metric.show != 0,
        metric.show_percent,
        metric.number_format,
        metric.id,
        metric.partner,
    )
