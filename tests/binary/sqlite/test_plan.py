"""Which way a SQLite file is read is decided before it is read, with a reason; what values show ends in one place."""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from callgrove.binary.sqlite.cells import Type
from callgrove.binary.sqlite.database import SqliteFile, version_of
from callgrove.binary.sqlite.numbers import PageError
from callgrove.binary.sqlite.pages import PageFormat
from callgrove.binary.sqlite.plan import BUNDLE_BYTES, FileFacts, Slow, decode, plan, plan_table
from callgrove.binary.sqlite.tables import PageColumn, TableLayout
from callgrove.errors import InputError
from tests.requirements import ROOT

PAGE = 4096
DECODERS = {"numbers.py", "pages.py", "records.py", "small_tables.py", "batch.py"}


def head(**at: int) -> bytes:
    """A sound header with some bytes changed: `b18=3`."""
    raw = bytearray(b"SQLite format 3\0" + bytes(84))
    raw[16:24] = (*PAGE.to_bytes(2, "big"), 1, 1, 0, 64, 32, 32)
    raw[59] = 1
    for place, value in at.items():
        raw[int(place.removeprefix("b"))] = value
    return bytes(raw)


SOUND = FileFacts(head(), 5 * PAGE)


@pytest.mark.parametrize(
    ("files", "answer"),
    [
        ([SOUND], PageFormat(PAGE, PAGE)),
        ([FileFacts(head(b16=0, b17=1), 65536)], PageFormat(65536, 65536)),
        ([FileFacts(head(b20=32), PAGE)], PageFormat(PAGE, PAGE - 32)),
        ([FileFacts(head(b18=2, b19=2), PAGE)], PageFormat(PAGE, PAGE)),  # once had a write-ahead log
        ([replace(SOUND, size=5 * PAGE + 1)], PageFormat(PAGE, PAGE)),
        ([FileFacts(head(b18=3), PAGE)], Slow("a newer kind of file")),
        ([FileFacts(head(b21=63), PAGE)], Slow("a newer kind of file")),
        ([FileFacts(head(b59=2), PAGE)], Slow("text that is not UTF-8")),
        ([FileFacts(head(b16=1), 256)], Slow("pages of 256 bytes")),
        ([FileFacts(head(b16=24), PAGE)], Slow("pages of 6144 bytes")),
        ([FileFacts(head(b16=2, b20=33), 512)], Slow("pages of 512 bytes")),
        ([FileFacts(head()[:99], 99)], Slow("a file shorter than its header")),
        ([FileFacts(obstacle="somebody may be writing")], Slow("somebody may be writing")),
        ([SOUND, SOUND], PageFormat(PAGE, PAGE)),
        ([SOUND, FileFacts(obstacle="somebody may be writing")], Slow("somebody may be writing")),
        ([SOUND, FileFacts(head(b16=8), 4096)], Slow("files of different kinds")),
        ([SOUND, FileFacts(head(b18=2), PAGE)], Slow("files of different kinds")),
        ([SOUND, replace(SOUND, size=5 * PAGE + 1)], Slow("half a page")),
        ([SOUND, replace(SOUND, size=2 * BUNDLE_BYTES)], Slow("files that are too large")),
    ],
)
def test_files(files: list[FileFacts], answer: PageFormat | Slow) -> None:
    assert plan(files) == answer


def layout(*names: str, has_collations: bool = False) -> TableLayout:
    return TableLayout(2, {name: PageColumn(k, False, False) for k, name in enumerate(names)}, has_collations)


def test_tables() -> None:
    one = layout("a", "b")
    assert plan_table([one]) is one
    assert plan_table([one, layout("a", "b")]) is one
    assert plan_table([one, layout("b", "a")]) == Slow("tables whose columns differ")
    assert plan_table([one, None]) == Slow("a table whose records cannot be told")
    assert plan_table([one], ("a", "{}")) is one
    assert plan_table([one], ("a", "x")) == Slow("a text that may equal others")  # 'X', in another order of texts
    assert plan_table([layout("a", has_collations=True)], ("a", "{}")) == Slow("a text that may equal others")


def test_what_only_values_show() -> None:
    def fail(planned: int) -> int:
        raise PageError(f"no {planned}")

    assert decode(7, lambda planned: planned + 1) == 8
    assert decode(7, fail) == Slow("no 7")
    assert decode(Slow("why"), fail) == Slow("why")
    with pytest.raises(ZeroDivisionError):
        decode(0, lambda planned: 1 // planned)


def test_only_decoders_give_up_and_one_place_goes_on() -> None:
    raised, caught = set(), []
    for path in (ROOT / "src" / "callgrove").rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        raised |= {path.name} if "raise PageError" in text else set()
        caught += [path.name] * len(re.findall(r"except\b.*\bPageError", text))
    assert raised <= DECODERS
    assert caught == ["plan.py"]


@pytest.mark.parametrize("encoding", ["UTF-8", "UTF-16le"])
def test_a_file_that_is_replaced_is_read_anew(tmp_path: Path, encoding: str) -> None:
    """By its own schema: where tables begin is another matter in another file, even if nobody has looked meanwhile."""
    columns = {"a": Type.INTEGER}

    def write(name: str, *tables: str) -> Path:
        with closing(sqlite3.connect(tmp_path / name)) as connection:
            connection.execute(f"PRAGMA encoding='{encoding}'")
            for table in tables:
                connection.execute(f"CREATE TABLE {table}(a)")
                connection.execute(f"INSERT INTO {table} VALUES (?)", (len(table),))
            connection.commit()
        return tmp_path / name

    file = SqliteFile.open(write("one.db", "t", "longer"))
    assert file.table("t", columns)["a"].tolist() == [1]
    SqliteFile.open(write("other.db", "u")).table("u", columns)  # the first file is not in memory any more
    write("new.db", "longer", "t", "more").replace(file.path)
    assert file.table("more", columns)["a"].tolist() == [4]
    assert file.table("t", columns)["a"].tolist() == [1]
    assert file.count("longer") == 1
    assert list(file.tables) == ["longer", "t", "more"]
    write("last.db", "u").replace(file.path)
    assert file.count("never") == 0
    for ask in (file.count, file.size_of, lambda table: file.table(table, columns)):
        with pytest.raises(InputError, match="was replaced after it was opened, and has no table t now; open it again"):
            ask("t")


def test_a_file_says_what_a_plan_has_to_know(tmp_path: Path) -> None:
    path = tmp_path / "t.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE t(a)")
        connection.execute("INSERT INTO t VALUES (1)")
        connection.commit()
        file = SqliteFile.open(path)
        facts = file.facts(version_of(path))
        assert facts == FileFacts(path.read_bytes()[:100], path.stat().st_size)
        assert plan([facts]) == PageFormat(PAGE, PAGE)
        connection.execute("PRAGMA user_version = 5")
    assert file.facts(version_of(path)).obstacle == "a file that was changed"
    assert file.table("t", {"a": Type.INTEGER})["a"].tolist() == [1]
    assert plan([SqliteFile(path, live=True).facts(version_of(path))]) == Slow("somebody may be writing")
    path.unlink()
    assert "No such file" in SqliteFile(path, live=False).facts(version_of(path)).obstacle
