"""Extra-P 3's binary experiment files: strings, numbers, terms, functions, generators.

    int16 1 (which gives the byte order), str EXTRAP_EXPERIMENT, str version, then records: str tag, body
    Parameter Metric Region Callpath Coordinate ModelComment ...Generator ExperimentPoint Model

Specification: extrap.md section 11. Ids are looked up, never used as positions. A region name that comes back under
another id gets ` #1`, ` #2`, ...; coordinates that come twice are one.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

from callgrove.binary.files import FileBytes, Source
from callgrove.errors import CorruptFile, count_of
from callgrove.formats.extrap.models import exponent_text, function_text
from callgrove.formats.extrap.study_format import StudyFormat, finish_study
from callgrove.formats.interface import Field, ReadOptions
from callgrove.model.experiment import Severity
from callgrove.model.study.builder import StudyBuilder
from callgrove.model.study.series import Statistics, StoredModel, Study, Term

__all__ = ["FORMAT", "Function", "Reader3"]


# -- strings, numbers, terms, functions, generators --------------------------------------------------------------------
#     str    u32 length, UTF-8              int, id   i64              dbl   f64
#     TERM   dbl coefficient, int n, n x (str `SimpleTerm`, str polynomial|logarithm, dbl exponent)
#     FUNC   str type, then what the type has
#     GEN    str name, str cross-validation, dbl epsilon, str measure, [OPT]
#     OPT    int, str strategy, int, int, str strategy: in sparse files only, and recognised by its strategies
#
# Specification: extrap.md section 11.


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
        (value,) = struct.unpack_from(self._order + kind, self._file.buffer, self.at)
        self.at += size
        number: int | float = value
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
        """Read how many things follow; never more than the rest of the file can hold."""
        n = self.i64(f"the number of {what}")
        if not 0 <= n <= (self._file.size - self.at) // smallest:
            raise self.bad(f"a number of {what} that fits the file", str(n))
        return n

    def word(self, expected: str, what: str) -> None:
        text = self.text(what)
        if text != expected:
            raise self.bad(expected, repr(text))

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
        """Read a compound term as coefficient and exponents; simple terms are multiplied, so exponents add up."""
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
        """Read a function of any type."""
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
        """Read options of sparse modelling, if they follow; return whether they do."""
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


# -- the format --------------------------------------------------------------------------------------------------------


MAGIC = "EXTRAP_EXPERIMENT"
ROOT = -1
DEEPEST = 10_000  # levels of a call path
MEASURES = {"GENERATE_MODEL_MEAN": "MEAN", "GENERATE_MODEL_MEDIAN": "MEDIAN"}
T = TypeVar("T")


class Binary3Format(StudyFormat):
    name = "extrap-binary3"
    title = "Extra-P 3 experiment (binary)"

    def read(self, source: Source, options: ReadOptions) -> Study:
        contents = _Contents(source)
        for _ in contents.records():
            pass
        return finish_study(contents.build(), source.path, options.strict, complete=False)

    def dump(self, source: Source) -> Iterator[Field]:
        """Yield where each record begins."""
        counts: dict[str, int] = {}
        for tag, offset in _Contents(source).records():
            counts[tag] = counts.get(tag, -1) + 1
            yield Field(source.path.name, tag, counts[tag], offset, "record", tag)


FORMAT = Binary3Format()


class _Contents:
    """What the records said, by id."""

    def __init__(self, source: Source) -> None:
        file = source.bytes()
        file.check(0, 2, "header")
        self.reader = Reader3(file, "<" if file.copy(0, 1, "header") == b"\x01" else ">")
        self.source = source
        self.parameters: dict[int, str] = {}
        self.metrics: dict[int, tuple[str, str]] = {}
        self.regions: dict[int, str] = {}
        self.callpaths: dict[int, tuple[int, int]] = {}
        self.coordinates: dict[int, tuple[float, ...]] = {}
        self.generators: list[tuple[str, dict[str, object]]] = []
        self.points: list[tuple[int, int, int, Statistics]] = []
        self.models: list[tuple[int, StoredModel, int, int]] = []
        self.sparse = False
        self.paths: dict[int, str] = {}
        self.handlers: dict[str, Callable[[Reader3], None]] = {
            "Parameter": self._parameter,
            "Metric": self._metric,
            "Region": self._region,
            "Callpath": self._callpath,
            "Coordinate": self._coordinate,
            "ModelComment": self._comment,
            "SingleParameterSimpleModelGenerator": self._simple_generator,
            "SingleParameterRefiningModelGenerator": self._generator,
            "MultiParameterSimpleModelGenerator": self._multi_generator,
            "MultiParameterSparseModelGenerator": self._multi_generator,
            "ExperimentPoint": self._point,
            "Model": self._model,
        }
        self.version = ""

    def records(self) -> Iterator[tuple[str, int]]:
        """Read record after record; yield the tag and the offset of each."""
        reader = self.reader
        if reader.i16("the byte order") != 1 or reader.text("the name of the format") != MAGIC:
            raise reader.bad(MAGIC, "something else")
        self.version = reader.text("the version")
        while not reader.at_end:
            begin, reader.tag = reader.at, "record"
            tag = reader.text("the tag of a record")
            if tag not in self.handlers:
                reader.at = begin
                raise reader.bad(f"one of {', '.join(self.handlers)}", repr(tag[:60]))
            reader.tag = tag
            self.handlers[tag](reader)
            reader.records += 1
            yield tag, begin

    # -- records -----------------------------------------------------------------------------------------------------

    def _new(self, id_: int, known: dict[int, T], value: T) -> None:
        if id_ in known:
            raise self.reader.bad("an id of its own", f"{id_} again")
        known[id_] = value

    def _parameter(self, r: Reader3) -> None:
        id_, name = r.i64("an id"), r.text("a name")
        if name in self.parameters.values():
            raise r.bad("a name that is not there yet", repr(name))
        self._new(id_, self.parameters, name)

    def _metric(self, r: Reader3) -> None:
        id_ = r.i64("an id")
        self._new(id_, self.metrics, (r.text("a name"), r.text("a unit")))

    def _region(self, r: Reader3) -> None:
        id_, name = r.i64("an id"), r.text("a name")
        r.text("a source file")
        r.i64("a line")
        taken, plain, number = set(self.regions.values()), name, 0
        while name in taken:
            number += 1
            name = f"{plain} #{number}"
        self._new(id_, self.regions, name)

    def _callpath(self, r: Reader3) -> None:
        id_ = r.i64("an id")
        self._new(id_, self.callpaths, (r.i64("a region"), r.i64("a parent")))

    def _coordinate(self, r: Reader3) -> None:
        id_ = r.i64("an id")
        given: dict[str, float] = {}
        for _ in range(r.count("parameters", 12)):
            name = r.text("the name of a parameter")
            given[name] = r.f64("a coordinate")
        names = tuple(self.parameters.values())
        if set(given) != set(names) or not all(map(math.isfinite, given.values())):
            raise r.bad(f"finite values of {', '.join(names) or 'no parameters'}", str(given)[:80])
        self._new(id_, self.coordinates, tuple(given[name] for name in names))

    def _comment(self, r: Reader3) -> None:
        r.i64("an id")
        r.text("a comment")

    def _read_named_generator(self, kind: str, name: str, measure: str) -> None:
        plain, number = name or kind, 1
        while name in {known for known, _ in self.generators} or not name:
            name = plain if number == 1 else f"{plain} #{number}"
            number += 1
        use = MEASURES.get(measure, "UNKNOWN")
        self.generators.append((name, {"$type": kind, "use_median": use == "MEDIAN", "use_measure": use}))

    def _generator(self, r: Reader3, kind: str = "RefiningModeler") -> None:
        name = r.text("a name")
        r.text("a kind of cross-validation")
        r.f64("an epsilon")
        self._read_named_generator(kind, name, r.text("a measure"))
        self.sparse |= r.options()

    def _simple_generator(self, r: Reader3) -> None:
        self._generator(r, "SingleParameterModeler")
        for _ in range(r.count("terms", 20)):
            r.word("CompoundTerm", "a term")
            r.term()
        r.i64("the largest number of terms")

    def _multi_generator(self, r: Reader3) -> None:
        name = r.text("a name")
        self._read_named_generator("MultiParameterModeler", name, r.text("a measure"))
        self.sparse |= r.options()

    def _point(self, r: Reader3) -> None:
        coordinate, samples = r.i64("a coordinate"), r.i64("the number of samples")
        mean, _, _, std, median, _, _, minimum, maximum = (r.f64("a statistic") for _ in range(9))
        metric, callpath = r.i64("a metric"), r.i64("a call path")
        for id_, known, what in (
            (coordinate, self.coordinates, "Coordinate"),
            (metric, self.metrics, "Metric"),
            (callpath, self.callpaths, "Callpath"),
        ):
            if id_ not in known:
                raise r.bad(f"the id of a {what} above", str(id_))
        if std < 0 or math.isnan(mean):
            raise r.bad("a mean and a standard deviation that is not negative", f"{mean} and {std}")
        repetitions = samples if 0 < samples < 2**62 else -1
        statistics = Statistics(mean, median, minimum, maximum, std, repetitions)
        self.points.append((callpath, metric, coordinate, statistics))

    def _model(self, r: Reader3) -> None:
        metric, callpath, generator = r.i64("a metric"), r.i64("a call path"), r.i64("a generator")
        names = tuple(self.parameters.values()) or ("p",)
        constant, terms = r.function(names)
        for _ in range(6):  # confidence interval, error cone and noise, each above and below
            r.function(names)
        costs = {word: r.f64(word) for word in ("rss", "ar2", "smape")}
        if self.sparse:
            costs["re"] = r.f64("re")
        for _ in range(r.count("comments", 8)):
            r.i64("a comment")
        for _ in range(r.count("parameters", 12)):
            r.text("the name of a parameter")
            for _ in range(r.count("intervals", 16)):
                r.f64("a start")
                r.f64("an end")
        if any(name not in names for term in terms for name in term.exponents):
            raise r.bad(f"terms of the parameters {', '.join(names)}", "one of another")
        model = StoredModel("", "", function_text(constant, terms), constant, terms, costs)
        self.models.append((generator, model, callpath, metric))

    # -- the study ---------------------------------------------------------------------------------------------------

    def build(self) -> StudyBuilder:
        path = self.source.path
        if not self.parameters:
            raise CorruptFile(path, "records", expected="at least one Parameter", found="none")
        builder = StudyBuilder(
            list(self.parameters.values()), FORMAT.name, self.version, title=path.name, path=str(path)
        )
        for callpath, metric, coordinate, statistics in self.points:
            name, unit = self.metrics[metric]
            if unit:
                builder.units[name] = unit
            point = builder.point(self.coordinates[coordinate])
            if not builder.add_statistics(self._path(callpath), name, point, statistics):
                builder.warn(
                    Severity.NOTE, f"{path}: {self._path(callpath)}, {name}: a point comes twice; the first counts"
                )
        self._add_models(builder)
        return builder

    def _path(self, callpath: int) -> str:
        """Return the region names from the root, joined by arrows."""
        if callpath in self.paths:
            return self.paths[callpath]
        names: list[str] = []
        at = callpath
        while at != ROOT:
            if at not in self.callpaths or len(names) > DEEPEST:
                raise self._bad_tree(callpath, at, len(names) > DEEPEST)
            region, at = self.callpaths[at]
            if region not in self.regions:
                raise CorruptFile(
                    self.source.path, f"Callpath {callpath}", expected="a known region", found=str(region)
                )
            names.append(self.regions[region])
        return self.paths.setdefault(callpath, "->".join(reversed(names)))

    def _bad_tree(self, callpath: int, at: int, deep: bool) -> CorruptFile:
        found = "a circle" if deep else f"the unknown parent {at}"
        return CorruptFile(self.source.path, f"Callpath {callpath}", expected="parents up to a root", found=found)

    def _add_models(self, builder: StudyBuilder) -> None:
        lost = 0
        for generator, model, callpath, metric in self.models:
            known = metric in self.metrics and callpath in self.callpaths and 0 <= generator < len(self.generators)
            if not known or not builder.knows(self._path(callpath), self.metrics[metric][0]):
                lost += 1
                continue
            name, options = self.generators[generator]
            builder.modelers.setdefault(name, options)
            builder.models.append(
                StoredModel(
                    self._path(callpath),
                    self.metrics[metric][0],
                    model.function,
                    model.constant,
                    model.terms,
                    model.statistics,
                    name,
                )
            )
        if lost:
            text = f"{self.source.path}: {count_of(lost, 'model')} of series or generators that do not exist"
            builder.warn(Severity.MISSING, text)
