"""Every answer carries the command that prints the same rows, and mostly an SQL query that adds up the same numbers."""

from __future__ import annotations

import json
import math
import shlex
from pathlib import Path
from typing import Any

import pytest

from callgrove.assistant.answers import plain
from callgrove.assistant.folders import Folders
from callgrove.assistant.tools import TOOLS, Session
from callgrove.cli.main import main
from callgrove.cli.verbs.demo import make_inputs


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Session:
    folder = tmp_path_factory.mktemp("demo")
    make_inputs(folder)
    (folder / "other.folded").write_text("main;solve 3\nmain;wait 9\n")
    (folder / "one.folded").write_text("main;solve 5\nmain;wait 2\nmain 1\n")
    return Session(Folders.of([str(folder)]))


def ask(session: Session, tool: str, **arguments: Any) -> dict[str, Any]:
    return session.call(tool, {"budget": 20_000, **arguments}, lambda label, done, total: None)


def rows_of(document: dict[str, Any]) -> list[dict[str, Any]]:
    shared = document.get("in_every_row", {})
    return [shared | dict(zip(document["columns"], row, strict=True)) for row in document["rows"]]


STENCIL, TRAIN, SCALING = {"path": "stencil.d"}, {"path": "train.db"}, {"path": "scaling.txt"}
ASKED: list[tuple[str, dict[str, Any]]] = [
    ("top", STENCIL),
    ("top", {**STENCIL, "metric": "cycles", "by": "line", "ranks": "1-2", "limit": 3}),
    ("top", {**STENCIL, "name": "MPI_*", "columns": "rank"}),
    ("top", {**STENCIL, "by": "rank", "threads": "0"}),
    ("top", TRAIN),
    ("tree", STENCIL),
    ("tree", {**STENCIL, "limit": 5, "ranks": "0"}),
    ("tree", {**STENCIL, "bottom_up": True, "limit": 7}),
    ("tree", {**STENCIL, "source": True, "under": ["solve"]}),
    ("hot_path", STENCIL),
    ("hot_path", {**STENCIL, "share": 0.3, "metric": "cycles"}),
    ("imbalance", STENCIL),
    ("imbalance", {**STENCIL, "over": "thread", "by": "context", "scope": "inclusive", "limit": 4}),
    ("compare", {"path": "one.folded", "other": "other.folded"}),
    ("compare", {"path": "one.folded", "other": "other.folded", "scope": "inclusive", "sort": "left", "limit": 2}),
    ("compare", {**SCALING, "other": "scaling.txt"}),
    ("timeline", STENCIL),
    ("timeline", {**STENCIL, "window": "10%:20%", "by": ["rank", "class"]}),
    ("timeline", {**TRAIN, "kind": ["kernel", "copy"], "bins": 3}),
    ("timeline", {**TRAIN, "exclusive": True}),
    ("summary", TRAIN),
    ("summary", {**TRAIN, "section": ["kernels"], "by": ["rank"], "limit": 2}),
    ("summary", {**TRAIN, "section": "copies", "window": "10%:60%"}),
    ("model", {**SCALING, "detail": True}),
    ("model", {**SCALING, "callpath": "kernel"}),
    ("predict", {**SCALING, "at": {"p": 4096, "n": 500}}),
    ("predict", {**SCALING, "at": {"p": 128, "n": 250.5}, "callpath": "exchange"}),
    ("sql", {**TRAIN, "query": "SELECT name, count(*) AS n FROM kernels GROUP BY name ORDER BY n, name"}),
    ("explain", STENCIL),
    ("explain", {**STENCIL, "metric": "cycles"}),
    ("explain", TRAIN),
    ("explain", SCALING),
    ("explain", {"path": "one.folded", "other": "other.folded"}),
]


def test_every_tool_with_rows_is_asked() -> None:
    assert {tool for tool, _ in ASKED} == TOOLS.keys() - {"open", "info"}


@pytest.mark.parametrize(("tool", "arguments"), ASKED, ids=lambda value: value if isinstance(value, str) else "")
def test_the_command_prints_the_same_rows(
    demo: Session, capsys: pytest.CaptureFixture[str], tool: str, arguments: dict[str, Any]
) -> None:
    document = ask(demo, tool, **arguments)
    capsys.readouterr()
    assert main(shlex.split(document["command"])[1:]) == 0
    printed = plain(json.loads(capsys.readouterr().out))
    shown = rows_of(document)
    assert shown
    assert [{name: row[name] for name in one} for one, row in zip(shown, printed, strict=True)] == shown


def test_info_is_what_the_command_prints(demo: Session, capsys: pytest.CaptureFixture[str]) -> None:
    for path in ("stencil.d", "train.db", "scaling.txt"):
        document = ask(demo, "info", path=path)
        capsys.readouterr()
        assert main(shlex.split(document["command"])[1:]) == 0
        printed = plain(json.loads(capsys.readouterr().out))
        assert {name: value for name, value in document.items() if name != "command"}.items() <= printed.items()


KEYS = {"top": "name", "tree": "context", "hot_path": "context", "timeline": "name", "summary": "name"}
VALUES = {"top": "exclusive", "timeline": "time_ns", "summary": "total_ns"}


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("top", STENCIL),
        ("top", {**STENCIL, "ranks": "2", "metric": "cycles"}),
        ("top", {"path": "one.folded"}),
        ("top", {**TRAIN, "metric": "gpu_time"}),
        ("tree", STENCIL),
        ("tree", {**STENCIL, "ranks": "1"}),
        ("hot_path", TRAIN),
        ("timeline", TRAIN),
        ("summary", {**TRAIN, "section": "kernels"}),
        ("summary", {**TRAIN, "section": "api"}),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_the_query_adds_up_the_same_numbers(demo: Session, tool: str, arguments: dict[str, Any]) -> None:
    document = ask(demo, tool, limit=1000, **arguments) if tool != "hot_path" else ask(demo, tool, **arguments)
    answered = rows_of(ask(demo, "sql", path=arguments["path"], query=document["sql"], limit=1000))
    key, column = KEYS[tool], VALUES.get(tool, "inclusive")
    sums: dict[Any, float] = {}
    for row in answered:
        sums[row[key]] = sums.get(row[key], 0) + row[column]
    shown = [row for row in rows_of(document) if row[column] and row.get("count", 1) is not None]
    assert shown
    for row in shown:
        assert math.isclose(sums[row[key]], row[column], rel_tol=1e-9), row


def test_the_query_of_imbalance_has_each_rank(demo: Session) -> None:
    document = ask(demo, "imbalance", path="stencil.d", over="rank")
    answered = rows_of(ask(demo, "sql", path="stencil.d", query=document["sql"], limit=1000))
    for row in rows_of(document):
        own = [one["exclusive"] for one in answered if one["name"] == row["name"]]
        assert math.isclose(max(own), row["max"], rel_tol=1e-9)
        assert math.isclose(sum(own), row["sum"], rel_tol=1e-9)


def test_paths_that_a_shell_would_divide_are_quoted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a file; rm x.folded").write_text("main;work 3\n")
    session = Session(Folders.of([str(tmp_path)]))
    document = ask(session, "top", path="a file; rm x.folded")
    assert main(shlex.split(document["command"])[1:]) == 0
    assert json.loads(capsys.readouterr().out)[0]["exclusive"] == 3
