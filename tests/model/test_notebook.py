"""What notebooks show: small, complete in itself, and nothing but text."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import numpy as np
import pytest

import callgrove
from callgrove.examples import example, gpu_example, study_example
from callgrove.model.builder import ExperimentBuilder
from callgrove.model.experiment import Severity
from callgrove.model.metrics import Metric, Scope
from callgrove.model.study.series import Study
from callgrove.model.table import UNCOUNTED, Table
from callgrove.model.values import Values
from callgrove.modeling.fitting import model_study
from callgrove.modeling.model_tables import model_tables
from tests.frames.trees import tree_t, tree_with

EVIL = "<img src=x onerror=alert(1)>"
ALLOWED = {"div", "table", "caption", "thead", "tbody", "tr", "th", "td", "p", "b", "span", "details", "summary"}
BAR = r"background:linear-gradient\(90deg,#[0-9a-f]{8} [0-9.]+%,transparent [0-9.]+%\)"
STYLE = re.compile(rf"text-align:left|margin-left:1\.2em|(float:right;width:8em;text-align:right)?;?({BAR})?")


class Reader(HTMLParser):
    """Checks that elements are few, known and closed; collects the cells."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.rows: list[list[str]] = []
        self.text = ""
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in ALLOWED
        for name, value in attrs:
            assert name in ("title", "open") or (name == "style" and STYLE.fullmatch(value or "")), (name, value)
        self.open.append(tag)
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data
        if self.open and self.open[-1] in ("td", "th"):
            self.rows[-1][-1] += data


def facts(text: str) -> dict[str, str]:
    return {row[0]: row[1] for row in Reader(text).rows}


def test_a_table() -> None:
    table = Table.from_rows(("name", "n", "share"), [("a", 3, 0.123456789), (None, 4, 2.0)])
    assert Reader(table._repr_html_()).rows == [["name", "n", "share"], ["a", "3", "0.123457"], ["", "4", "2"]]


def test_sentences_are_not_cut() -> None:
    """As that of a comparison, which ends with what matters least and is longer than a cell."""
    table = Table(
        Table.from_rows(["name"], [["f"]]).columns, notes=("b is slower: " + "solve 1 s more, " * 20 + "that is all",)
    )
    assert "that is all</p>" in table._repr_html_()


def test_a_long_and_wide_table_says_what_is_missing() -> None:
    names = [f"column {k}" for k in range(30)]
    table = Table.from_rows(names, [[k] * 30 for k in range(1_000)])
    found = Reader(table._repr_html_())
    assert (len(found.rows), len(found.rows[0])) == (21, 20)
    assert found.text.endswith("… and 980 more rows and 10 more columns")
    cut = Table(Table.from_rows(["a"], [[1]]).columns, UNCOUNTED)
    assert Reader(cut._repr_html_()).text.endswith("… and more rows")


def test_a_table_of_nothing() -> None:
    assert Reader(Table(())._repr_html_()).rows == [[]]
    assert Reader(Table.from_rows(["a"], [])._repr_html_()).rows == [["a"]]


def test_cells_are_bounded() -> None:
    assert len(Table.from_rows(["a"], [["<" * 10**6]] * 50)._repr_html_()) < 20_000


def widths(text: str) -> list[float]:
    """How much of each bar is filled."""
    return [float(width) for width in re.findall(r"#[0-9a-f]{8} ([0-9.]+)%", text)]


def test_shares_and_differences_have_bars() -> None:
    rows = [("a", 75.0, 4), ("b", 25.0, -2), ("c", None, 0)]
    shown = Table.from_rows(("name", "percent", "difference"), rows)._repr_html_()
    assert widths(shown) == [75, 100, 25, 50]
    assert Reader(shown).rows[1:] == [["a", "75", "4"], ["b", "25", "-2"], ["c", "", "0"]]
    assert len(set(re.findall(r"#[0-9a-f]{8}", shown))) == 2, "what is less has another colour"
    odd = Table.from_rows(("percent",), [(250.0,), (float("nan"),), (float("inf"),), ("<b>",)])._repr_html_()
    assert widths(odd) == [] or max(widths(odd)) <= 100
    assert "<b>" not in odd


class Folds(HTMLParser):
    """The names of a tree, each with the level it is nested in, and which are unfolded."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.level, self.in_name, self.is_leaf = 0, False, False
        self.names: list[tuple[int, str]] = []
        self.unfolded = 0
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.level += tag == "details"
        self.unfolded += tag == "details" and ("open", None) in attrs
        self.in_name = tag == "span" and not any(name == "style" for name, _ in attrs)
        self.is_leaf = tag != "summary" and (self.is_leaf if tag == "span" else tag == "div")

    def handle_endtag(self, tag: str) -> None:
        self.level -= tag == "details"
        self.in_name = False

    def handle_data(self, data: str) -> None:
        if self.in_name:
            self.names.append((self.level if self.is_leaf else self.level - 1, data))


def test_a_tree_unfolds() -> None:
    table = tree_t().tree()
    shown = table._repr_html_()
    Reader(shown)
    assert "<script" not in shown
    assert Folds(shown).names == list(zip(table["depth"], table["name"], strict=True))
    assert Folds(shown).unfolded == 3, "main, solve and kernel, which have most"
    assert Reader(shown).text.startswith("time: 224 sec in all")
    assert max(widths(shown)) == 100
    assert Folds(tree_t().tree(bottom_up=True)._repr_html_()).names[0] == (0, "kernel")
    assert [name for _, name in Folds(tree_t().hot_path()._repr_html_()).names] == ["main", "solve", "kernel"]


def test_a_large_tree_is_cut_to_its_costliest_rows() -> None:
    n = 5_000
    rows = [(0, "main"), *((1, f"f{k}") for k in range(n))]
    costs = np.arange(n + 1, dtype=float).reshape(-1, 1)
    shown = tree_with(rows, {"time": ("sec", costs)}).tree()._repr_html_()
    names = [name for _, name in Folds(shown).names]
    assert (len(names), names[:2]) == (300, ["main", "f4999"])
    assert Reader(shown).text.endswith("… and 4,701 more rows")
    assert len(shown) < 300_000


def test_a_deep_tree_is_nested_no_deeper_than_browsers_bear() -> None:
    rows = [(depth, f"f{depth}") for depth in range(200)]
    shown = tree_with(rows, {"time": ("sec", np.ones((200, 1)))}).tree()._repr_html_()
    Reader(shown)
    assert max(level for level, _ in Folds(shown).names) == 40
    assert len(Folds(shown).names) == 200


def test_names_of_a_tree_stay_text() -> None:
    for name in (
        EVIL,
        '" onmouseover="alert(1)',
        "</details></div><script>alert(1)</script>",
        "a\x1b[2J" + "x" * 10**6,
    ):
        shown = tree_with([(0, name), (1, name)], {"time": ("sec", np.ones((2, 1)))}).tree()._repr_html_()
        Reader(shown)
        assert len(shown) < 5_000


def test_an_experiment() -> None:
    found = facts(example()._repr_html_())
    assert found["profiles"] == "8"
    assert found["metrics"].startswith("CPUTIME (sec), ")
    assert "samples" in found["traces"]
    assert facts(gpu_example()._repr_html_())["traces"] == "102 spans"


def test_many_metrics_are_counted_and_those_to_be_seen_come_first() -> None:
    builder = ExperimentBuilder("made", title="made")
    for k in range(30):
        builder.add_metric(Metric(f"hidden {k} {'x' * 30}", Scope.EXCLUSIVE, visible=False))
    for name in ("instructions", "time"):
        builder.add_metric(Metric(name, Scope.EXCLUSIVE, unit="sec" if name == "time" else ""))
    assert facts(builder.build()._repr_html_())["metrics"] == "time, instructions and 30 more"
    for k in range(30):
        builder.add_metric(Metric(f"another {k} {'x' * 30}", Scope.EXCLUSIVE))
    found = facts(builder.build()._repr_html_())["metrics"]
    assert found.startswith("time, instructions, another 0 ")
    assert found.endswith(" and 59 more")  # of 62 three fit


def test_an_experiment_is_shown_without_reading_its_values(monkeypatch: pytest.MonkeyPatch) -> None:
    experiment = example()

    def refused(*_: object) -> None:
        raise AssertionError("values were read")

    for name in ("totals", "blocks", "profile", "context"):
        monkeypatch.setattr(Values, name, refused)
    assert experiment._repr_html_()


def test_a_study() -> None:
    found = facts(study_example()._repr_html_())
    assert found["points"] == "25"
    assert found["series"] == "4 (4 call paths)"
    assert found["parameter p"] == "4, 8, 16, 32, 64"


def test_models() -> None:
    models = callgrove.model_study(study_example())
    found = Reader(models._repr_html_())
    assert found.rows[0] == ["callpath", "metric", "function", "order", "smape", "ar2", "trust", "reason"]
    (table,) = model_tables(models, ["short"])
    assert [row[2] for row in found.rows[1:]] == table.column("short").plain()
    assert found.text.startswith("4 models over p, n")


def test_many_models() -> None:
    points = [(float(p),) for p in (2, 4, 8, 16, 32)]
    entries = [(f"f{k}", "time", n, [k + p]) for k in range(50) for n, (p,) in enumerate(points)]
    found = Reader(model_study(Study.from_values(["p"], points, entries))._repr_html_())
    assert len(found.rows) == 21
    assert found.text.endswith("… and 30 more rows")


def test_names_stay_text() -> None:
    builder = ExperimentBuilder(EVIL, EVIL, title=EVIL + "\u202e", path=EVIL)
    builder.add_metric(Metric(EVIL, Scope.EXCLUSIVE))
    for _ in range(9):
        builder.warn(Severity.DAMAGE, EVIL)
    found = Reader(builder.build()._repr_html_())
    assert "\\u202e" in found.text
    assert found.rows[-1] == ["and", "4 more of these"]
    assert ["metrics", EVIL] in found.rows
    table = Table.from_rows([EVIL], [[EVIL], ["a\x1b[2J"], [{"k": EVIL}]])
    assert [row[0] for row in Reader(table._repr_html_()).rows[:3]] == [EVIL, EVIL, "a\\x1b[2J"]
    points = [(float(p),) for p in (2, 4, 8, 16, 32)]
    study = Study.from_values([EVIL], points, [(EVIL, EVIL, n, [p]) for n, (p,) in enumerate(points)])
    assert [f"parameter {EVIL}", "2, 4, 8, 16, 32"] in Reader(study._repr_html_()).rows
    models = model_study(study)
    assert Reader(models._repr_html_()).rows[1][:2] == [EVIL, EVIL]
    assert not np.isnan(models.costs.smape[0])
