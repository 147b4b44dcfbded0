"""Where rows stand is found once: whoever reads the same files again need not look for them, if there is room."""

from __future__ import annotations

import gc
import pickle
import weakref
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from callgrove.binary.sqlite import batch as joined_files
from callgrove.binary.sqlite import database as sqlite_file
from callgrove.binary.sqlite.batch import JoinedPages
from callgrove.binary.sqlite.cells import Type
from callgrove.binary.sqlite.database import SqliteCache, SqliteFile
from callgrove.binary.sqlite.pages import Pages
from callgrove.binary.sqlite.tables import Room, Runs, Starts
from callgrove.formats.events.spans import DataSetSpans
from callgrove.formats.gpu.event_tables import TableData
from callgrove.formats.gpu.rocpd.reader import RocpdData
from tests.formats.gpu.gpu_databases import execute, suffix_of, write_rocpd
from tests.formats.gpu.test_joined import joined, made, opened, process, rows, same


@given(st.lists(st.tuples(st.integers(-(2**40), 2**40), st.integers(1, 9)), min_size=1))
def test_row_ids_that_count_and_others(runs: Sequence[tuple[int, int]]) -> None:
    ids = np.concatenate([first + np.arange(n) for first, n in runs])
    kept = Runs.of(ids, 1)
    assert kept.all(1).tolist() == ids.tolist()
    assert kept.n_bytes <= 2 * 8 * len(runs)


@given(st.lists(st.integers(0, 2**45), min_size=1))
def test_places_in_two_bytes_and_what_they_have_in_common(places: Sequence[int]) -> None:
    kept = Starts.of(np.array(places))
    assert kept.all().tolist() == places
    assert Starts.of(np.arange(0, 60_000, 100) + 2**40).n_bytes == 2 * 600 + 16


def test_room_is_free_again_when_what_takes_it_is_forgotten() -> None:
    class Thing:
        pass

    room, one, two = Room(100), Thing(), Thing()
    assert room.take(one, 60)
    assert not room.take(two, 60)
    assert room.take(two, 40)
    del one
    assert room.left == 60


@pytest.fixture(params=["room", "none"])
def has_room(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[bool]:
    room = Room() if request.param == "room" else Room(0)
    monkeypatch.setattr(joined_files, "WORTH_KEEPING", 1)
    monkeypatch.setattr(sqlite_file, "Room", lambda: room)
    yield request.param == "room"
    assert room.left >= 0


def test_joined_tables_are_looked_through_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_room: bool) -> None:
    sought: list[int] = []
    several = JoinedPages.several

    def counted(pages: JoinedPages, tables: Any) -> Any:
        sought.append(len(tables))
        return several(pages, tables)

    experiment = opened(made(tmp_path, n_calls=400))
    monkeypatch.setattr(JoinedPages, "several", counted)
    backend = joined(experiment)
    found = rows(backend)
    # strings, symbols and the event table; else also allocations, regions, kernels and copies
    assert sum(sought) == (3 if has_room else 7)
    backend.release()
    assert rows(backend) == found
    assert same(joined(experiment)) == len(found)


def test_joined_files_that_are_changed_are_looked_through_again(tmp_path: Path, has_room: bool) -> None:
    files = made(tmp_path, n_calls=400)
    backend = joined(opened(files))
    table = f'"rocpd_region{suffix_of(process(1))}"'
    first = rows(backend)
    backend.release()
    execute(files[1], f"DELETE FROM {table} WHERE id % 2 = 0", f'UPDATE {table} SET "end" = "end" + 1000000')
    backend = joined(opened(files))
    assert len(rows(backend)) < len(first)
    assert same(backend) == len(rows(backend))


def test_files_one_after_the_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_room: bool) -> None:
    """Large ones, of which no two are in memory at once."""
    monkeypatch.setattr(sqlite_file, "SMALL_FILE", 0)
    monkeypatch.setattr(sqlite_file, "FEW_ROWS", 0)
    files, cache = [], SqliteCache()
    for k in range(3):
        path = tmp_path / f"{k}.db"
        values = ", ".join(f"({k * 1000 + n}, {2 ** (n % 40)})" for n in range(500))
        execute(path, "CREATE TABLE t(a, b)", f"INSERT INTO t VALUES {values}")
        files.append(SqliteFile.open(path, cache))
    sought: list[int] = []
    batches = Pages.batches

    def counted(pages: Pages, leaves: Any) -> Any:
        sought.append(len(leaves.page))
        return batches(pages, leaves)

    monkeypatch.setattr(Pages, "batches", counted)
    columns = {"a": Type.INTEGER, "b": Type.INTEGER}
    for turn in range(2):
        for k, file in enumerate(files):
            found = file.table("t", columns)
            assert found["a"].tolist() == [k * 1000 + n for n in range(500)]
            assert found["b"].tolist() == [2 ** (n % 40) for n in range(500)]
        assert len(sought) == (3 if has_room else 3 * (turn + 1))
    execute(files[0].path, "UPDATE t SET b = 7 WHERE a = 3")
    assert files[0].table("t", columns)["b"].tolist()[:5] == [1, 2, 4, 7, 16]


def test_what_is_kept_of_databases_goes_with_them(tmp_path: Path) -> None:
    experiment = opened(made(tmp_path, n_calls=400))
    backend = joined(experiment)
    rows(backend)
    caches = [dataset.file.cache for dataset in backend.datasets if isinstance(dataset, TableData)]
    assert len(caches) == len(backend.datasets)
    cache = caches[0]
    assert all(other is cache for other in caches)
    assert cache.schemas.whole
    assert cache.spare is None  # it is in use
    backend.release()
    assert cache.spare is not None
    assert pickle.loads(pickle.dumps(cache)).spare is None
    known = weakref.ref(cache)
    del experiment, backend, cache, caches
    gc.collect()
    assert known() is None


def test_events_are_given_back_when_they_were_read(tmp_path: Path) -> None:
    """A run has thousands of databases, and all of them stay open."""
    backend = opened(made(tmp_path, 1, n_calls=400)).traces.spans_backend
    assert isinstance(backend, DataSetSpans)
    (dataset,) = backend.datasets
    names = ("start_ns", "end_ns", "name", "kind", "lane", "correlation")
    columns = [weakref.ref(column) for events in dataset.events(names) for column in events.values()]
    gc.collect()
    assert len(columns) > len(names)
    assert [column for column in columns if column() is not None] == []


def test_what_leads_from_events_to_spans_is_given_back(tmp_path: Path) -> None:
    """It is as large as the event table, and needed by attributes alone."""
    run = replace(process(0), counters=((0, "SQ_WAVES", 4.0), (3, "SQ_WAVES", 5.0)))
    experiment = opened([write_rocpd(tmp_path / "0.db", [run])])
    backend = experiment.traces.spans_backend
    assert isinstance(backend, DataSetSpans)
    (dataset,) = backend.datasets
    assert isinstance(dataset, RocpdData)
    before = backend.side("counter")
    assert before is not None
    lookup = weakref.ref(dataset.span_of_event)
    assert lookup() is dataset.span_of_event
    experiment.traces.release()
    gc.collect()
    assert lookup() is None
    after = backend.side("counter")
    assert after is not None
    assert after.span.tolist() == before.span.tolist()


def test_events_are_not_looked_through_for_stacks_that_nobody_wrote(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    backend = opened(made(tmp_path, 1)).traces.spans_backend
    assert backend is not None
    monkeypatch.setattr(RocpdData, "span_of_event", property(lambda _: pytest.fail("was made")))
    assert backend.side("stack") is None
