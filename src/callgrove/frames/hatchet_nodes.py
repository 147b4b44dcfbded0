"""Nodes for Hatchet's graphs, which rows of more than two levels can be looked up by. Imported with Hatchet only.

To set `frame.loc[(node, rank, thread), column]`, pandas first tries the whole key as a label of the first level, and
takes a TypeError for "no such label". Hatchet's nodes raise AttributeError when compared with a number, so its own
`update_inclusive_columns`, and with it `filter(squash=True)`, would fail where a frame has ranks and threads.
"""

from __future__ import annotations

from typing import Any

from hatchet.node import Node

__all__ = ["ComparableNode"]


class ComparableNode(Node):  # type: ignore[misc]
    """A node that is compared with nodes alone; copies of it are such nodes as well."""

    __hash__ = Node.__hash__

    def __eq__(self, other: object) -> Any:
        return super().__eq__(other) if isinstance(other, Node) else NotImplemented

    def __lt__(self, other: object) -> Any:
        return super().__lt__(other) if isinstance(other, Node) else NotImplemented

    def __gt__(self, other: object) -> Any:
        return super().__gt__(other) if isinstance(other, Node) else NotImplemented

    def __le__(self, other: object) -> Any:
        return not super().__gt__(other) if isinstance(other, Node) else NotImplemented

    def __ge__(self, other: object) -> Any:
        return not super().__lt__(other) if isinstance(other, Node) else NotImplemented

    def copy(self) -> ComparableNode:
        """Copy this node without its parents and children, as Hatchet does."""
        return ComparableNode(frame_obj=self.frame.copy())
