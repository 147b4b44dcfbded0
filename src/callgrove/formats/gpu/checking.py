"""What `check` says about databases: all that reading warns of, and how many events are strange."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from callgrove.formats.gpu.files import ENDINGS
from callgrove.formats.interface import Problem
from callgrove.model.experiment import Experiment, Severity
from callgrove.model.intervals import usable
from callgrove.model.traces import SpanKind

__all__ = ["problems"]

ON_DEVICE = (SpanKind.KERNEL, SpanKind.COPY, SpanKind.MEMSET)


def problems(experiment: Experiment) -> Iterator[Problem]:
    """Warnings first; then events that are flagged, and operations without a call, if there are any."""
    for warning in experiment.warnings:
        file, _, text = warning.text.partition(": ")
        about_file = Path(file).suffix in ENDINGS
        yield Problem(warning.severity, *((file, "", text) if about_file else (experiment.path, "", warning.text)))
    read = flagged = unlinked = 0
    for chunk in experiment.traces.spans(("kind", "start_ns", "end_ns", "correlation")):
        read += len(chunk["span"])
        flagged += int((~usable(chunk["start_ns"], chunk["end_ns"])).sum())
        unlinked += int((np.isin(chunk["kind"], ON_DEVICE) & (chunk["correlation"] < 0)).sum())
    if flagged:
        text = f"{flagged} of {read} end before they start or have no usable time; they are in no sum"
        yield Problem(Severity.NOTE, experiment.path, "events", text)
    if unlinked:
        text = f"{unlinked} of {read} are operations of devices that name no launching call"
        yield Problem(Severity.NOTE, experiment.path, "events", text)
