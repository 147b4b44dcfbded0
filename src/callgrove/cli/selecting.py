"""Which part of an experiment is wanted: the options of verbs that cut, and the experiment that they leave.

--window START:END    times since the experiment's start: 250ms:1.5s, 10%:20%, plain numbers are ns; @ is absolute
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from callgrove.cli.contexts import ContextOptions, refuse_rest
from callgrove.cli.options import MetricNames, ProfileOptions, add_derive, add_profiles, add_run, add_window
from callgrove.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from callgrove.model.experiment import Experiment
    from callgrove.model.traces.events import Window
    from callgrove.model.traces.windows import TimeWindow

__all__ = [
    "CuttingOptions",
    "WindowOptions",
    "add_cutting",
    "add_window_mode",
    "choose_window",
    "cut_costs",
    "is_cut",
    "select_part",
]

WINDOW_MODES = ("touch", "inside")


class WindowOptions(Protocol):
    """Which window of traces is wanted."""

    @property
    def window(self) -> TimeWindow | None: ...
    @property
    def start_marker(self) -> str: ...
    @property
    def end_marker(self) -> str: ...


@dataclass(frozen=True, kw_only=True)
class CuttingOptions(MetricNames, ProfileOptions, ContextOptions):
    """Which part of an experiment to keep; what is not named is kept."""

    metric: Sequence[str]
    no_traces: bool
    window: TimeWindow | None
    start_marker: str
    end_marker: str
    window_mode: str
    category: Sequence[str]
    keep_contexts: bool

    @property
    def metric_texts(self) -> Sequence[str]:
        """What was given to name metrics."""
        return self.metric


def add_cutting(parser: argparse.ArgumentParser) -> None:
    """Add the options that choose what to keep; everything that is not named is kept."""
    group = parser.add_argument_group("selection: keep a part only")
    group.add_argument(
        "-m",
        "--metric",
        metavar="NAME",
        action="append",
        default=[],
        help="only this metric, or NAME=FORMULA, as in --derive; may be repeated, or a,b",
    )
    add_derive(group)
    add_profiles(group)
    add_run(group)
    traces = group.add_mutually_exclusive_group()
    traces.add_argument("--no-traces", action="store_true", help="leave traces out")
    add_window(traces, "only this part of traces")
    add_window_mode(group)
    group.add_argument(
        "--category",
        metavar="NAME",
        action="append",
        default=[],
        help="only spans of this category, like HIP or HIP_RUNTIME_API; may be repeated",
    )
    group.add_argument("--keep-contexts", action="store_true", help="keep contexts that the selection does not use")


def add_window_mode(group: argparse._ActionsContainer) -> None:
    """Add the options that choose a window by markers, and what belongs to a window."""
    for side, word in (("start", "from the first"), ("end", "until the last")):
        group.add_argument(
            f"--{side}-marker", metavar="NAME", default="", help=f"only the part of traces {word} marker of that name"
        )
    group.add_argument(
        "--window-mode",
        choices=WINDOW_MODES,
        default=WINDOW_MODES[0],
        help="of a window, spans that touch it (default), or lie inside it",
    )


def is_cut(options: CuttingOptions) -> bool:
    """Return whether any part was asked for."""
    times = options.window or options.start_marker or options.end_marker
    return bool(
        options.metric
        or options.rank
        or options.thread
        or options.no_traces
        or times
        or options.contexts
        or options.rest != "path"
        or options.asks_places
        or options.category
    )


def select_part(experiment: Experiment, options: CuttingOptions) -> Experiment:
    """Return the part of the experiment that was asked for, and say on stderr how much of it is left."""
    from callgrove.algebra import selecting
    from callgrove.cli.messages import note
    from callgrove.cli.output import say_selected_cost
    from callgrove.model.profiles import choose_profiles
    from callgrove.model.selection import span_choice

    if options.no_traces and (options.span_kinds or options.category or options.start_marker or options.end_marker):
        raise UsageError("--no-traces leaves out all traces, so no part of them can be chosen")
    if not is_cut(options):
        return experiment
    refuse_rest(options)
    metrics = list(_match_quantities(experiment, options.metric)) or None
    window = choose_window(experiment, options)
    profiles = choose_profiles(
        experiment, options.rank, options.thread, nodes=options.node, gpus=options.gpu, streams=options.stream
    )
    part = selecting.select_part(
        experiment,
        options.selection,
        profiles=profiles,
        metrics=metrics,
        window=window,
        traces=not options.no_traces,
        drop_unused=not options.keep_contexts,
        spans=span_choice(
            options.span_kinds or None, options.category or None, window=window, window_mode=options.window_mode
        ),
    )
    if (options.span_kinds or options.category) and experiment.traces.n_spans and not part.traces.n_spans:
        selecting.refuse_no_spans(experiment, options.selection)
    if options.contexts:
        say_selected_cost(part, metrics[0] if metrics else None)
    counts = (
        ("profiles", len(part.profiles.measured), len(experiment.profiles.measured)),
        ("contexts", len(part.contexts), len(experiment.contexts)),
        ("metrics", len(part.metrics.quantities), len(experiment.metrics.quantities)),
        ("samples", part.traces.n_samples, experiment.traces.n_samples),
        ("spans", part.traces.n_spans, experiment.traces.n_spans),
    )
    note("selected " + ", ".join(f"{kept:,} of {there:,} {word}" for word, kept, there in counts if there))
    for warning in part.warnings[len(experiment.warnings) :]:
        note(warning.text)
    return part


def _match_quantities(experiment: Experiment, asked: Sequence[str]) -> Iterator[str]:
    """Yield quantities by name; a text that is not a name by itself, and defines none, is a list of them."""
    for text in asked:
        is_one = text in experiment.metrics.quantities or "=" in text
        names = [text] if is_one else text.split(",")
        for name in names:
            yield experiment.metrics.resolve(name.strip())


def cut_costs(experiment: Experiment, options: CuttingOptions) -> Experiment:
    """Return the experiment with the costs of the window that was asked for. Stored costs are of the whole run, which a
    target that shows nothing but costs would show whatever the window is."""
    from callgrove.algebra.window_costs import WHOLE_RUN, costs_in_window
    from callgrove.cli.messages import note

    window = choose_window(experiment, options)
    if window is None:
        return experiment
    note(WHOLE_RUN)
    return costs_in_window(experiment, window)


def choose_window(experiment: Experiment, options: WindowOptions) -> Window | None:
    """Return the window of traces that was asked for, in ns; None where none was."""
    from callgrove.model.selection import choose_window
    from callgrove.render.units import duration_ns

    words = f"--window {options.window}" if options.window else "a window from marker to marker"
    return choose_window(experiment, options.window, options.start_marker, options.end_marker, duration_ns, words)
