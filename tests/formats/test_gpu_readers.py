"""Databases of all families hold the run that they were made from."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from callgrove.algebra.operations import merge
from callgrove.analysis.tables import export
from callgrove.model.contexts import ContextKind
from callgrove.model.experiment import Experiment
from callgrove.model.intervals import union_length
from callgrove.model.profiles import ProfileKind
from callgrove.model.selection import select
from callgrove.model.traces import SpanChunk, SpanKind
from tests.formats.gpu_databases import Event, Run, execute, suffix_of, write_nsight, write_rocpd, write_rpd
from tests.formats.gpu_truth import expected_gpu_time, gpu_time, opened, spans, totals

Writer = Callable[[Path, Run], Path]
RUN = Run.random(1)


def rocpd(path: Path, run: Run) -> Path:
    return write_rocpd(path, [run])


FAMILIES: dict[str, tuple[Writer, tuple[str, ...]]] = {  # writer, kinds that the family does not have
    "rocpd": (rocpd, ("memset",)),
    "rpd": (write_rpd, ("alloc",)),
    "nsight": (write_nsight, ("alloc",)),
}
every_family = pytest.mark.parametrize("family", FAMILIES)


def made(family: str, folder: Path, run: Run = RUN) -> tuple[Path, Run]:
    write, lacks = FAMILIES[family]
    run = run.without(*lacks)
    return write(folder / f"{family}.db", run), run


@every_family
def test_kernels_are_those_of_the_run(family: str, tmp_path: Path) -> None:
    path, run = made(family, tmp_path)
    experiment = opened(path)
    assert experiment.format == family
    assert experiment.warnings == ()
    assert totals(experiment, "kernel") == run.totals("kernel")
    assert experiment.traces.n_spans == len(run.events)


@every_family
def test_gpu_time_and_host_time_are_conserved_by_folding(family: str, tmp_path: Path) -> None:
    path, run = made(family, tmp_path)
    experiment = opened(path)
    assert gpu_time(experiment) == expected_gpu_time(run)
    host = 0
    for thread in range(2):
        own = [(e.start, e.end) for e in run.events if e.thread == thread and e.kind in ("api", "marker")]
        host += union_length([start for start, _ in own], [end for _, end in own])
    assert round(experiment.root_total("host_time") * 1e9) == host
    ops = {(e.device, e.start, e.end) for e in run.operations}
    busy = sum(union_length([s for d, s, _ in ops if d == k], [e for d, _, e in ops if d == k]) for k in range(2))
    assert round(experiment.root_total("gpu_busy") * 1e9) == busy


@every_family
def test_paths_lead_from_the_marker_over_the_call_to_the_kernel(family: str, tmp_path: Path) -> None:
    path, run = made(family, tmp_path)
    tree = opened(path).contexts
    calls = {(e.thread, e.corr): e for e in run.events if e.kind == "api"}
    markers = [e for e in run.events if e.kind == "marker"]
    want = set()
    for op in (e for e in run.operations if e.kind == "kernel"):
        call = calls[op.thread, op.corr]
        around = [m for m in markers if m.thread == call.thread and m.start <= call.start and call.end <= m.end]
        want.add((around[0].label, call.name, op.name))
    found = set()
    for context in range(len(tree)):
        if tree.kind[context] == ContextKind.KERNEL:
            call_ = int(tree.parent[context])
            found.add((tree.label(int(tree.parent[call_])), tree.label(call_), tree.label(context)))
    assert found == want


@every_family
def test_grids_are_in_work_items_and_copies_have_their_bytes(family: str, tmp_path: Path) -> None:
    path, run = made(family, tmp_path)
    experiment = opened(path)
    kernels, copies = experiment.traces.side("kernel"), experiment.traces.side("copy")
    assert kernels is not None
    assert copies is not None
    assert {tuple(np.asarray(kernels.columns[f"grid_{a}"])[k] for a in "xyz") for k in range(len(kernels.span))} == {
        (256, 8, 1)
    }
    sizes = np.asarray(copies.columns["bytes"])
    assert sizes[sizes >= 0].sum() == sum(
        e.size for e in run.operations if e.kind == "copy" or (family == "nsight" and e.size > 0)
    )


@every_family
def test_lanes_are_the_threads_and_the_streams_that_were_used(family: str, tmp_path: Path) -> None:
    path, run = made(family, tmp_path)
    profiles = opened(path).profiles
    kinds = [ProfileKind(int(kind)) for kind in profiles.kind]
    threads = [p for p, kind in enumerate(kinds) if kind is ProfileKind.THREAD]
    assert len(threads) == 2
    devices, streams = profiles.identity_list("gpu_device"), profiles.identity_list("gpu_stream")
    used = {(e.device, e.stream) for e in run.operations}
    assert {
        (devices[p], streams[p]) for p, k in enumerate(kinds) if k in (ProfileKind.GPU_STREAM, ProfileKind.QUEUE)
    } == used
    assert set(profiles.identity_list("rank")) == {0}


@given(seed=st.integers(0, 10**6))
@settings(max_examples=8, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_run_is_conserved_in_every_family(seed: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    run = Run.random(seed)
    for family in FAMILIES:
        path, kept = made(family, tmp_path_factory.mktemp("any"), run)
        experiment = opened(path)
        assert gpu_time(experiment) == expected_gpu_time(kept)
        assert experiment.root_total("gpu_ops") == len(kept.operations)
        assert experiment.root_total("host_calls") == sum(e.kind in ("api", "marker", "region") for e in kept.events)


# -- rocprofv3 -------------------------------------------------------------------------------------------------------

ROCPD_RUN = RUN.without("memset")


@pytest.mark.parametrize("suffix", ["", "0123456789abcdef0123456789abcdef", "_a_b"])
def test_the_suffix_is_whatever_follows_the_name_of_the_metadata(suffix: str, tmp_path: Path) -> None:
    experiment = opened(write_rocpd(tmp_path / "r.db", [ROCPD_RUN], suffixes=[suffix]))
    assert totals(experiment, "kernel") == ROCPD_RUN.totals("kernel")


def test_several_processes_in_one_file_stay_apart(tmp_path: Path) -> None:
    """Equal process and thread numbers on every node: nothing is multiplied."""
    runs = [replace(Run.random(k).without("memset"), guid=f"g-{k}", host=f"n{k}", machine=f"m{k}") for k in range(3)]
    experiment = opened(write_rocpd(tmp_path / "r.db", runs))
    assert experiment.traces.n_spans == sum(len(run.events) for run in runs)
    assert gpu_time(experiment) == expected_gpu_time(*runs)
    identity = zip(*(experiment.profiles.identity_list(c) for c in ("node", "rank", "thread")), strict=True)
    assert len({place for place in identity if place[2] is not None}) == 6


def test_hosts_and_processes_are_in_the_system_tree(tmp_path: Path) -> None:
    experiment = opened(write_rocpd(tmp_path / "r.db", [ROCPD_RUN]))
    system, leaf = experiment.system, int(experiment.profiles.system[0])
    node, process = system.path(leaf)[-1], system.path(leaf)[-2]
    assert (system.kind[node], system.name[node], system.attributes[node]["machine_id"]) == ("node", "node0000", "m0")
    assert system.attributes[process]["pid"] == "4242"
    (table,) = export(experiment, "profiles")
    assert set(table.column("host").plain()) == {"node0000"}


def test_side_tables_name_devices_by_their_place_in_a_list(tmp_path: Path) -> None:
    """Also after a selection and a merge; the agents of `write_rocpd` are a CPU and two GPUs."""
    runs = [replace(ROCPD_RUN, guid=f"g-{k}", host=f"n{k}", machine=f"m{k}") for k in range(2)]
    first, second = (opened(write_rocpd(tmp_path / f"{run.host}.db", [run])) for run in runs)
    both = merge(first, second, system="side-by-side")
    for experiment, part in ((first, 0), (both, 1), (select(first, profiles=first.profiles.measured), 0)):
        copies, devices = experiment.traces.side("copy", part), experiment.traces.devices(part)
        assert copies is not None
        assert [(d.kind, d.index, d.label) for d in devices] == [
            ("CPU", 0, "Agent 0"),
            ("GPU", 0, "Agent 0"),
            ("GPU", 1, "Agent 1"),
        ]
        wanted = sorted(event.device for event in runs[0].events if event.kind == "copy")
        assert sorted(devices[k].index for k in np.asarray(copies.columns["destination"]).tolist()) == wanted
        assert {devices[k].kind for k in np.asarray(copies.columns["source"]).tolist()} == {"CPU"}


def test_copies_of_other_families_name_gpus_too(tmp_path: Path) -> None:
    path, _ = made("nsight", tmp_path)
    execute(path, *(f"ALTER TABLE CUPTI_ACTIVITY_KIND_MEMCPY ADD COLUMN {c}" for c in ("srcDeviceId", "dstDeviceId")))
    execute(path, "UPDATE CUPTI_ACTIVITY_KIND_MEMCPY SET srcDeviceId = 1, dstDeviceId = 77")
    traces = opened(path).traces
    copies, devices = traces.side("copy"), traces.devices(0)
    assert copies is not None
    source, destination = (np.asarray(copies.columns[name]) for name in ("source", "destination"))
    assert {devices[k].label for k in source[source >= 0].tolist()} == {"GPU 1"}
    assert set(destination.tolist()) == {-1}


@pytest.mark.parametrize(
    "missing", [("event",), ("arg", "pmc_event", "info_pmc"), ("memory_allocate", "info_code_object")]
)
def test_tables_that_are_missing_are_empty(missing: tuple[str, ...], tmp_path: Path) -> None:
    experiment = opened(write_rocpd(tmp_path / "r.db", [ROCPD_RUN], missing=missing))
    assert totals(experiment, "kernel") == ROCPD_RUN.totals("kernel")
    assert gpu_time(experiment) == expected_gpu_time(ROCPD_RUN)
    if "event" in missing:  # nobody knows what launched them
        assert {row[0] for row in spans(experiment, "correlation")} == {-1}
        assert "[unknown launch]" in {experiment.contexts.label(c) for c in experiment.contexts.roots.tolist()}


def test_columns_that_are_missing_are_absent(tmp_path: Path) -> None:
    path = write_rocpd(tmp_path / "r.db", [ROCPD_RUN])
    tail = suffix_of(ROCPD_RUN)
    execute(
        path,
        *(
            f"ALTER TABLE rocpd_{base}{tail} DROP COLUMN event_id"
            for base in ("region", "kernel_dispatch", "memory_copy")
        ),
        f"ALTER TABLE rocpd_info_agent{tail} DROP COLUMN type_index",
    )
    experiment = opened(path)
    assert totals(experiment, "kernel") == ROCPD_RUN.totals("kernel")
    assert set(experiment.profiles.identity_list("gpu_device")) == {None, 0, 1}


def test_columns_of_later_versions_change_nothing(tmp_path: Path) -> None:
    tail = suffix_of(ROCPD_RUN)
    path = write_rocpd(tmp_path / "r.db", [ROCPD_RUN], version="3.0.5")
    added = [
        ("kernel_dispatch", "graph_exec_id"),
        ("pmc_event", "sample_id"),
        ("pmc_event", "wgp"),
        ("info_pmc", "spm_support"),
    ]
    execute(path, *(f"ALTER TABLE rocpd_{base}{tail} ADD COLUMN {name}" for base, name in added))
    execute(path, f"CREATE TABLE rocpd_hip_event{tail} (id, type)", f"CREATE TABLE rocpd_graph_launch{tail} (id)")
    experiment = opened(path)
    assert experiment.warnings == ()
    assert totals(experiment, "kernel") == ROCPD_RUN.totals("kernel")


def test_markers_show_their_message_and_keep_their_name(tmp_path: Path) -> None:
    experiment = opened(write_rocpd(tmp_path / "r.db", [ROCPD_RUN]))
    markers = [row[1:] for row in spans(experiment, "kind", "name", "label") if row[0] == "marker"]
    assert {name for name, _ in markers} == {"roctxRangePushA"}
    assert {label for _, label in markers} == {e.label for e in ROCPD_RUN.events if e.kind == "marker"}


def test_counters_of_kernels_belong_to_their_span(tmp_path: Path) -> None:
    number = next(k for k, e in enumerate(ROCPD_RUN.events) if e.kind == "kernel")
    run = replace(ROCPD_RUN, counters=((number, "SQ_WAVES", 12.5),))
    experiment = opened(write_rocpd(tmp_path / "r.db", [run]))
    side = experiment.traces.side("counter")
    assert side is not None
    assert list(side.columns["name"]) == ["SQ_WAVES"]
    assert list(side.columns["value"]) == [12.5]
    starts = [row[0] for row in spans(experiment, "start_ns")]
    assert starts[int(side.span[0])] == run.events[number].start


def test_copies_without_agents_are_read(tmp_path: Path) -> None:
    path = write_rocpd(tmp_path / "r.db", [ROCPD_RUN])
    execute(path, f"UPDATE rocpd_memory_copy{suffix_of(ROCPD_RUN)} SET dst_agent_id = NULL, src_agent_id = NULL")
    experiment = opened(path)
    assert totals(experiment, "copy") == ROCPD_RUN.totals("copy")
    assert gpu_time(experiment) == expected_gpu_time(ROCPD_RUN)


def test_regions_that_cross_and_kernels_that_touch_or_overlap(tmp_path: Path) -> None:
    events = (
        Event("api", "a", 0, 10, corr=1),
        Event("api", "b", 5, 15, corr=2),
        Event("api", "c", 15, 15, corr=3),
        Event("kernel", "k", 20, 30, corr=1, device=0),
        Event("kernel", "k", 30, 40, corr=2, device=0),
        Event("kernel", "k", 38, 50, corr=3, device=0),
    )
    experiment = opened(write_rocpd(tmp_path / "r.db", [Run(events)]))
    assert gpu_time(experiment) == 32
    assert round(experiment.root_total("gpu_busy") * 1e9) == 30
    assert round(experiment.root_total("host_time") * 1e9) == 15
    assert experiment.root_total("host_calls") == 3


# -- RPD -------------------------------------------------------------------------------------------------------------


def test_ids_of_later_sessions_lie_beyond_32_bits(tmp_path: Path) -> None:
    experiment = opened(write_rpd(tmp_path / "r.rpd", RUN, first_id=2**32 + 1))
    assert gpu_time(experiment) == expected_gpu_time(RUN)
    assert "[unknown launch]" not in {experiment.contexts.label(c) for c in experiment.contexts.roots.tolist()}


def test_one_call_may_launch_many_operations(tmp_path: Path) -> None:
    ops = tuple(Event("kernel", "k", 100 + k, 101 + k, corr=1, device=0) for k in range(418))
    experiment = opened(write_rpd(tmp_path / "r.rpd", Run((Event("api", "hipGraphLaunch", 0, 50, corr=1), *ops))))
    tree = experiment.contexts
    assert [tree.label(c) for c in range(len(tree))] == ["hipGraphLaunch", "k"]
    assert experiment.root_total("gpu_ops") == 418


def test_monitored_values_are_counters_and_texts_are_counted(tmp_path: Path) -> None:
    experiment = opened(write_rpd(tmp_path / "r.rpd", RUN, monitor=((5, "1500"), (9, "fast"), (20, "1700.5"))))
    counters = experiment.traces.counters
    assert counters is not None
    assert counters.names == ("gpu sclk",)
    assert (counters.time_ns.tolist(), counters.value.tolist()) == ([5, 20], [1500.0, 1700.5])
    assert any("1 values are no numbers" in w.text for w in experiment.warnings)


def test_a_size_that_was_lost_is_absent_not_zero(tmp_path: Path) -> None:
    path = write_rpd(tmp_path / "r.rpd", RUN)
    execute(path, "UPDATE rocpd_copyapi SET size = ''")
    side = opened(path).traces.side("copy")
    assert side is not None
    assert set(np.asarray(side.columns["bytes"]).tolist()) == {-1}


def test_gpus_of_merged_files_are_counted_by_their_stride(tmp_path: Path) -> None:
    path = write_rpd(tmp_path / "r.rpd", RUN)
    execute(path, "INSERT INTO rocpd_metadata VALUES (2, 'gpu_stride', '8')", "UPDATE rocpd_op SET gpuId = gpuId + 8")
    assert set(opened(path).profiles.identity_list("gpu_device")) == {None, 0, 1}


def test_processes_of_merged_files_are_counted_by_their_stride(tmp_path: Path) -> None:
    """Two files became one: what was process 4242 and GPUs 0 and 1 of both. Operations without a call belong to the
    process of their GPU's file."""
    path = write_rpd(tmp_path / "r.rpd", RUN, monitor=((5, "1500"),))
    n = len(RUN.operations)
    execute(
        path,
        "INSERT INTO rocpd_metadata VALUES (2, 'gpu_stride', '8'), (3, 'pid_stride', '100000')",
        "INSERT INTO rocpd_api SELECT id + 5000, pid + 100000, tid, start, end, apiName_id, args_id FROM rocpd_api",
        "INSERT INTO rocpd_op SELECT id + 5000, gpuId + 8, queueId, sequenceId, NULL, start, end, description_id, "
        "opType_id FROM rocpd_op",
        "INSERT INTO rocpd_monitor VALUES (9, 'gpu', 9, 'sclk', 7, 8, '1600')",
    )
    experiment = opened(path)
    processes = experiment.traces.tables["processes"]()
    assert processes.column("pid").plain() == [RUN.pid, RUN.pid]
    assert set(experiment.profiles.identity_list("gpu_device")) == {None, 0, 1}
    ranks = np.array(experiment.profiles.identity_list("rank"))
    operations = [
        (int(ranks[p]), correlation < 0)
        for chunk in experiment.traces.spans(("profile", "kind", "correlation"))
        for p, kind, correlation in zip(*(chunk[c].tolist() for c in ("profile", "kind", "correlation")), strict=True)
        if kind in (SpanKind.KERNEL, SpanKind.COPY, SpanKind.MEMSET)
    ]
    assert Counter(operations) == {(0, False): n, (1, True): n}
    counters = experiment.traces.counters
    assert counters is not None
    places = [(int(ranks[p]), experiment.profiles.identity_list("gpu_device")[p]) for p in counters.profile.tolist()]
    assert places == [(0, 0), (1, 1)]


@every_family
def test_tables_beside_the_spans_say_where_profiles_are(family: str, tmp_path: Path) -> None:
    path, run = made(family, tmp_path)
    experiment = opened(path)
    tables = {name: make() for name, make in experiment.traces.tables.items()}
    places, processes, agents = (tables[name] for name in ("places", "processes", "agents"))
    assert len(places) == len(experiment.profiles)
    assert processes.column("pid").plain() == [run.pid]
    threads = experiment.profiles.kind == ProfileKind.THREAD
    numbers = np.array(places.column("number").plain())
    assert set(numbers[threads].tolist()) == set(run.tids)
    index, types = agents.column("type_index").plain(), agents.column("type").plain()
    devices = experiment.profiles.identity_list("gpu_device")
    for agent, device in zip(places.column("agent").plain(), devices, strict=True):
        assert (agent is None) == (device is None)
        assert agent is None or (types[agent], index[agent]) == ("GPU", device)


def test_what_rocpd_says_of_kernels_and_counters(tmp_path: Path) -> None:
    """Of two processes in one file, with the guid of each; a table that the file lacks is empty."""
    runs = [RUN.without("memset"), replace(RUN.without("memset"), pid=77, guid=RUN.guid[:-1] + "1")]
    tables = opened(write_rocpd(tmp_path / "two.db", runs)).traces.tables
    symbols = tables["kernel_symbols"]()
    expected = {(run.guid, run.pid, name) for run in runs for name in run.totals("kernel")}
    assert set(zip(*(symbols.column(c).plain() for c in ("guid", "pid", "display_name")), strict=True)) == expected
    assert tables["pmc_info"]().column("name").plain() == ["SQ_WAVES"] * 2
    assert len(tables["code_objects"]()) == 0


def test_a_part_keeps_the_tables_beside_its_spans(tmp_path: Path) -> None:
    """Its profiles have their own processes and agents, whichever of them were left out."""
    runs = [RUN.without("memset"), replace(RUN.without("memset"), pid=77, guid=RUN.guid[:-1] + "1")]
    whole = opened(write_rocpd(tmp_path / "two.db", runs))
    kept = np.flatnonzero(np.array(whole.profiles.identity_list("rank")) == 1)
    assert 0 < len(kept) < len(whole.profiles)
    part = select(whole, profiles=kept)
    tables = {name: make() for name, make in part.traces.tables.items()}
    assert tables.keys() == whole.traces.tables.keys()
    processes = tables["processes"].column("guid").plain()
    own = {processes[row] for row in tables["places"].column("process").plain()}
    assert len(tables["places"]) == len(part.profiles)
    assert own == {str(whole.traces.tables["processes"]().column("guid").plain()[_process(whole, kept[0])])}


def _process(experiment: Experiment, profile: int) -> int:
    return int(experiment.traces.tables["places"]().column("process").plain()[profile])


# -- what no reader knows --------------------------------------------------------------------------------------------

CALLS = {"rocpd": f"rocpd_region{suffix_of(RUN)}", "rpd": "rocpd_api", "nsight": "CUPTI_ACTIVITY_KIND_RUNTIME"}


def extras(experiment: Experiment) -> dict[tuple[int, str], str]:
    """By span and name."""
    table = experiment.traces.side("extra")
    if table is None:
        return {}
    names, values = (np.asarray(table.columns[name]).tolist() for name in ("name", "value"))
    return dict(zip(zip(table.span.tolist(), names, strict=True), values, strict=True))


@every_family
def test_columns_that_nobody_knows_are_kept(family: str, tmp_path: Path) -> None:
    """Each with the span of its row, also where rows are left out; NULL is nothing."""
    path, _ = made(family, tmp_path)
    assert extras(opened(path)) == {}
    table = CALLS[family]
    execute(
        path,
        f'ALTER TABLE "{table}" ADD COLUMN "the ""odd"" one"',
        f'UPDATE "{table}" SET "the ""odd"" one" = start WHERE rowid % 2',
        f'DELETE FROM "{table}" WHERE rowid % 5 = 0',
    )
    if family == "nsight":  # the second row of a call is no event
        execute(path, f"UPDATE {table} SET eventClass = 67 WHERE rowid % 3 = 0")
    expected = {start for (start,) in _asked(path, f'SELECT start FROM "{table}" WHERE {_KEPT[family]} rowid % 2')}
    experiment = opened(path)
    start = {
        span: when for chunk in experiment.traces.spans(("start_ns",)) for span, when in zip(*_two(chunk), strict=True)
    }
    found = extras(experiment)
    assert {name for _, name in found} == {'the "odd" one'}
    assert {start[span] for span, _ in found} == expected
    assert all(value == str(start[span]) for (span, _), value in found.items())


_KEPT = {"rocpd": "", "rpd": "", "nsight": "eventClass <> 67 AND"}


def _two(chunk: SpanChunk) -> tuple[list[int], list[int]]:
    return chunk["span"].tolist(), chunk["start_ns"].tolist()


def _asked(path: Path, query: str) -> list[tuple[object, ...]]:
    database = sqlite3.connect(path)
    found = database.execute(query).fetchall()
    database.close()
    return found


def test_json_of_events_and_instances_of_counters_are_kept(tmp_path: Path) -> None:
    """A marker's text is its label, and nothing more; other files have neither."""
    first = replace(RUN.without("memset"), counters=((2, "SQ_WAVES", 8.0), (2, "SQ_WAVES", 9.0)))
    first = replace(first, events=tuple(sorted(first.events, key=lambda event: event.kind != "kernel")))
    second = replace(first, guid=RUN.guid[:-1] + "5")
    path, tail = write_rocpd(tmp_path / "a.db", [first]), suffix_of(first)
    write_rocpd(tmp_path / "b.db", [second])
    execute(
        path,
        f"UPDATE rocpd_event{tail} SET line_info = '{{\"line\": 7}}' WHERE id = 1",
        f"UPDATE rocpd_kernel_dispatch{tail} SET region_name_id = 2 WHERE event_id = 1",
        f"ALTER TABLE rocpd_pmc_event{tail} ADD COLUMN xcc",
        f"UPDATE rocpd_pmc_event{tail} SET xcc = id",
    )
    experiment = opened(tmp_path)
    category = "KERNEL_DISPATCH"  # the second string: the first one is empty, and says nothing
    assert sorted((name, value) for (_, name), value in extras(experiment).items()) == [
        ("event.line_info", '{"line": 7}'),
        ("region_name", category),
    ]
    counters = experiment.traces.side("counter")
    assert counters is not None
    xcc, value = (np.asarray(counters.columns[name]).tolist() for name in ("xcc", "value"))
    assert sorted(zip(xcc, value, strict=True)) == [(-1, 8.0), (-1, 9.0), (0, 8.0), (1, 9.0)]


@pytest.mark.parametrize(
    "stack",
    [
        '{"0": {"name": "main", "line": 3}, "1": {"name": "solve"}, "2": {"name": "hipMemcpy"}}',
        '{"2": "main", "10": "solve"}',  # by number, and without the call itself
        '{"0": "hipMemcpy", "1": "solve", "2": "main"}',  # from the inside out
    ],
)
def test_calls_stand_below_the_functions_that_made_them(stack: str, tmp_path: Path) -> None:
    run = RUN.without("memset", "marker")
    path, tail = write_rocpd(tmp_path / "r.db", [run]), suffix_of(run)
    number = next(k for k, event in enumerate(run.events) if event.name == "hipMemcpy")
    execute(path, f"UPDATE rocpd_event{tail} SET call_stack = '{stack}' WHERE id = {number + 1}")
    tree = opened(path).contexts
    paths = {tree.path(c) for c in range(len(tree))}
    assert "main->solve->hipMemcpy->MEMORY_COPY_HOST_TO_DEVICE" in paths
    assert gpu_time(opened(path)) == expected_gpu_time(run)


@pytest.mark.parametrize("stack", ["", "7", "[1]", "{broken", '{"frames": ["main"]}', '{"0": null}'])
def test_stacks_of_another_kind_change_nothing(stack: str, tmp_path: Path) -> None:
    run = RUN.without("memset", "marker")
    path, tail = write_rocpd(tmp_path / "r.db", [run]), suffix_of(run)
    expected = {opened(path).contexts.path(c) for c in range(len(opened(path).contexts))}
    execute(path, f"UPDATE rocpd_event{tail} SET call_stack = '{stack}' WHERE id = 1")
    assert {opened(path).contexts.path(c) for c in range(len(opened(path).contexts))} == expected
