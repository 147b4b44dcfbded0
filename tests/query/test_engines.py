"""What engines must not do, what they say, and that two of them say the same."""

from __future__ import annotations

import os
import re
import signal
import sqlite3
import sys
import threading
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from time import process_time

import numpy as np
import pytest

import callgrove
from callgrove.arrays import Array
from callgrove.errors import CallgroveError, MissingExtra, UsageError
from callgrove.examples import example, gpu_example, study_example
from callgrove.model.builder import ExperimentBuilder
from callgrove.model.experiment import Experiment
from callgrove.model.profiles import ProfileKind
from callgrove.model.table import CHUNK, Table
from callgrove.model.traces.events import ArraySpans
from callgrove.query import sql as asking
from callgrove.query.catalog import Catalog
from callgrove.query.engines import DuckdbEngine
from callgrove.query.relations import ENGINES
from callgrove.query.sql import complaint, sql
from tests.exhaustive import some_of
from tests.requirements import need_module

EACH = pytest.mark.parametrize("engine", ENGINES)


@pytest.fixture(scope="module")
def gpu() -> Experiment:
    return gpu_example()


WRITES = (
    "DELETE FROM kernels",
    "INSERT INTO kernels (id) VALUES (1)",
    "UPDATE kernels SET name = 'x'",
    "DROP TABLE kernels",
    "CREATE TABLE mine (x INTEGER)",
    "CREATE TEMP TABLE mine AS SELECT 1 AS x",
    "ATTACH '/etc/passwd' AS p",
    "PRAGMA table_info('kernels')",
    "VACUUM",
    "BEGIN",
    "SELECT 1; SELECT 2",
    "SELECT 1 AS x; DROP TABLE kernels",
    "EXPLAIN SELECT 1",
)


@EACH
@pytest.mark.parametrize("query", WRITES)
def test_only_one_query_is_run(gpu: Experiment, engine: str, query: str) -> None:
    with pytest.raises(UsageError) as raised:
        sql(gpu, query, engine)
    assert "\n" not in str(raised.value)
    assert "SELECT" in str(raised.value) or "syntax error" in str(raised.value)


READS_FILES = (
    "SELECT * FROM read_csv('/etc/passwd')",
    "SELECT * FROM read_text('/etc/passwd')",
    "SELECT * FROM '/etc/passwd'",
    "SELECT * FROM glob('/etc/*')",
    "COPY kernels TO '{folder}/out.csv'",
    "ATTACH '{folder}/out.db' AS o",
    "SELECT load_extension('{folder}/out')",
    "INSTALL httpfs",
    "SET enable_external_access = true",
    "SELECT * FROM gpu",  # a Python variable of that name
)


@EACH
@pytest.mark.parametrize("query", READS_FILES)
def test_no_other_file_is_touched(gpu: Experiment, engine: str, query: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError) as raised:
        list(sql(gpu, query.format(folder=tmp_path), engine))
    assert "\n" not in str(raised.value)
    assert "root:" not in str(raised.value)
    assert list(tmp_path.iterdir()) == []


@EACH
@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("SELECT * FROM kernel", "there is no table 'kernel'; did you mean 'kernels'?"),
        ("SELECT * FROM zzzzz", "sql_tables() lists them all"),
        ("SELECT nme FROM kernels", "there is no column 'nme' in kernels; did you mean 'name'?"),
        ("SELECT k.durration FROM kernels k", "there is no column 'durration' in kernels; did you mean 'duration'?"),
        ("SELECT start_ns FROM flows", "there is no column 'start_ns' in flows; it is one of spans"),
        ("SELECT f.start FROM flows f, kernels k", "no column 'start' where it is asked for; it is one of kernels"),
        ("SELECT Start_NS FROM flows", "there is no column 'Start_NS' in flows; it is one of spans"),
        ("SELECT hostname FROM flows", "it is one of regions, sample_regions, regions_and_samples, kernels and 5 more"),
        ("SELECT xyzzy FROM flows, kernels", "there is no column 'xyzzy' in flows or kernels; sql_tables()"),
        ("SELECT start FROM kernels, regions", "several tables of the query have a column 'start'; write which one"),
        ("SELECT AVERAGE (nsec) FROM kernel_summary", 'write "AVERAGE (nsec)" with its quotes'),
        ("this is not SQL", "the query cannot be run:"),
        ("SELECT * FROM kernels WHERE", "the query cannot be run:"),
        ("SELECT nosuch(1)", "the query cannot be run:"),
        ("", "the query is empty"),
        ("  \n", "the query is empty"),
        ("-- only a comment", ""),
    ],
)
def test_errors_are_one_sentence(gpu: Experiment, engine: str, query: str, words: str) -> None:
    with pytest.raises(UsageError) as raised:
        sql(gpu, query, engine)
    assert words in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("query", "engine", "words"),
    [
        ("SELECT end FROM kernels", "duckdb", 'write "end" with its quotes'),
        ('SELECT 1 FROM kernels WHERE name = "zzz"', "duckdb", "a text is written in single quotes: 'zzz'"),
        ("SELECT offset FROM contexts", "duckdb", 'write "offset" with its quotes'),
        ("SELECT * FROM values", "sqlite", 'write "values" with its quotes'),
    ],
)
def test_words_of_sql_that_are_names_here(gpu: Experiment, query: str, engine: str, words: str) -> None:
    with pytest.raises(UsageError) as raised:
        sql(gpu, query, engine)
    assert words in str(raised.value)


def test_no_name_is_suggested_for_itself(gpu: Experiment) -> None:
    """Whatever column is asked of a table that lacks it, in any spelling."""
    relations = Catalog((gpu,)).relations
    columns = {column for relation in relations.values() for column in relation.names if column.isidentifier()}
    for name in sorted(columns - {"call", "operation", "end", "offset"}):
        for spelling in {name, name.upper()}:
            for words in (f"no such column: {spelling}", f'Binder Error: Referenced column "{spelling}" not found'):
                text = str(complaint(words, relations, f"SELECT {spelling} FROM flows"))
                said = re.findall(r"'([^']+)'", text)
                assert said[0] == spelling
                assert all(other.lower() != name.lower() for other in said[1:]), text


SAME = (
    "SELECT name, count(*) AS n, sum(duration) AS total, avg(duration) AS mean FROM kernels GROUP BY 1 ORDER BY 1",
    "SELECT 7 / 2 AS a, -7 / 2 AS b, 7 % 3 AS c, 1 / 0 AS d, 7 / 2.0 AS e, 1.0 / 0 AS f, 1 > 0 AS g",
    "SELECT DISTINCT queue_id FROM kernels ORDER BY queue_id",
    "SELECT stack_id FROM regions ORDER BY stack_id LIMIT 3",  # NULL comes first
    "SELECT stack_id FROM regions ORDER BY stack_id DESC LIMIT 3",
    "SELECT count(*) AS n FROM kernels WHERE name LIKE 'VOID%'",
    "SELECT count(*) AS n FROM kernels WHERE name LIKE 'void%'",
    "SELECT median(duration) AS m, stddev(duration) > 0 AS s, round(sqrt(max(duration)), 6) AS r FROM kernels",
    "SELECT name, name, 1 AS name FROM kernels ORDER BY start LIMIT 2",
    'SELECT min(start) AS first, max("end") AS last FROM kernels',
    "SELECT r.name, k.name AS k FROM flows JOIN regions r ON r.id = call JOIN kernels k ON k.id = operation ORDER BY 2",
    "WITH one AS (SELECT DISTINCT profile FROM spans) SELECT count(*) AS n FROM one NATURAL JOIN profiles",
    "SELECT count(*) AS n FROM spans",
    "SELECT 1 AS x WHERE EXISTS (SELECT 1 FROM spans)",
    "SELECT name FROM kernels WHERE name = 'nothing is called so'",
    "SELECT s.name FROM spans s WHERE s.start_ns = (SELECT min(start_ns) FROM spans) ORDER BY s.name",
    "SELECT a.name, b.rank FROM spans a JOIN profiles b USING (profile) ORDER BY a.span LIMIT 3",
    "SELECT kind FROM spans UNION SELECT kind FROM profiles ORDER BY kind",
)


@pytest.mark.parametrize("query", SAME)
def test_engines_agree(gpu: Experiment, query: str) -> None:
    one, two = (sql(gpu, query, engine).table() for engine in ENGINES)
    assert one.names == two.names
    assert list(one.rows()) == list(two.rows())
    assert [[type(cell) for cell in row] for row in one.rows()] == [[type(cell) for cell in row] for row in two.rows()]


@EACH
def test_arithmetic_is_that_of_sqlite(gpu: Experiment, engine: str) -> None:
    [row] = sql(
        gpu, "SELECT 7 / 2 AS a, 1 / 0 AS b, 7 / 2.0 AS c, 1 > 0 AS d, CAST(NULL AS INTEGER) AS e", engine
    ).rows()
    assert row == (3, None, 3.5, 1, None)


@EACH
def test_names_of_columns_are_made_different(gpu: Experiment, engine: str) -> None:
    found = sql(gpu, 'SELECT name, name, NAME AS "Name" FROM kernels LIMIT 1', engine).table()
    assert found.names == ("name", "name_2", "Name_3")


@EACH
def test_an_empty_result_has_its_columns(gpu: Experiment, engine: str) -> None:
    chunks = list(sql(gpu, "SELECT name, duration FROM kernels WHERE duration < 0", engine))
    assert [(table.names, len(table)) for table in chunks] == [(("name", "duration"), 0)]


def hostile() -> Experiment:
    """Names that would hurt a careless program, and times at the edge of their type."""
    builder = ExperimentBuilder("example", "1")
    builder.add_profile(ProfileKind.THREAD, [])
    names = (
        "'; DROP TABLE spans; --",
        'a "b"',
        "line\nbreak",
        "\x1b[31m",
        "日本",
        "lone \udcff surrogate",
        "",
        "nul\0l",
    )
    n = len(names)
    columns: dict[str, Array] = {
        "profile": np.zeros(n, np.int32),
        "kind": np.full(n, 6, np.int32),
        "category": np.full(n, -1, np.int32),
        "name": np.arange(n, dtype=np.int32),
        "start_ns": np.arange(n) + 2**62,
        "end_ns": np.full(n, 2**63 - 1),
        "depth": np.zeros(n, np.int32),
        "correlation": np.full(n, -1),
        "context": np.full(n, -1, np.int32),
    }
    builder.set_traces(spans=ArraySpans(columns, names))
    return builder.build()


@EACH
def test_hostile_names_are_data(engine: str) -> None:
    found = list(sql(hostile(), "SELECT name, category, start_ns, end_ns FROM spans ORDER BY start_ns", engine).rows())
    assert found[0] == ("'; DROP TABLE spans; --", None, 2**62, 2**63 - 1)
    assert [row[0] for row in found[1:5]] == ['a "b"', "line\nbreak", "\x1b[31m", "日本"]
    assert found[5][0] == "lone ? surrogate"
    assert found[6:] == [("", None, 2**62 + 6, 2**63 - 1), ("nul\0l", None, 2**62 + 7, 2**63 - 1)]


@EACH
def test_only_what_is_used_is_read(gpu: Experiment, engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: dict[str, frozenset[str]] = {}
    rows = Catalog.rows

    def watched(self: Catalog, name: str, wanted: frozenset[str]) -> Iterator[Table]:
        asked[name] = wanted
        return rows(self, name, wanted)

    monkeypatch.setattr(Catalog, "rows", watched)
    answer = sql(gpu, "SELECT name, sum(duration) FROM kernels WHERE rank = 0 GROUP BY name", engine)
    assert asked == {"kernels": frozenset({"name", "duration", "rank"})}
    assert answer.loaded == {"kernels": 24}
    asked.clear()
    sql(gpu, "SELECT count(*) FROM spans NATURAL JOIN profiles", engine)
    assert asked.keys() == {"spans", "profiles"}
    assert asked["spans"] & asked["profiles"] == {"profile", "kind", "name"}  # these they have in common
    asked.clear()
    sql(gpu, "SELECT 1 AS x", engine)
    assert asked == {}


def many_spans(n: int) -> Experiment:
    builder = ExperimentBuilder("example", "1")
    builder.add_profile(ProfileKind.THREAD, [])
    start = np.arange(n)
    zeros, none = np.zeros(n, np.int32), np.full(n, -1, np.int32)
    columns: dict[str, Array] = {
        "profile": zeros,
        "kind": zeros + 6,
        "category": none,
        "name": (start % 7).astype(np.int32),
    }
    columns |= {"start_ns": start, "end_ns": start + 5, "depth": zeros, "correlation": none, "context": none}
    builder.set_traces(spans=ArraySpans(columns, tuple("abcdefg")))
    return builder.build()


@pytest.mark.parametrize("engine", some_of(ENGINES, lambda name: name == "sqlite"))
def test_memory_does_not_grow_with_the_rows(engine: str) -> None:
    """Rows in and out. What Python and NumPy ask for is counted, not what the system gives."""

    def peak(n: int) -> int:
        experiment = many_spans(n)
        tracemalloc.start()
        try:
            answer = sql(experiment, "SELECT a.name, a.start_ns, a.end_ns FROM spans a", engine)
            assert sum(len(table) for table in answer) == n
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    peak(1)  # what is imported and kept from the first query on
    few = 2 * CHUNK
    assert peak(2 * few) < 1.5 * peak(few)


@EACH
def test_ctrl_c_ends_a_query(gpu: Experiment, engine: str) -> None:
    endless = (
        "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r WHERE n < 900000000) "
        "SELECT count(*) AS n FROM r a"
    )
    pressed = threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT))

    def ask() -> None:  # the busiest machine presses no key outside of it
        pressed.start()
        list(sql(gpu, endless, engine))

    with pytest.raises(KeyboardInterrupt):
        ask()
    pressed.join()


@pytest.mark.parametrize(("words", "wanted"), [("Query interrupted", KeyboardInterrupt), ("no idea", RuntimeError)])
def test_ctrl_c_before_the_query_runs(
    gpu: Experiment, words: str, wanted: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What DuckDB says of it while the engine is set up."""

    def fail(*_: object) -> None:
        raise RuntimeError(words)

    monkeypatch.setattr(DuckdbEngine, "_set_if_known", fail)
    with pytest.raises(wanted):
        sql(gpu, "SELECT 1", "duckdb")


@EACH
def test_nothing_stays_behind(gpu: Experiment, engine: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import tempfile

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    list(sql(gpu, "SELECT * FROM kernels", engine))
    with sql(gpu, "SELECT * FROM kernels", engine) as answer:
        next(iter(answer))
    with pytest.raises(UsageError):
        sql(gpu, "SELECT nothing FROM kernels", engine)
    assert list(tmp_path.iterdir()) == []


def test_without_the_extra_sqlite_answers(gpu: Experiment, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "duckdb", None)
    monkeypatch.setattr(asking, "find_spec", lambda name: None)
    assert asking.default_engine() == "sqlite"
    assert next(sql(gpu, "SELECT count(*) AS n FROM kernels").rows()) == (24,)
    with pytest.raises(MissingExtra, match="callgrove\\[sql\\]"):
        sql(gpu, "SELECT 1 AS x", "duckdb")


def test_what_cannot_be_asked() -> None:
    with pytest.raises(UsageError, match="there is no engine 'mysql'"):
        sql(gpu_example(), "SELECT 1", "mysql")
    with pytest.raises(UsageError, match="nothing to ask"):
        sql([], "SELECT 1")
    with pytest.raises(UsageError, match="is a study, which has series and parameters, not contexts"):
        sql(study_example(), "SELECT * FROM contexts")
    with pytest.raises(UsageError, match="not series"):
        sql(example(), "SELECT * FROM series")


def test_public_name() -> None:
    assert callgrove.sql is sql
    assert issubclass(UsageError, CallgroveError)


@pytest.mark.parametrize(
    ("engine", "text", "said"),
    [
        ("duckdb", "repeat('a', 1000000000)", "repeat makes at most 65,536 characters"),
        ("duckdb", "repeat('a', 40000 + i.context)", "repeat makes at most 65,536 characters"),
        ("duckdb", "lpad('a', 1000000000, 'b')", "lpad makes at most 65,536 characters"),
        ("duckdb", "rpad('a', 1000000000, 'b')", "rpad makes at most 65,536 characters"),
        ("duckdb", "to_json(range(20000000))", "range makes at most 8,192 items of a list"),
        ("duckdb", "to_json(range(9000 - i.context, -2000, -1))", "range makes at most 8,192 items of a list"),
        ("duckdb", "to_json(generate_series(1, 20000000))", "generate_series makes at most 8,192 items"),
        ("duckdb", "to_json(list_resize([1], 100000000))", "list_resize makes at most 8,192 items"),
        ("duckdb", "printf('%1000000000d', 1)", "printf makes fields of at most 9,999 characters"),
        ("duckdb", "format('{:{}}', 1, 1000000000)", "format makes fields of at most 9,999 characters"),
        ("sqlite", "hex(zeroblob(400000000))", "string or blob too big"),
        ("sqlite", "printf('%.*c', 1000000000, 'x')", "fields of at most 65,536 characters, not 1,000,000,000"),
        ("sqlite", "printf('%d %-*d', 1, -300000 - i.context, 2)", "printf makes fields of at most 65,536 characters"),
        ("sqlite", "format('%99999999999d', 1)", "fields of at most 65,536 characters, not 99,999,999,999"),
    ],
)
def test_texts_of_any_length_are_refused_before_they_are_made(engine: str, text: str, said: str) -> None:
    """Engines hear of no interrupt while they make one, and DuckDB does not count its memory."""
    most = "" if "i.context" not in text else " FROM (SELECT 30000 * context AS context FROM contexts) AS i"
    before = process_time()
    with pytest.raises(UsageError, match=said), sql(example(), f"SELECT length({text}){most}", engine) as answer:
        answer.table()
    assert process_time() - before < 2


def test_bounded_functions_answer_as_before() -> None:
    need_module("duckdb")
    query = (
        "SELECT repeat('ab', 2), ('a').repeat(3), repeat('a', NULL), repeat(NULL, 2), lpad('a', 3, 'b'), "
        "lpad('a', NULL, 'b'), rpad('a', 3, 'b'), length(repeat('a', 65536))"
    )
    with sql(example(), query, "duckdb") as answer:
        assert list(answer.rows()) == [("abab", "aaa", None, None, "bba", None, "abb", 65536)]
    query = (
        "SELECT range(3)::VARCHAR, range(2, 5)::VARCHAR, range(10, 0, -4)::VARCHAR, range(0, 3, 0)::VARCHAR, "
        "range(NULL), generate_series(1, 3)::VARCHAR, list_resize([1], 3, 7)::VARCHAR, repeat([1, 2], 2)::VARCHAR, "
        "len(range(DATE '2020-01-01', DATE '2020-02-01', INTERVAL 1 DAY)), printf('%05.1f|%s * 123456', 2.5, 'a'), "
        "format('{:,} {}', 1234567, 'a')"
    )
    expected = ("[0, 1, 2]", "[2, 3, 4]", "[10, 6, 2]", "[]", None, "[1, 2, 3]", "[1, 7, 7]", "[1, 2, 1, 2]", 31)
    with sql(example(), query, "duckdb") as answer:
        assert list(answer.rows()) == [(*expected, "002.5|a * 123456", "1,234,567 a")]
    with sql(example(), "SELECT count(*) FROM range(100000) a(i), range(a.i, a.i + 2)", "duckdb") as answer:
        assert list(answer.rows()) == [(200000,)], "rows are made a few at a time"


def test_sqlite_formats_as_before() -> None:
    plain = sqlite3.connect("")
    for text in (
        "printf('%,d|%5.2f|%-5s|%c|%%|%q|%Q|%w|%x', 1234567, 2.5, 'a', 'bc', 'it''s', 'it''s', 'a\"b', 255)",
        "printf('%n|%*d|%-*d|%.*s|%lld', 5, 1, -6, 2, 2, 'abcdef', 3000000000)",
        "printf('%d 100000000%', 1000000000)",
        "printf('%s|%s', NULL, x'61')",
        "printf(NULL)",
        "printf('%65536d', 1)",
    ):
        with sql(example(), f"SELECT {text}", "sqlite") as answer:
            assert list(answer.rows()) == plain.execute(f"SELECT {text}").fetchall()
