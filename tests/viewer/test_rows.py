"""What the coupled panes ask for: rows, spreads, source lines and flame graphs, with the numbers of the verbs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from callgrove.analysis.costs import costs
from callgrove.analysis.spread.imbalance import spread_statistics
from callgrove.analysis.views import grow_callers, top, top_down
from callgrove.arrays import ABSENT
from callgrove.examples import example
from callgrove.model.builder import ExperimentBuilder
from callgrove.model.contexts import ContextKind
from callgrove.model.experiment import Experiment
from callgrove.model.metrics import Metric, Scope
from callgrove.model.profiles import Identifier, Interpretation, ProfileKind
from callgrove.viewer.server.running import Viewer
from tests.browser.made import large
from tests.requirements import need_module
from tests.viewer.serving import ask, made_input, serving

need_module("starlette")
need_module("uvicorn")

METRIC = "CPUTIME (sec)"
RANK, THREAD, DEVICE, STREAM = 2, 3, 5, 7  # kinds of identifiers


@pytest.fixture(scope="module")
def viewer() -> Iterator[Viewer]:
    with serving(made_input(example()), made_input(large(3_000, 40))) as running:
        yield running


def walk(viewer: Viewer, node: str = "", depth: int = 0, **how: Any) -> Iterator[tuple[int, str, float, float]]:
    """All rows in preorder: depth, name, exclusive and inclusive cost; some at a time."""
    first = 0
    while True:
        status, rows = ask(viewer, "rows", node=node, first=first, count=7, **how)
        assert status == 200, rows
        cells = rows["metrics"][0]
        columns = zip(rows["key"], rows["name"], rows["opens"], cells["exclusive"], cells["inclusive"], strict=True)
        for key, name, opens, exclusive, inclusive in columns:
            yield depth, name, exclusive, inclusive
            if opens:
                yield from walk(viewer, key, depth + 1, **how)
        first += len(rows["key"])
        if first >= rows["n"]:
            return


def as_rows(table: Any) -> list[tuple[int, str, float, float]]:
    columns = [table.column(name).plain() for name in ("depth", "name", "exclusive", "inclusive")]
    return list(zip(*columns, strict=True))


def opened(number: int) -> Experiment:
    return (example, lambda: large(3_000, 40))[number]()


@pytest.mark.parametrize("number", [0, 1])
def test_the_tree_is_that_of_the_verb(viewer: Viewer, number: int) -> None:
    if number:
        limit = 400  # rows: the rest is as good
        shown = []
        for row in walk(viewer, input=number):
            shown.append(row)
            if len(shown) == limit:
                break
    else:
        shown = list(walk(viewer, input=number))
    assert shown == as_rows(top_down(costs(opened(number))))[: len(shown)]


def test_callers_are_those_of_the_verb(viewer: Viewer) -> None:
    shown = list(walk(viewer, view="callers"))
    assert shown == as_rows(grow_callers(costs(example())).table)


@pytest.mark.parametrize("by", ["function", "line", "loop", "file", "module"])
def test_flat_rows_are_those_of_the_verb(viewer: Viewer, by: str) -> None:
    shown = [row[1:] for row in walk(viewer, view="flat", by=by)]
    table = top(costs(example()), by)
    columns = [table.column(name).plain() for name in ("name", "exclusive", "inclusive")]
    expected = list(zip(*columns, strict=True))
    assert [row for row in shown if row[1] or row[2]] == [row for row in expected if row[1] or row[2]]


def test_further_columns_are_of_the_same_rows(viewer: Viewer) -> None:
    _, both = ask(viewer, "rows", node="0", columns=["cycles"])
    _, cycles = ask(viewer, "rows", node="0", metric="cycles")
    assert both["key"] == cycles["key"]
    assert both["metrics"][1]["inclusive"] == cycles["metrics"][0]["inclusive"]
    assert ask(viewer, "rows", view="callers", columns=["cycles"])[0] == 400


def test_rows_are_sorted(viewer: Viewer) -> None:
    _, up = ask(viewer, "rows", input=1, view="flat", sort="exclusive", down=0)
    values = up["metrics"][0]["exclusive"]
    assert values == sorted(values)
    _, names = ask(viewer, "rows", input=1, view="flat", sort="name", down=0)
    assert names["name"] == sorted(names["name"])


@pytest.mark.parametrize("node", ["x", "-1", "1.2", "999999", "1" * 30, ".".join(["1"] * 300)])
@pytest.mark.parametrize("name", ["rows", "spread", "grid", "source", "flame", "path"])
def test_rows_that_are_not_there(viewer: Viewer, name: str, node: str) -> None:
    assert ask(viewer, name, node=node)[0] == 400


def test_chains_of_callers_that_are_not_there(viewer: Viewer) -> None:
    assert ask(viewer, "rows", view="callers", node="4.4.4")[0] == 422


def test_a_search_counts_every_call(viewer: Viewer) -> None:
    _, found = ask(viewer, "search", text="MPI_")
    table = top_down(costs(example()))
    names, inclusive = table.column("name").plain(), table.column("inclusive").plain()
    hits = [cost for name, cost in zip(names, inclusive, strict=True) if "MPI_" in name]
    assert found["n"] == len(hits)
    assert found["share"] == pytest.approx(sum(hits) / costs(example()).total)
    assert found["metrics"][0]["inclusive"] == sorted(hits, reverse=True)
    for path, name in zip(found["paths"], found["name"], strict=True):
        _, rows = ask(viewer, "path", node=path[-1])
        assert (rows["key"], rows["name"][-1]) == (path, name)


@pytest.mark.parametrize("over", ["rank", "thread"])
def test_a_spread_is_that_of_the_values(viewer: Viewer, over: str) -> None:
    """Of everything, and of each root: together they are everything."""
    _, whole = ask(viewer, "spread", over=over)
    parts = [ask(viewer, "spread", over=over, node=key)[1]["mean"] for key in ("0", "37")]
    assert np.sum(parts, axis=0) == pytest.approx(whole["mean"])
    assert sum(whole["mean"]) == pytest.approx(costs(example()).total)
    expected = spread_statistics(np.array(whole["mean"]))
    assert {name: whole["statistics"][name] for name in expected} == pytest.approx(expected)
    _, grid = ask(viewer, "grid")
    assert sum(grid["mean"]) == pytest.approx(sum(whole["mean"]))


def test_many_entities_are_joined(viewer: Viewer, monkeypatch: pytest.MonkeyPatch) -> None:
    import callgrove.viewer.server.system as system

    _, alone = ask(viewer, "spread", input=1)
    monkeypatch.setattr(system, "MOST_BARS", 15)
    _, joined = ask(viewer, "spread", input=1)
    assert (alone["n_joined"], joined["n_joined"]) == (1, 3)
    assert joined["statistics"] == alone["statistics"]
    values = np.array(alone["mean"])
    parts = [values[at : at + 3] for at in range(0, 40, 3)]
    assert joined["mean"] == pytest.approx([part.mean() for part in parts])
    assert joined["high"] == pytest.approx([part.max() for part in parts])
    assert joined["name"][0] == "rank 0 to rank 2"


def test_flame_graphs_keep_what_can_be_seen(viewer: Viewer) -> None:
    """Whatever is folded, the whole is the whole; zoomed in, what was folded there is shown."""
    one = costs(large(3_000, 40))
    _, everything = ask(viewer, "flame", input=1)
    tree = everything["tree"]
    assert sum(tree["metrics"][0]["exclusive"]) == pytest.approx(one.total)
    smallest = tree["context"][-1]
    _, around = ask(viewer, "flame", input=1, node=str(smallest))
    assert sum(around["tree"]["metrics"][0]["exclusive"]) == pytest.approx(one.total)
    assert smallest in around["tree"]["context"]
    assert everything["n_folded"] + len(tree["context"]) == around["n_folded"] + len(around["tree"]["context"])


def test_a_saved_report_is_of_what_is_looked_at(viewer: Viewer) -> None:
    from urllib.parse import urlencode

    from tests.viewer.serving import ask_raw

    query = urlencode({"input": 0, "metric": "cycles", "filter": "** -> MPI_*"})
    status, headers, page = ask_raw(viewer, f"/api/report?{query}")
    assert status == 200
    assert "attachment" in headers["content-disposition"]
    assert page.startswith(b"<!DOCTYPE html>")
    assert b"static/" not in page, "it needs no server"


def on_one_device() -> Experiment:
    """Two threads of a rank without any cost, and a stream of its only device with all of it."""
    builder = ExperimentBuilder("made-up", title="one device")
    rank: list[Identifier] = [(RANK, 0, 0, Interpretation.SINGLE)]
    context = builder.add_context(ABSENT, ContextKind.FUNCTION, builder.region(ContextKind.FUNCTION, "kernel"))
    metric = builder.add_metric(Metric("gpu_time", Scope.EXCLUSIVE, unit="sec"))
    for thread in range(2):
        builder.add_profile(ProfileKind.THREAD, [*rank, (THREAD, thread, thread, Interpretation.SINGLE)])
    lane: list[Identifier] = [(DEVICE, 0, 0, Interpretation.SINGLE), (STREAM, 7, 7, Interpretation.SINGLE)]
    stream = builder.add_profile(ProfileKind.GPU_STREAM, [*rank, *lane])
    builder.add_values(stream, np.array([context]), metric, np.array([3.0]))
    return builder.build()


def test_costs_are_compared_over_what_has_them() -> None:
    """As `imbalance` does: threads without any of the cost say nothing about it."""
    with serving(made_input(on_one_device())) as running:
        _, chosen = ask(running, "spread")
        assert (chosen["over"], chosen["mean"], chosen["kinds"]) == ("rank", [3.0], ["rank", "thread"])
        _, threads = ask(running, "spread", over="thread")
        assert (threads["over"], threads["mean"]) == ("thread", [0.0, 0.0])
