"""Databases of rocprofv3's schemas 4.0 and 4.1 give what those of schema 3 with the same run give."""

from __future__ import annotations

import json
import lzma
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from callgrove.cli.main import main
from callgrove.errors import UnsupportedVersion
from callgrove.formats.events.spans import DataSetSpans
from callgrove.model.experiment import Experiment, Severity
from tests.formats.gpu.gpu_databases import Run, execute, suffix_of, write_rocpd
from tests.formats.gpu.gpu_truth import everything, expected_gpu_time, extras, gpu_time, opened, spans, totals
from tests.formats.gpu.rocpd4_databases import VERSIONS, add_stacks, write_rocpd4

Capture = pytest.CaptureFixture[str]
RUN = Run.random(1).without("memset")
TAIL = suffix_of(RUN)


def run_of(k: int) -> Run:
    """Processes of one number on different hosts, as containers have them."""
    return replace(
        Run.random(k).without("memset"),
        host=f"node{k}",
        machine=f"m{k}",
        guid=f"018f0000-0000-7000-8000-00000000000{k}",
    )


def side_columns(experiment: Experiment, side: str) -> dict[str, list[object]]:
    table = experiment.traces.side(side)
    assert table is not None
    return {name: list(column) for name, column in table.columns.items()}


@pytest.mark.parametrize("version", VERSIONS)
def test_all_events_are_those_of_schema_3(version: str, tmp_path: Path) -> None:
    run = replace(RUN, counters=((2, "SQ_WAVES", 8.0), (2, "SQ_WAVES", 9.0)))
    ours, theirs = (
        opened(write_rocpd4(tmp_path / "4.db", [run], version)),
        opened(write_rocpd(tmp_path / "3.db", [run])),
    )
    assert ours.warnings == ()
    assert everything(ours) == everything(theirs)
    assert gpu_time(ours) == expected_gpu_time(run)
    assert [ours.contexts.path(c) for c in range(len(ours.contexts))] == [
        theirs.contexts.path(c) for c in range(len(theirs.contexts))
    ]
    for side in ("kernel", "copy", "alloc", "event"):
        assert side_columns(ours, side) == side_columns(theirs, side), side
    assert extras(ours) == extras(theirs)


@pytest.mark.parametrize("kinds", ["444", "343", "434"])
def test_many_databases_of_one_schema_or_of_both(kinds: str, tmp_path: Path) -> None:
    """Read at once where all have the same columns, else one by one: the same events."""
    runs = [run_of(k) for k in range(len(kinds))]
    mixed, plain = tmp_path / "mixed", tmp_path / "plain"
    for folder in (mixed, plain):
        folder.mkdir()
    for k, (run, kind) in enumerate(zip(runs, kinds, strict=True)):
        (write_rocpd4 if kind == "4" else write_rocpd)(mixed / f"{k}.db", [run])
        write_rocpd(plain / f"{k}.db", [run])
    ours, theirs = opened(mixed), opened(plain)
    assert everything(ours) == everything(theirs)
    assert [w for w in ours.warnings if w.severity is Severity.DAMAGE] == []


def test_sets_of_both_schemas_in_one_file(tmp_path: Path) -> None:
    first, second = run_of(1), run_of(2)
    path = write_rocpd4(tmp_path / "both.db", [first])
    write_rocpd(tmp_path / "plain.db", [first, second])
    write_rocpd(path, [second])
    assert everything(opened(path)) == everything(opened(tmp_path / "plain.db"))


def test_the_layout_is_told_by_columns_not_by_the_version(tmp_path: Path) -> None:
    """A file that says 3, but whose events name tracks."""
    path = write_rocpd4(tmp_path / "r.db", [RUN])
    execute(path, f"UPDATE rocpd_metadata{TAIL} SET value = '3' WHERE tag = 'schema_version'")
    assert everything(opened(path)) == everything(opened(write_rocpd(tmp_path / "3.db", [RUN])))


@pytest.mark.parametrize(("version", "note"), [("4.1.0", ""), ("4.2.0", "newer than 4.1.0"), ("4.1.1", "newer than")])
def test_newer_minor_versions_are_read_with_a_note(version: str, note: str, tmp_path: Path) -> None:
    experiment = opened(write_rocpd4(tmp_path / "r.db", [RUN], version))
    assert totals(experiment, "kernel") == RUN.totals("kernel")
    texts = [warning.text for warning in experiment.warnings]
    assert len(texts) == bool(note)
    assert all(note in text for text in texts)


@pytest.mark.parametrize("version", ["5.0", "5.0.0", "40.1", "four", "2.9"])
def test_other_versions_are_refused(version: str, tmp_path: Path) -> None:
    path = write_rocpd4(tmp_path / "r.db", [RUN], version)
    with pytest.raises(UnsupportedVersion, match=r"up to 3\.0\.5 and 4\.1\.0 can be read"):
        opened(path)


def test_columns_that_a_newer_version_adds_are_kept(tmp_path: Path) -> None:
    path = write_rocpd4(tmp_path / "r.db", [RUN], "4.2.0")
    execute(path, f"ALTER TABLE rocpd_region{TAIL} ADD COLUMN mood", f"UPDATE rocpd_region{TAIL} SET mood = 'fine'")
    assert set(extras(opened(path)).values()) == {"fine"}


# -- what schema 4 adds ------------------------------------------------------------------------------------------------


def test_names_of_allocations_and_samples(tmp_path: Path) -> None:
    """Their own, else the type of an allocation, the name of a sample's track, or its category."""
    path = write_rocpd4(tmp_path / "r.db", [RUN])
    n = sum(event.kind == "alloc" for event in RUN.events)
    assert n >= 2
    execute(
        path,
        f"INSERT INTO rocpd_string{TAIL} (id, string) VALUES (901, 'MEMORY_ALLOCATION_ALLOCATE'), (902, 'tick')",
        f"UPDATE rocpd_memory_allocate{TAIL} SET name_id = 901 WHERE rowid > 1",
        f"UPDATE rocpd_memory_allocate{TAIL} SET name_id = 1 WHERE rowid = 1",  # the empty string
        f"INSERT INTO rocpd_info_category{TAIL} (id, name) VALUES (903, 'MARKER_CORE_API')",
        f"INSERT INTO rocpd_event{TAIL} (id, category_id, extdata) VALUES (9001, 903, '{{}}'), (9002, 903, '{{}}')",
        f"INSERT INTO rocpd_sample{TAIL} (id, track_id, timestamp, event_id, name_id) VALUES (1, 1, 2500, 9001, 902)",
        f"INSERT INTO rocpd_sample{TAIL} (id, track_id, timestamp, event_id) VALUES (2, 1, 2600, 9002)",
    )
    experiment = opened(path)
    assert totals(experiment, "alloc").keys() == {"ALLOC", "MEMORY_ALLOCATION_ALLOCATE"}
    assert totals(experiment, "alloc")["MEMORY_ALLOCATION_ALLOCATE"][0] == n - 1
    samples = [row for row in spans(experiment, "kind", "name", "start_ns", "end_ns") if row[2] == row[3]]
    assert ("marker", "tick", 2500, 2500) in samples
    assert ("marker", "", 2600, 2600) in samples  # the name of its track


def test_calls_stand_below_the_functions_of_their_stack(tmp_path: Path) -> None:
    run = RUN.without("marker")
    path = write_rocpd4(tmp_path / "r.db", [run])
    number = next(k for k, event in enumerate(run.events) if event.name == "hipMemcpy") + 1
    add_stacks(path, run, {number: ("main", "solve", "hipMemcpy")})
    for experiment in (opened(path), opened(path, write_rocpd4(tmp_path / "other.db", [run_of(2)]))):
        paths = {experiment.contexts.path(c) for c in range(len(experiment.contexts))}
        assert "main->solve->hipMemcpy->MEMORY_COPY_HOST_TO_DEVICE" in paths
    assert gpu_time(opened(path)) == expected_gpu_time(run)


def test_frames_whose_function_is_not_listed(tmp_path: Path) -> None:
    run = RUN.without("marker")
    path = write_rocpd4(tmp_path / "r.db", [run])
    add_stacks(path, run, {1: ("main", "solve")})
    execute(path, f"DELETE FROM rocpd_info_pc{TAIL} WHERE function = 'solve'")
    experiment = opened(path)
    paths = {experiment.contexts.path(c) for c in range(len(experiment.contexts))}
    assert f"main->[unknown]->{run.events[0].name}" in paths


def test_lines_of_events_and_unusual_phases_are_kept(tmp_path: Path) -> None:
    path = write_rocpd4(tmp_path / "r.db", [RUN], "4.0.0")
    add_stacks(path, RUN, {1: ("main",)})
    execute(
        path,
        f"INSERT INTO rocpd_info_source_code{TAIL} (id, file, line_number) VALUES (3, 'a.cpp', 7), (4, 'b.cpp', NULL)",
        f"INSERT INTO rocpd_line_info{TAIL} (event_id, source_code_id, pc_id) VALUES (1, 3, 1), (2, 4, 1)",
        f"INSERT INTO rocpd_line_info{TAIL} (event_id, source_code_id, pc_id) VALUES (3, NULL, 1)",
        f"UPDATE rocpd_region{TAIL} SET end_phase = 0 WHERE event_id = 1",
        f"UPDATE rocpd_region{TAIL} SET start_phase = 2 WHERE event_id = 2",
    )
    values = sorted((name, value) for (_, name), value in extras(opened(path)).items())
    assert values == [
        ("event.line_info", "a.cpp:7"),
        ("event.line_info", "b.cpp"),
        ("event.line_info", "main.c:10"),
        ("start_phase", "end"),
    ]


def test_address_ranges_are_said_to_be_unread(tmp_path: Path) -> None:
    path = write_rocpd4(tmp_path / "r.db", [RUN])
    execute(path, f"INSERT INTO rocpd_info_address_range{TAIL} (id, address_base) VALUES (1, 4096)")
    (warning,) = opened(path).warnings
    assert warning.severity is Severity.NOTE
    assert "ranges of addresses" in warning.text


# -- damage ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("UPDATE rocpd_region%s SET track_id = 999 WHERE rowid = 1", "track_id: 1 ids lead to no row"),
        ("UPDATE rocpd_kernel_dispatch%s SET track_id = 999 WHERE rowid = 1", "track_id: 1 ids lead to no row"),
        ("UPDATE rocpd_kernel_dispatch%s SET track_id = NULL WHERE rowid = 1", ""),
        ("UPDATE rocpd_track%s SET agent_id = 77", "track_id"),
        ("UPDATE rocpd_track%s SET tid = 12345", "track_id"),
        ("UPDATE rocpd_track%s SET tid = NULL", ""),  # work of a device that no thread launched
        ("UPDATE rocpd_event%s SET category_id = 9 WHERE id = 1", "category_id: 1 ids lead to no row"),
        ("DROP TABLE rocpd_info_category%s", "category_id"),
        ("DROP TABLE rocpd_track%s", "track_id"),
        ("UPDATE rocpd_track%s SET stream_id = 'x'", "not numbers"),
    ],
)
@pytest.mark.parametrize("n_files", [1, 3])
def test_what_is_damaged_is_counted_and_the_rest_is_read(
    statement: str, said: str, n_files: int, tmp_path: Path
) -> None:
    runs = [run_of(k + 1) for k in range(n_files)]
    for k, run in enumerate(runs):
        write_rocpd4(tmp_path / f"{k}.db", [run])
    execute(tmp_path / "0.db", statement % suffix_of(runs[0]))
    experiment = opened(tmp_path)
    everything(experiment)
    assert experiment.traces.n_spans == sum(len(run.events) for run in runs)
    assert totals(experiment, "kernel") == totals(opened(*_plain(runs, tmp_path / "plain")), "kernel")
    backend = experiment.traces.spans_backend
    assert isinstance(backend, DataSetSpans)
    texts = " ".join(warning.text for warning in backend.warnings if warning.severity is Severity.DAMAGE)
    assert (said in texts) if said else not texts


def _plain(runs: list[Run], folder: Path) -> list[Path]:
    folder.mkdir()
    return [write_rocpd(folder / f"{k}.db", [run]) for k, run in enumerate(runs)]


# -- the verbs ---------------------------------------------------------------------------------------------------------


def test_merging_writes_schema_3_with_all_that_was_read(tmp_path: Path, capsys: Capture) -> None:
    """The views of schema 3 work on it, and reading it gives the same events."""
    old, new = write_rocpd(tmp_path / "3.db", [run_of(1)]), write_rocpd4(tmp_path / "4.db", [run_of(2)], "4.0.0")
    add_stacks(new, run_of(2), {1: ("main", "solve")})
    target = tmp_path / "all.db"
    assert main(["convert", str(old), str(new), str(target), "--to", "rocpd", "--strict"]) == 0
    assert f"{new}: schema 4.0.0 is written as schema 3" in capsys.readouterr().err
    merged, apart = opened(target), opened(old, new)
    assert everything(merged) == everything(apart)
    for side in ("kernel", "copy", "alloc", "stack"):
        assert side_columns(merged, side) == side_columns(apart, side), side
    with closing(sqlite3.connect(target)) as database:
        copies = database.execute("SELECT count(*), sum(duration), min(tid) FROM memory_copies").fetchone()
        categories = {name for (name,) in database.execute("SELECT DISTINCT category FROM regions")}
    events = [event for k in (1, 2) for event in run_of(k).events if event.kind == "copy"]
    assert copies == (len(events), sum(event.length for event in events), min(RUN.tids))
    assert categories == {"HIP_RUNTIME_API_EXT", "MARKER_CORE_API"}


@pytest.mark.parametrize("to", ["perfetto", "chrome-json", "rocprof-csv", "rocpd-draft"])
def test_targets_are_those_of_schema_3(to: str, tmp_path: Path) -> None:
    """To the byte, but for what is named after the file itself."""
    written = []
    for version in ("3", "4"):
        source = tmp_path / version / "in.db"
        source.parent.mkdir()
        (write_rocpd if version == "3" else write_rocpd4)(source, [RUN])
        target = tmp_path / version / "out"
        assert main(["convert", str(source), str(target), "--to", to]) == 0
        written.append({path.name: _content(path) for path in sorted(source.parent.glob("out*"))})
    assert written[0] == written[1]


def _content(path: Path) -> object:
    data = path.read_bytes()
    if not data.startswith(b"SQLite"):
        return data
    with closing(sqlite3.connect(path)) as database:
        return [line for line in database.iterdump() if "rocpd" not in line]


@pytest.mark.parametrize(
    "query", ["SELECT tid, queue_id, stream, name, duration FROM kernels", "SELECT * FROM threads"]
)
def test_sql_views_are_those_of_schema_3(query: str, tmp_path: Path, capsys: Capture) -> None:
    answers = []
    for path in (write_rocpd(tmp_path / "3.db", [RUN]), write_rocpd4(tmp_path / "4.db", [RUN])):
        assert main(["sql", str(path), query, "--format", "json"]) == 0
        answers.append(json.loads(capsys.readouterr().out))
    assert answers[0] == answers[1]
    assert answers[0]


@pytest.mark.parametrize("verb", [["info"], ["check"], ["dump"], ["summary"], ["top"]])
def test_verbs_take_the_samples(verb: list[str], shared: Path, tmp_path: Path, capsys: Capture) -> None:
    for packed in sorted((shared / "data" / "own" / "rocpd4").glob("*.xz")):
        path = tmp_path / packed.stem
        path.write_bytes(lzma.decompress(packed.read_bytes()))
        assert main([*verb, str(path)]) == 0
        assert "(double*)" in capsys.readouterr().out or verb == ["check"]
