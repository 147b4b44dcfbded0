"""Where the contexts and metrics of any experiment go in measurement files.

A node is an address in a module, or one of the placeholders that eight characters can say. A context that is neither
(a source line, a loop, a function whose place in its module is not known) goes into the context above it, with its
cost. Everything lies below one root, which is added where the experiment has none.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from callgrove.arrays import ABSENT, NO_OFFSET, Array, Bools, Floats, Ids, Ints, Offsets, depths, distinct, levels
from callgrove.errors import UsageError, count_of
from callgrove.formats.hpcrun import primitives as rec
from callgrove.formats.hpcrun import regions as placeholders
from callgrove.formats.hpcrun.measurement import Nodes, Positions
from callgrove.formats.hpcrun.primitives import REAL, MetricDescription, Module
from callgrove.formats.hpcrun.values import description_of, is_int, renumber_formula
from callgrove.formats.writing.writer import losses_of_formulas, losses_of_missing, some
from callgrove.model.computed_values import Recipe, recipe
from callgrove.model.contexts import ContextKind, ContextTree
from callgrove.model.metrics import Aggregation, Metric, Metrics, Scope

__all__ = ["Column", "MetricPlan", "NodePlan"]


PLACED = (ContextKind.ENTRY, ContextKind.PLACEHOLDER, ContextKind.UNKNOWN)
MOST_MODULES = 65530
FIRST_ID = 12
LARGEST_OLD_ID = 2**31 - 1


@dataclass(frozen=True)
class NodePlan:
    """Rows are the contexts and, last, one for a root that was added and one for idle samples.

    `into` is the row that each context goes into, `above` the row of each row's parent.
    """

    tree: ContextTree
    lm: Ids
    ip: Offsets
    is_node: Bools
    into: Ids
    above: Ids
    root: int
    modules: tuple[str, ...]

    @classmethod
    def of(cls, tree: ContextTree, what: str) -> NodePlan:
        modules = tree.regions.modules
        if len(modules) > MOST_MODULES:
            raise UsageError(f"{what}: measurement files hold {MOST_MODULES} modules, here are {len(modules)}")
        lm, ip, is_node = _places(tree)
        n = len(tree)
        if tree.n_listed and not is_node.any():
            raise UsageError(f"{what}: measurement files hold addresses in modules, and no context has one")
        roots = np.flatnonzero((tree.parent < 0) & tree.listed)
        stored_roots = roots[(lm[roots] == 0) & (ip[roots] == placeholders.code_number(placeholders.ROOT))]
        root = int(stored_roots[0]) if len(stored_roots) == 1 and len(roots) == 1 else n
        lm = np.append(lm, [0, 0]).astype(np.int32)
        codes = [placeholders.code_number(c) for c in (placeholders.ROOT, placeholders.NO_ACTIVITY)]
        ip = np.append(ip, np.array(codes, np.uint64))
        into = _into(tree, is_node, root)
        parent = np.append(tree.parent, [ABSENT, ABSENT])
        above = np.where(parent < 0, root, into[parent]).astype(np.int32)
        above[root] = ABSENT
        return cls(tree, lm, ip, np.append(is_node, [True, True]), into, above, root, modules)

    @property
    def idle(self) -> int:
        """The row that idle samples are on: one that is there already, or the last."""
        code = placeholders.code_number(placeholders.NO_ACTIVITY)
        nodes = np.flatnonzero((self.lm == 0) & (self.ip == code) & (self.above == self.root))
        return int(nodes[0])

    @cached_property
    def _levels(self) -> list[Ints]:
        return levels(depths(self.above))

    def with_ancestors(self, rows: Bools) -> Bools:
        """Return these rows and all above them."""
        out = rows.copy()
        for level in reversed(self._levels[1:]):
            marked = level[out[level]]
            out[self.above[marked]] = True
        return out

    @cached_property
    def keeps_ids(self) -> bool:
        """Can nodes keep the ids that contexts have?"""
        ids = self.tree.source_id[: self.tree.n_listed][self.is_node[: self.tree.n_listed]]
        fits = len(ids) > 0 and int(ids.min()) > 0 and int(ids.max()) <= LARGEST_OLD_ID - 2
        return fits and self.root < len(self.tree) and len(distinct(ids)) == len(ids)

    def nodes(self, rows: Bools, sampled: Bools, is_old: bool) -> tuple[Nodes, Ids]:
        """Return the nodes of one file, and the position of each row in it (-1: not there). Odd ids are those of
        traces."""
        chosen = np.flatnonzero(rows)
        chosen = np.append(self.root, chosen[chosen != self.root])
        position = np.full(len(self.lm), ABSENT, np.int32)
        position[chosen] = np.arange(len(chosen))
        ids = 2 * np.arange(len(chosen)) + FIRST_ID + sampled[chosen]
        if self.keeps_ids:
            kept = np.append(self.tree.source_id, [ABSENT, ABSENT])[chosen]
            ids = np.where(kept > 0, kept, self.tree.source_id.max() + 1 + np.arange(len(chosen)))
        parent = self.above[chosen]
        above = np.where(parent < 0, ABSENT, position[parent]).astype(np.int32)
        parent_id = np.where(above < 0, 0, ids[above]).astype(np.uint32)
        has_children = np.zeros(len(chosen), np.bool_)
        has_children[above[above >= 0]] = True
        lm, ip = self.lm[chosen].astype(np.uint16), self.ip[chosen]
        id_ = ids.astype(np.uint32)
        if is_old:
            ip = _old_ip(lm, ip, has_children)
            nodes = Nodes(id_, parent_id, lm, ip, above, Positions(id_), is_leaf=~has_children)
        else:
            nodes = Nodes(id_, parent_id, lm, ip, above, Positions(id_), flags=self._flags(chosen))
        return nodes, position

    def _flags(self, chosen: Ints) -> Array:
        flags = np.full(len(self.lm), rec.UNWOUND, np.uint8)
        blind = [c for c, words in self.tree.attributes.items() if words.get("unwound") == "no"]
        flags[blind] = 0
        return flags[chosen]

    def loadmap(self, nodes: Nodes, is_old: bool) -> tuple[Module, ...]:
        """Return all modules, those in use marked; a last one without a name where addresses lie in no known module."""
        used = set(np.unique(nodes.lm).tolist())
        paths = [*self.modules, *([""] if len(self.modules) + 1 in used else [])]
        return tuple(
            Module(number, path, int(number in used and not is_old)) for number, path in enumerate(paths, start=1)
        )

    def losses(self, is_old: bool) -> Iterator[str]:
        """Yield what of the contexts is not kept."""
        tree, n = self.tree, self.tree.n_listed
        if is_old:
            yield from self._old_losses()
        if folded := int((~self.is_node[:n]).sum()):
            kinds = sorted({ContextKind(k).word for k in tree.kind[:n][~self.is_node[:n]].tolist()})
            many = count_of(folded, "context that is not", "contexts that are not")
            yield f"{many} an address ({', '.join(kinds)}): the cost is in those above"
        if n < len(tree):
            yield f"{len(tree) - n} contexts that the tree does not list"
        here = np.flatnonzero(self.is_node[:n])
        regions, used = tree.regions, tree.region[here]
        addressed = self.lm[here] > 0
        if ((regions.name[used] >= 0) & addressed).any() or (regions.file[used] >= 0).any():
            yield "names, files and lines of contexts: only module and offset are stored"
        if self.root == len(tree) and n:
            yield "roots: they are put below one that was added"
        if tree.parameters:
            yield f"parameters of {len(tree.parameters)} contexts"

    def _old_losses(self) -> Iterator[str]:
        """Yield what only 04.00 has."""
        codes = self.ip[self.is_node & (self.lm == 0)]
        if strange := int((~np.isin(codes, placeholders.list_codes())).sum()):
            yield f"{strange} placeholders: 02.00 shows them as addresses in no known module"
        blind = sum(words.get("unwound") == "no" for words in self.tree.attributes.values())
        if blind:
            yield f"that the callers of {count_of(blind, 'context')} are not known: 02.00 has no flags of nodes"


def _places(tree: ContextTree) -> tuple[Ids, Offsets, Bools]:
    """Return the module number in the file, instruction pointer, and whether that is a node, of every context."""
    regions, n = tree.regions, len(tree)
    rows = len(regions) + 1
    lm, ip, fits = np.zeros(rows, np.int32), np.zeros(rows, np.uint64), np.zeros(rows, np.bool_)
    addressed = np.flatnonzero((regions.module >= 0) & (regions.offset != NO_OFFSET))
    lm[addressed], ip[addressed], fits[addressed] = regions.module[addressed] + 1, regions.offset[addressed], True
    special = np.isin(regions.kind, PLACED) & (regions.module < 0)
    for region in np.flatnonzero(special).tolist():
        offset, name = int(regions.offset[region]), int(regions.name[region])
        if offset != int(NO_OFFSET):
            lm[region], ip[region], fits[region] = len(regions.modules) + 1, offset, True
            continue
        text, role = (regions.strings[k] if k >= 0 else "" for k in (name, int(regions.role[region])))
        code = placeholders.code_of(role) or placeholders.code_of(text or "<unknown>")
        if code is not None:
            ip[region], fits[region] = code, True
    is_node = fits[tree.region] & (np.arange(n) < tree.n_listed)
    return lm[tree.region], ip[tree.region], is_node


def _into(tree: ContextTree, is_node: Bools, root: int) -> Ids:
    """Return the row that each context goes into: itself, or the nearest above it that is a node, or the root."""
    into = np.where(is_node, np.arange(len(tree)), ABSENT).astype(np.int32)
    for level in tree.levels:
        open_ = level[into[level] < 0]
        above = tree.parent[open_]
        into[open_] = np.where(above < 0, root, into[above])
    into[into < 0] = root
    return np.append(into, np.array([len(tree), len(tree) + 1], np.int32)).astype(np.int32)


def _old_ip(lm: Array, ip: Offsets, has_children: Bools) -> Offsets:
    """Return addresses of 02.00: return addresses in interior nodes, plain numbers for the two roots."""
    out = np.where(has_children & (lm > 0) & (ip < np.uint64(2**64 - 1)), ip + np.uint64(1), ip)
    for number, code in ((0, placeholders.ROOT), (1, placeholders.PARTIAL)):
        out[(lm == 0) & (ip == placeholders.code_number(code))] = number
    return out


# -- metrics -----------------------------------------------------------------------------------------------------------
# Files hold what was measured at a node itself: the scope `point`, or `exclusive`, computed where it is not stored.
# Values in `point` are taken as they are unless some belong to contexts without a place.


MOST_METRICS = 1 << 16
INTEGER = 1
OWN_FORMULA = re.compile(r"[\w\s.,()+*/^#$@-]*")  # numbers, names of functions and of metrics, operators


@dataclass(frozen=True)
class Column:
    """One metric of one file: nodes with a value, and the eight bytes of each."""

    description: MetricDescription
    node: Ids
    raw: Offsets


@dataclass
class MetricPlan:
    """The metrics that are written, in order; `row_of` gives the number of an experiment's row in the files."""

    rows: list[Metric]
    recipes: list[Recipe | None]
    row_of: dict[int, int]
    left_out: list[str]
    formulas: dict[int, str] = field(default_factory=dict)
    unknown_formulas: list[Metric] = field(default_factory=list)  # derived metrics in the language of another tool
    is_real: Bools = field(default_factory=lambda: np.zeros(0, np.bool_))
    missing: list[str] = field(default_factory=list)  # metrics that nobody measured
    written: Floats = field(default_factory=lambda: np.zeros(0))  # the sum of all that went into columns
    n_written: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    has_values: Bools = field(default_factory=lambda: np.zeros(0, np.bool_))

    @classmethod
    def of(cls, metrics: Metrics, tree: ContextTree, is_old: bool) -> MetricPlan:
        plan = cls([], [], {}, [])
        formulas: list[int] = []
        for quantity in metrics.quantities:
            way = _way(metrics, quantity, tree.n_listed < len(tree))
            row = metrics.find(quantity, Scope.NONE)
            if way is not None and len(plan.rows) < MOST_METRICS - 1:
                plan.row_of[way.stored] = len(plan.rows)
                plan.rows.append(way.metric)
                plan.recipes.append(None if way.metric.scope in (Scope.POINT, Scope.EXCLUSIVE) else way)
            elif row is not None and _is_own_formula(metrics[row]):
                plan.row_of[row] = len(plan.rows)
                formulas.append(len(plan.rows))
                plan.rows.append(metrics[row])
                plan.recipes.append(None)
            elif metrics.first(quantity).is_derived:
                plan.unknown_formulas.append(metrics.first(quantity))
            else:
                (plan.missing if quantity in metrics.missing else plan.left_out).append(quantity)
        sign = "$" if is_old else "#"
        plan.formulas = {k: renumber_formula(plan.rows[k].formula, plan.row_of, sign) for k in formulas}
        plan.is_real = np.zeros(len(plan.rows), np.bool_)
        plan.has_values, plan.written = np.zeros(len(plan.rows), np.bool_), np.zeros(len(plan.rows))
        plan.n_written = np.zeros(len(plan.rows), np.int64)
        return plan

    def note(self, row: int, values: Array) -> None:
        """Note that values of a row are coming: reals, or integers that only reals can hold, make the metric real."""
        self.has_values[row] = True
        if values.dtype.kind == "f" or (values.dtype.kind == "i" and len(values) and int(values.min()) < 0):
            self.is_real[row] = True

    def losses(self) -> Iterator[str]:
        yield from losses_of_formulas(self.unknown_formulas)
        yield from losses_of_missing(self.missing)
        if self.left_out:
            yield f"metrics {some(self.left_out)}: files hold sums over nodes only"
        computed = [m.name for m, way in zip(self.rows, self.recipes, strict=True) if way is not None]
        if computed:
            yield f"scopes of {some(computed)}: exclusive values are stored"

    def column(self, row: int, context: Ids, value: Array, position: Ids, tree: ContextTree) -> Column:
        """Return one metric of one profile. `position` is the node of each context; equal nodes add up."""
        way = self.recipes[row]
        if not (listed := tree.listed[context]).all():  # the tree has the cost of contexts that it does not list
            context, value = context[listed], value[listed]
        if way is not None:
            dense = np.zeros(len(tree), np.int64 if value.dtype.kind in "iu" else np.float64)
            np.add.at(dense, context, value.astype(dense.dtype))
            dense = way.apply(dense, tree)
            context = np.flatnonzero(dense).astype(np.int32)
            value = dense[context]
        is_real = self._writes_real(row, value)
        kind = np.float64 if is_real else np.uint64
        node, inverse = np.unique(position[context], return_inverse=True)
        total = np.zeros(len(node), kind)
        with np.errstate(over="ignore", invalid="ignore"):
            np.add.at(total, inverse, value.astype(kind))
        described = description_of(self.rows[row], REAL if is_real else INTEGER, self.formulas.get(row, ""))
        stored, period = _without_period(total, described.period)
        described = replace(described, period=period)
        kept = stored != 0
        with np.errstate(over="ignore", invalid="ignore"):
            self.written[row] += float(stored[kept].sum(dtype=np.float64)) * max(1, period)
        self.n_written[row] += int(kept.sum())
        return Column(described, node[kept].astype(np.int32), stored[kept].view(np.uint64))

    def _writes_real(self, row: int, value: Array) -> bool:
        if not self.has_values[row]:
            return not is_int(self.rows[row])
        negative = value.dtype.kind in "if" and len(value) and value.min() < 0
        return bool(self.is_real[row] or negative)


def _is_own_formula(metric: Metric) -> bool:
    """Return whether a derived metric is one of measurement files, over numbers of their metrics."""
    return metric.is_derived and metric.derivation is None and OWN_FORMULA.fullmatch(metric.formula) is not None


def _without_period(values: Array, period: int) -> tuple[Array, int]:
    """Return what to store so that stored times period is the value; where nothing is, the period becomes 1."""
    if period <= 1 or not len(values):
        return values, period
    stored = values // np.uint64(period) if values.dtype.kind == "u" else values / np.float64(period)
    again = stored * values.dtype.type(period)
    return (stored, period) if np.array_equal(again, values) and stored.all() else (values, 1)


def _way(metrics: Metrics, quantity: str, has_elided: bool) -> Recipe | None:
    """Return how to get what was measured at each context itself."""
    point = metrics.find(quantity, Scope.POINT)
    try:
        way = (
            Recipe(point, metrics[point], Scope.POINT)
            if point is not None and not has_elided
            else recipe(metrics, quantity, Scope.EXCLUSIVE)
        )
    except UsageError:
        return None
    fits = way.metric.aggregation == Aggregation.SUM and way.metric.composite is None and way.metric.scope != Scope.NONE
    return way if fits and not way.metric.is_derived else None
