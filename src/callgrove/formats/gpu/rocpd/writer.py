"""Many rocprofv3 databases as one file: every process keeps its own tables, and the views of schema 3 unite them.

Specification: gpu-traces.md 3.7. The schema is ours (tables.py), never that of an input: no SQL of a file is run.
Rows are copied as they are, some at a time. Tables of a process that schema 3 does not know are copied with the columns
that they have; of one table, all processes get the same columns. When all rows are there, they are added up: there must
be as many in each table as in the inputs, with the same times, bytes and counters. Databases of schema 4 become those
of schema 3, which the views are of: events get the columns of their tracks, and categories become strings. Other traces
are written by spans_writer.py.

    rocpd_region_018f...   rocpd_region_019a...      one table per process
    rocpd_region                                     a view: both
    kernels, busy, top, ...                          rocprofv3's views of these: views.py
"""

from __future__ import annotations

import hashlib
import re
import sqlite3
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from pathlib import Path

from callgrove.binary.sqlite.database import SqliteFile, totals_of
from callgrove.errors import Parameter, UsageError, compose_text
from callgrove.formats.events.spans import DataSetSpans, refuse_input_as
from callgrove.formats.gpu.rocpd.reader import RocpdData
from callgrove.formats.gpu.rocpd.tables import (
    CATEGORIES,
    COLUMNS,
    LATER,
    NEWER,
    TABLES,
    TRACK,
    TRACK_COLUMNS,
    columns_of,
    create_table,
    create_view,
    quote_with,
)
from callgrove.formats.interface import Chunk, LossReport, WriteOptions
from callgrove.formats.writing.targets import SqliteTarget
from callgrove.formats.writing.writer import TargetWriter
from callgrove.model.books import ALLOCATED, COPIED, COUNTED, Books, Ledger
from callgrove.model.experiment import Experiment
from callgrove.model.metrics import Metrics
from callgrove.model.traces.events import SpanKind

__all__ = ["DATA_VIEWS", "RocpdWriter", "add_up", "create_data_views"]


# -- the views of schema 3 ---------------------------------------------------------------------------------------------
# Specification: gpu-traces.md 3.5; names and columns as schema 3.0.0 to 3.0.3 of rocprofiler-sdk has them. Of one
# process every view gives what rocprofv3's gives; of many, rows are joined inside their process, which rocprofv3
# forgets for `threads` and `memory_allocations`. JSON that is none is NULL instead of an error.
#
# A view is written down as its columns and its tables:
#
#     K.id  name=S.display_name       a column of a table, under its own name or another one
#     category=E.category_id>string   a column of the row that another one refers to, here in rocpd_string
#     size=C.extdata$size             a member of an object in JSON
#     pmc=(SUM(V.value))              anything else
#     +K.graph_exec_id                only where inputs have the columns of schema 3.0.2
#
#     K kernel_dispatch               the first table, with its short name
#     A info_agent K.agent_id         joined by id; with a question mark (`Q? ...`) also rows that have no such id
#     A arg =E.id                     joined by event_id


LOOKED_UP = {"string": "string", "info_kernel_symbol": "display_name"}
GRAPHS = ("kernel_dispatch", "memory_copy")  # what has graph ids since 3.0.2
OF_GRAPHS = "graph_exec_id"
SPM = ("pmc_event", "sample_id")  # counters of samples, since 3.0.3

STACK = "E.stack_id E.parent_stack_id corr_id=E.correlation_id"
CATEGORY = "category=E.category_id>string"
OF_EVENT = f"{STACK} E.extdata E.call_stack E.line_info"
NODE = "nid=N.id N.machine_id N.system_name N.hostname system_release=N.release system_version=N.version"
SPAN_OF = "{0}.start {0}.end duration=({0}.end-{0}.start)"
AGENT = (
    "{1}agent_abs_index={0}.absolute_index {1}agent_log_index={0}.logical_index "
    "{1}agent_type_index={0}.type_index {1}agent_type={0}.type"
)
REGISTERS = "vgpr_count=S.arch_vgpr_count S.accum_vgpr_count S.sgpr_count"
OF_SAMPLE = "R.id R.guid category=E.category_id>string name=T.name_id>string T.nid P.pid H.tid"
SAMPLE_TABLES = (
    *("R sample", "T track R.track_id", "E event R.event_id", "P info_process T.pid"),
    "H info_thread T.tid",
)
COUNTED_TABLES = (
    *("V pmc_event", "I info_pmc V.pmc_id", "E event V.event_id", "K kernel_dispatch =V.event_id"),
    *("A info_agent K.agent_id", "S info_kernel_symbol K.kernel_id", "P info_process K.pid", "T info_thread K.tid"),
)
OF_COUNTED = (
    "K.dispatch_id K.kernel_id event_id=E.id E.correlation_id E.stack_id E.parent_stack_id P.pid T.tid K.agent_id "
    f"{AGENT.format('A', '')} K.queue_id K.grid_size_x K.grid_size_y K.grid_size_z "
    "grid_size=(K.grid_size_x*K.grid_size_y*K.grid_size_z) kernel_name=S.display_name "
    "kernel_region=K.region_name_id>string K.workgroup_size_x K.workgroup_size_y K.workgroup_size_z "
    "workgroup_size=(K.workgroup_size_x*K.workgroup_size_y*K.workgroup_size_z) lds_block_size=K.group_segment_size "
    f"scratch_size=K.private_segment_size {REGISTERS} counter_name=I.name counter_symbol=I.symbol I.component "
    "I.description I.block I.expression I.value_type counter_id=I.id"
)


@dataclass(frozen=True)
class DataView:
    """A view in the notation above; `end` follows the tables.

    `needs` is a table and a column without which there is no such view; `without` one that is NULL in all rows, if it
    is there.
    """

    columns: str
    tables: tuple[str, ...]
    end: str = ""
    needs: tuple[str, str] | None = None
    without: tuple[str, str] | None = None


DATA_VIEWS: dict[str, DataView] = {
    "code_objects": DataView(
        "C.id C.guid C.nid P.pid agent_abs_index=A.absolute_index C.uri C.load_base C.load_size C.load_delta "
        "storage_type_str=C.storage_type code_object_size=C.extdata$size storage_type=C.extdata$storage_type "
        "memory_base=C.extdata$memory_base memory_size=C.extdata$memory_size",
        ("C info_code_object", "A info_agent C.agent_id", "P info_process C.pid"),
    ),
    "kernel_symbols": DataView(
        "S.id S.guid S.nid P.pid S.code_object_id S.kernel_name S.display_name S.kernel_object "
        "S.kernarg_segment_size S.kernarg_segment_alignment S.group_segment_size S.private_segment_size S.sgpr_count "
        "S.arch_vgpr_count S.accum_vgpr_count kernel_symbol_size=S.extdata$size kernel_id=S.extdata$kernel_id "
        "kernel_code_entry_byte_offset=S.extdata$kernel_code_entry_byte_offset "
        "formatted_kernel_name=S.extdata$formatted_kernel_name demangled_kernel_name=S.extdata$demangled_kernel_name "
        "truncated_kernel_name=S.extdata$truncated_kernel_name kernel_address=S.extdata$kernel_address.handle",
        ("S info_kernel_symbol", "P info_process S.pid"),
    ),
    "processes": DataView(
        f"{NODE} P.guid P.ppid P.pid P.init P.start P.end P.fini P.command",
        ("P info_process", "N info_node P.nid"),
    ),
    "threads": DataView(
        f"{NODE} P.guid P.ppid P.pid T.tid T.start T.end T.name",
        ("T info_thread", "P info_process T.pid", "N info_node T.nid"),
    ),
    "regions": DataView(
        f"R.id R.guid {CATEGORY} name=S.string R.nid P.pid T.tid {SPAN_OF.format('R')} R.event_id {OF_EVENT}",
        ("R region", "E event R.event_id", "S string R.name_id", "P info_process R.pid", "T info_thread R.tid"),
    ),
    "region_args": DataView(
        "R.id R.guid R.nid P.pid A.type A.name A.value",
        ("R region", "E event R.event_id", "A arg =E.id", "P info_process R.pid"),
    ),
    "samples": DataView(f"{OF_SAMPLE} R.timestamp R.event_id {OF_EVENT}", SAMPLE_TABLES),
    "sample_regions": DataView(
        f"{OF_SAMPLE} start=R.timestamp END=R.timestamp duration=(R.timestamp-R.timestamp) R.event_id {OF_EVENT}",
        SAMPLE_TABLES,
    ),
    "kernels": DataView(
        f"K.id K.guid T.tid {CATEGORY} region=R.string name=S.display_name K.nid P.pid {AGENT.format('A', '')} "
        "S.code_object_id K.kernel_id K.dispatch_id K.stream_id K.queue_id +K.graph_exec_id +K.graph_node_id "
        f"queue=Q.name stream=M.name {SPAN_OF.format('K')} grid_x=K.grid_size_x grid_y=K.grid_size_y "
        "grid_z=K.grid_size_z workgroup_x=K.workgroup_size_x workgroup_y=K.workgroup_size_y "
        "workgroup_z=K.workgroup_size_z lds_size=K.group_segment_size scratch_size=K.private_segment_size "
        f"{REGISTERS} static_lds_size=S.group_segment_size static_scratch_size=S.private_segment_size +K.event_id "
        f"{STACK}",
        (
            *("K kernel_dispatch", "A info_agent K.agent_id", "E event K.event_id", "R string K.region_name_id"),
            *("S info_kernel_symbol K.kernel_id", "M? info_stream K.stream_id", "Q? info_queue K.queue_id"),
            *("P info_process Q.pid", "T info_thread K.tid"),
        ),
    ),
    "pmc_info": DataView(
        "I.id I.guid I.nid P.pid agent_abs_index=A.absolute_index I.is_constant I.is_derived I.name I.description "
        "I.block I.expression",
        ("I info_pmc", "A info_agent I.agent_id", "P info_process I.pid"),
    ),
    "pmc_events": DataView(
        f"V.id V.guid V.pmc_id event_id=E.id {CATEGORY} name=K.kernel_id>info_kernel_symbol K.nid P.pid "
        f"K.dispatch_id {SPAN_OF.format('K')} counter_name=I.name counter_value=V.value",
        (
            *("V pmc_event", "I info_pmc V.pmc_id", "E event V.event_id", "K kernel_dispatch =V.event_id"),
            "P info_process K.pid",
        ),
    ),
    "events_args": DataView(
        f"event_id=E.id {CATEGORY} E.stack_id E.parent_stack_id E.correlation_id arg_position=A.position "
        "arg_type=A.type arg_name=A.name arg_value=A.value E.call_stack E.line_info A.extdata",
        ("E event", "A arg =E.id"),
    ),
    "stream_args": DataView(
        "argument_id=A.id A.event_id arg_position=A.position arg_type=A.type arg_value=A.value "
        "stream_id=A.extdata$stream_id S.nid P.pid stream_name=S.name S.extdata",
        ("A arg", "S info_stream A.extdata$stream_id", "P info_process S.pid"),
        "WHERE A.name = 'stream'",
    ),
    "memory_copies": DataView(
        f"M.id M.guid {CATEGORY} M.nid P.pid T.tid {SPAN_OF.format('M')} name=S.string region_name=R.string "
        "M.stream_id M.queue_id +M.graph_exec_id +M.graph_node_id stream_name=L.name queue_name=Q.name M.size "
        f"dst_device=D.name {AGENT.format('D', 'dst_')} M.dst_address src_device=O.name {AGENT.format('O', 'src_')} "
        f"M.src_address {STACK}",
        (
            *("M memory_copy", "S string M.name_id", "R? string M.region_name_id", "D info_agent M.dst_agent_id"),
            *("O info_agent M.src_agent_id", "Q? info_queue M.queue_id", "L? info_stream M.stream_id"),
            *("E event M.event_id", "P info_process M.pid", "T info_thread M.tid"),
        ),
    ),
    "memory_allocations": DataView(
        f"M.id M.guid {CATEGORY} M.nid P.pid T.tid {SPAN_OF.format('M')} M.type M.level agent_name=A.name "
        f"{AGENT.format('A', '')} M.address M.size M.queue_id queue_name=Q.name M.stream_id stream_name=L.name {STACK}",
        (
            *("M memory_allocate", "A? info_agent M.agent_id", "Q? info_queue M.queue_id"),
            *("L? info_stream M.stream_id", "E event M.event_id", "P info_process M.pid", "T info_thread M.tid"),
        ),
    ),
    "scratch_memory": DataView(
        f"M.id M.guid M.nid P.pid operation=M.type agent_name=A.name {AGENT.format('A', '')} M.queue_id T.tid "
        f"alloc_flags=M.extdata$flags {SPAN_OF.format('M')} M.size M.address E.correlation_id {STACK} {CATEGORY} "
        "event_extdata=E.extdata",
        (
            *("M memory_allocate", "A? info_agent M.agent_id", "E event M.event_id", "P info_process M.pid"),
            "T info_thread M.tid",
        ),
        "WHERE M.level = 'SCRATCH' ORDER BY M.start",
    ),
    "counters_collection": DataView(
        f"id=(MIN(V.id)) V.guid {OF_COUNTED} value=(SUM(V.value)) K.start K.end I.is_constant I.is_derived "
        f"duration=(K.end-K.start) {CATEGORY} K.nid E.extdata S.code_object_id",
        COUNTED_TABLES,
        "GROUP BY V.guid, K.dispatch_id, I.name, K.agent_id",
        without=SPM,
    ),
    "spm_counters": DataView(
        f"V.id V.guid {OF_COUNTED} V.xcc V.shader_engine V.instance V.value O.timestamp I.is_constant I.is_derived "
        f"{CATEGORY} K.nid E.extdata S.code_object_id",
        (*COUNTED_TABLES, "O sample V.sample_id"),
        needs=SPM,
    ),
    "graph_launches": DataView(
        f"G.id G.guid G.nid P.pid T.tid G.agent_id {AGENT.format('A', '')} G.queue_id queue=Q.name "
        f"name=('Graph'||char(32)||'Execution') {SPAN_OF.format('G')} G.graph_exec_id "
        f"G.kernel_dispatch_count G.event_id {STACK}",
        (
            *("G graph_launch", "A? info_agent G.agent_id", "Q? info_queue G.queue_id", "E event G.event_id"),
            *("P info_process G.pid", "T info_thread G.tid"),
        ),
        needs=("graph_launch", "graph_exec_id"),
    ),
}

SUMMARY_VIEWS: dict[str, str] = {
    "regions_and_samples": "SELECT * FROM regions UNION ALL SELECT * FROM sample_regions",
    "top_kernels": """
        WITH own AS (
            SELECT S.display_name AS name, K."end" - K.start AS ns
            FROM rocpd_kernel_dispatch K JOIN rocpd_info_kernel_symbol S ON S.id = K.kernel_id AND S.guid = K.guid
        )
        SELECT name, COUNT(*) AS total_calls, SUM(ns) / 1000.0 AS total_duration,
            SUM(ns) / COUNT(*) / 1000.0 AS average,
            SUM(ns) * 100.0 / (SELECT SUM("end" - start) FROM rocpd_kernel_dispatch) AS percentage
        FROM own GROUP BY name ORDER BY total_duration DESC""",
    "busy": """
        WITH own AS (
            SELECT agent_id, guid, start, "end" FROM rocpd_kernel_dispatch
            UNION ALL SELECT dst_agent_id, guid, start, "end" FROM rocpd_memory_copy
        ), whole AS (SELECT MAX("end") - MIN(start) AS ns FROM own), each AS (
            SELECT agent_id, guid, SUM("end" - start) AS ns FROM own GROUP BY agent_id, guid
        )
        SELECT each.agent_id AS agent_id, A.type AS type, each.ns AS GpuTime, whole.ns AS WallTime,
            each.ns * 1.0 / whole.ns AS Busy
        FROM each CROSS JOIN whole JOIN rocpd_info_agent A ON A.id = each.agent_id AND A.guid = each.guid""",
    "top": """
        WITH own AS (
            SELECT S.id AS known, S.display_name AS name, K."end" - K.start AS ns
            FROM rocpd_kernel_dispatch K LEFT JOIN rocpd_info_kernel_symbol S ON S.id = K.kernel_id AND S.guid = K.guid
            UNION ALL SELECT S.id, S.string, M."end" - M.start
            FROM rocpd_memory_copy M LEFT JOIN rocpd_string S ON S.id = M.name_id AND S.guid = M.guid
            UNION ALL SELECT S.id, S.string, R."end" - R.start
            FROM rocpd_region R LEFT JOIN rocpd_string S ON S.id = R.name_id AND S.guid = R.guid
        )
        SELECT name, COUNT(*) AS total_calls, SUM(ns) / 1000.0 AS total_duration,
            SUM(ns) / COUNT(*) / 1000.0 AS average,
            SUM(ns) * 100.0 / (SELECT SUM(ns) FROM own) AS percentage
        FROM own WHERE known IS NOT NULL GROUP BY name ORDER BY total_duration DESC""",
}


def create_data_views(columns: Mapping[str, Collection[str]]) -> Iterator[tuple[str, str]]:
    """Yield name and statement of every view that tables with these columns can have."""
    for name, view in DATA_VIEWS.items():
        if view.needs is None or _has(columns, view.needs):
            yield name, f"CREATE VIEW {name} AS {_select(view, columns)}"
    for name, text in SUMMARY_VIEWS.items():
        yield name, f"CREATE VIEW {name} AS {' '.join(text.split())}"


def _has(columns: Mapping[str, Collection[str]], place: tuple[str, str]) -> bool:
    table, column = place
    return column in columns.get(table, ())


def _select(view: DataView, columns: Mapping[str, Collection[str]]) -> str:
    graphs = all(_has(columns, (table, OF_GRAPHS)) for table in GRAPHS)
    cells = [_cell(text.lstrip("+")) for text in view.columns.split() if graphs or not text.startswith("+")]
    joins = " ".join(map(_join, view.tables))
    where = f"WHERE V.{view.without[1]} IS NULL " if view.without and _has(columns, view.without) else ""
    return f"SELECT {', '.join(cells)} FROM {joins} {where}{view.end}".rstrip()


def _cell(text: str) -> str:
    """Return the SQL of a column of a view, from `name=expression` or from a column that keeps its name."""
    name, _, expression = text.partition("=") if re.match(r"\w+=", text) else (text.partition(".")[2], "", text)
    return f'{_value(expression)} AS "{name}"'


def _value(text: str) -> str:
    """Return the SQL of a value in the notation above."""
    if text.startswith("("):
        return re.sub(r"\bend\b", '"end"', text)
    if ">" in text:
        key, _, table = text.partition(">")
        owner = key.partition(".")[0]
        return f"(SELECT {LOOKED_UP[table]} FROM rocpd_{table} WHERE id = {key} AND guid = {owner}.guid)"
    if "$" in text:
        cell, _, member = text.partition("$")
        return f"CASE WHEN json_valid({cell}) THEN json_extract({cell}, '$.{member}') END"
    owner, _, column = text.partition(".")
    return f'{owner}."{column}"'


def _join(text: str) -> str:
    """Return the SQL of one table of a view: the first one, or one that is joined by the named id or (`=`) event."""
    short, table, *key = text.split()
    named = f"rocpd_{table} AS {short.rstrip('?')}"
    if not key:
        return named
    column = "event_id" if key[0].startswith("=") else "id"
    value = key[0].lstrip("=")
    on = f"{short.rstrip('?')}.{column} = {_value(value)} AND {short.rstrip('?')}.guid = {value.partition('.')[0]}.guid"
    return f"{'LEFT' if short.endswith('?') else 'INNER'} JOIN {named} ON {on}"


# -- the writer --------------------------------------------------------------------------------------------------------


TIME, SIZE = ("end", '"end" - start'), ("size", "size")  # a column that must be there, and what is added up
AMOUNTS: Mapping[str, Sequence[tuple[SpanKind | str, str, str]]] = {
    "kernel_dispatch": [(SpanKind.KERNEL, *TIME)],
    "memory_copy": [(SpanKind.COPY, *TIME), (COPIED, *SIZE)],
    "memory_allocate": [(SpanKind.ALLOC, *TIME), (ALLOCATED, *SIZE)],
    "region": [("nanoseconds of regions", *TIME)],
    "sample": [("times of samples", "timestamp", "timestamp")],
    "pmc_event": [(COUNTED, "value", "value")],
}
Totals = Callable[[Sequence[str]], Sequence[float]]  # computes some expressions over all rows of a table
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
VERSION = "3"  # of the schema that is written
NAMES_AS_STORED = compose_text(
    Parameter("kernel_names"),
    ": changes nothing here, as tables are copied with every name; give it when this is read",
)


class RocpdWriter(TargetWriter[SqliteTarget, Experiment]):
    """Merges databases of rocprofv3 into one."""

    takes_spans = False  # rows are copied, so that nothing is lost on the way through spans
    holds_only_traces = True

    def __init__(self, target: Path, options: WriteOptions) -> None:
        super().__init__(SqliteTarget(target, options.overwrite))
        self._progress = options.progress

    @property
    def _database(self) -> sqlite3.Connection:
        return self._pending.database

    def _begin(self, tables: Experiment) -> None:
        """Copy everything: the tables are in the files that the experiment was opened from."""
        refuse_input_as(self.target, tables)
        self._open = tables
        origins = self._choose_data_sets(tables)
        if any(origin.data.kernel_names for origin in origins.values()):
            self._report.hint(NAMES_AS_STORED)
        self._columns = columns = _columns_of_all(origins.values(), self._report)
        self._ledgers = Books(Metrics(), Ledger(), Ledger())
        self._suffixes = list(origins)
        self._pending.create_tables(_declare_tables(origins, columns))
        self._database.execute("BEGIN")
        done = 0
        for file, of_file in groupby(origins.items(), lambda item: item[1].file):
            with file.reading():  # SQLite reads the schema each time it opens a file: once for all of its data sets
                for suffix, origin in of_file:
                    self._progress("merging databases", done, len(origins))
                    self._copy_all(origin, suffix)
                    done += 1
        for base in columns:
            self._database.execute(create_view(base, [f"rocpd_{base}{suffix}" for suffix in origins]))
        self._write_data_views({id(origin.file): origin.file for origin in origins.values()}.values(), columns)
        self._database.execute("COMMIT")

    def _write_data_views(self, files: Iterable[SqliteFile], columns: Mapping[str, Collection[str]]) -> None:
        """Write rocprofv3's own views, which its users query, and report other views of the inputs."""
        written = {f"rocpd_{base}" for base in columns}
        for name, statement in create_data_views(columns):
            self._database.execute(statement)
            written.add(name)
        theirs = set().union(*(file.schema.views for file in files))
        for name in sorted(theirs - written - {f"rocpd_{CATEGORIES}"}):
            self._report.add(f"view {name}: no view of rocprofv3 that is known here; its tables are written")

    def _choose_data_sets(self, tables: Experiment) -> dict[str, _Origin]:
        """Return data sets by the suffix that their tables get; equal ones are taken once."""
        backend = tables.traces.spans_backend
        datasets = backend.datasets if isinstance(backend, DataSetSpans) else []
        out: dict[str, _Origin] = {}
        for origin in _find_origins([dataset for dataset in datasets if isinstance(dataset, RocpdData)]):
            dataset = origin.data
            suffix = dataset.suffix or "_" + re.sub(r"\W", "_", dataset.processes[0].uid or "0")
            if suffix not in out:
                out[suffix] = origin
                continue
            same = out[suffix].data.path
            if _fingerprint(out[suffix]) != _fingerprint(origin):
                raise UsageError(
                    f"{dataset.path}: its tables have the same suffix {suffix} as those of {same}, "
                    "but other rows; leave one out"
                )
            self._report.add(f"{dataset.path}: has the same rows as {same}, which are written once")
        return out

    def _copy_all(self, origin: _Origin, suffix: str) -> None:
        """Copy the tables of a data set, which get this suffix."""
        dataset, tables = origin.data, origin.tables
        for base, names in self._columns.items():
            if base in tables:
                stored = dataset.file.tables[tables[base]]
                copied = [name for name in names if name in stored]
                self._copy(dataset, tables[base], f"rocpd_{base}{suffix}", copied)
                add_up(partial(dataset.file.totals, tables[base]), base, stored, self._ledgers.given)
        on_tracks = [base for base in TABLES if base in tables and dataset.file.has(tables[base], TRACK)]
        for base in on_tracks:
            self._copy_from_tracks(dataset, tables[base], base, suffix)
        if dataset.table_name(CATEGORIES) in dataset.file.tables:
            self._make_strings_of_categories(dataset, suffix)
        if dataset.version.startswith("4"):
            self._database.execute(
                f"UPDATE {quote_with(f'rocpd_metadata{suffix}')} SET value = ? WHERE tag = 'schema_version'", (VERSION,)
            )
            self._report.hint(f"{dataset.path}: schema {dataset.version} is written as schema {VERSION}")

    def _copy_from_tracks(self, dataset: RocpdData, origin: str, base: str, suffix: str) -> None:
        """Fill the columns of schema 3 that say where an event happened with what its track says."""
        wanted = ("nid", "pid", *TRACK_COLUMNS)
        names = [name for name in wanted if name in columns_of(base) and not dataset.file.has(origin, name)]
        if names:
            table, track = quote_with(f"rocpd_{base}{suffix}"), quote_with(f"rocpd_track{suffix}")
            cells = f"SELECT {', '.join(f'T.{name}' for name in names)} FROM {track} T WHERE T.id = {table}.{TRACK}"
            self._database.execute(f"UPDATE {table} SET ({', '.join(names)}) = ({cells})")

    def _make_strings_of_categories(self, dataset: RocpdData, suffix: str) -> None:
        """Add the names of categories to the strings, and let events refer to these."""
        strings, events = (quote_with(f"rocpd_{base}{suffix}") for base in ("string", "event"))
        ids = dict(self._database.execute(f"SELECT string, min(id) FROM {strings} GROUP BY string"))
        last = max(ids.values(), default=0)
        guid, renamed, added = dataset.processes[0].uid, list[tuple[int, int]](), list[tuple[int, str, str]]()
        for rows in dataset.file.rows(dataset.table_name(CATEGORIES), ("id", "name")):
            for id_, name in rows:
                if name not in ids:
                    ids[name] = last = last + 1
                    added.append((last, guid, str(name)))
                renamed.append((int(str(id_)), ids[name]))
        self._database.executemany(f"INSERT INTO {strings} (id, guid, string) VALUES (?, ?, ?)", added)
        self._ledgers.given.amount("rows of rocpd_string").enter(len(added), 0, 0)
        self._database.execute("CREATE TEMP TABLE renamed (old INTEGER PRIMARY KEY, new INTEGER)")
        self._database.executemany("INSERT OR IGNORE INTO renamed VALUES (?, ?)", renamed)
        query = f"SELECT count(category_id) FROM {events} WHERE category_id NOT IN (SELECT old FROM renamed)"
        if n := self._database.execute(query).fetchone()[0]:
            self._report.add(f"{dataset.path}: categories of {n:,} events, which are not listed")
        self._database.execute(f"UPDATE {events} SET category_id = (SELECT new FROM renamed WHERE old = category_id)")
        self._database.execute("DROP TABLE temp.renamed")

    def _copy(self, dataset: RocpdData, origin: str, table: str, columns: Sequence[str]) -> None:
        named = ", ".join(map(quote_with, columns))
        statement = f"INSERT INTO {quote_with(table)} ({named}) VALUES ({', '.join('?' * len(columns))})"
        for rows in dataset.file.rows(origin, columns):
            self._database.executemany(statement, rows)

    def _take(self, tables: Experiment, chunk: Chunk) -> None:
        """Do nothing: values and samples are made again when the tables are read."""

    def _finish(self, tables: Experiment) -> None:
        """Add up all rows, and compare the sums with those of the inputs."""
        for base, names in self._columns.items():
            for suffix in self._suffixes:
                add_up(partial(self._totals, f"rocpd_{base}{suffix}"), base, names, self._ledgers.passed)
        self._report.unexplained.extend(self._ledgers.differences())

    def _totals(self, table: str, expressions: Sequence[str]) -> Sequence[float]:
        sums: tuple[float, ...] = self._database.execute(totals_of(table, expressions)).fetchone()
        return sums

    def _give_up(self, tables: Experiment) -> None:
        """Do nothing: the target closes its own connection."""


def _declare_tables(
    origins: Mapping[str, _Origin], columns: Mapping[str, Collection[str]]
) -> Iterator[tuple[str, str]]:
    """Yield name and statement of all tables, data set by data set."""
    for suffix, origin in origins.items():
        for base, names in columns.items():
            table = f"rocpd_{base}{suffix}"
            yield table, create_table(table, base, names, origin.data.processes[0].uid)


@dataclass(frozen=True)
class _Origin:
    """A data set that is copied, and its tables by base name."""

    data: RocpdData
    tables: Mapping[str, str]

    @property
    def file(self) -> SqliteFile:
        return self.data.file


def _find_origins(datasets: Sequence[RocpdData]) -> Iterator[_Origin]:
    """Yield data sets with their tables. Those of a file, which may be very many, are gone through once."""
    for file, of_file in groupby(datasets, lambda dataset: dataset.file):
        members = list(of_file)
        tables = _tables_by_suffix(file, {member.suffix for member in members})
        yield from (_Origin(member, tables[member.suffix]) for member in members)


def _tables_by_suffix(file: SqliteFile, suffixes: Collection[str]) -> dict[str, dict[str, str]]:
    """Return the tables of a file by suffix and base name; of two suffixes that fit, the longer one counts."""
    out: dict[str, dict[str, str]] = {suffix: {} for suffix in suffixes}
    if "" in out:
        out[""] = {base: f"rocpd_{base}" for base in (*COLUMNS, *NEWER) if f"rocpd_{base}" in file.tables}
    lengths = sorted({len(suffix) for suffix in suffixes if suffix}, reverse=True)
    for table in (name for name in file.tables if name.startswith("rocpd_")):
        for n in lengths:
            base, suffix = table[len("rocpd_") : -n], table[-n:]
            if suffix in out and NAME.fullmatch(base):
                out[suffix][base] = table
                break
    return out


def add_up(totals: Totals, base: str, columns: Collection[str], ledger: Ledger) -> None:
    """Add what a table holds, of which only some columns exist: rows, spans, bytes, and values of counters.

    Regions are of the kind that the category of their event says. To look that up would take longer than all else that
    is done here, so their time is added up by itself.
    """
    amounts = [(quantity, value if column in columns else "NULL") for quantity, column, value in AMOUNTS.get(base, ())]
    n, *sums = totals(["count(*)", *(f"total({value})" for _, value in amounts)])
    ledger.amount(f"rows of rocpd_{base}").enter(int(n), 0, 0)
    for (quantity, _), total in zip(amounts, sums, strict=True):
        if isinstance(quantity, SpanKind):
            ledger.n_spans[quantity] += int(n)
            ledger.span_ns[quantity] += total
        else:
            ledger.amount(quantity).enter(int(n), total, abs(total))


def _columns_of_all(origins: Iterable[_Origin], report: LossReport) -> dict[str, list[str]]:
    """Return for every table the columns that any process needs, those of the schema first."""
    out: dict[str, list[str]] = {base: list(columns_of(base)) for base in COLUMNS}
    for origin in origins:
        for base, table in origin.tables.items():
            if base == CATEGORIES:  # they become strings
                continue
            known, stored = out.setdefault(base, []), origin.file.tables[table]
            later = [name for name in LATER.get(base, ()) if name in stored]
            for name in (*later, *stored):
                if not NAME.fullmatch(name):
                    report.add(f"column {name!r} of {table} in {origin.data.path}: no name that is written")
                elif name not in known:
                    known.append(name)
    return {base: names for base, names in out.items() if names}


def _fingerprint(origin: _Origin) -> str:
    """Return a digest of all rows of a data set."""
    digest = hashlib.sha256()
    for base, table in sorted(origin.tables.items()):
        columns = sorted(origin.file.tables[table])
        digest.update(repr((base, columns)).encode())
        for rows in origin.file.rows(table, columns):
            digest.update(repr(rows).encode())
    return digest.hexdigest()
