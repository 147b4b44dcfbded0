"""A small Cube file with every kind of damage: flipped bytes, cuts, random streams. Only our own errors may escape."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest

from callgrove.analysis.tables import Selection, export
from callgrove.binary.files import Source
from callgrove.errors import CallgroveError
from callgrove.formats.cube.anchor import read_anchor
from callgrove.formats.cube.format import FORMAT
from callgrove.formats.interface import ReadOptions
from tests.exhaustive import whole_or_some
from tests.formats.cube.raw_cubes import archive, r1
from tests.formats.damage import chance


def ask_everything(path: Path) -> None:
    source = Source.of(path)
    FORMAT.match(source)
    try:
        found = FORMAT.read(source, ReadOptions())
        for scope in ("stored", "exclusive", "inclusive"):
            for table in export(found, "values", Selection(scope=scope)):
                list(table.rows())
        list(FORMAT.check(source, ReadOptions()))
    except CallgroveError:
        return
    with contextlib.suppress(CallgroveError):
        list(FORMAT.dump(source))


@whole_or_some
@pytest.mark.parametrize("zipped", [False, True], ids=["plain", "zip"])
def test_flipped_bytes(zipped: bool, whole: bool, tmp_path: Path) -> None:
    data = archive(r1().members(zipped=zipped).items())
    path = tmp_path / "x.cubex"
    random = chance("flips", zipped)
    for at in range(0, len(data), 7 if whole else 97):
        broken = bytearray(data)
        broken[at] ^= 1 << random.randrange(8)
        path.write_bytes(broken)
        ask_everything(path)


@whole_or_some
@pytest.mark.parametrize("zipped", [False, True], ids=["plain", "zip"])
def test_cuts(zipped: bool, whole: bool, tmp_path: Path) -> None:
    members = r1().members(zipped=zipped)
    data = archive([("anchor.xml", members.pop("anchor.xml")), *members.items()])
    path = tmp_path / "x.cubex"
    for size in range(0, len(data), 7 if whole else 211):
        path.write_bytes(data[:size])
        ask_everything(path)


@whole_or_some
def test_anchors_with_flipped_bytes(whole: bool, tmp_path: Path) -> None:
    text = r1().anchor().encode()
    random = chance("anchors")
    for _ in range(3000 if whole else 200):
        broken = bytearray(text)
        for _ in range(random.choice((1, 3, 10))):
            broken[random.randrange(len(broken))] = random.randrange(256)
        with contextlib.suppress(CallgroveError):
            read_anchor(tmp_path / "x", bytes(broken))
