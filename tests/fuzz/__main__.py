"""The fuzzer's command line.

python -m tests.fuzz run --cases 100000          go on until the campaign has had 100,000 cases; Ctrl-C and again
python -m tests.fuzz summary                     its table: counts by format, findings
python -m tests.fuzz flips                       how many flipped bits `check` notices, format by format
python -m tests.fuzz replay FILE.zip ...         ask kept findings again; the exit code says whether any breaks
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

FOLDER = Path("build/fuzz")


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.fuzz", description="Damage inputs of every format, and see what happens."
    )
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run", help="go on with a campaign")
    run.add_argument("--cases", type=int, default=1_000_000, help="until there were so many in all")
    run.add_argument("--seconds", type=float, default=float("inf"), help="for at most so long")
    run.add_argument("--formats", default="", help="comma-separated; all if none is named")
    run.add_argument(
        "--even", choices=("cases", "time"), default="cases", help="what formats get equally much of (cases)"
    )
    run.add_argument("--campaign", type=int, default=0, help="the number that all chance comes from")
    for command in (run, commands.add_parser("summary", help="print the table of a campaign")):
        command.add_argument("--folder", type=Path, default=FOLDER, help=f"where state and findings are ({FOLDER})")
    replay = commands.add_parser("replay", help="ask kept findings again")
    replay.add_argument("files", nargs="+", type=Path)
    flips = commands.add_parser("flips", help="count flipped bits that are noticed")
    flips.add_argument("--flips", type=int, default=300, help="of each format")
    flips.add_argument("--formats", default="", help="comma-separated; all if none is named")
    options = parser.parse_args()
    return {"run": _run, "summary": _summary, "replay": _replay, "flips": _flips}[options.command](options)


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def _run(options: argparse.Namespace) -> int:
    from tests.fuzz.campaign import run_campaign, summarise
    from tests.fuzz.seeds import readable_formats
    from tests.fuzz.server import import_package

    import_package()
    formats = options.formats.split(",") if options.formats else readable_formats()
    campaign = run_campaign(options.folder, options.campaign, options.cases, options.seconds, formats, options.even)
    for line in summarise(campaign):
        _say(line)
    if campaign.n_cases < options.cases:
        _say(f"Stopped after {campaign.n_cases} of {options.cases} cases; the same command goes on.")
    return 1 if campaign.findings else 0


def _summary(options: argparse.Namespace) -> int:
    import json

    from tests.fuzz.campaign import Campaign, summarise

    file = options.folder / "state.json"
    if not file.exists():
        raise SystemExit(f"{file}: there is no campaign here")
    for line in summarise(Campaign.load(options.folder, json.loads(file.read_text())["number"])):
        _say(line)
    return 0


def _flips(options: argparse.Namespace) -> int:
    from tests.fuzz.flips import table_of_flips

    for line in table_of_flips(options.flips, options.formats.split(",") if options.formats else None):
        _say(line)
    return 0


def _replay(options: argparse.Namespace) -> int:
    from tests.fuzz.findings import read_kept
    from tests.fuzz.server import ask_apart, import_package

    import_package()
    n_broken = 0
    for file in options.files:
        with tempfile.TemporaryDirectory() as kept, tempfile.TemporaryDirectory() as scratch:
            path, asked = read_kept(file, Path(kept))
            answer = ask_apart(path, asked, Path(scratch)).answer
        n_broken += answer.finding is not None
        _say(f"{file.name}: {answer.finding.key + ': ' + answer.finding.text if answer.finding else answer.outcome}")
    return 1 if n_broken else 0


if __name__ == "__main__":
    sys.exit(main())
