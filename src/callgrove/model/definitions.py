"""Metrics that a user defines: `ipc = instructions / cycles`.

Specification: analysis.md part 3. The functions and operators are those of `callgrove.model.formulas`.

    definition     name [unit] = formula           [unit] only says what to call the unit
    name           a word, or any text in backquotes: `CPUTIME (sec)`; in such a text, `` stands for a backquote
    a              a metric: in the scope of the cell, of all that the cell stands for
    $3  @3         the metric with id 3 of the file, and total() of it
    excl(x)        x of exclusive values, whatever the scope of the cell; incl(x): of inclusive ones
    total(x)       x of the inclusive values at the roots
    profiles.max(a)           over the chosen profiles; also mean, min, std and count (of those that have any)
    each(x)        x for every context and profile, added up afterwards; each_incl(x): of inclusive values

    define(metrics, "ipc = instructions / cycles") -> Metric
    read_formula(metrics, "instructions / cycles") -> Formula        its tree, and what is known of its values

Names are exact; else the only one that differs in nothing but case, or in nothing but a unit in brackets at its end
(CPUTIME is `CPUTIME (sec)`). Units are carried along: adding seconds to counts is an error at the operator.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

from callgrove.arrays import Floats
from callgrove.errors import UsageError
from callgrove.model.derived import STATISTICS, Cells, Derivation, When, derive_metric
from callgrove.model.formulas import (
    ARITIES,
    MAX_TEXT,
    NUMBER,
    OPERATORS,
    PRECEDENCES,
    WORD,
    Call,
    Expression,
    Number,
    Operand,
    OverProfiles,
    Parser,
    Total,
    arity_words,
    compute,
    fold,
    postorder,
    quote_name,
    takes,
)
from callgrove.model.metrics import Aggregation, Metric, Metrics, Scope
from callgrove.model.unit_algebra import Unit, factor_between

if TYPE_CHECKING:
    from callgrove.model.experiment import Experiment

__all__ = [
    "DefinitionError",
    "Formula",
    "UserFormula",
    "define",
    "find_defined_name",
    "is_definition",
    "read_formula",
    "show_excerpt",
    "with_metric",
]

SHOWN = 80  # characters of a text that an error shows
LONGEST_NAME = 1000  # characters
MOST_LEVELS = 50  # of formulas over formulas, which are evaluated one in the other
SCOPES = {"excl": Scope.EXCLUSIVE, "incl": Scope.INCLUSIVE}
EACH = {"each": When.EACH, "each_incl": When.EACH_INCLUSIVE}
OVER_PROFILES = {f"profiles.{statistic}": statistic for statistic in STATISTICS}
FUNCTIONS = (*(name for name in ARITIES if name not in PRECEDENCES), *SCOPES, "total", *EACH, *OVER_PROFILES)
SAME_UNIT = {"+": "add", "-": "subtract", "sum": "add", "min": "compare", "max": "compare"}
WITHOUT_UNIT = ("ln", "log", "exp")

Nested = dict[tuple[str, Scope | None], Floats]  # values of formulas, by quantity and scope


class DefinitionError(UsageError):
    """A text that defines no metric: what is wrong, and at which character of the text, counted from 1."""

    def __init__(self, before: str, text: str, position: int, after: str = "") -> None:
        super().__init__(f"{before} at character {position + 1} of {show_excerpt(text, position)}{after}")
        self.before, self.text, self.position, self.after = before, text, position, after

    def __reduce__(self) -> tuple[object, ...]:
        return DefinitionError, (self.before, self.text, self.position, self.after)


def show_excerpt(text: str, position: int) -> str:
    """Return a text as an error shows it: of a long one, what stands around a character."""
    if len(text) <= SHOWN:
        return repr(text)
    start = max(0, position - SHOWN // 2)
    return repr(f"{'...' * (start > 0)}{text[start : position + SHOWN // 2]}...")


# -- formulas over metrics ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class UserFormula(Derivation):
    """A formula of a user. `tree` names metrics exactly; so does `text`, which can be read again."""

    language: ClassVar[str] = "callgrove"
    text: str
    when: When
    tree: Expression

    @property
    def operands(self) -> tuple[str, ...]:
        """The quantities that it names, each once."""
        named = (n.quantity for n in postorder(self.tree) if isinstance(n, (Operand, Total, OverProfiles)))
        return tuple(dict.fromkeys(named))

    @cached_property
    def is_linear(self) -> bool:
        """Whether it is a sum of constant multiples of its operands, all in the scope of the cell."""
        return self.when == When.AFTER and fold(self.tree, _degree) == 1

    def evaluate(self, cells: Cells) -> Floats | float:
        """Return the value in each cell; NaN is not a value. Inside of each(...), another formula of a user counts as
        if its text stood there: 0/0 is 0 in both."""
        return self._compute(cells, None, None if self.when == When.AFTER else {})

    def _compute(self, cells: Cells, scope: Scope | None, nested: Nested | None) -> Floats:
        """Return the value of the tree in a scope; `nested` are formulas inside of each(...) that have been computed,
        each of them once however many name it."""

        def look_up(leaf: Expression) -> Floats:
            if isinstance(leaf, Total):
                return cells.total(leaf.quantity)
            assert isinstance(leaf, (Operand, OverProfiles))
            key = leaf.quantity, leaf.scope or scope
            if isinstance(leaf, OverProfiles):
                return cells.over_profiles(leaf.statistic, *key)
            formula = None if nested is None else cells.values.metrics.first(leaf.quantity).derivation
            if nested is None or not isinstance(formula, UserFormula) or formula.when != When.AFTER:
                return cells.of(*key)
            if key not in nested:
                nested[key] = formula._compute(cells, key[1], nested)
            return nested[key]

        numbers: Floats = compute(self.tree, look_up, in_each=nested is not None)
        return numbers


def _degree(node: Expression, args: Sequence[int]) -> int:
    """Return 0 for a constant, 1 for a sum of multiples of operands, 2 for all else."""
    if not isinstance(node, Call):
        return 0 if isinstance(node, Number) else 1 if isinstance(node, Operand) and node.scope is None else 2
    if not any(args):
        return 0
    if node.name in ("+", "-", "sum", "neg"):
        return 1 if set(args) == {1} else 2
    if node.name == "*":
        return 1 if sorted(args) == [0, 1] else 2
    is_fraction = node.name == "/" and tuple(args) == (1, 0)
    return 1 if is_fraction and _constant(node.args[1]) not in (0.0, None) else 2


def _constant(tree: Expression) -> float | None:
    """Return the value of a tree of numbers; None where it has none."""
    if any(not isinstance(node, (Number, Call)) for node in postorder(tree)):
        return None
    value = float(compute(tree, lambda leaf: leaf))
    return value if math.isfinite(value) else None


# -- names of metrics --------------------------------------------------------------------------------------------------


class Names:
    """What a formula may call the metrics that there are."""

    def __init__(self, metrics: Metrics) -> None:
        self.metrics = metrics
        self.exact = dict.fromkeys(metrics.quantities)

    def find(self, name: str) -> list[str]:
        """Return the metrics that a name fits: one, none or, where it is not clear, several."""
        if name in self.exact:
            return [name]
        same: Sequence[Callable[[str], str]] = (str.lower, lambda text: _without_unit(text.lower()))
        for spelled in same:
            if fitting := [known for known in self.exact if spelled(known) == spelled(name)]:
                return fitting
        return []

    def find_near(self, name: str, more: Iterable[str] = ()) -> str:
        """Return the nearest names as a question; nothing where none is near."""
        from difflib import get_close_matches  # for errors only

        known = {**{text.lower(): quote_name(text) for text in reversed(self.exact)}, **{text: text for text in more}}
        near = get_close_matches(name.lower()[:SHOWN], list(known), 2, 0.5)
        near += [text for text in known if text.startswith(f"{name.lower()} ") and text not in near][:1]
        return f"; did you mean {' or '.join(repr(known[text]) for text in near)}?" if near else ""

    def find_by_id(self, number: int) -> list[Metric]:
        """Return the rows with an id of the file: of its formulas, where these have ids of their own."""
        ids = ((row.source_id if row.summary_id is None else row.summary_id, row) for row in self.metrics)
        return [row for id_, row in ids if id_ == number]


def _without_unit(name: str) -> str:
    return re.sub(r" ?\([^()]*\)$", "", name)


# -- from text to a formula --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Term:
    """A part of a formula. `unit` is None for constants, which take any."""

    tree: Expression
    unit: Unit | None
    position: int
    when: When = When.AFTER


@dataclass(frozen=True)
class Formula:
    """A formula and what its values are: their unit, and whether they add up."""

    derivation: UserFormula
    unit: str
    adds_up: bool


class _Reader(Parser[Term]):
    """Reads formulas over metrics; `later` are names that are defined, but not before this formula."""

    operand_words = "a number, a metric, a function or '('"
    tokens = re.compile(
        rf"\s*+(?:{NUMBER}|\$(?P<id>-?[0-9]{{1,18}}+)(?![0-9])|@(?P<total>-?[0-9]{{1,18}}+)(?![0-9])"
        rf"|(?P<function>{WORD.pattern})\s*+\(|(?P<word>{WORD.pattern})|`(?P<quoted>(?:[^`]|``)++)`|{OPERATORS})",
        re.DOTALL,
    )

    def __init__(self, text: str, metrics: Metrics, later: Collection[str] = ()) -> None:
        super().__init__(text)
        self.names = Names(metrics)
        self.later = later
        self.spelled: list[tuple[int, int, str]] = []  # names that the text has in other words

    def fail(self, what: str, position: int | None = None, hint: str = "") -> DefinitionError:
        return DefinitionError(what, self.text, self.position if position is None else position, hint)

    def error(self, expected: str) -> DefinitionError:
        return self.fail(f"expected {expected}")

    def read(self, start: int) -> Formula:
        """Return the formula from a character of the text on."""
        term = self.run(start)
        text = self._spell_names(start).strip()
        formula = UserFormula(text, term.when, term.tree)
        rows = [self.names.metrics.first(name) for name in formula.operands]
        return Formula(formula, str(term.unit or ""), all(row.aggregation == Aggregation.SUM for row in rows))

    def _spell_names(self, start: int) -> str:
        """Return the text with the exact names of metrics, so that it says the same where there are others."""
        pieces, at = [], start
        for begin, end, name in self.spelled:
            pieces += [self.text[at:begin], name]
            at = end
        return "".join([*pieces, self.text[at:]])

    # Leaves.

    def leaf(self, kind: str, word: str) -> Term:
        if kind == "number":
            return Term(self.read_number(word), None, self.position)
        if kind in ("id", "total"):
            return self._by_id(int(word), is_total=kind == "total")
        name = word.replace("``", "`") if kind == "quoted" else word
        return self._operand_named(name, len(word) + 2 * (kind == "quoted"), kind == "quoted")

    def _operand_named(self, name: str, length: int, is_quoted: bool) -> Term:
        self.position -= is_quoted
        fitting = self.names.find(name)
        if len(fitting) > 1:
            raise self.fail(f"{name!r} fits {' and '.join(map(repr, fitting[:5]))}", hint="; name one of them")
        if not fitting and name in self.later:
            raise self.fail(f"{name!r}", hint=" is defined only later; a formula can use metrics that come before it")
        if not fitting:
            raise self.fail(f"there is no metric {name!r}", hint=self.names.find_near(name))
        if fitting[0] != name:
            self.spelled.append((self.position, self.position + length, quote_name(fitting[0])))
        return self._use(fitting[0])

    def _by_id(self, number: int, is_total: bool) -> Term:
        mark = "@" if is_total else "$"
        self.position -= 1
        rows = self.names.find_by_id(number)
        if not rows:
            known = sorted(
                {id_ for row in self.names.metrics for id_ in (row.summary_id, row.source_id) if id_ is not None}
            )
            range_ = f"; ids are {known[0]} to {known[-1]}" if known else "; metrics of this input have no ids"
            raise self.fail(f"there is no metric with id {number}", hint=range_)
        row = rows[0]
        if row.statistic:
            raise self.fail(f"id {number} is {row.statistic} of {row.name} over threads, no metric,")
        allowed = row.id_of_quantity or is_total or row.scope in (Scope.EXCLUSIVE, Scope.INCLUSIVE, Scope.NONE)
        if not allowed:
            hint = f"; {quote_name(row.name)} in the scope of the cell is not the same"
            raise self.fail(f"id {number} is {row.label}, a scope that formulas do not have,", hint=hint)
        scope = None if row.id_of_quantity or row.scope == Scope.NONE else row.scope
        name = quote_name(row.name)
        words = {Scope.EXCLUSIVE: f"excl({name})", Scope.INCLUSIVE: f"incl({name})"}
        spelled = f"total({name})" if is_total else name if scope is None else words[scope]
        self.spelled.append((self.position, self.position + len(f"{mark}{number}"), spelled))
        return self._use(row.name, scope, is_total)

    def _use(self, quantity: str, scope: Scope | None = None, is_total: bool = False) -> Term:
        """Return a metric as a part of a formula, in the scope of the function around it. Its values must be known, and
        plain numbers."""
        metric = self.names.metrics.first(quantity)
        if metric.composite is not None:
            raise self.fail(f"{metric.name!r} has composite values ({metric.dtype}), which formulas cannot use,")
        self.names.metrics.require_values(metric.name)
        unit = Unit.parse(metric.unit)
        if not is_total and not self._enclosing("total"):
            return Term(Operand(quantity, scope or SCOPES.get(self._enclosing(*SCOPES))), unit, self.position)
        if metric.aggregation == Aggregation.NONE:
            raise self.fail(f"{quantity!r}", hint=" does not add up: it has no total")
        return Term(Total(quantity), unit, self.position)

    # Functions and operators.

    def check_function(self, name: str) -> None:
        if name not in FUNCTIONS:
            raise self.fail(f"there is no function {name!r}", hint=self.names.find_near(name, FUNCTIONS))

    def apply(self, name: str, args: tuple[Term, ...], position: int) -> Term:
        for term in args:
            if term.when != When.AFTER:
                hint = "; define it as a metric by itself, and use that one"
                raise self.fail("each(...) must be a whole formula", term.position, hint)
        if name in SCOPES or name in EACH or name in OVER_PROFILES or name == "total":
            if len(args) != 1:
                raise self.error(f"{name} with 1 argument, not {len(args)},")
            if name in OVER_PROFILES:
                return self._over_profiles(name, args[0], position)
            return replace(args[0], when=EACH.get(name, When.AFTER), position=position)
        if name == "negative" and isinstance(args[0].tree, Number):
            return replace(args[0], tree=Number(-args[0].tree.value), position=position)
        name = "neg" if name == "negative" else name
        if not takes(name, len(args)):
            raise self.error(f"{name} with {arity_words(name)}, not {len(args)},")
        args, unit = self._units(name, args, position)
        return Term(Call(name, tuple(term.tree for term in args)), unit, position)

    def _over_profiles(self, name: str, term: Term, position: int) -> Term:
        if self._enclosing("total"):
            raise self.fail("a statistic over profiles has no total", position)
        if not isinstance(term.tree, Operand):
            raise self.fail(f"{name} takes a metric", position, "; define what is in its brackets as one before")
        tree = OverProfiles(OVER_PROFILES[name], term.tree.quantity, term.tree.scope)
        return Term(tree, Unit() if tree.statistic == "count" else term.unit, position)

    def _enclosing(self, *names: str) -> str:
        """Return the innermost of some functions in whose brackets the token in hand is; empty where it is in none."""
        return next((waiting.name for waiting in reversed(self.waiting) if waiting.name in names), "")

    # Units.

    def _units(self, name: str, args: tuple[Term, ...], position: int) -> tuple[tuple[Term, ...], Unit | None]:
        """Return arguments in units that fit one another, and the unit of the result."""
        if name in SAME_UNIT:
            return self._convert(name, args, position)
        if all(term.unit is None for term in args):
            return args, None
        units = [term.unit or Unit() for term in args]
        if name == "*":
            return args, units[0] * units[1]
        if name == "/":
            return args, units[0] / units[1]
        if name == "^":
            return args, self._power(args, units, position)
        return args, Unit() if name in WITHOUT_UNIT else units[0].to_power(0.5) if name == "sqrt" else units[0]

    def _convert(self, name: str, args: tuple[Term, ...], position: int) -> tuple[tuple[Term, ...], Unit | None]:
        """Return arguments in the unit of the first one that has any; times are converted."""
        wanted = next((term.unit for term in args if term.unit is not None), None)
        if wanted is None:
            return args, None
        converted = []
        for term in args:
            factor = 1.0 if term.unit is None else factor_between(wanted, term.unit)
            if factor is None:
                pair = " and ".join(str(unit) or "a number without unit" for unit in (wanted, term.unit))
                raise self.fail(f"cannot {SAME_UNIT[name]} {pair}", position)
            tree = term.tree if factor == 1 else Call("*", (Number(factor), term.tree))
            converted.append(replace(term, tree=tree))
        return tuple(converted), wanted

    def _power(self, args: tuple[Term, ...], units: Sequence[Unit], position: int) -> Unit:
        if units[1].powers:
            raise self.fail(f"cannot raise to a power in {units[1]}", position)
        if not units[0].powers:
            return Unit()
        exponent = _constant(args[1].tree)
        if exponent is None or abs(exponent) > SHOWN:
            raise self.fail(f"a power of {units[0]} needs a number on its right", position)
        return units[0].to_power(exponent)


def read_formula(metrics: Metrics, text: str) -> Formula:
    """Return the formula that a text holds, without the name of a metric. Raises DefinitionError."""
    return _Reader(text, metrics).read(0)


# -- from text to a metric ---------------------------------------------------------------------------------------------


HEAD = re.compile(rf"\s*+(?:(?P<word>{WORD.pattern})|`(?P<quoted>(?:[^`]|``)++)`)?\s*+(?:\[(?P<unit>[^\]]*)\])?\s*+")


def is_definition(metrics: Metrics, text: str) -> bool:
    """Return whether a text that names a metric defines one: it has a `=`, and is not a name as it stands."""
    return "=" in text and text not in metrics.quantities


def find_defined_name(text: str) -> str:
    """Return the name that a definition gives to its metric; empty where it gives none."""
    head = HEAD.match(text[:MAX_TEXT])
    if head is None or text[head.end() : head.end() + 1] != "=":
        return ""
    return head["word"] or (head["quoted"] or "").replace("``", "`")


def is_too_deep(metrics: Metrics, operands: Collection[str]) -> bool:
    """Return whether metrics are computed from others, these from others, and so on, over more levels than can be
    evaluated."""
    level = set(operands)
    for _ in range(MOST_LEVELS):
        formulas = [metrics.first(name).derivation for name in level if name in metrics.derived]
        level = {name for formula in formulas if formula is not None for name in formula.operands}
    return bool(level)


def define(metrics: Metrics, text: str, later: Collection[str] = ()) -> Metric:
    """Return the metric that a text such as `ipc [ins/cycle] = instructions / cycles` defines. `later` are names that
    other texts define after it. Raises DefinitionError."""
    reader = _Reader(text, metrics, later)
    head = HEAD.match(text)
    assert head is not None
    name = (head["word"] or (head["quoted"] or "").replace("``", "`")).strip()
    if not name:
        raise reader.fail("expected the name of a metric", len(text) - len(text.lstrip()))
    at = head.start("word") if head["word"] else head.start("quoted") - 1
    if name in metrics.quantities:
        already = "defined" if metrics.first(name).is_derived else "measured"
        raise DefinitionError(f"{name!r}", text, at, f" is {already} already")
    if captured := _find_captured(reader.names, name):
        hint = f" already names the measured metric {captured!r}, in other words; choose another name"
        raise DefinitionError(f"{name!r}", text, at, hint)
    if len(name) > LONGEST_NAME or not name.isprintable():
        raise reader.fail("expected a name of printable characters, not too many,", at)
    if text[head.end() : head.end() + 1] != "=":
        raise reader.fail("expected '='", head.end())
    formula = reader.read(head.end() + 1)
    if is_too_deep(metrics, formula.derivation.operands):
        raise reader.fail(f"formulas over formulas are more than {MOST_LEVELS} levels deep", at)
    unit = formula.unit if head["unit"] is None else head["unit"].strip()
    return derive_metric(name, formula.derivation, Metric(name, Scope.NONE, unit), formula.adds_up)


def _find_captured(names: Names, name: str) -> str:
    """Return the measured metric that a name stands for so far, by its case or without its unit in brackets, and that
    would no longer be meant by it; empty where there is none, or more than one."""
    fitting = names.find(name)
    if len(fitting) != 1 or names.metrics.first(fitting[0]).is_derived:
        return ""
    known = fitting[0].lower()
    return fitting[0] if name.lower() in (known, _without_unit(known)) else ""


def with_metric(experiment: Experiment, *definitions: str) -> Experiment:
    """Return an experiment with further metrics, each of which may use those before it. Nothing is computed yet."""
    from callgrove.model.experiment import replace_metrics  # which knows metrics

    for text in definitions:
        if not isinstance(text, str):
            raise UsageError(f"a metric is defined by a text like 'ipc = instructions / cycles', not by {text!r:.80}")
    metrics, names = experiment.metrics, [find_defined_name(text) for text in definitions]
    for number, text in enumerate(definitions):
        metrics = replace(metrics, rows=(*metrics.rows, define(metrics, text, names[number:])))
    return replace_metrics(experiment, metrics)
