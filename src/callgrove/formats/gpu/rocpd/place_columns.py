"""Where events happened, of one set of rocprofv3's tables or of many at once, by columns.

Specifications: gpu-traces.md sections 3.2 and 3.3; more-inputs.md 7 for schema 4, where tracks say what happened where.

    UsedPlaces      where events happened, each place of a set once or a few times
    PlaceColumns    what the tables list, as devices and lanes: agents, threads, and the streams that were used

Sets come one after the other; devices and lanes count from 0 in each. Every database of a large run lists the same
dozen of places, so that thousands of them are read without an object for each place: those of one set are made when
somebody asks for them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from callgrove.arrays import ABSENT, Array, Bools, Ints, distinct_rows, find_first_of_equal, in_order
from callgrove.binary.sqlite.batch import OwnedRows
from callgrove.binary.sqlite.cells import MISSING
from callgrove.formats.events.dataset import UNKNOWN_THREAD, DeviceColumns, LaneColumns
from callgrove.formats.gpu.rocpd.owners import ByOwner, any_of_each, count_within
from callgrove.formats.gpu.rocpd.tables import AGENT_COLUMNS, AGENT_NUMBERS, TRACK, TRACK_COLUMNS
from callgrove.model.profiles import ProfileKind

__all__ = ["PlaceColumns", "Streams", "Tracks", "UsedPlaces", "device_of"]

GPU = "GPU"
RELATIVE = "logical_index"  # the number by which the label of a device calls it


def device_of(agents: Sequence[Array], is_gpu: Bools, of_track: Array | None = None) -> Array:
    """Return the device that events ran on, from those of `AGENT_COLUMNS`: the agent's, or for copies the GPU at either
    end, or else that of the track. `is_gpu` has an entry for every device, and a last one for no device, which is
    -1."""
    agent, to, origin = agents
    if len(agent) and int(agent.min()) >= 0:
        return agent
    otherwise = to if of_track is None else np.where(of_track >= 0, of_track, to)
    return np.where(agent >= 0, agent, np.where(is_gpu[to], to, np.where(is_gpu[origin], origin, otherwise)))


@dataclass(frozen=True)
class UsedPlaces:
    """Where the events of sets happened: the columns of `PLACE_COLUMNS` of what ran on devices, and the track; threads
    and tracks of everything else; the tracks of samples."""

    on_device: OwnedRows
    on_threads: OwnedRows
    samples: OwnedRows

    @cached_property
    def need_tracks(self) -> Bools:
        """Return for every set whether the table of tracks tells where some of its events happened."""
        return _name_tracks(self.on_device) | _name_tracks(self.on_threads) | (self.samples.n > 0)


def _name_tracks(rows: OwnedRows) -> Bools:
    """Return which sets have a row that names a track."""
    return any_of_each(rows.n, rows.cells[TRACK] != MISSING)


class Tracks:
    """What the rows of the tables of tracks say of the events that name them."""

    def __init__(self, rows: OwnedRows) -> None:
        self._rows = ByOwner(rows.n, rows.cells["id"])
        self._columns = {name: np.append(rows.cells[name], MISSING) for name in TRACK_COLUMNS}

    def column(self, name: str, n: Ints, tracks: Ints) -> Ints:
        """Return a column for tracks by id; absent where there is no such track."""
        return self._columns[name][self._rows(n, tracks)]

    def are_known(self, n: Ints, tracks: Ints) -> Bools:
        return np.asarray(self._rows(n, tracks) >= 0)


@dataclass(frozen=True)
class Streams:
    """The streams of one set that were used: the device of each, -1 for none, its id, and its lane."""

    device: Ints
    id: Ints
    lane: Ints


class PlaceColumns:
    """The devices and lanes of sets of tables."""

    def __init__(self, listed: Mapping[str, OwnedRows], used: UsedPlaces, read_tracks: Callable[[], OwnedRows]) -> None:
        """Make them of the tables that list agents, threads and streams, and of where events happened. Tracks are read
        where any set needs them."""
        agents, threads = listed["info_agent"], listed["info_thread"]
        self.agent_ids, self.thread_ids = agents.cells["id"], threads.cells["id"]
        self.n_devices, self._n_threads = agents.n, threads.n
        self.has_samples, self.needs_tracks = used.samples.n > 0, used.need_tracks
        self._devices, self._agent_numbers = _make_devices(agents)
        self.is_gpu = np.array([kind == GPU for kind in self._devices.kind], np.bool_)
        tracks = Tracks(read_tracks()) if self.needs_tracks.any() else None
        self.thread_lanes, on_threads = _make_thread_lanes(threads)
        owner, device, stream = self._find_streams(used.on_device, tracks)
        self._n_streams = np.bincount(owner, minlength=len(agents.n))
        n_before = np.bincount(on_threads.owner, minlength=len(agents.n))
        lane, on_streams = _make_stream_lanes(owner, device, stream, n_before, listed["info_stream"])
        self._streams = Streams(device, stream, lane)
        unknown = _make_unknown_lanes(_have_homeless_rows(used, threads, tracks))
        self._lanes, self.n_lanes = _join_lanes([on_threads, on_streams, unknown], len(agents.n))
        self.unknown_lanes = np.full(len(agents.n), ABSENT, np.int64)
        self.unknown_lanes[unknown.owner] = self.n_lanes[unknown.owner] - 1

    def _find_streams(self, rows: OwnedRows, tracks: Tracks | None) -> tuple[Ints, Ints, Ints]:
        """Return the streams that events ran on, in order: the set, the device in it, and the id.

        A stream's id is unique on a device only; a copy belongs to the device it goes to or, if that is a CPU or
        unknown, comes from.
        """
        find, cells = ByOwner(self.n_devices, self.agent_ids), rows.cells
        agents, streams = [find(rows.n, cells[name]) for name in AGENT_COLUMNS], cells["stream_id"]
        of_track = None
        if tracks is not None:
            on_tracks = np.repeat(_name_tracks(rows), rows.n)
            agent = tracks.column("agent_id", rows.n, cells[TRACK])
            of_track = np.where(on_tracks, find(rows.n, agent), ABSENT)
            told = tracks.column("stream_id", rows.n, cells[TRACK])
            streams = np.where(on_tracks & (streams == MISSING), told, streams)
        device = device_of(agents, np.append(self.is_gpu, False), of_track)
        first = np.repeat(np.cumsum(self.n_devices) - self.n_devices, rows.n)
        (owner, device, streams), _ = distinct_rows(rows.owner, np.where(device < 0, ABSENT, device - first), streams)
        return owner, device, streams

    # -- of one set ----------------------------------------------------------------------------------------------------

    def rows_of_devices(self, number: int) -> slice:
        return _slice(self._first_devices, self.n_devices, number)

    def rows_of_threads(self, number: int) -> slice:
        return _slice(self._first_threads, self._n_threads, number)

    @cached_property
    def _first_devices(self) -> Ints:
        return np.cumsum(self.n_devices) - self.n_devices

    @cached_property
    def _first_threads(self) -> Ints:
        return np.cumsum(self._n_threads) - self._n_threads

    @cached_property
    def _first_streams(self) -> Ints:
        return np.cumsum(self._n_streams) - self._n_streams

    @cached_property
    def _first_lanes(self) -> Ints:
        return np.cumsum(self.n_lanes) - self.n_lanes

    def streams_of(self, number: int) -> Streams:
        rows, every = _slice(self._first_streams, self._n_streams, number), self._streams
        return Streams(every.device[rows], every.id[rows], every.lane[rows])

    def lanes_of(self, number: int) -> LaneColumns:
        return self._lanes.take(_slice(self._first_lanes, self.n_lanes, number))

    def devices_of(self, number: int) -> DeviceColumns:
        return self._devices.take(self.rows_of_devices(number))

    def agent_numbers(self, row: int) -> dict[str, str]:
        """Return the numbers of an agent, by the row of its device."""
        told = {word: int(numbers[row]) for word, numbers in self._agent_numbers.items()}
        return {word: str(number) for word, number in told.items() if number != MISSING}


def _slice(firsts: Ints, n: Ints, number: int) -> slice:
    first = int(firsts[number])
    return slice(first, first + int(n[number]))


# -- devices -----------------------------------------------------------------------------------------------------------


def _make_devices(agents: OwnedRows) -> tuple[DeviceColumns, dict[str, Ints]]:
    """Return agents as devices, and the numbers that agents have."""
    cells = agents.cells
    kinds = [type_ or GPU for type_ in cells["type"].tolist()]
    index = np.where(cells["type_index"] == MISSING, _count_of_kind(agents.owner, kinds), cells["type_index"])
    names = [
        product or name or ""
        for product, name in zip(cells["product_name"].tolist(), cells["name"].tolist(), strict=True)
    ]
    told = zip(cells[RELATIVE].tolist(), kinds, index.tolist(), strict=True)
    labels = [f"Agent {number}" if number != MISSING else f"{kind} {place}" for number, kind, place in told]
    return DeviceColumns(kinds, index, names, labels), {word: cells[word] for word in AGENT_NUMBERS}


def _count_of_kind(owner: Ints, kinds: Sequence[str]) -> Ints:
    """Return for every device how many of its kind precede it in its set."""
    known = {kind: number for number, kind in enumerate(dict.fromkeys(kinds))}
    kind = np.array([known[kind] for kind in kinds], np.int64)
    order = in_order(owner, kind)
    out = np.empty(len(order), np.int64)
    place = np.arange(len(order))
    fresh = np.append(True, (np.diff(owner[order]) != 0) | (np.diff(kind[order]) != 0))[: len(order)]
    out[order] = place - np.maximum.accumulate(np.where(fresh, place, 0))
    return out


# -- lanes -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Lanes:
    """Lanes of one kind, set after set."""

    owner: Ints
    kind: ProfileKind
    number: Ints
    name: Sequence[str]
    device: Ints


def _make_thread_lanes(threads: OwnedRows) -> tuple[Ints, _Lanes]:
    """Return the lane of every thread that is listed, and these lanes: threads with one number are one."""
    ids, tids = threads.cells["id"], threads.cells["tid"]
    number = np.where(tids == MISSING, ids, tids)
    first = find_first_of_equal(threads.owner, number)
    is_first = first == np.arange(len(first))
    lane = count_within(threads.owner, is_first)[first]
    rows = np.flatnonzero(is_first)
    names = [name or "" for name in threads.cells["name"][rows].tolist()]
    nowhere = np.full(len(rows), ABSENT, np.int64)
    return lane, _Lanes(threads.owner[rows], ProfileKind.THREAD, number[rows], names, nowhere)


def _make_stream_lanes(
    owner: Ints, device: Ints, stream: Ints, n_before: Ints, listed: OwnedRows
) -> tuple[Ints, _Lanes]:
    """Return the lane of every stream, given how many lanes of its set precede, and these lanes."""
    number = np.maximum(stream, 0)
    is_first = find_first_of_equal(owner, device, number) == np.arange(len(owner))
    lane = n_before[owner] + count_within(owner, is_first) - ~is_first
    rows = np.flatnonzero(is_first)
    named = _name_streams(owner[rows], stream[rows], listed, len(n_before))
    return lane, _Lanes(owner[rows], ProfileKind.GPU_STREAM, number[rows], named, device[rows])


def _name_streams(owner: Ints, stream: Ints, listed: OwnedRows, n_sets: int) -> list[str]:
    """Return the names of streams; of several rows with one id the last one counts."""
    ids = listed.cells["id"]
    is_last = (find_first_of_equal(listed.owner[::-1], ids[::-1]) == np.arange(len(ids)))[::-1]
    known = ByOwner(np.bincount(listed.owner[is_last], minlength=n_sets), ids[is_last])
    rows = known(np.bincount(owner, minlength=n_sets), stream).tolist()
    names = [*listed.cells["name"][is_last].tolist(), None]
    return [
        names[row] or ("" if id_ == MISSING else f"stream {id_}")
        for row, id_ in zip(rows, stream.tolist(), strict=True)
    ]


def _make_unknown_lanes(has_homeless: Bools) -> _Lanes:
    """Return a lane for each set with rows whose thread is not listed."""
    owner = np.flatnonzero(has_homeless)
    nothing = np.zeros(len(owner), np.int64)
    return _Lanes(owner, ProfileKind.OTHER, nothing, [UNKNOWN_THREAD] * len(owner), nothing + ABSENT)


def _have_homeless_rows(used: UsedPlaces, threads: OwnedRows, tracks: Tracks | None) -> Bools:
    """Return which sets have rows whose thread is not listed."""
    find, rows, samples = ByOwner(threads.n, threads.cells["id"]), used.on_threads, used.samples
    ids = rows.cells["tid"]
    if tracks is None:
        return any_of_each(rows.n, find(rows.n, ids) < 0)
    told = tracks.column("tid", rows.n, rows.cells[TRACK])
    ids = np.where(np.repeat(_name_tracks(rows), rows.n) & (ids == MISSING), told, ids)
    of_samples = find(samples.n, tracks.column("tid", samples.n, samples.cells[TRACK]))
    is_lost = (of_samples < 0) | ~tracks.are_known(samples.n, samples.cells[TRACK])
    return any_of_each(rows.n, find(rows.n, ids) < 0) | any_of_each(samples.n, is_lost)


def _join_lanes(parts: Sequence[_Lanes], n_sets: int) -> tuple[LaneColumns, Ints]:
    """Return the lanes of all kinds, set after set, and how many each set has."""
    owner = np.concatenate([part.owner for part in parts])
    order = np.argsort(owner, kind="stable")
    names = [name for part in parts for name in part.name]
    kind = np.repeat(np.array([part.kind for part in parts], np.int32), [len(part.owner) for part in parts])
    number, device = (np.concatenate([getattr(part, column) for part in parts]) for column in ("number", "device"))
    lanes = LaneColumns(
        np.zeros(len(order), np.int64),
        kind[order],
        number[order],
        [names[row] for row in order.tolist()],
        device[order],
        np.zeros(len(order), np.bool_),
    )
    return lanes, np.bincount(owner, minlength=n_sets)
