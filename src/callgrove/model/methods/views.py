"""Views of costs, their pictures, and comparisons of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Unpack, cast

from callgrove.errors import UsageError

if TYPE_CHECKING:
    from callgrove.analysis.comparison import Comparison
    from callgrove.analysis.comparison.sides import CompareKeywords
    from callgrove.analysis.explain import Explanation
    from callgrove.model.experiment import Experiment
    from callgrove.model.runs import Numbers
    from callgrove.model.table import Table
    from callgrove.render.svg import Picture

__all__ = ["ViewMethods"]


class ViewMethods:
    """The methods of `Experiment` that show or compare costs."""

    def explain(self, metric: str | None = None) -> Explanation:
        """Return what there is to know of the run, in three to eight sentences: what dominates, what is uneven, what
        waits for what, what will not scale; each with its number and with the command that shows more.

        metric         what is explained (default: traces of devices, else the first time with any cost)

            print(experiment.explain())
            experiment.explain().table().to_pandas()
        """
        from callgrove.analysis.explain import explain

        return explain(cast("Experiment", self), metric)

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
