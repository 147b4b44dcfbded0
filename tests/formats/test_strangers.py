"""Files that callgrove writes and does not read, and others that people hand to it: they are told what these are."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.commands import Capture, run, said
from tests.formats.gpu_databases import Event, Run, write_rocpd


@pytest.fixture
def database(tmp_path: Path) -> Path:
    return write_rocpd(tmp_path / "r.db", [Run((Event("api", "f", 10, 20), Event("kernel", "k", 30, 40)))])


@pytest.mark.parametrize(
    ("target", "format_name", "opened", "words"),
    [
        ("o.pftrace", "perfetto", "o.pftrace", "is a Perfetto trace, which callgrove writes and does not read"),
        ("o.json", "chrome-json", "o.json", "is a Chrome trace (JSON), which callgrove writes and does not read"),
        ("o", "rocprof-csv", "o_kernel_trace.csv", "is a CSV file of rocprofv3"),
        ("o", "rocprof-csv", "o_hip_api_trace.csv", "is a CSV file of rocprofv3"),
        ("o", "rocprof-csv", "o_agent_info.csv", "is a CSV file of rocprofv3"),
        ("o.otf2", "otf2", "o.otf2", "is an OTF2 archive"),
        ("o.otf2", "otf2", "o.otf2/traces.otf2", "is an OTF2 archive"),
    ],
)
def test_what_is_only_written_says_so(
    target: str, format_name: str, opened: str, words: str, database: Path, tmp_path: Path, capsys: Capture
) -> None:
    """With its name hidden, too."""
    run(capsys, "convert", database, tmp_path / target, "--to", format_name)
    path = (tmp_path / opened).rename(tmp_path / "hidden")
    assert f"{path}: {words}" in said(capsys, "info", path, code=3)


def test_recordings_of_others(tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "perf.data").write_bytes(b"PERFILE2" + bytes(100))
    assert "is a recording of Linux perf" in said(capsys, "info", tmp_path / "perf.data", code=3)
    (tmp_path / "a.nsys-rep").write_bytes(bytes(100))
    assert "nsys export --type sqlite" in said(capsys, "info", tmp_path / "a.nsys-rep", code=3)
    events = {"schemaVersion": 1, "deviceProperties": [], "traceEvents": [{"ph": "X", "pid": 1}]}
    (tmp_path / "torch.json").write_text(json.dumps(events))
    assert "is a Chrome trace" in said(capsys, "info", tmp_path / "torch.json", code=3)


@pytest.mark.parametrize(
    ("packed", "words"),
    [
        (bz2.compress, "is compressed; open what is in it, after unpacking it with bunzip2 -k"),
        (gzip.compress, "is compressed; open what is in it, after unpacking it with gunzip -k"),
        (lzma.compress, "is compressed; open what is in it, after unpacking it with unxz -k"),
        (
            lambda data: bytes.fromhex("28b52ffd") + data,
            "is compressed; open what is in it, after unpacking it with unz",
        ),
        (lambda data: gzip.compress(data)[:12], "is compressed"),
        (lambda data: b"\x1f\x8b" + data, "is compressed"),
    ],
)
def test_what_is_compressed(packed: Callable[[bytes], bytes], words: str, tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "packed").write_bytes(packed(b"PARAMETER p\n" * 100))
    assert f"{tmp_path / 'packed'}: {words}" in said(capsys, "info", tmp_path / "packed", code=3)


@pytest.mark.parametrize(("kind", "words"), [("zip", "zip archive"), ("tar", "tar archive"), ("gztar", "tar archive")])
def test_archives(kind: str, words: str, database: Path, tmp_path: Path, capsys: Capture) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    database.rename(folder / "r.db")
    archive = Path(shutil.make_archive(str(tmp_path / "a"), kind, folder)).rename(tmp_path / "hidden")
    assert f"is a {words}; open what is in it, after unpacking it with" in said(capsys, "info", archive, code=3)


@pytest.mark.parametrize(
    "text", ["\nPhases of the run\n" + "x" * 200, "\n", "", "{}", '{"ph": 1}', "\n\x07abcdefg\n\x03abc"]
)
def test_other_texts_are_not_taken_for_traces(text: str, tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "text").write_text(text)
    found = said(capsys, "info", tmp_path / "text", code=3)
    assert "trace" not in found.removeprefix(str(tmp_path))
