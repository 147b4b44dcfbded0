"""`python -m bench [NAME...]`: runs benches and prints what they found. `--write` also makes bench/RESULTS.md."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from fractions import Fraction
from pathlib import Path

from bench.cases import (
    algebra,
    books,
    caliper,
    chrome,
    columnar,
    convert,
    cube,
    derived,
    exports,
    freed_memory,
    gate,
    gpu,
    growth,
    hatchet,
    hpcrun,
    hpctrace,
    info,
    modeling,
    otf2,
    perfetto,
    prof,
    profiles,
    questions,
    report,
    sql,
    stacks,
    startup,
    timeline,
    timeline_index,
    trust,
    values,
    view,
    windows,
)
from bench.conditions import ROOT, Conditions, conditions, run_alone
from bench.results import Finding, as_markdown, as_text, surroundings

BENCHES: dict[str, Callable[[Conditions], Iterator[Finding]]] = {
    "values": values.run,
    "growth": growth.run,
    "profiles": profiles.run,
    "info": info.run,
    "hatchet": hatchet.run,
    "questions": questions.run,
    "hpctrace": hpctrace.run,
    "algebra": algebra.run,
    "hpcrun": hpcrun.run,
    "cube": cube.run,
    "derived": derived.run,
    "gate": gate.run,
    "modeling": modeling.run,
    "trust": trust.run,
    "gpu": gpu.run,
    "freed memory": freed_memory.run,
    "convert": convert.run,
    "books": books.run,
    "exports": exports.run,
    "prof": prof.run,
    "chrome": chrome.run,
    "otf2": otf2.run,
    "caliper": caliper.run,
    "stacks": stacks.run,
    "perfetto": perfetto.run,
    "traces": timeline.run,
    "windows": windows.run,
    "timeline index": timeline_index.run,
    "view": view.run,
    "sql": sql.run,
    "columnar": columnar.run,
    "report": report.run,
    "startup": startup.run,
}
SCALES = "1/16,1/4,1"
RESULTS = ROOT / "bench" / "RESULTS.md"


def main(arguments: Sequence[str] | None = None) -> int:
    """1 if a limit was missed."""
    args = _parser().parse_args(arguments)
    findings: list[Finding] = []
    with conditions(args.scale, args.keep) as where:
        for name in args.names or BENCHES:
            print(f"{name} ...", file=sys.stderr)
            findings += run_alone(BENCHES[name], where)
        shape = where.sparse_rows.with_profiles(where.largest)
    print(as_text(findings))
    if args.json:
        found = {"surroundings": surroundings(), "findings": [asdict(finding) for finding in findings]}
        args.json.write_text(json.dumps(found, indent=1))
    if args.write:
        size = f"{shape.n_profiles:,} profiles, {shape.n_contexts:,} contexts and {shape.n_metrics} metrics"
        before = RESULTS.read_text() if args.names and RESULTS.exists() else ""
        RESULTS.write_text(as_markdown(findings, where.n_repeats, size, before))
    return 0 if all(finding.is_kept for finding in findings) else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench", description="Speed and memory as ratios.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(BENCHES)}; default: all")
    parser.add_argument(
        "--scale", type=_scales, default=SCALES, metavar="LIST", help=f"parts of 1,024 profiles; default: {SCALES}"
    )
    parser.add_argument(
        "--keep", type=Path, metavar="DIR", help="make the databases there, or use those that are there"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the findings there as well")
    parser.add_argument(
        "--write", action="store_true", help="write bench/RESULTS.md; rows of benches that were not run stay"
    )
    return parser


def _scales(text: str) -> tuple[Fraction, ...]:
    return tuple(Fraction(part) for part in text.split(","))


if __name__ == "__main__":
    sys.exit(main())
