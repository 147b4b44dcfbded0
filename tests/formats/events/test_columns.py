"""A data set of decoded columns gives back what was appended, wherever the columns are kept."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from callgrove.arrays import ABSENT, MISSING, Array
from callgrove.formats.events import columns
from callgrove.formats.events.columns import ColumnData, ColumnStore
from callgrove.formats.events.dataset import Process
from callgrove.formats.events.experiment import experiment_of
from callgrove.formats.interface import ReadOptions
from callgrove.model.profiles import ProfileKind
from callgrove.model.traces.events import FLOW, LABEL, PARENT, Device, FlowDirection, SideTable, SpanKind

N = 1000
BASE = 1_700_000_000_000_000_000


def make_data(store: ColumnStore | None = None, path: str = "made.trace") -> ColumnData:
    data = ColumnData(Path(path), "1", store)
    process = data.add_process(Process(path, 17, "n1", rank=0))
    gpu = data.add_device(Device(process, "GPU", 0))
    thread = data.lane_list.add(process, ProfileKind.THREAD, 17, "main")
    stream = data.lane_list.add(process, ProfileKind.GPU_STREAM, 7, device=gpu)
    for k in range(0, N, 10):  # ten calls, each with a kernel, at a time
        at = np.arange(k, k + 10) * 1000
        calls = data.append(
            kind=np.full(10, SpanKind.API),
            name=data.names.numbers(["launch"] * 10),
            start_ns=at,
            end_ns=at + 500,
            lane=np.full(10, thread),
            correlation=np.arange(k, k + 10),
        )
        kernels = data.append(
            kind=np.full(10, SpanKind.KERNEL),
            category=data.names.numbers(["kernel"] * 10),
            name=data.names.numbers([f"kernel {number % 3}" for number in range(k, k + 10)]),
            start_ns=at + 200,
            end_ns=at + 900,
            lane=np.full(10, stream),
            correlation=np.arange(k, k + 10),
        )
        spans = np.arange(kernels, kernels + 10)
        shapes: dict[str, Array] = {"grid_x": spans * 2, "shape": data.names.numbers(["wide"] * 10)}
        data.append_side("kernel", spans, ["shape"], **shapes)
        data.append_flows(np.array([calls, kernels]), np.array([k, k]), [FlowDirection.OUT, FlowDirection.IN])
        data.append_counters(np.array([thread]), data.names.numbers(["load"]), at[:1], np.array([0.5]))
    data.base_ns = BASE
    return data


def read_columns(data: ColumnData) -> dict[str, list[object]]:
    names = ("kind", "category", "name", LABEL, "start_ns", "end_ns", "lane", "correlation", PARENT)
    chunks = list(data.events(names))
    return {name: [cell for chunk in chunks for cell in chunk[name].tolist()] for name in ("span", *names)}


def read_sides(data: ColumnData) -> list[object]:
    tables = [data.side(name) for name in ("kernel", FLOW)]
    return [[table.span.tolist(), {k: list(v) for k, v in table.columns.items()}] for table in tables if table]


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(columns, "BLOCK_ROWS", 64)


def test_events_come_in_the_order_of_appending() -> None:
    data = make_data()
    rows = read_columns(data)
    assert data.count() == 2 * N
    assert rows["span"] == list(range(2 * N))
    assert rows["start_ns"][:2] == [BASE, BASE + 1000]
    assert rows["category"][0] == ABSENT
    assert rows[LABEL] == rows["name"]
    assert set(rows[PARENT]) == {ABSENT}


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("limit", [0, 4096, 1 << 20])
def test_a_file_gives_the_same_as_memory(limit: int) -> None:
    data = make_data(ColumnStore(limit))
    assert read_columns(data) == read_columns(make_data())
    assert read_sides(data) == read_sides(make_data())
    assert data.is_shareable == (limit > 4096)


def test_pickled_columns_in_memory_are_the_same() -> None:
    data = make_data()
    again = pickle.loads(pickle.dumps(data))
    assert read_columns(again) == read_columns(data)
    assert read_sides(again) == read_sides(data)


@pytest.mark.usefixtures("small_blocks")
def test_side_tables_come_by_rising_spans() -> None:
    data = make_data()
    data.append_side("kernel", np.array([3]), grid_x=np.array([1]))  # out of order
    spans = [span for table in data.side_chunks("kernel") for span in table.span.tolist()]
    assert spans == sorted(spans)
    assert [row["shape"] for row in _rows(data.side("kernel"))][-1] is None


def _rows(table: SideTable | None) -> list[dict[str, object]]:
    assert table is not None
    return [{name: cells[k] for name, cells in table.columns.items()} for k in range(len(table.span))]


def test_a_lazy_side_table_is_made_when_asked_for() -> None:
    data, asked = make_data(), []

    def chunks() -> Iterator[SideTable]:
        asked.append(True)
        yield SideTable(np.array([0]), {"name": ("x",), "value": ("1",)})

    data.add_lazy_side("argument", chunks)
    assert not asked
    assert _rows(data.side("argument")) == [{"name": "x", "value": "1"}]


def test_missing_times_stay_missing() -> None:
    data = make_data()
    data.append(start_ns=np.array([MISSING]), end_ns=np.array([MISSING]), lane=np.array([0]), kind=np.array([6]))
    assert read_columns(data)["start_ns"][-1] == MISSING


@pytest.mark.usefixtures("small_blocks")
def test_an_experiment_is_made_of_data_sets() -> None:
    tables = []
    for limit in (0, 1 << 24):
        store = ColumnStore(limit)
        datasets = [make_data(store, "rank0.trace"), make_data(store, "rank1.trace")]
        experiment = experiment_of("made", Path("folder"), datasets, ReadOptions())
        assert experiment.traces.n_spans == 4 * N
        assert (experiment.traces.split is None) == (limit == 0)
        tables.append([chunk["start_ns"].tolist() for chunk in experiment.traces.spans(("start_ns",))])
        assert experiment.traces.counters is not None
        assert len(experiment.traces.counters) == 2 * N // 10
        assert "kernel 0" in experiment.top()["name"]
    assert tables[0] == tables[1]
