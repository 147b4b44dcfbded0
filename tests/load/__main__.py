"""Long runs by hand; the exit code says whether anything is wrong.

python -m tests.load crowd --processes 300        so many at once on the same inputs, caches and targets
python -m tests.load soak --seconds 3600          random verbs over all samples in one process
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from tests.fuzz.server import import_package
from tests.load.crowd import run_crowd
from tests.load.soak import find_growth, judge_growth, run_soak


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.load", description="Many processes, or a long time.")
    commands = parser.add_subparsers(dest="command", required=True)
    crowd = commands.add_parser("crowd", help="many processes at once")
    crowd.add_argument("--processes", type=int, default=300)
    soak = commands.add_parser("soak", help="one process for a long time")
    soak.add_argument("--seconds", type=float, default=3600.0)
    options = parser.parse_args()
    import_package()
    with tempfile.TemporaryDirectory(prefix="callgrove-load-") as name:
        return _crowd(options.processes, Path(name)) if options.command == "crowd" else _soak(options, Path(name))


def _crowd(n_processes: int, folder: Path) -> int:
    crowd = run_crowd(n_processes, folder)
    for finding in crowd.findings:
        _say(finding)
    _say(f"{crowd.n_processes} processes, {len(crowd.findings)} findings")
    return 1 if crowd.findings else 0


def _soak(options: argparse.Namespace, folder: Path) -> int:
    _say("| verbs | s | resident MB | descriptors | threads | temporary files | cached files | cached MB |")
    _say("|" + "---|" * 8)
    levels = []
    for level in run_soak(options.seconds, folder):
        levels.append(level)
        _say(level.row())
    early, late = judge_growth(levels, lambda level: level.resident_mb)
    _say(f"resident MB, second quarter and last: {early:.1f} and {late:.1f}")
    growth = find_growth(levels)
    for grown in growth:
        _say(grown)
    return 1 if growth else 0


if __name__ == "__main__":
    sys.exit(main())
