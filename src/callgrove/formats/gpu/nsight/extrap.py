"""A folder of Nsight exports as the study that Extra-P makes of it: `--extrap-compat`.

Specification: gpu-traces.md section 9, extrap.md sections 7 and 9.

    study/app.p4.r1/profile.sqlite      the name says the point; files of one point are repetitions
    study/app.p8.r1/profile.sqlite

    extrap_paths.py        correlation -> call path; exclusive durations; what ran at the same time
    extrap_activities.py   what devices did, copies and sets, as rows below call paths

Names, values and the number of values are Extra-P's, with its defects: this is for comparing with what Extra-P said.
The same folder without the option is folded as any other runs are, without them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path

import numpy as np

from callgrove.arrays import Ints, distinct
from callgrove.binary.files import Source
from callgrove.binary.sqlite.cells import MISSING, Cells, Type
from callgrove.binary.sqlite.database import SqliteFile
from callgrove.errors import InputError, NotRecognised, Parameter, UsageError, compose_text, count_of
from callgrove.formats.gpu.nsight.extrap_activities import (
    BYTES,
    TIME,
    Activities,
    Below,
    Group,
    Measured,
    Tags,
    copies_below,
    copy_times,
    overlap_rows,
    set_times,
    sets_below,
    sum_by_key,
    time_of,
)
from callgrove.formats.gpu.nsight.extrap_paths import (
    PUSH_POP,
    RUNTIME,
    CallPaths,
    Segments,
    Strings,
    call_paths,
    each_first,
    join_on_keys,
    pairs_ending_inside,
    ranges_of,
    rows_of,
)
from callgrove.formats.interface import ReadOptions
from callgrove.formats.run_names import as_extra_p_reads
from callgrove.model.experiment import Severity
from callgrove.model.study.builder import StudyBuilder
from callgrove.model.study.series import Study

__all__ = ["INCOMPLETE", "ExtraPSeries", "extra_p_study"]


# The series that Extra-P makes of one Nsight export.
#
# Specification: gpu-traces.md section 9, 1-7. What a call did on the device stands below the call's path:
#
#     main->solve->cudaLaunchKernel_v7000->gemm                        the calls
#     main->solve->cudaLaunchKernel_v7000->gemm->GPU gemm              the kernels, less what overlapped
#     main->solve->cudaLaunchKernel_v7000->gemm->GPU gemm->OVERLAP     what overlapped
#
# Known defects are kept on purpose, because whoever asks for this wants Extra-P's numbers:
#
#     D1  the overlap of copies with each other goes to one of them (extrap_activities.py)
#     D2  every kernel counts once for each GPU of the node
#     D3  waits and allocations during which no activity ends count their call twice
#     D4  a wait inside one long activity has no overlap (`Segments.within`)
#     D5  prefixes (`CallPaths.make_exclusive`)


INCOMPLETE = "validation__ignore__num_measurements"
ALLOCATING = ("cudaFree", "cudaMalloc", "cudaHostAlloc")
SYNC_TYPES = ("UNKNOWN", "EVENT_SYNCHRONIZE", "STREAM_WAIT_EVENT", "STREAM_SYNCHRONIZE", "CONTEXT_SYNCHRONIZE")
IDLE_DOMAIN = 1  # Extra-P cuts kernels at the ranges of this domain, whichever is its own

IDLE: Tags = {"gpu__idle": True, "agg__category": "GPU IDLE", INCOMPLETE: True}
SYNC: Tags = {"agg__category__comparison_cpu_gpu": "GPU SYNC"}
WAIT: Tags = {"agg__usage_disabled": True}
WAIT_OVERLAP: Tags = {INCOMPLETE: True, "gpu__overlap": "agg", "agg__usage_disabled": True}
OVERLAPPED: Tags = {"gpu__overlap": True, "gpu__kernel": True, INCOMPLETE: True}
KERNEL: Tags = {"gpu__kernel": True, "agg__category": "GPU", "agg__category__comparison_cpu_gpu": None}
KERNEL_OVERLAP: Tags = {"gpu__overlap": "agg", "gpu__kernel": True, "agg__usage_disabled": True}


class ExtraPSeries:
    """The values of one export, in Extra-P's order."""

    def __init__(self, file: SqliteFile) -> None:
        with file.reading():
            strings = Strings(file)
            self.paths: CallPaths = call_paths(file, strings)
            self._activities = Activities(file, strings)
            self._syncs = rows_of(file, "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION", "correlationId", "syncType")
            self._allocations = _allocations(file, strings)
            self._cuts = _cuts(file) if self.paths.ranges is not None else np.zeros(0, np.int64)

    def __iter__(self) -> Iterator[Measured]:
        yield from self._ranges()
        yield from self._idle()
        yield from self._wait_times()
        yield from self._kernel_times()
        yield from self._allocation_times()
        for group in self._group(copies_below(self._activities)):
            yield from copy_times(group)
        for group in self._group(sets_below(self._activities)):
            yield from set_times(group)

    @property
    def unlinked(self) -> int:
        """Return the number of kernels that belong to no call path."""
        known = self.paths.correlation[~self.paths.is_range]
        return int((~np.isin(self._activities.kernels["correlationId"], known)).sum())

    # -- the host ----------------------------------------------------------------------------------------------------

    def _ranges(self) -> Iterator[Measured]:
        paths = self.paths
        for row in np.flatnonzero(paths.is_range & (paths.duration != 0) & (paths.duration != MISSING)).tolist():
            yield time_of(paths.texts[paths.path[row]], int(paths.duration[row]))

    def _idle(self) -> Iterator[Measured]:
        """Yield the idle time of ranges in which kernels ran part of the time; each piece of a kernel counts for the
        innermost range."""
        paths, ranges = self.paths, self.paths.ranges
        if ranges is None:
            return
        start, end = _cut(self._activities.kernels, self._cuts)
        piece, at = ranges.around(start, end)
        busy, met = np.zeros(len(paths.texts), np.int64), np.zeros(len(paths.texts), np.bool_)
        np.add.at(busy, ranges.path[at], (end - start)[piece])
        met[ranges.path[at]] = True
        idle = paths.is_range & met[paths.path] & (busy[paths.path] < paths.duration)
        for row in np.flatnonzero(idle).tolist():
            path = paths.path[row]
            yield time_of(f"{paths.texts[path]}->GPU IDLE", int(paths.duration[row] - busy[path]), IDLE)

    # -- waiting -----------------------------------------------------------------------------------------------------

    def _wait_times(self) -> Iterator[Measured]:
        sync = self._syncs
        kind = np.where((sync["syncType"] < 0) | (sync["syncType"] >= len(SYNC_TYPES)), 0, sync["syncType"])
        for group in self._group(self._waiting(sync, kind, sync["end"] - sync["start"])):
            path = f"{group.path}->{SYNC_TYPES[group.kind]}"
            if group.other is not None:
                yield time_of(f"{path}->OVERLAP->{group.other}", group.overlap, OVERLAPPED)
                continue
            if group.calls - group.overlap:
                yield time_of(path, group.calls - group.overlap, SYNC)
            if group.overlap:
                yield time_of(f"{path}->OVERLAP", group.overlap, WAIT_OVERLAP)
            yield time_of(f"{path}->WAIT", group.length, WAIT)

    def _allocation_times(self) -> Iterator[Measured]:
        calls = self._allocations
        below = self._waiting(calls, calls["blocking"], calls["end"] - calls["start"])
        for group in self._group(below):
            if group.other is not None:
                yield time_of(f"{group.path}->OVERLAP->{group.other}", group.overlap, OVERLAPPED)
                continue
            overlap = group.overlap if group.kind else 0
            if group.calls - overlap:
                yield time_of(group.path, group.calls - overlap)
            if overlap:
                yield time_of(f"{group.path}->OVERLAP", overlap, WAIT_OVERLAP)

    def _waiting(self, intervals: Cells, kind: Ints, length: Ints) -> Below:
        """Return intervals in which the host waits for devices. Of those with one correlation the first counts for all,
        and what overlaps any of them counts for each."""
        device = intervals.get("device", np.ones(len(intervals["start"]), np.bool_))
        overlap = np.where(
            device, self._activities.busy.within(intervals["start"], intervals["end"], covering=False), 0
        )
        correlation, first, counts = each_first(intervals["correlationId"])
        total = sum_by_key(intervals["correlationId"], overlap)[1]
        calls = Below.of(correlation, kind=kind[first], length=length[first], overlap=total * counts)
        waits = {name: column[device] for name, column in intervals.items()}
        pairs = pairs_ending_inside(waits["start"], waits["end"], self._activities.all["end"])
        return calls + overlap_rows(waits, kind[device], self._activities.all, pairs, unnamed=True)

    # -- kernels -----------------------------------------------------------------------------------------------------

    def _kernel_times(self) -> Iterator[Measured]:
        act = self._activities
        kernels, times = act.kernels, len(act.gpu_threads)
        key, overlap = kernels["correlationId"], _kernel_overlap(kernels, act.kernel_threads, act.computing)
        correlation, total = sum_by_key(key, overlap)
        below = Below.of(
            key,
            kind=act.kernel_names,
            count=np.full(len(key), times),
            length=(kernels["end"] - kernels["start"]) * times,
            overlap=total[np.searchsorted(correlation, key)] * times,
        )
        names = act.names
        for group in self._group(below) if times else ():
            name = names[group.kind] if group.kind >= 0 else ""
            if not name or name.startswith(ALLOCATING):
                continue
            if group.calls:
                yield time_of(f"{group.path}->{name}", group.calls)
            yield time_of(f"{group.path}->{name}->GPU {name}", group.length - group.overlap, KERNEL)
            yield time_of(f"{group.path}->{name}->GPU {name}->OVERLAP", group.overlap, KERNEL_OVERLAP)

    # -- adding up ---------------------------------------------------------------------------------------------------

    def _group(self, below: Below) -> Iterator[Group]:
        """Put rows below the paths of their correlations, and yield their sums."""
        paths = self.paths
        known = np.flatnonzero(~paths.is_range)
        row, at = join_on_keys(below.correlation, paths.correlation[known])
        at = known[at]
        blocking = below.pageable[row] | ~paths.is_async[paths.path[at]]
        keys = np.stack([paths.path[at], below.other[row], below.kind[row], blocking])
        different, number = np.unique(keys, axis=1, return_inverse=True)
        called = np.where(paths.duration[at] == MISSING, 0, paths.duration[at]) * below.count[row]
        sums = np.zeros((4, different.shape[1]), np.int64)
        for total, values in zip(sums, (called, below.length[row], below.bytes[row], below.overlap[row]), strict=True):
            np.add.at(total, number.reshape(-1), values)
        names = self._activities.names
        for (path, other, kind, waits), totals in zip(different.T.tolist(), sums.T.tolist(), strict=True):
            yield Group(paths.texts[path], names[other] if other >= 0 else None, kind, bool(waits), *totals)


def _kernel_overlap(kernels: Cells, threads: Ints, segments: Segments) -> Ints:
    """Return, by kernel and over all GPUs, the share of the threads of others in every segment inside the kernel."""
    out = np.zeros(len(kernels["start"]), np.int64)
    first = np.searchsorted(segments.start, kernels["start"], side="left")
    last = np.searchsorted(segments.end, kernels["end"], side="right")
    for kernel, at in ranges_of(first, last):
        known = segments.threads[at] > 0
        kernel, at = kernel[known], at[known]
        length, total = (segments.end - segments.start)[at], segments.threads[at]
        for kernel_threads in threads[kernel].T:
            others = total - kernel_threads
            whole, rest = length // total, length % total  # the product might not fit otherwise
            np.add.at(out, kernel, whole * others + np.sign(others) * (rest * np.abs(others) // total))
    return out


def _allocations(file: SqliteFile, strings: Strings) -> Cells:
    """Read calls that allocate or free; Extra-P looks for them only where there are kernels."""
    calls = rows_of(file, RUNTIME, "correlationId", "nameId")
    different, number = np.unique(calls["nameId"], return_inverse=True)
    names = [name or "" for name in strings(different)]
    told = np.array([[n.startswith(ALLOCATING), "async" not in n.lower(), "host" not in n.lower()] for n in names])
    wanted, blocking, device = told.reshape(-1, 3).astype(np.bool_)[number].T
    wanted &= file.has("CUPTI_ACTIVITY_KIND_KERNEL")
    rows = {**calls, "blocking": blocking.astype(np.int64), "device": device}
    return {name: column[wanted] for name, column in rows.items()}


def _cuts(file: SqliteFile) -> Ints:
    """Return the times at which ranges of the first domain start and end."""
    rows = file.table("NVTX_EVENTS", dict.fromkeys(("start", "end", "eventType", "domainId"), Type.INTEGER))
    is_range = (rows["eventType"] == PUSH_POP) & (rows["domainId"] == IDLE_DOMAIN)
    cuts = np.concatenate([rows["start"][is_range], rows["end"][is_range]])
    return distinct(cuts[cuts != MISSING])


def _cut(kernels: Cells, cuts: Ints) -> tuple[Ints, Ints]:
    """Return starts and ends of the pieces of kernels between cuts."""
    first = np.searchsorted(cuts, kernels["start"], side="right")
    last = np.searchsorted(cuts, kernels["end"], side="left")
    pieces = list(ranges_of(first, last))
    inner = np.concatenate([cuts[at] for _, at in pieces]) if pieces else np.zeros(0, np.int64)
    owner = np.concatenate([kernel for kernel, _ in pieces]) if pieces else np.zeros(0, np.int64)
    order_start = np.lexsort((np.append(kernels["start"], inner), np.append(np.arange(len(kernels["start"])), owner)))
    order_end = np.lexsort((np.append(kernels["end"], inner), np.append(np.arange(len(kernels["end"])), owner)))
    return np.append(kernels["start"], inner)[order_start], np.append(kernels["end"], inner)[order_end]


Point = tuple[float, ...]
Run = tuple[Point, Path]
COMPAT = Parameter("extrap_compat", True)
NOT_EXPORTED = (".nsys-rep", ".qdrep", ".qdstrm")
KERNEL_REPORTS = (".ncu-rep", ".ncu-rep.agg", ".nsight-cuprof-report")


def extra_p_study(source: Source, options: ReadOptions) -> Study:
    """Read all exports in the folders of a folder as one study."""
    if source.more or not source.is_folder:
        raise UsageError(f"{source.path}: ", COMPAT, " reads one folder of runs, like app.p4/profile.sqlite")
    if options.folder_pattern or options.points_file:
        raise UsageError(COMPAT, " reads the names of folders as Extra-P does; it takes no pattern and no table")
    names, runs = _points(source.path, _exports(source.path))
    builder = StudyBuilder(names, "nsight", "Extra-P", source.name, str(source.path))
    builder.units = {TIME: "s", BYTES: "bytes"}
    _read(builder, runs, options)
    if reports := [p.name for p in source.path.glob("*/*") if p.name.endswith(KERNEL_REPORTS)]:
        builder.warn(Severity.NOTE, f"{source.path}: reports of single kernels are not read, such as {reports[0]}")
    return builder.build()


def _exports(folder: Path) -> list[Path]:
    exports = sorted(path for path in folder.glob("*/*.sqlite") if not path.name.startswith("."))
    if exports:
        return exports
    others = sorted(path for path in folder.glob("*/*") if path.suffix in NOT_EXPORTED)
    if others:
        raise InputError(f"{others[0]}: export it to SQLite first: nsys export --type sqlite {others[0].name}")
    raise InputError(
        f"{folder}: no export was found as {folder.name}/*/*.sqlite; name runs like app.p4.r1/profile.sqlite"
    )


# -- points ------------------------------------------------------------------------------------------------------------


def _points(folder: Path, files: Sequence[Path]) -> tuple[list[str], list[Run]]:
    """Return the names of the parameters that vary, and the files with their points."""
    read = [_parameters(file) for file in files]
    names = [name for name, _ in read[0]]
    for file, pairs in zip(files, read, strict=True):
        if [name for name, _ in pairs] != names:
            raise InputError(
                f"{file.parent}: has the parameters {', '.join(n for n, _ in pairs)}, but {files[0].parent.name} has "
                f"{', '.join(names)}; Extra-P wants the same ones in the same order"
            )
    values = [tuple(value for _, value in pairs) for pairs in read]
    varying = [k for k in range(len(names)) if len({point[k] for point in values}) > 1]
    if not varying:
        raise InputError(f"{folder}: no parameter varies over its {len(files)} runs, so there is nothing to study")
    points = [tuple(point[k] for k in varying) for point in values]
    return [names[k] for k in varying], sorted(zip(points, files, strict=True))


def _parameters(file: Path) -> list[tuple[str, float]]:
    """Return the parameters in the name of a run's folder, as Extra-P reads them."""
    pairs = as_extra_p_reads(file.parent.name)
    if not pairs:
        raise InputError(f"{file.parent}: Extra-P finds no parameter in this name; name runs like app.p4.r1")
    return pairs


# -- values ------------------------------------------------------------------------------------------------------------


def _read(builder: StudyBuilder, runs: Sequence[Run], options: ReadOptions) -> None:
    """Add the values of all series that were measured at every point, or that may be incomplete and were measured at
    several."""
    read: list[tuple[Point, list[Measured]]] = []
    for done, (point, file) in enumerate(runs):
        options.progress("reading exports", done, len(runs))
        try:
            read.append((point, _series(builder, file)))
        except InputError as error:
            if options.strict:
                raise
            builder.warn(Severity.DAMAGE, compose_text("a run was left out: ", error))
    if not read:
        raise InputError(builder.warnings[0].text)
    reached: dict[tuple[str, str], set[Point]] = {}
    for point, series in read:
        for measured in series:
            reached.setdefault((measured.callpath, measured.metric), set()).add(point)
    n_points, dropped = len({point for point, _ in read}), set()
    for point, group in groupby(read, key=lambda run: run[0]):
        number = builder.point(point)
        for _, series in group:
            for measured in series:
                n_reached = len(reached[measured.callpath, measured.metric])
                if n_reached == n_points or (INCOMPLETE in measured.tags and n_reached > 1):
                    builder.add_values(measured.callpath, measured.metric, number, [measured.value])
                    if measured.tags:
                        builder.callpath_tags.setdefault(measured.callpath, dict(measured.tags))
                else:
                    dropped.add((measured.callpath, measured.metric))
    if dropped:
        some = f"{count_of(len(dropped), 'series was', 'series were')} not measured at every point and left out"
        builder.warn(Severity.NOTE, f"{builder.path}: {some}, such as {min(dropped)[0]}")
    if not builder.has_values:
        raise InputError(f"{builder.path}: Extra-P makes no series of these exports: they have no CUDA calls in common")


def _series(builder: StudyBuilder, path: Path) -> list[Measured]:
    file = SqliteFile.open(path)
    if "StringIds" not in file.tables:
        raise NotRecognised(f"{path}: a SQLite file, but no Nsight export: it has no table StringIds")
    series = ExtraPSeries(file)
    for note in series.paths.notes:
        builder.warn(Severity.NOTE, f"{path}: {note}")
    if unlinked := series.unlinked:
        builder.warn(Severity.NOTE, f"{path}: {count_of(unlinked, 'kernel')} of no call path left out")
    return list(series)
