"""What a user points at; how much of it detection may look at."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callgrove.binary.files import HEAD_BUDGET, NAMES_LOOKED_AT, Source
from callgrove.errors import InputError

CONTENT = bytes(k % 251 for k in range(HEAD_BUDGET + 5000))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("a", "b", "c"):
        (tmp_path / name).write_bytes(name.encode() + CONTENT)
    (tmp_path / "short").write_bytes(b"xy")
    (tmp_path / "inner").mkdir()
    return tmp_path


def test_files_and_folders(folder: Path) -> None:
    source, file = Source.of(folder), Source.of(str(folder / "a"))
    assert (source.is_folder, file.is_folder) == (True, False)
    assert source.folder == file.folder == folder
    assert [source.has(name) for name in ("a", "none", "inner")] == [True, False, False]
    assert not file.has("a")
    assert source.bytes("a").size == file.bytes().size == len(CONTENT) + 1


def test_of_a_folder_with_many_names_those_that_were_not_looked_at_are_asked_for(folder: Path) -> None:
    for number in range(2 * NAMES_LOOKED_AT):
        (folder / f"more{number}").mkdir()
    (folder / "link").symlink_to("a")
    (folder / "broken").symlink_to("nowhere")
    source = Source.of(folder)
    assert source.listing is not None
    assert len(source.listing) == NAMES_LOOKED_AT
    there = {name: source.has(name) for name in ("a", "b", "c", "short", "link", "inner", "none", "broken", "more9")}
    assert [name for name, is_there in there.items() if is_there] == ["a", "b", "c", "short", "link"]


def test_names_in_folders_of_a_folder_are_asked_for(folder: Path) -> None:
    (folder / "inner" / "deep").write_bytes(b"")
    source = Source.of(folder)
    assert [source.has(name) for name in ("inner/deep", "inner/none")] == [True, False]


@pytest.mark.parametrize("n_listed", [0, 1, NAMES_LOOKED_AT - 1])
def test_a_listing_that_is_complete_is_believed(folder: Path, n_listed: int) -> None:
    """One that ended at the limit may lack any name: only that is asked for."""
    source = Source.of(folder)
    source.__dict__["listing"] = {f"name{number}": True for number in range(n_listed)}
    assert not source.has("a")
    source.__dict__["listing"] = {f"name{number}": True for number in range(NAMES_LOOKED_AT)}
    assert source.has("a")


def test_a_missing_path_is_an_error_at_once(tmp_path: Path) -> None:
    for name in ("none", "a\0b", "x" * 5000):
        with pytest.raises(InputError, match=rf"{tmp_path}"):
            Source.of(tmp_path / name)


def test_heads(folder: Path) -> None:
    source = Source.of(folder)
    assert source.head(4, "a") == b"a" + CONTENT[:3]
    assert source.head(2, "a") == b"a" + CONTENT[:1]
    assert source.head(100, "a") == b"a" + CONTENT[:99]
    assert source.head(100, "short") == source.head(2, "short") == b"xy"
    assert Source.of(folder / "b").head(1) == b"b"


def test_what_has_no_head(folder: Path) -> None:
    os.mkfifo(folder / "pipe")
    source = Source.of(folder)
    assert [source.head(9, name) for name in ("none", "inner", "pipe", "")] == [b""] * 4
    assert Source(folder / "pipe").head(9) == b""


def test_what_is_neither_file_nor_folder_is_an_error_at_once(folder: Path) -> None:
    os.mkfifo(folder / "pipe")
    for path in (folder / "pipe", Path("/dev/zero")):
        with pytest.raises(InputError, match=f"{path}: is a device, a pipe or the like"):
            Source.of(path)


def test_the_budget_is_for_all_heads_together(folder: Path) -> None:
    source = Source.of(folder)
    assert len(source.head(HEAD_BUDGET - 100, "a")) == HEAD_BUDGET - 100
    assert len(source.head(500, "b")) == 100
    assert len(source.head(500, "c")) == 0
    assert len(source.head(HEAD_BUDGET, "a")) == HEAD_BUDGET - 100
    assert len(Source.of(folder).head(10 * HEAD_BUDGET, "a")) == HEAD_BUDGET


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 80_000)), max_size=8))
def test_no_order_of_questions_reads_more(
    tmp_path_factory: pytest.TempPathFactory, asked: list[tuple[str, int]]
) -> None:
    folder = tmp_path_factory.mktemp("heads")
    for name in "abc":
        (folder / name).write_bytes(CONTENT)
    source = Source.of(folder)
    longest: dict[str, int] = {}
    for name, size in asked:
        head = source.head(size, name)
        assert len(head) <= size
        assert head == CONTENT[: len(head)]
        assert len(head) >= min(size, longest.get(name, 0)), "what was seen once is not forgotten"
        longest[name] = max(longest.get(name, 0), len(head))
    assert sum(longest.values()) <= HEAD_BUDGET


def test_a_missing_input_that_was_being_replaced_is_named(tmp_path: Path) -> None:
    (tmp_path / ".run.d.00000000-12-0a1b2c3d.old").mkdir()
    with pytest.raises(InputError, match=r"No such file.*killed while it replaced it.*-0a1b2c3d\.old"):
        Source.of(tmp_path / "run.d")
