"""Bad Cube files: one error that names the place, or what is intact and a record of the damage. Never a crash."""

from __future__ import annotations

import gzip
import os
import re
import struct
import tracemalloc
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

from callgrove.cli.main import main
from callgrove.errors import CallgroveError, CorruptFile, RefusedInput, UnsupportedVersion
from callgrove.formats.cube.format import FORMAT
from callgrove.formats.registry import open_path
from callgrove.model.metrics import Scope
from tests.formats.cube import raw_cubes
from tests.formats.cube.raw_cubes import BLOCK, Cube, RawMetric, archive, header, index, r1
from tests.formats.cube.test_values import cells, opened, row

ROW = 4 * 8
Members = dict[str, bytes]


def cut(name: str, size: int) -> Callable[[Members], Members]:
    return lambda members: {**members, name: members[name][:size]}


def put(name: str, at: int, data: bytes) -> Callable[[Members], Members]:
    def change(members: Members) -> Members:
        old = members[name]
        return {**members, name: old[:at] + data + old[at + len(data) :]}

    return change


def u4(number: int) -> bytes:
    return struct.pack("<I", number)


def u8(number: int) -> bytes:
    return struct.pack("<Q", number)


def damaged(tmp_path: Path, change: Callable[[Members], Members], zipped: bool = False) -> Path:
    members = change(r1().members(zipped=zipped))
    path = tmp_path / "data.cubex"
    path.write_bytes(archive(members.items()))
    return path


TABLE = 11 + 8
UNREADABLE = {
    # what: (damage, compressed?, words of the message)
    "index cut in its header": (cut("0.index", 12), False, "a header of 18 bytes"),
    "index cut in its count": (cut("0.index", 20), False, "a count of 4 bytes"),
    "index cut in its positions": (cut("0.index", 30), False, "7 positions, found room for 2"),
    "index announces 2^32 - 1 rows": (put("0.index", 18, u4(2**32 - 1)), False, "4294967295 positions"),
    "position out of range": (put("0.index", 22 + 6 * 4, u4(7)), False, "positions below 7, found 7"),
    "position twice": (put("0.index", 22, u4(1)), False, "the same one twice"),
    "wrong endian word": (put("0.index", 11, b"\2\0\0\0"), False, "1 in one of both byte orders"),
    "unknown index format": (put("0.index", 17, b"\2"), False, "format 1"),
    "index format 0": (put("0.index", 17, b"\0"), False, "format 1"),
    "wrong magic of the index": (put("0.index", 0, b"K"), False, "CUBEX.INDEX"),
    "wrong magic of the data": (put("0.data", 0, b"K"), False, "CUBEX.DATA or ZCUBEX.DATA"),
    "empty data": (cut("0.data", 0), False, "CUBEX.DATA or ZCUBEX.DATA"),
    "count cut": (cut("0.data", 15), True, "a count of 8 bytes"),
    "2^40 rows announced": (put("0.data", 11, u8(2**40)), True, "a table of 1099511627776 rows"),
    "2^64 - 1 rows announced": (put("0.data", 11, u8(2**64 - 1)), True, "a table of"),
    "a row between two rows": (put("0.data", TABLE, u8(5)), True, "rows of 32 bytes"),
    "a row twice": (put("0.data", TABLE, u8(ROW)), True, "twice"),
    "a row beyond the last": (put("0.data", TABLE, u8(7 * ROW)), True, "7 rows, found row 7"),
    "a row far beyond": (put("0.data", TABLE, u8(2**63)), True, "places in the file"),
    "a stream outside": (put("0.data", TABLE + 8, u8(10**6)), True, "streams within"),
    "a stream longer than the file": (put("0.data", TABLE + 16, u8(2**61)), True, "streams within"),
    "streams in one another": (put("0.data", TABLE + 24 + 8, u8(1)), True, "lie in one another"),
}


@pytest.mark.parametrize("what", list(UNREADABLE))
def test_a_metric_that_cannot_be_read_leaves_the_others(what: str, tmp_path: Path) -> None:
    change, zipped, words = UNREADABLE[what]
    path = damaged(tmp_path, change, zipped)
    found = opened(path)
    (damage,) = found.damage
    assert words in damage.text
    assert "0.index" in damage.text or "0.data" in damage.text
    assert cells(found, "visits") == {}
    assert found.totals("time", Scope.INCLUSIVE)[0] == 128
    assert main(["check", str(path)]) == 3
    assert main(["top", str(path), "--strict"]) == 3


def _stream(data: bytes, k: int = 2) -> Callable[[Members], Members]:
    """Row k of the first metric has another stream; the streams behind it move."""

    def change(members: Members) -> Members:
        old = members["0.data"]
        body = TABLE + 7 * 24
        table = [list(struct.unpack_from("<3Q", old, TABLE + 24 * r)) for r in range(7)]
        streams = [old[body + start : body + start + size] for _, start, size in table]
        streams[k] = data
        at = 0
        out = b""
        for r, stream in enumerate(streams):
            out += struct.pack("<3Q", table[r][0], at, len(stream))
            at += len(stream)
        return {**members, "0.data": old[:TABLE] + out + b"".join(streams)}

    return change


BROKEN_ROWS = {
    "corrupt": (zlib.compress(bytes(ROW))[:-6] + b"??????", "row 2 of 32 bytes"),
    "no zlib": (b"this is not a stream", "a broken stream"),
    "too short": (zlib.compress(bytes(ROW - 8)), "a stream of 24 bytes"),
    "too long": (zlib.compress(bytes(ROW + 8)), "more than 32 bytes"),
    "bomb": (zlib.compress(bytes(10**8)), "more than 32 bytes"),
    "cut": (zlib.compress(bytes(range(ROW)))[:-4], "no end"),
}


@pytest.mark.parametrize("what", list(BROKEN_ROWS))
def test_a_broken_stream_costs_its_row(what: str, tmp_path: Path) -> None:
    stream, words = BROKEN_ROWS[what]
    path = damaged(tmp_path, _stream(stream), zipped=True)
    found = opened(path)
    assert not found.damage
    tracemalloc.start()
    visits = cells(found, "visits")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2_000_000
    assert 2 not in visits
    assert row(visits, 3) == [5, 6, 7, 8]
    (problem,) = found.values.problems
    assert words in str(problem)
    assert "0.data at byte" in str(problem)
    assert main(["check", str(path)]) == 3
    assert main(["export", str(path), "--table", "values", "--strict"]) == 4


@pytest.mark.parametrize(
    ("change", "zipped", "left"),
    [
        (cut("0.data", 10 + 3 * ROW), False, 3),
        (cut("0.data", 10 + 3 * ROW + 5), False, 3),
        (cut("0.data", 10), False, 0),
    ],
    ids=["fewer rows than announced", "a partial row", "no row at all"],
)
def test_rows_that_are_cut_off_are_missing(
    change: Callable[[Members], Members], zipped: bool, left: int, tmp_path: Path
) -> None:
    found = opened(damaged(tmp_path, change, zipped))
    (damage,) = found.damage
    assert "7 rows of 32 bytes" in damage.text
    assert sorted(cells(found, "visits")) == list(range(left))
    assert found.totals("time", Scope.INCLUSIVE)[0] == 128


def test_fewer_compressed_rows_than_the_index_lists(tmp_path: Path) -> None:
    rows = [raw_cubes.packed("UINT64", raw_cubes.R1_VISITS[k], False) for k in range(5)]
    found = opened(r1().write(tmp_path / "x", {"0.data": raw_cubes.zipped_data(rows)}))
    assert "7 rows, found 5" in found.damage[0].text
    assert sorted(cells(found, "visits")) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("missing", ["0.index", "0.data"])
def test_half_of_a_pair(missing: str, tmp_path: Path) -> None:
    found = opened(r1().write(tmp_path / "x", {missing: None}))
    assert "metric visits has" in found.damage[0].text
    assert cells(found, "visits") == {}


@pytest.mark.parametrize("tail", [b"\0", b"\0" * 9, b"x"])
def test_bytes_behind_the_last_row(tail: bytes, tmp_path: Path) -> None:
    found = opened(damaged(tmp_path, lambda m: {**m, "0.data": m["0.data"] + tail, "0.index": m["0.index"] + tail}))
    assert not found.damage
    assert len(found.warnings) == (0 if tail.strip(b"\0") == b"" else 2)
    assert row(cells(found, "visits"), 6) == [4, 0, 4, 0]


def test_a_version_of_the_index_is_told(tmp_path: Path) -> None:
    found = opened(damaged(tmp_path, put("0.index", 15, b"\3\0")))
    assert [w.severity for w in found.warnings] == ["note"]
    assert row(cells(found, "visits"), 6) == [4, 0, 4, 0]


# -- anchors ---------------------------------------------------------------------------------------------------------


def with_anchor(tmp_path: Path, change: Callable[[str], str]) -> Path:
    cube = r1()
    return cube.write(tmp_path / "data.cubex", {"anchor.xml": change(cube.anchor()).encode()})


def _swap(*words: str) -> Callable[[str], str]:
    """Replaces the first word by the second, the third by the fourth, and so on."""

    def change(text: str) -> str:
        for old, new in zip(words[::2], words[1::2], strict=True):
            text = text.replace(old, new)
        return text

    return change


BAD_ANCHORS: dict[str, tuple[Callable[[str], str], type[CallgroveError], str]] = {
    "dangling callee": (_swap('id="2" calleeId="2"', 'id="2" calleeId="77"'), CorruptFile, "no region 77"),
    "cnode twice": (lambda t: t.replace('<cnode id="3"', '<cnode id="2"'), CorruptFile, "cnode 2 twice"),
    "region twice": (lambda t: t.replace('<region id="3"', '<region id="2"'), CorruptFile, "region 2 twice"),
    "metric twice": (lambda t: t.replace('<metric id="3"', '<metric id="2"'), CorruptFile, "metric 2 twice"),
    "location twice": (lambda t: t.replace('<location Id="3"', '<location Id="2"'), CorruptFile, "location 2 twice"),
    "unique name twice": (lambda t: t.replace("<uniq_name>hi", "<uniq_name>lo"), CorruptFile, "a second 'lo'"),
    "no number": (lambda t: t.replace('<cnode id="3"', '<cnode id="x3"'), CorruptFile, "a number id"),
    "a huge number": (lambda t: t.replace('<cnode id="3"', f'<cnode id="{"9" * 5000}"'), CorruptFile, "a number id"),
    "no program": (_swap("program>", "other>", "<cnode", "<x", "</cnode", "</x"), CorruptFile, "<program>"),
    "no system": (lambda t: t.partition("<system>")[0] + "</cube>", CorruptFile, "<system>"),
    "not well-formed": (lambda t: t.replace("</metrics>", ""), CorruptFile, "well-formed"),
    "cut": (lambda t: t[: len(t) // 2], CorruptFile, "well-formed"),
    "empty": (lambda t: "", CorruptFile, "<cube version=...>"),
    "another root": (lambda t: "<html></html>", CorruptFile, "<html>"),
    "version 5": (lambda t: t.replace('version="4.4"', 'version="5.0"'), UnsupportedVersion, "'5.0'"),
    "location without a process": (_swap("<locationgroup", "<x", "</locationgroup", "</x"), CorruptFile, "system tree"),
    "entity": (lambda t: t.replace("<cube", '<!DOCTYPE c [<!ENTITY a "b">]><cube', 1), RefusedInput, "never"),
    "doctype": (lambda t: t.replace("<cube", '<!DOCTYPE cube SYSTEM "x.dtd"><cube', 1), RefusedInput, "DOCTYPE"),
}  # fmt: skip


@pytest.mark.parametrize("what", list(BAD_ANCHORS))
def test_a_bad_anchor_is_an_error_that_names_the_place(what: str, tmp_path: Path) -> None:
    change, error, words = BAD_ANCHORS[what]
    path = with_anchor(tmp_path, change)
    with pytest.raises(error, match=r"anchor") as raised:
        open_path(path)
    assert words in str(raised.value)
    assert str(path) in str(raised.value)
    assert main(["info", str(path)]) == 3


def test_an_entity_bomb(tmp_path: Path) -> None:
    lol = "".join(f'<!ENTITY l{k} "{f"&l{k - 1};" * 10}">' for k in range(1, 12))
    path = with_anchor(
        tmp_path, lambda t: t.replace("<cube", f'<!DOCTYPE c [<!ENTITY l0 "lol">{lol}]><cube a="&l11;"', 1)
    )
    with pytest.raises(RefusedInput):
        open_path(path)


def test_a_gzip_bomb_in_place_of_the_anchor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("callgrove.formats.cube.reading.LARGEST_ANCHOR", 1 << 20)
    path = r1().write(tmp_path / "x", {"anchor.xml": gzip.compress(b" " * (64 << 20))})
    tracemalloc.start()
    with pytest.raises(RefusedInput, match="more than 1048576 bytes"):
        open_path(path)
    assert tracemalloc.get_traced_memory()[1] < 12_000_000
    tracemalloc.stop()


def test_a_gzip_bomb_in_place_of_the_archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("callgrove.formats.cube.reading.LARGEST_ARCHIVE", 1 << 20)
    (tmp_path / "x").write_bytes(gzip.compress(archive(r1().members().items()) + bytes(64 << 20)))
    with pytest.raises(RefusedInput, match="inflates to more than"):
        open_path(tmp_path / "x")


def test_a_gzipped_archive_that_is_cut(tmp_path: Path) -> None:
    data = gzip.compress(archive(r1().members().items()))
    (tmp_path / "x").write_bytes(data[: len(data) // 2])
    with pytest.raises(CorruptFile, match="the end of the gzip data"):
        open_path(tmp_path / "x", "cube")


def test_no_anchor(tmp_path: Path) -> None:
    with pytest.raises(CorruptFile, match=r"a member anchor\.xml, found 0\.data"):
        open_path(r1().write(tmp_path / "x", {"anchor.xml": None}))


def test_unknown_types_cost_their_metric(tmp_path: Path) -> None:
    for change, word in (
        (("UINT64</dtype>", "QUADRUPLE</dtype>"), "QUADRUPLE"),
        (('type="EXCLUSIVE"', 'type="ODD"'), "ODD"),
    ):
        found = opened(with_anchor(tmp_path, lambda t, c=change: t.replace(*c, 1)))  # type: ignore[misc]
        assert f"unknown type '{word}'" in found.damage[0].text
        assert cells(found, "visits") == {}
        assert found.totals("time", Scope.INCLUSIVE)[0] == 128
        (tmp_path / "data.cubex").unlink()


def test_a_metric_without_any_name(tmp_path: Path) -> None:
    path = with_anchor(tmp_path, lambda t: re.sub("<(disp|uniq)_name>time</(disp|uniq)_name>", "", t))
    assert "metric#1" in opened(path).metrics.shown


def test_a_hundred_thousand_nested_cnodes(tmp_path: Path) -> None:
    n = 100_000
    cube = Cube([(0, "main", [])], [RawMetric("m", "EXCLUSIVE", "DOUBLE")])
    deep = "".join(f'<cnode id="{k}" calleeId="0">' for k in range(n)) + "</cnode>" * n
    text = cube.anchor().replace('<cnode id="0" calleeId="0">\n</cnode>', deep)
    members = {
        "0.data": raw_cubes.plain_data([raw_cubes.packed("DOUBLE", (1, 2, 3, 4), False)]),
        "0.index": index([n - 1]),
    }
    path = cube.write(tmp_path / "x", {**members, "anchor.xml": text.encode()})
    found = opened(path)
    assert len(found.contexts) == n
    assert found.totals("m", Scope.INCLUSIVE)[0] == 10
    assert found.contexts.path(n - 1).startswith("main->main->")


def test_coordinates_that_mean_nothing_are_left_out(tmp_path: Path) -> None:
    carts = (
        '<topologies><cart name="t" ndims="2"><dim size="2" periodic="true"/><dim size="2" periodic="x"/>'
        '<coord locId="0">0 1</coord><coord locId="1">0 2</coord><coord locId="9">0 0</coord><coord locId="2">1</coord>'
        '<coord locId="3">1 x</coord></cart><cart name="bad" ndims="3"><dim size="2" periodic="true"/></cart>'
        "</topologies>"
    )
    found = opened(with_anchor(tmp_path, lambda t: t.replace("</system>", carts + "</system>")))
    (topology,) = found.system.topologies
    assert topology.coordinates.tolist() == [[0, 1]]
    assert [w.severity for w in found.warnings] == ["note", "note"]


def test_parameters_of_unknown_types_are_texts(tmp_path: Path) -> None:
    cube = r1()
    cube.cnode_more = {1: '<parameter partype="odd" parkey="k" parvalue="7"/>'}
    found = opened(cube.write(tmp_path / "x"))
    assert found.contexts.parameters[1] == (("k", "7"),)
    assert [w.severity for w in found.warnings] == ["note"]


# -- archives --------------------------------------------------------------------------------------------------------


def test_names_that_lead_elsewhere_are_only_names(tmp_path: Path) -> None:
    cube = r1()
    names = ["../../evil.txt", "/etc/evil", "a/../../b"]
    cube.attachments = [(name, b"evil") for name in names]
    (tmp_path / "in").mkdir()
    found = opened(cube.write(tmp_path / "in" / "x"))
    assert list(found.attachments) == names
    assert found.attachments["../../evil.txt"].read() == b"evil"
    assert sorted(p.name for p in tmp_path.rglob("*")) == ["in", "x"]


def test_zeros_without_an_end_are_the_end(tmp_path: Path) -> None:
    path = r1().write(tmp_path / "x")
    size = path.stat().st_size
    os.truncate(path, 1 << 40)  # a hole, which takes no room
    found = opened(path)
    assert found.damage == ()
    assert any("the archive ends here; zeros follow" in w.text for w in found.warnings)
    assert found.totals("time", Scope.INCLUSIVE)[0] == 128
    os.truncate(path, size + (1 << 19))
    assert opened(path).warnings == ()


def test_a_member_that_the_file_ends_in(tmp_path: Path) -> None:
    members = r1().members()
    data = archive([("anchor.xml", members.pop("anchor.xml")), *members.items()])
    at = data.index(b"4.data")
    path = tmp_path / "x"
    path.write_bytes(data[: at + BLOCK + 20])
    found = opened(path)
    assert any("4.data" in w.text and "where the file ends" in w.text for w in found.damage)
    assert found.totals("time", Scope.INCLUSIVE)[0] == 128


@pytest.mark.parametrize(
    ("at", "data", "words"),
    [
        (124, b"0x7777", "an octal size"),
        (257, b"rats", "the magic ustar"),
        (124, b"77777777777", "where the file ends"),
    ],
)
def test_a_header_that_is_none(at: int, data: bytes, words: str, tmp_path: Path) -> None:
    """What comes before it stays readable, if the anchor does."""
    members = r1().members()
    first = archive([("anchor.xml", members.pop("anchor.xml"))], end=0)
    rest = bytearray(archive(members.items()))
    broken = rest.index(b"3.data")
    rest[broken + at : broken + at + len(data)] = data
    (tmp_path / "x").write_bytes(first + bytes(rest))
    found = opened(tmp_path / "x")
    assert any(words in w.text for w in found.damage)
    assert found.totals("visits", Scope.EXCLUSIVE)[1] == 100
    whole = bytearray(archive(r1().members().items()))
    whole[at : at + len(data)] = data
    (tmp_path / "y.cubex").write_bytes(whole)
    with pytest.raises(CallgroveError):
        open_path(tmp_path / "y.cubex", "cube")


def test_what_is_no_cube_file(tmp_path: Path) -> None:
    cases = {
        "empty.cubex": (b"", "an empty file"),
        "text.cubex": (b"hello world, this is not an archive" * 40, "the magic ustar"),
        "other.tar": (archive([("a.txt", b"a")]), "is a tar archive; open what is in it"),
        "other.cubex": (archive([("a.txt", b"a")]), r"a member anchor\.xml, found a\.txt"),
        "cut.cubex": (archive([("remapping.spec", bytes(9000))])[:5000], "where the file ends"),
        "old.cube": (b'<?xml version="1.0"?>\n<cube version="3.0">\n</cube>', "cube3to4"),
        "old.cube.gz": (gzip.compress(b'<?xml version="1.0"?>\n<cube version="3.0">\n</cube>'), "cube3to4"),
    }
    for name, (data, words) in cases.items():
        (tmp_path / name).write_bytes(data)
        with pytest.raises(CallgroveError, match=words):
            open_path(tmp_path / name)


def test_a_row_that_no_stream_can_hold_is_refused_before_it_is_made(tmp_path: Path) -> None:
    cube = Cube(raw_cubes.R1_TREE, [RawMetric("h", "EXCLUSIVE", "NDOUBLES(1000000)")])
    data = b"ZCUBEX.DATA" + struct.pack("<4Q", 1, 0, 0, 10) + bytes(10)
    tracemalloc.start()
    found = opened(cube.write(tmp_path / "x", {"0.data": data, "0.index": index([0])}))
    assert tracemalloc.get_traced_memory()[1] < 5_000_000
    tracemalloc.stop()
    assert "which holds no such row" in found.damage[0].text


def test_long_extended_headers_are_refused(tmp_path: Path) -> None:
    data = header("x", 1 << 30, kind=b"x") + archive(r1().members().items())
    (tmp_path / "x.cubex").write_bytes(data)
    with pytest.raises(CorruptFile, match="at most 1048576 bytes"):
        open_path(tmp_path / "x.cubex", "cube")


def test_dump_gives_what_is_intact_first(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = damaged(tmp_path, put("0.index", 18, u4(99)))
    assert main(["dump", str(path), "--format", "csv"]) == 3
    out = capsys.readouterr().out
    assert "0.data,0,tar header,,name,0.data" in out
    assert "CUBEX.INDEX" in out
    assert FORMAT.name == "cube"


def test_unclosed_expressions_take_no_time(tmp_path: Path) -> None:
    with pytest.raises(CorruptFile):
        open_path(with_anchor(tmp_path, lambda t: t.replace("</metrics>", "<cubepl>" * 200_000)))
