"""Panels of whatever there may be: random experiments, in any detail."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from callgrove.model.experiment import Experiment
from callgrove.model.intervals import usable
from callgrove.viewer.encoding import encode
from callgrove.viewer.gpu.maker import gpu_maker
from callgrove.viewer.panels import Choice, Detail
from callgrove.viewer.scaling.maker import scaling_maker
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
    maker = timeline_maker(experiment, Choice())
    n_spans = 0
    for chunk in experiment.traces.spans(("profile", "start_ns", "end_ns", "depth")):
        measured = ~experiment.profiles.is_summary[chunk["profile"]]
        n_spans += int((measured & usable(chunk["start_ns"], chunk["end_ns"]) & (chunk["depth"] < 64)).sum())
    if maker is None:
        assert n_spans == 0
        return
    (panel,) = maker.panels(Detail())
    (layer,) = panel.data["layers"]
    assert layer["exact"]
    sampled = panel.data["sampled"].tolist()
    shown = sum(
        count for row, count in zip(layer["row"].tolist(), layer["count"].tolist(), strict=True) if not sampled[row]
    )
    assert shown == n_spans
