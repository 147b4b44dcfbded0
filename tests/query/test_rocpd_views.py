"""Every view against SQL over the raw databases, and against what their generator says; on both engines."""

from __future__ import annotations

import json
import sqlite3
import statistics
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from callgrove.formats.interface import ReadOptions
from callgrove.formats.registry import open_paths
from callgrove.model.experiment import Experiment
from callgrove.query.relations import ENGINES
from callgrove.query.sql import sql, table_list
from tests.exhaustive import some_of
from tests.formats.gpu.gpu_databases import Run, execute, suffix_of, write_rocpd
from tests.query.raw_rocpd import RAW, raw_rows

RUN = Run.random(1).without("memset")
FOLDERS = ("small", "same_pid")


# The larger one has nothing that the other does not have.
@pytest.fixture(scope="module", params=some_of(FOLDERS, lambda name: name != "small"))
def folder(request: pytest.FixtureRequest, shared: Path) -> Path:
    return shared / "data" / "own" / "rocpd" / str(request.param)


@pytest.fixture(scope="module")
def opened(folder: Path) -> Experiment:
    found = open_paths([folder], "", ReadOptions(fold=False))
    assert isinstance(found, Experiment)
    return found


@pytest.fixture(scope="module")
def truth(folder: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((folder / "truth.json").read_text())
    return found


def files(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.db"))


def ask(opened: Experiment, query: str, engine: str = "sqlite") -> list[tuple[Any, ...]]:
    return list(sql(opened, query, engine).rows())


@pytest.mark.parametrize("view", RAW)
def test_a_view_is_what_the_raw_tables_say(folder: Path, opened: Experiment, view: str) -> None:
    columns, statement = RAW[view]
    expected = Counter(raw_rows(files(folder), statement))
    assert expected, "nothing to compare with"
    for engine in ENGINES:
        assert Counter(ask(opened, f"SELECT {columns} FROM {view}", engine)) == expected


# -- the views that databases bring ----------------------------------------------------------------------------------

OTHERS = {"samples"}  # `samples` is a table of our own
OTHER_CELLS = {"id", "nid", "alloc_flags"}  # numbers of ours, unique over all files; and a number that is a text there
SUMS = {"top", "top_kernels", "busy"}  # these are wrong in the files


def views_of(path: Path) -> dict[str, list[str]]:
    """The views of a database, but for those that are only tables without their suffix; and their columns."""
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as database:
        names = [name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'view'")]
        kept = [name for name in names if not name.startswith("rocpd_")]
        return {name: [row[1].lower() for row in database.execute(f"PRAGMA table_info({name})")] for name in kept}


def test_views_have_all_columns_that_those_of_databases_have(folder: Path, opened: Experiment) -> None:
    views = views_of(files(folder)[0])
    assert len(views) == 21
    ours: dict[str, set[str]] = {}
    for table, _, column, *_ in table_list([opened]).rows():
        ours.setdefault(table, set()).add(column.lower())
    missing = {name: set(columns) - ours.get(name, set()) for name, columns in views.items() if name not in OTHERS}
    assert {name: columns for name, columns in missing.items() if columns} == {}


@pytest.mark.parametrize("engine", ENGINES)
def test_rows_of_the_views_of_databases_are_among_ours(shared: Path, engine: str) -> None:
    """Asked of each file, whose own views lose rows and multiply none; every column but numbers that are ours."""
    folder, compared = shared / "data" / "own" / "rocpd" / "same_pid", 0
    opened = open_paths([folder], "", ReadOptions(fold=False))
    assert isinstance(opened, Experiment)
    for view, columns in views_of(files(folder)[0]).items():
        if view in OTHERS | SUMS:
            continue
        names = ", ".join(f'"{name}"' for name in columns if name not in OTHER_CELLS)
        ours = Counter(ask(opened, f"SELECT {names} FROM {view}", engine))
        theirs: Counter[tuple[Any, ...]] = Counter()
        for path in files(folder):
            with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as database:
                theirs.update(database.execute(f"SELECT {names} FROM {view}").fetchall())
        assert not theirs - ours, (view, names, next(iter(theirs - ours)))
        compared += len(theirs)
    assert compared > 1000


def test_regions_and_samples_are_both(opened: Experiment) -> None:
    one, two, both = (
        Counter(ask(opened, f"SELECT * FROM {view}")) for view in ("regions", "sample_regions", "regions_and_samples")
    )
    assert both == one + two


def test_truth(opened: Experiment, truth: list[dict[str, Any]]) -> None:
    """What the generator wrote down, by process."""
    found = ask(
        opened, "SELECT guid, name, count(*), sum(duration), min(duration), max(duration) FROM kernels GROUP BY 1, 2"
    )
    assert {(guid, name): list(rest) for guid, name, *rest in found} == {
        (one["guid"], name): numbers for one in truth for name, numbers in one["top"].items()
    }
    copies = dict(ask(opened, "SELECT guid, count(*) FROM memory_copies GROUP BY guid"))
    assert copies == {one["guid"]: one["copies"] for one in truth}
    threads = dict(ask(opened, "SELECT guid, count(*) FROM threads GROUP BY guid"))
    assert threads == {one["guid"]: one["threads"] for one in truth}
    kinds = ask(
        opened,
        "SELECT p.guid, s.kind, count(*) FROM spans s JOIN (SELECT DISTINCT profile, guid FROM "
        "regions UNION SELECT DISTINCT profile, guid FROM kernels UNION SELECT DISTINCT profile, guid FROM "
        "memory_copies) p USING (profile) GROUP BY 1, 2",
    )
    assert {(guid, kind): n for guid, kind, n in kinds} == {
        (one["guid"], kind): n for one in truth for kind, n in one["spans"].items()
    }


def test_means_and_percentages_are_right(folder: Path, opened: Experiment) -> None:
    raw = raw_rows(
        files(folder),
        'SELECT s.display_name, k."end" - k.start FROM {kernel_dispatch} k '
        "JOIN {info_kernel_symbol} s ON s.id = k.kernel_id",
    )
    lengths: dict[str, list[int]] = {}
    for name, length in raw:
        lengths.setdefault(name, []).append(length)
    whole = sum(length for _, length in raw)
    found = {
        row[0]: row[1:]
        for row in ask(
            opened,
            "SELECT name, total_calls, total_duration, average, percentage, min_ns, max_ns, std_ns FROM top_kernels",
        )
    }
    assert found.keys() == lengths.keys()
    for name, own in lengths.items():
        calls, total, average, percentage, low, high, deviation = found[name]
        assert (calls, low, high) == (len(own), min(own), max(own))
        assert total == pytest.approx(sum(own) / 1000)
        assert average == pytest.approx(statistics.fmean(own) / 1000)
        assert percentage == pytest.approx(100 * sum(own) / whole)
        assert deviation == pytest.approx(statistics.stdev(own))
    top = ask(opened, "SELECT name, total_calls, total_ns FROM top WHERE domain = 'KERNELS'")
    assert {name: (n, ns) for name, n, ns in top} == {name: (len(own), sum(own)) for name, own in lengths.items()}
    shares = ask(opened, "SELECT domain, sum(percentage) FROM top GROUP BY domain")
    assert all(share == pytest.approx(100) for _, share in shares)
    [domain] = ask(
        opened,
        """SELECT "Calls", "DURATION (nsec)", "AVERAGE (nsec)", "STD_DEV" FROM domain_summary
        WHERE "Name" = 'KERNELS'""",
    )
    every = [length for _, length in raw]
    assert domain[:2] == (len(every), whole)
    assert domain[2:] == (pytest.approx(statistics.fmean(every)), pytest.approx(statistics.stdev(every)))


def covered(intervals: list[tuple[int, int]]) -> Iterator[int]:
    """The lengths of what intervals cover together, piece by piece."""
    last = -1
    for start, end in sorted(intervals):
        yield max(0, end - max(start, last))
        last = max(last, end)


def test_busy_is_a_union(folder: Path, opened: Experiment) -> None:
    raw = raw_rows(
        files(folder),
        """SELECT x.guid, a.type_index, x.start, x."end"
        FROM {kernel_dispatch} x JOIN {info_agent} a ON a.id = x.agent_id
        UNION ALL SELECT x.guid, CASE d.type WHEN 'GPU' THEN d.type_index ELSE o.type_index END, x.start, x."end"
        FROM {memory_copy} x JOIN {info_agent} d ON d.id = x.dst_agent_id
        JOIN {info_agent} o ON o.id = x.src_agent_id""",
    )
    devices: dict[tuple[str, int], list[tuple[int, int]]] = {}
    for guid, index, start, end in raw:
        devices.setdefault((guid, index), []).append((start, end))
    found = ask(
        opened,
        "SELECT p.guid, b.agent_type_index, b.GpuTime, b.WallTime, b.Busy, b.operations "
        "FROM busy b JOIN processes p USING (rank)",
    )
    assert len(found) == len(devices)
    for guid, index, gpu, wall, busy, operations in found:
        own = devices[guid, index]
        assert gpu == sum(covered(own))
        assert wall == max(end for _, end in own) - min(start for start, _ in own)
        assert busy == pytest.approx(gpu / wall)
        assert busy <= 1
        assert operations == len(own)


def test_summaries_add_up(opened: Experiment) -> None:
    for view, source in (
        ("kernel_summary", "kernels"),
        ("memory_copy_summary", "memory_copies"),
        ("memory_allocation_summary", "memory_allocations"),
    ):
        name = "type" if source == "memory_allocations" else "name"
        ours = ask(opened, f'SELECT "Name", "Calls", "DURATION (nsec)", "MIN (nsec)", "MAX (nsec)" FROM {view}')
        raw = ask(
            opened, f"SELECT {name}, count(*), sum(duration), min(duration), max(duration) FROM {source} GROUP BY 1"
        )
        assert Counter(ours) == Counter(raw)


def test_flows_lead_from_calls_to_operations(folder: Path, opened: Experiment) -> None:
    """As the stored views would link them: by stack_id, within one process."""
    expected = raw_rows(
        files(folder),
        """SELECT ks.display_name, s.string, x.start FROM {kernel_dispatch} x JOIN {event} e ON e.id = x.event_id
        JOIN {event} ce ON ce.stack_id = e.stack_id AND ce.id <> e.id JOIN {region} r ON r.event_id = ce.id
        JOIN {string} s ON s.id = r.name_id JOIN {info_kernel_symbol} ks ON ks.id = x.kernel_id""",
    )
    found = ask(
        opened,
        "SELECT k.name, r.name, k.start FROM flows f JOIN kernels k ON k.id = f.operation "
        "JOIN regions r ON r.id = f.call",
    )
    assert Counter(found) == Counter(expected)


def test_side_tables_join_by_span(opened: Experiment) -> None:
    joined = "SELECT s.name, s.duration_ns, k.grid_x FROM spans s JOIN span_kernels k USING (span)"
    assert Counter(ask(opened, joined)) == Counter(ask(opened, "SELECT name, duration, grid_x FROM kernels"))


@pytest.mark.parametrize("engine", ENGINES)
def test_arguments_that_are_streams(tmp_path: Path, engine: str) -> None:
    """The number of the stream is in JSON; an argument without one stays."""
    path, suffix = write_rocpd(tmp_path / "r.db", [RUN]), suffix_of(RUN)
    table, guid = f"rocpd_arg{suffix}", RUN.guid
    calls = [k + 1 for k, event in enumerate(RUN.events) if event.kind == "api"][:3]
    texts = ('{"stream_id": 1}', "{}", "no JSON")
    rows = [
        f"({k}, '{guid}', {call}, 2, 'hipStream_t', 'stream', '0x{k}', '{t}')"
        for k, (call, t) in enumerate(zip(calls, texts, strict=True))
    ]
    other = f"(9, '{guid}', {calls[0]}, 0, 'int', 'n', '5', '{{}}')"
    execute(path, f"INSERT INTO {table} VALUES {', '.join([*rows, other])}")
    opened = open_paths([path], "", ReadOptions(fold=False))
    assert isinstance(opened, Experiment)
    columns = "argument_id, event_id, arg_position, arg_type, arg_value, stream_id, pid, stream_name, extdata"
    found = ask(opened, f"SELECT {columns} FROM stream_args ORDER BY argument_id", engine)
    first, *rest = [(k, call, 2, "hipStream_t", f"0x{k}") for k, call in enumerate(calls)]
    assert found == [(*first, 1, RUN.pid, "Stream 1", "{}"), *((*row, None, RUN.pid, None, None) for row in rest)]
