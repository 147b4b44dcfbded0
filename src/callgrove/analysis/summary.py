"""What a traced run did: kernels, calls, copies, allocations, markers; how busy devices were, and why not.

    summarise(experiment, ...)   one `Summary` per part of the trace, on any number of workers, added up in their order

Parts are summed up in their order, small ones some at a time, so the result does not depend on who did the work. Memory
holds one part, or one bundle of small ones, per worker. Spans that end before they start are not added up; they are
counted. Statistics are exact.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from callgrove.analysis.summaries import DEVICE_SECTIONS, SECTIONS, By, Places, Summary, WindowMode
from callgrove.analysis.summary_parts import Task, of_part
from callgrove.execute import IN_PROCESS, Workers
from callgrove.model.arrays import Ints
from callgrove.model.experiment import Experiment
from callgrove.model.traces import Traces, Window

BUNDLE_BYTES = 8 << 20  # of small parts that are summed up at once

__all__ = ["SECTIONS", "By", "Summary", "WindowMode", "summarise"]


def summarise(
    experiment: Experiment,
    by: Sequence[By] = (),
    window: Window | None = None,
    mode: WindowMode = WindowMode.INSIDE,
    profiles: Ints | None = None,
    workers: Workers = IN_PROCESS,
    sections: Sequence[str] = SECTIONS,
    ignore_digits: bool = False,
) -> Summary:
    """The whole trace, or some profiles of it, or a window of time; what other sections need may be left out. Names
    that differ in digits alone, such as those of steps, may count as one."""
    total = Summary(tuple(by))
    asked = not DEVICE_SECTIONS.isdisjoint(sections)
    every = _tasks(experiment, tuple(by), window, mode, profiles)
    tasks = [replace(task, with_devices=asked, ignore_digits=ignore_digits) for task in every]
    found = map(of_part, tasks) if len(tasks) < 2 else workers.map(of_part, tasks, label="summing up")
    for part in found:
        total.merge(part)
    return total


def _tasks(
    experiment: Experiment, by: tuple[By, ...], window: Window | None, mode: WindowMode, profiles: Ints | None
) -> Iterator[Task]:
    traces, places = experiment.traces, Places.of(experiment)
    parts = traces.parts()
    if traces.split is None:
        for number, part in enumerate(parts):
            chosen = part if profiles is None else np.intersect1d(part, profiles)
            if len(chosen):
                alone = Traces(spans_backend=traces.spans_backend)
                yield Task(
                    alone, number, places, chosen if len(parts) > 1 or profiles is not None else None, by, window, mode
                )
        yield Task(Traces(counters_source=traces.counters), 0, places, profiles, by, window, mode)
        return
    for first, end in traces.bundles(BUNDLE_BYTES):
        bundle = np.concatenate(parts[first:end])
        rows = None if profiles is None else np.flatnonzero(np.isin(bundle, profiles))
        if rows is None or len(rows):
            own = places.take(bundle).apart(np.repeat(np.arange(end - first), [len(p) for p in parts[first:end]]))
            yield Task(traces.split(first, end), None, own, rows, by, window, mode)
