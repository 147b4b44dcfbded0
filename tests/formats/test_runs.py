"""Folders of runs, and runs with points that a user says. The runs are copies of one database that we write here, so
that every expected value follows from that of the database."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from callgrove.binary.files import HEAD_BUDGET, Source
from callgrove.errors import CallgroveError, InputError, NotRecognised, UsageError
from callgrove.examples import example
from callgrove.formats.interface import ReadOptions, WriteOptions
from callgrove.formats.registry import detect, open_path, writer_of
from callgrove.formats.runs import open_points
from callgrove.formats.writing.transfer import write_experiment
from callgrove.model.experiment import Experiment, Severity
from callgrove.model.metrics import Scope
from callgrove.model.study.from_runs import of_scaling
from callgrove.model.study.run_values import Combination
from tests.formats.contract import counted_reading, fingerprint
from tests.formats.cube.raw_cubes import Cube, Node, RawMetric
from tests.formats.damage import scratch_folder
from tests.formats.samples import CORPUS
from tests.permissions import as_nobody, writable_copy


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("database") / "stencil.d"
    write_experiment(example(), writer_of("hpctoolkit-release"), target, WriteOptions())
    return target


def runs(database: Path, folder: Path, *names: str) -> Path:
    """A folder with a copy of the database under each name."""
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        writable_copy(database, folder / name)
    return folder


def opened(folder: Path, **options: object) -> Experiment:
    found = open_path(folder, options=replace(ReadOptions(), **options))  # type: ignore[arg-type]
    assert isinstance(found, Experiment)
    return found


def test_a_folder_of_databases(database: Path, tmp_path: Path) -> None:
    folder = runs(database, tmp_path / "study", "app.p8.n10.r1", "app.p4.n10.r1", "app.p4.n10.r2")
    before = fingerprint(folder)
    found, one = opened(folder), opened(database)
    assert (found.format, found.title, found.path) == ("runs", "study", str(folder))
    assert [dict(run.parameters) for run in found.runs] == [{"p": 4}, {"p": 4}, {"p": 8}]
    assert [run.repetition for run in found.runs] == [1, 2, 1]
    assert len(found.profiles) == 3 * len(one.profiles)
    assert len(found.metrics) == len(one.metrics)
    assert found.contexts.n_listed == one.contexts.n_listed
    for name in one.metrics.quantities:
        assert found.root_total(name) == pytest.approx(3 * one.root_total(name), rel=1e-12)
    for row in range(len(one.metrics)):
        whole, part = found.values.totals(row, found.profiles.measured), one.values.totals(row, one.profiles.measured)
        np.testing.assert_allclose(whole[: len(part)], 3 * part, rtol=1e-12)
    assert fingerprint(folder) == before


@pytest.mark.parametrize("scaling", ["weak", "weak_threaded", "strong"])
def test_scaling(scaling: str, database: Path, tmp_path: Path) -> None:
    """Two equal runs: the statistics of a call path are those of its profiles, or of their sum."""
    folder = runs(database, tmp_path, "app.p4.r1", "app.p4.r2", "app.p8.r1")
    study = opened(folder).study(combination=of_scaling(scaling))
    one = opened(database)
    metric = one.default_metric
    each = np.stack([one.totals(metric, Scope.EXCLUSIVE, np.array([p])) for p in one.profiles.measured.tolist()])
    hottest = int(np.argmax(each.sum(axis=0)[: one.contexts.n_listed]))
    path = "->".join(_path(one, hottest))
    same = [c for c in range(one.contexts.n_listed) if _path(one, c) == _path(one, hottest)]
    values = each[:, same].sum(axis=1)
    if scaling == "weak_threaded":
        values = values[values != 0]
    series = study.series(path, metric)
    expected = values if scaling != "strong" else np.array([values.sum()])
    assert study.scaling == scaling
    assert series.repetitions.tolist() == [2, 1]
    for k in range(2):
        assert series.mean[k] == pytest.approx(expected.mean(), rel=1e-12)
        assert series.maximum[k] == pytest.approx(expected.max(), rel=1e-12)
        assert series.std[k] == pytest.approx(expected.std(), rel=1e-9, abs=1e-12 * expected.max())


def _path(experiment: Experiment, context: int) -> tuple[str, ...]:
    tree = experiment.contexts
    names: list[str] = []
    while context >= 0:
        names.insert(0, tree.label(context).replace("->", "- >"))
        context = int(tree.parent[context])
    return tuple(names)


def test_runs_inside_of_folders_are_repetitions(database: Path, tmp_path: Path) -> None:
    folder = runs(database, tmp_path, "p1/first", "p1/second", "p2/first", "p2/.hidden")
    (folder / "p1" / "notes.txt").write_text("nothing")
    assert [(dict(run.parameters), run.repetition) for run in opened(folder).runs] == [
        ({"p": 1}, 1),
        ({"p": 1}, 2),
        ({"p": 2}, 1),
    ]


def test_patterns_and_tables(database: Path, tmp_path: Path) -> None:
    folder = runs(database, tmp_path / "study", "first", "second")
    with pytest.raises(
        InputError, match=r"first' has no parameter.*app\.p4\.n100\.r1.*folder_pattern=.* or points_file="
    ):
        open_path(folder, "runs")
    table = tmp_path / "points.csv"
    table.write_text("folder,p\nfirst,1\nsecond,2\n")
    found = open_path(folder, "runs", ReadOptions(points_file=str(table)))
    assert isinstance(found, Experiment)
    assert [dict(run.parameters) for run in found.runs] == [{"p": 1}, {"p": 2}]
    folder = runs(database, tmp_path / "other", "run_1_of", "run_2_of")
    found = open_path(folder, "runs", ReadOptions(folder_pattern="run_{k}_of"))
    assert isinstance(found, Experiment)
    assert [dict(run.parameters) for run in found.runs] == [{"k": 1}, {"k": 2}]


def test_one_broken_run(database: Path, tmp_path: Path) -> None:
    folder = runs(database, tmp_path, "app.p1", "app.p2", "app.p4")
    meta = folder / "app.p2" / "meta.db"
    meta.write_bytes(meta.read_bytes()[:200])
    found = opened(folder)
    assert [dict(run.parameters) for run in found.runs] == [{"p": 1}, {"p": 4}]
    assert any("app.p2" in w.text for w in found.damage)
    with pytest.raises(CallgroveError, match=r"app\.p2"):
        opened(folder, strict=True)


def test_one_run_that_may_not_be_read(database: Path) -> None:
    with scratch_folder() as scratch:
        folder = runs(database, scratch / "x", "app.p1", "app.p2", "app.p4")
        scratch.chmod(0o755)
        opened(folder)  # imports what is needed while everything may be read
        (folder / "app.p1").chmod(0)
        with as_nobody():
            found = opened(folder)
        assert [dict(run.parameters) for run in found.runs] == [{"p": 2}, {"p": 4}]
        assert [w.text for w in found.damage] == [f"a run was left out: {folder / 'app.p1'}: Permission denied"]


def test_what_is_left_alone_is_said(database: Path, tmp_path: Path) -> None:
    folder = runs(database, tmp_path, "app.p1", "app.p2", "backup")
    (folder / "app.p4").mkdir()
    texts = [w.text for w in opened(folder).warnings if w.severity == Severity.NOTE]
    assert any("backup" in text for text in texts)
    assert any("app.p4" in text and "nothing" in text for text in texts)
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="is empty"):
        open_path(tmp_path / "empty", "runs")


def test_files_beside_folders_of_runs_are_named(database: Path, tmp_path: Path) -> None:
    folder = runs(database, tmp_path / "all", "app.p4", "app.p8")
    assert not any("left alone" in warning.text for warning in opened(folder).warnings)
    for name in ("other.db", "README.txt", ".hidden"):
        (folder / name).write_text("something else")
    (note,) = [warning.text for warning in opened(folder).warnings if "left alone" in warning.text]
    assert note.endswith("beside folders of runs: README.txt, other.db")


def test_different_parameters_are_none(database: Path, tmp_path: Path) -> None:
    """Nobody may have meant names to be points: they are names of runs, unless --strict asks for a study."""
    folder = runs(database, tmp_path, "app.p1", "app.q2")
    found = opened(folder)
    assert [(run.name, dict(run.parameters)) for run in found.runs] == [("app.p1", {}), ("app.q2", {})]
    assert "app.p1 has the parameters p, but app.q2 has q" in found.warnings[0].text
    with pytest.raises(InputError, match=r"app\.p1 has the parameters p, but app\.q2 has q"):
        found.study()
    with pytest.raises(InputError, match=r"app\.p1 has the parameters p, but app\.q2 has q"):
        opened(folder, strict=True)


def test_a_study_is_no_run(tmp_path: Path) -> None:
    for p in (1, 2):
        (tmp_path / f"p{p}").mkdir()
        (tmp_path / f"p{p}" / "x").write_text("PARAMETER p\nPOINTS 1\nREGION f\nDATA 1\n")
    with pytest.raises(InputError, match="series over parameters already"):
        open_path(tmp_path)


def test_points_said_by_the_user(database: Path, tmp_path: Path) -> None:
    folder = runs(database, tmp_path, "a", "b", "c")
    found = open_points(
        [("p=2,n=1", str(folder / "b")), ("n=1,p=1", str(folder / "a")), ("p=2,n=1", str(folder / "c"))]
    )
    assert [(dict(run.parameters), run.repetition, run.name) for run in found.runs] == [
        ({"p": 1, "n": 1}, 1, "a"),
        ({"p": 2, "n": 1}, 1, "b"),
        ({"p": 2, "n": 1}, 2, "c"),
    ]
    study = found.study(combination=Combination.SUM)
    assert study.points.tolist() == [[1, 1], [2, 1]]
    with pytest.raises(UsageError, match="other parameters"):
        open_points([("p=1", str(folder / "a")), ("q=1", str(folder / "b"))])
    with pytest.raises(InputError, match="missing"):
        open_points([("p=1", str(folder / "missing"))])
    (tmp_path / "x").mkdir()
    with pytest.raises(InputError, match="nothing in it was recognised"):
        open_points([("p=1", str(tmp_path / "x"))])


def test_detection_stays_within_its_budget(database: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = runs(database, tmp_path, *(f"app.p{p}.r1" for p in range(1, 5)))
    for p in range(5, 9):
        (folder / f"app.p{p}").mkdir()
        (folder / f"app.p{p}" / "big.json").write_text('{"x": "' + "y" * 100_000)
    with counted_reading(monkeypatch) as counts:
        assert detect(Source.of(folder))[0].name == "runs"
    assert 0 < sum(counts) <= HEAD_BUDGET


def test_folders_in_folders_do_not_multiply(tmp_path: Path) -> None:
    """Names that follow the grammar at every level, and nothing in them."""
    place = tmp_path
    for _ in range(60):
        for k in (1, 2):
            (place / f"a{k}").mkdir()
        place = place / "a1"
    with pytest.raises(CallgroveError, match="no performance data"):
        open_path(tmp_path)


def test_a_link_to_itself_ends(database: Path, tmp_path: Path) -> None:
    folder = runs(database, tmp_path, "app.p1", "app.p2")
    (folder / "app.p4").symlink_to(folder)
    assert len(opened(folder).runs) == 4  # the two inside of the link are runs at p=4


def test_numbered_files_that_are_no_runs_are_refused_after_a_few(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where thousands lie in a folder, they are not opened one after the other."""
    for k in range(300):
        (tmp_path / f"image{k:04}.log").write_text("hello\n" * 5)
    asked: list[Path] = []
    usual = Source.head

    def head(source: Source, size: int, name: str = "") -> bytes:
        asked.append(source.path)
        return usual(source, size, name)

    monkeypatch.setattr(Source, "head", head)
    with pytest.raises(
        NotRecognised, match=r"no performance data was recognised in this folder: it holds image0000\.log"
    ):
        open_path(tmp_path)
    assert len(set(asked)) < 100


def test_numbered_files_of_which_the_first_are_empty(tmp_path: Path) -> None:
    for k in range(5):
        (tmp_path / f"run{k}.cubex").touch()
    write_experiment(example(), writer_of("cube"), tmp_path / "run5.cubex", WriteOptions())
    found = opened(tmp_path)
    assert [dict(run.parameters) for run in found.runs] == [{"run": 5}]
    assert len(found.damage) == 5


def test_files_whose_names_say_that_they_are_runs_are_opened(tmp_path: Path) -> None:
    """What is wrong with them is told then."""
    for k in (4, 8):
        (tmp_path / f"app.p{k}.cubex").write_text("no archive")
    with pytest.raises(InputError, match=r"none of its 2 runs can be read; a run was left out: .*app\.p4\.cubex: "):
        open_path(tmp_path)


def test_one_folder_with_a_number_among_others_is_no_run(tmp_path: Path) -> None:
    """Such as studies beside each other, of which one is called example2: it is not opened for all of them."""
    for study in ("example", "example2", "threads"):
        for point in (4, 8):
            folder = tmp_path / study / f"app.p{point}.r1"
            folder.mkdir(parents=True)
            write_experiment(example(), writer_of("cube"), folder / "profile.cubex", WriteOptions())
    with pytest.raises(NotRecognised, match=r"holds several inputs: example, example2, threads; name one of them"):
        open_path(tmp_path)
    assert len(opened(tmp_path / "example2").runs) == 2


def test_folders_of_one_execution_in_each_run(tmp_path: Path) -> None:
    """As Score-P makes one for each execution, with the profile as a file in it."""
    for point in (4, 8):
        folder = tmp_path / f"app.p{point}.r1" / "scorep-7"
        folder.mkdir(parents=True)
        write_experiment(example(), writer_of("cube"), folder / "profile.cubex", WriteOptions())
    found = opened(tmp_path)
    assert [dict(run.parameters) for run in found.runs] == [{"p": 4}, {"p": 8}]
    assert found.runs[0].source == str(tmp_path / "app.p4.r1" / "scorep-7" / "profile.cubex")


def test_measurements_beside_their_database_are_no_other_run(database: Path, tmp_path: Path) -> None:
    measured = CORPUS / "hpcrun" / "04.00" / "pth4.m"
    folder = runs(database, tmp_path, "app.p4/hpctoolkit-app-database", "app.p8/hpctoolkit-app-database")
    for point in (4, 8, 16):
        writable_copy(measured, folder / f"app.p{point}" / "hpctoolkit-app-measurements")
    found = [Path(run.source).name.removeprefix("hpctoolkit-app-") for run in opened(folder).runs]
    assert found == ["database", "database", "measurements"]


@pytest.mark.parametrize("place", [".", "..", "../study"])
def test_a_folder_that_one_is_in_has_its_own_name(
    place: str, database: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = runs(database, tmp_path / "study", "app.p4", "app.p8")
    monkeypatch.chdir(folder / "app.p4" if place == ".." else folder)
    assert opened(Path(place)).title == "study"


TREE: list[Node] = [(0, "main", [(1, "f", []), (2, "f", []), (3, "bar", [(4, "deep", [])])])]
CALLSITE = '<parameter partype="numeric" parkey="callsite id" parvalue="9"/>\n'
ONE_LOCATION = """<systemtreenode Id="0"><name>m</name><class>machine</class><locationgroup Id="0"><name>r</name>
<rank>0</rank><type>process</type><location Id="0"><name>t</name><rank>0</rank><type>thread</type></location>
</locationgroup></systemtreenode>"""


def cube_runs(folder: Path, n_locations: int = 4) -> Experiment:
    """Two points; f is called from two places, one of which has a parameter."""
    for p in (4, 8):
        (folder / f"app.p{p}.r1").mkdir(parents=True)
        time = {0: (1, 0, 0, 0), 1: (p, 0, 0, 2), 2: (3, 5, 0, 0), 3: (0, 0, 0, 0)}
        count = {0: (100, 100, 100, 100), 3: (50, 7, 2, 1), 4: (40, 9, 2, 3)}
        metrics = [
            RawMetric("time", rows={k: row[:n_locations] for k, row in time.items()}),
            RawMetric("count", "INCLUSIVE", "UINT64", {k: row[:n_locations] for k, row in count.items()}, uom="occ"),
        ]
        cube = Cube(TREE, metrics, system="" if n_locations == 4 else ONE_LOCATION, cnode_more={2: CALLSITE})
        cube.write(folder / f"app.p{p}.r1" / "profile.cubex")
    return opened(folder)


@pytest.mark.parametrize(
    ("scaling", "values"),
    [
        ("weak", [[4, 0, 0, 2], [3, 5, 0, 0]]),
        ("weak_threaded", [[4, 2], [3, 5]]),
        ("strong", [[6], [8]]),
    ],
)
def test_rows_of_one_call_path_are_repetitions_as_in_extra_p(
    scaling: str, values: list[list[float]], tmp_path: Path
) -> None:
    study = cube_runs(tmp_path).study(combination=of_scaling(scaling))
    assert "main->f" in study.callpaths
    assert not [path for path in study.callpaths if "callsite" in path]
    series = study.series("main->f", "time")
    every = [v for row in values for v in row]
    assert series.repetitions[0] == 2
    assert series.mean[0] == pytest.approx(sum(every) / len(every), rel=1e-15)
    assert (series.minimum[0], series.maximum[0]) == (min(every), max(every))
    assert study.series("main->bar", "time").mean[0] == 0  # its zeros are stored


def test_unsigned_counters_below_zero_count_as_zero_in_studies(tmp_path: Path) -> None:
    """At bar: 50 - 40, 7 - 9, 2 - 2, 1 - 3, in both runs."""
    study = cube_runs(tmp_path).study(combination=of_scaling("weak"))
    series = study.series("main->bar", "count")
    assert (series.mean[0], series.minimum[0], series.maximum[0]) == (10 / 4, 0, 10)
    assert any(w.text.startswith("count: 4 exclusive values below zero") for w in study.warnings)


def test_one_location_is_read_like_several(tmp_path: Path) -> None:
    study = cube_runs(tmp_path, n_locations=1).study(combination=of_scaling("weak"))
    assert study.series("main->f", "time").mean.tolist() == [(4 + 3) / 2, (8 + 3) / 2]
    assert study.series("main->f", "time").repetitions.tolist() == [2, 2]


def test_call_paths_of_other_combinations_add_up(tmp_path: Path) -> None:
    """The largest over processes, the threads of each added up, is no way of Extra-P's."""
    study = cube_runs(tmp_path).study(["time"], combination=Combination.MAXIMUM)
    assert study.series("main->f", "time").mean[0] == max((4 + 3) + (0 + 5), 0 + 2)
    assert study.series("main->f", "time").repetitions[0] == 1
