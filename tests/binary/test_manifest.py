"""Manifests: what was recorded of sound files, and every kind of difference from it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from callgrove.binary import manifest
from callgrove.binary.manifest import compare_with_manifest, take_digests, write_manifest
from callgrove.errors import InputError
from callgrove.examples import example
from tests.cli.commands import Capture, said
from tests.formats.damage import chance, run


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "data" / "sub").mkdir(parents=True)
    (tmp_path / "data" / "a").write_bytes(bytes(range(256)) * 20)
    (tmp_path / "data" / "sub" / "b").write_bytes(b"")
    return tmp_path / "data"


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manifest, "BLOCK", 1000)


def differences(path: Path, file: Path) -> list[tuple[str, str, str]]:
    return [(one.file, one.place, one.text) for one in compare_with_manifest(path, file)]


def test_nothing_differs(folder: Path, tmp_path: Path) -> None:
    write_manifest(take_digests(folder), tmp_path / "m")
    assert differences(folder, tmp_path / "m") == []
    (folder / "m").write_bytes((tmp_path / "m").read_bytes())  # a manifest inside of what it is of
    assert differences(folder, folder / "m") == []


def test_every_flip_is_found_in_its_block(folder: Path, tmp_path: Path) -> None:
    write_manifest(take_digests(folder), tmp_path / "m")
    data = (folder / "a").read_bytes()
    for at in chance("manifest").sample(range(len(data)), 30):
        (folder / "a").write_bytes(data[:at] + bytes([data[at] ^ 4]) + data[at + 1 :])
        first = at // 1000 * 1000
        place = f"bytes {first:,} to {min(first + 1000, len(data)) - 1:,}"
        assert differences(folder, tmp_path / "m") == [("a", place, "are not what they were")]


def test_sizes_missing_and_new_files(folder: Path, tmp_path: Path) -> None:
    write_manifest(take_digests(folder), tmp_path / "m")
    (folder / "a").write_bytes(b"x" * 3000)
    (folder / "sub" / "b").unlink()
    (folder / "c").write_bytes(b"new")
    found = list(compare_with_manifest(folder, tmp_path / "m"))
    assert [(one.file, one.place, one.is_damage) for one in found] == [
        ("a", "size", True),
        *(("a", f"bytes {k * 1000:,} to {k * 1000 + 999:,}", True) for k in range(3)),
        ("sub/b", "", True),
        ("c", "", False),
    ]


def test_a_file_may_be_renamed(folder: Path, tmp_path: Path) -> None:
    write_manifest(take_digests(folder / "a"), tmp_path / "m")
    shutil.copyfile(folder / "a", tmp_path / "other")
    assert differences(tmp_path / "other", tmp_path / "m") == []


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{}", '{"callgrove manifest": 1}', '{"callgrove manifest": 1, "block": 0, "files": {}}', "[" * 5000],
)
def test_other_files_are_no_manifests(text: str, folder: Path, tmp_path: Path) -> None:
    (tmp_path / "m").write_text(text)
    with pytest.raises(InputError, match="is not a manifest"):
        differences(folder, tmp_path / "m")


def test_versions_and_contradictions(folder: Path, tmp_path: Path) -> None:
    write_manifest(take_digests(folder), tmp_path / "m")
    known = json.loads((tmp_path / "m").read_text())
    known["files"]["a"]["sha256"] = "0"
    (tmp_path / "m").write_text(json.dumps(known))
    assert "contradict each other" in differences(folder, tmp_path / "m")[0][2]
    known["callgrove manifest"] = 2
    (tmp_path / "m").write_text(json.dumps(known))
    with pytest.raises(InputError, match="of version 2"):
        differences(folder, tmp_path / "m")


def test_check_records_and_compares(tmp_path: Path) -> None:
    data, file = tmp_path / "run.cubex", tmp_path / "m.json"
    example(ranks=1).write(data)
    assert "digests of 1 file," in run("check", str(data), "--record", str(file))[2]
    assert "sound" in run("check", str(data), "--against", str(file))[2]
    content = data.read_bytes()
    data.write_bytes(content[:-600] + bytes([content[-600] ^ 1]) + content[-599:])  # after the last member
    code, table, _ = run("check", str(data), "--against", str(file), "--format", "json")
    assert code == 3
    assert json.loads(table)[0]["problem"] == "are not what they were"


def test_damaged_inputs_are_not_recorded(tmp_path: Path) -> None:
    data, file = tmp_path / "x.folded", tmp_path / "m.json"
    data.write_text("a;b 1\na;c 2\n" * 20 + "broken\n")
    assert "not written, as the input is damaged" in run("check", str(data), "--record", str(file))[2]
    assert not file.exists()


def test_convert_puts_one_beside(tmp_path: Path, capsys: Capture) -> None:
    example(ranks=1).write(tmp_path / "in.cubex")
    out, beside = tmp_path / "out.d", tmp_path / "out.d.manifest.json"
    assert run("convert", str(tmp_path / "in.cubex"), str(out), "--record")[0] == 0
    assert differences(out, beside) == []
    shutil.rmtree(out)
    assert "exists already" in said(capsys, "convert", tmp_path / "in.cubex", out, "--record", code=2)
    assert not out.exists()
    assert "name OUT" in said(capsys, "convert", tmp_path / "in.cubex", "-", "--to", "folded", "--record", code=2)
