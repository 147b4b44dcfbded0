"""Enter and leave records that are decoded here, against what OTF2's library tells of the same files."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from callgrove.formats.timeline.otf2 import events
from callgrove.formats.timeline.otf2.archive import read_raw_definitions
from callgrove.formats.timeline.otf2.events import LocationEvents, Task
from tests.exhaustive import exhaustive, whole_or_some
from tests.requirements import need_module

otf2 = need_module("otf2")
COUNTS = ("counts", "program", "n_read", "n_open", "n_stray", "n_crossed", "problem")


def read_both(anchor: Path) -> tuple[dict[int, LocationEvents], dict[int, LocationEvents]]:
    """Return the locations of an archive that are decoded here, and all of them as the library tells."""
    raw, _ = read_raw_definitions(anchor)
    locations = [(row[0], row[3]) for row in raw["Location"]]
    direct = events._read_directly(Task(anchor, locations, raw["about"]["chunk_size"]))
    return direct, {one.location: one for one in events._read_by_library(anchor, locations)}


def assert_equal(left: LocationEvents, right: LocationEvents) -> None:
    for name in ("reference", "start", "end"):
        assert np.array_equal(getattr(left, name), getattr(right, name)), name
    assert left.tables.keys() == right.tables.keys()
    for code, table in left.tables.items():
        assert np.array_equal(table, right.tables[code]), code
    assert left.span.keys() == right.span.keys()
    assert all(np.array_equal(left.span[code], right.span[code]) for code in left.span)
    assert [getattr(left, name) for name in COUNTS] == [getattr(right, name) for name in COUNTS]


def write_archive(
    folder: Path, fill: Callable[[Any, Any, Sequence[Any]], None], n_regions: int, chunk_size: int = 1 << 20
) -> Path:
    """Write an archive of one location, which `fill` is given with its regions; return its anchor."""
    with otf2.writer.open(str(folder / "archive"), chunk_size_events=chunk_size) as trace:
        node = trace.definitions.system_tree_node("n")
        group = trace.definitions.location_group("p", system_tree_parent=node)
        writer = trace.event_writer("t", group=group)
        fill(trace, writer, [trace.definitions.region(f"f{k}") for k in range(n_regions)])
    return folder / "archive/traces.otf2"


def fill_at_random(n: int, seed: int = 7) -> Callable[[Any, Any, Sequence[Any]], None]:
    """Return what writes events of many types: some at equal times, in which bytes look like other records."""

    def fill(trace: Any, writer: Any, regions: Sequence[Any]) -> None:
        chance = random.Random(seed)
        member = trace.definitions.metric_member("m")
        metric = trace.definitions.metric_class([member])
        mark = trace.definitions.attribute("mark", type=otf2.Type.UINT64)
        time = 0x050C010D050C01  # bytes of times, enter and leave records
        for _ in range(n):
            time += chance.choice((0, 1, 5, 0x0C05, 0x050C01))
            region = chance.choice(regions)
            write = chance.choices(
                (
                    lambda region=region, time=time: writer.enter(time, region),
                    lambda region=region, time=time: writer.leave(time, region),
                    lambda time=time: writer.metric(time, metric, chance.random()),
                    lambda time=time: writer.buffer_flush(time, time + 5),
                    lambda time=time: writer.thread_fork(time, otf2.Paradigm.OPENMP, 5, attributes={mark: 5}),
                ),
                (8, 8, 2, 1, 1),
            )[0]
            write()

    return fill


@pytest.mark.parametrize("n_regions", [5, 300, pytest.param(70_000, marks=exhaustive)])
def test_archives_of_many_kinds_of_events(n_regions: int, tmp_path: Path) -> None:
    direct, told = read_both(write_archive(tmp_path, fill_at_random(3000), n_regions))
    assert_equal(direct[0], told[0])
    assert len(told[0].start) > 1000


def test_files_of_several_chunks(tmp_path: Path) -> None:
    anchor = write_archive(tmp_path, fill_at_random(60_000), 200, 1 << 18)
    assert (anchor.with_suffix("") / "0.evt").stat().st_size > 2 << 18
    direct, told = read_both(anchor)
    assert_equal(direct[0], told[0])


def test_a_genuine_archive(shared: Path) -> None:
    direct, told = read_both(shared / "data/own/otf2/otf2_2/traces.otf2")
    assert len(direct) == 4  # two of them with clock offsets
    for location, one in direct.items():
        assert_equal(one, told[location])


def compress(number: int) -> bytes:
    size = (number.bit_length() + 7) // 8
    return bytes([size]) + number.to_bytes(size, "little")


def local_definitions(regions: Sequence[int], clock: Sequence[tuple[int, int]]) -> bytes:
    """Return the file of a location that numbers its regions by itself and has its own clock."""
    pairs = b"".join(map(compress, regions))
    table = b"\x03" + compress(len(regions)) + b"\x00" + pairs
    records = b"\x05" + bytes([len(table)]) + table
    for time, offset in clock:
        body = struct.pack("<Q", time) + compress(offset) + struct.pack("<d", 0)
        records += b"\x06" + bytes([len(body)]) + body
    return b"\x03\x42" + struct.pack("<QQ", 1, 0) + records + b"\x02\x01"


def test_numbers_of_regions_and_clocks_of_a_location(tmp_path: Path) -> None:
    anchor = write_archive(tmp_path, fill_at_random(2000), 9)
    start = 0x050C010D050C01
    clock = [(start + 1000, 17), (start + 50_000_000, 90_017), (start + 60_000_000, 3)]
    plain, _ = read_both(anchor)
    (anchor.with_suffix("") / "0.def").write_bytes(local_definitions([8, 7, 6, 5, 4, 3, 2], clock))
    direct, told = read_both(anchor)
    assert_equal(direct[0], told[0])
    assert not np.array_equal(direct[0].reference, plain[0].reference)
    assert not np.array_equal(direct[0].start, plain[0].start)


def test_what_is_unusual_is_left_to_the_library(tmp_path: Path) -> None:
    def fill(trace: Any, writer: Any, regions: Sequence[Any]) -> None:
        mark = trace.definitions.attribute("mark", type=otf2.Type.UINT64)
        writer.enter(5, regions[0], attributes={mark: 12})
        writer.leave(6, regions[0])

    anchor = write_archive(tmp_path, fill, 1)
    direct, told = read_both(anchor)
    assert not direct
    both = events.read_locations(Task(anchor, [(0, 2)], 1 << 20))
    assert_equal(both[0], told[0])


@whole_or_some
def test_flipped_bytes_are_read_alike_or_left_to_the_library(whole: bool, tmp_path: Path) -> None:
    anchor = write_archive(tmp_path, fill_at_random(40), 300)
    file = anchor.with_suffix("") / "0.evt"
    data = file.read_bytes()
    for at in range(0, len(data), len(data) // (40 if whole else 5)):
        file.write_bytes(data[:at] + bytes([data[at] ^ 0x09]) + data[at + 1 :])
        direct, told = read_both(anchor)
        for location, one in direct.items():
            assert_equal(one, told[location])
