"""Models as Extra-P prints them, against what it printed for the same measurements."""

from __future__ import annotations

import gzip
import json
import math
from pathlib import Path

from callgrove.modeling.fitting import model_study
from callgrove.render.extrap_print import extrap_report
from tests.modeling.series import study_of_oracle


def test_the_report_is_extra_ps(shared: Path) -> None:
    """But for the last digits of coefficients, and two functions that fit exactly, or but for rounding."""
    with gzip.open(shared / "acceptance" / "expected" / "extrap" / "own.scaling.runs.json.gz") as file:
        study = study_of_oracle(json.load(file))
    ours = blocks("".join(extrap_report(model_study(study))))
    theirs = blocks((shared / "data" / "own" / "scaling" / "extrap.print-all.txt").read_text())
    assert len(ours) == len(study)
    differing = [
        (a, b)
        for key, lines in ours.items()
        for a, b in zip(lines, theirs[key], strict=True)
        if a != b and not same_function(a, b)
    ]
    assert len(differing) <= 4, differing


def blocks(report: str) -> dict[tuple[str, str], list[str]]:
    """Lines by call path and metric. Extra-P's own has blocks for series that were not measured, with stale numbers."""
    found: dict[tuple[str, str], list[str]] = {}
    callpath, lines = "", []
    for line in filter(None, report.splitlines()):
        if line.startswith("Callpath: "):
            callpath = line
        elif line.startswith("\tMetric: "):
            lines = found.setdefault((callpath, line), [])
        else:
            lines.append(line)
    return found


def same_function(one: str, other: str) -> bool:
    """`Model:` lines with the same words and nearly the same numbers."""
    words, others = one.split(), other.split()
    return words[:1] == ["Model:"] and len(words) == len(others) and all(map(same_word, words, others))


def same_word(one: str, other: str) -> bool:
    try:
        return math.isclose(float(one), float(other), rel_tol=1e-5, abs_tol=1e-9)
    except ValueError:
        return one == other
