"""Samples of call stacks -> contexts, sample lines and a count of samples."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from callgrove.formats.gpu.dataset import DataSet, Stacks
from callgrove.model.arrays import ABSENT, Ids
from callgrove.model.builder import ExperimentBuilder
from callgrove.model.contexts import ContextKind
from callgrove.model.metrics import Metric, Scope
from callgrove.model.traces import ArraySamples, Samples

__all__ = ["StackSamples"]

UNKNOWN_FRAME = "[unknown]"


class StackSamples:
    """The stacks of all data sets: equal frames below one context are one context."""

    def __init__(self, builder: ExperimentBuilder) -> None:
        self._builder = builder
        self._contexts: dict[tuple[int, str, str, int], int] = {}
        self._lines: list[tuple[int, Samples]] = []

    def add(self, dataset: DataSet, profiles: Ids) -> None:
        """The samples of one data set; contexts are those of the builder, before it orders them."""
        stacks = dataset.stacks()
        if stacks is None:
            return
        leaf = self._leaves(stacks, dataset.strings)
        for lane in np.unique(stacks.lane).tolist():
            own = np.flatnonzero(stacks.lane == lane)
            own = own[np.argsort(stacks.time_ns[own], kind="stable")]
            self._lines.append((int(profiles[lane]), Samples(stacks.time_ns[own], leaf[own])))

    def _leaves(self, stacks: Stacks, strings: Sequence[str]) -> Ids:
        """The context of the innermost frame of every sample: frames by level, the outermost first."""
        first, last = stacks.bounds[:-1], stacks.bounds[1:]
        above = np.full(len(first), ABSENT, np.int64)
        for level in range(int((last - first).max(initial=0))):
            deep = np.flatnonzero(last - first > level)
            frame = first[deep] + level
            keys = np.stack([above[deep], stacks.function[frame], stacks.file[frame], stacks.line[frame]])
            different, number = np.unique(keys, axis=1, return_inverse=True)
            made = [self._context(p, f, place, line, strings) for p, f, place, line in different.T.tolist()]
            above[deep] = np.array(made, np.int64)[number.reshape(-1)]
        return above.astype(np.int32)

    def _context(self, parent: int, function: int, file: int, line: int, strings: Sequence[str]) -> int:
        name = strings[function] if function >= 0 else UNKNOWN_FRAME
        path = strings[file] if file >= 0 else ""
        key = (parent, name, path, line)
        if key not in self._contexts:
            place = self._builder.file(path) if path else ABSENT
            region = self._builder.region(ContextKind.FUNCTION, name, file=place, line=line)
            self._contexts[key] = self._builder.add_context(parent, ContextKind.FUNCTION, region)
        return self._contexts[key]

    def finish(self) -> ArraySamples | None:
        """Sample lines with final contexts; the builder gets a count of samples. Nothing may be added afterwards."""
        if not self._lines:
            return None
        row = self._builder.add_metric(Metric("samples", Scope.EXCLUSIVE, "occ", "int64", description="Stack samples"))
        final = np.append(self._builder.order(), ABSENT)
        for profile, samples in self._lines:
            context, count = np.unique(samples.context[samples.context >= 0], return_counts=True)
            self._builder.add_values(profile, context, row, count)
        return ArraySamples(
            np.array([profile for profile, _ in self._lines], np.int32),
            np.full(len(self._lines), ABSENT, np.int32),
            tuple(Samples(samples.time_ns, final[samples.context].astype(np.int32)) for _, samples in self._lines),
        )
