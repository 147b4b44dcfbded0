"""Checked reads: what a file announces is never believed."""

from __future__ import annotations

import os
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from callgrove.binary import files as filebytes
from callgrove.binary.files import CheckedFile, FileBytes
from callgrove.errors import CorruptFile, InputError

CONTENT = bytes(range(64))
PAIR = np.dtype([("a", "<u2"), ("b", "<u4")])


@pytest.fixture(params=["read", "mapped"])
def file(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FileBytes:
    """Small files are read at once, others mapped."""
    path = tmp_path / "numbers.db"
    path.write_bytes(CONTENT)
    monkeypatch.setattr(filebytes, "SMALL", filebytes.SMALL if request.param == "read" else 0)
    made = FileBytes(path)
    assert made.is_mapped == (request.param == "mapped")
    return made


def test_what_lies_inside_is_given(file: FileBytes) -> None:
    assert (file.size, file.bytes_viewed) == (64, 0)
    assert file.array("<u4", 2, 4, "header").tolist() == [0x07060504, 0x0B0A0908]
    assert file.array("u1", 1, 63, "end").tolist() == [63]
    assert file.record(PAIR, 0, "record")["b"] == 0x05040302
    assert file.read_strided(PAIR, 8, 2, 0, "records")["a"].tolist() == [0x0100, 0x0908]
    assert file.copy(60, 4, "tail") == file.tail(4) == CONTENT[60:]
    assert file.bytes_viewed == 8 + 1 + 6 + 12 + 4
    assert len(file.buffer) == 64


def test_nothing_is_copied_or_writable(file: FileBytes) -> None:
    for view in (file.array("u1", 8, 0, "x"), file.read_strided(PAIR, 8, 2, 0, "x")):
        assert not view.flags.writeable
        assert not view.flags.owndata


READS_OF_ANY: dict[str, Callable[[CheckedFile, int, int], object]] = {
    "array": lambda f, count, offset: f.array("<u8", count, offset, "values"),
    "copy": lambda f, count, offset: f.copy(offset, count, "values"),
    "check": lambda f, count, offset: f.check(offset, count, "values"),
}
READS: dict[str, Callable[[FileBytes, int, int], object]] = {
    **READS_OF_ANY,
    "strided": lambda f, count, offset: f.read_strided(PAIR, 8, count, offset, "values"),
}
OUTSIDE = [
    *((65, 0), (1, 64), (1, 1 << 40), (-1, 0), (1, -8)),
    *((2**61, 0), (2**64 - 1, 8), (2**61, 2**63), (1, 2**64 - 8)),
]


@pytest.mark.parametrize("read", READS)
@pytest.mark.parametrize(("count", "offset"), OUTSIDE)
@pytest.mark.parametrize("plain", [True, False], ids=["plain", "NumPy"])
def test_what_lies_outside_is_corrupt(file: FileBytes, read: str, count: int, offset: int, plain: bool) -> None:
    """NumPy's numbers wrap around: 2^61 items of 8 bytes are 0 bytes, and 2^64 - 8 plus 8 is the file's start."""
    numbers: list[int] = [count, offset]
    if not plain and min(numbers) >= 0:
        numbers = [np.uint64(n) for n in numbers]  # type: ignore[misc]
    elif not plain:
        numbers = [np.int64(n) for n in numbers]  # type: ignore[misc]
    tracemalloc.start()
    with pytest.raises(CorruptFile, match=r"numbers\.db: values at byte .*a file that ends at byte 64") as caught:
        READS[read](file, *numbers)
    assert tracemalloc.get_traced_memory()[1] < 1 << 20, "nothing is allocated before it is checked"
    tracemalloc.stop()
    assert (caught.value.section, caught.value.offset) == ("values", offset)


def test_nothing_at_the_very_end_is_fine(file: FileBytes) -> None:
    assert len(file.array("<u8", 0, 64, "none")) == len(file.read_strided(PAIR, 8, 0, 64, "none")) == 0
    assert file.copy(64, 0, "none") == b""
    with pytest.raises(CorruptFile):
        file.array("<u8", 0, 65, "none")


@pytest.mark.parametrize("long", [1, 1 << 30])
def test_ranges_of_records_are_gathered_in_the_order_given(
    file: FileBytes, long: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Range by range, or record by record; one that is empty may begin anywhere."""
    monkeypatch.setattr(filebytes, "LONG_RANGE", long)
    at, count = np.array([40, 1 << 60, 3, 58], np.uint64), np.array([2, 0, 3, 1])
    columns = file.gather_columns(PAIR, at, count, "pairs")
    want = np.concatenate([file.array(PAIR, n, where, "pairs") for where, n in ((40, 2), (3, 3), (58, 1))])
    assert {name: column.tolist() for name, column in columns.items()} == {n: want[n].tolist() for n in ("a", "b")}
    none = file.gather_columns(PAIR, at[1:2], count[1:2], "pairs")
    assert [len(column) for column in none.values()] == [0, 0]
    for where, n in ((59, 1), (40, 5), (1 << 60, 1), ((1 << 64) - 2, 1)):
        with pytest.raises(CorruptFile, match="pairs"):
            file.gather_columns(PAIR, np.array([3, where], np.uint64), np.array([1, n]), "pairs")


def test_records_shorter_than_known_are_corrupt(file: FileBytes) -> None:
    with pytest.raises(CorruptFile, match="records of at least 6 bytes, found 5"):
        file.read_strided(PAIR, 5, 1, 0, "records")
    with pytest.raises(CorruptFile):
        file.read_strided(PAIR, -8, 1, 32, "records")


@given(st.integers(-10, 80), st.integers(-3, 20))
def test_reads_agree_with_slices(count: int, offset: int) -> None:
    file = FileBytes(Path(__file__))
    content = Path(__file__).read_bytes()
    if count >= 0 and offset >= 0:
        assert file.copy(offset, count, "x") == content[offset : offset + count]
        assert file.array("u1", count, offset, "x").tobytes() == content[offset : offset + count]
    else:
        with pytest.raises(CorruptFile):
            file.copy(offset, count, "x")


def test_texts_end_with_nul(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "names"
    path.write_bytes(b"main\0\0caf\xc3\xa9\0bad\xff\0open")
    file = FileBytes(path)
    assert [file.text(at, "name") for at in (0, 2, 4, 5, 6, 12)] == ["main", "in", "", "", "café", "bad\\xff"]
    with pytest.raises(CorruptFile, match="a string that ends with NUL, found no NUL in 4 bytes"):
        file.text(17, "name")
    for at in (21, 22, -1):
        with pytest.raises(CorruptFile):
            file.text(at, "name")
    monkeypatch.setattr(filebytes, "LONGEST_STRING", 3)
    with pytest.raises(CorruptFile, match="no NUL in 3 bytes"):
        file.text(0, "name")


def test_tails_of_short_files(tmp_path: Path) -> None:
    path = tmp_path / "short"
    path.write_bytes(b"abc")
    assert [FileBytes(path).tail(n) for n in (0, 2, 3, 100)] == [b"", b"bc", b"abc", b"abc"]


def test_an_empty_file_holds_nothing(tmp_path: Path) -> None:
    path = tmp_path / "empty"
    path.touch()
    file = FileBytes(path)
    assert (file.size, file.tail(8), file.copy(0, 0, "x")) == (0, b"", b"")
    with pytest.raises(CorruptFile, match="a file that ends at byte 0"):
        file.array("u1", 1, 0, "x")


def test_a_file_that_became_shorter_is_corrupt(tmp_path: Path) -> None:
    path = tmp_path / "cut"
    for size in range(17):
        path.write_bytes(CONTENT[:size])
        file = FileBytes(path)
        if size < 16:
            with pytest.raises(CorruptFile):
                file.array("<u8", 2, 0, "x")
        else:
            assert len(file.array("<u8", 2, 0, "x")) == 2


def test_what_is_no_file_cannot_be_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for name in ("none", "pipe", "a\0b"):
        with pytest.raises(InputError, match="cannot be read"):
            FileBytes(tmp_path / name)
    with pytest.raises(InputError, match="cannot be read: Is a directory"):
        FileBytes(tmp_path)


@pytest.mark.parametrize(
    ("starts", "sizes", "overlapping"),
    [
        ([0, 16, 48], [16, 32, 17], []),  # each begins where the one before it ends
        ([0, 16, 47], [16, 32, 17], [2]),
        ([47, 0, 16], [17, 16, 32], [0]),  # in any order
        ([0, 8, 16, 24], [64, 8, 1, 0], [1, 2]),  # inside an earlier one; what is empty is nowhere
        ([0, 0], [64, 64], [1]),
        ([0, 0], [32, 32], []),  # which together are no larger than the file: not looked for
        ([], [], []),
    ],
)
def test_ranges_that_overlap_are_found(
    file: FileBytes, starts: list[int], sizes: list[int], overlapping: list[int]
) -> None:
    found = file.find_overlaps(np.array(starts, np.uint64), np.array(sizes, np.uint32))
    assert np.flatnonzero(found).tolist() == overlapping
