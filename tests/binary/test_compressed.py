"""Compressed files: read as what is in them, never beyond a limit, and as far as they go where they are cut."""

from __future__ import annotations

import bz2
import gzip
import importlib
import lzma
from collections.abc import Callable
from pathlib import Path

import pytest

from callgrove.binary import compressed
from callgrove.binary.compressed import compression_of, inflate_copy, inflate_head, open_stream
from callgrove.errors import InputError, RefusedInput
from callgrove.formats.registry import open_path
from callgrove.model.experiment import Experiment
from callgrove.model.study.series import Study
from tests.formats.gpu.gpu_databases import Event, Run, write_rocpd
from tests.formats.samples import CORPUS
from tests.requirements import need_module

CONTENT = b"".join(b"line %d of some text\n" % k for k in range(20_000))


def zstd(data: bytes) -> bytes:
    module = need_module("backports.zstd")
    packed: bytes = module.compress(data)
    return packed


PACKERS: list[tuple[str, Callable[[bytes], bytes]]] = [
    ("gzip", gzip.compress),
    ("bzip2", bz2.compress),
    ("xz", lzma.compress),
    ("zstd", zstd),
]


def read_all(path: Path, size: int = 1000) -> tuple[bytes, str]:
    stream, pieces = open_stream(path), []
    while piece := stream.read(size):
        assert len(piece) <= size
        pieces.append(piece)
    return b"".join(pieces), stream.problem


@pytest.mark.parametrize(("name", "pack"), PACKERS)
def test_a_stream_gives_the_content(name: str, pack: Callable[[bytes], bytes], tmp_path: Path) -> None:
    path = tmp_path / "packed"
    path.write_bytes(pack(CONTENT))
    assert compression_of(path.read_bytes()[:8]) == name
    assert read_all(path) == (CONTENT, "")
    assert inflate_head(path.read_bytes(), 100) == CONTENT[:100]
    copy = inflate_copy(path)
    assert copy.path.read_bytes() == CONTENT
    assert copy.problem == ""


@pytest.mark.parametrize(("name", "pack"), PACKERS)
def test_several_streams_and_padding_are_one_file(name: str, pack: Callable[[bytes], bytes], tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_bytes(pack(CONTENT) + pack(b"more") + (bytes(512) if name == "gzip" else b""))
    assert read_all(path) == (CONTENT + b"more", "")


@pytest.mark.parametrize(("name", "pack"), PACKERS)
def test_a_cut_stream_gives_what_comes_before(name: str, pack: Callable[[bytes], bytes], tmp_path: Path) -> None:
    packed, path = pack(CONTENT), tmp_path / name
    for size in (6, len(packed) // 2, len(packed) - 1):
        path.write_bytes(packed[:size])
        content, problem = read_all(path)
        assert CONTENT.startswith(content)
        assert name in problem


def test_plain_files_are_streams_too(tmp_path: Path) -> None:
    (tmp_path / "plain").write_bytes(CONTENT)
    assert read_all(tmp_path / "plain") == (CONTENT, "")


def test_a_bomb_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compressed, "FREE_BYTES", 1 << 16)
    path = tmp_path / "bomb.gz"
    path.write_bytes(gzip.compress(bytes(10 << 20)))
    with pytest.raises(RefusedInput, match=r"inflates to more than .* gunzip -k"):
        read_all(path)
    monkeypatch.setattr(compressed, "FREE_BYTES", 1 << 30)
    monkeypatch.setattr(compressed, "MOST_BYTES", 1 << 20)
    with pytest.raises(RefusedInput):
        inflate_copy(path)


def test_a_missing_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> object:
        raise ImportError(name)

    (tmp_path / "packed").write_bytes(zstd(CONTENT))
    monkeypatch.setattr(importlib, "import_module", missing)
    with pytest.raises(Exception, match=r"pip install 'callgrove\[zstd\]'"):
        open_stream(tmp_path / "packed")


# -- formats -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "pack"), PACKERS)
def test_a_compressed_database_opens_as_itself(name: str, pack: Callable[[bytes], bytes], tmp_path: Path) -> None:
    events = (Event("api", "f", 10, 20), Event("kernel", "k", 30, 40))
    plain = write_rocpd(tmp_path / "r.db", [Run(events)])
    path = tmp_path / f"hidden-{name}"
    path.write_bytes(pack(plain.read_bytes()))
    before = path.read_bytes()
    experiments = [open_path(file) for file in (plain, path)]
    assert all(isinstance(experiment, Experiment) for experiment in experiments)
    first, second = (experiment for experiment in experiments if isinstance(experiment, Experiment))
    assert second.format == "rocpd"
    assert second.path == str(path)
    assert second.traces.n_spans == first.traces.n_spans > 0
    assert path.read_bytes() == before


def test_a_compressed_study_opens_as_itself(tmp_path: Path) -> None:
    path = tmp_path / "series"
    path.write_bytes(gzip.compress((CORPUS / "extrap" / "text.txt").read_bytes()))
    study = open_path(path)
    assert isinstance(study, Study)


def test_damage_names_the_file_that_the_user_named(tmp_path: Path) -> None:
    plain = write_rocpd(tmp_path / "r.db", [Run((Event("kernel", "k", 30, 40),))])
    packed = gzip.compress(plain.read_bytes())
    path = tmp_path / "cut.db.gz"
    path.write_bytes(packed[: len(packed) // 2])
    with pytest.raises(InputError) as caught:
        open_path(path)
    assert str(path) in caught.value.message
    assert "/callgrove-" not in caught.value.message
