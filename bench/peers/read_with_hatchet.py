"""Reads a released database with Hatchet, profile by profile. Runs in Hatchet's own environment:

    .peers/hatchet/bin/python bench/peers/read_with_hatchet.py FOLDER OUT.npz

OUT.npz gets the seconds that the call took, and what it returned: profile, context id, inclusive and exclusive time.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import hatchet
import numpy as np


def main(folder: str, out: str) -> None:
    """The call is that of peers.md."""
    sys.setrecursionlimit(1_000_000)  # its walk over the tree recurses
    start = time.perf_counter()
    frame = hatchet.GraphFrame.from_hpctoolkit_latest(
        folder, parallel_profiles_mode=True, min_percentage_of_application_time=0
    )
    seconds = time.perf_counter() - start
    table = frame.dataframe
    np.savez(
        Path(out),
        seconds=seconds,
        profile=table.index.get_level_values("profile").to_numpy(np.int64),
        context=np.array([node._hatchet_nid for node in table.index.get_level_values("node")], np.int64),
        inclusive=table["time (inc)"].to_numpy(np.float64),
        exclusive=table["time"].to_numpy(np.float64),
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
