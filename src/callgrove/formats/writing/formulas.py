"""Derived metrics for a target: formulas where it holds them, values of what adds up where it does not.

    prepare_formulas(experiment, writer) -> Experiment         to give to the writer instead

What is left, a ratio for a target without formulas, has neither: the writer says that it is lost.
"""

from __future__ import annotations

from collections.abc import Iterator

from callgrove.formats.interface import HoldsOnlyTraces, KeepsFormulas, Writer
from callgrove.formats.writing.writer import some
from callgrove.model.experiment import Experiment
from callgrove.model.materialised import is_storable, materialise
from callgrove.model.metrics import Metrics

__all__ = ["losses_beside_traces", "prepare_formulas"]


def prepare_formulas(experiment: Experiment, writer: Writer) -> Experiment:
    """Return the experiment with values in place of the formulas that the target of a writer cannot hold."""
    metrics, evaluated = experiment.metrics, _list_evaluated(experiment.metrics)
    if not evaluated or isinstance(writer, HoldsOnlyTraces):
        return experiment
    storable = {name for name in evaluated if is_storable(experiment, name)}
    kept = _choose_kept(metrics, evaluated, storable, writer) if isinstance(writer, KeepsFormulas) else set()
    return materialise(experiment, storable - kept)


def losses_beside_traces(experiment: Experiment, writer: Writer) -> Iterator[str]:
    """Yield losses of formulas in targets that hold traces and nothing else."""
    names = _list_evaluated(experiment.metrics)
    if names and isinstance(writer, HoldsOnlyTraces):
        what = "derived metric" if len(names) == 1 else f"{len(names)} derived metrics"
        yield f"{what} {some(names)}: left out, as only what happened over time is written"


def _list_evaluated(metrics: Metrics) -> list[str]:
    return [name for name in metrics.derived if metrics.first(name).derivation is not None]


def _choose_kept(metrics: Metrics, names: list[str], storable: set[str], writer: KeepsFormulas) -> set[str]:
    """Return the formulas that a target holds, with all that they name: as formulas or as values."""
    kept = {name for name in names if writer.keeps_formula(metrics.first(name), metrics)}
    while True:
        gone = {name for name in names if name not in kept and name not in storable}
        orphans = {name for name in kept if gone & metrics.with_operands([name])}
        if not orphans:
            return kept
        kept -= orphans
