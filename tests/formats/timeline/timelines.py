"""Made-up traces in memory, for the tests of everything that writes traces.

made(spans, places)      an experiment with these spans on these profiles
cross_format()           two hosts with equal pids, two GPUs, and all that is difficult: kernels that overlap and
                         that touch, an empty region, a call with three operations, a range that never ends,
                         counters, memory, names in other alphabets
totals(spans)            by name: how many, and for how long in all
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from callgrove.model.builder import ExperimentBuilder
from callgrove.model.experiment import Experiment
from callgrove.model.profiles import DEFAULT_ID_NAMES, Identifier, Interpretation, ProfileKind
from callgrove.model.system import System
from callgrove.model.traces.events import LABEL, ArraySpans, Counters, SideTable, SpanKind

NEVER = int(np.iinfo(np.int64).min)  # the end of what did not end
NODE, RANK, THREAD, DEVICE, STREAM = (
    DEFAULT_ID_NAMES.index(name) for name in ("NODE", "RANK", "THREAD", "GPUDEVICE", "GPUSTREAM")
)


@dataclass(frozen=True)
class Place:
    """A profile: a thread, or a stream of a GPU where `device` is given."""

    rank: int = 0
    host: str = "alpha"
    pid: int = 100
    tid: int = 100
    device: int = -1
    stream: int = 0
    name: str = ""


@dataclass(frozen=True)
class Span:
    """What happened on profile number `place`. Times are those that slices should have, but for `end=NEVER`."""

    place: int
    kind: SpanKind
    name: str
    start: int
    end: int
    corr: int = -1
    category: str = ""
    label: str = ""
    size: int = -1
    address: int = -1
    grid: tuple[int, int, int] | None = None

    @property
    def shown(self) -> str:
        return self.label or self.name


def made(
    spans: Sequence[Span],
    places: Sequence[Place] = (Place(),),
    counters: Sequence[tuple[int, str, int, float]] = (),  # place, name, time, value
    dispatch: Mapping[int, Mapping[str, float]] | None = None,  # span -> counter -> value
    chunk_rows: int = 1 << 16,
) -> Experiment:
    """An experiment that holds nothing else."""
    builder = ExperimentBuilder("made up", title="made up", path="made up")
    system = _System()
    for place in places:
        builder.add_profile(_kind(place), _identifiers(place, places), name=place.name)
        system.add(place)
    builder.set_system(system.finished(), np.array(system.leaves, np.int32))
    builder.set_traces(spans=_backend(spans, dispatch or {}, chunk_rows), counters=_counters(counters))
    return builder.build()


def _kind(place: Place) -> ProfileKind:
    return ProfileKind.THREAD if place.device < 0 else ProfileKind.GPU_STREAM


def _identifiers(place: Place, places: Sequence[Place]) -> list[Identifier]:
    host = sorted({other.host for other in places}).index(place.host)
    single = Interpretation.SINGLE
    out = [(NODE, host, host, single), (RANK, place.rank, place.rank, single)]
    if place.device < 0:
        own = [p for p in places if p.rank == place.rank and p.device < 0]
        return [*out, (THREAD, place.tid, own.index(place), Interpretation.LOGICAL_LOCAL)]
    return [*out, (DEVICE, place.device, place.device, single), (STREAM, place.stream, place.stream, single)]


class _System:
    def __init__(self) -> None:
        self.parent: list[int] = []
        self.kind: list[str] = []
        self.attributes: dict[int, dict[str, str]] = {}
        self.leaves: list[int] = []
        self._known: dict[tuple[object, ...], int] = {}

    def _node(self, key: tuple[object, ...], parent: int, kind: str, **attributes: str) -> int:
        if key not in self._known:
            self._known[key] = len(self.parent)
            self.parent.append(parent)
            self.kind.append(kind)
            if attributes:
                self.attributes[self._known[key]] = attributes
        return self._known[key]

    def add(self, place: Place) -> None:
        node = self._node((place.host,), -1, "node", hostname=place.host)
        about = {"pid": str(place.pid), "hostname": place.host, "command": "./app"}
        process = self._node((place.host, place.rank), node, "process", **about)
        self.leaves.append(self._node((place,), process, "thread"))

    def finished(self) -> System:
        names = tuple(f"{kind} {k}" for k, kind in enumerate(self.kind))
        ranks = np.full(len(names), -1, np.int64)
        return System(np.array(self.parent, np.int32), tuple(self.kind), names, ranks, self.attributes)


def _backend(spans: Sequence[Span], dispatch: Mapping[int, Mapping[str, float]], chunk_rows: int) -> ArraySpans:
    texts = list(dict.fromkeys(text for s in spans for text in (s.name, s.category, s.shown)))
    number = {text: k for k, text in enumerate(texts)}
    columns: dict[str, np.ndarray] = {
        "profile": np.array([s.place for s in spans], np.int32),
        "kind": np.array([s.kind for s in spans], np.int32),
        "category": np.array([number[s.category] if s.category else -1 for s in spans], np.int32),
        "name": np.array([number[s.name] for s in spans], np.int32),
        LABEL: np.array([number[s.shown] for s in spans], np.int32),
        "start_ns": np.array([s.start for s in spans], np.int64),
        "end_ns": np.array([s.end for s in spans], np.int64),
        "depth": np.zeros(len(spans), np.int32),
        "correlation": np.array([s.corr for s in spans], np.int64),
        "context": np.full(len(spans), -1, np.int32),
    }
    return ArraySpans(columns, tuple(texts), _sides(spans, dispatch), chunk_rows)


def _sides(spans: Sequence[Span], dispatch: Mapping[int, Mapping[str, float]]) -> dict[str, SideTable]:
    out = {}
    kernels = [k for k, s in enumerate(spans) if s.grid is not None]
    if kernels:
        grids = np.array([spans[k].grid for k in kernels], np.int64)
        axes = {f"grid_{axis}": grids[:, j] for j, axis in enumerate("xyz")}
        blocks = {f"workgroup_{axis}": np.full(len(kernels), 64) for axis in "xyz"}
        out["kernel"] = SideTable(np.array(kernels), {**axes, **blocks, "queue": np.arange(len(kernels))})
    copies = [k for k, s in enumerate(spans) if s.kind in (SpanKind.COPY, SpanKind.MEMSET) and s.size >= 0]
    if copies:
        out["copy"] = SideTable(np.array(copies), {"bytes": np.array([spans[k].size for k in copies], np.int64)})
    allocations = [k for k, s in enumerate(spans) if s.kind == SpanKind.ALLOC]
    if allocations:
        columns: dict[str, np.ndarray | tuple[object, ...]] = {
            "bytes": np.array([spans[k].size for k in allocations], np.int64),
            "address": np.array([spans[k].address for k in allocations], np.int64),
            "device": np.zeros(len(allocations), np.int64),
            "level": tuple("REAL" for _ in allocations),
        }
        out["alloc"] = SideTable(np.array(allocations), columns)
    rows = [(k, name, value) for k, values in dispatch.items() for name, value in values.items()]
    if rows:
        names, values = tuple(name for _, name, _ in rows), np.array([value for _, _, value in rows])
        out["counter"] = SideTable(np.array([k for k, _, _ in rows]), {"name": names, "value": values})
    return out


def _counters(rows: Sequence[tuple[int, str, int, float]]) -> Counters | None:
    if not rows:
        return None
    names = tuple(dict.fromkeys(name for _, name, _, _ in rows))
    return Counters(
        np.array([place for place, _, _, _ in rows], np.int32),
        np.array([names.index(name) for _, name, _, _ in rows], np.int32),
        np.array([time for _, _, time, _ in rows], np.int64),
        np.array([value for _, _, _, value in rows]),
        names,
    )


PLACES = (
    Place(0, "alpha", 15, 15, name="main"),
    Place(0, "alpha", 15, 16),
    Place(0, "alpha", 15, device=0, stream=0),
    Place(0, "alpha", 15, device=1, stream=3),
    Place(1, "beta", 15, 15, name="main"),
    Place(1, "beta", 15, device=0, stream=0),
)
K, C, A, API, M, R = (
    SpanKind.KERNEL,
    SpanKind.COPY,
    SpanKind.ALLOC,
    SpanKind.API,
    SpanKind.MARKER,
    SpanKind.REGION,
)
BASE = 1_700_000_000_000_000_000  # ns: since the epoch, as clocks show it
LAST = BASE + 900
SPANS = (
    Span(0, R, "main", BASE, LAST, category="HOST"),
    Span(0, M, "roctxRangePush", BASE + 10, BASE + 400, label="Schritt größer", category="MARKER_CORE_API"),
    Span(0, API, "hipGraphLaunch", BASE + 20, BASE + 90, 1, "HIP_RUNTIME_API"),
    Span(0, API, "hipLaunchKernel", BASE + 90, BASE + 120, 2, "HIP_RUNTIME_API"),  # touches the one before
    Span(0, R, "nothing", BASE + 130, BASE + 130),  # empty
    Span(0, R, "crosses", BASE + 350, BASE + 500),  # the marker
    Span(1, M, "roctxRangeStart", BASE + 5, NEVER, label="無限", category="MARKER_CORE_API"),
    Span(2, K, "void gemm<float>(float const*)", BASE + 100, BASE + 200, 1, "KERNEL_DISPATCH", grid=(256, 2, 1)),
    Span(2, K, "reduce", BASE + 200, BASE + 260, 1, "KERNEL_DISPATCH", grid=(64, 1, 1)),  # touches
    Span(2, K, "reduce", BASE + 250, BASE + 300, 2, "KERNEL_DISPATCH", grid=(64, 1, 1)),  # overlaps
    Span(3, C, "MEMORY_COPY_HOST_TO_DEVICE", BASE + 150, BASE + 170, 1, "MEMORY_COPY", size=4096),
    Span(0, A, "ALLOC", BASE + 30, BASE + 40, 1, "MEMORY_ALLOCATION", size=1000, address=0x100),
    Span(0, A, "ALLOC", BASE + 41, BASE + 50, 1, "MEMORY_ALLOCATION", size=500, address=0x200),
    Span(0, A, "FREE", BASE + 600, BASE + 610, 3, "MEMORY_ALLOCATION", size=0, address=0x100),
    Span(4, API, "hipLaunchKernel", BASE + 20, BASE + 60, 1, "HIP_RUNTIME_API"),
    Span(5, K, "reduce", BASE + 70, BASE + 80, 1, "KERNEL_DISPATCH", grid=(64, 1, 1)),
)
COUNTERS = ((2, "sclk", BASE + 10, 1700.0), (2, "sclk", BASE + 300, 900.5))
DISPATCH = {7: {"SQ_WAVES": 128.0, "TCC_HIT": 0.5}}
N_FLOWS = 5  # three of the graph, one of each launch


def cross_format() -> Experiment:
    return made(SPANS, PLACES, COUNTERS, DISPATCH)


def ends(spans: Sequence[Span], latest: int) -> list[tuple[Span, int]]:
    """Spans with the moment at which their slices should end."""
    return [(span, latest if span.end == NEVER else span.end) for span in spans]


def totals(spans: Sequence[Span], latest: int = LAST) -> dict[str, tuple[int, int]]:
    out: dict[str, tuple[int, int]] = {}
    for span, end in ends(spans, latest):
        count, total = out.get(span.shown, (0, 0))
        out[span.shown] = count + 1, total + end - span.start
    return out
