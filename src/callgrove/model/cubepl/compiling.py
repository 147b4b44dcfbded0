"""From the formulas that a file or a specification gives to derived metrics.

    definitions = [Definition(row, "PREDERIVED_EXCLUSIVE", init="{ ... }"), ...]      all metrics, in their order
    compiled = compile_metrics(definitions, surroundings)
    compiled.rows       one row for each definition; rows of formulas evaluate them
    compiled.notes      what a user should know

A row brings its name, its formula (`Metric.formula`) and how stored values are combined. A formula that cannot be read,
that runs in a circle, or that needs such a one, is `Unavailable`, and says why with line and column.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

from callgrove.errors import count_of
from callgrove.model.cubepl.derivation import CubePl, Formula, InitBlock, Program
from callgrove.model.cubepl.nodes import (
    Call,
    CubePlError,
    Match,
    Negative,
    Node,
    Number,
    Product,
    Reference,
    Setting,
    Sum,
    Variable,
    walk,
)
from callgrove.model.cubepl.reserved import UNSUPPORTED, Surroundings
from callgrove.model.cubepl.syntax import parse
from callgrove.model.derived import Derivation, Unavailable, When, derive_metric
from callgrove.model.metrics import Aggregation, Metric

__all__ = ["KINDS", "Compiled", "Definition", "Specification", "compile_metrics", "mark_void"]

KINDS = {
    "PREDERIVED_EXCLUSIVE": When.EACH,
    "PREDERIVED_INCLUSIVE": When.EACH_INCLUSIVE,
    "POSTDERIVED": When.AFTER,
}
RULES = ("plus", "minus", "aggr")
LONGEST_CHAIN = 60  # formulas that need one another
SHOWN_NAMES = 5
SHOWN_CIRCLE = 200  # metrics of a circle that are found one by one
VOID = "its file marks it VOID: it has no values"


@dataclass(frozen=True)
class Definition:
    """A metric of a file or a specification. `kind` is one of KINDS, or any other word for what has values of its own;
    `rules` are the pairs (plus, minus or aggr; formula) that replace adding up."""

    row: Metric
    kind: str = ""
    init: str = ""
    rules: tuple[tuple[str, str], ...] = ()
    is_void: bool = False

    @property
    def is_derived(self) -> bool:
        return self.kind in KINDS and bool(self.row.formula.strip())


@dataclass(frozen=True)
class Specification:
    """Metrics that an experiment is to have instead of its own, and how messages call their source.

    Those with a formula are derived; any other takes the values of the experiment's metric of that name. Parents are
    numbers among them. `attributes` are what the experiment says of itself besides, such as mirrors of documentation.
    """

    name: str
    definitions: tuple[Definition, ...]
    attributes: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Compiled:
    """What became of definitions. `unavailable` says of metrics that cannot be evaluated why."""

    rows: tuple[Metric, ...]
    program: Program
    unavailable: Mapping[str, str]
    notes: tuple[str, ...]


def compile_metrics(definitions: Sequence[Definition], around: Surroundings | None = None) -> Compiled:
    """Return the rows of metrics, those with formulas as derived metrics."""
    return _Compiler(definitions, around or Surroundings()).run()


def mark_void(metric: Metric) -> Metric:
    """Return the row of a metric that is VOID: a formula is not evaluated, and what has values is hidden."""
    if metric.derivation is None:
        return replace(metric, visible=False)
    derivation = Unavailable(metric.formula, metric.derivation.when, VOID, metric.derivation.operands)
    return replace(metric, derivation=derivation)


@dataclass
class _Compiler:
    definitions: Sequence[Definition]
    around: Surroundings
    formulas: dict[str, Formula] = field(default_factory=dict)
    rules: dict[str, tuple[tuple[str, Formula], ...]] = field(default_factory=dict)
    problems: dict[str, str] = field(default_factory=dict)
    causes: dict[str, str] = field(default_factory=dict)  # of problems that are those of another metric: which one

    def run(self) -> Compiled:
        inits = tuple(_init_block(d) for d in self.definitions if d.init.strip())
        void = frozenset(d.row.name for d in self.definitions if d.is_void)
        program = Program(tuple(d.row for d in self.definitions), inits, self.around, void)
        for definition in self.definitions:
            if definition.is_derived:
                self._read(definition)
        order = self._order(program)
        for name in order:
            self._check_operands(name)
        rows = self._rows(program, order)
        return Compiled(rows, program, dict(self.problems), tuple(self._notes(program)))

    def _read(self, definition: Definition) -> None:
        name = definition.row.name
        try:
            self.formulas[name] = _parse(definition.row.formula)
            self.rules[name] = tuple(self._read_rule(kind.strip(), text) for kind, text in definition.rules)
        except _Unreadable as error:
            self.problems[name] = str(error)

    def _read_rule(self, kind: str, text: str) -> tuple[str, Formula]:
        if kind not in RULES:
            raise _Unreadable(f"it has a rule of adding up of the unknown type {kind!r}")
        try:
            return kind, _parse(text, ("arg1", "arg2"))
        except _Unreadable as error:
            raise _Unreadable(f"its rule of adding up, {kind}: {error}") from None

    # -- formulas that need one another ------------------------------------------------------------------------------

    def _list_needed(self, program: Program, name: str) -> list[Reference]:
        """Return the references of a formula to other formulas; VOID metrics are not evaluated."""
        there = self.formulas.get(name)
        references = () if there is None else there.references
        return [r for r in references if r.metric in self.formulas and r.metric not in program.void]

    def _order(self, program: Program) -> list[str]:
        """Return the metrics with formulas, each after those that it needs. Circles and very long chains are
        problems."""
        depth: dict[str, int] = {}
        for start in self.formulas:
            path: dict[str, None] = {}
            stack: list[tuple[str, bool]] = [(start, False)]
            while stack:
                name, is_done = stack.pop()
                if is_done:
                    del path[name]
                    below = [depth[r.metric] for r in self._list_needed(program, name) if r.metric in depth]
                    depth[name] = 1 + max(below, default=0)
                    if depth[name] > LONGEST_CHAIN:
                        self._blame(name, 0, f"more than {LONGEST_CHAIN} formulas need one another")
                    continue
                if name in depth or name in path:
                    continue
                path[name] = None
                stack.append((name, True))
                for reference in reversed(self._list_needed(program, name)):
                    if reference.metric in path:
                        self._blame_circle(list(path) if len(path) <= SHOWN_CIRCLE else [name], reference)
                    elif reference.metric not in depth:
                        stack.append((reference.metric, False))
        return list(depth)

    def _blame_circle(self, path: list[str], reference: Reference) -> None:
        """Record that the last metric of a path needs one that needs it. All between them are in the circle as well;
        where these are very many, they have the problem of the last one."""
        first = path.index(reference.metric) if reference.metric in path else len(path) - 1
        circle = [*path[first:], reference.metric]
        shown = " -> ".join(circle if len(circle) < 8 else [*circle[:3], "...", *circle[-3:]])
        for one, following in pairwise(circle):
            where = next((r.at for r in self.formulas[one].references if r.metric == following), reference.at)
            self._blame(one, where, f"formulas need one another in a circle: {shown}")

    def _blame(self, name: str, at: int, problem: str) -> None:
        self.problems.setdefault(name, CubePlError(at, problem).in_text(self.formulas[name].text))

    def _check_operands(self, name: str) -> None:
        """Record why a formula cannot be evaluated."""
        for node in walk(self.formulas[name].tree):
            if isinstance(node, Variable) and node.name in UNSUPPORTED:
                self._blame(name, node.at, f"{node.name} is not supported")
            if isinstance(node, Reference) and node.metric in self.problems and name not in self.problems:
                cause = self.causes[name] = self.causes.get(node.metric, node.metric)
                through = "" if cause == node.metric else f", because of metric {cause}"
                self._blame(name, node.at, f"metric {node.metric} cannot be evaluated{through}: {self.problems[cause]}")

    # -- rows --------------------------------------------------------------------------------------------------------

    def _rows(self, program: Program, order: Iterable[str]) -> tuple[Metric, ...]:
        rows = {d.row.name: d.row for d in self.definitions}
        kinds = {d.row.name: KINDS[d.kind] for d in self.definitions if d.is_derived}
        for name in (*order, *(name for name in kinds if name not in self.formulas)):
            derivation = self._derive(program, name, rows[name], kinds[name])
            adds_up = all(rows[operand].aggregation == Aggregation.SUM for operand in derivation.operands)
            rows[name] = derive_metric(name, derivation, rows[name], adds_up)
        return tuple(rows[d.row.name] for d in self.definitions)

    def _derive(self, program: Program, name: str, row: Metric, when: When) -> Derivation:
        formula = self.formulas.get(name)
        known = (r.metric for r in (formula.references if formula else ()) if r.metric in program.number_of)
        zeros = program.void | program.missing
        operands = tuple(dict.fromkeys(metric for metric in known if metric not in zeros))
        if name in program.void:
            return Unavailable(row.formula, when, VOID, operands)
        if name in self.problems or formula is None:
            return Unavailable(row.formula, when, self.problems[name], operands)
        linear = when == When.AFTER and _is_linear(formula.tree)
        return CubePl(row.formula, when, name, formula, program, operands, linear, self.rules[name])

    # -- notes -------------------------------------------------------------------------------------------------------

    def _notes(self, program: Program) -> Iterable[str]:
        if self.problems:
            first = next(d.row.name for d in self.definitions if d.row.name in self.problems)
            few = count_of(len(self.problems), "derived metric")
            yield f"{few} cannot be evaluated; the first is {first}: {self.problems[first]}"
        for block in program.inits:
            if block.problem:
                yield f"the init block of metric {block.metric} cannot be evaluated: {block.problem}"
        blocks = [block.formula for block in program.inits if block.formula is not None]
        formulas = [*self.formulas.values(), *blocks]
        nodes = [node for formula in formulas for node in walk(formula.tree)]
        absent = {n.metric for n in nodes if isinstance(n, Reference) and n.metric not in program.number_of}
        absent -= {n.metric for n in nodes if isinstance(n, Setting)}  # VOID, and therefore left out by a tool
        if absent:
            yield f"formulas take metrics that the file does not have as 0, as Cube's tools do: {_list(absent)}"
        voided = {n.metric for n in nodes if isinstance(n, Reference) and n.metric in program.void}
        if voided:
            yield f"formulas take metrics that the file marks VOID as 0, as Cube's tools do: {_list(voided)}"
        asked = {n.args[0].value for n in nodes if isinstance(n, Call) and n.name == "env"}  # type: ignore[attr-defined]
        if asked:
            yield f"formulas ask for the environment, which they never see; these are empty: {_list(asked)}"
        broken = {n.source for n in nodes if isinstance(n, Match) and n.pattern is None}
        if broken:
            yield f"formulas hold broken regular expressions, which match nothing, as in Cube's tools: {_list(broken)}"


class _Unreadable(ValueError):
    """A text that is not a formula: its message has line and column."""


def _parse(text: str, words: Collection[str] = ()) -> Formula:
    try:
        return Formula(text, parse(text, words))
    except CubePlError as error:
        raise _Unreadable(error.in_text(text)) from None


def _init_block(definition: Definition) -> InitBlock:
    try:
        formula = _parse(definition.init)
    except _Unreadable as error:
        return InitBlock(definition.row.name, None, str(error))
    for node in walk(formula.tree):
        if isinstance(node, Variable) and node.name in UNSUPPORTED:
            problem = CubePlError(node.at, f"{node.name} is not supported").in_text(definition.init)
            return InitBlock(definition.row.name, None, problem)
    return InitBlock(definition.row.name, formula)


def _is_linear(tree: Node) -> bool:
    """Return whether a formula is a sum of constant multiples of metrics in the scope of the cell."""
    if isinstance(tree, Sum):
        return all(_is_linear(term) for _, term in tree.terms)
    if isinstance(tree, Negative):
        return _is_linear(tree.operand)
    if isinstance(tree, Product):
        variable = [sign for sign, factor in tree.factors if not _is_constant(factor)]
        linear = [sign == "*" and _is_linear(factor) for sign, factor in tree.factors if not _is_constant(factor)]
        zero = any(sign == "/" and _constant(factor) == 0 for sign, factor in tree.factors if _is_constant(factor))
        return len(variable) == 1 and all(linear) and not zero
    if isinstance(tree, Number):
        return tree.value == 0
    return isinstance(tree, Reference) and tree.form in ("", "context") and tree.modifiers in ((), ("*",))


def _is_constant(node: Node) -> bool:
    return _constant(node) is not None


def _constant(node: Node) -> float | None:
    """Return the number that a node always is."""
    if isinstance(node, Number):
        return node.value
    if isinstance(node, Negative) and (inner := _constant(node.operand)) is not None:
        return -inner
    return None


def _list(names: Iterable[str]) -> str:
    ordered = sorted(names)
    return ", ".join(ordered[:SHOWN_NAMES]) + (", ..." if len(ordered) > SHOWN_NAMES else "")
