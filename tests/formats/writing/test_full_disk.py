"""A disk that fills up while traces are written: a limit on the size of files in a process of its own stands for it.

That process keeps no compiled modules (-B): Python does not notice when only a part of one was written.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.formats.gpu.gpu_databases import Run, write_rocpd
from tests.requirements import ROOT, need_module

LIMITED = """
import resource, sys
from callgrove.cli.main import main
resource.setrlimit(resource.RLIMIT_FSIZE, (3000, 3000))
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.parametrize(
    ("format_name", "old"), [("chrome-json", "o.json"), ("rocprof-csv", "o.json_kernel_trace.csv")]
)
def test_the_target_of_before_stays(format_name: str, old: str, tmp_path: Path) -> None:
    source = write_rocpd(tmp_path / "r.db", [Run.random(1, 400).without("memset")])
    (tmp_path / old).write_text("old")
    words = ["convert", str(source), str(tmp_path / "o.json"), "--to", format_name, "--force", "-j", "1"]
    done = subprocess.run([sys.executable, "-B", "-c", LIMITED, *words], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 1, done.stderr
    assert "cannot be written: File too large; nothing was changed" in done.stderr
    assert "Traceback" not in done.stderr
    assert (tmp_path / old).read_text() == "old"
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([old, "r.db"])


def test_an_archive_that_does_not_fit_is_not_there(tmp_path: Path) -> None:
    """The library has its own words for what happened."""
    need_module("otf2")
    source = write_rocpd(tmp_path / "r.db", [Run.random(1, 400).without("memset")])
    words = ["convert", str(source), str(tmp_path / "o.otf2"), "-j", "1"]
    done = subprocess.run([sys.executable, "-B", "-c", LIMITED, *words], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 1, done.stderr
    assert "is incomplete; is the disk full?; nothing was changed" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["r.db"]
