"""All faults at all calls, by hand; the exit code says whether anything broke.

python -m tests.faults writers                            every call that changes a file, of every writer
python -m tests.faults writers --names cube,rocpd         of some
python -m tests.faults readers                            every call that reads an input, of every format
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from tests.faults import readers, writers
from tests.faults.injection import run
from tests.faults.readers import Reading
from tests.faults.writers import Trial, find_faults, try_fault
from tests.fuzz.server import import_package


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description="Let system calls fail.")
    commands = parser.add_subparsers(dest="command", required=True)
    for name in ("writers", "readers"):
        command = commands.add_parser(name)
        command.add_argument("--names", default="", help="comma-separated; all if none is named")
        command.add_argument("--every", type=int, default=1, metavar="N", help="only every Nth fault (default: all)")
    options = parser.parse_args()
    import_package()
    names = options.names.split(",") if options.names else []
    with tempfile.TemporaryDirectory(prefix="callgrove-faults-") as folder:
        return {"writers": _try_writers, "readers": _try_readers}[options.command](names, Path(folder), options.every)


ENDS = (("killed", "old"), ("killed", "new"), ("killed", "mixed"), ("refused", "old"), ("done", "new"))
COLUMNS = ("writer", "calls", "faults", *map(": ".join, ENDS), "findings", "s")


def _try_writers(names: list[str], folder: Path, every: int) -> int:
    inputs = writers.make_inputs(folder)
    _say(f"| {' | '.join(COLUMNS)} |")
    _say("|" + "---|" * len(COLUMNS))
    findings: list[str] = []
    for writer in writers.WRITERS:
        if not names or writer.name in names:
            findings += _try_writer(writers.Trial(writer, inputs, folder), every)
    return 1 if findings else 0


def _try_writer(trial: Trial, every: int) -> list[str]:
    """Try all faults of a writer, with and without a target that is there already; print a row, and what is wrong."""
    begin, outcomes, findings, n_calls, n_faults = time.monotonic(), Counter[tuple[str, str]](), [], 0, 0
    for fresh in trial.writer.ways:
        calls = trial.calls(fresh=fresh)
        n_calls += len(calls)
        for fault in list(find_faults(calls))[::every]:
            n_faults += 1
            findings += [
                f"{fault}, {'fresh' if fresh else 'replacing'}: {finding}"
                for finding in try_fault(trial, fault, outcomes, fresh=fresh)
            ]
    counts = [outcomes[end] for end in ENDS]
    cells = (trial.writer.name, n_calls, n_faults, *counts, len(findings), f"{time.monotonic() - begin:.0f}")
    _say(f"| {' | '.join(map(str, cells))} |")
    for finding in findings:
        _say(f"    {trial.writer.name}: {finding}")
    return findings


def _try_readers(names: list[str], folder: Path, every: int) -> int:
    _say("| input | calls | faults | same answer | said | refused | findings | s |")
    _say("|" + "---|" * 8)
    findings: list[str] = []
    for reading in readers.make_readings(folder):
        if not names or reading.name in names:
            findings += _try_reader(reading, every)
    return 1 if findings else 0


def _try_reader(reading: Reading, every: int) -> list[str]:
    begin, outcomes, findings = time.monotonic(), Counter[str](), []
    calls = reading.calls()
    sound = run(reading.words())
    faults = list(readers.find_faults(reading, calls))[::every]
    for fault in faults:
        findings += [f"{fault}: {finding}" for finding in readers.try_fault(reading, fault, sound, outcomes)]
    counts = [outcomes[end] for end in ("same", "said", "refused")]
    cells = (reading.name, len(calls), len(faults), *counts, len(findings), f"{time.monotonic() - begin:.0f}")
    _say(f"| {' | '.join(map(str, cells))} |")
    for finding in findings:
        _say(f"    {reading.name}: {finding}")
    return findings


if __name__ == "__main__":
    sys.exit(main())
