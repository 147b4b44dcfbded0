"""Which contexts a pattern finds, and which lie on the paths that it matches."""

from __future__ import annotations

from typing import TYPE_CHECKING

from callgrove.arrays import Bools
from callgrove.patterns.syntax import Pattern

if TYPE_CHECKING:
    from callgrove.model.experiment import Experiment

__all__ = ["Matcher"]


class Matcher:
    """Answers patterns over the contexts of one experiment; names and costs are looked at once."""

    def __init__(self, experiment: Experiment) -> None:
        self.experiment = experiment

    def read(self, text: str) -> Pattern:
        """Return the pattern that a text means: a text that is the name of a context means that name."""
        raise NotImplementedError

    def find(self, pattern: Pattern | str) -> Bools:
        """Return the contexts of the tree at which a matching path ends; none is an error that names the nearest."""
        raise NotImplementedError

    def find_paths(self, pattern: Pattern | str) -> Bools:
        """Return every context of the tree that lies on a matching path; none is an error that names the nearest."""
        raise NotImplementedError
