"""Writes experiment.xml: its metric, program and tree tags, some thousand at a time.

Attributes are those of genuine files: `i` the context, `it` the same for traces, `n` the procedure, `s` a number for
the place in the program, `f` and `l` file and line, `lm` the load module, `v` the offset in it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from callgrove.arrays import ABSENT, NO_OFFSET, Array, Bools, Ids, Ints, Offsets, depths, distinct, preorder
from callgrove.formats.hpctoolkit.experiment_xml import NOT_MODULES, UNKNOWN_FILE
from callgrove.formats.hpctoolkit.metric_plan import (
    PARTIAL_PATHS,
    PLACEHOLDER_OF_ENTRY,
    UNKNOWN,
    UNKNOWN_NAMES,
    MetricPlan,
    StoredMetric,
    ViewColumn,
    name_unknown_procedure,
)
from callgrove.formats.hpctoolkit.prerelease.plan import Shape, TagTree
from callgrove.formats.hpctoolkit.release.files import SUMMARIES
from callgrove.model.contexts import NO_ACTIVITY, ContextKind, Relation
from callgrove.model.formulas import render
from callgrove.model.metrics import Column, Scope

__all__ = ["UNKNOWN_FILE_ID", "ProgramTables", "Tag", "Tags", "metric_tables", "quote", "tree_text"]


# -- tags as rows ------------------------------------------------------------------------------------------------------
# One for each context, and those that only complete one:
#
#     PF X > C -X     around what X calls, where X is not a call site itself
#     PF X > S -X     below a frame that is not a real function and calls nothing
#     C -X > PF X     around a function that is nested in its parent; the file of the C says whether it was inlined
#
# `experiment_xml` explains how they are read.


class Tag(IntEnum):
    """Names of elements."""

    PF = 0
    C = 1
    S = 2
    L = 3
    Pr = 4


TAG_OF_SHAPE = np.array([Tag.PF, Tag.C, Tag.S, Tag.S, Tag.L], np.int32)


@dataclass(frozen=True)
class Tags:
    """Every tag in the order of the file. `row` is the row of the tree that it belongs to; `completes` says whether it
    only completes the context of that row, so that its id is negative."""

    tag: Ids
    row: Ids
    depth: Ids
    completes: Bools
    has_children: Bools

    @classmethod
    def of(cls, tree: TagTree) -> Tags:
        n, rows = len(tree), np.flatnonzero(tree.listed)
        frame = (tree.shape == Shape.FRAME) & tree.listed
        called = frame & (tree.relation == Relation.CALL) & (tree.parent >= 0)
        nested = frame & (tree.relation != Relation.CALL) & (tree.parent >= 0)
        placed = nested & ((tree.relation == Relation.LEXICAL) | _has_call_place(tree))
        around = np.flatnonzero(placed)
        in_body = called & (tree.shape[tree.parent] != Shape.SITE) & ~placed[tree.parent]  # -X is used but once
        bodies = distinct(tree.parent[in_body])
        ends = np.setdiff1d(np.flatnonzero(tree.artificial & ~placed), bodies)

        row = np.concatenate([rows, bodies, ends, around])
        first_body, first_around = len(rows), len(rows) + len(bodies) + len(ends)
        tag_of_row = np.full(n + 1, ABSENT)  # the tag of each row; the last one stands for the root
        tag_of_row[rows] = np.arange(len(rows))
        body, outer = tag_of_row.copy(), tag_of_row.copy()
        body[bodies] = first_body + np.arange(len(bodies))
        outer[around] = first_around + np.arange(len(around))
        parent = np.full(len(row), ABSENT)
        parent[: len(rows)] = np.where(in_body, body[tree.parent], tag_of_row[tree.parent])[rows]
        parent[tag_of_row[around]] = outer[around]
        parent[first_body:first_around] = tag_of_row[row[first_body:first_around]]
        parent[first_around:] = tag_of_row[tree.parent[around]]

        sizes = (len(bodies), len(ends), len(around))
        tag = np.append(TAG_OF_SHAPE[tree.shape[rows]], np.repeat([Tag.C, Tag.S, Tag.C], sizes))
        tag[tag_of_row[np.flatnonzero(nested & ~placed)]] = Tag.Pr
        order = _order(tree, row, parent, first_body, first_around)
        return cls._sort(tag, row, parent, np.arange(len(row)) >= first_body, order)

    @classmethod
    def _sort(cls, tag: Ints, row: Ints, parent: Ints, completes: Bools, order: Ints) -> Tags:
        depth = depths(parent.astype(np.int32))[order]
        has_children = np.append(depth[1:] > depth[:-1], False) if len(depth) else np.zeros(0, np.bool_)
        return cls(tag[order].astype(np.int32), row[order].astype(np.int32), depth, completes[order], has_children)

    def __len__(self) -> int:
        return len(self.tag)


def _has_call_place(tree: TagTree) -> Bools:
    """Return for each context whether it is known where it was inlined."""
    n = len(tree.contexts)
    out = tree.line >= 0
    out[:n] |= tree.contexts.call_file >= 0
    return out


def _order(tree: TagTree, row: Ints, parent: Ints, first_body: int, first_around: int) -> Ints:
    """Return the order of the file: contexts as in the model, added call sites behind their line. What shows that a
    frame is an instruction comes first in it; what a real function calls without a call site, last."""
    n = len(tree.contexts)
    place = 2 * np.where(row < n, row, tree.line[row]) + (row >= n)
    bodies = row[first_body:first_around]
    place[first_body:first_around] = np.where(tree.artificial[bodies], -1, 2 * n + 2)
    by_place = np.argsort(place, kind="stable")
    rank = np.empty(len(row), np.int64)
    rank[by_place] = np.arange(len(row))
    sorted_parent = np.where(parent >= 0, rank[parent], ABSENT)[by_place]
    return by_place[preorder(sorted_parent.astype(np.int32))]


# -- attributes of XML -------------------------------------------------------------------------------------------------


ESCAPES = {
    "&": "&amp;",
    "<": "&lt;",
    ">": "&gt;",
    '"': "&quot;",
    "'": "&apos;",
    "\t": "&#9;",
    "\n": "&#10;",
    "\r": "&#13;",
}
SPECIAL = re.compile("[" + "".join(map(re.escape, ESCAPES)) + "]")
FORBIDDEN = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def quote(text: str) -> str:
    """Return an attribute's value in quotes. Characters that XML does not know become escapes such as `\\x00`."""
    known = FORBIDDEN.sub(lambda match: match[0].encode("unicode_escape").decode(), text)
    return '"' + SPECIAL.sub(lambda match: ESCAPES[match[0]], known) + '"'


# -- LoadModuleTable, FileTable and ProcedureTable ---------------------------------------------------------------------


UNKNOWN_FILE_ID = (1 << 31) - 1  # those of modules count down from there
UNKNOWN_MODULE, NO_MODULE = range(len(NOT_MODULES))
Procedure = tuple[str, int, bool]  # name, offset, not a real function
RESERVED: dict[Procedure, int] = {(UNKNOWN, 0, True): 0, (PARTIAL_PATHS, 0, True): 1}  # always these numbers


class ProgramTables:
    """The tables, and for every row of the tree the numbers that its tags use. `scopes` tell places in the program
    apart; `unknown_files` are for frames whose file is not known; `idle` is the procedure of an added context."""

    def __init__(self, tree: TagTree, copies: Mapping[int, str], adds_idle: bool) -> None:
        contexts, n = tree.contexts, len(tree.contexts)
        self._regions, self._copies = contexts.regions, copies
        extra = len(tree) - n
        region = np.append(contexts.region, np.full(extra, -1))
        kind = np.append(contexts.kind, np.full(extra, ContextKind.CALL))
        module = np.append(contexts.column("module"), np.full(extra, -1))
        entry = tree.artificial & (kind == ContextKind.ENTRY)
        module = np.where(entry, -1, module)
        self.offsets: Offsets = np.append(contexts.column("offset"), np.full(extra, NO_OFFSET))
        self.offsets = np.where(module >= 0, self.offsets, NO_OFFSET)
        self.modules: Ints = np.where(
            module >= 0, module + len(NOT_MODULES), np.where(tree.artificial, NO_MODULE, UNKNOWN_MODULE)
        )
        self.unknown_files: Ints = np.where(module >= 0, UNKNOWN_FILE_ID - 1 - module, UNKNOWN_FILE_ID)
        self._unknown_of = np.unique(module[(tree.shape == Shape.FRAME) & tree.listed & (module >= 0)]).tolist()
        self.procedures = self._number_procedures(tree, region, kind)
        self.idle = self._number((NO_ACTIVITY, 0, True)) if adds_idle else 0
        self.scopes: Ints = region + len(self._procedures) + len(RESERVED) + 1

    def _number_procedures(self, tree: TagTree, region: Ints, kind: Ints) -> Ints:
        """Number procedures by region, kind and relation; equal ones are one."""
        frames = np.flatnonzero((tree.shape == Shape.FRAME) & tree.listed)
        keys = np.stack([region[frames], kind[frames], tree.artificial[frames]], axis=1)
        distinct, inverse = np.unique(keys, axis=0, return_inverse=True)
        self._procedures: dict[Procedure, int] = {}
        numbers = [self._number(self._procedure(*key)) for key in distinct.tolist()]
        out = np.zeros(len(tree), np.int64)
        out[frames] = np.array(numbers, np.int64)[inverse.ravel()] if len(numbers) else 0
        return out

    def _number(self, procedure: Procedure) -> int:
        following = len(RESERVED) + len(self._procedures)
        return self._procedures.setdefault(procedure, RESERVED.get(procedure, following))

    def _procedure(self, region: int, kind: int, artificial: bool) -> Procedure:
        regions = self._regions
        module = int(regions.module[region]) if region >= 0 else -1
        known = module >= 0 and regions.offset[region] != NO_OFFSET
        offset = int(regions.offset[region]) if known else 0
        name = regions.label(region) if region >= 0 else ""
        if kind == ContextKind.ENTRY:
            return PLACEHOLDER_OF_ENTRY.get(name, name or PARTIAL_PATHS), 0, bool(artificial)
        if kind in (ContextKind.INSTRUCTION, ContextKind.CALL) and artificial and module >= 0:
            return name_unknown_procedure(regions.modules[module], offset), offset, True
        if (
            kind == ContextKind.UNKNOWN
            and artificial
            and (region < 0 or name in UNKNOWN_NAMES or regions.name[region] < 0)
        ):
            return UNKNOWN, offset, True
        return name or UNKNOWN, offset, bool(artificial)

    def text(self) -> Iterator[str]:
        """Yield the three tables, line by line."""
        yield "<LoadModuleTable>\n"
        for number, name in enumerate((*NOT_MODULES, *self._regions.modules)):
            yield f'<LoadModule i="{number}" n={quote(name)}/>\n'
        yield "</LoadModuleTable>\n<FileTable>\n"
        yield f'<File i="{UNKNOWN_FILE_ID}" n={quote(UNKNOWN_FILE)}/>\n'
        for number, path in enumerate(self._regions.files.paths):
            shown = f"./{self._copies[number]}" if number in self._copies else path
            yield f'<File i="{number}" n={quote(shown)}/>\n'
        for module in self._unknown_of:
            name = f"{UNKNOWN_FILE} [{self._regions.modules[module].rpartition('/')[2]}]"
            yield f'<File i="{UNKNOWN_FILE_ID - 1 - module}" n={quote(name)}/>\n'
        yield "</FileTable>\n<ProcedureTable>\n"
        for (name, offset, artificial), number in self._procedures.items():
            flag = ' f="1"' if artificial else ""
            yield f'<Procedure i="{number}" n={quote(name)} v="{f"{offset:#x}" if offset else 0}"{flag}/>\n'
        yield "</ProcedureTable>\n"


# -- tree --------------------------------------------------------------------------------------------------------------


AT_A_TIME = 1 << 14  # tags
TEXT = {
    Tag.PF: '<PF i="{i}" s="{s}" n="{n}" v="{v}" f="{f}" l="{l}" lm="{lm}"',
    Tag.Pr: '<Pr i="{i}" s="{s}" n="{n}" v="{v}" f="{f}" l="{l}" lm="{lm}"',
    Tag.C: '<C i="{i}" s="{s}" f="{f}" l="{l}" v="{v}" it="{it}"',
    Tag.S: '<S i="{i}" it="{it}" f="{f}" l="{l}" s="{s}" v="{v}"',
    Tag.L: '<L i="{i}" s="{s}" v="{v}" f="{f}" l="{l}"',
}


@dataclass(frozen=True)
class Attributes:
    """The attributes of some tags."""

    i: Ints
    n: Ints
    s: Ints
    f: Ints
    l: Ints  # noqa: E741 - the file's own name
    lm: Ints
    v: Offsets


def tree_text(tree: TagTree, tables: ProgramTables) -> Iterator[str]:
    """Yield all tags, one per line."""
    tags, places = Tags.of(tree), _Places(tree)
    open_tags: list[str] = []
    names = [tag.name for tag in Tag]
    texts = [TEXT[tag] for tag in Tag]
    for first in range(0, len(tags), AT_A_TIME):
        part = slice(first, first + AT_A_TIME)
        attributes = _attributes(tree, tables, places, tags, part)
        columns = (tags.tag[part], tags.depth[part], tags.has_children[part], *vars(attributes).values())
        lines: list[str] = []
        for tag, depth, has_children, i, n, s, f, line, lm, v in zip(*(c.tolist() for c in columns), strict=True):
            while len(open_tags) > depth:
                lines.append(f"</{open_tags.pop()}>\n")
            offset = f"{v:#x}" if v else "0"
            text = texts[tag].format(i=i, it=abs(i), n=n, s=s, f=f, l=line, lm=lm, v=offset)
            lines.append(text + (">\n" if has_children else "/>\n"))
            if has_children:
                open_tags.append(names[tag])
        yield "".join(lines)
    yield "".join(f"</{name}>\n" for name in reversed(open_tags))


class _Places:
    """File and line of each row's own tag, and of the tag around it, which says where something was inlined."""

    def __init__(self, tree: TagTree) -> None:
        contexts, n_added = tree.contexts, len(tree) - len(tree.contexts)

        def pad(column: Array, more: int) -> Ints:
            return np.append(column.astype(np.int64), np.full(more, ABSENT))

        beside, shape = tree.line, tree.shape
        file, line = (pad(contexts.column(name), n_added + 1) for name in ("file", "line"))  # -1 picks the last
        bare = (shape == Shape.SITE) & (file[:-1] < 0)
        self.file = np.where(shape == Shape.POINT, ABSENT, np.where(bare, file[beside], file[:-1]))
        self.line = np.where(bare, line[beside], line[:-1])
        called_from = pad(contexts.call_file, n_added)
        inlined = (tree.relation == Relation.INLINED) & (shape == Shape.FRAME)
        self.call_file = np.where(inlined, np.where(called_from >= 0, called_from, file[beside]), ABSENT)
        self.call_line = np.where(called_from >= 0, pad(contexts.call_line, n_added), line[beside])


def _attributes(tree: TagTree, tables: ProgramTables, places: _Places, tags: Tags, part: slice) -> Attributes:
    row, tag, completes = tags.row[part], tags.tag[part], tags.completes[part]
    is_frame = (tag == Tag.PF) | (tag == Tag.Pr)
    file = np.where(completes, places.call_file[row], places.file[row])
    line = np.where(completes, places.call_line[row], places.line[row])
    offset = tables.offsets[row]
    # Lines have none. The tag that completes an instruction names its offset.
    has_none = (tree.shape[row] == Shape.LINE) | (completes & ~tree.artificial[row]) | (offset == NO_OFFSET)
    return Attributes(
        np.where(completes, -tree.id[row], tree.id[row]),
        tables.procedures[row],
        np.where(is_frame | completes, tables.procedures[row], tables.scopes[row]),
        np.where(file >= 0, file, np.where(is_frame, tables.unknown_files[row], UNKNOWN_FILE_ID)),
        np.where(file >= 0, np.maximum(line, 0), 0),
        tables.modules[row],
        np.where(has_none, np.uint64(0), offset),
    )


# -- MetricTable and MetricDBTable -------------------------------------------------------------------------------------
#     X:PARTIAL:k (I), (E)    what the summary stores, show=4: one for each statistic, with its own id
#     X:Sum (I), (E), ...     what is shown, negative ids: formulas over the stored ones
#     MetricDB X (I), (E)     what threads store
#
# Genuine files repeat the id of the first PARTIAL for all of them; here each has its own, which formulas refer to. A
# quantity with one scope only has no mark behind its name.


MARKS = {Scope.INCLUSIVE: " (I)", Scope.FUNCTION: " (E)"}  # in the order of genuine files
TYPES = {Scope.INCLUSIVE: "inclusive", Scope.FUNCTION: "exclusive"}
STORED, SHOWN, HIDDEN = 4, 1, 0  # `show`


@dataclass(frozen=True)
class _Element:
    """One `Metric` element."""

    id: int
    name: str
    description: str
    scope: Scope
    partner: int
    show: int
    formula_type: str
    formula: str
    percent: bool = False
    number_format: str = ""

    def text(self) -> str:
        """Return the element, line by line as genuine files have it."""
        described = f" md={quote(self.description)}" if self.description else ""
        look = f" fmt={quote(self.number_format)}" if self.number_format else ""
        return (
            f'<Metric i="{self.id}" o="{self.id}" n={quote(self.name)}{described} v="derived-incr" '
            f't="{TYPES.get(self.scope, "exclusive")}" partner="{self.partner}" show="{self.show}" '
            f'show-percent="{int(self.percent)}"{look}>\n'
            f'<MetricFormula t="{self.formula_type}" frm={quote(self.formula)}/>\n'
            '<Info><NV n="units" v="events"/></Info>\n</Metric>\n'
        )


def metric_tables(plan: MetricPlan, columns: list[ViewColumn]) -> Iterator[str]:
    """Yield both tables, line by line."""
    yield "<MetricTable>\n"
    for metric in plan.metrics:
        yield from (element.text() for element in _partials(metric))
    yield from (element.text() for element in _visible_columns(columns))
    yield "</MetricTable>\n<MetricDBTable>\n"
    for metric in plan.metrics:
        ids = {scope.scope: scope.id for scope in metric.scopes}
        for scope in (scope for scope in MARKS if scope in ids):
            yield f'<MetricDB i="{ids[scope]}" n={quote(_name(metric, scope))}/>\n'
    yield "</MetricDBTable>\n"


def _name(metric: StoredMetric, scope: Scope, more: str = "") -> str:
    """Return a name with the mark of its scope, which is left out where there is one scope and nothing to mistake."""
    lone = len(metric.scopes) == 1 and not metric.name.endswith(tuple(MARKS.values()))
    return metric.name + more + ("" if lone else MARKS[scope])


def _partials(metric: StoredMetric) -> Iterator[_Element]:
    scopes = {scope.scope: scope for scope in metric.scopes}
    for k, (statistic, _) in enumerate(metric.scopes[0].statistics):
        for scope in (scope for scope in MARKS if scope in scopes):
            id_ = scopes[scope].statistics[k][1]
            partner = next((s.statistics[k][1] for s in metric.scopes if s.scope != scope), id_)
            formula = f"{SUMMARIES[statistic][1]}(${id_}, ${id_})"
            name, description = _name(metric, scope, f":PARTIAL:{k}"), metric.first.description or metric.name
            yield _Element(id_, name, description, scope, partner, STORED, "combine", formula)


def _visible_columns(columns: list[ViewColumn]) -> Iterator[_Element]:
    source_ids = [shown.column.source_id for shown in columns]
    keeps = len(set(source_ids)) == len(source_ids) and all(id_ is not None and id_ < 0 for id_ in source_ids)
    ids = [id_ if keeps and id_ is not None else -1 - k for k, id_ in enumerate(source_ids)]
    known = {(_title(s.column), s.column.scope == Scope.INCLUSIVE): id_ for s, id_ in zip(columns, ids, strict=True)}
    for shown, id_ in zip(columns, ids, strict=True):
        column = shown.column
        title, inclusive = _title(column), column.scope == Scope.INCLUSIVE
        partner = known.get((title, not inclusive), column.partner if keeps and column.partner is not None else id_)
        yield _Element(
            id_,
            title + MARKS[Scope.INCLUSIVE if inclusive else Scope.FUNCTION],
            column.description,
            Scope.INCLUSIVE if inclusive else Scope.FUNCTION,
            partner,
            SHOWN if column.visible else HIDDEN,
            "view",
            render(shown.formula),
            column.show_percent,
            column.number_format,
        )


def _title(column: Column) -> str:
    """Name and statistic. A name with a colon but without statistic gets another one, so that it is not taken apart."""
    return f"{column.name}:{column.statistic}" if column.statistic or ":" in column.name else column.name
