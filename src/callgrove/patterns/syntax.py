"""The grammar of patterns and conditions: a text becomes steps and tests, or an error that says where it is wrong.

    pattern    step { "->" step }                  main -> ** -> MPI_*[?time > 5%]
    step       name, * or **, and a [? condition ] behind it
    name       /regular expression/ or /.../i, "exactly this name", or a glob: * is any text, ? one character
    condition  tests joined by `and`, `or`, `not` and brackets
    test       leaf, root, value = value (also != < <= > >=), value ~ /.../ (also !~), value is [not] missing
    value      5, 5%, 2ms, 'text', a column, a metric, excl(metric), incl(metric); any name in backquotes

Nothing here knows which names there are: `conditions.py` and `matching.py` do, and say where in the text one is
unknown.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from callgrove.errors import UsageError
from callgrove.model.definitions import show_excerpt
from callgrove.model.formulas import NUMBER, WORD

__all__ = [
    "ColumnValue",
    "Comparison",
    "Joined",
    "Mark",
    "Missing",
    "NameMatch",
    "NameTest",
    "Negation",
    "NumberValue",
    "Pattern",
    "PatternError",
    "Step",
    "Test",
    "TextValue",
    "Value",
    "parse_condition",
    "parse_name",
    "parse_pattern",
]

MOST_STEPS = 64
LONGEST = 4096  # characters
MOST_LEVELS = 50  # of brackets and `not` in a condition
ARROW, OPENING = "->", "[?"


class PatternError(UsageError):
    """A text that is not a pattern or condition: what is wrong, and at which character, counted from 1."""

    def __init__(self, before: str, text: str, position: int, after: str = "", shows_text: bool = True) -> None:
        of = f" of {show_excerpt(text, position)}" if shows_text else ""
        super().__init__(f"{before} at character {position + 1}{of}{after}")
        self.shows_text = shows_text
        self.before, self.text, self.position, self.after = before, text, position, after

    def __reduce__(self) -> tuple[object, ...]:
        return PatternError, (self.before, self.text, self.position, self.after, self.shows_text)


@dataclass(frozen=True)
class NameTest:
    """What a name must be like; `kind` is "glob", "exact" or "regex"."""

    kind: str
    text: str
    position: int = 0
    ignores_case: bool = False


# -- conditions --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class NumberValue:
    """A number; `unit` is empty, "%" or the name of a unit."""

    position: int
    number: float
    unit: str = ""


@dataclass(frozen=True)
class TextValue:
    """A text in quotes."""

    position: int
    text: str


@dataclass(frozen=True)
class ColumnValue:
    """A column or a metric; `scope` is "excl", "incl" or, where nothing is said, empty."""

    position: int
    name: str
    scope: str = ""


Value = NumberValue | TextValue | ColumnValue


@dataclass(frozen=True)
class Joined:
    """Tests of which all must hold ("and"), or any ("or")."""

    position: int
    word: str
    parts: tuple[Test, ...]


@dataclass(frozen=True)
class Negation:
    """A test that must not hold."""

    position: int
    part: Test


@dataclass(frozen=True)
class Mark:
    """`leaf` or `root`."""

    position: int
    word: str


@dataclass(frozen=True)
class Comparison:
    """Two values, at least one of which is a column."""

    position: int
    sign: str
    left: Value
    right: Value


@dataclass(frozen=True)
class NameMatch:
    """A text that a regular expression finds something in, or with `negated` nothing."""

    position: int
    value: Value
    expression: NameTest
    negated: bool


@dataclass(frozen=True)
class Missing:
    """A value that is not there, or with `negated` one that is."""

    position: int
    value: Value
    negated: bool


Test = Joined | Negation | Mark | Comparison | NameMatch | Missing

SIGNS = ("=", "!=", "<", "<=", ">", ">=")
KEYWORDS = ("and", "or", "not", "leaf", "root", "is", "missing")
REGEX = re.compile(r"/([^/]*)/(i(?!\w))?")
TOKEN = re.compile(
    rf"{NUMBER}(?P<unit>%|[^\W\d]\w*+)?+|'(?P<text>(?:[^']|'')*+)'|`(?P<quoted>(?:[^`]|``)++)`"
    rf"|(?P<word>{WORD.pattern})|(?P<sign><=|>=|!=|!~|[=<>~()\]-])"
)


class _ConditionReader:
    """Takes the text of a condition from the left."""

    def __init__(self, text: str, at: int) -> None:
        self.text, self.at, self.depth = text, at, 0

    def fail(self, expected: str, after: str = "") -> PatternError:
        return PatternError(f"expected {expected}", self.text, self.at, after)

    def peek(self) -> re.Match[str] | None:
        """Return the next token; `at` is where it begins."""
        while self.at < len(self.text) and self.text[self.at].isspace():
            self.at += 1
        return TOKEN.match(self.text, self.at)

    def skip(self, *words: str) -> str:
        """Take one of these words or signs if it comes next, and return it; else an empty text."""
        token = self.peek()
        word = "" if token is None else token["word"] or token["sign"] or ""
        if word not in words:
            return ""
        self.at += len(word)
        return word

    def read_any(self) -> Test:
        return self._join("or", self.read_all)

    def read_all(self) -> Test:
        return self._join("and", self.read_negation)

    def _join(self, word: str, read: Callable[[], Test]) -> Test:
        parts = [read()]
        while self.skip(word):
            parts.append(read())
        return parts[0] if len(parts) == 1 else Joined(parts[0].position, word, tuple(parts))

    def read_negation(self) -> Test:
        self.peek()
        start = self.at
        self.depth += 1
        if self.depth > MOST_LEVELS:
            raise PatternError(f"brackets and `not` are nested more than {MOST_LEVELS} deep", self.text, self.at)
        test = Negation(start, self.read_negation()) if self.skip("not") else self.read_test()
        self.depth -= 1
        return test

    def read_test(self) -> Test:
        self.peek()
        start = self.at
        if self.skip("("):
            test = self.read_any()
            if not self.skip(")"):
                raise self.fail("')'")
            return test
        if word := self.skip("leaf", "root"):
            return Mark(start, word)
        value = self.read_value()
        if sign := self.skip(*SIGNS):
            return Comparison(start, sign, value, self.read_value())
        if sign := self.skip("~", "!~"):
            return NameMatch(start, value, self.read_expression(), sign == "!~")
        if self.skip("is"):
            negated = bool(self.skip("not"))
            if not self.skip("missing"):
                raise self.fail("'missing'" if negated else "'missing' or 'not missing'")
            return Missing(start, value, negated)
        self.peek()
        raise self.fail("=, !=, <, <=, >, >=, ~, !~ or 'is'")

    def read_value(self) -> Value:
        token, start = self.peek(), self.at
        negative = bool(self.skip("-"))
        token = self.peek() if negative else token
        if token is None or (negative and token["number"] is None):
            in_quotes = self.text.startswith('"', self.at)
            after = "; a text stands in single quotes, like 'main'" if in_quotes else ""
            raise self.fail("a number" if negative else "a value", after)
        if token["number"] is not None:
            self.at = token.end()
            return NumberValue(start, (-1 if negative else 1) * _number(token["number"]), token["unit"] or "")
        if token["text"] is not None:
            self.at = token.end()
            return TextValue(start, token["text"].replace("''", "'"))
        if token["word"] in ("excl", "incl") and self.text[token.end() :].lstrip().startswith("("):
            return self._read_scope(token)
        return self._read_column(token)

    def _read_scope(self, token: re.Match[str]) -> ColumnValue:
        self.at = token.end()
        self.skip("(")
        inner = self.peek()
        if inner is None:
            raise self.fail("a metric")
        column = self._read_column(inner, "a metric")
        if not self.skip(")"):
            raise self.fail("')'")
        return ColumnValue(column.position, column.name, token["word"])

    def _read_column(self, token: re.Match[str], expected: str = "a value") -> ColumnValue:
        start = self.at
        if token["quoted"] is None and (token["word"] is None or token["word"] in KEYWORDS):
            raise self.fail(expected)
        self.at = token.end()
        return ColumnValue(start, token["word"] or token["quoted"].replace("``", "`"))

    def read_expression(self) -> NameTest:
        self.peek()
        found = REGEX.match(self.text, self.at)
        if found is None:
            raise self.fail("a /regular expression/")
        self.at = found.end()
        return NameTest("regex", found[1], found.start(), bool(found[2]))


def _number(text: str) -> float:
    """Return a number; whole ones stay such, since counters exceed 2^53."""
    return int(text) if text.isdecimal() else float(text)


def parse_condition(text: str) -> Test:
    """Return the tree of a condition such as `percent > 5 and name !~ /^MPI_/`. Raises PatternError."""
    _limit(text)
    reader = _ConditionReader(text, 0)
    test = reader.read_any()
    reader.peek()
    if reader.at < len(text):
        raise reader.fail("'and', 'or' or the end")
    return test


def _limit(text: str) -> None:
    if len(text) > LONGEST:
        raise UsageError(f"{show_excerpt(text, 0)} has {len(text):,} characters; {LONGEST:,} are the most")


# -- steps -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Step:
    """One context of a path, or with `many` any number of them. `name` None is any."""

    name: NameTest | None
    condition: Test | None = None
    many: bool = False
    position: int = 0


@dataclass(frozen=True)
class Pattern:
    """The steps of a call path, and the text that they were read from."""

    text: str
    steps: tuple[Step, ...]


class _PatternReader:
    """Takes the text of a pattern from the left."""

    def __init__(self, text: str) -> None:
        self.text, self.at = text, 0

    def read(self) -> Sequence[Step]:
        steps = [self.read_step()]
        while self.at < len(self.text):
            if not self.text.startswith(ARROW, self.at):
                raise PatternError("expected '->' or the end", self.text, self.at)
            if len(steps) == MOST_STEPS:
                raise PatternError(f"more than {MOST_STEPS} steps", self.text, self.at)
            self.at += len(ARROW)
            steps.append(self.read_step())
        return steps

    def read_step(self) -> Step:
        self.skip_blanks()
        start = self.at
        name = self.read_name()
        self.skip_blanks()
        condition = None
        if self.text.startswith(OPENING, self.at):
            reader = _ConditionReader(self.text, self.at + len(OPENING))
            condition = reader.read_any()
            if not reader.skip("]"):
                raise reader.fail("'and', 'or' or ']'")
            self.at = reader.at
            self.skip_blanks()
        if name.kind == "glob" and name.text in ("*", "**"):
            return Step(None, condition, name.text == "**", start)
        return Step(name, condition, position=start)

    def read_name(self) -> NameTest:
        if self.text.startswith("/", self.at):
            return self._read_expression()
        if self.text.startswith('"', self.at):
            return self._read_exact()
        ends = (self.text.find(mark, self.at) for mark in (ARROW, OPENING))
        end = min((end for end in ends if end >= 0), default=len(self.text))
        name, start = self.text[self.at : end].rstrip(), self.at
        if not name:
            raise PatternError("expected a name", self.text, self.at)
        self.at = end
        return NameTest("glob", name, start)

    def _read_expression(self) -> NameTest:
        found = REGEX.match(self.text, self.at)
        if found is None:
            raise PatternError("expected the '/' that ends a regular expression", self.text, len(self.text))
        rest = self.text[found.end() :].lstrip()
        if rest and not rest.startswith((ARROW, OPENING)):
            hint = "; a regular expression has no '/' inside, and other names with one can stand in double quotes"
            raise PatternError("expected '->', '[?' or the end", self.text, found.end(), hint)
        self.at = found.end()
        return NameTest("regex", found[1], found.start(), bool(found[2]))

    def _read_exact(self) -> NameTest:
        try:
            name, end = json.JSONDecoder().raw_decode(self.text, self.at)
        except ValueError:
            raise PatternError("expected a name that ends with '\"'", self.text, self.at) from None
        start, self.at = self.at, end
        return NameTest("exact", name, start)

    def skip_blanks(self) -> None:
        while self.at < len(self.text) and self.text[self.at].isspace():
            self.at += 1


def parse_pattern(text: str) -> Pattern:
    """Return the steps of a pattern such as `main -> ** -> MPI_*[?time > 5%]`. Raises PatternError."""
    _limit(text)
    return Pattern(text, tuple(_PatternReader(text).read()))


def parse_name(text: str) -> NameTest:
    """Return what a glob or a /regular expression/ demands of one name: all of the text is part of it. A text in
    slashes that is followed by more is a glob."""
    _limit(text)
    found = REGEX.fullmatch(text)
    if found is not None:
        return NameTest("regex", found[1], 0, bool(found[2]))
    if not text:
        raise PatternError("expected a name", text, 0)
    return NameTest("glob", text)
