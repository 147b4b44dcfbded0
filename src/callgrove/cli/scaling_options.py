"""What `model` and `predict` have in common: options, the choice of series, what is said about models."""

from __future__ import annotations

import argparse
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from callgrove.cli.options import InputOptions, add_study_input

if TYPE_CHECKING:
    from callgrove.modeling.fitting import Models
    from callgrove.modeling.options import ModelOptions

__all__ = ["ScalingOptions", "add_model_options", "fit_models", "parse_point", "say_cautions"]

MODELERS = ("default", "refining", "segmented")
MEASURES = ("mean", "median", "minimum", "maximum")
METHODS = ("extrap",)
SELECTIONS = ("auto", "all", "smallest")


@dataclass(frozen=True, kw_only=True)
class ScalingOptions(InputOptions):
    """The study to open, which of its series are wanted, and how models of them are made."""

    metric: str | None
    callpath: str | None
    times: str | None
    along: str | None
    refit: bool
    stored: str | None
    modeler: str
    measure: str
    method: str
    no_logarithms: bool
    negative_exponents: bool
    powers: str
    logarithms: str
    keep_usual: bool
    only_products: bool
    no_cross_validation: bool
    compare_rss: bool
    point_selection: str
    no_mixed: bool

    def model_options(self) -> ModelOptions:
        """Return what the modeller takes."""
        from callgrove.modeling.options import ModelOptions, parse_exponents

        return ModelOptions(
            modeler=self.modeler,
            measure=self.measure,
            logarithms=not self.no_logarithms,
            negative=self.negative_exponents,
            powers=parse_exponents(self.powers),
            logs=parse_exponents(self.logarithms),
            retain=self.keep_usual,
            combined=self.only_products,
            cross_validation=not self.no_cross_validation,
            compare_with_rss=self.compare_rss,
            selection=self.point_selection,
            mixed=not self.no_mixed,
        )


def parse_point(text: str) -> dict[str, float]:
    """`p=4096,n=1e6` as numbers by name."""
    found: dict[str, float] = {}
    for part in text.split(","):
        name, sign, value = part.rpartition("=")
        name = name.strip()
        try:
            number = float(value)
        except ValueError:
            number = math.nan
        if not (sign and name and math.isfinite(number)) or name in found:
            raise argparse.ArgumentTypeError(f"{text!r} is not a point like p=4096,n=1e6")
        found[name] = number
    return found


def add_model_options(parser: argparse.ArgumentParser) -> None:
    add_study_input(parser)
    chosen = parser.add_argument_group("selection")
    chosen.add_argument("-m", "--metric", metavar="NAME", help="only this metric (default: all)")
    chosen.add_argument("--callpath", metavar="TEXT", help="only call paths that contain this text")
    chosen.add_argument(
        "--times",
        metavar="PARAMETER",
        help="model values times this parameter: with that of processes, their total cost",
    )
    chosen.add_argument("--along", metavar="PARAMETER", help="model as if this were the only parameter")
    _add_fit_options(parser.add_argument_group("modelling"))


def _add_fit_options(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--refit", action="store_true", help="make new models even if the input has some")
    group.add_argument("--stored", metavar="NAME", help="which of the stored sets of models (default: the last)")
    group.add_argument("--modeler", choices=MODELERS, default="default", help="how to search for terms")
    group.add_argument("--measure", choices=MEASURES, default="mean", help="what is modelled (default: mean)")
    group.add_argument("--method", choices=METHODS, default="extrap", help="extrap: the same models as Extra-P")
    group.add_argument("--no-logarithms", action="store_true", help="do not try terms with log2")
    group.add_argument("--negative-exponents", action="store_true", help="also try terms that fall")
    group.add_argument(
        "--powers", metavar="LIST", default="", help="exponents to try instead of the usual ones, like 1/2,1,2"
    )
    group.add_argument(
        "--logarithms", metavar="LIST", default="", help="the same for exponents of logarithms, like 1,2"
    )
    group.add_argument("--keep-usual", action="store_true", help="try the usual exponents besides those given")
    group.add_argument(
        "--only-products", action="store_true", help="of the exponents given, try only powers times logarithms"
    )
    group.add_argument(
        "--no-cross-validation", action="store_true", help="judge terms by the points that they were fitted to"
    )
    group.add_argument("--compare-rss", action="store_true", help="judge terms by RSS instead of SMAPE")
    group.add_argument(
        "--point-selection", choices=SELECTIONS, default="auto", help="which points to use for single parameters"
    )
    group.add_argument("--no-mixed", action="store_true", help="do not try sums of products of parameters")


def fit_models(options: ScalingOptions) -> Models:
    """The models of the study at PATH: those that it stores, or new ones."""
    from callgrove.cli.messages import note
    from callgrove.cli.opening import open_study
    from callgrove.cli.progress import progress
    from callgrove.modeling.options import ModelOptions
    from callgrove.modeling.scaling import falling_parameters
    from callgrove.modeling.stored import models_of, prepare

    study = open_study(options)
    how = options.model_options()
    study = prepare(study, options.along, options.times)
    with progress() as report:
        models = models_of(study, how, options.metric, options.callpath, options.stored, options.refit, report)
    if options.stored is not None or (study.models and not options.refit):
        names = list(dict.fromkeys(model.name for model in study.models))
        others = f" (the last of {len(names)} sets)" if len(names) > 1 and options.stored is None else ""
        ignored = "; options of the modeller do nothing without --refit" if how != ModelOptions() else ""
        note(f"these models are stored in the input{others}; --refit makes new ones{ignored}")
        return models
    if not options.times and study.scaling != "strong":
        for name in falling_parameters(study):
            note(f"costs fall as {name} grows, as in strong scaling; --times {name} models the total of all processes")
    return models


def say_cautions(models: Models) -> None:
    """What to know about the models, on stderr: one line for each reason."""
    from callgrove.cli.messages import note
    from callgrove.errors import worded
    from callgrove.modeling.fitting import count_cautions

    for _, text, numbers in count_cautions(models.cautions):
        first = models.callpath(int(numbers[0]))
        whose = first if len(numbers) == 1 else f"{len(numbers)} of {len(models)} models, such as {first}"
        note(worded(f"{whose}: ", text))
