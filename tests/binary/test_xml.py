"""XML from strangers."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from callgrove.binary import xml
from callgrove.errors import CorruptFile, InputError, RefusedInput

BOMB = b"""<?xml version="1.0"?>
<!DOCTYPE a [<!ENTITY x "xxxxxxxx"><!ENTITY y "&x;&x;&x;&x;">]>
<a>&y;</a>"""


def tags(text: bytes) -> list[str]:
    found: list[str] = []
    parser = xml.new_parser("some.xml")
    parser.StartElementHandler = lambda tag, attributes: found.append(tag)
    xml.parse("some.xml", parser, io.BytesIO(text))
    return found


def test_elements_reach_the_handler() -> None:
    assert tags(b"<a><b/><c>text</c></a>") == ["a", "b", "c"]


def test_a_dtd_without_entities_is_skipped() -> None:
    assert tags(b"<!DOCTYPE a [<!ELEMENT a EMPTY>]><a/>") == ["a"]


def test_entities_are_refused() -> None:
    with pytest.raises(RefusedInput, match=r"some\.xml: line 2: the XML declares entities"):
        tags(BOMB)


def test_depth_has_no_limit() -> None:
    assert len(tags(b"<a>" * 100_000 + b"</a>" * 100_000)) == 100_000


def test_damage_names_the_line() -> None:
    with pytest.raises(CorruptFile, match=r"some\.xml: XML at line 3: expected well-formed XML, found mismatched tag"):
        tags(b"<a>\n<b>\n</a>")


@pytest.mark.parametrize("encoding", ["no-such-encoding", "shift_jis"])
def test_an_encoding_that_cannot_be_read(encoding: str) -> None:
    with pytest.raises(CorruptFile, match=r"some\.xml: XML at line 1"):
        tags(f'<?xml version="1.0" encoding="{encoding}"?><a/>'.encode())


def test_pieces_give_what_comes_before_the_damage() -> None:
    found: list[str] = []
    parser = xml.new_parser("some.xml")
    parser.StartElementHandler = lambda tag, attributes: found.append(tag)
    text = b"<a>" + b"<b/>" * 50_000 + b"</c>"
    steps = xml.pieces("some.xml", parser, io.BytesIO(text))
    next(steps)
    assert 0 < len(found) < 50_000
    with pytest.raises(CorruptFile):
        list(steps)
    assert found == ["a"] + ["b"] * 50_000


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read"), xml.readable(tmp_path / "none.xml"):
        pytest.fail("opened")
