"""Files that callgrove writes and does not read, and others that people hand to it: they are told what these are."""

from __future__ import annotations

import bz2
import gzip
import lzma
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.commands import Capture, run, said
from tests.formats.gpu.gpu_databases import Event, Run, write_rocpd


@pytest.fixture
def database(tmp_path: Path) -> Path:
    return write_rocpd(tmp_path / "r.db", [Run((Event("api", "f", 10, 20), Event("kernel", "k", 30, 40)))])


@pytest.mark.parametrize(
    ("target", "format_name", "opened", "words"),
    [
        ("o", "rocprof-csv", "o_kernel_trace.csv", "is a CSV file of rocprofv3"),
        ("o", "rocprof-csv", "o_hip_api_trace.csv", "is a CSV file of rocprofv3"),
        ("o", "rocprof-csv", "o_agent_info.csv", "is a CSV file of rocprofv3"),
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
    (tmp_path / "a.ncu-rep").write_bytes(bytes(100))
    assert "is a report of Nsight Compute" in said(capsys, "info", tmp_path / "a.ncu-rep", code=3)


@pytest.mark.parametrize(
    ("packed", "words"),
    [
        (bz2.compress, "is compressed, and what is in it was not recognised"),
        (gzip.compress, "is compressed, and what is in it was not recognised"),
        (lzma.compress, "is compressed, and what is in it was not recognised"),
        (lambda data: bytes.fromhex("28b52ffd") + data, "compressed data: expected a zstd stream"),
        (lambda data: gzip.compress(data)[:12], "is compressed"),
        (lambda data: b"\x1f\x8b" + data, "compressed data: expected a gzip stream"),
    ],
)
def test_what_is_compressed(packed: Callable[[bytes], bytes], words: str, tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "packed").write_bytes(packed(b"no performance data\n" * 100))
    assert f"{tmp_path / 'packed'}: {words}" in said(capsys, "info", tmp_path / "packed", code=3)


@pytest.mark.parametrize(("kind", "words"), [("zip", "zip archive"), ("tar", "tar archive"), ("gztar", "tar archive")])
def test_archives(kind: str, words: str, database: Path, tmp_path: Path, capsys: Capture) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    database.rename(folder / "r.db")
    archive = Path(shutil.make_archive(str(tmp_path / "a"), kind, folder)).rename(tmp_path / "hidden")
    assert f"is a {words}; open what is in it, after unpacking it with" in said(capsys, "info", archive, code=3)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"rocprofiler-sdk-tool": [{"metadata": {"pid": 1}}]}', "is a JSON file of rocprofv3"),
        ('"Kind","Agent_Id","Queue_Id","Stream_Id"\n', "is a CSV file of rocprofv3"),
        ('"Domain","Function","Process_Id"\n', "is a CSV file of rocprofv3"),
        ('"Index","KernelName","gpu-id"\n', "is a CSV file of the first rocprof"),
        ("# callgrind format\nversion: 1\n", "is a profile of Callgrind"),
        ("version: 1\ncreator: callgrind-3.19.0\n", "is a profile of Callgrind"),
        ("gmon\1\0\0\0\0\0\0", "is a profile for gprof"),
        ("#Paraver (01/01/2026 at 10:00):1000_ns:1(2)\n", "is a Paraver trace"),
        ('{\n "timemory": {"wall_clock": {}}}', "is a file of timemory"),
        ('{"graph": [{"frame": {"name": "main"}}]}', "is a file of Hatchet or Thicket"),
        ('{"start_time": 1.5, "root_frame": {}}', "is a profile of pyinstrument"),
        ("digraph calls {\n a -> b\n}\n", "is a graph for Graphviz"),
        ('{"$schema": "https://www.speedscope.app/file-format-schema.json"}', "is a speedscope file"),
    ],
)
def test_files_of_other_tools(text: str, words: str, tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "hidden").write_text(text)
    assert f"{tmp_path / 'hidden'}: {words}, which callgrove" in said(capsys, "info", tmp_path / "hidden", code=3)


@pytest.mark.parametrize(("text", "keys"), [('{"a": 1, "b": [2]}', "the keys 'a', 'b'"), ("{}", "no keys")])
def test_json_of_nobody_we_know(text: str, keys: str, tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "hidden").write_text(text)
    told = said(capsys, "info", tmp_path / "hidden", code=3)
    assert f"not recognised as performance data: an object of JSON with {keys}; one of Extra-P" in told


def test_text_that_powershell_wrote(tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "p.txt").write_text("PARAMETER p\n", encoding="utf-16")
    assert "is text in UTF-16; convert it with iconv" in said(capsys, "info", tmp_path / "p.txt", code=3)


@pytest.mark.parametrize(
    "text", ["\nPhases of the run\n" + "x" * 200, "\n", "", "{}", '{"ph": 1}', "\n\x07abcdefg\n\x03abc"]
)
def test_other_texts_are_not_taken_for_traces(text: str, tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "text").write_text(text)
    found = said(capsys, "info", tmp_path / "text", code=3)
    assert "trace" not in found.removeprefix(str(tmp_path))
