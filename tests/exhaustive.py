"""What `make test` leaves out: whole grids, large sizes, all pairs. `make test-all` and continuous integration run it.

Whatever is marked here only adds cases to something that `make test` runs as well. Continuous integration also tries
more random examples: all that a test names, where `make test` tries one in four.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

__all__ = ["EXAMPLES_IN_CI", "adds_cases", "exhaustive", "grids_of", "some_of", "try_examples", "whole_or_some"]

EXAMPLES_IN_CI = 100  # of a test that names no number

exhaustive = pytest.mark.exhaustive

# For tests of a grid: a selection of it, and all of it.
whole_or_some = pytest.mark.parametrize(
    "whole", [pytest.param(False, id="some"), pytest.param(True, id="all", marks=exhaustive)]
)


IN_BROWSERS = ("test_calltree.py", "test_report.py")  # every view of pages of every kind, which run always
CLUSTERS = {"mpirun", "scheduler"}  # fixtures that start processes which find each other
# Inputs of ../shared with the same kinds of records as smaller ones: tests of them would take an eighth of the time.
LARGE_INPUTS = ("gxx_s", "wide4x2", "loops-cuda-nvidiapc-t", "loops-cputime-t.m")


def adds_cases(item: pytest.Item) -> bool:
    """Tell whether a test is exhaustive by where it is: most of those in browsers, those of verbs on clusters, which
    tests/execution covers for all, and benches; or by the large input that its name ends with."""
    folder, name = item.path.parent.name, item.path.name
    if folder == "browser":
        return name not in IN_BROWSERS
    is_large = any(large in item.name.partition("[")[2] for large in LARGE_INPUTS)
    return (
        is_large
        or name == "test_bench.py"
        or (folder != "execution" and not CLUSTERS.isdisjoint(getattr(item, "fixturenames", ())))
    )


def some_of(cases: Iterable[Any], is_kept: Callable[[Any], bool], ids: Callable[[Any], str] = str) -> list[Any]:
    """Parameters of a test: those that `is_kept` chooses run always, all others are exhaustive."""
    return [pytest.param(case, id=ids(case), marks=() if is_kept(case) else exhaustive) for case in cases]


def grids_of(cases: Sequence[Any], is_kept: Callable[[Any], bool], ids: Callable[[Any], str] = str) -> list[Any]:
    """Parameters (case, whole): a selection of the grids of those that `is_kept` chooses, and the whole ones of all."""
    some = [pytest.param(case, False, id=f"{ids(case)}-some") for case in cases if is_kept(case)]
    return [*some, *(pytest.param(case, True, id=f"{ids(case)}-all", marks=exhaustive) for case in cases)]


def try_examples(number: int, *suppressed: HealthCheck) -> settings:
    """Try `number` random examples in continuous integration; elsewhere fewer, in proportion to the profile."""
    profile = settings()
    return settings(
        max_examples=max(1, number * profile.max_examples // EXAMPLES_IN_CI),
        suppress_health_check=[*profile.suppress_health_check, *suppressed],
    )
