"""A folder of Nsight exports as the study that Extra-P makes of it: `ReadOptions.extrap_compat`.

Specification: gpu-traces.md section 9, extrap.md sections 7 and 9.

    study/app.p4.r1/profile.sqlite      the name says the point; files of one point are repetitions
    study/app.p8.r1/profile.sqlite

    nsight_extrap_paths.py        correlation -> call path; exclusive durations
    nsight_extrap_activities.py   what devices did
    nsight_extrap_overlaps.py     what ran at the same time
    nsight_extrap_rows.py         rows below call paths
    nsight_extrap_memory.py       copies and sets
    nsight_extrap_series.py       all series of one export

Names, values and the number of values are Extra-P's, with its defects: this is for comparing with what Extra-P said.
The same folder without the option is folded as any other runs are, without them.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from pathlib import Path

from callgrove.binary.sources import Source
from callgrove.errors import InputError, NotRecognised, Parameter, UsageError, worded
from callgrove.formats.gpu.nsight_extrap_rows import BYTES, TIME, Measured
from callgrove.formats.gpu.nsight_extrap_series import INCOMPLETE, ExtraPSeries
from callgrove.formats.gpu.sqlite_file import SqliteFile
from callgrove.formats.interface import ReadOptions
from callgrove.model.experiment import Severity
from callgrove.model.run_names import as_extra_p_reads
from callgrove.model.study import Study
from callgrove.model.study_builder import StudyBuilder

__all__ = ["extra_p_study"]

Point = tuple[float, ...]
Run = tuple[Point, Path]
COMPAT = Parameter("extrap_compat", True)
NOT_EXPORTED = (".nsys-rep", ".qdrep", ".qdstrm")
KERNEL_REPORTS = (".ncu-rep", ".ncu-rep.agg", ".nsight-cuprof-report")


def extra_p_study(source: Source, options: ReadOptions) -> Study:
    """All exports in the folders of a folder, as one study."""
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
    found = sorted(path for path in folder.glob("*/*.sqlite") if not path.name.startswith("."))
    if found:
        return found
    others = sorted(path for path in folder.glob("*/*") if path.suffix in NOT_EXPORTED)
    if others:
        raise InputError(f"{others[0]}: export it to SQLite first: nsys export --type sqlite {others[0].name}")
    raise InputError(
        f"{folder}: no export was found as {folder.name}/*/*.sqlite; name runs like app.p4.r1/profile.sqlite"
    )


# -- points ------------------------------------------------------------------------------------------------------------


def _points(folder: Path, files: Sequence[Path]) -> tuple[list[str], list[Run]]:
    """The names of the parameters that vary, and the files by their points."""
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
    """Those in the name of a run's folder, as Extra-P finds them."""
    pairs = as_extra_p_reads(file.parent.name)
    if not pairs:
        raise InputError(f"{file.parent}: Extra-P finds no parameter in this name; name runs like app.p4.r1")
    return pairs


# -- values ------------------------------------------------------------------------------------------------------------


def _read(builder: StudyBuilder, runs: Sequence[Run], options: ReadOptions) -> None:
    """All values, of series that were measured at every point, or may be incomplete and were measured at some."""
    read: list[tuple[Point, list[Measured]]] = []
    for done, (point, file) in enumerate(runs):
        options.progress("reading exports", done, len(runs))
        try:
            read.append((point, _series(builder, file)))
        except InputError as error:
            if options.strict:
                raise
            builder.warn(Severity.DAMAGE, worded("a run was left out: ", error))
    if not read:
        raise InputError(builder.warnings[0].text)
    reached: dict[tuple[str, str], set[Point]] = {}
    for point, series in read:
        for one in series:
            reached.setdefault((one.callpath, one.metric), set()).add(point)
    n_points, dropped = len({point for point, _ in read}), set()
    for point, group in groupby(read, key=lambda run: run[0]):
        number = builder.point(point)
        for _, series in group:
            for one in series:
                n_reached = len(reached[one.callpath, one.metric])
                if n_reached == n_points or (INCOMPLETE in one.tags and n_reached > 1):
                    builder.add_values(one.callpath, one.metric, number, [one.value])
                    if one.tags:
                        builder.callpath_tags.setdefault(one.callpath, dict(one.tags))
                else:
                    dropped.add((one.callpath, one.metric))
    if dropped:
        some = f"{len(dropped)} series are left out, which were not measured at every point"
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
        builder.warn(Severity.NOTE, f"{path}: {unlinked} kernels belong to no call path and are left out")
    return list(series)
