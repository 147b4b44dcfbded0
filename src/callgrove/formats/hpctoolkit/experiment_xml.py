"""The tables and the tree of a pre-release database's experiment.xml (version 4.0).

    HPCToolkitExperiment version="4.0"
      Header n="title"
      SecCallPathProfile
        SecHeader                IdentifierNameTable, MetricTable, MetricDBTable, TraceDBTable,
                                 LoadModuleTable, FileTable, ProcedureTable
        SecCallPathProfileData   PF (function), C (call site), S (line), L (loop), Pr (inlined function)

Ids repeat with a sign: one context may need two tags, and a negative one only adds to the context of that id.

    PF X > C -X  or  PF X > S -X    an instruction or placeholder that no function encloses
    C -X > PF X                     a function nested in its parent: inlined, or (no file known) lexically

The tables come before the tree, so one pass suffices. Elements nest more than a thousand deep; nothing recurses.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from xml.parsers import expat

from callgrove.binary import xml
from callgrove.errors import CorruptFile, Parameter, UnsupportedVersion, worded
from callgrove.formats.hpctoolkit.xml_tree import Attributes, TreeHandler, Warn, offset_of

__all__ = [
    "HEAD",
    "ExperimentXml",
    "XmlMetric",
    "major_version",
    "names_by_number",
    "parse",
    "parse_document",
    "xml_metric",
]

HEAD = 16384  # bytes in which the version stands: a DTD may come first

TREE_TAGS = frozenset({"PF", "Pr", "C", "S", "L"})


@dataclass
class XmlMetric:
    """One `Metric` element. A positive id is stored in summaries; a negative one is a column to show."""

    id: int
    name: str
    description: str
    type: str
    partner: int | None
    show: int
    show_percent: bool
    number_format: str
    formulas: dict[str, str] = field(default_factory=dict)


@dataclass
class ExperimentXml:
    """The tables in front of the tree."""

    version: str = ""
    title: str = ""
    id_names: dict[int, str] = field(default_factory=dict)
    metrics: list[XmlMetric] = field(default_factory=list)
    metric_dbs: list[tuple[int, str]] = field(default_factory=list)
    time_range: tuple[int, int] | None = None
    modules: dict[int, str] = field(default_factory=dict)
    files: dict[int, str] = field(default_factory=dict)
    procedures: dict[int, tuple[str, int, bool]] = field(default_factory=dict)  # name, offset, not a real function


class _Handler:
    """Receives the events of the XML parser."""

    def __init__(self, path: Path, parser: expat.XMLParserType, tree: TreeHandler) -> None:
        self.path, self.parser, self.tree = path, parser, tree
        self.tables = ExperimentXml()
        self.tree_begun = False
        parser.StartElementHandler = self.start
        parser.EndElementHandler = self.end

    def start(self, tag: str, attributes: Attributes) -> None:
        if tag in TREE_TAGS:
            if not self.tree_begun:
                self.tree.begin(self.tables.modules, self.tables.files, self.tables.procedures)
                self.tree_begun = True
            try:
                self.tree.start(tag, attributes)
            except (KeyError, ValueError) as error:
                raise self.broken(tag, error) from error
            return
        if tag in _TABLES:
            try:
                _TABLES[tag](self.tables, attributes)
            except (KeyError, ValueError) as error:
                raise self.broken(tag, error) from error
        elif tag == "HPCToolkitExperiment":
            self.tables.version = attributes.get("version", "")
            if not self.tables.version.startswith("4."):
                raise UnsupportedVersion(
                    f"{self.path}: experiment.xml of version {self.tables.version or '(none)'}, not 4.x"
                )

    def end(self, tag: str) -> None:
        if tag in TREE_TAGS:
            try:
                self.tree.end()
            except (KeyError, ValueError) as error:
                raise self.broken(tag, error) from error

    def finish(self) -> ExperimentXml:
        """The tables, once all is read; tags that are still open end here."""
        try:
            self.tree.finish()
        except (KeyError, ValueError) as error:
            raise self.broken("SecCallPathProfileData", error) from error
        return self.tables

    def broken(self, tag: str, error: Exception) -> CorruptFile:
        wrong = f"no attribute {error}" if isinstance(error, KeyError) else f"{error}"
        return CorruptFile(
            self.path,
            f"<{tag}>",
            line=self.parser.CurrentLineNumber,
            expected="its attributes to be numbers",
            found=wrong,
        )


def xml_metric(a: Attributes) -> XmlMetric:
    """A `Metric` element, of any version."""
    return XmlMetric(
        int(a["i"]),
        a["n"],
        a.get("md", ""),
        a.get("t", ""),
        int(a["partner"]) if a.get("partner") else None,
        int(a.get("show", "1")),
        a.get("show-percent", "0") == "1",
        a.get("fmt", ""),
    )


def _formula(tables: ExperimentXml, a: Attributes) -> None:
    if tables.metrics:
        tables.metrics[-1].formulas[a["t"]] = a["frm"]


def _trace_db(tables: ExperimentXml, a: Attributes) -> None:
    unit = int(a.get("u", "1000000000"))  # ticks per second
    scale = 1_000_000_000 // unit if unit else 1
    tables.time_range = (int(a["db-min-time"]) * scale, int(a["db-max-time"]) * scale)


def _procedure(tables: ExperimentXml, a: Attributes) -> None:
    tables.procedures[int(a["i"])] = (a["n"], offset_of(a), a.get("f", "0") == "1")


def _title(tables: ExperimentXml, a: Attributes) -> None:
    tables.title = a.get("n", "")


_TABLES = {
    "Header": _title,
    "Identifier": lambda t, a: t.id_names.update({int(a["i"]): a["n"]}),
    "Metric": lambda t, a: t.metrics.append(xml_metric(a)),
    "MetricFormula": _formula,
    "MetricDB": lambda t, a: t.metric_dbs.append((int(a["i"]), a["n"])),
    "TraceDB": _trace_db,
    "LoadModule": lambda t, a: t.modules.update({int(a["i"]): a["n"]}),
    "File": lambda t, a: t.files.update({int(a["i"]): a["n"]}),
    "Procedure": _procedure,
}


def parse(path: Path, tree: TreeHandler, warn: Warn, salvage: bool = False) -> ExperimentXml:
    """Parse the file: the tables are returned, the tree goes to its handler."""
    parser = xml.new_parser(path)
    handler = _Handler(path, parser, tree)
    parse_document(path, parser, lambda: handler.tree_begun, warn, salvage)
    if not handler.tables.version:
        raise CorruptFile(path, "XML", expected="an element HPCToolkitExperiment", found="none")
    return handler.finish()


def parse_document(
    path: Path, parser: expat.XMLParserType, has_content: Callable[[], bool], warn: Warn, salvage: bool
) -> None:
    """Give the text to a parser. One that breaks off is an error, unless `salvage` asks for the complete part of it,
    and there is any."""
    try:
        with xml.readable(path) as file:
            xml.parse(path, parser, file)
    except CorruptFile as error:
        if error.section != "XML" or not has_content():
            raise
        if not salvage:
            raise error.with_remedy(worded(Parameter("salvage", True), " keeps the complete part")) from None
        warn(f"{path}: line {error.line}: {error.found}; the part before it was kept")


def major_version(head: bytes) -> str:
    """The major version of an experiment.xml, empty where the text is not one."""
    found = re.search(rb"<HPCToolkitExperiment\s+version\s*=\s*[\"'](\d+)", head)
    return found.group(1).decode() if found else ""


def names_by_number(table: Mapping[int, str], defaults: tuple[str, ...]) -> tuple[str, ...]:
    """Identifier names by kind; kinds that the table skips have none. Kinds are 14 bits wide."""
    known = {k: v for k, v in table.items() if 0 <= k < 1 << 14}
    return tuple(known.get(k, "") for k in range(max(known) + 1)) if known else defaults
