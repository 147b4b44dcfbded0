"""Small databases of one run are read some at a time: the same as one by one, whatever is wrong with some of them."""

from __future__ import annotations

import os
import pickle
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from callgrove.analysis import summary
from callgrove.analysis.summary import summarise, table
from callgrove.analysis.summary_sections import By
from callgrove.binary.sqlite import batch as joined_files
from callgrove.binary.sqlite import database, pages
from callgrove.binary.sqlite.cells import Type
from callgrove.binary.sqlite.database import SqliteCache, SqliteFile
from callgrove.binary.sqlite.plan import Slow
from callgrove.errors import CallgroveError, InputError
from callgrove.execute import Engine, executor
from callgrove.formats.events.experiment import BundledSpans, JoinedSpans
from callgrove.formats.events.spans import DataSetSpans
from callgrove.formats.gpu import formats
from callgrove.formats.gpu.files import read_ahead
from callgrove.formats.gpu.rocpd import lookups
from callgrove.formats.gpu.rocpd.events import RocpdEvents
from callgrove.formats.gpu.rocpd.owners import ByOwner
from callgrove.formats.gpu.rocpd.places import join_files, read_together
from callgrove.formats.gpu.rocpd.tables import LISTED
from callgrove.formats.interface import ReadOptions
from callgrove.formats.registry import open_paths
from callgrove.model.experiment import Experiment
from callgrove.model.traces.events import LABEL, SideTable
from tests.formats.gpu.gpu_databases import Event, Run, execute, suffix_of, write_rocpd
from tests.requirements import need

COLUMNS = ("profile", "kind", "category", "name", LABEL, "start_ns", "end_ns", "correlation", "context")
TEXTS = ("category", "name", LABEL)
N_FILES = 5


def process(number: int, n_calls: int = 24) -> Run:
    made = Run.random(number, n_calls).without("memset")
    guid = f"018f{number:04x}-0000-7000-8000-0000000000ff"
    return replace(made, pid=4000 + number % 2, host=f"node{number}", machine=f"m{number}", guid=guid)


def made(folder: Path, n: int = N_FILES, n_calls: int = 24) -> list[Path]:
    folder.mkdir(exist_ok=True)
    return [write_rocpd(folder / f"{k}.db", [process(k, n_calls)]) for k in range(n)]


def opened(files: Sequence[Path]) -> Experiment:
    found = open_paths(files, "rocpd", ReadOptions(fold=False))
    assert isinstance(found, Experiment)
    return found


def joined(experiment: Experiment) -> JoinedSpans:
    assert experiment.traces.split is not None
    backend = experiment.traces.split(0, len(experiment.traces.parts())).spans_backend
    assert isinstance(backend, JoinedSpans)
    return backend


def one_by_one(backend: JoinedSpans) -> DataSetSpans:
    return DataSetSpans(backend.datasets, backend._profiles)


def rows(backend: DataSetSpans, **which: Any) -> list[tuple[Any, ...]]:
    """Every span by its number, with texts instead of numbers."""
    out: list[tuple[Any, ...]] = []
    for chunk in backend.chunks(COLUMNS, which.get("window"), which.get("profiles")):
        cells = [chunk["span"].tolist()]
        for name in COLUMNS:
            values = chunk[name].tolist()
            cells.append([backend.strings[v] if v >= 0 else None for v in values] if name in TEXTS else values)
        out += zip(*cells, strict=True)
    return sorted(out, key=lambda row: row[0])


def sizes(found: SideTable | None) -> dict[int, int]:
    if found is None:
        return {}
    return dict(zip(found.span.tolist(), np.asarray(found.columns["bytes"]).tolist(), strict=True))


def same(backend: JoinedSpans) -> int:
    """Compares both ways of reading; how many spans there are."""
    other = one_by_one(backend)
    found = rows(backend)
    assert found == rows(other)
    for name in ("copy", "alloc"):
        assert sizes(backend.side(name)) == sizes(other.side(name))
    return len(found)


@pytest.mark.parametrize("n_calls", [24, 400])
def test_spans_are_those_of_every_file(tmp_path: Path, n_calls: int) -> None:
    files = made(tmp_path, n_calls=n_calls)
    backend = joined(opened(files))
    assert same(backend) == sum(len(process(k, n_calls).events) for k in range(N_FILES))
    assert backend.joined is not None, "they were read one by one"
    assert sum(sizes(backend.side("copy")).values()) == sum(
        event.size for k in range(N_FILES) for event in process(k, n_calls).events if event.kind == "copy"
    )
    assert not backend.has_counters


def test_windows_and_profiles(tmp_path: Path) -> None:
    backend = joined(opened(made(tmp_path)))
    for which in ({"window": (2100, 2300)}, {"profiles": np.array([0, 3, 5])}):
        found = rows(backend, **which)
        assert found == rows(one_by_one(backend), **which)
        assert 0 < len(found) < len(rows(backend))
    assert backend.joined is not None


def stream(backend: DataSetSpans, **which: Any) -> list[list[tuple[Any, ...]]]:
    """The spans of every chunk as they come, with depths, and with texts instead of numbers."""
    out = []
    for chunk in backend.chunks((*COLUMNS, "depth"), which.get("window"), which.get("profiles")):
        columns = [chunk[name].tolist() for name in ("span", "profile", "start_ns", "end_ns", "depth")]
        names = [[backend.strings[k] if k >= 0 else None for k in chunk[name].tolist()] for name in TEXTS]
        out.append(list(zip(*columns, *names, strict=True)))
    return out


@pytest.mark.parametrize("which", [{}, {"window": (2100, 2300)}, {"profiles": np.array([0, 3, 5])}])
def test_an_experiment_streams_bundles_as_if_every_file_were_read_alone(tmp_path: Path, which: dict[str, Any]) -> None:
    experiment = opened(made(tmp_path, n_calls=60))
    backend = experiment.traces.spans_backend
    assert isinstance(backend, BundledSpans)
    part_of = {int(p): number for number, part in enumerate(backend.parts()) for p in part.tolist()}
    chunks = stream(backend, **which)
    alone = [span for chunk in stream(DataSetSpans(backend.datasets, backend._profiles), **which) for span in chunk]
    assert [span for chunk in chunks for span in chunk] == alone
    assert all(len({part_of[profile] for _, profile, *_ in chunk}) == 1 for chunk in chunks)
    assert len(chunks) <= N_FILES, "they were read one by one"
    assert which or max(depth for _, _, _, _, depth, *_ in alone) > 0


def damaged(files: Sequence[Path], statement: str) -> None:
    """A statement about the tables of the second file; %s is their suffix."""
    execute(files[1], statement.replace("%s", suffix_of(process(1))))


@pytest.mark.parametrize(
    "statement",
    [
        'DELETE FROM "rocpd_event%s" WHERE id = 3',
        'UPDATE "rocpd_region%s" SET event_id = NULL WHERE rowid = 2',
        'UPDATE "rocpd_region%s" SET tid = 99 WHERE rowid = 2',
        'UPDATE "rocpd_region%s" SET name_id = 5000 WHERE rowid = 2',
        """UPDATE "rocpd_region%s" SET start = '' WHERE rowid = 2""",
        """UPDATE "rocpd_region%s" SET start = 'early' WHERE rowid = 2""",
        'UPDATE "rocpd_kernel_dispatch%s" SET kernel_id = 77 WHERE rowid = 1',
        'UPDATE "rocpd_kernel_dispatch%s" SET agent_id = 77 WHERE rowid = 1',
        'UPDATE "rocpd_kernel_dispatch%s" SET stream_id = NULL WHERE rowid = 1',
        'UPDATE "rocpd_memory_copy%s" SET dst_agent_id = NULL, src_agent_id = NULL WHERE rowid = 1',
        'UPDATE "rocpd_event%s" SET category_id = NULL WHERE id = 2',
        'UPDATE "rocpd_event%s" SET extdata = \'{"message\' WHERE id = 1',
        'UPDATE "rocpd_event%s" SET extdata = NULL WHERE id = 1',
        """UPDATE "rocpd_string%s" SET string = CAST(X'68FF' AS TEXT) WHERE id = 2""",
        'INSERT INTO "rocpd_info_kernel_symbol%s" SELECT * FROM "rocpd_info_kernel_symbol%s"',
        'INSERT INTO "rocpd_sample%s"(id, track_id, timestamp, event_id) VALUES (1, 1, 2222, 1)',
        'ALTER TABLE "rocpd_region%s" ADD COLUMN more INTEGER DEFAULT 4',
        'ALTER TABLE "rocpd_region%s" RENAME COLUMN event_id TO other',
        'DROP TABLE "rocpd_event%s"',
        'DROP TABLE "rocpd_memory_copy%s"',
        'DELETE FROM "rocpd_kernel_dispatch%s"',
        "PRAGMA journal_mode=WAL",
    ],
)
def test_whatever_is_wrong_with_one_of_them(tmp_path: Path, statement: str) -> None:
    files = made(tmp_path)
    damaged(files, statement)
    experiment = opened(files)
    backend = joined(experiment)
    other = opened(files)
    assert rows(backend) == rows(one_by_one(joined(other)))
    assert (backend.joined is None) == statement.startswith("PRAGMA"), "only files of one kind are read at once"
    by = (By.RANK,)
    found = summarise(experiment, by)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(summary, "BUNDLE_BYTES", 0)
        want = summarise(other, by)
    assert str(table(found)) == str(table(want))  # as text: some cells are not numbers
    assert sorted(found.damage) == sorted(want.damage)
    assert (found.n_read, found.n_flagged, found.n_unlinked) == (want.n_read, want.n_flagged, want.n_unlinked)


@pytest.mark.parametrize("chunk_rows", [7, 1 << 16])
def test_what_leads_nowhere_is_counted_once_however_often_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chunk_rows: int
) -> None:
    """At once, one by one in chunks of any size, and at once again; the ids of a file are its own."""
    monkeypatch.setattr(database, "FEW_ROWS", 0)
    monkeypatch.setattr(pages, "BATCH_ROWS", chunk_rows)
    files = made(tmp_path, n_calls=400)
    for statement in (
        'UPDATE "rocpd_region%s" SET name_id = 5000 + rowid WHERE rowid % 3 = 0',
        'UPDATE "rocpd_kernel_dispatch%s" SET kernel_id = 77, agent_id = 78 WHERE rowid % 2 = 0',
        'UPDATE "rocpd_event%s" SET category_id = 5001 WHERE id IN (SELECT event_id FROM "rocpd_memory_copy%s")',
        'UPDATE "rocpd_memory_allocate%s" SET event_id = 1000000, tid = 99',
    ):
        damaged(files, statement)
    backend = joined(opened(files))
    alone = one_by_one(backend)
    found = rows(backend)
    said = [warning.text for warning in backend.warnings]
    wanted = {place: n for place, n in lost_ids(files[1]).items() if n}
    assert len(wanted) == 6
    for place, n in wanted.items():
        assert f"{files[1]}: {place}: {n} ids lead to no row" in said
    assert len(said) == len(wanted)
    for again in (alone, backend, alone, backend):
        assert rows(again) == found
        assert sorted(warning.text for warning in again.warnings) == sorted(said)
    assert backend.joined is not None


def test_an_event_table_that_is_too_large_to_keep(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Then every chunk of events reads the rows that it refers to."""
    monkeypatch.setattr(database, "FEW_ROWS", 0)
    files = made(tmp_path, n_calls=400)
    damaged(files, 'DELETE FROM "rocpd_event%s" WHERE id % 50 = 7')
    wanted = rows(one_by_one(joined(opened(files))))
    monkeypatch.setattr(pages, "BATCH_ROWS", 7)
    monkeypatch.setattr(lookups, "MOST_KEPT", 0)
    sought: list[int] = []
    events = lookups.EventRows.__init__

    def counted(made: Any, *words: Any) -> None:
        sought.append(1)
        events(made, *words)

    monkeypatch.setattr(lookups.EventRows, "__init__", counted)
    backend = one_by_one(joined(opened(files)))
    assert rows(backend) == wanted
    assert len(sought) > 10 * N_FILES
    assert any("event_id: " in warning.text for warning in backend.warnings)


def lost_ids(path: Path) -> dict[str, int]:
    """What SQL counts."""
    suffix = suffix_of(process(1))
    known = {
        "region.name_id": "string.id",
        "kernel_dispatch.kernel_id": "info_kernel_symbol.id",
        "kernel_dispatch.agent_id": "info_agent.id",
        "event.category_id": "string.id",
        "memory_allocate.event_id": "event.id",
        "memory_allocate.tid": "info_thread.id",
        "region.tid": "info_thread.id",
    }
    out = {}
    with closing(sqlite3.connect(path)) as connection:
        for place, target in known.items():
            (base, column), (other, id_) = place.split("."), target.split(".")
            query = f'SELECT count(*) FROM "rocpd_{base}{suffix}" WHERE {column} NOT IN '
            query += f'(SELECT {id_} FROM "rocpd_{other}{suffix}")'
            out[f"rocpd_{base}{suffix}.{column}"] = connection.execute(query).fetchone()[0]
    return out


def described(experiment: Experiment) -> list[object]:
    """Everything that opening finds out."""
    profiles, system = experiment.profiles, experiment.system
    names = ("node", "rank", "thread", "gpu_device", "gpu_stream")
    columns = [profiles.identity(name) for name in names]
    devices = experiment.traces.spans_backend
    assert isinstance(devices, DataSetSpans)
    return [
        experiment.title,
        experiment.version,
        sorted(warning.text for warning in experiment.warnings),
        [(str(kind), name) for kind, name in zip(profiles.kind.tolist(), profiles.name, strict=True)],
        [(values[present].tolist(), present.tolist()) for values, present in columns],
        (system.parent.tolist(), system.kind, system.name, system.rank.tolist(), system.attributes),
        [
            (d.kind, d.index, d.name, dict(d.attributes))
            for k in range(len(devices.datasets))
            for d in devices.devices(k)
        ],
        experiment.traces.time_range,
        experiment.traces.n_spans,
    ]


@pytest.mark.parametrize(
    "statement",
    [
        "",
        'INSERT INTO "rocpd_info_agent%s" SELECT * FROM "rocpd_info_agent%s"',
        """UPDATE "rocpd_info_agent%s" SET type_index = 'two', product_name = NULL""",
        """UPDATE "rocpd_info_agent%s" SET name = X'41FF', type = 7""",
        """UPDATE "rocpd_info_process%s" SET environment = '{"X": "' || hex(zeroblob(9000)) || '"}'""",
        """UPDATE "rocpd_info_process%s" SET pid = NULL, command = '', init = 2.5""",
        'DELETE FROM "rocpd_info_process%s"',
        'UPDATE "rocpd_info_thread%s" SET tid = NULL, name = 12',
        'DELETE FROM "rocpd_info_thread%s"',
        'DROP TABLE "rocpd_info_stream%s"',
        'DROP TABLE "rocpd_info_node%s"',
        'ALTER TABLE "rocpd_info_node%s" ADD COLUMN more TEXT DEFAULT 4',
        'ALTER TABLE "rocpd_info_node%s" RENAME COLUMN hostname TO host',
        """UPDATE "rocpd_metadata%s" SET value = '3.0.2' WHERE tag = 'schema_version'""",
        """UPDATE "rocpd_metadata%s" SET value = '9' WHERE tag = 'schema_version'""",
        'DROP TABLE "rocpd_metadata%s"',
        'INSERT INTO "rocpd_sample%s"(id, track_id, timestamp, event_id) VALUES (1, 77, 2222, 1)',
        'UPDATE "rocpd_region%s" SET tid = 99 WHERE rowid = 2',
        'UPDATE "rocpd_kernel_dispatch%s" SET agent_id = 77, stream_id = NULL WHERE rowid = 1',
    ],
)
def test_opening_some_at_a_time_finds_what_opening_each_does(tmp_path: Path, statement: str) -> None:
    files = made(tmp_path)
    if statement:
        damaged(files, statement)
    found = described(opened(files))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(formats, "BUNDLE_BYTES", 0)
        assert found == described(opened(files))


def test_files_are_fetched_while_those_before_them_are_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if not hasattr(os, "posix_fadvise"):
        need("posix_fadvise", "this system takes no hints on files")
    files = made(tmp_path, 4)
    size = max(path.stat().st_size for path in files)
    names = {path.stat().st_ino: path.name for path in files}
    events: list[tuple[str, str]] = []

    def hint(descriptor: int, *_: int) -> None:
        events.append(("fetch", names[os.fstat(descriptor).st_ino]))

    def read(path: Path, *how: Any, fill: Any = joined_files._fill) -> str:
        events.append(("read", path.name))
        reason: str = fill(path, *how)
        return reason

    monkeypatch.setattr(os, "posix_fadvise", hint)
    monkeypatch.setattr(joined_files, "_fill", read)
    monkeypatch.setattr(formats, "BUNDLE_BYTES", 2 * size)
    opened(files)
    assert [name for what, name in events if what == "fetch"] == [path.name for path in files[2:]]
    for path in files[2:]:
        assert events.index(("fetch", path.name)) < events.index(("read", path.name))
    read_ahead([tmp_path / "nowhere.db"])  # a hint, and no failure


def test_tables_that_list_things_are_read_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = made(tmp_path)
    before = read_together(join_files([SqliteFile.unread(path) for path in files]))
    assert [set(own.together.listed) for own in before] == [set(LISTED)] * N_FILES
    pids = [[4000 + k % 2] for k in range(N_FILES)]
    assert [own.cells("info_process")["pid"].tolist() for own in before] == pids
    with monkeypatch.context() as patch:
        patch.setattr(SqliteFile, "_bytes", lambda file, _: (file._given, None))  # no file is read a second time
        again = opened(files)
    assert described(again) == described(opened(files))
    damaged(files, """UPDATE "rocpd_info_process%s" SET environment = '{"X": "' || hex(zeroblob(9000)) || '"}'""")
    before = read_together(join_files([SqliteFile.unread(path) for path in files]))
    assert [own.cells("info_process")["pid"].tolist() for own in before] == pids  # then of every file by itself
    assert [len(own.cells("info_process")["environment"][0]) > 9000 for own in before] == [
        k == 1 for k in range(N_FILES)
    ]


def test_other_page_sizes_and_a_file_that_is_no_database(tmp_path: Path) -> None:
    files = made(tmp_path)
    execute(files[2], "PRAGMA page_size=1024", "VACUUM")
    assert same(joined(opened(files))) > 0
    files[3].write_bytes(b"no database")
    experiment = opened(files)
    assert "3.db" in experiment.damage[0].text
    assert experiment.traces.n_spans == sum(len(process(k).events) for k in (0, 1, 2, 4))


def test_processes_that_claim_one_rank_are_not_linked(tmp_path: Path) -> None:
    """Correlations are the same in all files; which call launched what is a matter of one file."""
    runs = []
    for k in range(3):
        call = Event("api", "hipLaunchKernel", 1000 + 100 * k, 1050 + 100 * k, corr=1)
        kernel = Event("kernel", f"kernel{k}", 2000, 2100, corr=1, device=0)
        runs.append(replace(process(k), events=(call, kernel), environment={"MY_RANK": "0"}))
    files = [write_rocpd(tmp_path / f"{k}.db", [own]) for k, own in enumerate(runs)]
    experiment = open_paths(files, "rocpd", ReadOptions(fold=False, rank_env="MY_RANK"))
    assert isinstance(experiment, Experiment)
    made_table = table(summarise(experiment), ("latency",))
    found = dict(zip(made_table.column("name").plain(), made_table.column("total_ns").plain(), strict=True))
    assert found["delay"] == sum(2000 - (1050 + 100 * k) for k in range(3))


def test_a_file_that_is_replaced_meanwhile(tmp_path: Path) -> None:
    files = made(tmp_path)
    experiment = opened(files)
    other = write_rocpd(tmp_path / "other.db", [replace(process(1), events=process(1).events[:7])])
    other.replace(files[1])
    found = summarise(experiment)
    assert found.n_read == sum(len(process(k).events) for k in (0, 2, 3, 4)) + 7


def test_a_file_that_is_replaced_by_that_of_another_process_is_refused(tmp_path: Path) -> None:
    for n in (1, N_FILES):
        files = made(tmp_path / str(n), n)
        experiment = opened(files)
        write_rocpd(tmp_path / f"other{n}.db", [replace(process(7), events=process(1).events)]).replace(files[0])
        with pytest.raises(InputError, match="was replaced after it was opened"):
            summarise(experiment)


def test_memory_is_given_back_and_read_again(tmp_path: Path) -> None:
    backend = joined(opened(made(tmp_path)))
    assert backend.joined is not None
    found = rows(backend)
    assert isinstance(backend.joined, RocpdEvents)
    files = backend.joined._files
    backend.release()
    assert files._buffer is None
    assert all(file._pages is None and file._given is None for file in files.files)
    assert rows(backend) == found
    again = pickle.loads(pickle.dumps(backend))
    assert rows(again) == found


def test_the_file_that_was_read_last_is_read_again_when_it_changes(tmp_path: Path) -> None:
    path = tmp_path / "t.db"
    execute(path, "CREATE TABLE t(a)", "INSERT INTO t VALUES (1)")
    cache = SqliteCache()
    file = SqliteFile.open(path, cache)
    assert file.table("t", {"a": Type.INTEGER})["a"].tolist() == [1]
    assert file._pages is not None
    execute(path, "INSERT INTO t VALUES (2)")
    assert file.table("t", {"a": Type.INTEGER})["a"].tolist() == [1, 2]
    execute(tmp_path / "u.db", "CREATE TABLE u(a)")
    SqliteFile.open(tmp_path / "u.db", cache)
    assert file._pages is None


def test_bytes_that_are_wrong_anywhere(tmp_path: Path) -> None:
    """Both ways give the same, or the same error."""
    files = made(tmp_path, 3)
    raw = files[1].read_bytes()
    chance = np.random.default_rng(11)
    n_read = 0
    for _ in range(25):
        spoiled = bytearray(raw)
        for _ in range(int(chance.integers(1, 5))):
            spoiled[int(chance.integers(100, len(raw)))] = int(chance.integers(0, 256))
        files[1].write_bytes(spoiled)
        outcomes: list[object] = []
        for alone in (False, True):
            experiment = opened(files)
            if len(experiment.traces.parts()) < 2:
                continue
            backend = joined(experiment)
            try:
                outcomes.append(rows(one_by_one(backend) if alone else backend))
            except CallgroveError as error:
                outcomes.append(str(error))
        assert len(outcomes) < 2 or outcomes[0] == outcomes[1]
        n_read += bool(outcomes) and isinstance(outcomes[0], list)
    assert n_read > 8


def by_owner(*ids: Sequence[int]) -> ByOwner:
    return ByOwner(np.array([len(own) for own in ids]), np.array([k for own in ids for k in own], np.int64))


def test_ids_by_owner() -> None:
    known = by_owner([5, 3, 5], [], [1000])
    n, asked = np.array([4, 1, 2]), np.array([3, 5, 4, -(2**63), 3, 1000, 3])
    assert known(n, asked).tolist() == [1, 0, -1, -1, -1, 3, -1]
    assert known(np.array([2, 0, 1]), np.array([5, 3, 1000])).tolist() == [0, 1, 3]  # all of them are there
    assert not known.is_unique
    assert by_owner([5, 3], [5], []).is_unique


@pytest.mark.parametrize("far", [1 << 40, 2**63 - 1])
def test_ids_that_lie_far_apart(far: int) -> None:
    known = by_owner([-(2**63), far], [far])
    assert known(np.array([3, 2]), np.array([far, 0, -(2**63), far, -(2**63)])).tolist() == [1, -1, 0, 2, -1]
    assert known.is_unique
    assert not by_owner([0, far, far], [1]).is_unique


def test_files_without_a_page_are_not_joined(tmp_path: Path) -> None:
    path = tmp_path / "short.db"
    path.write_bytes(b"SQLite format 3\0")
    assert join_files([SqliteFile(path, False)]).pages == Slow("a file shorter than its header")


def test_texts_stay_the_same_however_spans_are_read(tmp_path: Path) -> None:
    """Depth is read one by one, everything else at once: numbers of both mean one list of texts."""
    backend = joined(opened(made(tmp_path)))
    before = named(backend, ("name", LABEL))
    assert named(backend, ("name", LABEL, "depth")) == before
    assert named(backend, ("name", LABEL)) == before
    assert backend.joined is not None, "they were read one by one"
    assert {name for name, _ in before.values()} >= {"roctxRangePushA", "hipLaunchKernel"}


def named(backend: JoinedSpans, columns: Sequence[str]) -> dict[int, tuple[str, str]]:
    out: dict[int, tuple[str, str]] = {}
    for chunk in list(backend.chunks(columns, None, None)):
        texts = ([backend.strings[k] for k in chunk[name].tolist()] for name in ("name", LABEL))
        out |= dict(zip(chunk["span"].tolist(), zip(*texts, strict=True), strict=True))
    return out


def test_a_file_that_is_replaced_before_its_bundle_is_read(tmp_path: Path) -> None:
    """Its header was read before: it is looked at again, and all files are still read at once."""
    files = made(tmp_path)
    unread = [SqliteFile.unread(path) for path in files]
    other = write_rocpd(tmp_path / "other", [process(9, 60)])
    other.replace(files[2])
    before = read_together(join_files(unread))
    assert [own.cells("info_process")["pid"].tolist()[0] for own in before] == [4000, 4001, 4001, 4001, 4000]


def test_events_of_a_file_that_is_replaced_after_it_was_opened_are_counted_again(tmp_path: Path) -> None:
    files = made(tmp_path)
    experiment = opened(files)
    backend = experiment.traces.spans_backend
    assert isinstance(backend, DataSetSpans)
    execute(files[1], f'DELETE FROM "rocpd_region{suffix_of(process(1))}" WHERE id > 2')
    counts = [dataset.count() for dataset in backend.datasets]
    assert counts == [opened([path]).traces.n_spans for path in files]
    assert counts[1] < len(process(1).events)


@pytest.mark.parametrize(
    "statement",
    [
        'ALTER TABLE "rocpd_region%s" RENAME COLUMN start TO begin',
        'ALTER TABLE "rocpd_string%s" RENAME COLUMN string TO text',
        'DROP TABLE "rocpd_info_node%s"',
        "CREATE VIEW other AS SELECT 1",
        "CREATE TABLE other(a)",
        """UPDATE "rocpd_metadata%s" SET value = '9.0' WHERE tag = 'schema_version'""",
    ],
)
def test_what_files_have_in_common_is_looked_at_once_and_not_taken_from_others(tmp_path: Path, statement: str) -> None:
    """A file that is no plain one, among others that are."""
    files = made(tmp_path)
    damaged(files, statement)
    try:
        alone = [warning.text for warning in opened([files[1]]).warnings]
    except InputError as error:
        alone = [str(error)]
    together = opened(files)
    assert set(alone) <= {warning.text for warning in together.warnings}
    assert not any(str(path) in warning.text for warning in together.warnings for path in files if path != files[1])
    n_refused = sum("not read" not in text for text in alone)
    assert len(together.traces.parts()) == N_FILES - n_refused


def test_workers_open_the_same(tmp_path: Path) -> None:
    """What is known of databases comes from another process, where schemas have other marks."""
    files = made(tmp_path, 12)
    alone = opened(files)
    with executor(Engine(jobs=2)) as workers, pytest.MonkeyPatch.context() as patch:
        patch.setattr(formats, "BUNDLE_BYTES", 4 * files[0].stat().st_size)
        experiment = open_paths(files, "rocpd", ReadOptions(fold=False, workers=workers))
        assert isinstance(experiment, Experiment)
        assert described(experiment) == described(alone)
        backend = experiment.traces.spans_backend
        assert isinstance(backend, BundledSpans)
        assert [dataset.count() for dataset in backend.datasets] == [len(process(k).events) for k in range(12)]
        assert stream(backend) == stream(alone.traces.spans_backend)  # type: ignore[arg-type]
