"""Evaluates trees of CubePL, for all cells of a view at once.

Statements are executed under a mask, the cells in which they count: `if` executes every branch in the cells that chose
it, `while` repeats its body in the cells whose condition still holds. What is the same in all cells stays one number or
text, so a formula without operands costs what it would cost in one cell.

    while ( ${i} < ${cube::#callpaths} ) { ...; ${i} = ${i} + 1; }

Loops like this one, which init blocks run over all call paths, are executed for all counts at once where no count
needs what another one assigned (`plan_loop`): functions of texts are then evaluated for those that differ, of which
there are as many as regions. All other loops take a step at a time.

No formula runs for ever: loops end after MOST_STEPS statements or MOST_SECONDS of work, and what variables may hold is
bounded.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from time import thread_time
from typing import Any, Protocol

import numpy as np

from callgrove.arrays import Ints
from callgrove.model.cubepl.loops import Loop, plan_loop
from callgrove.model.cubepl.nodes import (
    Assignment,
    Block,
    Call,
    Chain,
    Comparison,
    CubePlError,
    Declaration,
    If,
    Match,
    Negative,
    Node,
    Not,
    Number,
    Power,
    Product,
    Reference,
    Setting,
    Sum,
    Text,
    TooMuchWork,
    Truth,
    Variable,
    While,
)
from callgrove.model.cubepl.patterns import PatternError
from callgrove.model.cubepl.values import (
    FUNCTIONS,
    UNDEFINED,
    Elements,
    Mask,
    Numbers,
    Texts,
    TextTable,
    Value,
    both,
    divide,
    either,
    has_any,
    negate,
    power,
    to_numbers,
)

__all__ = ["Interpreter", "World"]

MOST_STEPS = 10**7
MOST_SECONDS = 10.0
MOST_HELD = 1 << 24  # numbers that variables hold for cells
SEED = 1


class World(Protocol):
    """What a formula can ask for beyond its own variables."""

    table: TextTable
    shape: tuple[int, ...]  # of cells
    most_elements: int  # of a variable

    def variable(self, name: str) -> Elements | None:
        """Return a variable that is there before the formula is evaluated: reserved, or global."""

    def operand(self, reference: Reference, cnode: Value) -> Value:
        """Return the value of a metric."""

    def set_metric(self, setting: Setting) -> None:
        """Set a property of a metric."""


class Budget:
    """What is left of the work that a formula may take."""

    def __init__(self) -> None:
        self.steps = MOST_STEPS
        self.end = thread_time() + MOST_SECONDS
        self.held = 0

    def spend(self, at: int, steps: int) -> None:
        """Take steps off."""
        self.steps -= steps
        if self.steps < 0:
            raise TooMuchWork(at, f"the loop does not end within {MOST_STEPS:,} steps")
        self.check_time(at)

    def check_time(self, at: int) -> None:
        if thread_time() > self.end:
            raise TooMuchWork(at, f"it takes more than {MOST_SECONDS:g} seconds")

    def hold(self, at: int, value: Value, most: int) -> None:
        """Count what a variable holds."""
        if isinstance(value, np.ndarray | Texts):
            self.held += value.size if isinstance(value, np.ndarray) else value.codes.size
            if self.held > most:
                raise CubePlError(at, "the variables hold too much")


class Interpreter:
    """Evaluates the tree of one formula, with variables that begin empty."""

    def __init__(self, world: World, budget: Budget | None = None) -> None:
        self.world, self.table = world, world.table
        self.variables: dict[str, Elements] = {}
        self.declared: set[str] = set()  # as global
        self.mask: Mask = True
        self.budget = budget or Budget()
        self._most_held = max(MOST_HELD, 64 * math.prod(world.shape))
        self._random: Any = None

    # -- values ------------------------------------------------------------------------------------------------------

    def value(self, node: Node) -> Value:
        """Return the value of a node."""
        return VALUES[type(node)](self, node)

    def number(self, node: Node) -> Any:
        """Return the number of a node. Texts in the formula itself are 0, whatever they say."""
        return 0.0 if type(node) is Text else to_numbers(VALUES[type(node)](self, node))

    def sum(self, node: Sum) -> Value:
        total: Numbers = self.number(node.terms[0][1])
        for sign, term in node.terms[1:]:
            total = total + self.number(term) if sign == "+" else total - self.number(term)
        return total

    def product(self, node: Product) -> Value:
        total: Numbers = self.number(node.factors[0][1])
        for sign, factor in node.factors[1:]:
            total = total * self.number(factor) if sign == "*" else divide(total, self.number(factor))
        return total

    def power(self, node: Power) -> Value:
        total: Numbers = self.number(node.base)
        for exponent in node.exponents:
            total = power(total, self.number(exponent))
        return total

    def call(self, node: Call) -> Value:
        if node.name in FUNCTIONS:
            return FUNCTIONS[node.name](*map(self.number, node.args))
        (arg,) = node.args
        if node.name == "random":
            return self._random_numbers(self.number(arg))
        if node.name in ("lowercase", "uppercase"):
            return self._change_case(node.name, self.table.read(self.value(arg)))
        assert isinstance(arg, Text)
        if node.name == "env":
            return UNDEFINED  # no formula sees the environment of whoever opens its file
        elements = self._find(arg.value)
        if node.name == "sizeof":
            return float(len(elements)) if elements is not None else 0.0
        defined = elements is not None and elements.is_defined()
        return float(defined) if isinstance(defined, bool) else defined.astype(np.float64)

    def _random_numbers(self, top: Any) -> Value:
        if self._random is None:
            self._random = np.random.default_rng(SEED)
        numbers: Numbers = self._random.random(self.world.shape or None) * top
        return numbers

    def _change_case(self, function: str, text: str | Ints) -> Value:
        change = str.lower if function == "lowercase" else str.upper
        if isinstance(text, str):
            return change(text)
        codes = self.table.look_up(text, lambda one: self.table.code(change(one)), np.int64)
        return Texts(codes, self.table.numbers(codes))

    def reference(self, node: Reference) -> Value:
        cnode: Value = self.number(node.cnode) if node.cnode is not None else 0.0
        return self.world.operand(node, cnode)

    def block(self, node: Block) -> Value:
        self.run(node.statements)
        return self.value(node.result)

    # -- variables ---------------------------------------------------------------------------------------------------

    def _find(self, name: str) -> Elements | None:
        own = self.variables.get(name)
        return self.world.variable(name) if own is None else own

    def variable(self, node: Variable) -> Value:
        elements = self._find(node.name)
        index = self.index(node)
        return UNDEFINED if elements is None else elements.read(index)

    def index(self, node: Variable) -> int | Ints:
        """Return which element a variable means: its index is cut to an integer."""
        if node.index is None:
            return 0
        number = self.number(node.index)
        if isinstance(number, float):
            if not -1 < number < self.world.most_elements:
                raise self._bad_index(node.index, number)
            return int(number)
        unfit = ~((number > -1) & (number < self.world.most_elements))
        wrong = both(unfit, self.mask)
        if has_any(wrong):
            raise self._bad_index(node.index, float(np.broadcast_to(number, np.shape(wrong))[wrong][0]))
        index: Ints = np.where(unfit, 0, number).astype(np.int64)
        return index

    def _bad_index(self, node: Node, number: float) -> CubePlError:
        most = self.world.most_elements
        why = "is negative" if number < 0 else f"is not below {most:,}, the most elements of a variable"
        return CubePlError(node.at, f"the index {number:g} {why}")

    def assign(self, node: Assignment) -> None:
        value, elements = self.value(node.value), self._elements(node.target.name)
        index = self.index(node.target)
        if not (isinstance(index, int) and index in elements.slots):
            self.budget.hold(node.at, value, self._most_held)
        try:
            elements.write(index, value, self.mask)
        except ValueError as error:
            raise CubePlError(node.at, str(error)) from None

    # -- conditions --------------------------------------------------------------------------------------------------

    def truth(self, node: Node) -> Mask:
        """Return where a condition holds."""
        return CONDITIONS[type(node)](self, node)

    def compare(self, node: Comparison) -> Mask:
        if node.operator in ("eq", "seq"):
            one, other = (self.table.read(self.value(side)) for side in (node.left, node.right))
            return self._equal_texts(one, other, node.operator == "seq")
        outcome: Mask = COMPARE[node.operator](self.number(node.left), self.number(node.right))
        return bool(outcome) if np.ndim(outcome) == 0 else outcome

    def _equal_texts(self, one: str | Ints, other: str | Ints, ignoring_case: bool) -> Mask:
        if ignoring_case:
            one, other = (self._lower(side) for side in (one, other))
        if isinstance(one, str) and isinstance(other, str):
            return one == other
        codes = [self.table.code(side) if isinstance(side, str) else side for side in (one, other)]
        equal: Mask = codes[0] == codes[1]
        return equal

    def _lower(self, text: str | Ints) -> str | Ints:
        if isinstance(text, str):
            return text.lower()
        codes: Ints = self.table.look_up(text, lambda one: self.table.code(one.lower()), np.int64)
        return codes

    def match(self, node: Match) -> Mask:
        text = self.table.read(self.value(node.text))
        pattern = node.pattern
        if pattern is None:
            return False

        def occurs(one: str) -> bool:
            self.budget.check_time(node.at)
            return pattern.occurs_in(one)

        try:
            if isinstance(text, str):
                return occurs(text)
            found: Mask = self.table.look_up(text, occurs, np.bool_)
            return found
        except PatternError as error:
            raise CubePlError(node.at, f"this regular expression: {error}") from None

    def chain(self, node: Chain) -> Mask:
        outcome = self.truth(node.parts[0][1])
        for word, part in node.parts[1:]:
            other = self.truth(part)
            outcome = both(outcome, other) if word == "and" else either(outcome, other)
        return outcome

    # -- statements --------------------------------------------------------------------------------------------------

    def run(self, statements: tuple[Node, ...]) -> None:
        """Execute statements in the cells of the mask."""
        for statement in statements:
            STATEMENTS[type(statement)](self, statement)

    def choose(self, node: If) -> None:
        before = rest = self.mask
        for branch in node.branches:
            holds = True if branch.condition is None else self.truth(branch.condition)
            if has_any(taken := both(rest, holds)):
                self.mask = taken
                self.run(branch.body)
            self.mask = rest = both(rest, negate(holds))
            if not has_any(rest):
                break
        self.mask = before

    def repeat(self, node: While) -> None:
        loop = plan_loop(node) if self.mask is True and type(self) is Interpreter else None
        if loop is not None and self._run_at_once(node, loop):
            return
        before, cost = self.mask, len(node.body) + 1
        while has_any(active := both(self.mask, self.truth(node.condition))):
            self.budget.spend(node.at, cost)
            self.mask = active
            self.run(node.body)
            self.mask = active
        self.mask = before

    def _run_at_once(self, node: While, loop: Loop) -> bool:
        """Execute a loop for all its counts at once; return whether that was possible."""
        start, bound = self.number(Variable(node.at, loop.counter)), self.number(loop.bound)
        if not (isinstance(start, float) and isinstance(bound, float) and start.is_integer() and start >= 0):
            return False
        if not math.isfinite(bound) or max(start, bound) >= self.world.most_elements:
            return False
        n = max(0, math.ceil(bound - start) if loop.is_below else math.floor(bound - start) + 1)
        if n:
            counts = _Counts(self, loop, int(start), n)
            counts.run(loop.body)
            counts.keep()
        self._elements(loop.counter).write(0, start + n, True)
        return True

    def _elements(self, name: str) -> Elements:
        """Return a variable to be written."""
        if name not in self.variables:
            there = self.world.variable(name)
            self.variables[name] = Elements(self.table) if there is None else there.copy()
        return self.variables[name]

    def declare(self, node: Declaration) -> None:
        if node.word == "global":
            self.declared.add(node.name)

    def set_metric(self, node: Setting) -> None:
        if self.mask is not True:
            raise CubePlError(node.at, "a metric cannot be set in some cells only")
        self.world.set_metric(node)


# -- loops that are executed for all counts at once --------------------------------------------------------------------


class _Counts(Interpreter):
    """Executes the body of a loop; its cells are the counts. What is assigned is kept apart until the end."""

    def __init__(self, outer: Interpreter, loop: Loop, start: int, n: int) -> None:
        super().__init__(outer.world, outer.budget)
        self._most_held = max(self._most_held, 256 * n)
        self.outer, self.loop, self.start, self.n = outer, loop, start, n
        self.counts = np.arange(start, start + n, dtype=np.float64)
        self._elements(loop.counter).write(0, self.counts, True)
        self.at_counter: dict[str, Elements] = {}  # what is assigned to arrays, as element 0 of each count

    def _find(self, name: str) -> Elements | None:
        own = self.variables.get(name)
        return self.outer._find(name) if own is None else own

    def variable(self, node: Variable) -> Value:
        if node.name not in self.loop.arrays:
            return super().variable(node)
        before = self.outer._find(node.name)
        old = UNDEFINED if before is None else before.read(self.counts.astype(np.int64))
        if node.name not in self.at_counter:
            return old
        value, where = self.at_counter[node.name].slots[0]
        return self.table.select(where, value, old)

    def assign(self, node: Assignment) -> None:
        value, name = self.value(node.value), node.target.name
        held = self.at_counter if name in self.loop.arrays else self.variables
        if name not in held:
            held[name] = Elements(self.table)
            self.budget.hold(node.at, value, self._most_held)
        held[name].write(0, value, self.mask)

    def keep(self) -> None:
        """Assign to the variables outside: of scalars, what the last count assigned that did."""
        for name, elements in self.at_counter.items():
            value, where = elements.slots[0]
            self.outer._elements(name).write_range(self.start, self.n, value, where)
        for name in self.loop.scalars & set(self.variables):
            value, where = self.variables[name].slots[0]
            counts = np.flatnonzero(np.broadcast_to(where, self.n))
            if len(counts):
                self.outer._elements(name).write(0, self._of_count(value, int(counts[-1])), True)

    def _of_count(self, value: Value, count: int) -> Value:
        if isinstance(value, float | str):
            return value
        texts = self.table.spread(value)
        code = int(np.broadcast_to(texts.codes, self.n)[count])
        number = float(np.broadcast_to(texts.numbers, self.n)[count])
        return self.table.texts[code] if code >= 0 else number


VALUES: dict[type[Node], Callable[[Interpreter, Any], Value]] = {
    Number: lambda self, node: node.value,
    Text: lambda self, node: node.value,
    Variable: lambda self, node: self.variable(node),
    Sum: Interpreter.sum,
    Product: Interpreter.product,
    Power: Interpreter.power,
    Negative: lambda self, node: -self.number(node.operand),
    Call: Interpreter.call,
    Reference: Interpreter.reference,
    Block: Interpreter.block,
}
CONDITIONS: dict[type[Node], Callable[[Interpreter, Any], Mask]] = {
    Truth: lambda self, node: node.value,
    Comparison: Interpreter.compare,
    Match: Interpreter.match,
    Not: lambda self, node: negate(self.truth(node.operand)),
    Chain: Interpreter.chain,
}
STATEMENTS: dict[type[Node], Callable[[Interpreter, Any], None]] = {
    Assignment: lambda self, node: self.assign(node),
    If: Interpreter.choose,
    While: Interpreter.repeat,
    Declaration: Interpreter.declare,
    Setting: Interpreter.set_metric,
}
COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    "==": lambda x, y: x == y,
    "!=": lambda x, y: x != y,
    "<": lambda x, y: x < y,
    ">": lambda x, y: x > y,
    "<=": lambda x, y: x <= y,
    ">=": lambda x, y: x >= y,
}
