"""Databases of all families hold the run that they were made from."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from callgrove.analysis.tables import export
from callgrove.errors import UsageError
from callgrove.formats.interface import ReadOptions
from callgrove.formats.registry import open_path
from callgrove.model.contexts import ContextKind
from callgrove.model.experiment import Experiment, Severity
from callgrove.model.profiles import ProfileKind
from callgrove.model.table import Table
from callgrove.model.traces.events import SpanChunk
from callgrove.model.traces.intervals import union_length
from tests.exhaustive import try_examples
from tests.formats.gpu.gpu_databases import Run, execute, suffix_of, write_nsight, write_rocpd, write_rpd
from tests.formats.gpu.gpu_truth import expected_gpu_time, extras, gpu_time, opened, totals
from tests.formats.samples import CORPUS

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
@try_examples(8, HealthCheck.function_scoped_fixture)
def test_any_run_is_conserved_in_every_family(seed: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    run = Run.random(seed)
    for family in FAMILIES:
        path, kept = made(family, tmp_path_factory.mktemp("any"), run)
        experiment = opened(path)
        assert gpu_time(experiment) == expected_gpu_time(kept)
        assert experiment.root_total("gpu_ops") == len(kept.operations)
        assert experiment.root_total("host_calls") == sum(e.kind in ("api", "marker", "region") for e in kept.events)


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


def test_copies_between_gpus_name_them(tmp_path: Path) -> None:
    path, _ = made("nsight", tmp_path)
    execute(path, *(f"ALTER TABLE CUPTI_ACTIVITY_KIND_MEMCPY ADD COLUMN {c}" for c in ("srcDeviceId", "dstDeviceId")))
    execute(path, "UPDATE CUPTI_ACTIVITY_KIND_MEMCPY SET srcDeviceId = 1, dstDeviceId = 77")
    traces = opened(path).traces
    copies, devices = traces.side("copy"), traces.devices(0)
    assert copies is not None
    source, destination = (np.asarray(copies.columns[name]) for name in ("source", "destination"))
    assert {devices[k].label for k in source[source >= 0].tolist()} == {"GPU 1"}
    assert set(destination.tolist()) == {-1}


# -- names of kernels ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n_files", [1, 3])
@pytest.mark.parametrize("which", ["short", "demangled"])
def test_kernels_of_rocprofv3_go_by_the_name_that_is_chosen(which: str, n_files: int, tmp_path: Path) -> None:
    """Its databases have them in JSON; a symbol without such a name keeps the usual one, and a note says so."""
    runs = [
        replace(Run.random(seed), guid=f"018f0000-0000-7000-8000-00000000000{seed}") for seed in range(1, n_files + 1)
    ]
    field = {"short": "truncated_kernel_name", "demangled": "demangled_kernel_name"}[which]
    want: Counter[str] = Counter()
    for number, run in enumerate(runs):
        own = run.without("memset")
        path, table = write_rocpd(tmp_path / f"{number}.db", [own]), f"rocpd_info_kernel_symbol{suffix_of(own)}"
        execute(path, f"UPDATE {table} SET extdata = '{{\"{field}\": \"chosen\"}}' WHERE display_name LIKE '%gemm%'")
        want.update("chosen" if "gemm" in e.name else e.name for e in own.events if e.kind == "kernel")
    experiment = open_path(tmp_path, options=ReadOptions(kernel_names=which))
    assert isinstance(experiment, Experiment)
    found = Counter(name for part in export(experiment, "spans") for name in _kernels(part))
    assert found == want
    assert len(experiment.warnings) == n_files
    assert f"symbols have no {which} name; their kernels go by the usual one" in experiment.warnings[0].text


def _kernels(spans: Table) -> list[str]:
    named = zip(spans.column("kind").plain(), spans.column("name").plain(), strict=True)
    return [name for kind, name in named if kind == "kernel"]


def test_other_files_have_one_name_of_a_kernel(tmp_path: Path) -> None:
    path, _ = made("rpd", tmp_path)
    with pytest.raises(UsageError, match=r"kernel_names=\.\.\. chooses among names, and kernels have one name in rpd"):
        open_path(path, options=ReadOptions(kernel_names="short"))
    with pytest.raises(UsageError, match="there are short and demangled names of kernels, not 'Short'"):
        open_path(made("rocpd", tmp_path)[0], options=ReadOptions(kernel_names="Short"))
    with pytest.raises(UsageError, match=r"kernel_names=\.\.\. can be used with runs, rocpd, rocpd-draft, rpd, nsight"):
        open_path(CORPUS / "extrap" / "json.json", options=ReadOptions(kernel_names="short"))


# -- what no reader knows --------------------------------------------------------------------------------------------

CALLS = {"rocpd": f"rocpd_region{suffix_of(RUN)}", "rpd": "rocpd_api", "nsight": "CUPTI_ACTIVITY_KIND_RUNTIME"}


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
    if family == "nsight":  # the second row of a call is not an event
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


@every_family
def test_tables_that_nobody_knows_are_named_if_they_have_rows(family: str, tmp_path: Path) -> None:
    path, _ = made(family, tmp_path)
    execute(path, "CREATE TABLE ext_callstack (id, depth)", "CREATE TABLE later (id)")
    assert opened(path).warnings == ()
    execute(path, "INSERT INTO ext_callstack VALUES (1, 2)", "INSERT INTO later VALUES (1)")
    (warning,) = opened(path).warnings
    known = " (which call contains which, computed from the times of calls)" if family == "rpd" else ""
    assert (warning.severity, warning.text) == (Severity.NOTE, f"{path}: not read: ext_callstack{known}, later")


def test_tables_of_later_schemas_are_named(tmp_path: Path) -> None:
    """Those of rocprofv3 belong to a process."""
    path, table = made("rocpd", tmp_path)[0], f"rocpd_graph_launch{suffix_of(RUN)}"
    execute(path, f"CREATE TABLE {table} (id, start)", f"INSERT INTO {table} VALUES (1, 2)")
    (warning,) = opened(path).warnings
    assert warning.text == f"{path}: not read: {table} (launches of graphs)"


_KEPT = {"rocpd": "", "rpd": "", "nsight": "eventClass <> 67 AND"}


def _two(chunk: SpanChunk) -> tuple[list[int], list[int]]:
    return chunk["span"].tolist(), chunk["start_ns"].tolist()


def _asked(path: Path, query: str) -> list[tuple[object, ...]]:
    database = sqlite3.connect(path)
    found = database.execute(query).fetchall()
    database.close()
    return found
