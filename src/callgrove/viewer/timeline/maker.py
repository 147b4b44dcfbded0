"""The timeline of an experiment with traces."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from callgrove.arrays import Bools, Ints
from callgrove.errors import count_of
from callgrove.model.experiment import Experiment
from callgrove.model.profiles import choose_profiles
from callgrove.model.study.series import Study
from callgrove.model.traces.events import SpanKind
from callgrove.render.units import duration_ns
from callgrove.viewer.page import Choice, Detail, Limits, Panel, Texts
from callgrove.viewer.timeline.events import N_KINDS, FrameNames, Names, NameTimes, Stacks, Survey, legend_of, survey
from callgrove.viewer.timeline.layers import Gathered, Layer, Shows, gather, names_in_use

__all__ = ["TimelineMaker", "timeline_maker"]

LEAST_BOXES = 200
N_PARTS = 16  # of the whole range, of which two are shown in finer bins
OF_LINE, OF_LEVELS = 0.5, 0.2  # of the boxes are for the whole range, the rest for a closer look at parts
LONGEST_NAME, NAME_HEAD = 1000, 700
NAMES_PER_DEPTH = 20  # of which the share is known where stacks are cut


def timeline_maker(opened: Experiment | Study, choice: Choice, limits: Limits | None = None) -> TimelineMaker | None:
    """Return panels of an experiment that says when anything happened."""
    if isinstance(opened, Study):
        return None
    chosen = choose_profiles(opened, choice.ranks, choice.threads)
    overview = survey(opened, opened.profiles.measured if chosen is None else chosen, (limits or Limits()).lines)
    return TimelineMaker(opened, overview, limits or Limits()) if overview is not None else None


class TimelineMaker:
    """Rows over time, as exact as there is room for."""

    def __init__(self, experiment: Experiment, overview: Survey, limits: Limits) -> None:
        self._experiment, self._survey, self._limits = experiment, overview, limits
        self._stacks, self._names = Stacks(experiment.contexts), Names()
        self._frames = FrameNames(self._stacks, self._names)
        self._times = NameTimes(self._stacks, self._names)
        length = overview.window[1] - overview.window[0]
        (self._whole,) = gather(experiment, overview, self._frames, [(0, length)], limits, self._times)

    @cached_property
    def _parts(self) -> list[Gathered]:
        """The busiest part of the time, and the first, for a closer look."""
        windows = dict.fromkeys([self._whole.busiest(N_PARTS), self._whole.part(0, N_PARTS)])
        return gather(self._experiment, self._survey, self._frames, list(windows), self._limits)

    def panels(self, detail: Detail) -> Iterator[Panel]:
        most = detail.of(self._limits.boxes, self._limits.boxes, LEAST_BOXES)
        exact = self._whole.exact_layer(most)
        layers = [exact] if exact is not None else self._in_bins(most)
        yield Panel("timeline", "Timeline", self._data(layers), tuple(self._notes(layers)))

    def _in_bins(self, most: int) -> list[Layer]:
        """Return the whole range as lines and, if there is room for more than one of them, as levels; and parts of it
        wherever these are finer."""
        whole = {Shows.LINE: self._whole.line_layer(int(most * OF_LINE))}
        levels = self._whole.levels_layer(int(most * OF_LEVELS))
        if levels.left_levels < len(self._whole.levels) - 1 or not levels.left_levels:
            whole[Shows.LEVELS] = levels
        rest = (most - sum(len(layer.boxes) for layer in whole.values())) // len(self._parts)
        rest = max(rest, LEAST_BOXES // 8)
        closer: list[Layer] = []
        for part in self._parts:
            exact = part.exact_layer(rest)
            closer += [exact] if exact is not None else [self._LAYERS[one](part, rest // len(whole)) for one in whole]
        finest = {shows: layer.tick_ns for shows, layer in whole.items()}
        limit, stride = min(finest.values()), max(layer.stride for layer in whole.values())
        return [
            *whole.values(),
            *(one for one in closer if one.tick_ns < finest.get(one.shows, limit) and one.stride <= stride),
        ]

    _LAYERS: ClassVar = {Shows.LINE: Gathered.line_layer, Shows.LEVELS: Gathered.levels_layer}

    def _data(self, layers: list[Layer]) -> dict[str, Any]:
        used, rows, keys = names_in_use(layers), self._survey.rows, self._names.keys
        texts = [self._text(keys[number]) for number in used.tolist()]
        return {
            "origin": str(self._survey.window[0]),  # more digits than the numbers of a page have
            "length_ns": self._survey.window[1] - self._survey.window[0],
            "rows": {"group": Texts(rows.group), "name": Texts(rows.name), "profile": rows.profile[rows.first]},
            "sampled": np.array([what == "samples" for what in rows.what.take(rows.first)]),
            "names": {"text": Texts([text for text, _ in texts]), "kind": Texts([kind for _, kind in texts])},
            **self._legends,
            "layers": [layer.data(np.searchsorted(used, layer.boxes.name).astype(np.int32)) for layer in layers],
        }

    @cached_property
    def _is_overhead(self) -> Bools:
        """Which names are those of what the profiler did."""
        return np.array([key >= 0 and key % N_KINDS == SpanKind.OVERHEAD for key in self._names.keys], np.bool_)

    @property
    def _overhead_ns(self) -> int:
        """What the profiler did while the application ran."""
        times = self._times.at()
        return int(times[self._is_overhead[: len(times)]].sum())

    @cached_property
    def _legends(self) -> dict[str, Any]:
        """Shares of names and of kinds: of innermost calls, and of calls cut at each depth."""
        cut = [self._times.at(depth) for depth in range(self._times.n_levels - 1)]
        times, keys = self._times.at(), self._names.keys
        overhead = self._is_overhead
        names, kinds = zip(*map(self._text, keys), strict=True) if keys else ((), ())

        def legends(times: Ints, most: int) -> dict[str, Any]:
            application_times = np.where(overhead[: len(times)], 0, times)
            return {
                "legend": legend_of(application_times, names, most).data,
                "kinds": legend_of(application_times, kinds, most).data,
            }

        return {
            **legends(times, self._limits.names),
            "depths": [legends(one, NAMES_PER_DEPTH) for one in cut],
            "overhead_ns": self._survey.overhead_ns,
        }

    def _text(self, key: int) -> tuple[str, str]:
        """Return the text of a name and the kind of what it names."""
        if key < 0:
            text, kind = self._stacks.text(key)
        else:
            number, which = divmod(key, N_KINDS)
            kind = SpanKind(which).word
            backend = self._experiment.traces.spans_backend
            text = backend.strings[number - 1] if number and backend is not None else kind
        if len(text) > LONGEST_NAME:  # long names of one template differ at their ends
            text = f"{text[:NAME_HEAD]}…{text[NAME_HEAD - LONGEST_NAME + 1 :]}"
        return text, kind

    def _notes(self, layers: list[Layer]) -> Iterator[str]:
        overview, whole = self._survey, layers[0]
        n_runs = len(np.unique(self._experiment.profiles.run[overview.rows.profile]))
        if n_runs > 1:
            yield f"Rows of {n_runs:,} runs stand below each other; the legend counts all of them together."
        if overview.rows.are_joined:
            yield (
                f"{len(overview.rows):,} rows are shown as {len(overview.rows.name):,}: each stands for up to "
                f"{int(overview.rows.n_joined.max()):,} neighbours, and for the name that most of their time goes to."
            )
        if not whole.exact:
            yield self._steps(layers)
        levels = next((layer for layer in layers if layer.shows == Shows.LEVELS), None)
        if levels is not None and levels.left_levels:
            yield f"{levels.left_levels} levels of calls whose time is divided least are left out."
        if not whole.exact and levels is None:
            yield "Only innermost calls are shown; a larger page (--max-size) has room for those that called them."
        if (depth := self._whole.stack_depth(whole)) is not None:
            yield f"Of call stacks the outermost {depth} functions are shown; what these call is part of them."
        n_lines = len(overview.rows.name)
        for layer in (whole, levels):
            if layer is not None and layer.stride > 1:
                where = " where calls are below each other" if layer.shows == Shows.LEVELS else ""
                yield f"Of {n_lines:,} rows one in {layer.stride} is shown{where}; the legend counts all."
        n_empty = len(overview.rows) - len(np.unique(whole.boxes.row))
        if n_empty and whole.stride == 1 and not overview.rows.are_joined:
            yield f"{n_empty:,} of {len(overview.rows):,} rows were idle all the time and are not shown."
        if (cut := overview.overhead_ns - self._overhead_ns) > 0:
            yield f"The profiler worked for another {duration_ns(cut)} before or after the application: not shown."
        if overview.n_flagged:
            why = "they end before they start, or at times that no clock shows"
            yield f"{count_of(overview.n_flagged, 'span is', 'spans are')} left out: {why}."

    def _steps(self, layers: list[Layer]) -> str:
        """Return what is in a page that does not hold every event."""
        line, *others = layers
        length = self._whole.length
        closer = [layer for layer in others if layer.window[1] - layer.window[0] < length]
        levels = next((layer for layer in others if layer.shows == Shows.LEVELS), line)
        parts = " and ".join(
            dict.fromkeys(
                f"{duration_ns(one.window[1] - one.window[0])} from {duration_ns(one.window[0])} on"
                + (" event by event" if one.exact else f" in steps of {duration_ns(one.tick_ns)}")
                for one in closer
                if one.shows != Shows.LEVELS
            )
        )
        wider = "" if levels.tick_ns == line.tick_ns else f" ({duration_ns(levels.tick_ns)} for calls below each other)"
        return (
            f"To keep this page small, {self._whole.n_events:,} events are shown in steps of "
            f"{duration_ns(line.tick_ns)}{wider}, each with the name that took the largest part of it"
            + (f"; {parts}." if parts else ".")
            + " Shares in the legend are those of all events."
        )
