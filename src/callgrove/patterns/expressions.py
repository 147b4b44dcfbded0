"""Globs and regular expressions over names, in time that is linear in the length of a name.

    compile_name(NameTest("glob", "MPI_*"))          a function from a name to a bool
    compile_name(NameTest("regex", "^MPI_"))

Python's `re` may take for ever over a few dozen characters: `(a+)+$`, `.*.*.*.*x`. So it only judges whether an
expression is one. What walks over names is the automaton that evaluates those of Cube files
(`model/cubepl/patterns.py`): an expression finds the same there as with `re.search`, but for these:

    refused         groups that are named again, looking ahead and behind, (?i) and other flags inside, named groups,
                    atomic groups and possessive repetitions; \\A, \\Z and escapes of other kinds
    \\d \\w \\s \\b     digits, letters and blanks of ASCII, as with re.ASCII
    [[:alpha:]]     classes of characters by their name, which `re` does not have
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Sequence

import numpy as np

from callgrove.arrays import Bools
from callgrove.model.cubepl.patterns import Pattern as Automaton
from callgrove.model.cubepl.patterns import PatternError as AutomatonError
from callgrove.model.cubepl.patterns import Place
from callgrove.patterns.syntax import NameTest, PatternError

__all__ = ["Walk", "compile_name", "match_texts"]

Predicate = Callable[[str], bool]

ESCAPES = "dDwWsSbBtnvfrxu"  # that mean the same to both
PLAIN = re.compile(r"\\[^A-Za-z0-9]")  # a character that stands for itself
UNLIKE = re.compile(r"\\[A-Za-z0-9]|\[\^?\]")  # what they may read differently


def compile_name(test: NameTest, text: str) -> Predicate:
    """Return whether a name is what a test demands, as a function. `text` is what the test was read from. Raises
    PatternError where a regular expression is none, or is not supported."""
    if test.kind == "exact":
        return lambda name: name == test.text
    if test.kind == "glob":
        return _compile_glob(test.text)
    return _compile_regex(test, text).occurs_in


def match_texts(test: NameTest, text: str, names: Sequence[str]) -> Bools:
    """Return which of some names fulfil a test."""
    holds = compile_name(test, text)
    try:
        return np.fromiter(map(holds, names), np.bool_, len(names))
    except AutomatonError as error:
        raise _refuse(test, text, f" is not supported: {error}") from None


def _compile_glob(glob: str) -> Predicate:
    """Return whether a whole name fits a glob. Each part between stars is looked for once: (?>...) does not go back."""
    if "*" not in glob and "?" not in glob:
        return lambda name: name == glob
    first, *parts = (re.escape(part).replace(r"\?", ".") for part in glob.split("*"))
    middle = "".join(f"(?>.*?{part})" for part in parts[:-1] if part)
    last = f".*{parts[-1]}" if parts else ""
    match = re.compile(f"{first}{middle}{last}", re.DOTALL).fullmatch
    return lambda name: match(name) is not None


class Walk:
    """A regular expression that is walked over texts which begin alike. `text` is what it was read from."""

    def __init__(self, test: NameTest, text: str) -> None:
        self._test, self._text, self._automaton = test, text, _compile_regex(test, text)

    def advance(self, place: Place, text: str) -> Place:
        """Return how far the expression has come after more of a text."""
        try:
            return self._automaton.advance(place, text)
        except AutomatonError as error:
            raise _refuse(self._test, self._text, f" is not supported: {error}") from None

    def ends_at(self, place: Place) -> bool:
        """Return whether the expression is found in a text that ends here."""
        return self._automaton.ends_at(place)


def _compile_regex(test: NameTest, text: str) -> Automaton:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of sets that may one day be nested
            re.compile(test.text)
    except (re.error, OverflowError, RecursionError) as error:
        reason = error.msg.partition(",")[0] if isinstance(error, re.error) else str(error)
        raise _refuse(test, text, f" is not a regular expression: {reason}") from None
    for found in UNLIKE.finditer(PLAIN.sub("..", test.text)):
        if found[0][0] != "\\" or found[0][1] not in ESCAPES:
            raise _refuse(test, text, f" is not supported: it has {found[0]}")
    try:
        return Automaton(test.text, ignores_case=test.ignores_case)
    except AutomatonError as error:
        raise _refuse(test, text, f" is not supported: {error}") from None


def _refuse(test: NameTest, text: str, why: str) -> PatternError:
    spelled = f"/{test.text}/{'i' * test.ignores_case}"
    return PatternError(repr(spelled), text, test.position, why, shows_text=False)
