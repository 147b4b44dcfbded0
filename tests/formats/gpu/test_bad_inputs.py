"""Databases that are damaged, hostile or somebody else's: one sentence, what is intact is read, nothing is changed."""

from __future__ import annotations

import hashlib
import os
import sqlite3
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import pytest

from callgrove.errors import CallgroveError, CorruptFile, InputError, NotRecognised, UnsupportedVersion
from callgrove.formats.events.spans import DataSetSpans
from callgrove.formats.registry import open_path
from callgrove.model.experiment import Experiment, InputWarning, Severity
from tests.cli.commands import Capture, rows, run, said
from tests.formats.gpu.gpu_databases import Run, execute, suffix_of, write_nsight, write_rocpd, write_rpd
from tests.formats.gpu.gpu_truth import expected_gpu_time, gpu_time, opened, spans, totals

RUN = Run.random(3, 24).without("memset")
TAIL = suffix_of(RUN)
ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return write_rocpd(tmp_path / "r.db", [RUN])


@contextmanager
def untouched(path: Path) -> Iterator[None]:
    before = hashlib.sha256(path.read_bytes()).hexdigest(), path.stat().st_mtime_ns
    yield
    assert (hashlib.sha256(path.read_bytes()).hexdigest(), path.stat().st_mtime_ns) == before


# -- no database, or not ours ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "empty"),
        (bytes(8192), "interrupted"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 5\n", "git lfs pull"),
        (b"SQLite format 3\0" + b"\1" * 20, "100 bytes"),
    ],
)
def test_what_is_no_database_is_refused_with_the_reason(content: bytes, words: str, tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    path.write_bytes(content)
    with pytest.raises(InputError, match=words), untouched(path):
        open_path(path)


def test_a_truncated_file_is_refused_with_both_sizes(path: Path) -> None:
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(CorruptFile, match=f"{len(whole) // 4096} pages of 4096 bytes.*{len(whole) // 2} bytes"):
        open_path(path)


@pytest.mark.parametrize(
    ("tables", "words"),
    [
        (["compute_workload", "compute_kernel"], "rocprof-compute"),
        (["HIP", "OPS", "COPY", "KERN"], "first rocprof"),
        (["moz_places", "moz_hosts"], "it has moz_places, moz_hosts"),
    ],
)
def test_databases_of_others_are_refused_by_name(tables: list[str], words: str, tmp_path: Path) -> None:
    execute(tmp_path / "x.db", *(f"CREATE TABLE {name} (id)" for name in tables))
    with pytest.raises(NotRecognised, match=words):
        open_path(tmp_path / "x.db")


@pytest.mark.parametrize("version", ["5", "5.1.0", "2"])
def test_an_unknown_schema_is_refused_with_its_number(version: str, tmp_path: Path) -> None:
    path = write_rocpd(tmp_path / "r.db", [RUN], version=version)
    execute(path, f"CREATE TABLE rocpd_novelty{TAIL} (id)")
    with pytest.raises(UnsupportedVersion, match=rf"schema {version}.*rocpd_novelty"):
        open_path(path)


def test_compressed_columns_are_refused(path: Path) -> None:
    execute(path, f"INSERT INTO rocpd_metadata{TAIL} VALUES (9, 'compression', 'lz4-frame-v1')")
    with pytest.raises(UnsupportedVersion, match="lz4-frame-v1"):
        open_path(path)


def test_tables_without_metadata_are_refused_by_name(path: Path) -> None:
    execute(path, f"DROP TABLE rocpd_metadata{TAIL}")
    with pytest.raises(CorruptFile, match=f"rocpd_kernel_dispatch{TAIL}"):
        open_path(path)


def test_tables_of_nobody_beside_others_are_damage(path: Path) -> None:
    execute(path, "CREATE TABLE rocpd_region_stray (id, start, end)")
    assert "rocpd_region_stray" in opened(path).damage[0].text


@pytest.mark.parametrize(("base", "column"), [("region", "start"), ("kernel_dispatch", "end"), ("string", "string")])
def test_a_column_that_nothing_works_without_is_named(base: str, column: str, path: Path) -> None:
    execute(path, f"ALTER TABLE rocpd_{base}{TAIL} DROP COLUMN {column}")
    with pytest.raises(CorruptFile, match=f"rocpd_{base}.*no {column}"):
        open_path(path)


def test_a_newer_schema_is_read_with_a_note(tmp_path: Path) -> None:
    for version, notes in (("3", 0), ("3.0.5", 0), ("3.0.6", 1), ("3.1", 1)):
        experiment = opened(write_rocpd(tmp_path / f"{version}.db", [RUN], version=version))
        assert len([w for w in experiment.warnings if f"schema {version} is newer than 3.0.5" in w.text]) == notes
        assert gpu_time(experiment) == expected_gpu_time(RUN)


def test_a_view_in_the_place_of_a_table_is_not_run(path: Path) -> None:
    execute(path, f"DROP TABLE rocpd_region{TAIL}", f"CREATE VIEW rocpd_region{TAIL} AS {ENDLESS}")
    [damage] = opened(path).damage
    assert f"rocpd_region{TAIL}: is a view" in damage.text
    assert gpu_time(opened(path)) == expected_gpu_time(RUN)


def test_categories_that_lead_nowhere_are_counted(path: Path) -> None:
    execute(path, f"UPDATE rocpd_event{TAIL} SET category_id = 777 WHERE id <= 5")
    assert [w.text.split(": ", 1)[1] for w in export_damage(path)] == [
        f"rocpd_event{TAIL}.category_id: 5 ids lead to no row"
    ]


def export_damage(path: Path) -> list[InputWarning]:
    """What shows when all columns are read."""
    backend = opened(path).traces.spans_backend
    assert isinstance(backend, DataSetSpans)
    for _ in backend.chunks(("category",), None, None):
        pass
    return [warning for warning in backend.warnings if warning.severity == Severity.DAMAGE]


# -- strange cells ---------------------------------------------------------------------------------------------------


def test_ids_that_lead_nowhere_are_counted_once_per_column(path: Path) -> None:
    execute(
        path,
        f"UPDATE rocpd_kernel_dispatch{TAIL} SET kernel_id = 99",
        f"UPDATE rocpd_memory_copy{TAIL} SET dst_agent_id = 55",
        f"UPDATE rocpd_region{TAIL} SET tid = 4711",
    )
    experiment = opened(path)
    n = {kind: sum(e.kind == kind for e in RUN.events) for kind in ("kernel", "copy", "api", "marker")}
    texts = sorted(w.text.split(": ", 1)[1] for w in experiment.damage)
    assert texts == [
        f"rocpd_kernel_dispatch{TAIL}.kernel_id: {n['kernel']} ids lead to no row",
        f"rocpd_memory_copy{TAIL}.dst_agent_id: {n['copy']} ids lead to no row",
        f"rocpd_region{TAIL}.tid: {n['api'] + n['marker']} ids lead to no row",
    ]
    assert list(totals(experiment, "kernel")) == ["<missing kernel 99>"]
    assert gpu_time(experiment) == expected_gpu_time(RUN)
    assert "unknown thread" in experiment.profiles.name


def test_events_that_lead_nowhere_are_counted(path: Path) -> None:
    """Nobody refers to what is not there without a word; a file without the table says nothing of events at all."""
    n = sum(event.kind == "kernel" for event in RUN.events)
    execute(path, f"UPDATE rocpd_kernel_dispatch{TAIL} SET event_id = 100000 + id")
    assert [w.text.split(": ", 1)[1] for w in opened(path).damage] == [
        f"rocpd_kernel_dispatch{TAIL}.event_id: {n} ids lead to no row"
    ]
    assert totals(opened(path), "kernel") == RUN.totals("kernel")
    execute(path, f"DROP TABLE rocpd_event{TAIL}")
    assert not opened(path).damage


def test_operations_whose_correlation_leads_to_no_call(path: Path, capsys: Capture) -> None:
    """They name one, so nothing is missing in the row itself; copies of the process beside do have it."""
    other = replace(RUN, pid=RUN.pid + 1, guid=RUN.guid[:-1] + "7", host="elsewhere")
    write_rocpd(path.with_name("other.db"), [other])
    kernels = sum(event.kind == "kernel" for event in RUN.events)
    execute(
        path,
        f"UPDATE rocpd_event{TAIL} SET stack_id = 5000000 + stack_id WHERE id IN "
        f"(SELECT event_id FROM rocpd_kernel_dispatch{TAIL})",
    )
    found = rows(capsys, "check", path.parent)
    everything = 2 * len(RUN.events)
    expected = f"{kernels} of {everything} are operations of devices whose correlation leads to no call"
    assert [row["problem"] for row in found] == [expected]


def test_ids_that_are_there_twice(path: Path) -> None:
    execute(path, f"INSERT INTO rocpd_info_thread{TAIL} SELECT * FROM rocpd_info_thread{TAIL} LIMIT 1")
    assert "1 ids are there twice" in opened(path).damage[0].text
    assert gpu_time(opened(path)) == expected_gpu_time(RUN)


@pytest.mark.parametrize(
    ("table", "column"), [("info_agent", "type_index"), ("info_agent", "absolute_index"), ("info_node", "id")]
)
@pytest.mark.parametrize("number", ["-1", "-5", "-1.5", "'none'", "9223372036854775807"])
def test_numbers_of_places_that_are_none(table: str, column: str, number: str, path: Path) -> None:
    with suppress(sqlite3.IntegrityError):
        execute(path, f"UPDATE rocpd_{table}{TAIL} SET {column} = {number}")
    assert opened(path).traces.n_spans == len(RUN.events)


def test_event_ids_that_are_null(path: Path) -> None:
    execute(path, f"UPDATE rocpd_kernel_dispatch{TAIL} SET event_id = NULL")
    assert totals(opened(path), "kernel") == RUN.totals("kernel")


@pytest.mark.parametrize("cell", ["''", "'soon'", "x'00ff'", "NULL"])
def test_integers_that_are_none(cell: str, path: Path) -> None:
    execute(path, f"UPDATE rocpd_memory_copy{TAIL} SET size = {cell}")
    experiment = opened(path)
    assert totals(experiment, "copy") == RUN.totals("copy")
    assert all(experiment.contexts.label(c) != "" for c in range(len(experiment.contexts)))


@pytest.mark.parametrize("times", ["5, end = 4", "-7, end = 4", "4, end = 9223372036854775807", "NULL, end = NULL"])
def test_times_that_are_none_are_flagged_and_in_no_sum(times: str, path: Path, capsys: Capture) -> None:
    table = f"rocpd_kernel_dispatch{TAIL}"
    execute(path, f"UPDATE {table} SET start = {times} WHERE id = (SELECT min(id) FROM {table})")
    experiment = opened(path)
    lost = next(e for e in RUN.events if e.kind == "kernel")
    assert gpu_time(experiment) == expected_gpu_time(RUN) - lost.length
    assert experiment.root_total("gpu_ops") == len(RUN.operations)
    assert experiment.traces.n_spans == len(RUN.events)
    problems = rows(capsys, "check", path)
    assert f"1 of {len(RUN.events)} end before they start" in problems[0]["problem"]
    assert (
        sum(r["count"] for r in rows(capsys, "summary", path, "--section", "kernels"))
        == len([e for e in RUN.events if e.kind == "kernel"]) - 1
    )


def test_text_that_is_not_utf8_is_shown_with_replacements(path: Path) -> None:
    database = sqlite3.connect(path)
    database.execute(f"UPDATE rocpd_info_kernel_symbol{TAIL} SET display_name = CAST(x'4bfc' AS TEXT)")
    database.commit()
    database.close()
    assert list(totals(opened(path), "kernel")) == ["K\ufffd"]


def test_json_that_is_none_leaves_the_name(path: Path) -> None:
    execute(path, f"UPDATE rocpd_event{TAIL} SET extdata = '{{broken'")
    experiment = opened(path)
    labels = {label for kind, label in spans(experiment, "kind", "label") if kind == "marker"}
    assert labels == {"roctxRangePushA"}
    assert "texts are not JSON" in experiment.warnings[0].text


# -- hostile ---------------------------------------------------------------------------------------------------------


def test_views_triggers_and_generated_columns_are_never_run(path: Path) -> None:
    execute(
        path,
        f"ALTER TABLE rocpd_region{TAIL} RENAME TO hidden",
        f"CREATE VIEW rocpd_region{TAIL} AS {ENDLESS}",
        f"CREATE TRIGGER t AFTER INSERT ON rocpd_string{TAIL} BEGIN DELETE FROM hidden; END",
        f"ALTER TABLE rocpd_memory_copy{TAIL} RENAME COLUMN extdata TO old",
        f"ALTER TABLE rocpd_memory_copy{TAIL} ADD COLUMN extdata AS (zeroblob(1000000000))",
    )
    with untouched(path):
        experiment = opened(path)
        assert totals(experiment, "kernel") == RUN.totals("kernel")
        assert {kind for (kind,) in spans(experiment, "kind")} == {"kernel", "copy", "alloc"}


def test_names_with_quotes_are_only_names(path: Path) -> None:
    execute(path, 'CREATE TABLE "x""; DROP TABLE hidden; --" ("a""b")')
    assert opened(path).traces.n_spans == len(RUN.events)


def test_odd_file_names(tmp_path: Path) -> None:
    path = write_rocpd(tmp_path / "a?b#c%20 d+e.db", [RUN])
    assert opened(path).traces.n_spans == len(RUN.events)


def test_file_names_that_are_no_utf8(tmp_path: Path) -> None:
    folder = tmp_path / os.fsdecode(b"\xff")
    folder.mkdir()
    path = write_rocpd(folder / os.fsdecode(b"r\xfe.db"), [RUN])
    assert opened(path).traces.n_spans == len(RUN.events)


def test_links_in_circles_are_left_out(path: Path) -> None:
    (path.parent / "s.db").symlink_to("s.db")
    assert opened(path.parent).traces.n_spans == len(RUN.events)
    (path.parent / "index.yaml").write_text("path: .\nfiles: [r.db, s.db]\n")
    with suppress(InputError):
        open_path(path.parent)


def test_definitions_of_tables_that_are_no_text(path: Path) -> None:
    data = path.read_bytes()
    at = data.index(b"CREATE TABLE")
    path.write_bytes(data[: at + 8] + b"\xff" * 8 + data[at + 16 :])
    with pytest.raises(CallgroveError) as caught:
        open_path(path)
    assert "codec" not in str(caught.value)


def test_secrets_of_the_environment_are_not_shown(tmp_path: Path, capsys: Capture) -> None:
    from dataclasses import replace

    path = write_rocpd(tmp_path / "r.db", [replace(RUN, environment={"TOKEN": "s3cret"})])
    for verb in ("info", "dump", "check", "summary"):
        assert "s3cret" not in run(capsys, verb, path)


def test_a_pipe_in_an_index_is_not_waited_for(path: Path) -> None:
    os.mkfifo(path.with_name("pipe.db"))
    (path.parent / "index.yaml").write_text("files:\n  - r.db\n  - pipe.db\n  - gone.db\n")
    experiment = opened(path.parent)
    assert experiment.traces.n_spans == len(RUN.events)
    assert sorted(w.text.rsplit(": ", 1)[1] for w in experiment.damage) == [
        "No such file or directory",
        "is not a regular file, so no database",
    ]


# -- being written ---------------------------------------------------------------------------------------------------


def begun(path: Path, *statements: str) -> sqlite3.Connection:
    """A writer that has got so far."""
    writer = sqlite3.connect(path, isolation_level=None)
    for statement in statements:
        writer.execute(statement)
    return writer


def test_a_locked_file_says_so(path: Path, capsys: Capture) -> None:
    makes_the_journal = f"UPDATE rocpd_region{TAIL} SET end = end + 1"
    writer = begun(path, "PRAGMA journal_mode=DELETE", "BEGIN EXCLUSIVE", makes_the_journal)
    try:
        assert "locked" in said(capsys, "info", path, code=3)
    finally:
        writer.close()


DELETED_IN_LOG = ("PRAGMA journal_mode=WAL", "PRAGMA wal_autocheckpoint=0", f"DELETE FROM rocpd_region{TAIL}")


def test_rows_in_a_write_ahead_log_are_read_and_the_database_stays_as_it_is(path: Path) -> None:
    writer = begun(path, *DELETED_IN_LOG)
    try:
        with untouched(path), untouched(path.with_name("r.db-wal")):
            experiment = opened(path)
            assert experiment.traces.n_spans == len([e for e in RUN.events if e.kind not in ("api", "marker")])
            assert any("live database" in w.text for w in experiment.warnings)
    finally:
        writer.close()


def left_behind(path: Path, folder: Path, beside: Sequence[str], *statements: str) -> Path:
    """What a writer that is killed after some statements leaves: a copy of what lies there."""
    writer = begun(path, *statements)
    folder.mkdir()
    for suffix in ("", *beside):
        (folder / f"r.db{suffix}").write_bytes(path.with_name(path.name + suffix).read_bytes())
    writer.close()
    return folder / "r.db"


def read_without_a_trace(path: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Experiment:
    """Nothing changes and nothing is made beside the file, nor is left in the folder for temporary files."""
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    before = {file.name: file.read_bytes() for file in path.parent.iterdir()}
    experiment = opened(path)
    n = experiment.traces.n_spans
    assert {file.name: file.read_bytes() for file in path.parent.iterdir()} == before
    assert n == opened(path).traces.n_spans
    assert len(list(temporary.iterdir())) == 1, "it was copied more than once"
    return experiment


@pytest.mark.parametrize("beside", [["-wal"], ["-wal", "-shm"]], ids=["log", "log and its index"])
def test_a_log_without_a_writer_is_read_and_nothing_is_left_beside(
    path: Path, beside: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = left_behind(path, tmp_path / "copy", beside, *DELETED_IN_LOG)
    experiment = read_without_a_trace(copy, monkeypatch, tmp_path)
    assert experiment.traces.n_spans == len([e for e in RUN.events if e.kind not in ("api", "marker")])
    assert any("did not finish" in w.text for w in experiment.warnings)


def test_a_journal_without_a_writer_is_rolled_back_elsewhere(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was not committed is not read, and the input keeps both."""
    changes = (f"UPDATE rocpd_event{TAIL} SET extdata = randomblob(3000)", f"DELETE FROM rocpd_region{TAIL}")
    copy = left_behind(path, tmp_path / "copy", ["-journal"], "PRAGMA cache_size=1", "BEGIN", *changes)
    experiment = read_without_a_trace(copy, monkeypatch, tmp_path)
    assert experiment.traces.n_spans == len(RUN.events)
    assert gpu_time(experiment) == expected_gpu_time(RUN)


def test_what_cannot_be_copied_says_where_to(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path.with_name("r.db-wal").write_bytes(b"")
    monkeypatch.setattr(tempfile, "tempdir", str(path.parent / "nowhere"))
    with pytest.raises(InputError, match=r"did not finish.*nowhere.*TMPDIR"):
        open_path(path, "rocpd")


# -- any byte --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("family", ["rocpd", "rpd", "nsight"])
def test_damage_anywhere_is_one_of_our_errors_or_a_result(family: str, tmp_path: Path) -> None:
    makers = {"rpd": lambda p: write_rpd(p, RUN), "nsight": lambda p: write_nsight(p, RUN)}
    makers["rocpd"] = lambda p: write_rocpd(p, [RUN])
    path = makers[family](tmp_path / "r.db")
    whole = path.read_bytes()
    for place in range(0, len(whole), max(1, len(whole) // 60)):
        path.write_bytes(whole[:place] + bytes(255 - b for b in whole[place : place + 24]) + whole[place + 24 :])
        with untouched(path), suppress(CallgroveError):
            open_path(path)
