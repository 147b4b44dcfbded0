"""Models summed along the call tree: what a call path costs with everything below it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from callgrove.model.arrays import Ids, Ints
from callgrove.modeling.fitting import Models
from callgrove.modeling.functions import Functions

__all__ = ["Subtrees", "subtree_sums"]

ARROW = "->"


@dataclass(frozen=True, eq=False)
class Subtrees:
    """Functions of call paths with all below them; a path that was not measured itself has those below."""

    callpaths: tuple[str, ...]
    metrics: tuple[str, ...]
    functions: Functions
    n_models: Ints  # how many models were added up


def subtree_sums(models: Models) -> Subtrees:
    """Sums of models over subtrees. They make sense for exclusive values, which add up to inclusive ones."""
    known: dict[tuple[str, str], int] = {}
    owners: list[int] = []
    members: list[int] = []
    for number in range(len(models)):
        if np.isnan(models.functions.constant[number]):
            continue
        metric = models.metric(number)
        for path in _prefixes(models.callpath(number)):
            owners.append(known.setdefault((path, metric), len(known)))
            members.append(number)
    owner, member = np.array(owners, np.int64), np.array(members, np.int64)
    functions = _added(models.functions, owner, member, len(known))
    count = np.bincount(owner, minlength=len(known))
    return Subtrees(tuple(p for p, _ in known), tuple(m for _, m in known), functions, count)


def _prefixes(callpath: str) -> Iterator[str]:
    parts = callpath.split(ARROW)
    for n in range(1, len(parts) + 1):
        yield ARROW.join(parts[:n])


def _added(functions: Functions, owner: Ints, member: Ints, n: int) -> Functions:
    """Sums of functions: model member[k] is a part of sum owner[k]. Equal terms become one."""
    constant = np.bincount(owner, functions.constant[member], minlength=n).astype(np.float64)
    sizes = np.diff(functions.bounds)[member]
    ends = np.cumsum(sizes)
    term = np.arange(ends[-1] if len(ends) else 0) + np.repeat(functions.bounds[member] - (ends - sizes), sizes)
    keys = np.column_stack([np.repeat(owner, sizes), functions.factor[term]])
    unique, back = np.unique(keys, axis=0, return_inverse=True)
    summed = np.bincount(back.reshape(-1), functions.coefficient[term], minlength=len(unique))
    coefficient = summed.astype(np.float64)
    factor: Ids = unique[:, 1:].astype(np.int32)
    bounds = np.searchsorted(unique[:, 0], np.arange(n + 1))
    return Functions(functions.parameters, constant, bounds, coefficient, factor, functions.factors)
