"""The tables of a legacy experiment.xml, versions 2.0 to 2.2, and its tree as contexts with their values.

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
from array import array
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeVar
from xml.parsers import expat

import numpy as np

from callgrove.arrays import ABSENT, Floats, Ints
from callgrove.binary import xml
from callgrove.errors import CorruptFile, RefusedInput, UnsupportedVersion
from callgrove.formats.hpctoolkit.database import split_source_path, unit_of
from callgrove.formats.hpctoolkit.experiment_xml import (
    MISSING,
    UNKNOWN_FILE,
    Attributes,
    Warn,
    XmlMetric,
    offset_of,
    parse_document,
    xml_metric,
)
from callgrove.model.builder import NO_WITHIN, ExperimentBuilder
from callgrove.model.contexts import LAST_LINE, ContextKind, Relation
from callgrove.model.metrics import Aggregation, Column, Metric, Scope

__all__ = [
    "ROOT_ID",
    "Frame",
    "LegacyTree",
    "LegacyXml",
    "MetricDb",
    "MetricRows",
    "Procedure",
    "Tables",
    "TraceDb",
    "add_metrics",
    "parse",
]


# -- the tree ----------------------------------------------------------------------------------------------------------
#     PF (function frame), Pr (inlined function), L (loop), C (call site), S (statement), M (a value of its parent)
#
# C and S have a line but no file of their own: it is that of the loop or function around them. Genuine writers add the
# exclusive cost of a statement to its parent and to the frame around it, and to nothing between them. So a frame
# contains the cost of every loop and inlined function in it, however deep, and a loop does not contain that of a loop
# inside it: `within` of both is the frame.


Entry = TypeVar("Entry")
ROOT_ID = 1  # of the element that encloses the tree; nodes are numbered from 2 on
ID_END = 2**31
LINES = re.compile(r"([0-9]{1,10})(?:-([0-9]{1,10}))?")
UNKNOWN_NAMES = ("<unknown>", "<partial call paths>")
COLUMNS = ("parent", "kind", "relation", "region", "within", "source_id")


@dataclass(frozen=True)
class Procedure:
    """One `Procedure` element; `artificial` ones are not functions of the program."""

    name: str
    offset: int = 0
    artificial: bool = False


@dataclass
class Tables:
    """What nodes refer to, by the ids of the file. A name that is in no table stands for itself."""

    modules: dict[str, str] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)
    procedures: dict[str, Procedure] = field(default_factory=dict)


@dataclass(frozen=True)
class Frame:
    """An open tag: its context, and what those inside inherit. `function` is the frame around them."""

    context: int
    file: int = ABSENT
    module: int = ABSENT
    function: int = ABSENT


class LegacyTree:
    """Builds contexts from the tags of the tree, in file order, which is a preorder; collects the values in it."""

    def __init__(self, builder: ExperimentBuilder, tables: Tables, warn: Warn) -> None:
        self._builder, self._tables, self._warn = builder, tables, warn
        self._stack = [Frame(ABSENT)]
        self._columns: dict[str, list[int]] = {name: [] for name in COLUMNS}
        self._rows = tuple(self._columns.values())
        self._seen: set[int] = set()
        self._warned: set[str] = set()
        self._modules: dict[str, int] = {}
        self._files: dict[str, int] = {}
        self._values = (array("q"), array("q"), array("d"))
        self._trace_ids = array("q")
        self._makers: dict[str, Callable[[Frame, Attributes], Frame]] = {
            "PF": self._pf,
            "Pr": self._pr,
            "L": self._l,
            "C": self._c,
            "S": self._s,
        }

    @property
    def tags(self) -> frozenset[str]:
        return frozenset(self._makers)

    def start(self, tag: str, a: Attributes) -> None:
        self._stack.append(self._makers[tag](self._stack[-1], a))

    def end(self) -> None:
        self._stack.pop()

    def value(self, a: Attributes) -> None:
        """Add the value of an `M` inside of the open tag; outside of all it is the root's."""
        metric, number = int(a["n"]), float(a["v"])
        if not -ID_END < metric < ID_END:
            raise ValueError(f"metric {metric}")
        contexts, metrics, values = self._values
        contexts.append(self._stack[-1].context)
        metrics.append(metric)
        values.append(number)

    def finish(self) -> None:
        """Give the contexts to the builder."""
        self._builder.add_contexts(**self._columns)

    @property
    def inline(self) -> tuple[Ints, Ints, Floats]:
        """(context, metric id, value) of every `M`; context -1 is the root."""
        context, metric, value = self._values
        return np.array(context, np.int64), np.array(metric, np.int64), np.array(value, np.float64)

    @property
    def trace_ids(self) -> Ints:
        """The id by which traces know each context. Where no node has one of its own (`it`), it is the node's id."""
        ids = np.array(self._trace_ids, np.int64)
        return ids if (ids >= 0).any() else np.array(self._columns["source_id"], np.int64)

    # -- one method per tag ------------------------------------------------------------------------------------

    def _pf(self, above: Frame, a: Attributes) -> Frame:
        return self._function(above, a, Relation.CALL)

    def _pr(self, above: Frame, a: Attributes) -> Frame:
        return self._function(above, a, Relation.INLINED)

    def _function(self, above: Frame, a: Attributes, relation: Relation) -> Frame:
        known = self._lookup(self._tables.procedures, a["n"], "procedure", Procedure)
        module = self._module(a["lm"]) if "lm" in a else above.module
        file = self._file(a["f"]) if "f" in a else above.file
        kind = ContextKind.INLINED if relation == Relation.INLINED else ContextKind.FUNCTION
        if known.artificial:
            kind = ContextKind.UNKNOWN if known.name.startswith(UNKNOWN_NAMES) else ContextKind.PLACEHOLDER
        line, end_line = _lines(a) if file >= 0 else (ABSENT, ABSENT)
        offset = offset_of(a) or known.offset if module >= 0 else 0
        region = self._builder.region(
            kind, known.name, file=file, line=line, end_line=end_line, module=module, offset=offset or None
        )
        inlined = relation == Relation.INLINED
        context = self._add(above, a, kind, relation, region, above.function if inlined else NO_WITHIN)
        return Frame(context, file, module, above.function if inlined else context)

    def _l(self, above: Frame, a: Attributes) -> Frame:
        file = self._file(a["f"]) if "f" in a else above.file
        region = self._place(ContextKind.LOOP, file, above.module, a)
        context = self._add(above, a, ContextKind.LOOP, Relation.LEXICAL, region, above.function)
        return Frame(context, file, above.module, above.function)

    def _c(self, above: Frame, a: Attributes) -> Frame:
        region = self._place(ContextKind.CALL, above.file, above.module, a)
        context = self._add(above, a, ContextKind.CALL, Relation.LEXICAL, region, NO_WITHIN)
        return Frame(context, above.file, above.module, above.function)

    def _s(self, above: Frame, a: Attributes) -> Frame:
        file = self._file(a["f"]) if "f" in a else above.file
        placed = file >= 0 or not offset_of(a)
        kind = ContextKind.LINE if placed else ContextKind.INSTRUCTION
        region = self._place(kind, file, above.module, a)
        context = self._add(above, a, kind, Relation.LEXICAL, region, NO_WITHIN)
        return Frame(context, file, above.module, above.function)

    # -- contexts ----------------------------------------------------------------------------------------------

    def _place(self, kind: ContextKind, file: int, module: int, a: Attributes) -> int:
        """Return a region that is known by where it is. A line is the same whatever instruction it was reached by."""
        line, end_line = _lines(a) if file >= 0 else (ABSENT, ABSENT)
        offset = offset_of(a)
        if kind == ContextKind.LINE and file >= 0:
            module, offset = ABSENT, 0
        return self._builder.region(
            kind, file=file, line=line, end_line=end_line, module=module, offset=offset if offset else None
        )

    def _add(self, above: Frame, a: Attributes, kind: ContextKind, relation: Relation, region: int, within: int) -> int:
        id_ = _number(a["i"]) if "i" in a else ABSENT
        if id_ in self._seen:
            self._complain("twice", f"node id {id_} is used twice; values of other files go to the first")
            id_ = ABSENT
        if id_ >= 0:
            self._seen.add(id_)
        for column, cell in zip(self._rows, (above.context, kind, relation, region, within, id_), strict=True):
            column.append(cell)
        self._trace_ids.append(_number(a["it"]) if "it" in a else ABSENT)
        return len(self._rows[0]) - 1

    def _module(self, id_: str) -> int:
        if id_ not in self._modules:
            self._modules[id_] = self._builder.module(self._lookup(self._tables.modules, id_, "load module", str))
        return self._modules[id_]

    def _file(self, id_: str) -> int:
        if id_ not in self._files:
            name = self._lookup(self._tables.files, id_, "file", str)
            unknown = name.startswith((UNKNOWN_FILE, "~unknown-file~"))
            copied = split_source_path(name) if name.startswith("./src/") else (name,)
            self._files[id_] = ABSENT if unknown or name == MISSING else self._builder.file(*copied)
        return self._files[id_]

    def _lookup(self, table: Mapping[str, Entry], id_: str, what: str, make: Callable[[str], Entry]) -> Entry:
        """Return what an id means; a text that is not a number is the name itself."""
        entry = table.get(id_)
        if entry is not None:
            return entry
        if id_.isdigit():
            self._complain(what, f"{what} {id_} is in no table")
        return make(MISSING if id_.isdigit() else id_)

    def _complain(self, what: str, text: str) -> None:
        """Add a warning; one of a kind is enough."""
        if what not in self._warned:
            self._warned.add(what)
            self._warn(text)


def _number(text: str) -> int:
    number = int(text)
    if not 0 <= number < ID_END:
        raise ValueError(f"{number}, which no such number can be")
    return number


def _lines(a: Attributes) -> tuple[int, int]:
    """Return the first and last line of a place, `12` or `12-15`; 0 is unknown."""
    match = LINES.fullmatch(a.get("l", ""))
    if match is None:
        return ABSENT, ABSENT
    first, last = int(match[1]), int(match[2] or match[1])
    known = 0 < first <= LAST_LINE
    return (first if known else ABSENT), (last if known and first < last <= LAST_LINE else ABSENT)


# -- the tables --------------------------------------------------------------------------------------------------------


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
    """Add rows for every quantity and scope, for statistics of the summary, and the columns that the file shows."""
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
