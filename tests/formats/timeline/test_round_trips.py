"""Every trace that we write as Perfetto, Chrome JSON or OTF2 gives back the same spans, names, flows and counters."""

from __future__ import annotations

from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from callgrove.arrays import ABSENT
from callgrove.formats.interface import ReadOptions, WriteOptions
from callgrove.formats.registry import open_path
from callgrove.formats.writing.transfer import transfer
from callgrove.model.experiment import Experiment
from callgrove.model.metrics import Scope
from callgrove.model.profiles import PROFILER, ProfileKind
from callgrove.model.traces.events import FLOW, LABEL, FlowDirection
from tests.exhaustive import exhaustive, try_examples
from tests.formats.contract import load_writer
from tests.formats.timeline.test_chrome_reading import event, written
from tests.requirements import need_module

ENDINGS = {"perfetto": "pftrace", "chrome-json": "json", "otf2": "otf2"}
SAMPLES = (
    "public/kineto/mi250_minitoy_train_ROCm6_2_kineto.json.gz",
    "public/kineto/event_sync_multi_stream.json.gz",
    "public/kineto/triton_example.json.gz",
    "own/chrome/torch_ddp",
    "own/chrome/torch_stack.json.gz",
    "own/chrome/phases.json",
    "own/perfetto/sdk_like.pftrace",
    "own/otf2/otf2_2",
)
LARGE = (
    "public/kineto/alexnet.json.gz",
    "public/kineto/cupti_profiler.json.gz",
    "public/kineto/nccl_data.json.gz",
    "public/kineto/ranks",
    "own/chrome/viztracer.json.gz",
    "own/perfetto/rocpd_small.pftrace",
)
Span = tuple[str, int, int, int]  # name, kind, start, end


def read(path: Path) -> Experiment:
    experiment = open_path(path, "", ReadOptions(fold=False))
    assert isinstance(experiment, Experiment)
    return experiment


def convert(experiment: Experiment, to_format: str, folder: Path) -> Experiment:
    if to_format == "otf2":
        need_module("otf2")
    target = folder / f"again.{ENDINGS[to_format]}"
    transfer(experiment, load_writer(to_format).open_writer(target, WriteOptions()))
    return read(target)


def spans_of(experiment: Experiment) -> list[Span | None]:
    """By number of a span; None for those that no trace can hold: they end before they start."""
    backend = experiment.traces.spans_backend
    assert backend is not None
    out: dict[int, Span | None] = {}
    for chunk in experiment.traces.spans((LABEL, "kind", "start_ns", "end_ns")):
        rows = zip(*(chunk[name].tolist() for name in ("span", LABEL, "kind", "start_ns", "end_ns")), strict=True)
        for span, name, kind, start, end in rows:
            text = backend.strings[name] if name >= 0 else ""
            out[span] = (text or "<unnamed>", kind, start, end) if 0 <= start <= end else None
    return [out[k] for k in range(len(out))]


def flows_of(experiment: Experiment, named: bool) -> Counter[frozenset[tuple[Any, ...]]]:
    """Every flow as the set of its ends; ids differ from file to file. Flows of several files are apart."""
    spans = spans_of(experiment)
    out: Counter[frozenset[tuple[Any, ...]]] = Counter()
    for part in range(len(experiment.traces.parts())):
        ends: dict[int, Counter[tuple[Any, ...]]] = defaultdict(Counter)
        for table in experiment.traces.side_chunks(FLOW, part):
            columns = [np.asarray(table.columns[name]).tolist() for name in ("id", "direction", "name")]
            for flow, direction, name, span in zip(*columns, table.span.tolist(), strict=True):
                if spans[span] is not None:
                    ends[flow][direction, name if named else None, spans[span]] += 1
        out.update(frozenset(one.items()) for one in ends.values())
    return out


def launches_of(experiment: Experiment) -> Counter[int]:
    """How many spans share each correlation, of those that several share."""
    numbers: Counter[int] = Counter()
    for chunk in experiment.traces.spans(("correlation",)):
        numbers.update(chunk["correlation"][chunk["correlation"] >= 0].tolist())
    return Counter({number: n for number, n in numbers.items() if n > 1})


def counters_of(experiment: Experiment) -> Counter[tuple[str, int, float]]:
    counters = experiment.traces.counters
    if counters is None:
        return Counter()
    rows = zip(counters.name.tolist(), counters.time_ns.tolist(), counters.value.tolist(), strict=True)
    return Counter((counters.names[name], time, value) for name, time, value in rows if value == value)


def places_of(experiment: Experiment) -> Counter[tuple[int, ...]]:
    """By what a place is, its rank, thread, device and stream, and whether the profiler tells of itself there: how many
    spans are on it."""
    profiles, system = experiment.profiles, experiment.system
    ids = ("RANK", "THREAD", "GPUDEVICE", "GPUSTREAM")
    numbers = [profiles.identifiers.pick(name, "logical") for name in ids]
    counts: Counter[int] = Counter()
    for chunk in experiment.traces.spans(("profile",)):
        counts.update(chunk["profile"].tolist())
    out: Counter[tuple[int, ...]] = Counter()
    for profile, n in counts.items():
        above = [system.kind[place] for place in system.path(int(profiles.system[profile]))]
        known = [int(number[profile]) if has[profile] else ABSENT for number, has in numbers]
        out[int(profiles.kind[profile]), *known, above.count(PROFILER)] += n
    return out


def check_same(first: Experiment, again: Experiment, to_format: str) -> None:
    assert Counter(s for s in spans_of(first) if s) == Counter(s for s in spans_of(again) if s)
    named = to_format != "perfetto"  # where flows have no names
    assert flows_of(first, named) == flows_of(again, named)
    assert launches_of(first) == launches_of(again)
    assert counters_of(first) == counters_of(again)
    assert places_of(first) == places_of(again)


@pytest.mark.parametrize("to_format", ENDINGS)
@pytest.mark.parametrize("sample", [*SAMPLES, *(pytest.param(name, marks=exhaustive) for name in LARGE)])
def test_samples_come_back(sample: str, to_format: str, shared: Path, tmp_path: Path) -> None:
    first = read(shared / "data" / sample)
    check_same(first, convert(first, to_format, tmp_path), to_format)


@pytest.mark.parametrize("to_format", ENDINGS)
def test_work_on_no_stream_and_the_time_of_the_profiler_come_back(to_format: str, tmp_path: Path) -> None:
    """Kineto notes a wait for a whole device on stream -1 of CUPTI, and how long it recorded on tracks of its own."""
    wait = {"device": 0, "stream": 2**32 - 1, "correlation": 2}
    events = [
        {**event("X", 0, "forward", dur=100), "cat": "cpu_op"},
        {**event("X", 10, "gemm", dur=50, pid=0, tid=7), "cat": "kernel", "args": {"device": 0, "stream": 7}},
        {**event("X", 60, "Context Sync", dur=9, pid=0, tid=2**32 - 1), "cat": "cuda_sync", "args": wait},
        {**event("X", 0, "PyTorch Profiler (0)", dur=400, pid="Spans", tid="PyTorch Profiler"), "cat": "Trace"},
    ]
    path = written(tmp_path / "kineto.json", events, schemaVersion=1, deviceProperties=[{"id": 0}])
    first = read(path)
    again = convert(first, to_format, tmp_path)
    check_same(first, again, to_format)
    assert int((again.profiles.kind == ProfileKind.GPU).sum()) == 1
    for source in (path, tmp_path / f"again.{ENDINGS[to_format]}"):
        experiment = open_path(source, "", ReadOptions())
        assert isinstance(experiment, Experiment)
        row = experiment.metrics.find("host_time", Scope.EXCLUSIVE)
        assert row is not None
        values = experiment.values.metric(row, experiment.profiles.measured).value
        assert values.sum() == pytest.approx(100e-6)  # not the 400 us of the profiler


# -- several files -----------------------------------------------------------------------------------------------------


def message(name: str) -> list[dict[str, Any]]:
    """A flow of id 5 from one slice to another."""
    ends = [{**event(phase, 10 * k, "message", id=5), "cat": "net"} for k, phase in enumerate("sf")]
    return [event("X", 0, f"send {name}", dur=5), event("X", 10, f"receive {name}", dur=5), *ends]


@pytest.mark.parametrize("stored", ["chrome-json", "perfetto", "callgrove"])
def test_flows_of_several_files_with_equal_ids_are_apart(stored: str, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    for rank in range(2):
        info = {"distributedInfo": {"rank": rank}}
        single = read(written(tmp_path / f"{rank}.json", message(str(rank)), **info))
        if stored == "perfetto":
            transfer(single, load_writer(stored).open_writer(folder / f"{rank}.pftrace", WriteOptions()))
        else:
            written(folder / f"{rank}.json", message(str(rank)), **info)
    whole = read(folder)
    if stored == "callgrove":
        transfer(whole, load_writer(stored).open_writer(tmp_path / "kept.callgrove", WriteOptions()))
        whole = read(tmp_path / "kept.callgrove")
    names = [span[0] for span in spans_of(whole) if span is not None]
    table = whole.traces.side(FLOW)
    assert table is not None
    ends: dict[int, set[str]] = defaultdict(set)
    for flow, span in zip(np.asarray(table.columns["id"]).tolist(), table.span.tolist(), strict=True):
        ends[flow].add(names[span])
    assert sorted(map(sorted, ends.values())) == [["receive 0", "send 0"], ["receive 1", "send 1"]]


# -- drawn traces ------------------------------------------------------------------------------------------------------


@st.composite
def traces(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Slices that nest, begin together and last no time, with flows to any of them."""
    out: list[dict[str, Any]] = []
    for track in range(draw(st.integers(1, 2))):
        time, depth = 0, draw(st.integers(1, 4))
        for _ in range(draw(st.integers(1, 4))):
            lasts = draw(st.integers(0, 3)) * depth
            for level in range(depth):
                name = draw(st.sampled_from(["a", "b", "é \n"]))
                out.append(event("X", time, name, dur=max(0, lasts - level), tid=track + 1))
                for phase in draw(st.lists(st.sampled_from("stf"), max_size=3)):
                    flow = {"id": draw(st.integers(0, 3)), "name": draw(st.sampled_from(["m", "n", ""]))}
                    bound = {"bp": "e"} if phase == "f" else {}
                    out.append({**event(phase, time, tid=track + 1), "cat": "flow", **flow, **bound})
            time += lasts + draw(st.integers(0, 1))
    return out


@try_examples(40)
@given(events=traces(), to_format=st.sampled_from(["perfetto", "chrome-json"]))
def test_drawn_flows_come_back(
    events: list[dict[str, Any]], to_format: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("drawn")
    first = read(written(folder / "first.json", events))
    again = convert(first, to_format, folder)
    if to_format == "chrome-json":
        check_same(first, again, to_format)
    else:  # where a flow that leaves several spans begins at the first one, and goes through the others
        assert leaving_and_arriving(first) == leaving_and_arriving(again)


def leaving_and_arriving(experiment: Experiment) -> Counter[frozenset[tuple[Any, ...]]]:
    out: Counter[frozenset[tuple[Any, ...]]] = Counter()
    for flow, n in flows_of(experiment, named=False).items():
        ends: Counter[tuple[Any, ...]] = Counter()
        for (direction, _, span), times in flow:
            ends[direction == FlowDirection.IN, span] += times
        out[frozenset(ends.items())] += n
    return out
