"""Mapped files that become shorter or cannot be read: one sentence, whatever code looks at them."""

from __future__ import annotations

import ctypes
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from callgrove.cli import bus_errors
from callgrove.cli.bus_errors import saying_bus_errors
from tests.requirements import need

LOOKING = """
import os, sys
from pathlib import Path
import numpy as np
from callgrove.binary.files import FileBytes
from callgrove.cli.bus_errors import saying_bus_errors
path = Path(sys.argv[1])
path.write_bytes(bytes(1 << 20))
values = FileBytes(path).array("<u8", 1 << 17, 0, "values")
os.truncate(path, 4096)
with saying_bus_errors():
    print(np.sort(values)[0] if sys.argv[2] == "numpy" else bytes(memoryview(values)[:]))
"""


@pytest.fixture(autouse=True)
def on_linux() -> None:
    if not sys.platform.startswith("linux"):
        need("linux", "elsewhere SIGBUS is left alone")


@pytest.mark.parametrize("how", ["numpy", "python"])
def test_a_mapped_file_that_became_shorter_is_named(how: str, tmp_path: Path) -> None:
    path = tmp_path / "a file\x1b[2J"
    done = subprocess.run([sys.executable, "-c", LOOKING, str(path), how], capture_output=True, text=True)
    assert done.returncode == 3, done.stderr
    shown = str(path).replace("\x1b", "\\x1b")
    assert done.stderr == (
        f"callgrove: {shown}: became shorter while it was read; run again when nothing writes to it any more\n"
    )
    assert done.stdout == ""


def test_a_file_that_is_whole_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(bytes(5000))
    mapped = [(str(tmp_path / "x"), 5000)]
    assert bus_errors._describe(mapped) == f"{tmp_path}/x: cannot be read: the disk or the network fails"
    assert bus_errors._describe([]) == "an input: cannot be read: the disk or the network fails"
    (tmp_path / "x").unlink()
    assert bus_errors._describe(mapped) == f"{tmp_path}/x: cannot be read: No such file or directory"


def test_whoever_handles_it_already_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    before = signal.signal(signal.SIGBUS, signal.SIG_IGN)
    try:
        monkeypatch.setattr(ctypes, "CDLL", None)
        with saying_bus_errors():
            assert signal.getsignal(signal.SIGBUS) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGBUS, before)
