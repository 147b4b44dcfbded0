"""The one selection engine: some contexts of an experiment, and what becomes of the cost of the others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from callgrove.errors import Parameter
from callgrove.model.experiment import Experiment

__all__ = ["RESTS", "ContextSelection", "select_contexts"]

RESTS = ("path", "drop", "fold")


@dataclass(frozen=True, kw_only=True)
class ContextSelection:
    """Which contexts to keep, and what becomes of the rest. Texts of one field are "or", different fields are "and".

    name, file, module      globs or /regular expressions/, of what contexts belong to
    kind                    words such as function, loop, kernel; those of spans choose spans
    under, callers_of, query    patterns: what is found and all below; the paths to it; every context on a path
    exclude, prune, fold, leaf  patterns: without these subtrees; their callers take the cost; without the contexts
                            alone; without what lies below them
    rest                    "path": what leads to a selected context stays, without cost of its own; "drop": gone;
                            "fold": the nearest kept context above takes the cost
    """

    name: Sequence[str] = ()
    file: Sequence[str] = ()
    module: Sequence[str] = ()
    kind: Sequence[str] = ()
    under: Sequence[str] = ()
    callers_of: Sequence[str] = ()
    query: Sequence[str] = ()
    exclude: Sequence[str] = ()
    prune: Sequence[str] = ()
    fold: Sequence[str] = ()
    leaf: Sequence[str] = ()
    rest: str = "path"

    @property
    def asks_anything(self) -> bool:
        """Whether any context, or kind of span, was asked for."""
        raise NotImplementedError


def select_contexts(
    experiment: Experiment, selection: ContextSelection, spelling: Mapping[str, Parameter] | None = None
) -> Experiment:
    """Return the experiment with the contexts that a selection keeps; lazy, but for names and the costs that conditions
    ask for.

    Errors begin with the parameter that they are about (`query=...: expected a name at character 10 of ...`), which the
    command line spells as its flag; `spelling` names parameters that are called otherwise, by field.
    """
    raise NotImplementedError
