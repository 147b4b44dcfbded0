"""Experiments made of frames: our own, there and back, and plain ones; and frames that say too little."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest
from hypothesis import given
from hypothesis import strategies as st

import callgrove
from callgrove.errors import UsageError
from callgrove.examples import example
from callgrove.model.experiment import Experiment
from callgrove.model.metrics import Scope
from tests.formats.samples import CORPUS
from tests.frames.trees import T_TREE, tree_t, tree_with

SAMPLES = [
    CORPUS / "hpctoolkit" / "release" / "mpi4.d",
    CORPUS / "hpctoolkit" / "prerelease" / "pth4.d",
    CORPUS / "hpctoolkit" / "legacy" / "loops21.d",
]
KEYS = ["run", "rank", "thread", "gpu", "stream", "name", "kind", "file", "line", "module", "path", "depth"]


def assert_same(one: Experiment, other: Experiment) -> None:
    """All rows of both frames are the same, whatever contexts and profiles are numbered."""
    frames = [_comparable(e.to_pandas()) for e in (one, other)]
    pandas.testing.assert_frame_equal(*frames, rtol=1e-12)
    assert frames[0].attrs["metrics"] == frames[1].attrs["metrics"]
    for metric in one.metrics.quantities:
        assert other.root_total(metric) == pytest.approx(one.root_total(metric), rel=1e-12)


def _comparable(frame: Any) -> Any:
    frame["context"] = pandas.factorize(frame["context"])[0]
    frame[KEYS] = frame[KEYS].astype(object)
    return frame.sort_values(["context", "run", "rank", "thread"], ignore_index=True)


@pytest.mark.parametrize("make", [tree_t, lambda: tree_t(3), example], ids=["T", "three runs", "example"])
def test_there_and_back(make: Any) -> None:
    e = make()
    back = callgrove.from_pandas(e.to_pandas())
    assert back.warnings == ()
    assert_same(e, back)
    assert [(run.name, run.parameters) for run in back.runs] == [(run.name, run.parameters) for run in e.runs]
    assert back.default_metric == e.default_metric
    assert back.title == e.title


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: f"{path.parent.name}-{path.name}")
def test_there_and_back_with_real_runs(path: Path) -> None:
    e = callgrove.open(path)
    assert isinstance(e, Experiment)
    frame = e.to_pandas()
    back = callgrove.from_pandas(frame)
    assert_same(e, back)
    places = {(row["rank"], row["thread"]) for row in frame[["rank", "thread"]].astype(object).to_dict("records")}
    ranks, threads = (back.profiles.identity_list(word) for word in ("rank", "thread"))
    known = {(None if pandas.isna(rank) else rank, thread) for rank, thread in places}
    assert known == set(zip(ranks, threads, strict=True)), "of which each has some cost"


@st.composite
def trees(draw: st.DrawFn) -> Experiment:
    """A tree with few names, so that siblings may be alike, whose names may look like paths."""
    n = draw(st.integers(1, 12))
    names = st.sampled_from(["main", "f", "operator->", "a->b", "MPI_Send"])
    rows: list[tuple[int, str]] = [(0, draw(names))]
    for _ in range(n - 1):
        rows.append((draw(st.integers(0, rows[-1][0] + 1)), draw(names)))
    counts = st.lists(st.integers(-3, 2**60), min_size=2 * n, max_size=2 * n)
    times = st.lists(st.floats(0, 1e9), min_size=2 * n, max_size=2 * n)
    return tree_with(
        rows,
        {
            "time": ("sec", np.array(draw(times)).reshape(n, 2)),
            "count": ("", np.array(draw(counts), np.int64).reshape(n, 2)),
        },
    )


@given(trees())
def test_every_tree_comes_back(e: Experiment) -> None:
    back = callgrove.from_pandas(e.to_pandas())
    assert_same(e, back)
    for scope in (Scope.EXCLUSIVE, Scope.INCLUSIVE):
        assert sorted(back.totals("count", scope)[back.totals("count", scope) != 0].tolist()) == sorted(
            e.totals("count", scope)[e.totals("count", scope) != 0].tolist()
        )


# -- frames that were worked on ----------------------------------------------------------------------------------------


def test_rows_that_were_taken_away_leave_their_callers() -> None:
    frame = tree_t().to_pandas()
    kept = frame[frame["name"].isin(["kernel", "MPI_Bcast"])]
    back = callgrove.from_pandas(kept)
    assert back.root_total("time") == 124
    assert back.tree()["name"] == ["main", "solve", "kernel", "solve", "kernel", "init", "MPI_Bcast"]
    assert "is computed anew" in back.warnings[0].text


def test_a_frame_without_some_rows_does_not_change_who_called() -> None:
    """Where init has no row, MPI_Bcast must not become a call of what came before it."""
    frame = tree_t().to_pandas()
    back = callgrove.from_pandas(frame[frame["name"] != "write"])
    assert [back.contexts.path(c) for c in range(len(back.contexts))].count("main->write->fwrite") == 1
    assert back.root_total("time") == 216


def test_inclusive_costs_that_do_not_add_up_are_said() -> None:
    frame = tree_t().to_pandas(["time"])
    frame.loc[frame["name"] == "exp", "time"] = 0.0
    (warning,) = callgrove.from_pandas(frame).warnings
    assert warning.text.startswith("time (inc) is computed anew: of 4 contexts")
    assert "main has 224, the sum is 204" in warning.text


def test_a_new_column_is_a_metric() -> None:
    frame = tree_t().to_pandas()
    frame["energy"] = frame["time"] * 3
    assert callgrove.from_pandas(frame).root_total("energy") == 3 * 224


def test_a_formula_is_left_out_and_said() -> None:
    back = callgrove.from_pandas(tree_t().with_metric("ipc = cycles / time").to_pandas())
    assert back.metrics.quantities == ("time", "cycles")
    assert back.warnings[0].text.startswith("left out: ipc: it is computed from others")


# -- plain frames ------------------------------------------------------------------------------------------------------


def test_a_frame_of_paths() -> None:
    frame = pandas.DataFrame({"path": ["main->solve->kernel", "main->init", "main"], "time": [5.0, 2.0, 1.0]})
    e = callgrove.from_pandas(frame, title="plain")
    assert e.title == "plain"
    assert e.tree()["name"] == ["main", "solve", "kernel", "init"]
    assert e.root_total("time") == 8
    slashes = frame.assign(path=frame["path"].str.replace("->", "/").radd("/"))
    assert callgrove.from_pandas(slashes, separator="/").tree()["name"] == e.tree()["name"]
    lists = frame.assign(path=frame["path"].str.split("->"))
    assert callgrove.from_pandas(lists).tree()["name"] == e.tree()["name"]


def test_a_frame_of_parents() -> None:
    columns = {"name": ["kernel", "main", "solve"], "time": [5, 1, 2]}
    for said in (
        {"id": [12, 10, 11], "parent": [11, None, 10]},
        {"id": [2, 0, 1], "parent": [1, -1, 0]},
        {"id": ["c", "a", "b"], "parent": ["b", "", "a"]},
        {"parent": ["solve", None, "main"]},
    ):
        e = callgrove.from_pandas(pandas.DataFrame({**columns, **said}))
        assert [e.contexts.path(c) for c in range(3)] == ["main", "main->solve", "main->solve->kernel"]
        assert e.tree()["inclusive"] == [8, 7, 5]


def test_a_flat_frame() -> None:
    frame = pandas.DataFrame(
        {"name": ["f", "g"], "rank": [0.0, 1.0], "time": [1.0, None], "hits": [3, 4], "who": ["a", "b"]}
    )
    e = callgrove.from_pandas(frame)
    assert e.contexts.roots.tolist() == [0, 1]
    assert e.profiles.identity_list("rank") == [0, 1]
    assert e.totals("hits", Scope.EXCLUSIVE).tolist() == [3, 4]
    assert [warning.text for warning in e.warnings] == ["left out: column who: it holds no numbers"]
    assert callgrove.from_pandas(frame, ["hits"]).metrics.quantities == ("hits",)


def test_inclusive_costs_alone() -> None:
    frame = pandas.DataFrame({"path": ["main", "main->f"], "time (inc)": [5.0, 2.0]})
    e = callgrove.from_pandas(frame)
    assert (e.root_total("time"), e.totals("time", Scope.EXCLUSIVE).tolist()) == (5, [3, 2])


def test_an_index_says_what_columns_say() -> None:
    frame = tree_t().to_pandas().set_index(["context", "rank"])
    assert_same(tree_t(), callgrove.from_pandas(frame))


def test_kinds_and_places() -> None:
    columns = {"path": ["main", "main->a.c:7"], "kind": ["function", "line"], "file": ["a.c", "a.c"], "line": [3, 7]}
    e = callgrove.from_pandas(pandas.DataFrame({**columns, "module": ["a.out", None], "time": [1.0, 2.0]}))
    (row,) = e.top()
    assert (row["name"], row["exclusive"], row["file"], row["line"], row["module"]) == ("main", 3, "a.c", 3, "a.out")
    assert e.tree(source=True)["kind"] == ["function", "line"]


@pytest.mark.parametrize(
    ("columns", "why"),
    [
        ({"time": [1.0]}, "does not say what costs are of: it needs a column name"),
        ({"name": ["f"]}, "no column of numbers"),
        ({"name": ["f", "f"], "time": [1, 2]}, "f has 2 rows for one profile; add them up first"),
        ({"name": ["f"], "parent": ["g"], "time": [1]}, "the parent g of f has no row"),
        ({"id": [0, 1], "parent": [1, 0], "name": ["f", "g"], "time": [1, 2]}, "run in a circle"),
        ({"path": ["", "a"], "time": [1, 2]}, "names nothing"),
        ({"name": ["f", None], "time": [1, 2]}, "column 'name' of the frame has no value in row 1"),
        (
            {"name": ["f"], "rank": ["first"], "time": [1]},
            "column 'rank' of the frame holds something",
        ),
        ({"name": ["f"], "rank": [0.5], "time": [1]}, ": 0.5 is not a whole number"),
        ({"name": ["f"], "rank": [2.0**70], "time": [1]}, "column 'rank' of the frame: 1.18.* is too large"),
        ({"name": ["f"], "run": [-1], "time": [1]}, "runs are numbered from 0"),
        ({"context": [5], "depth": [2], "time": [1]}, "lies below a context that has no row"),
    ],
)
def test_frames_that_say_too_little(columns: dict[str, list[Any]], why: str) -> None:
    with pytest.raises(UsageError, match=why):
        callgrove.from_pandas(pandas.DataFrame(columns))


def test_a_wide_frame_and_a_column_that_is_not_there() -> None:
    with pytest.raises(UsageError, match="the frame is wide"):
        callgrove.from_pandas(tree_t().to_pandas(wide=True))
    with pytest.raises(UsageError, match="the frame has several columns 'run'"):
        callgrove.from_pandas(pandas.concat([tree_t().to_pandas()] * 2, axis=1))
    with pytest.raises(UsageError, match=r"takes a pandas\.DataFrame, not a list"):
        callgrove.from_pandas([1, 2])
    with pytest.raises(UsageError, match="the frame has no column 'tme'"):
        callgrove.from_pandas(tree_t().to_pandas(), ["tme"])
    assert len(T_TREE) == 12
