"""`callgrove diff --left ... --right ...`: exit codes, formats, what is said and what is refused."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

import callgrove
from callgrove.analysis.gate.decision import Gate, gate
from callgrove.cli.main import main
from callgrove.cli.messages import with_flags
from callgrove.cli.verbs.gate import share
from callgrove.render.gate_report import LONGEST, junit_text, markdown_text
from tests.analysis.gates import make_runs
from tests.cli.commands import Capture, said

FUNCTIONS = {"kernel": 12.0, "solve": 5.0, "exchange": 2.0}
MARKS = "vector<int>::f(a|b) & \"quoted\" 'x' *y* \x1b[31m"


def costs(n: int, seed: int, s: float = 0.002, **factors: float) -> dict[str, list[float]]:
    random = np.random.default_rng(seed)
    return {
        name: (cost * factors.get(name, 1.0) * np.exp(s * random.standard_normal(n))).tolist()
        for name, cost in FUNCTIONS.items()
    }


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., list[str]]:
    """The paths of runs on disk, each made once."""
    folder = tmp_path_factory.mktemp("runs")

    def make(side: str, n: int, seed: int, s: float = 0.002, **factors: float) -> list[str]:
        paths = []
        for number, run in enumerate(make_runs(costs(n, seed, s, **factors))):
            path = folder / f"{side}.{n}.{number}.cubex"
            if not path.exists():
                callgrove.write(run, path)
            paths.append(str(path))
        return paths

    return make


def asked(capsys: Capture, left: list[str], right: list[str], *more: str) -> tuple[int, str, str]:
    """The exit code, and what is printed and said."""
    capsys.readouterr()
    code = main(["diff", "--left", *left, "--right", *right, *more])
    out, err = capsys.readouterr()
    return code, out, err


FAIL = ("--fail-above", "3%")


def test_a_slower_function_has_an_exit_code_of_its_own(capsys: Capture, runs: Callable[..., list[str]]) -> None:
    left, right = runs("left", 6, 1), runs("slow", 6, 2, kernel=1.2)
    code, out, err = asked(capsys, left, right, *FAIL)
    assert code == 5
    assert re.search(r"slower +12\.0 s +14\.4 s +\+\d+\.\d% +0\.0011 .* 6\+6 +kernel", out)
    assert "slower: kernel +" in err
    assert "6 and 6 repetitions: changes above" in err
    assert asked(capsys, left, right)[0] == 0, "nothing fails unless it is told when"
    assert asked(capsys, right, left, *FAIL)[0] == 0, "faster is not a failure"


def test_no_change_and_no_decision(capsys: Capture, runs: Callable[..., list[str]]) -> None:
    left, right = runs("left", 6, 1), runs("same", 6, 3)
    assert asked(capsys, left, right, *FAIL)[0] == 0
    assert asked(capsys, left, right, *FAIL, "--strict")[0] == 0
    noisy = runs("noisy", 6, 4, s=0.1), runs("noisier", 6, 5, s=0.1)
    assert asked(capsys, *noisy, *FAIL)[0] == 0
    code, _, err = asked(capsys, *noisy, *FAIL, "--strict")
    assert code == 4
    assert err.splitlines()[-1] == "callgrove: these repetitions do not decide about 3%"
    assert re.search(r"3 rows are too noisy for 3%: kernel \(needs \d+ repetitions\)", err)
    assert asked(capsys, *noisy, "--fail-above", "300%", "--strict")[0] == 0


def test_too_few_repetitions(capsys: Capture, runs: Callable[..., list[str]]) -> None:
    left, right = runs("left", 6, 1)[:3], runs("slow", 6, 2, kernel=1.2)[:3]
    code, out, err = asked(capsys, left, right, *FAIL, "--format", "json")
    rows: list[dict[str, Any]] = json.loads(out)
    assert (code, {row["verdict"] for row in rows}, {row["p"] for row in rows}) == (0, {"unclear"}, {None})
    assert "3 and 3 repetitions cannot tell: 20 orders, none rarer than 5%; at least 5 repetitions" in err
    assert asked(capsys, left, right, *FAIL, "--strict")[0] == 4
    code, _, err = asked(capsys, left, right, *FAIL, "--assume-noise", "1%")
    assert code == 5
    assert "a noise of 1% was assumed and not measured" in err


def test_one_run_of_each_side(capsys: Capture, runs: Callable[..., list[str]]) -> None:
    left, right = runs("left", 6, 1)[:1], runs("slow", 6, 2, kernel=1.2)[:1]
    code, out, err = asked(capsys, left, right, *FAIL)
    assert (code, out) == (2, "")
    assert "--fail-above: one run of each side says nothing about noise" in err
    code, out, _ = asked(capsys, left, right, "--format", "csv")
    assert code == 0
    assert [row["p"] for row in csv.DictReader(io.StringIO(out))] == [""] * 3
    assert asked(capsys, left, right, *FAIL, "--assume-noise", "1%")[0] == 5
    assert asked(capsys, left, right, *FAIL, "--assume-noise", "10%")[0] == 0


def test_rows_can_be_call_paths(capsys: Capture, runs: Callable[..., list[str]]) -> None:
    code, out, _ = asked(capsys, runs("left", 6, 1), runs("same", 6, 3), "--by", "path", "--format", "json")
    assert code == 0
    assert {row["path"] for row in json.loads(out)} == {"main->kernel", "main->solve", "main->exchange"}
    _, out, _ = asked(capsys, runs("left", 6, 1), runs("same", 6, 3), "--min-share", "50%", "--format", "json")
    assert [row["path"] for row in json.loads(out)] == ["kernel"]


def test_numbers_in_data_are_not_rounded(capsys: Capture, runs: Callable[..., list[str]]) -> None:
    left, right = runs("left", 6, 1), runs("slow", 6, 2, kernel=1.2)
    _, out, _ = asked(capsys, left, right, "--format", "json", *FAIL)
    expected = gate([callgrove.open(path) for path in left], [callgrove.open(path) for path in right])  # type: ignore[misc]
    assert json.loads(out) == list(expected.table())
    _, limited, err = asked(capsys, left, right, "--format", "csv", "--limit", "1")
    assert len(limited.splitlines()) == 2
    assert "2 more rows" in err


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["--left", "L"], "--right is missing"),
        (["--right", "R"], "--left is missing"),
        (["--left", "L", "--right", "R", "--by", "name"], "--by name cannot be used"),
        (["--left", "L", "--right", "R", "--scope", "inclusive"], "--scope inclusive cannot be used"),
        (["--left", "L", "--right", "R", "--source"], "--source cannot be used"),
        (["--left", "L", "--right", "R", "--write", "w.d"], "--write cannot be used"),
        (["L", "R", "--fail-above", "3%"], "--fail-above needs repetitions"),
        (["L", "R", "--assume-noise", "3%"], "--assume-noise needs repetitions"),
        (["L", "R", "--format", "junit"], "--format junit needs repetitions"),
        (["L", "R", "--by", "function"], "--by function needs --left and --right"),
        ([], "PATH is missing, or repetitions"),
        (["--left", "L", "--right", "R", "--fail-above", "3"], "'3' would be 300%; say 3% if that is meant"),
        (["--left", "L", "--right", "R", "--fail-above=-3%"], "'-3%' is not a share"),
        (["--left", "L", "--right", "R", "--fail-above", "nan"], "'nan' is not a share"),
        (["--left", "L", "--right", "R", "--fail-above", "x%"], "'x%' is not a share"),
        (["--left", "L", "--right", "R", "--fail-above", "0%"], "--fail-above 0.0: is not a change above 0"),
        (["--left", "L", "--right", "R", "--alpha", "60%"], "--alpha 0.6: is not a share from 0.0001"),
        (["--left", "L", "--right", "R", "-m", "tme"], "tme"),
        (["--left", "L", "--right", "R", "--derive", "x = 2 * time"], "--derive: x is not in this table"),
        (["--left", "L", "--right", "nowhere.d"], "nowhere.d"),
    ],
)
def test_what_is_refused(capsys: Capture, runs: Callable[..., list[str]], words: list[str], text: str) -> None:
    paths = {"L": runs("left", 6, 1)[0], "R": runs("same", 6, 3)[0]}
    code = 3 if "nowhere.d" in words else 2
    assert text in said(capsys, "diff", *(paths.get(word, word) for word in words), code=code)


def test_paths_beside_the_sides_are_refused(capsys: Capture, runs: Callable[..., list[str]]) -> None:
    left, right = runs("left", 6, 1), runs("same", 6, 3)
    text = said(capsys, "diff", left[0], "--left", left[1], "--right", right[0], code=2)
    assert text == f"{left[0]}: is on no side; name it behind --left or --right"
    text = said(capsys, "diff", "--left", left[0], left[1], left[0], "--right", *right, code=2)
    assert text == f"{left[0]}: is named twice behind --left, and is one repetition"
    assert "3 paths are on both sides" in asked(capsys, left, [*right, *left[:3]])[2]
    assert "1 path is on both sides" in asked(capsys, left, [*right, left[0]])[2]
    assert "is an input" in said(capsys, "diff", "--left", *left, "--right", *right, "-o", right[2], code=2)


@pytest.mark.parametrize(("text", "value"), [("3%", 0.03), ("0.03", 0.03), ("0.5%", 0.005), ("120%", 1.2), ("1", 1.0)])
def test_shares(text: str, value: float) -> None:
    assert share(text) == pytest.approx(value)


# -- formats -----------------------------------------------------------------------------------------------------------


def named(report_names: dict[str, str], n: int = 6, **factors: float) -> Gate:
    """A gate whose functions have other names."""
    left, right = costs(n, 1), costs(n, 2, **factors)
    before, after = ({report_names.get(name, name): row for name, row in side.items()} for side in (left, right))
    return gate(make_runs(before), make_runs(after))


def write(cost: float) -> str:
    return f"{cost:.1f} s"


def test_markdown(capsys: Capture, runs: Callable[..., list[str]]) -> None:
    code, out, _ = asked(capsys, runs("left", 6, 1), runs("slow", 6, 2, kernel=1.2), "--format", "markdown", *FAIL)
    assert code == 5
    lines = out.splitlines()
    assert lines[0] == "## time: slower"
    folded = out.index("<details>")
    assert out.index("| slower |") < folded < out.index("| same |") < out.index("</details>")
    assert "6 and 6 repetitions: changes above" in out
    assert [line.count("|") for line in lines if line.startswith("|")] == [10] * 7


def compose_markdown(report: Gate) -> str:
    return markdown_text(report, report.shown, write, with_flags)


def test_names_show_as_they_are_in_markdown() -> None:
    text = compose_markdown(named({"kernel": MARKS}, kernel=1.2))
    row = next(line for line in text.splitlines() if line.startswith("| slower"))
    assert r"vector\<int\>::f(a\|b) \&" in row
    assert r"\*y\* \\x1b\[31m" in row
    assert r"slower: vector\<int\>" in text.splitlines()[2]
    assert "\x1b" not in text


def test_markdown_is_no_longer_than_a_comment() -> None:
    """All rows that are not shown are counted; the verdict and the slower rows stay."""
    random = np.random.default_rng(1)
    names = [f"{'n' * 150}{k}" for k in range(600)]
    left = {name: np.exp(0.001 * random.standard_normal(6)).tolist() for name in names}
    right = {**left, names[17]: [2.0, 2.01, 2.02, 1.99, 2.0, 2.03]}
    report = gate(make_runs(left), make_runs(right), min_share=0)
    text = compose_markdown(report)
    assert LONGEST / 3 < len(text) <= LONGEST
    n_shown = sum(line.startswith(("| same", "| slower")) for line in text.splitlines())
    assert f"{600 - n_shown} more rows are left out." in text
    assert "| slower |" in text
    all_slower = gate(
        make_runs(left), make_runs({name: [2 * v for v in row] for name, row in left.items()}), min_share=0
    )
    assert len(compose_markdown(all_slower)) <= LONGEST


def test_junit(capsys: Capture, runs: Callable[..., list[str]]) -> None:
    code, out, _ = asked(capsys, runs("left", 6, 1), runs("slow", 6, 2, kernel=1.2), "--format", "junit", *FAIL)
    suite = ElementTree.fromstring(out)
    assert (code, suite.tag, suite.get("tests"), suite.get("failures")) == (5, "testsuite", "3", "1")
    assert (suite.get("errors"), suite.get("skipped")) == ("0", "0")
    failure = suite.find("testcase[@name='kernel']/failure")
    assert failure is not None
    assert re.fullmatch(r"kernel: 12\.0 s -> 14\.4 s \(\+\d+\.\d%, p 0\.0011\)", failure.get("message", ""))


# What the schema that Jenkins and GitLab read allows: attributes by element, and what may be inside.
SCHEMA = {
    "testsuite": ({"name", "tests", "failures", "errors", "skipped", "time"}, ["testcase", "system-out"]),
    "testcase": ({"name", "classname", "time"}, ["skipped", "failure"]),
    "skipped": ({"message"}, []),
    "failure": ({"message", "type"}, []),
    "system-out": (set(), []),
}


def test_junit_keeps_to_the_schema() -> None:
    """Names are escaped, counts agree, and an undecided row is skipped."""
    report = named({"kernel": MARKS, "solve": "a\ud800b", "exchange": "]]>"}, kernel=1.2)
    for made, expected in ((report, (1, 0)), (named({}, n=3), (0, 3))):
        suite = ElementTree.fromstring(junit_text(made, made.shown, write, with_flags).encode("utf-8"))
        for element in suite.iter():
            attributes, children = SCHEMA[element.tag]
            assert set(element.attrib) <= attributes
            assert [children.index(child.tag) for child in element] == sorted(children.index(c.tag) for c in element)
        counts = int(suite.get("failures", "")), int(suite.get("skipped", ""))
        assert counts == expected == (len(suite.findall(".//failure")), len(suite.findall(".//skipped")))
        assert int(suite.get("tests", "")) == len(suite.findall("testcase")) == 3


@pytest.mark.parametrize("form", ["junit", "markdown", "csv", "table"])
def test_where_and_limit_hold_in_every_format(capsys: Capture, runs: Callable[..., list[str]], form: str) -> None:
    """Rows of what is printed are chosen; the verdict and the exit code are those of all rows."""
    left, right = runs("left", 6, 1), runs("slow", 6, 2, kernel=1.2)
    row = {"junit": 'name="{}"', "csv": "\n{},"}.get(form, " {}")
    code, out, err = asked(capsys, left, right, *FAIL, "--where", "left < 2500ms", "--format", form)
    assert code == 5
    assert "2 of 3 rows do not fulfil --where" in err
    assert [row.format(name) in out for name in ("exchange", "solve")] == [True, False]
    _, out, _ = asked(capsys, left, right, *FAIL, "--limit", "1", "--format", form)
    assert [row.format(name) in out for name in ("kernel", "solve")] == [True, False]


REFUSED = {
    "--sort": ["ratio"],
    "--only": ["left"],
    "--scaling": ["weak"],
    "--processes": ["4,8"],
    "--match": ["names.csv"],
    "--ignore": ["module"],
    "--system": ["collapse"],
    "--to": ["cube"],
    "--force": [],
}


@pytest.mark.parametrize("flag", REFUSED)
def test_what_repetitions_do_not_have_is_refused(capsys: Capture, runs: Callable[..., list[str]], flag: str) -> None:
    code, out, err = asked(capsys, runs("left", 6, 1), runs("same", 6, 3), flag, *REFUSED[flag])
    assert (code, out) == (2, "")
    assert f"{flag} cannot be used with --left and --right" in err


@pytest.mark.parametrize("flags", [["--alpha", "1%"], ["--min-share", "1%"], ["--ignore", "module"], ["--by", "name"]])
def test_what_plain_tables_do_not_have_is_refused(
    capsys: Capture, runs: Callable[..., list[str]], flags: list[str]
) -> None:
    assert flags[0] in said(capsys, "diff", *runs("left", 6, 1)[:2], *flags, code=2)


def test_output_by_the_ending_of_a_file(capsys: Capture, runs: Callable[..., list[str]], tmp_path: Path) -> None:
    target = tmp_path / "gate.md"
    code, out, err = asked(capsys, runs("left", 6, 1), runs("same", 6, 3), *FAIL, "-o", str(target))
    assert (code, out) == (0, "")
    assert "not slower: a change of 3% would have been seen in all 3 rows" in err
    assert target.read_text("utf-8").startswith("## time: not slower\n")


def test_help_lists_the_exit_code(capsys: Capture) -> None:
    assert main(["--help"]) == 0
    assert "5 slower (diff --fail-above)" in capsys.readouterr().out
    assert main(["diff", "--help"]) == 0
    assert "--fail-above CHANGE" in capsys.readouterr().out
