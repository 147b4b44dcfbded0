"""Writing released databases: what was given comes back, the bytes follow the rules, failures leave nothing behind."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given

from callgrove.arrays import ABSENT
from callgrove.binary.files import Source
from callgrove.examples import example
from callgrove.formats.hpctoolkit.prerelease.format import FORMAT as PRERELEASE
from callgrove.formats.interface import ReadOptions
from callgrove.model.contexts import ContextKind, ContextTree
from callgrove.model.experiment import Experiment, Severity
from callgrove.model.metrics import Scope
from tests.exhaustive import EXAMPLES_IN_CI, try_examples
from tests.formats.hpctoolkit import raw_databases
from tests.formats.hpctoolkit.pieces import Writing, writings
from tests.formats.hpctoolkit.release_layout import check_layout
from tests.formats.samples import databases
from tests.formats.written import RELEASE, assert_equal, bits, damage, lines, read, sound_but_for_sums, write
from tests.model.strategies import experiments
from tests.requirements import SHARED

RELEASED = sorted({*databases("release"), *(path.parent for path in SHARED.glob("data/**/meta.db"))})
PRERELEASED = databases("prerelease")
STORED = {Scope.POINT: "point", Scope.FUNCTION: "function", Scope.LEXICAL: "lex_aware", Scope.INCLUSIVE: "execution"}


# -- what was given comes back -------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", RELEASED, ids=lambda path: path.name)
def test_released_databases_survive(path: Path, tmp_path: Path) -> None:
    old = read(path)
    assert write(old, tmp_path / "new.d").losses == []
    new = read(tmp_path / "new.d")
    assert_equal(old, new)
    assert set(old.metrics.columns) <= set(new.metrics.columns)
    assert [list(values) for values in _roots(new)] == [list(values) for values in _roots(old)]
    assert damage(tmp_path / "new.d") == []
    assert not new.warnings or {w.severity for w in new.warnings} == {Severity.MISSING}


def _roots(experiment: Experiment) -> Iterator[Any]:
    """What the file's own root holds in each measured profile."""
    for profile in experiment.profiles.measured.tolist():
        rows, values = experiment.values.backend.root(profile)  # type: ignore[attr-defined]
        yield sorted(zip(rows.tolist(), values.tolist(), strict=True))


def test_the_example_survives(tmp_path: Path) -> None:
    old = example()
    assert write(old, tmp_path / "new.d").losses == []
    assert_equal(old, read(tmp_path / "new.d"))
    assert damage(tmp_path / "new.d") == []


def test_copied_sources_come_along(tmp_path: Path) -> None:
    [path] = [path for path in databases("release") if path.name == "mpi4.d"]
    write(read(path), tmp_path / "new.d")
    assert {p.relative_to(path): p.read_bytes() for p in path.glob("src/**/*") if p.is_file()} == {
        p.relative_to(tmp_path / "new.d"): p.read_bytes() for p in (tmp_path / "new.d").glob("src/**/*") if p.is_file()
    }
    old, new = read(path), read(tmp_path / "new.d")
    assert dict(new.sources.copies) == dict(old.sources.copies)
    assert [new.sources.lines(file) for file in new.sources.copies] == [
        old.sources.lines(file) for file in old.sources.copies
    ]


@pytest.mark.parametrize("path", PRERELEASED, ids=lambda path: path.name)
def test_prerelease_databases_become_released_ones(path: Path, tmp_path: Path) -> None:
    old = PRERELEASE.read(Source.of(path), ReadOptions())
    write(old, tmp_path / "new.d")
    new = read(tmp_path / "new.d")
    assert damage(tmp_path / "new.d") == []
    check_layout(tmp_path / "new.d")
    for quantity in old.metrics.quantities:
        assert new.root_total(quantity) == pytest.approx(old.root_total(quantity), rel=1e-12)
        totals = [e.totals(quantity, Scope.EXCLUSIVE) for e in (old, new)]
        by_id = [
            {i: v for i, v in zip(e.contexts.source_id.tolist(), t.tolist(), strict=True) if v}
            for e, t in zip((old, new), totals, strict=True)
        ]
        assert by_id[1] == pytest.approx(by_id[0])
    assert_calls_lie_in_their_lines(old.contexts, new.contexts)


def assert_calls_lie_in_their_lines(old: ContextTree, new: ContextTree) -> None:
    """The pre-release tree lists the call sites of a line beside it."""
    rows = dict(zip(new.source_id.tolist(), range(len(new)), strict=True))
    moved = np.flatnonzero((old.kind == ContextKind.CALL) & (old.within != old.parent) & (old.within >= 0))
    for call in moved.tolist():
        line = int(old.source_id[old.within[call]])
        assert int(new.source_id[new.parent[rows[int(old.source_id[call])]]]) == line


# -- the bytes -----------------------------------------------------------------------------------------------------


def check_bytes(folder: Path, experiment: Experiment) -> None:
    """The rules of the format, and both orders of values against each other and against the experiment."""
    layout = check_layout(folder)
    by_profile, by_context = raw_databases.values_by_profile(folder), raw_databases.values_by_context(folder)
    assert by_context == {key: value for key, value in by_profile.items() if key[0] > 0}
    names = {id_: key for key, id_ in layout.scope_ids.items()}
    stored = {(p, c, *names[m]): value for (p, c, m), value in by_profile.items() if p > 0 and c > 0}
    assert stored == {(p, c, n, STORED[Scope(s)]): v for (p, c, n, s), v in bits(experiment).items()}
    assert {p: s for p, s in raw_databases.samples(folder).items() if s} == {
        p + 1: s for p, s in lines(experiment).items()
    }


@pytest.mark.parametrize("path", RELEASED, ids=lambda path: path.name)
def test_bytes_of_rewritten_databases(path: Path, tmp_path: Path) -> None:
    write(read(path), tmp_path / "new.d")
    check_bytes(tmp_path / "new.d", read(path))
    genuine = [row for row in raw_databases.values_by_profile(path).items() if row[0][0] > 0]
    written = [row for row in raw_databases.values_by_profile(tmp_path / "new.d").items() if row[0][0] > 0]
    assert sorted(written) == sorted(genuine)


def test_bytes_of_the_example(tmp_path: Path) -> None:
    write(example(), tmp_path / "new.d")
    check_bytes(tmp_path / "new.d", example())
    layout = check_layout(tmp_path / "new.d")
    assert layout.entries == [(1, 1, "main thread"), (38, 2, "application thread")]
    [solve] = [context for context in layout.contexts if context.function == "solve"]
    assert (solve.relation, solve.lexical_type) == (1, 0)
    loops = {(c.file, c.line, c.module) for c in layout.contexts if c.lexical_type == 1}
    assert ("/home/user/stencil/stencil.c", 88, "/home/user/stencil/stencil") in loops


def test_the_summary_is_the_sum_of_the_threads(tmp_path: Path) -> None:
    write(example(), tmp_path / "new.d")
    rows = raw_databases.values_by_profile(tmp_path / "new.d")
    value = {key: np.uint64(bits).view(np.float64) for key, bits in rows.items()}
    totals: dict[tuple[int, int], float] = {}
    for (profile, context, metric), number in value.items():
        if profile:
            totals[context, metric] = totals.get((context, metric), 0.0) + number
    assert totals == {(context, metric): number for (p, context, metric), number in value.items() if not p}


# -- random experiments --------------------------------------------------------------------------------------------


@try_examples(EXAMPLES_IN_CI, HealthCheck.function_scoped_fixture)
@given(writing=writings(Scope.INCLUSIVE, Scope.POINT, Scope.FUNCTION, Scope.LEXICAL))
def test_random_experiments_survive(writing: Writing, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "new.d"
    report = writing.to(target, RELEASE, monkeypatch)
    check_layout(target)
    assert sound_but_for_sums(target)
    old, new = writing.experiment, read(target)
    if "ids of contexts: they are numbered anew" in report.losses:
        numbers = np.arange(1, len(old.contexts) + 1)
        old = replace(old, contexts=replace(old.contexts, source_id=numbers))
    known = set(old.contexts.source_id.tolist())
    assert {key: value for key, value in bits(new).items() if key[1] in known} == bits(old)
    assert len(new.profiles.measured) == len(old.profiles.measured)
    assert_same_tree(old.contexts, new.contexts)


def assert_same_tree(old: ContextTree, new: ContextTree) -> None:
    """Every context of the tree is below the same one; at the top, below itself or below an `unknown entry`."""
    kept = dict(zip(new.source_id.tolist(), range(len(new)), strict=True))
    for context in range(old.n_listed):
        here = kept[int(old.source_id[context])]
        parent, above = int(old.parent[context]), int(new.parent[here])
        if parent >= 0:
            assert int(new.source_id[above]) == int(old.source_id[parent])
            assert new.relation[here] == old.relation[context]
        elif old.kind[context] == ContextKind.ENTRY:
            assert above == ABSENT
        else:
            assert new.label(above) == "unknown entry"


@try_examples(50, HealthCheck.function_scoped_fixture)
@given(experiment=experiments(composite=True, n_runs=2, deep=True))
def test_anything_can_be_written(experiment: Experiment, tmp_path: Path) -> None:
    """Also what does not fit: it is named in the report, and what is written is sound."""
    target = tmp_path / "new.d"
    shutil.rmtree(target, ignore_errors=True)
    report = write(experiment, target)
    check_layout(target)
    new = read(target)
    assert not new.damage
    assert sound_but_for_sums(target)
    assert "attributes: made by" in report.losses
    assert len(new.contexts) >= experiment.contexts.n_listed
