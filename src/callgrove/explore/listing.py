"""The rows on the screen: which nodes of a view are unfolded, and in which order they are shown.

    nodes   7  9  4  2        the node of each row, from the first to the last
    depth   0  1  1  0        how deep it lies

Children are put in order when their parent is unfolded. All rows are two arrays, which unfolding inserts into, so that
a screen of them is a slice whatever their number.
"""

from __future__ import annotations

import numpy as np

from callgrove.arrays import ABSENT, Bools, Floats, Ids, Ints, depths, preorder
from callgrove.errors import UsageError
from callgrove.explore.measures import NAME
from callgrove.explore.views import ABOVE, View
from callgrove.model.metrics import Scope

__all__ = ["HOT", "MOST_UNFOLDED", "Listing", "Nodes"]

MOST_UNFOLDED = 10_000  # rows that `unfold_below` adds at most
HOT = 0.5  # the share of a row that the next one on the hot path has


class Listing:
    """The rows of a view. `column` is what siblings are sorted by, the largest first unless `ascending`; `scope` is
    that of percentages and differences."""

    def __init__(self, view: View) -> None:
        self.view = view
        self.column, self.ascending, self.scope = view.default, False, view.scope
        self.unfolded = Nodes()
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
        return self._order(*self.view.children_of(np.array([node])))[0]

    def _order(self, nodes: Ints, parent: Ints) -> tuple[Ints, Ints]:
        """Return nodes, and the number of each one's parent, with siblings next to each other and in order."""
        if len(nodes) < 2:
            return nodes, parent
        if self.column == NAME:
            names = [name.text for name in self.view.names(nodes.tolist())]
            number = {text: k for k, text in enumerate(sorted(set(names), reverse=True))}
            keys = [np.array([number[text] for text in names], np.float64)]
        else:
            keys = self._keys(nodes)
        sign = 1 if self.ascending else -1
        order: Ints = np.lexsort((nodes, *(sign * key for key in reversed(keys)), parent))
        return nodes[order], parent[order]

    def _keys(self, nodes: Ints) -> list[Floats]:
        """Return the numbers that nodes are sorted by, the most important first."""
        measures, cells = self.view.measures, self.view.cells(nodes, self.scope)
        keys = [measures.rank(self.column, cells)]
        if self.column == Scope.EXCLUSIVE.value:  # as `top` does
            keys.append(measures.rank(Scope.INCLUSIVE.value, cells))
        if measures.is_difference:  # as `diff` does
            keys.append(np.maximum(measures.rank("left", cells), measures.rank("right", cells)))
        return keys

    # Folding.

    def is_unfolded(self, row: int) -> bool:
        return int(self.nodes[row]) in self.unfolded

    def unfold(self, row: int) -> int:
        """Show what lies right below a row, and return how many rows that adds."""
        node = int(self.nodes[row])
        if node in self.unfolded or not self.view.have_children(self.nodes[row : row + 1])[0]:
            return 0
        self.unfolded.set(self.nodes[row : row + 1], True)
        nodes, depth = self._collect(node, int(self.depth[row]) + 1)
        self.nodes = np.concatenate([self.nodes[: row + 1], nodes, self.nodes[row + 1 :]])
        self.depth = np.concatenate([self.depth[: row + 1], depth, self.depth[row + 1 :]])
        return len(nodes)

    def fold(self, row: int) -> int:
        """Hide what lies below a row, and return how many rows that takes."""
        node = int(self.nodes[row])
        if node not in self.unfolded:
            return 0
        self.unfolded.set(self.nodes[row : row + 1], False)
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
        self.unfolded = Nodes()
        self._rebuild()

    def unfold_below(self, row: int, most: int = MOST_UNFOLDED) -> bool:
        """Show all that lies below a row, level by level, up to a number of rows; return whether that was all."""
        added, frontier = 0, self.nodes[row : row + 1]
        while len(frontier):
            nodes, parent = self.view.children_of(frontier)
            fresh = ~self.unfolded.have(frontier)
            sizes = np.where(fresh, np.bincount(parent, minlength=len(frontier)), 0)
            kept = added + np.cumsum(sizes) <= most
            self.unfolded.set(frontier[kept], True)
            added += int(sizes[kept].sum())
            if not kept.all():
                break
            frontier = nodes[self.view.have_children(nodes)]
        self._rebuild()
        return not len(frontier)

    def reveal(self, node: int) -> int:
        """Unfold all that lies above a node, and return its row."""
        for above in self.view.path(node)[:-1]:
            if above not in self.unfolded:
                self.unfold(self.row_of(above))
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
            raise UsageError(f"{measures.first.metric.name} is not a sum: no row has a share of it to follow")
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
        """Return all that is shown below a node, and how deep it lies. Level by level: the rows below all unfolded rows
        of a level are put in order at once."""
        levels, above = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
        frontier, rows, n_rows = np.array([node], np.int64), np.array([ABSENT], np.int64), 0
        while len(frontier):
            nodes, parent = self._order(*self.view.children_of(frontier))
            levels.append(nodes)
            above.append(rows[parent])
            unfolded = np.flatnonzero(self.unfolded.have(nodes))
            frontier, rows = nodes[unfolded], n_rows + unfolded
            n_rows += len(nodes)
        parents = np.concatenate(above).astype(np.int32)
        order = preorder(parents)
        return np.concatenate(levels)[order], depths(parents)[order] + np.int32(depth)


class Nodes:
    """A set of nodes, which are small numbers: a mask that grows."""

    def __init__(self) -> None:
        self._mask = np.zeros(0, np.bool_)

    def __contains__(self, node: int) -> bool:
        return node < len(self._mask) and bool(self._mask[node])

    def have(self, nodes: Ints) -> Bools:
        """Return which nodes are in the set."""
        self._grow(nodes)
        return self._mask[nodes]

    def set(self, nodes: Ints, inside: bool) -> None:
        """Put nodes in, or take them out."""
        self._grow(nodes)
        self._mask[nodes] = inside

    def _grow(self, nodes: Ints) -> None:
        most = int(nodes.max(initial=-1)) + 1
        if most > len(self._mask):
            self._mask = np.append(self._mask, np.zeros(2 * most - len(self._mask), np.bool_))
