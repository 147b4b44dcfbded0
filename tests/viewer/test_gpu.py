"""The summary of a trace in a page: the numbers of `callgrove summary`."""

from __future__ import annotations

from typing import Any

import numpy as np

from callgrove.analysis.summary import summarise, tables
from callgrove.examples import example, gpu_example, study_example
from callgrove.model.builder import ExperimentBuilder
from callgrove.model.profiles import ProfileKind
from callgrove.model.traces.events import ArraySpans, SpanKind
from callgrove.viewer.page import Choice, Detail, Limits, Panel
from callgrove.viewer.summaries import gpu_maker


def panel_of(share: float = 1.0, choice: Choice | None = None) -> Panel:
    maker = gpu_maker(gpu_example(), choice or Choice())
    assert maker is not None
    devices, panel, efficiency = maker.panels(Detail(share))
    assert (efficiency.kind, efficiency.title) == ("efficiency", "Efficiency")
    assert (devices.kind, devices.title) == ("devices", "Overview")
    assert devices.data is panel.data  # so that a page holds it once
    return panel


def plain(values: Any) -> list[Any]:
    if isinstance(values, np.ndarray):
        return [None if np.isnan(value) else value for value in values.tolist()]
    return [int(text) if text else None for text in values.values]


def test_sections_are_those_of_the_summary() -> None:
    panel = panel_of()
    assert (panel.kind, panel.title, panel.notes) == ("gpu", "GPU", ())
    expected = list(tables(summarise(gpu_example())))
    assert [section["name"] for section in panel.data["sections"]] == [table.names[0] for table in expected]
    for section, table in zip(panel.data["sections"], expected, strict=True):
        assert list(section["rows"].values) == table.columns[0].plain()
        assert [column["name"] for column in section["columns"]] == list(table.names[1:])
        for shown, column in zip(section["columns"], table.columns[1:], strict=True):
            assert plain(shown["values"]) == column.plain()


def test_what_devices_did_adds_up() -> None:
    devices = panel_of().data["devices"]
    busy = sum(one["ns"] for one in devices["doing"] if one["name"] != "idle")
    assert busy.tolist() == devices["busy_ns"].tolist()
    assert sum(one["ns"] for one in devices["doing"]).tolist() == devices["span_ns"].tolist()
    assert sum(one["total_ns"] for one in devices["doing"]) == devices["total_span_ns"]


def test_one_rank_alone() -> None:
    devices = panel_of(choice=Choice(ranks={1})).data["devices"]
    assert devices["rank"].tolist() == [1]


def test_what_is_too_much_is_left_out_and_said() -> None:
    builder = ExperimentBuilder("made", title="made")
    builder.add_profile(ProfileKind.GPU_STREAM, [(2, 0, 0, 3), (6, 0, 0, 3)])
    n = 40
    columns = {name: np.full(n, -1) for name in ("category", "correlation", "context")}
    columns |= {"profile": np.zeros(n, int), "kind": np.full(n, int(SpanKind.KERNEL)), "depth": np.zeros(n, int)}
    start = 2**60 + np.arange(n) * 100  # gaps begin at times that have more digits than a page's numbers
    columns |= {"name": np.arange(n), "start_ns": start, "end_ns": start + 10 + np.arange(n)}
    builder.set_traces(None, ArraySpans(columns, tuple(f"kernel {k}" for k in range(n))))
    maker = gpu_maker(builder.build(), Choice())
    assert maker is not None
    panel = next(panel for panel in maker.panels(Detail(1e-6)) if panel.kind == "gpu")
    kernels = next(section for section in panel.data["sections"] if section["name"] == "kernels")
    assert list(kernels["rows"].values)[:2] == ["kernel 39", "kernel 38"]
    assert (len(kernels["rows"].values), kernels["left"]) == (10, 30)
    assert "kernels: 30 more rows with less time are left out." in panel.notes
    gaps = next(section for section in panel.data["sections"] if section["name"] == "longest-gaps")
    starts = next(column["values"] for column in gaps["columns"] if column["name"] == "start_ns")
    assert starts.values[0] == str(2**60 + 10)


def test_nothing_without_spans() -> None:
    assert gpu_maker(example(), Choice()) is None
    assert gpu_maker(study_example(), Choice()) is None


def test_sums_are_those_of_all_devices_and_shares_those_of_all_rows_above_every_limit() -> None:
    below, above = (
        gpu_maker(gpu_example(), Choice(), limits) for limits in (Limits(), Limits(section_rows=1, devices=1))
    )
    assert below is not None
    assert above is not None
    (_, whole, _), (_, cut, _) = below.panels(Detail()), above.panels(Detail())
    assert len(cut.data["devices"]["rank"]) == 1 < len(whole.data["devices"]["rank"])
    for name in ("total_span_ns", "total_busy_ns"):
        assert cut.data["devices"][name] == whole.data["devices"][name]
    assert [one["total_ns"] for one in cut.data["devices"]["doing"]] == [
        one["total_ns"] for one in whole.data["devices"]["doing"]
    ]
    for shown, everything in zip(cut.data["sections"], whole.data["sections"], strict=True):
        assert len(shown["rows"].values) == 1
        assert shown["left"] == len(everything["rows"].values) - 1
        for column, complete in zip(shown["columns"], everything["columns"], strict=True):
            assert plain(column["values"])[0] in plain(complete["values"])
    assert any("more rows with less time are left out" in note for note in cut.notes)
    assert any("devices the first 1 are shown" in note for note in cut.notes)
