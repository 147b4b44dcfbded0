"""The tabs GPU, Efficiency and Spread of a viewer: every cell is that of `summary`, `pop`, `top` and `imbalance`.

That is so within the limits of what is shown one by one, and beyond them."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from callgrove.cli.main import main
from callgrove.viewer.page import Limits
from callgrove.viewer.server import flame, tabs
from tests.requirements import need_module
from tests.viewer.serving import ask, path_input, serving

need_module("starlette")
need_module("uvicorn")

ROCPD = "own/rocpd/same_pid"
NSIGHT = "public/extrap/nsight/concurrent_example/concurrent.s8/profile8.sqlite"
CUBE = "own/cube/mpi4/profile.cubex"
HPCTOOLKIT = "own/hpctoolkit-release/mpi4.d"
FEW = replace(Limits(), section_rows=2, functions=3, cells=3, devices=1)

Printed = Callable[..., list[dict[str, Any]]]
Row = dict[str, Any]

both = pytest.mark.parametrize("limits", [Limits(), FEW], ids=["within limits", "beyond limits"])


@pytest.fixture
def printed(capsys: pytest.CaptureFixture[str]) -> Printed:
    """Gives `printed(verb, path, option...)`: the rows that a verb prints."""

    def rows(*words: object) -> list[Row]:
        capsys.readouterr()
        assert main([*map(str, words), "--format", "json"]) == 0
        found: list[Row] = json.loads(capsys.readouterr().out)
        return found

    return rows


@pytest.fixture
def tab_of(monkeypatch: pytest.MonkeyPatch) -> Callable[[Path, str, Limits], Any]:
    """Gives `tab_of(path, tab, limits)`: its only panel, as a page gets it."""

    @contextmanager
    def limited(limits: Limits) -> Iterator[None]:
        with monkeypatch.context() as patch:
            for module in (tabs, flame):
                patch.setattr(module, "LIMITS", limits)
            yield

    def panel(path: Path, tab: str, limits: Limits) -> Any:
        with limited(limits), serving(path_input(path)) as viewer:
            status, document = ask(viewer, "tab", tab=tab)
        assert status == 200, document
        (one,) = document["panels"]
        return one

    return panel


def or_none(value: Any) -> Any:
    """A cell as JSON has it."""
    if isinstance(value, str):
        return int(value) if value else None
    return None if value is None or math.isnan(value) else value


@both
@pytest.mark.parametrize("sample", [ROCPD, NSIGHT])
def test_devices(sample: str, limits: Limits, tab_of: Any, printed: Printed, shared: Path) -> None:
    path = shared / "data" / sample
    panel = tab_of(path, "GPU", limits)
    expected: dict[str, list[Row]] = {}
    for row in printed("summary", path, "--limit", "all"):
        expected.setdefault(row["section"], []).append(row)
    sections = panel["data"]["sections"]
    assert [section["name"] for section in sections] == list(expected)
    for section in sections:
        rows = expected[section["name"]]
        shown = rows[: limits.section_rows]
        assert section["rows"] == [row["name"] for row in shown]
        assert section["left"] == len(rows) - len(shown)
        for column in section["columns"]:
            assert [or_none(value) for value in column["values"]] == [row[column["name"]] for row in shown]
        assert any(note.startswith(f"{section['name']}: ") for note in panel["notes"]) == (len(rows) > len(shown))
    devices = panel["data"]["devices"]
    assert len(devices["rank"]) == min(panel["data"]["n_devices"], limits.devices) == len(devices["busy_ns"])
    busy = sorted(expected["busy"], key=lambda row: (row["rank"] or 0, row["agent"]))
    for name, column in (("rank", "rank"), ("agent", "agent"), ("busy_ns", "total_ns"), ("span_ns", "span_ns")):
        assert devices[name] == [row[column] or 0 for row in busy[: limits.devices]]
    assert devices["total_busy_ns"] == sum(row["total_ns"] for row in busy)
    assert {one["name"]: one["total_ns"] for one in devices["doing"] if one["total_ns"]} == {
        row["name"]: row["total_ns"] for row in expected["overlap"]
    }


@both
@pytest.mark.parametrize("sample", [ROCPD, NSIGHT, CUBE, HPCTOOLKIT])
def test_efficiencies(sample: str, limits: Limits, tab_of: Any, printed: Printed, shared: Path) -> None:
    path = shared / "data" / sample
    panel = tab_of(path, "Efficiency", limits)
    (run,) = panel["data"]["runs"]
    rows = {row["name"]: row for row in printed("pop", path) if row[run["name"]] is not None}
    figures = panel["data"]["figures"]
    assert [figure["name"] for figure in figures] == list(rows)
    for figure, value, grade in zip(figures, run["values"], run["grades"], strict=True):
        row = rows[figure["name"]]
        assert (value, figure["unit"]) == (row[run["name"]], row["unit"])
        assert figure["depth"] <= row["depth"], "figures that are not known are not above it"
        good, fair = panel["data"]["good"], panel["data"]["fair"]
        word = "good" if value >= good else "fair" if value >= fair else "poor"
        assert grade == (word if figure["kind"] == "efficiency" else "")


@both
@pytest.mark.parametrize("sample", [CUBE, HPCTOOLKIT])
def test_spread_over_threads(sample: str, limits: Limits, tab_of: Any, printed: Printed, shared: Path) -> None:
    """Statistics are those of `imbalance`, cells those of `top` of a thread."""
    path = shared / "data" / sample
    data = tab_of(path, "Spread", limits)["data"]
    metric, names = data["rows"][0]["metric"], data["labels"]["name"]
    statistics = {
        row["name"]: row for row in printed("imbalance", path, "-m", metric, "--over", "thread", "--limit", "all")
    }
    top = printed("top", path, "-m", metric, "--limit", str(limits.functions))
    costly = [row["name"] for row in top if row["exclusive"]]
    assert [names[row["label"]] for row in data["rows"][1:]] == costly
    for row in data["rows"][1:]:
        wanted = statistics[names[row["label"]]]
        assert data["n_profiles"] == wanted["n"]
        for name in ("min", "mean", "max", "std", "imbalance"):
            assert row[f"all_{name}"] == pytest.approx(wanted[name], rel=1e-12)
    columns, lanes, joined = (data["grid"][name] for name in ("columns", "lanes", "n_joined"))
    every = [f"{column} {lane}" for column in columns for lane in lanes] if joined == 1 else []
    assert (joined > 1) == (limits is FEW)
    cells = [f"{columns[c]} {lanes[k]}" for c, k in zip(data["grid"]["column"], data["grid"]["lane"], strict=True)]
    assert set(cells) <= set(every) or joined > 1
    for number, cell in enumerate(cells if joined == 1 else []):
        _, rank, _, thread = cell.split()
        _check_cells(data["rows"], names, number, printed("top", path, "-m", metric, *_one(rank, thread)))
    if joined > 1:
        _check_joined(data, names, path, metric, printed)


def _one(rank: object, thread: object) -> tuple[str, ...]:
    return ("--rank", str(rank), "--thread", str(thread), "--limit", "all")


def _check_cells(rows: Sequence[Row], names: Sequence[str], number: int, top: Sequence[Row]) -> None:
    """Compare a cell of the spread with the functions of its profile."""
    costs = {row["name"]: row["exclusive"] or 0.0 for row in top}
    everything, *functions = rows
    assert everything["mean"][number] == pytest.approx(sum(costs.values()), rel=1e-12)
    assert everything["label"] == -1
    for row in functions:
        assert row["mean"][number] == pytest.approx(costs.get(names[row["label"]], 0.0), rel=1e-12)


def _check_joined(data: Any, names: Sequence[str], path: Path, metric: str, printed: Printed) -> None:
    """Compare cells that stand for several ranks: mean, smallest and largest of the threads in them."""
    threads = sorted({int(lane.removeprefix("thread ")) for lane in data["grid"]["lanes"]})
    joined = data["grid"]["n_joined"]
    for number, (column, lane) in enumerate(zip(data["grid"]["column"], data["grid"]["lane"], strict=True)):
        ranks = range(column * joined, min((column + 1) * joined, 4))
        tops = [printed("top", path, "-m", metric, *_one(rank, threads[lane])) for rank in ranks]
        assert data["grid"]["n_profiles"][number] == len(tops)
        for row in data["rows"][1:]:
            costs = [
                next((one["exclusive"] or 0.0 for one in top if one["name"] == names[row["label"]]), 0.0)
                for top in tops
            ]
            expected = (sum(costs) / len(costs), min(costs), max(costs))
            assert (row["mean"][number], row["low"][number], row["high"][number]) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("sample", [ROCPD, NSIGHT])
def test_spread_over_streams(
    sample: str, tab_of: Any, shared: Path, printed: Printed, capsys: pytest.CaptureFixture[str]
) -> None:
    """Cells are the exclusive values of `export`, added up by function; statistics those of the cells."""
    path = shared / "data" / sample
    data = tab_of(path, "Spread", Limits())["data"]
    metric, names = data["rows"][0]["metric"], data["labels"]["name"]
    profiles, contexts = (_exported(capsys, path, "--table", name) for name in ("profiles", "contexts"))
    values = _exported(capsys, path, "--table", "values", "--scope", "exclusive", "-m", metric)
    name_of = {row["context"]: row["name"] for row in contexts}
    cells: dict[str, dict[str, float]] = {row["profile"]: {} for row in profiles}
    for row in values:
        of = cells[row["profile"]]
        of[name_of[row["context"]]] = of.get(name_of[row["context"]], 0.0) + float(row["value"])
    costs = list(cells.values())
    top = [row["name"] for row in printed("top", path, "-m", metric, "--limit", "10") if row["exclusive"]]
    assert [names[row["label"]] for row in data["rows"][1:]] == top
    assert data["grid"]["n_joined"] == 1
    assert data["n_profiles"] == len(costs) == len(data["grid"]["column"])
    for row in data["rows"]:
        wanted = [sum(of.values()) if row["label"] < 0 else of.get(names[row["label"]], 0.0) for of in costs]
        assert sorted(row["mean"]) == pytest.approx(sorted(wanted), rel=1e-12)
        mean = sum(wanted) / len(wanted)
        assert (row["all_min"], row["all_mean"], row["all_max"]) == pytest.approx((min(wanted), mean, max(wanted)))
        assert row["all_std"] == pytest.approx(math.sqrt(sum((one - mean) ** 2 for one in wanted) / len(wanted)))
        assert row["all_imbalance"] == pytest.approx(max(wanted) / mean - 1)
        assert row["all_none"] == sum(not one for one in wanted)


def _exported(capsys: pytest.CaptureFixture[str], path: Path, *options: str) -> list[dict[str, str]]:
    capsys.readouterr()
    assert main(["export", str(path), *options, "--format", "csv"]) == 0
    return list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
