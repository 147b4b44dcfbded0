"""Summaries without threads: one aggregate profile, through every verb and to every target; never zeros.

The program of `legacy_databases` says what all threads have together; its databases are written without metric-db
files, with and without traces.
"""

from __future__ import annotations

import struct
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from callgrove.algebra.cutting import cut, part
from callgrove.algebra.operations import mean as mean_of
from callgrove.cli.main import main
from callgrove.errors import UsageError
from callgrove.formats.interface import WriteOptions
from callgrove.formats.registry import writer_of
from callgrove.formats.writing.transfer import write_experiment as write_as
from callgrove.model.builder import ExperimentBuilder
from callgrove.model.contexts import ContextKind, Relation
from callgrove.model.experiment import Experiment, Severity
from callgrove.model.metrics import Metric, Scope
from callgrove.model.profiles import ProfileKind
from callgrove.model.runs import Run
from callgrove.model.selection import select
from callgrove.model.study.run_values import Combination
from tests.formats.hpctoolkit.legacy_databases import METRICS, Program
from tests.formats.written import PRERELEASE, RELEASE, damage, read, write

CPUTIME, CYCLES = METRICS
TRACES = ("", "hpctrace")


def total(metric: int = 0) -> float:
    """What all threads of the program have together."""
    program = Program()
    return sum(program.inclusive(thread, metric, program.root) for thread in range(len(program.threads)))


@pytest.fixture(params=TRACES, ids=["summary only", "with traces"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return Program().write(tmp_path / "old", metric_dbs=False, traces=request.param)


def assert_all_there(found: Experiment) -> None:
    for number, name in enumerate(found.metrics.quantities):  # in the order of METRICS; Cube spells them otherwise
        assert found.root_total(name) == pytest.approx(total(number), rel=1e-5)
        assert found.totals(name, Scope.EXCLUSIVE).sum() == pytest.approx(total(number), rel=1e-5)
        assert found.matrix(name, Scope.EXCLUSIVE).sum() == pytest.approx(total(number), rel=1e-5)


def test_the_summary_is_what_was_measured(folder: Path) -> None:
    found = read(folder)
    assert [ProfileKind(k).word for k in found.profiles.kind[found.profiles.aggregates].tolist()] == ["aggregate"]
    assert found.values.known.tolist() == found.profiles.aggregates.tolist()
    assert found.profiles.label(0) == "all profiles"
    assert_all_there(found)


def test_of_one_rank_nothing_is_known(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = Program().write(tmp_path / "old", metric_dbs=False, traces="hpctrace")
    for words in (
        ["top"],
        ["tree"],
        ["hot"],
        ["export", "--table", "values", "--scope", "exclusive"],
        ["export", "--table", "values"],
    ):
        assert main([words[0], str(path), *words[1:], "--rank", "0"]) == 2
        captured = capsys.readouterr()
        assert "values of rank 0 thread 0 and 1 more are not known, only those of all profiles together" in captured.err
        assert captured.out == ""
    found = read(path)
    rank = found.profiles.where(ranks={0})
    for ask in (found.totals, found.matrix):
        with pytest.raises(UsageError, match="not known"):
            ask(CPUTIME, Scope.EXCLUSIVE, rank)
    assert found.totals(CPUTIME, Scope.INCLUSIVE, found.profiles.measured)[0] == pytest.approx(total(), rel=1e-5)


def test_efficiencies_need_single_threads(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, rank in (("all", []), ("one", ["--rank", "0"])):
        path = Program().write(tmp_path / name, metric_dbs=False, traces="hpctrace")
        assert main(["pop", str(path), *rank]) == 2
        captured = capsys.readouterr()
        assert "not known, only those of all" in captured.err
        assert captured.out == ""


def test_exported_exclusive_values_are_those_of_the_stored_ones(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["export", str(folder), "--table", "values", "--scope", "exclusive", "-m", CPUTIME]) == 0
    rows = [line.split(",") for line in capsys.readouterr().out.splitlines()[1:]]
    assert sum(float(value) for *_, value in rows) == pytest.approx(total(), rel=1e-5)
    assert {profile for profile, *_ in rows} == {"0"}


@pytest.mark.parametrize("to", [RELEASE, PRERELEASE, "callgrove", "cube"])
def test_it_travels_to_every_target(folder: Path, to: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / ("new.cubex" if to == "cube" else "new")
    assert main(["convert", str(folder), str(target), "--to", to]) == 0
    lost = capsys.readouterr().err
    assert_all_there(read(target))
    assert main(["check", str(target)]) == 0
    if to == "cube":
        assert "lost: that values of single profiles are not known" in lost
        return
    new = read(target)
    assert len(new.profiles.aggregates) == 1
    assert new.traces.n_samples == read(folder).traces.n_samples
    if new.traces.n_samples:
        with pytest.raises(UsageError, match="not known"):
            new.totals(CPUTIME, Scope.EXCLUSIVE, new.profiles.where(ranks={0}))


@pytest.mark.parametrize("verb", ["mean", "merge", "cut"])
def test_it_passes_through_the_algebra(folder: Path, verb: str, tmp_path: Path) -> None:
    words = {"cut": [str(folder), str(tmp_path / "new.d"), "--prune", "kernel"]}
    asked = words.get(verb, [str(folder), str(folder), str(tmp_path / "new.d")])
    assert main([verb, *asked, "--to", RELEASE]) == 0
    assert_all_there(read(tmp_path / "new.d"))
    assert damage(tmp_path / "new.d") == []


def test_a_mean_with_threads_is_the_mean_of_both(folder: Path, tmp_path: Path) -> None:
    whole = read(Program().write(tmp_path / "whole"))
    mean = mean_of(read(folder), whole)
    assert_all_there(mean)
    assert set(mean.profiles.aggregates) < set(mean.values.known)  # threads of the other input have their own
    rank = mean.profiles.where(ranks={1})
    program = Program()
    own = sum(program.inclusive(t, 0, program.root) for t, (r, _) in enumerate(program.threads) if r == 1)
    assert mean.totals(CPUTIME, Scope.INCLUSIVE, rank)[0] == pytest.approx(own / 2)


def test_what_callers_take_adds_up_where_inclusive_values_are_rounded() -> None:
    """The XML has six digits: inclusive 3998240 of what is 3960245 and 38000 in exclusive values."""
    out = ExperimentBuilder("made up", title="rounded")
    for number, name in enumerate(("main", "f", "g")):
        out.add_context(number - 1, ContextKind.FUNCTION, out.region(ContextKind.FUNCTION, name), Relation.CALL)
    out.add_profile(ProfileKind.AGGREGATE)
    out.add_values(0, [0, 1, 2], out.add_metric(Metric("time", Scope.INCLUSIVE)), [3998240.0, 3998240.0, 38000.0])
    out.add_values(0, [1, 2], out.add_metric(Metric("time", Scope.FUNCTION)), [3960245.0, 38000.0])
    made = out.build()
    pruned = cut(made, prunes=["f"])
    assert len(pruned.contexts) == 1
    assert made.totals("time", Scope.EXCLUSIVE).sum() == pruned.totals("time", Scope.EXCLUSIVE).sum() == 3998245.0


@pytest.mark.parametrize("invert", [False, True])
def test_a_part_has_no_values_and_says_so(invert: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = Program().write(tmp_path / "old", metric_dbs=False, traces="hpctrace")
    found = part(read(path), ranks={0}, invert=invert)
    assert not len(found.metrics)
    assert not len(found.profiles.aggregates)
    assert found.traces.n_samples == read(path).traces.n_samples // 2
    words = [str(path), str(tmp_path / "new.d"), "--to", RELEASE, "--rank", "0"]
    assert main(["part", *words, *(["--invert"] if invert else [])]) == 0
    says = f"lost: values of {CPUTIME}, {CYCLES}: only those of all profiles together are known"
    assert says in capsys.readouterr().err
    assert main(["top", str(tmp_path / "new.d")]) != 0
    assert "there is no metric" in capsys.readouterr().err


def test_a_selection_has_no_values_and_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = Program().write(tmp_path / "old", metric_dbs=False, traces="hpctrace")
    found = read(path)
    assert not len(select(found, profiles=found.profiles.where(ranks={0})).metrics)
    assert main(["convert", str(path), str(tmp_path / "new.d"), "--to", RELEASE, "--rank", "0"]) == 0
    assert "lost: values of" in capsys.readouterr().err


def test_series_are_sums_and_nothing_else(folder: Path) -> None:
    found = replace(read(folder), runs=(Run("one", {"p": 4.0}),))
    study = found.study([CPUTIME], Scope.INCLUSIVE, Combination.SUM)
    assert np.nanmax(study.mean) == pytest.approx(total(), rel=1e-5)
    with pytest.raises(UsageError, match="take their sum"):
        found.study([CPUTIME], Scope.INCLUSIVE, Combination.MEAN)


def test_threads_whose_files_are_all_broken_are_not_zero(tmp_path: Path) -> None:
    path = Program().write(tmp_path / "old")
    for file in path.glob("*.metric-db"):
        file.write_bytes(file.read_bytes()[:-8])
    found = read(path)
    assert len(found.damage) == 4
    assert_all_there(found)
    with pytest.raises(UsageError, match="not known"):
        found.totals(CPUTIME, Scope.EXCLUSIVE, found.profiles.where(ranks={0}))


# -- databases of the later generations ----------------------------------------------------------------------------


def two_threads() -> Experiment:
    out = ExperimentBuilder("made up", title="two threads")
    for number, (kind, name) in enumerate(((ContextKind.ENTRY, "main thread"), (ContextKind.FUNCTION, "f"))):
        out.add_context(number - 1, kind, out.region(kind, name), Relation.CALL, source_id=number + 1)
    for thread in range(2):
        out.add_profile(ProfileKind.THREAD, [(3, thread, thread, 3)])
    for scope in (Scope.FUNCTION, Scope.INCLUSIVE):
        row = out.add_metric(Metric("time (sec)", scope, unit="sec"))
        out.add_values([0, 1], 1, row, [1.0, 2.0])
        if scope == Scope.INCLUSIVE:
            out.add_values([0, 1], 0, row, [1.0, 2.0])
    return out.build()


def test_a_released_database_whose_threads_are_empty(tmp_path: Path) -> None:
    """Its summary is all that is known; that it is the sum of nothing is damage."""
    path = tmp_path / "a.d"
    write(two_threads(), path)
    data = bytearray((path / "profile.db").read_bytes())
    (infos,) = struct.unpack_from("<Q", data, 0x18)  # pProfiles follow the section's header
    (at,) = struct.unpack_from("<Q", data, infos)
    for profile in (1, 2):
        struct.pack_into("<Q", data, at + 48 * profile, 0)  # nValues
        struct.pack_into("<I", data, at + 48 * profile + 0x10, 0)  # nCtxs
    (path / "profile.db").write_bytes(data)
    found = read(path)
    assert found.profiles.aggregates.tolist() == [0]
    assert found.root_total("time (sec)") == 3.0
    assert found.values.context(1).value.tolist() == [3.0, 3.0]
    assert [w.severity for w in found.warnings if "no thread has values" in w.text] == [Severity.MISSING]
    assert any("and no thread has any" in text for text in damage(path))


def test_metrics_that_only_the_summary_has_are_said_to_be_lost(tmp_path: Path) -> None:
    """Of one metric there are metric-db files, of the other there are none."""
    path = Program().write(tmp_path / "old")
    xml = path / "experiment.xml"
    lines = [line for line in xml.read_text().splitlines() if not ("<MetricDB " in line and CYCLES in line)]
    xml.write_text("\n".join(lines))
    found = read(path)
    assert found.root_total(CYCLES) == pytest.approx(total(1), rel=1e-5)
    format_ = writer_of(RELEASE)
    lost = write_as(found, format_, tmp_path / "new.d", WriteOptions()).losses
    assert f"values of {CYCLES}: only the stored summary has them, no profile does" in lost
    assert not any(CPUTIME in line for line in lost if line.startswith("values"))
