"""Format strings and presets of Extra-P's `--print`: what Extra-P prints of the same file, and what is refused."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from callgrove.errors import UsageError
from callgrove.model.study.series import Study
from callgrove.modeling.options import ModelOptions
from callgrove.modeling.prediction import models_of
from callgrove.modeling.stored_models import with_models
from callgrove.render.extrap_print import PRESETS, print_models
from tests.formats.extrap.extrap_files import written
from tests.requirements import ROOT, need
from tests.timing import HANG_SEC

PYTHON = ROOT / ".peers" / "extrap" / "bin" / "python"
SCRIPT = ROOT / "bench" / "peers" / "print_with_extrap.py"
FORMATS = [
    "{callpath}: {model}",
    "{?callpath} {?metric} {model}",
    "{{{callpath}}} {smape:.3f} {rrss:.2E} {rss:.4E} {ar2:.2f} {re:.3E}",
    "{parameters} | {parameters: sep:';'} | {parameters: sep:', '; format:'<{parameter}>'}",
    "{points}",
    "{points: sep:' ; '; format:'{point: sep:'/'; format:'{parameter}={coordinate:.1f}'}'} {callpath}",
    "{measurements}",
    "{metric}\t{measurements: sep:', '; format:'{point} {mean:.3E} {median:.3E} {std:.2E} {min:.1f} {max:.1f}'}",
    "callpaths",
    "metrics",
    "parameters",
    "functions",
]


def two_metrics() -> Study:
    points = [(p, n) for p in (2.0, 4.0, 8.0, 16.0, 32.0) for n in (10.0, 20.0, 40.0, 80.0, 160.0)]
    entries = [
        (path, metric, k, [factor * (3 + p * n), factor * (3 + p * n) + 0.5])
        for path in ("main", "main->f")
        for metric, factor in (("time", 1.0), ("bytes", 8.0))
        for k, (p, n) in enumerate(points)
    ]
    return Study.from_values(["p", "n"], points, entries)


def test_extra_p_prints_the_same(tmp_path: Path) -> None:
    if not PYTHON.is_file():
        need("extrap-peer", "Extra-P is not installed; `make peers` does that")
    study = two_metrics()
    study = with_models(study, models_of(study, ModelOptions()))
    written(study, "extrap-experiment", tmp_path / "s.extra-p")
    command = [str(PYTHON), str(SCRIPT), str(tmp_path / "out.json"), str(tmp_path / "s.extra-p"), *FORMATS]
    done = subprocess.run(command, capture_output=True, text=True, timeout=HANG_SEC, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    models = models_of(study, ModelOptions())
    for form, theirs in zip(FORMATS, json.loads((tmp_path / "out.json").read_text()), strict=True):
        assert "".join(print_models(models, form)) == theirs, form


def test_notations() -> None:
    study = Study.from_values(["p"], [[x] for x in (1, 2, 4, 8, 16)], [("f", "t", k, [2.0 * 2**k]) for k in range(5)])
    models = models_of(study, ModelOptions())
    assert "p" in "".join(print_models(models, "{model:python}"))
    form = "{measurements: sep:'\\n'; format:'{point: format:'{coordinate:.0f}'}: {mean:.1f}'}"
    assert "".join(print_models(models, form)) == "1: 2.0\n2: 4.0\n4: 8.0\n8: 16.0\n16: 32.0\n"
    assert "".join(print_models(models, "functions-latex")).count("\n") == 1
    assert all("".join(print_models(models, preset)) for preset in PRESETS)


@pytest.mark.parametrize(
    ("form", "text"),
    [
        ("{nothing}", "there is no placeholder {nothing}"),
        ("{callpath", "opened and not closed"),
        ("callpath}", "closed that was not opened"),
        ("{smape:q}", "Unknown format code"),
        ("{model:c}", "as python or latex"),
        ("{points: sep:x}", "takes a text in single quotes"),
        ("{points: sep:'x}", "no closing quote"),
        ("{points: format:'{mean}'}", "there is no placeholder {mean} here"),
        ("{parameters: format:'{coordinate}'}", "there is no placeholder {coordinate} here"),
    ],
)
def test_what_means_nothing_is_refused(form: str, text: str) -> None:
    models = models_of(two_metrics(), ModelOptions())
    with pytest.raises(UsageError, match=text.replace("{", r"\{").replace("}", r"\}")):
        "".join(print_models(models, form))
