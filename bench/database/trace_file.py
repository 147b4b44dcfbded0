"""trace.db: what each profile did over time."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from bench.database.records import header, records
from bench.database.tree import LINE, Tree
from callgrove.formats.hpctoolkit.release import files as rec

__all__ = ["write_traces"]

SECTION_AT = rec.HEADER.itemsize + rec.SECTION.itemsize
STARTED_NS = 1_700_000_000_000_000_000
STEP_NS = 3_906_250  # 256 samples per second
SHARE_IDLE = 0.1  # of the samples


def write_traces(path: Path, tree: Tree, n_profiles: int, n_samples: int, seed: int) -> None:
    """`n_samples` samples per profile, on lines, and some idle ones."""
    rng = np.random.default_rng([seed, 3])
    lines = tree.id[tree.lexical_type == LINE]
    length = n_samples * rec.SAMPLE.itemsize
    room = length + -length % 8  # each line starts 8-aligned
    traces_at = SECTION_AT + rec.CTX_TRACES.itemsize
    first_at = traces_at + n_profiles * rec.TRACE.itemsize
    start = first_at + room * np.arange(n_profiles)
    traces = records(rec.TRACE, n_profiles, profIndex=1 + np.arange(n_profiles), pStart=start, pEnd=start + length)
    low, high = 2**64 - 1, 0
    with path.open("wb") as file:
        file.seek(first_at)
        for _ in range(n_profiles):
            steps = np.cumsum(rng.integers(1, 2 * STEP_NS, n_samples, dtype=np.uint64))
            time = np.uint64(STARTED_NS) + steps
            samples = records(rec.SAMPLE, n_samples, time=time, ctx=rng.choice(lines, n_samples))
            samples["ctx"][rng.random(n_samples) < SHARE_IDLE] = 0
            low, high = min(low, int(samples["time"][0])), max(high, int(samples["time"][-1]))
            file.write(samples.tobytes() + bytes(room - length))
        file.write(rec.FOOTERS["trce"])
        file.seek(0)
        head = records(rec.CTX_TRACES, pTraces=traces_at, nTraces=n_profiles, szTrace=traces.itemsize)
        head["minTimestamp"], head["maxTimestamp"] = low, high
        sections = np.array([(first_at - SECTION_AT, SECTION_AT)], rec.SECTION)
        file.write(header("trce").tobytes() + sections.tobytes() + head.tobytes() + traces.tobytes())
