"""The grammar of patterns and conditions: a text becomes steps and tests, or an error that says where it is wrong."""

from __future__ import annotations

from dataclasses import dataclass

from callgrove.errors import UsageError

__all__ = ["NameTest", "Pattern", "PatternError", "Step", "Test", "parse_condition", "parse_pattern"]

MOST_STEPS = 64
LONGEST = 4096  # characters


class PatternError(UsageError):
    """A text that is no pattern or condition: what is wrong, and at which character, counted from 1."""

    def __init__(self, before: str, text: str, position: int, after: str = "") -> None:
        super().__init__(f"{before} at character {position + 1} of {text!r}{after}")
        self.before, self.text, self.position, self.after = before, text, position, after

    def __reduce__(self) -> tuple[object, ...]:
        return PatternError, (self.before, self.text, self.position, self.after)


@dataclass(frozen=True)
class NameTest:
    """What a name must be like; `kind` is "glob", "exact" or "regex"."""

    kind: str
    text: str
    position: int = 0
    ignores_case: bool = False


@dataclass(frozen=True)
class Test:
    """A part of a condition."""

    position: int


@dataclass(frozen=True)
class Step:
    """One context of a path, or with `many` any number of them. `name` None is any."""

    name: NameTest | None
    condition: Test | None = None
    many: bool = False
    position: int = 0


@dataclass(frozen=True)
class Pattern:
    """The steps of a call path, and the text that they were read from."""

    text: str
    steps: tuple[Step, ...]


def parse_pattern(text: str) -> Pattern:
    """Return the steps of a pattern such as `main -> ** -> MPI_*[?time > 5%]`. Raises PatternError."""
    raise NotImplementedError


def parse_condition(text: str) -> Test:
    """Return the tree of a condition such as `percent > 5 and name !~ /^MPI_/`. Raises PatternError."""
    raise NotImplementedError
