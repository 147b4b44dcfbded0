"""Profiles and the system tree, which are made of columns of all lanes: the same as lane after lane."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from callgrove.formats.events.columns import ColumnData
from callgrove.formats.events.dataset import DeviceColumns, Lane, LaneColumns, Process, as_unsigned
from callgrove.formats.events.places import add_places, are_of_program, process_and_device
from callgrove.model.builder import ExperimentBuilder
from callgrove.model.experiment import Experiment
from callgrove.model.profiles import ProfileKind
from callgrove.model.traces.events import Device

KINDS = (ProfileKind.THREAD, ProfileKind.GPU_STREAM, ProfileKind.QUEUE, ProfileKind.OTHER)
NUMBERS = st.one_of(st.integers(0, 4), st.sampled_from([-1, 2**31, 2**63 - 1, 2**63, 2**64 - 1]))


@dataclass(frozen=True)
class Drawn:
    """The places of a data set: lanes are (process, kind, number, name, device, of the profiler)."""

    hosts: tuple[str, ...]
    devices: tuple[tuple[str, int, str], ...]
    lanes: tuple[tuple[int, ProfileKind, int, str, int, bool], ...]


@st.composite
def drawn(draw: st.DrawFn) -> Drawn:
    hosts = draw(st.lists(st.sampled_from(["", "a", "b"]), min_size=1, max_size=3))
    device = st.tuples(st.sampled_from(["GPU", "CPU"]), st.integers(0, 2), st.sampled_from(["", "MI300X"]))
    devices = draw(st.lists(device, max_size=3))
    lane = st.tuples(
        st.integers(0, len(hosts) - 1),
        st.sampled_from(KINDS),
        NUMBERS,
        st.sampled_from(["", "main"]),
        st.integers(-1, len(devices) - 1),
        st.booleans(),
    )
    return Drawn(tuple(hosts), tuple(devices), tuple(draw(st.lists(lane, max_size=6))))


def data_set(number: int, places: Drawn) -> ColumnData:
    data = ColumnData(Path(f"{number}.db"), "1")
    for k, host in enumerate(places.hosts):
        data.add_process(Process(f"uid{number}.{k}", 100 * number + k, host=host, machine=host and f"m{host}"))
    for kind, index, name in places.devices:
        data.add_device(Device(0, kind, index, name, {"logical_index": "7"} if name else {}))
    data.lane_list.all.extend(Lane(*lane) for lane in places.lanes)
    return data


def built(data: list[ColumnData]) -> tuple[Experiment, list[list[int]]]:
    builder = ExperimentBuilder("test", "1", path="test")
    runs = [0] * sum(len(one.processes) for one in data)
    profiles = add_places(builder, data, "", runs)
    return builder.build(), [part.tolist() for part in profiles]


def tree_by_objects(data: list[ColumnData], ranks: list[int], nodes: list[int]) -> list[tuple[object, ...]]:
    """The system tree, place by place: parent, kind, name, rank, attributes; leaves are marked by their kind."""
    rows: list[tuple[object, ...]] = []
    known: dict[tuple[int, str, int], int] = {}

    def below(parent: int, kind: str, name: str, number: int, about: dict[str, str]) -> int:
        if (parent, kind, number) not in known:
            known[parent, kind, number] = len(rows)
            rows.append((parent, kind, name, number, {word: text for word, text in about.items() if text}))
        return known[parent, kind, number]

    first = 0
    for one in data:
        processes = []
        for process, rank, number in zip(one.processes, ranks[first:], nodes[first:], strict=False):
            about = {"hostname": process.host, "machine_id": process.machine}
            node = below(-1, "node", process.host or f"node {number}", number, about)
            processes.append(len(rows))
            said = {"pid": str(process.pid), "command": "", "hostname": process.host, "guid": process.uid}
            rows.append((node, "process", f"process {rank}", rank, said))
        first += len(one.processes)
        for lane in one.lanes:
            above = processes[lane.process]
            if lane.device >= 0:
                device = one.devices[lane.device]
                about = {"name": device.name, "label": device.label}
                above = below(above, "device", f"{device.kind} {device.index}", device.index, about)
            elif lane.of_profiler:
                above = below(above, "profiler", "profiler", 0, {})
            rows.append((above, "thread", lane.name or f"{lane.kind.word} {lane.number}", -1, {}))
    return rows


@given(st.lists(drawn(), min_size=1, max_size=4))
def test_the_system_tree_is_the_one_that_lanes_make_one_by_one(places: list[Drawn]) -> None:
    data = [data_set(number, one) for number, one in enumerate(places)]
    experiment, profiles = built(data)
    system, leaves = experiment.system, experiment.profiles.system
    columns = zip(system.parent.tolist(), system.kind, system.name, system.rank.tolist(), strict=True)
    made = [(*row, dict(system.attributes.get(k, {}))) for k, row in enumerate(columns)]
    of_process = [row for row in made if row[1] == "process"]
    nodes = [made[int(str(row[0]))][3] for row in of_process]
    wanted = tree_by_objects(data, [int(str(row[3])) for row in of_process], [int(str(node)) for node in nodes])
    assert made == wanted
    assert leaves.tolist() == [k for k, row in enumerate(wanted) if row[1] == "thread"]
    assert [p for part in profiles for p in part] == list(range(len(leaves)))
    assert list(map(len, profiles)) == [len(one.lanes) for one in data]


@given(st.lists(drawn(), min_size=1, max_size=4))
def test_columns_of_lanes_and_devices(places: list[Drawn]) -> None:
    data = [data_set(number, one) for number, one in enumerate(places)]
    lanes = [lane for one in data for lane in one.lanes]
    joined = LaneColumns.join([one.lane_columns() for one in data])
    assert list(joined.lanes()) == lanes
    assert as_unsigned(joined.number).tolist() == [lane.number & (2**64 - 1) for lane in lanes]
    devices = DeviceColumns.join([one.device_columns() for one in data])
    every = [device for one in data for device in one.devices]
    assert (list(devices.kind), list(devices.label)) == ([d.kind for d in every], [d.label for d in every])
    firsts = np.cumsum([0, *(len(one.processes) for one in data)]).tolist()
    owner = [first + lane.process for first, one in zip(firsts, data, strict=False) for lane in one.lanes]
    process, device = process_and_device(data)
    assert (process.tolist(), device.tolist()) == (owner, [lane.device for lane in lanes])
    assert are_of_program(data).tolist() == [lane.device < 0 and not lane.of_profiler for lane in lanes]
