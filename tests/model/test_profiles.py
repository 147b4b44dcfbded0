"""Profiles: identifier tuples as they are, what is read off them, and the system tree they describe."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from callgrove.model.builder import ExperimentBuilder
from callgrove.model.experiment import Experiment
from callgrove.model.profiles import (
    DEFAULT_ID_NAMES,
    IdentifierTuples,
    Interpretation,
    ProfileKind,
    Profiles,
    absent_system,
    system_of,
)
from tests.model.strategies import experiments

NODE, RANK, THREAD, DEVICE, CONTEXT, STREAM, CORE = range(1, 8)
TUPLES = st.lists(
    st.lists(
        st.tuples(st.integers(0, 15), st.integers(0, 2**64 - 1), st.integers(0, 2**64 - 1), st.integers(0, 9)),
        max_size=5,
    ),
    max_size=6,
)


def profiles(*tuples: list[tuple[int, int, int, int]], kinds: list[ProfileKind] | None = None) -> Profiles:
    n = len(tuples)
    kind = np.array(kinds or [ProfileKind.THREAD] * n, np.int32)
    none = np.full(n, -1, np.int64)
    return Profiles(np.zeros(n, np.int32), kind, ("",) * n, absent_system(n), none, IdentifierTuples.of(tuples))


@given(TUPLES)
def test_tuples_survive_as_they_are(tuples: list[list[tuple[int, int, int, int]]]) -> None:
    identifiers = IdentifierTuples.of(tuples)
    assert len(identifiers) == len(tuples)
    assert [identifiers.rows(p) for p in range(len(tuples))] == tuples


@given(TUPLES, st.integers(0, 15), st.sampled_from(["physical", "logical"]))
def test_the_first_identifier_of_a_name_counts(
    tuples: list[list[tuple[int, int, int, int]]], kind: int, number: str
) -> None:
    identifiers = IdentifierTuples.of(tuples)
    name = identifiers.name(kind)
    values, present = identifiers.pick(name, number)
    firsts = [next((row for row in one if row[0] == kind), None) for one in tuples]
    if kind >= len(DEFAULT_ID_NAMES):
        assert not present.any()
        return
    assert present.tolist() == [first is not None for first in firsts]
    column = 1 if number == "physical" else 2
    assert values.tolist() == [first[column] if first else 0 for first in firsts]


def test_names_of_identifier_kinds() -> None:
    identifiers = IdentifierTuples.of([], ("SUMMARY", "", "RANK"))
    assert [identifiers.name(k) for k in range(4)] == ["SUMMARY", "KIND1", "RANK", "KIND3"]


def test_files_may_name_kinds_in_another_order() -> None:
    identifiers = IdentifierTuples.of([[(1, 7, 8, 0)]], ("SUMMARY", "RANK", "NODE"))
    assert identifiers.pick("RANK", "logical")[0].tolist() == [8]
    assert not identifiers.pick("NODE", "physical")[1].any()


def test_node_is_physical_and_rank_logical() -> None:
    found = profiles([(NODE, 0xABCD, 0, Interpretation.BOTH), (RANK, 99, 3, 0), (THREAD, 98, 1, 1), (CORE, 5, 6, 3)])
    columns = ("node", "rank", "thread", "core", "gpu_stream")
    assert [found.identity_list(name)[0] for name in columns] == [0xABCD, 3, 1, 6, None]


def test_absent_is_not_zero() -> None:
    found = profiles([], [(RANK, 0, 0, 0)])
    assert found.identity_list("rank") == [None, 0]


@pytest.mark.parametrize(
    ("identifiers", "label"),
    [
        ([(NODE, 1, 0, 0), (RANK, 3, 3, 0), (THREAD, 1, 1, 0)], "rank 3 thread 1"),
        (
            [(RANK, 0, 0, 0), (DEVICE, 2, 2, 0), (CONTEXT, 0, 1, 0), (STREAM, 7, 7, 0)],
            "rank 0 gpu 2 gpu context 1 stream 7",
        ),
        ([(RANK, 0, 0, 0), (11, 5, 6, 0)], "rank 0 KIND11 6"),
        ([(NODE, 1, 0, 0)], "profile 0"),
        ([], "profile 0"),
    ],
)
def test_labels(identifiers: list[tuple[int, int, int, int]], label: str) -> None:
    assert profiles(identifiers).label(0) == label


def test_a_given_name_goes_first_and_summaries_are_called_so() -> None:
    builder = ExperimentBuilder("test")
    builder.add_profile(ProfileKind.SUMMARY, [(0, 0, 0, 3)])
    builder.add_profile(ProfileKind.THREAD, [(RANK, 1, 1, 0)], name="Master thread")
    found = builder.build().profiles
    assert [found.label(0), found.label(1), found.describe(1)] == ["summary", "Master thread", "rank 1"]
    assert (found.summaries.tolist(), found.measured.tolist()) == ([0], [1])


def test_the_system_tree_of_tuples() -> None:
    rank0 = [(NODE, 9, 0, 0), (RANK, 0, 0, 0)]
    found = profiles(
        [(0, 0, 0, 3)],
        [*rank0, (THREAD, 0, 0, 0)],
        [*rank0, (THREAD, 1, 1, 0)],
        [*rank0, (DEVICE, 0, 0, 0), (CONTEXT, 0, 0, 0), (STREAM, 0, 0, 0)],
        [(NODE, 8, 1, 0), (RANK, 1, 1, 0)],
        kinds=[ProfileKind.SUMMARY, *[ProfileKind.THREAD] * 4],
    )
    system, leaves = system_of(found)
    assert leaves[0] == -1
    named = [[f"{system.kind[k]} {system.rank[k]}" for k in system.path(int(leaf))[1:]] for leaf in leaves[1:]]
    assert named == [
        ["process 0", "node 0"],
        ["process 0", "node 0"],
        ["context 0", "device 0", "process 0", "node 0"],
        ["process 1", "node 1"],
    ]
    assert system.name[leaves[1]] == "rank 0 thread 0"


def test_equal_tuples_have_leaves_of_their_own() -> None:
    same = [(RANK, 0, 0, 0), (THREAD, 0, 0, 0)]
    _, leaves = system_of(profiles(same, same))
    assert len(set(leaves.tolist())) == 2


def test_numbers_beyond_63_bits_are_no_rank() -> None:
    system, _ = system_of(profiles([(NODE, 1, 2**64 - 1, 0)]))
    assert system.rank.tolist() == [-1, -1]
    assert system.name[0] == f"node {2**64 - 1}"


@given(experiments(traces=False, n_contexts=0))
def test_every_measured_profile_is_a_leaf(experiment: Experiment) -> None:
    found, system = experiment.profiles, experiment.system
    leaves = found.system[found.measured]
    assert len(set(leaves.tolist())) == len(leaves)
    assert not np.isin(leaves, system.parent).any()
    assert (found.system[found.summaries] == -1).all()
    assert (system.parent < np.arange(len(system))).all()
