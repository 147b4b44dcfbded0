"""Databases of rocprofv3's schema 4, made of those of schema 3 that hold the same run (gpu_databases.py).

Nothing here is taken from the package. Ids of threads, queues and streams are others than their numbers, so that a
reader that confuses them is found out.

    write_rocpd4(path, [run, ...], version="4.0.0")      tracks, categories; 4.0.0 also phases
    add_stacks(path, run, {3: ("main", "solve")})        call stacks of events, the outermost function first
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path

from tests.formats.gpu.gpu_databases import Run, suffix_of, write_rocpd

VERSIONS = ("4.0.0", "4.1.0")
THREADS = 500  # what ids of threads are above their numbers
WHO = ("nid", "pid", "tid", "agent_id", "queue_id", "stream_id")
ON_TRACKS = {
    "region": ("nid", "pid", "tid"),
    "kernel_dispatch": WHO,
    "memory_copy": ("nid", "pid", "tid", "queue_id", "stream_id"),
    "memory_allocate": WHO,
}
ADDED = {  # tables that have no rows unless a test adds some
    "info_address_range": "id INTEGER PRIMARY KEY, guid, nid, pid, address_base, address_low, address_high, extdata",
    "info_source_code": "id INTEGER PRIMARY KEY, guid, nid, pid, address_id, file, line_number, lines, instructions, "
    "extdata",
    "info_pc": "id INTEGER PRIMARY KEY, guid, nid, pid, function, address_id, file, line, extdata",
    "call_stack": "id INTEGER PRIMARY KEY, guid, event_id, pc_id, depth, extdata",
    "line_info": "id INTEGER PRIMARY KEY, guid, event_id, source_code_id, pc_id, extdata",
}


def write_rocpd4(path: Path, runs: list[Run], version: str = "4.1.0") -> Path:
    """One set of tables per run."""
    write_rocpd(path, runs, version=version)
    with closing(sqlite3.connect(path)) as database:
        for run in runs:
            _convert(database, run, suffix_of(run), version)
        database.commit()
    return path


def _convert(database: sqlite3.Connection, run: Run, tail: str, version: str) -> None:
    _number_threads_anew(database, tail)
    _make_tracks(database, run, tail)
    _make_categories(database, run, tail)
    for base, columns in ADDED.items():
        database.execute(f"CREATE TABLE rocpd_{base}{tail} ({columns})")
    database.execute(f"ALTER TABLE rocpd_sample{tail} ADD COLUMN name_id")
    database.execute(f"ALTER TABLE rocpd_memory_allocate{tail} ADD COLUMN name_id")
    if version == "4.0.0":
        for base in ON_TRACKS:
            database.execute(f"ALTER TABLE rocpd_{base}{tail} ADD COLUMN start_phase")
            database.execute(f"ALTER TABLE rocpd_{base}{tail} ADD COLUMN end_phase")
            database.execute(f"UPDATE rocpd_{base}{tail} SET start_phase = 1, end_phase = 2")
        database.execute(f"ALTER TABLE rocpd_sample{tail} ADD COLUMN phase")


def _number_threads_anew(database: sqlite3.Connection, tail: str) -> None:
    database.execute(f"UPDATE rocpd_info_thread{tail} SET id = id + {THREADS}")
    for base in (*ON_TRACKS, "track"):
        database.execute(f"UPDATE rocpd_{base}{tail} SET tid = tid + {THREADS}")


def _make_tracks(database: sqlite3.Connection, run: Run, tail: str) -> None:
    """One for each combination of places; the columns of events that name these are dropped."""
    database.execute(f"DROP TABLE rocpd_track{tail}")
    database.execute(
        f"CREATE TABLE rocpd_track{tail} (id INTEGER PRIMARY KEY, guid, nid, ppid, pid, tid, agent_id, queue_id, "
        "stream_id, name_id, extdata)"
    )
    for base, columns in ON_TRACKS.items():
        table, places = f"rocpd_{base}{tail}", ", ".join(columns)
        database.execute(
            f"INSERT INTO rocpd_track{tail} (guid, {places}, name_id, extdata) "
            f"SELECT DISTINCT '{run.guid}', {places}, 1, '{{}}' FROM {table}"
        )
        same = " AND ".join(f"T.{name} IS {table}.{name}" for name in columns)
        others = " AND ".join(f"T.{name} IS NULL" for name in WHO if name not in columns) or "1"
        database.execute(f"ALTER TABLE {table} ADD COLUMN track_id")
        database.execute(
            f"UPDATE {table} SET track_id = (SELECT min(T.id) FROM rocpd_track{tail} T WHERE {same} AND {others})"
        )
        for name in columns:
            database.execute(f"ALTER TABLE {table} DROP COLUMN {name}")


def _make_categories(database: sqlite3.Connection, run: Run, tail: str) -> None:
    """Numbered otherwise than the strings that they were; the JSON of events is gone."""
    database.execute(f"CREATE TABLE rocpd_info_category{tail} (id INTEGER PRIMARY KEY, guid, name, extdata)")
    database.execute(
        f"INSERT INTO rocpd_info_category{tail} SELECT id + 40, '{run.guid}', string, '{{}}' FROM rocpd_string{tail} "
        f"WHERE id IN (SELECT category_id FROM rocpd_event{tail})"
    )
    database.execute(f"UPDATE rocpd_event{tail} SET category_id = category_id + 40")
    for name in ("call_stack", "line_info"):
        database.execute(f"ALTER TABLE rocpd_event{tail} DROP COLUMN {name}")


def add_stacks(path: Path, run: Run, stacks: Mapping[int, Sequence[str]]) -> None:
    """Add call stacks of events by id, the outermost function first; depth 0 is the innermost one."""
    tail, functions = suffix_of(run), dict[str, int]()
    with closing(sqlite3.connect(path)) as database:
        for event, names in stacks.items():
            for depth, name in enumerate(reversed(names)):
                pc = functions.setdefault(name, len(functions) + 1)
                database.execute(
                    f"INSERT INTO rocpd_call_stack{tail} (event_id, pc_id, depth) VALUES (?, ?, ?)", (event, pc, depth)
                )
        rows = [(id_, name, f"{name}.c", 10 * id_) for name, id_ in functions.items()]
        database.executemany(f"INSERT INTO rocpd_info_pc{tail} (id, function, file, line) VALUES (?, ?, ?, ?)", rows)
        database.commit()
