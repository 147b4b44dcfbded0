"""The tables and the tree of a legacy experiment.xml, versions 2.0 to 2.2.

    HPCToolkitExperiment version="2.x"
      Header n="title"
      SecCallPathProfile
        SecHeader                MetricTable, MetricDBTable, TraceDBTable, LoadModuleTable, FileTable, ProcedureTable
        SecCallPathProfileData   M (values of the root) and the tree

A DTD of some 10 kB comes first; it is skipped. Attributes came with time: `em es ep` of metrics and loops with 2.1,
`o md` of metrics, offsets `v` and inlined frames `Pr` with 2.2. All are optional here.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from xml.parsers import expat

from callgrove.binary import xml
from callgrove.errors import CorruptFile, RefusedInput, UnsupportedVersion
from callgrove.formats.hpctoolkit.experiment_xml import XmlMetric, parse_document, xml_metric
from callgrove.formats.hpctoolkit.legacy_tree import LegacyTree, Procedure, Tables
from callgrove.formats.hpctoolkit.xml_tree import Attributes, Warn, offset_of
from callgrove.model.builder import ExperimentBuilder

__all__ = ["LegacyXml", "MetricDb", "TraceDb", "parse"]

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
        self.found = LegacyXml()
        self.tree = LegacyTree(builder, self.found.tables, warn)
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
                _TABLES[tag](self.found, attributes)
            else:
                self._section(tag, attributes)
        except (KeyError, ValueError) as error:
            wrong = f"no attribute {error}" if isinstance(error, KeyError) else f"{error}"
            line, expected = self.parser.CurrentLineNumber, "its attributes to be numbers"
            raise CorruptFile(self.path, f"<{tag}>", line=line, expected=expected, found=wrong) from error

    def _section(self, tag: str, attributes: Attributes) -> None:
        if tag == "HPCToolkitExperiment":
            self.found.version = attributes.get("version", "")
            if not self.found.version.startswith(VERSIONS):
                raise UnsupportedVersion(
                    f"{self.path}: experiment.xml of version {self.found.version or '(none)'}, not 2.x"
                )
        elif tag == "SecFlatProfile":
            raise RefusedInput(f"{self.path}: holds a flat profile; only call path profiles are read")
        elif tag == "SecCallPathProfileData":
            self.data_begun = True

    def end(self, tag: str) -> None:
        if tag in self._tags:
            self.tree.end()


def _metric_db(found: LegacyXml, a: Attributes) -> None:
    column = int(a.get("db-id", len(found.metric_dbs)))
    found.metric_dbs.append(MetricDb(int(a["i"]), a["n"], a.get("t", "nil"), a.get("db-glob", ALL_METRIC_DBS), column))


def _trace_db(found: LegacyXml, a: Attributes) -> None:
    first, last, ticks = (int(a.get(k, "0")) for k in ("db-min-time", "db-max-time", "u"))
    if not (0 <= first < 2**64 and 0 <= last < 2**64 and 0 <= ticks <= NS_PER_SEC):
        raise ValueError(f"times from {first} to {last} in 1/{ticks} s")
    found.trace_db = TraceDb(a.get("db-glob", ALL_TRACES), first, last, ticks)


def _procedure(found: LegacyXml, a: Attributes) -> None:
    found.tables.procedures[a["i"]] = Procedure(a["n"], offset_of(a), a.get("f", "0") != "0")


def _formula(found: LegacyXml, a: Attributes) -> None:
    if found.metrics:
        found.metrics[-1].formulas[a.get("t", "finalize")] = a["frm"]


def _title(found: LegacyXml, a: Attributes) -> None:
    found.title = a.get("n", "")


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
    if not handler.found.version:
        raise CorruptFile(path, "XML", expected="an element HPCToolkitExperiment", found="none")
    handler.tree.finish()
    return handler.found, handler.tree
