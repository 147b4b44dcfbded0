"""Databases of several jobs in one folder, of every family: which runs there are is said, and --run chooses one. What
is expected of a run is what its files give when they are named."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from shutil import copyfile

import pytest

from callgrove.cli.main import main
from callgrove.errors import UsageError
from callgrove.formats.interface import ReadOptions
from callgrove.formats.registry import open_path
from callgrove.model.experiment import Experiment
from tests.cli.commands import Capture, notes, rows, run, said
from tests.formats.gpu.gpu_databases import SECOND, Run, execute, write_nsight, write_rocpd, write_rpd
from tests.formats.gpu.gpu_truth import everything, expected_gpu_time, gpu_time, opened

LATER = 100 * SECOND
NEW_YEAR = 1_767_225_600 * SECOND  # 2026-01-01
Write = Callable[[Path, Run], Path]


def process(number: int, start: int = 1000, **about: object) -> Run:
    """A process that begins at `start`."""
    made = Run.random(number, 16).without("memset")
    moved = tuple(replace(event, start=event.start + start, end=event.end + start) for event in made.events)
    identity = {"pid": 100 + number, "tids": (100 + number, 200 + number), "guid": f"0{number:07x}-0-7-8-1"}
    return replace(made, events=moved, start=start, **{**identity, **about})  # type: ignore[arg-type]


def write_one_rocpd(path: Path, own: Run) -> Path:
    return write_rocpd(path, [own])


def write_draft(path: Path, own: Run) -> Path:
    """As we write it of a database of rocprofv3, without the rank of a process that was alone."""
    source = write_rocpd(path.with_suffix(".made"), [own])
    assert main(["convert", str(source), str(path), "--to", "rocpd-draft"]) == 0
    source.unlink()
    execute(
        path,
        "DELETE FROM metadata WHERE tag = 'rank'",
        "UPDATE metadata SET value = replace(value, '\"rank\"', '\"told\"')",
    )
    return path


def write_session(path: Path, own: Run) -> Path:
    """An export whose times count from the start of its session, as Nsight has them."""
    events = tuple(replace(event, start=event.start - own.start, end=event.end - own.start) for event in own.events)
    write_nsight(path, replace(own, events=events))
    execute(
        path,
        "CREATE TABLE TARGET_INFO_SESSION_START_TIME (utcEpochNs, utcTime, localTime)",
        f"INSERT INTO TARGET_INFO_SESSION_START_TIME VALUES ({NEW_YEAR + own.start}, '', '')",
    )
    return path


FAMILIES: dict[str, tuple[Write, str]] = {
    "rocpd": (write_one_rocpd, "db"),
    "rocpd-draft": (write_draft, "db"),
    "rpd": (write_rpd, "rpd"),
    "nsight": (write_session, "sqlite"),
}
every_family = pytest.mark.parametrize("family", FAMILIES)


def fill(folder: Path, family: str, starts: list[int]) -> list[Path]:
    """A file of each process in a folder, named by letters: no name tells a rank."""
    folder.mkdir(parents=True)
    write, ending = FAMILIES[family]
    return [write(folder / f"{'abcdef'[k]}.{ending}", process(k, start)) for k, start in enumerate(starts)]


def note_of(path: Path) -> list[str]:
    return [warning.text for warning in opened(path).warnings if "runs=... chooses one" in warning.text]


def run_names(path: Path) -> list[str]:
    return [one.name for one in opened(path).runs]


def choose(path: Path, name: str) -> Experiment:
    found = open_path(path, "", ReadOptions(run=name))
    assert isinstance(found, Experiment)
    return found


@every_family
def test_files_of_one_job_are_one_run_without_a_word(family: str, tmp_path: Path, capsys: Capture) -> None:
    fill(tmp_path / "job", family, [1000, 1010, 1020, 1030])
    found = opened(tmp_path / "job")
    assert found.warnings == ()
    assert len(found.runs) == 1
    assert sorted(set(found.profiles.identity_list("rank"))) == [0, 1, 2, 3]  # type: ignore[type-var]
    assert "run" not in notes(capsys, "top", tmp_path / "job")


@every_family
def test_runs_are_named_and_chosen(family: str, tmp_path: Path) -> None:
    """Four files, two of them recorded after the others."""
    files = fill(tmp_path / "jobs", family, [1000, 1010, LATER, LATER + 10])
    (text,) = note_of(tmp_path / "jobs")
    first, second = files[0].name, files[2].name
    assert f"jobs: 2 runs, told apart by times that do not overlap: 0 {first} (2 files, " in text
    assert f"1 {second} (2 files, " in text
    whole = opened(tmp_path / "jobs")
    assert [one.name for one in whole.runs] == [first, second]
    assert gpu_time(whole) == expected_gpu_time(*(process(k) for k in range(4)))
    for number, pair in ((0, files[:2]), (1, files[2:])):
        alone = opened(*pair)
        for name in (str(number), pair[0].name):
            chosen = choose(tmp_path / "jobs", name)
            assert len(chosen.runs) == 1
            assert everything(chosen) == everything(alone)
            assert gpu_time(chosen) == gpu_time(alone)
            assert not [w for w in chosen.warnings if "runs" in w.text]
    with pytest.raises(UsageError, match=rf"jobs: there is no run x; there are 2 runs: 0 {first}; 1 {second}"):
        choose(tmp_path / "jobs", "x")


@every_family
def test_every_run_has_ranks_of_its_own(family: str, tmp_path: Path) -> None:
    fill(tmp_path / "jobs", family, [1000, 1010, LATER, LATER + 10])
    profiles = opened(tmp_path / "jobs").profiles
    ranks = set(zip(profiles.run.tolist(), profiles.identity_list("rank"), strict=True))
    assert ranks == {(0, 0), (0, 1), (1, 0), (1, 1)}


@every_family
def test_verbs_choose_a_run(family: str, tmp_path: Path, capsys: Capture) -> None:
    folder, file = tmp_path / "jobs", fill(tmp_path / "jobs", family, [1000, LATER])[1]
    for words in (("top",), ("tree",), ("hot",), ("export", "--table", "values")):
        verb, *options = words
        assert rows(capsys, verb, folder, *options, "--run", "1") == rows(capsys, verb, file, *options)
    want = {(row["name"], row["total_ns"]) for row in rows(capsys, "summary", file, "--section", "kernels")}
    chosen = rows(capsys, "summary", folder, "--run", file.name, "--section", "kernels")
    assert {(row["name"], row["total_ns"]) for row in chosen} == want
    assert "runs" not in run(capsys, "info", folder, "--run", "1").split()
    for verb, target in (("convert", "one.cubex"), ("convert", "one.json"), ("report", "page.html")):
        told = ["-o"] if verb == "report" else []
        assert "2 runs" not in notes(capsys, verb, folder, *told, tmp_path / target, "--run", "1")
    made = opened(tmp_path / "one.cubex")
    assert made.root_total("gpu_time") == pytest.approx(opened(file).root_total("gpu_time"))


def test_verbs_without_views_choose_a_run(tmp_path: Path, capsys: Capture) -> None:
    folder, file = tmp_path / "jobs", fill(tmp_path / "jobs", "rpd", [1000, LATER])[1]
    want = {row["name"]: row["exclusive"] for row in rows(capsys, "top", file)}
    for verb, inputs in (("merge", [folder]), ("mean", [folder, file])):
        made = tmp_path / f"{verb}.cubex"
        run(capsys, verb, *inputs, made, "--run", "*b.rpd")
        assert {row["name"]: row["exclusive"] for row in rows(capsys, "top", made)} == pytest.approx(want)
    query = "SELECT sum(duration) AS ns FROM kernels"
    assert rows(capsys, "sql", folder, query, "--run", "1") == rows(capsys, "sql", file, query)


@every_family
def test_verbs_say_which_runs_they_add_up(family: str, tmp_path: Path, capsys: Capture) -> None:
    fill(tmp_path / "jobs", family, [1000, LATER])
    for verb in ("top", "tree", "hot", "summary"):
        told = notes(capsys, verb, tmp_path / "jobs")
        assert "2 runs, told apart by" in told
        assert "2 runs are added up; --run chooses one" in told
    assert "2 runs, told apart by" in notes(capsys, "convert", tmp_path / "jobs", tmp_path / "all.cubex")
    assert "2 runs, told apart by" in run(capsys, "info", tmp_path / "jobs")


def test_sessions_of_nsight_are_told_by_their_date(tmp_path: Path) -> None:
    fill(tmp_path / "jobs", "nsight", [0, LATER])
    (text,) = note_of(tmp_path / "jobs")
    assert "on 2026-01-01 at 00:00:00 UTC" in text
    assert "on 2026-01-01 at 00:01:40 UTC" in text


def test_a_session_lasts_as_long_as_the_export_says(tmp_path: Path) -> None:
    """Events of the first one end long before the second begins, but it was still recording."""
    first, _ = fill(tmp_path / "jobs", "nsight", [0, LATER])
    execute(
        first,
        "CREATE TABLE ANALYSIS_DETAILS (globalVid, duration, startTime, stopTime)",
        f"INSERT INTO ANALYSIS_DETAILS VALUES (0, {LATER}, 0, {LATER + SECOND})",
    )
    assert note_of(tmp_path / "jobs") == []


def test_ranks_that_were_recorded_one_after_the_other_are_one_run(tmp_path: Path) -> None:
    """A profiler may be told to record for a while; different ranks are then of one run, and equal ones are not."""
    files = fill(tmp_path / "jobs", "nsight", [0, LATER])
    for rank, file in enumerate(files):
        thread = (100 + rank) << 24 | (100 + rank)
        execute(file, "CREATE TABLE MPI_RANKS (globalTid, rank)", f"INSERT INTO MPI_RANKS VALUES ({thread}, {rank})")
    assert note_of(tmp_path / "jobs") == []
    execute(files[1], "UPDATE MPI_RANKS SET rank = 0")
    assert len(note_of(tmp_path / "jobs")) == 1


def test_files_of_rpd_named_by_ranks_are_one_run(tmp_path: Path) -> None:
    """They name no machine, and clocks of two machines have nothing to do with each other."""
    for rank, start in enumerate((1000, LATER)):
        write_rpd(tmp_path / f"rank{rank}.rpd", process(rank, start))
    assert note_of(tmp_path) == []


def test_sessions_in_one_file_of_rpd_are_runs(tmp_path: Path, capsys: Capture) -> None:
    path, other = write_rpd(tmp_path / "a.rpd", process(1)), tmp_path / "b.rpd"
    write_rpd(other, process(2, LATER), first_id=2**32 + 1)
    tables = ("api", "op", "api_ops", "kernelapi", "copyapi")
    shift = {"api": ("apiName_id", "args_id"), "op": ("description_id", "opType_id")}
    together = [
        f"ATTACH '{other}' AS other",
        "INSERT INTO rocpd_string SELECT id + 1000, string FROM other.rocpd_string",
        *(f"INSERT INTO rocpd_{table} SELECT * FROM other.rocpd_{table}" for table in tables),
        *(
            f"UPDATE rocpd_{table} SET {column} = {column} + 1000 WHERE id > {2**32}"
            for table, columns in shift.items()
            for column in columns
        ),
    ]
    alone = opened(other)
    want = {name: gpu_time(one) for name, one in (("0", opened(path)), ("1", alone))}
    execute(path, *together)
    assert run_names(path) == ["run0", "run1"]
    assert {name: gpu_time(choose(path, name)) for name in "01"} == want
    assert choose(path, "1").traces.n_spans == alone.traces.n_spans
    shown, expected = (
        rows(capsys, "summary", p, *o, "--section", "kernels") for p, o in ((path, ["--run", "1"]), (other, []))
    )
    assert shown == expected
    assert "over 100 s" not in run(capsys, "info", path, "--run", "1")


def test_jobs_are_told_by_the_environment(tmp_path: Path) -> None:
    """Concurrent jobs on different machines, in folders of their own or in one."""
    for k in range(4):
        told = {"SLURM_JOB_ID": str(7 + k // 2), "SLURM_STEP_ID": "0", "PMI_RANK": str(k % 2)}
        own = process(k, host=f"node{k}", machine=f"m{k}", environment=told)
        for folder in (tmp_path / "all", tmp_path / "apart" / f"job_{7 + k // 2}"):
            folder.mkdir(parents=True, exist_ok=True)
            write_rocpd(folder / f"{'abcd'[k]}.db", [own])
    (text,) = note_of(tmp_path / "all")
    assert text == (
        f"{tmp_path / 'all'}: 2 runs, told apart by their jobs: 0 7.0 (job 7.0, 2 files); 1 8.0 (job 8.0, 2 files); "
        "runs=... chooses one by its name or number"
    )
    assert run_names(tmp_path / "apart") == ["job_7", "job_8"]
    alone = opened(tmp_path / "apart" / "job_8")
    chosen = choose(tmp_path / "apart", "job_8")
    assert everything(chosen) == everything(alone)
    assert (chosen.path, chosen.runs) == (alone.path, alone.runs)


def test_steps_of_one_job_are_runs_and_what_follows_in_a_step_is_not(tmp_path: Path) -> None:
    for k, (step, start) in enumerate((("0", 1000), ("0", LATER), ("1", 2 * LATER))):
        told = {"SLURM_JOB_ID": "7", "SLURM_STEP_ID": step}
        write_rocpd(tmp_path / f"{'abc'[k]}.db", [process(k, start, environment=told)])
    assert run_names(tmp_path) == ["7.0", "7.1"]


def test_jobs_without_steps_are_divided_by_time(tmp_path: Path) -> None:
    for k, start in enumerate((1000, LATER)):
        write_rocpd(tmp_path / f"{'ab'[k]}.db", [process(k, start, environment={"PBS_JOBID": "7"})])
    assert run_names(tmp_path) == ["a.db", "b.db"]


@pytest.mark.parametrize(("ranks", "n_runs"), [("0011", 1), ("0101", 2), ("0123", 1)])
def test_ranks_that_come_twice_are_told_apart_by_folders(ranks: str, n_runs: int, tmp_path: Path) -> None:
    """Where a folder has one rank twice, the folders are not runs."""
    for k, rank in enumerate(ranks):
        folder = tmp_path / f"out{k // 2}"
        folder.mkdir(exist_ok=True)
        own = process(k, host=f"node{k}", machine=f"m{k}", environment={"PMI_RANK": rank})
        write_rocpd(folder / f"{'abcd'[k]}.db", [own])
    assert len(opened(tmp_path).runs) == n_runs


def test_machines_that_had_several_runs_each(tmp_path: Path) -> None:
    """The first ones of all are one run, unless folders tell that the second machine was in the second run."""
    placed = (("x", "m0", 1000), ("y", "m0", LATER), ("y", "m1", 1000))
    for k, (folder, machine, start) in enumerate(placed):
        for place in (tmp_path / "flat", tmp_path / "apart" / folder):
            place.mkdir(parents=True, exist_ok=True)
            write_rocpd(place / f"{'abc'[k]}.db", [process(k, start, host=machine, machine=machine)])
    flat, apart = opened(tmp_path / "flat"), opened(tmp_path / "apart")
    assert [len(set(part)) for part in (flat.profiles.run.tolist(), apart.profiles.run.tolist())] == [2, 2]
    hosts = {run: set() for run in ("x", "y")}  # type: dict[str, set[str]]
    for profile, number in enumerate(apart.profiles.run.tolist()):
        above = apart.system.path(int(apart.profiles.system[profile]))
        hosts[apart.runs[number].name].add(apart.system.name[above[-1]])
    assert hosts == {"x": {"m0"}, "y": {"m0", "m1"}}


@pytest.mark.parametrize(("commands", "n_runs"), [(("./a 1", "./b 1"), 2), (("./a 1", "./a 2"), 1)])
def test_programs_tell_runs_where_nothing_else_does(commands: tuple[str, str], n_runs: int, tmp_path: Path) -> None:
    """Exports that do not say when they were made; arguments may differ from rank to rank."""
    for k, command in enumerate(commands):
        write_nsight(tmp_path / f"{'ab'[k]}.sqlite", process(k, command=command))
    assert len(opened(tmp_path).runs) == n_runs


def test_files_of_several_runs_may_be_named(tmp_path: Path, capsys: Capture) -> None:
    files = fill(tmp_path / "jobs", "rocpd", [1000, LATER])
    told = notes(capsys, "summary", *files)
    assert f"note: {files[0]} and 1 more: 2 runs, told apart by times" in told
    assert rows(capsys, "summary", *files, "--run", "b.db") == rows(capsys, "summary", files[1])


def test_a_run_of_several_can_be_written_as_databases(tmp_path: Path, capsys: Capture) -> None:
    files = fill(tmp_path / "jobs", "rocpd", [1000, LATER, LATER + 10])
    run(capsys, "convert", tmp_path / "jobs", tmp_path / "one.db", "--to", "rocpd", "--run", "1")
    assert everything(opened(tmp_path / "one.db")) == everything(opened(*files[1:]))
    run(capsys, "convert", tmp_path / "jobs", tmp_path / "all.db", "--to", "rocpd")
    assert gpu_time(choose(tmp_path / "all.db", "1")) == gpu_time(opened(*files[1:]))


def test_devices_of_two_runs_are_not_busy_at_once(tmp_path: Path, capsys: Capture) -> None:
    """Rank 0 of the one has nothing to do with rank 0 of the other, nor has its GPU."""
    files = fill(tmp_path / "jobs", "rocpd", [1000, LATER])
    for section in ("busy", "memory"):
        alone = [
            {"run": k, **row}
            for k, file in enumerate(files)
            for row in rows(capsys, "summary", file, "--section", section)
        ]
        assert rows(capsys, "summary", tmp_path / "jobs", "--section", section) == alone
        assert "run" not in rows(capsys, "summary", files[0], "--section", section)[0]
    gaps = rows(capsys, "summary", tmp_path / "jobs", "--section", "longest-gaps")
    assert {row["run"] for row in gaps} == {0, 1}
    assert all(row["start_ns"] >= LATER for row in gaps if row["run"] == 1)


def test_names_that_are_no_points_of_one_study_are_names_of_runs(tmp_path: Path, capsys: Capture) -> None:
    for k, name in enumerate(("app.n8", "app.p4")):
        fill(tmp_path / "runs" / name, "rocpd", [1000 + k])
    told = notes(capsys, "top", tmp_path / "runs")
    assert "they are 2 runs without parameters: app.n8, app.p4; --run chooses one" in told
    assert "2 runs are added up" in told
    assert rows(capsys, "top", tmp_path / "runs", "--run", "app.p4") == rows(
        capsys, "top", tmp_path / "runs" / "app.p4"
    )
    assert "--run chooses one of 2: 0 app.n8; 1 app.p4" in notes(capsys, "summary", tmp_path / "runs")
    assert "they differ in n, p" in said(capsys, "top", tmp_path / "runs", "--strict", code=3)


def test_real_exports_of_five_sessions(shared: Path, tmp_path: Path, capsys: Capture) -> None:
    found = sorted((shared / "data/public/extrap/nsight/concurrent_example").glob("*/*.sqlite"))
    for file in found:
        copyfile(file, tmp_path / file.name)
    assert run_names(tmp_path) == [f"profile{n}.sqlite" for n in (1, 2, 4, 8, 16)]
    (text,) = note_of(tmp_path)
    assert "0 profile1.sqlite (1 file, 6.75 s long, on 2022-05-30 at 16:53:29 UTC)" in text
    last = next(file for file in found if file.name == "profile16.sqlite")
    assert rows(capsys, "top", tmp_path, "--run", "4") == rows(capsys, "top", last)


@pytest.mark.parametrize("name", ["small", "same_pid"])
def test_real_ranks_of_one_job_are_one_run(name: str, shared: Path) -> None:
    found = opened(shared / "data/own/rocpd" / name)
    assert len(found.runs) == 1
    assert not [warning for warning in found.warnings if "run" in warning.text]


def test_names_of_kernels_are_copied_as_they_are(tmp_path: Path, capsys: Capture) -> None:
    files = fill(tmp_path / "job", "rocpd", [1000, 1010])
    told = notes(capsys, "merge", *files, tmp_path / "all.db", "--kernel-names", "short")
    assert "--kernel-names: changes nothing here" in told
    assert "give --kernel-names and --run when OUT is read" in said(
        capsys, "merge", "--index", *files, tmp_path / "run.rpdb", "--kernel-names", "short", code=2
    )
