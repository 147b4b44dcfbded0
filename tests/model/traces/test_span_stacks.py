"""Recorded call stacks stand above the outermost spans of a folded trace."""

from __future__ import annotations

import numpy as np

from callgrove.analysis.tables import export
from callgrove.model.builder import ExperimentBuilder
from callgrove.model.profiles import ProfileKind
from callgrove.model.traces.events import ArraySpans, SideTable, SpanKind
from tests.model.traces.test_span_profile import add_folded


def folded(spans: list[tuple[SpanKind, str, int, int]], stacks: dict[int, tuple[str, ...]]) -> set[str]:
    """The paths of the contexts that spans of one thread, (kind, name, start, end), become."""
    builder = ExperimentBuilder("made", "")
    builder.add_profile(ProfileKind.THREAD, [])
    names = tuple(dict.fromkeys(name for _, name, _, _ in spans))
    columns = {
        "profile": np.zeros(len(spans), np.int32),
        "kind": np.array([kind for kind, *_ in spans], np.int32),
        "name": np.array([names.index(name) for _, name, _, _ in spans], np.int32),
        "start_ns": np.array([start for *_, start, _ in spans]),
        "end_ns": np.array([end for *_, end in spans]),
        "correlation": np.arange(len(spans)),
    }
    table = SideTable(np.array(list(stacks), np.int64), {"frames": tuple(stacks.values())})
    backend = ArraySpans(columns, names, {"stack": table})
    add_folded(builder, backend, np.zeros(1, np.int64), np.full(1, -1))
    return {path for part in export(builder.build(), "contexts") for path in part.column("path").plain()}


def test_functions_lie_above_the_call_and_equal_ones_are_one() -> None:
    spans = [(SpanKind.API, "alloc", 0, 5), (SpanKind.API, "free", 10, 15), (SpanKind.API, "sync", 20, 25)]
    found = folded(spans, {0: ("main", "setup"), 1: ("main",)})
    assert found == {"main", "main->setup", "main->setup->alloc", "main->free", "sync"}


def test_inside_of_another_span_a_stack_does_not_count() -> None:
    spans = [(SpanKind.MARKER, "step", 0, 50), (SpanKind.API, "alloc", 10, 15)]
    assert folded(spans, {1: ("main", "setup")}) == {"step", "step->alloc"}


def test_spans_may_be_called_like_functions() -> None:
    spans = [(SpanKind.API, "main", 0, 5), (SpanKind.API, "work", 10, 15)]
    assert folded(spans, {1: ("main",)}) == {"main", "main->work"}
