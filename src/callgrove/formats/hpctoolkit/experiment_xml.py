"""The tables and the tree of experiment.xml (version 4.0); the tree is shared with the legacy generation.

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
from typing import TypeVar
from xml.parsers import expat

from callgrove.arrays import ABSENT
from callgrove.binary import xml
from callgrove.errors import CorruptFile, Parameter, UnsupportedVersion, compose_text
from callgrove.formats.hpctoolkit.database import split_source_path
from callgrove.model.builder import NO_WITHIN, ExperimentBuilder
from callgrove.model.contexts import LAST_LINE, ContextKind, Relation

__all__ = [
    "HEAD",
    "NOT_MODULES",
    "UNKNOWN_FILE",
    "Attributes",
    "ExperimentXml",
    "TreeHandler",
    "Warn",
    "XmlMetric",
    "major_version",
    "names_by_number",
    "offset_of",
    "parse",
    "parse_document",
    "xml_metric",
]


# -- from tags to contexts ---------------------------------------------------------------------------------------------
# One context is made per id, whatever the number of its tags; the nesting of the file is kept. A call site `C` lies
# beside the line `S` it belongs to, so that the line, not the parent, contains its function-scope cost (`within`).


Attributes = Mapping[str, str]
Warn = Callable[[str], None]
Entry = TypeVar("Entry")
Procedure = tuple[str, int, bool]
UNKNOWN_FILE = "<unknown file>"
NOT_MODULES = ("<unknown module>", "<no module>")
MISSING = "<missing>"
ID_END = 2**32  # ids are 32 bits wide in the binary files
OFFSET_END = 2**64


def offset_of(attributes: Attributes) -> int:
    """Return the offset in a load module, 0 where there is none."""
    return _within(attributes.get("v", "0"), -1, OFFSET_END)


def _within(text: str, lower: int, upper: int) -> int:
    """Return a number, decimal or hexadecimal, between two others; too large ones are as wrong as words."""
    number = int(text, 0 if text.startswith("0x") else 10)
    if not lower < number < upper:
        raise ValueError(f"{number}, which no such number can be")
    return number


@dataclass
class Frame:
    """An open tag: the context that children belong to, and what they inherit."""

    tag: str
    context: int
    module: int = ABSENT
    announces: int = 0  # a `C -X` that will be followed by `PF X`
    call_file: int = ABSENT
    call_line: int = ABSENT
    pending: Attributes | None = None  # a PF whose kind its first child decides
    lines: dict[tuple[int, int], int] = field(default_factory=dict)  # S children by (file, line)
    calls: list[tuple[tuple[int, int], int]] = field(default_factory=list)  # C children


class TreeHandler:
    """Builds contexts from the tags of the tree, in file order, which is a preorder."""

    def __init__(self, builder: ExperimentBuilder, warn: Warn) -> None:
        self._builder, self._warn = builder, warn
        self._stack = [Frame("", ABSENT)]
        self._seen: set[int] = set()
        self._warned: set[str] = set()
        names = ("parent", "kind", "relation", "region", "within", "call_file", "call_line", "source_id")
        self._columns: dict[str, list[int]] = {name: [] for name in names}
        self._rows = tuple(self._columns.values())

    def begin(self, modules: Mapping[int, str], files: Mapping[int, str], procedures: Mapping[int, Procedure]) -> None:
        """Begin the tree: the tables are complete."""
        b = self._builder
        self._modules = {i: ABSENT if n in NOT_MODULES else b.module(n) for i, n in modules.items()}
        self._files = {i: self._file(n) for i, n in files.items()}
        self._procedures = procedures

    def _file(self, name: str) -> int:
        if name.startswith(UNKNOWN_FILE):
            return ABSENT
        if name.startswith("./src/"):
            return self._builder.file(*split_source_path(name))
        return self._builder.file(name)

    def start(self, tag: str, attributes: Attributes) -> None:
        above = self._stack[-1]
        id_ = _within(attributes["i"], -ID_END, ID_END)
        if id_ in self._seen and id_ > 0:
            if not self._repeats(above, id_):
                self._complain("twice", f"context id {id_} is used twice")
            elif tag in ("C", "S"):
                id_ = -id_
        if above.pending is not None:
            self._settle(above, completed_by=id_ if tag in ("C", "S") else 0)
        self._seen.add(id_)
        self._stack.append(getattr(self, f"_{tag.lower()}")(above, id_, attributes))

    def end(self) -> None:
        frame = self._stack.pop()
        if frame.pending is not None:
            self._settle(frame)
        for place, call in frame.calls:
            if place in frame.lines and self._columns["kind"][call] == ContextKind.CALL:
                self._columns["within"][call] = frame.lines[place]

    def finish(self) -> None:
        """Close what is open (a salvaged text ends anywhere) and give the contexts to the builder."""
        while len(self._stack) > 1:
            self.end()
        self._builder.add_contexts(**self._columns)

    # -- one method per tag ------------------------------------------------------------------------------------

    def _pf(self, above: Frame, id_: int, a: Attributes) -> Frame:
        return Frame("PF", ABSENT, pending=a)

    def _pr(self, above: Frame, id_: int, a: Attributes) -> Frame:
        return Frame("Pr", ABSENT, pending=a)

    def _c(self, above: Frame, id_: int, a: Attributes) -> Frame:
        file, line = self._place(a)
        if id_ < 0:
            same = self._is(above, -id_)
            return Frame("C", above.context, above.module, 0 if same else -id_, file, line)
        offset = offset_of(a)  # 0: the line is known, the instruction is not
        module = above.module if offset else ABSENT
        region = self._builder.region(ContextKind.CALL, file=file, line=line, module=module, offset=offset or None)
        context = self._add(above.context, ContextKind.CALL, Relation.LEXICAL, region, id_)
        if file >= 0:
            above.calls.append(((file, line), context))
        return Frame("C", context, above.module, 0, file, line)

    def _s(self, above: Frame, id_: int, a: Attributes) -> Frame:
        if id_ < 0:
            return Frame("S", above.context, above.module)
        file, line = self._place(a)
        if file >= 0:
            region = self._builder.region(ContextKind.LINE, file=file, line=line)
            context = self._add(above.context, ContextKind.LINE, Relation.LEXICAL, region, id_)
            above.lines.setdefault((file, line), context)
        else:
            offset = offset_of(a)
            region = self._builder.region(ContextKind.INSTRUCTION, module=above.module, offset=offset)
            context = self._add(above.context, ContextKind.INSTRUCTION, Relation.LEXICAL, region, id_)
        return Frame("S", context, above.module)

    def _l(self, above: Frame, id_: int, a: Attributes) -> Frame:
        file, line = self._place(a)
        offset = offset_of(a)
        known = offset != 0
        region = self._builder.region(
            ContextKind.LOOP,
            file=file,
            line=line,
            module=above.module if known else ABSENT,
            offset=offset if known else None,
        )
        return Frame("L", self._add(above.context, ContextKind.LOOP, Relation.LEXICAL, region, id_), above.module)

    # -- contexts ----------------------------------------------------------------------------------------------

    def _settle(self, frame: Frame, completed_by: int = 0) -> None:
        """Make the context of a PF. `C -X` or `S -X` right below `PF X` shows that it stands for an instruction."""
        a, above = frame.pending, self._stack[-2 if self._stack[-1] is frame else -1]
        assert a is not None
        frame.pending = None
        id_ = int(a["i"])
        name, entry, artificial = self._lookup(self._procedures, a["n"], "procedure", (MISSING, 0, False))
        module = self._lookup(self._modules, a.get("lm", "0"), "load module", ABSENT)
        file, line = self._place(a)
        offset = offset_of(a) or entry
        kind = ContextKind.FUNCTION
        if artificial:
            kind = ContextKind.PLACEHOLDER if module < 0 else kind
            kind = ContextKind.INSTRUCTION if module >= 0 and completed_by == -id_ else kind
            kind = ContextKind.UNKNOWN if name.startswith(("<unknown>", "<partial call paths>")) else kind
        region = self._builder.region(
            kind, name, file=file, line=line, module=module, offset=offset if module >= 0 else None
        )
        frame.module = module
        relation, call_file, call_line = self._relation(frame, above, id_)
        shown = ContextKind.INLINED if relation == Relation.INLINED and kind == ContextKind.FUNCTION else kind
        if self._repeats(above, id_):
            frame.context = above.context
            row = (self._rows[0][above.context], shown, relation, region, NO_WITHIN, call_file, call_line, abs(id_))
            for column, value in zip(self._rows, row, strict=True):
                column[above.context] = value
        else:
            frame.context = self._add(above.context, shown, relation, region, id_, call_file, call_line)

    def _relation(self, frame: Frame, above: Frame, id_: int) -> tuple[Relation, int, int]:
        if above.announces == id_ or self._repeats(above, id_):
            known = above.call_file >= 0
            return (Relation.INLINED if known else Relation.LEXICAL), above.call_file, above.call_line
        if frame.tag == "Pr":
            return Relation.INLINED, ABSENT, ABSENT
        return Relation.CALL, ABSENT, ABSENT

    def _repeats(self, above: Frame, id_: int) -> bool:
        """Return whether a tag is one more of the context that encloses it. Writers before October 2021 used +X for
        both."""
        if above.pending is not None:
            return int(above.pending["i"]) == id_
        return above.tag in ("PF", "Pr", "C") and self._is(above, id_)

    def _is(self, frame: Frame, id_: int) -> bool:
        return frame.context >= 0 and self._columns["source_id"][frame.context] == id_

    def _add(
        self,
        parent: int,
        kind: ContextKind,
        relation: Relation,
        region: int,
        id_: int,
        file: int = ABSENT,
        line: int = ABSENT,
    ) -> int:
        parents, kinds, relations, regions, withins, files, lines, ids = self._rows
        parents.append(parent)
        kinds.append(kind)
        relations.append(relation)
        regions.append(region)
        withins.append(NO_WITHIN)
        files.append(file)
        lines.append(line)
        ids.append(abs(id_))
        return len(parents) - 1

    def _place(self, a: Attributes) -> tuple[int, int]:
        file = self._lookup(self._files, a.get("f", "0"), "file", ABSENT) if "f" in a else ABSENT
        line = int(a.get("l", "0"))
        return (file, line if 0 <= line <= LAST_LINE else ABSENT) if file >= 0 else (ABSENT, ABSENT)

    def _lookup(self, table: Mapping[int, Entry], id_: str, what: str, otherwise: Entry) -> Entry:
        number = int(id_)
        if number not in table:
            self._complain(what, f"{what} {number} is in no table")
        return table.get(number, otherwise)

    def _complain(self, what: str, text: str) -> None:
        """Add a warning; one of a kind is enough."""
        if what not in self._warned:
            self._warned.add(what)
            self._warn(text)


# -- tables ------------------------------------------------------------------------------------------------------------


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
                raise self.tag_error(tag, error) from error
            return
        if tag in _TABLES:
            try:
                _TABLES[tag](self.tables, attributes)
            except (KeyError, ValueError) as error:
                raise self.tag_error(tag, error) from error
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
                raise self.tag_error(tag, error) from error

    def finish(self) -> ExperimentXml:
        """Return the tables, once all is read; tags that are still open end here."""
        try:
            self.tree.finish()
        except (KeyError, ValueError) as error:
            raise self.tag_error("SecCallPathProfileData", error) from error
        return self.tables

    def tag_error(self, tag: str, error: Exception) -> CorruptFile:
        wrong = f"no attribute {error}" if isinstance(error, KeyError) else f"{error}"
        return CorruptFile(
            self.path,
            f"<{tag}>",
            line=self.parser.CurrentLineNumber,
            expected="its attributes to be numbers",
            found=wrong,
        )


def xml_metric(a: Attributes) -> XmlMetric:
    """Return a `Metric` element, of any version."""
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
            raise error.with_remedy(compose_text(Parameter("salvage", True), " keeps the complete part")) from None
        warn(f"{path}: line {error.line}: {error.found}; the part before it was kept")


def major_version(head: bytes) -> str:
    """Return the major version of an experiment.xml, empty where the text is not one."""
    match = re.search(rb"<HPCToolkitExperiment\s+version\s*=\s*[\"'](\d+)", head)
    return match.group(1).decode() if match else ""


def names_by_number(table: Mapping[int, str], defaults: tuple[str, ...]) -> tuple[str, ...]:
    """Return the identifier names by kind; kinds that the table skips have none. Kinds are 14 bits wide."""
    known = {k: v for k, v in table.items() if 0 <= k < 1 << 14}
    return tuple(known.get(k, "") for k in range(max(known) + 1)) if known else defaults
