"""`callgrove watch` as a job's neighbour: a process writes in pieces while it looks, and Ctrl-C ends it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import callgrove as cg
from callgrove.cli.main import main
from callgrove.cli.verbs.lasting.watch import parse_duration
from tests.requirements import ROOT
from tests.timing import HANG_SEC

MEASUREMENTS = ROOT / "tests" / "corpus" / "hpcrun" / "04.00"
WATCH = [sys.executable, "-m", "callgrove", "watch"]
WRITER = """
import sys, time
from pathlib import Path
source, target = map(Path, sys.argv[1:])
for path in sorted(source.glob("*.hpcrun"))[:3]:
    content = path.read_bytes()
    with (target / path.name).open("wb") as file:
        for at in range(0, len(content), len(content) // 3 + 1):
            file.write(content[at : at + len(content) // 3 + 1])
            file.flush()
            time.sleep(0.15)
"""


def costs(path: Path) -> list[float]:
    opened = cg.open(path)
    assert isinstance(opened, cg.Experiment)
    return opened.top()["exclusive"]


def test_a_writer_in_pieces_is_never_read_by_half(tmp_path: Path) -> None:
    """Whatever the timing, totals are those of whole files."""
    folder = next(path.parent for path in MEASUREMENTS.rglob("*.hpcrun"))
    whole = [sum(costs(path)) for path in sorted(folder.glob("*.hpcrun"))[:3]]
    allowed = {round(sum(whole[:n]), 9) for n in range(4)}
    command = [*WATCH, str(tmp_path), "--every", "100ms", "--for", str(HANG_SEC), "--format", "json"]
    writer = [sys.executable, "-c", WRITER, str(folder), str(tmp_path)]
    looks = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as watching, subprocess.Popen(writer):
        assert watching.stdout is not None
        for line in watching.stdout:
            looks.append(json.loads(line))
            if looks[-1].get("n_complete") == len(whole):
                watching.send_signal(signal.SIGINT)
                break
    sums = [round(sum(one["total"] for one in look["totals"]), 9) for look in looks]
    assert set(sums) <= allowed
    assert sums == sorted(sums)
    assert sums[-1] == round(sum(whole), 9)


def test_ctrl_c_ends_it_cleanly(tmp_path: Path) -> None:
    (tmp_path / "a.folded").write_text("main;work 3\n")
    os.utime(tmp_path / "a.folded", ns=(0, 0))
    with subprocess.Popen(
        [*WATCH, str(tmp_path)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(3)]
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=HANG_SEC)
    assert process.returncode == 130
    assert "Traceback" not in errors
    assert "new: a.folded" in lines[0]
    assert "complete: a.folded (folded)" in lines[1]


def test_one_look_says_what_is_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for rank in range(8):
        (tmp_path / f"r{rank}.folded").write_text(f"main;work {rank + 1}\n")
        os.utime(tmp_path / f"r{rank}.folded", ns=(0, 0))
    (tmp_path / "hostile\x1b[2J.folded").write_text("main;work 1\n")
    (tmp_path / "notes.txt").write_text("nothing to read\n")
    os.utime(tmp_path / "notes.txt", ns=(0, 0))
    assert main(["watch", str(tmp_path), "--once"]) == 0
    out = capsys.readouterr().out
    assert "complete: 3 more files" in out
    assert "files: 10 (8 complete, 1 growing, 1 other)" in out
    assert "samples: 36 in all; work 100.0%" in out
    assert "\x1b" not in out


def test_it_ends_by_itself(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["watch", str(tmp_path), "--every", "10ms", "--for", "50ms"]) == 0
    assert main(["watch", str(tmp_path), "--every", "10ms", "--until-quiet", "30ms", "--format", "json"]) == 0
    assert capsys.readouterr().out.splitlines()[0] == "files: 0 (none), 0 B"


def test_what_cannot_be_watched_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["watch", str(tmp_path / "nothing"), "--once"]) == 3
    assert "nothing: no such folder" in capsys.readouterr().err
    assert main(["watch", str(tmp_path), "--every", "soon"]) == 2
    assert "not a time like 2s" in capsys.readouterr().err


@pytest.mark.parametrize(("text", "seconds"), [("2s", 2), ("500ms", 0.5), ("10m", 600), ("1.5h", 5400), ("3", 3)])
def test_durations(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds
