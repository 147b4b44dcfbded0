"""What notebooks show: small, complete in itself, and nothing but text."""

from __future__ import annotations

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

EVIL = "<img src=x onerror=alert(1)>"
ALLOWED = {"div", "table", "caption", "thead", "tbody", "tr", "th", "td", "p", "b"}


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
        assert attrs in ([], [("style", "text-align:left")])
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
    assert found.rows[0] == ["callpath", "metric", "function", "order", "smape", "ar2"]
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
