"""Runs by number, parameters and name."""

from __future__ import annotations

import pytest

from callgrove.errors import UsageError
from callgrove.model.runs import Run, choose_runs

RUNS = [
    Run("app.p4.n100.r1", {"p": 4.0, "n": 100.0}, 1),
    Run("app.p4.n100.r2", {"p": 4.0, "n": 100.0}, 2),
    Run("app.p4.n200.r1", {"p": 4.0, "n": 200.0}, 1),
    Run("app.p8.n100.r1", {"p": 8.0, "n": 100.0}, 1),
    Run("7", {"p": 16.0, "n": 100.0}, 1),
]


@pytest.mark.parametrize(
    ("wanted", "numbers"),
    [
        ("3", (3,)),
        ("0-1,3", (0, 1, 3)),
        ("2-", (2, 3, 4)),
        ("7", (4,)),  # a name counts before a number
        ("p=4", (0, 1, 2)),
        ("p=4,n=100", (0, 1)),
        ("n=100, p=4, r=2", (1,)),
        ("app.p4.n200.r1", (2,)),
        ("app.p4.*", (0, 1, 2)),
        ({1, 3, 99}, (1, 3)),
        (range(2), (0, 1)),
    ],
)
def test_runs_are_chosen(wanted: str | set[int] | range, numbers: tuple[int, ...]) -> None:
    assert choose_runs(RUNS, wanted) == numbers


@pytest.mark.parametrize("wanted", ["9", "p=5", "q=4", "app", "p=x", "", {99}])
def test_what_is_not_there_lists_what_is(wanted: str | set[int]) -> None:
    with pytest.raises(UsageError) as error:
        choose_runs(RUNS, wanted)
    for text in ("there are 5 runs", "0 app.p4.n100.r1 (p=4, n=100)", "4 7 (p=16, n=100)"):
        assert text in str(error.value)


def test_many_runs_are_not_all_listed() -> None:
    with pytest.raises(UsageError) as error:
        choose_runs([Run(f"run{k}") for k in range(100)], "nix")
    assert "31 run31; ..." in str(error.value)
