"""Writing with one call: the format by name, or by the ending of the target."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from callgrove.errors import UsageError
from callgrove.formats.interface import WriteOptions, Writes
from callgrove.formats.registry import checked_dialect, format_for_target, writer_of
from callgrove.formats.transfer import write as write_as
from callgrove.model.completing import series_of
from callgrove.model.experiment import Experiment
from callgrove.model.study import Study

__all__ = ["write"]


def write(
    opened: Experiment | Study,
    target: str | Path,
    to_format: str = "",
    *,
    overwrite: bool = False,
    dialect: str = "",
    annotations: str = "default",
    track_names: str = "plain",
    real_pids: bool = False,
    by_queue: bool = False,
    kernel_rename: bool = False,
    agent_index: str = "",
    keep_partial: bool = False,
) -> Sequence[str]:
    """Write an experiment or a study to a file or folder, and return what the format could not hold, a sentence each.

    to_format       the format (default: by the ending of the target, as in `callgrove convert`)
    overwrite       replace a target that is there already, which is an error otherwise
    dialect         which variant of the format
    annotations     of traces for viewers, how much slices say about themselves: none, default, all
    track_names     how tracks are called: plain, rocpd
    real_pids       process ids as they were, also where two processes share one
    by_queue        operations on queues instead of streams
    kernel_rename   kernels under the name of the range that they were launched in
    agent_index     which number devices are called by: absolute, relative, type-relative
    keep_partial    keep what was written before an interruption, as OUT.part

    The target appears when it is complete. Where the format holds series, an experiment with runs over parameters
    becomes what `Experiment.series` returns.

        lost = callgrove.write(experiment, "run.cubex")
    """
    path = Path(target)
    if isinstance(opened, Experiment) and opened.path and path.resolve() == Path(opened.path).resolve():
        raise UsageError(f"{target}: is the input, which is never modified; name another target")
    name = to_format or format_for_target(path, series=isinstance(opened, Study))
    format_ = writer_of(name)
    if isinstance(opened, Experiment) and not isinstance(format_, Writes) and opened.runs[0].parameters:
        opened = series_of(opened)
    options = WriteOptions(
        checked_dialect(name, dialect),
        overwrite,
        annotations=annotations,
        track_names=track_names,
        real_pids=real_pids,
        by_queue=by_queue,
        kernel_rename=kernel_rename,
        agent_index=agent_index,
        keep_partial=keep_partial,
    )
    report = write_as(opened, format_, path, options)
    return (*report.lines, *(f"unexplained: {difference}" for difference in report.unexplained))
