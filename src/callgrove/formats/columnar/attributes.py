"""Attributes of everything in one table: (owner, number, name, value), in order."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import numpy as np

from callgrove.formats.columnar.folder import Folder
from callgrove.formats.columnar.schema import Cells
from callgrove.model.experiment import Experiment

__all__ = ["Attributes", "attribute_columns"]

Pairs = tuple[tuple[str, str], ...]


def attribute_columns(tables: Experiment) -> Mapping[str, Cells]:
    rows = list(_rows(tables))
    return {
        "owner": [owner for owner, *_ in rows],
        "number": np.array([number for _, number, _, _ in rows], np.int64),
        "name": [name for _, _, name, _ in rows],
        "value": [value for *_, value in rows],
    }


def _rows(tables: Experiment) -> Iterator[tuple[str, int, str, str]]:
    owners: tuple[tuple[str, Iterable[tuple[int, Iterable[tuple[str, str]]]]], ...] = (
        ("experiment", [(0, tables.attributes.items())]),
        ("run", ((k, run.attributes.items()) for k, run in enumerate(tables.runs))),
        ("context", ((k, pairs.items()) for k, pairs in sorted(tables.contexts.attributes.items()))),
        ("region", ((k, pairs.items()) for k, pairs in sorted(tables.contexts.regions.details.items()))),
        ("profile", enumerate(tables.profiles.attributes)),
        ("place", ((k, pairs.items()) for k, pairs in sorted(tables.system.attributes.items()))),
        ("metric", ((k, metric.attributes) for k, metric in enumerate(tables.metrics))),
    )
    for owner, numbered in owners:
        for number, pairs in numbered:
            for name, value in pairs:
                yield owner, number, str(name), str(value)


class Attributes:
    """Attributes that were read, by owner and number."""

    def __init__(self, pairs: Mapping[str, dict[int, list[tuple[str, str]]]]) -> None:
        self._pairs = pairs

    @classmethod
    def read(cls, folder: Folder) -> Attributes:
        rows = folder.table("attributes").whole()
        by_owner: dict[str, dict[int, list[tuple[str, str]]]] = {}
        columns = rows.names("owner"), rows.numbers("number").tolist(), rows.names("name"), rows.names("value")
        for owner, number, name, value in zip(*columns, strict=True):
            by_owner.setdefault(owner, {}).setdefault(number, []).append((name, value))
        return cls(by_owner)

    def mappings(self, owner: str, n: int) -> dict[int, dict[str, str]]:
        """Return the attributes of each owner of a kind; numbers beyond `n` are left out."""
        return {k: dict(pairs) for k, pairs in self._pairs.get(owner, {}).items() if 0 <= k < n}

    def of(self, owner: str, number: int = 0) -> Pairs:
        return tuple(self._pairs.get(owner, {}).get(number, ()))
