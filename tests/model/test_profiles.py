"""Profiles: identifier tuples as they are, what is read off them, and the system tree they describe."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from callgrove.arrays import Encoded
from callgrove.model.builder import ExperimentBuilder
from callgrove.model.experiment import Experiment
from callgrove.model.profiles import (
    DEFAULT_ID_NAMES,
    IdentifierTuples,
    Interpretation,
    ProfileKind,
    Profiles,
    absent_system,
    are_meant,
)
from callgrove.model.runs import IntSet, Run
from callgrove.model.system import LEVELS, follows_from_identifiers, system_of
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


@given(st.integers(1, 10), st.integers(1, 4), st.data())
def test_tuples_of_one_length_are_picked_from_as_others(width: int, n: int, data: st.DataObject) -> None:
    element = st.tuples(st.integers(1, 3), st.integers(0, 2**64 - 1), st.integers(0, 2**64 - 1), st.integers(0, 3))
    tuples = data.draw(st.lists(st.lists(element, min_size=width, max_size=width), min_size=n, max_size=n))
    for name in DEFAULT_ID_NAMES[1:4]:
        values, present = IdentifierTuples.of(tuples).pick(name, "logical")
        others, present_among_others = IdentifierTuples.of([*tuples, []]).pick(name, "logical")
        assert values.tolist() == others[:-1].tolist()
        assert present.tolist() == present_among_others[:-1].tolist()
        assert not present_among_others[-1]


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


# -- a million profiles: columns give what a loop over profiles gives --------------------------------------------------


FEW = st.lists(
    st.lists(st.tuples(st.integers(0, 8), st.integers(0, 3), st.sampled_from([0, 1, 2, 2**63 + 1]), st.just(3))),
    max_size=9,
)


def _grow(found: Profiles) -> tuple[list[int], list[str], list[str], list[int]]:
    """Return parent, kind, name and rank of the places of profiles, made one by one."""
    parent: list[int] = []
    rows: list[tuple[str, str, int]] = []
    known: dict[tuple[int, str, int], int] = {}
    for profile in found.measured.tolist():
        above = -1
        for name, kind in LEVELS:
            values, present = found.identifiers.pick(name, "logical")
            if present[profile]:
                number = int(values[profile])
                if (above, kind, number) not in known:
                    known[above, kind, number] = len(parent)
                    parent.append(above)
                    rows.append((kind, f"{kind} {number}", number if number < 2**63 else -1))
                above = known[above, kind, number]
        parent.append(above)
        rows.append(("thread", found.label(profile), -1))
    kinds, names, ranks = (list(column) for column in zip(*rows, strict=True)) if rows else ([], [], [])
    return parent, kinds, names, ranks


@given(FEW, st.data())
def test_the_system_tree_is_that_of_a_loop_over_profiles(
    tuples: list[list[tuple[int, int, int, int]]], data: st.DataObject
) -> None:
    kinds = data.draw(st.lists(st.sampled_from(ProfileKind), min_size=len(tuples), max_size=len(tuples)))
    found = profiles(*tuples, kinds=kinds)
    system, leaves = system_of(found)
    assert (system.parent.tolist(), list(system.kind), list(system.name), system.rank.tolist()) == _grow(found)
    assert [system.name[leaf] for leaf in leaves[found.measured].tolist()] == [found.label(p) for p in found.measured]
    assert (leaves[found.is_summary] == -1).all()
    assert follows_from_identifiers(system, found)
    again = profiles(*tuples, kinds=kinds)  # equal, but other columns: names are compared
    assert follows_from_identifiers(system, again)


def test_a_tree_that_says_more_does_not_follow_from_identifiers() -> None:
    found = profiles([(RANK, 0, 0, 3)], [(RANK, 1, 1, 3)])
    system, _ = system_of(found)
    others = profiles([(RANK, 0, 0, 3)], [(RANK, 2, 2, 3)])
    assert not follows_from_identifiers(system, others)
    assert not follows_from_identifiers(replace(system, attributes={0: {"host": "n1"}}), found)
    assert not follows_from_identifiers(replace(system, name=("a", "b", "c", "d")), found)


@given(
    st.lists(st.sampled_from([0, 1, 2, 3, 7, 8, 2**40, 2**64 - 1])),
    st.sampled_from(["0-2", "7-", "1,3,8", "2-3,8-90000000000000", "18446744073709551615", "99999999999999999999"]),
)
def test_numbers_are_chosen_as_one_by_one(numbers: list[int], text: str) -> None:
    column = np.array(numbers, np.uint64)
    wanted = IntSet.parse(text)
    assert are_meant(column, text).tolist() == [number in wanted for number in numbers]
    some = [0, 3, 2**64 - 1, -1]
    for container in (some, tuple(some), set(some), range(2, 9), np.array([0, 3])):
        assert are_meant(column, container).tolist() == [number in container for number in numbers]
    assert are_meant(column, 7).tolist() == [number == 7 for number in numbers]


def test_a_column_of_few_different_items_is_a_sequence() -> None:
    column = Encoded(np.array([0, 1, 0]), ("a", "b"))
    assert column == ("a", "b", "a") == column
    assert column != ("a", "b")
    assert column != "aba"
    assert (column[-1], list(column[1:]), column.count("a"), "c" in column) == ("a", ["b", "a"], 2, False)
    assert column.take(np.array([0, 2])).distinct() == ["a"]
    assert list(Encoded.repeat("x", 3)) == ["x"] * 3
    with pytest.raises(IndexError):
        column[3]


def test_profiles_are_added_one_by_one_and_as_columns() -> None:
    builder = ExperimentBuilder("test")
    run, other = builder.add_run(Run("a")), builder.add_run(Run("b"))
    assert builder.add_profile(ProfileKind.THREAD, [(RANK, 5, 5, 3)], name="first", attributes=[("k", "v")]) == 0
    tuples = IdentifierTuples.of([[(RANK, 6, 6, 3)], []])
    kinds = np.array([ProfileKind.THREAD, ProfileKind.GPU], np.int32)
    assert list(builder.add_profiles(kinds, tuples, run=other, source_id=[8, 9])) == [1, 2]
    assert builder.add_profile(ProfileKind.SUMMARY, run=run) == 3
    made = builder.build().profiles
    assert made.name == ("first", "", "", "")
    assert made.attributes == ((("k", "v"),), (), (), ())
    assert (made.run.tolist(), made.source_id.tolist()) == ([0, 1, 1, 0], [-1, 8, 9, -1])
    assert made.identity_list("rank") == [5, 6, None, None]
    assert made.kind.tolist() == [ProfileKind.THREAD, ProfileKind.THREAD, ProfileKind.GPU, ProfileKind.SUMMARY]
    assert made.named.tolist() == [0]


@given(FEW, st.data())
def test_equal_descriptions_have_equal_numbers(
    tuples: list[list[tuple[int, int, int, int]]], data: st.DataObject
) -> None:
    kinds = data.draw(st.lists(st.sampled_from(ProfileKind), min_size=len(tuples), max_size=len(tuples)))
    found = profiles(*tuples, kinds=kinds)
    ranks = found.identity_list("rank")
    texts = [found.describe(p) for p in range(len(found))]
    lanes = [text.removeprefix(f"rank {rank}").strip() for text, rank in zip(texts, ranks, strict=True)]
    for numbers, said in ((found.description.tolist(), texts), (found.lane.tolist(), lanes)):
        assert [numbers.index(n) for n in numbers] == [said.index(text) for text in said]


def test_labels_are_made_when_asked_for() -> None:
    found = profiles([(RANK, 5, 5, 3)], [(RANK, 6, 6, 3), (THREAD, 1, 1, 3)])
    assert found.labels(np.array([1, 0])) == ("rank 6 thread 1", "rank 5")
    assert found.labels(np.array([1, 0]))[1:] == ["rank 5"]
