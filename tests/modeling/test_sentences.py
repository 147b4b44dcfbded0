"""A study in sentences: planted functions, and what they are at four times the processes by arithmetic."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Mapping
from math import isclose, log2
from pathlib import Path

import pytest

import callgrove as cg
from callgrove.cli.main import main
from callgrove.errors import UsageError
from callgrove.render.findings import say_finding
from callgrove.viewer.page import Choice
from callgrove.viewer.report import explain_input
from callgrove.viewer.summaries import scaling_maker

Costs = Mapping[str, Callable[[float], float]]
PROCESSES = (4, 8, 16, 32, 64)
FAR = 256  # four times the largest


def write_study(folder: Path, costs: Costs, parameter: str = "p", points: tuple[int, ...] = PROCESSES) -> Path:
    lines = [f"PARAMETER {parameter}", "POINTS " + " ".join(f"({p})" for p in points), "METRIC time"]
    for name, cost in costs.items():
        lines += [f"REGION {name}", *(f"DATA {cost(p)!r} {cost(p)!r} {cost(p)!r}" for p in points)]
    path = folder / "study.txt"
    path.write_text("\n".join([*lines, ""]))
    return path


@pytest.fixture
def study(tmp_path: Path) -> Path:
    """One cost that stays, one that grows with p, one with its logarithm."""
    return write_study(tmp_path, {"solve": lambda p: 10.0, "gather": lambda p: 0.5 * p, "reduce": lambda p: log2(p)})


def test_what_grows_is_named_with_what_it_will_be(study: Path) -> None:
    explanation = cg.open(study).explain()
    total = 10 + 0.5 * FAR + log2(FAR)
    assert isclose(explanation.headline.number.value, total, rel_tol=1e-6)
    assert f"p = {FAR}" in str(explanation).splitlines()[0]
    growing = [one for one in explanation.findings if one.cause == "scaling"]
    assert [one.subject for one in growing] == ["gather", "reduce"]
    assert isclose(growing[0].number.value, 0.5 * FAR, rel_tol=1e-6)
    assert isclose(growing[0].weight, (0.5 * FAR - 0.5 * 4) / total, rel_tol=1e-6)
    text = str(explanation)
    assert "gather will not scale: it grows with O(p), from 2.00 at p = 4 to 128 (64 times), 88% of all" in text


def test_where_costs_cross_is_said(study: Path) -> None:
    """0.5 p is more than 10 from p = 20 on."""
    crossings = [one for one in cg.open(study).explain().findings if one.cause == "crossing"]
    assert [one.subject for one in crossings][:1] == ["gather"]
    assert any(isclose(one.number.value, 20, rel_tol=0.01) for one in crossings)


def test_what_costs_most_and_stays_is_said(tmp_path: Path) -> None:
    study = write_study(tmp_path, {"solve": lambda p: 100.0, "gather": lambda p: 0.01 * p})
    (largest,) = [one for one in cg.open(study).explain().findings if one.cause == "function"]
    assert largest.subject == "solve"
    assert isclose(largest.weight, 100 / (100 + 0.01 * FAR) / 2, rel_tol=1e-6)
    assert "does not grow with p" in str(cg.open(study).explain())


def test_growth_with_another_parameter_is_no_lack_of_scaling(tmp_path: Path) -> None:
    text = str(cg.open(write_study(tmp_path, {"solve": lambda n: 2.0 * n}, "n")).explain())
    assert "solve grows with O(n)" in text
    assert "will not scale" not in text


def test_models_that_say_nothing_are_counted(tmp_path: Path) -> None:
    noise = dict(zip(PROCESSES, (1.0, 40.0, 2.0, 90.0, 3.0), strict=True))
    study = write_study(tmp_path, {"solve": lambda p: 10.0, "chaos": lambda p: noise[int(p)]})
    (trust,) = [one for one in cg.open(study).explain().findings if one.cause == "trust"]
    assert (trust.subject, trust.number.value) == ("chaos", 1)
    assert isclose(trust.weight, 3 / 13, rel_tol=1e-9)
    assert str(trust.sentence[0]).startswith("One of 2 models says nothing there, that of chaos: ")


def test_where_no_model_holds_measurements_are_told(tmp_path: Path) -> None:
    noise = dict(zip(PROCESSES, (1.0, 40.0, 2.0, 90.0, 3.0), strict=True))
    explanation = cg.open(write_study(tmp_path, {"chaos": lambda p: noise[int(p)]})).explain()
    by_cause = {one.cause: one for one in explanation.all}
    assert list(by_cause) == ["total", "trust", "measured", "next"]
    assert "As measured, time went from 1 at p = 4 to 3 at p = 64 (3 times)." in say_finding(by_cause["measured"])[0]
    assert by_cause["next"].number.value == 2 * max(PROCESSES)
    for one in explanation.all:
        assert main(shlex.split(say_finding(one)[1])[1:]) == 0


def test_one_point_says_nothing_about_growth(tmp_path: Path) -> None:
    study = write_study(tmp_path, {"solve": lambda p: 10.0}, points=(4,))
    with pytest.raises(UsageError, match="say nothing about growth"):
        cg.open(study).explain()


def test_the_verb_explains_studies_with_commands_that_work(study: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", str(study), "--format", "json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [row["cause"] for row in rows[:2]] == ["total", "scaling"]
    for command in {row["command"] for row in rows}:
        assert main(command.split()[1:]) == 0
    capsys.readouterr()
    assert main(["predict", str(study), "--at", f"p={FAR}", "--format", "json"]) == 0
    predictions = {row["callpath"]: row["prediction"] for row in json.loads(capsys.readouterr().out)}
    assert predictions["gather"] == rows[1]["number"]


def test_a_metric_can_be_chosen(tmp_path: Path) -> None:
    path = tmp_path / "two.txt"
    points = "PARAMETER p\nPOINTS (4) (8) (16) (32) (64)\nREGION main\n"
    values = "METRIC {}\n" + "".join("DATA {}\n" for _ in PROCESSES)
    path.write_text(
        points + values.format("bytes", *(8 * p for p in PROCESSES)) + values.format("time", *(2 for _ in PROCESSES))
    )
    study = cg.open(path)
    assert study.explain().headline.subject == "time"
    assert study.explain("bytes").headline.subject == "bytes"
    assert study.explain().notes == ("of 2 metrics, this is time",)
    with pytest.raises(UsageError):
        study.explain("nothing")


def test_reports_have_the_same_sentences(study: Path) -> None:
    opened = cg.open(study)
    maker = scaling_maker(opened, Choice())
    assert maker is not None
    assert explain_input(opened, Choice(), [maker]) == tuple(map(say_finding, opened.explain().all))
    assert explain_input(opened, Choice(), []) == (), "models are not made for sentences alone"


def test_no_total_is_said_where_no_model_says_any(tmp_path: Path) -> None:
    infinite = cg.open(write_study(tmp_path, {"main": lambda p: float("inf")}))
    first = str(infinite.explain()).splitlines()[0]
    assert first == f"No model of time can be trusted at p = {FAR}, so nothing is said about its total."
