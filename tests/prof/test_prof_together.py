"""Files of a batch are worked on together: each has the nodes and values that it has alone, and each error its file."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from callgrove.binary.files import FileBytes
from callgrove.errors import CallgroveError, CorruptFile, InputError
from callgrove.execute import IN_PROCESS
from callgrove.formats.hpcrun.files import measurement_files, read_measurement, read_tables
from callgrove.prof.conversion import Request, prepare, survey_of
from callgrove.prof.experiment import Attribution
from callgrove.prof.nodes import Flavour, Forest, NodeSource, Tree, normal_nodes
from callgrove.prof.second_pass import block_of, nodes_of_files, points_of
from callgrove.prof.survey import Batch, Inputs, Survey, SurveyedFiles, file_tables, survey_batch
from tests.formats.hpcrun.hpcrun_bytes import INT, REAL, ROOT, File04, RawEpoch, RawMetric, RawNode, file_02
from tests.prof.making import IDLE, MAIN, PARTIAL, UNKNOWN, experiment_of, measured, nodes, put
from tests.requirements import ROOT as CHECKOUT

CORPUS = CHECKOUT / "tests" / "corpus" / "hpcrun"
OUTLINED = 65532
BARE = 0  # flags of a node that was not unwound
TREES = (
    nodes((14, 12, 0, MAIN, 1), (16, 14, 1, 0x1000, 1), (18, 16, 2, 0x10, BARE)),
    nodes((14, 12, 0, IDLE, 1), (16, 12, 0, UNKNOWN, 1), (18, 16, 1, 0x1000, 1), (20, 12, 0, PARTIAL, 1)),
    nodes((14, 12, 1, 0x1000, 1), (16, 12, 9, 0x1000, 1), (18, 14, 0, IDLE, 1)),  # no entry, no such module
    ((12, 0, OUTLINED, 7, 1), (14, 12, 1, 0x1000, 1)),  # no root
    (ROOT, (14, 12, OUTLINED, 7, 1), (16, 0, 0, ROOT[3], 1), (18, 16, 2, 0x10, 1)),  # two roots
    (),
)
WRONG: tuple[tuple[tuple[int, int, int, int, int], ...], ...] = (
    ((12, 0, 1, 0x1000, 1),),
    nodes((14, 12, 0, MAIN, 1), (16, 14, 0, PARTIAL, 1)),
    nodes((14, 12, 1, 0x10, BARE), (16, 14, 1, 0x20, 1)),
)
FLAVOURS = [Flavour(demotes, has_idle) for demotes in (True, False) for has_idle in (True, False)]


def old(thread: int) -> bytes:
    """A file of 02.00 with two epochs, whose interior nodes hold return addresses."""
    metrics = (RawMetric("CPUTIME (usec)", REAL), RawMetric("CYCLES", INT, period=1000))
    tree = RawNode(2, 0, 0, 0, (0.0, 0)), RawNode(4, 2, 1, 0x1006, (0.5, 3)), RawNode(-5, 4, 1, 9, (1.5, 2))
    first = RawEpoch(metrics, tree)
    second = RawEpoch(metrics[1:], (RawNode(2, 0, 0, 0, (0,)), RawNode(-9, 2, 0, 1, (5,)), RawNode(-7, 2, 7, 3, (1,))))
    return file_02(first, second, header=(("program-name", "app"), ("thread-id", str(thread)), ("mpi-rank", "9")))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files of every kind, made for this and of real runs."""
    where = tmp_path_factory.mktemp("m")
    metrics = (RawMetric("CPUTIME (sec)", REAL), RawMetric("CYCLES", INT, period=1000, move2proc=1))
    for rank, tree in enumerate(TREES):
        values = ((tree[-1][0], ((0, 0.5), (1, 7), (0, 0.0))),) if tree else ()
        measured(where, File04(tree, metrics[::-1] if rank == 2 else metrics, values[: rank != 2]), rank)
    measured(where, File04(TREES[0], metrics, values=((18, ((1, 2),)),), has_flags=False), len(TREES))
    for thread in (0, 1):
        put(where, old(thread), 90, thread)
    real = [path for run in sorted(CORPUS.glob("*/*.m")) for path in measurement_files(run)]
    assert len(real) > 10
    for number, path in enumerate(real):
        (where / f"real-{number:06d}-000-0000007f-42-0.hpcrun").write_bytes(path.read_bytes())
    return where


@pytest.fixture(scope="module")
def sources(folder: Path) -> list[NodeSource]:
    files = [(path, read_measurement(path)) for path in measurement_files(folder)]
    return [NodeSource(one, epoch, path) for path, one in files for epoch in one.epochs]


def numbered(sources: Sequence[NodeSource]) -> dict[str, int]:
    paths = [module.path for source in sources for module in source.epoch.modules]
    return {path: number for number, path in enumerate(dict.fromkeys(paths))}


def as_lists(trees: Sequence[Tree]) -> list[list[list[int]]]:
    return [[column.tolist() for column in tree] for tree in trees]


@pytest.mark.parametrize("flavour", FLAVOURS, ids=str)
def test_nodes_of_many_files_are_those_of_each(sources: list[NodeSource], flavour: Flavour) -> None:
    modules = numbered(sources)
    alone = {id(source): as_lists(normal_nodes([source], modules, flavour))[0] for source in sources}

    @given(st.lists(st.sampled_from(sources), min_size=1, max_size=12))
    def check(chosen: list[NodeSource]) -> None:
        assert as_lists(normal_nodes(chosen, modules, flavour)) == [alone[id(source)] for source in chosen]

    check()
    together = normal_nodes(sources, modules, flavour)
    assert as_lists(together) == list(alone.values())
    assert any(len(tree[0]) > len(source.epoch.nodes) for tree, source in zip(together, sources, strict=True))
    assert as_lists(Forest.of(together).trees()) == as_lists(together)


@pytest.mark.parametrize("wrong", WRONG)
def test_the_file_whose_nodes_break_the_rules_is_named(
    wrong: tuple[tuple[int, int, int, int, int], ...], sources: list[NodeSource], tmp_path: Path
) -> None:
    path = measured(tmp_path, File04(wrong, values=()))
    [epoch] = (one := read_measurement(path)).epochs
    bad = NodeSource(one, epoch, path)
    said = set()
    for chosen in ([bad], [*sources, bad], [sources[0], bad, *sources]):
        with pytest.raises(CorruptFile) as caught:
            normal_nodes(chosen, numbered(chosen), Flavour())
        said.add(str(caught.value))
    assert len(said) == 1
    assert str(path) in said.pop()


def surveyed(paths: Sequence[Path]) -> Survey:
    return survey_batch(Batch(tuple((str(path), str(path.parent)) for path in paths), Flavour(), wants_traces=False))


def test_damaged_files_are_skipped_in_their_order(tmp_path: Path) -> None:
    """Whatever stops them: what is said of each is what is said of it alone, and the others are there."""
    damage: list[Callable[[bytes], bytes]] = [lambda data: data, lambda data: data[:-1], lambda _: b""]
    paths = [measured(tmp_path, File04(tree, values=()), rank) for rank, tree in enumerate((*WRONG, *TREES, *WRONG))]
    for number, path in enumerate(paths):
        path.write_bytes(damage[number % 3](path.read_bytes()))
    paths.append(tmp_path / "gone-000099-000-0000007f-42-0.hpcrun")
    survey, alone = surveyed(paths), [surveyed([path]) for path in paths]
    assert [file.path for file in survey.files] == [file.path for one in alone for file in one.files]
    assert survey.skipped == tuple(said for one in alone for said in one.skipped)
    assert survey.notes == tuple(note for one in alone for note in one.notes)
    assert 0 < len(survey.files) < len(paths) - 1
    assert survey.tree is not None
    assert len(survey.tree) == len(surveyed([Path(file.path) for file in survey.files]).tree or ())


def values_of(folder: Path, flavour: Flavour, at_a_time: int) -> tuple[list[list[float]], list[float]]:
    """Values of the files of a folder, some at a time, and what the files hold."""
    request = Request(Inputs((folder,), is_foreign=True), Attribution(), flavour)
    ready = prepare(request, survey_of(request, IN_PROCESS))
    rows: list[list[float]] = []
    totals = np.zeros(len(ready.plan.metrics.is_derived))
    for first in range(0, len(ready.files), at_a_time):
        files = nodes_of_files(ready.plan, [file.path for file in ready.files[first : first + at_a_time]])
        points, held = points_of(ready.plan, files)
        block = block_of(ready.plan, points, np.arange(first, first + len(files)))
        columns = (block.profile, block.context, block.metric, block.value)
        rows += [list(row) for row in zip(*(column.tolist() for column in columns), strict=True)]
        totals += held
    return sorted(rows), totals.tolist()


def test_values_of_many_files_are_those_of_each(folder: Path) -> None:
    for flavour in FLAVOURS[:2]:
        (alone, held), (some, _), (together, held_together) = (values_of(folder, flavour, n) for n in (1, 3, 1000))
        assert alone == some == together
        assert held == pytest.approx(held_together)
        assert any(held)


def test_a_value_of_a_metric_that_came_since_the_first_pass(tmp_path: Path) -> None:
    """It must not be taken for a metric of another file."""
    paths = [measured(tmp_path, File04(values=((18, ((0, 0.5),)),)), rank) for rank in range(2)]
    request = Request(Inputs((tmp_path,), is_foreign=True))
    plan = prepare(request, survey_of(request, IN_PROCESS)).plan
    measured(tmp_path, File04(values=((18, ((1, 0.5),)),)), 0)
    with pytest.raises(InputError, match=r"app-000000-.*was changed while it was read"):
        points_of(plan, nodes_of_files(plan, list(map(str, paths))))


def test_old_files_without_epochs_among_others(tmp_path: Path) -> None:
    paths = [put(tmp_path, file_02(), 0), measured(tmp_path, File04(), 1), put(tmp_path, file_02(), 2)]
    files = [(file := FileBytes(path), read_tables(file)) for path in paths]
    tables = file_tables(files, {"/bin/app": 0, "/lib/libm.so": 1}, Flavour())
    assert [len(one.trees) for one in tables] == [0, 1, 0]
    assert normal_nodes([], {}, Flavour()) == []
    assert len(experiment_of(tmp_path).profiles) == 3


@pytest.mark.parametrize("ranks", [(0, 1, 2, 10), (0, 0, 2, 2)])
def test_profiles_are_in_the_order_of_their_tuples_then_of_their_names(ranks: Sequence[int], tmp_path: Path) -> None:
    names = ["app-10-0-7f-42-0", "app-9-0-7f-42-0", "b-1-0-7f-42-0", "a-1-0-7f-42-0"]
    for rank, name in zip(ranks, names, strict=True):
        content = File04().changed(identifiers=((2, rank, rank, 3),), header=(("program-name", name),))
        (tmp_path / f"{name}.hpcrun").write_bytes(content)
    request = Request(Inputs((tmp_path,), is_foreign=True))
    ready = prepare(request, survey_of(request, IN_PROCESS))
    found = [file.program for file in ready.files]
    assert found == (names if len(set(ranks)) == 4 else ["app-9-0-7f-42-0", "app-10-0-7f-42-0", names[3], names[2]])


def test_damage_is_no_other_error(tmp_path: Path) -> None:
    """Of files cut anywhere, only what can be said comes out, in a batch with a sound one."""
    sound = measured(tmp_path, File04(), 0)
    whole = File04(TREES[1], values=()).packed()
    for cut in range(0, len(whole), 97):
        put(tmp_path, whole[:cut], 1)
        try:
            survey = surveyed(measurement_files(tmp_path))
        except CallgroveError as error:
            pytest.fail(f"cut at {cut}: {error}")
        assert [file.path for file in survey.files] == [str(sound)]
        assert len(survey.skipped) == 1


def test_files_stay_packed_until_somebody_looks(folder: Path) -> None:
    """Those who combine surveys of others hand their files on as they came."""
    first, second = (surveyed([path]).files for path in measurement_files(folder)[:2])
    sent = pickle.loads(pickle.dumps(first.join(second)))
    with patch.object(pickle, "loads", side_effect=AssertionError("somebody looked")):
        again = SurveyedFiles().join(sent).join(first)
        data = pickle.dumps(again)
    assert list(pickle.loads(data)) == [*first, *second, *first]
    assert [len(sent), len(again), bool(SurveyedFiles())] == [2, 3, False]
    assert (again[1].path, again[-1:]) == (second[0].path, tuple(first))
