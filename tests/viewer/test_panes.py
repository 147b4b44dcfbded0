"""What panes of the viewer ask beside rows: SQL, topologies, comparisons, orders of time, pages for notebooks."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from callgrove.analysis.comparison import compare
from callgrove.analysis.comparison.sides import Question
from callgrove.cli.main import main
from callgrove.cli.messages import with_flags
from callgrove.examples import example, gpu_example, study_example
from callgrove.formats.writing.transfer import write
from callgrove.model.metrics import Scope
from callgrove.viewer.server.flame import find_first_times
from callgrove.viewer.server.running import Viewer
from tests.analysis.programs import T, program
from tests.browser.made import large
from tests.requirements import need_module
from tests.viewer.serving import ask, ask_raw, made_input, path_input, serving

need_module("starlette")
need_module("uvicorn")

METRIC = "CPUTIME (sec)"


@pytest.fixture(scope="module")
def viewer() -> Iterator[Viewer]:
    with serving(made_input(example()), made_input(large(300, 4)), made_input(study_example())) as running:
        yield running


# -- SQL ---------------------------------------------------------------------------------------------------------------

QUERIES = (
    "SELECT name, kind, line FROM contexts ORDER BY context",
    "SELECT m.name, sum(v.value) AS total, count(*) AS n FROM exclusive_values v JOIN metrics m USING (metric) "
    "GROUP BY m.name ORDER BY m.name",
    "SELECT 9007199254740993 AS large, NULL AS nothing, 'a,b' AS text",
)


@pytest.mark.parametrize("query", QUERIES)
def test_answers_are_those_of_the_command(query: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "stencil.d"
    write(example(), path, "callgrove")
    assert main(["sql", str(path), query, "--format", "csv"]) == 0
    header, *expected = csv.reader(io.StringIO(capsys.readouterr().out))
    with serving(path_input(path)) as running:
        status, answer = ask(running, "sql", query=query)
    assert status == 200
    assert [column["name"] for column in answer["columns"]] == header
    assert [list(row) for row in zip(*(column["text"] for column in answer["columns"]), strict=True)] == expected


def test_queries_that_make_no_sense(viewer: Viewer) -> None:
    for query, reason in (
        ("SELECT nme FROM contexts", "there is no column 'nme' in contexts; did you mean 'name'?"),
        ("DELETE FROM contexts", "that is not a query"),
        ("SELECT 1; SELECT 2", "more than one statement"),
        ("", "the query is empty"),
    ):
        status, problem = ask(viewer, "sql", query=query)
        assert status == 422
        assert reason in problem["error"]
    status, problem = ask(viewer, "sql", query="SELECT * FROM read_csv('/etc/passwd')")
    assert status == 422
    assert "root:" not in str(problem)


def test_a_query_that_takes_too_long_is_stopped(viewer: Viewer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("callgrove.viewer.server.sql.SECONDS", 0.2)
    endless = "SELECT sum(a.context + b.context + c.context + d.context + e.context) FROM contexts a, contexts b, "
    status, problem = ask(viewer, "sql", query=f"{endless} contexts c, contexts d, contexts e", input=1)
    assert status == 422
    assert "took longer than 0.2 s and was stopped" in problem["error"]


def test_long_answers_say_that_they_are_cut(viewer: Viewer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("callgrove.viewer.server.sql.MOST_ROWS", 7)
    _, answer = ask(viewer, "sql", query="SELECT context FROM contexts", input=1)
    assert answer["n"] == 7
    assert "These are the first 7 rows" in answer["notes"][0]


def test_tables_of_every_kind_of_input(viewer: Viewer) -> None:
    for number, table in ((0, "contexts"), (2, "series")):
        _, answer = ask(viewer, "tab", tab="SQL", input=number)
        data = answer["panels"][0]["data"]
        assert table in [one["name"] for one in data["tables"]]
        for query in data["examples"]:
            assert ask(viewer, "sql", query=query, input=number)[0] == 200


# -- comparisons that cannot be ----------------------------------------------------------------------------------------


def test_a_comparison_is_refused_in_words_of_the_page() -> None:
    """The page has one metric for all inputs; nobody can type a parameter of the library there."""
    left, right = program(T, "left.d"), program(T, "right.d", metric="wall")
    for spell in (str, with_flags):
        inputs = [replace(made_input(one, one.path), spell=spell) for one in (left, right)]
        with serving(*inputs) as running:
            status, problem = ask(running, "compare", part="Overview", metric="time", **{"with": 1})
            assert status == 422
            assert "right.d: there is no metric 'time'" in problem["error"]
            assert problem["error"].endswith("; `callgrove diff -m LEFT=RIGHT` names one metric of each")
            status, problem = ask(running, "look", filter="nothing_like_it")
            assert (status, problem["error"][:22]) == (422, "there is no context 'n")


# -- topologies --------------------------------------------------------------------------------------------------------


def test_a_topology_has_the_costs_of_its_places(shared: Path) -> None:
    path = shared / "data/own/cube/mpi4/profile.cubex"
    with serving(path_input(path)) as running:
        _, tab = ask(running, "tab", tab="Explore")
        assert tab["panels"][0]["data"]["topologies"] == ["Process x Thread"]
        _, answer = ask(running, "topology")
        _, threads = ask(running, "spread", over="thread")
        assert answer["sizes"] == [4, 2]
        assert sorted(answer["mean"]) == pytest.approx(sorted(threads["mean"]))
        assert sum(answer["mean"]) == pytest.approx(threads["statistics"]["sum"])
        assert ask(running, "topology", topology=9)[0] == 400


def test_an_input_without_a_topology_says_so(viewer: Viewer) -> None:
    status, problem = ask(viewer, "topology")
    assert (status, problem["error"]) == (422, "this input has no topology")


def test_neighbours_of_a_large_topology_are_one_cell(shared: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("callgrove.viewer.server.system.MOST_PLACES", 4)
    with serving(path_input(shared / "data/own/cube/mpi4/profile.cubex")) as running:
        _, answer = ask(running, "topology")
        _, threads = ask(running, "spread", over="thread")
    assert (answer["sizes"], answer["n_joined"]) == ([2, 2], 2)
    assert 2 * sum(answer["mean"]) == pytest.approx(threads["statistics"]["sum"])
    assert max(answer["high"]) == threads["statistics"]["max"]


# -- comparisons -------------------------------------------------------------------------------------------------------


def test_two_inputs_are_compared_as_diff_does() -> None:
    both = example(), example().select(ranks=[0, 1])
    with serving(*map(made_input, both)) as running:
        _, outline = ask(running, "outline")
        assert all(section["tabs"][-1]["title"] == "Compare" for section in outline["sections"])
        _, answer = ask(running, "compare", part="Overview", **{"with": 1})
        (panel,) = answer["panels"]
        expected = compare(both, Question(metric=METRIC, scope=Scope.INCLUSIVE))
        assert panel["data"]["metrics"][0]["totals"] == list(expected.totals)
        _, side = ask(running, "columns", others=["1"])
        flat = compare(both, Question(metric=METRIC, flat=True))
        rows = {flat.paths.text(k): flat.values[k].tolist() for k in range(len(flat.paths))}
        shown = zip(side["name"], *side["exclusive"], strict=True)
        assert {name: costs_ for name, *costs_ in shown} == {name: rows[name] for name in side["name"]}
        assert len(side["name"]) + side["left"] == len(rows)
        status, _, page = ask_raw(running, "/api/report?input=0&with=1")
        assert (status, b"callgrove-data" in page) == (200, True)
        assert ask(running, "compare", part="Overview", **{"with": 7})[0] == 400


def test_one_input_is_compared_with_nothing(viewer: Viewer) -> None:
    with serving(made_input(example())) as running:
        _, outline = ask(running, "outline")
        assert "Compare" not in [tab["title"] for tab in outline["sections"][0]["tabs"]]
    assert ask(viewer, "compare", part="Overview", **{"with": 2})[0] == 422, "a study has no contexts"


# -- order of time -----------------------------------------------------------------------------------------------------


def test_first_times_are_those_of_samples() -> None:
    experiment = example()
    first, tree = find_first_times(experiment), experiment.contexts
    expected = np.full(len(tree), np.inf)
    samples = experiment.traces.samples
    assert samples is not None
    for number in range(len(samples.count)):
        line = samples.line(number)
        for time, context in zip((line.time_ns - line.time_ns[0]).tolist(), line.context.tolist(), strict=True):
            while context >= 0:
                expected[context] = min(expected[context], time)
                context = int(tree.parent[context])
    assert first.tolist() == expected.tolist()
    assert np.isfinite(first).any()


def test_calls_in_the_order_of_time(viewer: Viewer) -> None:
    _, answer = ask(viewer, "flame", order="time")
    first = find_first_times(example())
    assert answer["has_times"] is True
    assert answer["tree"]["first"] == first[answer["tree"]["context"]].tolist()
    assert ask(viewer, "flame", order="time", input=1)[0] == 422, "there are no samples"


# -- notebooks ---------------------------------------------------------------------------------------------------------


def test_a_page_for_notebooks() -> None:
    page = example().view(metric="cycles", height=300, title="<b>mine")
    shown = page._repr_html_()
    assert shown.startswith('<iframe sandbox="allow-scripts allow-downloads" title="&lt;b&gt;mine"')
    assert "height:300px" in shown
    assert "<script" not in shown, "the page is an attribute of its frame"
    assert page.text == example().view(metric="cycles", title="<b>mine").text
    assert len(page.text) < 2_000_000
    assert example().report(title="<b>mine", metric="cycles").text == page.text


@pytest.mark.parametrize("make", [gpu_example, study_example])
def test_pages_of_every_kind(make: type) -> None:
    assert make().view().notes == ()
