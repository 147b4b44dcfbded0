"""callgrove opens what HPC profilers write as one kind of experiment.

    model/       what a measured execution is
    binary/      bytes without meaning: sources and checked reads
    algebra/     experiments made of experiments: merge, mean, diff, cut, part, common
    formats/     one package per tool, and the registry
    analysis/    questions asked of an experiment, as plain functions
    modeling/    questions asked of a study: scaling models
    prof/        measurements to databases
    query/       SQL over experiments and studies
    render/      results as text, CSV, JSON, markdown
    viewer/      pictures: one page with its data inside
    cli/         one small module per verb
    execute/     the same work on a pool of processes, on MPI or on Dask
    examples.py  made-up experiments for the demo, the documentation and tests
    errors.py    every error raised on purpose

    import callgrove
    experiment = callgrove.open("lulesh.d")
    print(experiment.default_metric, experiment.root_total(experiment.default_metric))
    callgrove.write(callgrove.part(experiment, ranks={0}), "rank0.d")

Nothing heavy is imported until a name is used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from callgrove._version import __version__
from callgrove.errors import CallgroveError, CorruptFile, InputError, NotRecognised, UsageError

if TYPE_CHECKING:
    from callgrove.algebra.cutting import common, cut
    from callgrove.algebra.operations import diff, mean, merge
    from callgrove.algebra.selecting import part
    from callgrove.formats.registry import open_path as open
    from callgrove.formats.saving import write
    from callgrove.model.builder import ExperimentBuilder
    from callgrove.model.experiment import Experiment
    from callgrove.model.metrics import Scope
    from callgrove.model.selection import select
    from callgrove.model.study import Study
    from callgrove.modeling.fitting import Models, model_study
    from callgrove.modeling.options import ModelOptions
    from callgrove.query.asking import sql

__all__ = [
    "CallgroveError",
    "CorruptFile",
    "Experiment",
    "ExperimentBuilder",
    "InputError",
    "ModelOptions",
    "Models",
    "NotRecognised",
    "Scope",
    "Study",
    "UsageError",
    "__version__",
    "common",
    "cut",
    "diff",
    "mean",
    "merge",
    "model_study",
    "open",
    "part",
    "select",
    "sql",
    "write",
]

_LAZY = {
    "Experiment": ("callgrove.model.experiment", "Experiment"),
    "ExperimentBuilder": ("callgrove.model.builder", "ExperimentBuilder"),
    "ModelOptions": ("callgrove.modeling.options", "ModelOptions"),
    "Models": ("callgrove.modeling.fitting", "Models"),
    "Scope": ("callgrove.model.metrics", "Scope"),
    "Study": ("callgrove.model.study", "Study"),
    "common": ("callgrove.algebra.cutting", "common"),
    "cut": ("callgrove.algebra.cutting", "cut"),
    "diff": ("callgrove.algebra.operations", "diff"),
    "mean": ("callgrove.algebra.operations", "mean"),
    "merge": ("callgrove.algebra.operations", "merge"),
    "model_study": ("callgrove.modeling.fitting", "model_study"),
    "open": ("callgrove.formats.registry", "open_path"),
    "select": ("callgrove.model.selection", "select"),
    "part": ("callgrove.algebra.selecting", "part"),
    "sql": ("callgrove.query.asking", "sql"),
    "write": ("callgrove.formats.saving", "write"),
}


def __getattr__(name: str) -> Any:
    """Public names that need NumPy, imported when first used."""
    if name not in _LAZY:
        raise AttributeError(f"module 'callgrove' has no attribute {name!r}")
    module, attribute = _LAZY[name]
    return getattr(import_module(module), attribute)


def __dir__() -> list[str]:
    """The public names, also those that are not imported yet: for help() and completion."""
    return sorted({*globals(), *__all__})
