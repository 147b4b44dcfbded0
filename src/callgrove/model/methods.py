"""What can be asked of an experiment or a study: one method for each verb of the command line, in its words.

This module is the one door from the model to the layers above it: a method imports the plain function behind it when it
is called. Nothing else in the model knows these layers, and nothing here computes. No method prints or changes its
experiment; what a reader should know about a table is in its `notes`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack, cast

from callgrove.errors import UsageError

if TYPE_CHECKING:
    from callgrove.algebra.selecting import ContextKeywords
    from callgrove.analysis.comparison import Comparison
    from callgrove.analysis.comparison.sides import CompareKeywords
    from callgrove.analysis.comparison.studies import StudyComparison
    from callgrove.arrays import Ints
    from callgrove.formats.interface import WriteKeywords
    from callgrove.model.experiment import Experiment
    from callgrove.model.runs import Numbers
    from callgrove.model.study.series import Study
    from callgrove.model.table import Table
    from callgrove.model.traces.events import Window
    from callgrove.modeling.fitting import Models
    from callgrove.modeling.options import ModelOptions
    from callgrove.render.svg import Picture

__all__ = ["ComparisonMethods", "ExperimentMethods", "StudyMethods", "TableMethods"]

PAGE_BYTES = 5_000_000


class TableMethods:
    """How a table shows itself."""

    def _repr_html_(self) -> str:
        """Return what a notebook shows."""
        from callgrove.render.notebook import table_html

        return table_html(cast("Table", self))

    def where(self, *conditions: str) -> Table:
        """Return the rows that fulfil any of some conditions over the columns; of a tree, with what lies above them.

        experiment.top().where("percent > 5 and name !~ /^MPI_/")
        """
        from callgrove.patterns.tables import keep_rows

        return keep_rows(cast("Table", self), conditions)


class _Methods:
    """What experiments and studies have in common."""

    def _repr_html_(self) -> str:
        """Return what a notebook shows."""
        from callgrove.model.study.series import Study
        from callgrove.render.notebook import experiment_html, study_html

        opened = cast("Experiment | Study", self)
        return study_html(opened) if isinstance(opened, Study) else experiment_html(opened)

    def info(self) -> Table:
        """Return what there is, as `callgrove info` prints it: one row for each fact."""
        from callgrove.analysis.overview import overview
        from callgrove.model.study.series import Study
        from callgrove.model.table import Table
        from callgrove.render.facts import facts_of, study_facts

        opened = cast("Experiment | Study", self)
        facts = study_facts(opened) if isinstance(opened, Study) else facts_of(overview(opened))
        return Table.from_rows(("fact", "value"), facts)

    def sql(self, query: str, engine: str = "") -> Table:
        """Return the answer to one SELECT over the tables that `sql_tables` lists.

        Only the columns that the query uses are read. `engine` is "duckdb" or "sqlite"; without a word, DuckDB where it
        is installed. `callgrove.sql` asks several experiments at once and gives long answers in chunks.

            experiment.sql("SELECT name, count(*) AS n FROM contexts GROUP BY name ORDER BY n DESC LIMIT 3")
        """
        from dataclasses import replace

        from callgrove.query.sql import sql

        with sql(cast("Experiment | Study", self), query, engine) as answer:
            return replace(answer.table(), notes=answer.left_out)

    def sql_tables(self) -> Table:
        """Return every table that can be asked with `sql`, with its columns."""
        from callgrove.query.sql import table_list

        return table_list([cast("Experiment | Study", self)])

    def write(self, target: str | Path, to_format: str = "", **options: Unpack[WriteKeywords]) -> Sequence[str]:
        """Write to a file or folder, and return what the format could not hold, a sentence each.

        The ending of the target chooses the format unless `to_format` names it; options are those of
        `callgrove.write`, such as `overwrite=True` and `dialect`.

            lost = experiment.write("run.cubex", overwrite=True)
        """
        from callgrove.formats.writing.transfer import write

        return write(cast("Experiment | Study", self), target, to_format, **options)

    def report(
        self,
        target: str | Path,
        *,
        title: str = "",
        metric: str | None = None,
        ranks: Numbers | None = None,
        threads: Numbers | None = None,
        max_size: int = PAGE_BYTES,
        overwrite: bool = False,
    ) -> Sequence[str]:
        """Write one self-contained page of HTML, and return which views it lacks, a sentence each.

        `metric` is shown first, `ranks` and `threads` choose whose values are shown. The smallest parts are folded
        until the page has no more than `max_size` bytes. A target that is there already is an error unless `overwrite`.

            experiment.report("report.html", title="LULESH on 64 ranks")
        """
        from callgrove.formats.writing.targets import PendingFile
        from callgrove.viewer.page import Choice
        from callgrove.viewer.report import Input, report

        opened, told = cast("Experiment | Study", self), list[str]()
        pending = PendingFile(_page_place(target, opened.path), overwrite)
        with pending.or_nothing():
            inputs = [Input(opened, [opened.path or opened.title])]
            choice, complain = Choice(metric, ranks, threads), lambda text: told.append(f"unexplained: {text}")
            text = report(inputs, choice, title, max_size, tell=told.append, complain=complain)
            pending.place.write_text(text, encoding="utf-8", newline="")
            pending.complete()
        return told


def _page_place(target: str | Path, *sources: str) -> Path:
    """Return where to write a page; never into an input."""
    path = Path(target)
    if any(source and path.resolve().is_relative_to(Path(source).resolve()) for source in sources):
        raise UsageError(f"{target}: lies in the input, which is never modified; name another target")
    return path


class ComparisonMethods:
    """What a comparison of experiments can be written as."""

    def report(
        self, target: str | Path, *, title: str = "", max_size: int = PAGE_BYTES, overwrite: bool = False
    ) -> Sequence[str]:
        """Write the comparison as one self-contained page of HTML, and return what it lacks, a sentence each.

        The page has the sentence, a flame graph in two colours, call paths and functions side by side, and the
        timelines where there are traces; a section for each of the other experiments. It shows exclusive and inclusive
        costs of everything, whatever `scope`, `sort` and `only` say. The smallest parts are folded until it has no more
        than `max_size` bytes. A target that is there already is an error unless `overwrite`.

            before.compare(after).report("change.html")
        """
        from callgrove.formats.writing.targets import PendingFile
        from callgrove.viewer.report import report_comparison

        comparison, told = cast("Comparison", self), list[str]()
        sources = [side.path for side in comparison.experiments]
        pending = PendingFile(_page_place(target, *sources), overwrite)
        with pending.or_nothing():
            complain = lambda text: told.append(f"unexplained: {text}")  # noqa: E731
            text = report_comparison(comparison, title, max_size, complain=complain)
            pending.place.write_text(text, encoding="utf-8", newline="")
            pending.complete()
        return told


class ExperimentMethods(_Methods):
    """The methods of `Experiment` that mirror the verbs of the command line."""

    def top(
        self,
        metric: str | None = None,
        by: str = "function",
        limit: int | None = None,
        *,
        ranks: Numbers | None = None,
        threads: Numbers | None = None,
        runs: Numbers | None = None,
        all_metrics: bool = False,
        columns: str | None = None,
    ) -> Table:
        """Return the flat profile: where the cost is, whoever called. The costliest comes first.

        metric         which one (default: the first time with any cost); a part of its name is enough
        by             what a row stands for: function, line, loop, context, file or module; or rank, thread, gpu, node
                       or run, with all that each of them costs
        limit          at most so many rows; the table says how many are left
        ranks, threads, runs    whose cost: a number, a text like "0-3,7", or anything with `in`; runs also by
                       parameters or name ("p=4,n=100")
        all_metrics    show every column that the profiler wants shown
        columns        one more column for each rank, thread, gpu, node or run, with its part of the exclusive cost

        The column exclusive adds up to the total, and percent is of it.

            experiment.top(limit=10)
            experiment.top("cycles", by="line", ranks={0, 1})
            experiment.top(by="function", columns="rank")
        """
        from callgrove.analysis.method_results import View
        from callgrove.analysis.spread.side_by_side import top_table

        view = View.of(cast("Experiment", self), metric, ranks, threads, runs, all_metrics)
        table = top_table(view.costs, by, columns, limit, view.columns)
        return view.explain(table, added_up="run" not in (by, columns))

    def imbalance(
        self,
        metric: str | None = None,
        over: str | None = None,
        by: str = "function",
        scope: str = "exclusive",
        limit: int | None = None,
        *,
        present: bool = False,
        percentiles: bool = True,
        ranks: Numbers | None = None,
        threads: Numbers | None = None,
        runs: Numbers | None = None,
    ) -> Table:
        """Return how costs are spread over ranks, threads, GPUs, nodes or runs; what costs the others most comes first.

        over           rank, thread, gpu, node or run (default: the first of these of which there are several)
        by             what a row stands for, as in `top`
        scope          exclusive or inclusive
        limit          at most so many rows; the table says how many are left
        present        leave out where there is no value, instead of counting 0
        percentiles    False leaves out p25, median and p75, which need all values of a row at once

        metric, ranks, threads and runs are as in `top`. excess is the largest cost less the mean, imbalance the largest
        by the mean, less 1; slowest says who has the largest. percent is what the excess is of the mean cost of the
        whole program.

            experiment.imbalance(limit=10)
            experiment.imbalance("cycles", over="thread", by="context", scope="inclusive")
        """
        from callgrove.analysis.method_results import View
        from callgrove.analysis.spread.imbalance import Question, imbalance
        from callgrove.model.metrics import Scope

        if scope not in ("exclusive", "inclusive"):
            raise UsageError(f"there is no scope {scope!r} to compare; there are exclusive and inclusive")
        view = View.of(cast("Experiment", self), metric, ranks, threads, runs)
        asked = Question(over, by, Scope(scope), limit, present, percentiles)
        made = imbalance(view.costs, asked)
        return view.explain(made.table, added_up=made.entities.over != "run")

    def tree(
        self,
        metric: str | None = None,
        bottom_up: bool = False,
        source: bool = False,
        limit: int | None = None,
        *,
        ranks: Numbers | None = None,
        threads: Numbers | None = None,
        runs: Numbers | None = None,
        all_metrics: bool = False,
    ) -> Table:
        """Return the call tree in preorder, the costliest call first; `print` shows it indented.

        bottom_up      from the costly functions up to their callers instead of from the roots down
        source         keep source lines and call sites, with their text where it was copied
        limit          the costliest contexts and all above them, at most so many

        metric, ranks, threads, runs and all_metrics are as in `top`; percent is of inclusive cost, bottom-up of
        exclusive cost.

            print(experiment.tree(limit=20))
        """
        from callgrove.analysis.method_results import View
        from callgrove.analysis.views import bottom_up as callers
        from callgrove.analysis.views import top_down

        if bottom_up and (source or all_metrics):
            what = "source" if source else "all_metrics"
            raise UsageError(
                f"{what}=True shows more of contexts; a bottom-up tree has rows of callers, which have none"
            )
        view = View.of(cast("Experiment", self), metric, ranks, threads, runs, all_metrics)
        table = callers(view.costs, limit) if bottom_up else top_down(view.costs, source, limit, view.columns)
        return view.explain(table)

    def hot_path(
        self,
        metric: str | None = None,
        share: float = 0.5,
        *,
        ranks: Numbers | None = None,
        threads: Numbers | None = None,
        runs: Numbers | None = None,
        all_metrics: bool = False,
    ) -> Table:
        """Return the contexts from the costliest root down, as long as one call has `share` of its caller's cost.

        metric, ranks, threads, runs and all_metrics are as in `top`.

            experiment.hot_path(share=0.3)["name"]
        """
        from callgrove.analysis.method_results import View
        from callgrove.analysis.views import hot_path

        if not 0 <= share <= 1:
            raise UsageError(f"{share!r} is not a share between 0 and 1")
        view = View.of(cast("Experiment", self), metric, ranks, threads, runs, all_metrics)
        return view.explain(hot_path(view.costs, share, view.columns))

    def flame(
        self,
        metric: str | None = None,
        width: int = 1200,
        bottom_up: bool = False,
        *,
        roots_below: bool = False,
        title: str = "",
        ranks: Numbers | None = None,
        threads: Numbers | None = None,
        runs: Numbers | None = None,
    ) -> Picture:
        """Return a flame graph as an SVG picture, which notebooks show: boxes as wide as what calls cost.

        width          in pixels
        bottom_up      functions by exclusive cost with their callers, instead of the tree from the roots down
        roots_below    roots at the bottom, as in flame graphs, instead of on top, as in icicle graphs
        title          what stands above it (default: the title of the experiment, the metric and its total)

        Calls that are too narrow to be seen are drawn as one grey box, so that widths add up. metric, ranks, threads
        and runs are as in `top`; the metric must add up.

            experiment.flame().save("flame.svg")
        """
        from callgrove.analysis.costs import costs
        from callgrove.render.flame_svg import FlameOptions, draw_flame

        shown = costs(cast("Experiment", self), metric, ranks, threads, runs)
        return draw_flame(shown, FlameOptions(width, bottom_up, roots_below, title))

    def spread(
        self,
        metric: str | None = None,
        by: str = "function",
        over: str | None = None,
        limit: int | None = 20,
        *,
        scope: str = "exclusive",
        width: int = 900,
        title: str = "",
        present: bool = False,
        ranks: Numbers | None = None,
        threads: Numbers | None = None,
        runs: Numbers | None = None,
    ) -> Picture:
        """Return a plot of how costs are spread, as an SVG picture: for each row a box over ranks, with the slowest.

        limit          at most so many rows; the picture says how many are left
        width          in pixels
        title          what stands above it

        Rows and numbers are those of `imbalance`, which says what by, over, scope and present mean; metric, ranks,
        threads and runs are as in `top`.

            experiment.spread(over="thread").save("threads.svg")
        """
        from callgrove.analysis.costs import costs
        from callgrove.analysis.spread.imbalance import Question
        from callgrove.model.metrics import Scope
        from callgrove.render.spread_plots import SpreadOptions, draw_spread

        if scope not in ("exclusive", "inclusive"):
            raise UsageError(f"there is no scope {scope!r} to compare; there are exclusive and inclusive")
        shown = costs(cast("Experiment", self), metric, ranks, threads, runs)
        asked = Question(over, by, Scope(scope), limit, present)
        return draw_spread(shown, asked, SpreadOptions(width, title))

    def metric_tree(
        self,
        metric: str | None = None,
        limit: int | None = None,
        *,
        ranks: Numbers | None = None,
        threads: Numbers | None = None,
        runs: Numbers | None = None,
    ) -> Table:
        """Return the tree of metrics (time > execution > mpi > ...) with what each comes to over the whole run.

        metric         only this one and what lies below it
        limit          at most so many rows; metrics that are 0 with all below them are left out, too

        without_children is what a metric has besides those below it, percent is of the metric at the root. ranks,
        threads and runs are as in `top`.

            experiment.remap().metric_tree(limit=20)
        """
        from callgrove.analysis.metric_tree import metric_tree
        from callgrove.model.profiles import choose_profiles

        experiment = cast("Experiment", self)
        return metric_tree(experiment, metric, choose_profiles(experiment, ranks, threads, runs), limit)

    def remap(self, specification: str | Path | None = None, *, idle_threads: bool = False) -> Experiment:
        """Return the experiment with its metrics as a tree that divides time by what contexts do, as Scalasca does.

        specification  a file that says which metrics there are (default: what a Cube file has inside, `remapping.spec`;
                       without one, contexts are classified by paradigm and role, or by names)
        idle_threads   compute idle threads, limited parallelism and imbalance, too; the time of workers grows by that
                       in which they are idle

        Formulas are computed when they are asked for.

            experiment.remap().top("mpi_collective")
        """
        from callgrove.algebra.remapping import remap
        from callgrove.formats.cube.specification import find_specification

        experiment = cast("Experiment", self)
        return remap(experiment, find_specification(experiment, specification), idle_threads)

    def compare(
        self,
        *others: Experiment,
        metric: str | None = None,
        scope: str = "exclusive",
        source: bool = False,
        flat: bool = False,
        sort: str = "difference",
        only: str = "",
        scaling: str = "",
        processes: Sequence[int] | None = None,
        match: str | Path | Mapping[str, str] | None = None,
        ranks: Numbers | None = None,
        threads: Numbers | None = None,
    ) -> Comparison:
        """Return this experiment compared with others, call path by call path: `.sentence`, `.totals`, `.table(limit)`.

        metric         one for all, or "LEFT=RIGHT" where the others call it differently
        scope          exclusive, inclusive, point, function or lexical
        source         keep source lines and call sites
        flat           compare functions, whoever called them
        sort           what comes first: difference, ratio (the farthest from 1), left, right, loss; or path, by name
        only           only call paths that "both" have, or the "left" or "right" one alone
        scaling        "weak" or "strong": also show loss, speedup and efficiency
        processes      how many each ran on, where that cannot be read off
        match          names that mean the same: a file of two columns, or {"left name": "right name"}

        difference is this one less the other, ratio this one divided by the other. Experiments without a call path in
        common are an error, which says what to do.

            print(before.compare(after).sentence)
            small.compare(large, scope="inclusive", scaling="strong", sort="loss").table(10)
        """
        from callgrove.analysis.comparison import Question, compare
        from callgrove.model.metrics import Scope

        if scope not in {one.word for one in Scope if one.word}:
            raise UsageError(f"there is no scope {scope!r}; there are {', '.join(s.word for s in Scope if s.word)}")
        how = Question(metric, Scope(scope), ranks, threads, source, flat, sort, only, scaling, processes, match)
        comparison = compare([cast("Experiment", self), *others], how)
        comparison.require_common()
        return comparison

    def diff(self, *others: Experiment, limit: int | None = None, **how: Unpack[CompareKeywords]) -> Table:
        """Return what differs between this experiment and others, call path by call path, the largest first.

        The short form of `compare`, with its parameters: a table of at most `limit` rows, with sentences as its notes.
        `a - b` is an experiment of differences instead.

            before.diff(after, metric="time", limit=10)
        """
        from callgrove.analysis.method_results import comparison_table

        return comparison_table(self.compare(*others, **how), [cast("Experiment", self), *others], limit)

    def pop(
        self,
        *others: Experiment,
        metric: str | None = None,
        under: str | None = None,
        scaling: str = "strong",
        exclude_init: bool = False,
        ranks: Numbers | None = None,
        threads: Numbers | None = None,
        runs: Numbers | None = None,
    ) -> Table:
        """Return efficiencies as POP audits have them: a row for each figure, a column for each run.

        others         further runs; the first of all is the reference that they are compared with
        metric         the time that is divided up (default: the first time of the host)
        under          only of what lies below a name, a call path like "main->solve", or a "/pattern/"
        scaling        compare the computation of all processes (strong) or of one (weak)
        exclude_init   take the time in MPI_Init and MPI_Finalize off the runtime

        ranks, threads and runs are as in `top`. The column missing says why a figure is not there.

            experiment.pop(under="solve")
            small.pop(large, scaling="weak")
        """
        from callgrove.analysis.efficiency import Question, pop

        asked = Question(metric, ranks, threads, runs, under, exclude_init, scaling)
        return pop([cast("Experiment", self), *others], asked).table()

    def summary(
        self,
        section: str | Sequence[str] = (),
        by: str | Sequence[str] = (),
        *,
        limit: int | None = None,
        window: Window | str | None = None,
        window_mode: str = "inside",
        start_marker: str = "",
        end_marker: str = "",
        ranks: Numbers | None = None,
        runs: Numbers | None = None,
        ignore_digits: bool = False,
        columns: str | None = None,
    ) -> Table:
        """Return what a traced run did, and how busy its devices were: statistics of kernels, copies, calls, ...

        section        only these: kernels, copies, api, sync, allocations, markers, regions, overhead, counters, busy,
                       overlap, gaps, longest-gaps, latency; memory is computed only where it is named
        by             divide rows by rank, agent, stream, domain or marker
        limit          at most so many rows of each section
        window         (start, end) in ns, or a text such as "250ms:1.5s" or "10%:20%"
        window_mode    spans that lie inside, that touch it, or what of them lies inside (clip)
        start_marker, end_marker    begin and end with markers of that name
        ignore_digits  names that differ in digits alone are one
        columns        total times side by side: a column for each rank, agent, stream, domain or marker

            experiment.summary("kernels", by="rank", limit=5)
            experiment.summary("kernels", columns="rank")
        """
        from callgrove.analysis.method_results import summary_of_run

        experiment = cast("Experiment", self)
        return summary_of_run(
            experiment.select(runs=runs) if runs is not None else experiment,
            [section] if isinstance(section, str) else section,
            [by] if isinstance(by, str) else by,
            limit,
            self._window(window, start_marker, end_marker),
            window_mode,
            ranks,
            ignore_digits,
            columns,
        )

    def timeline(
        self,
        window: Window | str | None = None,
        by: str | Sequence[str] = ("name",),
        kind: str | Sequence[str] | None = None,
        depth: int | None = None,
        exclusive: bool = False,
        bins: int | None = None,
        classes: str | Path | Mapping[str, str] | Iterable[tuple[str, str]] | None = None,
        *,
        limit: int | None = None,
        metric: str | None = None,
        ranks: Numbers | None = None,
        threads: Numbers | None = None,
        runs: Numbers | None = None,
    ) -> Table:
        """Return what went on in a window of the traces, as exact times in ns: those with the most time first.

        window         (start, end) in ns of the traces' clock, or a text such as "250ms:1.5s" or "10%:20%"
        by             what tells rows apart: name, profile, rank, thread, node, kind, class, context, depth
        kind           only functions and spans of these kinds: function, kernel, api, marker, ...
        depth          the N-th function from the root; where a stack is shorter, its last
        exclusive      of spans that nest, each moment belongs to the innermost one
        bins           divide the window into so many parts; from_ns tells where each begins
        classes        which names are compute, communication, synchronisation, io, copy or idle: a mapping of patterns,
                       or a file of them
        metric         lines of samples that follow this metric

        A sample stands for the time until the next one of its profile, a span for itself. Samples, classes and
        exclusive spans of a profile add up to the window, with idle, (no trace) and (between spans). ranks, threads and
        runs are as in `top`.

            experiment.timeline("10%:20%", by=("rank", "class"))
        """
        from callgrove.analysis.timeline.items import read_rules
        from callgrove.analysis.timeline.statistics import Question, choose_window, measure
        from callgrove.model.profiles import choose_profiles
        from callgrove.render.units import duration_ns

        experiment = cast("Experiment", self)
        question = Question(
            choose_window(experiment, window, duration_ns),
            (by,) if isinstance(by, str) else tuple(by),
            choose_profiles(experiment, ranks, threads, runs),
            (kind,) if isinstance(kind, str) else None if kind is None else tuple(kind),
            depth,
            exclusive,
            bins,
            read_rules(classes),
            metric,
        )
        return measure(experiment, question).table(limit)

    def phases(
        self,
        depth: int | None = None,
        window: Window | str | None = None,
        kind: str | Sequence[str] | None = None,
        *,
        ignore_digits: bool = False,
        ranks: Numbers | None = None,
        threads: Numbers | None = None,
        runs: Numbers | None = None,
    ) -> Table:
        """Return sequences of functions or spans that repeat over time, such as the iterations of a loop.

        depth          which function from the root, or which level of nested spans (default: the least at which
                       phases take half of the time)
        ignore_digits  names that differ in digits alone are one: step 1, step 2

        window, kind, ranks, threads and runs are as in `timeline`. count, mean_ns, min_ns and max_ns are of the
        occurrences of a pattern, slowest_ns is when the longest began; the notes say at which depth, or that nothing
        repeats.

            experiment.phases(ranks=0)
        """
        from callgrove.analysis.timeline.phases import phases
        from callgrove.analysis.timeline.statistics import Question, choose_window
        from callgrove.model.profiles import choose_profiles
        from callgrove.render.units import duration_ns

        experiment = cast("Experiment", self)
        question = Question(
            choose_window(experiment, window, duration_ns),
            profiles=choose_profiles(experiment, ranks, threads, runs),
            kinds=(kind,) if isinstance(kind, str) else None if kind is None else tuple(kind),
            depth=depth,
        )
        return phases(experiment, question, ignore_digits)[0]

    def export(
        self,
        table: str,
        metric: str | None = None,
        scope: str = "stored",
        *,
        limit: int | None = None,
        ranks: Numbers | None = None,
        threads: Numbers | None = None,
        runs: Numbers | None = None,
    ) -> Table:
        """Return one of the tables that an experiment consists of: profiles, metrics, contexts, values, samples, spans,
        counters, parameters, or the series of its runs over their parameters.

        metric and scope choose values: as they are stored, or exclusive, inclusive, point, function, lexical. All rows
        are in memory; `limit` stops reading. `values` and `traces` of an experiment, and `sql`, stream.

            experiment.export("values", "time", "inclusive", ranks=0).to_pandas()
        """
        from callgrove.analysis.method_results import export_table
        from callgrove.analysis.tables import Selection
        from callgrove.model.profiles import choose_profiles

        experiment = cast("Experiment", self)
        quantity = None if metric is None else experiment.metrics.resolve(metric)
        chosen = Selection(choose_profiles(experiment, ranks, threads, runs), quantity, scope)
        return export_table(experiment, table, chosen, limit)

    def select(
        self,
        *,
        ranks: Numbers | None = None,
        threads: Numbers | None = None,
        nodes: Numbers | None = None,
        gpus: Numbers | None = None,
        streams: Numbers | None = None,
        runs: Numbers | None = None,
        profiles: Ints | Iterable[int] | None = None,
        metrics: Sequence[str] | None = None,
        window: Window | str | None = None,
        start_marker: str = "",
        end_marker: str = "",
        traces: bool = True,
        kinds: Collection[str] | None = None,
        categories: Collection[str] | None = None,
        drop_unused: bool = False,
        invert: bool = False,
        **contexts: Unpack[ContextKeywords],
    ) -> Experiment:
        """Return a part of this experiment, which is an experiment again; what is not named stays.

        name, file, module    contexts that belong to these: globs like "MPI_*", or "/regular expressions/"
        kind           contexts, and spans, of these kinds: function, loop, kernel, ...
        under          what a pattern like "main -> ** -> solve" finds, and all below
        callers_of     the paths that lead to what a pattern finds; `query`: every context on a path that it matches
        exclude        all but these subtrees, whose cost is gone; `prune`, `fold`, `leaf`: without subtrees, contexts,
                       what is below contexts, and callers take the cost
        rest           what becomes of contexts that were not selected: "path", "drop" or "fold"
        ranks, threads, nodes, gpus, streams, runs    as in `top`; `profiles` are ids that `profiles.where(...)` returns
        window         of traces: (start, end) in ns of their clock, or a text such as "250ms:1.5s" or "10%:20%"
        start_marker, end_marker    of traces, from the first marker of a name to the last one of another
        metrics        only these; traces=False leaves out all traces
        kinds, categories    of spans alone: kernel, copy, api, ...; HIP_RUNTIME_API, ...
        drop_unused    leave out contexts that the part has nothing to say about; `invert`: take all other profiles

        One of several texts is enough, different keywords must all hold. Percentages stay shares of the whole cost of
        the chosen profiles. The part is lazy. A stored summary is of all profiles, so a part has none.

            experiment.select(name="MPI_*", under="solve", ranks="0-3").tree()
        """
        from callgrove.algebra.selecting import ContextSelection, select_part
        from callgrove.model.profiles import choose_profiles
        from callgrove.model.selection import span_choice

        e, ids = cast("Experiment", self), None if profiles is None else {int(profile) for profile in profiles}
        chosen = choose_profiles(e, ranks, threads, runs, ids, invert, nodes=nodes, gpus=gpus, streams=streams)
        return select_part(
            e,
            ContextSelection.of(**contexts),
            profiles=chosen,
            metrics=metrics,
            window=self._window(window, start_marker, end_marker),
            traces=traces,
            drop_unused=drop_unused,
            spans=span_choice(kinds, categories),
        )

    def in_window(self, window: Window | str) -> Experiment:
        """Return the experiment whose costs are those of its traces in a window of time, as `--window` shows them.

        Stored values are of the whole run. Here, samples stand for the time until the next one, and spans for what of
        them lies in the window: (start, end) in ns of the traces' clock, or a text such as "250ms:1.5s" or "10%:20%".
        `select(window=...)` keeps the values, and cuts traces only.

            experiment.in_window("10%:20%").top()
        """
        from callgrove.algebra.window_costs import costs_in_window

        bounds = self._window(window, "", "")
        assert bounds is not None
        return costs_in_window(cast("Experiment", self), bounds)

    def query(self, pattern: str | Sequence[object], rest: str = "path") -> Experiment:
        """Return every context on a path that a pattern matches, as an experiment; `rest` says what becomes of others.

        path           what leads to such a context stays, without cost of its own
        drop           the others are gone; children move up, as with Hatchet's `squash`
        fold           the nearest context above takes their cost

        Hatchet's queries are understood as well: lists, and texts that begin with MATCH.

            experiment.query("main -> ** -> MPI_*[?time > 5%]")
            experiment.query([{"name": "main"}, "*", {"name": "MPI_.*"}])
        """
        from callgrove.algebra.selecting import ContextSelection, select_contexts
        from callgrove.patterns.hatchet import translate_query

        asked = pattern if isinstance(pattern, str) else translate_query(pattern)
        return select_contexts(cast("Experiment", self), ContextSelection(query=[asked], rest=rest))

    def with_metric(self, *definitions: str) -> Experiment:
        """Return this experiment with further metrics, given as formulas over others.

        A formula is computed from sums, for each row of a view; `each(...)` computes it for every context and profile,
        and adds up the results. Each may use the ones before it. Nothing is computed until a view shows it. What cannot
        be computed, such as x/0, is missing and never 0.

            experiment.with_metric("ipc = instructions / cycles").top("ipc")
        """
        from callgrove.model.definitions import with_metric

        return with_metric(cast("Experiment", self), *definitions)

    def _window(self, window: Window | str | None, start_marker: str, end_marker: str) -> Window | None:
        from callgrove.model.selection import choose_window
        from callgrove.render.units import duration_ns

        return choose_window(cast("Experiment", self), window, start_marker, end_marker, duration_ns)

    def cut(self, *, roots: Sequence[str] = (), prunes: Sequence[str] = ()) -> Experiment:
        """Return the experiment with other roots and without some calls, whose callers take their cost: short for
        `select(under=roots, prune=prunes, rest="drop")`, as an experiment whose percentages are of itself.

            experiment.cut(roots=["solve"], prunes=["/^MPI_/"])
        """
        from callgrove.algebra.cutting import cut

        return cut(cast("Experiment", self), roots=roots, prunes=prunes)

    def __sub__(self, other: object) -> Experiment:
        """Return the differences, this experiment less the other, as an experiment: see `callgrove.diff`."""
        from callgrove.algebra.operations import diff
        from callgrove.model.experiment import Experiment

        return diff(cast("Experiment", self), other) if isinstance(other, Experiment) else NotImplemented

    def __add__(self, other: object) -> Experiment:
        """Return the sums of two experiments as an experiment: see `callgrove.merge`."""
        from callgrove.algebra.operations import merge
        from callgrove.model.experiment import Experiment

        if not isinstance(other, Experiment):
            return NotImplemented
        return merge(cast("Experiment", self), other, conflict="sum")

    def to_pandas(self, metrics: Sequence[str] | None = None, wide: bool = False) -> Any:
        """Return the costs of every context in every profile as a pandas.DataFrame (extra `pandas`).

        Long, by default: one row for each context and profile with any cost. Columns run, rank, thread, gpu, stream,
        context, name, kind, file, line, module, path and depth, then for every metric `M` its exclusive cost `M` and
        its inclusive cost `M (inc)`; absent is NA. `wide`: one row for each context, columns (metric, rank, thread) of
        exclusive costs, where a sum without a part is 0. `callgrove.from_pandas` makes an experiment of a frame.

            frame = experiment.to_pandas()
            frame.groupby("name", observed=True)["time"].sum()
        """
        from callgrove.frames.data_frames import to_pandas

        return to_pandas(cast("Experiment", self), metrics, wide)

    def to_polars(self, metrics: Sequence[str] | None = None) -> Any:
        """Return the long frame of `to_pandas` as a polars.DataFrame (extra `polars`); absent is null."""
        from callgrove.frames.data_frames import to_polars

        return to_polars(cast("Experiment", self), metrics)

    def to_arrow(self, metrics: Sequence[str] | None = None) -> Any:
        """Return the long frame of `to_pandas` as a pyarrow.Table (extra `arrow`); absent is null."""
        from callgrove.frames.data_frames import to_arrow

        return to_arrow(cast("Experiment", self), metrics)

    def to_networkx(self, metrics: Sequence[str] | None = None) -> Any:
        """Return the call tree as a networkx.DiGraph (extra `networkx`).

        Nodes are ids of contexts with name, kind, file, line, module, path, depth and their costs over all profiles,
        `M` and `M (inc)`; what is absent is no attribute. Edges lead from caller to callee.
        """
        from callgrove.frames.data_frames import to_networkx

        return to_networkx(cast("Experiment", self), metrics)

    def to_hatchet(self, metrics: Sequence[str] | None = None) -> Any:
        """Return a hatchet.GraphFrame with the same totals; needs Hatchet (`pip install llnl-hatchet`, or `hatchet`).

        The frame is indexed by node and, where there is more than one, by rank and thread; it has name, type, file,
        line, module, and the costs of `to_pandas`. Hatchet orders siblings by name, so its node numbers are not ids of
        contexts, and its `tree()` shows rank 0 unless told otherwise. `callgrove.from_hatchet` is the way back.

            graph_frame = experiment.to_hatchet()
            print(graph_frame.tree(metric_column="time (inc)"))
        """
        from callgrove.frames.graph_frames import to_hatchet

        return to_hatchet(cast("Experiment", self), metrics)

    def to_thicket(self, metrics: Sequence[str] | None = None) -> Any:
        """Return a thicket.Thicket: performance data, metadata and statistics (`pip install llnl-thicket`).

        Runs become its profiles, with the costs of all their ranks and threads; parameters of runs become metadata.
        The statistics are mean, std, min and max of every cost over the runs.

            callgrove.open("runs/").to_thicket().statsframe.dataframe
        """
        from callgrove.frames.graph_frames import to_thicket

        return to_thicket(cast("Experiment", self), metrics)

    def series(self, scaling: str = "", scope: str = "exclusive") -> Study:
        """Return the runs over their parameters as the study that `callgrove model` makes of them.

        scaling says how the profiles of a run are combined: weak (each counts), weak_threaded (without zeros), strong
        (their sum) or device; without a word, device where there are GPU streams, else weak. What was not measured at
        every point becomes part of its caller; warnings of the study name it.

            callgrove.open("runs/").series().model()
        """
        from callgrove.model.study.fill_missing_points import series_of

        return series_of(cast("Experiment", self), scaling, scope)


class StudyMethods(_Methods):
    """The methods of `Study` that mirror the verbs of the command line."""

    def compare(
        self, *others: Study, metric: str | None = None, sort: str = "difference", only: str = ""
    ) -> StudyComparison:
        """Return this study compared with others at the points in common: `.sentence`, `.table(limit)`.

        metric         one for all, or "LEFT=RIGHT"; without it, all that the studies have in common
        sort, only     as in `Experiment.compare`

        Values are means over repetitions; `notes` name the points that only one study has.

            callgrove.open("before.txt").compare(callgrove.open("after.txt")).table(10)
        """
        from callgrove.analysis.comparison.studies import StudyQuestion, compare_studies

        return compare_studies([cast("Study", self), *others], StudyQuestion(metric, sort, only))

    def model(
        self,
        metric: str | None = None,
        callpath: str | None = None,
        *,
        along: str | None = None,
        times: str | None = None,
        stored: str | None = None,
        refit: bool = False,
        options: ModelOptions | None = None,
    ) -> Models:
        """Return scaling models: of every series, or of those that are chosen.

        metric         only this one; a part of its name is enough
        callpath       only call paths that contain this text
        along          as if this were the only parameter
        times          model values times this parameter: the total of all processes
        stored         which of the stored sets of models (default: the last)
        refit          make new models even if the study has some
        options        how terms are searched and judged: `callgrove.ModelOptions`

            study.model("time").table()
        """
        from callgrove.modeling.options import ModelOptions
        from callgrove.modeling.prediction import models_of, prepare

        ready = prepare(cast("Study", self), along, times)
        return models_of(ready, options or ModelOptions(), metric, callpath, stored, refit)

    def predict(
        self,
        at: Mapping[str, float],
        metric: str | None = None,
        callpath: str | None = None,
        *,
        subtrees: bool = False,
        processes: str | None = None,
        noise_floor: float | None = None,
        limit: int | None = None,
        **model: Any,
    ) -> Table:
        """Return what models say about a point that was not measured, the largest cost first, with intervals and how
        far to trust them; what is not to be trusted, or is noise, comes last.

        at             a value for every parameter: {"p": 4096, "n": 1e6}
        subtrees       each call path with all below it
        processes      the parameter that counts processes (default: by its name)
        noise_floor    percent of a run below which series are noise (default: what repetitions differ by)

        metric, callpath and further keywords are those of `model`.

            study.predict({"p": 4096}, limit=5)
        """
        from dataclasses import replace

        from callgrove.modeling.prediction import far_from, fit_beside, predict, target_of

        models = self.model(metric, callpath, **model)
        target = target_of(models.study, at)
        notes = [f"{text}: functions that fit equally well part ways there" for text in far_from(models.study, target)]
        table = predict(models, target, subtrees, processes, noise_floor, fit_beside(models))
        return replace(table.head(limit), notes=tuple(notes))

    def export(self, table: str = "series") -> Table:
        """Return one of the tables that a study consists of: its series, or the parameters of its points."""
        from callgrove.analysis.tables import export
        from callgrove.model.table import Table

        return Table.concatenate(export(cast("Study", self), table))

    def to_pandas(self) -> Any:
        """Return the table of series as a pandas.DataFrame (extra `pandas`)."""
        return cast("Study", self).table().to_pandas()
