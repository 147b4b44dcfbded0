"""Writes the draft schema, streaming: every chunk becomes rows, `flush` commits them.

    define    schema, metadata, processes, threads, GPUs          rows.py
    write     spans -> regions, launches, memory operations       rows.py
              samples -> call stacks, one row per frame
    close     counters over time, then the file is moved into place

`DraftWriter(path, in_place=True)` writes where the file will stay, with a write-ahead log, so that readers see what was
flushed while more is being written:

    writer = DraftWriter(Path("run.db"), in_place=True)
    writer.define(experiment)
    for chunk in experiment.traces.spans((*SPAN_COLUMNS, LABEL)):
        writer.write(chunk)
        writer.flush()                  # another process that opens run.db now sees this chunk
    losses = writer.close().losses
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from callgrove.errors import UsageError
from callgrove.formats.events.spans import refuse_input_as
from callgrove.formats.gpu.draft.rows import IN_COLUMNS, DraftPlaces, SpanRows, Strings
from callgrove.formats.gpu.draft.schema import insert, statements
from callgrove.formats.interface import Chunk, SampleChunk, WriteOptions
from callgrove.formats.writing.targets import SqliteTarget
from callgrove.formats.writing.writer import TargetWriter, losses_of_runs, losses_of_sides, losses_of_tables
from callgrove.model.books import ALLOCATED, COPIED, COUNTED, MEASURED, VALUES, Books, Ledger
from callgrove.model.contexts import ContextTree
from callgrove.model.experiment import Experiment
from callgrove.model.traces.events import SIDE_TABLES
from callgrove.model.values import DenseBlock, SparseBlock

__all__ = ["DraftWriter"]

CHUNK_ROWS = 50_000  # rows of one transaction
STACK = insert(
    "call_stacks",
    *("id", "process_id", "thread_id", "timestamp", "stack_depth", "function_id", "file_id", "line_number"),
    *("parent_sample_id", "additional_info"),
)
COUNTER = insert("hardware_counters", *("process_id", "thread_id", "timestamp", "event_id", "value", "additional_info"))
BYTES = (
    "SELECT operation_type = 'COPY', count(size_bytes), total(size_bytes), total(size_bytes) FROM memory_operations "
    "GROUP BY 1"
)
FINITE = "CASE WHEN abs(value) < 9e999 THEN {} END"
COUNTERS = (
    f"SELECT ifnull(additional_info LIKE '{{\"kernel\":%', 0), count(*), total({FINITE.format('value')}), "
    f"total({FINITE.format('abs(value)')}) FROM hardware_counters GROUP BY 1"
)

Frame = tuple[int | None, int | None, int | None]  # function, file, line


class DraftWriter(TargetWriter[SqliteTarget, Experiment]):
    """Writes a database of the draft schema."""

    takes_spans = True
    holds_only_traces = True

    def __init__(self, target: Path, options: WriteOptions | None = None, *, in_place: bool = False) -> None:
        super().__init__(SqliteTarget(target, (options or WriteOptions()).overwrite, in_place=in_place))
        self._database, self._in_place = self._pending.database, in_place
        self._n_frames = self._n_waiting = 0
        self._frames: dict[int, list[Frame]] = {}
        with self._or_nothing():
            self._database.execute("BEGIN")
            for statement in statements():
                self._database.execute(statement)
            self._strings = Strings(self._database)

    def _begin(self, tables: Experiment) -> None:
        refuse_input_as(self.target, tables)
        traces = tables.traces
        if not traces.n_spans and not traces.n_samples and traces.counters is None:
            raise UsageError(f"{self.target}: this format holds events and samples, and the input has neither")
        self._open = tables
        self._books = books = Books.of(tables.metrics)
        books.excuse(VALUES)
        self._places = DraftPlaces(self._database, self._strings, tables)
        self._spans: SpanRows | None = None
        if (backend := traces.spans_backend) is not None:
            self._spans = SpanRows(self._database, self._strings, self._places, traces, backend.strings, books)
            self._report_losses(tables)

    def _report_losses(self, tables: Experiment) -> None:
        why = "the schema has no table for them"
        lines = (
            *losses_of_runs(tables.runs),
            *losses_of_sides(tables.traces, [name for name in SIDE_TABLES if name not in IN_COLUMNS], why),
            *losses_of_tables(tables.traces, why),
        )
        for text in lines:
            self._report.add(text)

    def _take(self, tables: Experiment, chunk: Chunk) -> None:
        if isinstance(chunk, SampleChunk):
            self._write_samples(chunk, tables.contexts)
            self._count(len(chunk.samples))
        elif isinstance(chunk, SparseBlock | DenseBlock):
            if not tables.traces.n_spans:  # of spans, values are made again when the file is read
                self._report.add("values of metrics: only what happened over time is stored")
        elif self._spans is not None:
            self._spans.write(chunk)
            self._count(len(chunk["span"]))

    def _count(self, n_rows: int) -> None:
        """Count rows that are not yet committed, and commit when there are many, unless the file is written in
        place."""
        self._n_waiting += n_rows
        if not self._in_place and self._n_waiting >= CHUNK_ROWS:
            self._commit()

    def _commit(self) -> None:
        self._database.execute("COMMIT")
        self._database.execute("BEGIN")
        self._n_waiting = 0

    # -- samples and counters ------------------------------------------------------------------------------------------

    def _write_samples(self, chunk: SampleChunk, tree: ContextTree) -> None:
        if chunk.metric >= 0:
            self._report.add("samples of metrics: only samples of contexts are stored")
            self._passed.n_samples += len(chunk.samples)  # which are accounted for
            return
        times, contexts = chunk.samples.time_ns.tolist(), chunk.samples.context.tolist()
        for context in set(contexts).difference(self._frames):
            self._frames[context] = self._frames_of(tree, context)
        self._database.executemany(STACK, self._stack_rows(chunk.profile, times, contexts))
        self._passed.n_samples += len(times)

    @property
    def _passed(self) -> Ledger:
        assert self._books is not None
        return self._books.passed

    def _stack_rows(self, profile: int, times: list[int], contexts: list[int]) -> Iterator[tuple[object, ...]]:
        who = (int(self._places.process[profile]), int(self._places.thread[profile]) or None)
        lane = int(self._places.lane[profile])
        where = [] if lane < 0 else [f'"lane":{lane}']
        infos = {idle: ",".join([*where, '"idle":true'] if idle else where) for idle in (False, True)}
        for when, context in zip(times, contexts, strict=True):
            above, info = None, infos[context < 0] and "{" + infos[context < 0] + "}"
            for depth, frame in enumerate(self._frames[context]):
                self._n_frames += 1
                yield self._n_frames, *who, when, depth, *frame, above, info or None
                above = self._n_frames

    def _frames_of(self, tree: ContextTree, context: int) -> list[Frame]:
        """Return the rows of a stack, the outermost frame first; for idle time, one empty row."""
        if context < 0:
            return [(None, None, None)]
        path = [context]
        while (above := int(tree.parent[path[-1]])) >= 0:
            path.append(above)
        return [self._frame(tree, place) for place in reversed(path)]

    def _frame(self, tree: ContextTree, context: int) -> Frame:
        regions, region = tree.regions, int(tree.region[context])
        file, line = (int(regions.file[region]), int(regions.line[region])) if region >= 0 else (-1, -1)
        place = self._strings(regions.files.paths[file]) if file >= 0 else None
        return self._strings(tree.label(context)), place, line if line >= 0 else None

    def _write_counters(self, tables: Experiment) -> None:
        counters = tables.traces.counters
        if counters is None or self._books is None:
            return
        self._books.given.add_amount(MEASURED, counters.value)
        names = [self._strings(name) for name in counters.names]
        who = (column[counters.profile].tolist() for column in (self._places.process, self._places.thread))
        lanes = [f'{{"lane":{lane}}}' if lane >= 0 else None for lane in self._places.lane[counters.profile].tolist()]
        measured = (column.tolist() for column in (counters.time_ns, counters.name, counters.value))
        rows = zip(*who, *measured, lanes, strict=True)
        cells = ((process, thread or None, when, names[n], v, lane) for process, thread, when, n, v, lane in rows)
        self._database.executemany(COUNTER, cells)

    # -- the end -------------------------------------------------------------------------------------------------------

    def _store(self, tables: Experiment) -> None:
        """Commit, so that a reader of a file that is written in place sees everything so far."""
        self._commit()

    def _finish(self, tables: Experiment) -> None:
        if self._spans is not None:
            self._spans.finish()
            for column, n in self._spans.lost.items():
                self._report.add(f"{column}: {n:,} are left out; the schema has no column for them")
        self._write_counters(tables)
        self._add_up()
        self._database.execute("COMMIT")

    def _add_up(self) -> None:
        """Enter the bytes and counters that the file holds into the books."""
        for query, words in ((BYTES, (ALLOCATED, COPIED)), (COUNTERS, (MEASURED, COUNTED))):
            for which, *amount in self._database.execute(query):
                self._passed.amount(words[which]).enter(*amount)

    def _give_up(self, tables: Experiment) -> None:
        """Do nothing: the target closes its own connection."""
