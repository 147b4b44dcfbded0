"""Formulas over random experiments: evaluated for all cells at once, they are what the plainest interpreter makes of
each cell; and what is linear may be added up before or afterwards."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from callgrove.model.builder import ExperimentBuilder
from callgrove.model.contexts import ContextKind
from callgrove.model.cubepl import Definition, compile_metrics
from callgrove.model.cubepl.loops import plan_loop
from callgrove.model.cubepl.nodes import Block, Reference, While, walk
from callgrove.model.cubepl.syntax import parse
from callgrove.model.experiment import Experiment
from callgrove.model.metrics import Aggregation, Metric, Scope
from callgrove.model.profiles import ProfileKind
from tests.model.cubepl.plain import Plain, PlainInterpreter

SCOPES = {"i": Scope.INCLUSIVE, "e": Scope.EXCLUSIVE}
NAMES = ("MPI_Send", "mpi_recv", "work")


@st.composite
def experiments(draw: st.DrawFn) -> Experiment:
    """A few contexts and profiles; metrics t, stored exclusive, and v, stored inclusive. Ids are not in order."""
    n, n_profiles = draw(st.integers(1, 6)), draw(st.integers(1, 3))
    builder = ExperimentBuilder("test", "1")
    regions = [builder.region(ContextKind.FUNCTION, name, paradigm="mpi" if "_" in name else "") for name in NAMES]
    parents = [-1, *(draw(st.integers(-1, k - 1)) for k in range(1, n))]
    ids = draw(st.permutations(range(n)))
    for parent, id_ in zip(parents, ids, strict=True):
        builder.add_context(parent, ContextKind.FUNCTION, draw(st.sampled_from(regions)), source_id=id_)
    for number in range(n_profiles):
        builder.add_profile(ProfileKind.THREAD, [], source_id=number)
    for row, name, scope in ((0, "t", Scope.EXCLUSIVE), (1, "v", Scope.INCLUSIVE)):
        builder.add_metric(Metric(name, scope))
        values = draw(st.lists(st.sampled_from([0.0, 1.0, 2.5, -3.0, 7.0]), min_size=n, max_size=n))
        for profile in range(n_profiles):
            builder.add_values([profile] * n, list(range(n)), [row] * n, np.roll(values, profile))
    return builder.build()


def with_formula(experiment: Experiment, kind: str, formula: str, init: str = "") -> Experiment:
    row = Metric("d", Scope.NONE, formula=formula)
    compiled = compile_metrics([*map(Definition, experiment.metrics), Definition(row, kind, init)])
    assert not compiled.unavailable
    metrics = replace(experiment.metrics, rows=compiled.rows)
    return replace(experiment, metrics=metrics, values=replace(experiment.values, metrics=metrics))


# -- formulas ----------------------------------------------------------------------------------------------------------

METRICS = ("metric::t()", "metric::t(e)", "metric::t(i)", "metric::v()", "metric::v(e)", "metric::absent()")
VARIABLES = ("${a}", "${b}", "${c}[1]", "${c}[${k}]", "${calculation::callpath::id}", "${calculation::sysres::id}")
OPERANDS = st.sampled_from([*METRICS, *VARIABLES, "0", "1", "2.5", '"7"'])
EXPRESSIONS = st.recursive(
    OPERANDS,
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from("+-*/"), inner).map(lambda p: f"({p[0]} {p[1]} {p[2]})"),
        st.tuples(st.sampled_from(["min", "max"]), inner, inner).map(lambda p: f"{p[0]}({p[1]}, {p[2]})"),
        st.tuples(st.sampled_from(["sqrt", "abs", "sgn", "pos", "neg", "floor", "ceil"]), inner).map(
            lambda p: f"{p[0]}({p[1]})"
        ),
        inner.map(lambda one: f"(-{one})"),
        inner.map(lambda one: f"|{one}|"),
    ),
    max_leaves=5,
)
VALUES = st.one_of(EXPRESSIONS, st.sampled_from(['"mpi"', '"12"', '"-3x"', "${cube::region::name}[${k}]"]))
CONDITIONS = st.recursive(
    st.one_of(
        st.tuples(EXPRESSIONS, st.sampled_from(["==", "!=", "<", ">", "<=", ">="]), EXPRESSIONS).map(" ".join),
        st.tuples(VALUES, st.sampled_from(["eq", "seq"]), VALUES).map(" ".join),
        VALUES.map(lambda one: f"{one} =~ /^[m1](p|2)/"),
        st.sampled_from(["true", "false"]),
    ),
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from(["and", "or"]), inner).map(" ".join),
        inner.map(lambda one: f"not ( {one} )"),
        inner.map(lambda one: f"( {one} )"),
    ),
    max_leaves=3,
)
ASSIGNMENTS = st.tuples(st.sampled_from(["${a}", "${b}", "${c}[1]", "${c}[${k}]"]), VALUES).map(" = ".join)


def block(statements: list[str]) -> str:
    return "{ " + " ".join(f"{one};" for one in statements) + " }"


STATEMENTS = st.recursive(
    ASSIGNMENTS,
    lambda inner: st.one_of(
        st.tuples(CONDITIONS, st.lists(inner, max_size=2), st.lists(inner, max_size=2)).map(
            lambda p: f"if ( {p[0]} ) {block(p[1])} else {block(p[2])}"
        ),
        st.tuples(CONDITIONS, CONDITIONS, inner, inner).map(
            lambda p: f"if ( {p[0]} ) {block([p[2]])} elseif ( {p[1]} ) {block([p[3]])}"
        ),
        st.tuples(EXPRESSIONS, st.lists(inner, max_size=2)).map(
            lambda p: f"while ( ${{k}} < 3 and ${{k}} < abs({p[0]}) ) {block([*p[1], '${k} = ${k} + 1'])}"
        ),
    ),
    max_leaves=5,
)
FORMULAS = st.one_of(
    EXPRESSIONS,
    st.tuples(st.lists(STATEMENTS, max_size=3), EXPRESSIONS).map(lambda p: block([*p[0], f"return {p[1]}"])),
)


def plainly(experiment: Experiment, formula: str, scope: Scope, profile: int | None, is_each: bool) -> list[float]:
    """The formula in every context, of a profile or of all of them."""
    tree, known, parsed = experiment.contexts, reserved(experiment), parse(formula)
    values = {(name, s): experiment.matrix(name, s) for name in "tv" for s in SCOPES.values()}
    out = []
    for context in range(len(tree)):

        def operand(reference: Reference, context: int = context) -> float:
            if reference.metric == "absent":
                return 0.0
            wanted = SCOPES.get(reference.modifiers[0], scope) if reference.modifiers else scope
            matrix = values[reference.metric, wanted]
            return float(matrix[context].sum() if profile is None else matrix[context, profile])

        known["calculation::callpath::id", 0] = float(tree.source_id[context])
        known["calculation::sysres::id", 0] = float(profile or 0) if is_each else 0.0
        out.append(PlainInterpreter(operand, known).number(parsed))
    return out


def reserved(experiment: Experiment) -> dict[tuple[str, int], Plain]:
    tree = experiment.contexts
    known: dict[tuple[str, int], Plain] = {("cube::#callpaths", 0): float(len(tree))}
    for region in range(len(tree.regions)):
        known["cube::region::name", region] = tree.regions.label(region)
        known["cube::region::paradigm", region] = tree.regions.text("paradigm")[region]
    for context, id_ in enumerate(tree.source_id.tolist()):
        known["cube::callpath::calleeid", id_] = float(tree.region[context])
    return known


def same(ours: object, theirs: object) -> None:
    np.testing.assert_allclose(np.asarray(ours), np.asarray(theirs), rtol=1e-9, atol=1e-9, equal_nan=True)


@given(experiments(), FORMULAS)
def test_formulas_of_sums(experiment: Experiment, formula: str) -> None:
    found = with_formula(experiment, "POSTDERIVED", formula)
    for scope in (Scope.EXCLUSIVE, Scope.INCLUSIVE):
        columns = [plainly(experiment, formula, scope, profile, False) for profile in range(len(experiment.profiles))]
        same(found.matrix("d", scope), np.transpose(columns))
        same(found.totals("d", scope), plainly(experiment, formula, scope, None, False))


@given(experiments(), FORMULAS)
def test_formulas_of_single_cells(experiment: Experiment, formula: str) -> None:
    tree = experiment.contexts
    for kind, scope in (("PREDERIVED_EXCLUSIVE", Scope.EXCLUSIVE), ("PREDERIVED_INCLUSIVE", Scope.INCLUSIVE)):
        found = with_formula(experiment, kind, formula)
        columns = [plainly(experiment, formula, scope, profile, True) for profile in range(len(experiment.profiles))]
        given_cells = np.transpose(columns)
        same(found.matrix("d", scope), given_cells)
        same(found.totals("d", scope), given_cells.sum(axis=1))
        other = np.array(given_cells)
        for context in range(len(tree)):
            if scope == Scope.EXCLUSIVE:
                other[context] = given_cells[context : tree.subtree_end[context]].sum(axis=0)
            else:
                other[context] = given_cells[context] - given_cells[tree.children(context)].sum(axis=0)
        wanted = Scope.INCLUSIVE if scope == Scope.EXCLUSIVE else Scope.EXCLUSIVE
        same(found.matrix("d", wanted), other)


# -- linear formulas ---------------------------------------------------------------------------------------------------

LINEAR = st.recursive(
    st.sampled_from(["metric::t()", "metric::v(*)", "metric::context::t()", "metric::absent()"]),
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from("+-"), inner).map(" ".join),
        st.tuples(st.sampled_from(["2", "0.5", "-3"]), inner).map(
            lambda p: f"({p[1]}) * {p[0]}".replace("* -", "* 1 * -")
        ),
        inner.map(lambda one: f"({one}) / 4"),
        inner.map(lambda one: f"(-({one}))"),
    ),
    max_leaves=5,
)


@given(experiments(), LINEAR)
def test_linear_formulas_add_up_before_and_after(experiment: Experiment, formula: str) -> None:
    found = with_formula(experiment, "POSTDERIVED", formula)
    assert found.metrics.first("d").aggregation == Aggregation.SUM
    each = with_formula(experiment, "PREDERIVED_EXCLUSIVE", formula)
    for scope in (Scope.EXCLUSIVE, Scope.INCLUSIVE):
        same(found.matrix("d", scope).sum(axis=1), found.totals("d", scope))
        same(found.totals("d", scope), each.totals("d", scope))


# -- loops of init blocks ----------------------------------------------------------------------------------------------

LOOP_OPERANDS = st.sampled_from(
    [
        "${i}",
        "${x}",
        "${y}",
        "${m}[${i}]",
        "${n}[${i}]",
        "${m}[0]",
        "1",
        "2",
        "${cube::callpath::calleeid}[${i}]",
        "${r}",
    ]
)
LOOP_VALUES = st.one_of(
    LOOP_OPERANDS,
    st.tuples(LOOP_OPERANDS, st.sampled_from("+-*"), LOOP_OPERANDS).map(" ".join),
    st.sampled_from(["${cube::region::name}[${r}]", '"MPI_SEND"', '"4"']),
)
LOOP_CONDITIONS = st.one_of(
    st.tuples(LOOP_OPERANDS, st.sampled_from(["==", "<"]), LOOP_OPERANDS).map(" ".join),
    st.tuples(LOOP_VALUES, st.sampled_from(["eq", "seq"]), LOOP_VALUES).map(" ".join),
    st.just("${cube::region::name}[${r}] =~ /^MPI/"),
)
LOOP_ASSIGNMENTS = st.tuples(st.sampled_from(["${x}", "${y}", "${m}[${i}]", "${n}[${i}]"]), LOOP_VALUES).map(" = ".join)
LOOP_STATEMENTS = st.recursive(
    LOOP_ASSIGNMENTS,
    lambda inner: st.tuples(LOOP_CONDITIONS, st.lists(inner, min_size=1, max_size=2), st.lists(inner, max_size=2)).map(
        lambda p: f"if ( {p[0]} ) {block(p[1])} else {block(p[2])}"
    ),
    max_leaves=4,
)
LOOPS = st.tuples(st.lists(LOOP_ASSIGNMENTS, max_size=2), st.lists(LOOP_STATEMENTS, min_size=1, max_size=4)).map(
    lambda p: (
        "{ global(m); global(n); global(x); global(y); ${i} = 0; "
        + " ".join(f"{one};" for one in p[0])
        + " while ( ${i} < ${cube::#callpaths} ) "
        + block(["${r} = ${cube::callpath::calleeid}[${i}]", *p[1], "${i} = ${i} + 1"])
        + "; return 0; }"
    )
)
ASKED = ("${m}[${calculation::callpath::id}]", "${n}[${calculation::callpath::id}]", "${x}", "${y}", "${m}", "${x}[1]")


@given(experiments(), LOOPS)
def test_loops_of_init_blocks(experiment: Experiment, init: str) -> None:
    """Whether a loop runs for all counts at once or step by step, it leaves the same behind."""
    first = PlainInterpreter(lambda reference: 0.0, reserved(experiment))
    first.value(parse(init))
    shared = {key: value for key, value in first.variables.items() if key[0] in "mnxy"}
    for formula in ASKED:
        found = with_formula(experiment, "POSTDERIVED", formula, init).totals("d", Scope.EXCLUSIVE)
        for context, id_ in enumerate(experiment.contexts.source_id.tolist()):
            known = {**reserved(experiment), **shared, ("calculation::callpath::id", 0): float(id_)}
            assert found[context] == PlainInterpreter(lambda reference: 0.0, known).number(parse(formula))


def is_planned(body: str) -> bool:
    tree = parse("{ while ( ${i} < 9 ) { " + body + " ${i} = ${i} + 1; }; return 0; }")
    assert isinstance(tree, Block)
    loop = next(node for node in walk(tree) if isinstance(node, While))
    return plan_loop(loop) is not None


def test_which_loops_run_at_once() -> None:
    assert is_planned("${m}[${i}] = 1; ${r} = ${i} * 2; ${n}[${i}] = ${r} + ${m}[${i}];")
    assert is_planned("if ( ${i} < 3 ) { ${r} = 1; } else { ${r} = 2; }; ${m}[${i}] = ${r};")
    assert is_planned("${seen} = 1;")
    assert not is_planned("${sum} = ${sum} + ${i};")
    assert not is_planned("if ( ${i} < 3 ) { ${r} = 1; }; ${m}[${i}] = ${r};")
    assert not is_planned("${m}[${i}] = ${m}[${i} - 1];")
    assert not is_planned("${m}[${i} + 1] = 1;")
    assert not is_planned("${i} = 5;")
    assert not is_planned("${m}[${i}] = random(3);")
    assert not is_planned("while ( ${j} < 3 ) { ${j} = ${j} + 1; };")
    assert not is_planned('cube::metric::set::m("value", "VOID");')
