"""Scaling models of all series of a study, against Extra-P on the very same numbers; and a million series."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from bench.conditions import ROOT, Conditions
from bench.results import Finding
from bench.series import SeriesShape, study_of
from bench.timing import best_processor_seconds
from callgrove.model.study.series import Study
from callgrove.modeling.fitting import Models, model_study
from callgrove.modeling.model_tables import function_text
from callgrove.modeling.options import METHODS

__all__ = ["PYTHON", "ask", "run", "same_models"]

PYTHON = ROOT / ".peers" / "extrap" / "bin" / "python"
SCRIPT = ROOT / "bench" / "peers" / "model_with_extrap.py"
SIZES = ((SeriesShape(1, 2000), 1000), (SeriesShape(2, 500), 500), (SeriesShape(3, 100), 200))
N_MANY, MOST_MEGABYTES = 1_000_000, 2000
TOLERANCE = 1e-6


@dataclass(frozen=True)
class Peer:
    """Functions and errors by call path, and the processor seconds they took."""

    seconds: float
    models: dict[str, tuple[str, float]]


def run(conditions: Conditions) -> Iterator[Finding]:
    """One, two and three parameters; at full scale with their limits."""
    for whole, at_least in SIZES:
        shape = SeriesShape(whole.n_parameters, max(2, round(whole.n_series * conditions.largest)))
        limit = at_least if shape == whole else None
        what = f"Extra-P / models, {shape.n_parameters} parameters, {len(shape.points)} points, {shape.n_series} series"
        if not PYTHON.is_file():
            yield Finding("modeling", what, float("nan"), at_least=limit, note="run `make peers` first")
            continue
        study = study_of(shape)
        peer = ask(study)
        differing = same_models(model_study(study), peer)
        if differing:
            raise AssertionError(f"Extra-P has another model: {differing}")
        seconds = best_processor_seconds(partial(model_study, study), conditions.n_repeats)
        note = f"{shape.n_series / seconds:,.0f} models/s, all equal to Extra-P's"
        yield Finding("modeling", what, peer.seconds / seconds, at_least=limit, note=note)
    yield from _many(conditions)


def ask(study: Study) -> Peer:
    """In a process of its own; only the processor time of modelling counts."""
    with TemporaryDirectory() as place:
        given, out = Path(place) / "series.npz", Path(place) / "models.json"
        np.savez(given, parameters=np.array(study.parameters), points=study.points, values=study.mean)
        subprocess.run([PYTHON, SCRIPT, given, out], check=True, capture_output=True)
        found = json.loads(out.read_text())
    return Peer(found["seconds"], {name: (function, smape) for name, (function, smape) in found["models"].items()})


def same_models(models: Models, peer: Peer) -> str:
    """The first model that differs in its terms or its error, in words."""
    for number in range(len(models)):
        function, smape = peer.models[models.callpath(number)]
        ours, error = function_text(models.functions, number), float(models.costs.smape[number])
        if _terms(ours) != _terms(function) or abs(error - smape) > TOLERANCE * max(1.0, smape):
            return f"{function} ({smape}) instead of {ours} ({error})"
    return ""


def _terms(function: str) -> set[str]:
    """The terms without their coefficients."""
    return {" ".join(part for part in term.split(" * ") if "^" in part) for term in function.split(" + ")} - {""}


def _many(conditions: Conditions) -> Iterator[Finding]:
    n = max(1000, round(N_MANY * conditions.largest))
    for method in METHODS:
        command = [sys.executable, "-m", "bench.many_series", str(n), method]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
        measured = json.loads(done.stdout)
        megabytes = measured["peak"] / 1e6
        note = f"the study itself included; {n / measured['seconds']:,.0f} models/s"
        limit = MOST_MEGABYTES if n == N_MANY else None
        what = f"peak memory, {n:,} series of one parameter{', improved' if method == 'improved' else ''}"
        yield Finding("modeling", what, megabytes, "MB", limit, note=note)
