"""Nsight exports: every generation says the same of the same run, and whatever may be absent may be absent."""

from __future__ import annotations

import sqlite3
from argparse import ArgumentParser
from collections import Counter
from contextlib import closing
from pathlib import Path
from shutil import copyfile
from typing import Any

import pytest

from callgrove.analysis.tables import export
from callgrove.binary.files import Source
from callgrove.binary.sqlite.database import SqliteFile
from callgrove.cli.main import VERBS, load_command
from callgrove.errors import UsageError
from callgrove.formats.gpu.nsight.reader import NsightData, datasets
from callgrove.formats.interface import ReadOptions
from callgrove.formats.registry import detect, open_path
from callgrove.model.experiment import Experiment, Severity
from tests.cli.commands import Capture, rows, run
from tests.formats.gpu.gpu_databases import execute
from tests.formats.gpu.nsight_databases import CUPTI, GENERATIONS, PID, TID, Export, global_id, small

PATHS = {
    "step",
    "step->cudaLaunchKernel",
    "step->cudaLaunchKernel->gemm(int)",
    "step->cudaMemcpyAsync",
    "step->cudaMemcpyAsync->copy HtoD",
    "step->cudaStreamSynchronize",
    "[unknown launch]",
    "[unknown launch]->orphan(int)",
}
every_generation = pytest.mark.parametrize("generation", GENERATIONS)


def opened(path: Path) -> Experiment:
    found = open_path(path)
    assert isinstance(found, Experiment)
    return found


def column(experiment: Experiment, table: str, *names: str) -> list[tuple[Any, ...]]:
    """Columns of a whole table."""
    parts = list(export(experiment, table))
    return [row for part in parts for row in zip(*(part.column(name).plain() for name in names), strict=True)]


def context_paths(experiment: Experiment) -> set[object]:
    return {path for (path,) in column(experiment, "contexts", "path")}


def data(path: Path) -> NsightData:
    return datasets(SqliteFile.open(path))[0]


# -- generations -------------------------------------------------------------------------------------------------------


@every_generation
def test_every_generation_gives_the_same_run(generation: str, tmp_path: Path) -> None:
    experiment = opened(small(generation).write(tmp_path / "run.sqlite"))
    assert context_paths(experiment) == PATHS
    assert sorted(column(experiment, "spans", "kind", "name", "start_ns", "end_ns")) == [
        ("api", "cudaLaunchKernel_v7000", 200, 250),
        ("api", "cudaMemcpyAsync_v3020", 260, 280),
        ("api", "cudaStreamSynchronize_v3020", 290, 800),
        ("copy", "copy HtoD", 700, 760),
        ("kernel", "gemm(int)", 300, 700),
        ("kernel", "orphan(int)", 2000, 2010),
        ("marker", "step", 100, 1000),
        ("sync", "sync Stream", 300, 790),
    ]
    metrics = dict(column(experiment, "metrics", "metric", "name"))
    values = column(experiment, "values", "metric", "value")
    gpu_time = sum(value for metric, value in values if metrics[metric] == "gpu_time")
    assert gpu_time == pytest.approx((400 + 10 + 60) * 1e-9)


@pytest.mark.parametrize(
    ("generation", "version"), [("N0a", "0"), ("N0b", "0"), ("N1", "2.9.1"), ("N2", "3.4.0"), ("N3", "3.20.2")]
)
def test_the_version_is_that_of_the_schema(generation: str, version: str, tmp_path: Path) -> None:
    assert opened(small(generation).write(tmp_path / "run.sqlite")).version == version


@every_generation
def test_device_properties_have_one_name_in_every_generation(generation: str, tmp_path: Path) -> None:
    (device,) = data(small(generation).write(tmp_path / "run.sqlite")).devices
    assert (device.kind, device.index, device.name) == ("GPU", 0, "Tesla T")
    assert {name: device.attributes[name] for name in ("multiprocessors", "threads_per_warp", "compute_major")} == {
        "multiprocessors": "40",
        "threads_per_warp": "32",
        "compute_major": "7",
    }


# -- what may be absent ------------------------------------------------------------------------------------------------


def test_without_cuda_tables_the_rest_is_read(tmp_path: Path) -> None:
    made = Export("N2")
    made.nvtx("step", 10, 20)
    made.add("OSRT_API", start=12, end=15, globalTid=made.tid, nameId=made.string("poll"))
    experiment = opened(made.write(tmp_path / "cpu.sqlite"))
    assert context_paths(experiment) == {"step", "step->poll"}


def test_a_trace_without_events_is_read_with_a_notice(tmp_path: Path) -> None:
    experiment = opened(Export("N0b").write(tmp_path / "empty.sqlite"))
    assert experiment.traces.n_spans == 0
    assert any("without events" in warning.text for warning in experiment.warnings)


def test_tables_with_rows_that_are_not_read_are_named(tmp_path: Path) -> None:
    """Known ones with what they hold, those of exports to come by their names; nothing about empty or descriptive ones,
    nor about what Extra-P left behind."""
    made = small("N3")
    assert not opened(made.write(tmp_path / "a.sqlite")).warnings
    path = made.write(tmp_path / "b.sqlite")
    tables = ("GPU_METRICS", f"{CUPTI}CUDA_EVENT", "OSRT_FILE_ACCESS_EVENTS", "DIAGNOSTIC_EVENT", "QUANTUM_EVENTS")
    quiet = ("SCHED_EVENTS", "ENUM_QUANTUM", "META_DATA_CAPTURE", "TARGET_INFO_NIC", "EXTRAP_IDS", "ANALYSIS_DETAILS")
    execute(path, *(f"CREATE TABLE {name}(start, value)" for name in (*tables, *quiet)))
    assert not opened(path).warnings
    execute(path, *(f"INSERT INTO {name} VALUES (1, 2)" for name in (*tables, *quiet[1:])))
    experiment = opened(path)
    (warning,) = experiment.warnings
    assert warning.severity == Severity.NOTE
    assert warning.text.endswith(
        "b.sqlite: not read: GPU_METRICS (samples of hardware counters), CUPTI_ACTIVITY_KIND_CUDA_EVENT (events "
        "recorded in streams), OSRT_FILE_ACCESS_EVENTS (accesses to files), DIAGNOSTIC_EVENT (messages of the "
        "profiler), QUANTUM_EVENTS"
    )
    assert context_paths(experiment) == PATHS


def test_processes_are_known_by_their_numbers_where_no_table_names_them(tmp_path: Path) -> None:
    (process,) = data(small("N0a").write(tmp_path / "a.sqlite")).processes
    assert (process.pid, process.command) == (PID, f"pid {PID}")
    named = small("N0a")
    named.add("ThreadNames", nameId=named.string("app"), globalTid=global_id(PID, PID))
    (process,) = data(named.write(tmp_path / "b.sqlite")).processes
    assert process.command == "app"
    (process,) = data(small("N1").write(tmp_path / "c.sqlite")).processes
    assert process.command == "./app"


def test_threads_without_a_name_have_their_number(tmp_path: Path) -> None:
    made = small("N1")
    del made.rows["ThreadNames"][0]
    experiment = opened(made.write(tmp_path / "run.sqlite"))
    assert (f"tid {TID}",) in column(experiment, "profiles", "name")


def test_without_properties_a_device_has_only_its_number(tmp_path: Path) -> None:
    made = small("N1")
    del made.rows["TARGET_INFO_GPU"]
    (device,) = data(made.write(tmp_path / "run.sqlite")).devices
    assert (device.index, device.name, dict(device.attributes)) == (0, "", {})


def test_gpus_that_run_no_cuda_are_not_taken_for_device_0(tmp_path: Path) -> None:
    made = Export("N1")
    made.gpu(2, "Basic Render Driver", 0, major=0)
    made.gpu(0, "Tesla T")
    made.kernel("k", 1, 2, 1)
    (device,) = data(made.write(tmp_path / "run.sqlite")).devices
    assert device.name == "Tesla T"


def test_a_process_may_number_its_devices_in_its_own_way(tmp_path: Path) -> None:
    made = Export("N3")
    made.gpu(0, "first")
    made.gpu(1, "second")
    made.add("TARGET_INFO_CUDA_DEVICE", gpuId=1, cudaId=0, pid=PID)
    made.kernel("k", 1, 2, 1)
    (device,) = data(made.write(tmp_path / "run.sqlite")).devices
    assert (device.index, device.name) == (0, "second")


@pytest.mark.parametrize(
    ("generation", "name"), [("N0a", "stream 7"), ("N1", "default stream 7"), ("N3", "default stream 7")]
)
def test_the_default_stream_is_named_where_it_is_told(generation: str, name: str, tmp_path: Path) -> None:
    experiment = opened(small(generation).write(tmp_path / "run.sqlite"))
    assert (name,) in column(experiment, "profiles", "name")


@pytest.fixture
def instances(tmp_path: Path) -> Path:
    """Two instances of one template, which have one short name, and kernels that have one name only."""
    made = Export("N1")
    for number, (text, start, end) in enumerate([("float", 0, 100), ("double", 100, 400), ("float", 400, 500)], 1):
        name = made.string(f"void axpy<{text}>({text}*)")
        made.kernel("axpy", start, end, number, demangledName=name)
    made.kernel("long", 500, 507, 4, shortName=None)
    made.kernel("brief", 600, 608, 5, demangledName=None)
    return made.write(tmp_path / "run.sqlite")


BY_NAME = {
    "demangled": {"void axpy<float>(float*)": 200, "void axpy<double>(double*)": 300, "long(int)": 7, "brief": 8},
    "short": {"axpy": 500, "long(int)": 7, "brief": 8},
}


@pytest.mark.parametrize(("words", "which"), [((), "demangled"), *(((f"--kernel-names={w}",), w) for w in BY_NAME)])
def test_kernels_are_grouped_by_the_name_that_is_chosen(
    words: tuple[str, ...], which: str, instances: Path, capsys: Capture
) -> None:
    """The demangled one is what nsys groups by; every verb says the same."""
    want = BY_NAME[which]
    kernels = rows(capsys, "summary", instances, "--section", "kernels", *words)
    assert {row["name"]: row["total_ns"] for row in kernels} == want
    for verb in ("top", "tree"):
        found = rows(capsys, verb, instances, "-m", "gpu_time", *words)
        times = {r["name"]: round(r["exclusive"] * 1e9) for r in found if r["kind"] == "kernel"}
        assert times == want
    query = "SELECT name, sum(duration) AS ns FROM kernels GROUP BY name"
    assert {row["name"]: row["ns"] for row in rows(capsys, "sql", instances, query, *words)} == want
    spans = rows(capsys, "export", instances, "--table", "spans", *words)
    exported = Counter[str]()
    for row in spans:
        exported[row["name"]] += row["end_ns"] - row["start_ns"]
    assert exported == want


MADE_OF = {  # verbs that write an experiment made of others, and what they are told
    "mean": (2, ()),
    "merge": (2, ("--conflict", "sum")),
    "common": (2, ()),
    "cut": (1, ("--root", "[unknown launch]")),
    "part": (1, ("--rank", "0")),
}


@pytest.mark.parametrize("which", BY_NAME)
@pytest.mark.parametrize("verb", MADE_OF)
def test_what_is_made_of_experiments_has_the_names_that_are_chosen(
    verb: str, which: str, instances: Path, tmp_path: Path, capsys: Capture
) -> None:
    n_inputs, words = MADE_OF[verb]
    inputs = [instances, copyfile(instances, tmp_path / "again.sqlite")][:n_inputs]
    run(capsys, verb, *inputs, tmp_path / "out.cubex", *words, "--kernel-names", which)
    found = rows(capsys, "top", tmp_path / "out.cubex", "-m", "gpu_time")
    assert {row["name"] for row in found if row["exclusive"]} == set(BY_NAME[which])


@pytest.mark.parametrize("which", BY_NAME)
def test_differences_are_of_the_names_that_are_chosen(
    which: str, instances: Path, tmp_path: Path, capsys: Capture
) -> None:
    again = copyfile(instances, tmp_path / "again.sqlite")
    found = rows(capsys, "diff", instances, again, "-m", "gpu_time", "--flat", "--kernel-names", which)
    assert {row["path"]: round(row["left"] * 1e9) for row in found if row["left"]} == BY_NAME[which]


def test_every_verb_that_opens_experiments_chooses_names() -> None:
    """But for those that print or check what is in a file, and for those that read no kernels."""
    unable = {"check", "completion", "dump", "formats", "demo", "help", "mcp", "prof", "rocpd", "watch"}
    for verb in VERBS:
        parser = ArgumentParser()
        load_command(verb).add_arguments(parser)
        assert ("--kernel-names" in parser.format_help()) == (verb.name not in unable), verb.name


def test_both_names_are_kept(instances: Path, capsys: Capture) -> None:
    query = "SELECT name, short_name, demangled_name FROM kernels ORDER BY start"
    found = [tuple(row.values()) for row in rows(capsys, "sql", instances, query)]
    single, double = "void axpy<float>(float*)", "void axpy<double>(double*)"
    instances_found = [(single, "axpy", single), (double, "axpy", double), (single, "axpy", single)]
    assert found == [*instances_found, ("long(int)", None, "long(int)"), ("brief", "brief", None)]


def test_the_name_can_be_chosen_in_the_library(instances: Path) -> None:
    experiment = open_path(instances, options=ReadOptions(kernel_names="short"))
    assert isinstance(experiment, Experiment)
    assert {name for (name,) in column(experiment, "spans", "name")} == set(BY_NAME["short"])


def test_extra_p_has_names_of_its_own(instances: Path) -> None:
    with pytest.raises(UsageError, match="by their short names: no kernel_names="):
        open_path(instances, "nsight", ReadOptions(kernel_names="short", extrap_compat=True))


def test_kinds_that_only_the_export_knows_have_its_words(tmp_path: Path) -> None:
    made = small("N2")
    made.copy(20, 1, 900, 910, 5)
    made.copy(21, 1, 920, 930, 6)
    made.copy(None, None, 940, 950, 7)
    experiment = opened(made.write(tmp_path / "run.sqlite"))
    names = [name for kind, name in column(experiment, "spans", "kind", "name") if kind == "copy"]
    assert names == ["copy HtoD", "copy brand new", "copy Unknown", "copy Unknown"]
    sizes = experiment.traces.side("copy")
    assert sizes is not None
    assert list(sizes.columns["bytes"]) == [4096, 1, 1, -1]


def test_ranks_are_those_that_mpi_told(tmp_path: Path) -> None:
    made = small("N2")
    made.add("MPI_RANKS", globalTid=made.tid, rank=5)
    (process,) = data(made.write(tmp_path / "run.sqlite")).processes
    assert process.rank == 5
    assert {rank for (rank,) in column(opened(made.write(tmp_path / "again.sqlite")), "profiles", "rank")} == {5}


@pytest.mark.parametrize("table", [f"{CUPTI}RUNTIME", f"{CUPTI}KERNEL", f"{CUPTI}MEMCPY", "NVTX_EVENTS", "ThreadNames"])
@every_generation
def test_any_table_may_be_missing(generation: str, table: str, tmp_path: Path) -> None:
    experiment = opened(small(generation).write(tmp_path / "run.sqlite", without=table))
    assert experiment.traces.n_spans == 8 - {f"{CUPTI}RUNTIME": 3, f"{CUPTI}KERNEL": 2, "ThreadNames": 0}.get(table, 1)


# -- tracers besides CUDA's --------------------------------------------------------------------------------------------

CALLS = {  # table -> the column of its names, and the category
    "MPI_P2P_EVENTS": ("textId", "MPI"),
    "MPI_COLLECTIVES_EVENTS": ("textId", "MPI"),
    "MPI_START_WAIT_EVENTS": ("textId", "MPI"),
    "MPI_OTHER_EVENTS": ("textId", "MPI"),
    "UCP_EVENTS": ("textId", "UCX"),
    "CUDNN_EVENTS": ("nameId", "CUDNN"),
    "CUBLAS_EVENTS": ("nameId", "CUBLAS"),
    "OPENMP_EVENT_KIND_PARALLEL": ("nameId", "OPENMP"),
}


@every_generation
def test_calls_of_other_libraries_nest_with_the_others(generation: str, tmp_path: Path) -> None:
    """Each in the range `step` (100 to 1000), one after the other, the last one still open at the end."""
    made = small(generation)
    for number, (table, (names, _)) in enumerate(CALLS.items()):
        start = 810 + 20 * number
        made.add(table, start=start, end=start + 10, globalTid=made.tid, **{names: made.string(f"call {number}")})
    made.add("MPI_OTHER_EVENTS", start=1500, end=None, globalTid=made.tid, textId=made.string("MPI_Finalize"))
    experiment = opened(made.write(tmp_path / "run.sqlite"))
    called = {f"step->call {number}" for number in range(len(CALLS))}
    assert context_paths(experiment) == PATHS | called | {"MPI_Finalize"}
    found = {
        name: rest for name, *rest in column(experiment, "spans", "name", "kind", "category", "start_ns", "end_ns")
    }
    for number, (_, category) in enumerate(CALLS.values()):
        assert found[f"call {number}"] == ["region", category, 810 + 20 * number, 820 + 20 * number]
    assert found["MPI_Finalize"] == ["region", "MPI", 1500, 2010]


def test_messages_keep_their_sizes_and_partners(tmp_path: Path) -> None:
    made = small("N2")
    told = {"tag": 3, "remoteRank": 1, "size": 4096, "commHandle": 7}
    made.add("MPI_P2P_EVENTS", start=10, end=20, globalTid=made.tid, textId=made.string("MPI_Send"), **told)
    extra = opened(made.write(tmp_path / "run.sqlite")).traces.side("extra")
    assert extra is not None
    found = dict(zip(extra.columns["name"], extra.columns["value"], strict=True))
    assert {name: int(found[name]) for name in told} == told


def test_graphs_keep_devices_busy_where_their_kernels_are_not_recorded(tmp_path: Path, capsys: Capture) -> None:
    made = small("N3")
    made.call("cudaGraphLaunch_v10000", 850, 860, 40)
    on_stream = {"deviceId": 0, "contextId": 1, "streamId": 7, "globalPid": global_id()}
    made.add(f"{CUPTI}GRAPH_TRACE", start=900, end=1900, correlationId=40, graphId=2, graphExecId=3, **on_stream)
    made.add(f"{CUPTI}GRAPH_TRACE", start=1900, end=1950, correlationId=41, **on_stream)
    path = made.write(tmp_path / "run.sqlite")
    experiment = opened(path)
    assert "step->cudaGraphLaunch->graph 2" in context_paths(experiment)
    assert "[unknown launch]->graph" in context_paths(experiment)
    total = experiment.root_total("gpu_time")
    assert total == pytest.approx((400 + 10 + 60 + 1000 + 50) * 1e-9)
    hottest = rows(capsys, "top", path, "-m", "gpu_busy", "--limit", 1)[0]
    assert (hottest["name"], hottest["exclusive"]) == ("graph 2", pytest.approx(1000e-9))


def test_what_the_profiler_did_is_not_the_time_of_the_program(tmp_path: Path, capsys: Capture) -> None:
    """A flush of 680 ns in a range of 1,000 ns: the range keeps 320 ns of its own."""
    made = Export("N3")
    made.nvtx("step", 0, 1000)
    flush = made.string("CUDA profiling data flush overhead")
    made.add("PROFILER_OVERHEAD", start=100, end=780, globalTid=made.tid, nameId=flush)
    path = made.write(tmp_path / "run.sqlite")
    experiment = opened(path)
    assert (experiment.root_total("host_time"), experiment.root_total("overhead_time")) == pytest.approx(
        (320e-9, 680e-9)
    )
    assert experiment.root_total("host_calls") == 1
    assert column(experiment, "spans", "kind", "category", "depth") == [
        ("marker", "NVTX", 0),
        ("overhead", "overhead", 1),
    ]
    sections = {row["section"]: row["total_ns"] for row in rows(capsys, "summary", path)}
    assert sections == {"markers": 1000, "overhead": 680}


def test_ranks_told_of_processes(tmp_path: Path) -> None:
    """As our own files had them before."""
    path = small("N2").write(tmp_path / "run.sqlite")
    with closing(sqlite3.connect(path)) as database:
        database.execute("CREATE TABLE MPI_RANKS (globalPid INTEGER, rank INTEGER)")
        database.execute("INSERT INTO MPI_RANKS VALUES (?, 6)", (global_id(),))
        database.commit()
    assert [process.rank for process in data(path).processes] == [6]


# -- NVTX --------------------------------------------------------------------------------------------------------------


def test_domains_are_categories_in_their_own_process(tmp_path: Path) -> None:
    made = Export("N1")
    made.nvtx("PyTorch", 0, None, eventType=75, domainId=3)
    made.nvtx("forward", 10, 20, domainId=3)
    made.nvtx("plain", 30, 40)
    made.nvtx("elsewhere", 50, 60, domainId=3, globalTid=global_id(99, 99))
    found = column(opened(made.write(tmp_path / "run.sqlite")), "spans", "name", "category")
    assert found == [("forward", "PyTorch"), ("plain", "NVTX"), ("elsewhere", "NVTX")]


def test_ranges_of_extra_prof_are_the_functions_they_stand_for(tmp_path: Path) -> None:
    made = Export("N1")
    for text in ("EXTRA_PROF_SYMBOLS", "EP\x1fa1\x1fmain", "EP\x1fb2\x1fA::operator->", "EXTRA_PROF_SYMBOLS_END"):
        made.string(text)
    made.extra_prof("\x1fa1", 0, 0, 100)
    made.extra_prof("\x1fa1\x1fb2", 1, 10, 90)
    made.extra_prof("\x1fa1\x1fc3", 1, 91, 95)
    made.extra_prof("main->plain", 1, 96, 98)
    paths = context_paths(opened(made.write(tmp_path / "run.sqlite")))
    assert paths == {"main", "main->A::operator- >", "main-><symbol c3>", "main->plain"}


def test_ranges_that_were_open_end_with_the_trace_and_marks_last_no_time(tmp_path: Path) -> None:
    made = Export("N1")
    made.nvtx("open", 10, None)
    made.nvtx("mark", 20, None, eventType=34)
    made.nvtx("apart", 15, 70, eventType=60)
    made.call("cudaFree_v3020", 30, 90, 1)
    found = column(opened(made.write(tmp_path / "run.sqlite")), "spans", "name", "start_ns", "end_ns")
    assert sorted(found) == [("apart", 15, 70), ("cudaFree_v3020", 30, 90), ("mark", 20, 20), ("open", 10, 90)]


OLD = {1: "Context", 2: "Event", 3: "Stream", 4: "StreamWaitEvent", 9: "Unknown"}
NEW = {1: "Event", 2: "StreamWaitEvent", 3: "Stream", 4: "Context", 9: "Unknown"}


@pytest.mark.parametrize(
    ("labels", "words"),
    [
        ({}, OLD),  # no table: as schema 2.9 counts
        ({1: "Event sync", 2: "Stream wait event sync", 3: "Stream sync", 4: "Context sync"}, NEW),
        ({0: "Unknown"}, NEW),  # a table that lacks some
        ({1: "Stream", 9: "context synchronization"}, NEW | {1: "Stream", 9: "Context"}),  # what it says counts
    ],
)
def test_waits_are_called_as_the_export_counts_them(
    labels: dict[int, str], words: dict[int, str], tmp_path: Path
) -> None:
    made = Export("N2" if labels else "N1")
    for id_, label in labels.items():
        made.add("ENUM_CUPTI_SYNC_TYPE", id=id_, name="", label=label)
    for kind in words:
        made.call("cudaDeviceSynchronize_v3020", 100 * kind, 100 * kind + 50, kind)
        made.sync(kind, 100 * kind, 100 * kind + 40, kind)
    found = column(opened(made.write(tmp_path / "run.sqlite")), "spans", "kind", "name", "correlation")
    assert {number: name for kind, name, number in found if kind == "sync"} == {
        number: f"sync {word}" for number, word in words.items()
    }


def test_waits_of_a_real_export_are_those_of_their_calls(shared: Path) -> None:
    path = shared / "data" / "public" / "extrap" / "nsight" / "concurrent_example" / "concurrent.s1" / "profile1.sqlite"
    spans = column(opened(path), "spans", "kind", "name", "correlation")
    calls = {number: name for kind, name, number in spans if kind == "api"}
    waits = {(calls[number], name) for kind, name, number in spans if kind == "sync"}
    assert waits == {
        ("cuCtxSynchronize", "sync Context"),
        ("cudaEventSynchronize_v3020", "sync Event"),
        ("cudaStreamSynchronize_v3020", "sync Stream"),
    }


def test_versions_of_calls_are_not_shown(tmp_path: Path, capsys: Capture) -> None:
    shown = rows(capsys, "summary", small("N1").write(tmp_path / "run.sqlite"), "--section", "api")
    assert {row["name"] for row in shown} == {"cudaLaunchKernel", "cudaMemcpyAsync", "cudaStreamSynchronize"}


# -- folders -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "format_"), [("app.p4", "runs"), ("node001", "nsight"), ("rank3", "nsight")])
def test_folders_are_runs_if_their_names_say_so(name: str, format_: str, tmp_path: Path) -> None:
    small("N1").write(tmp_path / name / "run.sqlite")
    inner, _ = detect(Source.of(tmp_path / name))
    outer, _ = detect(Source.of(tmp_path))
    assert (inner.name, outer.name) == ("nsight", format_)
