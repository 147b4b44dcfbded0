"""Every error that callgrove raises on purpose.

    CallgroveError            exit code 1   something failed
    |-- UsageError                      2   the call names something that does not exist
    |   `-- NotEvaluated                    a derived metric, whose formula is not evaluated
    |       |-- NotMeasured                 a metric that is in the tree of metrics, and that nobody measured
    |       `-- NotMeasuredInRun            a formula over runs of which one did not measure an operand
    |-- InputError                      3   the input cannot be used
    |   |-- NotRecognised                   no format, or more than one, claims it
    |   |-- CorruptFile                     a recognised file is damaged
    |   |-- UnsupportedVersion              a recognised file of a version we do not know
    |   `-- RefusedInput                    legal, but unsafe to read (entities, paths outside)
    |-- InvalidExperiment               1   a builder was given what contradicts itself
    |-- IncompleteResult                4   printed, but not complete, under --strict
    `-- MissingExtra                    1   an optional package is not installed
        `-- MissingPackage                  one that is not an extra of ours, such as Hatchet

    PluginWarning                           no error: a plug-in that is broken is left out

Each message is one sentence that names the file, the place and, where there is one, the remedy. A remedy is a parameter
of the library (`overwrite=True`), which the command line shows as its flag (`--force`): messages hold a `Parameter` and
are spelled by whoever prints them.

    UsageError(f"{target}: exists already; choose another name, or replace it (", Parameter("overwrite", True), ")")
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, SupportsIndex

__all__ = [
    "CallgroveError",
    "CorruptFile",
    "IncompleteResult",
    "InputError",
    "InvalidExperiment",
    "MissingExtra",
    "MissingPackage",
    "NotEvaluated",
    "NotMeasured",
    "NotMeasuredInRun",
    "NotRecognised",
    "Parameter",
    "PluginWarning",
    "RefusedInput",
    "UnsupportedVersion",
    "UsageError",
    "Wording",
    "compose_text",
    "count_of",
    "spell",
]

PathLike = str | Path
SHOWN_FORMULA = 80  # characters of a formula that an error shows


@dataclass(frozen=True)
class Parameter:
    """A parameter or a method of the library that a message names.

    Parameter("overwrite", True)     overwrite=True
    Parameter("to_format")           to_format=...       any value
    Parameter("sql_tables()")        sql_tables()        a method
    """

    name: str
    value: object = ...

    def __str__(self) -> str:
        if self.name.endswith(")"):
            return self.name
        return f"{self.name}=..." if self.value is ... else f"{self.name}={self.value!r}"


class Wording(str):
    """A text that names parameters. As a str it spells them as the library does; `spell` spells them otherwise."""

    __slots__ = ("parts",)
    parts: tuple[str | Parameter, ...]

    def __new__(cls, *parts: str | Parameter) -> Wording:
        made = super().__new__(cls, "".join(map(str, parts)))
        made.parts = parts
        return made

    def __getnewargs__(self) -> tuple[str | Parameter, ...]:  # type: ignore[override]
        return self.parts

    def replace(self, old: str, new: str, count: SupportsIndex = -1) -> Wording:
        """Return the text with `new` instead of `old`, but for what parameters are called."""
        return Wording(*(part.replace(old, new, count) if isinstance(part, str) else part for part in self.parts))

    def removeprefix(self, prefix: str) -> Wording:
        """Return the text without a beginning that names no parameter."""
        first, *rest = self.parts
        return Wording(first.removeprefix(prefix) if isinstance(first, str) else first, *rest)


def count_of(n: SupportsIndex, singular: str, plural: str = "") -> str:
    """Return a number with its noun, as messages say it: `1 row`, `1,200 rows`, `0 entries`.

    `plural` is for nouns that do not simply take an s, and for verbs that follow: `("row is", "rows are")`.
    """
    n = operator.index(n)
    if n == 1:
        return f"1 {singular}"
    return f"{n:,} {plural or (f'{singular[:-1]}ies' if singular.endswith('y') else f'{singular}s')}"


def compose_text(*parts: object) -> str:
    """Return parts as one text: parameters stay what they are, also those of texts and errors among the parts."""
    flat: list[str | Parameter] = []
    for part in parts:
        text = part.message if isinstance(part, CallgroveError) else part
        flat += text.parts if isinstance(text, Wording) else [text if isinstance(text, Parameter) else str(text)]
    return Wording(*flat) if any(isinstance(part, Parameter) for part in flat) else "".join(map(str, flat))


def spell(text: str, name: Callable[[Parameter], str]) -> str:
    """Return a text with its parameters called as `name` calls them."""
    if not isinstance(text, Wording):
        return text
    return "".join(name(part) if isinstance(part, Parameter) else part for part in text.parts)


class CallgroveError(Exception):
    """The root of all errors raised on purpose. Its message may be given in parts, of which some are parameters."""

    exit_code: ClassVar[int] = 1

    def __init__(self, *parts: object) -> None:
        super().__init__(compose_text(*parts))

    @property
    def message(self) -> str:
        """What is wrong, with the parameters that it names."""
        text: str = self.args[0]
        return text


class UsageError(CallgroveError):
    """The call asks for a metric, table, profile or option that does not exist."""

    exit_code = 2


class PluginWarning(UserWarning):
    """A package that gives formats is broken, and what is wrong with it is left out; no error, as others work on."""


class NotEvaluated(UsageError):
    """The values of a derived metric are wanted, and its formula cannot be evaluated; `reason` says why."""

    def __init__(self, metric: str, kind: str, formula: str, reason: str = "") -> None:
        self.metric, self.kind, self.formula, self.reason = metric, kind, formula, reason
        shown = " ".join(formula.split())
        shown = shown if len(shown) <= SHOWN_FORMULA else shown[:SHOWN_FORMULA].rstrip() + " ..."
        why = reason or "its formula is not evaluated, so it has no values"
        text = f"{metric} is a derived metric ({kind}): {why}: {shown}" if shown else f"{metric}: {why}"
        super().__init__(text)

    def of_metric(self, metric: str) -> NotEvaluated:
        """Return this error with the name of the metric, where it has none yet."""
        return NotEvaluated(self.metric or metric, self.kind, self.formula, self.reason)

    def __reduce__(self) -> tuple[object, ...]:
        return NotEvaluated, (self.metric, self.kind, self.formula, self.reason)


class NotMeasured(NotEvaluated):
    """The values of a metric are wanted that nobody measured; `computed_with` is the parameter that computes them, if
    there is one."""

    def __init__(self, metric: str, computed_with: str = "") -> None:
        self.metric, self.kind, self.formula, self.reason = metric, "", "", "it is not measured"
        self.computed_with = computed_with
        remedy = ("; ", Parameter(computed_with, True), " computes it") if computed_with else ()
        UsageError.__init__(self, f"{metric} is not measured here, so it has no values", *remedy)

    def of_metric(self, metric: str) -> NotEvaluated:
        """Return this error, which names its metric already."""
        return self

    def __reduce__(self) -> tuple[object, ...]:
        return NotMeasured, (self.metric, self.computed_with)


class NotMeasuredInRun(NotEvaluated):
    """A formula is wanted over several runs, and one of them did not measure what it needs."""

    def __init__(self, metric: str, run: str, operand: str) -> None:
        self.run, self.operand = run, operand
        super().__init__(metric, "", "", f"run {run} did not measure {operand}")
        text = f"{metric} cannot be computed over these runs: run {run} did not measure {operand}; choose others with "
        UsageError.__init__(self, text, Parameter("runs"))

    def of_metric(self, metric: str) -> NotEvaluated:
        """Return this error as it is: it names the metric."""
        return self

    def __reduce__(self) -> tuple[object, ...]:
        return NotMeasuredInRun, (self.metric, self.run, self.operand)


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
        """Return this error with what can be done about it."""
        return _rebuild_corrupt(self.path, self.section, self.expected, self.found, self.offset, self.line, remedy)

    def _sentence(self) -> str:
        place = self.section
        if self.offset is not None:
            place += f" at byte {self.offset}"
        if self.line is not None:
            place += f" at line {self.line}"
        text = compose_text(f"{self.path}: {place}: expected ", self.expected, ", found ", self.found)
        return compose_text(text, "; ", self.remedy) if self.remedy else text


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
    """An optional dependency is needed; the message names the pip command. `purpose` is what needs it."""

    def __init__(self, extra: str, purpose: str | Parameter) -> None:
        self.extra = extra
        self.purpose = purpose
        super().__init__(purpose, f" needs an optional package: pip install 'callgrove[{extra}]'")

    def __reduce__(self) -> tuple[object, ...]:
        return MissingExtra, (self.extra, self.purpose)


class MissingPackage(MissingExtra):
    """A package of others is needed, which is not an extra of ours; the message names the pip command."""

    def __init__(self, package: str, purpose: str | Parameter) -> None:
        self.extra, self.purpose = package, purpose
        CallgroveError.__init__(self, purpose, f" needs a package that is not installed: pip install {package}")

    def __reduce__(self) -> tuple[object, ...]:
        return MissingPackage, (self.extra, self.purpose)
