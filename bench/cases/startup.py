"""What starting costs: own modules imported, files opened and processor time of `--help`, `info` and `top`.

On a small database, where starting is most of the work. A process that does nothing but import NumPy is the floor.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence

from bench.conditions import ROOT, Conditions
from bench.results import Finding

__all__ = ["run"]

DATABASE = ROOT / "tests" / "corpus" / "hpctoolkit" / "release" / "mpi4.d"
N_REPEATS = 5
PROBE = """
import contextlib, io, sys, time
opened = []
sys.addaudithook(lambda event, _: event == "open" and opened.append(event))
words = sys.argv[1:]
if words:
    from callgrove.cli.main import main
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        with contextlib.suppress(SystemExit):
            main(words)
else:
    import numpy
own = sum(name.partition(".")[0] == "callgrove" for name in sys.modules)
print(own, len(opened), time.process_time())
"""


def run(conditions: Conditions) -> Iterator[Finding]:
    """Counts are exact; times are the best of some, against the floor."""
    floor = _probe([])[2]
    for words, most in ((["--help"], 12), (["info", str(DATABASE)], 65), (["top", str(DATABASE)], 63)):
        own, opened, seconds = _probe(words)
        yield Finding("startup", f"{words[0]}: own modules imported", own, "modules", at_most=most)
        yield Finding("startup", f"{words[0]}: files opened", opened, "files")
        yield Finding("startup", f"{words[0]}: processor time / that of importing NumPy", seconds / floor)


def _probe(words: Sequence[str]) -> tuple[int, int, float]:
    """Return own modules, files opened and the least processor time of some processes that run a command."""
    runs = []
    around = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    for _ in range(1 + N_REPEATS):  # the first one may compile
        command = [sys.executable, "-c", PROBE, *words]
        done = subprocess.run(command, capture_output=True, text=True, check=True, env=around)
        own, opened, seconds = done.stdout.split()
        runs.append((int(own), int(opened), float(seconds)))
    return runs[-1][0], runs[-1][1], min(seconds for _, _, seconds in runs)
