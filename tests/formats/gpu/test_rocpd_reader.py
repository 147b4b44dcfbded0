"""Databases of rocprofv3 hold the runs that they were made from, whatever they lack or add."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from callgrove.algebra.operations import merge
from callgrove.analysis.tables import export
from callgrove.model.experiment import Experiment
from callgrove.model.selection import select
from tests.formats.gpu.gpu_databases import Event, Run, execute, suffix_of, write_rocpd
from tests.formats.gpu.gpu_truth import expected_gpu_time, extras, gpu_time, opened, spans, totals

RUN = Run.random(1).without("memset")


@pytest.mark.parametrize("suffix", ["", "0123456789abcdef0123456789abcdef", "_a_b"])
def test_the_suffix_is_whatever_follows_the_name_of_the_metadata(suffix: str, tmp_path: Path) -> None:
    experiment = opened(write_rocpd(tmp_path / "r.db", [RUN], suffixes=[suffix]))
    assert totals(experiment, "kernel") == RUN.totals("kernel")


def test_several_processes_in_one_file_stay_apart(tmp_path: Path) -> None:
    """Equal process and thread numbers on every node: nothing is multiplied."""
    runs = [replace(Run.random(k).without("memset"), guid=f"g-{k}", host=f"n{k}", machine=f"m{k}") for k in range(3)]
    experiment = opened(write_rocpd(tmp_path / "r.db", runs))
    assert experiment.traces.n_spans == sum(len(run.events) for run in runs)
    assert gpu_time(experiment) == expected_gpu_time(*runs)
    identity = zip(*(experiment.profiles.identity_list(c) for c in ("node", "rank", "thread")), strict=True)
    assert len({place for place in identity if place[2] is not None}) == 6


def test_hosts_and_processes_are_in_the_system_tree(tmp_path: Path) -> None:
    experiment = opened(write_rocpd(tmp_path / "r.db", [RUN]))
    system, leaf = experiment.system, int(experiment.profiles.system[0])
    node, process = system.path(leaf)[-1], system.path(leaf)[-2]
    assert (system.kind[node], system.name[node], system.attributes[node]["machine_id"]) == ("node", "node0000", "m0")
    assert system.attributes[process]["pid"] == "4242"
    (table,) = export(experiment, "profiles")
    assert set(table.column("host").plain()) == {"node0000"}


def test_side_tables_name_devices_by_their_place_in_a_list(tmp_path: Path) -> None:
    """Also after a selection and a merge; the agents of `write_rocpd` are a CPU and two GPUs."""
    runs = [replace(RUN, guid=f"g-{k}", host=f"n{k}", machine=f"m{k}") for k in range(2)]
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


@pytest.mark.parametrize(
    "missing", [("event",), ("arg", "pmc_event", "info_pmc"), ("memory_allocate", "info_code_object")]
)
def test_tables_that_are_missing_are_empty(missing: tuple[str, ...], tmp_path: Path) -> None:
    experiment = opened(write_rocpd(tmp_path / "r.db", [RUN], missing=missing))
    assert totals(experiment, "kernel") == RUN.totals("kernel")
    assert gpu_time(experiment) == expected_gpu_time(RUN)
    if "event" in missing:  # nobody knows what launched them
        assert {row[0] for row in spans(experiment, "correlation")} == {-1}
        assert "[unknown launch]" in {experiment.contexts.label(c) for c in experiment.contexts.roots.tolist()}


def test_columns_that_are_missing_are_absent(tmp_path: Path) -> None:
    path = write_rocpd(tmp_path / "r.db", [RUN])
    tail = suffix_of(RUN)
    execute(
        path,
        *(
            f"ALTER TABLE rocpd_{base}{tail} DROP COLUMN event_id"
            for base in ("region", "kernel_dispatch", "memory_copy")
        ),
        f"ALTER TABLE rocpd_info_agent{tail} DROP COLUMN type_index",
    )
    experiment = opened(path)
    assert totals(experiment, "kernel") == RUN.totals("kernel")
    assert set(experiment.profiles.identity_list("gpu_device")) == {None, 0, 1}


@pytest.mark.parametrize(("fini", "known"), [("fini", True), ("0", False), ("NULL", False)])
def test_of_a_process_that_was_killed_its_events_tell_when_it_ran(fini: str, known: bool, tmp_path: Path) -> None:
    path = write_rocpd(tmp_path / "r.db", [RUN])
    execute(path, f"UPDATE rocpd_info_process{suffix_of(RUN)} SET init = 5, fini = {fini}")
    found = opened(path).traces.time_range
    assert found is not None
    first, last = min(e.start for e in RUN.events), max(e.end for e in RUN.events)
    assert found[0] == 5 if known else found == (first, last)


def test_columns_of_later_versions_change_nothing(tmp_path: Path) -> None:
    tail = suffix_of(RUN)
    path = write_rocpd(tmp_path / "r.db", [RUN], version="3.0.5")
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
    assert totals(experiment, "kernel") == RUN.totals("kernel")


def test_markers_show_their_message_and_keep_their_name(tmp_path: Path) -> None:
    experiment = opened(write_rocpd(tmp_path / "r.db", [RUN]))
    markers = [row[1:] for row in spans(experiment, "kind", "name", "label") if row[0] == "marker"]
    assert {name for name, _ in markers} == {"roctxRangePushA"}
    assert {label for _, label in markers} == {e.label for e in RUN.events if e.kind == "marker"}


def test_counters_of_kernels_belong_to_their_span(tmp_path: Path) -> None:
    number = next(k for k, e in enumerate(RUN.events) if e.kind == "kernel")
    run = replace(RUN, counters=((number, "SQ_WAVES", 12.5),))
    experiment = opened(write_rocpd(tmp_path / "r.db", [run]))
    side = experiment.traces.side("counter")
    assert side is not None
    assert list(side.columns["name"]) == ["SQ_WAVES"]
    assert list(side.columns["value"]) == [12.5]
    starts = [row[0] for row in spans(experiment, "start_ns")]
    assert starts[int(side.span[0])] == run.events[number].start


def test_copies_without_agents_are_read(tmp_path: Path) -> None:
    path = write_rocpd(tmp_path / "r.db", [RUN])
    execute(path, f"UPDATE rocpd_memory_copy{suffix_of(RUN)} SET dst_agent_id = NULL, src_agent_id = NULL")
    experiment = opened(path)
    assert totals(experiment, "copy") == RUN.totals("copy")
    assert gpu_time(experiment) == expected_gpu_time(RUN)


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


def test_what_rocpd_says_of_kernels_and_counters(tmp_path: Path) -> None:
    """Of two processes in one file, with the guid of each; a table that the file lacks is empty."""
    runs = [RUN, replace(RUN, pid=77, guid=RUN.guid[:-1] + "1")]
    tables = opened(write_rocpd(tmp_path / "two.db", runs)).traces.tables
    symbols = tables["kernel_symbols"]()
    expected = {(run.guid, run.pid, name) for run in runs for name in run.totals("kernel")}
    assert set(zip(*(symbols.column(c).plain() for c in ("guid", "pid", "display_name")), strict=True)) == expected
    assert tables["pmc_info"]().column("name").plain() == ["SQ_WAVES"] * 2
    assert len(tables["code_objects"]()) == 0


def test_a_part_keeps_the_tables_beside_its_spans(tmp_path: Path) -> None:
    """Its profiles have their own processes and agents, whichever of them were left out."""
    runs = [RUN, replace(RUN, pid=77, guid=RUN.guid[:-1] + "1")]
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


def test_json_of_events_and_instances_of_counters_are_kept(tmp_path: Path) -> None:
    """A marker's text is its label, and nothing more; other files have neither."""
    first = replace(RUN, counters=((2, "SQ_WAVES", 8.0), (2, "SQ_WAVES", 9.0)))
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
    run = RUN.without("marker")
    path, tail = write_rocpd(tmp_path / "r.db", [run]), suffix_of(run)
    number = next(k for k, event in enumerate(run.events) if event.name == "hipMemcpy")
    execute(path, f"UPDATE rocpd_event{tail} SET call_stack = '{stack}' WHERE id = {number + 1}")
    tree = opened(path).contexts
    paths = {tree.path(c) for c in range(len(tree))}
    assert "main->solve->hipMemcpy->MEMORY_COPY_HOST_TO_DEVICE" in paths
    assert gpu_time(opened(path)) == expected_gpu_time(run)


@pytest.mark.parametrize("stack", ["", "7", "[1]", "{broken", '{"frames": ["main"]}', '{"0": null}'])
def test_stacks_of_another_kind_change_nothing(stack: str, tmp_path: Path) -> None:
    run = RUN.without("marker")
    path, tail = write_rocpd(tmp_path / "r.db", [run]), suffix_of(run)
    expected = {opened(path).contexts.path(c) for c in range(len(opened(path).contexts))}
    execute(path, f"UPDATE rocpd_event{tail} SET call_stack = '{stack}' WHERE id = 1")
    assert {opened(path).contexts.path(c) for c in range(len(opened(path).contexts))} == expected
