"""What traces say: statistics of spans, exact times in a window, phases."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, cast

from callgrove.model.methods.shared import find_window

if TYPE_CHECKING:
    from callgrove.model.experiment import Experiment
    from callgrove.model.runs import Numbers
    from callgrove.model.table import Table
    from callgrove.model.traces.events import Window

__all__ = ["TraceMethods"]


class TraceMethods:
    """The methods of `Experiment` that read its traces."""

    def summary(
        self,
        section: str | Sequence[str] = (),
        by: str | Sequence[str] = (),
        *,
        limit: int | None = None,
        window: Window | str | None = None,
        window_mode: str = "inside",
        start_marker: str = "",
        end_marker: str = "",
        ranks: Numbers | None = None,
        runs: Numbers | None = None,
        ignore_digits: bool = False,
        columns: str | None = None,
        name: str | Sequence[str] = (),
        kind: str | Sequence[str] = (),
    ) -> Table:
        """Return what a traced run did, and how busy its devices were: statistics of kernels, copies, calls, ...

        section        only these: kernels, copies, api, sync, allocations, markers, regions, overhead, counters, busy,
                       overlap, gaps, longest-gaps, latency; memory is computed only where it is named
        by             divide rows by rank, agent, stream, domain or marker
        limit          at most so many rows of each section
        window         (start, end) in ns, or a text such as "250ms:1.5s" or "10%:20%"
        window_mode    spans that lie inside, that touch it, or what of them lies inside (clip)
        start_marker, end_marker    begin and end with markers of that name
        ignore_digits  names that differ in digits alone are one
        columns        total times side by side: a column for each rank, agent, stream, domain or marker
        name, kind     only spans of these names, globs or /regular expressions/, and kinds; shares are of these

            experiment.summary("kernels", by="rank", limit=5)
            experiment.summary("kernels", columns="rank")
        """
        from callgrove.algebra.selecting import ContextSelection, select_spans
        from callgrove.analysis.method_results import summary_of_run

        experiment = cast("Experiment", self)
        part = experiment.select(runs=runs) if runs is not None else experiment
        return summary_of_run(
            select_spans(part, ContextSelection.of(name=name, kind=kind)),
            [section] if isinstance(section, str) else section,
            [by] if isinstance(by, str) else by,
            limit,
            find_window(experiment, window, start_marker, end_marker),
            window_mode,
            ranks,
            ignore_digits,
            columns,
        )

    def timeline(
        self,
        window: Window | str | None = None,
        by: str | Sequence[str] = ("name",),
        kind: str | Sequence[str] | None = None,
        depth: int | None = None,
        exclusive: bool = False,
        bins: int | None = None,
        classes: str | Path | Mapping[str, str] | Iterable[tuple[str, str]] | None = None,
        *,
        limit: int | None = None,
        metric: str | None = None,
        ranks: Numbers | None = None,
        threads: Numbers | None = None,
        runs: Numbers | None = None,
    ) -> Table:
        """Return what went on in a window of the traces, as exact times in ns: those with the most time first.

        window         (start, end) in ns of the traces' clock, or a text such as "250ms:1.5s" or "10%:20%"
        by             what tells rows apart: name, profile, rank, thread, node, kind, class, context, depth
        kind           only functions and spans of these kinds: function, kernel, api, marker, ...
        depth          the N-th function from the root; where a stack is shorter, its last
        exclusive      of spans that nest, each moment belongs to the innermost one
        bins           divide the window into so many parts; from_ns tells where each begins
        classes        which names are compute, communication, synchronisation, io, copy or idle: a mapping of patterns,
                       or a file of them
        metric         lines of samples that follow this metric

        A sample stands for the time until the next one of its profile, a span for itself. Samples, classes and
        exclusive spans of a profile add up to the window, with idle, (no trace) and (between spans). ranks, threads and
        runs are as in `top`.

            experiment.timeline("10%:20%", by=("rank", "class"))
        """
        from callgrove.analysis.timeline.items import read_rules
        from callgrove.analysis.timeline.statistics import Question, choose_window, measure
        from callgrove.model.profiles import choose_profiles
        from callgrove.render.units import duration_ns

        experiment = cast("Experiment", self)
        question = Question(
            choose_window(experiment, window, duration_ns),
            (by,) if isinstance(by, str) else tuple(by),
            choose_profiles(experiment, ranks, threads, runs),
            (kind,) if isinstance(kind, str) else None if kind is None else tuple(kind),
            depth,
            exclusive,
            bins,
            read_rules(classes),
            metric,
        )
        return measure(experiment, question).table(limit)

    def phases(
        self,
        depth: int | None = None,
        window: Window | str | None = None,
        kind: str | Sequence[str] | None = None,
        *,
        ignore_digits: bool = False,
        ranks: Numbers | None = None,
        threads: Numbers | None = None,
        runs: Numbers | None = None,
    ) -> Table:
        """Return sequences of functions or spans that repeat over time, such as the iterations of a loop.

        depth          which function from the root, or which level of nested spans (default: the least at which
                       phases take half of the time)
        ignore_digits  names that differ in digits alone are one: step 1, step 2

        window, kind, ranks, threads and runs are as in `timeline`. count, mean_ns, min_ns and max_ns are of the
        occurrences of a pattern, slowest_ns is when the longest began; the notes say at which depth, or that nothing
        repeats.

            experiment.phases(ranks=0)
        """
        from callgrove.analysis.timeline.phases import phases
        from callgrove.analysis.timeline.statistics import Question, choose_window
        from callgrove.model.profiles import choose_profiles
        from callgrove.render.units import duration_ns

        experiment = cast("Experiment", self)
        question = Question(
            choose_window(experiment, window, duration_ns),
            profiles=choose_profiles(experiment, ranks, threads, runs),
            kinds=(kind,) if isinstance(kind, str) else None if kind is None else tuple(kind),
            depth=depth,
        )
        return phases(experiment, question, ignore_digits)[0]
