"""From the tags of a legacy experiment.xml's tree to contexts, with the values that stand in them.

    PF (function frame), Pr (inlined function), L (loop), C (call site), S (statement), M (a value of what encloses it)

C and S have a line but no file of their own: it is that of the loop or function around them. Genuine writers add the
exclusive cost of a statement to its parent and to the frame around it, and to nothing between them. So a frame contains
the cost of every loop and inlined function in it, however deep, and a loop does not contain that of a loop inside it:
`within` of both is the frame.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np

from callgrove.arrays import ABSENT, Floats, Ints
from callgrove.formats.hpctoolkit.database import split_source_path
from callgrove.formats.hpctoolkit.experiment_xml import MISSING, UNKNOWN_FILE, Attributes, Warn, offset_of
from callgrove.model.builder import ExperimentBuilder
from callgrove.model.context_builder import NO_WITHIN
from callgrove.model.contexts import LAST_LINE, ContextKind, Relation

__all__ = ["ROOT_ID", "Frame", "LegacyTree", "Procedure", "Tables"]

Entry = TypeVar("Entry")
ROOT_ID = 1  # of the element that encloses the tree; nodes are numbered from 2 on
ID_END = 2**31
LINES = re.compile(r"([0-9]{1,10})(?:-([0-9]{1,10}))?")
UNKNOWN_NAMES = ("<unknown>", "<partial call paths>")
COLUMNS = ("parent", "kind", "relation", "region", "within", "source_id")


@dataclass(frozen=True)
class Procedure:
    """One `Procedure` element; `artificial` ones are no functions of the program."""

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
        """An `M` inside of the open tag; outside of all it is the root's."""
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
        """Return what an id means; a text that is no number is the name itself."""
        entry = table.get(id_)
        if entry is not None:
            return entry
        if id_.isdigit():
            self._complain(what, f"{what} {id_} is in no table")
        return make(MISSING if id_.isdigit() else id_)

    def _complain(self, what: str, text: str) -> None:
        """One warning of a kind is enough."""
        if what not in self._warned:
            self._warned.add(what)
            self._warn(text)


def _number(text: str) -> int:
    number = int(text)
    if not 0 <= number < ID_END:
        raise ValueError(f"{number}, which no such number can be")
    return number


def _lines(a: Attributes) -> tuple[int, int]:
    """First and last line of a place, `12` or `12-15`; 0 is unknown."""
    match = LINES.fullmatch(a.get("l", ""))
    if match is None:
        return ABSENT, ABSENT
    first, last = int(match[1]), int(match[2] or match[1])
    known = 0 < first <= LAST_LINE
    return (first if known else ABSENT), (last if known and first < last <= LAST_LINE else ABSENT)
