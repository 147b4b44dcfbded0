"""The same number everywhere: views, tables, pages, conversions and the algebra of one input agree on its totals.

Of every sample that holds an execution, and of the examples. Only quantities that add up are compared.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

import callgrove
from callgrove.algebra.cutting import part
from callgrove.algebra.operations import mean, merge
from callgrove.analysis.costs import costs
from callgrove.analysis.summary import summarise
from callgrove.analysis.summary import table as summary_table
from callgrove.analysis.tables import Selection, export
from callgrove.analysis.views import bottom_up, top, top_down
from callgrove.errors import UsageError
from callgrove.examples import example, gpu_example
from callgrove.formats.registry import open_path
from callgrove.model.experiment import Experiment
from callgrove.model.metrics import Aggregation, Scope
from callgrove.model.traces.events import SpanKind
from callgrove.query.sql import sql
from callgrove.viewer.page import Choice, Detail
from callgrove.viewer.profile import profile_maker
from tests.exhaustive import some_of
from tests.formats.samples import samples

WRITERS = ("hpctoolkit-release", "hpctoolkit-prerelease", "cube", "hpcrun", "callgrove")
SPAN_WRITERS = ("callgrove", "rocpd", "rocpd-draft", "rocprof-csv", "perfetto", "chrome-json", "otf2")
MOST_METRICS = 4  # of each input


def is_kept(name: str) -> bool:
    """Samples that are compared with every change; the others are exhaustive."""
    return not name.startswith("shared/")


MADE: dict[str, Callable[[], Experiment]] = {"example": example, "gpu example": gpu_example}
OPENED = [*MADE, *(s.name for s in samples() if not s.format.startswith("extrap") and s.name != "made/callgrove-study")]
PATHS = {sample.name: sample.path for sample in samples()}
each_input = pytest.mark.parametrize("name", some_of(OPENED, is_kept))


def opened(name: str) -> Experiment:
    if name in MADE:
        return MADE[name]()
    found = open_path(PATHS[name])
    assert isinstance(found, Experiment)
    return found


def quantities(experiment: Experiment) -> Iterator[tuple[str, float]]:
    """Yield the first quantities that add up, with their totals."""
    found = []
    for name in experiment.metrics.quantities:
        metric = experiment.metrics.first(name)
        if metric.aggregation != Aggregation.SUM or metric.composite is not None or metric.is_derived:
            continue
        try:
            total = experiment.root_total(name)
        except UsageError:  # it has no scope that costs could be computed from
            continue
        if total and np.isfinite(total):
            found.append((name, total))
    yield from found[:MOST_METRICS]


def of_export(experiment: Experiment, name: str) -> float:
    """Return the sum of exclusive values as `export` prints them."""
    total = 0.0
    for table in export(experiment, "values", Selection(quantity=name, scope="exclusive")):
        listed = np.asarray(table.column("context").values, int) < experiment.contexts.n_listed
        total += float(np.asarray(table.column("value").values, float)[listed].sum())
    return total


def of_sql(experiment: Experiment, name: str) -> float | None:
    """Return the total by SQL over stored values, where the input stores a scope that adds up."""
    where = {Scope.INCLUSIVE: "c.parent IS NULL", Scope.EXCLUSIVE: "TRUE"}
    for row, metric in enumerate(experiment.metrics):
        if metric.name == name and metric.scope in where and not metric.statistic:
            query = (
                'SELECT sum(v.value) FROM "values" v JOIN contexts c USING (context) JOIN profiles p USING (profile) '
                f"WHERE v.metric = {row} AND p.kind <> 'summary' AND c.kind <> 'elided' AND {where[metric.scope]}"
            )
            found = next(iter(sql(experiment, query).rows()))[0]
            return None if found is None else float(found)
    return None


def views_of(experiment: Experiment, name: str) -> dict[str, float]:
    """Return the total of a quantity as every view has it."""
    own, n = costs(experiment, name), experiment.contexts.n_listed
    tree, callers = top_down(own), bottom_up(own)
    at_roots = [k for k, depth in enumerate(tree.column("depth").values) if depth == 0]
    views = {
        "exclusive over all contexts": float(experiment.totals(name, Scope.EXCLUSIVE)[:n].sum(dtype=float)),
        "profile by profile": float(experiment.matrix(name, Scope.EXCLUSIVE)[:n].sum(dtype=float)),
        "top": float(np.sum(np.asarray(top(own).column("exclusive").values, float))),
        "tree": float(sum(tree.column("inclusive").values[k] for k in at_roots)),
        "tree --bottom-up": float(
            sum(
                v
                for v, d in zip(callers.column("exclusive").values, callers.column("depth").values, strict=True)
                if d == 0
            )
        ),
        "export": of_export(experiment, name),
    }
    if (found := of_sql(experiment, name)) is not None:
        views["sql"] = found
    return views | of_page(experiment, name)


def of_page(experiment: Experiment, name: str) -> dict[str, float]:
    """Return what the call tree and the flat table of a page add up to."""
    maker = profile_maker(experiment, Choice(metric=name))
    panels = {} if maker is None else {panel.kind: panel.data for panel in maker.panels(Detail(0.2))}
    if "calltree" not in panels:
        return {}
    tree, flat = panels["calltree"]["tree"], panels["calltree"]["flat"][0]
    return {
        "call tree of the page": float(np.sum(tree["metrics"][0]["exclusive"], dtype=float)),
        "flat table of the page": float(np.sum(flat["exclusive"][0], dtype=float)) + flat["rest"][0],
    }


@each_input
def test_views_have_one_total(name: str) -> None:
    experiment = opened(name)
    for quantity, total in quantities(experiment):
        views = views_of(experiment, quantity)
        assert {view: found for view, found in views.items() if found != pytest.approx(total, rel=1e-9)} == {}, quantity


@each_input
def test_conversions_keep_totals_or_name_the_loss(name: str, tmp_path: Path) -> None:
    experiment = opened(name)
    before = dict(quantities(experiment))
    for to in WRITERS if before else ():
        try:
            losses = callgrove.write(experiment, tmp_path / to, to)
        except UsageError:
            if to == "hpcrun":  # whose files hold addresses in modules, and one run
                continue
            raise
        assert not [loss for loss in losses if loss.startswith("unexplained")], to
        after = open_path(tmp_path / to)
        assert isinstance(after, Experiment)
        for quantity, total in before.items():
            named = any(quantity in loss or "values" in loss or " more: left out" in loss for loss in losses)
            found = after.root_total(quantity) if quantity in after.metrics.quantities else None
            assert found == pytest.approx(total, rel=1e-9) or named, (to, quantity, found, total)


@each_input
def test_spans_and_what_belongs_to_them_are_written_whole_or_said(name: str, tmp_path: Path) -> None:
    experiment = opened(name)
    if not experiment.traces.n_spans:
        return
    for to in SPAN_WRITERS:
        if to == "rocpd" and experiment.format != "rocpd":  # it copies rows of such databases
            continue
        losses = callgrove.write(experiment, tmp_path / to, to)
        assert not [loss for loss in losses if loss.startswith("unexplained")], to


@each_input
def test_the_algebra_keeps_totals(name: str) -> None:
    experiment = opened(name)
    before = dict(quantities(experiment))
    if not before or len(experiment.runs) > 1:
        return
    made = {"mean": mean(experiment, experiment), "merge": merge(experiment, experiment, conflict="first")}
    for word, result in made.items():
        for quantity, total in before.items():
            assert result.root_total(quantity) == pytest.approx(total, rel=1e-9), (word, quantity)
    ranks = {rank for rank in experiment.profiles.identity_list("rank") if rank is not None}
    if len(ranks) > 1:
        first = min(ranks)
        halves = part(experiment, ranks={first}), part(experiment, ranks={first}, invert=True)
        for quantity, total in before.items():
            assert sum(half.root_total(quantity) for half in halves) == pytest.approx(total, rel=1e-9), quantity


@each_input
def test_kernels_are_as_many_everywhere(name: str) -> None:
    experiment = opened(name)
    if not experiment.traces.n_spans:
        return
    chunks = list(experiment.traces.spans(("kind", "start_ns", "end_ns")))
    lengths = np.concatenate([(c["end_ns"] - c["start_ns"])[c["kind"] == SpanKind.KERNEL] for c in chunks])
    summary = summary_table(summarise(experiment), ["kernels"])
    asked = next(iter(sql(experiment, "SELECT count(*), sum(duration) FROM kernels").rows()))
    n_exported = sum(kind == "kernel" for t in export(experiment, "spans") for kind in t.column("kind").values)
    assert len(lengths) == n_exported == asked[0] == sum(summary.column("count").values if len(summary) else [])
    assert int(lengths.sum()) == int(asked[1] or 0) == sum(summary.column("total_ns").values if len(summary) else [])
