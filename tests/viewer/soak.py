"""Random clicking: requests of all kinds, in any order, as pages make them, and what memory does.

python -m tests.viewer.soak PATH SECONDS      clicks for so long, and prints memory every now and then; at the end, that
                                              of the last quarter against that of the first
"""

from __future__ import annotations

import gc
import random
import re
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic

from callgrove.viewer.server.running import Viewer
from tests.viewer.serving import ask, path_input, serving

__all__ = ["Clicking"]

STATUS = Path("/proc/self/status")
CLIENTS = 6
TABS = ("Overview", "Explore", "Flame graph", "Spread", "Timeline", "GPU", "Efficiency", "Nothing")
WORDS = ("a", "MPI", "gemm", "/^s/", "nothing has this name")
FILTERS = ("", "", "", "** -> MPI_*", "main -> **")


def resident() -> int:
    """Return the bytes of memory that this process has now."""
    gc.collect()
    found = re.search(r"VmRSS:\s*(\d+) kB", STATUS.read_text())
    assert found is not None
    return int(found[1]) * 1024


@dataclass
class Clicking:
    """Random requests to a viewer; `statuses` counts what it answered."""

    viewer: Viewer
    seed: int = 0
    length_ns: int = 1
    n_lines: int = 1
    statuses: Counter[int] = field(default_factory=Counter)

    def begin(self) -> None:
        """Ask for the timeline until its index is complete."""
        while True:
            status, picture = ask(self.viewer, "timeline")
            assert status == 200, picture
            if picture["progress"]["complete"]:
                break
        self.length_ns, self.n_lines = picture["length_ns"], picture["n_lines"]

    def run(self, n: int) -> None:
        """Make so many requests, several at a time."""
        chance = random.Random(self.seed)
        self.seed += 1
        requests = [self._request(chance) for _ in range(n)]
        with ThreadPoolExecutor(CLIENTS) as pool:
            for status in pool.map(lambda one: ask(self.viewer, one[0], **one[1])[0], requests):
                self.statuses[status] += 1

    def _request(self, chance: random.Random) -> tuple[str, dict[str, str | int | float | Sequence[str]]]:
        begin = chance.randrange(self.length_ns)
        end = begin + max(1, int((self.length_ns - begin) * 10 ** -chance.uniform(0, 6)))
        window: dict[str, str | int | float | Sequence[str]] = {
            "from": begin,
            "to": end,
            "lines": self.n_lines,
            "depth": chance.choice((0, 0, 0, 1, 3)),
        }
        look = {"filter": chance.choice(FILTERS)}
        makers: dict[str, Callable[[], dict[str, str | int | float | Sequence[str]]]] = {
            "timeline": lambda: {**window, "width": chance.randrange(10, 2_000), "rows": chance.randrange(1, 300)},
            "timelegend": lambda: {**window, "exact": chance.randrange(2), "top": chance.randrange(self.n_lines)},
            "timedurations": lambda: window,
            "timestack": lambda: {"row": chance.randrange(self.n_lines), "time": begin},
            "timefind": lambda: {**window, "text": chance.choice(WORDS), "time": begin},
            "timelinks": lambda: window,
            "tab": lambda: {"tab": chance.choice(TABS), **look},
            "rows": lambda: {**look, "window": chance.choice(("", "", f"{begin}:{end}"))},
            "search": lambda: {"text": chance.choice(WORDS), **look},
            "nothing": dict,
        }
        name = chance.choice(list(makers))
        return name, makers[name]()


def main(path: str, seconds: str) -> None:
    """Click for so long."""
    with serving(path_input(path)) as viewer:
        clicking = Clicking(viewer)
        clicking.begin()
        began, n = monotonic(), 0
        seen: list[int] = []
        while monotonic() - began < float(seconds):
            clicking.run(200)
            n += 200
            seen.append(resident())
            said = f"{monotonic() - began:6.0f} s {n:7,} requests {seen[-1] / 1e6:7.1f} MB {dict(clicking.statuses)}"
            sys.stdout.write(f"{said}\n")
            sys.stdout.flush()
    quarter = -(-len(seen) // 4)
    first, last = (sum(some) / quarter / 1e6 for some in (seen[:quarter], seen[-quarter:]))
    sys.stdout.write(f"first quarter {first:.1f} MB, last quarter {last:.1f} MB on average\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
