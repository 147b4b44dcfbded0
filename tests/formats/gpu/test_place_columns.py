"""Devices and lanes of many sets of tables as columns: those of each set alone, and those that its rows make one by
one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from callgrove.arrays import ABSENT
from callgrove.binary.sqlite.batch import OwnedRows
from callgrove.binary.sqlite.cells import MISSING
from callgrove.formats.events.dataset import LaneList
from callgrove.formats.gpu.rocpd.owners import ByOwner, any_of_each, count_within, have_repeated
from callgrove.formats.gpu.rocpd.place_columns import PlaceColumns, UsedPlaces
from callgrove.formats.gpu.rocpd.tables import LISTED, PLACE_COLUMNS, TRACK, TRACK_COLUMNS
from callgrove.model.profiles import ProfileKind

Rows = Sequence[tuple[Any, ...]]
IDS = st.sampled_from([0, 1, 2, 3, MISSING])
SOME = st.sampled_from([0, 1, 2, -3, MISSING])
NAMES = st.sampled_from([None, "", "one"])
COLUMNS = {
    "info_agent": (*LISTED["info_agent"],),
    "info_thread": ("id", "tid", "name"),
    "info_stream": ("id", "name"),
    "on_device": (*PLACE_COLUMNS, TRACK),
    "on_threads": ("tid", TRACK),
    "samples": (TRACK,),
    "track": ("id", *TRACK_COLUMNS),
}
AGENT = {"id": IDS, "type": st.sampled_from([None, "GPU", "CPU"]), "product_name": NAMES, "name": NAMES}
ROWS = {
    "info_agent": st.tuples(*(AGENT.get(name, SOME) for name in COLUMNS["info_agent"])),
    "info_thread": st.tuples(IDS, SOME, NAMES),
    "info_stream": st.tuples(IDS, NAMES),
    "on_device": st.tuples(*([SOME] * len(PLACE_COLUMNS)), st.sampled_from([MISSING, MISSING, 1, 2])),
    "on_threads": st.tuples(SOME, st.sampled_from([MISSING, MISSING, 1, 2])),
    "samples": st.tuples(st.sampled_from([MISSING, 1, 2])),
    "track": st.tuples(IDS, *([SOME] * len(TRACK_COLUMNS))),
}
SETS = st.lists(
    st.fixed_dictionaries({name: st.lists(row, max_size=3 if name == "samples" else 5) for name, row in ROWS.items()}),
    min_size=1,
    max_size=4,
)
TEXTS = ("type", "name", "product_name")


def joined(sets: Sequence[dict[str, Rows]], table: str) -> OwnedRows:
    rows = [row for one in sets for row in one[table]]
    cells = zip(*rows, strict=True) if rows else [()] * len(COLUMNS[table])
    columns = zip(COLUMNS[table], cells, strict=True)
    arrays = {name: np.array(cell, object if name in TEXTS else np.int64) for name, cell in columns}
    return OwnedRows(arrays, np.array([len(one[table]) for one in sets]))


def places(sets: Sequence[dict[str, Rows]]) -> PlaceColumns:
    listed = {name: joined(sets, name) for name in ("info_agent", "info_thread", "info_stream")}
    used = UsedPlaces(*(joined(sets, name) for name in ("on_device", "on_threads", "samples")))
    return PlaceColumns(listed, used, lambda: joined(sets, "track"))


def told(columns: PlaceColumns, number: int) -> list[Any]:
    devices, streams = columns.devices_of(number), columns.streams_of(number)
    threads, agents = columns.rows_of_threads(number), columns.rows_of_devices(number)
    return [
        columns.lanes_of(number).lanes(),
        (list(devices.kind), devices.index.tolist(), list(devices.name), list(devices.label)),
        (streams.device.tolist(), streams.id.tolist(), streams.lane.tolist()),
        (columns.thread_ids[threads].tolist(), columns.thread_lanes[threads].tolist()),
        (columns.agent_ids[agents].tolist(), columns.is_gpu[agents].tolist()),
        [columns.agent_numbers(row) for row in range(agents.start, agents.stop)],
        int(columns.unknown_lanes[number]),
        bool(columns.has_samples[number]),
        int(columns.n_lanes[number]),
    ]


@given(SETS)
def test_places_of_many_sets_are_those_of_each(sets: list[dict[str, Rows]]) -> None:
    together = places(sets)
    for number, one in enumerate(sets):
        assert told(together, number) == told(places([one]), 0)


def first_by_id(rows: Rows) -> dict[int, int]:
    return {row[0]: k for k, row in reversed(list(enumerate(rows)))}


def lanes_by_rows(one: dict[str, Rows]) -> LaneList:
    """The lanes of a set, row after row; of devices that are GPUs only what events name by their agent."""
    lanes, agents = LaneList(), first_by_id(one["info_agent"])
    names: dict[int, str | None] = dict(one["info_stream"])
    for id_, tid, name in one["info_thread"]:
        lanes.add(0, ProfileKind.THREAD, id_ if tid == MISSING else tid, name or "")
    used = {(agents.get(row[0], ABSENT), row[3]) for row in one["on_device"]}
    for device, stream in sorted(used):
        name = names.get(stream) or ("" if stream == MISSING else f"stream {stream}")
        lanes.add(0, ProfileKind.GPU_STREAM, max(stream, 0), name, device)
    threads = first_by_id(one["info_thread"])
    if any(tid not in threads for tid, _ in one["on_threads"]):
        lanes.add_unknown(0)
    return lanes


@given(SETS)
def test_lanes_are_those_that_rows_make_one_by_one(sets: list[dict[str, Rows]]) -> None:
    """Of sets without tracks, whose events name an agent and no other."""
    for one in sets:
        agent_only = [(row[0], MISSING, MISSING, row[3], MISSING) for row in one["on_device"]]
        known = {row[0] for row in one["info_agent"]}
        plain = [row for row in agent_only if row[0] in known and MISSING not in known]
        on_threads = [(tid, MISSING) for tid, _ in one["on_threads"]]
        simple = {**one, "on_device": plain, "on_threads": on_threads, "samples": []}
        assert list(places([simple]).lanes_of(0).lanes()) == lanes_by_rows(simple).all


def test_few_helpers_of_owners() -> None:
    n = np.array([2, 0, 3])
    assert any_of_each(n, np.array([False, True, False, False, False])).tolist() == [True, False, False]
    assert count_within(np.repeat(np.arange(3), n), np.array([True, True, True, False, True])).tolist() == [
        0,
        1,
        0,
        1,
        1,
    ]
    assert have_repeated(n, np.array([1, 2, 1, 2, 1])).tolist() == [False, False, True]
    assert ByOwner(n, np.array([5, 6, 5, 7, 5]))(np.array([1, 1, 2]), np.array([6, 5, 5, 6])).tolist() == [1, -1, 2, -1]
