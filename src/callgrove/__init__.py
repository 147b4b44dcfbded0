"""Open the files of HPC profilers, all as one kind of experiment: look at it, compare, combine, convert and model it.

    import callgrove as cg

    e = cg.open("lulesh.d")             an experiment, or a study where the input holds series over parameters
    e.top(limit=10)                     where the cost is, as a table; print it, or end a notebook cell with it
    print(e.tree(limit=20))             the call tree; tree(bottom_up=True) from the costly functions up
    e.hot_path()["name"]                the costliest call path
    e.select(ranks="0-3").top("time")   a part of it is an experiment again
    e.diff(cg.open("slower.d"))         what differs, call path by call path
    e.compare(cg.open("slower.d")).sentence    what it comes to, in words
    e.to_pandas()                       costs of every context in every profile; also to_polars, to_arrow, to_hatchet
    e.sql("SELECT ...")                 SQL over its tables
    e.report("report.html")             one self-contained HTML page
    e.write("lulesh.cubex")             write another format; returns what that cannot hold
    cg.open("runs/").series().model()   scaling models of runs over parameters

Methods are the verbs of the command line, with the same words as parameters. Errors are `CallgroveError`; a table's
`notes` and an experiment's `warnings` say what a reader should know. Values and traces stay in the file until they are
asked for, and nothing heavy is imported until a name is used. `help(callgrove.Experiment)` lists what can be asked.

The parts of the package, for readers of its code:

    model/       what a measured execution is
    patterns/    the language in which contexts are chosen
    binary/      bytes without meaning: sources and checked reads
    algebra/     experiments made of experiments: merge, mean, diff, cut, part, common
    formats/     one package per tool, and the registry
    analysis/    questions asked of an experiment, as plain functions
    frames/      data frames, graphs, Hatchet and Thicket: experiments as these, and made of them
    modeling/    questions asked of a study: scaling models
    prof/        databases of HPCToolkit measurements
    query/       SQL over experiments and studies
    render/      results as text, CSV, JSON, markdown
    viewer/      pictures: one page with its data inside
    explore/     an interactive terminal
    watch/       a folder that a job is still writing
    assistant/   answers for an assistant, over the Model Context Protocol
    cli/         the command line, one module per verb
    execute/     the same work on a pool of processes, on MPI or on Dask
    user_cache.py  where things are kept that were worked out before
    arrays.py    array types and passes over columns that every layer uses
    examples.py  made-up experiments for the demo, the documentation and tests
    errors.py    every error raised on purpose
    rocpd.py     `python -m callgrove.rocpd`: ROCm's command in its own words
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from callgrove._version import __version__
from callgrove.errors import CallgroveError, CorruptFile, InputError, NotRecognised, UsageError

if TYPE_CHECKING:
    from callgrove.algebra.cutting import common, cut, part
    from callgrove.algebra.operations import diff, mean, merge
    from callgrove.analysis.comparison import Comparison
    from callgrove.analysis.explain import Explanation, why
    from callgrove.analysis.gate.decision import gate
    from callgrove.formats.registry import check
    from callgrove.formats.registry import open_path as open
    from callgrove.formats.writing.streaming import TraceStream, open_writer
    from callgrove.formats.writing.transfer import write
    from callgrove.frames.from_frames import from_pandas
    from callgrove.frames.graph_frames import from_hatchet
    from callgrove.model.builder import ExperimentBuilder
    from callgrove.model.experiment import Experiment
    from callgrove.model.metrics import Scope
    from callgrove.model.study.series import Study
    from callgrove.model.table import Table
    from callgrove.modeling.fitting import Models, model_study
    from callgrove.modeling.options import ModelOptions
    from callgrove.query.sql import sql

__all__ = [
    "CallgroveError",
    "Comparison",
    "CorruptFile",
    "Experiment",
    "ExperimentBuilder",
    "Explanation",
    "InputError",
    "ModelOptions",
    "Models",
    "NotRecognised",
    "Scope",
    "Study",
    "Table",
    "TraceStream",
    "UsageError",
    "__version__",
    "check",
    "common",
    "cut",
    "diff",
    "from_hatchet",
    "from_pandas",
    "gate",
    "mean",
    "merge",
    "model_study",
    "open",
    "open_writer",
    "part",
    "sql",
    "why",
    "write",
]

_LAZY = {
    "Comparison": ("callgrove.analysis.comparison", "Comparison"),
    "Experiment": ("callgrove.model.experiment", "Experiment"),
    "ExperimentBuilder": ("callgrove.model.builder", "ExperimentBuilder"),
    "Explanation": ("callgrove.analysis.explain", "Explanation"),
    "ModelOptions": ("callgrove.modeling.options", "ModelOptions"),
    "Models": ("callgrove.modeling.fitting", "Models"),
    "Scope": ("callgrove.model.metrics", "Scope"),
    "Study": ("callgrove.model.study.series", "Study"),
    "check": ("callgrove.formats.registry", "check"),
    "Table": ("callgrove.model.table", "Table"),
    "TraceStream": ("callgrove.formats.writing.streaming", "TraceStream"),
    "common": ("callgrove.algebra.cutting", "common"),
    "cut": ("callgrove.algebra.cutting", "cut"),
    "diff": ("callgrove.algebra.operations", "diff"),
    "from_hatchet": ("callgrove.frames.graph_frames", "from_hatchet"),
    "from_pandas": ("callgrove.frames.from_frames", "from_pandas"),
    "gate": ("callgrove.analysis.gate.decision", "gate"),
    "mean": ("callgrove.algebra.operations", "mean"),
    "merge": ("callgrove.algebra.operations", "merge"),
    "model_study": ("callgrove.modeling.fitting", "model_study"),
    "open": ("callgrove.formats.registry", "open_path"),
    "open_writer": ("callgrove.formats.writing.streaming", "open_writer"),
    "part": ("callgrove.algebra.cutting", "part"),
    "sql": ("callgrove.query.sql", "sql"),
    "why": ("callgrove.analysis.explain", "why"),
    "write": ("callgrove.formats.writing.transfer", "write"),
}


def __getattr__(name: str) -> Any:
    """Import public names that need NumPy when they are first used."""
    if name not in _LAZY:
        raise AttributeError(f"module 'callgrove' has no attribute {name!r}")
    module, attribute = _LAZY[name]
    return getattr(import_module(module), attribute)


def __dir__() -> list[str]:
    """Return the public names, also those that are not imported yet: for help() and completion."""
    return sorted({*globals(), *__all__})
