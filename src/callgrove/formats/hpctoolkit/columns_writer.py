"""metrics/default.yaml of a released database: what HPCToolkit's viewer shows, over the sums that the file holds.

Specification: hpctoolkit-databases.md B.8, as `metric_columns` reads it. Every metric is a root, so that all can be
shown; those that are not visible say so. Columns of the experiment that are formulas over its metrics are kept, in
their order. Anchors are spelled as HPCToolkit spells them:

    CPUTIMEx20_x28_secx29_-sum-x5b_0x0x5d_-execution       metric, combination, formula [0x0], scope
"""

from __future__ import annotations

import re
import string
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from callgrove.formats.hpctoolkit.metric_plan import MetricPlan
from callgrove.formats.hpctoolkit.release_words import SCOPE_RECORDS, SUMMARIES, THREAD_VALUE, storable
from callgrove.formats.hpctoolkit.view_columns import ViewColumn, view_columns
from callgrove.model.expressions import Call, Expression, Number, Variable, fold
from callgrove.model.metrics import Metrics, Scope

__all__ = ["columns_text"]

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
    """The text of the file, without a final newline, and the columns that could not be kept."""
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
    """A name for each stored metric, by its id. Two metrics may be spelled alike: then the id tells them apart."""
    out: dict[str, int] = {}
    for metric, scope in plan.scopes:
        for statistic, id_ in scope.statistics:
            formula, combine = SUMMARIES[statistic]
            formula = _spelled(formula.replace(THREAD_VALUE, "[0x0]"))
            anchor = f"{_spelled(metric.name)}-{combine}-{formula}-{SCOPE_NAMES[scope.scope]}"
            out[anchor if anchor not in out else f"{anchor}-{id_}"] = id_
    return {id_: anchor for anchor, id_ in out.items()}


def _spelled(name: str) -> str:
    return "".join(chr(byte) if chr(byte) in UNESCAPED else f"x{byte:02x}_" for byte in name.encode())


def _roots(columns: list[ViewColumn], anchors: dict[int, str], lost: list[str]) -> Iterator[_Root]:
    """One root for the columns of each name; too deep a formula is lost."""
    groups: dict[str, list[ViewColumn]] = {}
    for shown in columns:
        groups.setdefault(storable(shown.column.name), []).append(shown)
    for name, group in groups.items():
        variants: dict[str, Variant] = {}
        for column, formula in ((shown.column, shown.formula) for shown in group):
            text = _nested_lists(formula, anchors)
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


def _nested_lists(expression: Expression, anchors: dict[int, str]) -> str | None:
    """A formula as nested lists; None where it is too deep."""

    def combine(node: Expression, args: Sequence[tuple[str, list[str], int]]) -> tuple[str, list[str], int]:
        """(operator, arguments, depth); leaves have no operator."""
        if isinstance(node, Number):
            return "", [repr(float(node.value)).removesuffix(".0")], 0
        if isinstance(node, Variable):
            return "", [f"*{anchors[node.id]}" if node.id is not None else "0"], 0
        assert isinstance(node, Call)
        depth = 2 + max(depth for _, _, depth in args)
        (operator, inner, inner_depth), *others = args
        if node.name in LONG_SUMS and operator == node.name:
            depth = max(inner_depth, *(2 + d for _, _, d in others))
            return node.name, [*inner, *map(_nested, others)], depth
        return node.name, [_nested(arg) for arg in args], depth

    found = fold(expression, combine)
    return _nested(found) if found[2] <= DEEPEST else None


def _nested(part: tuple[str, list[str], int]) -> str:
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
    """Text as one line of YAML: plain where nobody can misread it, else in double quotes."""
    if PLAIN.fullmatch(text) and text.lower() not in RESERVED:
        return text
    return '"' + "".join(map(_quoted, text)) + '"'


def _quoted(character: str) -> str:
    if character in ESCAPES:
        return ESCAPES[character]
    if character.isprintable():
        return character
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
