"""Freed memory is used again, where the C library would give it back."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

WORK = """
import resource
import numpy as np
from callgrove.model.memory import keep_freed_memory
if {kept}:
    keep_freed_memory()

def n_faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

for turn in range(2):
    before = n_faults()
    for _ in range(20):
        arrays = [np.ones(1 << 16) for _ in range(16)]
        del arrays
print(n_faults() - before)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another C library has other rules")
def test_freed_memory_is_used_again() -> None:
    faults = [
        int(subprocess.run([sys.executable, "-c", WORK.format(kept=kept)], capture_output=True, check=True).stdout)
        for kept in (False, True)
    ]
    assert faults[1] < faults[0] / 10
