"""A small run with everything that is hard to draw, and what a viewer of traces should show of it.

Two containers on two hosts that gave their process the same number; each has two threads and two GPUs:

    thread 0    markers around calls, a call that launches three kernels, calls that touch, one that lasts no time
    thread 1    regions that cross, and one that never ended
    streams     kernels that overlap, kernels that touch, a copy
    memory      allocated and freed

The expected slices are written down here, not computed by the package.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path

from tests.formats.gpu.gpu_databases import Event, Run, execute, suffix_of, write_rocpd

UNICODE = "Schritt ä ☃ 😀"
HOSTILE = 'say "hi"\\\n\tthen, leave'
EPOCH = 1_700_000_000_000_000_000

EVENTS = (
    Event("marker", "roctxRangePushA", 1000, 9000, 0, 100, label=UNICODE),
    Event("api", "hipGraphLaunch", 1100, 1500, 0, 1),
    Event("api", "hipLaunchKernel", 1500, 1800, 0, 2),
    Event("api", "hipMemcpyAsync", 2100, 2100, 0, 3),
    Event("marker", "roctxMarkA", 2200, 2200, 0, 101, label="a mark"),
    Event("region", HOSTILE, 3000, 3500, 1, 200),
    Event("region", "crosses", 3200, 3700, 1, 201),
    Event("region", "never ends", 5000, 6000, 1, 202),
    Event("kernel", "overlaps", 2000, 2500, 0, 1, 0, 0),
    Event("kernel", "overlaps", 2400, 2900, 0, 1, 0, 0),
    Event("kernel", "touches", 2900, 3000, 0, 1, 0, 0),
    Event("kernel", "elsewhere", 2000, 2600, 0, 2, 1, 0),
    Event("copy", "MEMORY_COPY_HOST_TO_DEVICE", 4000, 4500, 0, 3, 0, 1, 4096),
    Event("alloc", "ALLOC", 1200, 1210, 0, 1, size=1 << 20),
    Event("alloc", "FREE", 8000, 8010, 0, 99, size=0),
)
OPEN_UNTIL = 9000  # the last moment of the process


@dataclass(frozen=True)
class Drawn:
    """A slice as it should be seen; times from the beginning of the run."""

    name: str
    start: int
    end: int

    @property
    def length(self) -> int:
        return self.end - self.start


DRAWN = tuple(Drawn(e.label or e.name, e.start, OPEN_UNTIL if e.name == "never ends" else e.end) for e in EVENTS)
FLOWS = {  # name and start of the call -> starts of what it launched
    ("hipGraphLaunch", 1100): (2000, 2400, 2900),
    ("hipLaunchKernel", 1500): (2000,),
    ("hipMemcpyAsync", 2100): (4000,),
}


def drawn_runs(folder: Path, first_ns: int = 0) -> tuple[Path, list[Run]]:
    """A folder with the two databases; `first_ns` is when the clock of the machines was 0."""
    events = tuple(replace(e, start=e.start + first_ns, end=e.end + first_ns) for e in EVENTS)
    runs = []
    for k in range(2):
        host = f"host{k}"
        own = Run(events, 15, host, f"m{k}", f"018f0000-0000-7000-8000-00000000000{k}", tids=(15, 16), start=first_ns)
        runs.append(own)
        path = write_rocpd(folder / f"rank{k}.db", [own])
        s = suffix_of(own)
        execute(
            path,
            f"""UPDATE rocpd_event{s} SET extdata = json_object('message', '{UNICODE}') WHERE stack_id = 100""",
            f"UPDATE rocpd_region{s} SET end = NULL WHERE start = {5000 + first_ns}",
            f"UPDATE rocpd_memory_allocate{s} SET agent_id = NULL, size = 0 WHERE type = 'FREE'",
        )
    return folder, runs


def totals() -> Counter[tuple[str, str]]:
    """(name, count or total) of one of the two processes."""
    out: Counter[tuple[str, str]] = Counter()
    for slice_ in DRAWN:
        out[slice_.name, "count"] += 1
        out[slice_.name, "total"] += slice_.length
    return out
