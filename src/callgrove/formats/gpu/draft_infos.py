"""The JSON in `additional_info`, and lanes and processes as our metadata lists them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

import numpy as np

from callgrove.formats.gpu.json_cells import json_object
from callgrove.model.arrays import ABSENT, Array, Bools, Ints

__all__ = ["SIDE_DEVICES", "SIDE_TEXTS", "Infos", "listed", "others_info", "whole_number"]

SIDE_DEVICES = ("source", "destination", "device")
SIDE_TEXTS = ("value_type", "short_name", "demangled_name")

OURS = (  # what is made of these keys: draft_tables.py
    *("kind", "category", "label", "corr", "queue", "gpu", "lane", "name", "duration_ns", "bytes", "level"),
    *("scratch", "vgpr", "accum_vgpr", "sgpr", "kernel", "idle", "parent_corr", "side"),
)


class Infos:
    """The objects of some cells: `which` gives the object of every row. Equal texts are parsed once."""

    def __init__(self, cells: Array) -> None:
        numbers: dict[str | None, int] = {}
        which = [numbers.setdefault(text, len(numbers)) for text in cells.tolist()]
        self.which = np.array(which, np.int64)
        self.objects = [json_object(text) for text in numbers]

    def number(self, key: str) -> Ints:
        """A whole number of each row; -1 where there is none."""
        return np.array([whole_number(info.get(key)) for info in self.objects] or [ABSENT], np.int64)[self.which]

    def signed(self, key: str, otherwise: Ints) -> Ints:
        """An integer of each row, of any sign; `otherwise` where there is none."""
        has = self._each([_is_integer(info.get(key)) for info in self.objects])
        found = [value if _is_integer(value := info.get(key)) else 0 for info in self.objects]
        return np.where(has, np.array(found or [0], np.int64)[self.which], otherwise)

    def texts(self, key: str) -> list[str | None]:
        """A text of each object."""
        return [str(info[key]) if info.get(key) is not None else None for info in self.objects]

    def has(self, key: str) -> Bools:
        """Which rows say something about it, if only that there is none."""
        return self._each([key in info for info in self.objects])

    def sides(self, n_devices: int) -> dict[str, Array]:
        """What the JSON says under `side`, a column for each word. What is no number is -1, or of `SIDE_TEXTS` a text;
        devices are among the first `n_devices`."""
        told = [side if isinstance(side := info.get("side"), dict) else {} for info in self.objects]
        words = dict.fromkeys(word for own in told for word in own)
        return {word: self._side(word, [own.get(word) for own in told], n_devices) for word in words}

    def _side(self, word: str, values: Sequence[object], n_devices: int) -> Array:
        if word in SIDE_TEXTS:
            texts = [value if isinstance(value, str) else "" for value in values]
            return np.array([*texts, None], object)[self.which]
        numbers = np.array([value if _is_integer(value) else ABSENT for value in values], np.int64)
        if word in SIDE_DEVICES:
            numbers[(numbers < 0) | (numbers >= n_devices)] = ABSENT
        return numbers[self.which]

    def _each(self, objects: Sequence[bool]) -> Bools:
        return np.array(objects or [False], np.bool_)[self.which]


def others_info(cells: Array) -> Array:
    """Of the JSON in some cells, what was put there by others and is nothing to us; None where that is nothing."""
    infos = Infos(cells)
    left = [{key: value for key, value in info.items() if key not in OURS} for info in infos.objects]
    texts = [json.dumps(info) if info else None for info in left]
    return np.array([*texts, None], object)[infos.which]


def listed(text: str | None) -> list[Mapping[str, object]]:
    """A list of objects in our metadata; anything else is an empty list."""
    try:
        found = json.loads(text or "[]")
    except (ValueError, RecursionError):
        return []
    return [item for item in found if isinstance(item, dict)] if isinstance(found, list) else []


def whole_number(value: object) -> int:
    """A whole number, also as text; -1 for anything else."""
    if _is_integer(value) and isinstance(value, int) and value >= 0:
        return value
    return int(value) if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 19 else ABSENT


def _is_integer(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and -(2**63) <= value < 2**63
