"""Panels of whatever there may be: random experiments, in any detail."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from callgrove.model.experiment import Experiment
from callgrove.model.traces.events import SpanKind
from callgrove.model.traces.intervals import usable
from callgrove.viewer.page import Choice, Detail, encode
from callgrove.viewer.summaries import gpu_maker, scaling_maker
from callgrove.viewer.timeline.maker import timeline_maker
from tests.exhaustive import try_examples
from tests.model.strategies import experiments


@try_examples(40)
@given(experiments(), st.sampled_from([1.0, 0.01, 1e-6]))
def test_any_experiment_has_panels_that_can_be_written(experiment: Experiment, share: float) -> None:
    for make in (timeline_maker, gpu_maker, scaling_maker):
        maker = make(experiment, Choice())
        for panel in maker.panels(Detail(share)) if maker is not None else ():
            assert json.loads(encode(panel.data))
            assert all(isinstance(note, str) for note in panel.notes)


@try_examples(40)
@given(experiments())
def test_small_timelines_show_every_span(experiment: Experiment) -> None:
    """Only what the profiler did before and after the application is cut off."""
    maker = timeline_maker(experiment, Choice())
    chunks = list(experiment.traces.spans(("profile", "kind", "start_ns", "end_ns", "depth")))
    wanted = [
        ~experiment.profiles.is_summary[chunk["profile"]]
        & usable(chunk["start_ns"], chunk["end_ns"])
        & (chunk["depth"] < 64)
        for chunk in chunks
    ]
    if maker is None:
        assert not any(spans.any() for spans in wanted)
        return
    (panel,) = maker.panels(Detail())
    (layer,) = panel.data["layers"]
    assert layer["exact"]
    first = int(panel.data["origin"])
    last, n_spans = first + panel.data["length_ns"], 0
    for chunk, spans in zip(chunks, wanted, strict=True):
        start, end = chunk["start_ns"], chunk["end_ns"]
        inside = ((start < last) | (end <= last)) & ((end > first) | (start >= first))  # not those that only touch it
        assert (chunk["kind"][spans & ~inside] == SpanKind.OVERHEAD).all()
        n_spans += int((spans & inside).sum())
    sampled = panel.data["sampled"].tolist()
    shown = sum(
        count for row, count in zip(layer["row"].tolist(), layer["count"].tolist(), strict=True) if not sampled[row]
    )
    assert shown == n_spans
