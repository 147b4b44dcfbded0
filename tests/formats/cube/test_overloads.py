"""Functions whose display names are equal and whose mangled names differ: constructors, overloads."""

from __future__ import annotations

import re
import tarfile
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import pytest

import callgrove
from callgrove import Scope
from callgrove.algebra.cutting import cut
from callgrove.algebra.operations import mean, merge
from callgrove.model.contexts import ContextTree
from callgrove.model.experiment import Experiment
from callgrove.model.joining import unify
from tests.cli.commands import Capture, notes, rows
from tests.formats.cube.raw_cubes import Cube, Node, RawMetric

INT, DOUBLE = "f@@_Z1fi", "f@@_Z1fd"
TREE: list[Node] = [(0, "main", [(1, INT, []), (2, DOUBLE, [(3, INT, [])]), (4, "g", [])])]
VISITS = {0: (1, 0, 0, 0), 1: (10, 0, 0, 0), 2: (200, 0, 0, 0), 3: (3000, 0, 0, 0), 4: (5, 0, 0, 0)}
OWN = {"f [_Z1fi]": 3010, "f [_Z1fd]": 200, "main": 1, "g": 5}


def opened(path: Path, tree: list[Node] = TREE, visits: Mapping[int, tuple[int, ...]] = VISITS) -> Experiment:
    found = callgrove.open(Cube(tree, [RawMetric("visits", dtype="UINT64", rows=visits, uom="occ")]).write(path))
    assert isinstance(found, Experiment)
    return found


def callees(path: Path) -> list[str]:
    """The mangled names that cnodes lead to, in the order of the document: read without our reader."""
    with tarfile.open(path) as archive:
        member = archive.extractfile("anchor.xml")
        assert member is not None
        anchor = member.read().decode()
    regions = re.findall(r'<region\b[^>]*\bid="(\d+)"[^>]*>.*?<mangled_name>(.*?)</mangled_name>', anchor, re.DOTALL)
    return [dict(regions)[callee] for callee in re.findall(r'<cnode\b[^>]*calleeId="(\d+)"', anchor)]


def names_of(tree: ContextTree) -> list[str]:
    return [tree.mangled_name(context) or tree.name(context) for context in range(len(tree))]


def test_they_are_read_and_written_as_two(tmp_path: Path, capsys: Capture) -> None:
    experiment = opened(tmp_path / "in.cubex")
    assert names_of(experiment.contexts) == ["main", "_Z1fi", "_Z1fd", "_Z1fi", "g"]
    assert len(experiment.contexts.regions) == 4
    for out in ("out.cubex", "out.cgrove"):
        notes(capsys, "convert", tmp_path / "in.cubex", tmp_path / out)
        again = callgrove.open(tmp_path / out)
        assert isinstance(again, Experiment)
        assert names_of(again.contexts) == names_of(experiment.contexts)
    assert callees(tmp_path / "out.cubex") == callees(tmp_path / "in.cubex") == ["main", "_Z1fi", "_Z1fd", "_Z1fi", ""]


@pytest.mark.parametrize("verb", ["top", "tree"])
def test_views_tell_them_apart(verb: str, tmp_path: Path, capsys: Capture) -> None:
    opened(tmp_path / "in.cubex")
    own: Counter[str] = Counter()
    for row in rows(capsys, verb, tmp_path / "in.cubex", "--limit", "all"):
        own[row["name"].strip()] += row["exclusive"]
    assert own == OWN
    hot = [row["name"] for row in rows(capsys, "hot", tmp_path / "in.cubex")]
    assert hot == ["main", "f [_Z1fd]", "f [_Z1fi]"]


def test_names_stay_as_they_are_where_nothing_else_is_called_so(tmp_path: Path, capsys: Capture) -> None:
    opened(tmp_path / "in.cubex", [(0, "main", [(1, INT, [])])], {1: (10, 0, 0, 0)})
    assert [row["name"] for row in rows(capsys, "top", tmp_path / "in.cubex")] == ["f", "main"]


@pytest.mark.parametrize("flat", [[], ["--flat"]])
def test_comparisons_tell_them_apart_in_all_inputs(flat: list[str], tmp_path: Path, capsys: Capture) -> None:
    """The second input calls but one of them: it is the same one."""
    opened(tmp_path / "left.cubex")
    opened(tmp_path / "right.cubex", [(0, "main", [(1, DOUBLE, [])])], {1: (150, 0, 0, 0)})
    found = rows(capsys, "diff", tmp_path / "left.cubex", tmp_path / "right.cubex", *flat, "--limit", "all")
    nested = {"main->f [_Z1fi]": (10, 0), "main->f [_Z1fd]->f [_Z1fi]": (3000, 0), "main->f [_Z1fd]": (200, 150)}
    by_name = {"f [_Z1fi]": (3010, 0), "f [_Z1fd]": (200, 150)}
    others = {"main": (1, 0), "g" if flat else "main->g": (5, 0)}
    wanted = others | (by_name if flat else nested)
    assert {row["path"]: (row["left"], row["right"]) for row in found} == wanted


def test_trees_are_matched_by_mangled_names(tmp_path: Path) -> None:
    whole = opened(tmp_path / "a.cubex")
    part = opened(
        tmp_path / "b.cubex", [(0, "main", [(1, DOUBLE, []), (2, INT, [])])], {1: (7, 0, 0, 0), 2: (1, 0, 0, 0)}
    )
    unified = unify([whole.contexts, part.contexts])
    assert names_of(unified.tree) == names_of(whole.contexts)
    assert unified.maps[1].tolist() == [0, 2, 1]
    merged = merge(whole, part, conflict="sum")
    assert merged.totals("visits", Scope.EXCLUSIVE).tolist() == [1, 11, 207, 3000, 5]
    assert mean(whole, part).totals("visits", Scope.EXCLUSIVE).tolist() == [0.5, 5.5, 103.5, 1500, 2.5]


def test_another_compiler_mangles_differently(tmp_path: Path) -> None:
    """As many as before, none of them known: the first is the first."""
    one = opened(tmp_path / "a.cubex")
    tree: list[Node] = [(0, "main", [(1, "f@@x1", []), (2, "f@@x2", []), (4, "g", [(5, "f@@x1", [])])])]
    other = opened(tmp_path / "b.cubex", tree, {1: (1, 0, 0, 0)})
    unified = unify([one.contexts, other.contexts])
    assert unified.maps[1].tolist() == [0, 1, 2, 4, 5]
    assert names_of(unified.tree) == [*names_of(one.contexts), "_Z1fi"]
    single: list[Node] = [(0, "main", [(1, "f@@x3", [])])]
    unified = unify([one.contexts, opened(tmp_path / "c.cubex", single, {1: (1, 0, 0, 0)}).contexts])
    assert names_of(unified.tree) == [*names_of(one.contexts), "x3"]


def test_files_without_mangled_names_match_those_with_them(tmp_path: Path) -> None:
    """Anchors before 4.4 have none."""
    single: list[Node] = [(0, "main", [(1, INT, [])])]
    new = opened(tmp_path / "new.cubex", single, {1: (1, 0, 0, 0)})
    text = Cube(single, []).anchor().replace("<mangled_name>_Z1fi</mangled_name>", "").encode()
    old = callgrove.open(Cube(single, []).write(tmp_path / "old.cubex", {"anchor.xml": text}))
    assert isinstance(old, Experiment)
    for trees in ([new.contexts, old.contexts], [old.contexts, new.contexts]):
        assert len(unify(trees).tree) == 2
        assert len(unify(trees).tree.regions) == 2


def test_matching_step_by_step_is_matching_at_once(tmp_path: Path) -> None:
    trees: list[list[Node]] = [
        [(0, "main", [(1, "f", []), (2, INT, [])])],
        [(0, "main", [(1, DOUBLE, []), (2, INT, [])])],
        [(0, "main", [(1, "f@@x1", []), (2, "f@@x2", [])])],
        [(0, "main", [(1, "f@@x2", [(2, DOUBLE, [])])])],
    ]
    found = [opened(tmp_path / f"{k}.cubex", tree, {}).contexts for k, tree in enumerate(trees)]
    for first, second, third in ((0, 1, 2), (1, 2, 3), (3, 2, 1), (2, 0, 3)):
        at_once = unify([found[first], found[second], found[third]]).tree
        stepwise = unify([unify([found[first], found[second]]).tree, found[third]]).tree
        assert names_of(at_once) == names_of(stepwise)
        assert at_once.parent.tolist() == stepwise.parent.tolist()


def test_a_cut_keeps_them_apart(tmp_path: Path) -> None:
    left = cut(opened(tmp_path / "in.cubex"), prunes=["g"])
    assert names_of(left.contexts) == ["main", "_Z1fi", "_Z1fd", "_Z1fi"]
    assert left.totals("visits", Scope.EXCLUSIVE).tolist() == [6, 10, 200, 3000]
