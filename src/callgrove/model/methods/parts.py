"""Experiments made of an experiment: a part of it, further metrics, sums and differences."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Unpack, cast

from callgrove.model.methods.shared import find_window

if TYPE_CHECKING:
    from callgrove.algebra.selecting import ContextKeywords
    from callgrove.arrays import Ints
    from callgrove.model.experiment import Experiment
    from callgrove.model.runs import Numbers
    from callgrove.model.traces.events import Window

__all__ = ["PartMethods"]


class PartMethods:
    """The methods of `Experiment` that return an experiment."""

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
        window_mode: str = "touch",
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
        window_mode    spans that "touch" the window (default), or lie wholly "inside" it
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
        bounds = find_window(e, window, start_marker, end_marker)
        return select_part(
            e,
            ContextSelection.of(**contexts),
            profiles=chosen,
            metrics=metrics,
            window=bounds,
            traces=traces,
            drop_unused=drop_unused,
            spans=span_choice(kinds, categories, window=bounds, window_mode=window_mode),
        )

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

    def cut(self, *, roots: Sequence[str] = (), prunes: Sequence[str] = ()) -> Experiment:
        """Return the experiment with other roots and without some calls, whose callers take their cost: short for
        `select(under=roots, prune=prunes, rest="drop")`, as an experiment whose percentages are of itself.

            experiment.cut(roots=["solve"], prunes=["/^MPI_/"])
        """
        from callgrove.algebra.cutting import cut

        return cut(cast("Experiment", self), roots=roots, prunes=prunes)

    def in_window(self, window: Window | str) -> Experiment:
        """Return the experiment whose costs are those of its traces in a window of time, as `--window` shows them.

        Stored values are of the whole run. Here, samples stand for the time until the next one, and spans for what of
        them lies in the window: (start, end) in ns of the traces' clock, or a text such as "250ms:1.5s" or "10%:20%".
        `select(window=...)` keeps the values, and cuts traces only.

            experiment.in_window("10%:20%").top()
        """
        from callgrove.algebra.window_costs import costs_in_window

        experiment = cast("Experiment", self)
        bounds = find_window(experiment, window)
        assert bounds is not None
        return costs_in_window(experiment, bounds)

    def with_metric(self, *definitions: str) -> Experiment:
        """Return this experiment with further metrics, given as formulas over others.

        A formula is computed from sums, for each row of a view; `each(...)` computes it for every context and profile,
        and adds up the results. Each may use the ones before it. Nothing is computed until a view shows it. What cannot
        be computed, such as x/0, is missing and never 0.

            experiment.with_metric("ipc = instructions / cycles").top("ipc")
        """
        from callgrove.model.definitions import with_metric

        return with_metric(cast("Experiment", self), *definitions)

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
