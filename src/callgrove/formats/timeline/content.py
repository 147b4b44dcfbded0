"""What encoders are given: processes and their tracks, slices, points of counters; and what no trace can hold.

Texts are given as the different ones of a batch, in the order of their first use, and a number for each slice, so that
encoders may intern them and give the same bytes whatever numbers the source uses.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from itertools import count

import numpy as np

from callgrove.arrays import ABSENT, Array, Bools, Ids, Ints
from callgrove.errors import count_of
from callgrove.formats.interface import LossReport
from callgrove.formats.timeline.flows import FlowEnds
from callgrove.model.books import Ledger
from callgrove.model.experiment import Experiment
from callgrove.model.profiles import PROFILER, ProfileKind
from callgrove.model.traces.events import AgentIndex, labels_by_title

__all__ = [
    "ARGUMENTS",
    "DEVICE_FACTS",
    "INSTANCES",
    "NOWHERE",
    "NO_PLACE",
    "NO_SAMPLE_TIMES",
    "OF_LOST",
    "OF_OTHERS",
    "OPEN",
    "POINTS",
    "RENAMED",
    "UNKNOWN_FREES",
    "UNNAMED",
    "CounterPoints",
    "Losses",
    "Naming",
    "Note",
    "Places",
    "Process",
    "ProcessTracks",
    "Slices",
    "Texts",
    "Track",
    "TrackKind",
    "Value",
    "clean",
    "possible",
]


# -- processes and their tracks ----------------------------------------------------------------------------------------
#     process "rank 3 node0003 pid 1187"            number 0
#       thread "main"                               1
#       thread "thread 1"                           2
#       other "async net"                           3
#       group "GPU 0"                               4
#         stream "GPU 0 stream 0"                   5
#       counter "GPU 0 memory REAL", lane, ...      made when they are needed: `ProcessTracks.child`
#
# A track is known by its process and its number there. Process ids must fit into 31 bits, and two processes of one
# trace must not share one (containers start counting anew): then all processes and threads are numbered by us. What
# the system called them stands in the process's name and labels.


LARGEST_ID = 2**31 - 1
ON_DEVICE = (ProfileKind.GPU_STREAM, ProfileKind.GPU, ProfileKind.QUEUE, ProfileKind.ACCELERATOR)
GROUPS, COUNTERS = 1000, 2000  # where groups and counters begin among the tracks of a process, in the order shown


class Naming(StrEnum):
    """How tracks are called."""

    PLAIN = "plain"
    ROCPD = "rocpd"  # as rocprofv3's own converter does


class TrackKind(StrEnum):
    """What a track shows."""

    PROCESS = "process"
    THREAD = "thread"
    GROUP = "group"  # of the tracks of one device
    STREAM = "stream"
    COUNTER = "counter"
    OTHER = "other"  # what a process does on no thread of its own, such as asynchronous requests
    CHILD = "child"  # a lane, or what else belongs to a track but must not lie on it


@dataclass(frozen=True)
class Process:
    """A process; `pid` is the number to write, `real_pid` what the system called it (-1: unknown)."""

    index: int
    name: str
    pid: int
    rank: int = ABSENT
    host: str = ""
    real_pid: int = ABSENT
    command: str = ""

    @property
    def labels(self) -> tuple[str, ...]:
        known = (
            f"rank {self.rank}" if self.rank >= 0 else "",
            self.host and f"host {self.host}",
            f"pid {self.real_pid}" if self.real_pid >= 0 else "",
        )
        return tuple(label for label in known if label)


@dataclass(frozen=True)
class Track:
    """A track of a process. `parent` is another one's number (0: the process), `order` its place among its siblings."""

    number: int
    kind: TrackKind
    name: str
    parent: int = 0
    tid: int = 0
    order: int = 0
    unit: str = ""
    nests: bool = False
    lane: int = 0  # k: the k-th lane of `parent`, or of the track beside it that has its name
    is_profiler: bool = False  # what the profiler tells of itself: no time of the program


@dataclass
class ProcessTracks:
    """A process and its tracks, of which more are made as they are needed."""

    process: Process
    tracks: list[Track]
    n_described: int = 0
    agents: dict[int, str] = field(default_factory=dict)  # by device: what it is called, if not GPU and its number
    _known: dict[tuple[object, ...], int] = field(default_factory=dict)

    def agent(self, device: int) -> str:
        """Return what a device is called; -1 is one that nobody numbered."""
        return self.agents.get(device) or (f"GPU {device}" if device >= 0 else "GPU")

    def child(self, key: tuple[object, ...], kind: TrackKind, name: str, parent: int = 0, **more: object) -> int:
        """Return the number of the track that the key stands for."""
        if key not in self._known:
            self._known[key] = len(self.tracks)
            order = COUNTERS + len(self.tracks) if kind is TrackKind.COUNTER else GROUPS + len(self.tracks)
            track = Track(len(self.tracks), kind, name, parent, order=order)
            self.tracks.append(replace(track, **more))  # type: ignore[arg-type]
        return self._known[key]

    def lane(self, track: int, lane: int) -> int:
        """Return a further lane. That of a thread lies below it; that of a stream beside it, under the same name."""
        if lane == 0:
            return track
        track_of_lane = self.tracks[track]
        parent = track if track_of_lane.kind is TrackKind.THREAD else track_of_lane.parent
        more: dict[str, object] = {"lane": lane, "order": track_of_lane.order, "nests": track_of_lane.nests}
        return self.child(("lane", track, lane), TrackKind.CHILD, track_of_lane.name, parent, **more)

    def take_new_tracks(self) -> list[Track]:
        """Return the tracks that were made since this was asked for the last time."""
        new = self.tracks[self.n_described :]
        self.n_described = len(self.tracks)
        return new


@dataclass
class Places:
    """By profile: its process, its track there, its device and stream (-1: none). `profiles` are those that are looked
    at, where these are not all."""

    processes: dict[int, ProcessTracks]  # by index
    process: Ints
    track: Ints
    device: Ints
    stream: Ints
    naming: Naming = Naming.PLAIN
    agents: AgentIndex = AgentIndex.TYPE_RELATIVE
    profiles: Ints | None = None

    @classmethod
    def none(cls) -> Places:
        nothing = np.empty(0, np.int64)
        return cls({}, nothing, nothing, nothing, nothing)

    @classmethod
    def of(
        cls,
        tables: Experiment,
        naming: Naming = Naming.PLAIN,
        agents: AgentIndex | None = None,
        real_pids: bool = False,
    ) -> Places:
        """Return the places. Devices are called by their number among GPUs, or as rocprofv3 does, unless it is said
        how."""
        usual = AgentIndex.RELATIVE if naming is Naming.ROCPD else AgentIndex.TYPE_RELATIVE
        return _Making(tables, naming, agents or usual, real_pids).places()

    def take(self, profiles: Ints) -> Places:
        """Return the places of some profiles, numbered anew."""
        process = self.process[profiles]
        wanted = dict.fromkeys(process[process >= 0].tolist())
        processes = {index: self.processes[index] for index in wanted}
        columns = self.track[profiles], self.device[profiles], self.stream[profiles]
        return Places(processes, process, *columns, self.naming, self.agents)

    def only(self, profiles: Ints) -> Places:
        """Return places in which all other profiles belong to no process."""
        process = np.full(len(self.process), ABSENT, np.int64)
        process[profiles] = self.process[profiles]
        processes = {index: self.processes[index] for index in dict.fromkeys(process[profiles].tolist()) if index >= 0}
        return replace(self, processes=processes, process=process, profiles=profiles)

    def samples_beside(self, profile: int) -> int:
        """Return the track for samples of a profile that also has spans: they would not nest with each other."""
        tracks = self.processes[int(self.process[profile])]
        above = tracks.tracks[int(self.track[profile])]
        parent = above.number if above.kind is TrackKind.THREAD else above.parent
        more: dict[str, object] = {"order": above.order, "nests": True}
        return tracks.child(("samples", profile), TrackKind.CHILD, f"{above.name} samples", parent, **more)

    def agent(self, profile: int) -> str:
        """Return what the device of a profile is called; empty where it has none."""
        device = int(self.device[profile])
        return self.processes[int(self.process[profile])].agent(device) if device >= 0 else ""


class _Making:
    """Places in the making."""

    def __init__(self, tables: Experiment, naming: Naming, agents: AgentIndex, real_pids: bool) -> None:
        self._tables, self._naming, self._agents, self._real_pids = tables, naming, agents, real_pids
        profiles = tables.profiles
        columns = ("node", "rank", "thread", "gpu_device", "gpu_context", "gpu_stream")
        self._identity = {name: _numbers(profiles.identity_list(name)) for name in columns}
        parts = tables.traces.parts() if agents is not AgentIndex.TYPE_RELATIVE else []
        self._part_of = {profile: number for number, part in enumerate(parts) for profile in part.tolist()}
        self._several_runs = len(np.unique(profiles.run)) > 1
        kinds = np.asarray(profiles.kind)
        self._is_on_device = np.isin(kinds, ON_DEVICE)
        self._is_of_thread = ~self._is_on_device & (kinds != ProfileKind.OTHER)
        tids, known = profiles.identifiers.pick("THREAD", "physical")
        self._tids = _numbers([t if k else None for t, k in zip(tids.tolist(), known.tolist(), strict=True)])

    def places(self) -> Places:
        groups: dict[tuple[object, ...], list[int]] = {}
        for profile in sorted(self._tables.profiles.measured.tolist(), key=self._order):
            groups.setdefault(self._process_key(profile), []).append(profile)
        abouts = [self._about(index, profiles[0]) for index, profiles in enumerate(groups.values())]
        n = len(self._tables.profiles)
        process, track = (np.full(n, ABSENT, np.int64) for _ in range(2))
        places = process, track, self._identity["gpu_device"], self._identity["gpu_stream"]
        out = Places({}, *places, self._naming, self._agents)
        real = _fit_in_ids([about.real_pid for about in abouts], at_most_once=not self._real_pids)
        for about, profiles in zip(abouts, groups.values(), strict=True):
            shown = replace(about, pid=about.real_pid if real else about.index + 1)
            threads = [p for p in profiles if self._is_thread(p)]
            tids = self._real_tids(shown, threads) if real else _choose_tids(shown, len(threads), len(abouts))
            out.processes[shown.index] = self._tracks(shown, profiles, out, tids)
            out.process[profiles] = shown.index
        return out

    def _order(self, profile: int) -> tuple[int, ...]:
        """Return a key that sorts processes by rank, threads by number, streams by device and number; else as they
        come."""
        columns = ("rank", "thread", "gpu_device", "gpu_stream")
        return (
            int(self._tables.profiles.run[profile]),
            *(int(self._identity[name][profile]) for name in columns),
            profile,
        )

    def _process_key(self, profile: int) -> tuple[object, ...]:
        """Return the place in the system that is a process, or else what the profile's identifiers say."""
        run = int(self._tables.profiles.run[profile])
        system, leaf = self._tables.system, int(self._tables.profiles.system[profile])
        for place in system.path(leaf) if leaf >= 0 else []:
            if system.kind[place] == "process":
                return run, place
        return run, "", int(self._identity["node"][profile]), int(self._identity["rank"][profile])

    def _about(self, index: int, profile: int) -> Process:
        system, leaf = self._tables.system, int(self._tables.profiles.system[profile])
        said: dict[str, str] = {}
        for place in system.path(leaf) if leaf >= 0 else []:
            if system.kind[place] in ("process", "node"):
                said = {**system.attributes.get(place, {}), **said}
        pid = said.get("pid", "")
        real = int(pid) if pid.isascii() and pid.isdigit() else ABSENT
        rank, host = int(self._identity["rank"][profile]), said.get("hostname", "")
        words = [
            f"run {self._tables.profiles.run[profile]}" if self._several_runs else "",
            f"rank {rank}" if rank >= 0 else "",
            host,
            f"pid {real}" if real >= 0 else "",
        ]
        name = " ".join(word for word in words if word) or self._tables.title or f"process {index}"
        return Process(index, name, 0, rank, host, real, said.get("command", ""))

    def _on_device(self, profile: int) -> bool:
        return bool(self._is_on_device[profile])

    def _is_thread(self, profile: int) -> bool:
        return bool(self._is_of_thread[profile])

    def _is_profiler(self, profile: int) -> bool:
        return self._tables.system.is_part_of(int(self._tables.profiles.system[profile]), PROFILER)

    def _real_tids(self, process: Process, threads: Sequence[int]) -> list[int]:
        """Return what the system called threads; those that it did not tell apart, or whose ids cannot be written, get
        numbers that are free."""
        given = [int(self._tids[profile]) for profile in threads]
        taken = {process.pid, *(tid for tid in given if 0 < tid <= LARGEST_ID)}
        free = (number for number in count(1) if number not in taken)
        firsts = {tid: k for k, tid in reversed(list(enumerate(given))) if 0 < tid <= LARGEST_ID}
        return [tid if firsts.get(tid) == k else next(free) for k, tid in enumerate(given)]

    def _tracks(self, process: Process, profiles: Sequence[int], out: Places, tids: Sequence[int]) -> ProcessTracks:
        tracks = ProcessTracks(process, [Track(0, TrackKind.PROCESS, process.name)], agents=self._labels(profiles))
        taken: set[str] = set()
        for profile in profiles:
            if self._is_thread(profile):
                number = len(tracks.tracks)
                name = _make_unique(self._thread_name(profile, number), taken)
                track = Track(number, TrackKind.THREAD, name, tid=tids[number - 1], order=number - 1, nests=True)
                tracks.tracks.append(track)
                out.track[profile] = number
        for profile in profiles:
            if not self._is_thread(profile) and not self._on_device(profile):
                name = _make_unique(self._thread_name(profile, len(tracks.tracks)), taken)
                order = len(tracks.tracks) - 1
                told, key = self._is_profiler(profile), ("profile", profile)
                track_number = tracks.child(key, TrackKind.OTHER, name, order=order, nests=True, is_profiler=told)
                out.track[profile] = track_number
        for profile in profiles:
            if self._on_device(profile):
                device = int(self._identity["gpu_device"][profile])
                agent = tracks.agent(device)
                group = tracks.child(("device", device), TrackKind.GROUP, agent)
                name = _make_unique(self._stream_name(profile, agent), taken)
                out.track[profile] = tracks.child(("profile", profile), TrackKind.STREAM, name, group)
        return tracks

    def _labels(self, profiles: Sequence[int]) -> dict[int, str]:
        """Return what the devices of a process are called, where that is not the usual."""
        part = next((self._part_of[profile] for profile in profiles if profile in self._part_of), ABSENT)
        if self._agents is AgentIndex.TYPE_RELATIVE or part < 0:
            return {}
        called = labels_by_title(self._tables.traces.devices(part), self._agents)
        numbers = {int(self._identity["gpu_device"][profile]) for profile in profiles}
        return {device: called[f"GPU {device}"] for device in numbers if f"GPU {device}" in called}

    def _thread_name(self, profile: int, number: int) -> str:
        thread = int(self._identity["thread"][profile])
        if self._naming is Naming.ROCPD:
            return f"THREAD {thread if thread >= 0 else number - 1}"
        named = self._tables.profiles.name[profile]
        return named or (f"thread {thread}" if thread >= 0 else self._tables.profiles.describe(profile))

    def _stream_name(self, profile: int, agent: str) -> str:
        stream, context = (int(self._identity[name][profile]) for name in ("gpu_stream", "gpu_context"))
        is_queue = self._tables.profiles.kind[profile] == ProfileKind.QUEUE
        if stream < 0:
            return self._tables.profiles.name[profile] or agent
        if self._naming is Naming.ROCPD:
            return f"COMPUTE {agent} QUEUE [{stream}]" if is_queue else f"STREAM [{stream}]"
        inside = f" context {context}" if context >= 0 else ""
        return f"{agent}{inside} {'queue' if is_queue else 'stream'} {stream}"


def _numbers(values: Iterable[int | None]) -> Ints:
    return np.array([ABSENT if v is None or v >= 2**63 else v for v in values], np.int64)


def _choose_tids(process: Process, n: int, n_processes: int) -> list[int]:
    """Return numbers of threads. Viewers take the thread that has the number of its process for the main one: that is
    the first, and no other."""
    return [process.pid, *range(n_processes + 2, n_processes + n + 1)][:n]


def _fit_in_ids(ids: Sequence[int], *, at_most_once: bool) -> bool:
    """Return whether these can be written as ids of processes or threads."""
    return all(0 < id_ <= LARGEST_ID for id_ in ids) and not (at_most_once and len(set(ids)) < len(ids))


def _make_unique(name: str, taken: set[str]) -> str:
    """Return a name that is not taken: viewers show tracks of one name as one."""
    free, n = name, 1
    while free in taken:
        n += 1
        free = f"{name} ({n})"
    taken.add(free)
    return free


# -- slices and points -------------------------------------------------------------------------------------------------


# -- impossible times and names ----------------------------------------------------------------------------------------
# Everything that is left out or changed is counted here.
#
# Specification: trace-outputs.md section 7 and "Settled afterwards" 4.


UNNAMED = "<unnamed>"
LONGEST = 1 << 16  # bytes of a name
OPEN = 2**63 - 1  # the end of a span that never ended, until the last moment of its process is known

ARGUMENTS = "parts with arguments of calls"  # no loss by itself: the writer knows whether it writes them
RENAMED = "kernels under the name of a range"  # no loss either
NO_PLACE = "the format has no place for them"
DEVICE_FACTS = "devices are shown by their names and numbers alone, without what else is known of them"
BACKWARDS = "spans that end before they start"
NO_TIMES = "spans with times that no clock shows: negative, or beyond 63 bits"
UNKNOWN_FREES = "memory that was freed without being allocated before: it is not in the curve of memory in use"
CUT_NAMES = "names longer than 64 KiB: their first 64 KiB are written"
NUL_NAMES = "names with NUL characters: these are written as U+2400"
NO_SAMPLE_TIMES = "samples with times that no clock shows: negative, or beyond 63 bits"
POINTS = "values of counters at times that no clock shows: negative, or beyond 63 bits"
NOWHERE = "values of counters of profiles that belong to no process"
OF_LOST = "counters of spans that are left out"
FLOWS_OF_LOST = "ends of flows on spans that are left out"
OF_OTHERS = "counters of spans that are not kernels: only those of kernels are written"
INSTANCES = "values of counters beside others of the same kernel, one for each instance of the hardware: they are added"
OF_ONE = {  # what is said of a single one
    RENAMED: "kernel under the name of a range",
    DEVICE_FACTS: "device is shown by its name and number alone, without what else is known of it",
    BACKWARDS: "span that ends before it starts",
    NO_TIMES: "span with a time that no clock shows: negative, or beyond 63 bits",
    CUT_NAMES: "name longer than 64 KiB: its first 64 KiB are written",
    NUL_NAMES: "name with NUL characters: these are written as U+2400",
    NO_SAMPLE_TIMES: "sample with a time that no clock shows: negative, or beyond 63 bits",
    POINTS: "value of a counter at a time that no clock shows: negative, or beyond 63 bits",
    NOWHERE: "value of a counter of a profile that belongs to no process",
    OF_LOST: "counter of a span that is left out",
    FLOWS_OF_LOST: "end of a flow on a span that is left out",
    OF_OTHERS: "counter of a span that is not a kernel: only those of kernels are written",
    INSTANCES: "value of a counter beside another of the same kernel, one for each instance of the hardware: "
    "they are added",
}


class Losses:
    """How often something could not be written as it is; and what was given and written. What is left out for a reason
    that is counted is taken out of what was given."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.given, self.written = Ledger(), Ledger()

    def add(self, what: str, n: int = 1) -> None:
        if n:
            self.counts[what] += n

    def merge(self, other: Losses) -> None:
        """Add what was counted elsewhere."""
        self.counts.update(other.counts)
        self.given.merge(other.given)
        self.written.merge(other.written)

    def report(self, report: LossReport) -> None:
        for what, n in sorted(self.counts.items()):
            report.add(count_of(n, OF_ONE.get(what, what), what))


def clean(text: str, losses: Losses, empty: str = UNNAMED) -> str:
    """Return a name that every reader takes: not empty, no NUL, UTF-8, at most 64 KiB."""
    if not text:
        return empty
    if "\0" in text:
        losses.add(NUL_NAMES)
        text = text.replace("\0", "\u2400")
    if not text.isascii():
        text = text.encode("utf-8", "replace").decode()  # half a surrogate pair is not text
    if len(text) > LONGEST // 4 and len(data := text.encode()) > LONGEST:
        losses.add(CUT_NAMES)
        text = data[: LONGEST - 3].decode("utf-8", "ignore") + "…"
    return text


def possible(start: Ints, end: Ints, losses: Losses) -> Bools | None:
    """Return which spans can be written; None: all. (Times beyond 63 bits read as negative ones.)"""
    if not len(start) or (int(start.min()) >= 0 and bool((end >= start).all())):
        return None
    timeless = (start < 0) | (end < 0)
    backwards = ~timeless & (end < start)
    losses.add(NO_TIMES, int(np.count_nonzero(timeless)))
    losses.add(BACKWARDS, int(np.count_nonzero(backwards)))
    kept: Bools = ~(timeless | backwards)
    return kept


# -- slices and points of counters -------------------------------------------------------------------------------------


class Value(StrEnum):
    """What a note's values are."""

    INTEGER = "integer"  # int64
    FLOAT = "float"
    TEXT = "text"  # numbers of the note's texts
    TRUE = "true"  # nothing but that it is so


@dataclass(frozen=True)
class Note:
    """Something that slices say about themselves: slice `rows[k]` has `values[k]`. Rows rise."""

    key: str
    rows: Ints
    values: Array
    value: Value = Value.INTEGER
    texts: Sequence[str] = ()


@dataclass(frozen=True)
class Texts:
    """A text for every slice: number `index[k]` of those that occur, in the order of their first use."""

    index: Ints
    all: Sequence[str]

    @classmethod
    def of(cls, numbers: Ids, strings: Sequence[str], instead: Sequence[str], which: Ids, losses: Losses) -> Texts:
        """Return the texts by number; where that is -1, number `which` of `instead`."""
        n = len(strings)
        text_numbers = np.where(numbers >= 0, numbers, n + which.astype(np.int64))  # kinds come in eight bits
        first = np.full(n + len(instead), len(text_numbers), np.int64)
        first[text_numbers[::-1]] = np.arange(len(text_numbers) - 1, -1, -1)
        used = np.flatnonzero(first < len(text_numbers))
        used = used[np.argsort(first[used], kind="stable")]
        place = np.empty(len(first), np.int64)
        place[used] = np.arange(len(used))
        texts = [clean(strings[k], losses) if k < n else instead[k - n] for k in used.tolist()]
        return cls(place[text_numbers], texts)


@dataclass(frozen=True)
class Slices:
    """Slices of one process in the order (start, -end, number) on every track; none ends before it starts.

    `flow`: the number of an operation among those of the process that a call launched, or -1. `launched`: the first
    number of those that a call launched; `n_launched` follow each other. `ends`: those of other flows.
    """

    process: ProcessTracks
    track: Ints
    start_ns: Ints
    end_ns: Ints
    name: Texts
    category: Texts
    flow: Ints
    launched: Ints
    n_launched: Ints
    notes: Sequence[Note] = field(default_factory=list)
    kind: Ids | None = None  # `SpanKind` of each, where slices are made of spans
    ends: FlowEnds | None = None

    def __len__(self) -> int:
        return len(self.track)


@dataclass(frozen=True)
class CounterPoints:
    """Values of one counter, each valid until the next; int64 or float64. `is_given`: the input has them, they are not
    computed here."""

    process: ProcessTracks
    track: int
    time_ns: Ints
    value: Array
    is_given: bool = False
