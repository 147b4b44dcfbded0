"""rocpd written by us: rocprofv3's views have the columns and the rows that they have in its own files."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from callgrove.cli.main import main
from callgrove.cli.verbs.convert import main as merge
from callgrove.formats.gpu.rocpd.tables import MOST_TERMS, create_view
from tests.formats.gpu.gpu_databases import Run, execute, suffix_of, write_rocpd

Capture = pytest.CaptureFixture[str]
Rows = list[tuple[object, ...]]


def run_of(k: int) -> Run:
    """Processes of one number on different hosts, as containers have them."""
    guid = f"018f0000-0000-7000-8000-00000000000{k}"
    return Run.random(k, host=f"node{k}", machine=f"m{k}", guid=guid).without("memset")


def converted(source: Path, target: Path) -> sqlite3.Connection:
    assert main(["convert", str(source), str(target), "--to", "rocpd"]) == 0
    return sqlite3.connect(target)


def names_of_views(database: sqlite3.Connection) -> set[str]:
    return {name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'view'")}


def view(database: sqlite3.Connection, name: str) -> tuple[list[str], Rows]:
    found = database.execute(f'SELECT * FROM "{name}"')
    return [column for column, *_ in found.description], found.fetchall()


@pytest.mark.parametrize("name", ["same_pid/rank00000", "same_pid/rank00002", "small/rank00003"])
def test_views_of_a_genuine_file_give_the_same_rows(name: str, shared: Path, tmp_path: Path) -> None:
    """The file's own views are run here, by the test: the project never does."""
    source = shared / "data" / "own" / "rocpd" / f"{name}_results.db"
    uri = f"file:{source}?mode=ro&immutable=1"
    with closing(sqlite3.connect(uri, uri=True)) as genuine, closing(converted(source, tmp_path / "o.db")) as ours:
        assert len(names_of_views(genuine)) == 41
        assert names_of_views(ours) == names_of_views(genuine)
        for one in sorted(names_of_views(genuine)):
            (columns, rows), (our_columns, our_rows) = view(genuine, one), view(ours, one)
            assert our_columns == columns, one
            assert sorted(map(repr, our_rows)) == sorted(map(repr, rows)), one


def test_views_of_many_processes_join_inside_each(tmp_path: Path) -> None:
    runs = [run_of(k) for k in range(3)]
    source = tmp_path / "runs"
    source.mkdir()
    for k, run in enumerate(runs):
        write_rocpd(source / f"{k}.db", [run])
    with closing(converted(source, tmp_path / "all.db")) as database:
        columns, threads = view(database, "threads")
        assert len(threads) == sum(len(run.tids) for run in runs)  # rocprofv3's view has nine times as many
        assert {row[columns.index("hostname")] for row in threads} == {"node0", "node1", "node2"}
        kinds = {"memory_allocations": "alloc", "memory_copies": "copy"}
        for name, kind in kinds.items():
            want = [event for run in runs for event in run.events if event.kind == kind]
            columns, rows = view(database, name)
            assert len(rows) == len(want), name
            assert sum(int(str(row[columns.index("duration")])) for row in rows) == sum(event.length for event in want)
        want_top: dict[str, list[int]] = {}
        for run in runs:
            for event in run.events:
                if event.kind != "alloc":
                    want_top.setdefault(event.name, []).append(event.length)
        _, top = view(database, "top")
        assert {row[0]: (row[1], row[2]) for row in top} == {
            name: (len(own), sum(own) / 1000) for name, own in want_top.items()
        }
        busy = {(row[0], row[2]) for row in view(database, "busy")[1]}
        for run in runs:
            for device in range(run.n_devices):
                on_device = [event.length for event in run.operations if event.device == device]
                assert (1 + device, sum(on_device)) in busy or not on_device


def test_columns_and_tables_of_later_schemas_have_their_views(tmp_path: Path) -> None:
    run = run_of(1)
    source = write_rocpd(tmp_path / "a.db", [run])
    suffix = suffix_of(run)
    kernels = f"rocpd_kernel_dispatch{suffix}"
    execute(
        source,
        *(f"ALTER TABLE {kernels} ADD COLUMN {name}" for name in ("graph_exec_id", "graph_node_id")),
        *(f"ALTER TABLE rocpd_memory_copy{suffix} ADD COLUMN {name}" for name in ("graph_exec_id", "graph_node_id")),
        f"UPDATE {kernels} SET graph_exec_id = 3, graph_node_id = id * 10",
        # a queue of that number, without which rocprofv3's view knows no process
        f"INSERT INTO rocpd_info_queue{suffix} SELECT 0, guid, nid, pid, 'Queue 0', '' FROM rocpd_info_process{suffix}",
        f"CREATE TABLE rocpd_graph_launch{suffix} (id INTEGER PRIMARY KEY, guid, nid, pid, tid, agent_id, queue_id, "
        "start, end, graph_exec_id, kernel_dispatch_count, event_id, extdata)",
        f"INSERT INTO rocpd_graph_launch{suffix} SELECT 1, guid, nid, pid, tid, agent_id, queue_id, start, end + 7, 3, "
        f"5, event_id, '' FROM {kernels} LIMIT 1",
    )
    with closing(converted(source, tmp_path / "o.db")) as database:
        columns, rows = view(database, "kernels")
        place = columns.index("graph_exec_id")
        assert columns[place - 1 : place + 2] == ["queue_id", "graph_exec_id", "graph_node_id"]
        assert len(rows) == sum(event.kind == "kernel" for event in run.events)
        assert {(row[place], row[place + 1]) for row in rows} == {(3, 10 * int(str(row[0]))) for row in rows}
        columns, rows = view(database, "graph_launches")
        found = dict(zip(columns, rows[0], strict=True))
        assert (found["name"], found["kernel_dispatch_count"]) == ("Graph Execution", 5)


def test_a_view_that_nobody_knows_is_named(tmp_path: Path, capsys: Capture) -> None:
    source = write_rocpd(tmp_path / "a.db", [run_of(1)])
    with closing(converted(source, tmp_path / "o.db")):
        assert "lost" not in capsys.readouterr().err
    execute(source, "CREATE VIEW my_view AS SELECT 1")
    with closing(converted(source, tmp_path / "p.db")) as database:
        assert "my_view" not in names_of_views(database)
    assert "lost: view my_view: " in capsys.readouterr().err


def test_rows_without_a_process_are_of_that_of_their_table(tmp_path: Path) -> None:
    """Files of others have no column `guid`; views join by it."""
    runs = [run_of(k) for k in range(2)]
    source = write_rocpd(tmp_path / "a.db", runs)
    bases = ("info_thread", "info_process", "info_node")
    execute(source, *(f"ALTER TABLE rocpd_{base}{suffix_of(run)} DROP COLUMN guid" for run in runs for base in bases))
    with closing(converted(source, tmp_path / "o.db")) as database:
        assert len(view(database, "threads")[1]) == sum(len(run.tids) for run in runs)


@pytest.mark.parametrize("n", [1, MOST_TERMS, MOST_TERMS + 1, 3 * MOST_TERMS])
def test_a_view_unites_any_number_of_tables(n: int) -> None:
    """SQLite takes 500 terms in one UNION."""
    database = sqlite3.connect(":memory:")
    tables = [f"rocpd_x_{k}" for k in range(n)]
    for k, table in enumerate(tables):
        database.execute(f"CREATE TABLE {table} (id)")
        database.execute(f"INSERT INTO {table} VALUES ({k})")
    database.execute(create_view("x", tables))
    assert sorted(database.execute("SELECT id FROM rocpd_x")) == [(k,) for k in range(n)]


def test_rocprofv3_merge_writes_one_database(tmp_path: Path, capsys: Capture) -> None:
    runs = [run_of(k) for k in range(2)]
    files = [str(write_rocpd(tmp_path / f"{k}.db", [run])) for k, run in enumerate(runs)]
    assert merge(["--output-format", "rocpd", "pftrace", "--out", str(tmp_path / "all"), "--in", *files]) == 0
    assert capsys.readouterr() == ("", "")
    assert (tmp_path / "all.pftrace").is_file()
    with closing(sqlite3.connect(tmp_path / "all.db")) as database:
        (counted,) = database.execute("SELECT count(*) FROM rocpd_kernel_dispatch")
        assert counted == (sum(event.kind == "kernel" for run in runs for event in run.events),)
        assert len(view(database, "processes")[1]) == 2
    assert merge(["--output-format", "rocpd", "--out", files[0], "--in", *files]) == 2
    assert "is the input itself" in capsys.readouterr().err
