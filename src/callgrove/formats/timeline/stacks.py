"""Samples of call stacks as nested slices: a function lasts as long as samples show it at the same place of the stack.

    samples     main>a    main>a>b   main>c    (idle)
    slices     |main --------------------------|
               |a -----------------|c ---------|
                         |b -------|

A sample holds until the next one; idle time is no slice; the last sample of a line lasts no time, unless a window has
cut off what comes next. Lines, call sites and
instructions belong to the function or loop that they are in, as in call trees; where no function is known, as in
measurements, what was called is shown by its address.

A line of samples is gone through in pieces, twice: from behind, to learn how long what is open at the end of each piece
goes on; then from the front, where every slice that begins in a piece is given, complete and in order.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from callgrove.formats.timeline.content import NO_SAMPLE_TIMES, Losses, clean
from callgrove.formats.timeline.items import Note, Slices, Texts, Value
from callgrove.formats.timeline.places import ProcessTracks
from callgrove.formats.timeline.source import Annotations
from callgrove.model.arrays import ABSENT, Ids, Ints
from callgrove.model.contexts import ContextKind, ContextTree
from callgrove.model.traces import Samples

__all__ = ["StackSlices"]

PIECE = 1 << 15  # samples
PLACES = (ContextKind.LOOP, ContextKind.LINE, ContextKind.INSTRUCTION, ContextKind.CALL)
MOST_LABELS = 1 << 16  # names that are kept


class StackSlices:
    """Makes slices of lines of samples, over one tree of contexts."""

    def __init__(self, tree: ContextTree, annotations: Annotations, losses: Losses) -> None:
        self._tree, self._annotations, self._losses = tree, annotations, losses
        self._labels: dict[int, str] = {}
        shown = ~tree.folded
        # the nearest context that is shown, for each one and for its parent; parents come first
        self._shown = np.full(len(tree) + 1, ABSENT, np.int32)  # the last entry is for idle
        self._above = np.full(len(tree) + 1, ABSENT, np.int32)
        self._depth = np.zeros(len(tree) + 1, np.int32)
        for level in tree.levels:
            above = self._shown[tree.parent[level]]
            self._shown[level] = np.where(shown[level], level, above)
            self._above[level] = above
            self._depth[level] = np.where(above >= 0, self._depth[above], 0) + shown[level]
        rest = np.arange(tree.n_listed, len(tree))  # elided contexts have no place in the tree
        self._shown[rest], self._depth[rest] = rest, 1
        self._shown[:-1][tree.idle] = ABSENT

    def of(self, tracks: ProcessTracks, track: int, samples: Samples, piece: int = PIECE) -> Iterator[Slices]:
        """The slices of one line, by start and from the outside in."""
        time, context = samples.time_ns, samples.context
        if len(time) and int(time.min()) < 0:
            self._losses.add(NO_SAMPLE_TIMES, int(np.count_nonzero(time < 0)))
            time, context = time[time >= 0], context[time >= 0]
        if len(time):  # one more: when the last sample ends
            time = np.append(time, max(int(time[-1]), samples.until_ns or 0))
        firsts = list(range(0, len(context), piece))
        after = self._find_reached(context, firsts, piece)
        before = np.empty(0, np.int32)
        for number, first in enumerate(firsts):
            paths = self._paths(context[first : first + piece])
            made = self._runs(paths, first, before, after[number])
            before = paths[-1]
            if len(made[0]):
                yield self._slices(tracks, track, time, *made)

    def _paths(self, context: Ids) -> Ids:
        """A row for each sample: the contexts that are shown, from the outside in, then -1."""
        different, number = np.unique(context, return_inverse=True)
        here = self._shown[different]
        width = int(self._depth[here].max(initial=0))
        out = np.full((len(different), max(width, 1)), ABSENT, np.int32)
        while (rows := np.flatnonzero(here >= 0)).size:
            out[rows, self._depth[here[rows]] - 1] = here[rows]
            here = np.where(here >= 0, self._above[here], ABSENT)
        return out[number.reshape(-1)]

    def _find_reached(self, context: Ids, firsts: list[int], piece: int) -> list[dict[int, int]]:
        """For the beginning of every piece but the first, and the end: context -> the sample at which it is no longer
        on the stack, of those that are on it in the piece's first sample."""
        out: list[dict[int, int]] = [{}]
        for first in reversed(firsts[1:]):
            paths = self._paths(context[first : first + piece])
            n, ends = len(paths), {}
            for level in range(paths.shape[1]):
                own = int(paths[0, level])
                if own < 0:
                    break
                changes = np.flatnonzero(paths[:, level] != own)
                ends[own] = first + int(changes[0]) if len(changes) else out[-1].get(own, first + n)
            out.append(ends)
        return out[::-1]

    @staticmethod
    def _runs(paths: Ids, first: int, before: Ids, after: dict[int, int]) -> tuple[Ints, Ints, Ids]:
        """Begin, end (numbers of samples) and context of what begins in a piece; `before` is the path just before."""
        begins, ends, contexts, levels = [], [], [], []
        n = len(paths)
        for level in range(paths.shape[1]):
            column = paths[:, level]
            was = int(before[level]) if level < len(before) else ABSENT
            starts = np.flatnonzero(column != np.append(np.int32(was), column[:-1]))
            stops = np.append(starts[1:], n) if len(starts) else starts
            stop = first + stops
            if len(starts) and int(stops[-1]) == n:
                stop[-1] = after.get(int(column[-1]), first + n)
            kept = column[starts] >= 0
            begins.append(first + starts[kept])
            ends.append(stop[kept])
            contexts.append(column[starts[kept]])
            levels.append(np.full(int(kept.sum()), level))
        begin, end, context = np.concatenate(begins), np.concatenate(ends), np.concatenate(contexts)
        order = np.lexsort((np.concatenate(levels), begin))
        return begin[order], end[order], context[order]

    def _slices(self, tracks: ProcessTracks, track: int, time: Ints, begin: Ints, end: Ints, context: Ids) -> Slices:
        different, first, index = np.unique(context, return_index=True, return_inverse=True)
        used = np.argsort(first, kind="stable")
        place = np.empty(len(used), np.int64)
        place[used] = np.arange(len(used))
        own = different[used].tolist()
        number = place[index.reshape(-1)]
        codes, first, kind = np.unique(self._tree.kind[own], return_index=True, return_inverse=True)
        by_use = np.argsort(first, kind="stable")
        n, absent = len(begin), np.full(len(begin), ABSENT, np.int64)
        return Slices(
            tracks,
            np.full(n, track, np.int64),
            time[begin],
            time[end],
            Texts(number, self._texts(own)),
            Texts(np.argsort(by_use)[kind.reshape(-1)][number], [ContextKind(k).word for k in codes[by_use].tolist()]),
            absent,
            absent,
            np.zeros(n, np.int64),
            self._notes(own, number) if self._annotations is Annotations.ALL else [],
        )

    def _texts(self, contexts: list[int]) -> list[str]:
        """What contexts are called: thousands of lines show the same ones."""
        known = self._labels
        if len(known) > MOST_LABELS:
            known.clear()
        for context in contexts:
            if context not in known:
                known[context] = clean(self._short_label(context), self._losses)
        return [known[context] for context in contexts]

    def _short_label(self, context: int) -> str:
        """A place is shown without the folders it lies in: slices are narrow, and its end tells it from others."""
        label, kind, region = self._tree.label(context), self._tree.kind[context], int(self._tree.region[context])
        if kind not in PLACES or region < 0 or self._tree.regions.name[region] >= 0 or "/" not in label:
            return label
        return ("loop at " if kind == ContextKind.LOOP else "") + label.rpartition("/")[2]

    def _notes(self, contexts: list[int], number: Ints) -> list[Note]:
        """Where the source says it: file and line, and the module."""
        regions = self._tree.regions
        region = self._tree.region[contexts]
        file, line, module = (
            np.where(region >= 0, column[region], ABSENT) for column in (regions.file, regions.line, regions.module)
        )
        lines = np.flatnonzero(line[number] >= 0)
        notes = [
            self._texts_of("file", file, number, regions.files.paths),
            Note("line", lines, line[number][lines]),
            self._texts_of("module", module, number, regions.modules),
        ]
        return [note for note in notes if len(note.rows)]

    @staticmethod
    def _texts_of(key: str, text: Ids, number: Ints, texts: Sequence[str]) -> Note:
        """A note of the texts that contexts have; `number` is the context of each slice."""
        rows = np.flatnonzero(text[number] >= 0)
        return Note(key, rows, number[rows], Value.TEXT, [texts[k] if k >= 0 else "" for k in text.tolist()])
