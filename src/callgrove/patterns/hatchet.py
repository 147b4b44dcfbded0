"""Hatchet's queries in this language: lists of steps, and `MATCH (...)->(...) WHERE ...` texts.

    [{"name": "main"}, "*", {"name": "MPI_.*"}]              main -> ** -> /^(?:MPI_.*)$/
    [{"time (inc)": "> 20"}]                                 *[?incl(`time`) > 20]
    MATCH (".", p)->("*") WHERE p."name" = "solve"           *[?name = 'solve'] -> **

A query becomes a text of ours, which errors show. Its paths are all paths: Hatchet's `*` ends at the first context that
fits what follows. What has no counterpart is refused by name: Python functions, queries that are combined of others,
columns that our contexts do not have.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Real

from callgrove.errors import UsageError
from callgrove.patterns.columns import COLUMNS
from callgrove.patterns.syntax import MOST_STEPS, Pattern, parse_pattern

__all__ = ["is_hatchet_query", "translate_query"]

INCLUSIVE = " (inc)"
WITHOUT_COUNTERPART = ("node_id", "rank", "thread")
PLAIN = re.compile(r"[A-Za-z_]\w*", re.ASCII)
COMPARISON = re.compile(r"\s*(<=|>=|==|!=|<|>)\s*(-?[0-9.]+(?:[eE][+-]?[0-9]+)?)\s*")
MISSING = re.compile(r"\s*is\s+(not\s+)?(?:np\.nan|math\.nan|nan|None)\s*", re.IGNORECASE)


def is_hatchet_query(query: object) -> bool:
    """Return whether a query is one of Hatchet's: no text, or one that begins with MATCH or a brace."""
    return not isinstance(query, str) or re.match(r"\s*(?:MATCH\s*\(|\{\s*MATCH)", query) is not None


def translate_query(query: object) -> Pattern:
    """Return the pattern that means what a query of Hatchet does. Raises UsageError, which names what has no
    counterpart."""
    if isinstance(query, str):
        return parse_pattern(_Match(query).read())
    if isinstance(query, Sequence):
        return parse_pattern(_join(_Node.of(step) for step in query))
    raise UsageError(f"a query is a text or a list, no {type(query).__name__}; lists and MATCH texts can be translated")


# -- one step ----------------------------------------------------------------------------------------------------------


@dataclass
class _Node:
    """A step of a query: how many contexts it takes, and what each of them must fulfil."""

    quantifier: str | int = "."
    conditions: list[str] = field(default_factory=list)  # each but the first begins with `and` or `or`
    name: str = ""  # where nothing but the name is asked for, a step of that name

    @classmethod
    def of(cls, step: object) -> _Node:
        """Return a step of a list: a quantifier, a dict, or both as a tuple."""
        quantifier, predicate = step if isinstance(step, tuple) and len(step) == 2 else (".", step)
        if isinstance(step, (str, int)):
            quantifier, predicate = step, {}
        if isinstance(predicate, Mapping):
            tests = [test for key, value in predicate.items() for test in _read_filter(key, value)]
            regex = predicate.get("name") if set(predicate) == {"name"} and quantifier == "." else None
            return cls(quantifier, _conjoin(tests), _name_step(regex) if isinstance(regex, str) else "")
        if callable(predicate):
            raise UsageError(
                "a query of Hatchet has a Python function, which cannot be translated; select rows of a table"
            )
        raise UsageError(f"a step of a query is a quantifier, a dict or a tuple of both, not {step!r:.80}")

    def steps(self) -> Iterator[str]:
        """Yield the steps that mean the same."""
        condition = f"[?{' '.join(self.conditions)}]" if self.conditions else ""
        if self.name:
            yield self.name
        elif self.quantifier in (".", "*", "+"):
            yield from (() if self.quantifier == "*" else (f"*{condition}",))
            yield from (() if self.quantifier == "." else (f"**{condition}",))
        elif isinstance(self.quantifier, int) and 0 <= self.quantifier <= MOST_STEPS:
            yield from [f"*{condition}"] * self.quantifier
        else:
            known = f". * + and numbers up to {MOST_STEPS}"
            raise UsageError(f"{self.quantifier!r:.80} is not a quantifier of a query; there are {known}")


def _join(nodes: Iterator[_Node]) -> str:
    steps = [step for node in nodes for step in node.steps()]
    if not steps:
        raise UsageError("the query has no step")
    return " -> ".join(steps)


def _conjoin(tests: Sequence[str]) -> list[str]:
    return [f"and {test}" if number else test for number, test in enumerate(tests)]


def _name_step(regex: str) -> str:
    return f'"{regex}"' if PLAIN.fullmatch(regex) else f"/^(?:{_without_slash(regex)})$/"


def _without_slash(regex: str) -> str:
    """Return a regular expression that means the same and can stand between slashes."""
    return regex.replace("\\/", "/").replace("/", r"\x2f")


def _column(name: object) -> str:
    """Return a column of Hatchet's data frame as a value of ours: `time (inc)` is incl(time), `time` is excl(time)."""
    if isinstance(name, (tuple, list)) and len(name) == 1:
        name = name[0]
    if not isinstance(name, str) or name in WITHOUT_COUNTERPART:
        raise UsageError(f"a query of Hatchet asks for {name!r:.80}, which contexts do not have")
    if name == "type":
        return "kind"
    if name in COLUMNS:
        return name
    scope, metric = ("incl", name.removesuffix(INCLUSIVE)) if name.endswith(INCLUSIVE) else ("excl", name)
    quoted = metric.replace("`", "``")
    return f"{scope}(`{quoted}`)"


def _read_filter(key: object, value: object) -> Iterator[str]:
    """Yield what one entry of a dict demands."""
    column = _column(key)
    if isinstance(value, str):
        is_text = column in ("name", "kind", "file", "module", "path")
        yield f"{column} ~ /^(?:{_without_slash(value)})$/" if is_text else _read_number(column, value)
    elif isinstance(value, Real):
        yield f"{column} = {value}"
    elif isinstance(value, Sequence):
        for one in value:
            yield from _read_filter(key, one)
    else:
        raise UsageError(f"a query of Hatchet compares {key!r} with {value!r:.80}; there are numbers and texts")


def _read_number(column: str, text: str) -> str:
    if (found := MISSING.fullmatch(text)) is not None:
        return f"{column} is {'not ' if found[1] else ''}missing"
    found = COMPARISON.fullmatch(text)
    if found is None:
        raise UsageError(f"a query of Hatchet has {text!r:.80}, which is not a comparison with a number, like '> 5'")
    return f"{column} {'=' if found[1] == '==' else found[1]} {found[2]}"


# -- texts -------------------------------------------------------------------------------------------------------------


TOKEN = re.compile(
    r"\s*(?:(?P<text>\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*')|(?P<number>-?[0-9]+(?:\.[0-9]*)?(?:[eE][+-]?[0-9]+)?)"
    r"|(?P<word>\w+)|(?P<sign>->|=~|<=|>=|[(),.=<>]))"
)


class _Match:
    """Takes a text such as `MATCH (".", p)->("*") WHERE p."name" = "solve"` from the left."""

    def __init__(self, text: str) -> None:
        if text.lstrip().startswith("{"):
            hint = "give several queries for any of them, and select from a selection for all of them"
            raise UsageError(f"queries of Hatchet that are combined of others cannot be translated; {hint}")
        self.text, self.at = text, 0
        self.nodes: dict[str, _Node] = {}

    def fail(self, expected: str) -> UsageError:
        return UsageError(f"expected {expected} at character {self.at + 1} of {self.text!r:.200}")

    def take(self, kind: str, expected: str) -> str:
        """Take the next token, which must be of a kind."""
        found = TOKEN.match(self.text, self.at)
        if found is None or found[kind] is None:
            raise self.fail(expected)
        self.at = found.end()
        return found[kind]

    def skip(self, *words: str) -> bool:
        """Take these words or signs if they come next."""
        start = self.at
        for word in words:
            found = TOKEN.match(self.text, self.at)
            if found is None or (found["word"] or found["sign"]) != word:
                self.at = start
                return False
            self.at = found.end()
        return True

    def need(self, sign: str) -> None:
        if not self.skip(sign):
            raise self.fail(repr(sign))

    def read(self) -> str:
        """Return the pattern."""
        self.need("MATCH")
        order = [self.read_node()]
        while self.skip("->"):
            order.append(self.read_node())
        if self.skip("WHERE"):
            self.read_conditions()
        if self.text[self.at :].strip():
            raise self.fail("'AND', 'OR' or the end")
        return _join(iter(order))

    def read_node(self) -> _Node:
        self.need("(")
        found, node, name = TOKEN.match(self.text, self.at), _Node(), ""
        if found is not None and (found["text"] or found["number"]):
            self.at = found.end()
            node.quantifier = found["text"][1:-1] if found["text"] else int(float(found["number"]))
            name = self.take("word", "a name") if self.skip(",") else ""
        else:
            name = self.take("word", "a quantifier or a name")
        self.need(")")
        if name:
            self.nodes[name] = node
        return node

    def read_conditions(self) -> None:
        joint, last = "", ""
        while True:
            negated = self.skip("NOT")
            name = self.take("word", "the name of a node")
            if name not in self.nodes:
                raise UsageError(f"there is no node {name!r} in {self.text!r:.200}")
            if joint == "or" and name != last:
                raise UsageError(f"OR between {last!r} and {name!r}, two steps of a path, cannot be translated")
            node, test = self.nodes[name], self.read_condition()
            test = f"not {test}" if negated else test
            node.conditions.append(f"{joint or 'and'} {test}" if node.conditions else test)
            last = name
            joint = "and" if self.skip("AND") else "or" if self.skip("OR") else ""
            if not joint:
                return

    def read_condition(self) -> str:
        if self.skip("IS", "LEAF"):
            return "leaf"
        if self.skip("IS", "NOT", "LEAF"):
            return "not leaf"
        self.need(".")
        column = _column(self.take("text", "a column in quotes")[1:-1])
        for words, test in (("IS NOT", "is not missing"), ("IS", "is missing")):
            if any(self.skip(*words.split(), word) for word in ("NONE", "NAN")):
                return f"{column} {test}"
        if self.skip("IS"):
            raise UsageError("IS INF of Hatchet's queries cannot be translated")
        for words, shape in (("STARTS WITH", "^{}"), ("ENDS WITH", "{}$"), ("CONTAINS", "{}")):
            if self.skip(*words.split()):
                return f"{column} ~ /{shape.format(_without_slash(re.escape(self.read_text())))}/"
        if self.skip("=~"):
            return f"{column} ~ /^(?:{_without_slash(self.read_text())})/"
        return self.read_comparison(column)

    def read_text(self) -> str:
        return self.take("text", "a text in quotes")[1:-1]

    def read_comparison(self, column: str) -> str:
        sign = next((sign for sign in ("=", "<=", ">=", "<", ">") if self.skip(sign)), "")
        if not sign:
            raise self.fail("a comparison")
        found = TOKEN.match(self.text, self.at)
        if sign == "=" and found is not None and found["text"]:
            quoted = self.read_text().replace("'", "''")
            return f"{column} = '{quoted}'"
        return f"{column} {sign} {self.take('number', 'a number')}"
