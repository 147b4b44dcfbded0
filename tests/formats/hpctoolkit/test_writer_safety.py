"""Conversions that are killed, or that run out of disk, leave no target or a whole one."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from callgrove.cli.main import main
from callgrove.examples import example
from tests.formats.hpctoolkit.test_release_writer_failures import contents, full_disk
from tests.formats.samples import databases
from tests.formats.written import PRERELEASE, RELEASE, damage, write
from tests.requirements import ROOT

CONVERSIONS = [("prerelease", RELEASE), ("release", PRERELEASE)]


def small(generation: str) -> Path:
    [path] = [path for path in databases(generation) if path.name == "pth4.d"]
    return path


@pytest.mark.parametrize(("generation", "to"), CONVERSIONS)
def test_killed_at_every_step(generation: str, to: str, tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "tests.formats.writing.killed_conversions",
        str(small(generation)),
        to,
        str(tmp_path),
    ]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    found = json.loads(done.stdout)
    whole, *states = found["states"]
    assert len(states) > 10
    assert set(states) == {"", whole}
    assert states[-1] == whole  # what the killed ones left did not disturb the last one
    assert all(name.startswith(".new.d.") and name.endswith(".partial") for name in found["left"])


def test_killed_at_any_time(tmp_path: Path) -> None:
    """By the clock, from the outside, with the command line."""
    source = tmp_path / "in.d"
    write(example(ranks=4), source)
    command = [sys.executable, "-m", "callgrove", "convert", str(source), str(tmp_path / "new.d"), "--to", PRERELEASE]
    begin = time.monotonic()
    subprocess.run(command, check=True, capture_output=True)
    seconds = time.monotonic() - begin
    assert damage(tmp_path / "new.d") == []
    whole = contents(tmp_path / "new.d")
    for part in (0.5, 0.7, 0.8, 0.9, 1.0):
        with subprocess.Popen([*command, "--force"], stderr=subprocess.DEVNULL) as child:
            time.sleep(part * seconds)
            child.send_signal(signal.SIGKILL)
        target = tmp_path / "new.d"
        assert not target.exists() or contents(target) == whole


@pytest.mark.parametrize("to", [RELEASE, PRERELEASE])
@pytest.mark.parametrize("after", [0, 100, 2_000, 4_000])
def test_a_full_disk_is_one_error(after: int, to: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = tmp_path / "in.d"
    write(example(ranks=1), source)
    with full_disk(after):
        assert main(["convert", str(source), str(tmp_path / "new.d"), "--to", to]) == 1
    message = capsys.readouterr().err
    assert message.count("\n") == 1
    assert "new.d: cannot be written: File too large; nothing was changed" in message
    assert [path.name for path in tmp_path.iterdir()] == ["in.d"]
