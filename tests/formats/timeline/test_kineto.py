"""Kineto's traces against arithmetic on their JSON text: operators, flows, sources, lanes, answers of `summary`."""

from __future__ import annotations

import gzip
import json
from collections import Counter, defaultdict
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from callgrove.formats.timeline.chrome import stream
from callgrove.model.experiment import Experiment
from callgrove.model.metrics import Scope
from callgrove.model.profiles import ProfileKind
from callgrove.model.traces.events import FLOW, FlowDirection
from tests.formats.timeline.test_chrome_reading import event, read, spans, written

Json = dict[str, Any]
SAMPLES = ("nccl_data", "mi250_minitoy_train_ROCm6_2_kineto", "event_sync_multi_stream", "alexnet", "triton_example")
OPERATORS = ("cpu_op", "user_annotation")
ON_DEVICE = ("kernel", "gpu_memcpy", "gpu_memset")
CALLS = ("cuda_runtime", "cuda_driver")
LINKED = (*ON_DEVICE, *CALLS, "cuda_sync", "gpu_user_annotation")


def sample(shared: Path, name: str) -> Path:
    return shared / "data" / "public" / "kineto" / f"{name}.json.gz"


def events_of(path: Path) -> list[Json]:
    with gzip.open(path) as file:
        trace: Json = json.load(file, parse_float=Decimal)
    out: list[Json] = trace["traceEvents"]
    return out


def flows(experiment: Experiment) -> dict[int, list[tuple[str, int, int]]]:
    """Ends of flows by id: name, direction, span."""
    backend = experiment.traces.spans_backend
    table = None if backend is None else backend.side(FLOW)
    out: dict[int, list[tuple[str, int, int]]] = defaultdict(list)
    if table is not None:
        columns = [np.asarray(table.columns[name]).tolist() for name in ("id", "name", "direction")]
        for flow, name, direction, span in zip(*columns, table.span.tolist(), strict=True):
            out[flow].append((name, direction, span))
    return out


# -- operators and flows -----------------------------------------------------------------------------------------------


def links_in_text(events: list[Json]) -> Counter[tuple[str, str]]:
    """Pairs of names: an operator, and a call or device work that names it by a number other than its correlation."""
    complete = [e for e in events if e["ph"] == "X" and "External id" in e.get("args", {})]
    operators = {e["args"]["External id"]: e["name"] for e in complete if e["cat"] in OPERATORS}
    return Counter(
        (operators[e["args"]["External id"]], e["name"])
        for e in complete
        if e["cat"] in LINKED
        and e["args"]["External id"] in operators
        and e["args"]["External id"] != e["args"].get("correlation")
    )


@pytest.mark.parametrize("name", SAMPLES)
def test_external_ids_join_operators_with_calls_and_device_work(name: str, shared: Path) -> None:
    path = sample(shared, name)
    experiment = read(path)
    names = [span["name"] for span in spans(experiment)]
    joined: Counter[tuple[str, str]] = Counter()
    for ends in flows(experiment).values():
        if ends[0][0] == "External id":
            starts = [span for _, direction, span in ends if direction == FlowDirection.OUT]
            assert len(starts) == 1
            joined.update((names[starts[0]], names[span]) for _, way, span in ends if way == FlowDirection.IN)
    assert joined == links_in_text(events_of(path))
    if name == "nccl_data":  # none of the old files, whose external ids repeat correlations, has any
        assert joined.total() == 8627 + 2700 + 114 + 960 + 30
    if name == "alexnet":
        assert not joined


def test_flows_from_forward_to_backward_operators(shared: Path) -> None:
    path = sample(shared, "nccl_data")
    experiment = read(path)
    every = spans(experiment)
    ours = Counter(
        (every[span]["start_ns"], direction == FlowDirection.OUT)
        for ends in flows(experiment).values()
        for name, direction, span in ends
        if name == "fwdbwd"
    )
    told = [e for e in events_of(path) if e.get("cat") == "fwdbwd"]
    assert ours.total() == len(told) == 2 * 543
    with gzip.open(path) as file:
        base = int(json.load(file)["baseTimeNanoseconds"])
    # each of them stands at the very begin of its operator
    assert ours == Counter((base + int(Decimal(e["ts"]) * 1000), e["ph"] == "s") for e in told)


def test_work_without_a_call_lies_below_its_operator(tmp_path: Path) -> None:
    place = {"device": 0, "stream": 7}
    work = event("X", 20, "gemm", dur=5, pid=0, tid=7, cat="kernel", args={**place, "correlation": 9, "External id": 3})
    alone = event(
        "X", 40, "gemm", dur=5, pid=0, tid=7, cat="kernel", args={**place, "correlation": 8, "External id": 8}
    )
    operator = event("X", 10, "aten::mm", dur=5, cat="cpu_op", args={"External id": 3})
    other = event("X", 30, "aten::add", dur=5, cat="cpu_op", args={"External id": 8})
    experiment = read(written(tmp_path / "a.json", [operator, work, other, alone], schemaVersion=1))
    contexts = experiment.contexts
    kernels = [k for k in range(len(contexts)) if contexts.name(k) == "gemm"]
    assert sorted(contexts.name(int(contexts.parent[k])) for k in kernels) == ["[unknown launch]", "aten::mm"]


# -- sources and lanes -------------------------------------------------------------------------------------------------


def test_python_functions_tell_file_and_line(shared: Path) -> None:
    path = shared / "data" / "own" / "chrome" / "torch_stack.json.gz"
    regions = read(path).contexts.regions
    places = {
        regions.label(k): (regions.files.paths[file], int(regions.line[k]))
        for k, file in enumerate(regions.file.tolist())
        if file >= 0
    }
    told = {e["name"] for e in events_of(path) if e.get("cat") == "python_function" and "): " in e["name"]}
    assert places.keys() == told
    for name, (file, line) in places.items():
        assert name.startswith(f"{file}({line}): ")


@pytest.mark.parametrize("name", ["alexnet", "nccl_data", "mi250_minitoy_train_ROCm6_2_kineto"])
def test_host_time_is_that_of_threads(name: str, shared: Path) -> None:
    """The union of the spans of each thread; not what the profiler says of itself, nor ranges on streams."""
    path = sample(shared, name)
    experiment = read(path)
    on_host = defaultdict(list)
    for e in events_of(path):
        if e["ph"] == "X" and e["cat"] not in (*ON_DEVICE, "cuda_sync", "gpu_user_annotation", "Trace"):
            on_host[e["pid"], e["tid"]].append((int(Decimal(e["ts"]) * 1000), int(Decimal(e["dur"]) * 1000)))
    expected = sum(union([(start, start + length) for start, length in rows]) for rows in on_host.values())
    row = experiment.metrics.find("host_time", Scope.EXCLUSIVE)
    assert row is not None
    ours = experiment.values.metric(row, experiment.profiles.measured).value.sum()
    assert ours == pytest.approx(expected * 1e-9, rel=1e-9)


def test_a_wait_for_no_stream_is_on_its_device(shared: Path) -> None:
    experiment = read(sample(shared, "alexnet"))
    streams = experiment.profiles.identifiers.pick("GPUSTREAM", "logical")[0].tolist()
    assert 2**32 - 1 not in streams
    assert [str(name) for name in experiment.profiles.name].count("GPU 0 (no stream)") == 1
    assert int((experiment.profiles.kind == ProfileKind.GPU).sum()) == 1


# -- what summary answers ----------------------------------------------------------------------------------------------


def union(intervals: list[tuple[int, int]]) -> int:
    total, reached = 0, -(1 << 62)
    for start, end in sorted(intervals):
        total += max(0, end - max(start, reached))
        reached = max(reached, end)
    return total


def shared_time(events: list[Json]) -> Counter[str]:
    """How long each set of classes was busy, by a sweep over all begins and ends of one device."""
    moments = []
    for e in events:
        if e["ph"] == "X" and e.get("cat") in ON_DEVICE:
            is_copy, is_nccl = e["cat"] != "kernel", "nccl" in e["name"].lower()
            word = "copy" if is_copy else "communication" if is_nccl else "compute"
            start = int(Decimal(e["ts"]) * 1000)
            moments += [(start, 1, word), (start + int(Decimal(e["dur"]) * 1000), -1, word)]
    busy, out, before = Counter[str](), Counter[str](), None
    for time, step, word in sorted(moments):
        if before is not None:
            names = [name for name in ("compute", "communication", "copy") if busy[name]]
            out[" and ".join(names) if len(names) != 1 else f"{names[0]} only"] += time - before
        busy[word] += step
        before = time
    out["idle"] += out.pop("", 0)
    return +out


def section(experiment: Experiment, name: str) -> list[Json]:
    table = experiment.summary(name, "rank")
    return [dict(zip(table.names, row, strict=True)) for row in table.rows()]


def test_overlap_of_communication_and_computation_per_rank(shared: Path) -> None:
    folder = shared / "data" / "public" / "kineto" / "ranks"
    ours: dict[int, Counter[str]] = defaultdict(Counter)
    for row in section(read(folder), "overlap"):
        ours[row["rank"]][row["name"]] += row["total_ns"]
    for rank in (0, 1):
        assert +ours[rank] == shared_time(events_of(folder / f"sampled_rank-{rank}.json.gz"))


def test_kernels_per_rank(shared: Path) -> None:
    folder = shared / "data" / "public" / "kineto" / "ranks"
    ours = {(r["rank"], r["name"]): (r["count"], r["total_ns"]) for r in section(read(folder), "kernels")}
    told: dict[tuple[int, str], tuple[int, int]] = {}
    for rank in (0, 1):
        for e in events_of(folder / f"sampled_rank-{rank}.json.gz"):
            if e["ph"] == "X" and e.get("cat") == "kernel":
                n, total = told.get((rank, e["name"]), (0, 0))
                told[rank, e["name"]] = n + 1, total + int(Decimal(e["dur"]) * 1000)
    assert ours == told


def test_gaps_are_what_is_idle_between_operations(shared: Path) -> None:
    path = sample(shared, "nccl_data")
    idle = shared_time(events_of(path))["idle"]
    assert sum(row["total_ns"] for row in section(read(path), "gaps")) == idle


# -- decoding at once --------------------------------------------------------------------------------------------------


def test_boundaries_in_texts_and_arguments_mislead_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What looks like the begin of an event inside of texts and lists is not an event, wherever a chunk ends."""
    hidden = 'a"},\n{"ph": "X'
    events = [
        event("X", k, hidden if k % 3 else "plain", dur=1, args={"list": [{"ph": "X"}, {"ph": "Y"}], "text": hidden})
        for k in range(60)
    ]
    text = "[" + ",\n".join(json.dumps(e, separators=(", ", ": ")) for e in events) + "]"
    path = tmp_path / "a.json"
    path.write_text(text)
    for size in (1, 40, 200, 333, 1000, 1 << 17):
        monkeypatch.setattr(stream, "CHUNK", size)
        monkeypatch.setattr(stream, "BATCH", 2)
        decoded = [e for batch in stream.EventStream(path).batches() for e in batch]
        assert decoded == json.loads(text)
