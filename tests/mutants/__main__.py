"""A sample of mutants, always the same one: `python -m tests.mutants --mutants 150`.

The score is the share of those that tests noticed. Survivors are listed: each is a test that is missing, or a change
that makes no difference.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter

from tests.fuzz.server import import_package
from tests.mutants.running import KILLED, SURVIVED, UNDECIDED, choose_mutants, find_tests, try_mutant


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description="Do the tests notice small defects?")
    parser.add_argument("--mutants", type=int, default=150)
    parser.add_argument("--seconds", type=float, default=float("inf"), help="for at most so long")
    parser.add_argument("--seed", type=int, default=0, help="the number that the sample comes from")
    options = parser.parse_args()
    import_package()
    counts: Counter[tuple[str, str]] = Counter()
    begin = time.monotonic()
    for mutant in choose_mutants(options.mutants, options.seed):
        if time.monotonic() - begin > options.seconds:
            break
        tests = find_tests(mutant.module)
        if not counts and try_mutant(None, tests[:1]) != SURVIVED:
            raise SystemExit(f"the tests of {mutant.module} fail without any mutant")
        outcome = try_mutant(mutant, tests)
        counts[mutant.module.split(".")[1], outcome] += 1
        if outcome != KILLED:
            _say(f"{outcome}: {mutant}")
    _print_table(counts)
    return 0


def _print_table(counts: Counter[tuple[str, str]]) -> None:
    _say(f"| part | {KILLED} | {SURVIVED} | {UNDECIDED} | score |")
    _say("|---|---|---|---|---|")
    for part in (*sorted({part for part, _ in counts}), "all"):
        outcomes = [
            sum(n for (name, end), n in counts.items() if end == outcome and part in (name, "all"))
            for outcome in (KILLED, SURVIVED, UNDECIDED)
        ]
        score = f"{100 * outcomes[0] / max(1, sum(outcomes[:2])):.0f} %"
        _say(f"| {part} | {' | '.join(map(str, outcomes))} | {score} |")


if __name__ == "__main__":
    sys.exit(main())
