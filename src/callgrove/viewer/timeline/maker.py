"""The timeline of an experiment with traces."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any

import numpy as np

from callgrove.analysis.costs import select
from callgrove.model.experiment import Experiment
from callgrove.model.study import Study
from callgrove.model.traces import SpanKind
from callgrove.render.units import duration_ns
from callgrove.viewer.encoding import Texts
from callgrove.viewer.panels import Choice, Detail, Panel
from callgrove.viewer.timeline.events import MOST_LEVELS, N_KINDS, Survey, survey
from callgrove.viewer.timeline.layers import Gathered, Layer, gather, used_names
from callgrove.viewer.timeline.stacks import Stacks

__all__ = ["TimelineMaker", "timeline_maker"]

MOST_BOXES = 250_000
LEAST_BOXES = 200
N_PARTS = 16  # of the whole range, of which two are shown in finer bins
OF_OVERVIEW = 0.5  # of the boxes are for the whole range, where parts are shown as well
LONGEST_NAME = 1000


def timeline_maker(opened: Experiment | Study, choice: Choice) -> TimelineMaker | None:
    """Panels of an experiment that says when anything happened."""
    if isinstance(opened, Study):
        return None
    chosen = select(opened, choice.ranks, choice.threads)
    found = survey(opened, opened.profiles.measured if chosen is None else chosen)
    return TimelineMaker(opened, found) if found is not None else None


class TimelineMaker:
    """Rows over time, as exact as there is room for."""

    def __init__(self, experiment: Experiment, found: Survey) -> None:
        self._experiment, self._found = experiment, found
        self._stacks = Stacks(experiment.contexts)
        length = found.window[1] - found.window[0]
        self._whole = gather(experiment, found, self._stacks, (0, length))

    @cached_property
    def _parts(self) -> list[Gathered]:
        """The busiest part of the time, and the first, for a closer look."""
        windows = dict.fromkeys([self._whole.busiest(N_PARTS), self._whole.part(0, N_PARTS)])
        return [gather(self._experiment, self._found, self._stacks, window) for window in windows]

    def panels(self, detail: Detail) -> Iterator[Panel]:
        most = detail.of(MOST_BOXES, MOST_BOXES, LEAST_BOXES)
        layers = [self._whole.layer(most)]
        if not layers[0].exact:
            layers = [self._whole.layer(int(most * OF_OVERVIEW))]
            rest = (most - len(layers[0].boxes)) // len(self._parts)
            closer = [part.layer(max(rest, LEAST_BOXES // 2)) for part in self._parts]
            layers += [one for one in closer if one.tick_ns < layers[0].tick_ns and one.stride <= layers[0].stride]
        yield Panel("timeline", "Timeline", self._data(layers), tuple(self._notes(layers)))

    def _data(self, layers: list[Layer]) -> dict[str, Any]:
        names = used_names(layers)
        rows = self._found.rows
        texts = [self._text(name) for name in names.tolist()]
        return {
            "origin": str(self._found.window[0]),  # more digits than the numbers of a page have
            "length_ns": self._found.window[1] - self._found.window[0],
            "rows": {"group": Texts(rows.group), "name": Texts(rows.name), "profile": rows.profile},
            "sampled": np.array(rows.sampled),
            "names": {"text": Texts([text for text, _ in texts]), "kind": Texts([kind for _, kind in texts])},
            "layers": [layer.data(np.searchsorted(names, layer.boxes.name).astype(np.int32)) for layer in layers],
        }

    def _text(self, name: int) -> tuple[str, str]:
        """The text of a name and the kind of what it names."""
        if name < 0:
            text, kind = self._stacks.text(name)
        else:
            number, which = divmod(name, N_KINDS)
            kind = SpanKind(which).word
            backend = self._experiment.traces.spans_backend
            text = backend.strings[number - 1] if number and backend is not None else kind
        return (text if len(text) <= LONGEST_NAME else text[:LONGEST_NAME] + "…"), kind

    def _notes(self, layers: list[Layer]) -> Iterator[str]:
        found, whole = self._found, layers[0]
        if not whole.exact:
            closer = " and ".join(
                f"{duration_ns(one.window[1] - one.window[0])} from {duration_ns(one.window[0])} on"
                + (" event by event" if one.exact else f" in steps of {duration_ns(one.tick_ns)}")
                for one in layers[1:]
            )
            yield (
                f"To keep this page small, {self._whole.n_events:,} events are shown in steps of "
                f"{duration_ns(whole.tick_ns)}, each with what took the largest part of it"
                + (f"; {closer}." if closer else ".")
            )
        if whole.left_levels:
            yield f"{whole.left_levels} levels of calls whose time is divided least are left out."
        if (depth := self._whole.stack_depth(whole)) is not None:
            yield f"Of call stacks the outermost {depth} functions are shown; what these call is part of them."
        if whole.stride > 1:
            yield f"Of {len(found.rows):,} rows one in {whole.stride} is shown."
        n_empty = len(found.rows) - len(np.unique(whole.boxes.row))
        if n_empty and whole.stride == 1:
            yield f"{n_empty:,} of {len(found.rows):,} rows were idle all the time and are not shown."
        if found.n_flagged:
            why = "they end before they start, or at times that no clock shows"
            yield f"{found.n_flagged:,} spans are left out: {why}."
        if found.n_deep:
            yield f"{found.n_deep:,} spans nested more than {MOST_LEVELS} deep are left out."
