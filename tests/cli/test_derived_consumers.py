"""Derived metrics through the command line, in verbs that show tables of all metrics, compare, query and model."""

from __future__ import annotations

from pathlib import Path

import pytest

from callgrove.cli.main import main
from tests.cli.commands import Capture, notes, rows, run, said
from tests.formats.cube.raw_cubes import R1_TIME_INCLUSIVE, R1_TREE, R1_VISITS, Cube, RawMetric, r1

TPV = ("--derive", "tpv = time / visits")
REFUSED = "broken is a derived metric (postderived): line 1, column 17: "
AS_TABLE = ("--format", "table")
FORMULAS = {
    "pervisit": ("POSTDERIVED", "metric::time() / metric::visits()"),
    "half": ("PREDERIVED_EXCLUSIVE", "metric::time(e) / 2"),
    "broken": ("POSTDERIVED", "metric::time() +"),
    "needy": ("POSTDERIVED", "2 * metric::broken()"),
}


def refusal(capsys: Capture, *words: object) -> str:
    """The last sentence that a command says when it fails: others are about the input."""
    capsys.readouterr()
    assert main([str(word) for word in words]) == 2
    return capsys.readouterr().err.splitlines()[-1].removeprefix("callgrove: ")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return r1().write(tmp_path / "r1.cubex")


@pytest.fixture
def cube(tmp_path: Path) -> Path:
    """Two formulas that can be evaluated, one that cannot, and one that needs it."""
    stored = [
        RawMetric("time", "INCLUSIVE", rows=R1_TIME_INCLUSIVE),
        RawMetric("visits", dtype="UINT64", rows=R1_VISITS, uom="occ"),
    ]
    derived = [RawMetric(n, kind, inside=f"<cubepl>{text}</cubepl>") for n, (kind, text) in FORMULAS.items()]
    return Cube(R1_TREE, [*stored, *derived]).write(tmp_path / "derived.cubex")


@pytest.mark.parametrize(("scope", "value"), [("exclusive", 5 / 10), ("inclusive", 14 / 17)])
def test_export_and_sql_have_the_value_of_a_cell(path: Path, capsys: Capture, scope: str, value: float) -> None:
    """main -> foo on the first thread: 5 s in 10 visits, 14 s in 17 with what is below."""
    made = rows(capsys, "export", path, "--table", "values", *TPV, "-m", "tpv", "--scope", scope)
    assert [row["value"] for row in made if (row["profile"], row["context"]) == (0, 1)] == [value]
    query = f"SELECT value FROM {scope}_values JOIN metrics USING (metric) WHERE name = 'tpv' AND profile = 0"
    assert [row["value"] for row in rows(capsys, "sql", path, *TPV, f"{query} AND context = 1")] == [value]
    assert rows(capsys, "sql", path, *TPV, "SELECT derived FROM metrics WHERE name = 'tpv'") == [
        {"derived": "postderived"}
    ]


def test_a_missing_value_is_an_empty_cell(path: Path, capsys: Capture) -> None:
    """MPI_Barrier took 4 s on two threads that never visited it; a sum with such a part is missing, not 0 nor `nan`."""
    options = ("--table", "values", "--derive", "x = each(time / visits)", "-m", "x", "--scope", "exclusive")
    lines = run(capsys, "export", path, *options).splitlines()
    barrier = [line.split(",") for line in lines if line.split(",")[1] == "6"]
    assert [cells[3] for cells in barrier] == ["1.0", "", "1.0", ""]
    assert [row["value"] for row in rows(capsys, "export", path, *options) if row["context"] == 6] == [1, None, 1, None]
    asked = "SELECT count(*) AS n, count(value) AS known FROM exclusive_values WHERE context = 6"
    named = "AND metric IN (SELECT metric FROM metrics WHERE name = 'x')"
    assert rows(capsys, "sql", path, "--derive", options[3], f"{asked} {named}") == [{"n": 4, "known": 2}]


def test_stored_values_say_what_is_not_among_them(path: Path, capsys: Capture) -> None:
    told = "left out: metric tpv: it is derived, and computed in scope exclusive or inclusive only"
    assert told in notes(capsys, "export", path, "--table", "values", *TPV)
    assert told in notes(capsys, "sql", path, *TPV, 'SELECT count(*) FROM "values"')
    refused = said(capsys, "export", path, "--table", "values", *TPV, "-m", "tpv", code=2)
    assert refused.endswith("of which nothing is stored; --scope exclusive and --scope inclusive compute it")


def test_export_goes_on_where_a_formula_cannot_be_evaluated(cube: Path, capsys: Capture) -> None:
    words = ("export", cube, "--table", "values", "--scope", "inclusive")
    names = [metric["name"] for metric in rows(capsys, "export", cube, "--table", "metrics")]
    assert {names[row["metric"]] for row in rows(capsys, *words)} == {"time", "visits", "pervisit", "half"}
    assert "left out: 2 metrics (broken, needy): they are derived, and cannot be evaluated" in notes(capsys, *words)
    assert refusal(capsys, *words, "-m", "broken").startswith(REFUSED)


def test_info_lists_formulas_and_why_some_have_no_values(cube: Path, capsys: Capture) -> None:
    listed = {row["name"]: row for row in rows(capsys, "info", cube, "--metrics")}
    assert [listed[name]["derived"] for name in ("time", "pervisit", "half")] == [
        None,
        "postderived",
        "prederived, exclusive",
    ]
    assert {name: listed[name]["formula"] for name in FORMULAS} == {n: text for n, (_, text) in FORMULAS.items()}
    assert listed["pervisit"]["unavailable"] is None
    assert "line 1, column" in listed["broken"]["unavailable"]
    assert "metric broken cannot be evaluated" in listed["needy"]["unavailable"]
    assert "4 metrics computed from others, 2 of which cannot be evaluated" in run(capsys, "info", cube)


def test_info_shows_the_beginning_of_a_long_formula(path: Path, capsys: Capture) -> None:
    long = " + ".join(["time"] * 40)
    text = run(capsys, "info", path, "--metrics", "--format", "table")
    assert "formula" not in text.splitlines()[0]
    cube = RawMetric("long", "POSTDERIVED", inside=f"<cubepl>{long.replace('time', 'metric::time()')}</cubepl>")
    other = Cube(R1_TREE, [RawMetric("time", rows=R1_TIME_INCLUSIVE), cube]).write(path.with_name("long.cubex"))
    shown = run(capsys, "info", other, "--metrics")
    assert "metric::time() + metric::time() + metric::time() + metric::t ..." in shown
    assert len(max(shown.splitlines(), key=len)) < 200


def test_diff_compares_formulas_without_adding_them_up(path: Path, capsys: Capture) -> None:
    words = ("diff", path, path, "-m", "tpv = time / visits", "--limit", "all")
    found = {row["path"]: row for row in rows(capsys, *words, "--flat")}
    assert (found["foo"]["left"], found["foo"]["difference"], found["foo"]["ratio"]) == (42 / 112, 0, 1)
    assert notes(capsys, *words, *AS_TABLE) == ""
    assert "e: 256 s in" in notes(capsys, "diff", path, path, "-m", "e = time + time", "--limit", "1", *AS_TABLE)


def test_models_of_formulas(capsys: Capture, shared: Path) -> None:
    runs = shared / "data" / "own" / "scaling" / "runs"
    made = rows(capsys, "model", runs, "-m", "tpv = time / visits", "--callpath", "MPI_Init")
    assert [row["metric"] for row in made] == ["tpv"]
    twice = rows(capsys, "export", runs, "--table", "series", "--derive", "twice = 2 * time")
    mean = {
        (row["metric"], row["callpath"], row["p"], row["n"]): row["mean"]
        for row in twice
        if row["metric"] in ("time", "twice")
    }
    pairs = [(value, mean["time", *key[1:]]) for key, value in mean.items() if key[0] == "twice"]
    assert len(pairs) > 500
    assert all(two == pytest.approx(2 * one, rel=1e-12) for two, one in pairs)
    assert main(["model", str(runs), "-m", "tpv = time / visits", "--times", "p"]) == 2
    *before, error = capsys.readouterr().err.splitlines()
    assert "does not add up" in error
    assert [text for text in before if "a value of a run is" not in text] == []
    predicted = rows(capsys, "predict", runs, "-m", "tpv = time / visits", "--at", "p=64,n=1000", "--limit", "3")
    assert [row["share"] for row in predicted] == [None] * 3


@pytest.mark.parametrize("formula", ["time / (visits - visits)", "time - time"])
def test_formulas_without_values_are_no_unknown_metrics(formula: str, capsys: Capture, shared: Path) -> None:
    runs = shared / "data" / "own" / "scaling" / "runs"
    nothing = "x has no value other than 0 in any run, so that it has no series"
    assert nothing in said(capsys, "model", runs, "-m", f"x = {formula}", code=2)
    assert nothing in notes(capsys, "export", runs, "--table", "series", "--derive", f"x = {formula}")


def test_models_of_the_files_own_formulas_are_made_when_they_are_named(
    cube: Path, capsys: Capture, tmp_path: Path
) -> None:
    for number in (2, 4, 8):
        (folder := tmp_path / "runs" / f"app.p{number}.r1").mkdir(parents=True)
        (folder / "profile.cubex").write_bytes(cube.read_bytes())
    runs = tmp_path / "runs"
    made = rows(capsys, "model", runs, "-m", "pervisit", "--callpath", "main->foo", "--scaling", "strong")
    assert [(row["callpath"], row["metric"], row["constant"]) for row in made if row["callpath"] == "main->foo"] == [
        ("main->foo", "pervisit", pytest.approx(26 / 100))
    ]
    assert {row["metric"] for row in rows(capsys, "model", runs)} == {"time", "visits"}
    assert refusal(capsys, "model", runs, "-m", "broken").startswith(REFUSED)
