"""Made-up experiments for the demo, the documentation and tests.

    experiment = example()        a stencil program: 4 ranks with 2 threads each, one second
    experiment = gpu_example()    a training program on GPUs: 2 ranks, each with a thread and two streams; events only
    study = study_example()       the stencil program at 25 points of p (ranks) and n (grid), each measured 3 times

Every rank solves, exchanges halos and waits for its neighbours. Ranks have unequal work, so that the quick ones wait in
MPI_Waitall. The second thread of each rank helps with the kernel and sleeps meanwhile. Profiles follow from the traces,
as in a sampling profiler: a sample costs one period of CPU time where it was taken. The period is a power of two, so
that sums are exact.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np

from callgrove.arrays import ABSENT, Floats, Ids, combine_upwards, depths, levels
from callgrove.model.builder import ExperimentBuilder
from callgrove.model.contexts import ContextKind, Relation
from callgrove.model.experiment import Experiment
from callgrove.model.metrics import Metric, Scope
from callgrove.model.profiles import Identifier, Interpretation, ProfileKind
from callgrove.model.study.builder import StudyBuilder
from callgrove.model.study.series import Study
from callgrove.model.traces.events import ArraySamples, ArraySpans, Samples, SideTable, SpanKind

__all__ = ["example", "gpu_example", "study_example"]

PERIOD_SEC = 1 / 256
PERIOD_NS = 3_906_250
CYCLES = 9_375_000  # of one period, at 2.4 GHz
START_NS = 1_700_000_000_000_000_000
N_STEPS = 12
STEP = 19  # samples of one time step
INIT, OUTPUT = 24, 4  # samples before and after the time steps
RANKS_PER_NODE = 2
FIRST_NODE = 0x0A0B0C00
NODE, RANK, THREAD = 1, 2, 3  # kinds of identifiers

APP, MPI, LIBC = "/home/user/stencil/stencil", "/usr/lib/libmpi.so.40", "/usr/lib/libc.so.6"
MAIN_C, HALO_C = "/home/user/stencil/stencil.c", "/home/user/stencil/halo.c"
SCOPES = (Scope.POINT, Scope.FUNCTION, Scope.LEXICAL, Scope.INCLUSIVE)
METRICS = (("CPUTIME (sec)", "sec"), ("cycles", ""))

# Level, kind, name or file or module, line or offset; and for what samples hit, the phase and how often in it.
Row = tuple[int, str, str, int] | tuple[int, str, str, int, tuple[str, int]]


def _kernel(level: int, phase: str) -> tuple[Row, ...]:
    return (
        (level, "function", "kernel", 84),
        (level + 1, "loop", MAIN_C, 88),
        (level + 2, "loop", MAIN_C, 89),
        (level + 3, "line", MAIN_C, 90, (phase, 7)),
        (level + 3, "inlined", "average", 60),
        (level + 4, "line", MAIN_C, 62, (phase, 3)),
        (level + 1, "line", MAIN_C, 95, (phase, 1)),
    )


TREE: tuple[Row, ...] = (
    (0, "entry", "main thread", 0),
    (1, "function", "main", 210),
    (2, "line", MAIN_C, 214),
    (3, "function", "init", 40),
    (4, "loop", MAIN_C, 44),
    (5, "line", MAIN_C, 46, ("init", 5)),
    (5, "line", MAIN_C, 47, ("init", 2)),
    (2, "loop", MAIN_C, 218),
    (3, "line", MAIN_C, 219),
    (4, "function", "solve", 120),
    (5, "line", MAIN_C, 123),
    *_kernel(6, "solve"),
    (5, "line", MAIN_C, 126, ("solve", 1)),
    (3, "line", MAIN_C, 220),
    (4, "function", "exchange", 30),
    (5, "line", HALO_C, 41),
    (6, "function", "MPI_Sendrecv", 0x4A210),
    (7, "instruction", MPI, 0x4A2E4, ("send", 1)),
    (5, "line", HALO_C, 47),
    (6, "function", "MPI_Waitall", 0x51C80),
    (7, "instruction", MPI, 0x51D1F, ("wait", 1)),
    (3, "line", MAIN_C, 222),
    (4, "function", "residual", 150),
    (5, "loop", MAIN_C, 153),
    (6, "line", MAIN_C, 154, ("residual", 1)),
    (5, "line", MAIN_C, 157),
    (6, "function", "MPI_Allreduce", 0x3F6D0),
    (7, "instruction", MPI, 0x3F74A, ("residual", 2)),
    (2, "line", MAIN_C, 230),
    (3, "function", "write_result", 180),
    (4, "line", MAIN_C, 188, ("output", 1)),
    (0, "entry", "application thread", 0),
    (1, "function", "worker", 100),
    (2, "loop", MAIN_C, 104),
    (3, "line", MAIN_C, 106),
    *_kernel(4, "work"),
    (3, "line", MAIN_C, 109),
    (4, "function", "pthread_barrier_wait", 0x9B3C0),
    (5, "instruction", LIBC, 0x9B41E, ("barrier", 1)),
)
RELATIONS = {"function": Relation.CALL, "inlined": Relation.INLINED, "entry": Relation.CALL}
LIBRARIES = {"MPI_": MPI, "pthread_": LIBC}


def example(seed: int = 0, ranks: int = 4, threads: int = 2) -> Experiment:
    """Return the example experiment: equal arguments give equal experiments."""
    builder = ExperimentBuilder("example", title="stencil")
    program = _Program(builder)
    rows = [(name, unit, scope) for name, unit in METRICS for scope in SCOPES]
    for row, (name, unit, scope) in enumerate(rows):
        builder.add_metric(Metric(name, scope, unit=unit, source_id=row))
    lines = []
    for rank in range(ranks):
        for thread in range(threads):
            profile = builder.add_profile(
                ProfileKind.THREAD, _identifiers(rank, thread), source_id=rank * threads + thread + 1
            )
            line, cycles = _make_trace(program, random.Random(f"{seed}/{rank}/{thread}"), rank, ranks, thread)
            lines.append(line)
            _add_values(builder, program, profile, line, cycles)
    count = len(lines)
    samples = ArraySamples(np.arange(count, dtype=np.int32), np.full(count, ABSENT, np.int32), tuple(lines))
    times = [time for line in lines for time in (int(line.time_ns[0]), int(line.time_ns[-1]))]
    builder.set_traces(samples, time_range=(min(times), max(times)) if times else None)
    return builder.build()


def _identifiers(rank: int, thread: int) -> list[Identifier]:
    node = (NODE, FIRST_NODE + rank // RANKS_PER_NODE, rank // RANKS_PER_NODE, int(Interpretation.BOTH))
    single = int(Interpretation.SINGLE)
    return [node, (RANK, rank, rank, single), (THREAD, thread, thread, single)]


@dataclass
class _Program:
    """The contexts of the program. `places` are where samples of each phase fall, with their weights."""

    builder: ExperimentBuilder
    parent: list[int] = field(default_factory=list)
    relation: list[Relation] = field(default_factory=list)
    is_loop: list[bool] = field(default_factory=list)
    places: dict[str, list[tuple[int, int]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        path: list[int] = []
        for (level, word, name, at), hit in ((row[:4], row[4:]) for row in TREE):
            parent = path[level - 1] if level else ABSENT
            kind, relation = ContextKind[word.upper()], RELATIONS.get(word, Relation.LEXICAL)
            context = self.builder.add_context(
                parent, kind, self._region(kind, name, at), relation, source_id=len(self.parent) + 1
            )
            path[level:] = [context]
            self.parent.append(parent)
            self.relation.append(relation)
            self.is_loop.append(kind == ContextKind.LOOP)
            for phase, weight in hit:
                self.places.setdefault(phase, []).append((context, weight))

    def _region(self, kind: ContextKind, name: str, at: int) -> int:
        b = self.builder
        if kind == ContextKind.ENTRY:
            return b.region(kind, name)
        if kind == ContextKind.INSTRUCTION:
            return b.region(kind, module=b.module(name), offset=at)
        if kind == ContextKind.LINE:
            return b.region(kind, file=b.file(name), line=at)
        if kind == ContextKind.LOOP:
            return b.region(kind, file=b.file(name), line=at, module=b.module(APP), offset=0x1000 + 32 * at)
        library = next((module for start, module in LIBRARIES.items() if name.startswith(start)), "")
        if library:
            return b.region(ContextKind.FUNCTION, name, module=b.module(library), offset=at)
        file = b.file(HALO_C if name == "exchange" else MAIN_C)
        return b.region(ContextKind.FUNCTION, name, file=file, line=at, module=b.module(APP), offset=0x1000 + 16 * at)

    def pick(self, chance: random.Random, phase: str, count: int) -> list[int]:
        """Return where some samples of a phase fall."""
        contexts, weights = zip(*self.places[phase], strict=True)
        return chance.choices(contexts, weights, k=count)


def _list_phases(rank: int, ranks: int, thread: int) -> Iterator[tuple[str, int]]:
    """Yield what a thread does, and for how many samples; the empty phase is idle. Higher ranks have more work."""
    work = 8 + round(7 * rank / max(1, ranks - 1))
    if thread:
        yield "", INIT
        for _ in range(N_STEPS):
            yield "work", work - thread % 2
            yield "barrier", 1
            yield "", STEP - work - 1 + thread % 2
        return
    yield "init", INIT
    for _ in range(N_STEPS):
        yield "solve", work
        yield "send", 1
        yield "wait", STEP - work - 2
        yield "residual", 1
    yield "output", OUTPUT


def _make_trace(program: _Program, chance: random.Random, rank: int, ranks: int, thread: int) -> tuple[Samples, Floats]:
    """Return the samples of one thread, and the cycles of each. An idle time is one sample, valid until the next
    one."""
    times, contexts, cycles = [], [], []
    at = 0
    for phase, count in _list_phases(rank, ranks, thread):
        picked = program.pick(chance, phase, count) if phase else [ABSENT]
        for k, context in enumerate(picked):
            times.append(START_NS + (at + k) * PERIOD_NS + chance.randrange(PERIOD_NS // 8))
            contexts.append(context)
            cycles.append(CYCLES + chance.randrange(-50_000, 50_000) if phase else 0)
        at += count
    return Samples(np.array(times, np.int64), np.array(contexts, np.int32)), np.array(cycles, np.float64)


def _add_values(builder: ExperimentBuilder, program: _Program, profile: int, line: Samples, cycles: Floats) -> None:
    """Add the values of one profile: what its samples cost, in every scope."""
    busy = line.context >= 0
    for number, costs in enumerate((np.full(len(line), PERIOD_SEC), cycles)):
        point = np.zeros(len(program.parent))
        np.add.at(point, line.context[busy], costs[busy])
        for scope, values in zip(SCOPES, _compute_scopes(program, point), strict=True):
            context = np.flatnonzero(values)
            builder.add_values(profile, context, number * len(SCOPES) + SCOPES.index(scope), values[context])


def _compute_scopes(program: _Program, point: Floats) -> tuple[Floats, Floats, Floats, Floats]:
    """Return point, function, lexical and inclusive costs: what HPCToolkit makes of the cost of each context."""
    parent: Ids = np.array(program.parent, np.int32)
    around = np.where(np.array(program.relation) == Relation.LEXICAL, parent, ABSENT)
    inclusive = combine_upwards(point, parent, levels(depths(parent)))
    function = combine_upwards(point, around, levels(depths(around)))
    lexical = function.copy()
    for loop in np.flatnonzero(program.is_loop).tolist():
        outer = int(around[loop])
        if outer >= 0 and program.is_loop[outer]:
            lexical[outer] -= function[loop]
    return point, function, lexical, inclusive


# -- events of GPUs ----------------------------------------------------------------------------------------------------

DEVICE, STREAM = 4, 6  # kinds of identifiers
HIP, MARKER, KERNEL, COPY = "HIP_RUNTIME_API", "MARKER_CORE_API", "KERNEL_DISPATCH", "MEMORY_COPY"
GPU_STEPS = 3
COMPUTE_STREAM, COPY_STREAM = 1, 2  # profiles of a rank, after its thread
# What a step launches: the marker around it, the operation, its stream, and how long it takes, in microseconds.
LAUNCHES = (
    ("forward", "void gemm<float>(float const*, float*)", COMPUTE_STREAM, 140),
    ("forward", "void layer_norm<4>(float*, int)", COMPUTE_STREAM, 40),
    ("load next", "MEMORY_COPY_HOST_TO_DEVICE", COPY_STREAM, 90),
    ("backward", "void gemm<float>(float const*, float*)", COMPUTE_STREAM, 210),
    ("exchange", "ncclDevKernel_AllReduce(ncclDevComm*)", COPY_STREAM, 120),
)


def gpu_example(ranks: int = 2) -> Experiment:
    """Return events of a training program: kernels and copies on two streams, an all-reduce, a pause between steps."""
    builder = ExperimentBuilder("example", "1", title="train --steps 3")
    events = _Events()
    for rank in range(ranks):
        place: list[Identifier] = [(NODE, rank, rank, Interpretation.SINGLE), (RANK, rank, rank, Interpretation.SINGLE)]
        builder.add_profile(ProfileKind.THREAD, [*place, (THREAD, 0, 0, Interpretation.SINGLE)], name="main")
        for stream, name in enumerate(("compute", "copies")):
            identifiers = [
                *place,
                (DEVICE, 0, 0, Interpretation.SINGLE),
                (STREAM, stream, stream, Interpretation.SINGLE),
            ]
            builder.add_profile(ProfileKind.GPU_STREAM, identifiers, name=name)
        events.add_rank(rank)
    spans = events.spans()
    builder.set_traces(spans=spans, time_range=(0, int(spans.columns["end_ns"].max())))
    return builder.build()


class _Events:
    """Spans in the making, row by row: there are few."""

    def __init__(self) -> None:
        self._rows: list[tuple[int, int, int, int, int, int, int]] = []
        self._strings: dict[str, int] = {}
        self._sizes: dict[int, int] = {}
        self._grids: list[int] = []
        self._n_launches = 0

    def _add(
        self, profile: int, kind: SpanKind, category: str, name: str, start: int, end: int, launch: int = -1
    ) -> int:
        first, second = (self._strings.setdefault(text, len(self._strings)) for text in (category, name))
        self._rows.append((profile, kind, first, second, start, end, launch))
        return len(self._rows) - 1

    def add_rank(self, rank: int) -> None:
        us = 1000 + 50 * rank  # the second rank is slower
        first = rank * 3
        now, free = 10_000, {COMPUTE_STREAM: 0, COPY_STREAM: 0}
        for step in range(GPU_STEPS):
            begin = now
            for marker, name, stream, length in LAUNCHES:
                call, self._n_launches = now + 2_000, self._n_launches + 1
                is_copy = stream == COPY_STREAM and marker == "load next"
                api = "hipMemcpyAsync" if is_copy else "hipLaunchKernel"
                self._add(first, SpanKind.MARKER, MARKER, marker, now, call + 9_000)
                self._add(first, SpanKind.API, HIP, api, call, call + 7_000, self._n_launches)
                # the next batch is loaded meanwhile; all else waits for what came before it
                ready = free[stream] if is_copy else max(free.values())
                start = max(call + 9_500, ready)
                free[stream] = start + length * us
                kind, category = (SpanKind.COPY, COPY) if is_copy else (SpanKind.KERNEL, KERNEL)
                span = self._add(first + stream, kind, category, name, start, free[stream], self._n_launches)
                if is_copy:
                    self._sizes[span] = 4 << 20
                else:
                    self._grids.append(span)
                now = call + 10_000
            self._add(first, SpanKind.API, HIP, "hipDeviceSynchronize", now, max(now + 1_000, *free.values()))
            now = max(now + 1_000, *free.values()) + 3_000
            self._add(first, SpanKind.MARKER, MARKER, f"step {step}", begin, now)
            now += 60_000

    def spans(self) -> ArraySpans:
        names = ("profile", "kind", "category", "name", "start_ns", "end_ns", "correlation")
        columns = dict(zip(names, np.array(self._rows, np.int64).T, strict=True))
        for name in ("profile", "kind", "category", "name"):
            columns[name] = columns[name].astype(np.int32)
        none = np.full(len(self._rows), ABSENT, np.int32)
        sizes = SideTable(np.array(list(self._sizes), np.int64), {"bytes": np.array(list(self._sizes.values()))})
        shape = {"grid_x": 65_536, "grid_y": 1, "grid_z": 1, "workgroup_x": 256, "workgroup_y": 1, "workgroup_z": 1}
        kernels = np.array(self._grids, np.int64)
        grids = SideTable(kernels, {name: np.full(len(kernels), size) for name, size in shape.items()})
        columns |= {"depth": none, "context": none}
        return ArraySpans(columns, tuple(self._strings), {"copy": sizes, "kernel": grids})


STUDY_RANKS, STUDY_GRIDS = (4, 8, 16, 32, 64), (100, 200, 300, 400, 500)
STUDY_COSTS: dict[str, Callable[[float, float], float]] = {  # seconds, of p and n
    "main": lambda p, n: 0.5,
    "main->solve->kernel": lambda p, n: 2e-5 * n * n,
    "main->exchange->MPI_Waitall": lambda p, n: 4e-4 * n * math.log2(p),
    "main->output": lambda p, n: 1e-3 * p,
}


def study_example(seed: int = 11) -> Study:
    """Return a study of weak scaling: the kernel depends on the grid alone, halos also on the ranks, and output is
    serial."""
    builder, chance = StudyBuilder(("p", "n"), "example", title="stencil"), random.Random(seed)
    for ranks in STUDY_RANKS:
        for grid in STUDY_GRIDS:
            point = builder.point((ranks, grid))
            for callpath, cost in STUDY_COSTS.items():
                noise = [1 + chance.uniform(-0.01, 0.01) for _ in range(3)]
                builder.add_values(callpath, "time", point, [round(cost(ranks, grid) * by, 6) for by in noise])
    return builder.build()
