"""Pairs of runs that differ in one thing, which is planted: the cause that `why` has to name.

    gpu_run     steps of a training program: kernels on one stream, copies on another, a pause of the host
    cpu_run     steps of a solver on some ranks: functions, messages that may be hidden, a collective that waits

All times have noise, so that no two runs are the same in anything else either.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from random import Random

import numpy as np

from callgrove.model.builder import ExperimentBuilder
from callgrove.model.contexts import ContextKind
from callgrove.model.experiment import Experiment
from callgrove.model.metrics import Metric, Scope
from callgrove.model.profiles import DEFAULT_ID_NAMES, Interpretation, ProfileKind
from callgrove.model.traces.events import ArraySpans, SideTable, SpanKind

__all__ = ["PAIRS", "CpuRun", "GpuRun", "Pair"]

RANK, THREAD, DEVICE, STREAM = (DEFAULT_ID_NAMES.index(word) for word in ("RANK", "THREAD", "GPUDEVICE", "GPUSTREAM"))
NOISE = 0.01
LOAD, STORE = "MEMORY_COPY_HOST_TO_DEVICE", "MEMORY_COPY_DEVICE_TO_HOST"


# -- traces of devices -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class GpuRun:
    """What a run does in each step, in microseconds: `kernels` by name and how often, `load_us` of a copy that lies
    beside kernels or before them, `store_us` of a copy after them, `pause_us` of the host. `slow` is how many times as
    long the kernels of the last rank take."""

    kernels: dict[str, tuple[int, int]] = field(
        default_factory=lambda: {"gemm": (300, 2), "layer_norm": (60, 2), "softmax": (40, 1)}
    )
    load_us: int = 200
    store_us: int = 0
    is_hidden: bool = True
    pause_us: int = 30
    slow: float = 1.0
    n_ranks: int = 2
    n_steps: int = 12

    def make(self, seed: int, path: str = "run.db") -> Experiment:
        """Return the run; every rank waits for all others at the end of a step."""
        builder = ExperimentBuilder("made", title=path, path=path)
        spans, strings = _Spans(), Random(seed)
        for rank in range(self.n_ranks):
            place = [(RANK, rank, rank, Interpretation.SINGLE)]
            builder.add_profile(ProfileKind.THREAD, [*place, (THREAD, 0, 0, Interpretation.SINGLE)])
            for stream in (0, 1):
                on = [(DEVICE, 0, 0, Interpretation.SINGLE), (STREAM, stream, stream, Interpretation.SINGLE)]
                builder.add_profile(ProfileKind.GPU_STREAM, [*place, *on])
        now = 10_000
        for _ in range(self.n_steps):
            now = max([self._step(spans, strings, rank, now) for rank in range(self.n_ranks)])
            now += _vary(strings, self.pause_us)
        table = spans.table()
        builder.set_traces(spans=table, time_range=(0, int(table.columns["end_ns"].max())))
        return builder.build()

    def _step(self, spans: _Spans, chance: Random, rank: int, begin: int) -> int:
        """Add the spans of one step of a rank, and return when it ends."""
        now, first = begin, 3 * rank
        times = self.slow if rank == self.n_ranks - 1 else 1.0
        loaded = spans.add(first + 2, SpanKind.COPY, LOAD, now, _vary(chance, self.load_us), begin)
        if not self.is_hidden:
            now = loaded
        for name, (length, count) in self.kernels.items():
            for _ in range(count):
                now = spans.add(first + 1, SpanKind.KERNEL, name, now, _vary(chance, length * times), begin) + 500
        now = max(now, loaded)
        if self.store_us:
            now = spans.add(first + 2, SpanKind.COPY, STORE, now, _vary(chance, self.store_us), begin)
        return now


def _vary(chance: Random, length_us: float) -> int:
    return round(1000 * length_us * (1 + NOISE * chance.gauss(0, 1)))


class _Spans:
    """Spans in the making, with the calls that launched them."""

    def __init__(self) -> None:
        self._rows: list[tuple[int, int, int, int, int, int]] = []
        self._strings: dict[str, int] = {}
        self._copies: list[int] = []

    def add(self, profile: int, kind: SpanKind, name: str, start: int, length: int, called: int) -> int:
        """Add an operation and its call; return when the operation ends."""
        launch = len(self._rows) // 2
        api = "hipMemcpyAsync" if kind == SpanKind.COPY else "hipLaunchKernel"
        self._put(profile // 3 * 3, SpanKind.API, api, called - 3_000, called - 1_000, launch)
        if kind == SpanKind.COPY:
            self._copies.append(len(self._rows))
        self._put(profile, kind, name, start, start + length, launch)
        return start + length

    def _put(self, profile: int, kind: SpanKind, name: str, start: int, end: int, launch: int) -> None:
        text = self._strings.setdefault(name, len(self._strings))
        self._rows.append((profile, int(kind), text, start, end, launch))

    def table(self) -> ArraySpans:
        columns = dict(
            zip(
                ("profile", "kind", "name", "start_ns", "end_ns", "correlation"),
                np.array(self._rows, np.int64).T,
                strict=True,
            )
        )
        for name in ("profile", "kind", "name"):
            columns[name] = columns[name].astype(np.int32)
        none = np.full(len(self._rows), -1, np.int32)
        columns |= {"depth": none, "context": none, "category": columns["name"]}
        sizes = SideTable(np.array(self._copies, np.int64), {"bytes": np.full(len(self._copies), 1 << 20)})
        return ArraySpans(columns, tuple(self._strings), {"copy": sizes})


# -- profiles ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class CpuRun:
    """What a rank spends in functions, in seconds; a message takes `message` seconds, of which `hidden` go on while it
    computes. `slow` is how many times as long the solver takes on the last rank; `calls` how often it is called."""

    work: dict[str, float] = field(default_factory=lambda: {"assemble": 4.0, "solve": 20.0, "output": 1.0})
    message: float = 3.0
    hidden: float = 0.9
    slow: float = 1.0
    n_ranks: int = 4
    calls: int = 100

    def make(self, seed: int, path: str = "run.d") -> Experiment:
        """Return the run: main calls everything, and a collective waits for the slowest rank."""
        chance = Random(seed)
        ranks = [{name: self._cost(chance, name, rank) for name in self.work} for rank in range(self.n_ranks)]
        slowest = max(sum(one.values()) for one in ranks)
        for one in ranks:
            one["MPI_Allreduce"] = 0.2 + slowest - sum(one.values())
            one["MPI_Waitall"] = self.message * (1 - self.hidden) * (1 + NOISE * chance.gauss(0, 1))
        return self._build(ranks, path)

    def _cost(self, chance: Random, name: str, rank: int) -> float:
        slow = self.slow if name == "solve" and rank == self.n_ranks - 1 else 1.0
        return self.work[name] * slow * (1 + NOISE * chance.gauss(0, 1))

    def _build(self, ranks: list[dict[str, float]], path: str) -> Experiment:
        builder = ExperimentBuilder("made", title=path, path=path)
        main = builder.add_context(-1, ContextKind.FUNCTION, builder.region(ContextKind.FUNCTION, "main"))
        contexts = {
            name: builder.add_context(main, ContextKind.FUNCTION, builder.region(ContextKind.FUNCTION, name))
            for name in ranks[0]
        }
        seconds = builder.add_metric(Metric("time", Scope.EXCLUSIVE, "sec"))
        visits = builder.add_metric(Metric("visits", Scope.EXCLUSIVE, "occ"))
        for rank, costs in enumerate(ranks):
            profile = builder.add_profile(ProfileKind.THREAD, [(RANK, rank, rank, Interpretation.SINGLE)])
            builder.add_values(profile, list(contexts.values()), seconds, list(costs.values()))
            counts = [float(self.calls if name == "solve" else 100) for name in costs]
            builder.add_values(profile, list(contexts.values()), visits, counts)
        return builder.build()


# -- pairs -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Pair:
    """Two runs, and the cause of their difference: what it is called, and what it is about."""

    name: str
    before: GpuRun | CpuRun
    after: GpuRun | CpuRun
    cause: str
    subject: str

    def make(self, seed: int) -> tuple[Experiment, Experiment]:
        """Return both runs, each with a noise of its own."""
        return self.before.make(2 * seed, "before"), self.after.make(2 * seed + 1, "after")


def _gpu_pairs() -> Iterator[Pair]:
    base = GpuRun()
    slower = {**base.kernels, "layer_norm": (150, 2)}
    often = {**base.kernels, "softmax": (40, 6)}
    new = {**base.kernels, "dropout": (120, 1)}
    yield Pair("slower kernel", base, replace(base, kernels=slower), "kernel", "layer_norm")
    yield Pair("kernel launched more often", base, replace(base, kernels=often), "kernel", "softmax")
    yield Pair("new kernel", base, replace(base, kernels=new), "kernel", "dropout")
    alone = replace(base, n_ranks=1)
    yield Pair("slower kernel, one GPU", alone, replace(alone, kernels=slower), "kernel", "layer_norm")
    yield Pair("one of two is slow", base, replace(base, slow=1.4), "imbalance", "rank 1 GPU 0")
    four = replace(base, n_ranks=4)
    yield Pair("one of four is slow", four, replace(four, slow=1.25), "imbalance", "rank 3 GPU 0")
    yield Pair("a new copy", base, replace(base, store_us=150), "copy", STORE)
    yield Pair(
        "a longer copy", replace(base, is_hidden=False), replace(base, is_hidden=False, load_us=500), "copy", LOAD
    )
    yield Pair("a lost overlap", base, replace(base, is_hidden=False), "overlap", "copies")
    long_load = replace(base, load_us=500, n_ranks=4)
    yield Pair("a lost overlap of long copies", long_load, replace(long_load, is_hidden=False), "overlap", "copies")
    yield Pair("a longer gap", base, replace(base, pause_us=250), "gap", "idle")
    yield Pair("a longer gap, one GPU", alone, replace(alone, pause_us=120), "gap", "idle")


def _cpu_pairs() -> Iterator[Pair]:
    base = CpuRun()
    yield Pair("slower function", base, replace(base, work={**base.work, "assemble": 7.0}), "function", "assemble")
    called = replace(base, work={**base.work, "solve": 30.0}, calls=150)
    yield Pair("function called more often", base, called, "function", "solve")
    yield Pair("a new function copies", base, replace(base, work={**base.work, "memcpy": 3.0}), "new", "memcpy")
    yield Pair("one of four ranks is slow", base, replace(base, slow=1.3), "imbalance", "rank 3")
    many = replace(base, n_ranks=16)
    yield Pair("one of sixteen ranks is slow", many, replace(many, slow=1.2), "imbalance", "rank 15")
    two = replace(base, n_ranks=2)
    yield Pair("one of two ranks is slow", two, replace(two, slow=1.3), "imbalance", "rank 1")
    yield Pair("messages are hidden no more", base, replace(base, hidden=0.0), "communication", "MPI_Waitall")
    yield Pair("longer messages", many, replace(many, message=40.0), "communication", "MPI_Waitall")
    yield Pair("a faster function", replace(base, work={**base.work, "output": 5.0}), base, "function", "output")
    yield Pair("an imbalance is mended", replace(base, slow=1.5), base, "imbalance", "")


PAIRS = (*_gpu_pairs(), *_cpu_pairs())
