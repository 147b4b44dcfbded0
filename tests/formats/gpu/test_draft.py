"""The draft schema: the document's own text, what we write, and reading while it is being written."""

from __future__ import annotations

import json
import re
import sqlite3
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from callgrove.arrays import Array
from callgrove.cli.main import main
from callgrove.errors import CorruptFile, UsageError
from callgrove.formats.gpu.draft.schema import statements
from callgrove.formats.gpu.draft.writer import DraftWriter
from callgrove.formats.interface import LossReport, WriteOptions
from callgrove.formats.registry import load
from callgrove.formats.writing.transfer import transfer
from callgrove.model.builder import ExperimentBuilder
from callgrove.model.experiment import Experiment
from callgrove.model.profiles import ProfileKind
from callgrove.model.traces.events import LABEL, SPAN_COLUMNS, ArraySpans, SpanChunk, SpanKind
from tests.cli.commands import Capture, run, said
from tests.formats.gpu.gpu_databases import Run, execute, write_nsight, write_rocpd, write_rpd
from tests.formats.gpu.gpu_truth import everything, expected_gpu_time, gpu_time, opened, spans
from tests.formats.samples import CORPUS
from tests.requirements import ROOT

RUN = Run.random(5)


@pytest.fixture
def verbatim(shared: Path, tmp_path: Path) -> Path:
    """A database made from the document's CREATE TABLE statements, as they stand there."""
    text = (shared / "seeds" / "rocprofv3-multi-node-data.txt").read_text("utf-8")
    made = "".join(block for block in re.findall(r"```sql\n(.*?)```", text, re.DOTALL) if "CREATE TABLE" in block)
    path = tmp_path / "draft.db"
    database = sqlite3.connect(path)
    database.executescript(made)
    database.close()
    return path


def converted(path: Path, target: Path) -> LossReport:
    format_ = load("rocpd-draft")
    return transfer(opened(path), format_.open_writer(target, WriteOptions()))  # type: ignore[attr-defined]


def test_what_the_model_has_no_place_for_is_kept(tmp_path: Path) -> None:
    """Source lines of regions and the JSON of others, under the span of their row; our own keys are nothing more."""
    target = tmp_path / "draft.db"
    converted(write_rocpd(tmp_path / "r.db", [RUN.without("memset")]), target)
    assert opened(target).traces.side("extra") is None
    execute(
        target,
        "INSERT INTO strings VALUES (9999, 'solver.f90')",
        "UPDATE instrumentation_regions SET file_id = 9999, line_number = 10 + id WHERE id = 3",
        "UPDATE gpu_kernel_launches SET additional_info = json_set(additional_info, '$.tag', 'hot') WHERE id = 2",
    )
    experiment = opened(target)
    table = experiment.traces.side("extra")
    assert table is not None
    kinds = {k: kind for chunk in experiment.traces.spans(("kind",)) for k, kind in zip(*both(chunk), strict=True)}
    cells = zip(table.span.tolist(), *(np.asarray(table.columns[n]).tolist() for n in ("name", "value")), strict=True)
    found = {(SpanKind(kinds[span]), name, value) for span, name, value in cells}
    region = next(kind for kind, name, _ in found if name == "file")
    assert region in (SpanKind.API, SpanKind.MARKER)
    assert found == {
        (region, "file", "solver.f90"),
        (region, "line_number", "13"),
        (SpanKind.KERNEL, "additional_info", '{"tag": "hot"}'),
    }


def both(chunk: SpanChunk) -> tuple[list[int], list[int]]:
    return chunk["span"].tolist(), chunk["kind"].tolist()


# -- the document's own text -----------------------------------------------------------------------------------------


def test_the_documents_tables_are_all_there(verbatim: Path) -> None:
    ours = {re.search(r"CREATE TABLE (\w+)", text)[1] for text in statements()}  # type: ignore[index]
    database = sqlite3.connect(verbatim)
    theirs = {name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    for table in theirs:
        wanted = {row[1] for row in database.execute(f"PRAGMA table_xinfo({table})")}
        execute_ours = sqlite3.connect(":memory:")
        for text in statements():
            execute_ours.execute(text)
        assert wanted <= {row[1] for row in execute_ours.execute(f"PRAGMA table_xinfo({table})")}, table
        execute_ours.close()
    database.close()
    assert len(theirs) == 11
    assert ours == theirs | {"metadata"}


def test_rows_without_ids_go_by_their_row(verbatim: Path) -> None:
    """`SERIAL` numbers nothing in SQLite: ids stay NULL, and others refer to what they should have been."""
    execute(
        verbatim,
        "INSERT INTO strings (value) VALUES ('main'), ('gemm'), ('MI300X')",
        "INSERT INTO process (pid, process_name_id, start_time, end_time) VALUES (77, 1, 0, 1000)",
        "INSERT INTO thread (tid, process_id) VALUES (77, 1)",
        "INSERT INTO gpu_info (device_name_id) VALUES (3)",
        "INSERT INTO instrumentation_regions (process_id, thread_id, region_name_id, start_time, end_time) "
        "VALUES (1, 1, 1, 100, 200)",
        "INSERT INTO gpu_kernel_launches (process_id, thread_id, gpu_id, kernel_id, launch_time, start_time, end_time, "
        "grid_size_x, grid_size_y, grid_size_z, block_size_x, block_size_y, block_size_z) "
        "VALUES (1, 1, 1, 2, 150, 300, 340, 4, 1, 1, 64, 1, 1)",
    )
    experiment = opened(verbatim)
    tree = experiment.contexts
    assert [tree.label(c) for c in range(len(tree))] == ["main", "gemm"]
    assert tree.parent.tolist() == [-1, 0]  # the region that was open at the launch
    assert gpu_time(experiment) == 40
    side = experiment.traces.side("kernel")
    assert side is not None
    assert np.asarray(side.columns["grid_x"]).tolist() == [256]  # blocks, so 4 * 64 work-items


def test_the_documents_two_inserts(verbatim: Path, shared: Path) -> None:
    """They name tables that the document does not create, and a date where it says BIGINT."""
    text = (shared / "seeds" / "rocprofv3-multi-node-data.txt").read_text("utf-8")
    inserts = [block for block in re.findall(r"```sql\n(.*?)```", text, re.DOTALL) if "INSERT INTO" in block]
    execute(
        verbatim,
        "CREATE TABLE function_names (function_id INTEGER PRIMARY KEY, function_name TEXT UNIQUE)",
        "CREATE TABLE file_names (file_id INTEGER PRIMARY KEY, file_name TEXT UNIQUE)",
        "INSERT INTO file_names (file_name) VALUES ('my_file.c')",
        "INSERT INTO process (id, pid) VALUES (123, 123)",
        "INSERT INTO thread (id, tid, process_id) VALUES (456, 456, 123)",
        *inserts,
    )
    experiment = opened(verbatim)
    ((profile, _, line),) = list(experiment.traces.lines())
    assert experiment.profiles.identifiers.rows(profile)[-1][1] == 456
    assert line.time_ns.tolist() == [1727431200 * 10**9]  # 2024-09-27 10:00:00 UTC
    tree, context = experiment.contexts, int(line.context[0])
    assert [tree.label(c) for c in (int(tree.parent[context]), context)] == ["[unknown]", "my_function"]


def test_dates_and_numbers_in_one_file_are_refused(verbatim: Path) -> None:
    execute(
        verbatim,
        "INSERT INTO process (id, pid) VALUES (1, 1)",
        "INSERT INTO call_stacks (process_id, timestamp, stack_depth) VALUES (1, '2024-09-27 10:00:00', 0), (1, 5, 0)",
    )
    with pytest.raises(CorruptFile, match=r"call_stacks.*all numbers, or all dates"):
        opened(verbatim)


@pytest.mark.parametrize("inwards", [True, False])
def test_stacks_are_told_by_their_callers(inwards: bool, verbatim: Path) -> None:
    """Depth 0 is the outermost frame, unless it names a caller."""
    names, parents = ("main", "solve", "spmv"), (None, 1, 2)
    depths = (0, 1, 2) if inwards else (2, 1, 0)
    rows = [(k + 1, 1, 9, depths[k], k + 1, parents[k]) for k in range(3)]
    database = sqlite3.connect(verbatim)
    database.executemany("INSERT INTO strings (id, value) VALUES (?, ?)", list(enumerate(names, 1)))
    database.execute("INSERT INTO process (id, pid) VALUES (1, 1)")
    columns = "id, process_id, timestamp, stack_depth, function_id, parent_sample_id"
    database.executemany(f"INSERT INTO call_stacks ({columns}) VALUES (?, ?, ?, ?, ?, ?)", rows)
    database.commit()
    database.close()
    tree = opened(verbatim).contexts
    assert [tree.label(c) for c in range(len(tree))] == list(names)
    assert tree.parent.tolist() == [-1, 0, 1]


def test_memory_operations_and_counters(verbatim: Path) -> None:
    execute(
        verbatim,
        "INSERT INTO strings (id, value) VALUES (1, 'cycles')",
        "INSERT INTO process (id, pid, end_time) VALUES (1, 1, 5000)",
        "INSERT INTO memory_operations (process_id, timestamp, operation_type, size_bytes, duration_us) "
        "VALUES (1, 1000, 'COPY', 4096, 2), (1, 10, 'ALLOC', 512, NULL)",
        "INSERT INTO hardware_counters (process_id, timestamp, event_id, value) VALUES (1, 7, 1, 99)",
    )
    experiment = opened(verbatim)
    assert spans(experiment, "kind", "start_ns", "end_ns") == [("copy", 1000, 3000), ("alloc", 10, 10)]
    counters = experiment.traces.counters
    assert counters is not None
    assert (counters.names, counters.time_ns.tolist(), counters.value.tolist()) == (("cycles",), [7], [99.0])


def test_addresses_are_looked_up_among_the_symbols(verbatim: Path) -> None:
    execute(
        verbatim,
        "INSERT INTO strings (id, value) VALUES (1, 'main'), (2, 'spmv'), (3, 'spmv.c')",
        "INSERT INTO process (id, pid) VALUES (1, 1)",
        "INSERT INTO binary_analysis_info (process_id, binary_name, function_id, start_address, end_address, file_id, "
        "line_number) VALUES (1, 'a.out', 1, 4096, 4200, NULL, NULL), (1, 'a.out', 2, 4200, 4300, 3, 17)",
        "INSERT INTO call_stacks (process_id, timestamp, stack_depth, call_site) VALUES "
        "(1, 5, 0, '0x1000'), (1, 5, 1, '0x1068'), (1, 9, 0, '0x1000'), (1, 9, 1, '0x10cc'), (1, 9, 2, 'elsewhere')",
    )
    tree = opened(verbatim).contexts
    names = [tree.label(c) for c in range(len(tree))]
    above = [names[p] if p >= 0 else "" for p in tree.parent.tolist()]
    assert sorted(zip(above, names, strict=True)) == [
        ("", "main"),
        ("[unknown]", "[unknown]"),
        ("main", "[unknown]"),
        ("main", "spmv"),
    ]
    spmv = names.index("spmv")
    assert (tree.regions.files.paths[int(tree.column("file")[spmv])], tree.column("line")[spmv]) == ("spmv.c", 17)


def test_regions_that_never_ended_end_with_the_process(verbatim: Path) -> None:
    execute(
        verbatim,
        "INSERT INTO strings (id, value) VALUES (1, 'main')",
        "INSERT INTO process (id, pid, start_time, end_time) VALUES (1, 1, 0, 900)",
        "INSERT INTO instrumentation_regions (process_id, region_name_id, start_time) VALUES (1, 1, 100), (1, 1, 50)",
        "INSERT INTO gpu_kernel_launches (process_id, kernel_id, launch_time, start_time, end_time) "
        "VALUES (1, 1, 120, 130, 140)",  # whoever looks for its region meets them once more
    )
    experiment = opened(verbatim)
    assert spans(experiment, "start_ns", "end_ns") == [(100, 900), (50, 900), (130, 140)]
    assert "2 have no end" in experiment.warnings[0].text


# -- what we write ---------------------------------------------------------------------------------------------------


def sources(folder: Path) -> dict[str, Path]:
    events = RUN.without("memset").events
    measured = tuple((k, "SQ_WAVES", k * 0.5) for k, event in enumerate(events) if event.kind == "kernel")
    run = Run(events, counters=measured)
    return {
        "rocpd": write_rocpd(folder / "a.db", [run]),
        "rpd": write_rpd(folder / "b.rpd", RUN, monitor=((5, "1500"), (9, "1600.25"))),
        "nsight": write_nsight(folder / "c.sqlite", RUN),
    }


def counters_of(experiment: Experiment) -> Counter[tuple[Any, ...]]:
    found: Counter[tuple[Any, ...]] = Counter()
    if (over_time := experiment.traces.counters) is not None:
        for name, when, value in zip(over_time.name, over_time.time_ns, over_time.value, strict=True):
            found[over_time.names[name], int(when), float(value)] += 1
    if (side := experiment.traces.side("counter")) is not None:
        starts = [row[0] for row in spans(experiment, "start_ns")]
        for span, name, value in zip(side.span, side.columns["name"], side.columns["value"], strict=True):
            found[starts[int(span)], name, float(value)] += 1
    return found


@pytest.mark.parametrize("family", ["rocpd", "rpd", "nsight"])
def test_spans_and_counters_come_back_exactly(family: str, tmp_path: Path) -> None:
    path = sources(tmp_path)[family]
    converted(path, tmp_path / "draft.db")
    before, after = opened(path), opened(tmp_path / "draft.db")
    assert after.format == "rocpd-draft"
    assert after.warnings == ()
    assert everything(after) == everything(before)
    assert counters_of(after) == counters_of(before)
    assert counters_of(before) or family == "nsight"
    assert gpu_time(after) == gpu_time(before)


def test_processes_of_many_hosts_come_back(shared: Path, tmp_path: Path) -> None:
    path = shared / "data" / "own" / "rocpd" / "same_pid"
    losses = converted(path, tmp_path / "draft.db").losses
    assert everything(opened(tmp_path / "draft.db")) == everything(opened(path))
    counts = {text.partition(":")[0]: int(re.findall(r": ([\d,]+) are", text)[0].replace(",", "")) for text in losses}
    want = Counter[str]()
    tables = {"arg": "arguments of calls", "info_queue": "names of queues", "info_code_object": "code objects"}
    tables |= {"info_kernel_symbol": "symbols of kernels", "info_pmc": "descriptions of counters"}
    for file in sorted(path.glob("*.db")):
        database = sqlite3.connect(f"file:{file}?mode=ro&immutable=1", uri=True)
        for base, words in tables.items():
            want[words] += database.execute(f"SELECT count(*) FROM rocpd_{base}").fetchone()[0]
        chains = "SELECT count(*) FROM rocpd_event WHERE call_stack != '{}'"
        want["call chains of calls"] += database.execute(chains).fetchone()[0]
        database.close()
    assert {words: counts[words] for words in want} == want
    others = {"values that no reader here knows (extras)", "further columns of events", "further columns of regions"}
    assert set(counts) - set(want) == {*others, "further texts of events"}


def sides_of(experiment: Experiment) -> Counter[tuple[Any, ...]]:
    """Every cell of the side tables of operations, by the kind and start of its span; devices by what they are."""
    keys = dict(enumerate(spans(experiment, "kind", "start_ns", "name")))
    found: Counter[tuple[Any, ...]] = Counter()
    for part in range(len(experiment.traces.parts())):
        devices = [(d.kind, d.index, d.name, tuple(d.attributes.items())) for d in experiment.traces.devices(part)]
        for side in ("kernel", "copy", "alloc", "counter"):
            table = experiment.traces.side(side, part)
            for word, cells in (table.columns if table is not None else {}).items():
                assert table is not None
                for span, cell in zip(table.span.tolist(), np.asarray(cells).tolist(), strict=True):
                    if cell not in (-1, None, ""):
                        is_device = word in ("source", "destination", "device")
                        found[keys[span], side, word, devices[cell] if is_device else cell] += 1
    return found


@pytest.mark.parametrize("family", ["rocpd", "rpd", "nsight"])
def test_what_is_known_of_operations_comes_back(family: str, tmp_path: Path) -> None:
    """Queues, kernels, registers, ends of copies, devices: nothing that a reader gives is left out in silence."""
    path = sources(tmp_path)[family]
    converted(path, tmp_path / "draft.db")
    before, after = sides_of(opened(path)), sides_of(opened(tmp_path / "draft.db"))
    assert before - after == Counter()
    assert {word for _, _, word, _ in (after - before)} <= {"thread"}  # told by the call, where the profiler does not
    assert before


def test_launches_say_when_and_by_whom(tmp_path: Path) -> None:
    """The call is the one with the correlation of the kernel; RPD tells no thread of a kernel."""
    calls = {event.corr: event for event in RUN.events if event.kind == "api"}
    want = Counter(
        (event.start, calls[event.corr].start, RUN.tids[event.thread]) for event in RUN.events if event.kind == "kernel"
    )
    for family in ("rocpd", "rpd", "nsight"):
        (tmp_path / family).mkdir()
        converted(sources(tmp_path / family)[family], tmp_path / family / "draft.db")
        database = sqlite3.connect(tmp_path / family / "draft.db")
        rows = database.execute(
            "SELECT k.start_time, launch_time, tid FROM gpu_kernel_launches k LEFT JOIN thread t ON t.id = k.thread_id"
        )
        assert Counter(rows) == want, family
        database.close()


def test_every_process_has_its_own_times(tmp_path: Path) -> None:
    runs = [
        Run.random(k, host=f"n{k}", machine=f"m{k}", start=1000 * k, guid=f"018f0000-0000-7000-8000-00000000000{k}")
        for k in range(3)
    ]
    for k, own in enumerate(runs):
        write_rocpd(tmp_path / f"{k}.db", [own.without("memset")])
    want = {(own.start, own.without("memset").end, own.guid) for own in runs}
    report = transfer(
        opened(*sorted(tmp_path.glob("?.db"))),
        load("rocpd-draft").open_writer(tmp_path / "draft.db", WriteOptions()),  # type: ignore[attr-defined]
    )
    assert not any("process" in text for text in report.losses)
    processes = opened(tmp_path / "draft.db").traces.tables["processes"]()
    assert set(zip(*(processes.column(name).plain() for name in ("init", "fini", "guid")), strict=True)) == want


def test_times_of_processes_that_nobody_knows_are_not_made_up(tmp_path: Path) -> None:
    path = CORPUS / "hpctoolkit" / "release" / "mpi4.d"
    converted(path, tmp_path / "draft.db")
    database = sqlite3.connect(tmp_path / "draft.db")
    assert database.execute("SELECT start_time, end_time FROM process").fetchall() == [(None, None)] * 4
    database.close()


def test_what_a_profiler_tells_of_itself_is_no_time_of_the_program(tmp_path: Path, capsys: Capture) -> None:
    """An operator of 2 us, while PyTorch's profiler recorded for 10 us."""
    events = [
        {"ph": "X", "cat": "cpu_op", "name": "add", "pid": 1, "tid": 1, "ts": 0, "dur": 2},
        {"ph": "X", "cat": "Trace", "name": "PyTorch Profiler", "pid": "Spans", "tid": "it", "ts": 0, "dur": 10},
    ]
    trace, database = tmp_path / "trace.json", tmp_path / "trace.db"
    trace.write_text(json.dumps({"schemaVersion": 1, "traceEvents": events}))
    run(capsys, "convert", trace, database, "--to", "rocpd-draft")
    for path in (trace, database):
        assert opened(path).root_total("host_time") == pytest.approx(2e-6)
        assert opened(path).root_total("host_calls") == 1


def test_lanes_that_look_alike_stay_apart(tmp_path: Path) -> None:
    builder = ExperimentBuilder("made", str(tmp_path))
    for name in ("one", "other"):
        builder.add_profile(ProfileKind.OTHER, [], name=name)
    columns: dict[str, Array] = {
        "profile": np.array([0, 1, 1], np.int32),
        "kind": np.full(3, SpanKind.REGION, np.int32),
        "start_ns": np.array([10, 20, 30], np.int64),
        "end_ns": np.array([15, 26, 37], np.int64),
        "name": np.zeros(3, np.int32),
        **{name: np.full(3, -1, np.int32) for name in ("category", "depth", "context")},
        "correlation": np.full(3, -1, np.int64),
    }
    builder.set_traces(None, ArraySpans(columns, ("work",)))
    transfer(builder.build(), DraftWriter(tmp_path / "draft.db"))
    after = opened(tmp_path / "draft.db")
    lasting = Counter[str]()
    for profile, start, end in spans(after, "profile", "start_ns", "end_ns"):
        lasting[after.profiles.name[profile]] += end - start
    assert lasting == {"one": 5, "other": 13}


def test_sides_of_a_hostile_file_are_nothing(tmp_path: Path, capsys: Capture) -> None:
    target = tmp_path / "draft.db"
    converted(sources(tmp_path)["rocpd"], target)
    lies = '{"queue": "x", "source": 99, "destination": -7, "device": 1e9, "value_type": 3, "other": [1], "bytes": 5}'
    for table in ("memory_operations", "gpu_kernel_launches", "hardware_counters"):
        for text in (lies, "7", "[]"):
            set_side = f"json_set(additional_info, '$.side', json('{text}'))"
            execute(target, f"UPDATE {table} SET additional_info = {set_side}")
            copies = opened(target).traces.side("copy")
            assert copies is not None
            assert 5 not in np.asarray(copies.columns["bytes"]).tolist()  # the schema's own column counts
            for verb in ("summary", "check"):
                run(capsys, verb, target)
            assert main(["convert", str(target), str(tmp_path / "out"), "--to", "rocprof-csv", "--force"]) == 0
            capsys.readouterr()


def test_what_is_written_is_a_valid_database(tmp_path: Path) -> None:
    converted(sources(tmp_path)["rocpd"], tmp_path / "draft.db")
    database = sqlite3.connect(tmp_path / "draft.db")
    assert database.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    assert database.execute("PRAGMA foreign_key_check").fetchall() == []
    total = database.execute("SELECT sum(duration_ns) FROM gpu_kernel_launches").fetchone()[0]
    assert total == sum(e.length for e in RUN.events if e.kind == "kernel")
    database.close()


def sampled(experiment: Experiment) -> Counter[tuple[Any, ...]]:
    """Every sample with its stack."""
    tree, thread = experiment.contexts, experiment.profiles.identity_list("thread")
    found: Counter[tuple[Any, ...]] = Counter()
    for profile, _, line in experiment.traces.lines():
        for when, context in zip(line.time_ns.tolist(), line.context.tolist(), strict=True):
            path = []
            while context >= 0:
                path.append(tree.label(context))
                context = int(tree.parent[context])
            found[thread[profile], when, tuple(reversed(path))] += 1
    return found


def test_samples_come_back_with_their_stacks(tmp_path: Path) -> None:
    path = CORPUS / "hpctoolkit" / "release" / "pth4.d"
    losses = converted(path, tmp_path / "draft.db").losses
    assert losses == ["values of metrics: only what happened over time is stored"]
    assert sampled(opened(tmp_path / "draft.db")) == sampled(opened(path))
    assert sampled(opened(path))


def test_a_table_that_nobody_knows_is_named(tmp_path: Path) -> None:
    path = tmp_path / "draft.db"
    converted(sources(tmp_path)["rocpd"], path)
    assert opened(path).warnings == ()
    execute(path, "CREATE TABLE later (id)", "INSERT INTO later VALUES (1)")
    (warning,) = opened(path).warnings
    assert warning.text == f"{path}: not read: later"


def test_a_database_without_memory_operations(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "draft.db"
    converted(sources(tmp_path)["rocpd"], path)
    execute(path, "DROP TABLE memory_operations")
    assert "gemm" in run(capsys, "top", path)


def test_without_anything_over_time_there_is_nothing_to_write(tmp_path: Path) -> None:
    writer = DraftWriter(tmp_path / "draft.db")
    with pytest.raises(UsageError, match="neither"):
        transfer(ExperimentBuilder("made").build(), writer)
    assert list(tmp_path.iterdir()) == []


def test_a_failure_leaves_what_was_there(tmp_path: Path, capsys: Capture) -> None:
    path = sources(tmp_path)["rocpd"]
    (tmp_path / "old.db").write_text("keep me")
    assert "exists already" in said(capsys, "convert", path, tmp_path / "old.db", "--to", "rocpd-draft", code=2)
    writer = DraftWriter(tmp_path / "old.db", WriteOptions(overwrite=True))
    writer.define(opened(path))
    writer.abort()
    assert (tmp_path / "old.db").read_text() == "keep me"
    with pytest.raises(UsageError, match="exists already"):
        DraftWriter(tmp_path / "old.db", in_place=True)
    assert not [p for p in tmp_path.iterdir() if "partial" in p.name]


# -- while it is being written ---------------------------------------------------------------------------------------

READ = "import callgrove, sys; e = callgrove.open(sys.argv[1]); print(e.traces.n_spans, *(w.text for w in e.warnings))"


def seen(path: Path) -> tuple[int, str]:
    """What another process sees."""
    done = subprocess.run([sys.executable, "-c", READ, path], capture_output=True, text=True, check=True, cwd=ROOT)
    n, _, warnings = done.stdout.strip().partition(" ")
    return int(n), warnings


def test_another_process_sees_what_was_flushed(tmp_path: Path) -> None:
    source = opened(sources(tmp_path)["rocpd"])
    first_chunk, *others = list(source.traces.spans((*SPAN_COLUMNS, LABEL)))
    half = len(first_chunk["span"])
    path = tmp_path / "live.db"
    writer = DraftWriter(path, in_place=True)
    writer.define(source)
    writer.write(first_chunk)
    writer.flush()
    reader = opened(path)  # stays open: one snapshot, whatever comes
    first = everything(reader)
    for chunk in others:
        writer.write(chunk)
    n, warnings = seen(path)
    assert n == half
    assert "live database" in warnings
    writer.flush()
    assert seen(path)[0] == source.traces.n_spans > half
    assert everything(reader) == first
    assert reader.traces.n_spans == half
    writer.close()
    assert everything(opened(path)) == everything(source)
    assert gpu_time(opened(path)) == expected_gpu_time(RUN.without("memset"))
