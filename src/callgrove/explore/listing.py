"""The rows on the screen: which nodes of a view are unfolded, and in which order they are shown.

    nodes   7  9  4  2        the node of each row, from the first to the last
    depth   0  1  1  0        how deep it lies

Children are put in order when their parent is unfolded. All rows are two arrays, which unfolding inserts into, so that
a screen of them is a slice whatever their number.
"""

from __future__ import annotations

from collections import deque

import numpy as np

from callgrove.arrays import Ids, Ints
from callgrove.errors import UsageError
from callgrove.explore.measures import NAME
from callgrove.explore.views import ABOVE, View
from callgrove.model.metrics import Scope

__all__ = ["HOT", "MOST_UNFOLDED", "Listing"]

MOST_UNFOLDED = 10_000  # rows that `unfold_below` adds at most
HOT = 0.5  # the share of a row that the next one on the hot path has


class Listing:
    """The rows of a view. `column` is what siblings are sorted by, the largest first unless `ascending`; `scope` is
    that of percentages and differences."""

    def __init__(self, view: View) -> None:
        self.view = view
        self.column, self.ascending, self.scope = view.default, False, view.scope
        self.unfolded: set[int] = set()
        self.nodes: Ints = np.empty(0, np.int64)
        self.depth: Ids = np.empty(0, np.int32)
        self._rebuild()

    def __len__(self) -> int:
        return len(self.nodes)

    # Order.

    @property
    def columns(self) -> tuple[str, ...]:
        """What rows can be sorted by."""
        return (NAME, *self.view.measures.columns)

    def sort(self, column: str, ascending: bool = False) -> None:
        """Put siblings in another order."""
        if column not in self.columns:
            raise UsageError(f"rows cannot be sorted by {column!r}; there are {', '.join(self.columns)}")
        self.column, self.ascending = column, ascending
        self._rebuild()

    def show_scope(self, scope: Scope) -> None:
        """Show percentages and differences of another scope."""
        self.scope = scope
        self._rebuild()

    def children(self, node: int) -> Ints:
        """Return the nodes right below a node in the order in which they are shown."""
        nodes = self.view.children(node)
        if len(nodes) < 2:
            return nodes
        if self.column == NAME:
            names = [name.text for name in self.view.names(nodes.tolist())]
            order = sorted(range(len(names)), key=names.__getitem__, reverse=self.ascending)
            return nodes[np.array(order, np.int64)]
        measures, cells = self.view.measures, self.view.cells(nodes, self.scope)
        keys = [measures.rank(self.column, cells)]
        if self.column == Scope.EXCLUSIVE.value:  # as `top` does
            keys.append(measures.rank(Scope.INCLUSIVE.value, cells))
        if measures.is_difference:  # as `diff` does
            keys.append(np.maximum(measures.rank("left", cells), measures.rank("right", cells)))
        sign = 1 if self.ascending else -1
        order_of_costs: Ints = np.lexsort((nodes, *(sign * key for key in reversed(keys))))
        return nodes[order_of_costs]

    # Folding.

    def is_unfolded(self, row: int) -> bool:
        return int(self.nodes[row]) in self.unfolded

    def unfold(self, row: int) -> int:
        """Show what lies right below a row, and return how many rows that adds."""
        node = int(self.nodes[row])
        if node in self.unfolded or not self.view.have_children(self.nodes[row : row + 1])[0]:
            return 0
        self.unfolded.add(node)
        nodes, depth = self._collect(node, int(self.depth[row]) + 1)
        self.nodes = np.concatenate([self.nodes[: row + 1], nodes, self.nodes[row + 1 :]])
        self.depth = np.concatenate([self.depth[: row + 1], depth, self.depth[row + 1 :]])
        return len(nodes)

    def fold(self, row: int) -> int:
        """Hide what lies below a row, and return how many rows that takes."""
        node = int(self.nodes[row])
        if node not in self.unfolded:
            return 0
        self.unfolded.discard(node)
        end = self.end_of(row)
        self.nodes = np.concatenate([self.nodes[: row + 1], self.nodes[end:]])
        self.depth = np.concatenate([self.depth[: row + 1], self.depth[end:]])
        return end - row - 1

    def end_of(self, row: int) -> int:
        """Return the first row after those below a row."""
        outside = self.depth[row + 1 :] <= self.depth[row]
        return row + 1 + int(np.argmax(outside)) if outside.any() else len(self)

    def parent_row(self, row: int) -> int:
        """Return the row of the parent; the row itself where it has none."""
        above = np.flatnonzero(self.depth[:row] < self.depth[row])
        return int(above[-1]) if len(above) else row

    def fold_all(self) -> None:
        """Hide everything but the outermost rows."""
        self.unfolded.clear()
        self._rebuild()

    def unfold_below(self, row: int, most: int = MOST_UNFOLDED) -> bool:
        """Show all that lies below a row, level by level, up to a number of rows; return whether that was all."""
        added, whole = 0, True
        waiting = deque([int(self.nodes[row])])
        while waiting and whole:
            node = waiting.popleft()
            nodes = self.view.children(node)
            if node not in self.unfolded:
                whole = added + len(nodes) <= most
                if not whole:
                    break
                added += len(nodes)
            if len(nodes):
                self.unfolded.add(node)
            waiting.extend(nodes[self.view.have_children(nodes)].tolist())
        self._rebuild()
        return whole

    def reveal(self, node: int) -> int:
        """Unfold all that lies above a node, and return its row."""
        above = self.view.path(node)[:-1]
        if not self.unfolded.issuperset(above):
            self.unfolded.update(above)
            self._rebuild()
        return self.row_of(node)

    def row_of(self, node: int) -> int:
        """Return the row of a node; the first one where it is not shown."""
        return int(np.argmax(self.nodes == node)) if len(self) else 0

    def follow(self, row: int, share: float = HOT) -> int:
        """Unfold the hot path from a row on, as long as one child has a share of its parent's inclusive cost, and
        return the row where it ends. Of differences, a share of the parent's difference; of callers, of its exclusive
        cost."""
        measures = self.view.measures
        if not measures.has_shares:
            raise UsageError(f"{measures.first.metric.name} is no sum: no row has a share of it to follow")
        column = "difference" if measures.is_difference else self.view.scope.value
        node = int(self.nodes[row])
        while len(nodes := self.view.children(node)):
            sizes = measures.rank(column, self.view.cells(nodes, self.scope))
            best = int(np.lexsort((nodes, -sizes))[0])
            here = self.view.cells(np.array([node]), self.scope)
            if not 0 < sizes[best] or sizes[best] < share * measures.rank(column, here)[0]:
                break
            node = int(nodes[best])
        return self.reveal(node)

    def _rebuild(self) -> None:
        self.nodes, self.depth = self._collect(ABOVE, 0)

    def _collect(self, node: int, depth: int) -> tuple[Ints, Ids]:
        """Return all that is shown below a node, and how deep it lies."""
        opened = np.array(sorted(self.unfolded), np.int64)
        nodes: list[Ints] = []
        depths: list[Ids] = []
        stack = [(self.children(node), 0, depth)]
        while stack:
            children, start, level = stack.pop()
            stops = np.flatnonzero(np.isin(children[start:], opened)) if len(opened) else opened
            end = start + int(stops[0]) + 1 if len(stops) else len(children)
            nodes.append(children[start:end])
            depths.append(np.full(end - start, level, np.int32))
            if end < len(children):
                stack.append((children, end, level))
            if len(stops):
                stack.append((self.children(int(children[end - 1])), 0, level + 1))
        return np.concatenate(nodes), np.concatenate(depths)
