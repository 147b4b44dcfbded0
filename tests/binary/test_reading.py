"""Files that are read into memory that is kept: the same checks and the same bytes as those of mapped files."""

from __future__ import annotations

import os
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from callgrove.binary.files import FileBytes
from callgrove.binary.reading import FileReader, KeptMemory
from callgrove.errors import CorruptFile, InputError
from tests.binary.test_filebytes import CONTENT, OUTSIDE, PAIR, READS_OF_ANY


@given(st.lists(st.tuples(st.integers(0, 1000), st.integers(0, 1000)), max_size=8))
def test_reads_into_kept_memory_agree_with_slices(parts: list[tuple[int, int]]) -> None:
    path, memory = Path(__file__), KeptMemory()
    content = path.read_bytes()
    with FileReader(path, memory) as file:
        assert file.size == len(content)
        for offset, count in parts:
            assert file.array("u1", count, offset, "x").tobytes() == content[offset : offset + count]
            assert file.copy(offset, count, "x") == content[offset : offset + count]


def test_the_same_memory_is_used_for_all_files(tmp_path: Path) -> None:
    memory = KeptMemory()
    (tmp_path / "a").write_bytes(CONTENT)
    (tmp_path / "b").write_bytes(CONTENT[::-1])
    with FileReader(tmp_path / "a", memory) as a, FileReader(tmp_path / "b", memory) as b:
        first = a.array("<u4", 16, 0, "x")
        kept = first.copy()
        second = b.array("<u4", 15, 4, "x")
        assert np.shares_memory(first, second)
        assert first[:15].tolist() == second.tolist()
        assert a.array(PAIR, 10, 4, "x").tobytes() == kept.tobytes()[4:64]
        assert a.bytes_viewed == 64 + 60


@pytest.mark.parametrize("read", READS_OF_ANY)
@pytest.mark.parametrize(("count", "offset"), OUTSIDE)
def test_what_lies_outside_is_not_read(read: str, count: int, offset: int, tmp_path: Path) -> None:
    (tmp_path / "numbers.db").write_bytes(CONTENT)
    with FileReader(tmp_path / "numbers.db", KeptMemory()) as file:
        tracemalloc.start()
        with pytest.raises(CorruptFile, match=r"numbers\.db: values at byte .*a file that ends at byte 64"):
            READS_OF_ANY[read](file, count, offset)
        assert tracemalloc.get_traced_memory()[1] < 1 << 20, "nothing is allocated before it is checked"
        tracemalloc.stop()
        assert file.copy(64, 0, "none") == b""


def test_an_open_file_that_becomes_shorter_is_named(tmp_path: Path) -> None:
    path = tmp_path / "numbers.db"
    path.write_bytes(CONTENT)
    with FileReader(path, KeptMemory()) as file:
        os.truncate(path, 20)
        assert file.copy(0, 20, "x") == CONTENT[:20]
        with pytest.raises(InputError, match=r"numbers\.db: became shorter while it was read; run again"):
            file.array("<u4", 6, 0, "x")


def test_a_reader_says_why_not_as_views_do(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "none", tmp_path / "pipe", tmp_path / "a\0b", tmp_path):
        said = []
        for open_it in (FileBytes, lambda path: FileReader(path, KeptMemory())):
            with pytest.raises(InputError) as caught:
                open_it(path)
            said.append(str(caught.value))
        assert said[0] == said[1]


def test_an_error_of_the_disk_is_one_of_the_file(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(CONTENT)
    file = FileReader(tmp_path / "x", KeptMemory())
    os.close(file._file.fileno())
    with pytest.raises(InputError, match="x: cannot be read: Bad file descriptor"):
        file.array("u1", 1, 0, "x")
    with pytest.raises(OSError, match="Bad file descriptor"):
        file._file.close()
