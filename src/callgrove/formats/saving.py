"""Writing with one call: the format by name, or by the ending of the target."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from callgrove.errors import UsageError
from callgrove.formats.interface import WriteOptions, Writes
from callgrove.formats.registry import checked_dialect, format_for_target, writer_of
from callgrove.formats.transfer import write as write_as
from callgrove.model.experiment import Experiment
from callgrove.model.study import Study

__all__ = ["write"]


def write(
    opened: Experiment | Study,
    target: str | Path,
    format_name: str = "",
    *,
    dialect: str = "",
    overwrite: bool = False,
) -> Sequence[str]:
    """Write an experiment or a study to a file or folder, and give what the format could not hold, a sentence each.

    Without `format_name` the ending of the target decides, as in `callgrove convert`. The target appears when it is
    complete; one that is there already is an error unless `overwrite`. An experiment with runs over parameters becomes
    its study where the format holds series.
    """
    path = Path(target)
    if isinstance(opened, Experiment) and opened.path and path.resolve() == Path(opened.path).resolve():
        raise UsageError(f"{target}: is the input, which is never modified; name another target")
    name = format_name or format_for_target(path, series=isinstance(opened, Study))
    format_ = writer_of(name)
    if isinstance(opened, Experiment) and not isinstance(format_, Writes) and opened.runs[0].parameters:
        opened = opened.study()
    report = write_as(opened, format_, path, WriteOptions(checked_dialect(name, dialect), overwrite))
    return (*report.lines, *(f"unexplained: {difference}" for difference in report.unexplained))
