"""Both Hatchets and Thicket, in environments of their own, look at what we give them."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import callgrove
from callgrove.model.experiment import Experiment
from tests.formats.samples import CORPUS
from tests.frames.trees import tree_t
from tests.requirements import ROOT, need_peer
from tests.timing import HANG_SEC

SCRIPT = ROOT / "tests" / "frames" / "ask_hatchet.py"
HATCHETS = ("hatchet", "hatchet-classic")
SAME = 1e-12

Ask = Callable[..., dict[str, Any]]


def ask(peer: str, *arguments: Path) -> dict[str, Any]:
    """Return what a peer sees."""
    python = need_peer(peer)
    paths = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    done = subprocess.run(
        [python, SCRIPT, *arguments],
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        timeout=HANG_SEC,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    seen: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return seen


@pytest.mark.parametrize("peer", HATCHETS)
def test_hatchet_sees_tree_t(peer: str) -> None:
    answer = ask(peer)
    assert "the tree is 1999 levels deep, and Hatchet walks trees by recursion" in answer["deep"]
    seen = answer["hatchet"]
    assert seen["nodes"] == seen["contexts"] == 12
    assert seen["levels"] == ["node", "rank"], "one thread in each"
    assert seen["columns"][:5] == ["name", "type", "file", "module", "line"]
    assert seen["metrics"] == [["cycles", "time"], ["cycles (inc)", "time (inc)"]]
    assert seen["default"] == "time (inc)"
    assert seen["exclusive"] == seen["inclusive"] == seen["back"] == {"time": 224, "cycles": 448}
    assert seen["changed"] == 0
    assert seen["absent"] == [12, 12], "write and fwrite on three ranks, of two metrics"
    assert seen["warnings"] == []
    assert "63.000 main" in seen["tree"], "of rank 0"
    assert "25.000 kernel" in seen["tree"]


def samples(shared: Path) -> list[Path]:
    release, cube = CORPUS / "hpctoolkit" / "release", shared / "data" / "own" / "cube" / "mpi4"
    return [release / "mpi4.d", release / "pth4.d", next(cube.glob("*.cubex"))]


@pytest.mark.parametrize("peer", HATCHETS)
@pytest.mark.parametrize("number", range(3), ids=["mpi4", "pth4", "cube"])
def test_hatchet_has_the_totals_of_real_runs(peer: str, number: int, shared: Path) -> None:
    path = samples(shared)[number]
    e = callgrove.open(path)
    assert isinstance(e, Experiment)
    seen = ask(peer, path)["hatchet"]
    for name, exclusive in seen["exclusive"].items():
        total = pytest.approx(e.root_total(name), rel=SAME)
        assert exclusive == total
        assert seen["inclusive"][name] == total
        assert seen["back"][name] == total
        assert seen["squashed"][name] == total
    assert seen["quantities"][0] == seen["quantities"][1], "minima and maxima as well"
    assert seen["unique"]
    assert seen["changed"] <= SAME, "Hatchet adds up the same inclusive costs"
    assert seen["absent"][0] == seen["absent"][1]
    assert seen["default"] == f"{e.default_metric} (inc)"


def test_thicket_has_runs_as_profiles() -> None:
    seen = ask("thicket")["thicket"]
    assert seen["type"] == "Thicket"
    assert seen["levels"] == ["node", "profile"]
    assert seen["sources"] == ["run0", "run1", "run2"]
    assert seen["metadata"] == {"run 0": 1, "run 1": 2, "run 2": 3}
    assert seen["exclusive"] == seen["inclusive"] == 224 * 6
    assert seen["difference"] <= SAME, "its own functions give these statistics"
    assert seen["kernel"] == 40, "exp: 20, 40 and 60"
    assert {"time", "time (inc)", "cycles", "cycles (inc)"} <= set(seen["columns"])
    assert seen["default"] == "time (inc)"
    assert seen["kept"] == 224 * 5
    assert seen["back"] == [224 * 6, [{"p": 1.0}, {"p": 2.0}, {"p": 3.0}]]


class FakeNode:
    """A node of a graph that is not a tree."""

    def __init__(self, *parents: FakeNode) -> None:
        self.frame, self.parents, self._hatchet_nid = {"name": "f"}, list(parents), 0


class FakeGraphFrame:
    """As much of a GraphFrame as is looked at."""

    def __init__(self, *nodes: FakeNode) -> None:
        self.graph = self
        self._nodes = nodes

    def traverse(self) -> list[FakeNode]:
        return list(self._nodes)


def test_a_node_with_two_callers_is_refused() -> None:
    one, other = FakeNode(), FakeNode()
    with pytest.raises(callgrove.UsageError, match="'f' has 2 callers"):
        callgrove.from_hatchet(FakeGraphFrame(one, other, FakeNode(one, other)))


def test_t_is_what_the_peers_are_given() -> None:
    assert tree_t().root_total("time") == 224
