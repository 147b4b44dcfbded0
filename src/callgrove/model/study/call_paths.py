"""The call paths of a tree, and what formulas over metrics are worth at them.

Contexts have the same call path where their names are equal, all the way up; parameters are not part of it. An arrow
inside of a name is drawn apart (`operator- >`): arrows separate the names of a call path.

A formula over sums is computed of what all contexts of a call path have: 3 s / 6 visits of two contexts with 1 s / 2
visits and 2 s / 4 visits. Results that add up are added up over these contexts, as measured values are.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from callgrove.arrays import ABSENT, Floats, Ids, Ints
from callgrove.model.computed_values import demand_operands
from callgrove.model.contexts import LONGEST_PATH, ContextTree
from callgrove.model.derived import ProfileCells, TotalCells, When, evaluate, over_batches
from callgrove.model.metrics import Aggregation, Metric, Scope
from callgrove.model.values import Values

__all__ = ["CallPaths", "PathCells"]


# -- call paths --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class CallPaths:
    """The different call paths of a tree's listed contexts."""

    of_context: Ints
    texts: tuple[str, ...]
    roots: frozenset[str]

    @classmethod
    def of(cls, tree: ContextTree) -> CallPaths:
        """Return the call paths of a tree. Contexts have the same call path where their names are equal, all the way
        up."""
        known: dict[tuple[int, str], int] = {}
        paths: list[int] = []
        above = tree.parent[: tree.n_listed].tolist()
        for parent, label in zip(above, _labels(tree), strict=True):
            paths.append(known.setdefault((paths[parent] if parent >= 0 else ABSENT, label), len(known)))
        texts = _unique_texts(list(known))
        roots = frozenset(text for text, (parent, _) in zip(texts, known, strict=True) if parent < 0)
        return cls(np.array(paths, np.int64), texts, roots)


def _labels(tree: ContextTree) -> list[str]:
    """Return the names of the listed contexts, without parameters."""
    return [tree.name(context) for context in range(tree.n_listed)]


def _unique_texts(steps: list[tuple[int, str]]) -> tuple[str, ...]:
    """Return the text of every call path, cut in the middle beyond LONGEST_PATH levels. Where different ones read the
    same (cut, or a name has an arrow in it), the later ones are numbered."""
    texts: dict[str, None] = {}
    numbers: dict[str, int] = {}
    half = LONGEST_PATH // 2
    chains: list[tuple[str, ...]] = []  # the names of each path; of a long one, those that are shown and one more
    for parent, label in steps:
        name = label.replace("->", "- >")  # arrows stand between names only
        chain = (*chains[parent], name) if parent >= 0 else (name,)
        if len(chain) > LONGEST_PATH:
            chain = (*chain[:half], "...", *chain[-half:])
        chains.append(chain)
        text = plain = "->".join(chain)
        while text in texts:
            numbers[plain] = numbers.get(plain, 1) + 1
            text = f"{plain} #{numbers[plain]}"
        texts[text] = None
    return tuple(texts)


# -- formulas at call paths --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class PathCells:
    """Cells of formulas that are call paths, over profiles together or in each: `whole` says which."""

    whole: TotalCells | ProfileCells
    scope: Scope
    paths: CallPaths

    @property
    def contexts(self) -> Ids | None:
        """The context of each call path, where every one is of one context."""
        n_contexts = len(self.paths.of_context)
        return np.arange(n_contexts, dtype=np.int32) if n_contexts == len(self.paths.texts) else None

    @property
    def tree(self) -> ContextTree:
        return self.whole.tree

    @property
    def values(self) -> Values:
        return self.whole.values

    @property
    def profiles(self) -> Ints | None:
        return self.whole.profiles

    @property
    def chosen(self) -> Ints | None:
        return self.whole.chosen

    def of(self, quantity: str, scope: Scope | None = None) -> Floats:
        """Return an operand at each call path."""
        metric, wanted = self.whole.values.metrics.first(quantity), scope or self.scope
        if metric.derivation is not None and metric.derivation.when == When.AFTER:
            columns = () if self.profiles is None else (len(self.profiles),)
            return evaluate(metric, replace(self, scope=wanted), (len(self.paths.texts), *columns))
        return self._combine(metric, self.whole.of(quantity, wanted))

    def _combine(self, metric: Metric, values: Floats) -> Floats:
        """Return what contexts have as what call paths have."""
        rule = Aggregation.SUM if metric.composite is not None else metric.aggregation
        listed = values[: len(self.paths.of_context)]
        out = np.full((len(self.paths.texts), *values.shape[1:]), rule.neutral)
        rule.combine_at(
            out, self.paths.of_context, np.where(np.isnan(listed), rule.neutral, listed) if rule.neutral else listed
        )
        return np.where(out == rule.neutral, np.nan, out) if rule.neutral else out

    def total(self, quantity: str) -> Floats:
        """Return the inclusive value of all roots."""
        return self.whole.total(quantity)

    def of_all_profiles(self, quantity: str, scope: Scope | None = None) -> Floats:
        """Return an operand over all profiles, whatever the profile of a cell."""
        demand_operands(self.values, quantity, self.chosen)
        numbers = replace(self, whole=self._together).of(quantity, scope)
        return numbers if self.profiles is None else numbers[:, None]

    def in_tree(self, quantity: str, scope: Scope | None = None) -> Floats:
        """Return an operand in every context of the tree, over all profiles."""
        return self.whole.in_tree(quantity, scope or self.scope)

    def over_profiles(self, statistic: str, quantity: str, scope: Scope | None = None) -> Floats:
        """Return a statistic of what each profile has at each call path."""
        wanted = scope or self.scope
        batches = self._together.by_profile(wanted, quantity)
        parts = (replace(self, whole=batch, scope=wanted).of(quantity) for batch in batches)
        metric = self.whole.values.metrics.first(quantity)
        numbers = over_batches(metric, parts, len(self.paths.texts))[statistic]
        return numbers if self.profiles is None else numbers[:, None]

    @property
    def _together(self) -> TotalCells:
        """All profiles of which these cells are a part."""
        return self.whole if isinstance(self.whole, TotalCells) else self.whole.over_all
