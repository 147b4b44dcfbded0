"""The verbs about scaling: `callgrove model` (costs as functions of the parameters) and `predict` (costs at a scale not
measured).
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from callgrove.cli.options import (
    TABLE_FORMATS,
    InputOptions,
    MetricNames,
    TableOutput,
    add_derive,
    add_remap,
    add_study_input,
    add_table_output,
    workers_for,
)
from callgrove.cli.output import emit_of_study
from callgrove.cli.parser import Command

if TYPE_CHECKING:
    from callgrove.arrays import Floats
    from callgrove.model.study.series import Study
    from callgrove.model.table import Column, Table
    from callgrove.modeling.fitting import Models
    from callgrove.modeling.options import ModelOptions

__all__ = ["ScalingOptions", "add_model_options", "fit_models", "parse_point", "say_cautions"]


# -- what both have in common ------------------------------------------------------------------------------------------


MODELERS = ("default", "refining", "segmented")
MEASURES = ("mean", "median", "minimum", "maximum")
METHODS = ("extrap", "improved")
SELECTIONS = ("auto", "all", "smallest")
RANKINGS = ("growth", "share", "loss")
AGGREGATIONS = ("sum", "maximum")
ADDED_METRICS = ("energy", "intensity")
N_RANKED = 6  # of which crossings are said, and curves drawn


@dataclass(frozen=True, kw_only=True)
class ScalingOptions(InputOptions, MetricNames):
    """The study to open, which of its series are wanted, and how models of them are made."""

    metric: str | None
    callpath: str | None
    times: str | None
    along: str | None
    aggregate: str
    added_metrics: Sequence[str]
    refit: bool
    stored: str | None
    modeler: str
    measure: str | None
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

    @property
    def metric_texts(self) -> Sequence[str]:
        """What was given to name metrics."""
        return [] if self.metric is None else [self.metric]

    def name_metric(self, known: Sequence[str]) -> str | None:
        """Return what -m names: one that is known, or the one that it defines."""
        from callgrove.model.definitions import find_defined_name

        return (
            self.metric
            if self.metric is None or self.metric in known
            else find_defined_name(self.metric) or self.metric
        )

    def model_options(self) -> ModelOptions:
        """Return what the modeller takes."""
        from callgrove.modeling.options import DETECTED, ModelOptions, parse_exponents

        return ModelOptions(
            modeler=self.modeler,
            measure=self.measure or (DETECTED if self.method == "improved" else "mean"),
            method=self.method,
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
    """Parse `p=4096,n=1e6` into numbers by name."""
    point: dict[str, float] = {}
    for part in text.split(","):
        name, sign, value = part.rpartition("=")
        name = name.strip()
        try:
            number = float(value)
        except ValueError:
            number = math.nan
        if not (sign and name and math.isfinite(number)) or name in point:
            raise argparse.ArgumentTypeError(f"{text!r} is not a point like p=4096,n=1e6")
        point[name] = number
    return point


def add_model_options(parser: argparse.ArgumentParser) -> None:
    add_study_input(parser)
    add_remap(parser)
    chosen = parser.add_argument_group("selection")
    named = "only this metric, or NAME=FORMULA, as in --derive (default: all)"
    chosen.add_argument("-m", "--metric", metavar="NAME", help=named)
    add_derive(chosen)
    chosen.add_argument("--callpath", metavar="TEXT", help="only call paths that contain this text")
    chosen.add_argument(
        "--times",
        metavar="PARAMETER",
        help="model values times this parameter: with that of processes, their total cost",
    )
    chosen.add_argument("--along", metavar="PARAMETER", help="model as if this were the only parameter")
    chosen.add_argument(
        "--aggregate",
        choices=AGGREGATIONS,
        default="",
        help="model what each call path has with all below it: the sum of their measurements, or the largest",
    )
    chosen.add_argument(
        "--with",
        dest="added_metrics",
        choices=ADDED_METRICS,
        action="append",
        default=[],
        help="add a metric: energy (the sum of energy_cpu and the like), or intensity (operations by bytes of memory)",
    )
    _add_fit_options(parser.add_argument_group("modelling"))


def _add_fit_options(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--refit", action="store_true", help="make new models even if the input has some")
    group.add_argument("--stored", metavar="NAME", help="which of the stored sets of models (default: the last)")
    group.add_argument("--modeler", choices=MODELERS, default="default", help="how to search for terms")
    group.add_argument("--measure", choices=MEASURES, help="what is modelled (default: mean)")
    group.add_argument(
        "--method",
        choices=METHODS,
        default="extrap",
        help="extrap: the same models as Extra-P; improved: those that most evidence speaks for, beside Extra-P's",
    )
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
    """Return the models of the study at PATH: those that it stores, or new ones."""
    from callgrove.cli.messages import note, progress
    from callgrove.cli.opening import open_study
    from callgrove.modeling.options import ModelOptions
    from callgrove.modeling.prediction import models_of, prepare
    from callgrove.modeling.scaling import falling_parameters

    study = _do_arithmetic(open_study(options), options)
    how = options.model_options()
    study = prepare(study, options.along, options.times)
    with progress() as report, workers_for(options, options.inputs, ["callgrove.modeling.fitting"]) as workers:
        name = options.name_metric(study.metrics)
        models = models_of(study, how, name, options.callpath, options.stored, options.refit, report, workers)
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


def _do_arithmetic(study: Study, options: ScalingOptions) -> Study:
    """Return the study with further metrics, and with series that stand for everything below, as the options say."""
    from callgrove.model.study.arithmetic import add_intensity, add_total_energy, aggregate

    for name in dict.fromkeys(options.added_metrics):
        study = add_total_energy(study) if name == "energy" else add_intensity(study)
    return aggregate(study, options.aggregate) if options.aggregate else study


def say_cautions(models: Models) -> None:
    """Say on stderr what to know about the models: one line for each reason."""
    from callgrove.cli.messages import note
    from callgrove.errors import compose_text
    from callgrove.modeling.fitting import count_cautions

    for _, text, numbers in count_cautions(models.cautions):
        first = models.callpath(int(numbers[0]))
        whose = first if len(numbers) == 1 else f"{len(numbers)} of {len(models)} models, such as {first}"
        note(compose_text(f"{whose}: ", text))


# -- model -------------------------------------------------------------------------------------------------------------


EXPRESSIONS = ("python", "latex")
CHARTS = ("curves", "heat", "surface")
EMPTY_PICTURE = '<svg xmlns="http://www.w3.org/2000/svg" width="1" height="1"/>'


@dataclass(frozen=True, kw_only=True)
class ModelVerbOptions(ScalingOptions, TableOutput):
    subtrees: bool
    runner_ups: bool
    at: dict[str, float] | None
    expression: Sequence[str]
    plot: str | None
    chart: str
    print_as: str
    rank_by: str | None
    noise_floor: float | None
    processes: str | None
    save: str | None
    set_name: str
    force: bool

    @property
    def files(self) -> Mapping[str, str | None]:
        """The files to write, by option."""
        return {**super().files, "--plot": self.plot}


def add_model_arguments(parser: argparse.ArgumentParser) -> None:
    add_model_options(parser)
    shown = parser.add_argument_group("what is shown")
    shown.add_argument(
        "--subtrees", action="store_true", help="show each call path with everything below it: sums of the models"
    )
    shown.add_argument(
        "--runner-ups", action="store_true", help="show all functions that fit one series nearly as well"
    )
    shown.add_argument(
        "--at", type=parse_point, metavar="P=4096", help="the point at which models are judged, and that plots reach"
    )
    shown.add_argument(
        "--expression", choices=EXPRESSIONS, action="append", default=[], help="add a column with the function as code"
    )
    shown.add_argument(
        "--rank-by",
        choices=RANKINGS,
        help="what did not scale: the call paths that grow most, cost most or lose most at --at, and where costs cross",
    )
    add_ranking_options(shown)
    shown.add_argument(
        "--plot", metavar="FILE", help="draw one series and its model, or with --rank-by several: .svg, .png or .pdf"
    )
    shown.add_argument(
        "--chart",
        choices=CHARTS,
        default=CHARTS[0],
        help="what --plot draws: curves (default); of two parameters a heat map with contours, or a surface",
    )
    shown.add_argument(
        "--print",
        dest="print_as",
        metavar="FORMAT",
        default="",
        help="print models as Extra-P does: all, functions, ..., or a format string like '{callpath}: {model}'",
    )
    shown.add_argument("--save", metavar="FILE", help="also write the study with its models, like study.extra-p")
    shown.add_argument(
        "--set-name", default="", metavar="NAME", help="the name of the set of models in the FILE of --save"
    )
    shown.add_argument("--force", action="store_true", help="replace the FILE of --save if it exists")
    add_table_output(parser, formats=(*TABLE_FORMATS, "extrap"))


def add_ranking_options(group: argparse._ActionsContainer) -> None:
    group.add_argument(
        "--processes", metavar="PARAMETER", help="the parameter that counts processes (default: known by its name)"
    )
    group.add_argument(
        "--noise-floor",
        type=parse_percent,
        metavar="PERCENT",
        help="set apart what stays below this part of the run (default: what repetitions differ by)",
    )


def run_model(options: ModelVerbOptions) -> int:
    from callgrove.cli.opening import say_run_values

    if options.save:
        _refuse_saving(options.save, options)
    _refuse_chart(options)
    if options.plot:
        _refuse_plot(options.plot)
    models = fit_models(options)
    say_cautions(models)
    if options.save:
        _save(models, options.save, options)
    if options.rank_by:
        return _rank(models, options)
    if options.plot or options.print_as or options.format == "extrap":
        say_run_values(models.study, options)
        return _plot(models, options.plot, options) if options.plot else _print_report(models, options)
    if options.runner_ups:
        _only(models, "--runner-ups")
    _say_target(models, options)
    if options.runner_ups or options.subtrees or options.limit is None:
        emit_of_study(_make_tables(models, options), models.study, options)
    else:  # thousands of functions are not written out for a few rows
        first = _take_first(models, options.limit + 1)
        emit_of_study(_make_tables(first, options), models.study, options, len(models))
    return 0


def _rank(models: Models, options: ModelVerbOptions) -> int:
    """Print what did not scale, the worst first, and say where one cost overtakes another; draw it where asked."""
    from callgrove.cli.messages import note
    from callgrove.modeling.judgement import far_target
    from callgrove.modeling.prediction import target_of
    from callgrove.modeling.ranking import find_crossings, rank, whole_run

    study = models.study
    point = options.at or dict(zip(study.parameters, far_target(study).tolist(), strict=True))
    target = target_of(study, point)
    table = rank(models, target, options.rank_by or "", options.subtrees, options.processes, options.noise_floor)
    _say_target(models, options)
    for metric, base, at in whole_run(models, target):
        growth = f" ({at / base:.4g} times)" if base > 0 else ""
        note(f"all models of {metric or '<default>'}: {base:.4g} at the smallest point, {at:.4g} there{growth}")
    say_apart(table, options.noise_floor)
    numbers = _numbers_of(models, table)[:N_RANKED]
    for crossing in find_crossings(models, target, numbers):
        note(str(crossing))
    if options.plot and numbers:
        _plot_ranking(models, _choose_metric(models, _numbers_of(models, table)), target.at, options)
    emit_of_study(_format_ranking(table) if options.is_for_people else table, models.study, options)
    return 0


def _choose_metric(models: Models, numbers: Sequence[int]) -> list[int]:
    """Return those of the models that one axis has a place for: of time where there is any, else of the first metric,
    which is said."""
    from callgrove.cli.messages import note

    metrics = list(dict.fromkeys(map(models.metric, numbers)))
    chosen = next((name for name in metrics if name.lower() == "time"), metrics[0])
    if len(metrics) > 1:
        note(f"the plot shows {chosen or '<default>'}, one of {len(metrics)} metrics; -m chooses another")
    return [number for number in numbers if models.metric(number) == chosen]


def _numbers_of(models: Models, table: Table) -> list[int]:
    """Return the models of rows that are not set apart, in their order."""
    number = {(models.callpath(n), models.metric(n)): n for n in range(len(models))}
    keys = zip(table["callpath"], table["metric"], table["apart"], strict=True)
    return [number[path, metric] for path, metric, apart in keys if apart is None and (path, metric) in number]


def _format_ranking(table: Table) -> Table:
    from callgrove.model.table import Table

    shown = format_predictions(table)
    place = list(shown.names).index("growth")
    return Table((*shown.columns[:place], table.column("loss"), *shown.columns[place:]), table.left)


def _say_target(models: Models, options: ModelVerbOptions) -> None:
    """Say where models are judged, or what runner-ups predict."""
    from callgrove.cli.messages import note

    where = _at(models, options)
    point = ", ".join(f"{name} = {x:g}" for name, x in zip(models.study.parameters, where.tolist(), strict=True))
    what = "predictions are those" if options.runner_ups else "trust is that of predictions"
    note(f"{what} at {point}{'' if options.at else '; --at chooses another point'}")


def _take_first(models: Models, n: int) -> Models:
    import numpy as np

    return models.take(np.arange(n)) if n < len(models) else models


def _make_tables(models: Models, options: ModelVerbOptions) -> Table | Iterable[Table]:
    from callgrove.modeling.model_tables import model_tables, subtree_table
    from callgrove.modeling.prediction import fit_beside, runner_ups

    if options.runner_ups:
        return _keep_whole(runner_ups(models, _only(models, "--runner-ups"), _at(models, options)))
    if options.subtrees:
        return _format_table(subtree_table(models, _choose_styles(options), _at(models, options)), options)
    tables = model_tables(models, _choose_styles(options), _at(models, options), fit_beside(models))
    return (_format_table(table, options) for table in tables)


def _choose_styles(options: ModelVerbOptions) -> list[str]:
    people = ["short"] if options.is_for_people else []
    return [*people, *dict.fromkeys(options.expression)]


def _format_table(table: Table, options: ModelVerbOptions) -> Table:
    """Return, for people, fewer columns and functions with four digits. Data is given as it is, with flags in its
    warnings."""
    from callgrove.cli.messages import with_flags
    from callgrove.model.table import Column, Table
    from callgrove.render.text_formats import Formula, Whole

    if not options.is_for_people:
        spelled = [
            Column("warnings", [[with_flags(text) for text in texts] for texts in column.values])
            if column.name == "warnings"
            else column
            for column in table.columns
        ]
        return Table(tuple(spelled), table.left)
    columns = [
        Column("callpath", table.column("callpath").values),
        Column("metric", [name or "<default>" for name in table.column("metric").plain()]),
    ]
    if not options.expression:
        columns.append(Whole("function", table.column("short").values))
    kinds = {"latex": Formula}
    columns += [kinds.get(name, Whole)(name, table.column(name).values) for name in dict.fromkeys(options.expression)]
    columns.append(Whole("order", table.column("order").values))
    columns += [table.column(name) for name in ("probability", "smape", "ar2", "models") if name in table.names]
    columns += [Whole(name, table.column(name).values) for name in table.names if name.startswith("function_")]
    columns += format_judgement(table)
    return Table(tuple(columns), table.left)


def format_judgement(table: Table) -> list[Column]:
    """Return, for people, the noise, the measured share, and how far to trust a row, which is never left out."""
    from callgrove.cli.output import grade_trust
    from callgrove.render.text_formats import Whole

    columns: list[Column] = []
    for name, factor in (("noise", 100.0), ("run_share", 1.0)):
        if name in table.names and any(value is not None for value in table.column(name).plain()):
            shares = table.column(name).plain()
            columns.append(Whole(name, ["" if v is None else f"{v * factor:.3g}%" for v in shares]))
    if "trust" in table.names:
        columns.append(grade_trust("trust", table["trust"]))
        columns.append(Whole("reason", table["reason"]))
    return columns


def _keep_whole(table: Table) -> Table:
    """Return the table with functions and their orders in full, however narrow the terminal."""
    from dataclasses import replace

    from callgrove.render.text_formats import Whole

    columns = (Whole(c.name, c.values) if c.name in ("function", "order") else c for c in table.columns)
    return replace(table, columns=tuple(columns))


def _only(models: Models, option: str) -> int:
    from callgrove.errors import UsageError

    if len(models) != 1:
        raise UsageError(f"{option} shows one series, and {len(models)} are chosen; choose with --callpath and -m")
    return 0


def _at(models: Models, options: ModelVerbOptions) -> Floats:
    """Return the point where models are judged."""
    from callgrove.modeling.judgement import far_target
    from callgrove.modeling.prediction import target_of

    return target_of(models.study, options.at).at if options.at else far_target(models.study)


def _plot(models: Models, target: str, options: ModelVerbOptions) -> int:
    from callgrove.modeling.prediction import curves_of
    from callgrove.modeling.surfaces import surface_of
    from callgrove.render.plots import model_plot
    from callgrove.render.surface_plots import draw_heat_map, draw_surface

    number, at = _only(models, "--plot"), _at(models, options) if options.at else None
    if options.chart == "curves":
        _write_picture(model_plot(curves_of(models, number, at)), target)
    else:
        surface = surface_of(models, number, at)
        _write_picture(draw_heat_map(surface) if options.chart == "heat" else draw_surface(surface), target)
    return 0


def _plot_ranking(models: Models, numbers: Sequence[int], at: Floats, options: ModelVerbOptions) -> None:
    """Draw what did not scale: curves, or of two parameters a map of what costs most where."""
    from callgrove.modeling.ranking import make_ranked_curves
    from callgrove.modeling.surfaces import dominance_of
    from callgrove.render.plots import model_plot
    from callgrove.render.surface_plots import draw_dominance

    if options.chart == "curves":
        _write_picture(model_plot(make_ranked_curves(models, numbers, at)), options.plot or "")
    else:
        _write_picture(draw_dominance(dominance_of(models, numbers[:N_RANKED], at)), options.plot or "")


def _write_picture(svg: str, target: str) -> None:
    from pathlib import Path

    from callgrove.cli.output import replacing
    from callgrove.render.plots import draw_svg, picture_format

    content = draw_svg(svg, picture_format(target))
    with replacing(Path(target)) as path:
        path.write_bytes(content)


def _print_report(models: Models, options: ModelVerbOptions) -> int:
    from callgrove.cli.output import emit_text
    from callgrove.render.extrap_print import print_models

    emit_text(print_models(models, options.print_as or "all"), options.output)
    return 0


def _refuse_chart(options: ModelVerbOptions) -> None:
    from callgrove.errors import UsageError

    if options.chart == "surface" and options.rank_by:
        raise UsageError("--chart surface draws one model; with --rank-by there are curves, and heat for a map")
    if options.chart != CHARTS[0] and not options.plot:
        raise UsageError(f"--chart {options.chart} is what --plot FILE draws; name the file")


def _refuse_plot(target: str) -> None:
    """Refuse, before models are made, a picture of an unknown kind, or one that needs a package that is missing."""
    from callgrove.render.plots import draw_svg, picture_format

    draw_svg(EMPTY_PICTURE, picture_format(target))


def _refuse_saving(target: str, options: ModelVerbOptions) -> None:
    """Refuse, before models are made, a file that cannot be written: making them may take long."""
    from callgrove.cli.results import refuse_target
    from callgrove.errors import UsageError
    from callgrove.formats.interface import WritesStudies
    from callgrove.formats.registry import format_for_target, writer_of

    name = format_for_target(target, series=True)
    if not isinstance(writer_of(name), WritesStudies):
        raise UsageError(f"{target}: series over parameters cannot be written as {name}; see `callgrove formats`")
    refuse_target(target, options.inputs, [name], overwrite=options.force)


def _save(models: Models, target: str, options: ModelVerbOptions) -> None:
    from pathlib import Path

    from callgrove.cli.messages import note
    from callgrove.errors import compose_text
    from callgrove.formats.interface import WriteOptions
    from callgrove.formats.registry import format_for_target, writer_of
    from callgrove.formats.writing.transfer import write_experiment
    from callgrove.modeling.stored_models import NAME, with_models

    name = options.set_name or NAME
    study = with_models(models.study, models, name)
    format_ = writer_of(format_for_target(target, series=True))
    lost = write_experiment(study, format_, Path(target), WriteOptions(overwrite=options.force))
    if n_lost := len(models) - sum(model.name == name for model in study.models):
        note(f"lost: {n_lost:,} series without a model")
    for loss in lost.lines:
        note(compose_text("lost: ", loss))


MODEL = Command(ModelVerbOptions, add_model_arguments, run_model)


# -- predict -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class PredictOptions(ScalingOptions, TableOutput):
    at: dict[str, float]
    subtrees: bool
    processes: str | None
    noise_floor: float | None


def add_predict_arguments(parser: argparse.ArgumentParser) -> None:
    add_model_options(parser)
    parser.add_argument(
        "--at", type=parse_point, required=True, metavar="P=4096,N=1e6", help="the point: a value for every parameter"
    )
    parser.add_argument("--subtrees", action="store_true", help="show each call path with everything below it")
    add_ranking_options(parser)
    add_table_output(parser, limit=20)


def parse_percent(text: str) -> float:
    """Parse `0.5` or `0.5%`."""
    try:
        number = float(text.removesuffix("%"))
    except ValueError:
        number = math.nan
    if not 0 <= number <= 100:
        raise argparse.ArgumentTypeError(f"{text!r} is not a part of a run in percent, like 0.5")
    return number


def run_predict(options: PredictOptions) -> int:
    from callgrove.cli.messages import note
    from callgrove.modeling.prediction import far_from, fit_beside, predict, target_of

    models = fit_models(options)
    target = target_of(models.study, options.at)
    say_cautions(models)
    of_one = len(models.study.parameters) == 1 and models.options.modeler == "default"
    see = "model --runner-ups" if of_one else "spread_low and spread_high with --format csv"
    for text in far_from(models.study, target):
        note(f"{text}: functions that fit equally well part ways there (see {see})")
    table = predict(models, target, options.subtrees, options.processes, options.noise_floor, fit_beside(models))
    say_apart(table, options.noise_floor)
    emit_of_study(format_predictions(table) if options.is_for_people else table, models.study, options)
    return 0


def say_apart(table: Table, noise_floor: float | None) -> None:
    """Say how many rows come last because nothing should be concluded from them."""
    from callgrove.cli.messages import note

    apart = table["apart"]
    noise, untrusted = apart.count("noise"), apart.count("not trusted")
    if noise:
        floor = "the noise floor" if noise_floor is None else f"{noise_floor:g}% of the run"
        note(f"{noise} of {len(apart)} rows come last: they stay below {floor}")
    if untrusted:
        note(f"{untrusted} of {len(apart)} rows come last, without a share: not to be trusted")


def format_predictions(table: Table) -> Table:
    """Return, for people, the table without the columns that repeat."""
    from math import isnan

    from callgrove.model.table import Column, Table
    from callgrove.render.text_formats import Whole

    names = ("prediction", "low", "high", "prediction_extrap")
    shares = ["" if share is None or isnan(share) else f"{share:.3g}%" for share in table.column("share").plain()]
    columns = [
        Column("callpath", table.column("callpath").values),
        Column("metric", [name or "<default>" for name in table.column("metric").plain()]),
        *(table.column(name) for name in names if name in table.names),
        Whole("share", shares),
        *(table.column(name) for name in ("growth", "speedup", "efficiency") if name in table.names),
        Whole("order", table.column("order").values),
        *format_judgement(table),
    ]
    return Table(tuple(columns), table.left)


PREDICT = Command(PredictOptions, add_predict_arguments, run_predict)
