"""What an index is made of: names as numbers, samples of profiles in order, and spans by track.

A track is what one profile did of one kind: its calls, its operations on a device, or what the profiler did there. Its
number is that of the profile, times three, and the kind.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from callgrove.analysis.timeline.items import Frames
from callgrove.analysis.timeline.stretches import Plan
from callgrove.analysis.timeline_index.answers import LineKind
from callgrove.analysis.timeline_index.spool import TrackSpans
from callgrove.arrays import ABSENT, Array, Bools, Ints, distinct
from callgrove.model.contexts import ContextKind
from callgrove.model.experiment import Experiment
from callgrove.model.traces.events import LABEL, Samples, SpanBackend, SpanKind
from callgrove.model.traces.intervals import LATEST, usable

__all__ = [
    "KIND_OF_TRACK",
    "N_CLASSES",
    "NameNumbers",
    "SampleNames",
    "SampledProfile",
    "list_sampled_profiles",
    "sample_ends",
    "spans_by_track",
]

KIND_OF_TRACK = (LineKind.CALLS, LineKind.DEVICE, LineKind.PROFILER)
N_CLASSES = len(KIND_OF_TRACK)
CLASS_OF = np.zeros(len(SpanKind), np.int64)
CLASS_OF[[SpanKind.KERNEL, SpanKind.COPY, SpanKind.MEMSET]] = 1
CLASS_OF[SpanKind.OVERHEAD] = 2
COLUMNS = ("profile", "kind", LABEL, "start_ns", "end_ns")


# -- names -------------------------------------------------------------------------------------------------------------


class NameNumbers:
    """Numbers for pairs of a text and a kind, in the order of first use."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[str, str], int] = {}
        self._of_span = np.empty(0, np.int64)  # by (number of the text + 1) * number of kinds + kind

    def __len__(self) -> int:
        return len(self._numbers)

    def number(self, text: str, kind: str) -> int:
        return self._numbers.setdefault((text, kind), len(self._numbers))

    def of_spans(self, kind: Array, label: Array, backend: SpanBackend) -> Ints:
        """Return the names of spans: by the text of each or, where there is none, its kind."""
        keys = (np.maximum(label.astype(np.int64), ABSENT) + 1) * len(SpanKind) + kind
        most = int(keys.max(initial=-1)) + 1
        if most > len(self._of_span):
            self._of_span = np.append(self._of_span, np.full(2 * most - len(self._of_span), ABSENT))
        out = self._of_span[keys]
        if (out < 0).any():
            texts = backend.strings
            for key in distinct(keys[out < 0]).tolist():
                text, number = divmod(key, len(SpanKind))
                word = SpanKind(number).word
                self._of_span[key] = self.number(texts[text - 1] if text else word, word)
            out = self._of_span[keys]
        numbers: Ints = out
        return numbers

    @property
    def tables(self) -> tuple[list[str], list[str]]:
        """Return texts and kinds by number, as they are now: another thread may be adding some."""
        pairs = list(self._numbers)
        return [text for text, _ in pairs], [kind for _, kind in pairs]


class SampleNames:
    """The names of samples by context: the function that each lies in."""

    def __init__(self, experiment: Experiment, depth: int | None, names: NameNumbers) -> None:
        self._tree, self._depth, self._names = experiment.contexts, depth, names
        self._frames = Frames(self._tree)
        self._number = np.full(len(self._tree) + 1, ABSENT - 1, np.int64)
        self._number[-1] = ABSENT
        self._number[:-1][self._tree.idle] = ABSENT

    def of(self, contexts: Array) -> Ints:
        """Return the name of each sample, -1 where nothing ran."""
        n = len(self._tree)
        if len(contexts) and (int(contexts.min()) < ABSENT or int(contexts.max()) >= n):
            contexts = np.where((contexts >= 0) & (contexts < n), contexts, ABSENT)
        out = self._number[contexts]
        if (out < ABSENT).any():
            new = distinct(contexts[out < ABSENT])
            frames = self._frames.cut(new, self._depth)
            for context, frame in zip(new.tolist(), frames.tolist(), strict=True):
                word = ContextKind(int(self._tree.kind[frame])).word
                self._number[context] = self._names.number(self._tree.name(frame), word)
            out = self._number[contexts]
        return out


# -- samples and spans -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class SampledProfile:
    """The samples of a profile in the order of time; `n_left_out` had times that no clock shows."""

    profile: int
    samples: Samples
    n_left_out: int = 0


def list_sampled_profiles(experiment: Experiment) -> Iterator[SampledProfile]:
    """Yield the profiles that have samples."""
    for profile, samples in Plan(experiment).lines():
        kept = (samples.time_ns >= 0) & (samples.time_ns <= LATEST)
        n_wrong = len(kept) - int(np.count_nonzero(kept))
        if n_wrong:
            samples = Samples(samples.time_ns[kept], samples.context[kept], samples.until_ns)
        if len(kept):
            yield SampledProfile(profile, samples, n_wrong)


def sample_ends(samples: Samples) -> Ints:
    """Return until when samples hold: the last one not at all, or as long as is known."""
    last = int(samples.time_ns[-1])
    until = last if samples.until_ns is None else min(max(last, samples.until_ns), LATEST)
    return np.append(samples.time_ns[1:].astype(np.int64, copy=False), until)


def spans_by_track(experiment: Experiment, names: NameNumbers) -> Iterator[tuple[TrackSpans, int]]:
    """Yield the spans of an experiment in file order, and how many are left out: those with times that cannot be."""
    backend = experiment.traces.spans_backend
    if backend is None:
        return
    for chunk in experiment.traces.spans(COLUMNS):
        kept = usable(chunk["start_ns"], chunk["end_ns"])
        n_wrong = len(kept) - int(np.count_nonzero(kept))
        rows: Bools | slice = kept if n_wrong else slice(None)
        kind, profile = chunk["kind"][rows].astype(np.int64), chunk["profile"][rows].astype(np.int64)
        name = names.of_spans(kind, chunk[LABEL][rows], backend)
        start, end, span = (chunk[column][rows].astype(np.int64) for column in ("start_ns", "end_ns", "span"))
        yield TrackSpans(profile * N_CLASSES + CLASS_OF[kind], start, end, name, span), n_wrong
