"""An experiment as tables, data frames, graphs, and as a study."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from callgrove.model.experiment import Experiment
    from callgrove.model.runs import Numbers
    from callgrove.model.study.series import Study
    from callgrove.model.table import Table

__all__ = ["ExportMethods"]


class ExportMethods:
    """The methods of `Experiment` that give its data to other libraries."""

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
        `M` and `M (inc)`; what is absent is not an attribute. Edges lead from caller to callee.
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

        scaling says what a value of a run is: sum, mean or maximum (over its processes, or GPUs) or process (one of
        each); or, as in Extra-P, weak (each profile counts), weak_threaded (without zeros) or strong (their sum).
        Without a word it is process where there are GPU streams, else weak. What was not measured at every point
        becomes part of its caller; warnings of the study name it.

            callgrove.open("runs/").series().model()
        """
        from callgrove.model.study.fill_missing_points import series_of

        return series_of(cast("Experiment", self), scaling, scope)
