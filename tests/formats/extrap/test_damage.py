"""Extra-P's files cut off and with flipped bits: only errors made for users, in bounded time."""

from __future__ import annotations

import os
import re
import struct
from pathlib import Path

import pytest

from callgrove.analysis.tables import export
from callgrove.binary.files import Source
from callgrove.errors import CallgroveError, CorruptFile, InvalidExperiment
from callgrove.formats.extrap import study_format as lines
from callgrove.formats.interface import Checks, Dumps, ReadOptions
from callgrove.formats.registry import detect, load, open_path
from callgrove.model.study.series import Study
from tests.exhaustive import whole_or_some
from tests.formats.damage import Case, answers, chance
from tests.formats.extrap.extrap_files import CORPUS
from tests.timing import bounded

SAMPLES = sorted(CORPUS.iterdir())


def damages(path: Path, whole: bool) -> list[Case]:
    data, rng = path.read_bytes(), chance("extrap", path.name)
    n = 1000 if whole else 50
    cuts = sorted({0, 1, len(data) - 1, *(rng.randrange(len(data)) for _ in range(n))})
    cases = [Case(f"cut at {at}", data[:at]) for at in cuts]
    for k in range(n):
        broken = bytearray(data)
        for _ in range(1 if k % 3 else 16):
            broken[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        cases.append(Case(f"flip {k}", bytes(broken)))
    return cases


def ask(path: Path, format_name: str) -> None:
    """Everything that can be asked of a file, as the format that it was in or may be now."""
    for format_ in (load(format_name), None):
        try:
            chosen = format_ or detect(Source.of(path))[0]
            study = chosen.read(Source.of(path), ReadOptions())
            assert isinstance(study, Study)
            assert study.validate() == []
            list(export(study, "series"))
            assert isinstance(chosen, Checks)
            list(chosen.check(Source.of(path), ReadOptions()))
            assert isinstance(chosen, Dumps)
            list(chosen.dump(Source.of(path)))
        except CallgroveError as error:
            if isinstance(error, InvalidExperiment) or "\n" in str(error):
                raise


@whole_or_some
@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.name)
def test_damage(path: Path, whole: bool, tmp_path: Path) -> None:
    name = f"extrap-{path.name.partition('.')[0]}"
    for case in damages(path, whole):
        target = tmp_path / "data"
        target.unlink(missing_ok=True)
        target.write_bytes(case.data)
        with bounded(case.label):
            ask(target, name)


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.name)
def test_the_command_line_on_half_a_file(path: Path, tmp_path: Path) -> None:
    target = tmp_path / path.name
    target.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    answers(target, path.name, ("info",), ("export", "--table", "series"), ("check",))


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("json.json", "JSON, which is read in one piece, may have 1,073,741,824; write it as JSON Lines"),
        ("json-old.json", "JSON, which is read in one piece"),
        ("jsonl.jsonl", "expected at most 9 bytes, found a line that is longer"),
        ("text.txt", "expected at most 9 bytes, found a line that is longer"),
        ("talpas.txt", "expected at most 9 bytes, found a line that is longer"),
    ],
)
def test_files_without_an_end(name: str, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / name
    path.write_bytes((CORPUS / name).read_bytes())
    os.truncate(path, 1 << 40)  # a hole, which takes no room
    monkeypatch.setattr(lines, "LONGEST_LINE", 9)
    with bounded(name), pytest.raises(CallgroveError, match=re.escape(words)):
        open_path(path)


def test_a_text_without_an_end_in_a_binary_file(tmp_path: Path) -> None:
    path, data = tmp_path / "x", (CORPUS / "binary3.exp").read_bytes()
    order = "<" if data[0] == 1 else ">"
    at = data.index(b"Parameter") - 4
    path.write_bytes(data[:at] + struct.pack(f"{order}I", 0xF0000000) + data[at + 4 :])
    os.truncate(path, 1 << 40)
    with bounded("binary3"), pytest.raises(CorruptFile, match="of at most 1048576 bytes, found a length of 4026531840"):
        open_path(path)
