"""Parts of files that get into other files."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import numpy as np
import pytest

from callgrove.binary import files as filepart
from callgrove.binary.files import FilePart
from callgrove.errors import CorruptFile

CONTENT = bytes(range(256)) * 40


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "source"
    path.write_bytes(CONTENT)
    return path


def refuse(*_: object) -> int:
    raise OSError(errno.EXDEV, "another file system")


def half(source: int, target: int, count: int, *places: int) -> int:
    """A kernel that copies little, and then no more."""
    if places[0] > 100:
        raise OSError(errno.EINVAL, "no more")
    return os.pwrite(target, os.pread(source, 50, places[0]), places[1])


@pytest.mark.parametrize("kernel", [None, refuse, half])
def test_parts_are_appended(kernel: object, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between what else is written, whatever the kernel can do."""
    if kernel is not None:
        monkeypatch.setattr(os, "copy_file_range", kernel)
    monkeypatch.setattr(filepart, "PIECE", 1000)
    with (tmp_path / "target").open("wb") as target:
        target.seek(7)
        target.write(b"before")
        FilePart(str(source), 20, 5000).append_to(target)
        target.write(b"between")
        FilePart(str(source), 3, 0).append_to(target)
        FilePart(str(source), 5020, 10).append_to(target)
        assert target.tell() == 7 + 6 + 5000 + 7 + 10
        target.seek(0)
        target.write(b"header.")
    found = (tmp_path / "target").read_bytes()
    assert found == b"header.before" + CONTENT[20:5020] + b"between" + CONTENT[5020:5030]


@pytest.mark.parametrize("kernel", [None, refuse])
def test_files_that_were_cut(kernel: object, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if kernel is not None:
        monkeypatch.setattr(os, "copy_file_range", kernel)
    part = FilePart(str(source), len(CONTENT) - 8, 16)
    with (tmp_path / "target").open("wb") as target, pytest.raises(CorruptFile, match="expected 16 bytes, found 8"):
        part.append_to(target)
    with pytest.raises(CorruptFile, match="expected 16 bytes, found 8"):
        part.array(np.uint64)


def test_parts_as_columns(source: Path) -> None:
    assert FilePart(str(source), 4, 8).array("<u4").tolist() == [0x07060504, 0x0B0A0908]
    assert FilePart(str(source), 4, 0).array("<u4").tolist() == []


@pytest.mark.parametrize("shift", [0, 1, 12, 4999, 5000, 6000])
def test_a_part_of_the_target_itself(shift: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What lies further on in the file is moved to where the file stands, also onto its own beginning."""
    monkeypatch.setattr(filepart, "PIECE", 1000)
    path, content = tmp_path / "target", bytes(range(256)) * 60
    path.write_bytes(content)
    with path.open("r+b") as target:
        target.seek(7000 - shift)
        FilePart(str(path), 7000, 5000).append_to(target)
        assert target.tell() == 12_000 - shift
    assert path.read_bytes() == content[: 7000 - shift] + content[7000:12_000] + content[12_000 - shift :]
