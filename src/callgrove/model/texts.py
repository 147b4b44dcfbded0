"""Texts that are known by numbers, each once; and from one such list to another."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from callgrove.model.arrays import ABSENT, Array, Ids

__all__ = ["Names", "Translation"]

NOT_YET = -2


class Names:
    """Texts, each once; numbers never change."""

    def __init__(self) -> None:
        self.all: list[str] = []
        self._number: dict[str, int] = {}

    def __call__(self, text: str | None) -> int:
        """The number of a text; -1 for none."""
        if text is None:
            return ABSENT
        number = self._number.setdefault(text, len(self.all))
        if number == len(self.all):
            self.all.append(text)
        return number

    def numbers(self, texts: Sequence[str | None] | Array) -> Ids:
        known = {text: self(text) for text in dict.fromkeys(texts)}
        return np.fromiter(map(known.__getitem__, texts), np.int32, len(texts))


class Translation:
    """From numbers of a list that may still grow to those of `names`, as far as they are used."""

    def __init__(self, names: Names) -> None:
        self._names = names
        self._known = np.array([ABSENT], np.int32)  # the last entry is what -1, no text, picks

    def numbers(self, own: Ids, strings: Sequence[str]) -> Ids:
        """The same texts; `strings` is the list that `own` numbers."""
        if len(strings) + 1 > len(self._known):
            more = np.full(len(strings) + 1, NOT_YET, np.int32)
            more[: len(self._known) - 1] = self._known[:-1]
            more[-1] = ABSENT
            self._known = more
        found = self._known.take(own)
        unknown = found == NOT_YET
        if not unknown.any():
            return found
        for text in np.unique(own[unknown]).tolist():
            self._known[text] = self._names(strings[text])
        return self._known.take(own)
