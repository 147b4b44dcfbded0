"""A timeline index: opened from the cache or built, and asked.

    index = TimelineIndex.open(experiment, files=[Path("train.db")])
    index.picture(index.window, 1600)            what is there already, while the rest is built
    index.wait()
    index.legend((start, end)).time_ns           exact

A thread builds; whoever asks gets answers of the lines that are complete. Where another process builds the same index,
its folder is read instead. An index that turns out to be damaged is removed and built anew.
"""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import TypeVar

import numpy as np

from callgrove.analysis.timeline_index.answers import (
    Curve,
    IndexOptions,
    Legend,
    LineKind,
    Lines,
    NameTable,
    Occurrence,
    Picture,
    Progress,
    SpanRows,
    Stack,
)
from callgrove.analysis.timeline_index.builder import Stopped, build
from callgrove.analysis.timeline_index.cache import IndexCache, fingerprint
from callgrove.analysis.timeline_index.details import DetailReader, curves_of
from callgrove.analysis.timeline_index.layout import Columns, DamagedIndex, IndexState, read_state
from callgrove.analysis.timeline_index.legends import LegendReader
from callgrove.analysis.timeline_index.pictures import PictureReader
from callgrove.analysis.timeline_index.preview import Moments, Preview
from callgrove.analysis.timeline_index.sources import NameNumbers
from callgrove.analysis.timeline_index.windows import ItemReader
from callgrove.arrays import ABSENT, Ints
from callgrove.errors import CallgroveError, UsageError
from callgrove.model.experiment import Experiment
from callgrove.model.traces.events import Window

__all__ = ["TimelineIndex"]

Answer = TypeVar("Answer")
POLL_SEC = 0.05


class _Snapshot:
    """What an index holds at one time, ready to be asked."""

    def __init__(self, folder: Path, state: IndexState) -> None:
        self.folder, self.state = folder, state
        self.columns = Columns(folder, state)
        self.lines = self.columns.whole("lines").copy()
        self.items = ItemReader(self.columns, self.lines)

    @cached_property
    def names(self) -> NameTable:
        return NameTable(*self.columns.names())

    @cached_property
    def pictures(self) -> PictureReader:
        return PictureReader(self.columns, self.lines, self.items, len(self.names))

    @cached_property
    def legends(self) -> LegendReader:
        return LegendReader(self.columns, self.lines, self.items, len(self.names))

    @cached_property
    def details(self) -> DetailReader:
        return DetailReader(self.columns, self.lines, self.items)

    @property
    def window(self) -> Window:
        return self.state.origin, self.state.origin + max(1, self.state.length)

    def choose(self, lines: Ints | None) -> Ints:
        """Return line numbers, all of them by default; UsageError for one that is not there."""
        if lines is None:
            return np.arange(len(self.lines))
        chosen = np.asarray(lines, np.int64)
        wrong = chosen[(chosen < 0) | (chosen >= len(self.lines))]
        if len(wrong):
            raise UsageError(f"line {int(wrong[0])} does not exist; there are {len(self.lines)} lines so far")
        return chosen

    def choose_rows(self, rows: Sequence[Ints]) -> list[Ints]:
        """Return the lines of rows; UsageError for one that is not there."""
        every = [np.asarray(row, np.int64) for row in rows]
        self.choose(np.concatenate([np.empty(0, np.int64), *every]))
        return every

    def clip(self, window: Window) -> tuple[int, int]:
        """Return a window in ns since the origin, as far as there is anything in it."""
        low, high = (int(time) - self.state.origin for time in window)
        if high < low:
            raise UsageError(f"the window {window[0]}:{window[1]} ends before it begins")
        return max(0, min(low, self.state.length)), max(0, min(high, self.state.length))


class TimelineIndex:
    """The index of one experiment. See `answers.Timeline` for what it is asked."""

    def __init__(
        self,
        experiment: Experiment,
        files: Sequence[Path],
        reading: str,
        options: IndexOptions,
        cache: IndexCache,
        reopen: Callable[[], Experiment] | None,
    ) -> None:
        self._experiment, self._files, self._reading = experiment, tuple(files), reading
        self.options, self._cache, self._reopen = options, cache, reopen
        self._guard = threading.Lock()
        self._closing = threading.Event()
        self._thread: threading.Thread | None = None
        self._folder: Path | None = None
        self._snapshot: _Snapshot | None = None
        self._state: IndexState | None = None  # as building has told
        self._error = ""
        self._read_names: NameNumbers | None = None  # of what is read here, not in another process
        self._preview: Preview | None = None
        self._was_there = False
        self.n_lost = 0  # how often what had been there was gone: answers before and after do not go together
        self.key = self._make_key()

    @classmethod
    def open(
        cls,
        experiment: Experiment,
        files: Sequence[Path] = (),
        reading: str = "",
        options: IndexOptions | None = None,
        cache: IndexCache | None = None,
        reopen: Callable[[], Experiment] | None = None,
        *,
        in_background: bool = True,
    ) -> TimelineIndex:
        """Return the index of an experiment's traces; it is built where there is none.

        files           what the experiment was read from: files or folders. An experiment without files gets an index
                        for itself, which goes when it is closed
        reading         options that the experiment was read with, as a text: other ones need another index
        cache           where indexes are kept; the user's cache folder by default
        reopen          gives the experiment anew, for the thread that builds
        in_background   whether to return at once, while a thread builds
        """
        given = [Path(file) for file in files]
        temporary = None
        if cache is None and not given:
            temporary = tempfile.TemporaryDirectory(prefix="callgrove-timeline-")
            cache = IndexCache(Path(temporary.name))
        index = cls(experiment, given, reading, options or IndexOptions(), cache or IndexCache(), reopen)
        index._temporary = temporary
        index._start()
        if not in_background:
            index.wait()
        return index

    @classmethod
    def of_folder(cls, experiment: Experiment, folder: Path) -> TimelineIndex:
        """Return the complete index that lies in a folder, whatever its experiment was read from."""
        index = cls(experiment, (), "", IndexOptions(), IndexCache(folder.parent), None)
        index.key = folder.name
        index._start()
        return index

    _temporary: tempfile.TemporaryDirectory[str] | None = None

    def __enter__(self) -> TimelineIndex:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Stop building, and let go of the files."""
        self._closing.set()
        if self._thread is not None:
            self._thread.join()
        self._snapshot = None
        if self._temporary is not None:
            self._temporary.cleanup()

    def _make_key(self) -> str:
        if not self._files:
            return f"memory-{id(self._experiment):x}-{time.monotonic_ns():x}"
        return fingerprint(self._files, self._reading, self.options)

    @property
    def is_stale(self) -> bool:
        """Return whether the files are no longer what they were when the index was opened."""
        try:
            return bool(self._files) and self._make_key() != self.key
        except CallgroveError:
            return True

    # -- opening and building

    def _start(self) -> None:
        with self._guard:
            self._folder = self._cache.find(self.key)
            self._snapshot, self._state, self._error = None, None, ""
            self.n_lost += self._was_there
            self._was_there = False
            if self._folder is None:
                self._thread = threading.Thread(target=self._run, name="timeline-index", daemon=True)
                self._thread.start()

    def _run(self) -> None:
        try:
            if not self._follow():
                self._build()
        except Stopped:
            pass
        except (CallgroveError, OSError) as error:
            self._error = str(error)

    def _follow(self) -> bool:
        """Wait while another process builds the same index; return whether it was finished."""
        while not self._closing.is_set():
            if (complete := self._cache.find(self.key)) is not None:
                self._folder = complete
                return True
            self._folder = self._cache.building(self.key)
            if self._folder is None:
                return False
            self._closing.wait(POLL_SEC)
        raise Stopped("closed")

    def _build(self) -> None:
        with self._cache.begin(self.key) as partial:
            self._folder = partial.folder
            experiment = self._experiment if self._reopen is None else self._reopen()
            self._read_names = NameNumbers()
            if self.options.depth is None:  # what is at a depth is known when all is read
                self._preview = Preview(len(experiment.profiles))
            build(experiment, self.options, partial.folder, self.key, self._hear, self._read_names, self._preview)
            if self._files and self._make_key() != self.key:
                raise CallgroveError(f"{self._files[0]}: changed while its timeline was read; open it again")
            self._folder = self._cache.finish(self.key, partial)

    def _hear(self, state: IndexState) -> None:
        self._state = state
        if self._closing.is_set():
            raise Stopped("closed")

    def wait(self) -> TimelineIndex:
        """Wait until the index is complete; raise what went wrong."""
        if self._thread is not None:
            self._thread.join()
        if self._error:
            raise CallgroveError(self._error)
        return self

    def _now(self) -> _Snapshot | None:
        """Return what there is now; None before anything is."""
        with self._guard:
            snapshot, folder = self._snapshot, self._folder
            if snapshot is not None and snapshot.state.is_complete:
                return snapshot
            if folder is None:
                return snapshot
            try:
                state = read_state(folder)
            except DamagedIndex:
                if (complete := self._cache.find(self.key)) is None:
                    return snapshot  # nothing is written yet, or it was just renamed
                state = read_state(complete)
                folder = complete
            if snapshot is None or state != snapshot.state:
                self._snapshot = self._read_snapshot(folder, state) or snapshot
            return self._snapshot

    def _read_snapshot(self, folder: Path, state: IndexState) -> _Snapshot | None:
        """Return what a folder holds; None where it is being written, and what was read before still holds."""
        try:
            return _Snapshot(folder, state)
        except DamagedIndex:
            if folder.name == self.key:
                raise
            complete = self._cache.find(self.key)  # it may have been renamed just now
            return None if complete is None else _Snapshot(complete, read_state(complete))

    def _ask(self, question: Callable[[_Snapshot], Answer], nothing: Answer) -> Answer:
        """Return an answer; where the index is damaged, have it built anew and answer from what there is then."""
        for _ in range(2):
            try:
                return self._ask_once(question, nothing)
            except DamagedIndex:
                if not self._forget_partial():
                    self._cache.remove(self.key)
                    self._start()
        return self._ask_once(question, nothing)

    def _ask_once(self, question: Callable[[_Snapshot], Answer], nothing: Answer) -> Answer:
        snapshot = self._now()
        if snapshot is None:
            self.n_lost += self._was_there
            return nothing
        self._was_there = True
        return question(snapshot)

    def _forget_partial(self) -> bool:
        """Let go of what was read while the index was built; return whether that is what was asked. Its folder is gone
        once the index is complete, which says nothing about the index."""
        with self._guard:
            if self._snapshot is None or self._snapshot.folder.name == self.key:
                return False
            self._snapshot = None
            self._folder = self._cache.find(self.key) or self._folder
            return True

    # -- what there is

    @property
    def is_reading(self) -> bool:
        """Return whether the traces are still read for the first time: nothing can be asked but `moments`."""
        return not self._error and self._ask(lambda snapshot: False, True)

    @property
    def moments(self) -> Moments | None:
        """Return what was read so far, or before the lines that are there now; None where that is not known."""
        preview, names = self._preview, self._read_names
        return None if preview is None or names is None else preview.moments(names)

    @property
    def progress(self) -> Progress:
        state = self._ask(lambda snapshot: snapshot.state, None)
        told = state if state is not None and state.is_complete else self._state or state
        if told is None:
            return Progress(0, 1, 0, 0, np.empty(0, np.int64), self._error)
        tracks = self._ask(lambda snapshot: snapshot.columns.whole("tracks")[snapshot.state.n_tracks_done :], None)
        done = state.n_tracks_done if state is not None else 0
        missing = np.empty(0, np.int64) if tracks is None else np.unique(tracks)
        n_done = told.n_done if told.is_complete else min(told.n_done, max(0, told.n_total - 1))
        return Progress(n_done, told.n_total, done, told.n_tracks, missing, self._error)

    @property
    def window(self) -> Window:
        return self._ask(lambda snapshot: snapshot.window, (0, 1))

    @property
    def n_left_out(self) -> int:
        return self._ask(lambda snapshot: snapshot.state.n_left_out, 0)

    @property
    def names(self) -> NameTable:
        return self._ask(lambda snapshot: snapshot.names, NameTable((), ()))

    @property
    def lines(self) -> Lines:
        empty = np.empty(0, np.int64)
        return self._ask(_lines_of, Lines(empty, empty, empty, empty, empty, empty))

    # -- answers

    def picture(self, window: Window, columns: int, rows: Sequence[Ints] | None = None) -> Picture:
        if columns < 1:
            raise UsageError(f"a picture has at least one column, not {columns}")

        def draw(snapshot: _Snapshot) -> Picture:
            low, high = snapshot.clip(window)
            every = list(snapshot.choose(None)[:, None]) if rows is None else snapshot.choose_rows(rows)
            if high == low or not every:
                return _no_picture(window, len(every))
            picture = snapshot.pictures.read(low, high, columns, every)
            return Picture(
                picture.start_ns + snapshot.state.origin,
                picture.cell_ns,
                *(picture.name, picture.share, picture.busy, picture.coarse, picture.is_merged),
            )

        return self._ask(draw, _no_picture(window, 0 if rows is None else len(rows)))

    def legend(self, window: Window, lines: Ints | None = None, *, exact: bool = True) -> Legend:
        nothing = Legend(np.empty(0, np.int32), np.empty(0, np.int64))

        def add_up(snapshot: _Snapshot) -> Legend:
            low, high = snapshot.clip(window)
            return snapshot.legends.read(snapshot.choose(lines), low, high, exact=exact) if high > low else nothing

        return self._ask(add_up, nothing)

    def spans_in(self, window: Window, lines: Ints | None = None, limit: int = 10_000) -> SpanRows:
        def read(snapshot: _Snapshot) -> SpanRows:
            low, high = (int(time) - snapshot.state.origin for time in window)
            chosen = snapshot.choose(lines)
            return snapshot.details.spans_in(chosen, low, max(low, high), limit, snapshot.state.origin)

        return self._ask(read, _no_rows())

    def most_in(self, window: Window, lines: Ints | None = None) -> int:
        def count(snapshot: _Snapshot) -> int:
            low, high = snapshot.clip(window)
            return snapshot.items.count_blocks(snapshot.choose(lines), low, high)

        return self._ask(count, 0)

    def stack_at(self, line: int, time_ns: int) -> Stack:
        def read(snapshot: _Snapshot) -> Stack:
            chosen = int(snapshot.choose(np.array([line]))[0])
            time = int(time_ns) - snapshot.state.origin
            rows = snapshot.details.stack_at(chosen, time, snapshot.state.origin)
            record = snapshot.lines[chosen]
            if record["kind"] != LineKind.SAMPLES or not len(rows) or rows.name[0] < 0:
                return Stack(rows)
            return Stack(rows, self._context_at(int(record["profile"]), int(time_ns)))

        return self._ask(read, Stack(_no_rows()))

    def _context_at(self, profile: int, time_ns: int) -> int:
        """Return the context of the sample that a profile has at a time."""
        latest, context = -1, ABSENT
        for _, metric, samples in self._experiment.traces.lines(np.array([profile]), (time_ns, time_ns + 1)):
            place = int(np.searchsorted(samples.time_ns, time_ns, side="right")) - 1
            if metric < 0 and place >= 0 and int(samples.time_ns[place]) >= latest:
                latest, context = int(samples.time_ns[place]), int(samples.context[place])
        return context

    def search(self, name: int, time_ns: int, lines: Ints | None = None, *, forward: bool = True) -> Occurrence | None:
        def look(snapshot: _Snapshot) -> Occurrence | None:
            origin = snapshot.state.origin
            return snapshot.details.search(name, int(time_ns) - origin, snapshot.choose(lines), origin, forward=forward)

        return self._ask(look, None)

    def curves(self, window: Window, columns: int, profiles: Ints | None = None) -> list[Curve]:
        counters = self._experiment.traces.counters
        return [] if counters is None else curves_of(counters, window, columns, profiles)


def _lines_of(snapshot: _Snapshot) -> Lines:
    lines, origin = snapshot.lines, snapshot.state.origin
    columns = {name: lines[name].astype(np.int64) for name in ("profile", "kind", "lane", "n_items")}
    first, last = (lines[name].astype(np.int64) + origin for name in ("first_ns", "last_ns"))
    return Lines(columns["profile"], columns["kind"], columns["lane"], first, last, columns["n_items"])


def _no_picture(window: Window, n_rows: int) -> Picture:
    empty = np.empty((n_rows, 0), np.uint8)
    return Picture(int(window[0]), 1, empty.astype(np.int32), empty, empty, np.ones(n_rows, np.int64))


def _no_rows() -> SpanRows:
    empty32, empty = np.empty(0, np.int32), np.empty(0, np.int64)
    return SpanRows(empty32, empty, empty, empty32, empty32, empty, 0)
