"""`callgrove rocpd` takes the calls of ROCm's command, and gives what the verb behind each of them gives.

The calls are those of its documentation and of its help texts (rocprofiler-sdk, 2025 and 2026).
"""

from __future__ import annotations

import csv
import json
import sqlite3
import subprocess
import sys
from collections import Counter
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from callgrove.cli.main import main
from callgrove.rocpd import main as rocpd
from tests.cli.commands import Capture, run
from tests.formats.gpu.gpu_databases import Run, write_rocpd
from tests.formats.gpu.gpu_truth import everything, opened
from tests.formats.gpu.rocpd4_databases import write_rocpd4
from tests.requirements import need_module

N = 6


def process(k: int) -> Run:
    guid = f"018f000{k}-0000-7000-8000-000000000000"
    return replace(
        Run.random(k).without("memset"), guid=guid, pid=100 + k, host=f"n{k}", machine="m", tids=(100 + k, 7)
    )


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with db0.db to db5.db, of which the last has schema 4; the current one."""
    for k in range(N):
        (write_rocpd4 if k == N - 1 else write_rocpd)(tmp_path / f"db{k}.db", [process(k)])
    (tmp_path / "node0").mkdir()
    write_rocpd(tmp_path / "node0" / "1.db", [process(0)])
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for name in ("ROCPD_OUTPUT_PATH", "ROCPD_OUTPUT_NAME"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def call(line: str) -> int:
    """Run a line as a shell would, with {0..5} and {3,4} filled in."""
    words = line.replace("db{0..5}.db", " ".join(f"db{k}.db" for k in range(6)))
    words = words.replace("db{3,4}.db", "db3.db db4.db").replace("db{0..3}.db", "db0.db db1.db db2.db db3.db")
    return rocpd(words.replace("db{1..3}.db", "db1.db db2.db db3.db").replace("db{0,1}.db", "db0.db db1.db").split())


# -- convert -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "files"),
    [
        ("convert -i db1.db --output-format pftrace", ["rocpd-output-data/out_results.pftrace"]),
        ("convert -f csv -i db1.db", ["rocpd-output-data/out_hip_api_trace.csv"]),
        (
            "convert -i db1.db db2.db --output-format pftrace -d ./output/ -o twoFileTraces --start 30% --end 100%",
            ["output/twoFileTraces_results.pftrace"],
        ),
        (
            "convert -i db{0..5}.db --output-format csv pftrace -d ~/output_folder/ -o sixFileTraces",
            [f"home/output_folder/sixFileTraces_{name}" for name in ("kernel_trace.csv", "results.pftrace")],
        ),
        ("convert -i db1.db -f json perfetto", [f"rocpd-output-data/out_results.{end}" for end in ("json", "pftrace")]),
    ],
)
def test_documented_conversions(line: str, files: list[str], here: Path) -> None:
    assert call(line) == 0
    for name in files:
        assert (here / name).stat().st_size > 0, name
    assert call(line) == 0, "a script runs twice"


def test_otf2_beside_others(here: Path) -> None:
    need_module("otf2")
    assert call("convert -i db{3,4}.db --output-format csv otf2 pftrace") == 0
    names = {path.name for path in (here / "rocpd-output-data").iterdir()}
    assert {"out_results.otf2", "out_results.pftrace", "out_kernel_trace.csv"} <= names


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ("", "--window-mode inside"),
        ("--start 30% --end 60%", "--window 30%:60% --window-mode inside"),
        ("--start 30% --end 60% --inclusive False", "--window 30%:60% --window-mode touch"),
        ("--start 2100 --end 2300", "--window @2100:@2300 --window-mode inside"),
        ("--kernel-rename --group-by-queue", "--kernel-rename --group-by-queue"),
        ("--agent-index-value type-relative", "--agent-index-value type-relative"),
        ("--annotate-args --annotate-pmc --no-annotate-kfd", "--annotations all"),
        ("--perfetto-backend inprocess --perfetto-buffer-size 1024", ""),
    ],
)
def test_the_bytes_are_those_of_convert(ours: str, theirs: str, here: Path) -> None:
    assert call(f"convert -i db0.db db5.db -f pftrace {ours}") == 0
    words = ["convert", "db0.db", "db5.db", "want.pftrace", "--track-names", "rocpd", *theirs.split()]
    agents = [] if "--agent" in theirs else ["--agent-index-value", "relative"]
    assert main([*words, *agents]) == 0
    written = (here / "rocpd-output-data" / "out_results.pftrace").read_bytes()
    assert written == (here / "want.pftrace").read_bytes()


def test_windows_choose_by_the_rule_of_the_shipped_tool(here: Path) -> None:
    """Inside: start >= a and end <= b; else start <= b and end >= a. Asked of the database by SQL."""
    low, high = 2100, 2400
    rules = {"True": f"start >= {low} AND end <= {high}", "False": f"start < {high} AND end > {low}"}
    for word, rule in rules.items():
        assert call(f"convert -i db0.db -f csv --start {low} --end {high} --inclusive {word}") == 0
        with (here / "rocpd-output-data" / "out_kernel_trace.csv").open() as file:
            rows = Counter((int(row["Start_Timestamp"]), int(row["End_Timestamp"])) for row in csv.DictReader(file))
        table = f"rocpd_kernel_dispatch_{process(0).guid.replace('-', '_')}"
        with closing(sqlite3.connect("db0.db")) as database:
            assert rows == Counter(database.execute(f"SELECT start, end FROM {table} WHERE {rule}").fetchall())
        assert rows


def test_places_come_from_the_environment_as_well(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROCPD_OUTPUT_PATH", "elsewhere")
    monkeypatch.setenv("ROCPD_OUTPUT_NAME", "run")
    assert call("convert -i db1.db -f pftrace") == 0
    assert (here / "elsewhere" / "run_results.pftrace").exists()


# -- merge and package -------------------------------------------------------------------------------------------------


def test_merging_and_packages(here: Path) -> None:
    assert call("merge -i db0.db db1.db db5.db -d merged3DBs") == 0
    assert everything(opened("merged3DBs/merged.db")) == everything(opened("db0.db", "db1.db", "db5.db"))
    assert call("merge -i node0/*.db -d node0_output -o largeMerged") == 0
    assert everything(opened("node0_output/largeMerged.db")) == everything(opened("db0.db"))
    assert call("package -i db0.db db1.db") == 0
    assert everything(opened("index.yaml")) == everything(opened("db0.db", "db1.db"))
    assert call("package -i db0.db db1.db -d my_MPI_run_1 --consolidate --copy") == 0
    assert sorted(path.name for path in Path("my_MPI_run_1.rpdb").iterdir()) == ["db0.db", "db1.db", "index.yaml"]
    assert call("package -i my_MPI_run_1.rpdb db5.db -d my_MPI_run_1_append_5 --consolidate --copy") == 0
    assert everything(opened("my_MPI_run_1_append_5.rpdb")) == everything(opened("db0.db", "db1.db", "db5.db"))
    assert (here / "db5.db").exists()


def test_an_index_is_what_rocm_reads(here: Path) -> None:
    """A version in quotes, and names that start from the folder of the index."""
    yaml = need_module("yaml")
    assert call("package -i db0.db node0/1.db -d apart") == 0
    about = yaml.safe_load((here / "apart.rpdb" / "index.yaml").read_text())["rocprofiler-sdk"]["rocpd"]
    assert (about["rocpd_package_version"], about["path"]) == ("1.0", ".")
    assert all((here / "apart.rpdb" / name).exists() for name in about["files"])
    assert len(about["files"]) == 2


# -- query and summary -------------------------------------------------------------------------------------------------


def test_queries_are_those_of_sql(here: Path, capsys: Capture) -> None:
    query = "SELECT * FROM top_kernels LIMIT 10"
    assert rocpd(["query", "-i", *(f"db{k}.db" for k in range(4)), "--query", query, "--format", "csv"]) == 0
    capsys.readouterr()
    assert main(["sql", *(f"db{k}.db" for k in range(4)), query, "--format", "csv", "--engine", "sqlite"]) == 0
    assert (here / "rocpd-output-data" / "out.csv").read_text() == capsys.readouterr().out
    assert rocpd(["query", "-i", "db0.db", "--query", "SELECT count(*) AS n, max(end) AS last FROM kernels"]) == 0
    assert capsys.readouterr().out.split()[:2] == ["n", "last"]
    window = ["--start", "30%", "--end", "60%"]
    assert rocpd(["query", "-i", "db0.db", "--query", "SELECT count(*) AS n FROM spans", "-f", "json", *window]) == 0
    (row,) = json.loads((here / "rocpd-output-data" / "out.json").read_text())
    assert 0 < row["n"] < len(process(0).events)


def test_summaries_have_the_numbers_of_summary(here: Path, capsys: Capture) -> None:
    assert call("summary -i db{1..3}.db --summary-by-rank --domain-summary --format csv -d s -o run") == 0
    capsys.readouterr()
    assert main(["summary", "db1.db", "db2.db", "db3.db", "--section", "kernels", "--format", "json"]) == 0
    want = {row["name"]: (row["count"], row["total_ns"], row["percent"]) for row in json.loads(capsys.readouterr().out)}
    rows = read(here / "s" / "run_kernels_summary.csv")
    columns = ("Calls", "DURATION (nsec)", "PERCENT (INC)")
    assert {row["Name"]: tuple(json.loads(row[name]) for name in columns) for row in rows} == want
    by_rank = read(here / "s" / "run_kernels_summary_by_rank.csv")
    assert {(row["Hostname"], row["ProcessID"]) for row in by_rank} == {(f"n{k}", str(100 + k)) for k in (1, 2, 3)}
    assert sum(int(row["Calls"]) for row in by_rank) == sum(n for n, _, _ in want.values())
    for rank in {row["Rank"] for row in by_rank}:
        assert sum(float(row["PERCENT (INC)"]) for row in by_rank if row["Rank"] == rank) == pytest.approx(100)
    domains = {row["Name"] for row in read(here / "s" / "run_domain_summary.csv")}
    assert domains == {"KERNELS", "MEMORY_COPIES", "MEMORY_ALLOCATIONS", "HIP", "MARKERS"}


def read(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize(
    ("line", "names"),
    [
        (
            "summary -i db1.db --domain-summary",
            {"KERNELS", "MEMORY_COPIES", "MEMORY_ALLOCATIONS", "HIP", "MARKERS", "DOMAIN"},
        ),
        ("summary -i db0.db --region-categories NONE", {"KERNELS", "MEMORY_COPIES", "MEMORY_ALLOCATIONS"}),
        ("summary -i db0.db --region-categories HIP MARKERS", {"HIP", "MARKERS"}),
    ],
)
def test_documented_summaries(line: str, names: set[str], here: Path, capsys: Capture) -> None:
    assert call(line) == 0
    out = capsys.readouterr().out
    assert {text.removesuffix("_SUMMARY:") for text in out.splitlines() if text.endswith("_SUMMARY:")} == names
    assert call("summary -i db{0,1}.db --region-categories HIP MARKERS --domain-summary --format html") == 0
    assert "<table" in (here / "rocpd-output-data" / "out_hip_summary.html").read_text()


def test_tables_in_several_formats(here: Path, capsys: Capture) -> None:
    assert call("summary -i db0.db --region-categories NONE --format csv json console") == 0
    assert "KERNELS_SUMMARY:" in capsys.readouterr().out
    out = here / "rocpd-output-data"
    rows = read(out / "out_kernels_summary.csv")
    assert [str(row["Calls"]) for row in json.loads((out / "out_kernels_summary.json").read_text())] == [
        row["Calls"] for row in rows
    ]
    asked = ["query", "-i", "db0.db", "--query", "SELECT count(*) AS n FROM kernels", "--format", "csv", "md"]
    assert rocpd([*asked, "-o", "n"]) == 0
    (row,) = read(out / "n.csv")
    assert int(row["n"]) > 0
    assert f" {row['n']} " in (out / "n.md").read_text()


# -- what is refused ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("query -i db0.db --query x --script views.sql", "WITH name AS"),
        ("query -i db0.db --query x --email-to a@b.c", "no mail is sent"),
        ("query -i db0.db --query x --zip-attachments", "no mail is sent"),
        ("query -i db0.db --query x --template-path t.html", "callgrove report"),
        ("query -i db0.db --query x --format pdf", "write html"),
        ("query -i db0.db --query x --format clipboard", "xclip"),
        ("query -i db0.db", "one SELECT"),
        ("summary -i db0.db --mangled-kernels", "kernel_symbols"),
        ("summary -i db0.db --format xml", "console, csv, html, json, md"),
        ("summary -i db0.db --kernel-rename", "it is for convert"),
        ("merge -i db0.db --start 10%", "it is for convert and query and summary"),
        ("convert -i db0.db", "pftrace, csv, otf2, json"),
        ("convert -i db0.db -f rocpd", "rocpd merge"),
        ("convert -i db0.db -f pftrace --start soon", "number of ns"),
        ("convert -i db0.db -f pftrace --inclusive maybe", "neither true nor false"),
        ("convert -i db0.db -f pftrace --start 10% --start-marker x", "not allowed with"),
        ("convert -i nowhere*.db -f pftrace", "matches no file"),
        ("convert -i db0.db -f pftrace -d %hostname%", "not filled in"),
        ("package -i db0.db --consolidate", "add --copy"),
        ("package -i db0.db node0/1.db db0.db -d x --consolidate --copy -o y", "it is for"),
        ("analyze -i db0.db", "invalid choice"),
    ],
)
def test_what_cannot_be_done_is_refused_with_what_to_use(line: str, said: str, here: Path, capsys: Capture) -> None:
    before = sorted(here.rglob("*"))
    assert call(line) == 2
    assert said in capsys.readouterr().err
    left = [path for path in sorted(here.rglob("*")) if path not in before and path.is_file()]
    assert left == []


def test_files_of_one_name_are_not_copied_over_each_other(here: Path, capsys: Capture) -> None:
    write_rocpd(here / "1.db", [process(1)])
    assert call("package -i 1.db node0/1.db -d x --consolidate --copy") == 2
    assert "have one name" in capsys.readouterr().err
    assert not (here / "x.rpdb").exists()


def test_it_is_a_module(here: Path) -> None:
    words = [sys.executable, "-m", "callgrove.rocpd", "convert", "-i", "db1.db", "-f", "pftrace", "-o", "m"]
    subprocess.run(words, check=True, capture_output=True)
    assert (here / "rocpd-output-data" / "m_results.pftrace").exists()
    assert subprocess.run(words[:3], capture_output=True, check=True, text=True).stdout.startswith("usage")


def test_it_tells_its_version(capsys: Capture) -> None:
    assert run(capsys, "rocpd", "--version").startswith("callgrove ")
