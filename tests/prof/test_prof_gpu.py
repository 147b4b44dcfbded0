"""Call paths of GPU samples: which are possible, and how costs are shared between them."""

from __future__ import annotations

from pathlib import Path

import pytest

from callgrove.formats.hpcrun.hpcstruct import read_structure
from callgrove.model.experiment import Experiment
from callgrove.model.metrics import Scope
from callgrove.prof.gpu_samples import MOST_TEMPLATES, CallGraph, Template, shares
from tests.formats.hpcrun.hpcrun_bytes import INT, File04, RawMetric, code
from tests.prof.making import MAIN, experiment_of, measured, nodes, structure

GPUBIN = "gpubins/a.gpubin"
KERNEL = code("GPUKernl")


def module(functions: dict[str, tuple[int, list[tuple[int, int]]]]) -> str:
    """A module of functions: name -> (entry, [(address of a call, what is called)]). Each is 0x100 long; what is no
    call is one statement."""
    out = [f'<LM i="2" n="{GPUBIN}" has-calls="1" v="{{}}"><F i="3" n="k.cu">']
    for name, (entry, calls) in functions.items():
        out.append(f'<P i="4" n="{name}" l="1" v="{{[{entry:#x}-{entry + 1:#x})}}">')
        out += [f'<C i="5" l="2" v="{{[{at:#x}-{at + 16:#x})}}" t="{to:#x}"/>' for at, to in calls]
        taken = [at for at, _ in calls]
        free = [a for a in range(entry, entry + 0x100, 16) if a not in taken]
        out += [f'<S i="6" l="3" v="{{{" ".join(f"[{a:#x}-{a + 16:#x})" for a in free)}}}"/>', "</P>"]
    return "".join([*out, "</F></LM>"])


def graph_of(folder: Path, functions: dict[str, tuple[int, list[tuple[int, int]]]]) -> CallGraph | None:
    return CallGraph.of(read_structure(structure(folder, "a", module(functions))), 0)


def rows_of(folder: Path) -> dict[str, int]:
    found = read_structure(folder / "structs" / "a.hpcstruct")
    return {found.text(int(name)): row for row, name in enumerate(found.scopes.name.tolist()) if name >= 0}


def test_templates_are_all_paths_from_what_nobody_calls(tmp_path: Path) -> None:
    functions = {
        "k1": (0x1000, [(0x1010, 0x3000)]),
        "k2": (0x2000, [(0x2010, 0x3000), (0x2020, 0x4000)]),
        "helper": (0x3000, [(0x3010, 0x4000)]),
        "leaf": (0x4000, []),
    }
    graph, rows = graph_of(tmp_path, functions), rows_of(tmp_path)
    assert graph is not None
    assert graph.templates(rows["k1"]) == [()]
    assert graph.templates(rows["helper"]) == [(0x1010,), (0x2010,)]
    # in the order of the reversed paths
    assert graph.templates(rows["leaf"]) == [(0x2020,), (0x1010, 0x3010), (0x2010, 0x3010)]


def test_recursion_is_removed(tmp_path: Path) -> None:
    functions = {
        "a": (0x1000, [(0x1010, 0x2000)]),
        "b": (0x2000, [(0x2010, 0x1000)]),
        "kernel": (0x3000, [(0x3010, 0x1000)]),
    }
    graph, rows = graph_of(tmp_path, functions), rows_of(tmp_path)
    assert graph is not None
    # a and b call each other; the search began at a, so that the call of a leads to b as well
    assert graph.templates(rows["a"]) == [(0x3010,)]
    assert graph.templates(rows["b"]) == [(0x3010,)]


def test_a_call_that_leads_nowhere_makes_the_graph_useless(tmp_path: Path) -> None:
    assert graph_of(tmp_path, {"k": (0x1000, [(0x1010, 0x1230)])}) is None


def test_too_many_paths_are_none(tmp_path: Path) -> None:
    steps = MOST_TEMPLATES.bit_length() + 1
    functions = {
        f"f{k}": (
            0x1000 * (k + 1),
            [(0x1000 * (k + 1) + 16 * c, 0x1000 * (k + 2)) for c in (1, 2)] if k < steps else [],
        )
        for k in range(steps + 1)
    }
    graph, rows = graph_of(tmp_path, functions), rows_of(tmp_path)
    assert graph is not None
    assert graph.templates(rows[f"f{steps}"]) is None


@pytest.mark.parametrize(
    ("ratio", "samples", "expected"),
    [
        ({}, {}, [0.0, 0.0, 0.0]),  # no kernel ran
        ({1: 4.0}, {}, [4.0, 0.0, 0.0]),  # the other kernel did not run
        ({1: 1.0, 2: 1.0}, {}, [0.5, 0.25, 0.25]),  # evenly, call by call from the last one
        ({1: 1.0, 2: 1.0}, {10: 1.0, 20: 3.0}, [0.25, 0.375, 0.375]),
        ({1: 2.0, 2: 1.0}, {10: 1.0, 20: 3.0, 30: 1.0, 40: 2.0}, [0.5, 0.25, 0.5]),
    ],
)
def test_shares(ratio: dict[int, float], samples: dict[int, float], expected: list[float]) -> None:
    """Entry contexts 1 and 2; the last call is at node 10 or 20, before the latter one at 30 or 40."""
    templates = (
        Template(1, 100, ((0x10, 10),)),
        Template(2, 101, ((0x20, 20), (0x30, 30))),
        Template(2, 102, ((0x20, 20), (0x40, 40))),
    )
    assert shares(templates, ratio, samples) == pytest.approx(expected)


def gpu_experiment(folder: Path, with_structure: bool) -> Experiment:
    """Two kernels that call a leaf: samples at each call, and in the leaf."""
    metrics = (
        RawMetric("GINS", INT),
        RawMetric("GKER:COUNT", INT, move2proc=1),
        RawMetric("GKER:SAMPLED_COUNT", INT, move2proc=1),
    )
    if with_structure:
        functions: dict[str, tuple[int, list[tuple[int, int]]]] = {
            "k1": (0x1000, [(0x1010, 0x4000)]),
            "k2": (0x2000, [(0x2010, 0x4000)]),
            "leaf": (0x4000, []),
        }
        structure(folder, "a", module(functions))
    tree = nodes(
        (14, 12, 0, MAIN, 1),
        (16, 14, 0, KERNEL, 1),
        (18, 16, 1, 0x1000, 1),
        (20, 16, 1, 0x2000, 1),
        (22, 16, 1, 0x1010, 0),
        (24, 16, 1, 0x2010, 0),
        (26, 16, 1, 0x4020, 0),
    )
    values = (
        (18, ((1, 6), (2, 3))),
        (20, ((1, 5), (2, 5))),
        (22, ((0, 10),)),
        (24, ((0, 30),)),
        (26, ((0, 100),)),
    )
    measured(folder, File04(tree, metrics, values, ((1, GPUBIN),)))
    return experiment_of(folder)


def inclusive(experiment: Experiment) -> dict[str, float]:
    row = experiment.metrics.find("GINS", Scope.INCLUSIVE)
    assert row is not None
    found: dict[str, float] = {}
    for context, value in enumerate(experiment.values.totals(row)[: experiment.contexts.n_listed].tolist()):
        if value:
            name = experiment.contexts.name(context)
            found[name] = found.get(name, 0.0) + value
    return found


def test_samples_get_the_callers_that_are_possible(tmp_path: Path) -> None:
    made = gpu_experiment(tmp_path, with_structure=True)
    # 10 samples at the call in k1, which ran twice as often as it was sampled; 30 at that in k2. So a quarter of the
    # leaf's 100 came from k1, and count twice.
    leaf = 100 * 0.25 * 2 + 100 * 0.75
    found = inclusive(made)
    assert found["leaf"] == pytest.approx(leaf)
    assert found["k1"] == pytest.approx(10 * 2 + 50)
    assert found["k2"] == pytest.approx(30 + 75)
    assert found["<gpu kernel>"] == pytest.approx(20 + 30 + leaf)


def test_without_a_call_graph_callers_are_unknown(tmp_path: Path) -> None:
    made = gpu_experiment(tmp_path, with_structure=False)
    found = inclusive(made)
    assert found["<unknown function>"] == 140
    assert found[f"{GPUBIN}+0x4020"] == 100
