"""What more than one format says about losses."""

from __future__ import annotations

from callgrove.formats.interface import LossReport
from callgrove.formats.writing.writer import SHOWN, group_lines


def test_a_few_lines_of_one_kind_stay() -> None:
    lines = [f"metric m{k}: is left out" for k in range(SHOWN)] + [f"damaged values: place {k}" for k in range(SHOWN)]
    assert group_lines(lines) == lines


def test_many_lines_in_which_only_the_name_differs_are_one() -> None:
    lines = [
        "spans: 3 are left out",
        *(f"type of m {k}: UINT64 becomes DOUBLE" for k in range(80)),
        "parameters of runs",
    ]
    assert group_lines(lines) == [
        "spans: 3 are left out",
        "type of m 0, 1, 2, 3, 4 and 75 more: UINT64 becomes DOUBLE",
        "parameters of runs",
    ]
    names = [f"metric {name} (sec): is left out" for name in ("a", "b", "c", "d", "e", "f")]
    assert group_lines(names) == [
        "metric a (sec), b (sec), c (sec), d (sec), e (sec) and 1 more: is left out",
    ]


def test_many_lines_in_which_only_the_text_differs_are_one() -> None:
    lines = [f"damaged values: profile {k} is cut off" for k in range(SHOWN + 1)]
    assert group_lines(lines) == ["damaged values: 6 of them, the first is profile 0 is cut off"]


def test_notes_keep_how_they_begin() -> None:
    notes = [f"lost: metric m{k}: scope lexical" for k in range(6)]
    assert group_lines([*notes, "metric m0: scope lexical"]) == [
        "lost: metric m0, m1, m2, m3, m4 and 1 more: scope lexical",
        "metric m0: scope lexical",
    ]


def test_lines_without_a_colon_are_never_one() -> None:
    lines = [f"something else {k}" for k in range(20)]
    assert group_lines(lines) == lines


def test_reports_give_one_line_for_many_of_one_kind() -> None:
    report = LossReport()
    for number in range(80):
        report.add(f"attachment {number}: its name cannot be used in a Cube file")
    assert len(report.losses) == 80
    assert report.lines == ["attachment 0, 1, 2, 3, 4 and 75 more: its name cannot be used in a Cube file"]
