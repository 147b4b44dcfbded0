"""What metrics/default.yaml means: columns, variants and formulas; an independent reading with PyYAML as the oracle."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from callgrove.formats.hpctoolkit.release import shown_columns as metric_columns
from callgrove.formats.hpctoolkit.release.shown_columns import (
    MAX_LEVELS,
    ColumnNode,
    Input,
    MetricColumnsError,
    Variant,
    read_columns,
)
from callgrove.formats.hpctoolkit.release.yaml_subset import YamlError
from callgrove.model.formulas import Call, Number, Variable, evaluate, parse, render

HEAD = """\
version: 0
inputs:
  - &a
    metric: cycles
    scope: execution
    formula: $$
    combine: sum
  - &b {metric: "12", scope: function, formula: ($$^2), combine: max}
roots:
"""


def one(formula: str) -> str:
    """A file with one column, whose inclusive formula this is."""
    column = "- name: C\n  variants:\n    Sum:\n      render: number\n      formula:\n        inclusive:\n"
    return f"{HEAD}{column}          standard: {formula}\n"


def inclusive(formula: str) -> Any:
    return read_columns(one(formula)).roots[0].variants[0].inclusive


def test_a_whole_file() -> None:
    text = HEAD + (
        "  - name: Cycles\n"
        "    description: 'cycles: all'\n"
        '    format: "%6.2f %%"\n'
        "    visible by default: false\n"
        "    colour: red\n"
        "    variants:\n"
        "      Mean:\n"
        "        render: [number, percent]\n"
        "        formula:\n"
        "          inclusive:\n"
        "            standard: {/: [*a, 2]}\n"
        "          exclusive:\n"
        "            custom: *b\n"
        "            standard: 1e-06\n"
        '      "":\n'
        "        render: number\n"
        "        format: '%.1e'\n"
        "    children:\n"
        "      - name: Inner\n"
        "        variants: {}\n"
    )
    columns = read_columns(text)
    assert columns.inputs == (Input("cycles", "execution", "$$", "sum"), Input("12", "function", "($$^2)", "max"))
    mean = Variant("Mean", ("number", "percent"), "%6.2f %%", parse("$0/2"), Number(1e-6), Variable(1))
    only = Variant("", ("number",), "%.1e", None, None, None)
    inner = ColumnNode("Inner", "", (), ())
    assert columns.roots == (ColumnNode("Cycles", "cycles: all", (mean, only), (inner,), visible=False),)
    assert inner.visible


def test_documented_defaults() -> None:
    columns = read_columns("version: 0\ninputs: [{metric: m, scope: point}]\nroots:")
    assert columns.inputs == (Input("m", "point", "$$", "sum"),)
    assert columns.roots == ()


@pytest.mark.parametrize(
    ("formula", "text"),
    [
        ("*a", "$0"),
        ("*b", "$1"),
        ("100", "100"),
        ("-1.5e+3", "-1500"),
        ("{+: [*a, *b]}", "$0+$1"),
        ("{+: [*a, *b, 1]}", "$0+$1+1"),
        ("{+: [*a]}", "$0"),
        ('{"-": [*a]}', "-$0"),
        ('{"-": [*a, *b, 1]}', "$0-$1-1"),
        ("{/: [*a, *b, 2]}", "$0/$1/2"),
        ('{"*": [2, *a]}', "2*$0"),
        ("{prod: [2, *a, 3]}", "2*$0*3"),
        ("{^: [*a, 3, 2]}", "$0^3^2"),
        ("{pow: [{^: [*a, 3]}, 2]}", "($0^3)^2"),
        ("{sqrt: [*a]}", "sqrt($0)"),
        ("{log: [*a, 2]}", "log($0, 2)"),
        ("{ln: [*a]}", "ln($0)"),
        ("{sum: [*a, *b, 1]}", "sum($0, $1, 1)"),
        ("{min: [100, {max: [0, {/: [*a, *b]}]}]}", "min(100, max(0, $0/$1))"),
        ("{floor: [{ceil: [*a]}]}", "floor(ceil($0))"),
    ],
)
def test_formulas(formula: str, text: str) -> None:
    assert inclusive(formula) == parse(text)
    assert render(inclusive(formula)) == text


def test_formulas_may_share_parts() -> None:
    assert inclusive("{+: [&part {/: [*a, *b]}, *part]}") == parse("$0/$1+$0/$1")


def test_a_mapping_that_only_looks_like_an_input_is_none() -> None:
    with pytest.raises(MetricColumnsError, match="found a mapping of 4 keys"):
        inclusive("{metric: cycles, scope: execution, formula: $$, combine: sum}")


CHILDREN = """\
- name: Parent
  variants:
    Sum: {render: [number, colorbar], formula: RULE}
  children:
  - name: One
    variants:
      Sum: {render: number, formula: {inclusive: {standard: *a}, exclusive: {standard: 1, custom: 2}}}
  - name: Two
    variants:
      Mean: {render: number, formula: {inclusive: {standard: 7}}}
      Sum: {render: number, formula: {inclusive: {standard: *b}, exclusive: {standard: 3}}}
"""


def test_values_from_children() -> None:
    total = read_columns(HEAD + CHILDREN.replace("RULE", "sum")).roots[0].variants[0]
    assert (total.inclusive, total.exclusive_standard) == (parse("sum($0, $1)"), parse("sum(1, 3)"))
    assert total.exclusive_custom is None  # the second child has none
    first = read_columns(HEAD + CHILDREN.replace("RULE", "first")).roots[0].variants[0]
    assert (first.inclusive, first.exclusive_standard, first.exclusive_custom) == (Variable(0), Number(1), Number(2))
    with pytest.raises(MetricColumnsError, match=r"root 0 \('Parent'\), variant 'Sum': .* found 'last'"):
        read_columns(HEAD + CHILDREN.replace("RULE", "last"))
    with pytest.raises(MetricColumnsError, match="children that all have this variant"):
        read_columns(HEAD + CHILDREN.replace("RULE", "sum").replace("Sum: {render: number,", "Max: {render: number,"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "file: expected a mapping, found nothing"),
        ("[]", "file: expected a mapping, found a sequence of 0"),
        ("inputs: []\nroots: []", "file: the key 'version' is missing"),
        ("version: 1\ninputs: []\nroots: []", "file: expected version 0, found version '1'"),
        ("version: [0]\ninputs: []\nroots: []", "file, version: expected text"),
        ("version: 0\nroots: []", "file: the key 'inputs' is missing"),
        ("version: 0\ninputs: []", "file: the key 'roots' is missing"),
        ("version: 0\ninputs: {}\nroots: []", "inputs: expected a sequence"),
        ("version: 0\ninputs: [x]\nroots: []", "input 0: expected a mapping, found 'x'"),
        ("version: 0\ninputs: [{scope: x}]\nroots: []", "input 0: the key 'metric' is missing"),
        ("version: 0\ninputs: [{metric: x}]\nroots: []", "input 0: the key 'scope' is missing"),
        ("version: 0\ninputs: [{metric: x, scope: y, combine: mean}]\nroots: []", "input 0: expected combine"),
        (HEAD + "- variants: {}", "root 0: the key 'name' is missing"),
        (HEAD + "- name: C", r"root 0 \('C'\): the key 'variants' is missing"),
        (HEAD + "- {name: C, variants: []}", r"root 0 \('C'\), variants: expected a mapping"),
        (HEAD + "- {name: C, variants: {S: }}", r"root 0 \('C'\), variant 'S': expected a mapping, found nothing"),
        (HEAD + "- {name: C, variants: {S: {}}}", "variant 'S': the key 'render' is missing"),
        (HEAD + "- {name: C, variants: {S: {render: [[]]}}}", "variant 'S', render: expected text"),
        (
            HEAD + "- {name: C, variants: {}, children: [{name: D}]}",
            r"root 0 \('C'\), child 0 \('D'\): the key 'variants'",
        ),
        (one("{sin: [*a]}"), r"root 0 \('C'\), variant 'Sum', inclusive: unknown operator 'sin'"),
        (one("{neg: [*a]}"), "unknown operator 'neg'"),
        (one("{sqrt: [*a, 2]}"), "variant 'Sum', inclusive: sqrt takes 1 argument, not 2"),
        (one("{sqrt: []}"), "no arguments for 'sqrt'"),
        (one("{sqrt: *a}"), "arguments of 'sqrt': expected a sequence"),
        (one("{+: [*a], /: [*b]}"), "found a mapping of 2 keys"),
        (one("[4, *a]"), "expected an input, a number or .* found a sequence of 2"),
        (one("text"), "expected a finite number, found 'text'"),
        (one(".inf"), "expected a finite number, found '.inf'"),
        (one("1e999"), "expected a finite number, found '1e999'"),
        (one("1_000"), "expected a finite number, found '1_000'"),
    ],
)
def test_refused_files_name_the_place(text: str, message: str) -> None:
    with pytest.raises(MetricColumnsError, match=message):
        read_columns(text)


def test_damaged_yaml_is_refused_with_its_line() -> None:
    with pytest.raises(YamlError, match="line 2: "):
        read_columns("version: 0\n\tinputs: []")
    with pytest.raises(ValueError, match="line 1: "):
        read_columns("version: [0")


def test_shared_formulas_cannot_explode(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metric_columns, "MAX_TERMS", 5000)
    lines = ["x0: &x0 {+: [1, 1]}"] + [f"x{i}: &x{i} {{+: [*x{i - 1}, *x{i - 1}]}}" for i in range(1, 60)]
    with pytest.raises(MetricColumnsError, match="more than 5000 columns and terms"):
        read_columns("\n".join(lines) + "\n" + one("*x59"))


def test_shared_columns_cannot_explode(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metric_columns, "MAX_TERMS", 5000)
    lines = ["x0: &x0 {name: a, variants: {}}"]
    lines += [
        f"x{i}: &x{i} {{name: a, variants: {{}}, children: [{', '.join([f'*x{i - 1}'] * 4)}]}}" for i in range(1, 31)
    ]
    with pytest.raises(MetricColumnsError, match="more than 5000 columns and terms"):
        read_columns("\n".join(lines) + "\n" + HEAD + "- *x30")


def test_depth_is_limited() -> None:
    chain = ["x0: &x0 {sqrt: [1]}"] + [f"x{i}: &x{i} {{sqrt: [*x{i - 1}]}}" for i in range(1, 3000)]
    shallow = read_columns("\n".join(chain) + "\n" + one("*x100")).roots[0].variants[0].inclusive
    assert shallow == parse("sqrt(" * 101 + "1" + ")" * 101)
    with pytest.raises(MetricColumnsError, match="more than 200 levels of formulas"):
        read_columns("\n".join(chain) + "\n" + one("*x2999"))
    nested = "{name: a, variants: {}, children: [" * (MAX_LEVELS + 1) + "]}" * (MAX_LEVELS + 1)
    with pytest.raises(MetricColumnsError, match="levels of children"):
        read_columns(HEAD + "- " + nested)


def independent(node: Any, index_of: dict[int, int], columns: dict[int, float]) -> float:
    """The value of a formula straight from what PyYAML loaded; NaN where it divides by zero."""
    if id(node) in index_of:
        return columns[index_of[id(node)]]
    if isinstance(node, int | float):
        return float(node)
    [(operator, args)] = node.items()
    values = np.array([independent(arg, index_of, columns) for arg in args])
    if operator == "/":
        return float("nan") if values[1] == 0 else float(values[0] / values[1])
    functions: dict[str, Callable[[Any], Any]] = {"+": np.sum, "*": np.prod, "min": np.min, "max": np.max}
    return float(functions[operator](values))


def test_real_files_agree_with_an_independent_reading(shared: Path) -> None:
    generator = np.random.default_rng(1)
    n_formulas = n_computed = 0
    for path in sorted((shared / "data").rglob("metrics/default.yaml")):
        text = path.read_text(encoding="utf-8")
        document = yaml.safe_load(text)
        columns = read_columns(text)
        assert [vars(entry) for entry in columns.inputs] == document["inputs"]
        index_of = {id(entry): index for index, entry in enumerate(document["inputs"])}
        values = {index: float(generator.integers(0, 3)) for index in index_of.values()}
        arrays = {index: np.array([value]) for index, value in values.items()}
        for column, root in zip(columns.roots, document["roots"], strict=True):
            assert (column.name, column.description, column.children) == (root["name"], root["description"], ())
            assert column.visible == root.get("visible by default", True)
            for variant, (name, entry) in zip(column.variants, root["variants"].items(), strict=True):
                assert (variant.name, list(variant.render)) == (name, entry["render"])
                assert variant.format == root.get("format", "")
                formula = entry["formula"]
                for ours, part, kind in (
                    (variant.inclusive, "inclusive", "standard"),
                    (variant.exclusive_standard, "exclusive", "standard"),
                    (variant.exclusive_custom, "exclusive", "custom"),
                ):
                    assert (ours is None) == (kind not in formula.get(part, {}))
                    if ours is not None:
                        n_formulas += 1
                        n_computed += isinstance(ours, Call)
                        expected = independent(formula[part][kind], index_of, values)
                        np.testing.assert_allclose(evaluate(ours, arrays), [expected])
    assert n_formulas > 800
    assert n_computed > 50
