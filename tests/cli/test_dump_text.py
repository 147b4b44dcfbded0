"""`dump` of formats with a text form of their own: measurement files."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cli.commands import Capture, said
from tests.cli.commands import run as printed
from tests.formats.hpcrun.hpcrun_synthetic import FILES, MIXED_04
from tests.formats.samples import CORPUS

FOLDER = CORPUS / "hpcrun" / "04.00" / "pth4.m"
Out = Callable[..., str]
TEXT = """\
hpcrun 02.00 big-endian dialect=B
header
  "program-name" = "app"
  "mpi-rank" = "3"
  "thread-id" = "1"
  "host-id" = "7f"
  "process-id" = "42"
epoch 0 flags=0x0 granularity=1 ra=0
  "TODO:epoch-name" = "TODO:epoch-value"
metrics 3
  0 "READS" desc="about READS" ty=raw valty=none fmt=int move2proc=0 partner=0 show=1 percent=1 period=10 formula="" \
format="" freq=0 mux=0 mean=0.0 samples=0 reserved=0000000000000000
  1 "WRITES" desc="about WRITES" ty=raw valty=none fmt=int move2proc=0 partner=0 show=1 percent=1 period=1 formula="" \
format="" freq=0 mux=0 mean=0.0 samples=0 reserved=0000000000000000
  2 "BALANCE" desc="about BALANCE" ty=derived valty=none fmt=real move2proc=0 partner=0 show=3 percent=1 period=1 \
formula="$0-$1" format="" freq=0 mux=0 mean=0.0 samples=0 reserved=0000000000000000
loadmap 2
  1 flags=0x0 "/bin/app"
  2 flags=0x0 "/lib/libm.so"
cct 2
  2 parent=0 lm=0 ip=0x0 values=[0, 0, 0.0]
  -5 parent=2 lm=1 ip=0x2000 values=[3, 4, 0.0]
end
"""


@pytest.fixture
def out(capsys: Capture) -> Out:
    """What `dump` prints with these words."""
    return lambda *words: printed(capsys, "dump", *words)


@pytest.fixture
def mixed(tmp_path: Path) -> str:
    (tmp_path / "a").write_bytes(MIXED_04.packed())
    return str(tmp_path / "a")


def test_old_files_in_full(tmp_path: Path, out: Out) -> None:
    (tmp_path / "a").write_bytes(FILES["formulas.hpcrun"])
    assert out(str(tmp_path / "a")) == TEXT


def test_new_files_in_full(mixed: str, out: Out) -> None:
    lines = out(mixed).splitlines()
    assert lines[0] == "hpcrun 04.00 big-endian"
    heads = [line for line in lines if not line.startswith(" ")][1:]
    assert heads == ["header", "tuple", "loadmap 2", "metrics 3", "idkinds 4", "cct 7", "values 5", "footer", "end"]
    for line in (
        "  NODE interp=1 physical=0x7f logical=0",
        '  12 parent=0 lm=0 ip=0x5e5072696d617279 "^Primary" flags=1',
        "  20 parent=16 lm=2 ip=0xffffffff81000000 flags=0",
        '  24 parent=14 lm=0 ip=0x537472616e676501 "Strange\\\\01" flags=1',
        "  18 0=0.25 1=1073741825",
        '  "header" start=0 end=123',
        '  3 "THREAD"',
    ):
        assert line in lines, line
    assert "period=100000000" in out(mixed)


def test_json_has_what_the_text_has(mixed: str, out: Out) -> None:
    """Every number and string of the text, found in the JSON."""
    found: dict[str, Any] = json.loads(out(mixed, "--format", "json"))
    assert list(found) == [
        "version", "dialect", "header", "tuple", "loadmap", "metrics", "idkinds", "cct", "values", "footer",
    ]  # fmt: skip
    assert found["cct"][4] == {"id": 20, "parent": 16, "lm": 2, "ip": 0xFFFFFFFF81000000, "flags": 0, "code": None}
    assert found["values"][1] == {"node": 18, "values": [[0, 0.25], [1, 2**30 + 1]]}
    texts = set(re.findall(r'"((?:[^"\\]|\\.)*)"', out(mixed)))
    in_json = json.dumps(found)
    assert [text for text in texts if json.dumps(text.replace("\\\\", "\\"))[1:-1] not in in_json] == []


def test_limits_say_what_they_leave_out(mixed: str, out: Out) -> None:
    lines = out(mixed, "--limit", "2").splitlines()
    assert lines[lines.index("cct 7") + 3] == "  ... and 5 more"
    assert len(json.loads(out(mixed, "--limit", "2", "--format", "json"))["cct"]) == 2
    assert out(mixed, "--tree", "--limit", "3").splitlines()[-2] == "  ... and 4 more"


def test_the_summary_counts_and_adds_up(mixed: str, out: Out) -> None:
    assert out(mixed, "--summary").splitlines() == [
        "hpcrun 04.00 big-endian",
        'program "app"',
        "nodes 7 roots=1 leaves=4",
        "values 5 nodes=4",
        "totals 3",
        '  0 "CPUTIME (sec)" = 4.375',
        f'  1 "PAPI_TOT_INS" = {(2**30 + 4) * 10**8}',
        '  2 "RATE" = 0.0',
        "modules 2 used=2",
        '  1 nodes=2 "/bin/app"',
        '  2 nodes=1 "/lib/libm.so"',
        "end",
    ]


def test_the_tree_is_indented(mixed: str, out: Out) -> None:
    assert out(mixed, "--tree").splitlines()[2:] == [
        "  <root> [12]",
        "    <program root> [14]",
        "      app+0x1000 [16]",
        f"        app+0x2000 [18] 0=0.25 1={(2**30 + 1) * 10**8}",
        "        libm.so+0xffffffff81000000 [20] 1=300000000",
        "      <unknown> [22] 0=0.125",
        "      Strange\\01 [24] 0=4.0",
        "end",
    ]


def test_folders_are_printed_file_after_file(out: Out) -> None:
    text = out(str(FOLDER), "--summary")
    names = [path.name for path in sorted(FOLDER.glob("*.hpcrun"))]
    assert re.findall(r'^file "(.*)"$', text, re.MULTILINE) == names
    assert [one["version"] for one in json.loads(out(str(FOLDER), "--format", "json"))] == ["04.00"] * len(names)


def test_fields_have_offsets(mixed: str, out: Out) -> None:
    rows = json.loads(out(mixed, "--format", "jsonl", "--section", "cct").splitlines()[1])
    assert (rows["offset"], rows["field"], rows["value"]) == (2056, "id", 12)
    data, lines = MIXED_04.packed(), out(mixed, "--format", "jsonl").splitlines()
    for line in map(json.loads, lines):
        if line["field"] in ("id", "parent") and "node" in line["section"]:
            assert int.from_bytes(data[line["offset"] : line["offset"] + 4], "big") == line["value"]
        if line["field"] == "path":
            assert data[line["offset"] + 4 :].startswith(line["value"].encode())


def test_output_goes_to_a_file(mixed: str, tmp_path: Path, out: Out) -> None:
    assert out(mixed, "-o", str(tmp_path / "out.txt")) == ""
    assert (tmp_path / "out.txt").read_text() == out(mixed)


def test_databases_have_no_such_views(capsys: Capture) -> None:
    text = said(capsys, "dump", CORPUS / "hpctoolkit" / "release" / "pth4.d", "--tree", code=2)
    assert "has no tree to print; leave out --tree" in text
