"""Writes released HPCToolkit databases: what meta.db, metrics/default.yaml and the binary files hold, and what is lost.

Specification: hpctoolkit-databases.md B.9. `database_writer` streams values and samples; here is what this generation
makes of contexts, metrics and tables.
"""

from __future__ import annotations

import re
import string
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from callgrove.arrays import Array, Ids, Ints
from callgrove.errors import count_of
from callgrove.formats.hpctoolkit.database_writer import Written
from callgrove.formats.hpctoolkit.metric_plan import (
    DESCRIPTION,
    MetricPlan,
    Slots,
    ViewColumn,
    losses_of_both,
    name_unknown_procedure,
    view_columns,
)
from callgrove.formats.hpctoolkit.release import files as rec
from callgrove.formats.hpctoolkit.release.files import (
    COLUMNS_FILE,
    CONTEXT_LAYOUT,
    PHYSICAL_FLAG,
    PROFILE_LAYOUT,
    SCOPE_RECORDS,
    SUM,
    SUMMARIES,
    SUMMARY_FLAG,
    THREAD_VALUE,
    header_bytes,
    storable,
)
from callgrove.formats.hpctoolkit.release.meta_db_writer import SCOPES_IN_ORDER, FileTree, write_meta_db
from callgrove.formats.hpctoolkit.statistics import LexicalLoops
from callgrove.formats.hpctoolkit.stored_rows import NOWHERE
from callgrove.formats.hpctoolkit.value_writers import BlockPlaces, align, pack_tuples
from callgrove.model.contexts import ContextTree, Regions
from callgrove.model.experiment import Experiment
from callgrove.model.formulas import Call, Expression, Number, Variable, fold
from callgrove.model.metrics import Metrics, Scope
from callgrove.model.profiles import IdentifierTuples, Interpretation
from callgrove.model.traces.events import Window

__all__ = [
    "LARGEST_KIND",
    "LARGEST_LOGICAL",
    "RELEASED_SLOTS",
    "Released",
    "ReleasedContexts",
    "ReleasedProfiles",
    "ReleasedTraces",
    "columns_text",
    "losses_of",
]


# -- headers and tables of the binary files ----------------------------------------------------------------------------
# profile.db    header, ProfileInfos at 0x30, id tuples | blocks | footer
# cct.db        header, CtxInfos at 0x30 (as genuine files have it; the 16 bytes before are zero here) | blocks | footer
# trace.db      header, CtxTraces at 0x20 | lines | footer


SECTION_AT, HEAD = 0x30, 16
TRACES_AT = 0x20
LARGEST_KIND, LARGEST_LOGICAL = 0xFF, 0xFFFFFFFF


def _infos(dtype: np.dtype[np.void], fields: tuple[str, str, str, str], places: BlockPlaces) -> Array:
    out = np.zeros(len(places.n_values), dtype)
    columns = (places.n_values, places.values_at, places.n_index, places.index_at)
    for field, column in zip(fields, columns, strict=True):
        out[field] = column
    return out


def _section(dtype: np.dtype[np.void], at: int, infos: Array) -> bytes:
    head = np.zeros(1, dtype)
    head[0] = (at, len(infos), infos.dtype.itemsize)
    return head.tobytes().ljust(HEAD, b"\0") + infos.tobytes()


class ReleasedProfiles:
    """profile.db. The summary is profile 0, and has no identifier tuple."""

    layout = PROFILE_LAYOUT
    footer = rec.FOOTERS["prof"]

    def __init__(self, identifiers: IdentifierTuples, measured: Ints) -> None:
        self._infos_at = SECTION_AT + HEAD
        self._tuples_at = align(self._infos_at + rec.PROFILE_INFO.itemsize * (len(measured) + 1), 8)
        self._tuples, self._tuple_at = pack_tuples(
            identifiers, measured, LARGEST_KIND, rec.TUPLE_LAYOUT, _encode_elements, self._tuples_at
        )
        self.blocks_at = self._tuples_at + len(self._tuples)

    def tables(self, places: BlockPlaces) -> bytes:
        infos = _infos(rec.PROFILE_INFO, ("nValues", "pValues", "nCtxs", "pCtxIndices"), places)
        infos["pIdTuple"][1:] = self._tuple_at
        infos["flags"][0] = SUMMARY_FLAG
        sections = {
            "ProfileInfos": (SECTION_AT, HEAD + infos.nbytes),
            "IdTuples": (self._tuples_at, len(self._tuples)),
        }
        content = header_bytes("prof", sections) + _section(rec.PROFILE_INFOS, self._infos_at, infos)
        return content.ljust(self._tuples_at, b"\0") + self._tuples


class ReleasedContexts:
    """cct.db."""

    layout = CONTEXT_LAYOUT
    footer = rec.FOOTERS["ctxt"]

    def __init__(self, n_ids: int) -> None:
        self.blocks_at = SECTION_AT + HEAD + n_ids * rec.CTX_INFO.itemsize

    def tables(self, places: BlockPlaces) -> bytes:
        infos = _infos(rec.CTX_INFO, ("nValues", "pValues", "nMetrics", "pMetricIndices"), places)
        head = header_bytes("ctxt", {"CtxInfos": (SECTION_AT, HEAD + infos.nbytes)})
        return head.ljust(SECTION_AT, b"\0") + _section(rec.CTX_INFOS, SECTION_AT + HEAD, infos)


class ReleasedTraces:
    """trace.db."""

    sample = rec.SAMPLE
    alignment = 8
    footer = rec.FOOTERS["trce"]

    def __init__(self, n_lines: int) -> None:
        self._records_at = TRACES_AT + rec.CTX_TRACES.itemsize
        self.lines_at = align(self._records_at + rec.TRACE.itemsize * n_lines, self.alignment)

    def tables(self, start: Ints, end: Ints, time_range: Window) -> bytes:
        lines = np.zeros(len(start), rec.TRACE)
        lines["profIndex"] = np.arange(1, len(start) + 1)
        lines["pStart"], lines["pEnd"] = start, end
        section = np.zeros(1, rec.CTX_TRACES)
        section[0] = (self._records_at, len(lines), rec.TRACE.itemsize, *time_range)
        head = header_bytes("trce", {"CtxTraces": (TRACES_AT, section.nbytes + lines.nbytes)})
        return head + section.tobytes() + lines.tobytes()


def _encode_elements(identifiers: IdentifierTuples) -> Array:
    """Return the elements of tuples as records."""
    elements = np.zeros(len(identifiers.kind), rec.ID_ELEMENT)
    elements["kind"], elements["physicalId"] = identifiers.kind, identifiers.physical
    elements["flags"] = np.where(identifiers.interpretation == Interpretation.SINGLE, 0, PHYSICAL_FLAG)
    elements["logicalId"] = np.minimum(identifiers.logical, LARGEST_LOGICAL)
    return elements


# -- losses ------------------------------------------------------------------------------------------------------------


def losses_of(experiment: Experiment, tree: FileTree, plan: MetricPlan) -> Iterator[str]:
    """Yield everything that is left out or changed, one sentence each."""
    n = len(experiment.contexts)
    around = np.where(tree.moved_to[:n] == NOWHERE, tree.around[:n], experiment.contexts.within)
    yield from losses_of_both(experiment, tree.kind_as_read[:n], around, tree.keeps_ids, plan)
    yield from _contexts(experiment.contexts, tree)
    yield from _identifiers(experiment.profiles.identifiers)


def _contexts(contexts: ContextTree, tree: FileTree) -> Iterator[str]:
    n, regions = len(contexts), contexts.regions
    if called := int(((contexts.call_line >= 0) & (tree.moved_to[:n] == NOWHERE)).sum()):
        yield f"call sites: where {count_of(called, 'context was', 'contexts were')} called from"
    if left_out := int(tree.emptied.sum()):
        yield f"call sites: {left_out} whose instruction is not known are left out, their lines call instead"
    entries = tree.region[tree.entries]
    entries = entries[entries >= 0]
    if ((regions.file[entries] >= 0) | (regions.module[entries] >= 0)).any():
        yield "places of entry points: file, line, module and offset"
    inner = contexts.region[(tree.lexical_type[:n] > 0) & tree.listed[:n] & (contexts.region >= 0)]
    if any(_has_own_name(regions, region) for region in np.unique(inner[regions.name[inner] >= 0]).tolist()):
        yield "names of loops, lines and instructions: they are known by their place"


def _has_own_name(regions: Regions, region: int) -> bool:
    """Return whether a context has a name of its own; pre-release databases name instructions after their place."""
    module = int(regions.module[region])
    made = name_unknown_procedure(regions.modules[module], int(regions.offset[region])) if module >= 0 else ""
    return regions.label(region) != made


def _identifiers(identifiers: IdentifierTuples) -> Iterator[str]:
    if (identifiers.logical > LARGEST_LOGICAL).any() or (identifiers.kind > LARGEST_KIND).any():
        yield f"identifiers: logical numbers above {LARGEST_LOGICAL} and kinds above {LARGEST_KIND} do not fit"
    made = (Interpretation.LOGICAL_LOCAL, Interpretation.LOGICAL_GLOBAL)
    if np.isin(identifiers.interpretation, made).any():
        yield "identifiers: that logical numbers were generated"


# -- metrics/default.yaml: what HPCToolkit's viewer shows --------------------------------------------------------------
# Specification: hpctoolkit-databases.md B.8, as shown_columns.py reads it. Every metric is a root, so that all can be
# shown; those that are not visible say so. Columns of the experiment that are formulas over its metrics are kept, in
# their order. Anchors are spelled as HPCToolkit spells them:
#
#     CPUTIMEx20_x28_secx29_-sum-x5b_0x0x5d_-execution       metric, combination, formula [0x0], scope


UNESCAPED = frozenset(string.ascii_letters + string.digits + "_")
DEEPEST = 150  # brackets in brackets, well below what readers take
PLAIN = re.compile(r"[A-Za-z_](?:[A-Za-z0-9_()/.%<>+-]|:(?=[A-Za-z0-9_])| (?=[A-Za-z0-9_(/<]))*")
RESERVED = frozenset(("true", "false", "yes", "no", "on", "off", "null", "y", "n"))
OPERATOR_KEYS = {"neg": '"-"', "-": '"-"', "*": '"*"'}
LONG_SUMS = ("+", "*")  # associate to the left: one list instead of brackets in brackets
ESCAPES = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r"}
Variant = tuple[dict[tuple[str, str], str], bool, str]  # formulas by (group, key), percent, format
SCOPE_NAMES = {record.scope: record.name for record in SCOPE_RECORDS}
PLACES = {Scope.INCLUSIVE: ("inclusive", "standard"), Scope.LEXICAL: ("exclusive", "custom")}


@dataclass(frozen=True)
class _Root:
    """One root with its variants."""

    name: str
    description: str
    visible: bool
    variants: dict[str, Variant]


def columns_text(plan: MetricPlan, metrics: Metrics) -> tuple[str, list[str]]:
    """Return the text of the file, without a final newline, and the columns that could not be kept."""
    anchors = _anchors(plan)
    columns, lost = view_columns(plan, metrics, tells_statistics=False)
    roots = list(_roots(columns, anchors, lost))
    lines = ["version: 0", "inputs:" if plan.metrics else "inputs: []"]
    for metric, scope in plan.scopes:
        for statistic, id_ in scope.statistics:
            formula, combine = SUMMARIES[statistic]
            lines += [
                f"  - &{anchors[id_]}",
                f"    metric: {_scalar(metric.name)}",
                f"    scope: {SCOPE_NAMES[scope.scope]}",
                f"    formula: {formula if formula == THREAD_VALUE else _scalar(formula)}",
                f"    combine: {combine}",
            ]
    lines.append("roots:" if roots else "roots: []")
    for root in roots:
        lines += _lines(root)
    return "\n".join(lines), lost


def _anchors(plan: MetricPlan) -> dict[int, str]:
    """Return a name for each stored metric, by its id. Two metrics may be spelled alike: then the id tells them
    apart."""
    out: dict[str, int] = {}
    for metric, scope in plan.scopes:
        for statistic, id_ in scope.statistics:
            formula, combine = SUMMARIES[statistic]
            formula = _spell(formula.replace(THREAD_VALUE, "[0x0]"))
            anchor = f"{_spell(metric.name)}-{combine}-{formula}-{SCOPE_NAMES[scope.scope]}"
            out[anchor if anchor not in out else f"{anchor}-{id_}"] = id_
    return {id_: anchor for anchor, id_ in out.items()}


def _spell(name: str) -> str:
    return "".join(chr(byte) if chr(byte) in UNESCAPED else f"x{byte:02x}_" for byte in name.encode())


def _roots(columns: list[ViewColumn], anchors: dict[int, str], lost: list[str]) -> Iterator[_Root]:
    """Yield one root for the columns of each name; too deep a formula is lost."""
    groups: dict[str, list[ViewColumn]] = {}
    for shown in columns:
        groups.setdefault(storable(shown.column.name), []).append(shown)
    for name, group in groups.items():
        variants: dict[str, Variant] = {}
        for column, formula in ((shown.column, shown.formula) for shown in group):
            text = _as_nested_lists(formula, anchors)
            if text is None:
                lost.append(" ".join(word for word in (column.name, column.statistic, column.scope.word) if word))
                continue
            place = PLACES.get(column.scope, ("exclusive", "standard"))
            fresh: Variant = ({}, column.show_percent, column.number_format)
            variants.setdefault(storable(column.statistic), fresh)[0][place] = text
        if variants:
            first = group[0].column
            visible = any(shown.column.visible for shown in group)
            yield _Root(name, storable(first.description) or name, visible, variants)


def _as_nested_lists(expression: Expression, anchors: dict[int, str]) -> str | None:
    """Return a formula as nested lists; None where it is too deep."""

    def combine(node: Expression, args: Sequence[tuple[str, list[str], int]]) -> tuple[str, list[str], int]:
        """Return (operator, arguments, depth); leaves have no operator."""
        if isinstance(node, Number):
            return "", [repr(float(node.value)).removesuffix(".0")], 0
        if isinstance(node, Variable):
            return "", [f"*{anchors[node.id]}" if node.id is not None else "0"], 0
        assert isinstance(node, Call)
        depth = 2 + max(depth for _, _, depth in args)
        (operator, inner, inner_depth), *others = args
        if node.name in LONG_SUMS and operator == node.name:
            depth = max(inner_depth, *(2 + d for _, _, d in others))
            return node.name, [*inner, *map(_as_list, others)], depth
        return node.name, [_as_list(arg) for arg in args], depth

    folded = fold(expression, combine)
    return _as_list(folded) if folded[2] <= DEEPEST else None


def _as_list(part: tuple[str, list[str], int]) -> str:
    operator, args, _ = part
    return f"{{{OPERATOR_KEYS.get(operator, operator)}: [{', '.join(args)}]}}" if operator else args[0]


def _lines(root: _Root) -> Iterator[str]:
    yield f"  - name: {_scalar(root.name)}"
    yield f"    description: {_scalar(root.description)}"
    if not root.visible:
        yield "    visible by default: false"
    yield "    variants:"
    for name, (formulas, percent, number_format) in root.variants.items():
        yield f"      {_scalar(name)}:"
        yield f"        render: [number{', percent' if percent else ''}]"
        if number_format:
            yield f"        format: {_scalar(storable(number_format))}"
        yield "        formula:" if formulas else "        formula: {}"
        for group in ("inclusive", "exclusive"):
            keys = [key for key in ("custom", "standard") if (group, key) in formulas]
            if keys:
                yield f"          {group}:"
                yield from (f"            {key}: {formulas[group, key]}" for key in keys)


def _scalar(text: str) -> str:
    """Return text as one line of YAML: plain where nobody can misread it, else in double quotes."""
    if PLAIN.fullmatch(text) and text.lower() not in RESERVED:
        return text
    return '"' + "".join(map(_escape_character, text)) + '"'


def _escape_character(character: str) -> str:
    if character in ESCAPES:
        return ESCAPES[character]
    if character.isprintable():
        return character
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


# -- the writer --------------------------------------------------------------------------------------------------------


MOST_ID_NAMES = 0xFF
RELEASED_SLOTS = Slots(SCOPES_IN_ORDER)


class Released:
    """One experiment as a released database."""

    always_traces = False
    sample = rec.SAMPLE

    def __init__(self, tables: Experiment) -> None:
        self._tables = tables
        self.tree = FileTree.of(tables.contexts)
        self.plan = MetricPlan.of(tables.metrics, RELEASED_SLOTS, not len(tables.profiles.aggregates))
        self.n_ids = self.tree.n_ids
        self._sampled = np.zeros(self.n_ids, np.bool_)

    def losses(self) -> Iterator[str]:
        return losses_of(self._tables, self.tree, self.plan)

    def lexical_loops(self) -> LexicalLoops | None:
        lexical, by_thread = self.plan.lexical_of_function, set(self.plan.statistics) != {SUM}
        if not lexical or not self.tree.loop_ids.any():
            return None
        return LexicalLoops(self.tree.loop_ids, self.tree.loop_around_ids, lexical, by_thread)

    def profiles_file(self) -> ReleasedProfiles:
        return ReleasedProfiles(self._tables.profiles.identifiers, self._tables.profiles.measured)

    def contexts_file(self) -> ReleasedContexts:
        return ReleasedContexts(self.n_ids)

    def traces_file(self) -> ReleasedTraces:
        return ReleasedTraces(len(self._tables.profiles.measured))

    @property
    def ids_of_samples(self) -> Ints:
        return self.tree.sample_ids

    def sample_ids(self, contexts: Ids) -> Ints:
        ids: Ints = self.tree.sample_ids[contexts]
        self._sampled[ids] = True
        return ids

    def write_tables(self, folder: Path, written: Written) -> Iterator[str]:
        tables = self._tables
        names = tables.profiles.identifiers.names[:MOST_ID_NAMES]
        description = tables.attributes.get(DESCRIPTION, "")
        write_meta_db(folder / "meta.db", tables.title, description, names, self.plan, self.tree, written.copies)
        text, lost = columns_text(self.plan, tables.metrics)
        if lost:
            yield f"columns over what the database does not hold: {len(lost)}, the first is {lost[0]}"
        path = folder / COLUMNS_FILE
        path.parent.mkdir()
        path.write_bytes(text.encode())
        if n_nowhere := self._nowhere(written.n_per_context):
            yield f"samples on {count_of(n_nowhere, 'context')} without values or a place in the tree: read as idle"

    def _nowhere(self, n_per_context: Ints) -> int:
        """Return how many contexts have samples, but neither a place in the tree nor values: nothing keeps their id."""
        known = n_per_context > 0
        known[self.tree.id[:-1][self.tree.listed]] = known[0] = True
        return int((self._sampled & ~known).sum())
