"""`callgrove explain` and `callgrove why`: a few sentences about a run, and about why another one takes longer."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from callgrove.cli.options import InputOptions, MetricNames, TableOutput, add_format, add_input, add_output, add_run
from callgrove.cli.output import emit, emit_text
from callgrove.cli.parser import Command
from callgrove.errors import UsageError, count_of

if TYPE_CHECKING:
    from callgrove.analysis.explain import Explanation
    from callgrove.model.experiment import Experiment
    from callgrove.model.study.series import Study

FORMATS = ("text", "json", "markdown", "csv")
N_COMPARED = 2


@dataclass(frozen=True, kw_only=True)
class Options(InputOptions, MetricNames, TableOutput):
    metric: str | None

    @property
    def metric_texts(self) -> Sequence[str]:
        """What was given to name metrics."""
        return [] if self.metric is None else [self.metric]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_input(parser, many=True)
    group = parser.add_argument_group("selection")
    told = "explain this metric (default: traces of devices, else the first metric that is a time), or NAME=FORMULA"
    group.add_argument("-m", "--metric", metavar="NAME", help=told)
    add_run(group)
    output = parser.add_argument_group("output")
    add_format(output, FORMATS)
    add_output(output)


def run_explain(options: Options) -> int:
    """Print what there is to know of one input."""
    from callgrove.cli.opening import open_any

    opened = open_any(options)
    return _show(opened.explain(options.metric).naming(options.paths), [opened], options)


def run_why(options: Options) -> int:
    """Print why the second input takes longer than the first."""
    from callgrove.analysis.explain import why
    from callgrove.cli.results import open_all

    if len(options.paths) != N_COMPARED:
        named = count_of(len(options.paths), "is named", "are named")
        raise UsageError(f"two inputs are compared, before and after, and {named}; `callgrove explain` says about one")
    left, right = open_all(options, options.paths)
    return _show(why(left, right, options.metric), [left, right], options)


def _show(explanation: Explanation, inputs: Sequence[Experiment | Study], options: Options) -> int:
    from callgrove.cli.messages import note
    from callgrove.cli.opening import say_damage_met
    from callgrove.model.experiment import Experiment
    from callgrove.render.findings import explanation_markdown, explanation_table, explanation_text

    if options.format in ("text", "markdown"):
        compose = explanation_text if options.format == "text" else explanation_markdown
        emit_text(compose(explanation), options.output)
    else:
        emit(explanation_table(explanation), options)
    for text in explanation.notes:
        note(text)
    return max(say_damage_met(one, options) if isinstance(one, Experiment) else 0 for one in inputs)


EXPLAIN = Command(Options, add_arguments, run_explain)
WHY = Command(Options, add_arguments, run_why)
