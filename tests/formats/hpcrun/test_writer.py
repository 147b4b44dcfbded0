"""Experiments of any origin as measurement files: what is kept, what is lost, and what is there after a failure."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from callgrove.errors import CallgroveError, UsageError
from callgrove.formats.hpcrun.files import read_measurement
from callgrove.formats.hpcrun.format import FORMAT
from callgrove.formats.hpcrun.writer import MeasurementWriter
from callgrove.formats.interface import SampleChunk, WriteOptions
from callgrove.formats.registry import open_path
from callgrove.formats.writing.transfer import transfer
from callgrove.model.builder import ExperimentBuilder
from callgrove.model.contexts import ContextKind
from callgrove.model.experiment import Experiment
from callgrove.model.metrics import Metric, Scope
from callgrove.model.profiles import ProfileKind
from callgrove.model.traces.events import ArraySamples, Samples
from callgrove.model.values import SparseBlock
from tests.exhaustive import try_examples
from tests.formats.contract import problems
from tests.formats.damage import run, scratch_folder
from tests.formats.hpcrun.hpcrun_opening import opened, values_by_label, written
from tests.formats.hpcrun.hpcrun_synthetic import FILES, MIXED_04
from tests.formats.samples import CORPUS

DIALECTS = ("04.00", "02.00-a", "02.00-b")
FOLDERS = [CORPUS / "hpcrun" / release / "pth4.m" for release in ("2016.12", "2018.09", "04.00")]
Values = dict[tuple[str, str, str], float]


def converted(experiment: Experiment, target: Path, dialect: str = "") -> list[str]:
    """Write an experiment; gives what was lost."""
    return transfer(experiment, FORMAT.open_writer(target, WriteOptions(dialect))).losses


def everything(experiment: Experiment) -> tuple[Values, list[tuple[str, int, str]]]:
    """Values by (profile, path, metric) and samples by (profile, time, path), of all that can be told by name."""
    tree, labels = experiment.contexts, experiment.profiles
    values: Values = {}
    for block in experiment.values.blocks():
        rows = block.triples()
        for p, c, m, v in zip(rows.profile, rows.context, rows.metric, rows.value, strict=True):
            values[labels.label(int(p)), tree.path(int(c)), experiment.metrics[int(m)].name] = v.item()
    samples = [
        (labels.label(profile), int(time), tree.path(int(context)))
        for profile, _, line in experiment.traces.lines()
        for time, context in zip(line.time_ns, line.context, strict=True)
    ]
    return values, sorted(samples)


def _by_thread(experiment: Experiment) -> tuple[Values, list[tuple[str, int, str]]]:
    """The same by the number of the thread alone: a profile is called `rank 0 thread 1` where it has a rank."""
    values, samples = everything(experiment)
    short = {(label.split()[-1], path, metric): value for (label, path, metric), value in values.items()}
    return short, [(label.split()[-1], time, path) for label, time, path in samples]


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("folder", FOLDERS, ids=lambda p: p.parent.name)
def test_folders_keep_everything_in_every_dialect(folder: Path, dialect: str, tmp_path: Path) -> None:
    """Through the dialect and back: equal values, samples and paths; identifiers of 04.00 do not fit into 02.00."""
    experiment = opened(folder)
    lost = converted(experiment, tmp_path / "out", dialect)
    assert lost == ([] if dialect == "04.00" or folder.parent.name != "04.00" else [lost[0]])
    assert all(text.startswith("identifiers: ") for text in lost)
    again = opened(tmp_path / "out")
    assert {read_measurement(p).version for p in (tmp_path / "out").glob("*.hpcrun")} == {dialect[:5]}
    assert _by_thread(again) == _by_thread(experiment)
    paths = [sorted(e.contexts.path(c) for c in range(len(e.contexts))) for e in (experiment, again)]
    assert paths[0] == paths[1]
    assert problems(tmp_path / "out") == []


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("name", FILES)
def test_single_files_keep_their_values_in_every_dialect(name: str, dialect: str, tmp_path: Path) -> None:
    experiment = opened(written(tmp_path, FILES[name]))
    lost = converted(experiment, tmp_path / "out.hpcrun", dialect)
    again = opened(tmp_path / "out.hpcrun")
    want = values_by_label(experiment)
    if name == "mixed.hpcrun" and dialect != "04.00":  # which has a code that nobody knows
        want["<unknown module>+0x537472616e676501", "CPUTIME (sec)"] = want.pop(("Strange\\01", "CPUTIME (sec)"))
        assert [text.partition(":")[0] for text in lost] == [
            "1 placeholders",
            "that the callers of 1 context are not known",
        ]
        lost = []
    assert values_by_label(again) == want
    assert [m.formula for m in again.metrics] == [m.formula for m in experiment.metrics]
    assert [m.dtype for m in again.metrics] == [m.dtype for m in experiment.metrics]
    assert lost == []
    assert read_measurement(tmp_path / "out.hpcrun").dialect == {"a": "A", "b": "B"}.get(dialect[-1], "")


def test_files_and_their_traces_have_the_tools_names(tmp_path: Path) -> None:
    folder = FOLDERS[-1]
    converted(opened(folder), tmp_path / "out")
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == sorted(p.name for p in folder.iterdir())


def test_a_written_trace_is_the_one_that_was_read(tmp_path: Path) -> None:
    """Ids are kept, so the bytes are the same."""
    path = sorted(FOLDERS[-1].glob("*.hpcrun"))[2]
    converted(opened(path), tmp_path / "a.hpcrun")
    assert (tmp_path / "a.hpctrace").read_bytes() == path.with_suffix(".hpctrace").read_bytes()
    have, want = read_measurement(tmp_path / "a.hpcrun"), read_measurement(path)
    assert have.header == want.header
    assert have.identifiers == want.identifiers
    assert have.epochs[0].metrics == want.epochs[0].metrics
    assert {m.path for m in have.epochs[0].modules} == {m.path for m in want.epochs[0].modules}


def test_fields_of_metrics_survive(tmp_path: Path) -> None:
    converted(opened(written(tmp_path, MIXED_04.packed())), tmp_path / "out.hpcrun")
    have = read_measurement(tmp_path / "out.hpcrun").epochs[0]
    want = read_measurement(tmp_path / "a.hpcrun").epochs[0]
    assert have.metrics == want.metrics
    assert have.nodes.id.tolist() == want.nodes.id.tolist()
    assert have.nodes.ip.tolist() == want.nodes.ip.tolist()
    assert have.nodes.flags is not None
    assert want.nodes.flags is not None
    assert have.nodes.flags.tolist() == want.nodes.flags.tolist()


def test_ids_of_sampled_nodes_are_odd_where_they_are_made(tmp_path: Path) -> None:
    converted(opened(FOLDERS[-1]), tmp_path / "out")
    for path in (tmp_path / "out").glob("*.hpcrun"):
        ids = set(read_measurement(path).epochs[0].nodes.id.tolist())
        experiment = opened(path)
        [(_, _, line)] = list(experiment.traces.lines())
        sampled = set(experiment.contexts.source_id[np.unique(line.context)].tolist())
        assert {id_ for id_ in ids if id_ % 2} == sampled


def test_a_database_becomes_measurements(tmp_path: Path) -> None:
    """The foreign database was made from these very measurements: same cost per thread, same samples."""
    database = opened(CORPUS / "hpctoolkit" / "release" / "pth4.foreign.d")
    lost = converted(database, tmp_path / "out")
    again, want = opened(tmp_path / "out"), opened(FOLDERS[-1])
    assert any("roots" in text for text in lost)
    have_values, have_samples = everything(again)
    want_values, want_samples = everything(want)
    assert have_values == pytest.approx(want_values, rel=1e-12)
    assert len(have_samples) == len(want_samples)


def test_a_database_with_source_lines_keeps_its_totals(tmp_path: Path) -> None:
    database = opened(CORPUS / "hpctoolkit" / "release" / "mpi4.d")
    lost = converted(database, tmp_path / "out")
    again = opened(tmp_path / "out")
    assert again.root_total("CPUTIME (sec)") == pytest.approx(database.root_total("CPUTIME (sec)"), rel=1e-12)
    assert again.traces.n_samples == database.traces.n_samples
    assert any(text.startswith("11 contexts that are not an address (line)") for text in lost)
    assert "names, files and lines of contexts: only module and offset are stored" in lost


# -- targets -----------------------------------------------------------------------------------------------------------


def test_one_profile_is_a_file_and_several_are_a_folder(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there are 5 profiles, each a file of its own; name a folder"):
        converted(opened(FOLDERS[0]), tmp_path / "out.hpcrun")
    with pytest.raises(UsageError, match=r"name a file that ends with \.hpcrun"):
        converted(opened(written(tmp_path, FILES["mixed.hpcrun"])), tmp_path / "out.hpctrace")
    assert [p.name for p in tmp_path.iterdir()] == ["a.hpcrun"]


def test_what_is_there_is_replaced_only_when_asked(tmp_path: Path) -> None:
    source = str(sorted(FOLDERS[-1].glob("*.hpcrun"))[0])
    target = tmp_path / "out.hpcrun"
    assert run("convert", source, str(target), "--dialect", "02.00-a")[0] == 0
    before = target.read_bytes()
    code, _, said = run("convert", source, str(target))
    assert (code, "exists already" in said) == (2, True)
    assert target.read_bytes() == before
    assert run("convert", source, str(target), "--force")[0] == 0
    assert read_measurement(target).version == "04.00"
    code, _, said = run("convert", source, str(target), "--force", "--dialect", "05.00")
    assert (code, "has 04.00, 02.00-b, 02.00-a, not '05.00'" in said) == (2, True)


def test_a_folder_of_other_things_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "thesis.tex").write_text("years of work")
    code, _, said = run("convert", str(FOLDERS[0]), str(tmp_path / "out"), "--to", "hpcrun", "--force")
    assert (code, "other things than a folder of measurements" in said) == (2, True)
    assert (tmp_path / "out" / "thesis.tex").read_text() == "years of work"


def test_a_failure_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*args: object, **options: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("callgrove.formats.hpcrun.writer.write_trace", fail)
    for source, target in ((FOLDERS[0], "out"), (sorted(FOLDERS[0].glob("*.hpcrun"))[1], "out.hpcrun")):
        with pytest.raises(CallgroveError, match="No space left on device; nothing was changed"):
            converted(opened(source), tmp_path / target)
    assert list(tmp_path.iterdir()) == []


def test_no_trace_is_begun_where_the_profile_is_refused(tmp_path: Path) -> None:
    target = tmp_path / "out.hpcrun"
    target.write_text("old")
    with pytest.raises(UsageError, match="exists already"):
        converted(opened(sorted(FOLDERS[0].glob("*.hpcrun"))[1]), target)
    assert list(tmp_path.iterdir()) == [target]


def test_an_unknown_dialect_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="dialects"):
        MeasurementWriter(tmp_path / "out", WriteOptions("B"))


# -- other experiments -------------------------------------------------------------------------------------------------


def small(samples: bool = True) -> ExperimentBuilder:
    """main -> a function without a place -> an instruction; a line in it."""
    builder = ExperimentBuilder("test", title="p")
    module = builder.module("/bin/p")
    main = builder.region(ContextKind.FUNCTION, "main", module=module, offset=0x10)
    helper = builder.region(ContextKind.FUNCTION, "helper")
    place = builder.region(ContextKind.INSTRUCTION, module=module, offset=0x20)
    builder.add_context(-1, ContextKind.FUNCTION, main)
    builder.add_context(0, ContextKind.FUNCTION, helper)
    builder.add_context(1, ContextKind.INSTRUCTION, place)
    builder.add_profile(ProfileKind.THREAD, [(2, 4, 4, 3), (3, 0, 0, 3)])
    builder.add_metric(Metric("n", Scope.EXCLUSIVE, dtype="uint64"))
    builder.add_metric(Metric("t", Scope.INCLUSIVE))
    if samples:
        line = Samples(np.array([5, 1_234_567]), np.array([2, -1], np.int32))
        builder.set_traces(ArraySamples(np.zeros(1, np.int32), np.full(1, -1, np.int32), (line,)))
    return builder


def test_contexts_without_a_place_go_into_those_above(tmp_path: Path) -> None:
    builder = small()
    builder.add_values(0, [0, 1, 2], 0, np.array([1, 2, 4], np.uint64))
    builder.add_values(0, [0, 1, 2], 1, np.array([8.0, 6.0, 5.0]))
    lost = converted(builder.build(), tmp_path / "out.hpcrun")
    again = opened(tmp_path / "out.hpcrun")
    assert values_by_label(again) == {
        ("/bin/p+0x10", "n"): 3,
        ("/bin/p+0x20", "n"): 4,
        ("/bin/p+0x10", "t"): 3.0,  # 8 - 6 of main and 6 - 5 of helper
        ("/bin/p+0x20", "t"): 5.0,
    }
    assert [m.dtype for m in again.metrics] == ["int", "real"]
    [(_, _, line)] = list(again.traces.lines())
    assert [again.contexts.label(c) for c in line.context.tolist()] == ["/bin/p+0x20", "<no activity>"]
    assert line.time_ns.tolist() == [5, 1_234_567]
    assert set(lost) == {
        "1 context that is not an address (function): the cost is in those above",
        "names, files and lines of contexts: only module and offset are stored",
        "roots: they are put below one that was added",
        "scopes of t: exclusive values are stored",
        "idle samples: they are on the context <no activity>",
    }
    assert again.profiles.identity_list("rank") == [4]


def test_times_of_02_are_rounded_and_that_is_said(tmp_path: Path) -> None:
    lost = converted(small().build(), tmp_path / "out.hpcrun", "02.00-b")
    assert "times: 02.00 counts microseconds, so nanoseconds are rounded down" in lost
    [(_, _, line)] = list(opened(tmp_path / "out.hpcrun").traces.lines())
    assert line.time_ns.tolist() == [0, 1_234_000]


def test_negative_integers_become_reals(tmp_path: Path) -> None:
    builder = small(samples=False)
    builder.add_values(0, [0, 2], 0, np.array([-1, 4], np.int64))
    converted(builder.build(), tmp_path / "out.hpcrun")
    assert values_by_label(opened(tmp_path / "out.hpcrun")) == {("/bin/p+0x10", "n"): -1.0, ("/bin/p+0x20", "n"): 4.0}


def test_an_experiment_without_addresses_is_refused(tmp_path: Path) -> None:
    builder = ExperimentBuilder("test")
    builder.add_context(-1, ContextKind.REGION, builder.region(ContextKind.REGION, "main"))
    builder.add_profile(ProfileKind.THREAD)
    with pytest.raises(UsageError, match="hold addresses in modules, and no context has one"):
        converted(builder.build(), tmp_path / "out.hpcrun")
    assert list(tmp_path.iterdir()) == []


def test_an_experiment_without_profiles_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there is no profile"):
        converted(ExperimentBuilder("test").build(), tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


def test_chunks_may_come_in_any_order(tmp_path: Path) -> None:
    experiment = opened(FOLDERS[-1])
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    converted(experiment, whole)
    writer = MeasurementWriter(parts, WriteOptions())
    writer.define(experiment)
    for profile, metric, line in reversed(list(experiment.traces.lines())):
        for one in range(len(line)):
            writer.write(
                SampleChunk(profile, metric, Samples(line.time_ns[one : one + 1], line.context[one : one + 1]))
            )
    rows = SparseBlock.concatenate([block.triples() for block in experiment.values.blocks()])
    for row in reversed(range(len(rows))):
        writer.write(rows.take(slice(row, row + 1)))
    writer.flush()
    writer.close()
    assert {p.name: p.read_bytes() for p in parts.iterdir()} == {p.name: p.read_bytes() for p in whole.iterdir()}


@try_examples(40)
@given(st.data())
def test_random_trees_survive(data: st.DataObject) -> None:
    """Any tree of addresses, any values: the same paths and values through every dialect."""
    n = data.draw(st.integers(1, 12))
    dialect = data.draw(st.sampled_from(DIALECTS))
    builder = ExperimentBuilder("hpcrun", title="p")
    modules = [builder.module(f"/lib/{k}.so") for k in range(2)]
    builder.add_context(-1, ContextKind.ENTRY, builder.region(ContextKind.ENTRY, "<root>"))
    offsets = st.integers(1, 5) | st.integers(2**63, 2**64 - 3)
    for number in range(1, n):
        region = builder.region(
            ContextKind.INSTRUCTION, module=data.draw(st.sampled_from(modules)), offset=data.draw(offsets)
        )
        builder.add_context(data.draw(st.integers(0, number - 1)), ContextKind.INSTRUCTION, region)
    builder.add_metric(Metric("n", Scope.POINT, dtype="int", attributes=(("period", "10"),)))
    builder.add_metric(Metric("x", Scope.POINT, dtype="real"))
    n_profiles = data.draw(st.integers(1, 3))
    for profile in range(n_profiles):
        builder.add_profile(ProfileKind.THREAD, [(1, 7, 0, 1), (2, profile, profile, 3), (3, 0, 0, 3)])
        chosen = data.draw(st.lists(st.integers(0, n - 1), unique=True))
        counts = data.draw(st.lists(st.integers(1, 2**50), min_size=len(chosen), max_size=len(chosen)))
        builder.add_values(profile, chosen, 0, np.array(counts, np.uint64))
        reals = st.floats(allow_nan=False, allow_infinity=False).filter(bool)
        numbers = data.draw(st.lists(reals, min_size=len(chosen), max_size=len(chosen)))
        builder.add_values(profile, chosen, 1, np.array(numbers, np.float64))
    experiment = builder.build()
    with scratch_folder() as folder:
        assert converted(experiment, folder / "out", dialect) == []
        again = opened(folder / "out")
        want, have = ({k: v for k, v in _added(e).items() if v} for e in (experiment, again))
        assert have == want
        assert [m.dtype for m in again.metrics] == ["int", "real"]


def _added(experiment: Experiment) -> dict[tuple[int | None, str, str], float]:
    """Values by (rank, path, metric); equal siblings of a folder become one, so they are added here."""
    ranks, found = experiment.profiles.identity_list("rank"), dict[tuple[int | None, str, str], float]()
    for block in experiment.values.blocks():
        rows = block.triples()
        keys = zip(rows.profile.tolist(), rows.context.tolist(), rows.metric.tolist(), rows.value.tolist(), strict=True)
        for p, c, m, v in sorted(keys, key=lambda row: (row[0], row[2], row[3])):
            key = ranks[p], experiment.contexts.path(c), experiment.metrics[m].name
            found[key] = found.get(key, 0) + v
    return found


def test_open_path_reads_what_was_written_under_any_name(tmp_path: Path) -> None:
    converted(opened(FOLDERS[0]), tmp_path / "nameless")
    assert open_path(tmp_path / "nameless").format == "hpcrun"
