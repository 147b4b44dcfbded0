"""From the tags of experiment.xml's tree to contexts.

One context is made per id, whatever the number of its tags; the nesting of the file is kept. A call site `C` lies
beside the line `S` it belongs to, so that the line, not the parent, contains its function-scope cost (`within`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from callgrove.formats.hpctoolkit.database import copied_source
from callgrove.model.arrays import ABSENT
from callgrove.model.builder import ExperimentBuilder
from callgrove.model.context_builder import NO_WITHIN
from callgrove.model.contexts import LAST_LINE, ContextKind, Relation

__all__ = ["NOT_MODULES", "UNKNOWN_FILE", "Attributes", "TreeHandler", "Warn", "offset_of"]

Attributes = Mapping[str, str]
Warn = Callable[[str], None]
Found = TypeVar("Found")
Procedure = tuple[str, int, bool]
UNKNOWN_FILE = "<unknown file>"
NOT_MODULES = ("<unknown module>", "<no module>")
MISSING = "<missing>"
ID_END = 2**32  # ids are 32 bits wide in the binary files
OFFSET_END = 2**64


def offset_of(attributes: Attributes) -> int:
    """The offset in a load module, 0 where there is none."""
    return _within(attributes.get("v", "0"), -1, OFFSET_END)


def _within(text: str, lower: int, upper: int) -> int:
    """A number, decimal or hexadecimal, between two others; too large ones are as wrong as words."""
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
        """The tables are complete."""
        b = self._builder
        self._modules = {i: ABSENT if n in NOT_MODULES else b.module(n) for i, n in modules.items()}
        self._files = {i: self._file(n) for i, n in files.items()}
        self._procedures = procedures

    def _file(self, name: str) -> int:
        if name.startswith(UNKNOWN_FILE):
            return ABSENT
        if name.startswith("./src/"):
            return self._builder.file(*copied_source(name))
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
        """Is a tag one more of the context that encloses it? Writers before October 2021 used +X for both."""
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

    def _lookup(self, table: Mapping[int, Found], id_: str, what: str, otherwise: Found) -> Found:
        number = int(id_)
        if number not in table:
            self._complain(what, f"{what} {number} is in no table")
        return table.get(number, otherwise)

    def _complain(self, what: str, text: str) -> None:
        """One warning of a kind is enough."""
        if what not in self._warned:
            self._warned.add(what)
            self._warn(text)
