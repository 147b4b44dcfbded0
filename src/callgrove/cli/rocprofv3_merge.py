"""`rocprofv3-merge`: databases of many processes as one trace or database, spelt as rocprofv3's users expect it.

    rocprofv3-merge --output-format pftrace --out run.pftrace --in results-1000.db results-1001.db
    rocprofv3-merge --output-format rocpd --out run.db --in results-1000.db results-1001.db

It is `callgrove convert` with other words, and takes the options of its traces as well. Of several formats each writes
OUT with its own ending.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from callgrove.cli.messages import exit_code_of, settle_stdout, tidy_ending
from callgrove.cli.parser import Parser

__all__ = ["main"]

FORMATS = {"pftrace": "perfetto", "json": "chrome-json", "csv": "rocprof-csv", "otf2": "otf2", "rocpd": "rocpd"}
ENDINGS = {"pftrace": ".pftrace", "json": ".json", "otf2": ".otf2", "rocpd": ".db"}  # CSV files begin with OUT instead


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command and gives its exit code."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    debug = "--debug" in arguments
    try:
        with tidy_ending():
            code = _run([word for word in arguments if word != "--debug"])
        sys.stdout.flush()
    except (Exception, KeyboardInterrupt) as error:
        code = exit_code_of(error, debug=debug)
        settle_stdout()
    return code


def _run(arguments: list[str]) -> int:
    from callgrove.cli.messages import note
    from callgrove.cli.options import engine_for
    from callgrove.cli.targets import refuse_target
    from callgrove.cli.verbs.convert import Options, convert, find_unused_options, say_ignored
    from callgrove.execute import executor

    @dataclass(frozen=True, kw_only=True)
    class MergeOptions(Options):
        output_format: Sequence[str]

    parser = Parser("rocprofv3-merge", "databases of many processes as one trace or database")
    _add_arguments(parser)
    try:
        options = parser.read(arguments, MergeOptions)
    except SystemExit:  # argparse has printed the help
        return 0
    say_ignored(options)
    for text in find_unused_options(options, [FORMATS[word] for word in options.output_format]):
        note(text)  # scripts give the same options whatever they write
    each = [(FORMATS[word], target) for word, target in _targets(options.output_format, options.target)]
    for name, target in each:  # before the first one is written
        refuse_target(target, options.paths, [name], overwrite=options.force)
    with executor(engine_for(options, options.paths)) as workers:
        return max(convert(replace(options, target=target), [name], workers) for name, target in each)


def _add_arguments(parser: Parser) -> None:
    from callgrove.cli.options import add_execution, add_salvage
    from callgrove.cli.selecting import add_cutting
    from callgrove.cli.verbs.convert import add_ignored, add_trace_options

    parser.add_argument(
        "--in", dest="paths", metavar="DB", nargs="+", required=True, help="databases, or folders of them"
    )
    parser.add_argument("--out", dest="target", metavar="OUT", required=True, help="the file or folder to write")
    parser.add_argument(
        "--output-format",
        choices=FORMATS,
        nargs="+",
        required=True,
        help="what to write; of several, each gets its own ending",
    )
    parser.add_argument("--force", action="store_true", help="replace OUT if it exists")
    parser.add_argument("--rank-env", metavar="NAME", default="", help="the environment variable that holds the rank")
    parser.add_argument("--strict", action="store_true", help="refuse what is damaged instead of warning")
    add_salvage(parser)
    add_cutting(parser)
    add_trace_options(parser)
    add_execution(parser)
    add_ignored(parser, "accepted and ignored: nothing is buffered, so nothing is dropped")


def _targets(words: Sequence[str], target: str) -> Iterator[tuple[str, str]]:
    """Every format, each once, with the file to write."""
    several = list(dict.fromkeys(words))
    stem = next((target.removesuffix(end) for end in ENDINGS.values() if target.endswith(end)), target)
    for word in several:
        yield word, target if len(several) == 1 else stem + ENDINGS.get(word, "")


if __name__ == "__main__":
    sys.exit(main())
