"""The tree of metrics with values and shares: `tree --metrics`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import callgrove
from callgrove import Scope
from callgrove.analysis.costs import without_children
from callgrove.analysis.metric_tree import metric_tree
from callgrove.model.derived import Unavailable, When
from callgrove.model.experiment import Experiment
from callgrove.model.metrics import Metrics
from tests.cli.commands import Capture, notes, rows, run, said
from tests.formats.cube.raw_cubes import R1_TIME, R1_TREE, R1_VISITS, Cube, RawMetric

MPI = {3: R1_TIME[3], 6: R1_TIME[6]}


def cube(path: Path) -> Path:
    """Time divided: all metrics stored, as `remap --evaluate` leaves them."""
    p2p = RawMetric("p2p", rows={3: R1_TIME[3]})
    mpi = RawMetric("mpi", rows=MPI, below=[p2p])
    comp = RawMetric("comp", rows={k: row for k, row in R1_TIME.items() if k not in MPI})
    execution = RawMetric("execution", rows=R1_TIME, below=[comp, mpi, RawMetric("io")])
    visits = RawMetric("visits", dtype="UINT64", rows=R1_VISITS, uom="occ", below=[RawMetric("bytes", uom="bytes")])
    least = RawMetric("lo", dtype="MINDOUBLE", rows={k: [0.5 * v for v in row] for k, row in R1_TIME.items()})
    return Cube(R1_TREE, [RawMetric("time", rows=R1_TIME, below=[execution]), visits, least]).write(path)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return cube(tmp_path / "tree.cubex")


def opened(path: Path) -> Experiment:
    experiment = callgrove.open(path)
    assert isinstance(experiment, Experiment)
    return experiment


def test_values_shares_and_what_is_left_without_children(path: Path) -> None:
    table = metric_tree(opened(path))
    columns = ("name", "depth", "value", "without_children", "percent")
    assert list(zip(*(table[name] for name in columns), strict=True)) == [
        ("time", 0, 128, 0, 100),
        ("execution", 1, 128, 0, 100),
        ("comp", 2, 86, 86, 67.1875),
        ("mpi", 2, 42, 16, 32.8125),
        ("p2p", 3, 26, 26, 20.3125),
        ("io", 2, 0, 0, 0),
        ("visits", 0, 160, 160, 100),
        ("bytes", 1, 0, 0, None),
        ("lo", 0, 0.5, 0.5, None),
    ]
    assert table.notes == ("visits without its children means little: bytes has another unit",)


def test_it_agrees_with_the_call_tree(path: Path) -> None:
    """What is left of each metric is the sum of that over all contexts."""
    experiment = opened(path)
    for name, value, rest in zip(
        *(metric_tree(experiment)[c] for c in ("name", "value", "without_children")), strict=True
    ):
        assert experiment.root_total(name) == value
        if name != "lo":
            assert without_children(experiment, name, Scope.EXCLUSIVE).sum() == rest


def test_profiles_and_subtrees_can_be_chosen(path: Path) -> None:
    experiment = opened(path)
    table = metric_tree(experiment, "mpi", np.array([0]))
    assert list(table.rows()) == [("mpi", 0, "sec", 12, 4, table["percent"][0], "measured"), tuple(table.rows())[1]]
    assert table["value"] == [12, 8]
    assert table["percent"] == [100 * 12 / 31, 100 * 8 / 31], "of time, which is at the root"
    assert experiment.metric_tree("mpi", ranks=0, threads=0)["value"] == [12, 8]


def test_a_limit_leaves_out_zeros_first(path: Path) -> None:
    table = metric_tree(opened(path), limit=20)
    assert table["name"] == ["time", "execution", "comp", "mpi", "p2p", "visits", "lo"]
    assert table.left == 2
    assert metric_tree(opened(path), limit=3)["name"] == ["time", "execution", "comp"]


def test_what_cannot_be_computed_is_empty_and_said(path: Path) -> None:
    experiment = opened(path)
    broken = Unavailable("metric::(", When.EACH, "expected a name at line 1, column 9")
    changed = [replace(m, formula=broken.text, derivation=broken) if m.name == "mpi" else m for m in experiment.metrics]
    metrics = Metrics(tuple(changed))
    table = metric_tree(replace(experiment, metrics=metrics, values=replace(experiment.values, metrics=metrics)))
    cells = {row["name"]: (row["value"], row["without_children"], row["percent"]) for row in table}
    assert cells["mpi"] == (None, None, None)
    assert cells["execution"] == (128, None, 100), "nobody knows what is left of it"
    assert cells["p2p"] == (26, 26, 20.3125)
    assert any("expected a name at line 1, column 9" in note for note in table.notes)
    assert {row["name"]: row["kind"] for row in table}["mpi"] == "prederived, exclusive"


def test_children_that_exceed_their_parent_are_said(shared: Path, tmp_path: Path, capsys: Capture) -> None:
    real = shared / "data" / "public" / "cubelib" / "test0.0.cubex"
    table = metric_tree(opened(real))
    assert table["value"] == [18, 6, 323]
    assert table["without_children"][0] == -311
    words = "Uniq_name1 is less than its children, 18 of 329: these are not parts of it, and their shares say nothing"
    assert table.notes == (words,)
    assert words.replace("329", "347") in notes(capsys, "tree", real, "--metrics", "--remap")

    def parent(name: str, value: float, *below: float) -> RawMetric:
        parts = [RawMetric(f"{name}{k}", rows={0: (part, 0, 0, 0)}) for k, part in enumerate(below)]
        return RawMetric(name, rows={0: (value, 0, 0, 0)}, below=parts)

    several = [parent("a", 3, 2, 1), parent("b", 1, 2), parent("c", 5, 6, 7), parent("difference", 1, -2, 8)]
    made = metric_tree(opened(Cube(R1_TREE, several).write(tmp_path / "several.cubex")))
    assert [note.partition(":")[0] for note in made.notes] == ["b is less than its children, 1 of 2"]
    assert made.notes[0].endswith("; the same holds for 1 more")


def test_composite_values_have_no_total(tmp_path: Path) -> None:
    tuples = RawMetric("time", dtype="TAU_ATOMIC", rows={0: [(1, 1.0, 1.0, 1.0, 1.0)] * 4})
    table = metric_tree(opened(Cube(R1_TREE, [tuples]).write(tmp_path / "tuples.cubex")))
    assert table["value"] == [None]
    assert "its values are composite (TAU_ATOMIC)" in table.notes[0]


def test_deep_trees_of_metrics(tmp_path: Path) -> None:
    """Nothing recurses or is quadratic in the number of metrics."""
    n = 3000
    open_, close = "", ""
    for k in range(n):
        open_ += f'<metric id="{k}" type="EXCLUSIVE"><uniq_name>m{k}</uniq_name><dtype>DOUBLE</dtype><uom>sec</uom>'
        close += "</metric>"
    made = Cube(R1_TREE, [RawMetric("m0", rows={0: (1, 1, 1, 1)})])
    members = made.members()
    anchor = members["anchor.xml"].decode()
    first, last = anchor.index("<metrics>") + 9, anchor.index("</metrics>")
    path = made.write(
        tmp_path / "deep.cubex", {"anchor.xml": (anchor[:first] + open_ + close + anchor[last:]).encode()}
    )
    table = metric_tree(opened(path))
    assert table["depth"] == list(range(n))
    assert metric_tree(opened(path), limit=n)["name"] == ["m0"]


# -- on the command line -----------------------------------------------------------------------------------------------


def test_the_verb_prints_it(path: Path, capsys: Capture) -> None:
    lines = run(capsys, "tree", path, "--metrics").splitlines()
    assert lines[0].split() == ["name", "value", "without_children", "percent", "share", "kind"]
    assert [line.split("  ")[0] or line.split()[0] for line in lines[2:5]] == ["time", "execution", "comp"]
    mpi = next(line for line in lines if line.strip().startswith("mpi"))
    assert mpi.split()[:6] == ["mpi", "42", "s", "16", "s", "32.8%"]
    assert lines[-1] == "… and 2 more"


def test_data_formats_have_all_digits(path: Path, capsys: Capture) -> None:
    table = rows(capsys, "tree", path, "--metrics", "--limit", "all")
    assert [row["name"] for row in table] == metric_tree(opened(path))["name"]
    assert table[3] == {
        "name": "mpi", "depth": 2, "unit": "sec", "value": 42.0, "without_children": 16.0, "percent": 32.8125,
        "kind": "measured",
    }  # fmt: skip
    chosen = rows(capsys, "tree", path, "--metrics", "--rank", "1", "-m", "time")
    assert float(chosen[0]["value"]) == 72


def test_a_metric_that_is_asked_for_is_shown_though_it_is_zero(tmp_path: Path) -> None:
    none = Cube(R1_TREE, [RawMetric("time", rows=R1_TIME), RawMetric("none", rows={0: [0, 0, 0, 0]})])
    table = metric_tree(opened(none.write(tmp_path / "f.cubex")), "none", limit=5)
    assert [(row["name"], row["value"]) for row in table] == [("none", 0.0)]
    assert table.left == 0


def test_a_flat_list_says_how_to_get_a_tree(tmp_path: Path, capsys: Capture) -> None:
    flat = Cube(R1_TREE, [RawMetric("time", rows=R1_TIME), RawMetric("visits", rows=R1_VISITS)]).write(
        tmp_path / "f.cubex"
    )
    assert "--remap makes one of time" in notes(capsys, "tree", flat, "--metrics")
    assert "--remap makes" not in notes(capsys, "tree", flat, "--metrics", "--format", "csv")


def test_columns_of_contexts_are_refused(path: Path, capsys: Capture) -> None:
    assert "leave out one of the two" in said(capsys, "tree", path, "--metrics", "--all-metrics", code=2)
    assert "not allowed with" in said(capsys, "tree", path, "--metrics", "--bottom-up", code=2)
