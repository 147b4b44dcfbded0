"""Every error that callgrove raises on purpose.

    CallgroveError            exit code 1   something failed
    |-- UsageError                      2   the call names something that does not exist
    |   `-- NotEvaluated                    a derived metric, whose formula is not evaluated
    |-- InputError                      3   the input cannot be used
    |   |-- NotRecognised                   no format, or more than one, claims it
    |   |-- CorruptFile                     a recognised file is damaged
    |   |-- UnsupportedVersion              a recognised file of a version we do not know
    |   `-- RefusedInput                    legal, but unsafe to read (entities, paths outside)
    |-- InvalidExperiment               1   a builder was given what contradicts itself
    |-- IncompleteResult                4   printed, but not complete, under --strict
    `-- MissingExtra                    1   an optional package is not installed

    PluginWarning                           no error: a plug-in that is broken is left out

Each message is one sentence that names the file, the place and, where there is one, the remedy.
"""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

__all__ = [
    "CallgroveError",
    "CorruptFile",
    "IncompleteResult",
    "InputError",
    "InvalidExperiment",
    "MissingExtra",
    "NotEvaluated",
    "NotRecognised",
    "PluginWarning",
    "RefusedInput",
    "UnsupportedVersion",
    "UsageError",
]

PathLike = str | Path


class CallgroveError(Exception):
    """The root of all errors raised on purpose."""

    exit_code: ClassVar[int] = 1


class UsageError(CallgroveError):
    """The call asks for a metric, table, profile or option that does not exist."""

    exit_code = 2


class PluginWarning(UserWarning):
    """A package that gives formats is broken, and what is wrong with it is left out; no error, as others work on."""


class NotEvaluated(UsageError):
    """The values of a derived metric are wanted: it is a formula over others, which nothing here evaluates."""

    def __init__(self, metric: str, kind: str, formula: str) -> None:
        self.metric = metric
        self.kind = kind
        self.formula = formula
        super().__init__(
            f"{metric} is a derived metric ({kind}): its formula is not evaluated, so it has no values: {formula}"
        )

    def __reduce__(self) -> tuple[object, ...]:
        return NotEvaluated, (self.metric, self.kind, self.formula)


class InputError(CallgroveError):
    """The input cannot be used."""

    exit_code = 3


class NotRecognised(InputError):
    """No format claims the input, or several do with equal right."""


class CorruptFile(InputError):
    """A file that contradicts itself or ends too early.

    `section` and `offset` say where; `expected` and `found` say what.
    """

    def __init__(
        self,
        path: PathLike,
        section: str,
        *,
        expected: str,
        found: str,
        offset: int | None = None,
        line: int | None = None,
        remedy: str = "",
    ) -> None:
        self.path = str(path)
        self.section = section
        self.offset = offset
        self.line = line
        self.expected = expected
        self.found = found
        self.remedy = remedy
        super().__init__(self._sentence())

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild_corrupt, (
            self.path,
            self.section,
            self.expected,
            self.found,
            self.offset,
            self.line,
            self.remedy,
        )

    def with_remedy(self, remedy: str) -> CorruptFile:
        """The same damage, with what can be done about it."""
        return _rebuild_corrupt(self.path, self.section, self.expected, self.found, self.offset, self.line, remedy)

    def _sentence(self) -> str:
        place = self.section
        if self.offset is not None:
            place += f" at byte {self.offset}"
        if self.line is not None:
            place += f" at line {self.line}"
        text = f"{self.path}: {place}: expected {self.expected}, found {self.found}"
        return f"{text}; {self.remedy}" if self.remedy else text


def _rebuild_corrupt(
    path: str, section: str, expected: str, found: str, offset: int | None, line: int | None, remedy: str
) -> CorruptFile:
    return CorruptFile(path, section, expected=expected, found=found, offset=offset, line=line, remedy=remedy)


class UnsupportedVersion(InputError):
    """A recognised file whose version is outside what we read."""


class RefusedInput(InputError):
    """Legal input that is not safe to read."""


class InvalidExperiment(CallgroveError):
    """What a builder was given breaks the invariants of the model; `problems` lists every one."""

    def __init__(self, problems: list[str]) -> None:
        self.problems = problems
        more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
        super().__init__(f"the experiment contradicts itself: {problems[0]}{more}")

    def __reduce__(self) -> tuple[object, ...]:
        return InvalidExperiment, (self.problems,)


class IncompleteResult(CallgroveError):
    """What could be printed was printed, but parts are missing and --strict was given."""

    exit_code = 4


class MissingExtra(CallgroveError):
    """An optional dependency is needed; the message names the pip command."""

    def __init__(self, extra: str, purpose: str) -> None:
        self.extra = extra
        self.purpose = purpose
        super().__init__(f"{purpose} needs an optional package: pip install 'callgrove[{extra}]'")

    def __reduce__(self) -> tuple[object, ...]:
        return MissingExtra, (self.extra, self.purpose)
