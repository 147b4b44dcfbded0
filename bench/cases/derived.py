"""Derived metrics of a Cube file by a specification: what they cost beside opening it, and how that grows.

The specification is of the kind that Score-P's is: an init block that puts every call path into a class by the name of
its region, 40 metrics that are masks times a difference of measured ones, 24 sums of these.
"""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

from bench.conditions import Conditions, opened
from bench.cubes import CubeShape, make_cube
from bench.results import Finding
from bench.timing import Work, best_seconds
from callgrove.arrays import Floats
from callgrove.model.experiment import Experiment
from callgrove.model.metrics import Scope

__all__ = ["run", "same_values", "write_specification"]

N_CLASSES, N_MASKED, N_SUMS = 10, 40, 24
SHAPE = CubeShape(n_cnodes=6008, n_locations=8, n_metrics=4)
LINEAR = 1.5  # at most, between the smaller file and the larger: noise has its part
MOST_TIMES_OPENING = 4.0
TOOL = "cube_remap2"
ELSEWHERE = "CubeLib's cube_remap2 -d is not installed; it took 5.7 s for a file of this size where it was measured"
LEAST_FASTER = 8.0


def run(conditions: Conditions) -> Iterator[Finding]:
    """One size against opening it and against CubeLib; four times the call paths, eight times the locations."""
    size = replace(SHAPE, n_cnodes=max(64, round(SHAPE.n_cnodes * float(conditions.largest))))
    more = {
        "cnode": replace(size, n_cnodes=4 * size.n_cnodes),
        "location": replace(size, n_locations=8 * size.n_locations),
    }
    paths = {name: _file(conditions, shape) for name, shape in {"": size, **more}.items()}
    specification = write_specification(conditions.folder / "derived.spec")
    if not same_values(opened(paths[""]).remap(specification)):
        raise AssertionError("formulas give other values than NumPy")
    works = {name: partial(_evaluating, path, specification) for name, path in paths.items()}
    best = best_seconds({**works, "open": partial(_opening, paths[""]), "bytes": partial(_reading, paths[""])}, 5)
    n_values = size.n_cnodes * size.n_locations * (N_MASKED + N_SUMS)
    note = f"{N_MASKED + N_SUMS} metrics, {n_values:,} values"
    yield Finding("derived", "all derived metrics / opening the file", best[""] / best["open"], "x", MOST_TIMES_OPENING)
    yield Finding("derived", "all derived metrics / reading its bytes", best[""] / best["bytes"], note=note)
    for name, factor in (("cnode", 4), ("location", 8)):
        grown = best[name] / factor / best[""]
        yield Finding("derived", f"time per {name}, {factor} x as many", grown, at_most=LINEAR)
    yield _against_tool(paths[""], specification, best[""] + best["open"], conditions.folder)


def _file(conditions: Conditions, shape: CubeShape) -> Path:
    conditions.folder.mkdir(parents=True, exist_ok=True)
    return make_cube(conditions.folder / shape.name, shape)


def write_specification(path: Path) -> Path:
    """Write the specification: `m0` and `m2` are measured, classes are the last digit of a region's name."""
    masks = "".join(f"global(class{k}); " for k in range(N_CLASSES))
    chain = "".join(
        f"{'else' * (k > 0)}if ( ${{cube::region::name}}[${{r}}] =~ /^f[0-9]*{k}$/ ) {{ ${{class{k}}}[${{i}}] = 1; }}\n"
        for k in range(N_CLASSES)
    )
    init = (
        f"{{ {masks} ${{i}} = 0; while ( ${{i}} < ${{cube::#callpaths}} ) {{"
        f" ${{r}} = ${{cube::callpath::calleeid}}[${{i}}];\n{chain}; ${{i}} = ${{i}} + 1; }}; return 0; }}"
    )
    below = "".join(
        _metric(f"d{k}", "PREDERIVED_EXCLUSIVE", _masked(k), init if not k else "") for k in range(N_MASKED)
    )
    below += "".join(_metric(f"s{k}", "POSTDERIVED", f"metric::d{k}() + metric::d{k + 1}()") for k in range(N_SUMS))
    path.write_text(f"<metrics>\n{_metric('m0', below=below)}</metrics>\n", encoding="utf-8")
    return path


def _masked(k: int) -> str:
    return f"${{class{k % N_CLASSES}}}[${{calculation::callpath::id}}] * ( metric::m0(e) - metric::m2(e) )"


def _metric(name: str, kind: str = "", formula: str = "", init: str = "", below: str = "") -> str:
    said = f' type="{kind}"' if kind else ""
    texts = f"<cubepl>{formula}</cubepl>" if formula else ""
    texts += f"<cubeplinit>{init}</cubeplinit>" if init else ""
    return (
        f"<metric{said}><disp_name>{name}</disp_name><uniq_name>{name}</uniq_name><dtype>FLOAT</dtype><uom>occ</uom>"
        f"<url></url><descr></descr>{texts}\n{below}</metric>\n"
    )


def same_values(remapped: Experiment) -> bool:
    """Compare two masked metrics and a sum of them with what NumPy makes of the stored values."""
    names = [remapped.contexts.name(context) for context in range(len(remapped.contexts))]
    last = np.array([int(name[-1]) for name in names])
    cost: Floats = remapped.matrix("m0", Scope.EXCLUSIVE).astype(np.float64) - remapped.matrix("m2", Scope.EXCLUSIVE)
    expected = {f"d{k}": np.where(last[:, None] == k, cost, 0.0) for k in (3, 4)}
    expected["s3"] = expected["d3"] + expected["d4"]
    return all(np.array_equal(remapped.matrix(name, Scope.EXCLUSIVE), values) for name, values in expected.items())


def _evaluating(path: Path, specification: Path) -> Work:
    experiment = opened(path)

    def evaluate() -> int:
        remapped = experiment.remap(specification)
        rows = np.array([row for row, metric in enumerate(remapped.metrics) if metric.derivation is not None])
        return sum(len(block) for block in remapped.values.blocks(None, rows))

    return evaluate


def _opening(path: Path) -> Work:
    return partial(opened, path)


def _reading(path: Path) -> Work:
    return path.read_bytes


def _against_tool(path: Path, specification: Path, seconds: float, folder: Path) -> Finding:
    what = f"{TOOL} -d / opening and all derived metrics"
    tool = shutil.which(TOOL)
    if tool is None:
        return Finding("derived", what, float("nan"), at_least=LEAST_FASTER, note=ELSEWHERE)
    out = folder / "remapped.cubex"
    start = time.perf_counter()
    subprocess.run([tool, "-d", "-r", specification, "-o", out, path], check=True, capture_output=True)
    return Finding("derived", what, (time.perf_counter() - start) / seconds, at_least=LEAST_FASTER)
