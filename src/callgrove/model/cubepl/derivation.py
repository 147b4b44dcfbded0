"""What formulas of CubePL are worth in the cells of a view.

The formulas of one file share a program: its init blocks run once for each call tree, in the order of the metrics, when
the first value is asked for. Variables that these declare `global` are what all formulas see; what a formula assigns
is seen by that evaluation alone, so that the order of evaluating changes nothing.

    metric::X(i)   metric::X(e)     inclusive or exclusive, whatever the cell is
    metric::X()    metric::X(*)     as the cell is
    metric::fixed::X(f)             the same call path, over all profiles of the view
    metric::call::X(id, f)          another call path, over all profiles of the view

What the tools of Cube do otherwise, and why it is not followed here: they evaluate the condition of `if` in a
POSTDERIVED formula once for all locations, and here each cell has its own; they show negative exclusive values of
unsigned metrics as 0, and here these stay negative; they truncate integer metrics when they print them, and here all
results are doubles.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar

import numpy as np

from callgrove.arrays import Floats, Ids, Ints, combine_upwards
from callgrove.errors import NotEvaluated
from callgrove.model.contexts import ContextTree
from callgrove.model.cubepl.interpreter import Interpreter
from callgrove.model.cubepl.nodes import (
    Call,
    CubePlError,
    Negative,
    Node,
    Number,
    Product,
    Reference,
    Setting,
    Sum,
    TooMuchWork,
    Variable,
    walk,
)
from callgrove.model.cubepl.reserved import Surroundings, TreeNames
from callgrove.model.cubepl.values import Elements, TextTable, Value, to_numbers
from callgrove.model.derived import Cells, Derivation, ProfileCells, When
from callgrove.model.metrics import Metric, Scope

__all__ = ["CubePl", "Formula", "InitBlock", "Program", "TreeState"]

SCOPES = {"i": Scope.INCLUSIVE, "e": Scope.EXCLUSIVE}
LOCATION = 7.0  # what sysres::kind says of a location
LEAST_ELEMENTS = 1 << 20  # that every variable may have
KEPT_STATES = 4
OF_PLACE = "calculation::sysres::"
PLUS, MINUS, OVER_LOCATIONS = "plus", "minus", "aggr"


@dataclass(frozen=True)
class Formula:
    """A text and its tree."""

    text: str
    tree: Node

    @cached_property
    def references(self) -> tuple[Reference, ...]:
        """The metrics that it asks for, in the order of the text."""
        return tuple(node for node in walk(self.tree) if isinstance(node, Reference))

    @cached_property
    def variables(self) -> frozenset[str]:
        """The names of variables that it reads or writes."""
        return frozenset(node.name for node in walk(self.tree) if isinstance(node, Variable))


@dataclass(frozen=True)
class InitBlock:
    """What a metric wants done before anything is evaluated; `problem` is why it cannot be."""

    metric: str
    formula: Formula | None
    problem: str = ""


# -- the program, and its state in a tree ------------------------------------------------------------------------------


@dataclass
class TreeState:
    """What init blocks have left behind: global variables, and metrics that are VOID now. `failure` says which of them
    failed, and why."""

    names: TreeNames
    shared: dict[str, Elements] = field(default_factory=dict)
    voids: set[str] = field(default_factory=set)
    failure: str = ""


@dataclass(frozen=True, eq=False)
class Program:
    """All formulas of a file. `metrics` are its metrics as rows of the model, `void` those without values from the
    start."""

    metrics: tuple[Metric, ...]
    inits: tuple[InitBlock, ...] = ()
    around: Surroundings = field(default_factory=Surroundings)
    void: frozenset[str] = frozenset()
    _states: list[tuple[weakref.ref[ContextTree], TreeState]] = field(default_factory=list)
    endless: dict[str, str] = field(default_factory=dict)  # formulas that were given up: nobody waits for them twice

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "_states": []}

    @cached_property
    def number_of(self) -> dict[str, int]:
        """The number of each metric in the file, by name."""
        return {metric.name: number for number, metric in enumerate(self.metrics)}

    @cached_property
    def missing(self) -> frozenset[str]:
        """The metrics that nobody measured: formulas take them as 0, as Cube's tools do."""
        return frozenset(metric.name for metric in self.metrics if metric.is_missing)

    @cached_property
    def asks_for_values(self) -> bool:
        """Whether init blocks depend on what was measured, and not on the tree alone."""
        blocks = (block.formula for block in self.inits if block.formula is not None)
        return any(reference.form == "call" for formula in blocks for reference in formula.references)

    @cached_property
    def sets_metrics(self) -> bool:
        """Whether init blocks may mark metrics as VOID that are there."""
        blocks = (block.formula for block in self.inits if block.formula is not None)
        settings = (node for formula in blocks for node in walk(formula.tree) if isinstance(node, Setting))
        return any(setting.metric in self.number_of for setting in settings)

    def voids(self, tree: ContextTree) -> frozenset[str]:
        """Return the metrics that are VOID: marked so in the file, or by an init block."""
        state = TreeState(self._names(tree)) if self.asks_for_values else self.state(tree)
        return self.void | state.voids

    def state(self, tree: ContextTree, cells: Cells | None = None) -> TreeState:
        """Return what init blocks make of a tree. They run once for it, unless they depend on values."""
        for known, state in self._states:
            if known() is tree:
                return state
        state = self._run(tree, cells)
        if not self.asks_for_values:
            self._states[:] = [(weakref.ref(tree), state), *self._states[: KEPT_STATES - 1]]
        return state

    def _names(self, tree: ContextTree) -> TreeNames:
        return TreeNames(tree, self.metrics, self.around, TextTable())

    def _run(self, tree: ContextTree, cells: Cells | None) -> TreeState:
        state = TreeState(self._names(tree), voids=set(self.void))
        for block in self.inits:
            problem = block.problem if block.formula is None else self._run_block(block.formula, state, cells)
            if problem:
                state.failure = f"the init block of metric {block.metric}: {problem}"
                break
        return state

    def _run_block(self, formula: Formula, state: TreeState, cells: Cells | None) -> str:
        interpreter = Interpreter(_InitWorld(self, state, cells))
        try:
            with np.errstate(all="ignore"):
                interpreter.value(formula.tree)
        except CubePlError as error:
            return error.in_text(formula.text)
        for name in interpreter.declared | (state.shared.keys() & interpreter.variables.keys()):
            elements = interpreter.variables.get(name) or state.shared.get(name) or Elements(state.names.table)
            state.shared[name] = elements.freeze()
        return ""


class _TreeWorld:
    """What formulas can ask for in one tree."""

    def __init__(self, program: Program, state: TreeState, shape: tuple[int, ...]) -> None:
        self.program, self.state, self.shape = program, state, shape
        self.table = state.names.table
        self.most_elements = max(LEAST_ELEMENTS, 4 * state.names.n_ids)

    def variable(self, name: str) -> Elements | None:
        shared = self.state.shared.get(name)
        return self.state.names.find(name) if shared is None else shared

    def is_zero(self, reference: Reference) -> bool:
        """Return whether a metric is 0 everywhere: there is none of the name, nobody measured it, or it is VOID."""
        is_known = reference.metric in self.program.number_of and reference.metric not in self.program.missing
        return not is_known or reference.metric in self.state.voids

    def of_call_path(self, cells: Cells, reference: Reference, cnode: Value) -> Value:
        """Return a metric at call paths that are named by their ids, over all profiles of a view."""
        if reference.place is not None and not (isinstance(reference.place, Number) and reference.place.value == 0):
            raise CubePlError(reference.at, "a metric of some place of the system is not supported")
        numbers = np.asarray(to_numbers(cnode))
        names = self.state.names
        there = (numbers >= 0) & (numbers < names.n_ids)
        context = names.context_of_id[np.where(there, numbers, 0).astype(np.int64)] if names.n_ids else numbers * 0 - 1
        if not there.all() or (context < 0).any():
            missing = numbers[~there | (context < 0)].reshape(-1)[0]
            raise CubePlError(reference.at, f"there is no call path {missing:g}")
        values = cells.in_tree(reference.metric, _scope(reference))[context]
        return float(values) if np.ndim(values) == 0 else values


class _InitWorld(_TreeWorld):
    """Init blocks see the tree, and metrics only by call path: every other reference is 0."""

    def __init__(self, program: Program, state: TreeState, cells: Cells | None) -> None:
        super().__init__(program, state, ())
        self.cells = cells

    def operand(self, reference: Reference, cnode: Value) -> Value:
        if reference.form != "call" or self.is_zero(reference) or self.cells is None:
            return 0.0
        if self.program.metrics[self.program.number_of[reference.metric]].is_derived:
            raise CubePlError(reference.at, f"metric {reference.metric} is derived, and its formula needs this block")
        return self.of_call_path(self.cells, reference, cnode)

    def set_metric(self, setting: Setting) -> None:
        if (setting.key, setting.value.strip()) == ("value", "VOID"):
            self.state.voids.add(setting.metric)


class _CellWorld(_TreeWorld):
    """The cells of a view."""

    def __init__(self, formula: CubePl, state: TreeState, cells: Cells) -> None:
        self.cells, self.formula = cells, formula
        super().__init__(formula.program, state, self._shape())
        self._operands = {
            _key(reference): self._fetch(reference)
            for reference in formula.formula.references
            if reference.form != "call"
        }

    def _shape(self) -> tuple[int, ...]:
        columns = () if self.cells.profiles is None else (len(self.cells.profiles),)
        return () if self.cells.contexts is None else (len(self.cells.contexts), *columns)

    def variable(self, name: str) -> Elements | None:
        if not name.startswith("calculation::"):
            return super().variable(name)
        elements = Elements(self.table)
        elements.write(0, self._calculation(name), True)
        return elements

    def _calculation(self, name: str) -> Value:
        """Return what is evaluated now."""
        names = self.state.names
        if name == "calculation::callpath::id":
            return self._of_contexts(names.ids)
        if name == "calculation::region::id":
            return self._of_contexts(names.region)
        if name == "calculation::metric::id":
            return float(self.program.number_of.get(self.formula.name, 0))
        is_location = self.formula.when != When.AFTER and self.cells.profiles is not None
        if name == "calculation::sysres::kind":
            return LOCATION if is_location else 0.0
        if name == "calculation::sysres::id":
            return self._locations() if is_location else 0.0
        return ""

    def _of_contexts(self, column: Ids | Ints) -> Floats:
        contexts = self.cells.contexts
        if contexts is None:
            text = "it depends on the call path, and a row of this view may stand for many"
            raise CubePlError(self.formula.formula.tree.at, text)
        values: Floats = column[contexts].astype(np.float64)
        return values if self.cells.profiles is None else values[:, None]

    def _locations(self) -> Floats:
        """Return the ids of locations; where there are none, the numbers of profiles."""
        numbers = self.cells.profiles
        assert numbers is not None
        ids = self.cells.values.profiles.source_id[numbers] if isinstance(self.cells, ProfileCells) else numbers
        return np.where(ids >= 0, ids, numbers).astype(np.float64)[None, :]

    def _fetch(self, reference: Reference) -> Value:
        if self.is_zero(reference):
            return 0.0
        if reference.form == "fixed" and len(reference.modifiers) < 2:
            return self.cells.of_all_profiles(reference.metric, _scope(reference))
        return self.cells.of(reference.metric, _scope(reference))

    def operand(self, reference: Reference, cnode: Value) -> Value:
        if reference.form != "call":
            return self._operands[_key(reference)]
        return 0.0 if self.is_zero(reference) else self.of_call_path(self.cells, reference, cnode)

    def set_metric(self, setting: Setting) -> None:
        raise CubePlError(setting.at, "metrics are set in init blocks only")


def _key(reference: Reference) -> tuple[str, str, tuple[str, ...]]:
    return reference.form, reference.metric, reference.modifiers


def _scope(reference: Reference) -> Scope | None:
    return SCOPES.get(reference.modifiers[0]) if reference.modifiers else None


# -- rules of adding up ------------------------------------------------------------------------------------------------


class _PairWorld:
    """Two values that a rule makes one of."""

    def __init__(self, one: Floats, other: Floats) -> None:
        self.table = TextTable()
        self.shape, self.most_elements = np.shape(one), LEAST_ELEMENTS
        self._args = {"arg1": one, "arg2": other}

    def variable(self, name: str) -> Elements | None:
        if name not in self._args:
            return None
        elements = Elements(self.table)
        elements.write(0, self._args[name], True)
        return elements

    def operand(self, reference: Reference, cnode: Value) -> Value:
        raise CubePlError(reference.at, "a rule of adding up sees arg1 and arg2 only")

    def set_metric(self, setting: Setting) -> None:
        raise CubePlError(setting.at, "metrics are set in init blocks only")


def _as_ufunc(rule: Formula) -> np.ufunc | None:
    """Return the function of NumPy that does the same, where there is one."""
    tree = rule.tree
    if isinstance(tree, Call) and tree.name in ("min", "max"):
        args: Sequence[Node] = tree.args
        ufunc: np.ufunc = np.minimum if tree.name == "min" else np.maximum
    elif isinstance(tree, Sum) and all(sign == "+" for sign, _ in tree.terms):
        args, ufunc = [term for _, term in tree.terms], np.add
    else:
        return None
    names = sorted(arg.name if isinstance(arg, Variable) and arg.index is None else "" for arg in args)
    return ufunc if names == ["arg1", "arg2"] else None


def _sibling_ranks(parent: Ids) -> tuple[Ints, Ints]:
    """Return the contexts that have a parent, in their order, and which child of it each one is."""
    below = np.flatnonzero(parent >= 0)
    order = below[np.argsort(parent[below], kind="stable")]
    above = parent[order]
    first = np.flatnonzero(np.append(True, above[1:] != above[:-1])) if len(order) else np.empty(0, np.int64)
    ranks = np.arange(len(order)) - np.repeat(first, np.diff(np.append(first, len(order))))
    return order, ranks


# -- the derivation ----------------------------------------------------------------------------------------------------


def _is_sum_of_multiples(tree: Node) -> bool:
    """Return whether a formula is a sum of metrics here, each times what the call path alone decides: a mask."""
    if isinstance(tree, Sum):
        return all(_is_sum_of_multiples(term) for _, term in tree.terms)
    if isinstance(tree, Negative):
        return _is_sum_of_multiples(tree.operand)
    if isinstance(tree, Product):
        measured = [(sign, factor) for sign, factor in tree.factors if not _is_of_call_path(factor)]
        divides = any(sign == "/" for sign, _ in tree.factors)
        return not divides and len(measured) == 1 and _is_sum_of_multiples(measured[0][1])
    return isinstance(tree, Reference) and tree.form == ""


def _is_of_call_path(tree: Node) -> bool:
    """Return whether a value is the same in all profiles: made of numbers and of what init blocks have left behind."""
    return all(
        isinstance(node, Number | Sum | Product | Negative)
        or (isinstance(node, Variable) and not node.name.startswith(OF_PLACE))
        for node in walk(tree)
    )


@dataclass(frozen=True, eq=False)
class CubePl(Derivation):
    """A formula of CubePL. `rules` replace adding up: plus and minus over the call tree, aggr over locations."""

    language: ClassVar[str] = "cubepl"
    text: str
    when: When
    name: str
    formula: Formula
    program: Program
    operands: tuple[str, ...] = ()
    is_linear: bool = False
    rules: tuple[tuple[str, Formula], ...] = ()

    @property
    def adds_over_profiles(self) -> bool:
        return self.when != When.AFTER and not self.rules and _is_sum_of_multiples(self.formula.tree)

    @property
    def depends_on_contexts(self) -> bool:
        """Whether it reads variables, such as tables by call path, or init blocks may mark metrics void in one tree and
        not in another."""
        return bool(self.formula.variables or self.program.inits)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CubePl) and self.identity == other.identity

    def __hash__(self) -> int:
        return hash(self.identity)

    @property
    def adds_plainly(self) -> bool:
        """Whether no rules of its own replace adding up."""
        return self.when == When.AFTER or not self.rules

    @property
    def companions(self) -> tuple[str, ...]:
        """The metrics whose init blocks give its variables their values, and what these blocks ask for."""
        if not self.formula.variables:
            return ()
        blocks = [block.formula for block in self.program.inits if block.formula is not None]
        asked = (reference.metric for formula in blocks for reference in formula.references)
        return tuple(dict.fromkeys([*(block.metric for block in self.program.inits), *asked]))

    @property
    def identity(self) -> tuple[object, ...]:
        """What two formulas that are the same have in common: texts, those of init blocks included, and which metrics
        there are of those that they name, as others are 0."""
        blocks = tuple(block.formula.text for block in self.program.inits if block.formula is not None)
        rules = tuple((kind, rule.text) for kind, rule in self.rules)
        return self.language, self.when, self.text, self.operands, rules, blocks if self.formula.variables else ()

    def evaluate(self, cells: Cells) -> Floats | float:
        if self.name in self.program.endless:
            raise self._error(self.program.endless[self.name])
        try:
            state = self.program.state(cells.tree, cells)
            if self.name in state.voids:
                raise CubePlError(self.formula.tree.at, "the init blocks of its file mark it VOID: it has no values")
            if state.failure and self.formula.variables:
                raise self._error(state.failure)
            numbers: Floats | float = Interpreter(_CellWorld(self, state, cells)).number(self.formula.tree)
            return numbers
        except CubePlError as error:
            if isinstance(error, TooMuchWork):
                self.program.endless[self.name] = error.in_text(self.text)
            raise self._error(error.in_text(self.text)) from None

    def _error(self, reason: str) -> NotEvaluated:
        return NotEvaluated("", self.when, self.text, reason)

    def add_profiles(self, matrix: Floats) -> Floats:
        rule = self._rule(OVER_LOCATIONS)
        if rule is None or matrix.shape[1] < 2:
            return super().add_profiles(matrix)
        if (ufunc := _as_ufunc(rule)) is not None:
            combined: Floats = ufunc.reduce(matrix, axis=1)
            return combined
        total = matrix[:, 0]
        for column in range(1, matrix.shape[1]):
            total = self._apply(rule, total, matrix[:, column])
        return total

    def spread(self, values: Floats, given: Scope, wanted: Scope, tree: ContextTree) -> Floats:
        rule = self._rule(MINUS if given == Scope.INCLUSIVE else PLUS)
        if rule is None:
            return super().spread(values, given, wanted, tree)
        if given != Scope.INCLUSIVE and (ufunc := _as_ufunc(rule)) is not None:
            return combine_upwards(values.copy(), tree.parent, tree.levels, ufunc)
        contexts, rank = _sibling_ranks(tree.parent)
        levels = [contexts] if given == Scope.INCLUSIVE else self._upwards(tree, contexts)
        rank_of = np.zeros(len(tree), np.int64)
        rank_of[contexts] = rank
        out = values.copy()
        source = values if given == Scope.INCLUSIVE else out
        for level in levels:
            for number in range(int(rank_of[level].max(initial=-1)) + 1):
                chosen = level[rank_of[level] == number]
                above = tree.parent[chosen]
                out[above] = self._apply(rule, out[above], source[chosen])
        return out

    def _upwards(self, tree: ContextTree, contexts: Ints) -> list[Ints]:
        """Return the contexts by level, the deepest first, without the roots."""
        return [level[tree.parent[level] >= 0] for level in reversed(tree.levels[1:])]

    def _rule(self, kind: str) -> Formula | None:
        return None if self.when == When.AFTER else dict(self.rules).get(kind)

    def _apply(self, rule: Formula, one: Floats, other: Floats) -> Floats:
        try:
            with np.errstate(all="ignore"):
                result = Interpreter(_PairWorld(one, other)).number(rule.tree)
        except CubePlError as error:
            raise self._error(f"its rule of adding up: {error.in_text(rule.text)}") from None
        return np.broadcast_to(np.asarray(result, np.float64), one.shape)
