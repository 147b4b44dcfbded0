"""`callgrove advise`: which points to measure next, what they cost, and how much narrower predictions become."""

from __future__ import annotations

import argparse
import math
from dataclasses import dataclass

from callgrove.cli.options import TableOutput, add_table_output
from callgrove.cli.output import emit_of_study
from callgrove.cli.parser import Command
from callgrove.cli.verbs.scaling.model import ScalingOptions, add_model_options, fit_models, parse_point

__all__ = ["ADVISE"]


@dataclass(frozen=True, kw_only=True)
class AdviseOptions(ScalingOptions, TableOutput):
    at: dict[str, float] | None
    budget: float | None


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_model_options(parser)
    parser.add_argument(
        "--at", type=parse_point, metavar="P=4096", help="where predictions count (default: four times the processes)"
    )
    parser.add_argument(
        "--budget", type=_parse_hours, metavar="CPU-HOURS", help="choose points one after the other that cost no more"
    )
    add_table_output(parser)


def _parse_hours(text: str) -> float:
    try:
        hours = float(text)
    except ValueError:
        hours = math.nan
    if not (math.isfinite(hours) and hours > 0):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of processor hours, like 500")
    return hours


def run(options: AdviseOptions) -> int:
    from callgrove.cli.messages import note
    from callgrove.modeling.advice import advice_table, advise
    from callgrove.modeling.judgement import far_target
    from callgrove.modeling.prediction import target_of

    models = fit_models(options)
    study = models.study
    at = target_of(study, options.at).at if options.at else far_target(study)
    point = ", ".join(f"{name} = {x:g}" for name, x in zip(study.parameters, at.tolist(), strict=True))
    advices = advise(models, at, options.budget)
    if advices and advices[0].strategy == "base":
        note(
            "base: first measure five points along every parameter, the others fixed; "
            "until then costs are those of models of few points"
        )
    elif advices and advices[0].strategy == "add":
        note(
            f"add: no interval is known at {point}, so these are the cheapest points one step beyond those measured; "
            "how much they help is not known"
        )
    elif advices:
        order = "chosen one after the other" if options.budget else "the best for its cost first"
        note(f"narrow: points that narrow the 90% interval at {point}, {order}; widths are upper by lower bound")
    else:
        note(f"no point that was considered narrows the interval at {point} by 2% or more")
    emit_of_study(advice_table(advices, study), study, options)
    return 0


ADVISE = Command(AdviseOptions, add_arguments, run)
