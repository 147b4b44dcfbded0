"""Runs whose parameters a user says: `--point p=4,n=100 RUN`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from callgrove.binary.sources import Source
from callgrove.errors import InputError, UsageError
from callgrove.formats.interface import ReadOptions
from callgrove.formats.runs.opened_runs import RunAt, open_runs, runs_in
from callgrove.model.experiment import Experiment
from callgrove.model.run_names import parse_point

__all__ = ["open_points"]


def open_points(
    given: Sequence[tuple[str, str]], format_name: str = "", options: ReadOptions | None = None
) -> Experiment:
    """The experiment of (point, path) pairs, such as ("p=4,n=100", "run7.d"); equal points are repetitions."""
    runs: list[RunAt] = []
    names: set[str] = set()
    for text, place in given:
        point = parse_point(text)
        names = names or set(point)
        if set(point) != names:
            raise UsageError(f"{text!r} has other parameters than the points before it: {', '.join(sorted(names))}")
        path = Path(place)
        found = runs_in(Source.of(path), format_name)
        if not found:
            raise InputError(f"{path}: nothing in it was recognised as a run; see `callgrove formats`")
        ordered = {name: point[name] for name in runs[0].parameters} if runs else point
        runs += [RunAt(one, path.name, ordered) for one in found]
    return open_runs(runs, f"{len(runs)} runs", "", format_name, options or ReadOptions())
