"""Formulas over metrics: their trees, their text, and their values.

Specification: the formula grammar of hpctoolkit-databases.md A.5 and B.2, which also serves other formats.

    number         1   .5   1e-06
    $id            the column with that id; displayed columns have negative ids ($-3)
    $$             the value of one thread, in formulas that make summaries
    + - * / ^      ^ binds tightest and to the right: -2^2 is -4, 2^3^2 is 512
    -x  (x)        negation, grouping
    f(x, ...)      sqrt ln exp abs floor ceil take one argument, log(x, base) two, min max sum any number

    parse(text) -> Expression -> evaluate(expression, columns), render(expression)

A formula is a tree of Number, Variable and Call: $1 - -(2) is Call("-", (Variable(1), Call("neg", (Number(2),)))).
Formulas of users name metrics instead of columns (`callgrove.model.definitions`): their leaves are Operand, Total and
OverProfiles.

NaN is "no value": x/0, 0^-1, the logarithm of what is not positive and the root of a negative number have none, and
what is computed from no value has none. Columns are computed as doubles, also where they hold integers.

Deviations: log(x) with one argument is the natural logarithm, as HPCToolkit's METRICS document says.
"""

from __future__ import annotations

import math
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

import numpy as np

from callgrove.arrays import Array, Floats
from callgrove.model.metrics import Scope

__all__ = [
    "ARITIES",
    "MAX_NESTING",
    "MAX_TEXT",
    "OPERATORS",
    "PRECEDENCES",
    "THREAD_VALUE",
    "WORD",
    "Call",
    "Expression",
    "FormulaError",
    "Number",
    "Operand",
    "OverProfiles",
    "Parser",
    "Total",
    "Variable",
    "arity_words",
    "compute",
    "evaluate",
    "fold",
    "parse",
    "postorder",
    "quote_name",
    "render",
    "renumber",
    "takes",
]


# -- formula trees -----------------------------------------------------------------------------------------------------
# Operators are calls named "+", "-", "*", "/", "^" and "neg". Long sums make deep trees, so nothing here recurses.


MANY = 1_000_000_000
ARITIES: Mapping[str, tuple[int, int]] = {
    **dict.fromkeys(("+", "-", "*", "/", "^"), (2, 2)),
    **dict.fromkeys(("neg", "sqrt", "ln", "exp", "abs", "floor", "ceil"), (1, 1)),
    **dict.fromkeys(("min", "max", "sum"), (1, MANY)),
    "log": (1, 2),
}
PRECEDENCES: Mapping[str, int] = {"+": 1, "-": 1, "*": 2, "/": 2, "neg": 3, "^": 4}
ATOM = 5  # binds tighter than every operator

T = TypeVar("T")


class Expression:
    """A formula as a tree: a Call of others, or one of the leaves Number, Variable, Operand, Total, OverProfiles."""

    __slots__ = ()

    def variables(self) -> frozenset[int]:
        """Return the ids of the columns it needs; `$$` has none."""
        leaves = (node for node in postorder(self) if isinstance(node, Variable))
        return frozenset(leaf.id for leaf in leaves if leaf.id is not None)


@dataclass(frozen=True, slots=True)
class Number(Expression):
    """A constant, finite."""

    value: float

    def __post_init__(self) -> None:
        if not math.isfinite(self.value):
            raise ValueError(f"a formula cannot hold the number {self.value}")


@dataclass(frozen=True, slots=True)
class Variable(Expression):
    """The column with this id, or with None the value of one thread (`$$`)."""

    id: int | None


THREAD_VALUE = Variable(None)


@dataclass(frozen=True, slots=True)
class Operand(Expression):
    """A metric, in the scope of the cell or in the scope named (exclusive or inclusive)."""

    quantity: str
    scope: Scope | None = None


@dataclass(frozen=True, slots=True)
class Total(Expression):
    """The inclusive value of a metric at the roots, over the profiles of the cell."""

    quantity: str


@dataclass(frozen=True, slots=True)
class OverProfiles(Expression):
    """A statistic of a metric over all chosen profiles (mean, max, min, std, count), in the scope of the cell or in the
    scope named."""

    statistic: str
    quantity: str
    scope: Scope | None = None


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Call(Expression):
    """An operator or function applied to its arguments."""

    name: str
    args: tuple[Expression, ...]

    def __post_init__(self) -> None:
        if self.name not in ARITIES:
            raise ValueError(f"there is no function {self.name!r} in formulas")
        if not takes(self.name, len(self.args)):
            raise ValueError(f"{self.name} takes {arity_words(self.name)}, not {len(self.args)}")

    # The generated methods would recurse, and fail on long sums.
    def __eq__(self, other: object) -> bool:
        return isinstance(other, Call) and (self is other or _postfix(self) == _postfix(other))

    def __hash__(self) -> int:
        return hash(_postfix(self))

    def __repr__(self) -> str:
        return f"parse({render(self)!r})"

    def __reduce__(self) -> tuple[object, ...]:
        return _from_postfix, (_postfix(self),)


def takes(name: str, n_args: int) -> bool:
    """Return whether a function can be called with that many arguments."""
    least, most = ARITIES[name]
    return least <= n_args <= most


def arity_words(name: str) -> str:
    """Return how many arguments a function takes, in words."""
    least, most = ARITIES[name]
    if most == MANY:
        return f"at least {least} argument"
    return f"{least} argument{'s' * (least > 1)}" if least == most else f"{least} or {most} arguments"


def postorder(expression: Expression) -> list[Expression]:
    """Return every node after its arguments."""
    reverse: list[Expression] = []
    stack = [expression]
    while stack:
        node = stack.pop()
        reverse.append(node)
        if isinstance(node, Call):
            stack.extend(node.args)
    return reverse[::-1]


def fold(expression: Expression, combine: Callable[[Expression, Sequence[T]], T]) -> T:
    """Replace each node by a value made from the values of its arguments."""
    values: list[T] = []
    for node in postorder(expression):
        first = len(values) - (len(node.args) if isinstance(node, Call) else 0)
        values[first:] = [combine(node, values[first:])]
    return values[0]


def _postfix(expression: Expression) -> tuple[Expression | tuple[str, int], ...]:
    """Return the tree without nesting: leaves, and (name, number of arguments) for calls."""
    return tuple((n.name, len(n.args)) if isinstance(n, Call) else n for n in postorder(expression))


def _from_postfix(tokens: Sequence[Expression | tuple[str, int]]) -> Expression:
    values: list[Expression] = []
    for token in tokens:
        if isinstance(token, Expression):
            values.append(token)
        else:
            name, n_args = token
            first = len(values) - n_args
            values[first:] = [Call(name, tuple(values[first:]))]
    return values[0]


def renumber(expression: Expression, ids: Mapping[int, int]) -> Expression:
    """Return a formula over other ids; a KeyError names the id that has no new one."""

    def combine(node: Expression, args: Sequence[Expression]) -> Expression:
        if isinstance(node, Call):
            return Call(node.name, tuple(args))
        return Variable(ids[node.id]) if isinstance(node, Variable) and node.id is not None else node

    return fold(expression, combine)


# -- from a tree to its text -------------------------------------------------------------------------------------------


def render(expression: Expression) -> str:
    """Return text that parses back to an equal tree, with as few brackets as that allows."""
    return fold(expression, _render_node)[0]


def _render_node(node: Expression, args: Sequence[tuple[str, int]]) -> tuple[str, int]:
    """Return the text of a node and how tightly it binds."""
    if isinstance(node, Number):
        text = repr(float(node.value)).removesuffix(".0")
        return text, PRECEDENCES["neg"] if text.startswith("-") else ATOM
    if not isinstance(node, Call):
        return _render_leaf(node), ATOM
    precedence = PRECEDENCES.get(node.name)
    if precedence is None:
        return f"{node.name}({', '.join(text for text, _ in args)})", ATOM
    if node.name == "neg":
        # "-2" is a negative number, "-(2)" the negation of a number.
        least = ATOM + 1 if isinstance(node.args[0], Number) else precedence
        return "-" + _bracket(args[0], least), precedence
    right_first = node.name == "^"
    left = _bracket(args[0], precedence + right_first)
    right = _bracket(args[1], precedence + (not right_first))
    return left + node.name + right, precedence


def _render_leaf(node: Expression) -> str:
    if isinstance(node, Operand):
        return _in_scope(quote_name(node.quantity), node.scope)
    if isinstance(node, Total):
        return f"total({quote_name(node.quantity)})"
    if isinstance(node, OverProfiles):
        return f"profiles.{node.statistic}({_in_scope(quote_name(node.quantity), node.scope)})"
    assert isinstance(node, Variable)
    return "$$" if node.id is None else f"${node.id}"


def _in_scope(text: str, scope: Scope | None) -> str:
    words = {Scope.EXCLUSIVE: "excl", Scope.INCLUSIVE: "incl"}
    return text if scope is None else f"{words[scope]}({text})"


def quote_name(name: str) -> str:
    """Return how a formula names a metric: a word as it is, anything else in backquotes."""
    if WORD.fullmatch(name):
        return name
    doubled = name.replace("`", "``")
    return f"`{doubled}`"


def _bracket(part: tuple[str, int], least: int) -> str:
    text, precedence = part
    return text if precedence >= least else f"({text})"


# -- from text to a tree -----------------------------------------------------------------------------------------------


MAX_NESTING = 200  # open brackets, calls and operators that wait for their right side
MAX_TEXT = 64 * 1024  # characters
WORD = re.compile(r"[^\W\d][\w.:]*+")  # a name that needs no backquotes

_NUMBER_FOLLOWS = re.compile(r"[ \t\r\n]*+[0-9.]")
NUMBER = r"(?P<number>(?:[0-9]++(?:\.[0-9]*+)?+|\.[0-9]++)(?:[eE][+-]?[0-9]++)?)"
OPERATORS = r"(?P<operator>[-+*/^])|(?P<bracket>[(),])|(?P<end>\Z)|(?P<other>.)"  # one of them matches everywhere


class FormulaError(ValueError):
    """A text that is not a formula: what was expected, and where."""

    def __init__(self, text: str, position: int, expected: str) -> None:
        super().__init__(text, position, expected)
        self.text = text
        self.position = position
        self.expected = expected

    def __str__(self) -> str:
        start = max(0, self.position - 20)
        excerpt = self.text[start : self.position + 20]
        return f"formula: expected {self.expected} at character {self.position + 1}, near {excerpt!r}"


def parse(text: str) -> Expression:
    """Return the tree of a stored formula."""
    return _StoredFormula(text).run()


class _Waiting(NamedTuple):
    """An operator that waits for its right side, or a bracket that waits for its end."""

    name: str  # "(", a function, an operator; "negative" for the sign of a number
    precedence: int  # 0 for brackets: no operator reaches past them
    n_operands: int  # how many operands there were before it
    position: int


class Parser(ABC, Generic[T]):
    """Operator precedence with two stacks: operands, and what waits for operands.

    A language says how its tokens look, what its leaves are and what becomes of operands. Tokens of `tokens` are named
    groups: number, function (before its bracket), operator, bracket, end, other; all else are leaves.
    """

    tokens: ClassVar[re.Pattern[str]]
    operand_words: ClassVar[str]  # what may stand where an operand begins

    def __init__(self, text: str) -> None:
        self.text = text
        self.position = 0  # of the token in hand
        self.operands: list[T] = []
        self.waiting: list[_Waiting] = []
        if len(text) > MAX_TEXT:
            self.position = MAX_TEXT
            raise self.error(f"a formula of at most {MAX_TEXT} characters")

    @abstractmethod
    def error(self, expected: str) -> Exception:
        """Return an error at the token in hand."""

    @abstractmethod
    def leaf(self, kind: str, word: str) -> T:
        """Return what a token stands for that is not an operator, bracket or function."""

    @abstractmethod
    def check_function(self, name: str) -> None:
        """Raise an error where there is no such function."""

    @abstractmethod
    def apply(self, name: str, args: tuple[T, ...], position: int) -> T:
        """Return an operator ("neg" is negation, "negative" the sign of a number) or a function of its arguments."""

    def run(self, after: int = 0) -> T:
        """Return what the text from a character on comes to."""
        wants_operand = True
        while True:
            token = self.tokens.match(self.text, after)
            assert token is not None
            kind = token.lastgroup or "other"
            word, after = token[kind], token.end()
            self.position = token.start(kind)
            wants_operand = self._operand(kind, word, after) if wants_operand else self._operator(kind, word)
            if kind == "end":
                return self.operands[0]

    def _push(self, name: str, precedence: int) -> None:
        if len(self.waiting) >= MAX_NESTING:
            raise self.error(f"at most {MAX_NESTING} levels of nesting")
        self.waiting.append(_Waiting(name, precedence, len(self.operands), self.position))

    def _operand(self, kind: str, word: str, after: int) -> bool:
        """Take a token where an operand begins; whether one is still wanted."""
        if kind == "function":
            self.check_function(word)
            self._push(word, 0)
        elif word == "(":
            self._push(word, 0)
        elif word == "-":
            is_sign = _NUMBER_FOLLOWS.match(self.text, after)
            self._push("negative" if is_sign else "neg", PRECEDENCES["neg"])
        elif kind in ("operator", "bracket", "end", "other"):
            raise self.error(self.operand_words)
        else:
            self.operands.append(self.leaf(kind, word))
        return kind in ("function", "bracket", "operator")

    def read_number(self, word: str) -> Number:
        """Return a number that a double can hold."""
        value = float(word)
        if math.isinf(value):
            raise self.error("a number in the range of a double")
        return Number(value)

    def _operator(self, kind: str, word: str) -> bool:
        """Take a token after an operand; whether it wants another one."""
        if kind == "operator":
            # All operators but ^ bind to the left: what binds as tightly is complete.
            self._complete(PRECEDENCES[word] + (word == "^"))
            self._push(word, PRECEDENCES[word])
            return True
        if kind != "end" and word not in (",", ")"):
            raise self.error("an operator, ',', ')' or the end")
        self._complete(1)
        opened = self.waiting[-1].name if self.waiting else ""
        if word == "," and opened not in ("", "("):
            return True
        if word == ")" and opened:
            self._close(self.waiting.pop())
        elif kind != "end" or opened:
            raise self.error("')'" if opened else "an operator or the end")
        return False

    def _complete(self, precedence: int) -> None:
        """Apply the waiting operators that bind at least this tightly."""
        while self.waiting and self.waiting[-1].precedence >= precedence:
            operator = self.waiting.pop()
            first = len(self.operands) - (1 if operator.name in ("negative", "neg") else 2)
            self._replace_operands(first, operator)

    def _close(self, opened: _Waiting) -> None:
        if opened.name != "(":
            self._replace_operands(opened.n_operands, opened)

    def _replace_operands(self, first: int, operator: _Waiting) -> None:
        args = tuple(self.operands[first:])
        self.operands[first:] = [self.apply(operator.name, args, operator.position)]


class _StoredFormula(Parser[Expression]):
    """A formula over ids of columns, as files hold them."""

    operand_words = "a number, $id, $$, a function, '-' or '('"
    tokens = re.compile(
        rf"[ \t\r\n]*+(?:{NUMBER}|(?P<thread>\$\$)|\$(?P<id>-?[0-9]{{1,18}}+)(?![0-9])"
        rf"|(?P<function>[a-z]++)[ \t\r\n]*+\(|{OPERATORS})",
        re.DOTALL,
    )

    def error(self, expected: str) -> FormulaError:
        return FormulaError(self.text, self.position, expected)

    def leaf(self, kind: str, word: str) -> Expression:
        if kind == "number":
            return self.read_number(word)
        return THREAD_VALUE if kind == "thread" else Variable(int(word))

    def check_function(self, name: str) -> None:
        if name not in ARITIES or name in PRECEDENCES:
            raise self.error("a known function")

    def apply(self, name: str, args: tuple[Expression, ...], position: int) -> Expression:
        if name == "negative" and isinstance(args[0], Number):
            return Number(-args[0].value)
        if name == "negative":
            return Call("neg", args)
        if not takes(name, len(args)):
            raise self.error(f"{name} with {arity_words(name)}, not {len(args)},")
        return Call(name, args)


# -- values ------------------------------------------------------------------------------------------------------------


def evaluate(expression: Expression, columns: Mapping[int, Array], thread_values: Array | None = None) -> Floats:
    """Return the value of a formula for each element of its columns; `$$` is `thread_values`.

    Only the columns it names are looked up; a missing one is a KeyError. Shapes broadcast; a formula without
    columns gives a single number (zero dimensions).
    """
    if thread_values is None and THREAD_VALUE in postorder(expression):
        raise ValueError(f"the formula {render(expression)[:80]!r} needs the values of a thread")

    def look_up(leaf: Expression) -> Array | None:
        assert isinstance(leaf, Variable)
        return thread_values if leaf.id is None else columns[leaf.id]

    result = compute(expression, look_up)
    shape = np.shape(result) if thread_values is None else np.broadcast_shapes(np.shape(result), thread_values.shape)
    return np.array(np.broadcast_to(result, shape), dtype=np.float64)  # a copy: never an alias of a column


def compute(expression: Expression, look_up: Callable[[Expression], Any], in_each: bool = False) -> Any:
    """Return the value of a formula, whose leaves are numbers or what `look_up` gives; shapes broadcast. `in_each`:
    cells are added up afterwards, so that 0/0 is 0, where nothing happened."""
    functions = _IN_EACH if in_each else _FUNCTIONS

    def combine(node: Expression, args: Sequence[Any]) -> Any:
        if isinstance(node, Call):
            return functions[node.name](*args)
        return np.float64(node.value) if isinstance(node, Number) else np.asarray(look_up(node), np.float64)

    with np.errstate(all="ignore"):
        return fold(fold(expression, _nest_calls), combine)


def _nest_calls(node: Expression, args: Sequence[Expression]) -> Expression:
    """Return calls with at most two arguments, so that a sum of thousands does not hold thousands of columns at
    once."""
    if not isinstance(node, Call):
        return node
    first = args[0]
    for other in args[1:]:
        first = Call(node.name, (first, other))
    return first if len(args) > 1 else Call(node.name, (first,))


def _divide(x: Any, y: Any) -> Any:
    return np.where(y == 0, np.nan, np.divide(x, y))


def _divide_in_each(x: Any, y: Any) -> Any:
    return np.where((x == 0) & (y == 0), 0.0, _divide(x, y))


def _power(x: Any, y: Any) -> Any:
    # IEEE: 1^NaN and NaN^0 are 1; here no value stays no value.
    has_none = np.isnan(x) | np.isnan(y) | ((x == 0) & (y < 0))
    return np.where(has_none, np.nan, np.power(x, y))


def _log(x: Any, base: Any = None) -> Any:
    natural = np.where(x > 0, np.log(x), np.nan)
    return natural if base is None else _divide(natural, _log(base))


def _reduction(function: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    return lambda first, other=None: first if other is None else function(first, other)


_FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "+": np.add,
    "-": np.subtract,
    "*": np.multiply,
    "/": _divide,
    "^": _power,
    "neg": np.negative,
    "sqrt": np.sqrt,
    "ln": _log,
    "log": _log,
    "exp": np.exp,
    "abs": np.abs,
    "floor": np.floor,
    "ceil": np.ceil,
    "min": _reduction(np.minimum),
    "max": _reduction(np.maximum),
    "sum": _reduction(np.add),
}
_IN_EACH: Mapping[str, Callable[..., Any]] = {**_FUNCTIONS, "/": _divide_in_each}
