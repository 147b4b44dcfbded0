"""Unsigned counters that went below zero: exported as stored, left out of all that is computed."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import callgrove
from callgrove import Scope
from callgrove.algebra.cutting import part
from callgrove.algebra.operations import diff, mean, merge
from callgrove.analysis.costs import exclusive_by_profile
from callgrove.arrays import Ints
from callgrove.formats.cube.rows import StoredRows
from callgrove.model.experiment import Experiment
from tests.cli.commands import Capture, notes, rows
from tests.formats.cube.raw_cubes import Cube, Node, RawMetric

Rows = Mapping[int, tuple[int, ...]]
WRAPPED = 2**64 - 5
TREE: list[Node] = [(0, "main", [(1, "f", []), (2, "g", [])])]
STORED = {0: (100, 200, 300, 2**62), 1: (10, WRAPPED, 2**63, 2**63 - 1), 2: (7, 9, 0, 1)}
MEASURED = np.array([[100, 200, 300, 2**62], [10, 0, 0, 2**63 - 1], [7, 9, 0, 1]], np.uint64)  # from 2^63 on: nothing
SMALL = {0: (100, 200, 300, 400), 1: (10, WRAPPED, 2**63, 40), 2: (7, 9, 0, 1)}  # whose sums are exact


def opened(path: Path, stored: Rows, kind: str = "EXCLUSIVE") -> Experiment:
    found = callgrove.open(Cube(TREE, [RawMetric("cycles", kind, "UINT64", stored, uom="occ")]).write(path))
    assert isinstance(found, Experiment)
    return found


def measured_of(stored: Rows) -> np.ndarray[tuple[int, int], np.dtype[np.object_]]:
    return np.array([[v if v < 2**63 else 0 for v in row] for row in stored.values()], object)


def test_below_and_above_the_threshold(tmp_path: Path) -> None:
    experiment = opened(tmp_path / "wrapped.cubex", STORED)
    np.testing.assert_array_equal(experiment.matrix("cycles", Scope.EXCLUSIVE), MEASURED)
    total = experiment.totals("cycles", Scope.EXCLUSIVE)
    assert [int(v) for v in total] == [int(sum(map(int, row))) for row in MEASURED]


@pytest.mark.parametrize("kind", ["EXCLUSIVE", "INCLUSIVE"])
@pytest.mark.parametrize("scope", [Scope.EXCLUSIVE, Scope.INCLUSIVE])
def test_totals_are_the_matrix_over_all_profiles(kind: str, scope: Scope, tmp_path: Path) -> None:
    experiment = opened(tmp_path / "wrapped.cubex", SMALL, kind)
    matrix = experiment.matrix("cycles", scope).astype(object)
    assert matrix.sum(axis=1).tolist() == [int(v) for v in experiment.totals("cycles", scope)]
    measured = measured_of(SMALL)
    if kind == scope.value.upper():
        assert matrix.tolist() == measured.tolist()
    elif scope == Scope.INCLUSIVE:
        assert matrix[0].tolist() == measured.sum(axis=0).tolist()
    else:
        assert matrix[0].tolist() == (measured[0] - measured[1:].sum(axis=0)).tolist()


def test_every_view_has_the_same_numbers(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "wrapped.cubex"
    experiment = opened(path, SMALL)
    measured = measured_of(SMALL)
    by_context = measured.sum(axis=1).tolist()
    groups = [np.arange(3) == k for k in range(3)]
    assert exclusive_by_profile(experiment, "cycles", groups).tolist() == measured.tolist()
    assert {r["name"]: r["exclusive"] for r in rows(capsys, "top", path)} == dict(
        zip(("main", "f", "g"), by_context, strict=True)
    )
    exported = np.zeros((3, 4), object)
    for row in rows(capsys, "export", path, "--table", "values", "--scope", "exclusive"):
        exported[row["context"], row["profile"]] = row["value"]
    assert exported.tolist() == measured.tolist()
    asked = rows(capsys, "sql", path, "SELECT context, sum(value) AS n FROM exclusive_values GROUP BY 1 ORDER BY 1")
    assert [row["n"] for row in asked] == by_context


def test_what_is_stored_is_exported_as_stored(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "wrapped.cubex"
    experiment = opened(path, STORED)
    found = experiment.values.context(1)
    assert dict(zip(found.profile.tolist(), found.value.tolist(), strict=True)) == dict(enumerate(STORED[1]))
    exported = {
        (row["context"], row["profile"]): row["value"] for row in rows(capsys, "export", path, "--table", "values")
    }
    assert exported == {(c, p): v for c, row in STORED.items() for p, v in enumerate(row) if v}


def test_the_algebra_computes_with_what_was_measured(tmp_path: Path) -> None:
    experiment = opened(tmp_path / "wrapped.cubex", SMALL)
    wanted = measured_of(SMALL)
    for result in (mean(experiment, experiment), merge(experiment, experiment, conflict="first")):
        assert result.matrix("cycles", Scope.EXCLUSIVE).tolist() == wanted.tolist()
    other = opened(tmp_path / "other.cubex", {0: (1, 1, 1, 1), 1: (1, 1, 1, 1)})
    less = diff(experiment, other).matrix("cycles", Scope.EXCLUSIVE)
    assert less[1].tolist() == [9, -1, -1, 39]


@pytest.mark.parametrize("ending", ["cubex", "cgrove"])
def test_formats_that_tell_them_apart_keep_them(ending: str, tmp_path: Path, capsys: Capture) -> None:
    path, out = tmp_path / "wrapped.cubex", tmp_path / f"out.{ending}"
    opened(path, STORED)
    assert "lost" not in notes(capsys, "convert", path, out)
    again = callgrove.open(out)
    assert isinstance(again, Experiment)
    np.testing.assert_array_equal(again.matrix("cycles", Scope.EXCLUSIVE), MEASURED)
    assert again.values.context(1).value.tolist() == list(STORED[1])


def test_other_formats_leave_them_out_and_say_so(tmp_path: Path, capsys: Capture) -> None:
    path, out = tmp_path / "wrapped.cubex", tmp_path / "out.d"
    opened(path, SMALL)
    err = notes(capsys, "convert", path, out, "--to", "hpctoolkit-release")
    assert "lost: 2 values of cycles that nobody measured: counters that went below zero" in err
    again = callgrove.open(out)
    assert isinstance(again, Experiment)
    assert again.root_total("cycles") == measured_of(SMALL).sum()
    clean = {k: tuple(v if v < 2**63 else 1 for v in row) for k, row in SMALL.items()}
    opened(path, clean)
    assert "nobody measured" not in notes(capsys, "convert", path, tmp_path / "clean.d", "--to", "hpctoolkit-release")


def test_folders_that_keep_them_say_so_too_when_they_are_converted(tmp_path: Path, capsys: Capture) -> None:
    path, kept, out = tmp_path / "wrapped.cubex", tmp_path / "kept.cgrove", tmp_path / "out.d"
    opened(path, SMALL)
    notes(capsys, "convert", path, kept)
    err = notes(capsys, "convert", kept, out, "--to", "hpctoolkit-release")
    assert "lost: 2 values of cycles that nobody measured: counters that went below zero" in err


def test_only_those_of_chosen_profiles_count(tmp_path: Path) -> None:
    chosen = part(opened(tmp_path / "wrapped.cubex", SMALL), profiles={1, 3})
    losses = callgrove.write(chosen, tmp_path / "out.d", "hpctoolkit-release")
    assert "1 value of cycles that nobody measured: counters that went below zero" in losses


def test_values_are_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    experiment = opened(tmp_path / "wrapped.cubex", SMALL)
    read: list[int] = []
    decoded = StoredRows.decode

    def counted(self: StoredRows, rows: Ints, *more: Any) -> Any:
        read.extend(rows.tolist())
        return decoded(self, rows, *more)

    monkeypatch.setattr(StoredRows, "decode", counted)
    callgrove.write(experiment, tmp_path / "out.d", "hpctoolkit-release")
    assert sorted(read) == [0, 1, 2]
