"""The layer below all formats of traces: what launched what, memory in use, sides beside spans, places."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from callgrove.formats.timeline.content import CounterPoints, Losses, Naming, Places, Slices, TrackKind
from callgrove.formats.timeline.slices import SliceMaker, SliceOptions
from callgrove.formats.timeline.source import FLOW, LAUNCHED, N_LAUNCHED, Annotations, Launches
from callgrove.model.experiment import Experiment
from callgrove.model.traces.events import SideChunks, SideTable, SpanKind, Traces
from callgrove.model.traces.pairing import MemoryInUse
from tests.formats.timeline.timelines import PLACES, Place, Span, cross_format, made

A, FREE, REALLOC = "ALLOC", "FREE", "REALLOC"
Operation = tuple[str, int, int, int]  # what, address, size, how long it took


def items(experiment: Experiment, **options: object) -> list[Slices | CounterPoints]:
    places, losses = Places.of(experiment), Losses()
    maker = SliceMaker(experiment.traces, 0, None, places, SliceOptions(**options), losses)  # type: ignore[arg-type]
    maker.read()
    return list(maker.make())


# -- memory ------------------------------------------------------------------------------------------------------------


def by_hand(operations: list[Operation]) -> tuple[list[tuple[int, int]], int]:
    """(time, bytes in use) after each operation that changes them, by end; and frees of unknown addresses."""
    ended = sorted((10 * k + took, k) for k, (_, _, _, took) in enumerate(operations))
    live: dict[int, list[int]] = {}
    in_use = unknown = 0
    curve = []
    for time, k in ended:
        what, address, size, _ = operations[k]
        if what in (FREE, REALLOC):
            if live.get(address):
                in_use -= live[address].pop()
                live[address] = []
                curve.append((time, in_use))
            else:
                unknown += 1
        if what != FREE:
            live.setdefault(address, []).append(size)
            in_use += size
            curve.append((time, in_use))
    return curve, unknown


OPERATIONS = st.lists(
    st.tuples(st.sampled_from([A, A, FREE, REALLOC]), st.integers(1, 4), st.integers(0, 99), st.integers(0, 35)),
    max_size=30,
)


@given(OPERATIONS, st.integers(1, 8))
def test_memory_in_use_follows_allocations_and_frees(operations: list[Operation], size: int) -> None:
    memory, found = MemoryInUse(), []
    for first in range(0, len(operations), size):
        part = operations[first : first + size]
        start = 10 * np.arange(first, first + len(part))
        words = list(dict.fromkeys(what for what, _, _, _ in part))
        index = np.array([words.index(what) for what, _, _, _ in part])
        address, sizes, took = (np.array([row[k] for row in part], np.int64) for k in (1, 2, 3))
        nowhere = np.zeros(len(part), np.int64)
        memory.add(start + took, index, words, sizes, nowhere, address, nowhere)
        found += list(memory.until(int(start[-1])))
    found += list(memory.until(2**62))
    curve = [point for _, _, times, values in found for point in zip(times.tolist(), values.tolist(), strict=True)]
    expected, unknown = by_hand(operations)
    assert curve == expected
    assert memory.n_unknown == unknown


def test_a_free_belongs_to_the_place_of_its_allocation() -> None:
    memory = MemoryInUse()
    column = np.array
    memory.add(
        column([1, 2, 3]),
        column([0, 0, 1]),
        [A, FREE],
        column([100, 50, -1]),
        column([0, 1, -1]),
        column([7, 8, 7]),
        column([0, 0, -1]),
    )
    curves = {device: (times.tolist(), values.tolist()) for device, _, times, values in memory.until(10)}
    assert curves == {0: ([1, 3], [100, 0]), 1: ([2], [50])}


# -- launches ----------------------------------------------------------------------------------------------------------

CALL = st.tuples(st.just(SpanKind.API), st.integers(-1, 5), st.integers(0, 40))
OPERATION = st.tuples(st.sampled_from([SpanKind.KERNEL, SpanKind.COPY]), st.integers(-1, 5), st.integers(0, 40))


@given(st.lists(CALL | OPERATION, max_size=30), st.integers(1, 10), st.booleans())
def test_every_operation_belongs_to_the_innermost_call(
    rows: list[tuple[SpanKind, int, int]], size: int, wide: bool
) -> None:
    """The call of the same correlation that started last before the operation, or else the first one."""
    far = 2**40 if wide else 0
    rows = [(kind, corr if corr < 0 else corr + far, start) for kind, corr, start in rows]
    kind, corr, start = (np.array([row[k] for row in rows], np.int64) for k in range(3))
    whole = {"span": np.arange(len(rows)), "profile": np.zeros(len(rows), np.int64), "kind": kind}
    whole |= {"correlation": corr, "start_ns": start}

    def chunks() -> Iterator[dict[str, np.ndarray]]:
        for first in range(0, len(rows), size):
            yield {name: column[first : first + size] for name, column in whole.items()}

    launches = Launches(np.zeros(1, np.int64))
    number = np.concatenate([np.empty(0, np.int64), *(launches.number_operations(chunk) for chunk in chunks())])
    launches.finish(chunks)
    found = launches.of(0, number, whole)
    launched: dict[int, int] = {}  # flow -> call
    for call in np.flatnonzero(found[N_LAUNCHED]).tolist():
        for flow in range(int(found[LAUNCHED][call]), int(found[LAUNCHED][call] + found[N_LAUNCHED][call])):
            assert flow not in launched
            launched[flow] = call
    for k, (what, own, begin) in enumerate(rows):
        calls = [(s, j) for j, (w, c, s) in enumerate(rows) if w == SpanKind.API and c == own and own >= 0]
        if what == SpanKind.API or not calls:
            assert found[FLOW][k] == -1
            continue
        before = [call for call in calls if call[0] <= begin]
        starts = max(s for s, _ in before) if before else min(s for s, _ in calls)
        assert rows[launched[int(found[FLOW][k])]][2] == starts
    assert len(launched) == int((found[FLOW] >= 0).sum())


# -- sides and places --------------------------------------------------------------------------------------------------


@given(st.lists(st.booleans(), max_size=40), st.integers(1, 7), st.integers(1, 7))
def test_sides_come_beside_spans(has: list[bool], chunk: int, piece: int) -> None:
    spans = np.flatnonzero(has)

    class Pieces:
        strings: tuple[str, ...] = ()

        def side_chunks(self, name: str, part: int) -> Iterator[SideTable]:
            for first in range(0, len(spans), piece):
                own = spans[first : first + piece]
                yield SideTable(own, {"bytes": own * 10})

    beside = SideChunks(Traces(spans_backend=Pieces()), "copy", 0)  # type: ignore[arg-type]
    found: dict[int, int] = {}
    for first in range(0, len(has), chunk):
        asked = np.arange(first, min(first + chunk, len(has)))
        for table, rows, place in beside.of(asked):
            found |= dict(zip(asked[place].tolist(), np.asarray(table.columns["bytes"])[rows].tolist(), strict=True))
    assert found == {int(span): int(span) * 10 for span in spans}


def test_tracks_of_processes() -> None:
    places = Places.of(cross_format())
    first, second = places.processes.values()
    assert [(t.kind, t.name) for t in first.tracks] == [
        (TrackKind.PROCESS, "rank 0 alpha pid 15"),
        (TrackKind.THREAD, "main"),
        (TrackKind.THREAD, "thread 1"),
        (TrackKind.GROUP, "GPU 0"),
        (TrackKind.STREAM, "GPU 0 stream 0"),
        (TrackKind.GROUP, "GPU 1"),
        (TrackKind.STREAM, "GPU 1 stream 3"),
    ]
    assert [t.parent for t in first.tracks] == [0, 0, 0, 0, 3, 0, 5]
    assert (second.process.pid, second.process.real_pid) == (2, 15)


def test_real_ids_are_kept_where_they_tell_processes_apart() -> None:
    spans = [Span(0, SpanKind.API, "f", 1, 2)]
    apart = Places.of(made(spans, [Place(0, pid=70, tid=71), Place(1, pid=80, tid=80)]))
    assert [p.process.pid for p in apart.processes.values()] == [70, 80]
    assert [p.tracks[1].tid for p in apart.processes.values()] == [71, 80]


def test_threads_keep_their_ids_where_others_have_none() -> None:
    """As in exports of Nsight, where events of no known thread lie beside those of real ones."""
    spans = [Span(0, SpanKind.API, "f", 1, 2)]
    threads = [Place(0, pid=70, tid=tid, name=f"t{k}") for k, tid in enumerate((71, 0, 2**40, 1, 71, 70))]
    (own,) = Places.of(made(spans, threads)).processes.values()
    tids = [t.tid for t in own.tracks if t.kind is TrackKind.THREAD]
    assert [tids[0], tids[3], tids[5]] == [71, 1, 70]
    assert len(set(tids)) == len(tids)
    assert all(0 < tid < 2**31 for tid in tids)


def test_streams_are_called_as_rocprofv3_calls_them() -> None:
    tracks = Places.of(cross_format(), Naming.ROCPD).processes[0].tracks
    assert [t.name for t in tracks if t.kind in (TrackKind.THREAD, TrackKind.STREAM)] == [
        *("THREAD 0", "THREAD 1"),
        *("STREAM [0]", "STREAM [3]"),
    ]


def test_processes_come_by_rank_and_their_slices_one_after_the_other() -> None:
    ranks = [3, 0, 2, 1]
    places = [Place(rank, f"h{rank}", 10 + rank, 10 + rank) for rank in ranks]
    spans = [Span(k % 4, SpanKind.API, f"f{k}", 100 - k, 200 - k) for k in range(12)]
    found = [item for item in items(made(spans, places)) if isinstance(item, Slices)]
    assert [item.process.process.rank for item in found] == [0, 1, 2, 3]
    for item in found:
        assert item.start_ns.tolist() == sorted(item.start_ns.tolist())


def test_one_batch_or_many_give_the_same_slices() -> None:
    spans = [Span(k % len(PLACES), SpanKind.API, f"n{k % 3}", k * 7 % 50, k * 7 % 50 + k % 5, k) for k in range(200)]
    whole, parts = (
        Counter(
            (item.process.process.index, int(t), int(s), int(e), item.name.all[int(n)])
            for item in items(made(spans, PLACES, chunk_rows=rows))
            if isinstance(item, Slices)
            for t, s, e, n in zip(item.track, item.start_ns, item.end_ns, item.name.index, strict=True)
        )
        for rows in (1000, 3)
    )
    assert whole == parts


def test_without_annotations_only_the_unfinished_say_something() -> None:
    found = [i for i in items(cross_format(), annotations=Annotations.NONE) if isinstance(i, Slices)]
    assert [note.key for item in found for note in item.notes] == ["unfinished"]


def test_a_batch_keeps_its_texts_in_the_order_of_use() -> None:
    spans = [Span(0, SpanKind.API, name, k, k + 1) for k, name in enumerate(("b", "a", "b", "c"))]
    (item,) = (i for i in items(made(spans)) if isinstance(i, Slices))
    assert list(item.name.all) == ["b", "a", "c"]
    assert replace(item, notes=[]).name.index.tolist() == [0, 1, 0, 2]
