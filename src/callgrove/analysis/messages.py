"""Messages between processes: how many, how many bytes, from whom to whom; and collective operations.

A message counts where it is sent; receives count only where no send was recorded at all, as for some tools.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from callgrove.arrays import ABSENT, Array, Ints, distinct_rows
from callgrove.model.experiment import Experiment
from callgrove.model.traces.events import MESSAGE, MessageDirection, SideTable, Window, touch_window

__all__ = ["MESSAGE_DIVISIONS", "MessageSums", "sum_up_messages"]

MESSAGE_DIVISIONS = ("communicator", "tag")


@dataclass(frozen=True)
class MessageSums:
    """Messages from one rank to another, or what a collective operation came to. `communicator` and `tag` are set where
    rows are divided by them, `operation` for collective operations."""

    sender: int
    receiver: int
    count: int
    n_bytes: int
    communicator: str | None = None
    tag: int | None = None
    operation: str = ""

    @property
    def name(self) -> str:
        """Return what a row is called."""
        return self.operation or f"{_rank(self.sender)} -> {_rank(self.receiver)}"


def _rank(number: int) -> str:
    return f"rank {number}" if number >= 0 else "unknown rank"


def sum_up_messages(
    experiment: Experiment, by: Sequence[str] = (), profiles: Ints | None = None, window: Window | None = None
) -> list[MessageSums]:
    """Return the messages of all processes by sender and receiver, and collective operations by their kind; those with
    the most bytes first. Of some profiles, those that these took part in; of a window, those whose call lies in it."""
    tables = [table for part, _ in enumerate(experiment.traces.parts()) for table in _tables(experiment, part)]
    if not tables:
        return []
    names = ("direction", "peer", "communicator", "tag", "bytes", "operation")
    columns = {name: np.concatenate([np.asarray(table.columns[name]) for table in tables]) for name in names}
    span = np.concatenate([table.span for table in tables])
    chosen, profile = _choose(experiment, span, profiles, window)
    rank = _ranks(experiment)[profile]
    direction = columns["direction"]
    one_sided = MessageDirection.SENT if (direction == MessageDirection.SENT).any() else MessageDirection.RECEIVED
    sent = one_sided == MessageDirection.SENT
    rows = np.flatnonzero(chosen & (direction == one_sided))
    ends = (rank[rows], columns["peer"][rows].astype(np.int64))
    sender, receiver = ends if sent else ends[::-1]
    together = np.flatnonzero(chosen & (direction == MessageDirection.COLLECTIVE))
    sums = [*_group(columns, rows, sender, receiver, by), *_group_collectives(columns, together, by)]
    return sorted(sums, key=lambda one: (bool(one.operation), -one.n_bytes, one.sender, one.receiver, one.name))


def _tables(experiment: Experiment, part: int) -> Iterator[SideTable]:
    if experiment.traces.has_side(MESSAGE, part):
        yield from experiment.traces.side_chunks(MESSAGE, part)


def _choose(experiment: Experiment, span: Ints, profiles: Ints | None, window: Window | None) -> tuple[Array, Ints]:
    """Return which rows are asked for, and the profile of each."""
    n = int(span.max()) + 1
    profile, chosen = np.zeros(n, np.int64), np.zeros(n, np.bool_)
    for chunk in experiment.traces.spans(("profile", "start_ns", "end_ns")):
        inside = np.flatnonzero(chunk["span"] < n)
        number = chunk["span"][inside]
        profile[number] = chunk["profile"][inside]
        if window is None:
            chosen[number] = True
        else:
            chosen[number] = touch_window(chunk["start_ns"][inside], chunk["end_ns"][inside], window)
    if profiles is not None:
        chosen &= np.isin(profile, profiles)
    return chosen[span], profile[span]


def _ranks(experiment: Experiment) -> Ints:
    return np.array([ABSENT if rank is None else rank for rank in experiment.profiles.identity_list("rank")], np.int64)


def _divide(columns: dict[str, Array], rows: Ints, by: Sequence[str]) -> tuple[list[Array], list[str]]:
    """Return the columns that divide rows, as numbers, and the names of communicators."""
    texts, number = np.unique(columns["communicator"][rows].astype(str), return_inverse=True)
    nothing = np.zeros(len(rows), np.int64)
    communicator = number.reshape(-1) if "communicator" in by else nothing
    return [communicator, columns["tag"][rows] if "tag" in by else nothing], texts.tolist()


def _group(
    columns: dict[str, Array], rows: Ints, sender: Ints, receiver: Ints, by: Sequence[str]
) -> Iterator[MessageSums]:
    divisions, texts = _divide(columns, rows, by)
    keys, number = distinct_rows(sender, receiver, *divisions)
    count, size = _sums(columns, rows, number, keys.shape[1])
    for k, (left, right, communicator, tag) in enumerate(keys.T.tolist()):
        yield MessageSums(
            left,
            right,
            count[k],
            size[k],
            texts[communicator] if "communicator" in by else None,
            tag if "tag" in by else None,
        )


def _group_collectives(columns: dict[str, Array], rows: Ints, by: Sequence[str]) -> Iterator[MessageSums]:
    words, operation = np.unique(columns["operation"][rows].astype(str), return_inverse=True)
    (communicator, _), texts = _divide(columns, rows, by)
    keys, number = distinct_rows(operation.reshape(-1), communicator)
    count, size = _sums(columns, rows, number, keys.shape[1])
    for k, (word, of) in enumerate(keys.T.tolist()):
        name = texts[of] if "communicator" in by else None
        yield MessageSums(ABSENT, ABSENT, count[k], size[k], name, None, str(words[word]))


def _sums(columns: dict[str, Array], rows: Ints, number: Ints, n: int) -> tuple[list[int], list[int]]:
    size = np.zeros(n, np.int64)
    np.add.at(size, number, np.maximum(columns["bytes"][rows].astype(np.int64), 0))
    return np.bincount(number, minlength=n).tolist(), size.tolist()
