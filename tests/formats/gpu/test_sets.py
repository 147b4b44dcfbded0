"""Many databases as one experiment: whatever their number and order, nothing is lost and nothing comes twice."""

from __future__ import annotations

import os
import pickle
import sqlite3
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from callgrove.binary.files import Source
from callgrove.binary.sqlite.schema import is_unfinished
from callgrove.cli.main import main
from callgrove.errors import UsageError
from callgrove.formats.gpu import formats
from callgrove.formats.gpu.files import WORTH_LISTING, Listings, find_begun, find_unfinished, names_of_files
from callgrove.formats.interface import LossReport, ReadOptions, WriteOptions
from callgrove.formats.registry import load, open_path
from callgrove.formats.writing.transfer import write_experiment
from callgrove.model.experiment import Experiment
from tests.cli.commands import Capture, rows, run, said
from tests.formats.gpu.gpu_databases import Run, execute, suffix_of, write_rocpd, write_rpd
from tests.formats.gpu.gpu_truth import everything, expected_gpu_time, gpu_time, opened


def process(number: int, n_calls: int = 16, **about: object) -> Run:
    """Containers number their processes alike; machines do not."""
    made = Run.random(number, n_calls).without("memset")
    identity = {"host": f"node{number:04}", "machine": f"m{number}", "guid": f"0{number:07x}-0-7-8-1", **about}
    return replace(made, **identity)  # type: ignore[arg-type]


def folder_of(folder: Path, n: int, n_calls: int = 16) -> list[Run]:
    runs = [process(k, n_calls) for k in range(n)]
    for k, own in enumerate(runs):
        write_rocpd(folder / f"out_{k}x.db", [own])
    return runs


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def test_two_hundred_files_need_few_descriptors(tmp_path: Path) -> None:
    runs = folder_of(tmp_path, 210, n_calls=8)
    before = descriptors()
    experiment = opened(tmp_path)
    assert descriptors() <= before + 4
    assert experiment.traces.n_spans == sum(len(own.events) for own in runs)
    assert gpu_time(experiment) == expected_gpu_time(*runs)
    assert descriptors() <= before + 4
    assert sorted(set(experiment.profiles.identity_list("rank"))) == list(range(210))  # type: ignore[type-var]


def test_the_order_of_files_does_not_matter(tmp_path: Path) -> None:
    folder_of(tmp_path, 5)
    files = sorted(tmp_path.iterdir())
    assert everything(opened(*files)) == everything(opened(*reversed(files))) == everything(opened(tmp_path))


def test_a_file_that_is_named_twice_is_read_once(tmp_path: Path) -> None:
    runs = folder_of(tmp_path, 2)
    (tmp_path / "again.db").symlink_to(tmp_path / "out_0x.db")
    files = sorted(tmp_path.glob("out_*"))
    for paths in ([tmp_path], [*files, files[0], tmp_path]):
        assert opened(*paths).traces.n_spans == sum(len(own.events) for own in runs)


def test_whoever_names_a_file_twice_is_told(tmp_path: Path, capsys: Capture) -> None:
    data = tmp_path / "data"
    data.mkdir()
    folder_of(data, 1)
    file, link = data / "out_0x.db", data / "link.db"
    assert "named" not in notes(capsys, "summary", file)
    assert f"note: {file}: is named 2 times; it is read once" in notes(capsys, "summary", file, file)
    link.symlink_to(file)
    assert f"note: {link}: is named 2 times (also as {file}); it is read once" in notes(capsys, "summary", data)
    target = tmp_path / "out.json"
    assert "named 2 times" in notes(capsys, "convert", data, target, "--to", "chrome-json")


def test_a_process_that_is_in_two_databases_is_told(tmp_path: Path, capsys: Capture) -> None:
    """A copy, or what was merged of the databases beside it."""
    folder_of(tmp_path, 2)
    assert "several databases" not in notes(capsys, "summary", tmp_path)
    assert main(["convert", str(tmp_path), str(tmp_path.with_name("all.db")), "--to", "rocpd", "--force"]) == 0
    tmp_path.with_name("all.db").rename(tmp_path / "all.db")
    told = notes(capsys, "summary", tmp_path)
    assert "note: 2 processes are in several databases, such as " in told
    assert f"{tmp_path / 'all.db'} and {tmp_path / 'out_'}" in told


def notes(capsys: Capture, *words: object) -> str:
    """What a command says beside what it prints."""
    capsys.readouterr()
    assert main([str(word) for word in words]) == 0
    return capsys.readouterr().err


@pytest.mark.parametrize(
    "text",
    [
        "rocprofiler-sdk:\n  rocpd:\n    path: db\n    files:\n      - 'b.db'\n      - a.db  # first\n",
        'rocprofiler-sdk:\n  rocpd:\n    path: "db"\n    files: ["a.db", b.db]\n',
    ],
)
def test_an_index_says_which_files_belong_together(text: str, tmp_path: Path) -> None:
    package = tmp_path / "run.rpdb"
    (package / "db").mkdir(parents=True)
    runs = [process(k) for k in range(3)]
    for name, own in zip("abc", runs, strict=True):
        write_rocpd(package / "db" / f"{name}.db", [own])
    (package / "index.yaml").write_text(text)
    want = sum(len(own.events) for own in runs[:2])
    assert opened(package).traces.n_spans == opened(package / "index.yaml").traces.n_spans == want


def test_an_index_is_written_and_opens_as_the_files(tmp_path: Path, capsys: Capture) -> None:
    data = tmp_path / "moved" / "data"
    data.mkdir(parents=True)
    runs = folder_of(data, 3)
    index = tmp_path / "moved" / "run.rpdb"
    assert "lists 3 databases" in said(capsys, "merge", "--index", data, index, code=0)
    (tmp_path / "moved").rename(tmp_path / "there")
    assert opened(tmp_path / "there" / "run.rpdb").traces.n_spans == sum(len(own.events) for own in runs)
    assert sorted(p.name for p in (tmp_path / "there" / "run.rpdb").iterdir()) == ["index.yaml"]


def test_what_no_index_can_hold_is_refused(tmp_path: Path, capsys: Capture) -> None:
    (first,) = folder_of(tmp_path, 1)
    (file,) = tmp_path.glob("*.db")
    hostile = file.rename(tmp_path / "a#b.db")
    target = tmp_path / "run.rpdb"
    assert "cannot hold this name" in said(capsys, "merge", "--index", hostile, target, code=2)
    file = hostile.rename(tmp_path / "a.db")
    (tmp_path / "b.db").write_bytes(bytes(4096))
    assert "b.db" in said(capsys, "merge", "--index", file, tmp_path / "b.db", target, code=3)
    target.mkdir()
    (target / "mine.txt").write_text("mine")
    assert "other things" in said(capsys, "merge", "--index", "--force", file, target, code=2)
    assert not (target / "index.yaml").exists()
    assert len(first.events)


def test_a_bad_file_is_said_and_the_others_are_read(tmp_path: Path, capsys: Capture) -> None:
    runs = folder_of(tmp_path, 2)
    (tmp_path / "broken.db").write_bytes(bytes(4096))
    experiment = opened(tmp_path)
    assert experiment.traces.n_spans == sum(len(own.events) for own in runs)
    assert "broken.db" in experiment.damage[0].text
    assert "interrupted" in experiment.damage[0].text
    assert "broken.db" in run(capsys, "check", tmp_path, "--format", "csv", code=3)


def test_a_folder_of_other_things_is_not_claimed(tmp_path: Path, capsys: Capture) -> None:
    for name in ("meta.db", "profile.db"):
        (tmp_path / name).write_bytes(b"something else entirely")
    write_rpd(tmp_path / "one.rpd", Run.random(1))
    assert "one.rpd" not in said(capsys, "info", tmp_path, code=3)


# -- clocks ----------------------------------------------------------------------------------------------------------


def first_times(experiment: Experiment) -> dict[str, int]:
    """Of every host, the start of its first span."""
    out: dict[str, int] = {}
    for chunk in experiment.traces.spans(("profile", "start_ns")):
        for profile, start in zip(chunk["profile"].tolist(), chunk["start_ns"].tolist(), strict=True):
            path = experiment.system.path(int(experiment.profiles.system[profile]))
            host = experiment.system.name[path[-1]]
            out[host] = min(out.get(host, start), start)
    return out


def aligned(folder: Path, how: str) -> Experiment:
    found = open_path(folder, "", ReadOptions(align=how))
    assert isinstance(found, Experiment)
    return found


def test_clocks_are_brought_together_as_the_user_says(tmp_path: Path) -> None:
    data, table = tmp_path / "data", tmp_path / "offsets.csv"
    data.mkdir()
    runs = folder_of(data, 3)
    stored = first_times(opened(data))
    begins = {own.host: own.start for own in runs}
    assert first_times(aligned(data, "none")) == stored
    assert first_times(aligned(data, "start")) == {host: time - begins[host] for host, time in stored.items()}
    table.write_text("# host, ns\nnode0000, 1000\nnode0001 -5\n")
    moved = aligned(data, str(table))
    assert first_times(moved) == {**stored, "node0000": stored["node0000"] + 1000, "node0001": stored["node0001"] - 5}
    assert any("says nothing about node0002" in warning.text for warning in moved.warnings)
    table.write_text("nodeX, 1000\n")
    with pytest.raises(UsageError, match="names none of the hosts, which are node0000, node0001, node0002"):
        aligned(data, str(table))
    assert ranks(aligned(data, "start")) == ranks(opened(data))
    assert gpu_time(aligned(data, "start")) == expected_gpu_time(*runs)


@pytest.mark.parametrize(("text", "says"), [("node0000\n", "line 1"), ("a,b\n", "line 1"), (None, "neither")])
def test_a_table_of_offsets_that_is_none(text: str | None, says: str, tmp_path: Path, capsys: Capture) -> None:
    data, table = tmp_path / "data", tmp_path / "offsets.csv"
    data.mkdir()
    folder_of(data, 2)
    if text is not None:
        table.write_text(text)
    assert says in said(capsys, "info", data, "--align", table, code=2)


@pytest.mark.parametrize(("option", "others"), [("--align", ", perfetto, chrome-json, otf2"), ("--rank-env", "")])
def test_options_of_gpu_databases_are_refused_elsewhere(
    option: str, others: str, tmp_path: Path, capsys: Capture
) -> None:
    """They would change nothing, and nobody would know."""
    series = tmp_path / "series.txt"
    series.write_text("PARAMETER p\nPOINTS 1 2 3 4 5\nREGION r\nMETRIC time\n" + "DATA 1\n" * 5)
    told = said(capsys, "info", series, option, "start", code=2)
    assert f"{option} can be used with runs, rocpd, rocpd-draft, rpd, nsight{others}, and this is extrap-text" in told
    run(capsys, "info", series, "--align", "none")
    for p in (2, 4):
        (tmp_path / "runs" / f"app.p{p}").mkdir(parents=True)
        folder_of(tmp_path / "runs" / f"app.p{p}", 1)
    run(capsys, "info", tmp_path / "runs", "--align", "start")


# -- ranks -----------------------------------------------------------------------------------------------------------


def ranks(experiment: Experiment) -> dict[str, int]:
    """By host."""
    out = {}
    for profile, rank in enumerate(experiment.profiles.identity_list("rank")):
        path = experiment.system.path(int(experiment.profiles.system[profile]))
        assert rank is not None
        out[experiment.system.name[path[-1]]] = rank
    return out


def environments(folder: Path, *values: dict[str, str], names: str = "out_{}x.db") -> Experiment:
    for k, environment in enumerate(values):
        write_rocpd(folder / names.format(k), [process(k, environment=environment)])
    return opened(folder)


def test_ranks_come_from_the_launchers_variables(tmp_path: Path) -> None:
    found = environments(tmp_path, {"PMI_RANK": "7", "MPI_LOCALRANKID": "0"}, {"PMI_RANK": "3", "MPI_LOCALRANKID": "0"})
    assert ranks(found) == {"node0000": 7, "node0001": 3}


def test_one_rank_that_two_processes_claim_counts_for_nobody(tmp_path: Path) -> None:
    found = environments(tmp_path, {"PMI_RANK": "1"}, {"PMI_RANK": "1"}, {"PMI_RANK": "0"})
    assert ranks(found) == {"node0000": 0, "node0001": 1, "node0002": 2}
    assert "claim the same rank" in found.warnings[0].text


def test_a_job_step_without_tasks_says_rank_0_everywhere(tmp_path: Path) -> None:
    found = environments(tmp_path, {"SLURM_PROCID": "0"}, {"SLURM_PROCID": "0"})
    assert ranks(found) == {"node0000": 0, "node0001": 1}
    assert found.warnings == ()


def test_ranks_may_stand_in_file_names(tmp_path: Path) -> None:
    found = environments(tmp_path, {}, {}, names="rank{}9.db")
    assert ranks(found) == {"node0000": 9, "node0001": 19}


def test_ranks_may_stand_in_names_of_folders(tmp_path: Path) -> None:
    for k in range(2):
        (tmp_path / "rank7" / f"rank{k}9").mkdir(parents=True)
    found = environments(tmp_path / "rank7", {}, {}, names="rank{}9/results.db")
    assert ranks(found) == {"node0000": 9, "node0001": 19}


def test_the_user_names_the_variable(tmp_path: Path, capsys: Capture) -> None:
    environments(tmp_path, {"PMI_RANK": "0", "MY": "5"}, {"PMI_RANK": "1", "MY": "4"})
    found = open_path(tmp_path, options=ReadOptions(rank_env="MY"))
    assert isinstance(found, Experiment)
    assert ranks(found) == {"node0000": 5, "node0001": 4}
    shown = rows(capsys, "export", tmp_path, "--table", "profiles", "--rank-env", "MY")
    assert {row["rank"] for row in shown} == {4, 5}
    assert "--rank-env NOBODY" in said(capsys, "info", tmp_path, "--rank-env", "NOBODY", code=2)


# -- one file of many ------------------------------------------------------------------------------------------------


def merged(folder: Path, target: Path) -> LossReport:
    format_ = load("rocpd")
    return write_experiment(open_path(folder), format_, target, WriteOptions())  # type: ignore[arg-type]


def test_a_merged_file_says_what_its_parts_say(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    folder_of(tmp_path / "in", 4)
    assert merged(tmp_path / "in", tmp_path / "all.db").losses == []
    assert everything(opened(tmp_path / "all.db")) == everything(opened(tmp_path / "in"))


def test_views_of_a_merged_file_unite_its_processes(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    runs = folder_of(tmp_path / "in", 3)
    merged(tmp_path / "in", tmp_path / "all.db")
    database = sqlite3.connect(tmp_path / "all.db")
    found = database.execute("SELECT count(*), sum(end - start) FROM rocpd_kernel_dispatch").fetchone()
    database.close()
    kernels = [e for own in runs for e in own.events if e.kind == "kernel"]
    assert found == (len(kernels), sum(e.length for e in kernels))


def test_columns_and_tables_of_later_versions_survive_merging(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    runs = folder_of(tmp_path / "in", 2)
    tail = suffix_of(runs[1])
    execute(
        tmp_path / "in" / "out_1x.db",
        f"ALTER TABLE rocpd_kernel_dispatch{tail} ADD COLUMN graph_exec_id",
        f"UPDATE rocpd_kernel_dispatch{tail} SET graph_exec_id = 77",
        f"CREATE TABLE rocpd_hip_event{tail} (id, type)",
        f"INSERT INTO rocpd_hip_event{tail} VALUES (1, 'WAIT')",
    )
    assert merged(tmp_path / "in", tmp_path / "all.db").losses == []
    database = sqlite3.connect(tmp_path / "all.db")
    assert database.execute("SELECT DISTINCT graph_exec_id FROM rocpd_kernel_dispatch").fetchall() == [(None,), (77,)]
    assert database.execute("SELECT * FROM rocpd_hip_event").fetchall() == [(1, "WAIT")]
    database.close()


def test_the_same_tables_twice_are_taken_once_if_they_are_equal(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    own = process(1)
    write_rocpd(tmp_path / "in" / "a.db", [own])
    write_rocpd(tmp_path / "in" / "b.db", [own])
    merged(tmp_path / "in", tmp_path / "all.db")
    assert opened(tmp_path / "all.db").traces.n_spans == len(own.events)
    execute(tmp_path / "in" / "b.db", f"UPDATE rocpd_region{suffix_of(own)} SET end = end + 1")
    with pytest.raises(UsageError, match="same suffix"):
        merged(tmp_path / "in", tmp_path / "more.db")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["all.db", "in"]


@pytest.mark.parametrize("format_", ["rocpd", "rocpd-draft"])
def test_an_input_is_never_the_target(format_: str, tmp_path: Path, capsys: Capture) -> None:
    folder_of(tmp_path, 2)
    inside = tmp_path / "out_1x.db"
    before = inside.read_bytes()
    text = said(capsys, "convert", tmp_path, inside, "--to", format_, "--force", code=2)
    assert "the input itself or a part of it" in text
    text = said(capsys, "convert", *sorted(tmp_path.iterdir()), inside, "--to", format_, "--force", code=2)
    assert "the input itself or a part of it" in text
    assert inside.read_bytes() == before
    assert len(list(tmp_path.iterdir())) == 2


def test_merge_makes_one_file_of_a_set(tmp_path: Path, capsys: Capture) -> None:
    """No profile is matched with another: processes with equal numbers on several nodes stay apart."""
    source = tmp_path / "in"
    source.mkdir()
    folder_of(source, 3)
    for name, words in (("listed.db", sorted(source.iterdir())), ("folder.db", [source])):
        assert main(["merge", *map(str, words), str(tmp_path / name)]) == 0
        merged, whole = (open_path(path, "rocpd") for path in (tmp_path / name, source))
        assert isinstance(merged, Experiment)
        assert isinstance(whole, Experiment)
        assert merged.traces.n_spans == whole.traces.n_spans > 0
        assert merged.profiles.identity_list("rank") == whole.profiles.identity_list("rank")
        assert merged.root_total("gpu_time") == pytest.approx(whole.root_total("gpu_time"))


# -- arguments of calls in traces --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "options", "words"),
    [
        ("perfetto", {}, "annotations='all'"),
        ("chrome-json", {}, "annotations='all'"),
        ("chrome-json", {"annotations": "all"}, ""),
        ("chrome-json", {"annotations": "none"}, ""),
        ("rocprof-csv", {}, "no column"),
    ],
)
def test_a_trace_says_once_that_arguments_are_left_out(
    name: str, options: dict[str, str], words: str, tmp_path: Path
) -> None:
    data = tmp_path / "data"
    data.mkdir()
    runs = folder_of(data, 2)
    for k, own in enumerate(runs):
        execute(
            data / f"out_{k}x.db",
            f"INSERT INTO rocpd_arg{suffix_of(own)} SELECT id, guid, event_id, 0, 'int', 'n', '7', '{{}}' "
            f"FROM rocpd_region{suffix_of(own)}",
        )
    experiment = opened(data)
    assert all(experiment.traces.has_side("argument", part) for part in range(2))
    report = write_experiment(experiment, load(name), tmp_path / "out", WriteOptions(**options))  # type: ignore[arg-type]
    said_of_it = [text for text in (*report.losses, *report.hints) if "arguments of calls" in text]
    assert [words in text for text in said_of_it] == [True] * bool(words)
    execute(data / "out_0x.db", f"DELETE FROM rocpd_arg{suffix_of(runs[0])}")
    bare = write_experiment(opened(data / "out_0x.db"), load(name), tmp_path / "bare", WriteOptions(**options))  # type: ignore[arg-type]
    assert not [text for text in (*bare.losses, *bare.hints) if "arguments" in text]


def test_one_file_under_other_names_of_its_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = tmp_path / "data"
    data.mkdir()
    runs = folder_of(data, 2)
    (tmp_path / "link").symlink_to(data)
    monkeypatch.chdir(data)
    names = [Path("out_0x.db"), Path("../link/out_0x.db"), tmp_path / "link" / "out_1x.db", data / "out_1x.db"]
    assert [len(same) for same in names_of_files(names)] == [2, 2]
    assert opened(*names).traces.n_spans == sum(len(own.events) for own in runs)


def test_what_lies_beside_the_files_of_a_large_folder(tmp_path: Path) -> None:
    """The folder is listed once; links lead to what may have a log elsewhere."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "open.db").touch()
    (elsewhere / "open.db-wal").touch()
    folder = tmp_path / "run"
    folder.mkdir()
    files = [folder / f"{k}.db" for k in range(WORTH_LISTING)]
    for file in files[:-2]:
        file.touch()
    files[-1].symlink_to(elsewhere / "open.db")
    (folder / "3.db-journal").touch()
    (folder / "5.db-wal").touch()
    (folder / "7.db-other").touch()
    expected: list[bool | None] = [is_unfinished(file) for file in files]
    assert find_unfinished(files, Listings()) == expected
    assert find_unfinished([*files, elsewhere / "open.db"], Listings()) == [*expected, None]
    assert find_unfinished(files[:10], Listings()) == [None] * 10, "asked one by one when they are opened"
    assert [k for k, unfinished in enumerate(find_unfinished(files, Listings())) if unfinished] == [
        3,
        5,
        WORTH_LISTING - 1,
    ]


def test_a_folder_that_cannot_be_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = [tmp_path / f"{k}.db" for k in range(WORTH_LISTING)]
    (tmp_path / "3.db-wal").touch()

    def refuse(_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "scandir", refuse)
    assert find_unfinished(files, Listings()) == [None] * len(files)
    assert find_begun(files, [False] * len(files)) == [3]


class Writer:
    """A process that goes on with a database when it is called: one that deletes all calls, and keeps it in the log."""

    def __init__(self, path: Path, own: Run) -> None:
        self._path, self._own = path, own
        self._open: list[sqlite3.Connection] = []

    def begin(self) -> None:
        if not self._open:
            self._open.append(sqlite3.connect(self._path, isolation_level=None))
            self._open[0].execute("PRAGMA wal_autocheckpoint=0")
            self._open[0].execute(f"DELETE FROM rocpd_region{suffix_of(self._own)}")

    def close(self) -> None:
        for connection in self._open:
            connection.close()


@pytest.mark.parametrize("moment", ["read_ahead", "find_begun"], ids=["before it is opened", "after it was opened"])
@pytest.mark.parametrize("n", [WORTH_LISTING + 1, 5])
def test_a_writer_that_begins_while_databases_are_opened(
    n: int, moment: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its log is read; of few databases it is that of the moment in which each was opened."""
    runs = folder_of(tmp_path, n)
    execute(tmp_path / "out_3x.db", "PRAGMA journal_mode=WAL")
    assert not is_unfinished(tmp_path / "out_3x.db")
    writer = Writer(tmp_path / "out_3x.db", runs[3])
    then = getattr(formats, moment)

    def begin_then(*given: Any) -> Any:
        writer.begin()
        return then(*given)

    monkeypatch.setattr(formats, moment, begin_then)
    is_late = n < WORTH_LISTING and moment == "find_begun"
    try:
        experiment = opened(tmp_path)
        left = [event for event in runs[3].events if event.kind not in ("api", "marker") or is_late]
        others = [event for k, own in enumerate(runs) if k != 3 for event in own.events]
        assert len(left) < len(runs[3].events) or is_late
        assert experiment.traces.n_spans == len(others) + len(left)
        assert any("live database" in warning.text for warning in experiment.warnings) != is_late
    finally:
        writer.close()


def test_a_folder_is_listed_once_by_all_who_look_into_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And again when everything is open: a writer may have begun meanwhile."""
    for k in range(3):
        write_rocpd(tmp_path / f"{k}.db", [Run.random(k, 4)])
    listed: list[str] = []

    def scan(folder: str = ".", scandir: Any = os.scandir) -> Any:
        listed.append(str(folder))
        return scandir(folder)

    monkeypatch.setattr("callgrove.formats.gpu.files.os.scandir", scan)
    monkeypatch.setattr("callgrove.formats.gpu.files.WORTH_LISTING", 1)
    source = Source.of(tmp_path)
    listed.clear()
    for name in ("rocpd", "rocpd-draft", "rpd", "nsight"):
        load(name).match(source)
    assert listed == [str(tmp_path)]
    load("rocpd").read(source, ReadOptions())
    assert listed == [str(tmp_path)] * 2
    assert pickle.loads(pickle.dumps(source.keep(Listings, Listings))).entries(str(tmp_path))
