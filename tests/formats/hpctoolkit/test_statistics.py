"""Summaries with several statistics: written as what their names say, in both generations, and there and back."""

from __future__ import annotations

from pathlib import Path

import pytest

from callgrove.binary.files import Source
from callgrove.formats.interface import Checks, ReadOptions
from callgrove.formats.registry import detect
from callgrove.model.builder import ExperimentBuilder
from callgrove.model.contexts import ContextKind, Relation
from callgrove.model.experiment import Experiment, Severity
from callgrove.model.metrics import Aggregation, Column, Metric, Scope
from callgrove.model.profiles import ProfileKind
from tests.formats.written import PRERELEASE, RELEASE, damage, read, write

OF_THREADS = {0: [1.0, 2.0, 4.0], 1: [1.0, 2.0, 4.0], 2: [0.0, -3.0, 0.5]}  # context -> inclusive value of each thread
AGGREGATIONS = {"count": Aggregation.SUM, "sum of squares": Aggregation.SUM}
AGGREGATIONS |= {"min": Aggregation.MINIMUM, "max": Aggregation.MAXIMUM}


def made(*statistics: str) -> Experiment:
    """Three threads, `main thread > f > a.c:3`, one metric in both scopes, and rows for statistics of a summary."""
    out = ExperimentBuilder("made up", title="statistics")
    file = out.file("/a.c")
    regions = [out.region(ContextKind.ENTRY, "main thread"), out.region(ContextKind.FUNCTION, "f")]
    regions.append(out.region(ContextKind.LINE, file=file, line=3))
    kinds = (ContextKind.ENTRY, ContextKind.FUNCTION, ContextKind.LINE)
    relations = (Relation.CALL, Relation.CALL, Relation.LEXICAL)
    for number, (kind, region, relation) in enumerate(zip(kinds, regions, relations, strict=True)):
        out.add_context(number - 1, kind, region, relation, source_id=number + 1)
    out.add_profile(ProfileKind.SUMMARY, source_id=0)
    for scope in (Scope.INCLUSIVE, Scope.FUNCTION):
        row = out.add_metric(Metric("time (sec)", scope, unit="sec"))
        for context, values in OF_THREADS.items():
            for thread, value in enumerate(values):
                if value and (scope == Scope.INCLUSIVE or context):
                    out.add_values(thread + 1, context, row, [value])
        for statistic in statistics:
            out.add_metric(Metric("time (sec)", scope, statistic=statistic, aggregation=AGGREGATIONS[statistic]))
    for thread in range(3):
        out.add_profile(ProfileKind.THREAD, [(3, thread, thread, 3)], source_id=thread + 1)
    return out.build()


def expected(statistics: tuple[str, ...]) -> dict[tuple[str, int, str], float]:
    """(scope, context, statistic) -> what the summary has to hold; zeros are not stored."""
    out: dict[tuple[str, int, str], float] = {}
    for scope in ("inclusive", "function"):
        for context, values in OF_THREADS.items():
            present = [value for value in values if value]
            if scope == "inclusive" or context:
                out[scope, context, "count"] = len(present)
                out[scope, context, ""] = sum(present)
                out[scope, context, "sum of squares"] = sum(value**2 for value in present)
                out[scope, context, "min"], out[scope, context, "max"] = min(present), max(present)
    return {key: value for key, value in out.items() if key[2] in ("", *statistics)}


def summary(experiment: Experiment) -> dict[tuple[str, int, str], float]:
    block = experiment.values.profile(int(experiment.profiles.summaries[0]))
    metrics = [experiment.metrics[row] for row in block.metric.tolist()]
    contexts = (experiment.contexts.source_id[block.context] - 1).tolist()
    rows = zip(metrics, contexts, block.value.tolist(), strict=True)
    return {(m.scope.word, context, m.statistic): value for m, context, value in rows if context < 3}


ALL = ("count", "sum of squares", "min", "max")


@pytest.mark.parametrize("statistics", [(), ALL, ("count", "sum of squares"), ("max",), ("count",)])
@pytest.mark.parametrize("to", [RELEASE, PRERELEASE])
def test_statistics_are_what_their_names_say(to: str, statistics: tuple[str, ...], tmp_path: Path) -> None:
    assert write(made(*statistics), tmp_path / "a.d", to).losses == [
        *(["kinds of 1 context: entry is stored as placeholder"] if to == PRERELEASE else []),
    ]
    new = read(tmp_path / "a.d")
    assert summary(new) == expected(statistics)
    assert problems(tmp_path / "a.d") == []


@pytest.mark.parametrize(("one", "other"), [(RELEASE, PRERELEASE), (PRERELEASE, RELEASE)])
def test_statistics_survive_the_other_generation(one: str, other: str, tmp_path: Path) -> None:
    write(made(*ALL), tmp_path / "a.d", one)
    write(read(tmp_path / "a.d"), tmp_path / "b.d", other)
    write(read(tmp_path / "b.d"), tmp_path / "c.d", one)
    assert summary(read(tmp_path / "b.d")) == summary(read(tmp_path / "c.d")) == expected(ALL)
    assert damage(tmp_path / "b.d") == damage(tmp_path / "c.d") == []
    shown = [{(c.name, c.statistic, c.scope) for c in read(tmp_path / name).metrics.columns} for name in ("a.d", "c.d")]
    assert shown[0] == shown[1]
    assert {statistic for _, statistic, _ in shown[0]} == {"Sum", "Mean", "StdDev", "CfVar", "Min", "Max"}


def test_formulas_follow_their_statistics(tmp_path: Path) -> None:
    """Ids of a summary with several statistics change from one generation to the other; columns refer to them."""
    write(made(*ALL), tmp_path / "a.d", RELEASE)
    old = read(tmp_path / "a.d")
    write(old, tmp_path / "b.d", PRERELEASE)
    new = read(tmp_path / "b.d")
    mean = {c.scope: c.formula for c in new.metrics.columns if c.statistic == "Mean"}
    rows = {(m.scope, m.statistic): m.source_id for m in new.metrics}
    for scope, first in ((Scope.INCLUSIVE, 2), (Scope.FUNCTION, 1)):
        assert rows[scope, "count"] == first  # the first partial; the sum is the second
        assert mean[scope] == f"${first + 3}/${first}"


def test_a_column_over_a_statistic_that_is_not_there(tmp_path: Path) -> None:
    out = made("count")
    columns = (Column("odd", Scope.INCLUSIVE, "$77", statistic="Sum"),)
    experiment = Experiment(**{**vars(out), "metrics": type(out.metrics)(out.metrics.rows, columns)})
    lost = write(experiment, tmp_path / "a.d", PRERELEASE).losses
    assert "columns over what the database does not hold: 1, the first is odd Sum inclusive" in lost


def problems(path: Path) -> list[str]:
    """Notes too: genuine writers get statistics wrong, which `check` says."""
    format_ = detect(Source.of(path))[0]
    assert isinstance(format_, Checks)
    return [p.text for p in format_.check(Source.of(path), ReadOptions()) if p.severity != Severity.MISSING]
