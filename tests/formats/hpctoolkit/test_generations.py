"""From one generation of databases to the other and back: what both can hold survives, the report names the rest."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from callgrove.model.contexts import ContextKind
from callgrove.model.experiment import Experiment
from callgrove.model.metrics import Aggregation, Scope
from tests.formats.hpctoolkit import prerelease_layout, release_layout
from tests.formats.samples import databases
from tests.formats.written import PRERELEASE, RELEASE, bits, damage, described, lines, read, write
from tests.requirements import SHARED

RELEASED = sorted({*databases("release"), *(path.parent for path in SHARED.glob("data/**/meta.db"))})
PRERELEASED = sorted({*databases("prerelease"), *SHARED.glob("data/own/hpctoolkit-prerelease/*.d")})
BOTH = ("function", "inclusive")
NO_ACTIVITY = "<no activity>"
Row = tuple[Any, ...]


def name(path: Path) -> str:
    return f"{path.parent.name}-{path.name}"


def tree_of(experiment: Experiment) -> dict[int, Row]:
    """The tree by id, without the context of idle samples: its id is the writer's own."""
    rows = {row[0]: row[1:] for row in described(experiment.contexts)}
    return {id_: row for id_, row in rows.items() if row[1] != "elided" and row[3] != NO_ACTIVITY}


def lines_that_call(experiment: Experiment) -> set[int]:
    """Ids of lines with something below them."""
    tree = experiment.contexts
    above = {p for p in tree.parent.tolist() if p >= 0 and tree.kind[p] == ContextKind.LINE}
    return {int(tree.source_id[line]) for line in above}


def views(experiment: Experiment) -> list[Row]:
    """Columns in the scopes that both generations have; formulas by what they are made of."""
    named = {m.source_id: f"<{m.name} {m.scope.word}>" for m in experiment.metrics}
    out = []
    for column in experiment.metrics.columns:
        if column.scope in (Scope.INCLUSIVE, Scope.FUNCTION):
            formula = column.formula
            for id_ in sorted((i for i in named if i is not None), reverse=True):
                formula = formula.replace(f"${id_}", named[id_])
            out.append((column.name, column.statistic, column.scope.word, formula, column.visible, column.show_percent))
    return sorted(out)


def assert_same_profiles(old: Experiment, new: Experiment) -> None:
    a, b = old.profiles, new.profiles
    assert [a.identifiers.rows(p) for p in a.measured] == [b.identifiers.rows(p) for p in b.measured]
    assert a.kind[a.measured].tolist() == b.kind[b.measured].tolist()
    assert a.identifiers.names == b.identifiers.names


def assert_same_sources(old: Experiment, new: Experiment) -> None:
    def texts(experiment: Experiment) -> dict[str, list[str]]:
        paths = experiment.contexts.regions.files.paths
        found = {paths[file]: experiment.sources.lines(file) for file in experiment.sources.copies}
        return {path: text for path, text in found.items() if text}  # a copy that is not there is not promised

    assert texts(new) == texts(old)


@pytest.mark.parametrize("path", RELEASED, ids=name)
def test_released_to_prerelease_and_back(path: Path, tmp_path: Path) -> None:
    old = read(path)
    lost = write(old, tmp_path / "other.d", PRERELEASE).losses
    assert any(loss.startswith("metrics") and "point" in loss for loss in lost)
    prerelease_layout.check_layout(tmp_path / "other.d")
    other = read(tmp_path / "other.d")
    write(other, tmp_path / "back.d", RELEASE)
    release_layout.check_layout(tmp_path / "back.d")
    new = read(tmp_path / "back.d")
    assert damage(tmp_path / "other.d") == damage(tmp_path / "back.d") == []
    assert tree_of(new) == tree_of(old)
    kept = {key: value for key, value in bits(old).items() if key[3] in BOTH}
    found = bits(new)
    assert found.keys() == kept.keys()
    callers = lines_that_call(old)
    changed = {key for key in kept if kept[key] != found[key]}
    assert all(context in callers and scope == "inclusive" for _, context, _, scope in changed)
    for quantity in old.metrics.quantities:
        totals = [e.totals(quantity, Scope.INCLUSIVE)[: e.contexts.n_listed] for e in (old, new)]
        if old.metrics.first(quantity).aggregation == Aggregation.SUM:
            assert totals[1].sum() == pytest.approx(totals[0].sum(), rel=1e-12)
        else:  # a ratio has no value where nothing was measured
            roots = old.contexts.roots
            assert totals[1][roots] == pytest.approx(totals[0][roots], rel=1e-12, nan_ok=True)
            assert (np.isnan(totals[1]) == np.isnan(totals[0])).all()
    assert lines(new) == lines(old)
    assert new.title == other.title == old.title
    assert set(views(old)) <= set(views(other)) == set(views(new))  # metrics without a column get one
    assert_same_profiles(old, other)
    assert_same_profiles(old, new)
    assert_same_sources(old, new)


@pytest.mark.parametrize("path", PRERELEASED, ids=name)
def test_prerelease_to_released_and_back(path: Path, tmp_path: Path) -> None:
    old = read(path)
    write(old, tmp_path / "other.d", RELEASE)
    release_layout.check_layout(tmp_path / "other.d")
    write(read(tmp_path / "other.d"), tmp_path / "back.d", PRERELEASE)
    prerelease_layout.check_layout(tmp_path / "back.d")
    new = read(tmp_path / "back.d")
    assert damage(tmp_path / "other.d") == damage(tmp_path / "back.d") == []
    assert tree_of(new) == tree_of(old)
    assert bits(new) == bits(old)
    idle = [{r[0] for r in described(e.contexts) if r[4] == NO_ACTIVITY} | {0} for e in (old, new)]
    samples = [
        {p: [(t, 0 if c in known else c) for t, c in line] for p, line in lines(e).items()}
        for e, known in zip((old, new), idle, strict=True)
    ]
    assert samples[1] == samples[0]
    assert new.traces.time_range == old.traces.time_range
    assert [(m.name, m.scope, m.source_id, m.visible) for m in new.metrics] == [
        (m.name, m.scope, m.source_id, m.visible) for m in old.metrics
    ]
    assert views(new) == views(old)
    assert_same_profiles(old, new)
    assert_same_sources(old, new)
