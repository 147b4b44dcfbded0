"""Databases against those that the genuine tool made of the same measurements."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from callgrove.cli.main import main
from callgrove.model.experiment import Experiment
from callgrove.model.metrics import Scope
from tests.formats.hpctoolkit import canonical_paths as canonical
from tests.prof.making import experiment_of, opened
from tests.requirements import ROOT, SHARED, need

CORPUS = ROOT / "tests" / "corpus"
OWN, PUBLIC = "data/own", "data/public/hpctoolkit"
# measurements, reference, target, whether structure files are used
LOCAL = [
    ("hpcrun/04.00/pth4.m", "hpctoolkit/release/pth4.foreign.d", "hpctoolkit-release", True),
    ("hpcrun/04.00/pth4.m", "hpctoolkit/prerelease/pth4.foreign.d", "hpctoolkit-prerelease", True),
]
GENUINE = [
    (f"{OWN}/hpcrun-04.00/{name}.m", f"{OWN}/{target}/{name}.foreign.d", target, True)
    for name in ("mpi4", "gxx_s")
    for target in ("hpctoolkit-release", "hpctoolkit-prerelease")
] + [
    (
        f"{PUBLIC}/meas/{name}.m",
        f"{PUBLIC}/dbase/{name}{'' if structured else '.nostruct'}.d",
        "hpctoolkit-release",
        structured,
    )
    for name in ("small", "loops-cputime-t", "loops-cuda-nvidia-t", "loops-cuda-nvidiapc-t")
    for structured in (True, False)
    if (name, structured) != ("loops-cputime-t", False)  # made where the vdso's own symbols were read
]
SCOPES = (Scope.POINT, Scope.FUNCTION, Scope.LEXICAL, Scope.INCLUSIVE)


def made(measurements: Path, target: Path, to: str, structured: bool) -> Experiment:
    options = ["--foreign", "-j", "1", *([] if structured else ["--ignore-structs"])]
    assert main(["prof", str(measurements), str(target), "--to", to, *options]) == 0
    return opened(target)


def close(left: dict[object, float], right: dict[object, float]) -> None:
    assert left.keys() == right.keys()
    for key, value in left.items():
        assert value == pytest.approx(right[key], rel=1e-9), key


def who(experiment: Experiment) -> dict[object, object]:
    """From how profiles are called to what does not depend on their order: nothing, where tuples are not unique."""
    names = canonical.profile_names(experiment)
    return {name: name if isinstance(name, tuple) else None for name in names}


def costs(experiment: Experiment, quantity: str, scope: Scope) -> dict[object, float]:
    found: dict[object, float] = {}
    names = who(experiment)
    for (profile, path), value in canonical.costs(experiment, quantity, scope).items():
        if value:
            key = names[profile], path
            found[key] = found.get(key, 0.0) + value
    return found


def samples(experiment: Experiment) -> Counter[tuple[object, ...]]:
    names = who(experiment)
    lines = canonical.samples(experiment).items()
    return Counter((names[name], time, path) for name, line in lines for time, path in line)


def elided(experiment: Experiment) -> Counter[tuple[object, ...]]:
    """Values of contexts that the tree does not list: profile, metric, scope and value."""
    found: Counter[tuple[object, ...]] = Counter()
    names = list(who(experiment).values())
    for block in (b.triples() for b in experiment.values.blocks()):
        rows = block.take(block.context >= experiment.contexts.n_listed)
        for p, m, v in zip(rows.profile.tolist(), rows.metric.tolist(), rows.value.tolist(), strict=True):
            metric = experiment.metrics[m]
            found[names[p], metric.name, metric.scope, float(np.format_float_scientific(v, 9))] += 1
    return found


def same(ours: Experiment, genuine: Experiment) -> None:
    assert canonical.paths(ours) == canonical.paths(genuine)
    assert {m.name for m in ours.metrics if m.scope} >= {m.name for m in genuine.metrics if m.scope}
    for quantity in genuine.metrics.quantities:
        for scope in SCOPES:
            if genuine.metrics.find(quantity, scope) is not None:
                close(costs(ours, quantity, scope), costs(genuine, quantity, scope))
    assert elided(ours) == elided(genuine)
    assert samples(ours) == samples(genuine)


@pytest.mark.parametrize(("measurements", "reference", "to", "structured"), LOCAL)
def test_the_corpus(measurements: str, reference: str, to: str, structured: bool, tmp_path: Path) -> None:
    ours = made(CORPUS / measurements, tmp_path / "made.d", to, structured)
    same(ours, opened(CORPUS / reference))


@pytest.mark.parametrize(("measurements", "reference", "to", "structured"), GENUINE)
def test_genuine_samples(
    measurements: str, reference: str, to: str, structured: bool, tmp_path: Path, shared: Path
) -> None:
    if not (SHARED / measurements).is_dir():
        need("shared", f"{measurements} is absent")
    same(made(shared / measurements, tmp_path / "made.d", to, structured), opened(shared / reference))


def test_an_experiment_without_a_database_is_the_same() -> None:
    """What a writer is given is also what can be asked directly."""
    ours = experiment_of(CORPUS / "hpcrun/04.00/pth4.m")
    genuine = opened(CORPUS / "hpctoolkit/release/pth4.foreign.d")
    same(ours, genuine)
    assert ours.title == "pth"
    of_first = [b.triples() for b in ours.values.blocks(np.array([1]))]
    assert sum(map(len, of_first)) == len(ours.values.profile(1)) > 0
    at = int(of_first[0].context[0])
    everywhere = [b.triples() for b in ours.values.blocks()]
    assert len(ours.values.context(at)) == sum(int((b.context == at).sum()) for b in everywhere) > 0
