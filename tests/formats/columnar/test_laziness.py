"""Opening a folder reads no value and no event; one profile is read without the others; parts go to other processes."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest

from callgrove.analysis.summary import summarise, table
from callgrove.arrays import Array
from callgrove.formats.columnar import row_groups as group_writer
from callgrove.formats.columnar.folder import Group, StoredTable
from callgrove.formats.registry import open_path
from callgrove.model.builder import ExperimentBuilder
from callgrove.model.computed_values import ChainedValues, Link
from callgrove.model.contexts import ContextKind
from callgrove.model.experiment import Experiment
from callgrove.model.metrics import Metric, Scope
from callgrove.model.profiles import ProfileKind
from callgrove.model.traces.events import ArraySpans
from callgrove.model.values import ArrayValues, SparseBlock
from tests.formats.columnar.columnar_folders import again, sides_of, spans_of, values_of
from tests.formats.samples import samples

GROUP = 64  # rows
N_PROFILES, N_CONTEXTS = 20, 50


@pytest.fixture(autouse=True)
def small_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_writer, "GROUP_ROWS", GROUP)


@pytest.fixture
def read_groups(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    """(table, row group) of every row group that is read."""
    found: list[tuple[str, int]] = []
    really = StoredTable.group

    def noted(self: StoredTable, number: int, names: list[str]) -> Group:
        found.append((self.name, number))
        return really(self, number, names)

    monkeypatch.setattr(StoredTable, "group", noted)
    return found


def by_profile() -> Experiment:
    """As HPCToolkit's: values profile by profile; spans of four profiles at a time."""
    builder = ExperimentBuilder("made")
    contexts = [builder.add_context(-1, ContextKind.FUNCTION) for _ in range(N_CONTEXTS)]
    metric = builder.add_metric(Metric("time", Scope.EXCLUSIVE))
    for profile in range(N_PROFILES):
        builder.add_profile(ProfileKind.THREAD)
        builder.add_values(profile, contexts, metric, np.arange(N_CONTEXTS) + 1.0 + profile)
    span = np.arange(40 * N_PROFILES)
    columns: dict[str, Array] = {
        "profile": (span // 160 * 4 + span % 4).astype(np.int32),
        "kind": np.zeros(len(span), np.int32),
        "category": np.full(len(span), -1, np.int32),
        "name": (span % 3).astype(np.int32),
        "start_ns": span * 10,
        "end_ns": span * 10 + 5,
        "depth": np.zeros(len(span), np.int32),
        "correlation": span,
        "context": np.full(len(span), -1, np.int32),
    }
    builder.set_traces(spans=ArraySpans(columns, ("a", "b", "c")))
    return builder.build()


def test_opening_reads_no_value_and_no_span(tmp_path: Path, read_groups: list[tuple[str, int]]) -> None:
    found = again(by_profile(), tmp_path)
    assert found.values.n_stored() == N_PROFILES * N_CONTEXTS
    assert found.traces.n_spans == 40 * N_PROFILES
    assert read_groups == []


def test_one_profile_is_read_alone(tmp_path: Path, read_groups: list[tuple[str, int]]) -> None:
    old = by_profile()
    found = again(old, tmp_path)
    for profile in (0, 7, 19):
        read_groups.clear()
        assert found.values.profile(profile).value.tolist() == old.values.profile(profile).value.tolist()
        first, last = profile * N_CONTEXTS // GROUP, (profile * N_CONTEXTS + N_CONTEXTS - 1) // GROUP
        assert set(read_groups) <= {("values", group) for group in range(first, last + 1)}
        assert len(read_groups) <= 2
        read_groups.clear()
        assert sum(len(block) for block in found.values.blocks(np.array([profile]))) == N_CONTEXTS
        assert len(read_groups) <= 2
        chosen = np.array([profile])
        read_groups.clear()
        assert spans_of(found.traces, ("name", "start_ns"), profiles=chosen) == spans_of(
            old.traces, ("name", "start_ns"), profiles=chosen
        )
        groups = {number for name, number in read_groups if name == "spans"}
        assert groups == set(range(profile // 4 * 160 // GROUP, (profile // 4 * 160 + 159) // GROUP + 1))


@pytest.mark.parametrize("window", [(0, 1), (5, 6), (1000, 2000), (7990, 7995), (7995, 9000), (-5, 0), (3000, 3000)])
def test_a_window_is_read_alone(window: tuple[int, int], tmp_path: Path, read_groups: list[tuple[str, int]]) -> None:
    old = by_profile()
    found = again(old, tmp_path)
    assert spans_of(found.traces, ("profile",), window=window) == spans_of(old.traces, ("profile",), window=window)
    assert len([name for name, _ in read_groups if name == "spans"]) <= 3


def test_values_of_one_context_and_of_one_metric(tmp_path: Path) -> None:
    old = by_profile()
    found = again(old, tmp_path)
    for context in (0, 49):
        assert found.values.context(context).value.tolist() == old.values.context(context).value.tolist()
    assert found.values.metric(0).value.tolist() == old.values.metric(0).value.tolist()
    assert found.values.totals(0).tolist() == old.values.totals(0).tolist()


def test_values_of_several_types_keep_their_order(tmp_path: Path) -> None:
    """Doubles and integers by turns, in blocks that do not end where row groups do."""
    builder = ExperimentBuilder("made")
    contexts = [builder.add_context(-1, ContextKind.FUNCTION) for _ in range(N_CONTEXTS)]
    metrics = [builder.add_metric(Metric(name, Scope.EXCLUSIVE)) for name in "abcd"]
    builder.add_profile(ProfileKind.THREAD)
    old = builder.build()
    links = []
    ids = [np.arange(n, dtype=np.int32) for n in (1, N_CONTEXTS, 4)]
    for metric in metrics:
        value = np.arange(N_CONTEXTS) + 2**53 if metric % 2 else np.arange(N_CONTEXTS) + 0.5
        zeros = np.zeros(N_CONTEXTS, np.int32)
        block = SparseBlock(zeros, np.array(contexts, np.int32), zeros + metric, value)
        links.append(Link(ArrayValues(block, old.profiles), *ids))
    builder.set_values(ChainedValues(links))
    old = builder.build()
    found = again(old, tmp_path)
    assert values_of(found) == values_of(old)
    assert {path.name for path in tmp_path.glob("x.cgrove/values*")} == {"values.parquet", "values-int64.parquet"}


def test_parts_can_be_sent_to_other_processes(tmp_path: Path) -> None:
    sample = next(s for s in samples() if s.name == "made/rocpd-folder")
    old = open_path(sample.path)
    assert isinstance(old, Experiment)
    found = again(old, tmp_path)
    assert found.traces.split is not None
    assert old.traces.split is not None
    for part in range(len(old.traces.parts())):
        own, theirs = pickle.loads(pickle.dumps(found.traces.split(part))), old.traces.split(part)
        assert spans_of(own) == spans_of(theirs)
        assert own.n_spans == theirs.n_spans
        assert sides_of(own) == sides_of(theirs)
        assert own.counters == theirs.counters
    assert list(table(summarise(found)).rows()) == list(table(summarise(old)).rows())
