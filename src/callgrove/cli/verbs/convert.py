"""`callgrove convert`: an experiment, or a part of it, in another format; and the same as `rocprofv3-merge`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from callgrove.cli.contexts import add_contexts
from callgrove.cli.messages import exit_code_of, settle_stdout, tidy_ending
from callgrove.cli.options import InputOptions, add_study_input, row_limit, workers_for
from callgrove.cli.parser import Command, Parser
from callgrove.cli.selecting import CuttingOptions, add_cutting, cut_costs, is_cut, select_part

if TYPE_CHECKING:
    from callgrove.execute import Workers
    from callgrove.formats.interface import WriteOptions
    from callgrove.model.experiment import Experiment
    from callgrove.model.study.series import Study

__all__ = ["main"]


ANNOTATIONS = ("default", "none", "all")
TRACK_NAMES = ("plain", "rocpd")
IGNORED = (
    "--perfetto-backend",
    "--perfetto-buffer-size",
    "--perfetto-buffer-fill-policy",
    "--perfetto-shmem-size-hint",
)
FLAGS = {  # of fields of WriteOptions
    "annotations": "--annotations",
    "track_names": "--track-names",
    "real_pids": "--real-pids",
    "by_queue": "--group-by-queue",
    "kernel_rename": "--kernel-rename",
    "agent_index": "--agent-index-value",
    "keep_partial": "--keep-partial",
    "limit": "--limit",
}
MANIFEST = ".manifest.json"
MOST_NODES = 80  # of a graph
COSTS_OF_STACKS = ("folded", "speedscope", "pprof", "dot")  # a window of time is that of costs, as in `top`
AGENT_INDICES = ("absolute", "relative", "type-relative")  # AgentIndex


@dataclass(frozen=True, kw_only=True)
class TraceOptions:
    """How traces for viewers are written, and what was said of it that means nothing here."""

    annotations: str
    track_names: str
    real_pids: bool
    by_queue: bool
    kernel_rename: bool
    agent_index: str
    keep_partial: bool
    ignored: Sequence[str]
    limit: int | None = MOST_NODES

    def apply_to(self, options: WriteOptions) -> WriteOptions:
        """Return options of the library in which these are set."""
        return replace(
            options,
            annotations=self.annotations,
            track_names=self.track_names,
            real_pids=self.real_pids,
            by_queue=self.by_queue,
            kernel_rename=self.kernel_rename,
            agent_index=self.agent_index,
            keep_partial=self.keep_partial,
            limit=self.limit,
        )


@dataclass(frozen=True, kw_only=True)
class Options(InputOptions, CuttingOptions, TraceOptions):
    target: str
    force: bool
    record: bool = False
    to: str = ""
    dialect: str = ""
    renamed_models: Sequence[str] = ()
    removed_models: Sequence[str] = ()


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_study_input(parser, many=True)
    parser.add_argument("target", metavar="OUT", help="the file or folder to write; traces may go to stdout (-)")
    parser.add_argument(
        "--to", metavar="FORMAT", default="", help="the format to write (default: by the ending of OUT)"
    )
    parser.add_argument(
        "--dialect",
        default="",
        metavar="NAME",
        help="which variant of the format to write, such as the columns of 2025 or 2026 in CSV files",
    )
    parser.add_argument(
        "--extended",
        dest="dialect",
        action="store_const",
        const="extended",
        help="add columns at the end of CSV files: rank, host, size and bandwidth (short for --dialect extended)",
    )
    parser.add_argument("--force", action="store_true", help="replace OUT if it exists")
    parser.add_argument(
        "--record", action="store_true", help=f"write digests of OUT to OUT{MANIFEST}, for 'check --against'"
    )
    parser.add_argument(
        "--rename-models",
        dest="renamed_models",
        action="append",
        default=[],
        metavar="OLD=NEW",
        help="rename a set of models of a study",
    )
    parser.add_argument(
        "--remove-models",
        dest="removed_models",
        action="append",
        default=[],
        metavar="NAME",
        help="leave a set of models of a study out",
    )
    parser.add_argument(
        "--limit",
        metavar="N",
        type=row_limit,
        default=MOST_NODES,
        help=f"at most N nodes of a graph (dot), or 'all' (default: {MOST_NODES})",
    )
    add_cutting(parser)
    add_contexts(parser)
    add_trace_options(parser)
    add_ignored(parser, argparse.SUPPRESS)


def add_trace_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that say how traces for viewers are written."""
    group = parser.add_argument_group("traces for viewers")
    group.add_argument(
        "--annotations", choices=ANNOTATIONS, default=ANNOTATIONS[0], help="how many details slices have"
    )
    group.add_argument(
        "--track-names",
        choices=TRACK_NAMES,
        default=TRACK_NAMES[0],
        help="how tracks are named: plainly, or as rocprofv3's own converter names them",
    )
    group.add_argument(
        "--group-by-queue", dest="by_queue", action="store_true", help="show operations on queues instead of streams"
    )
    group.add_argument(
        "--kernel-rename", action="store_true", help="name kernels after the range that they were launched in"
    )
    group.add_argument(
        "--agent-index-value",
        dest="agent_index",
        choices=AGENT_INDICES,
        default="",
        help="how devices are numbered: among all in the machine, among those in use, or among those of their kind "
        "(default: relative where names are those of rocprofv3)",
    )
    group.add_argument("--real-pids", action="store_true", help="keep process ids as they were, even if two are equal")
    group.add_argument(
        "--keep-partial", action="store_true", help="keep what was written before an interruption, as OUT.part"
    )


def add_ignored(parser: argparse.ArgumentParser, shown: str) -> None:
    """Add options of rocprofv3's converter that mean nothing here; `shown` is what the help says of them."""
    for word in IGNORED:
        parser.add_argument(
            word, dest="ignored", metavar="X", type=partial(_note_option, word), action="append", default=[], help=shown
        )


def _note_option(word: str, value: str) -> str:
    """Return the name of an option that is ignored: only that it was given matters."""
    return word


def say_ignored(options: TraceOptions) -> None:
    """Say once which ignored options were given."""
    from callgrove.cli.messages import note

    given = [word for word in IGNORED if word in options.ignored]
    if given:
        note(f"{', '.join(given)}: ignored, as there are no buffers that could run full")


def find_unused_options(options: TraceOptions, names: Sequence[str]) -> list[str]:
    """Return a sentence for each option about traces that was given and makes no difference to any of these formats."""
    from callgrove.formats.interface import WriteOptions
    from callgrove.formats.registry import all_formats, entry_of

    usual, heeded = WriteOptions(), {field for name in names for field in entry_of(name, to_write=True).write_options}
    asked = options.apply_to(usual)
    given = [field for field in FLAGS if getattr(asked, field) != getattr(usual, field)]
    return [
        f"{FLAGS[field]} makes no difference to {' or '.join(names)}; "
        f"it is for {', '.join(entry.name for entry in all_formats() if field in entry.write_options)}"
        for field in given
        if field not in heeded
    ]


def _refuse_unused(options: Options, names: Sequence[str]) -> None:
    from callgrove.errors import UsageError

    if unused := find_unused_options(options, names):
        raise UsageError(unused[0])


Change = Callable[["Experiment | Study"], "Experiment | Study"]


def _change_nothing(opened: Experiment | Study) -> Experiment | Study:
    return opened


def run(options: Options, change: Change = _change_nothing) -> int:
    """Convert the input; what the target cannot hold is said on stderr, one line each."""
    from callgrove.errors import UsageError
    from callgrove.formats.registry import formats_for_target

    if not options.inputs:
        raise UsageError(f"needs one input or more and an OUT, found {options.target}")
    say_ignored(options)
    names = [options.to] if options.to else formats_for_target(options.target)
    _refuse_unused(options, names)
    with workers_for(options, options.inputs) as workers:
        return convert(options, names, workers, change)


def convert(options: Options, names: list[str], workers: Workers, change: Change = _change_nothing) -> int:
    """Write the input of a verb in one of some formats: for series over parameters, or for executions. `change` makes
    what is written of what was opened and selected."""
    from callgrove.cli.messages import progress, say_losses
    from callgrove.cli.opening import as_study, say_run_values
    from callgrove.cli.results import refuse_target
    from callgrove.errors import IncompleteResult, UsageError
    from callgrove.formats.interface import WriteOptions, Writes
    from callgrove.formats.registry import check_dialect, entry_of, writer_of
    from callgrove.formats.writing.transfer import write_experiment
    from callgrove.model.experiment import Experiment

    for name in names:
        writer_of(name)
        check_dialect(name, options.dialect if len(names) == 1 else "")
    refuse_target(options.target, options.inputs, names, overwrite=options.force)
    _refuse_record(options)
    if options.no_traces and all(entry_of(name).holds_only_traces for name in names):
        raise UsageError(f"--no-traces leaves nothing: {names[0]} holds traces and nothing else")
    opened = _open_input(options, names, workers)
    name = _choose_format(opened, names)
    if len(names) > 1:
        _refuse_unused(options, [name])
    format_, dialect = writer_of(name), check_dialect(name, options.dialect)
    if isinstance(opened, Experiment):
        if name in COSTS_OF_STACKS:
            opened = cut_costs(opened, options)
            options = replace(options, window=None, start_marker="", end_marker="")
        opened = select_part(opened, options)
    elif is_cut(options):
        raise UsageError(
            f"{options.input_name}: holds series over parameters, which have no ranks, threads or traces to choose"
        )
    if not isinstance(format_, Writes):  # it holds series: an experiment with runs becomes them
        opened = as_study(opened, options)
        say_run_values(opened, options)
    opened = change(_change_model_sets(opened, options))
    with progress() as report:
        how = options.apply_to(WriteOptions(dialect, options.force, report, workers=workers))
        lost = write_experiment(opened, format_, Path(options.target), how)
    if options.record:
        _record_digests(Path(options.target))
    say_losses(lost, options.target, strict=options.strict)
    if isinstance(opened, Experiment) and opened.values.problems and options.strict:
        raise IncompleteResult(f"{options.target}: was written without what is damaged in {options.input_name}")
    return 0


def _refuse_record(options: Options) -> None:
    """Refuse digests of what is not a file or folder by itself, before anything is written."""
    from callgrove.errors import UsageError
    from callgrove.formats.writing.targets import refuse_existing

    if options.record and options.target == "-":
        raise UsageError("--record: what goes to stdout has no digests; name OUT")
    if options.record:
        refuse_existing(Path(options.target + MANIFEST), options.force)


def _record_digests(target: Path) -> None:
    from callgrove.binary.manifest import take_digests, write_manifest
    from callgrove.cli.messages import note
    from callgrove.cli.output import replacing

    manifest = target.with_name(target.name + MANIFEST)
    if not target.exists():
        note(f"{manifest}: not written, as {target} is not one file or folder")
        return
    manifest.unlink(missing_ok=True)  # where a new one cannot be written, none is better than one of another OUT
    with replacing(manifest) as place:
        write_manifest(take_digests(target), place)


def _change_model_sets(opened: Experiment | Study, options: Options) -> Experiment | Study:
    """Return a study whose sets of models are renamed and left out as the options say."""
    from callgrove.errors import UsageError
    from callgrove.model.experiment import Experiment
    from callgrove.modeling.stored_models import remove_models, rename_models

    if not (options.renamed_models or options.removed_models):
        return opened
    if isinstance(opened, Experiment):
        raise UsageError(f"{options.input_name}: holds an execution, which has no models to rename or remove")
    for name in options.removed_models:
        opened = remove_models(opened, name)
    for text in options.renamed_models:
        old, sign, new = text.partition("=")
        if not (sign and new):
            raise UsageError(f"{text!r} is not OLD=NEW")
        opened = rename_models(opened, old, new)
    return opened


def _open_input(options: Options, names: list[str], workers: Workers) -> Experiment | Study:
    """Open the input. Where a name's ending stands for traces and for series, only runs with parameters need a
    profile."""
    from callgrove.cli.opening import open_any
    from callgrove.formats.registry import entry_of
    from callgrove.model.experiment import Experiment

    only_traces = [entry_of(name).holds_only_traces for name in names]
    ambiguous = len({entry_of(name).holds_series for name in names}) > 1 and any(only_traces)
    opened = open_any(options, fold=not (ambiguous or all(only_traces)), contexts=False, workers=workers)
    if ambiguous and isinstance(opened, Experiment) and _has_points(opened):
        opened = open_any(options, notes=False, contexts=False, workers=workers)
    return opened


def _has_points(experiment: Experiment) -> bool:
    return any(run.parameters for run in experiment.runs)


def _choose_format(opened: Experiment | Study, names: list[str]) -> str:
    """Return, of several formats that an ending may mean, the one for series where the input has some."""
    from callgrove.formats.registry import entry_of
    from callgrove.model.study.series import Study

    series = isinstance(opened, Study) or _has_points(opened)
    return next((name for name in names if entry_of(name).holds_series == series), names[0])


CONVERT = Command(Options, add_arguments, run)


# -- `rocprofv3-merge` -------------------------------------------------------------------------------------------------
#     rocprofv3-merge --output-format pftrace --out run.pftrace --in results-1000.db results-1001.db
#     rocprofv3-merge --output-format rocpd --out run.db --in results-1000.db results-1001.db
#
# It is `callgrove convert` with other words, and takes the options of its traces as well. Of several formats each
# writes OUT with its own ending.


FORMATS = {"pftrace": "perfetto", "json": "chrome-json", "csv": "rocprof-csv", "otf2": "otf2", "rocpd": "rocpd"}
ENDINGS = {"pftrace": ".pftrace", "json": ".json", "otf2": ".otf2", "rocpd": ".db"}  # CSV files begin with OUT instead


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code."""
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
    from callgrove.cli.options import enter_cluster

    @dataclass(frozen=True, kw_only=True)
    class MergeOptions(Options):
        output_format: Sequence[str]

    parser = Parser("rocprofv3-merge", "databases of many processes as one trace or database")
    _add_arguments(parser)
    try:
        options = parser.read(arguments, MergeOptions)
    except SystemExit:  # argparse has printed the help
        return 0
    with enter_cluster(options) as ready:
        return _merge(ready, ready.output_format)


def _merge(options: Options, words: Sequence[str]) -> int:
    """Write the databases in each of some formats."""
    from callgrove.cli.messages import note
    from callgrove.cli.results import refuse_target

    say_ignored(options)
    for text in find_unused_options(options, [FORMATS[word] for word in words]):
        note(text)  # scripts give the same options whatever they write
    each = [(FORMATS[word], target) for word, target in _name_targets(words, options.target)]
    for name, target in each:  # before the first one is written
        refuse_target(target, options.paths, [name], overwrite=options.force)
    with workers_for(options, options.paths) as workers:
        return max(convert(replace(options, target=target), [name], workers) for name, target in each)


def _add_arguments(parser: Parser) -> None:
    from callgrove.cli.contexts import add_kind
    from callgrove.cli.options import add_execution, add_salvage
    from callgrove.cli.selecting import add_cutting

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
    add_kind(parser)
    add_trace_options(parser)
    add_execution(parser)
    add_ignored(parser, "accepted and ignored: nothing is buffered, so nothing is dropped")


def _name_targets(words: Sequence[str], target: str) -> Iterator[tuple[str, str]]:
    """Yield every format once, with the file to write."""
    several = list(dict.fromkeys(words))
    endings = (*ENDINGS.values(), ".csv")
    stem = next((target.removesuffix(end) for end in endings if target.endswith(end)), target)
    for word in several:
        alone = len(several) == 1 and word in ENDINGS
        yield word, target if alone else stem + ENDINGS.get(word, "")


if __name__ == "__main__":
    sys.exit(main())
