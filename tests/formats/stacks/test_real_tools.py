"""Files of stacks as the programs read them that they are written for: Graphviz, go's pprof, speedscope."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from xml.etree import ElementTree

import pytest

import callgrove
from callgrove.examples import example, gpu_example
from callgrove.model.experiment import Experiment
from tests.formats.stacks.reading_back import tree_t
from tests.requirements import ROOT, need, need_module
from tests.timing import HANG_SEC

EVIL = ['"', "<script>alert(1)</script>", "a\nb", "\x1b[31mred", "back\\slash", "{x|y}", "&amp;"]
UNIT_NS = {"s": 1e9, "ms": 1e6, "us": 1e3, "µs": 1e3, "ns": 1.0, "mins": 60e9, "hrs": 3600e9}
SCHEMA = ROOT / "node_modules" / "speedscope" / "dist" / "release" / "file-format-schema.json"


def run(*command: object) -> str:
    """What a program prints, which must succeed."""
    if shutil.which(str(command[0])) is None:
        need(str(command[0]), f"{command[0]} is not installed")
    words = [str(word) for word in command]
    return subprocess.run(words, check=True, capture_output=True, text=True, timeout=HANG_SEC).stdout


@pytest.mark.parametrize("name", [None, *EVIL], ids=ascii)
def test_graphviz_draws_the_graph(tmp_path: Path, name: str | None) -> None:
    path = tmp_path / "t.dot"
    callgrove.write(tree_t({"kernel": name} if name else None), path)
    picture = ElementTree.fromstring(run("dot", "-Tsvg", path))
    texts = {"".join(text.itertext()) for text in picture.iter("{http://www.w3.org/2000/svg}text")}
    assert {"main", "solve", "MPI_Allreduce"} <= texts
    assert not list(picture.iter("{http://www.w3.org/2000/svg}script"))


def seconds(text: str) -> float:
    found = re.fullmatch(r"(-?[\d.]+)([a-zµ]+)", text)
    return 0.0 if found is None else float(found[1]) * UNIT_NS[found[2]] / 1e9


def pprof_rows(path: Path) -> dict[str, tuple[float, float]]:
    """Flat and cumulative seconds by name, as go's pprof prints them."""
    lines = run("go", "tool", "pprof", "-top", "-nodecount=1000", "-nodefraction=0", path).splitlines()
    start = next(k for k, line in enumerate(lines) if line.split()[:2] == ["flat", "flat%"])
    rows = (line.split(None, 5) for line in lines[start + 1 :])
    return {name: (seconds(flat), seconds(cumulative)) for flat, _, _, cumulative, _, name in rows}


def test_pprof_shows_the_flat_profile(tmp_path: Path) -> None:
    run_of_all: Experiment = example()
    path = tmp_path / "stencil.pb.gz"
    callgrove.write(run_of_all, path)
    rows = pprof_rows(path)
    table = run_of_all.top()
    for name, exclusive, inclusive in zip(table["name"], table["exclusive"], table["inclusive"], strict=True):
        if name in rows:
            assert list(rows[name]) == pytest.approx([exclusive, inclusive], rel=5e-3)
    assert sum(flat for flat, _ in rows.values()) == pytest.approx(sum(table["exclusive"]), rel=5e-3)


def test_pprof_takes_hostile_names(tmp_path: Path) -> None:
    for number, name in enumerate(EVIL):
        path = tmp_path / f"{number}.pb.gz"
        callgrove.write(tree_t({"kernel": name}), path)
        assert pprof_rows(path)["main"][1] == 224


@pytest.mark.parametrize("make", [example, gpu_example, tree_t])
def test_speedscope_accepts_the_file(tmp_path: Path, make: object) -> None:
    jsonschema = need_module("jsonschema")
    if not SCHEMA.is_file():
        need("speedscope", "speedscope is not installed; `npm install --no-save speedscope` does it")
    assert callable(make)
    path = tmp_path / "t.speedscope.json"
    callgrove.write(make(), path)
    jsonschema.validate(json.loads(path.read_text()), json.loads(SCHEMA.read_text()))
