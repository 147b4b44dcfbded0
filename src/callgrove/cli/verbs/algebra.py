"""The verbs that make an experiment of experiments: `callgrove merge`, `mean`, `common`, `cut`, `part`,
`remap` and `anonymize`.

They have one shape: inputs and OUT, what the operation takes, and what is made of the inputs, written to OUT.
"""

from __future__ import annotations

import argparse
import pathlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from callgrove.cli.options import add_run, add_specification, int_set
from callgrove.cli.parser import Command
from callgrove.cli.results import (
    MatchingOptions,
    ResultOptions,
    add_inputs,
    add_matching,
    add_target,
    open_all,
    open_inputs,
    refuse_result,
    split_target,
    write_result,
)
from callgrove.cli.verbs import convert
from callgrove.errors import count_of

if TYPE_CHECKING:
    from callgrove.algebra.anonymizing import Replacements
    from callgrove.model.experiment import Experiment
    from callgrove.model.runs import IntSet
    from callgrove.model.study.series import Study

CONFLICTS = ("error", "first", "last", "sum")
SEVERAL = "PATH PATH... OUT", "two or more inputs, then the file or folder to write"
ONE = "PATH OUT", "the input, then the file or folder to write"
CALLPATHS = "a name, a call path like main->solve, or a /pattern/; may be repeated"


# -- merge -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class MergeOptions(ResultOptions, MatchingOptions):
    conflict: str
    index: bool

    @property
    def says_how(self) -> bool:
        """Whether it is said what is the same in two inputs, or what becomes of that."""
        return bool(self.ignore) or (self.conflict, self.by, self.system) != ("error", "place", "union")


def add_merge_arguments(parser: argparse.ArgumentParser) -> None:
    add_inputs(parser, *SEVERAL)
    add_run(parser)
    parser.add_argument(
        "--conflict",
        choices=CONFLICTS,
        default="error",
        help="which value to take where several inputs have one in the same place (default: error if they differ)",
    )
    parser.add_argument(
        "--index", action="store_true", help="write a list of databases that are one run to OUT instead of a copy"
    )
    add_matching(parser)
    add_target(parser)


def run_merge(options: MergeOptions) -> int:
    from callgrove.algebra.operations import merge

    paths, target = split_target(options, least=1)
    if options.index:
        return _write_index(options, paths, target)
    refuse_result(target, paths, options)
    if not options.says_how and (whole := _open_as_one(options, paths, target)) is not None:
        return write_result(whole, [whole], target, options)
    split_target(options, least=2)
    inputs = open_all(options, paths)
    made = merge(*inputs, conflict=options.conflict, ignore=options.ignore, by=options.by, system=options.system)
    return write_result(made, inputs, target, options)


def _write_index(options: MergeOptions, paths: list[str], target: str) -> int:
    from pathlib import Path

    from callgrove.binary.files import Source
    from callgrove.cli.messages import note
    from callgrove.cli.results import refuse_target
    from callgrove.errors import UsageError
    from callgrove.formats.interface import Indexes, WriteOptions
    from callgrove.formats.registry import detect, load

    refuse_target(target, paths, overwrite=options.force)
    if options.kernel_names or options.run:
        raise UsageError("--index lists files as they are; give --kernel-names and --run when OUT is read")
    source = Source.of_all(paths)
    format_ = load(options.from_format) if options.from_format else detect(source)[0]
    if not isinstance(format_, Indexes):
        raise UsageError(
            f"{source.path}: --index is for formats in which one run has many databases, not for {format_.name}"
        )
    n_files = format_.write_index(source, Path(target), WriteOptions(overwrite=options.force))
    databases = count_of(n_files, "database; do not move it", "databases, which open as one; do not move them")
    note(f"{target}: lists {databases}")
    return 0


def _open_as_one(options: MergeOptions, paths: list[str], target: str) -> Experiment | None:
    """Open the inputs as one experiment, where they are of a format in which many files are one run; else return None.
    Nothing is matched then: every file is a process of its own."""
    from callgrove.binary.files import Source
    from callgrove.cli.opening import open_experiment
    from callgrove.formats.registry import entry_of, settle_format

    name = options.from_format or settle_format(Source.of(paths[0]))[0].name
    if not entry_of(name).opens_many:
        return None
    fold = _holds_profiles(options.to or _choose_format(target, name))
    return open_experiment(replace(options, paths=paths, from_format=name), fold=fold)


def _choose_format(target: str, default: str) -> str:
    from callgrove.errors import UsageError
    from callgrove.formats.registry import format_for_target

    try:
        return format_for_target(target)
    except UsageError:
        return default


def _holds_profiles(name: str) -> bool:
    """Return whether a format stores profiles; formats of events make one of them whenever they are opened."""
    from callgrove.formats.registry import entry_of

    entry = entry_of(name)
    return not (entry.opens_many or entry.holds_only_traces)


MERGE = Command(MergeOptions, add_merge_arguments, run_merge)


# -- mean --------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class MeanOptions(ResultOptions, MatchingOptions):
    missing: str


def add_mean_arguments(parser: argparse.ArgumentParser) -> None:
    add_inputs(parser, *SEVERAL)
    add_run(parser)
    parser.add_argument(
        "--missing",
        choices=("zero", "skip"),
        default="zero",
        help="divide by the number of inputs, or of those that have a value there (default: zero)",
    )
    add_matching(parser)
    add_target(parser)


def run_mean(options: MeanOptions) -> int:
    from callgrove.algebra.operations import mean

    inputs, target = open_inputs(options, least=2)
    made = mean(*inputs, missing=options.missing, ignore=options.ignore, by=options.by, system=options.system)
    return write_result(made, inputs, target, options)


MEAN = Command(MeanOptions, add_mean_arguments, run_mean)


# -- common ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class CommonOptions(ResultOptions, MatchingOptions):
    fold_visits: bool


def add_common_arguments(parser: argparse.ArgumentParser) -> None:
    add_inputs(parser, *SEVERAL)
    add_run(parser)
    parser.add_argument(
        "--fold-visits",
        action="store_true",
        help="count visits of contexts that are left out as those of their callers",
    )
    add_matching(parser, systems=False)
    add_target(parser)


def run_common(options: CommonOptions) -> int:
    from callgrove.algebra.cutting import common

    inputs, target = open_inputs(options, least=2)
    made = common(*inputs, ignore=options.ignore, by=options.by, fold_visits=options.fold_visits)
    return write_result(made, inputs, target, options)


COMMON = Command(CommonOptions, add_common_arguments, run_common)


# -- cut ---------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class CutOptions(ResultOptions):
    root: Sequence[str]
    prune: Sequence[str]


def add_cut_arguments(parser: argparse.ArgumentParser) -> None:
    add_inputs(parser, *ONE)
    add_run(parser)
    parser.add_argument(
        "--root", metavar="CALLPATH", action="append", default=[], help=f"keep only what is below this: {CALLPATHS}"
    )
    parser.add_argument(
        "--prune", metavar="CALLPATH", action="append", default=[], help=f"remove calls of this: {CALLPATHS}"
    )
    add_target(parser)


def run_cut(options: CutOptions) -> int:
    from callgrove.algebra.cutting import cut

    inputs, target = open_inputs(options, least=1, most=1)
    return write_result(cut(inputs[0], roots=options.root, prunes=options.prune), inputs, target, options)


CUT = Command(CutOptions, add_cut_arguments, run_cut)


# -- part --------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class PartOptions(ResultOptions):
    rank: IntSet | None
    thread: IntSet | None
    invert: bool


def add_part_arguments(parser: argparse.ArgumentParser) -> None:
    add_inputs(parser, *ONE)
    group = parser.add_argument_group("selection")
    for word, plural in (("rank", "ranks"), ("thread", "threads")):
        group.add_argument(f"--{word}", metavar="LIST", type=int_set, help=f"only these {plural}, like 0-3,7,13-")
    add_run(group)
    group.add_argument("--invert", action="store_true", help="keep all others instead")
    add_target(parser)


def run_part(options: PartOptions) -> int:
    from callgrove.algebra.cutting import part
    from callgrove.errors import UsageError
    from callgrove.model.runs import choose_runs

    paths, target = split_target(options, least=1, most=1)
    refuse_result(target, paths, options)
    if options.rank is None and options.thread is None and options.run is None:
        raise UsageError("nothing is selected; choose with --rank, --thread or --run")
    inputs = open_all(replace(options, run=None), paths)  # the whole, of which a part or all others are wanted
    numbers = None if options.run is None else choose_runs(inputs[0].runs, options.run)
    made = part(inputs[0], ranks=options.rank, threads=options.thread, runs=numbers, invert=options.invert)
    return write_result(made, inputs, target, options)


PART = Command(PartOptions, add_part_arguments, run_part)


# -- remap -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class RemapOptions(ResultOptions):
    evaluate: bool


def add_remap_arguments(parser: argparse.ArgumentParser) -> None:
    add_inputs(parser, *ONE)
    add_run(parser)
    group = parser.add_argument_group("metric tree")
    add_specification(group)
    group.add_argument(
        "--evaluate",
        action="store_true",
        help="store values of derived metrics that add up, where OUT would keep their formulas",
    )
    add_target(parser)


def run_remap(options: RemapOptions) -> int:
    inputs, target = open_inputs(replace(options, remap=True), least=1, most=1)
    made = _evaluate(inputs[0]) if options.evaluate else inputs[0]
    attributes = {**made.attributes, "operation": "remap", "inputs": made.path or made.title}
    return write_result(replace(made, attributes=attributes), inputs, target, options)


def _evaluate(experiment: Experiment) -> Experiment:
    """Return the experiment with values in place of formulas that add up; say which stay formulas."""
    from callgrove.cli.messages import note
    from callgrove.formats.writing.writer import some
    from callgrove.model.materialised import is_storable, materialise

    names = {name for name in experiment.metrics.derived if is_storable(experiment, name)}
    kept = [name for name in experiment.metrics.derived if name not in names]
    if kept:
        note(f"{len(kept)} metrics stay formulas, as their values do not add up: {some(kept)}")
    return materialise(experiment, names)


REMAP = Command(RemapOptions, add_remap_arguments, run_remap)


# -- anonymize ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class AnonymizeOptions(convert.Options):
    map: str
    keep: str | None


def add_anonymize_arguments(parser: argparse.ArgumentParser) -> None:
    convert.add_arguments(parser)
    group = parser.add_argument_group("names")
    group.add_argument(
        "--map",
        metavar="FILE",
        default="",
        help="a JSON file with what each name is replaced by; read if it is there, and written with all new ones",
    )
    group.add_argument(
        "--keep",
        metavar="REGEX",
        default=None,
        help="names that stay (default: calls of MPI, OpenMP, pthreads, CUDA, HIP, HSA and NCCL; '' for none)",
    )


def run_anonymize(options: AnonymizeOptions) -> int:
    """Write the input under other names. The map is written last: it is complete, and of a result that is there."""
    from callgrove.algebra.anonymizing import anonymize_experiment, anonymize_study, list_left_out
    from callgrove.cli.messages import note
    from callgrove.model.study.series import Study

    names = _make_replacements(options)

    def change(opened: Experiment | Study) -> Experiment | Study:
        for what in list_left_out(opened):
            note(f"left out: {what}")
        return anonymize_study(opened, names) if isinstance(opened, Study) else anonymize_experiment(opened, names)

    code = convert.run(_settle_target(options), change)
    if options.map:
        _write_map(names, pathlib.Path(options.map))
    return code


def _settle_target(options: AnonymizeOptions) -> AnonymizeOptions:
    """Return the options with the format of the input, where the target's ending names none and it can be written."""
    from callgrove.binary.files import Source
    from callgrove.errors import UsageError
    from callgrove.formats.registry import entry_of, formats_for_target, settle_format

    try:
        if not options.to:
            formats_for_target(options.target)
    except UsageError:
        chosen = settle_format(Source.of(options.inputs[0]), options.from_format)[0].name
        if not entry_of(chosen).writes:
            raise
        return replace(options, to=chosen)
    return options


def _make_replacements(options: AnonymizeOptions) -> Replacements:
    """Return the replacements that a user has, or none yet."""
    import re

    from callgrove.algebra.anonymizing import KEPT_NAMES, Replacements
    from callgrove.errors import UsageError

    keep = KEPT_NAMES if options.keep is None else options.keep
    try:
        re.compile(keep)
    except re.error as error:
        raise UsageError(f"--keep {keep!r}: is not a regular expression: {error}") from error
    return Replacements(_read_map(pathlib.Path(options.map)) if options.map else None, keep)


def _read_map(file: pathlib.Path) -> dict[str, dict[str, str]] | None:
    import json

    from callgrove.errors import InputError

    try:
        known = json.loads(file.read_text("utf-8"))
    except FileNotFoundError:
        return None
    except (ValueError, RecursionError) as error:
        raise InputError(f"{file}: is not JSON: {error}") from error
    texts = known.values() if isinstance(known, dict) else [None]
    if not all(isinstance(one, dict) and all(isinstance(text, str) for text in one.values()) for one in texts):
        raise InputError(f'{file}: is not a map of names; it looks like {{"function": {{"solve": "function_1"}}}}')
    return {kind: dict(told) for kind, told in known.items()}


def _write_map(names: Replacements, file: pathlib.Path) -> None:
    import json

    from callgrove.cli.output import replacing

    with replacing(file) as place:
        place.write_text(json.dumps(names.known, indent=1, ensure_ascii=False) + "\n", "utf-8")


ANONYMIZE = Command(AnonymizeOptions, add_anonymize_arguments, run_anonymize)
