"""What a writer does not report as lost has the same totals when it is read back: random experiments, derived metrics
and overloads, as Cube files and as our own folders. (Studies: `test_extrap_writers.test_any_study`.)"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from callgrove.errors import NotEvaluated
from callgrove.formats.interface import WriteOptions
from callgrove.model.builder import ExperimentBuilder
from callgrove.model.contexts import ContextKind
from callgrove.model.experiment import Experiment
from callgrove.model.metrics import Metric, Scope
from callgrove.model.profiles import ProfileKind
from tests.exhaustive import try_examples
from tests.formats.damage import scratch_folder
from tests.formats.written import read, write
from tests.model.strategies import experiments

TARGETS = {"plain": ("cube", "plain"), "compressed": ("cube", "compressed"), "callgrove": ("callgrove", "")}
FORMULA = "metric::m0() / 2"


def written(experiment: Experiment, folder: Path, target: str) -> tuple[Experiment, list[str]]:
    name, dialect = TARGETS[target]
    report = write(experiment, folder / "out", name, WriteOptions(dialect=dialect))
    return read(folder / "out"), [str(line) for line in report.losses]


def own_name(metric: Metric) -> str:
    """What a metric was called before it got the characters that CubeLib allows."""
    return dict(metric.attributes).get("cube: disp_name", metric.name)


def assert_totals(old: Experiment, new: Experiment, losses: list[str]) -> int:
    """Totals over the threads of every quantity that no line of the report names; gives how many were compared. (Stored
    summaries of random experiments are not sums of their threads.)"""
    names = {own_name(metric): metric.name for metric in new.metrics}
    compared, n = 0, old.contexts.n_listed
    assert n == new.contexts.n_listed
    for quantity in old.metrics.quantities:
        if any(quantity in line and not line.startswith("names of metrics") for line in losses):
            continue
        assert quantity in names, losses
        for scope in (Scope.EXCLUSIVE, Scope.INCLUSIVE):
            try:
                wanted = old.totals(quantity, scope, old.profiles.measured)[:n]
            except NotEvaluated:  # which nothing evaluates in what was made by hand
                new.totals(names[quantity], scope)
                continue
            found = new.totals(names[quantity], scope, new.profiles.measured)[:n]
            scale = 1e-12 * float(np.abs(wanted[np.isfinite(wanted)]).sum())
            np.testing.assert_allclose(found.astype(np.float64), wanted.astype(np.float64), rtol=1e-12, atol=scale)
            compared += 1
    return compared


@pytest.mark.parametrize("target", TARGETS)
@try_examples(15)
@given(
    experiment=experiments(traces=False, scopes=(Scope.EXCLUSIVE, Scope.INCLUSIVE))
    | experiments(traces=False, scopes=(Scope.EXCLUSIVE,), elided=False, summary=False)
    | experiments(traces=False, scopes=(Scope.INCLUSIVE,), elided=False, summary=False)
    | experiments(traces=False)
)
def test_random_experiments(target: str, experiment: Experiment) -> None:
    with scratch_folder() as folder:
        again, losses = written(experiment, folder, target)
        assert_totals(experiment, again, losses)


def with_overloads(values: list[int], is_derived: bool) -> Experiment:
    """Functions of one name and place with different mangled names, and a metric that is a formula."""
    builder = ExperimentBuilder("made up")
    builder.add_profile(ProfileKind.THREAD, [(2, 0, 0, 3)])
    file = builder.file("a.cpp")
    root = builder.add_context(-1, ContextKind.FUNCTION, builder.region(ContextKind.FUNCTION, "main"))
    for number in range(len(values)):
        details = {"mangled_name": f"_Z1f{number % 3}"}
        region = builder.region(ContextKind.FUNCTION, "f", file=file, line=1, details=details)
        builder.add_context(root, ContextKind.FUNCTION, region)
    builder.add_metric(Metric("m0", Scope.EXCLUSIVE, dtype="UINT64"))
    if is_derived:
        said = (("cube: type", "PREDERIVED_EXCLUSIVE"),)
        builder.add_metric(Metric("half", Scope.EXCLUSIVE, dtype="DOUBLE", formula=FORMULA, attributes=said))
    builder.add_values(0, np.arange(1, len(values) + 1), 0, np.array(values, np.uint64))
    return builder.build()


@pytest.mark.parametrize("target", TARGETS)
@try_examples(8)
@given(values=st.lists(st.integers(1, 2**40), min_size=1, max_size=7), is_derived=st.booleans())
def test_overloads_and_formulas(target: str, values: list[int], is_derived: bool) -> None:
    experiment = with_overloads(values, is_derived)
    with scratch_folder() as folder:
        again, losses = written(experiment, folder, target)
        assert not [line for line in losses if "derived" in line or "mangled" in line]
        assert assert_totals(experiment, again, losses) == 2
        assert again.metrics.derived == (("half",) if is_derived else ())
        tree = again.contexts
        assert [tree.mangled_name(c) for c in range(len(tree))] == ["", *(f"_Z1f{k % 3}" for k in range(len(values)))]
        assert len(tree.regions) == 1 + min(3, len(values))
