"""The values of every profile, against Hatchet's per-profile mode on the very same database."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from bench.conditions import ROOT, Conditions, columns_from_path, opened
from bench.results import Finding
from bench.timing import best_seconds
from callgrove.arrays import Array, Floats
from callgrove.model.experiment import Experiment
from callgrove.model.metrics import Scope

__all__ = ["PYTHON", "run", "same_values"]

PYTHON = ROOT / ".peers" / "hatchet" / "bin" / "python"
SCRIPT = ROOT / "bench" / "peers" / "read_with_hatchet.py"
N_SCALES, N_REPEATS = 2, 2  # it takes its time


@dataclass(frozen=True)
class Peer:
    """What one call gave, and how long it took."""

    seconds: float
    profile: Array
    context: Array
    inclusive: Floats
    exclusive: Floats


def run(conditions: Conditions) -> Iterator[Finding]:
    """At the two largest scales, to show how both grow. Nothing is extrapolated."""
    for scale in conditions.scales[-N_SCALES:]:
        what = f"Hatchet / open and columns, scale {scale}"
        at_least = 50 if scale == 1 else None
        if not PYTHON.is_file():
            yield Finding("hatchet", what, float("nan"), at_least=at_least, note="run `make peers` first")
            continue
        folder = conditions.database(conditions.full_rows.with_profiles(scale))
        peer = _ask(folder)
        experiment = opened(folder)
        if not same_values(experiment, peer):
            raise AssertionError(f"{folder}: Hatchet reads other values")
        ours = best_seconds({"ours": partial(columns_from_path, folder)}, conditions.n_repeats)
        theirs = min([peer.seconds, *(_ask(folder).seconds for _ in range(N_REPEATS - 1))])
        note = f"{len(peer.profile):,} rows of two values, all equal to ours"
        yield Finding("hatchet", what, theirs / ours["ours"], at_least=at_least, note=note)


def _ask(folder: Path) -> Peer:
    """One read, in a process of its own; starting it and importing Hatchet are not timed."""
    with TemporaryDirectory() as place:
        out = Path(place) / "hatchet.npz"
        subprocess.run([PYTHON, SCRIPT, folder, out], check=True, capture_output=True)
        with np.load(out) as found:
            columns = (found[name] for name in ("profile", "context", "inclusive", "exclusive"))
            return Peer(float(found["seconds"]), *columns)


def same_values(experiment: Experiment, peer: Peer) -> bool:
    """Are its rows, all of them, our values in the scopes `inclusive` and `function`?"""
    asked = _key(experiment, peer.profile, peer.context)
    order = np.argsort(asked)
    measured = experiment.profiles.measured
    for scope, values in ((Scope.INCLUSIVE, peer.inclusive), (Scope.FUNCTION, peer.exclusive)):
        row = experiment.metrics.find(experiment.default_metric, scope)
        assert row is not None
        ours = experiment.values.metric(row, measured)
        keys = _key(experiment, ours.profile, experiment.contexts.source_id[ours.context])
        ranked = np.argsort(keys)
        if not (np.array_equal(asked[order], keys[ranked]) and np.array_equal(values[order], ours.value[ranked])):
            return False
    return True


def _key(experiment: Experiment, profile: Array, context_id: Array) -> Array:
    most = int(experiment.contexts.source_id.max()) + 1
    key: Array = profile.astype(np.int64) * most + context_id
    return key
