"""The generator makes sound databases, and the benches run and agree on the numbers. Nothing here looks at times.

Benches that take long run where everything is run.
"""

from __future__ import annotations

import json
import sqlite3
import sys
import time
from contextlib import closing
from dataclasses import replace
from fractions import Fraction
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from bench import gpu_databases, same_program
from bench.__main__ import BENCHES, main
from bench.cases import (
    books,
    caliper,
    columnar,
    convert,
    cube,
    derived,
    exports,
    freed_memory,
    gate,
    gpu,
    growth,
    hatchet,
    hpcrun,
    hpctrace,
    info,
    modeling,
    otf2,
    prof,
    profiles,
    questions,
    report,
    sql,
    stacks,
    timeline,
    timeline_index,
    values,
    view,
    windows,
)
from bench.conditions import Conditions, opened
from bench.cubes import CubeShape, make_cube
from bench.generate import Shape, generate
from bench.results import Finding, as_markdown, as_text
from bench.series import SeriesShape, study_of
from bench.timing import best_seconds, processor_clock
from bench.touched import Touched, watched
from callgrove.binary.files import Source
from callgrove.formats.hpctoolkit.release.format import FORMAT
from callgrove.formats.interface import ReadOptions
from callgrove.formats.writing.transfer import write
from callgrove.model.contexts import ContextKind
from callgrove.model.experiment import Severity
from callgrove.model.metrics import Scope
from callgrove.modeling.fitting import model_study
from callgrove.modeling.model_tables import function_text
from tests.exhaustive import exhaustive
from tests.requirements import need, need_module

TINY = Shape(n_profiles=6, n_contexts=300, density=0.2, n_samples=5)
SHAPES = {
    "sparse rows": TINY,
    "full rows": replace(TINY, full_rows=True),
    "two metrics": replace(TINY, n_metrics=6),
    "many batches": replace(TINY, n_profiles=40, n_contexts=50),
    "one profile": replace(TINY, n_profiles=1),
    "smallest tree": replace(TINY, n_contexts=8, n_samples=0),
}


@pytest.fixture(params=list(SHAPES.values()), ids=list(SHAPES))
def shape(request: pytest.FixtureRequest) -> Shape:
    found: Shape = request.param
    return found


@pytest.fixture
def conditions(tmp_path: Path) -> Conditions:
    rows = replace(TINY, n_samples=0)
    return Conditions(tmp_path, (Fraction(1, 2), Fraction(1)), 1, rows, replace(rows, full_rows=True))


def test_a_generated_database_is_sound(shape: Shape, tmp_path: Path) -> None:
    problems = list(FORMAT.check(Source.of(generate(tmp_path / "a.d", shape)), ReadOptions()))
    assert [p for p in problems if p.severity != Severity.MISSING] == []
    assert len(problems) == (shape.n_samples == 0)  # trace.db


def test_a_generated_database_has_its_shape(shape: Shape, tmp_path: Path) -> None:
    experiment = opened(generate(tmp_path / "a.d", shape))
    assert len(experiment.contexts) == experiment.contexts.n_listed == shape.n_contexts
    assert len(experiment.profiles.measured) == shape.n_profiles
    assert len(experiment.metrics) == shape.n_metrics
    assert [experiment.contexts.label(c) for c in experiment.contexts.roots.tolist()] == ["main thread"]
    assert experiment.profiles.identity_list("rank")[1:] == list(range(shape.n_profiles))
    lines = [line for _, _, line in experiment.traces.lines()]
    assert sum(map(len, lines)) == shape.n_samples * shape.n_profiles


def test_density_is_met(tmp_path: Path) -> None:
    shape = Shape(n_profiles=16, n_contexts=4000, density=0.1)
    columns = opened(generate(tmp_path / "a.d", shape)).values.columns()
    n_values = int((columns.profile > 0).sum())
    assert n_values == pytest.approx(0.1 * 16 * 4000 * 3, rel=0.1)


def test_inclusive_is_the_sum_of_points(tmp_path: Path) -> None:
    experiment = opened(generate(tmp_path / "a.d", TINY))
    point, inclusive = (experiment.totals("CPUTIME (sec)", scope) for scope in (Scope.POINT, Scope.INCLUSIVE))
    ends = experiment.contexts.subtree_end
    assert inclusive.tolist() == [point[c : ends[c]].sum() for c in range(len(point))]


def test_full_rows_have_every_metric(tmp_path: Path) -> None:
    columns = opened(generate(tmp_path / "a.d", SHAPES["full rows"])).values.columns()
    rows, n_each = np.unique(np.stack([columns.profile, columns.context]), axis=1, return_counts=True)
    assert rows.shape[1] > 0
    assert set(n_each.tolist()) == {3}


def test_the_same_shape_gives_the_same_files(tmp_path: Path) -> None:
    for name in ("a.d", "b.d"):
        generate(tmp_path / name, TINY)
    for name in ("meta.db", "profile.db", "cct.db", "trace.db", "metrics/default.yaml"):
        assert (tmp_path / "a.d" / name).read_bytes() == (tmp_path / "b.d" / name).read_bytes(), name


def test_what_is_there_is_kept_unless_the_shape_differs(tmp_path: Path) -> None:
    folder = generate(tmp_path / "a.d", TINY)
    made = (folder / "cct.db").stat().st_mtime_ns
    generate(folder, TINY)
    assert (folder / "cct.db").stat().st_mtime_ns == made
    generate(folder, replace(TINY, n_samples=0, n_profiles=2))
    assert not (folder / "trace.db").exists()
    assert len(opened(folder).profiles.measured) == 2


def test_impossible_shapes_are_refused() -> None:
    for arguments in ((0, 300, 3, 0.2), (6, 3, 3, 0.2), (6, 300, 3, 0.0)):
        with pytest.raises(ValueError, match="cannot make"):
            Shape(*arguments)
    with pytest.raises(ValueError, match="in threes"):
        Shape(n_metrics=4)


def test_values_are_those_in_the_file(conditions: Conditions) -> None:
    for rows in (conditions.sparse_rows, conditions.full_rows):
        folder = conditions.database(rows)
        assert values.same_values(opened(folder), values.Floor.of(folder / "profile.db"))
    assert [f.bench for f in values.run(conditions)] == ["values", "values", "memory"] * 2


def test_growth_compares_scales(conditions: Conditions) -> None:
    assert [f.what.rpartition(", ")[2] for f in growth.run(conditions)] == ["scale 1 / 1/2"] * 2


def test_every_question_is_asked_at_three_numbers_of_profiles(
    conditions: Conditions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(profiles, "N_REPEATS", 1)
    monkeypatch.setattr(profiles, "QUESTIONS", ("open",))
    monkeypatch.setattr(profiles, "STREAMING", ("export",))
    findings = list(profiles.run(replace(conditions, scales=(Fraction(1, 2_000),))))
    assert [f.what for f in findings if f.unit == "ms"] == [f"open, {n} profiles" for n in (5, 50, 500)]
    ratios = [f.what for f in findings if f.unit == "x"]
    assert ratios == [
        "open: time per profile, 50 / 5",
        "open: time per profile, 500 / 50",
        "export: anonymous memory / that of opening, 500 profiles",
    ]
    assert all(f.value > 0 for f in findings)


def test_info_asks_for_no_thread(conditions: Conditions) -> None:
    findings = {f.what: f for f in info.run(conditions)}
    assert [f.what for f in findings.values() if not f.is_kept] == []
    assert findings["bytes of profile.db asked for"].value > 0
    assert findings["one profile: bytes asked for / its block"].value == 1
    assert findings["one context: bytes asked for / its block"].value == 1


def test_a_thread_that_is_asked_for_is_noticed(conditions: Conditions) -> None:
    experiment = opened(conditions.database(conditions.sparse_rows))
    by_profile = experiment.values.backend.by_profile  # type: ignore[attr-defined]
    with watched() as touched:
        experiment.values.profile(2)
    start = by_profile.values_at.astype(np.int64)
    assert np.flatnonzero(touched.meets("profile.db", start, start + 1)).tolist() == [2]


def test_hatchet_reads_the_same_values(conditions: Conditions, monkeypatch: pytest.MonkeyPatch) -> None:
    if not hatchet.PYTHON.is_file():
        need("peers", "Hatchet is not installed; `make peers` does it")
    monkeypatch.setattr(hatchet, "N_REPEATS", 1)
    (finding,) = hatchet.run(replace(conditions, scales=(Fraction(1),)))
    assert "all equal to ours" in finding.note


def test_without_hatchet_nothing_is_measured(conditions: Conditions, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hatchet, "PYTHON", conditions.folder / "absent")
    findings = list(hatchet.run(conditions))
    assert [(f.is_kept, "make peers" in f.note) for f in findings] == [(True, True)] * 2


def test_hatchet_gives_the_same_answers(conditions: Conditions, monkeypatch: pytest.MonkeyPatch) -> None:
    if not questions.PYTHON.is_file():
        need("peers", "Hatchet is not installed; `make peers` does it")
    for name, value in (("SIZES", (300,)), ("LARGEST", 8000), ("N_REPEATS", 1)):
        monkeypatch.setattr(questions, name, value)
    found = {finding.what for finding in questions.run(replace(conditions, scales=(Fraction(1),)))}
    assert {"Hatchet / tree, 300 contexts", "Hatchet / difference, 300 contexts"} <= found
    assert "frame: time per context, 8 x as many" in found


def test_questions_without_hatchet(conditions: Conditions, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(questions, "PYTHON", conditions.folder / "absent")
    monkeypatch.setattr(questions, "SIZES", (300,))
    monkeypatch.setattr(questions, "LARGEST", 8000)
    findings = [finding for finding in questions.run(conditions) if "Hatchet" in finding.what]
    assert len(findings) >= 3
    assert all(finding.is_kept and "make peers" in finding.note for finding in findings)


def test_trees_of_questions_are_alike_in_both_tools() -> None:
    tree = questions.Tree.of(500)
    assert (tree.parent < np.arange(500)).all()
    siblings = set(zip(tree.parent.tolist(), tree.name.tolist(), strict=True))
    assert len(siblings) == 500, "no two siblings have one name, which Hatchet would merge"
    later = tree.with_version("v2", 2)
    assert later.experiment().root_total("time") == pytest.approx(2 * (tree.seconds.sum() + tree.seconds[::10].sum()))


def test_a_trace_is_read_both_ways(conditions: Conditions, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hpctrace, "N_SAMPLES", 5000)
    assert [f.bench for f in hpctrace.run(conditions)] == ["hpctrace"] * 2


def test_measurements_are_read_every_way(conditions: Conditions, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, size in (("N_NODES", 400), ("N_METRICS", 3), ("N_FILES", 8), ("N_NODES_OF_MANY", 20)):
        monkeypatch.setattr(hpcrun, name, size)
    assert [f.bench for f in hpcrun.run(conditions)] == ["hpcrun"] * 4


@exhaustive
def test_measurements_become_databases(conditions: Conditions, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, size in (("N_FILES", 12), ("N_SAMPLES", 50), ("N_DEEP_NODES", 300)):
        monkeypatch.setattr(prof, name, size)
    findings = list(prof.run(conditions))
    assert [f.bench for f in findings] == ["prof"] * 7
    many, few = (opened(conditions.folder / name) for name in ("prof-12.d", "deep-300.d"))
    assert (len(many.profiles.measured), many.traces.n_samples) == (12, 600)
    assert len(few.contexts) == 1 + 4 * 298  # an entry, and what is below it


def test_reports_keep_to_their_bounds(conditions: Conditions, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report, "TRACES", ((4, 40, None, 1_000), (12, 5, None, 1_000)))
    findings = list(report.run(conditions))
    assert [f.bench for f in findings] == ["report"] * 9
    drawn = opened(conditions.folder / "timeline-12.m")
    assert (len(drawn.profiles.measured), drawn.traces.n_samples) == (12, 60)
    assert all(finding.is_kept for finding in findings)


def test_generated_cubes_hold_what_the_generator_says(tmp_path: Path) -> None:
    for compressed in (False, True):
        shape = CubeShape(n_cnodes=40, n_locations=9, n_metrics=3, compressed=compressed)
        path = make_cube(tmp_path / shape.name, shape)
        experiment = opened(path)
        assert not experiment.warnings
        assert len(experiment.contexts) == 40
        assert cube.same_values(experiment, shape)
        assert make_cube(path, shape) == path


def test_derived_metrics_are_those_of_numpy(conditions: Conditions, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bench.cases.derived.shutil.which", lambda tool: None)
    found = list(derived.run(replace(conditions, scales=(Fraction(1, 64),))))
    assert [np.isfinite(finding.value) for finding in found] == [True, True, True, True, False]
    assert "is not installed" in found[-1].note
    monkeypatch.setattr(derived, "same_values", lambda remapped: False)
    with pytest.raises(AssertionError, match="other values than NumPy"):
        list(derived.run(replace(conditions, scales=(Fraction(1, 64),))))


@exhaustive
def test_the_gate_is_simulated(conditions: Conditions, monkeypatch: pytest.MonkeyPatch) -> None:
    """A few pairs of each kind; that rates keep to their limits is a test of the gate."""
    monkeypatch.setattr(gate, "N_QUIET", 2)
    monkeypatch.setattr(gate, "N_CHANGED", 1)
    findings = list(gate.run(replace(conditions, scales=(Fraction(1, 100),))))
    assert {finding.what.split(",")[0] for finding in findings} >= {"false alarms", "3% seen", "5% seen", "10% seen"}
    assert all(0 <= finding.value <= 1000 for finding in findings)


def test_a_real_program_is_measured_in_turn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(same_program, "VERSIONS", {"left": 2, "right": 2, "slower": 3})
    monkeypatch.setattr(same_program, "N_SPLITS", 2)
    assert same_program.main([str(tmp_path), "--runs", "5"]) == 0
    printed = capsys.readouterr().out
    assert "time, left and right: " in printed
    assert "cpu, 5 + 5: false alarms " in printed
    assert len(list(tmp_path.glob("*.cubex"))) == 15
    run = opened(tmp_path / "slower.4.cubex")
    assert {"sweep", "count"} < {run.contexts.name(context) for context in range(len(run.contexts))}


def test_cube_against_the_inflater_and_pycubexr(conditions: Conditions, monkeypatch: pytest.MonkeyPatch) -> None:
    found = list(cube.run(replace(conditions, scales=(Fraction(1, 256),))))
    assert all(np.isfinite(finding.value) for finding in found)
    assert len(found) == 7
    monkeypatch.setitem(sys.modules, "pycubexr", None)
    assert np.isnan(list(cube.run(replace(conditions, scales=(Fraction(1, 256),))))[1].value)


def test_extra_p_makes_the_same_models(conditions: Conditions, monkeypatch: pytest.MonkeyPatch) -> None:
    if not modeling.PYTHON.is_file():
        need("peers", "Extra-P is not installed; `make peers` does it")
    monkeypatch.setattr(modeling, "SIZES", ((SeriesShape(1, 8), 1000), (SeriesShape(2, 4), 500)))
    monkeypatch.setattr(modeling, "N_MANY", 2000)
    findings = list(modeling.run(replace(conditions, scales=(Fraction(1, 2),))))
    assert [("all equal" in f.note, f.at_least) for f in findings[:2]] == [(True, None)] * 2


def test_without_extra_p_only_memory_is_measured(conditions: Conditions, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(modeling, "PYTHON", conditions.folder / "absent")
    *ratios, memory, of_improved = modeling.run(replace(conditions, scales=(Fraction(1, 1024),)))
    assert [(f.is_kept, "make peers" in f.note) for f in ratios] == [(True, True)] * 3
    assert min(memory.value, of_improved.value) > 10


def test_other_models_are_noticed() -> None:
    models = model_study(study_of(SeriesShape(1, 3)))
    known = {f"f{k}": (function_text(models.functions, k), float(models.costs.smape[k])) for k in range(3)}
    assert modeling.same_models(models, modeling.Peer(1.0, known)) == ""
    for wrong in (("1.0", known["f1"][1]), (known["f1"][0], known["f1"][1] + 1)):
        assert "instead of" in modeling.same_models(models, modeling.Peer(1.0, known | {"f1": wrong}))


def test_the_time_of_books_is_noticed(conditions: Conditions) -> None:
    need_module("pyarrow")
    database, target = conditions.database(conditions.sparse_rows), conditions.folder / "copied"
    for to in books.TARGETS:
        assert 0 < books._share(convert.convert, database, to, target, 0.0) < 1
    study = conditions.folder / "study.jsonl"
    write(study_of(SeriesShape(1, 50)), study)
    assert 0 < books._share(books._convert_study, study, "callgrove", target, 0.0) < 1


def test_waiting_takes_no_processor_time() -> None:
    waiting = {"waiting": lambda: partial(time.sleep, 0.02)}
    assert best_seconds(waiting, 1, processor_clock)["waiting"] < best_seconds(waiting, 1)["waiting"]


@exhaustive
def test_conversions_are_measured_in_both_directions(conditions: Conditions, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(convert, "N_PROFILES", 30)
    findings = list(convert.run(replace(conditions, scales=(Fraction(1),))))
    targets = (convert.PRERELEASE, convert.RELEASE)
    assert [f.what.partition(",")[2] for f in findings] == [
        *(f" to {name}, scale 1" for name in targets for _ in ("time", "memory")),
        *(f" to {name}" for name in targets),
    ]
    released = opened(conditions.database(conditions.sparse_rows))
    converted = opened(conditions.database(conditions.sparse_rows).with_suffix(".prerelease"))
    for scope in (Scope.FUNCTION, Scope.INCLUSIVE):
        totals = [
            dict(zip(e.contexts.source_id.tolist(), e.totals("CPUTIME (sec)", scope).tolist(), strict=True))
            for e in (released, converted)
        ]
        functions = released.contexts.source_id[released.contexts.kind == ContextKind.FUNCTION].tolist()
        assert [totals[1][id_] for id_ in functions] == [totals[0][id_] for id_ in functions]


@exhaustive
def test_gpu_databases_are_summed_up_every_way(conditions: Conditions, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, size in (("N_EVENTS", 3000), ("N_FILES", 4), ("N_EVENTS_OF_MANY", 100), ("N_SMALL", 5)):
        monkeypatch.setattr(gpu, name, size)
    findings = {f.what: f for f in gpu.run(replace(conditions, scales=(Fraction(1),)))}
    assert findings["databases of a thousand that were summed up"].value == 5
    (large,) = conditions.folder.glob("gpu-3000-*.db")
    with closing(sqlite3.connect(large)) as connection:
        assert {n: sums for n, sums in gpu.by_sql(connection, True).items() if n != "roctxThreadRangeA"} == {
            n: sums for n, sums in gpu_databases.truth(gpu_databases.GpuShape(3000)).items() if n != "step"
        }


@exhaustive
def test_scripts_and_converters_write_the_same_events(conditions: Conditions, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exports, "N_EVENTS", 3000)
    findings = list(exports.run(replace(conditions, scales=(Fraction(1),))))
    assert len(findings) == 6
    (large,) = conditions.folder.glob("gpu-3000-*.db")
    target = conditions.folder / "out"
    exports.convert(large, "chrome-json", target)
    ours = [e for e in json.loads(target.read_text())["traceEvents"] if e["ph"] == "X"]
    assert exports.by_json(large, conditions.folder / "script") == len(ours)
    theirs = json.loads((conditions.folder / "script").read_text())["traceEvents"]
    assert {e["name"] for e in theirs} - {e["name"] for e in ours} == {"roctxThreadRangeA"}  # ours has its text
    assert sum(e["dur"] for e in theirs) == pytest.approx(sum(e["dur"] for e in ours))


@exhaustive
def test_freed_memory_is_given_back_or_kept(conditions: Conditions, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(freed_memory, "N_FILES", 2)
    monkeypatch.setattr(freed_memory, "N_EVENTS_OF_MANY", 100)
    monkeypatch.setattr(freed_memory, "N_EVENTS", 100)
    found = list(freed_memory.run(replace(conditions, scales=(Fraction(1),))))
    assert [finding.note for finding in found] == ["2 databases", "one database"] * 2
    assert all(finding.value > 0 for finding in found)


def test_sql_is_asked_both_ways(conditions: Conditions, monkeypatch: pytest.MonkeyPatch) -> None:
    """Answers are compared with those of sqlite3 over the file before anything is timed."""
    monkeypatch.setattr(sql, "N_EVENTS", 400)
    findings = {f.what: f for f in sql.run(replace(conditions, scales=(Fraction(1),)))}
    assert len(findings) == 2 * len(sql.QUERIES) + 2
    assert all(f.value > 0 for f in findings.values())
    (file,) = conditions.folder.glob("gpu-400-*.db")
    [(ours, raw), *_] = sql.QUERIES.values()
    assert sql.ask(file, ours, "sqlite") == sql.ask_file(file, raw) != []


@exhaustive
def test_traces_are_encoded_by_both(conditions: Conditions, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, size in (("N_EVENTS", 2000), ("N_SMALL", 1000), ("N_ENCODED", 1000)):
        monkeypatch.setattr(timeline, name, size)
    need_module("perfetto")
    findings = list(timeline.run(replace(conditions, scales=(Fraction(1),))))
    assert [f.what.partition(" ")[0] for f in findings] == [
        *("packet.add()", "packet.add()", "fetchmany", "converting"),
        *("memory", "memory"),
    ]
    assert all(f.value > 0 for f in findings)


def test_windows_are_added_up_and_checked(conditions: Conditions, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, size in (("N_EVENTS", 2000), ("N_PROFILES", 20)):
        monkeypatch.setattr(windows, name, size)
    findings = list(windows.run(replace(conditions, scales=(Fraction(1),))))
    assert [f.what.partition(",")[0] for f in findings] == ["timeline / reading"] * 2 + ["time per sample"]
    assert all(f.value > 0 for f in findings)


def test_otf2_is_read_both_ways(conditions: Conditions, monkeypatch: pytest.MonkeyPatch) -> None:
    need_module("otf2")
    monkeypatch.setattr(otf2, "N_EVENTS", 300)
    (finding,) = otf2.run(replace(conditions, scales=(Fraction(1),)))
    assert finding.value > 0


def test_caliper_is_read_both_ways(conditions: Conditions, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, size in (("N_RANKS", 3), ("N_PATHS", 20), ("N_FILES", 12), ("N_REPEATS", 1)):
        monkeypatch.setattr(caliper, name, size)
    findings = list(caliper.run(replace(conditions, scales=(Fraction(1),))))
    assert [f.value > 0 for f in findings[-1:]] == [True]
    assert len(findings) == 3


def test_stacks_are_read_both_ways(conditions: Conditions, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, size in (("N_LINES", 2000), ("N_SAMPLES", 500)):
        monkeypatch.setattr(stacks, name, size)
    assert all(f.value > 0 for f in stacks.run(replace(conditions, scales=(Fraction(1),))))


def test_other_sums_are_noticed(tmp_path: Path) -> None:
    shape = gpu_databases.GpuShape(200)
    path = gpu_databases.make_gpu_database(tmp_path / shape.name, shape)
    assert gpu.same_sums(gpu.summary_of([path]), shape) == ""
    assert "instead of" in gpu.same_sums(gpu.summary_of([path]), replace(shape, n_events=202))
    assert gpu_databases.make_gpu_database(path, shape) == path


def test_ranges_are_merged() -> None:
    touched = Touched()
    for at, size in ((10, 5), (12, 8), (30, 0), (40, 2)):
        touched.add(Path("x.db"), at, size)
    assert touched.n_bytes("x.db") == 12
    start = np.array([0, 0, 20, 30, 41, 42, 15])
    end = np.array([10, 11, 40, 41, 42, 50, 15])
    assert touched.meets("x.db", start, end).tolist() == [False, True, False, True, True, False, False]
    assert not touched.meets("y.db", start, end).any()


def test_limits() -> None:
    kept, missed = Finding("a", "b", 2.0, at_most=3), Finding("a", "b", 2.0, at_least=3)
    assert (kept.is_kept, missed.is_kept) == (True, False)
    assert as_text([missed]).splitlines()[1].split() == ["a", "b", "2.00", "x", "at", "least", "3", "MISSED"]
    page = as_markdown([kept], 5, "8 profiles")
    assert "| a | b | 2.00 x | at most 3 |  |" in page
    both = as_markdown([Finding("other", "c", 1.0)], 5, "8 profiles", page)
    assert "| a | b | 2.00 x | at most 3 |  |\n| other | c | 1.00 x |  |  |\n" in both
    again = as_markdown([Finding("a", "b", 1.5)], 5, "8 profiles", both)
    assert "| other | c | 1.00 x |  |  |\n| a | b | 1.50 x |  |  |\n" in again
    assert again.count("| a | b |") == 1


def test_the_command_writes_what_it_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "found.json"
    assert main(["info", "--scale", "1/1024", "--keep", str(tmp_path / "data"), "--json", str(out)]) == 0
    assert "thread blocks of profile.db asked for" in capsys.readouterr().out
    assert {f["bench"] for f in json.loads(out.read_text())["findings"]} == {"info"}


@exhaustive
def test_our_own_folders_are_measured(tmp_path: Path) -> None:
    found = list(columnar.run(Conditions(tmp_path, (Fraction(1, 1024),), 1)))
    sizes = [finding for finding in found if finding.what.endswith("size / original")]
    assert [finding.what for finding in sizes] == ["values: size / original", "spans: size / original"]
    assert all(finding.value > 0 for finding in found)
    assert not list(tmp_path.glob("*.cgrove"))


def test_benches_are_named_in_the_page() -> None:
    page = as_markdown([], 1, "8 profiles")
    assert [name for name in BENCHES if f"`{name}`" not in page] == []


def test_timeline_indexes_are_measured(tmp_path: Path) -> None:
    findings = list(timeline_index.run(Conditions(tmp_path, (Fraction(1, 1024),), 1)))
    assert {f.bench for f in findings} == {"timeline index"}
    assert [f.what for f in findings if f.unit == "MB"] == [
        "peak memory of building, one track",
        "peak memory of building, 4 tracks",
    ]
    assert not list((tmp_path / "timeline-index").iterdir())


def test_the_viewer_is_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(view, "_in_browser", lambda *_: iter(()))  # browsers have tests of their own
    findings = list(view.run(Conditions(tmp_path, (Fraction(1, 1024),), 1)))
    assert {f.bench for f in findings} == {"view"}
    assert {f.what for f in findings if f.what.startswith("first")} == {
        *("first picture: timeline", "first picture: explore", "first picture: flame graph"),
    }
    assert sum("picture of 1,600 px" in f.what for f in findings) == len(view.WINDOWS)
    assert not (tmp_path / "view-index").exists()
