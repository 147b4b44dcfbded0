"""Databases written in pieces of any size and in any order, with little room to wait in."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st

from callgrove.formats.hpctoolkit import database_writer
from callgrove.formats.hpctoolkit import value_writers as context_major
from callgrove.formats.hpctoolkit import value_writers as profile_writer
from callgrove.formats.interface import LossReport, SampleChunk, WriteOptions, Writes
from callgrove.formats.registry import load
from callgrove.model.experiment import Experiment
from callgrove.model.metrics import Aggregation, Scope
from callgrove.model.traces.events import Samples
from callgrove.model.values import Block
from tests.model.strategies import experiments


@dataclass(frozen=True)
class Writing:
    """An experiment, the pieces in which it is written, and how many rows may wait in memory."""

    experiment: Experiment
    pieces: list[Block | SampleChunk]
    n_waiting: int

    def to(self, target: Path, format_name: str, patch: pytest.MonkeyPatch) -> LossReport:
        """Write it; what an earlier one has left there goes."""
        shutil.rmtree(target, ignore_errors=True)
        format_ = load(format_name)
        assert isinstance(format_, Writes)
        writer = format_.open_writer(target, WriteOptions())
        with patch.context() as inner:
            inner.setattr(database_writer, "WAITING_ROWS", self.n_waiting)
            inner.setattr(profile_writer, "MERGED_ROWS", self.n_waiting)
            inner.setattr(context_major, "LARGEST_BATCH", self.n_waiting)
            writer.define(self.experiment)
            for piece in self.pieces:
                writer.write(piece)
            return writer.close()


@st.composite
def writings(draw: st.DrawFn, *scopes: Scope) -> Writing:
    experiment = draw(experiments(scopes=scopes, aggregations=(Aggregation.SUM,), deep=False))
    size, n_waiting = draw(st.sampled_from([1, 3, 1000])), draw(st.sampled_from([1, 7, 1 << 18]))
    return Writing(experiment, _pieces(experiment, size, draw(st.randoms(use_true_random=False))), n_waiting)


def _pieces(experiment: Experiment, size: int, order: Any) -> list[Block | SampleChunk]:
    """All values and samples, in pieces of a size and in any order; those of one line stay in the order of time."""
    values = [b.triples() for b in experiment.values.blocks(np.arange(len(experiment.profiles)))]
    pieces: list[Block | SampleChunk] = [
        block.take(slice(k, k + size)) for block in values for k in range(0, len(block), size)
    ]
    order.shuffle(pieces)
    for profile, metric, samples in experiment.traces.lines():
        for k in range(0, len(samples), size):
            part = slice(k, k + size)
            pieces.append(SampleChunk(profile, metric, Samples(samples.time_ns[part], samples.context[part])))
    return pieces
