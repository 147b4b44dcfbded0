"""What `python -m bench.scale` computes of what it ran, and how the page shows both."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench import scale
from bench.scale import Figure, Question, as_table, exponent, go_on, make_spans, next_value, write

BEFORE, AFTER = Figure(1000, 2.0, 100.0), Figure(10_000, 20.0, 100.0)


def test_exponents_are_those_above_what_starting_takes() -> None:
    squares, linear = ([0.5 + b * (n / 1000) ** e for n in (10, 100, 1000)] for b, e in ((3.0, 2.0), (7.0, 1.0)))
    assert exponent(squares) == pytest.approx(2.0)
    assert exponent(linear) == pytest.approx(1.0)
    assert next_value(linear) == pytest.approx(70.5)
    assert next_value(linear[1:]) == pytest.approx(70.5), "of two sizes, each further one takes the same"
    assert next_value([3.0, 2.0, 1.0]) == 1.0
    assert next_value([0.1, 0.3, 0.4]) == pytest.approx(1.4), "what comes to its end hides what goes on growing"


def test_what_was_not_run_says_so() -> None:
    beyond = go_on([BEFORE, AFTER])
    assert (beyond.n, beyond.seconds, beyond.peak_mb) == pytest.approx((100_000, 200.0, 100.0))
    assert not beyond.is_run
    table = as_table([(Question("top", ["top"], "profiles"), [BEFORE, AFTER, beyond])])
    assert "| `top` | 10,000 profiles | 20.00 s | 2,000.00 us | 100 MB | run |" in table
    assert "| `top` | 100,000 profiles | 200.00 s | 2,000.00 us | 100 MB | computed |" in table
    assert "`top` of profiles: time 1.00, memory 1.00 (assumed)" in table


def test_the_figures_of_a_page_are_replaced(tmp_path: Path) -> None:
    page = tmp_path / "scale.md"
    page.write_text(f"before\n{scale.BEGIN}\nold\n{scale.END}\nafter\n")
    write("new", page)
    write("newer", page)
    assert page.read_text() == f"before\n{scale.BEGIN}\n\nnewer\n{scale.END}\nafter\n"
    assert scale.PAGE.read_text().count(scale.BEGIN) == 1


def test_many_spans_take_the_disk_of_one_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scale, "SPANS_OF_FILE", 100)
    files = list(make_spans(tmp_path, 300).iterdir())
    assert len(files) == 3
    assert len({file.stat().st_ino for file in files}) == 1
