"""Series that lack points become part of the call path above them."""

from __future__ import annotations

import math

from callgrove.model.study.fill_missing_points import fill_missing_points
from callgrove.model.study.series import Study


def study(*entries: tuple[str, int, list[float]]) -> Study:
    return Study.from_values(["p"], [[1], [2]], [(path, "t", point, values) for path, point, values in entries])


def test_a_complete_study_stays() -> None:
    whole = study(("a", 0, [1]), ("a", 1, [2]))
    assert fill_missing_points(whole) is whole


def test_values_add_up() -> None:
    """Arithmetic of the specification: means add, standard deviations as if independent."""
    found = fill_missing_points(study(("a", 0, [1, 3]), ("a", 1, [5, 5]), ("a->b->c", 0, [10, 16])))
    assert found.callpaths == ("a",)
    assert found.mean.tolist() == [[2 + 13, 5]]
    assert (found.minimum.tolist(), found.maximum.tolist()) == ([[11, 5]], [[19, 5]])
    assert found.std.tolist() == [[math.hypot(1, 3), 0]]
    assert found.repetitions.tolist() == [[2, 2]]
    assert [found.values(0, p).tolist() for p in (0, 1)] == [[], [5, 5]]
    assert "1 series lacks points and was added to the call path above them: a->b->c (t)" in found.warnings[0].text
    assert found.validate() == []


def test_points_are_taken_over_and_folding_goes_on() -> None:
    found = fill_missing_points(
        study(("a", 0, [1]), ("a", 1, [2]), ("a->b", 0, [4]), ("a->b->c", 1, [8]), ("a->d", 1, [16]))
    )
    assert found.callpaths == ("a", "a->b")
    assert found.mean.tolist() == [[1, 2 + 16], [4, 8]]
    assert found.validate() == []


def test_what_has_no_ancestor_is_left_out() -> None:
    found = fill_missing_points(study(("a", 0, [1]), ("a", 1, [2]), ("b", 0, [4])))
    assert found.callpaths == ("a",)
    assert "left out: b (t)" in found.warnings[0].text


def test_inclusive_series_are_left_out() -> None:
    found = fill_missing_points(study(("a", 0, [1]), ("a", 1, [2]), ("a->b", 0, [4])), fold=False)
    assert (found.callpaths, found.mean.tolist()) == (("a",), [[1, 2]])
    assert [found.values(0, p).tolist() for p in (0, 1)] == [[1], [2]]


def test_series_that_may_be_incomplete_stay() -> None:
    from dataclasses import replace

    tagged = replace(
        study(("a", 0, [1]), ("a", 1, [2]), ("a->b", 0, [4])),
        callpath_tags={"a->b": {"validation__ignore__num_measurements": True}},
    )
    assert fill_missing_points(tagged) is tagged
