"""Models of two studies side by side, and arithmetic on studies."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from callgrove.errors import UsageError
from callgrove.model.study.arithmetic import add_intensity, add_total_energy
from callgrove.model.study.series import Statistics, Study
from tests.cli.commands import Capture, rows, said

P = (2.0, 4.0, 8.0, 16.0, 32.0)


def study(**series: list[float]) -> Study:
    """A study over p; `main__f` is the call path main->f."""
    entries = [
        (name.replace("__", "->"), "time", k, [value])
        for name, values in series.items()
        for k, value in enumerate(values)
    ]
    return Study.from_values(["p"], [[p] for p in P], entries)


LEFT = study(main=[10 + p for p in P], main__f=[3.0] * 5)
RIGHT = study(main=[40 + 2 * np.log2(p) for p in P], main__g=[1.0] * 5)


def test_functions_predictions_and_crossing() -> None:
    table = LEFT.compare_models(RIGHT, {"p": 256})
    first = {name: table[name][0] for name in table.names}
    assert first["path"] == "main"
    assert first["left_function"].endswith("p^(1)")
    assert "log2(p)^(1)" in first["right_function"]
    assert first["left"] == pytest.approx(266)
    assert first["right"] == pytest.approx(56)
    assert first["ratio"] == pytest.approx(266 / 56)
    at = first["crosses_at"]
    assert 10 + at == pytest.approx(40 + 2 * np.log2(at), rel=1e-4)
    assert first["larger_beyond"] == "left"
    assert (first["left_trust"], first["left_reason"]) == ("good", "within 0.0%")
    absent = dict(zip(table["path"], table["right_reason"], strict=True))
    assert absent["main->f"] is None
    assert sorted(zip(table["path"], table["present"], strict=True)) == [
        ("main", "both"),
        ("main->f", "left"),
        ("main->g", "right"),
    ]


def test_the_other_way_round() -> None:
    table = RIGHT.compare_models(LEFT, {"p": 256})
    assert (table["larger_beyond"][0], table["ratio"][0]) == ("right", pytest.approx(56 / 266))


def test_parameters_in_another_order() -> None:
    grid = [(p, n) for p in P for n in (1.0, 2.0, 4.0, 8.0, 16.0)]
    here = Study.from_values(["p", "n"], grid, [("f", "t", k, [5 + 3 * p * n]) for k, (p, n) in enumerate(grid)])
    there = Study.from_values(
        ["n", "p"], [(n, p) for p, n in grid], [("f", "t", k, [5 + 6 * p * n]) for k, (p, n) in enumerate(grid)]
    )
    table = here.compare_models(there, {"p": 64, "n": 32})
    assert (table["left"][0], table["right"][0]) == (pytest.approx(5 + 3 * 2048), pytest.approx(5 + 6 * 2048))


def test_nothing_in_common() -> None:
    with pytest.raises(UsageError, match=r"in both studies: .* of the left is main .*, of the right other"):
        LEFT.compare_models(study(other=[1.0] * 5), {"p": 64})
    other = Study.from_values(["n"], [[p] for p in P], [("main", "time", k, [1.0]) for k in range(5)])
    with pytest.raises(UsageError, match="have nothing in common"):
        LEFT.compare_models(other, {"p": 64})


def test_the_verb(tmp_path: Path, capsys: Capture) -> None:
    for name, made in (("a", LEFT), ("b", RIGHT)):
        points = "PARAMETER p\nPOINTS 2 4 8 16 32\nMETRIC time\n"
        regions = [
            f"REGION {s.callpath}\n" + "".join(f"DATA {v!r}\n" for v in s.mean.tolist()) for s in made.all_series()
        ]
        (tmp_path / f"{name}.txt").write_text(points + "".join(regions))
    pair = tmp_path / "a.txt", tmp_path / "b.txt"
    table = rows(capsys, "diff", *pair, "--models", "--at", "p=256")
    assert [row["path"] for row in table] == ["main", "main->f", "main->g"]
    assert table[0]["ratio"] == pytest.approx(266 / 56)
    assert rows(capsys, "diff", *pair, "--models")[0]["left"] == pytest.approx(10 + 128)
    assert "--sort is not for models" in said(capsys, "diff", *pair, "--models", "--sort", "ratio", code=2)


# -- arithmetic --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("rule", "main", "f"), [("sum", [7, 14], [6, 12]), ("maximum", [4, 8], [4, 8])])
def test_sums_and_maxima_along_the_tree(rule: str, main: list[float], f: list[float]) -> None:
    entries = [
        (path, "time", k, [factor * value, factor * value])
        for path, value in (("main", 1.0), ("main->f", 2.0), ("main->f->g", 4.0))
        for k, factor in enumerate((1, 2))
    ]
    made = Study.from_values(["p"], [[1], [2]], entries).aggregate(rule)
    assert made.series("main", "time").mean.tolist() == main
    assert made.series("main->f", "time").mean.tolist() == f
    assert made.series("main->f->g", "time").mean.tolist() == [4, 8]
    assert made.series("main", "time").repetitions.tolist() == [2, 2]


def test_repetitions_are_added_one_by_one() -> None:
    entries = [("m", "t", 0, [1.0, 2.0]), ("m->f", "t", 0, [10.0, 40.0])]
    made = Study.from_values(["p"], [[1]], entries).aggregate()
    assert made.values(0, 0).tolist() == [11, 42]


def test_means_are_added_where_values_are_unknown() -> None:
    entries = [("m", "t", 0, Statistics(mean=1.0)), ("m->f", "t", 0, Statistics(mean=2.0, std=0.5))]
    made = Study.from_statistics(["p"], [[1]], entries).aggregate()
    assert made.series("m", "t").mean.tolist() == [3]
    assert np.isnan(made.series("m", "t").std[0]), "nobody knows it of a sum"
    assert made.series("m->f", "t").std.tolist() == [0.5]


def test_energy_and_intensity() -> None:
    entries = [
        ("m", name, k, [value * (k + 1)])
        for name, value in (
            ("energy_cpu", 2.0),
            ("energy_gpu", 3.0),
            ("PAPI_DP_OPS", 800.0),
            ("UNC_M_CAS_COUNT:ALL", 25.0),
        )
        for k in range(2)
    ]
    plain = Study.from_values(["p"], [[1], [2]], entries)
    assert add_total_energy(plain).series("m", "energy").mean.tolist() == [5, 10]
    intensity = add_intensity(plain)
    assert intensity.series("m", "arithmetic intensity").mean.tolist() == [4, 4]
    assert intensity.ratios == ("arithmetic intensity",)
    with pytest.raises(UsageError, match="no metrics energy_"):
        add_total_energy(LEFT)
    with pytest.raises(UsageError, match="arithmetic intensity needs one of PAPI_DP_OPS"):
        add_intensity(LEFT)
    with pytest.raises(UsageError, match="no aggregation 'mean'"):
        LEFT.aggregate("mean")
