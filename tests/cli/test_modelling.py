"""`model` and `predict`: what they print, write and say."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from xml.etree import ElementTree

import pytest

from callgrove.cli.main import main
from callgrove.cli.messages import ProgressCallback
from callgrove.model.study.series import Study
from callgrove.modeling.fitting import model_study
from callgrove.modeling.stored_models import with_models
from callgrove.render import Look
from tests.cli.commands import Capture, header, notes, rows, run, said
from tests.modeling.series import X, grid, study_of_many
from tests.requirements import need

LINES: list[list[float]] = [[1 + 2 * p for p in X], [3 + p * p for p in X], [7.0 for _ in X]]


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> Study:
    """Whatever is opened is this study: f is 1 + 2 p, f1 is 3 + p^2, f2 is 7."""
    return _opens(monkeypatch, study_of_many(LINES))


def _opens(monkeypatch: pytest.MonkeyPatch, study: Study) -> Study:
    monkeypatch.setattr("callgrove.cli.opening.open_paths", lambda *_: study)
    return study


def test_json_is_the_contract(capsys: Capture, opened: Study) -> None:
    models = rows(capsys, "model", "study")
    assert [m["callpath"] for m in models] == ["f", "f1", "f2"]
    assert models[1]["terms"] == [{"coefficient": pytest.approx(1), "exponents": {"p": ["2", "0"]}}]
    assert models[1]["constant"] == pytest.approx(3)
    assert {"metric", "function", "smape", "rss", "ar2", "re"} <= models[0].keys()
    assert (models[2]["function"], models[2]["terms"], models[2]["order"]) == ("7.0", [], "O(1)")


def test_tables_for_people_are_short(capsys: Capture, opened: Study) -> None:
    text = run(capsys, "model", "study")
    judged = ["run_share", "trust", "reason"]
    assert text.splitlines()[0].split() == ["callpath", "metric", "function", "order", "smape", "ar2", *judged]
    assert "1 + 2 * p^(1)" in text
    assert run(capsys, "model", "study", "--format", "markdown").startswith("| callpath | metric | function | order |")
    assert header(run(capsys, "model", "study", "--format", "csv"))[:5] == [
        "callpath",
        "metric",
        "function",
        "constant",
        "terms",
    ]


def test_expressions(capsys: Capture, opened: Study) -> None:
    (model,) = rows(capsys, "model", "study", "--callpath", "f1", "--expression", "python", "--expression", "latex")
    assert model["python"].endswith("p**(2)")
    assert model["latex"].endswith("p^{2}")
    assert "p**(2)" in run(capsys, "model", "study", "--expression", "python")


def test_latex_functions_are_set_as_formulas_in_latex_tables(capsys: Capture, opened: Study) -> None:
    main(["model", "study", "--callpath", "f1", "--expression", "latex", "--format", "latex"])
    out = capsys.readouterr().out
    assert "$3 + p^{2}$" in out.replace("1 \\cdot ", "")
    assert "textbackslash" not in out


def test_the_choice_of_series(capsys: Capture, opened: Study) -> None:
    assert [m["callpath"] for m in rows(capsys, "model", "study", "--callpath", "f")] == ["f"]  # exact before part
    assert len(rows(capsys, "model", "study", "-m", "t")) == 3
    assert "no metric 'x'; there are 't'" in said(capsys, "model", "study", "-m", "x", code=2)
    assert "no call path contains 'nothing'" in said(capsys, "model", "study", "--callpath", "nothing", code=2)


def test_options_reach_the_modeller(capsys: Capture, opened: Study) -> None:
    words = ("model", "study", "--callpath", "f", "--powers", "3", "--no-cross-validation", "--measure", "maximum")
    (model,) = rows(capsys, *words)
    assert model["terms"][0]["exponents"] == {"p": ["3", "0"]}
    for modeler in ("refining", "segmented"):
        assert len(rows(capsys, "model", "study", "--modeler", modeler)) == 3
    assert "'x' is not a list of exponents" in said(capsys, "model", "study", "--powers", "x", code=2)
    assert "--method" in said(capsys, "model", "study", "--method", "magic", code=2)


def test_runner_ups_need_one_series(capsys: Capture, opened: Study) -> None:
    found = rows(capsys, "model", "study", "--callpath", "f1", "--runner-ups", "--at", "p=128")
    assert found[0]["order"] == "O(p^(2))"
    assert found[0]["prediction"] == pytest.approx(3 + 128**2)
    assert "3 are chosen" in said(capsys, "model", "study", "--runner-ups", code=2)


def test_plot(capsys: Capture, opened: Study, tmp_path: Path) -> None:
    out = tmp_path / "f.svg"
    assert run(capsys, "model", "study", "--callpath", "f1", "--plot", out, "--at", "p=128") == ""
    assert ElementTree.parse(out).getroot().tag.endswith("svg")
    assert "3 are chosen" in said(capsys, "model", "study", "--plot", out, code=2)


PICTURES = [("p.png", b"\x89PNG"), ("p.PDF", b"%PDF-"), ("p.svg", b"<svg"), ("p", b"<svg")]


@pytest.mark.parametrize(("name", "beginning"), PICTURES)
def test_a_plot_is_what_its_name_says(
    name: str, beginning: bytes, capsys: Capture, opened: Study, tmp_path: Path
) -> None:
    if name[1:] not in ("", ".svg"):
        try:
            import cairosvg  # noqa: F401
        except (ImportError, OSError) as error:
            need("plots", f"cairosvg: {error}")
    run(capsys, "model", "study", "--callpath", "f1", "--plot", tmp_path / name)
    content = (tmp_path / name).read_bytes()
    assert content.startswith(beginning)
    assert len(content) > 2000


def test_a_plot_that_cannot_be_is_refused(
    capsys: Capture, opened: Study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ("model", "study", "--callpath", "f1", "--plot")
    assert "plots are written as svg, png or pdf" in said(capsys, *words, tmp_path / "p.jpg", code=2)
    monkeypatch.setitem(sys.modules, "cairosvg", None)
    assert "pip install 'callgrove[plots]'" in said(capsys, *words, tmp_path / "p.png", code=1)
    assert list(tmp_path.iterdir()) == []


def test_extra_ps_report(capsys: Capture, opened: Study, tmp_path: Path) -> None:
    text = run(capsys, "model", "study", "--format", "extrap", "--callpath", "f2")
    assert text.splitlines()[:3] == [
        "Callpath: f2",
        "\tMetric: t",
        "\t\tMeasurement point: (4.00E+00) Mean: 7.00E+00 Median: 7.00E+00",
    ]
    assert text.endswith("\t\tModel: 7.0\n\t\tRSS: 0.00E+00\n\t\tAdjusted R^2: 1.00E+00\n")
    run(capsys, "model", "study", "--format", "extrap", "--callpath", "f2", "-o", tmp_path / "report.txt")
    assert (tmp_path / "report.txt").read_text() == text


def test_lists_are_those_of_the_series_chosen(capsys: Capture, opened: Study) -> None:
    assert run(capsys, "model", "study", "--print", "callpaths", "--callpath", "f2") == "f2\n"
    assert run(capsys, "model", "study", "--print", "metrics", "--callpath", "f2") == "t\n"


def test_runner_ups_are_suggested_where_they_are_known(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    points = [(p, n) for p in (4, 8, 16) for n in (1, 2, 3)]
    _opens(monkeypatch, study_of_many([[p * n for p, n in points]], points, ("p", "n")))
    assert main(["predict", "study", "--at", "p=1024,n=3"]) == 0
    text = capsys.readouterr().err
    assert "spread_low" in text
    assert "--runner-ups" not in text


def test_subtrees(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    study = study_of_many(LINES)
    object.__setattr__(study, "callpaths", ("main", "main->a", "main->a->b"))
    _opens(monkeypatch, study)
    found = {m["callpath"]: m for m in rows(capsys, "model", "study", "--subtrees")}
    assert found["main"]["constant"] == pytest.approx(11)
    assert found["main"]["models"] == 3
    assert found["main->a"]["order"] == "O(p^(2))"
    assert {row["trust"] for row in found.values()} == {"good"}
    assert found["main"]["reason"].endswith("within 0.0%")
    assert found["main"]["low"] <= found["main"]["prediction"] * (1 + 1e-9)
    main(["model", "study", "--subtrees"])
    out, err = capsys.readouterr()
    assert "trust" in out.splitlines()[0]
    assert "trust is that of predictions at p = 256" in err


def test_stored_models_are_shown_unless_new_ones_are_wanted(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    study = study_of_many(LINES)
    other = model_study(study_of_many([[5.0] * 5] * 3))
    _opens(monkeypatch, with_models(study, other, "old"))
    assert [m["function"] for m in rows(capsys, "model", "study")] == ["5.0"] * 3
    assert [m["order"] for m in rows(capsys, "model", "study", "--refit")] == ["O(p)", "O(p^(2))", "O(1)"]
    assert len(rows(capsys, "model", "study", "--stored", "old", "--callpath", "f1")) == 1
    assert "no set of models 'new'; there are 'old'" in said(capsys, "model", "study", "--stored", "new", code=2)


def test_predictions(capsys: Capture, opened: Study) -> None:
    found = rows(capsys, "predict", "study", "--at", "p=128")
    assert [m["callpath"] for m in found] == ["f1", "f", "f2"]
    assert found[0]["prediction"] == pytest.approx(3 + 128**2)
    assert found[1]["share"] == pytest.approx(100 * 257 / (3 + 128**2 + 257 + 7))
    assert found[1]["speedup"] == pytest.approx(32 * 9 / 257)
    assert found[1]["efficiency"] == pytest.approx(9 / 257)
    text = run(capsys, "predict", "study", "--at", "p=128", "--limit", "1")
    assert text.splitlines()[0].split()[:4] == ["callpath", "metric", "prediction", "low"]


@pytest.mark.parametrize("at", ["p", "p=", "=4", "p=x", "p=nan", "p=1,p=2", ""])
def test_points_that_are_none(capsys: Capture, opened: Study, at: str) -> None:
    assert "is not a point like p=4096,n=1e6" in said(capsys, "predict", "study", f"--at={at}", code=2)


def test_points_name_every_parameter(capsys: Capture, opened: Study) -> None:
    assert "no parameter 'q'" in said(capsys, "predict", "study", "--at", "p=1,q=2", code=2)


def test_what_a_user_needs_to_know_is_said(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    _opens(monkeypatch, study_of_many([[float("nan"), 5, 9, 17], [1, 2, 4, 8]], (1, 2, 4, 8)))
    assert main(["predict", "study", "--at", "p=1000"]) == 0
    err = capsys.readouterr().err
    assert "2 of 2 models, such as f: fewer than 5 points" in err
    assert "f: values that are not finite were left out" in err
    assert "p = 1000 is 125 times the largest measured (8)" in err


def test_strong_scaling_is_noticed_and_converted(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    _opens(monkeypatch, study_of_many([[100 / p + 2 for p in X]]))
    assert main(["model", "study"]) == 0
    assert "costs fall as p grows" in capsys.readouterr().err
    (model,) = rows(capsys, "model", "study", "--times", "p")
    assert model["constant"] == pytest.approx(100)
    assert model["terms"][0]["coefficient"] == pytest.approx(2)
    assert main(["model", "study", "--times", "p"]) == 0
    assert "costs fall" not in capsys.readouterr().err


def test_points_on_a_diagonal(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    _opens(monkeypatch, study_of_many([[p * p for p in X]], [(p, 3 * p) for p in X], "pq"))
    (model,) = rows(capsys, "model", "study", "--along", "p")
    assert model["terms"][0]["exponents"] == {"p": ["2", "0"]}
    assert "no parameter 'r'" in said(capsys, "model", "study", "--along", "r", code=2)
    points = grid((1, 2), (1, 2))
    _opens(monkeypatch, study_of_many([[1, 2, 3, 4]], points, "pq"))
    assert "several points have p = 1" in said(capsys, "model", "study", "--along", "p", code=2)


def test_saving_needs_a_format_that_holds_studies(capsys: Capture, opened: Study, tmp_path: Path) -> None:
    out = tmp_path / "study.d"
    text = said(capsys, "model", "study", "--save", out, code=2)
    assert "study.d" in text
    assert not out.exists()


def test_json_has_no_numbers_that_json_lacks(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    _opens(monkeypatch, study_of_many([[float("nan")] * 5, [0, 0, 0, 0, 5]]))
    text = run(capsys, "model", "study", "--format", "json")
    assert "NaN" not in text
    assert "Infinity" not in text
    first = json.loads(text)[0]
    assert (first["function"], first["constant"], first["smape"]) == (None, None, None)
    assert first["warnings"]


@pytest.mark.parametrize("width", [60, 80, 100, 120])
def test_a_narrow_terminal_keeps_every_judgement(
    width: int, capsys: Capture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(capsys, "demo", "--keep", tmp_path / "demo")
    study = tmp_path / "demo" / "scaling.txt"
    calls = (("predict", study, "--at", "p=4096,n=500"), ("model", study))
    wide = [run(capsys, *words) for words in calls]
    monkeypatch.setattr("callgrove.cli.output.stdout_look", lambda: Look(width=width))
    for words, whole in zip(calls, wide, strict=True):
        narrow = run(capsys, *words)
        headings = {word for line in narrow.splitlines() for word in line.split()}
        assert set(whole.splitlines()[0].split()) <= headings
        for row in whole.splitlines()[2:]:
            assert all(cell in narrow for cell in re.split(r"  +", row)[2:]), row  # call paths are cut
        assert words[0] == "model" or max(map(len, narrow.splitlines())) <= width


@pytest.mark.parametrize("value", ["1e308", "-1e308", "5e-324", "nan", "inf"])
def test_numbers_at_the_end_of_their_range(value: str, tmp_path: Path, capsys: Capture) -> None:
    """Nothing is said about them in NumPy's words: warnings are errors here."""
    path, page = tmp_path / "x.txt", tmp_path / "r.html"
    lines = ["PARAMETER p", "POINTS 4 8 16 32 1e308", "METRIC time", "REGION main"]
    path.write_text("\n".join([*lines, *(f"DATA {number} {number}" for number in (value, "1", "2", "1e308", value))]))
    for words in (["model", path], ["model", path, "--no-cross-validation"], ["predict", path, "--at", "p=1e308"]):
        run(capsys, *words)
    run(capsys, "report", path, "-o", page)


def test_a_limit_says_how_many_more_there_are(capsys: Capture, opened: Study) -> None:
    assert [m["callpath"] for m in rows(capsys, "model", "study", "--limit", "2")] == ["f", "f1"]
    assert run(capsys, "model", "study", "--limit", "1").splitlines()[-1] == "… and 2 more"
    for n in ("3", "4", "all"):
        assert "more" not in run(capsys, "model", "study", "--limit", n)
    assert len(run(capsys, "model", "study", "--limit", "0", "--format", "csv").splitlines()) == 1


def test_a_bar_shows_while_models_are_made(monkeypatch: pytest.MonkeyPatch, capsys: Capture, opened: Study) -> None:
    told = []

    @contextmanager
    def watched() -> Iterator[ProgressCallback]:
        yield lambda *words: told.append(words)

    monkeypatch.setattr("callgrove.cli.messages.progress", watched)
    run(capsys, "model", "study")
    assert told == [("fitting models", 3, 3)]
    run(capsys, "predict", "study", "--at", "p=100")
    assert told == [("fitting models", 3, 3)] * 2


def test_sets_of_models_are_named_renamed_and_removed(tmp_path: Path, capsys: Capture) -> None:
    points = {p: [4.0 * p + 10, 4.0 * p + 11] for p in (2, 4, 8, 16, 32)}
    text = "PARAMETER p\nPOINTS " + " ".join(map(str, points)) + "\nREGION main\nMETRIC time\n"
    (tmp_path / "s.txt").write_text(text + "".join(f"DATA {' '.join(map(str, v))}\n" for v in points.values()))
    one, two, three = (tmp_path / f"{k}.extra-p" for k in range(3))
    run(capsys, "model", tmp_path / "s.txt", "--save", one, "--set-name", "first")
    run(capsys, "model", one, "--refit", "--measure", "median", "--save", two, "--set-name", "second")
    sets = json.loads(run(capsys, "info", two, "--format", "json"))["models"]
    assert [one["name"] for one in sets] == ["first", "second"]
    run(capsys, "convert", two, three, "--rename-models", "first=mean", "--remove-models", "second")
    assert [m["name"] for m in json.loads(run(capsys, "info", three, "--format", "json"))["models"]] == ["mean"]
    for words, said_then in (
        (["--rename-models", "first=second"], "there is a set of models 'second' already"),
        (["--rename-models", "first"], "is not OLD=NEW"),
        (["--remove-models", "none"], "there is no set of models 'none'; there are 'first', 'second'"),
    ):
        assert said_then in said(capsys, "convert", two, tmp_path / "x.extra-p", *words, code=2)


def test_segmented_models_of_several_parameters_are_saved(tmp_path: Path, capsys: Capture) -> None:
    rows_ = [(p, n, 3.0 + 2.0 * n * (p if p <= 5 else p * p + 30)) for p in range(1, 11) for n in (1, 2, 4, 8, 16)]
    text = "PARAMETER p\nPARAMETER n\nPOINTS " + " ".join(f"({p} {n})" for p, n, _ in rows_)
    text += "\nREGION main\nMETRIC time\n" + "".join(f"DATA {v}\n" for *_, v in rows_)
    (tmp_path / "s.txt").write_text(text)
    target = tmp_path / "s.extra-p"
    fitted = rows(capsys, "model", tmp_path / "s.txt", "--modeler", "segmented", "--save", target)
    assert "for p<=5.0" in fitted[0]["function"]
    stored = rows(capsys, "model", target)
    assert stored[0]["function"] == fitted[0]["function"]
    at = [rows(capsys, "predict", path, "--at", "p=20,n=4", "--modeler", "segmented")[0]["prediction"] for path in
          (tmp_path / "s.txt", target)]  # fmt: skip
    assert at[0] == at[1] == pytest.approx(3 + 2 * 4 * 430)


def test_a_plot_of_a_ranking_shows_one_metric(tmp_path: Path, capsys: Capture) -> None:
    """An axis of seconds has no place for bytes."""
    study = tmp_path / "study.txt"
    lines = ["PARAMETER p", "POINTS 4 8 16 32 64"]
    for metric, factor in (("bytes", 1e6), ("time", 1.0)):
        lines += [f"METRIC {metric}"]
        for region in ("f", "g"):
            lines += [f"REGION {region}", *(f"DATA {factor * p} {factor * p * 1.001}" for p in (4, 8, 16, 32, 64))]
    study.write_text("\n".join(lines) + "\n")
    words = ["model", study, "--rank-by", "share", "--plot", tmp_path / "plot.svg"]
    assert "the plot shows time, one of 2 metrics; -m chooses another" in notes(capsys, *words)
    assert ">time<" in (tmp_path / "plot.svg").read_text()
    assert "the plot shows" not in notes(capsys, *words, "-m", "bytes")
    assert ">bytes<" in (tmp_path / "plot.svg").read_text()
