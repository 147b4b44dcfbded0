"""Regular expressions of CubePL: ECMAScript's, searched for anywhere in a text, in time that is linear in its length.

    Pattern("^MPI_(S|R)e(nd|cv)$").occurs_in("MPI_Send")

Whether a pattern occurs needs no captured groups, and greedy and lazy repetition are the same. So a pattern becomes an
automaton, whose states are walked all at once; what they make of a character is remembered. No pattern backtracks:
`(a+)+$` takes as long as `a+$`.

    a|b  ab  (a)  (?:a)  .  [a-z]  [^a-z]  [[:alpha:]]  a*  a+  a?  a{2}  a{2,}  a{2,5}  ^  $  \\b  \\B
    \\d \\w \\s \\D \\W \\S \\t \\n \\v \\f \\r \\0 \\xHH \\uHHHH \\cX
    and any other character after a backslash, which is that character

Captured groups that are named again (`\\1`) and looking ahead (`(?=...)`) are beyond such automata: they are refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

__all__ = ["BEGIN", "LONGEST_PATTERN", "Pattern", "PatternError", "Place"]

LONGEST_PATTERN = 64 * 1024  # characters
MAX_NESTING = 100
MAX_STATES = 100_000
MAX_KNOWN = 50_000  # remembered steps
MAX_HELD = 2_000_000  # states in all remembered sets of them
MAX_WORK = 2_000_000  # states that are visited for one text
LAST_CHARACTER = 0x10FFFF

Ranges = tuple[tuple[int, int], ...]
DIGITS: Ranges = ((48, 57),)
WORD: Ranges = ((48, 57), (65, 90), (95, 95), (97, 122))
SPACES: Ranges = ((9, 13), (32, 32), (0xA0, 0xA0), (0x2028, 0x2029), (0xFEFF, 0xFEFF))
LINE_ENDS: Ranges = ((10, 10), (13, 13), (0x2028, 0x2029))
CLASSES = {"d": DIGITS, "w": WORD, "s": SPACES}
CONTROLS = {"t": 9, "n": 10, "v": 11, "f": 12, "r": 13, "0": 0}
POSIX: dict[str, Ranges] = {
    "alpha": ((65, 90), (97, 122)),
    "digit": DIGITS,
    "alnum": ((48, 57), (65, 90), (97, 122)),
    "upper": ((65, 90),),
    "lower": ((97, 122),),
    "space": ((9, 13), (32, 32)),
    "blank": ((9, 9), (32, 32)),
    "punct": ((33, 47), (58, 64), (91, 96), (123, 126)),
    "xdigit": ((48, 57), (65, 70), (97, 102)),
    "word": WORD,
}
QUANTIFIER = re.compile(r"(?:([*+?])|\{([0-9]{1,6})(?:(,)([0-9]{1,6})?)?\})\??")
SHORT = {"*": (0, None), "+": (1, None), "?": (0, 1)}


class PatternError(ValueError):
    """A text that is not a regular expression (`is_broken`), or one that is not supported."""

    def __init__(self, problem: str, is_broken: bool = True) -> None:
        super().__init__(problem)
        self.is_broken = is_broken


# -- from text to a tree -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Characters:
    """One character of these, or with `but` one of all others."""

    ranges: Ranges
    but: bool = False

    def has(self, codes: list[int]) -> bool:
        """Return whether a character is one of these, in any of its spellings."""
        return any(low <= code <= high for low, high in self.ranges for code in codes) != self.but


@dataclass(frozen=True)
class Sequence:
    parts: tuple[Part, ...]


@dataclass(frozen=True)
class Choice:
    parts: tuple[Part, ...]


@dataclass(frozen=True)
class Repeat:
    part: Part
    least: int
    most: int | None


@dataclass(frozen=True)
class Assertion:
    """A place: `^` the beginning, `$` the end, `b` the edge of a word, `B` any other."""

    kind: str


Part = Characters | Sequence | Choice | Repeat | Assertion


class _Reader:
    """Takes the text from the left."""

    def __init__(self, text: str) -> None:
        self.text, self.at, self.depth = text, 0, 0

    def run(self) -> Part:
        if len(self.text) > LONGEST_PATTERN:
            raise PatternError(f"it has more than {LONGEST_PATTERN} characters", is_broken=False)
        part = self.choice()
        if self.at < len(self.text):
            raise PatternError("a bracket is closed that was not opened")
        return part

    def take(self) -> str:
        if self.at >= len(self.text):
            raise PatternError("it ends too early")
        self.at += 1
        return self.text[self.at - 1]

    def skip(self, word: str) -> bool:
        if self.text.startswith(word, self.at):
            self.at += len(word)
            return True
        return False

    def choice(self) -> Part:
        self.depth += 1
        if self.depth > MAX_NESTING:
            raise PatternError(f"brackets are nested more than {MAX_NESTING} deep", is_broken=False)
        parts = [self.sequence()]
        while self.skip("|"):
            parts.append(self.sequence())
        self.depth -= 1
        return parts[0] if len(parts) == 1 else Choice(tuple(parts))

    def sequence(self) -> Part:
        parts: list[Part] = []
        while self.at < len(self.text) and self.text[self.at] not in "|)":
            part = self.single()
            found = QUANTIFIER.match(self.text, self.at)
            if found is not None:
                if isinstance(part, Assertion) and self.text[self.at - 1] != ")":
                    raise PatternError("a place cannot be repeated")
                self.at = found.end()
                part = _repeat(part, found)
            parts.append(part)
        return parts[0] if len(parts) == 1 else Sequence(tuple(parts))

    def single(self) -> Part:
        char = self.take()
        if char == "(":
            return self.group()
        if char == "[":
            return self.brackets()
        if char == "\\":
            return self.escape()
        if char in "^$":
            return Assertion(char)
        if char == ".":
            return Characters(LINE_ENDS, but=True)
        if char in "*+?{":
            raise PatternError(f"nothing stands before {char!r} that could be repeated")
        return Characters(((ord(char), ord(char)),))

    def group(self) -> Part:
        if self.skip("?:"):
            pass
        elif self.text.startswith("?", self.at):
            raise PatternError("it looks ahead or behind", is_broken=self.text[self.at + 1 : self.at + 2] not in "=!<")
        part = self.choice()
        if not self.skip(")"):
            raise PatternError("a bracket is not closed")
        return part

    def escape(self) -> Part:
        char = self.take()
        if char in "bB":
            return Assertion(char)
        if char in "123456789":
            raise PatternError("it names a captured group again", is_broken=False)
        if char.lower() in CLASSES:
            return Characters(CLASSES[char.lower()], but=char.isupper())
        code = self.code(char)
        return Characters(((code, code),))

    def code(self, char: str) -> int:
        """Return the character that stands behind a backslash."""
        if char in CONTROLS:
            return CONTROLS[char]
        if char == "c":
            return ord(self.take()) % 32
        if char in "xu":
            found = re.compile(r"[0-9a-fA-F]{2}" if char == "x" else r"[0-9a-fA-F]{4}").match(self.text, self.at)
            if found is None:
                raise PatternError(f"\\{char} needs digits")
            self.at = found.end()
            return int(found[0], 16)
        return ord(char)

    def brackets(self) -> Part:
        but = self.skip("^")
        ranges: list[tuple[int, int]] = []
        while not self.skip("]"):
            low = self.member(ranges)
            if low is None:
                continue
            if self.text.startswith("-", self.at) and not self.text.startswith("-]", self.at):
                self.at += 1
                high = self.member(ranges)
                if high is None or high < low:
                    raise PatternError("a range of characters runs backwards")
                ranges.append((low, high))
            else:
                ranges.append((low, low))
        return Characters(tuple(ranges), but)

    def member(self, ranges: list[tuple[int, int]]) -> int | None:
        """Take one member of a class; return its code, or None where it is a class itself, which is added."""
        if self.skip("[:"):
            end = self.text.find(":]", self.at)
            name = self.text[self.at : end] if end >= 0 else ""
            if name not in POSIX:
                raise PatternError(f"there is no class of characters {name[:20]!r}")
            self.at = end + 2
            ranges += POSIX[name]
            return None
        char = self.take()
        if char != "\\":
            return ord(char)
        char = self.take()
        if char.lower() in CLASSES:
            ranges += _complement(CLASSES[char.lower()]) if char.isupper() else CLASSES[char.lower()]
            return None
        return 8 if char == "b" else self.code(char)


def _complement(ranges: Ranges) -> Ranges:
    bounds = [-1, *(end for low, high in ranges for end in (low, high)), LAST_CHARACTER + 1]
    pairs = zip(bounds[::2], bounds[1::2], strict=True)
    return tuple((low + 1, high - 1) for low, high in pairs if low + 1 <= high - 1)


def _repeat(part: Part, found: re.Match[str]) -> Part:
    sign, least, comma, most = found.groups()
    if sign:
        return Repeat(part, *SHORT[sign])
    top = int(least) if not comma else int(most) if most else None
    if top is not None and top < int(least):
        raise PatternError("a repetition runs backwards")
    return Repeat(part, int(least), top)


def _size(part: Part) -> int:
    """Return how many states a part needs."""
    if isinstance(part, Sequence):
        return sum(map(_size, part.parts))
    if isinstance(part, Choice):
        return 1 + sum(1 + _size(one) for one in part.parts)
    if isinstance(part, Repeat):
        return 2 + _size(part.part) * (part.least + 1 if part.most is None else part.most)
    return 1


# -- from a tree to an automaton, and its walk -------------------------------------------------------------------------


START, ACCEPT = 0, 1
AT_START, AFTER_WORD, AFTER_OTHER = 0, 1, 2  # what stands before a place
END = ""  # the character after the last one

Known = dict[tuple[int, int, str], tuple[bool, int]]


@dataclass(frozen=True)
class Place:
    """How far a pattern has come in a text: the states that it may be in, and what stands before; or that it matched,
    whatever follows."""

    states: frozenset[int]
    before: int
    is_match: bool = False


BEGIN = Place(frozenset([START]), AT_START)
MATCHED = Place(frozenset(), AT_START, is_match=True)


class Pattern:
    """A regular expression; with `ignores_case`, small letters and capitals are the same."""

    def __init__(self, source: str, ignores_case: bool = False) -> None:
        self.source, self.ignores_case = source, ignores_case
        self._tree = _Reader(source).run()
        self.size = _size(self._tree)  # the states that it needs
        if self.size > MAX_STATES:
            raise PatternError("its repetitions make it too large", is_broken=False)
        self._takes: list[list[tuple[Characters, int]]] = []  # what a state takes, and where that leads
        self._free: list[list[tuple[str, int]]] = []  # steps without a character, and what they demand

    def __reduce__(self) -> tuple[object, ...]:
        return Pattern, (self.source, self.ignores_case)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Pattern) and self.__reduce__() == other.__reduce__()

    def __hash__(self) -> int:
        return hash((self.source, self.ignores_case))

    def _make_automaton(self) -> None:
        """Make what walks over texts, when the first one comes: most patterns of a file never meet any."""
        self._takes, self._free = [[], []], [[], []]
        end = self._build(self._tree, START)
        self._free[end].append(("", ACCEPT))
        reached = self._closure(frozenset([START]), {"": True, "^": False, "$": True, "b": True, "B": True})
        self._is_anchored = ACCEPT not in reached and not any(self._takes[state] for state in reached)
        self._forget()

    def _state(self) -> int:
        self._takes.append([])
        self._free.append([])
        return len(self._takes) - 1

    def _build(self, part: Part, start: int) -> int:
        """Add the states of a part that begins at a state; return the one where it ends."""
        if isinstance(part, Sequence):
            for one in part.parts:
                start = self._build(one, start)
            return start
        if isinstance(part, Repeat):
            return self._build_repeat(part, start)
        end = self._state()
        if isinstance(part, Characters):
            self._takes[start].append((part, end))
        elif isinstance(part, Assertion):
            self._free[start].append((part.kind, end))
        else:
            for one in part.parts:
                first = self._state()
                self._free[start].append(("", first))
                self._free[self._build(one, first)].append(("", end))
        return end

    def _build_repeat(self, part: Repeat, start: int) -> int:
        for _ in range(part.least):
            start = self._build(part.part, start)
        end = self._state()
        if part.most is None:
            again = self._state()
            self._free[start].append(("", again))
            self._free[self._build(part.part, again)].append(("", again))
            self._free[again].append(("", end))
            return end
        for _ in range(part.most - part.least):
            self._free[start].append(("", end))
            start = self._build(part.part, start)
        self._free[start].append(("", end))
        return end

    def _forget(self) -> None:
        self._sets: list[frozenset[int]] = [frozenset([START])]
        self._numbers: dict[frozenset[int], int] = {self._sets[0]: 0}
        self._known: Known = {}
        self._held = 0

    def occurs_in(self, text: str) -> bool:
        """Return whether the pattern matches anywhere in a text. Raises PatternError where that takes too long."""
        return self._walk(BEGIN, (*text, END)).is_match

    def advance(self, place: Place, text: str) -> Place:
        """Return how far the pattern has come after more of a text: texts that begin alike are walked over once."""
        return self._walk(place, text)

    def ends_at(self, place: Place) -> bool:
        """Return whether the pattern matches in a text that ends here."""
        return self._walk(place, (END,)).is_match

    def _walk(self, place: Place, text: Iterable[str]) -> Place:
        if place.is_match:
            return place
        if not self._takes:
            self._make_automaton()
        self._work = 0
        at, before, known = self._number(place.states), place.before, self._known
        for char in text:
            key = at, before, char
            step = known.get(key)
            if step is None:
                if len(known) >= MAX_KNOWN or self._held >= MAX_HELD:
                    kept = self._sets[at]
                    self._forget()
                    at, known = self._number(kept), self._known
                step = known[at, before, char] = self._step(self._sets[at], before, char)
            is_match, at = step
            if is_match:
                return MATCHED
            before = AFTER_WORD if _is_word(char) else AFTER_OTHER
            if self._is_anchored and not self._sets[at]:
                break
        return Place(self._sets[at], before)

    def _step(self, states: frozenset[int], before: int, char: str) -> tuple[bool, int]:
        """Return whether the pattern has matched before a character, and the states after it."""
        at_edge = (before == AFTER_WORD) != _is_word(char)
        holds = {"": True, "^": before == AT_START, "$": char == END, "b": at_edge, "B": not at_edge}
        reached = self._closure(states, holds)
        self._work += len(reached)
        if self._work > MAX_WORK:
            raise PatternError("it takes too long in a long text", is_broken=False)
        if ACCEPT in reached:
            return True, 0
        after = {START} if not self._is_anchored else set()
        if char != END:
            spellings = (char, char.lower(), char.upper()) if self.ignores_case else (char,)
            codes = [ord(one) for one in spellings if len(one) == 1]
            steps = (step for state in reached for step in self._takes[state])
            after |= {target for characters, target in steps if characters.has(codes)}
        return False, self._number(frozenset(after))

    def _number(self, states: frozenset[int]) -> int:
        number = self._numbers.setdefault(states, len(self._sets))
        if number == len(self._sets):
            self._sets.append(states)
            self._held += len(states)
        return number

    def _closure(self, states: frozenset[int], holds: dict[str, bool]) -> set[int]:
        """Return these states and all that are reached from them without taking a character, by steps whose demands
        hold."""
        reached, stack = set(states), list(states)
        while stack:
            for kind, target in self._free[stack.pop()]:
                if target not in reached and holds[kind]:
                    reached.add(target)
                    stack.append(target)
        return reached


def _is_word(char: str) -> bool:
    return char != END and (char.isascii() and (char.isalnum() or char == "_"))
