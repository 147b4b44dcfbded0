"""The server over stdin and stdout: what it offers, what it refuses, and that it goes on afterwards."""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest

from callgrove.assistant import serving
from callgrove.assistant.answers import BYTES_PER_TOKEN, encode
from callgrove.assistant.folders import Folders
from callgrove.assistant.tools import TOOLS, Session
from callgrove.cli.main import main
from callgrove.errors import InputError
from callgrove.formats.interface import ReadOptions
from callgrove.formats.registry import open_paths
from callgrove.model.experiment import Experiment
from callgrove.model.study.series import Study
from tests.assistant.client import call, with_session
from tests.requirements import ROOT, need_module

CORPUS = ROOT / "tests" / "corpus"
PATHS_OUTSIDE = (
    *("/etc/passwd", "../outside/secret.d", "mpi4.d/../../outside", "away/secret.d", "linked.d", "packed"),
    "packed/index.yaml",
)
WRITES = (
    *("DELETE FROM contexts", "DROP TABLE contexts", "COPY contexts TO '/tmp/x'", "ATTACH '/tmp/x' AS x"),
    *("SELECT 1; DELETE FROM contexts", "PRAGMA user_version = 3", "INSTALL httpfs"),
)
READS_A_FILE = "SELECT * FROM read_text('/etc/passwd')"
OUTSIDE = "outside of the folders that may be read"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a database, one that is damaged, and ways out of the folder."""
    base = tmp_path_factory.mktemp("assistant")
    inside, outside = base / "inside", base / "outside"
    inside.mkdir()
    shutil.copytree(CORPUS / "hpctoolkit" / "release" / "mpi4.d", inside / "mpi4.d")
    shutil.copytree(inside / "mpi4.d", outside / "secret.d")
    shutil.copytree(inside / "mpi4.d", inside / "linked.d")
    (inside / "linked.d" / "profile.db").unlink()
    (inside / "linked.d" / "profile.db").symlink_to(outside / "secret.d" / "profile.db")
    shutil.copytree(inside / "mpi4.d", inside / "broken.d")
    (inside / "broken.d" / "meta.db").write_bytes((inside / "mpi4.d" / "meta.db").read_bytes()[:200])
    (inside / "away").symlink_to(outside)
    (inside / "packed").mkdir()
    (inside / "packed" / "index.yaml").write_text(f"path: {outside}\nfiles:\n  - run.db\n")
    (outside / "run.db").write_bytes(b"SQLite format 3\0")
    (inside / "names.folded").write_text("main;\x1b[2J\u202eevil 3\nmain;" + "x" * 5000 + " 1\n", "utf-8")
    return inside


def test_refusals_are_answers_and_the_session_goes_on(folder: Path) -> None:
    client = need_module("mcp")
    before = {path: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.rglob("*.db")}

    async def refuse(session: Any, words: str, tool: str, **arguments: Any) -> None:
        document = await call(session, tool, **arguments)
        assert list(document) == ["error"], (tool, arguments)
        assert words in document["error"], document
        assert "bug" not in document["error"]

    async def work(session: Any) -> None:
        for path in (
            "/etc/passwd",
            "../outside/secret.d",
            "mpi4.d/../../outside",
            "away/secret.d",
            "linked.d",
            "packed",
        ):
            await refuse(session, OUTSIDE, "top", path=path)
        await refuse(session, OUTSIDE, "compare", path="mpi4.d", other=str(folder.parent / "outside" / "secret.d"))
        await refuse(session, "no such file", "top", path="nothing.d")
        await refuse(session, "NUL", "top", path="mpi4.d\0")
        await refuse(session, "1 to 4,096", "top", path="x" * 5000)
        await refuse(session, "meta.db", "top", path="broken.d")
        for query in (
            "DELETE FROM contexts",
            "DROP TABLE contexts",
            "COPY contexts TO '/tmp/x'",
            "ATTACH '/tmp/x' AS x",
        ):
            await refuse(session, "SELECT", "sql", path="mpi4.d", query=query)
        await refuse(session, "reads the tables of its inputs only", "sql", path="mpi4.d", query=READS_A_FILE)
        await refuse(session, "between 1 and 10,000", "top", path="mpi4.d", limit=10**30)
        await refuse(session, "between 1 and 10,000", "top", path="mpi4.d", limit=0)
        await refuse(session, "between 300 and 50,000", "top", path="mpi4.d", budget=10**9)
        await refuse(session, "not a whole number", "top", path="mpi4.d", limit="5")
        await refuse(session, "not a whole number", "top", path="mpi4.d", limit=True)
        await refuse(session, "not a text", "top", path=["mpi4.d"])
        await refuse(session, "did you mean metric?", "top", path="mpi4.d", metrics="time")
        await refuse(session, "there is no 'everything'", "top", path="mpi4.d", by="everything")
        await refuse(session, "needs path", "top")
        await refuse(session, "an object of numbers", "predict", path="mpi4.d", at="p=4")
        await refuse(session, "rank", "top", path="mpi4.d", ranks="99")
        with pytest.raises(client.MCPError, match="there is no tool 'rm'"):
            await session.call_tool("rm", {"path": "/"})
        listed = (await session.list_tools()).tools
        assert [tool.name for tool in listed] == list(TOOLS)
        assert all(tool.annotations.read_only_hint for tool in listed)
        assert all(tool.input_schema["additionalProperties"] is False for tool in listed)
        answer = await call(session, "top", path="mpi4.d")
        assert answer["total"] > 0

    with_session([folder], work)
    assert {path: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.rglob("*.db")} == before


# -- the same without the protocol -------------------------------------------------------------------------------------


def ask(folder: Path, tool: str, session: Session | None = None, **arguments: Any) -> dict[str, Any]:
    """Return the document that a tool answers with."""
    asked = session or Session(Folders.of([str(folder)]))
    return asked.call(tool, arguments, lambda label, done, total: None)


def test_names_are_shown_as_text_and_long_ones_cut(folder: Path) -> None:
    answer = ask(folder, "top", path="names.folded")
    names = [row[answer["columns"].index("name")] for row in answer["rows"]]
    assert names[0] == "\\x1b[2J\\u202eevil"
    assert any("4,600 characters are left out" in name for name in names)


def test_folders_are_listed_and_what_leads_out_is_not_looked_at(folder: Path) -> None:
    answer = ask(folder, "open")
    rows = {Path(path).name: format_ for path, format_ in answer["rows"]}
    assert rows["mpi4.d"] == "hpctoolkit-release"
    assert rows["names.folded"] == "folded"
    assert [name for name, format_ in rows.items() if OUTSIDE in format_] == ["away", "linked.d", "packed"]
    assert ask(folder, "open", path="inside/mpi4.d") == ask(folder, "open", path=str(folder / "mpi4.d"))


def test_an_input_that_changes_is_opened_again(tmp_path: Path) -> None:
    file, session = tmp_path / "growing.folded", Session(Folders.of([str(tmp_path)]))
    file.write_text("main;work 3\n")
    assert ask(tmp_path, "top", session, path=file.name)["total"] == 3
    file.write_text("main;work 3\nmain;wait 4\n")
    os.utime(file, ns=(1, 1))
    assert ask(tmp_path, "top", session, path=file.name)["total"] == 7
    file.unlink()
    with pytest.raises(InputError, match="no such file"):
        ask(tmp_path, "top", session, path=file.name)


@pytest.fixture(scope="module")
def wide(tmp_path_factory: pytest.TempPathFactory) -> Session:
    """An input with 2,008 functions, of which no budget here shows all."""
    folder = tmp_path_factory.mktemp("wide")
    lines = "".join(f"main;phase{k % 7};function_{k} {k + 1}\n" for k in range(2000))
    (folder / "wide.folded").write_text(lines)
    return Session(Folders.of([str(folder)]))


@pytest.mark.parametrize("budget", [300, 600, 2000, 8000])
@pytest.mark.parametrize("tool", ["top", "tree", "info", "explain", "hot_path", "imbalance"])
def test_answers_fit_their_budget_and_say_what_is_missing(wide: Session, tool: str, budget: int) -> None:
    limit = {"limit": 3000} if tool in ("top", "tree") else {}
    over = {"over": "run"} if tool == "imbalance" else {}
    answer = ask(Path(), tool, wide, path="wide.folded", budget=budget, **limit, **over)
    assert len(encode(answer)) <= budget * BYTES_PER_TOKEN
    if limit:
        shown = len(answer["rows"])
        assert any("of 2,008 rows" in text for text in answer["left_out"])
        assert f"--limit {shown} " in answer["command"]
        assert shown >= budget // 60


def test_progress_is_reported_every_so_often() -> None:
    told: list[int] = []
    always = serving._every(0.0, lambda label, done, total: told.append(done))
    always("reading", 1, 2)
    always("reading", 2, 2)
    assert told == [1, 2]
    rarely = serving._every(3600.0, lambda label, done, total: told.append(done))
    rarely("reading", 3, 4)
    assert told == [1, 2]


def test_progress_reaches_the_client(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    client = need_module("mcp")
    monkeypatch.setattr(serving, "INTERVAL_S", 0.0)
    monkeypatch.setattr("callgrove.assistant.inputs.open_paths", open_in_three_steps)
    told: list[tuple[float, float | None, str | None]] = []

    async def hear(progress: float, total: float | None, message: str | None) -> None:
        told.append((progress, total, message))

    async def work() -> None:
        async with client.Client(serving.make_server(Folders.of([str(folder)]))) as session:
            answer = await session.call_tool("top", {"path": "mpi4.d"}, progress_callback=hear)
            assert not answer.is_error

    anyio.run(work)
    assert told == [(1.0, 3.0, "opening"), (2.0, 3.0, "opening"), (3.0, 3.0, "opening")]


def open_in_three_steps(paths: list[str], name: str, options: ReadOptions) -> Experiment | Study:
    for done in (1, 2, 3):
        options.progress("opening", done, 3)
    return open_paths(paths, name)


# -- the verb ----------------------------------------------------------------------------------------------------------


def test_without_the_library_the_error_says_what_to_install(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "mcp.server.stdio", None)
    assert main(["mcp", str(folder)]) == 1
    assert "pip install 'callgrove[mcp]'" in capsys.readouterr().err


def test_folders_must_be_named_where_the_current_one_is_too_much(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.chdir(folder)
    assert main(["mcp"]) == 2
    assert "name the folders that may be read" in capsys.readouterr().err
    assert main(["mcp", str(folder / "nothing")]) == 3
    assert "there is no such folder" in capsys.readouterr().err
