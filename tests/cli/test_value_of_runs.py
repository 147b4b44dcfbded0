"""What a value of a run is: the same words for every format, and the numbers that `top` and `imbalance` print."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable
from pathlib import Path

import pytest

import callgrove
from tests.cli.commands import Capture, rows, run, said
from tests.requirements import need_module

INPUTS = {
    "cube": ("data/own/cube/hybrid/profile.cubex", "time"),
    "hpctoolkit": ("data/own/hpctoolkit-release", ""),
    "tau": ("data/public/tau/cpi-mpi", "TIME"),
    "rocpd": ("data/own/rocpd", "gpu_time"),
}


def find_input(shared: Path, name: str) -> Path:
    """Return an input of a kind: that path, or the first input below it."""
    path = shared / INPUTS[name][0]
    if path.exists() and name not in ("hpctoolkit", "rocpd"):
        return path
    folder = path if path.is_dir() else path.parent.parent
    suffix = {"cube": "*.cubex", "rocpd": "*.db", "hpctoolkit": "meta.db"}[name]
    first = sorted(folder.rglob(suffix))[0]
    return first.parent if name == "hpctoolkit" else first


def two_runs(tmp_path: Path, source: Path) -> Path:
    """Return a folder with the same run at two points."""
    for p in (1, 2):
        target = tmp_path / f"app.p{p}"
        if source.is_dir():
            shutil.copytree(source, target)
        else:
            target.mkdir(parents=True)
            shutil.copy(source, target / source.name)
    return tmp_path


@pytest.mark.parametrize("name", INPUTS)
def test_the_sum_is_what_top_prints(name: str, tmp_path: Path, shared: Path, capsys: Capture) -> None:
    folder = two_runs(tmp_path, find_input(shared, name))
    metrics = json.loads(run(capsys, "info", folder / "app.p1", "--format", "json"))["metrics"]
    metric = INPUTS[name][1] or str(metrics[0] if isinstance(metrics[0], str) else metrics[0]["name"])
    printed = rows(capsys, "top", folder / "app.p1", "-m", metric, "--limit", "100000")
    series = rows(capsys, "export", folder, "--table", "series", "--value", "sum")
    for p in (1, 2):
        total = sum(row["mean"] for row in series if row["metric"] == metric and row["p"] == p)
        assert total == pytest.approx(sum(row["exclusive"] for row in printed if row["exclusive"]), rel=1e-12)


@pytest.mark.parametrize(("value", "column"), [("mean", "mean"), ("maximum", "max"), ("sum", "sum")])
def test_processes_are_those_of_imbalance(
    value: str, column: str, tmp_path: Path, shared: Path, capsys: Capture
) -> None:
    folder = two_runs(tmp_path, find_input(shared, "tau"))
    table = rows(capsys, "imbalance", folder / "app.p1", "-m", "TIME", "--over", "rank", "--by", "context")
    expected = {row["path"]: row[column] for row in table}
    made = {r["callpath"]: r["mean"] for r in rows(capsys, "export", folder, "--table", "series", "--value", value)
            if r["metric"] == "TIME" and r["p"] == 1}  # fmt: skip
    assert made
    for path, number in made.items():
        assert number == pytest.approx(expected.get(path, 0.0), rel=1e-12), path


def add_up(entries: Iterable[tuple[str, float]]) -> dict[str, float]:
    """Return sums by name, without those that are 0."""
    totals: dict[str, float] = {}
    for name, value in entries:
        totals[name] = totals.get(name, 0.0) + value
    return {name: total for name, total in totals.items() if total}


@pytest.mark.parametrize(
    ("folder", "run_name", "metric", "point"),
    [
        ("data/public/extrap/cubeset/single_parameter", "mm.x1000y1z1.r1", "time", ("x", 1000)),
        ("data/public/extrap/nsight/concurrent_example", "concurrent.s4", "gpu_time", ("s", 4)),
    ],
)
def test_sums_by_function_are_those_of_top(
    folder: str, run_name: str, metric: str, point: tuple[str, int], shared: Path, capsys: Capture
) -> None:
    series = rows(capsys, "export", shared / folder, "--table", "series", "--value", "sum")
    here = (row for row in series if row["metric"] == metric and row[point[0]] == point[1])
    made = add_up((row["callpath"].rpartition("->")[2], row["mean"]) for row in here)
    table = rows(capsys, "top", shared / folder / run_name, "-m", metric, "--limit", "100000")
    assert made
    assert made == pytest.approx(add_up((row["name"], row["exclusive"] or 0.0) for row in table), rel=1e-12)


@pytest.mark.parametrize("name", ["nsight", "rocpd"])
def test_sums_of_gpu_activities_are_those_of_summary(name: str, tmp_path: Path, shared: Path, capsys: Capture) -> None:
    nsight = shared / "data/public/extrap/nsight/concurrent_example"
    folder = nsight if name == "nsight" else two_runs(tmp_path, find_input(shared, "rocpd"))
    one, parameter, at = (nsight / "concurrent.s4", "s", 4) if name == "nsight" else (folder / "app.p1", "p", 1)
    series = rows(capsys, "export", folder, "--table", "series", "--value", "sum")
    here = (row for row in series if row["metric"] == "gpu_time" and row[parameter] == at)
    made = add_up((row["callpath"].rpartition("->")[2], row["mean"]) for row in here)
    summed = (
        row for row in rows(capsys, "summary", one, "--limit", "100000") if row["section"] in ("kernels", "copies")
    )
    assert made
    assert made == pytest.approx(add_up((row["name"], row["total_ns"] / 1e9) for row in summed), rel=1e-9)


SUM = "A value of a run is the sum over everything in it"


@pytest.mark.parametrize(
    ("words", "text", "word"),
    [
        (["--value", "sum"], SUM, "sum"),
        (["--value", "mean"], "A value of a run is the mean over its processes", "mean"),
        (["--scaling", "strong"], "as Extra-P makes it for strong scaling", "strong"),
        ([], "--value chooses another", "weak"),
    ],
)
def test_tables_say_what_a_value_is(
    words: list[str], text: str, word: str, tmp_path: Path, shared: Path, capsys: Capture
) -> None:
    folder = two_runs(tmp_path, find_input(shared, "tau"))
    assert text in run(capsys, "model", folder, "-m", "TIME", "--limit", "2", *words).partition("\n")[0]
    assert [row["run_value"] for row in rows(capsys, "model", folder, "-m", "TIME", "--limit", "2", *words)] == [
        word
    ] * 2


@pytest.mark.parametrize(
    "words",
    [
        ["model", "{}", "--limit", "1"],
        ["model", "{}", "--rank-by", "share", "--limit", "1"],
        ["model", "{}", "--subtrees", "--limit", "1"],
        ["model", "{}", "--callpath", "mat_mul", "-m", "time", "--runner-ups"],
        ["predict", "{}", "--at", "x=4000", "--limit", "1"],
        ["advise", "{}", "-m", "time"],
        ["export", "{}", "--table", "series", "--limit", "1"],
        ["diff", "{}", "{}", "--limit", "1"],
        ["diff", "{}", "{}", "--models", "--limit", "1"],
    ],
    ids=lambda words: "-".join(word for word in words if word.strip("-").isalpha()),
)
def test_every_table_of_runs_states_it(words: list[str], shared: Path, capsys: Capture) -> None:
    folder = shared / "data/public/extrap/cubeset/single_parameter"
    words = [word.format(folder) for word in words] + ["--value", "sum"]
    assert run(capsys, *words, "--format", "table").startswith(SUM)
    assert {row["run_value"] for row in rows(capsys, *words)} == {"sum"}


@pytest.mark.parametrize(
    ("format", "begin"),
    [
        ("markdown", SUM),
        ("latex", r"\noindent " + SUM),
        ("html", f"<table>\n<caption>{SUM}"),
    ],
)
def test_notations_have_it_above_the_table(format: str, begin: str, shared: Path, capsys: Capture) -> None:
    folder = shared / "data/public/extrap/cubeset/single_parameter"
    assert run(capsys, "model", folder, "--value", "sum", "--limit", "1", "--format", format).startswith(begin)


def test_a_parquet_file_has_it_as_a_column(tmp_path: Path, shared: Path, capsys: Capture) -> None:
    parquet = need_module("pyarrow.parquet")
    folder, target = shared / "data/public/extrap/cubeset/single_parameter", tmp_path / "series.parquet"
    run(capsys, "export", folder, "--table", "series", "--value", "maximum", "--format", "parquet", "-o", target)
    assert set(parquet.read_table(target).column("run_value").to_pylist()) == {"maximum"}


def test_series_that_are_stored_have_no_runs(shared: Path, capsys: Capture) -> None:
    stored = shared / "data/public/extrap/text/one_parameter_1.txt"
    assert "value of a run" not in run(capsys, "model", stored)
    assert "run_value" not in rows(capsys, "model", stored)[0]


def test_values_of_compared_folders_are_chosen(tmp_path: Path, shared: Path, capsys: Capture) -> None:
    folder = two_runs(tmp_path, find_input(shared, "tau"))
    sums, means = (
        {(row["path"], row["p"]): row["left"]
         for row in rows(capsys, "diff", folder, folder, "-m", "TIME", "--limit", "100000", "--value", value)}
        for value in ("sum", "mean")
    )  # fmt: skip
    n_processes = len({profile["rank"] for profile in rows(capsys, "export", folder / "app.p1", "--table", "profiles")})
    assert n_processes > 1
    assert sums == pytest.approx({key: n_processes * value for key, value in means.items()})


def test_single_runs_have_no_such_choice(tmp_path: Path, shared: Path, capsys: Capture) -> None:
    folder = two_runs(tmp_path, find_input(shared, "cube"))
    refused = said(capsys, "diff", folder / "app.p1", folder / "app.p2", "--value", "sum", code=2)
    assert refused.startswith("--models, --at and --value are for studies")


def test_tables_of_the_library_have_it_as_a_note(shared: Path) -> None:
    runs = callgrove.open(shared / "data/public/extrap/cubeset/single_parameter")
    assert isinstance(runs, callgrove.Experiment)
    study = runs.study(metrics=["time"])
    (said_of_models,) = study.model().table(1).notes
    assert said_of_models.startswith("A value of a run is ")
    assert study.predict({"x": 100}).notes == (said_of_models,)
