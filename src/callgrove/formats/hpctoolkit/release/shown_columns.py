"""metrics/default.yaml: the columns that HPCToolkit's viewer shows, as formulas over the metric ids of meta.db.

Specification: hpctoolkit-databases.md B.8 (METRICS v0), and HPCToolkit's own METRICS document for what is optional.

    version: 0
    inputs:                       one per stored summary; meta.db knows its id
      - &a {metric, scope, formula, combine}
    roots:
      - name, description [, format] [, visible by default] [, children: more of these]
        variants:
          Sum:                    Sum, Mean, ...; "" where there is only one
            render: [number, percent]
            formula:
              inclusive: {standard: F}                 execution scope
              exclusive: {custom: F, standard: F}      lexical, function (or point) scope

    F = *a | number | {operator: [F, ...]}

Known from real files and from the writer: `format` stands beside `variants`; a `-` with one argument negates, a `+`
with one argument is that argument. The formula of a variant may also be `sum` or `first`, over the children's variant
of the same name. Defaults as documented there: formula `$$`, combine `sum`, description and format empty.

Deviations: infix formulas (`[2 *, *a]`), `strict floor`, `strict ceil` and `child variant`, which HPCToolkit does not
write, are refused or ignored. Other unknown keys are ignored.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import reduce
from pathlib import Path
from typing import TypeAlias

from callgrove.binary.files import open_regular
from callgrove.errors import CorruptFile
from callgrove.formats.hpctoolkit.release import yaml_subset
from callgrove.formats.hpctoolkit.release.files import COMBINATIONS
from callgrove.formats.hpctoolkit.release.meta_db import RawMetric
from callgrove.formats.hpctoolkit.release.yaml_subset import Node
from callgrove.model.builder import ExperimentBuilder
from callgrove.model.experiment import Severity
from callgrove.model.formulas import MAX_NESTING, Call, Expression, Number, Variable, render, renumber
from callgrove.model.metrics import Column, Scope

__all__ = [
    "ColumnNode",
    "Formula",
    "Input",
    "MetricColumns",
    "MetricColumnsError",
    "Variant",
    "add_columns",
    "read_columns",
]


MAX_TERMS = 500_000  # aliases share nodes in the file; here each use becomes a node of its own
MAX_LEVELS = 32  # children of children

Formula: TypeAlias = Expression  # Variable(i) is inputs[i]

SYNONYMS = {"prod": "*", "pow": "^"}
OPERATORS = ("+", "-", "*", "/", "^")
FUNCTIONS = ("sqrt", "log", "ln", "min", "max", "floor", "ceil", "sum")
NUMBER = re.compile(r"[-+]?(?:[0-9]++(?:\.[0-9]*+)?+|\.[0-9]++)(?:[eE][-+]?[0-9]++)?")


class MetricColumnsError(ValueError):
    """A file that is YAML, but does not describe columns."""

    def __init__(self, place: str, message: str) -> None:
        super().__init__(place, message)
        self.place = place
        self.message = message

    def __str__(self) -> str:
        return f"{self.place}: {self.message}"


@dataclass(frozen=True)
class Input:
    """A stored summary: `combine` over threads of `formula` of a metric in a scope."""

    metric: str
    scope: str
    formula: str
    combine: str


@dataclass(frozen=True)
class Variant:
    """One statistic of a column; None where it is not defined in that scope."""

    name: str
    render: tuple[str, ...]
    format: str
    inclusive: Formula | None
    exclusive_standard: Formula | None
    exclusive_custom: Formula | None


@dataclass(frozen=True)
class ColumnNode:
    """A column with its variants, and the columns it expands to."""

    name: str
    description: str
    variants: tuple[Variant, ...]
    children: tuple[ColumnNode, ...]
    visible: bool = True


@dataclass(frozen=True)
class MetricColumns:
    """All columns, in the order shown, over all inputs."""

    inputs: tuple[Input, ...]
    roots: tuple[ColumnNode, ...]


def read_columns(text: str) -> MetricColumns:
    """Return the columns of a METRICS v0 file; raises YamlError or MetricColumnsError, both ValueErrors."""
    document = _mapping(yaml_subset.parse(text), "file")
    version = _text(document, "version", "file")
    if version != "0":
        raise MetricColumnsError("file", f"expected version 0, found version {version[:20]!r}")
    nodes = _sequence(_require(document, "inputs", "file"), "inputs")
    inputs = tuple(_read_input(node, f"input {index}") for index, node in enumerate(nodes))
    reader = _Reader({id(node): index for index, node in enumerate(nodes)})
    roots = _sequence(_require(document, "roots", "file"), "roots")
    return MetricColumns(inputs, reader.columns(roots, "root", 1))


def _read_input(node: Node, place: str) -> Input:
    entry = _mapping(node, place)
    combine = _text(entry, "combine", place, default="sum")
    if combine not in COMBINATIONS:
        raise MetricColumnsError(
            place, f"expected combine to be one of {', '.join(COMBINATIONS)}, found {combine[:40]!r}"
        )
    formula = _text(entry, "formula", place, default="$$")
    return Input(_text(entry, "metric", place), _text(entry, "scope", place), formula, combine)


class _Reader:
    """Columns over known inputs. An input is recognised by identity: an alias is the very node of the list."""

    def __init__(self, indices: dict[int, int]) -> None:
        self.indices = indices
        self.n_terms = 0

    def columns(self, nodes: Iterable[Node], word: str, level: int) -> tuple[ColumnNode, ...]:
        if level > MAX_LEVELS:
            raise MetricColumnsError(word, f"more than {MAX_LEVELS} levels of children")
        return tuple([self._column(node, f"{word} {index}", level) for index, node in enumerate(nodes)])

    def _column(self, node: Node, place: str, level: int) -> ColumnNode:
        self._count(place)
        entry = _mapping(node, place)
        name = _text(entry, "name", place)
        place = f"{place} ({name[:80]!r})"
        children = self.columns(_sequence(entry.get("children"), place), f"{place}, child", level + 1)
        own_format = _text(entry, "format", place, default="")
        variants = _mapping(_require(entry, "variants", place), f"{place}, variants")
        return ColumnNode(
            name,
            _text(entry, "description", place, default=""),
            tuple([self._variant(key, value, own_format, children, place) for key, value in variants.items()]),
            children,
            _text(entry, "visible by default", place, default="true").lower() != "false",
        )

    def _variant(
        self, name: str, node: Node, column_format: str, children: tuple[ColumnNode, ...], place: str
    ) -> Variant:
        place = f"{place}, variant {name[:80]!r}"
        self._count(place)
        entry = _mapping(node, place)
        render = _require(entry, "render", place)
        flags = tuple(
            [_scalar(flag, f"{place}, render") for flag in (render if isinstance(render, list) else [render])]
        )
        number_format = _text(entry, "format", place, default=column_format)
        formula = entry.get("formula")
        if isinstance(formula, str):
            return Variant(name, flags, number_format, *_from_children(formula, name, children, place))
        parts = _mapping(formula, f"{place}, formula") if formula is not None else {}
        inclusive = _mapping(parts.get("inclusive") or {}, f"{place}, inclusive")
        exclusive = _mapping(parts.get("exclusive") or {}, f"{place}, exclusive")
        return Variant(
            name,
            flags,
            number_format,
            self._optional(inclusive.get("standard"), f"{place}, inclusive"),
            self._optional(exclusive.get("standard"), f"{place}, exclusive standard"),
            self._optional(exclusive.get("custom"), f"{place}, exclusive custom"),
        )

    def _count(self, place: str) -> None:
        self.n_terms += 1
        if self.n_terms > MAX_TERMS:
            raise MetricColumnsError(place, f"the file describes more than {MAX_TERMS} columns and terms of formulas")

    def _optional(self, node: Node, place: str) -> Formula | None:
        return None if node is None else self._formula(node, place, 1)

    def _formula(self, node: Node, place: str, level: int) -> Formula:
        self._count(place)
        if level > MAX_NESTING:
            raise MetricColumnsError(place, f"more than {MAX_NESTING} levels of formulas")
        if id(node) in self.indices:
            return Variable(self.indices[id(node)])
        if isinstance(node, str):
            return Number(_number(node, place))
        if not isinstance(node, dict) or len(node) != 1:
            raise MetricColumnsError(place, f"expected an input, a number or {{operator: [...]}}, found {_kind(node)}")
        [(operator, value)] = node.items()
        args: list[Formula] = []
        for arg in _sequence(value, f"{place}, arguments of {operator[:40]!r}"):
            args.append(self._formula(arg, place, level + 1))  # noqa: PERF401 - a comprehension doubles the stack
        return _apply(operator, args, place)


def _apply(operator: str, args: list[Formula], place: str) -> Formula:
    """Return an operator of the file as calls: there operators take any number of arguments, in formulas two."""
    name = SYNONYMS.get(operator, operator)
    if not args or (name not in OPERATORS and name not in FUNCTIONS):
        raise MetricColumnsError(place, f"{'unknown operator' if args else 'no arguments for'} {operator[:40]!r}")
    if name == "-" and len(args) == 1:
        return Call("neg", (args[0],))
    if name == "^":
        return reduce(lambda right, left: Call("^", (left, right)), reversed(args))
    if name in OPERATORS:
        return reduce(lambda left, right: Call(name, (left, right)), args)
    try:
        return Call(name, tuple(args))
    except ValueError as error:
        raise MetricColumnsError(place, str(error)) from None


def _from_children(
    rule: str, name: str, children: tuple[ColumnNode, ...], place: str
) -> tuple[Formula | None, Formula | None, Formula | None]:
    """Return the formulas of a variant whose values are those of its children: of the first, or of all together."""
    if rule not in ("sum", "first"):
        raise MetricColumnsError(place, f"expected the formula to be a mapping, sum or first, found {rule[:40]!r}")
    same = [next((v for v in child.variants if v.name == name), None) for child in children]
    variants = [variant for variant in same if variant is not None]
    if not variants or len(variants) < len(same):
        raise MetricColumnsError(place, f"the formula {rule!r} needs children that all have this variant")
    chosen = variants[:1] if rule == "first" else variants
    return (
        _total([v.inclusive for v in chosen]),
        _total([v.exclusive_standard for v in chosen]),
        _total([v.exclusive_custom for v in chosen]),
    )


def _total(formulas: list[Formula | None]) -> Formula | None:
    known = tuple([formula for formula in formulas if formula is not None])
    if len(known) < len(formulas):
        return None
    return known[0] if len(known) == 1 else Call("sum", known)


def _mapping(node: Node, place: str) -> dict[str, Node]:
    if not isinstance(node, dict):
        raise MetricColumnsError(place, f"expected a mapping, found {_kind(node)}")
    return node


def _sequence(node: Node, place: str) -> list[Node]:
    if node is None:
        return []
    if not isinstance(node, list):
        raise MetricColumnsError(place, f"expected a sequence, found {_kind(node)}")
    return node


def _scalar(node: Node, place: str) -> str:
    if not isinstance(node, str):
        raise MetricColumnsError(place, f"expected text, found {_kind(node)}")
    return node


def _require(entry: dict[str, Node], key: str, place: str) -> Node:
    if key not in entry:
        raise MetricColumnsError(place, f"the key {key!r} is missing")
    return entry[key]


def _text(entry: dict[str, Node], key: str, place: str, default: str | None = None) -> str:
    if default is not None and entry.get(key) is None:
        return default
    return _scalar(_require(entry, key, place), f"{place}, {key}")


def _number(text: str, place: str) -> float:
    if not NUMBER.fullmatch(text) or not math.isfinite(value := float(text)):
        raise MetricColumnsError(place, f"expected a finite number, found {text[:40]!r}")
    return value


def _kind(node: Node) -> str:
    if isinstance(node, dict):
        return f"a mapping of {len(node)} keys"
    if isinstance(node, list):
        return f"a sequence of {len(node)}"
    return "nothing" if node is None else repr(node[:40])


# -- columns over the metric ids of meta.db ----------------------------------------------------------------------------
# A column over a summary that the database does not hold is dropped, with a warning.


LARGEST = 16 << 20


def add_columns(builder: ExperimentBuilder, path: Path, metrics: tuple[RawMetric, ...]) -> None:
    """Read the file and give its columns to the builder. Metrics that no visible column shows become invisible."""
    if (size := path.stat().st_size) > LARGEST:
        raise CorruptFile(path, "file", expected=f"at most {LARGEST} bytes", found=f"{size} bytes")
    try:
        with open_regular(path) as file:
            described = read_columns(file.read().decode("utf-8", "replace"))
    except ValueError as error:
        raise CorruptFile(path, "columns", expected="METRICS version 0", found=str(error)) from error
    stored = {(m.name, s.scope.name, s.formula, s.combine): s.id for m in metrics for s in m.summaries}
    keys = [(i.metric, i.scope, i.formula, COMBINATIONS.index(i.combine)) for i in described.inputs]
    ids = {number: stored[key] for number, key in enumerate(keys) if key in stored}
    dropped = 0
    shown: set[str] = set()
    for node in _walk(described.roots):
        for column, formula in _columns(node):
            if formula.variables() <= ids.keys():
                builder.add_column(replace(column, formula=render(renumber(formula, ids))))
                shown.update([node.name] if node.visible else [])
            else:
                dropped += 1
    if dropped:
        builder.warn(
            Severity.NOTE, f"{path}: {dropped} columns are over summaries that the database does not hold; left out"
        )
    builder.show_only(shown)


def _walk(nodes: tuple[ColumnNode, ...]) -> Iterator[ColumnNode]:
    """Yield all columns, parents first."""
    stack = list(reversed(nodes))
    while stack:
        node = stack.pop()
        yield node
        stack.extend(reversed(node.children))


def _columns(node: ColumnNode) -> Iterator[tuple[Column, Formula]]:
    for variant in node.variants:
        for scope, formula in (
            (Scope.INCLUSIVE, variant.inclusive),
            (Scope.FUNCTION, variant.exclusive_standard),
            (Scope.LEXICAL, variant.exclusive_custom),
        ):
            if formula is not None:
                percent = "percent" in variant.render
                yield (
                    Column(node.name, scope, "", node.description, variant.name, node.visible, percent, variant.format),
                    formula,
                )
