"""The language line by line: what a formula without operands is worth, and what is not a formula."""

from __future__ import annotations

import pickle
from dataclasses import replace

import numpy as np
import pytest

from callgrove.errors import NotEvaluated
from callgrove.model.builder import ExperimentBuilder
from callgrove.model.contexts import ContextKind
from callgrove.model.cubepl import Definition, Surroundings, compile_metrics
from callgrove.model.cubepl.nodes import CubePlError
from callgrove.model.cubepl.reserved import TreeNames
from callgrove.model.cubepl.syntax import MAX_DEPTH, MAX_TEXT, parse
from callgrove.model.cubepl.values import TextTable
from callgrove.model.experiment import Experiment
from callgrove.model.metrics import Metric, Scope
from callgrove.model.profiles import ProfileKind
from callgrove.model.system import System

NAN = float("nan")


def experiment(*definitions: Definition, around: Surroundings | None = None) -> Experiment:
    """main -> (f -> MPI_Send, g), with one thread; metrics as given."""
    builder = ExperimentBuilder("test", "1")
    file = builder.file("main.c")
    rows = [
        builder.region(ContextKind.FUNCTION, "main", file=file, line=1, end_line=9, details={"mangled_name": "_main"}),
        builder.region(ContextKind.FUNCTION, "f", file=file, role="function", details={"description": "of x"}),
        builder.region(ContextKind.FUNCTION, "MPI_Send", module=builder.module("MPI"), paradigm="mpi"),
    ]
    builder.add_context(-1, ContextKind.FUNCTION, rows[0], source_id=3)
    builder.add_context(0, ContextKind.FUNCTION, rows[1], source_id=0, call_file=file, call_line=7)
    builder.add_context(1, ContextKind.FUNCTION, rows[2], source_id=1)
    builder.add_context(0, ContextKind.FUNCTION, rows[1], source_id=2)
    builder.add_profile(ProfileKind.THREAD, [], source_id=0)
    compiled = compile_metrics(definitions, around)
    for row in compiled.rows:
        builder.add_metric(row)
    return builder.build()


def definition(formula: str, init: str = "") -> Definition:
    return Definition(Metric("d", Scope.NONE, unit="s", formula=formula), "POSTDERIVED", init)


def value(formula: str, init: str = "", around: Surroundings | None = None) -> float:
    """What a formula is worth in main."""
    found = experiment(definition(formula, init), around=around).totals("d", Scope.EXCLUSIVE)
    return float(found[0])


def holds(condition: str, before: str = "") -> bool:
    outcome = value("{ " + before + " ${r} = 0; if ( " + condition + " ) { ${r} = 1; }; return ${r}; }")
    assert outcome in (0, 1)
    return outcome == 1


@pytest.mark.parametrize(
    ("formula", "worth"),
    [
        # numbers and operators
        ("12", 12), ("1.5", 1.5), ("2.", 2), (".5", 0.5), ("1 + 2 * 3", 7), ("7 - 2 - 1", 4), ("8 / 2 / 2", 2),
        ("-2^2", -4), ("2^3^2", 64), ("2 * -3", -6), ("(1 + 2) * 3", 9), ("|1 - 4|", 3), ("||1 - 4| - 5|", 2),
        ("2^(0-1)", 0.5), ("1 // one\n + 2 // two", 3), ("\t1\r\n+\n2", 3),
        # specials of arithmetic
        ("0/5", 0), ("0/0", 0), ("1/0", NAN), ("-1/0", NAN), ("sqrt(0-4)", 0), ("sqrt(9)", 3), ("log(0)", NAN),
        ("log(0-1)", 0), ("log(exp(1))", 1), ("asin(2)", NAN), ("exp(1000)", NAN), ("0^0", 1),
        ("(0-8)^0.5", NAN), ("(0-2)^3", -8), ("0^(0-1)", NAN),
        # functions
        ("sin(0)", 0), ("cos(0)", 1), ("tan(0)", 0), ("acos(1)", 0), ("atan(0)", 0), ("abs(0-2)", 2), ("sgn(0-2)", -1),
        ("sgn(0)", 0), ("pos(3)", 3), ("pos(0-3)", 0), ("neg(3)", 0), ("neg(0-3)", -3), ("floor(1.7)", 1),
        ("floor(0-1.2)", -2), ("ceil(1.2)", 2), ("min(2, 3)", 2), ("max(2, 3)", 3),
        # variables
        ("${never}", 0), ("{ ${a} = 3; return ${a}; }", 3), ("{ ${a}[2] = 3; return ${a}[2] + ${a}; }", 3),
        ("{ ${a} = 5; return ${a}[0]; }", 5), ("{ ${a}[1.9] = 5; return ${a}[1]; }", 5),
        ("{ ${a}[0-0.5] = 5; return ${a}; }", 5),
        ("{ ${a} = 1; ${a} = ${a} + 1; return ${a} * { ${b} = 10; return ${b} + ${a}; }; }", 24),
        ("defined(x)", 0), ("{ ${x} = 1; return defined(x); }", 1), ("{ ${x}[4] = 1; return sizeof(x); }", 5),
        ("sizeof(x)", 0), ("{ global(x); local(y); ${x} = 2; return ${x} + ${y}; }", 2),
        # texts
        ('{ ${t} = "12"; return ${t} + 1; }', 13), ('{ ${t} = "abc"; return ${t} + 1; }', 1), ('"12" + 1', 1),
        ('{ ${t} = "3.5x"; return ${t}; }', 3.5), ("{ ${t} = '7'; return ${t}; }", 7),
        # statements
        ("{ if ( 1 == 1 ) { ${r} = 1; } elseif ( 1 == 1 ) { ${r} = 2; } else { ${r} = 3; }; return ${r}; }", 1),
        ("{ if ( 1 == 2 ) { ${r} = 1; } elseif ( 1 == 1 ) { ${r} = 2; } else { ${r} = 3; }; return ${r}; }", 2),
        ("{ if ( 1 == 2 ) { ${r} = 1; } elseif ( 1 == 2 ) { ${r} = 2; } else { ${r} = 3; }; return ${r}; }", 3),
        ("{ if ( 1 == 2 ) { ${r} = 1; }; return ${r}; }", 0), ("{ if ( true ) { }; return 4; }", 4),
        ("{ while ( ${i} < 5 ) { ${s} = ${s} + ${i}; ${i} = ${i} + 1; }; return ${s} * 10 + ${i}; }", 105),
        ("{ while ( ${i} <= 5 ) { ${a}[${i}] = ${i}^2; ${i} = ${i} + 1; }; return ${a}[5] + ${i}; }", 31),
    ],
)  # fmt: skip
def test_values(formula: str, worth: float) -> None:
    assert value(formula) == pytest.approx(worth, nan_ok=True)


@pytest.mark.parametrize(
    ("condition", "outcome"),
    [
        ("1 == 1", True), ("1 != 1", False), ("1 < 2", True), ("2 <= 2", True), ("1 > 2", False), ("2 >= 3", False),
        ("true", True), ("false", False), ("not ( false )", True), ("( 1 == 1 )", True), ("((1 + 1)) == 2", True),
        ("(1 + 1) * 2 == 4", True), ("( ( 1 == 1 ) and ( 2 == 2 ) )", True), ("not ( 1 == 1 and 1 == 2 )", True),
        # strictly from left to right
        ("1 == 1 or 2 == 3 and 2 == 3", False), ("2 == 3 and 2 == 3 or 1 == 1", True),
        # texts
        ('"abc" eq "abc"', True), ('"abc" eq "ABC"', False), ('"abc" seq "ABC"', True), ('"abc" seq "abd"', False),
        ('1 eq "1"', True), ('2.5 eq "2.5"', True), ('2.5 eq "2.50"', False), ('"a" == "b"', True), ('"12" == 0', True),
        ('${u} eq ""', True), ("${u} == 0", True), ('${u} eq "0"', False), ('lowercase("AbC") eq "abc"', True),
        ('uppercase("AbC") eq "ABC"', True), ('env(HOME) eq ""', True), ("random(3) < 3", True),
        # regular expressions
        ('"MPI_Send" =~ /^MPI_(S|R)e(nd|cv)$/', True), ('"xMPI_Send" =~ /MPI/', True), ('"mpi" =~ /MPI/', False),
        ('"a" =~ /(/', False), ('12 =~ /^1.$/', True), ('not ( "abc" =~ /b/ )', False), ('"a b" =~ /a b/', True),
    ],
)  # fmt: skip
def test_conditions(condition: str, outcome: bool) -> None:
    assert holds(condition) == outcome


def test_a_variable_holds_a_text() -> None:
    assert holds('${t} == 12 and ${t} eq "12"', '${t} = "12";')
    assert holds('${t} eq "x" and ${t} == 0', '${t} = "x";')
    assert holds('${n} eq "3"', "${n} = 1 + 2;")


@pytest.mark.parametrize(
    ("formula", "line", "column", "why"),
    [
        ("", 1, 1, "expected a value, found the end"),
        ("1 +", 1, 4, "expected a value, found the end"),
        ("1 1", 1, 3, "expected an operator or the end, found '1'"),
        ("1e5", 1, 2, "expected an operator or the end, found 'e5'"),
        ("+1", 1, 1, "expected a value, found '+'"),
        ("5 % 3", 1, 3, "expected an operator or the end, found '%'"),
        ("1 == 1", 1, 3, "expected an operator or the end, found '=='"),
        ("(1 == 1)", 1, 2, "expected a value, found a condition"),
        ("1 + (1 == 1)", 1, 6, "expected a value, found a condition"),
        ("true", 1, 1, "expected a value, found a condition"),
        ("pow(1, 2)", 1, 1, "there is no function or value 'pow'"),
        ("log10(1)", 1, 1, "there is no function or value 'log10'"),
        ("round(1)", 1, 1, "there is no function or value 'round'"),
        ("min(1)", 1, 5, "min takes 2 arguments, not 1"),
        ("sqrt(1, 2)", 1, 9, "sqrt takes 1 arguments, not 2"),
        ("sqrt 4", 1, 6, "expected '(', found '4'"),
        ("{ return 1 }", 1, 12, "expected ';', found '}'"),
        ("{ 1; return 1; }", 1, 3, "expected a statement, found '1'"),
        ("{ ${a} = 1;\n}", 2, 1, "expected a statement, found '}'"),
        ("{ if ( 1 == 1 ) { }\n return 1; }", 2, 2, "expected ';', found 'return'"),
        ("{ if ( 1 ) { }; return 1; }", 1, 8, "expected a condition, found a value"),
        ("{ if ( 1 == 1 xor 1 == 2 ) { }; return 1; }", 1, 15, "expected ')', found 'xor'"),
        ("{ if ( true ) { return 1; }; return 2; }", 1, 17, "return stands only at the end of a whole block"),
        ("{ ${a} = 1 == 1; return 1; }", 1, 12, "expected ';', found '=='"),
        ("metric::time", 1, 13, "expected '(', found the end"),
        ("metric::time(x)", 1, 14, "expected i, e or *, found 'x'"),
        ("metric::time(i,e,e)", 1, 17, "expected ')', found ','"),
        ("metric::call::time()", 1, 20, "expected a value, found ')'"),
        ("${a", 1, 1, "expected a value, found '$'"),
        ("${a}[1", 1, 7, "expected ']', found the end"),
        ('"abc', 1, 1, "expected a value, found '\"'"),
        ('{ if ( "a" =~ b ) { }; return 1; }', 1, 15, "expected a regular expression between two '/', found 'b'"),
        (r'{ if ( "a" =~ /(a)\1/ ) { }; return 1; }', 1, 16, "this regular expression is not supported: it names"),
        ('{ cube::metric::set::x("value"); return 1; }', 1, 31, "expected ',', found ')'"),
        ("{ cube::metric::prederived::n(e) << 1 >>; return 1; }", 1, 3, "made inside of a formula are not supported"),
        ("arg1 + arg2", 1, 1, "there is no function or value 'arg1'"),
        ("(" * 201 + "1" + ")" * 201, 1, 201, "nested more than 200 deep"),
        ("abs(" * 201 + "1" + ")" * 201, 1, 801, "nested more than 200 deep"),
        ("(1+2*" * 120 + "1" + ")" * 120, 1, None, "nested more than 200 deep"),
        ("1" * (MAX_TEXT + 1), 1, 1, "characters"),
        (
            "{ " + 'if ( "a" =~ /(a{900}){90}/ ) { }; ' * 20 + "return 1; }",
            1,
            None,
            "regular expressions of this formula",
        ),
    ],
)
def test_what_is_no_formula(formula: str, line: int, column: int | None, why: str) -> None:
    with pytest.raises(CubePlError) as error:
        parse(formula)
    said = error.value.in_text(formula)
    assert said.startswith(f"line {line}, column {'' if column is None else f'{column}: '}")
    assert why in said


def test_long_formulas_need_no_stack() -> None:
    assert value(" + ".join(["1"] * 20_000)) == 20_000
    assert value(" * ".join(["1"] * 20_000)) == 1
    assert value("(" * (MAX_DEPTH - 1) + "1" + ")" * (MAX_DEPTH - 1)) == 1
    deep = "{ " + "if ( true ) { " * 60 + "${a} = 1; " + "}; " * 60 + "return ${a}; }"
    assert value(deep) == 1
    assert holds(" or ".join(["1 == 2"] * 5000 + ["true"]))
    assert holds("(" * 150 + "1 == 1" + ")" * 150)  # a bracket is read once


@pytest.mark.parametrize(
    ("formula", "why"),
    [
        ("{ while ( true ) { ${i} = 1; }; return 1; }", "line 1, column 3: the loop does not end within 5,000 steps"),
        (
            "{ while ( ${i} < 100 ) { ${j} = 0; while ( ${j} < 100 ) { ${j} = ${j} + 1; ${i} = ${i}; }; }; return 1; }",
            "the loop does",
        ),
        ("${a}[0 - 1]", "line 1, column 6: the index -1 is negative"),
        ("{ ${a}[0 - 3] = 1; return 1; }", "line 1, column 8: the index -3 is negative"),
        ("{ ${a}[10^9] = 1; return 1; }", "the index 1e+09 is not below"),
        ("${a}[1 / 0]", "the index nan is not below"),
        ('{ cube::metric::set::d("value", "VOID"); return 1; }', "metrics are set in init blocks only"),
        ("metric::call::d2(0, i)", None),
    ],
)
def test_what_fails_when_it_runs(formula: str, why: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("callgrove.model.cubepl.interpreter.MOST_STEPS", 5000)
    if why is None:
        assert value(formula) == 0
        return
    with pytest.raises(NotEvaluated) as error:
        value(formula)
    assert why in str(error.value)
    assert "line 1, column" in str(error.value)


def test_work_is_bounded_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("callgrove.model.cubepl.interpreter.MOST_SECONDS", 0.05)
    with pytest.raises(NotEvaluated, match=r"line 1, column 3: it takes more than 0\.05 seconds"):
        value("{ while ( true ) { ${i} = ${i} + 1; }; return 1; }")


def test_what_variables_hold_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Elements that differ from cell to cell: few cells, and very many elements."""
    monkeypatch.setattr("callgrove.model.cubepl.interpreter.MOST_HELD", 100)
    with pytest.raises(NotEvaluated, match="the variables hold too much"):
        value(
            "{ while ( ${i} < 1000 ) { ${i} = ${i} + 1; ${a}[${i} * 2] = ${calculation::callpath::id}; }; return 1; }"
        )
    with pytest.raises(NotEvaluated, match="more than 1000 assignments to elements that differ"):
        value("{ while ( ${i} < 2000 ) { ${i} = ${i} + 1; ${a}[${calculation::callpath::id}] = 1; }; return 1; }")


def test_variables_hold_64_numbers_for_each_cell_whatever_the_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("callgrove.model.cubepl.interpreter.MOST_HELD", 0)
    assign = [f"${{a}}[{k}] = ${{calculation::callpath::id}};" for k in range(65)]
    assert value(f"{{ {' '.join(assign[:64])} return 1; }}") == 1
    with pytest.raises(NotEvaluated, match="the variables hold too much"):
        value(f"{{ {' '.join(assign)} return 1; }}")


# -- reserved names ----------------------------------------------------------------------------------------------------

PLACES = System(
    np.array([-1, 0, 1, 2, 2], np.int32),
    ("machine", "node", "process", "thread", "thread"),
    ("M", "n1 <VOID>", "rank 0", "t0", "t1"),
    np.array([-1, -1, 0, 0, 1], np.int64),
    {1: {"description": "of node"}},
)
AROUND = Surroundings("run.cubex", 2, PLACES, (3, 4))


@pytest.mark.parametrize(
    ("name", "worth"),
    [
        ("cube::#callpaths", 4), ("cube::#root::callpaths", 1), ("cube::#regions", 3), ("cube::#metrics", 1),
        ("cube::#root::metrics", 1), ("cube::#mirrors", 2), ("cube::#locations", 2), ("cube::#locationgroups", 1),
        ("cube::#stns", 2), ("cube::#rootstns", 1), ("cube::#locations::void", 0), ("cube::#locations::nonvoid", 2),
        ("cube::#locationgroups::void", 1), ("cube::callpath::calleeid}[3", 0), ("cube::callpath::calleeid}[1", 2),
        ("cube::callpath::parent::id}[1", 0), ("cube::callpath::parent::id}[3", -1),
        ("cube::callpath::#children}[3", 2),
        ("cube::callpath::line}[0", 7), ("cube::callpath::enumeration}[1", 0), ("cube::region::begin::line}[0", 1),
        ("cube::region::end::line}[0", 9), ("cube::metric::#children}[0", 0), ("cube::metric::parent::id}[0", -1),
        ("cube::location::rank}[1", 1), ("cube::location::parent::id}[1", 0), ("cube::locationgroup::#locations}[0", 2),
        ("cube::stn::#children}[0", 1), ("cube::stn::#locationgroups}[1", 1), ("cube::locationgroup::void}[0", 1),
        ("cube::location::rank}[77", 0), ("cube::region::begin::line}[9", 0), ("cube::metric::enumeration}[0", 0),
    ],
)  # fmt: skip
def test_reserved_numbers(name: str, worth: float) -> None:
    assert value("${" + name + ("]" if "[" in name else "}"), around=AROUND) == worth


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("cube::filename", "run.cubex"), ("cube::region::name}[0", "main"), ("cube::region::mangled::name}[0", "_main"),
        ("cube::region::mangled_name}[0", ""), ("cube::region::paradigm}[2", "mpi"),
        ("cube::region::role}[1", "function"),
        ("cube::region::mod}[0", "main.c"), ("cube::region::mod}[2", "MPI"), ("cube::region::description}[1", "of x"),
        ("cube::region::url}[1", ""), ("cube::region::name}[99", ""), ("cube::callpath::mod}[0", "main.c"),
        ("cube::metric::uniq::name}[0", "d"), ("cube::metric::disp::name}[0", "d"), ("cube::metric::uom}[0", "s"),
        ("cube::metric::dtype}[0", "double"), ("cube::location::name}[1", "t1"), ("cube::location::type}[0", "thread"),
        ("cube::locationgroup::name}[0", "rank 0"), ("cube::locationgroup::type}[0", "process"),
        ("cube::stn::name}[0", "M"), ("cube::stn::class}[0", "machine"), ("cube::stn::description}[1", "of node"),
    ],
)  # fmt: skip
def test_reserved_texts(name: str, text: str) -> None:
    condition = "${" + name + ("]" if "[" in name else "}") + f' eq "{text}"'
    assert value("{ if ( " + condition + " ) { ${r} = 1; }; return ${r}; }", around=AROUND) == 1


def test_ids_of_contexts_that_several_share_are_their_numbers() -> None:
    found = experiment(definition("${calculation::callpath::id} + 100 * ${cube::#callpaths}"))
    tree = replace(found.contexts, source_id=np.array([5, 5, 6, 7]))
    joined = replace(found, contexts=tree, values=replace(found.values, tree=tree))
    assert joined.totals("d", Scope.EXCLUSIVE).tolist() == [400, 401, 402, 403]
    assert found.totals("d", Scope.EXCLUSIVE).tolist() == [403, 400, 401, 402]


def test_ids_between_those_of_contexts_have_no_region() -> None:
    """What is left of a call tree keeps its ids, and loops over all ids see regions of those only."""
    init = """{ global(n); ${n} = 0; while ( ${i} < ${cube::#callpaths} ) {
        if ( ${cube::region::name}[${cube::callpath::calleeid}[${i}]] eq "main" ) { ${n} = ${n} + 1; };
        ${i} = ${i} + 1; }; return 0; }"""
    found = experiment(definition("${n} * 100 + ${cube::#callpaths}", init))
    tree = found.contexts.take(np.array([0, 3]))
    part = replace(found, contexts=tree, values=replace(found.values, tree=tree))
    assert part.totals("d", Scope.EXCLUSIVE).tolist() == [104, 104]


def test_derived_metrics_travel() -> None:
    """Rows go to other processes, with the program that they share; and equal formulas are equal."""
    found = experiment(definition("${x} + 1", "{ global(x); ${x} = 2; return 0; }"))
    assert found.totals("d", Scope.EXCLUSIVE)[0] == 3
    row = pickle.loads(pickle.dumps(found.metrics.first("d")))
    assert row.derivation == found.metrics.first("d").derivation
    assert hash(row.derivation) == hash(found.metrics.first("d").derivation)
    metrics = replace(found.metrics, rows=(row,))
    again = replace(found, metrics=metrics, values=replace(found.values, metrics=metrics))
    assert again.totals("d", Scope.EXCLUSIVE)[0] == 3
    other = experiment(definition("${x} + 1", "{ global(x); ${x} = 4; return 0; }"))
    assert other.metrics.first("d").derivation != row.derivation


@pytest.mark.parametrize(
    ("formula", "linear"),
    [
        ("metric::a() + metric::b() - metric::a(*)", True),
        ("2 * metric::a() / 4 + (-metric::b())", True),
        ("metric::context::a()", True),
        ("0", True),
        ("metric::a() + 1", False),
        ("metric::a(i)", False),
        ("metric::a() * metric::b()", False),
        ("2 / metric::a()", False),
        ("metric::a() / 0", False),
        ("metric::fixed::a()", False),
        ("abs(metric::a())", False),
        ("${x} * metric::a()", False),
    ],
)
def test_which_formulas_are_linear(formula: str, linear: bool) -> None:
    stored = [Definition(Metric(name, Scope.EXCLUSIVE)) for name in "ab"]
    compiled = compile_metrics([*stored, definition(formula)])
    derivation = compiled.rows[-1].derivation
    assert derivation is not None
    assert derivation.is_linear == linear


def test_metrics_below_the_first_one_are_its_children() -> None:
    metrics = [Metric(f"m{k}", Scope.EXCLUSIVE, parent=parent) for k, parent in enumerate((-1, 0, 0, 1))]
    names = TreeNames(experiment().contexts, metrics, Surroundings(), TextTable())
    assert names.metric_child_counts().tolist() == [2, 1, 0, 0]
