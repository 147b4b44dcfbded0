"""Rows by name: which ones match, the next and the previous one, and what all of them cost.

In a call tree every context is searched, unfolded or not. Hits are counted in running sums over preorder, in which a
subtree is a slice, so the next hit is found by looking at the siblings on the way to it: nothing is put in order that
is not on that way. In other views, rows that are shown are searched.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from callgrove.arrays import Bools, Ids, Ints
from callgrove.errors import UsageError
from callgrove.explore.listing import Listing
from callgrove.explore.views import ABOVE, CallTree, View

__all__ = ["Search", "search"]

NOWHERE = -1


def make_test(text: str) -> Callable[[str], bool]:
    """Return what tells whether a name matches: it contains the text, whatever the case, or a /regular expression/."""
    if len(text) > 2 and text.startswith("/") and text.endswith("/"):
        try:
            pattern = re.compile(text[1:-1])
        except re.error as error:
            where = "" if error.pos is None else f" at character {error.pos + 2}"
            raise UsageError(f"{text}: {error.msg}{where}") from None
        return lambda name: pattern.search(name) is not None
    wanted = text.casefold()
    return lambda name: wanted in name.casefold()


@dataclass
class Search:
    """A text that was searched in a listing. `n_hits` is how many rows have it, `share` what part of the whole these
    cost, in percent; None where nothing is a part of a whole."""

    text: str
    listing: Listing
    n_hits: int
    share: float | None
    _mask: Bools | None = None  # contexts that are hits, in a call tree
    _counts: Ints | None = None  # how many hits there are before each context
    _nodes: Ints | None = None  # rows that are hits, in other views

    def find(self, row: int, backwards: bool = False) -> int:
        """Return the row of the next or previous hit, from the end again at the other end; unfolds what hides it."""
        if not self.n_hits:
            return row
        if self._mask is None:
            return self._find_shown(row, backwards)
        node = int(self.listing.nodes[row])
        hit = self._previous(node) if backwards else self._next(node)
        if hit == NOWHERE:
            hit = self._last_in(ABOVE) if backwards else self._first_in(ABOVE)
        return self.listing.reveal(hit)

    def _find_shown(self, row: int, backwards: bool) -> int:
        assert self._nodes is not None
        rows = np.flatnonzero(np.isin(self.listing.nodes, self._nodes))
        further = rows[rows < row][::-1] if backwards else rows[rows > row]
        around = rows[::-1] if backwards else rows
        return int(further[0] if len(further) else around[0]) if len(rows) else row

    def among(self, nodes: Ints) -> Ints:
        """Return which of some nodes are hits."""
        if self._mask is not None:
            return nodes[self._mask[nodes]]
        return nodes[np.isin(nodes, self._nodes)] if self._nodes is not None else nodes[:0]

    # In a call tree.

    def _hits_in(self, nodes: Ints) -> Ints:
        """Return how many hits are at and below nodes."""
        view = self.listing.view
        assert isinstance(view, CallTree)
        assert self._counts is not None
        within: Ints = self._counts[view.end[nodes]] - self._counts[nodes]
        return within

    def _is_hit(self, node: int) -> bool:
        return self._mask is not None and bool(self._mask[node])

    def _first_in(self, node: int) -> int:
        """Return the first hit below a node, in the order of rows."""
        children = self.listing.children(node)
        child = int(children[np.argmax(self._hits_in(children) > 0)])
        return child if self._is_hit(child) else self._first_in_deep(child)

    def _first_in_deep(self, node: int) -> int:
        while not self._is_hit(node):
            children = self.listing.children(node)
            node = int(children[np.argmax(self._hits_in(children) > 0)])
        return node

    def _last_in(self, node: int) -> int:
        """Return the last hit below a node, or the node itself."""
        while True:
            children = self.listing.children(node)
            holding = np.flatnonzero(self._hits_in(children) > 0)
            if not len(holding):
                return node
            node = int(children[holding[-1]])

    def _next(self, node: int) -> int:
        if int(self._hits_in(np.array([node]))[0]) > self._is_hit(node):
            return self._first_in(node)
        while node != ABOVE:
            above = self.listing.view.parent(node)
            siblings = self.listing.children(above)
            later = siblings[int(np.argmax(siblings == node)) + 1 :]
            holding = np.flatnonzero(self._hits_in(later) > 0)
            if len(holding):
                return self._first_in_deep(int(later[holding[0]]))
            node = above
        return NOWHERE

    def _previous(self, node: int) -> int:
        while node != ABOVE:
            above = self.listing.view.parent(node)
            siblings = self.listing.children(above)
            earlier = siblings[: int(np.argmax(siblings == node))]
            holding = np.flatnonzero(self._hits_in(earlier) > 0)
            if len(holding):
                return self._last_in(int(earlier[holding[-1]]))
            if above != ABOVE and self._is_hit(above):
                return above
            node = above
        return NOWHERE


def search(listing: Listing, text: str) -> Search:
    """Return the rows of a listing whose names have a text."""
    test, view = make_test(text), listing.view
    if isinstance(view, CallTree):
        mask = _match_contexts(view, test)
        hits = np.flatnonzero(mask)
        share = _share(view, hits[_are_outermost(hits, view.end[hits])])
        return Search(text, listing, len(hits), share, mask, np.concatenate([[0], np.cumsum(mask)]))
    names = view.names(listing.nodes.tolist())
    nodes = listing.nodes[np.array([test(name.text) for name in names], np.bool_)]
    outside = listing.nodes[listing.depth == 0]
    return Search(text, listing, len(nodes), _share(view, nodes[np.isin(nodes, outside)]), _nodes=nodes)


def _match_contexts(view: CallTree, test: Callable[[str], bool]) -> Bools:
    """Return the contexts of a call tree whose names match; each name is looked at once."""
    tree, n = view.measures.tree, len(view.shown)
    shown = np.flatnonzero(view.shown)
    regions = tree.region[:n]
    used = np.zeros(len(tree.regions) + 1, np.bool_)
    used[regions[shown]] = True
    matched = np.zeros(len(used), np.bool_)
    for region in np.flatnonzero(used[:-1]).tolist():
        matched[region] = test(tree.regions.label(region))
    mask: Bools = view.shown & matched[regions]
    by_context = [*tree.parameters, *shown[regions[shown] < 0].tolist()]  # the names of these are not of regions
    for context in by_context:
        if context < n and view.shown[context]:
            mask[context] = test(tree.label(context))
    return mask


def _are_outermost(hits: Ints, ends: Ids) -> Bools:
    """Return which hits, in preorder, lie below no other."""
    before = np.maximum.accumulate(ends)[:-1]
    out: Bools = np.concatenate([[True], hits[1:] >= before])[: len(hits)]
    return out


def _share(view: View, nodes: Ints) -> float | None:
    """Return what part of the whole nodes cost that do not lie in each other."""
    costs = view.measures.first
    if not view.measures.has_shares or not costs.whole:
        return None
    cells = view.cells(nodes)
    if view.measures.is_difference:
        return float(np.nansum(cells["left"]) * 100 / costs.whole)
    return float(np.nansum(cells["percent"]))
