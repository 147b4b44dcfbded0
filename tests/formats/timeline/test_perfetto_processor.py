"""What we read of Perfetto traces, and of Chrome's, against Perfetto's own trace processor: slices, counters, flows."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from callgrove.formats.interface import WriteOptions
from callgrove.formats.writing.transfer import transfer
from callgrove.model.experiment import Experiment
from callgrove.model.traces.events import FLOW, FlowDirection, SpanKind
from tests.exhaustive import exhaustive
from tests.formats.contract import load_writer
from tests.formats.timeline.test_round_trips import Span, counters_of, read, spans_of
from tests.outside.trace_processor import processed

OF_OTHERS = ("sdk_like.pftrace", "sdk_like_compressed.pftrace")
LARGE = pytest.param("rocpd_small.pftrace", marks=exhaustive)
WRITTEN = (
    "public/kineto/mi250_minitoy_train_ROCm6_2_kineto.json.gz",
    "own/otf2/otf2_2",
    pytest.param("public/kineto/event_sync_multi_stream.json.gz", marks=exhaustive),
    pytest.param("own/chrome/viztracer.json.gz", marks=exhaustive),
)
ON_DEVICE = (SpanKind.KERNEL, SpanKind.COPY, SpanKind.MEMSET)
SLICES = "select s.name as n, s.ts as t, s.dur as d from slice s"
COUNTERS = "select t.name as n, c.ts as t, c.value as v from counter c join counter_track t on t.id = c.track_id"
FLOWS = """select a.name as an, a.ts as at, b.name as bn, b.ts as bt
    from flow f join slice a on a.id = f.slice_out join slice b on b.id = f.slice_in"""
Arrow = tuple[str, int, str, int]


def slices_of(experiment: Experiment) -> Counter[tuple[str, int, int]]:
    return Counter((name, start, end - start) for name, _, start, end in filter(None, spans_of(experiment)))


def arrows_of(experiment: Experiment) -> Counter[Arrow]:
    """Arrows between spans: from call to operation, and from one end of a flow to the next one in time. Arrows that
    arrive before they leave, as those of calls that wait for a message, are not drawn."""
    spans = spans_of(experiment)
    chains: dict[Any, list[tuple[FlowDirection, int]]] = defaultdict(list)
    calls: dict[int, int] = {}
    operations: list[tuple[int, int]] = []
    for chunk in experiment.traces.spans(("correlation",)):
        for span, number in zip(chunk["span"].tolist(), chunk["correlation"].tolist(), strict=True):
            about = spans[span]
            if number >= 0 and about is not None:
                if about[1] in ON_DEVICE:
                    operations.append((number, span))
                elif about[1] == SpanKind.API:
                    calls[number] = span
    for number, span in operations:
        if number in calls:
            chains["launch", span] = [(FlowDirection.OUT, calls[number]), (FlowDirection.IN, span)]
    for part in range(len(experiment.traces.parts())):
        for table in experiment.traces.side_chunks(FLOW, part):
            columns = [np.asarray(table.columns[name]).tolist() for name in ("id", "direction")]
            for flow, direction, span in zip(*columns, table.span.tolist(), strict=True):
                chains[part, flow].append((direction, span))
    out: Counter[Arrow] = Counter()
    for chain in chains.values():
        left: tuple[str, int] | None = None
        for start, direction, name in sorted(_place(spans[span], direction) for direction, span in chain):
            if left is not None and direction != FlowDirection.OUT:
                out[*left, name, start] += 1
            left = (name, start) if direction != FlowDirection.IN else None
    return out


def _place(span: Span | None, direction: int) -> tuple[int, int, str]:
    assert span is not None
    return span[2], direction, span[0]


def compare(content: bytes, experiment: Experiment, origin_ns: int = 0, value: str = "") -> None:
    """Compare; `origin_ns` was subtracted from the times in the file, `value` is added to names of counters."""
    slices, counters, flows = processed(content, SLICES, COUNTERS, FLOWS)
    moved: list[Any] = [(name, time + origin_ns, lasts) for name, time, lasts in slices]  # type: ignore[operator]
    unfinished = {(name, time) for name, time, lasts in moved if lasts == -1}  # we end them with the last event
    ours = Counter({key: n for key, n in slices_of(experiment).items() if key[:2] not in unfinished})
    assert ours == Counter(row for row in moved if row[2] != -1)
    expected = Counter((name + value, time - origin_ns, number) for name, time, number in counters_of(experiment))
    assert expected == Counter(counters)
    arrows = Counter({(a, at - origin_ns, b, bt - origin_ns): n for (a, at, b, bt), n in arrows_of(experiment).items()})
    assert arrows == Counter(flows)


@pytest.mark.parametrize("name", [*OF_OTHERS, LARGE])
def test_traces_of_others(name: str, shared: Path) -> None:
    path = shared / "data" / "own" / "perfetto" / name
    compare(path.read_bytes(), read(path))


@pytest.mark.parametrize("ending", ["pftrace", "json"])
@pytest.mark.parametrize("sample", WRITTEN)
def test_traces_that_we_wrote(sample: str, ending: str, shared: Path, tmp_path: Path) -> None:
    target = tmp_path / f"again.{ending}"
    to_format = "perfetto" if ending == "pftrace" else "chrome-json"
    transfer(read(shared / "data" / sample), load_writer(to_format).open_writer(target, WriteOptions()))
    origin = re.search(rb'"time_origin_ns":"(\d+)"', target.read_bytes()[:200])
    suffix = " value" if ending == "json" else ""
    compare(target.read_bytes(), read(target), int(origin[1]) if origin else 0, suffix)
