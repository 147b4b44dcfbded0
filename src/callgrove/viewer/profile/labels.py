"""What rows are called: name, kind, file, line and module, each combination stored once."""

from __future__ import annotations

from typing import Any

import numpy as np

from callgrove.analysis.rows import described
from callgrove.model.arrays import ABSENT, Ints
from callgrove.model.contexts import ContextKind, ContextTree
from callgrove.model.table import Table
from callgrove.viewer.encoding import Texts

__all__ = ["Labels"]

Label = tuple[str, str, str, int, str]
COLUMNS = ("name", "kind", "file", "line", "module")


class Labels:
    """Labels by number, in the order of first use."""

    def __init__(self, tree: ContextTree) -> None:
        self._tree = tree
        self._numbers: dict[Label, int] = {}

    def of_contexts(self, contexts: Ints) -> Ints:
        """The number of each context's label. Contexts of one region and kind have one label, unless they have
        parameters or no region."""
        tree = self._tree
        region, kind = tree.region[contexts].astype(np.int64), tree.kind[contexts].astype(np.int64)
        key = region * len(ContextKind) + kind
        own: Ints = np.array(list(tree.parameters), np.int64)
        alone = (region < 0) | np.isin(contexts, own)
        key = np.where(alone, -1 - contexts, key)
        _, first, row = np.unique(key, return_index=True, return_inverse=True)
        columns = described(tree, contexts[first].tolist())
        numbers: Ints = self._numbers_of(Table(columns))[row.ravel()]
        return numbers

    def of_rows(self, table: Table) -> Ints:
        """The number of the label of each row of a view."""
        return self._numbers_of(table)

    def _numbers_of(self, table: Table) -> Ints:
        cells = (table.column(name).plain() for name in COLUMNS)
        rows = zip(*cells, strict=True)
        found = [
            self._numbers.setdefault(
                (name or "", kind or "", file or "", ABSENT if line is None else line, module or ""),
                len(self._numbers),
            )
            for name, kind, file, line, module in rows
        ]
        return np.array(found, np.int64)

    @property
    def data(self) -> dict[str, Any]:
        """All labels as columns."""
        name, kind, file, line, module = zip(*self._numbers, strict=True) if self._numbers else ((),) * 5
        return {
            "name": Texts(name),
            "kind": Texts(kind),
            "file": Texts(file),
            "line": np.array(line, np.int64),
            "module": Texts(module),
        }
