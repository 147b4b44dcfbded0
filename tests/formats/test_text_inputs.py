"""Profiles that are texts (Caliper, TAU, folded stacks, perf script) as first-class inputs: converted to every target
that holds a profile, refused by the others, and compressed like every other single file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from callgrove.formats.registry import FORMATS
from callgrove.model.contexts import ContextKind
from callgrove.model.metrics import Aggregation, Scope
from tests.binary.test_compressed import PACKERS
from tests.cli.commands import Capture, run
from tests.formats.samples import Sample, samples
from tests.formats.test_caliper import ATTRIBUTES, PATHS, RECORDS
from tests.formats.test_tau import TEXT as TAU
from tests.formats.written import read

JSON_SPLIT = """{"data": [[62, 0, 0], [5, 1, 1], [7, 0, null]], "columns": ["count", "mpi.rank", "path"],
"column_metadata": [{"is_value": true}, {"is_value": true}, {"is_value": false}],
"nodes": [{"label": "main", "column": "path"}, {"label": "f", "column": "path", "parent": 0}]}"""
PERF = "app 7/8 1.000001: 10 cycles:u: \n\t40 f+0x1 (/app)\n\t50 main+0x2 (/app)\n\n"
INPUTS = {
    "caliper": ATTRIBUTES + PATHS + RECORDS,
    "caliper-json": JSON_SPLIT,
    "tau": TAU,
    "folded": "main;f 3\nmain;g 4\nmain 1\n",
    "perf-script": PERF + PERF.replace("f+", "g+"),
}
ENDINGS = {"gzip": ".gz", "bzip2": ".bz2", "xz": ".xz", "zstd": ".zst"}
NAMES = {"tau": "profile.0.0.0"}
PROFILES = ("hpctoolkit-release", "hpctoolkit-prerelease", "cube", "callgrove")
NO_TRACES = ("perfetto", "chrome-json", "otf2", "rocpd", "rocpd-draft", "hpctrace", "rocprof-csv")
STACKS = ("folded", "speedscope", "pprof", "dot")

every_input = pytest.mark.parametrize("name", INPUTS)


@pytest.fixture
def source(name: str, tmp_path: Path) -> Path:
    path = tmp_path / NAMES.get(name, "input")
    path.write_text(INPUTS[name])
    return path


@every_input
@pytest.mark.parametrize("target", PROFILES)
def test_costs_are_the_same_after_converting(
    name: str, target: str, source: Path, tmp_path: Path, capsys: Capture
) -> None:
    run(capsys, "convert", source, tmp_path / "out", "--to", target)
    old, new = read(source), read(tmp_path / "out")
    not_added = new.contexts.kind != ContextKind.ENTRY  # HPCToolkit's trees have one above all others
    compared = 0
    for metric in old.metrics:
        kept = [one for one in new.metrics if dict(one.attributes).get("cube: disp_name", one.name) == metric.name]
        if metric.aggregation == Aggregation.SUM and kept:
            for scope in (Scope.EXCLUSIVE, Scope.INCLUSIVE):
                ours = old.totals(metric.name, scope, old.profiles.measured)
                theirs = new.totals(kept[0].name, scope, new.profiles.measured) * not_added
                np.testing.assert_allclose(sorted(theirs[theirs != 0]), sorted(ours[ours != 0]), rtol=1e-12)
                compared += 1
    assert compared
    run(capsys, "check", tmp_path / "out")


@every_input
@pytest.mark.parametrize("target", STACKS)
def test_stacks_are_written(name: str, target: str, source: Path, tmp_path: Path, capsys: Capture) -> None:
    run(capsys, "convert", source, tmp_path / "out", "--to", target)
    if target == "folded":
        old, new = read(source), read(tmp_path / "out")
        ours = old.totals(old.default_metric, Scope.EXCLUSIVE).astype(np.float64)
        theirs = new.totals("samples", Scope.EXCLUSIVE).astype(np.float64)
        np.testing.assert_allclose(sorted(theirs[theirs != 0] / theirs.sum()), sorted(ours[ours != 0] / ours.sum()))


@pytest.mark.parametrize("name", ["caliper", "caliper-json", "tau", "folded"])
@pytest.mark.parametrize("target", NO_TRACES)
def test_what_holds_traces_alone_is_refused_with_a_reason(
    name: str, target: str, source: Path, tmp_path: Path, capsys: Capture
) -> None:
    run(capsys, "convert", source, tmp_path / "out", "--to", target, code=2)
    assert not (tmp_path / "out").exists()


@every_input
def test_reports_and_dumps(name: str, source: Path, tmp_path: Path, capsys: Capture) -> None:
    run(capsys, "report", source, "-o", tmp_path / "out.html")
    assert run(capsys, "dump", source)
    assert run(capsys, "top", source)


# -- compressed --------------------------------------------------------------------------------------------------------


@every_input
@pytest.mark.parametrize(("kind", "pack"), PACKERS, ids=[kind for kind, _ in PACKERS])
def test_compressed_texts_read_as_what_is_in_them(
    name: str, kind: str, pack: Callable[[bytes], bytes], source: Path, tmp_path: Path, capsys: Capture
) -> None:
    packed = tmp_path / f"{source.name}{ENDINGS[kind]}"  # names of TAU's files say which thread they are of
    packed.write_bytes(pack(source.read_bytes()))
    for words in (
        ["export", "--table", "values"],
        ["export", "--table", "contexts"],
        ["export", "--table", "profiles"],
    ):
        assert run(capsys, words[0], packed, *words[1:]) == run(capsys, words[0], source, *words[1:])
    assert read(source).format in run(capsys, "info", packed)


def one_file_of_each_format() -> list[Sample]:
    """The smallest file of each format that is one file."""
    files = [sample for sample in samples() if sample.path.is_file() and not sample.part]
    files.sort(key=lambda sample: sample.path.stat().st_size)
    return list({sample.format: sample for sample in reversed(files)}.values())


@pytest.mark.parametrize("sample", one_file_of_each_format(), ids=lambda sample: sample.format)
def test_every_single_file_may_be_compressed(sample: Sample, tmp_path: Path, capsys: Capture) -> None:
    content = sample.path.read_bytes()
    packed = tmp_path / f"{sample.path.name}.gz"
    packed.write_bytes(PACKERS[0][1](content))
    plain = tmp_path / sample.path.name
    plain.write_bytes(content)
    assert sample.format in {entry.name for entry in FORMATS}
    assert sample.format in run(capsys, "info", packed)
    table = "series" if sample.format.startswith("extrap") else "profiles"
    if sample.format != "hpcstruct":
        assert run(capsys, "export", packed, "--table", table) == run(capsys, "export", plain, "--table", table)
