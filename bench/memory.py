"""The peak memory of opening a database and taking its columns, in a process of its own.

What is measured is VmHWM of /proc/self/status: the most memory that the process had resident at any time, the
interpreter, NumPy, the tree and the mapped pages of the files included. So it is an upper bound: pages of files are the
system's cache and could be taken away at any time. (`ru_maxrss` would not do: it begins with the parent's memory.)

    python -m bench.memory FOLDER     prints the peak and the size of the columns, as JSON
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

from bench.conditions import ROOT, columns_of
from callgrove.model.values import SparseBlock

__all__ = ["Peak", "n_bytes", "peak_of_columns"]

STATUS = Path("/proc/self/status")


@dataclass(frozen=True)
class Peak:
    """Bytes."""

    resident: int
    columns: int


def n_bytes(columns: SparseBlock) -> int:
    """What four columns take."""
    return columns.profile.nbytes + columns.context.nbytes + columns.metric.nbytes + columns.value.nbytes


def peak_of_columns(folder: Path) -> Peak | None:
    """Measured in a fresh process; None where the system does not tell."""
    if not STATUS.is_file():
        return None
    command = [sys.executable, "-m", "bench.memory", str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return Peak(**json.loads(done.stdout))


def main(folder: str) -> None:
    """The measured process."""
    columns = columns_of(Path(folder))
    found = re.search(r"VmHWM:\s*(\d+) kB", STATUS.read_text())
    assert found is not None
    print(json.dumps(asdict(Peak(int(found.group(1)) * 1024, n_bytes(columns)))))


if __name__ == "__main__":
    main(sys.argv[1])
