"""The parts of Extra-P 3's binary files: strings, numbers, terms, functions, generators.

    str    u32 length, UTF-8              int, id   i64              dbl   f64
    TERM   dbl coefficient, int n, n x (str `SimpleTerm`, str polynomial|logarithm, dbl exponent)
    FUNC   str type, then what the type has
    GEN    str name, str cross-validation, dbl epsilon, str measure, [OPT]
    OPT    int, str strategy, int, int, str strategy: in sparse files only, and recognised by its strategies

Specification: extrap.md section 11.
"""

from __future__ import annotations

import struct
from pathlib import Path

from callgrove.binary.filebytes import FileBytes
from callgrove.errors import CorruptFile
from callgrove.model.function_text import exponent_text
from callgrove.model.study import Term

__all__ = ["Function", "Reader3"]

SINGLE_STRATEGIES = ("FIRST_POINTS_FOUND", "MAX_NUMBER_POINTS", "CHEAPEST_POINTS")
MULTI_STRATEGIES = ("INCREASING_COST", "DECREASING_COST")
TERM_TYPES = ("polynomial", "logarithm")
LONGEST_TEXT = 1 << 20  # bytes of a name or a comment
SMALLEST_TERM = 16  # bytes of a term with nothing in it

Function = tuple[float, tuple[Term, ...]]  # constant and terms
Factor = tuple[float, str, str]  # coefficient, power, logarithm


class Reader3:
    """Reads the primitives one after the other. `records` counts what was read completely."""

    def __init__(self, file: FileBytes, order: str) -> None:
        self._file, self._order = file, order
        self.at, self.records = 0, 0
        self.tag = "header"

    @property
    def path(self) -> Path:
        return self._file.path

    @property
    def at_end(self) -> bool:
        return self.at >= self._file.size

    def _unpack(self, kind: str, what: str) -> int | float:
        size = struct.calcsize(kind)
        if self.at + size > self._file.size:
            raise self.bad(f"{size} bytes for {what}", f"{self._file.size - self.at}, then the file ends")
        (found,) = struct.unpack_from(self._order + kind, self._file.buffer, self.at)
        self.at += size
        number: int | float = found
        return number

    def i16(self, what: str) -> int:
        return int(self._unpack("h", what))

    def i64(self, what: str) -> int:
        return int(self._unpack("q", what))

    def f64(self, what: str) -> float:
        return float(self._unpack("d", what))

    def text(self, what: str) -> str:
        size = int(self._unpack("I", f"the length of {what}"))
        if size > self._file.size - self.at:
            raise self.bad(f"{what}", f"a length of {size} bytes where {self._file.size - self.at} are left")
        if size > LONGEST_TEXT:
            raise self.bad(f"{what} of at most {LONGEST_TEXT} bytes", f"a length of {size}")
        raw = self._file.copy(self.at, size, self.tag)
        self.at += size
        try:
            return raw.decode("utf-8")
        except UnicodeDecodeError:
            raise self.bad(f"{what} in UTF-8", repr(raw[:40])) from None

    def count(self, what: str, smallest: int) -> int:
        """How many follow; never more than the rest of the file can hold."""
        n = self.i64(f"the number of {what}")
        if not 0 <= n <= (self._file.size - self.at) // smallest:
            raise self.bad(f"a number of {what} that fits the file", str(n))
        return n

    def word(self, expected: str, what: str) -> None:
        found = self.text(what)
        if found != expected:
            raise self.bad(expected, repr(found))

    def bad(self, expected: str, found: str) -> CorruptFile:
        return CorruptFile(
            self.path,
            f"{self.tag} (record {self.records + 1})",
            offset=self.at,
            expected=expected,
            found=found,
            remedy=f"{self.records} records before it were read",
        )

    # -- what is made of them --------------------------------------------------------------------------------------

    def term(self) -> Factor:
        """A compound term as coefficient and exponents; simple terms are multiplied, so exponents add up."""
        coefficient = self.f64("a coefficient")
        sums = dict.fromkeys(TERM_TYPES, 0.0)
        for _ in range(self.count("simple terms", SMALLEST_TERM)):
            self.word("SimpleTerm", "a simple term")
            self._simple(sums)
        try:
            return coefficient, exponent_text(sums["polynomial"]), exponent_text(sums["logarithm"])
        except ValueError as error:
            raise self.bad("finite exponents", str(error)) from None

    def _simple(self, sums: dict[str, float]) -> None:
        kind = self.text("the type of a term")
        if kind not in sums:
            raise self.bad(" or ".join(TERM_TYPES), repr(kind))
        sums[kind] += self.f64("an exponent")

    def function(self, parameters: tuple[str, ...]) -> Function:
        """A function of any type."""
        kind = self.text("the type of a function")
        if kind == "SingleParameterFunction":
            constant = self.f64("a constant")
            return constant, tuple(self._single(parameters[0]) for _ in range(self.count("terms", SMALLEST_TERM)))
        if kind == "MultiParameterFunction":
            constant = self.f64("a constant")
            return constant, tuple(self._multi() for _ in range(self.count("terms", SMALLEST_TERM)))
        if kind == "CompoundTerm":
            return 0.0, (_of_one(parameters[0], self.term()),)
        if kind == "SimpleTerm":
            sums = dict.fromkeys(TERM_TYPES, 0.0)
            self._simple(sums)
            exponents = exponent_text(sums["polynomial"]), exponent_text(sums["logarithm"])
            return 0.0, (Term(1.0, {parameters[0]: exponents}),)
        if kind == "Function":
            return 0.0, ()
        raise self.bad("the type of a function", repr(kind))

    def _single(self, parameter: str) -> Term:
        self.word("CompoundTerm", "a term")
        return _of_one(parameter, self.term())

    def _multi(self) -> Term:
        coefficient = self.f64("a coefficient")
        exponents: dict[str, tuple[str, str]] = {}
        for _ in range(self.count("factors", SMALLEST_TERM)):
            parameter = self.text("the name of a parameter")
            self.word("CompoundTerm", "a factor")
            factor, power, logarithm = self.term()
            coefficient *= factor
            exponents[parameter] = power, logarithm
        return Term(coefficient, exponents)

    def options(self) -> bool:
        """Options of sparse modelling, if they follow."""
        begin = self.at
        try:
            self.i64("points")
            single = self.text("a strategy")
            self.i64("additional points")
            self.i64("their number")
            multi = self.text("a strategy")
        except CorruptFile:
            single = multi = ""
        if single in SINGLE_STRATEGIES and multi in MULTI_STRATEGIES:
            return True
        self.at = begin
        return False


def _of_one(parameter: str, factor: Factor) -> Term:
    coefficient, power, logarithm = factor
    return Term(coefficient, {parameter: (power, logarithm)})
