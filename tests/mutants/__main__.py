"""A sample of mutants, always the same one: `python -m tests.mutants --mutants 150`.

The score is the share of those that tests noticed, among those that tests reach. Survivors are listed: each is a test
that is missing, or a change that makes no difference. Unreached are those that no test evaluates in its own process
or in one that it forked: commands that tests start from scratch do not meet a mutant.

Which tests reach what is kept in build/mutants (`reaching.py`), and is found out first where that is absent. No map is
made for single mutants: `--only 'operands:120 (TiledValues._tiles)' --tests algebra` gives every mutant whose line
contains that text to all tests of a folder.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter

from tests.fuzz.server import import_package
from tests.mutants.reaching import list_modules, list_tests, make_map, read_map
from tests.mutants.running import (
    KILLED,
    LATE,
    SURVIVED,
    UNDECIDED,
    UNREACHED,
    Trial,
    choose_mutants,
    choose_tests,
    find_named,
    try_mutants,
)
from tests.requirements import ROOT

MAP = ROOT / "build" / "mutants"
SEC = 60.0  # of processor time, for all tests of a folder; mutants may take ten times as long
OUTCOMES = (KILLED, LATE, SURVIVED, UNREACHED, UNDECIDED)


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description="Do the tests notice small defects?")
    parser.add_argument("--mutants", type=int, default=150)
    parser.add_argument("--part", default="", help="of one part only: binary, model, algebra, modeling, record layers")
    parser.add_argument("--module", default="", help="all mutants of the sample that lie in such a module")
    parser.add_argument("--only", default="", help="not a sample, but the mutants whose line contains this; no map")
    parser.add_argument("--tests", default="", help="comma-separated folders of tests; all that may notice if absent")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="for at most so long after the map is made")
    parser.add_argument("--seed", type=int, default=0, help="the number that the sample comes from")
    parser.add_argument("--processes", type=int, default=2)
    options = parser.parse_args()
    import_package()
    begin = time.monotonic()
    folders = [ROOT / "tests" / name for name in options.tests.split(",")]
    files = [file for file in list_tests() if any(folder in (*file.parents, file) for folder in folders)]
    if options.only:
        trials = [Trial(one, [str(file.relative_to(ROOT)) for file in files], SEC) for one in find_named(options.only)]
    else:
        make_map(MAP, options.processes, files)
        reached = read_map(MAP, files)
        _say(
            f"{len(reached.names)} tests in {len(files)} files; the map is there after {time.monotonic() - begin:.0f} s"
        )
        sample = choose_mutants(options.mutants, options.seed, options.part)
        trials = [Trial(one, *choose_tests(reached, one)) for one in sample if one.module.endswith(options.module)]
    mapped = time.monotonic()
    counts: Counter[tuple[str, str]] = Counter()

    def report(trial: Trial) -> None:
        counts[list_modules()[trial.mutant.module][0], trial.outcome] += 1
        if options.only or trial.outcome not in (KILLED, LATE):
            _say(f"{trial.outcome}: {trial.mutant} [{len(trial.tests)} {'files' if options.only else 'tests'}]")

    try_mutants(trials, options.processes, mapped + options.seconds, report)
    _print_table(counts)
    _say(f"{sum(counts.values())} mutants took {time.monotonic() - mapped:.0f} s.")
    n_left = len(trials) - sum(counts.values())
    if n_left:
        _say(f"{n_left} were left when the time was over.")
    return 0


def _print_table(counts: Counter[tuple[str, str]]) -> None:
    _say(f"| part | {' | '.join(OUTCOMES)} | score |")
    _say("|---" * (len(OUTCOMES) + 2) + "|")
    for part in (*sorted({part for part, _ in counts}), "all"):
        n = [sum(n for (name, end), n in counts.items() if end == one and part in (name, "all")) for one in OUTCOMES]
        score = f"{100 * sum(n[:2]) / sum(n[:3]):.0f}%" if sum(n[:3]) else "-"
        _say(f"| {part} | {' | '.join(map(str, n))} | {score} |")


if __name__ == "__main__":
    sys.exit(main())
