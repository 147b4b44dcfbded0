"""Spread plots show the numbers of `imbalance`."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from callgrove.errors import UsageError
from callgrove.examples import example
from tests.formats.stacks.reading_back import tree_t

SVG = "{http://www.w3.org/2000/svg}"


def rows_of(picture: str) -> dict[str, list[str]]:
    """What each row tells where the mouse is: the name, then statistics."""
    root = ElementTree.fromstring(picture)
    told = [(title.text or "").split("\n") for group in root.iter(f"{SVG}g") for title in group.iter(f"{SVG}title")]
    return {name: lines for name, *lines in told}


def test_numbers_of_the_specification() -> None:
    rows = rows_of(str(tree_t().spread()))
    assert list(rows)[:3] == ["kernel", "write", "MPI_Allreduce"]
    assert rows["kernel"] == [
        *("min 24.0 sec", "p25 25.5 sec", "median 27.0 sec", "p75 30.5 sec", "max 38.0 sec", "slowest: rank 3")
    ]


def test_rows_are_those_of_the_table() -> None:
    experiment = example()
    rows = rows_of(str(experiment.spread(over="thread", limit=5)))
    table = experiment.imbalance(over="thread", limit=5)
    assert list(rows) == table["name"]
    assert [lines[-1] for lines in rows.values()] == [f"slowest: {name}" for name in table["slowest"]]
    assert [lines[4] for lines in rows.values()] == [f"max {most!r} sec" for most in table["max"]]


def test_dots_and_boxes_lie_on_the_axis() -> None:
    """Places are proportional to costs: kernel has 24, 26, 28 and 38 s."""
    root = ElementTree.fromstring(str(tree_t().spread(limit=1)))
    (group,) = root.iter(f"{SVG}g")
    *dots, slowest = (float(circle.get("cx", "")) for circle in group.iter(f"{SVG}circle"))
    steps = [(place - dots[0]) / (slowest - dots[0]) for place in dots]
    assert steps == pytest.approx([0, 2 / 14, 4 / 14, 1], abs=0.01)
    box = group.find(f"{SVG}rect")
    assert box is not None
    left, width = float(box.get("x", "")), float(box.get("width", ""))
    assert (left - dots[0]) / (slowest - dots[0]) == pytest.approx(1.5 / 14, abs=0.01)
    assert width / (slowest - dots[0]) == pytest.approx(5 / 14, abs=0.01)


def test_what_is_left_and_what_is_equal_is_said() -> None:
    picture = tree_t().spread(limit=2)
    assert "7 more rows are left out" in picture.notes[-1]
    assert "all equal" in str(tree_t().spread())


def test_refused() -> None:
    with pytest.raises(UsageError, match="no scope 'function'"):
        tree_t().spread(scope="function")
    with pytest.raises(UsageError, match="no profile has a gpu"):
        tree_t().spread(over="gpu")
    with pytest.raises(UsageError, match="width of 1 pixels"):
        tree_t().spread(width=1)
