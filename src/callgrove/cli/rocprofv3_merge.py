"""`rocprofv3-merge`: databases of many processes as one trace or database, spelt as rocprofv3's users expect it.

    rocprofv3-merge --output-format pftrace --out run.pftrace --in results-1000.db results-1001.db
    rocprofv3-merge --output-format rocpd --out run.db --in results-1000.db results-1001.db

It is `callgrove convert` with other words, and takes the options of its traces as well. Of several formats each writes
OUT with its own ending.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence

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
    from callgrove.cli.options import add_execution, add_salvage, engine_for
    from callgrove.cli.selecting import add_cutting
    from callgrove.cli.targets import refuse_target
    from callgrove.cli.verbs.convert import add_ignored, add_trace_options, convert, find_unused_options, say_ignored
    from callgrove.execute import executor

    parser = Parser("rocprofv3-merge", "databases of many processes as one trace or database")
    parser.add_argument(
        "--in", dest="paths", metavar="DB", nargs="+", required=True, help="databases, or folders of them"
    )
    parser.add_argument("--out", dest="target", metavar="OUT", required=True, help="the file or folder to write")
    parser.add_argument(
        "--output-format",
        choices=FORMATS,
        nargs="+",
        required=True,
        help="what to write; several get endings of theirs",
    )
    parser.add_argument("--force", action="store_true", help="replace OUT if it is there already")
    parser.add_argument("--rank-env", metavar="NAME", default="", help="the environment variable that holds the rank")
    parser.add_argument("--strict", action="store_true", help="refuse what is damaged instead of warning")
    add_salvage(parser)
    add_cutting(parser)
    add_trace_options(parser)
    add_execution(parser)
    add_ignored(parser, "accepted and ignored: nothing is buffered, so nothing is dropped")
    try:
        args = parser.read(arguments)
    except SystemExit:  # argparse has printed the help
        return 0
    args.dialect, args.from_format, args.scaling, args.study_scope = "", None, None, "exclusive"
    say_ignored(args)
    for text in find_unused_options(args, [FORMATS[word] for word in args.output_format]):
        note(text)  # scripts give the same options whatever they write
    each = list(_each(args))
    for word, one in each:  # before the first one is written
        refuse_target(one.target, args.paths, [FORMATS[word]], overwrite=args.force)
    with executor(engine_for(args, args.paths)) as workers:
        return max(convert(one, [FORMATS[word]], workers) for word, one in each)


def _each(args: argparse.Namespace) -> Iterator[tuple[str, argparse.Namespace]]:
    """Every format, each once, with the arguments to write it."""
    words = list(dict.fromkeys(args.output_format))
    stem = next((args.target.removesuffix(end) for end in ENDINGS.values() if args.target.endswith(end)), args.target)
    for word in words:
        target = args.target if len(words) == 1 else stem + ENDINGS.get(word, "")
        yield word, argparse.Namespace(**{**vars(args), "target": target})


if __name__ == "__main__":
    sys.exit(main())
