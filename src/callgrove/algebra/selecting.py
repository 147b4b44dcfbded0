"""Parts of one experiment: some profiles, some contexts, some metrics. Nothing is copied that can be shared."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass, replace

import numpy as np

from callgrove.algebra.profiles import MatchedProfiles, unite_systems
from callgrove.algebra.traces import Renumbered, chain_traces
from callgrove.arrays import Bools, Ids, Ints, new_numbers
from callgrove.errors import UsageError
from callgrove.model.chained_values import ChainedValues, Link
from callgrove.model.contexts import ContextTree
from callgrove.model.experiment import Experiment, InputWarning, Severity
from callgrove.model.profiles import system_of
from callgrove.model.runs import Numbers
from callgrove.model.selection import warn_unknown_values
from callgrove.model.values import ValueBackend, Values

__all__ = ["Kept", "part", "take_part"]


def part(
    experiment: Experiment,
    *,
    ranks: Numbers | None = None,
    threads: Numbers | None = None,
    runs: Container[int] | None = None,
    profiles: Container[int] | None = None,
    invert: bool = False,
) -> Experiment:
    """Return the experiment with these ranks, threads, runs and profiles only, or with all others. The tree stays as it
    is. `Experiment.select` also chooses metrics and times; here a choice can be inverted, and what lies beside the
    spans of a trace is cut as well."""
    chosen = experiment.profiles.where(ranks, threads, runs).tolist()
    if profiles is not None:
        chosen = [p for p in chosen if p in profiles]
    kept_ones = np.setdiff1d(experiment.profiles.measured, chosen) if invert else np.array(chosen, np.int64)
    if not len(experiment.profiles.measured):
        raise UsageError(f"{experiment.path}: there is no profile to choose from")
    if not len(kept_ones):
        asked = (("rank", ranks), ("thread", threads), ("run", runs))
        have = " and ".join(f"{word} {wanted}" for word, wanted in asked if wanted is not None)
        raise UsageError(f"{experiment.path}: {'every' if invert else 'no'} profile has {have}, so nothing is left")
    kept_ones = experiment.values.without_torn(kept_ones)
    if not experiment.values.loses_all(kept_ones):
        kept = Kept.of(experiment, profiles=kept_ones)
        return take_part(experiment, kept, experiment.contexts, kept.values(experiment), "part")
    kept = Kept.of(experiment, profiles=kept_ones, metrics=np.zeros(len(experiment.metrics), np.bool_))
    note = warn_unknown_values(experiment).text
    return take_part(experiment, kept, experiment.contexts, kept.values(experiment), "part", note)


@dataclass(frozen=True)
class Kept:
    """What of an experiment stays: for each of its profiles, contexts and metric rows the id in the result, or -1.

    `samples` is the same for contexts of traces: a sample on a pruned call was taken in its caller.
    """

    profiles: Ids
    contexts: Ids
    metrics: Ids
    samples: Ids

    @classmethod
    def of(
        cls,
        experiment: Experiment,
        profiles: Ints | None = None,
        contexts: Bools | None = None,
        metrics: Bools | None = None,
        samples: Ids | None = None,
    ) -> Kept:
        """None is everything; stored summaries and their statistics never stay, as they would be of something else."""
        of_profiles = np.zeros(len(experiment.profiles), np.bool_)
        of_profiles[experiment.profiles.measured if profiles is None else profiles] = True
        of_metrics = np.array([not m.statistic for m in experiment.metrics], np.bool_)
        of_contexts = np.ones(len(experiment.contexts), np.bool_) if contexts is None else contexts
        places = _numbers(of_contexts)
        return cls(
            _numbers(of_profiles),
            places,
            _numbers(of_metrics if metrics is None else of_metrics & metrics),
            places if samples is None else samples,
        )

    def values(self, experiment: Experiment) -> ValueBackend:
        """The stored values of what stays, as they are."""
        return ChainedValues([Link(experiment.values.backend, self.profiles, self.contexts, self.metrics)])


def _numbers(kept: Bools) -> Ids:
    return new_numbers(np.flatnonzero(kept), len(kept))


def take_part(
    experiment: Experiment, kept: Kept, tree: ContextTree, values: ValueBackend, word: str, *notes: str
) -> Experiment:
    """The experiment of what stays, with these values over this tree."""
    metrics = experiment.metrics.take(np.flatnonzero(kept.metrics >= 0))
    profiles = np.flatnonzero(kept.profiles >= 0)
    rest = experiment.profiles.take(profiles)
    own = profiles.astype(np.int32)
    run_ids, run = np.unique(rest.run, return_inverse=True)
    matched = MatchedProfiles((kept.profiles,), own * 0, own, run.astype(np.int32), ())
    found = unite_systems((experiment,), matched, shared=True)
    rest = replace(rest, run=run.astype(np.int32))
    runs = tuple(experiment.runs[k] for k in run_ids.tolist()) or experiment.runs
    system, leaves = found or system_of(rest)
    rest = replace(rest, system=leaves)
    lost = ["lost: statistics of stored summaries"] if any(m.statistic for m in experiment.metrics) else []
    return replace(
        experiment,
        runs=runs,
        profiles=rest,
        system=system,
        contexts=tree,
        metrics=metrics,
        values=Values(values, metrics, rest, len(tree)),
        traces=chain_traces([Renumbered(experiment.traces, kept.profiles, kept.samples, kept.metrics)], len(rest)),
        attributes={**experiment.attributes, "operation": word, "inputs": experiment.path or experiment.title},
        warnings=(*experiment.warnings, *(InputWarning(Severity.NOTE, note) for note in [*lost, *notes])),
    )
