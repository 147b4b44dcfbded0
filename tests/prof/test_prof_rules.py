"""The rules of attribution, one by one, on files made for them."""

from __future__ import annotations

from pathlib import Path

import pytest

from callgrove.errors import InputError
from callgrove.formats.hpcrun.hpctrace import CALL_TRACE, write_trace
from callgrove.model.contexts import ContextKind
from callgrove.model.experiment import Experiment
from callgrove.model.metrics import Scope
from callgrove.prof.experiment import Attribution
from callgrove.prof.nodes import Flavour
from tests.formats.hpcrun.hpcrun_bytes import DERIVED, INT, REAL, File04, RawEpoch, RawMetric, RawNode, code, file_02
from tests.prof.making import IDLE, MAIN, PARTIAL, UNKNOWN, experiment_of, measured, nodes, put, structure

APP = """<LM i="2" n="/bin/app" has-calls="0" v="{}">
<F i="3" n="/src/app.c">
<P i="4" n="main" l="10" v="{[0x1000-0x1001)}">
<S i="5" l="11" v="{[0x1000-0x1010)}"/>
<L i="6" l="12" v="{[0x1010-0x1011)}">
<S i="7" l="13" v="{[0x1010-0x1020)}"/>
<A i="8" l="14" v="{}"><A i="9" l="70" f="/src/inl.h" n="tiny" v="{}"><S i="10" l="71" v="{[0x1020-0x1030)}"/></A></A>
</L>
</P>
</F>
</LM>"""
TREE = nodes((14, 12, 0, MAIN, 1), (16, 14, 1, 0x1008, 1), (18, 16, 1, 0x1024, 1), (20, 16, 1, 0x5000, 1))


def tree(experiment: Experiment) -> list[tuple[int, str, str]]:
    """(depth, kind, name) of the contexts of the tree."""
    contexts = experiment.contexts
    return [
        (int(contexts.depth[c]), ContextKind(int(contexts.kind[c])).word, contexts.name(c))
        for c in range(contexts.n_listed)
    ]


def cost(experiment: Experiment, scope: Scope, name: str = "CPUTIME (sec)") -> dict[str, float]:
    """{context: value} over all profiles; elided contexts by their kind."""
    row = experiment.metrics.find(name, scope)
    assert row is not None
    totals = experiment.values.totals(row)
    found: dict[str, float] = {}
    for context, value in enumerate(totals.tolist()):
        if value:
            is_elided = experiment.contexts.kind[context] == ContextKind.ELIDED
            key = "elided" if is_elided else experiment.contexts.name(context)
            found[key] = found.get(key, 0.0) + value
    return found


def test_scopes_of_the_structure_file_are_contexts(tmp_path: Path) -> None:
    structure(tmp_path, "app", APP)
    measured(tmp_path, File04(TREE, values=((18, ((0, 0.25),)), (16, ((0, 1.0),)), (20, ((0, 0.5),)))))
    made = experiment_of(tmp_path)
    assert tree(made) == [
        (0, "entry", "main thread"),
        (1, "function", "main"),
        (2, "line", "/src/app.c:11"),
        (3, "function", "main"),
        (4, "loop", "loop at /src/app.c:12"),
        (5, "line", "/src/app.c:14"),
        (6, "inlined", "tiny"),
        (7, "line", "/src/inl.h:71"),
        (3, "instruction", "/bin/app+0x5000"),  # in no range: nothing is known, though the module is covered
    ]
    assert cost(made, Scope.POINT) == {"elided": 1.25, "/bin/app+0x5000": 0.5}
    # main, then main called from it: each has what is nested in it, not what it calls
    function = {"main": 1.0, "/src/app.c:11": 1.0, "elided": 1.25, "/bin/app+0x5000": 0.5}
    inlined = {"tiny": 0.25, "/src/inl.h:71": 0.25}
    assert cost(made, Scope.FUNCTION) == function | inlined
    inclusive = {"main thread": 1.75, "main": 1.75 + 0.25, "/src/app.c:11": 1.75, "elided": 1.75 + 0.25}
    loop = {"loop at /src/app.c:12": 0.25, "/src/app.c:14": 0.25}
    assert cost(made, Scope.INCLUSIVE) == inclusive | loop | inlined | {"/bin/app+0x5000": 0.5}
    assert cost(made, Scope.LEXICAL) == cost(made, Scope.FUNCTION)


def test_structures_can_be_ignored_and_named(tmp_path: Path) -> None:
    structure(tmp_path / "m", "app", APP)
    elsewhere = structure(tmp_path, "other", APP.replace("main", "renamed"))
    measured(tmp_path / "m", File04(TREE, values=()))
    ignored = experiment_of(tmp_path / "m", attribution=Attribution(uses_structures=False))
    assert [kind for _, kind, _ in tree(ignored)] == ["entry", "instruction", "instruction", "instruction"]
    named = experiment_of(tmp_path / "m", attribution=Attribution((elsewhere,)))
    assert tree(named)[1] == (1, "function", "renamed")


def test_a_structure_file_of_another_binary_changes_nothing(tmp_path: Path) -> None:
    other = structure(tmp_path, "other", APP.replace("/bin/app", "/bin/other"))
    measured(tmp_path / "m", File04(TREE, values=()))
    made = experiment_of(tmp_path / "m", attribution=Attribution((other,)))
    assert [kind for _, kind, _ in tree(made)] == ["entry", "instruction", "instruction", "instruction"]
    assert any("describes /bin/other, in which nothing was measured" in w.text for w in made.warnings)


@pytest.mark.parametrize("content", [b"", b"<HPCToolkitStructure", b"\0" * 100])
def test_a_broken_structure_file_counts_as_absent(content: bytes, tmp_path: Path) -> None:
    structure(tmp_path, "app", APP).write_bytes(content)
    measured(tmp_path, File04(TREE, values=()))
    made = experiment_of(tmp_path)
    assert [kind for _, kind, _ in tree(made)] == ["entry", "instruction", "instruction", "instruction"]
    assert any("the structure file is not used" in w.text for w in made.warnings)


def test_metrics_of_functions_move_there(tmp_path: Path) -> None:
    structure(tmp_path, "app", APP)
    metrics = (RawMetric("CPUTIME (sec)", REAL), RawMetric("CALLS", INT, move2proc=1))
    measured(tmp_path, File04(TREE, metrics, values=((18, ((0, 0.5), (1, 3))),)))
    made = experiment_of(tmp_path)
    assert cost(made, Scope.POINT, "CALLS") == {"main": 3}
    assert cost(made, Scope.POINT) == {"elided": 0.5}


def test_periods_and_hidden_metrics_and_scopes_by_show(tmp_path: Path) -> None:
    metrics = (
        RawMetric("A", INT, period=1000),
        RawMetric("B", INT, show=2),
        RawMetric("C", INT, show=3),
        RawMetric("D", INT, show=0, period=0),
        RawMetric("RATE", REAL, formula="#0/#1", ty=DERIVED),
        RawMetric("TWICE", REAL, formula="2*#4", ty=DERIVED, show=4),
    )
    measured(tmp_path, File04(TREE, metrics, values=((18, ((0, 2), (1, 3), (2, 4), (3, 5))),)))
    made = experiment_of(tmp_path)
    scopes = {name: [s.word for s in made.metrics.scopes(name)] for name in made.metrics.quantities}
    everything = ["point", "function", "lexical", "inclusive"]
    assert scopes == {"A": everything, "B": ["point", "inclusive"], "C": everything[:3], "D": everything}
    assert cost(made, Scope.POINT, "A") == {"/bin/app+0x1024": 2000}
    assert cost(made, Scope.POINT, "D") == {"/bin/app+0x1024": 5}
    assert not made.metrics.first("D").visible
    ids = {(m.name, m.scope): m.source_id for m in made.metrics}
    assert sorted(ids.values(), key=str) == sorted(range(13), key=str)
    a, b = ids["A", Scope.INCLUSIVE], ids["B", Scope.INCLUSIVE]
    columns = {c.name: (c.scope, c.formula, c.visible) for c in made.metrics.columns if c.scope == Scope.INCLUSIVE}
    assert columns["RATE"] == (Scope.INCLUSIVE, f"${a}/${b}", True)
    assert columns["TWICE"] == (Scope.INCLUSIVE, f"2*(${a}/${b})", False)
    assert any("period of D is 0" in w.text for w in made.warnings)


def test_what_stands_below_the_root_goes_below_the_unknown_entry(tmp_path: Path) -> None:
    stray = nodes(
        (14, 12, 0, PARTIAL, 1),
        (16, 14, 1, 0x10, 1),
        (18, 12, 1, 0x10, 1),  # the same as the one before, without the partial root
        (20, 12, 0, code("GPUKernl"), 1),
        (22, 12, 0, IDLE, 1),
        (24, 22, 1, 0x30, 1),
    )
    measured(tmp_path, File04(stray, values=((16, ((0, 1.0),)), (18, ((0, 2.0),)), (24, ((0, 4.0),)))))
    made = experiment_of(tmp_path)
    assert tree(made) == [
        (0, "entry", "unknown entry"),
        (1, "placeholder", "<gpu kernel>"),
        (1, "instruction", "/bin/app+0x10"),
        (1, "instruction", "/bin/app+0x30"),
    ]
    assert cost(made, Scope.INCLUSIVE) == {"unknown entry": 7.0, "/bin/app+0x10": 3.0, "/bin/app+0x30": 4.0}
    early = experiment_of(tmp_path, flavour=Flavour(demotes=False, has_idle=True))
    assert sorted(tree(early)) == [
        (0, "entry", "unknown entry"),
        (0, "instruction", "/bin/app+0x10"),
        (0, "instruction", "/bin/app+0x30"),
        (0, "placeholder", "<gpu kernel>"),
        (0, "placeholder", "<no activity>"),
        (1, "instruction", "/bin/app+0x10"),
    ]


def test_unknown_functions_and_modules(tmp_path: Path) -> None:
    strange = nodes(
        (14, 12, 0, MAIN, 1),
        (16, 14, 0, UNKNOWN, 1),
        (18, 14, 77, 0x10, 1),  # a module that the loadmap does not have
        (20, 18, 1, 0x20, 1),
        (22, 14, 0, MAIN, 1),
    )
    measured(tmp_path, File04(strange, values=()))
    made = experiment_of(tmp_path)
    assert tree(made) == [
        (0, "entry", "main thread"),
        (1, "unknown", "<unknown function>"),
        (2, "instruction", "/bin/app+0x20"),
        (1, "placeholder", "<program root>"),
    ]
    assert any("module 77 is not in the loadmap" in w.text for w in made.warnings)


def test_outlined_ranges_count_as_unknown(tmp_path: Path) -> None:
    outlined = nodes((14, 0, 65533, 0, 1), (16, 14, 65532, 1, 1), (18, 16, 1, 0x20, 1))
    measured(tmp_path, File04(outlined, values=((18, ((0, 2.0),)),)))
    made = experiment_of(tmp_path)
    assert tree(made) == [(0, "entry", "unknown entry"), (1, "instruction", "/bin/app+0x20")]
    assert cost(made, Scope.INCLUSIVE) == {"unknown entry": 2.0, "/bin/app+0x20": 2.0}


@pytest.mark.parametrize(
    ("bad", "why"),
    [
        (((14, 0, 1, 0x10, 1),), "invalid root node"),
        (((14, 12, 0, MAIN, 1), (16, 14, 0, PARTIAL, 1)), "partial call paths directly below the root"),
        (((14, 12, 1, 0x10, 0), (16, 14, 1, 0x20, 1)), "no calls below a node that was not unwound"),
    ],
)
def test_trees_that_break_the_rules_are_skipped(
    bad: tuple[tuple[int, int, int, int, int], ...], why: str, tmp_path: Path
) -> None:
    measured(tmp_path, File04(nodes(*bad), values=()))
    with pytest.raises(InputError, match=why):
        experiment_of(tmp_path)
    measured(tmp_path, File04(TREE, values=()), rank=1)
    made = experiment_of(tmp_path)
    assert len(made.profiles) == 1
    assert why in made.damage[0].text


def test_old_measurements_have_an_entry_by_their_thread(tmp_path: Path) -> None:
    epoch = RawEpoch(
        (RawMetric("CPUTIME (usec)", REAL),),
        (
            RawNode(2, 0, 0, 0, (0.0,)),
            RawNode(4, 2, 1, 0x1006, (0.0,)),
            RawNode(-5, 4, 1, 0x2000, (1.5,)),
            RawNode(8, 2, 0, 1, (0.0,)),
            RawNode(-9, 8, 1, 0x2000, (2.5,)),
        ),
    )
    for thread in (0, 1):
        header = (("program-name", "app"), ("mpi-rank", "0"), ("thread-id", str(thread)), ("host-id", "7f"))
        path = put(tmp_path, file_02(epoch, header=header), thread=thread)
        write_trace(path.with_suffix(".hpctrace"), 0, [5000, 7000], [5, 2], time_scale=1000)
    made = experiment_of(tmp_path)
    below = [(1, "instruction", "/bin/app+0x1005"), (2, "instruction", "/bin/app+0x2000")]
    assert sorted(tree(made)) == sorted(
        [
            (0, "entry", "application thread"),
            (0, "entry", "main thread"),
            (0, "entry", "unknown entry"),
            (1, "instruction", "/bin/app+0x2000"),
            *below,
            *below,
        ]
    )
    assert [line.time_ns.tolist() for _, _, line in made.traces.lines()] == [[5000, 7000]] * 2


def test_samples(tmp_path: Path) -> None:
    structure(tmp_path, "app", APP)
    path = measured(tmp_path, File04(nodes(*TREE[1:], (22, 12, 0, IDLE, 1)), values=()))
    trace = path.with_suffix(".hpctrace")
    times, ids = [10, 20, 30, 40, 50, 60], [22, 22, 18, 99, 22, 12]
    write_trace(trace, 0, times, ids)

    def names(made: Experiment) -> list[tuple[int, str]]:
        [(_, _, line)] = made.traces.lines()
        found = zip(line.time_ns.tolist(), line.context.tolist(), strict=True)
        return [(time, made.contexts.name(c) if c >= 0 else "") for time, c in found]

    assert names(experiment_of(tmp_path)) == [(10, ""), (30, "/src/inl.h:71"), (50, "")]
    idle = "<no activity>"
    kept = [(10, idle), (20, idle), (30, "/src/inl.h:71"), (50, idle), (60, "")]
    assert names(experiment_of(tmp_path, flavour=Flavour(demotes=False, has_idle=True))) == kept
    write_trace(trace, CALL_TRACE, [30, 10], [18, 16])
    assert names(experiment_of(tmp_path)) == [(10, "main"), (30, "main")]


def test_generated_numbers_of_identifiers(tmp_path: Path) -> None:
    for number, (node, device) in enumerate([(9, 70), (4, 50), (4, 90)]):
        identifiers = ((1, node, 0, 1), (3, device, 0, 2), (2, number, number, 3))
        put(tmp_path, File04(TREE, values=()).changed(identifiers=identifiers), rank=number)
    made = experiment_of(tmp_path)
    found = [made.profiles.identifiers.rows(p) for p in range(3)]
    assert found == [
        [(1, 4, 0, 0), (3, 50, 0, 0), (2, 1, 1, 3)],
        [(1, 4, 0, 0), (3, 90, 2, 0), (2, 2, 2, 3)],
        [(1, 9, 1, 0), (3, 70, 1, 0), (2, 0, 0, 3)],
    ]


def test_equal_call_paths_of_all_files_are_one_context(tmp_path: Path) -> None:
    modules = ((1, "/lib/libm.so"), (2, "/bin/app"))
    other = nodes((14, 12, 0, MAIN, 1), (16, 14, 2, 0x1008, 1), (18, 16, 1, 0x7, 1))
    measured(tmp_path, File04(TREE, values=((16, ((0, 1.0),)),)))
    measured(tmp_path, File04(other, values=((16, ((0, 2.0),)),), modules=modules), rank=1)
    made = experiment_of(tmp_path)
    assert [name for _, _, name in tree(made)] == [
        "main thread",
        "/bin/app+0x1008",
        "/bin/app+0x1024",
        "/bin/app+0x5000",
        "/lib/libm.so+0x7",
    ]
    assert cost(made, Scope.POINT) == {"/bin/app+0x1008": 3.0}
