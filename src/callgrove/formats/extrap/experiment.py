"""Extra-P's experiment files: a ZIP archive with `experiment.json`, raw values and models; read and written.

    Extra-P         version                 scaling     weak, weak_threaded, strong or null
    parameters      [name]                  callpaths, metrics   {name: {"tags": {...}}}, those with tags
    measurements    {call path: {metric: [{coordinate, mean, median, minimum, maximum, std, repetitions, values}]}}
    modelers        see models.py           values               [chunk, number], see below

Specification: extrap.md section 10. Series need not be complete. Statistics stay as they are stored; raw values that
contradict them (Extra-P stores masked values without their mask) are left out.
"""

from __future__ import annotations

import errno
import io
import json
import math
import re
import struct
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from zipfile import ZIP_DEFLATED, ZIP_STORED, BadZipFile, ZipFile, ZipInfo

import numpy as np

from callgrove.arrays import Array
from callgrove.binary.files import Source
from callgrove.errors import CallgroveError, CorruptFile, InputError, RefusedInput, count_of
from callgrove.formats.extrap.json import json_fields, parameter_names
from callgrove.formats.extrap.models import measurement, model_sets, number_of, read_model_sets
from callgrove.formats.extrap.study_format import Node, StudyFormat, finish_study, lost_with_the_unmeasured, parse_json
from callgrove.formats.interface import Field, LossReport, ReadOptions, WriteOptions
from callgrove.formats.writing.targets import PendingFile
from callgrove.model.experiment import Severity
from callgrove.model.study.books import MODELS, REPETITIONS, StudyBooks
from callgrove.model.study.builder import StudyBuilder
from callgrove.model.study.series import SCALINGS, STATISTICS, Statistics, Study

__all__ = [
    "FORMAT",
    "MEMBER",
    "ZIP_TROUBLE",
    "ValueReader",
    "ValueWriter",
    "open_archive",
    "read_member",
    "write_experiment",
]


# -- the archive, read with care, and the raw values in it -------------------------------------------------------------


MEMBER = "experiment.json"
LARGEST = 4 << 30
UNSUSPICIOUS = 64 << 20  # bytes that may be inflated whatever their size in the file
MOST_INFLATION = 250  # beyond that; JSON of measurements shrinks to a tenth or so
ZIP_TROUBLE = (BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, struct.error, ValueError, OSError)


def open_archive(path: Path) -> ZipFile:
    """Return the archive, or an error that says what is wrong with it."""
    try:
        return ZipFile(path)
    except FileNotFoundError as error:
        raise InputError(f"{path}: {error.strerror}") from error
    except ZIP_TROUBLE as error:
        raise CorruptFile(
            path, "ZIP archive", expected="its table of contents", found=_reason(error), remedy=CUT
        ) from error


CUT = "the file is truncated or damaged"


def read_member(archive: ZipFile, name: str, path: Path) -> bytes:
    """Return a member in full; what is not there, too large or damaged is an error that names it."""
    try:
        info = archive.getinfo(name)
    except KeyError:
        there = ", ".join(archive.namelist()[:6]) or "nothing"
        raise CorruptFile(path, "ZIP archive", expected=f"the member {name}", found=there) from None
    _refuse_bombs(info, path)
    try:
        return archive.read(info)
    except ZIP_TROUBLE as error:
        raise CorruptFile(path, name, expected="an intact member", found=_reason(error), remedy=CUT) from error


def _reason(error: Exception) -> str:
    """Return what is wrong, in words for a reader. Offsets before the file are an invalid argument to the system."""
    if isinstance(error, OSError) and error.errno != errno.EINVAL:
        return error.strerror or "none"
    return "none" if isinstance(error, OSError | struct.error) or not str(error) else str(error)


def _refuse_bombs(info: ZipInfo, path: Path) -> None:
    size, packed = info.file_size, max(1, info.compress_size)
    if packed > (there := path.stat().st_size):  # it would be allocated before it is missed
        raise CorruptFile(path, info.filename, expected=f"{packed:,} bytes", found=f"a file of {there:,}", remedy=CUT)
    if size > LARGEST:
        raise RefusedInput(f"{path}: {info.filename} says it has {size:,} bytes; more than {LARGEST:,} are not read")
    if size > UNSUSPICIOUS and size > MOST_INFLATION * packed:
        raise RefusedInput(f"{path}: {info.filename} says that {packed:,} bytes inflate to {size:,}; this is not read")


# -- raw values --------------------------------------------------------------------------------------------------------
# They are chunks of .npy arrays, addressed by (chunk, number):
#
#     values/N.vals   16 bytes `Extra-P VALUES\0\0`, then .npy arrays, one after the other
#     values/N.indx   16 bytes `Extra-P INDEX\0\0\0`, u64 count, count x u64 offsets into N.vals
#
# Specification: extrap.md section 10.1. Nothing is unpickled: arrays of objects are refused, and the size that a header
# announces is compared with what follows it.
#
# Deviation that a real writer shows: Extra-P gives the array that fills a chunk the number of the next chunk, so a
# number past the end means the last array of the chunk before.


VALUES_MAGIC = b"Extra-P VALUES\0\0"
INDEX_MAGIC = b"Extra-P INDEX\0\0\0"
CHUNK = 1 << 30  # bytes, after which a new chunk begins
LONGEST_HEADER = 1024  # bytes; NumPy writes 128
# As NumPy writes it: magic, version, size, then a dictionary whose keys are sorted, and spaces.
NPY = re.compile(
    rb"\x93NUMPY(?:\x01\x00..|[\x02\x03]\x00....)"
    rb"\{'descr': '(?P<type>[<>|=]?(?:b1|[iu][1248]|f[248]))', 'fortran_order': (?P<fortran>True|False), "
    rb"'shape': \((?P<shape>(?:\d{1,18}(?:, ?|(?=\))))*)\), \} *\n",
    re.DOTALL,
)


class ValueReader:
    """The raw values of an archive. `problems` says what could not be read, once for each reason."""

    def __init__(self, archive: ZipFile, path: Path) -> None:
        self._archive, self._path = archive, path
        self._members = set(archive.namelist())
        self._chunks: dict[int, tuple[bytes, list[int]] | None] = {}
        self.problems: dict[str, int] = {}

    def read(self, chunk: int, number: int) -> Array | None:
        """Return an array, or None where it cannot be had."""
        arrays = self._chunk(chunk)
        if arrays is not None and number < len(arrays[1]):
            return self._array(arrays[0], arrays[1][number])
        before = self._chunk(chunk - 1) if chunk > 0 and (arrays is None or number >= len(arrays[1])) else None
        if before is not None and number == len(before[1]) - 1:
            self._complain("some are numbered with the next chunk, as Extra-P does for the last array of a chunk")
            return self._array(before[0], before[1][number])
        self._complain(f"chunk {chunk} has no array {number}")
        return None

    def _chunk(self, chunk: int) -> tuple[bytes, list[int]] | None:
        if chunk not in self._chunks:
            self._chunks.clear()  # one at a time: a chunk may have a gigabyte
            self._chunks[chunk] = self._load(chunk)
        return self._chunks[chunk]

    def _load(self, chunk: int) -> tuple[bytes, list[int]] | None:
        if f"values/{chunk}.indx" not in self._members:
            return None
        try:
            index = read_member(self._archive, f"values/{chunk}.indx", self._path)
            values = read_member(self._archive, f"values/{chunk}.vals", self._path)
        except CallgroveError as error:
            self._complain(str(error))
            return None
        if not index.startswith(INDEX_MAGIC) or not values.startswith(VALUES_MAGIC) or len(index) < 24:
            self._complain(f"values/{chunk} does not begin as such files do")
            return None
        count = min(struct.unpack_from("<Q", index, 16)[0], (len(index) - 24) // 8)
        return values, list(struct.unpack_from(f"<{count}Q", index, 24))

    def _array(self, values: bytes, offset: int) -> Array | None:
        try:
            return _npy(values, offset)
        except ValueError as error:
            self._complain(f"an array is damaged: {error}")
            return None

    def _complain(self, text: str) -> None:
        self.problems[text] = self.problems.get(text, 0) + 1


def _npy(data: bytes, offset: int) -> Array:
    """Return the .npy array at an offset, as numbers of double precision."""
    if not 0 <= offset < len(data):
        raise ValueError(f"its offset {offset} lies outside of {len(data)} bytes")
    match = NPY.match(data, offset, offset + LONGEST_HEADER)
    if match is None:
        raise ValueError(f"byte {offset} is not the start of numbers in the .npy format")
    shape = [int(extent) for extent in match["shape"].split(b",") if extent.strip()]
    dtype, count = np.dtype(match["type"].decode()), math.prod(shape)
    start = match.end()
    if count * dtype.itemsize > len(data) - start:
        raise ValueError(f"it announces {count} numbers, and {len(data) - start} bytes are left")
    numbers = np.frombuffer(data, dtype, count, start)
    return numbers.reshape(shape, order="F" if match["fortran"] == b"True" else "C").astype(np.float64)


class ValueWriter:
    """Writes arrays into an archive, chunk after chunk."""

    def __init__(self, archive: ZipFile, chunk_size: int = CHUNK) -> None:
        self._archive, self._chunk_size = archive, chunk_size
        self._chunk, self._offsets = 0, list[int]()
        self._data = io.BytesIO()

    def add(self, array: Array) -> tuple[int, int]:
        """Return the chunk and number of an array."""
        if not self._offsets:
            self._data = io.BytesIO()
            self._data.write(VALUES_MAGIC)
        address = self._chunk, len(self._offsets)
        self._offsets.append(self._data.tell())
        np.lib.format.write_array(self._data, array, (1, 0), allow_pickle=False)
        if self._data.tell() >= self._chunk_size:
            self.flush()
        return address

    def flush(self) -> None:
        """Write what was collected; the next array begins another chunk."""
        if not self._offsets:
            return
        index = INDEX_MAGIC + struct.pack(f"<{len(self._offsets) + 1}Q", len(self._offsets), *self._offsets)
        for name, data in (("vals", self._data.getbuffer()), ("indx", index)):
            info = ZipInfo(f"values/{self._chunk}.{name}")
            info.compress_type = ZIP_STORED  # arrays are read at any place
            self._archive.writestr(info, bytes(data))
        self._chunk, self._offsets = self._chunk + 1, []


# -- the format --------------------------------------------------------------------------------------------------------


# -- writer ------------------------------------------------------------------------------------------------------------
# Extra-P 4.2.5 loads these files, models included.
#
# `experiment.json` is written piece by piece; raw values go into chunks beside it. What Extra-P has no place for (units
# of metrics) stands under the key `callgrove`, which it skips.


VERSION = "4.2.5"


def write_experiment(study: Study, target: Path, options: WriteOptions) -> LossReport:
    """Write everything that a study holds but its attributes; return what is lost."""
    report = LossReport()
    if study.attributes:
        report.add("attributes of the study")
    books = StudyBooks(study, has_statistics=True)
    lost_with_the_unmeasured(books, report, series=False)
    if n := len(study.models) - len({(model.name, model.callpath, model.metric) for model in study.models}):
        report.add(f"{count_of(n, 'model')} of series that have another one in the same set")
        books.excuse(MODELS)
    pending = PendingFile(target, options.overwrite)
    with pending.or_nothing():
        with ZipFile(pending.place, "w", ZIP_DEFLATED, compresslevel=1) as archive:
            addresses = _write_values(study, ValueWriter(archive), report, books)
            info = ZipInfo(MEMBER)
            info.compress_type = ZIP_DEFLATED
            with archive.open(info, "w", force_zip64=True) as file:
                for piece in _json(study, addresses, books):
                    file.write(piece.encode())
        pending.complete()
    report.unexplained.extend(books.differences())
    return report


def _write_values(
    study: Study, writer: ValueWriter, report: LossReport, books: StudyBooks
) -> dict[int, tuple[int, int]]:
    """Write raw values; return chunk and number of those of each cell that has some."""
    if study.raw is None:
        return {}
    addresses: dict[int, tuple[int, int]] = {}
    for cell in np.flatnonzero(np.diff(study.raw.cell_bounds)).tolist():
        repetitions = study.raw.repetitions(cell)
        sizes = {len(one) for one in repetitions}
        if len(sizes) == 1:
            array = np.array(repetitions)
            array = array[:, 0] if sizes == {1} else array
        else:
            report.add("which values belong to one repetition, where repetitions have different numbers of them")
            books.excuse(REPETITIONS)
            array = np.concatenate(repetitions)
        addresses[cell] = writer.add(array)
        if array.size:
            books.passed.enter(*divmod(cell, study.n_points), array.tolist())
    writer.flush()
    return addresses


def _json(study: Study, addresses: Mapping[int, tuple[int, int]], books: StudyBooks) -> Iterator[str]:
    yield f'{{"Extra-P": "{VERSION}"'
    if study.scaling:
        yield f', "scaling": {_text(study.scaling)}'
    yield f', "parameters": {_text(list(study.parameters))}'
    for key, tags in (("callpaths", study.callpath_tags), ("metrics", study.metric_tags)):
        if tagged := {name: {"tags": dict(tags_of_name)} for name, tags_of_name in tags.items() if tags_of_name}:
            yield f', "{key}": {_text(tagged)}'
    yield ', "measurements": {'
    yield from _measurements(study, addresses, books)
    yield "}"
    if study.models or study.modelers:
        yield ', "modelers": ['
        yield from model_sets(study, books)
        yield "]"
    if study.units:
        yield f', "callgrove": {_text({"units": dict(study.units)})}'
    yield "}"


def _measurements(study: Study, addresses: Mapping[int, tuple[int, int]], books: StudyBooks) -> Iterator[str]:
    by_callpath: dict[int, list[int]] = {}
    for series, callpath in enumerate(study.series_callpath.tolist()):
        by_callpath.setdefault(callpath, []).append(series)
    for number, (callpath, group) in enumerate(by_callpath.items()):
        yield f"{', ' * (number > 0)}{_text(study.callpaths[callpath])}: {{"
        for position, series in enumerate(group):
            metric = _text(study.metrics[study.series_metric[series]])
            points = np.flatnonzero(study.present[series]).tolist()
            cells = [measurement(study, series, point, addresses) for point in points]
            yield f"{', ' * (position > 0)}{metric}: [{', '.join(map(_text, cells))}]"
            books.passed.name_series(series)
            for point, cell in zip(points, cells, strict=True):
                _enter(books, series, point, cell)
        yield "}"


def _enter(books: StudyBooks, series: int, point: int, cell: Mapping[str, Any]) -> None:
    """Enter what is written of a measurement beside its raw values; where it has none, the mean stands for them."""
    known = [float(cell.get(name, math.nan)) for name in STATISTICS]
    repetitions = cell[REPETITIONS]
    books.passed.enter_statistics(series, (*known, -1 if repetitions is None else repetitions))
    if cell["values"] is None:
        books.passed.enter(series, point, known[:1])


def _text(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


# -- reader ------------------------------------------------------------------------------------------------------------


KNOWN_VERSION = (4, 2)
TAGGED = "\x03"  # before 4.0, tags followed a name as JSON text


class ExperimentFormat(StudyFormat):
    name = "extrap-experiment"
    title = "Extra-P experiment with its models (.extra-p)"

    def read(self, source: Source, options: ReadOptions) -> Study:
        with open_archive(source.path) as archive:
            root = parse_json(read_member(archive, MEMBER, source.path), source.path, MEMBER)
            reader = _Reader(root, ValueReader(archive, source.path), source.path)
            reader.read()
        return finish_study(reader.builder, source.path, options.strict, complete=False)

    def write_study(self, study: Study, target: Path, options: WriteOptions) -> LossReport:
        return write_experiment(study, target, options)

    def dump(self, source: Source) -> Iterator[Field]:
        """Yield the members of the archive, and every value of experiment.json under its path."""
        with open_archive(source.path) as archive:
            for number, info in enumerate(archive.infolist()):
                yield Field(source.path.name, "archive", number, info.header_offset, info.filename, info.file_size)
            root = parse_json(read_member(archive, MEMBER, source.path), source.path, MEMBER)
        yield from json_fields(root, MEMBER)


FORMAT = ExperimentFormat()


class _Reader:
    def __init__(self, root: Node, values: ValueReader, path: Path) -> None:
        self.root, self.values, self.path = root, values, path
        version = root.get("Extra-P")
        names = parameter_names(root["parameters"])
        self.builder = StudyBuilder(names, FORMAT.name, version.text() if version else "", path.name, str(path))
        self.builder.suggested_target = "study.json"
        self.contradicting = 0

    def read(self) -> None:
        self._say_if_newer()
        scaling = self.root.get("scaling")
        if scaling is not None:
            if scaling.value not in SCALINGS:
                raise scaling.bad(f"one of {', '.join(filter(None, SCALINGS))} or null")
            self.builder.scaling = scaling.text()
        self._tags("callpaths", self.builder.callpath_tags)
        self._tags("metrics", self.builder.metric_tags)
        measurements = self.root.get("measurements")
        for callpath, metrics in measurements.items() if measurements else ():
            for metric, series in metrics.items():
                self._series(callpath, metric, series)
        self._say_what_became_of_values()
        self._models()
        ours = self.root.get("callgrove")
        if ours is not None and (units := ours.get("units")) is not None:
            self.builder.units.update({name: unit.text() for name, unit in units.items()})

    def _say_if_newer(self) -> None:
        match = re.match(r"(\d+)\.(\d+)", self.builder.version)
        if match and (int(match[1]), int(match[2])) > KNOWN_VERSION:
            known = ".".join(map(str, KNOWN_VERSION))
            text = (
                f"{self.path}: was written by Extra-P {self.builder.version}, newer than {known}, which is known here"
            )
            self.builder.warn(Severity.NOTE, text)

    def _tags(self, key: str, into: dict[str, dict[str, object]]) -> None:
        named = self.root.get(key)
        for name, entry in named.items() if named is not None else ():
            if (tags := entry.get("tags")) is not None and tags.members():
                into[name.partition(TAGGED)[0]] = dict(tags.members())

    def _name_with_tags(self, name: str, tags: dict[str, dict[str, object]], node: Node) -> str:
        """Read a name; what follows a byte 3 in it are its tags."""
        plain, mark, text = name.partition(TAGGED)
        if mark and text:
            tags.setdefault(plain, dict(parse_json(text.encode(), self.path, node.place).members()))
        return plain

    def _series(self, callpath: str, metric: str, series: Node) -> None:
        path = self._name_with_tags(callpath, self.builder.callpath_tags, series)
        quantity = self._name_with_tags(metric, self.builder.metric_tags, series)
        self.builder.series(path, quantity)
        for one in series.elements():
            coordinates = [number_of(c) for c in one["coordinate"].elements()]
            if len(coordinates) != len(self.builder.parameters) or not all(map(math.isfinite, coordinates)):
                raise one["coordinate"].bad(f"finite values of {', '.join(self.builder.parameters)}")
            point = self.builder.point(coordinates)
            statistics = _statistics(one)
            if self.builder.add_statistics(path, quantity, point, statistics):
                self._values(path, quantity, point, one, statistics)
            else:
                text = f"{one.place} repeats a point of its series; the first one counts"
                self.builder.warn(Severity.NOTE, f"{self.path}: {text}")

    def _values(self, callpath: str, metric: str, point: int, node: Node, statistics: Statistics) -> None:
        address = node.get("values")
        if address is None:
            return
        numbers = [one.whole() for one in address.elements()]
        if len(numbers) != 2 or min(numbers) < 0:
            raise address.bad("[chunk, number]")
        array = self.values.read(*numbers)
        if array is None or array.size == 0:
            return
        if not _agree(array, statistics.mean):
            self.contradicting += 1
            return
        self.builder.add_values(callpath, metric, point, list(array) if array.ndim else [float(array)])

    def _say_what_became_of_values(self) -> None:
        for text, n in self.values.problems.items():
            often = f" ({n} times)" if n > 1 else ""
            harmless = "next chunk" in text
            severity = Severity.NOTE if harmless else Severity.DAMAGE
            self.builder.warn(severity, f"{self.path}: raw values: {text}{often}" + ("" if harmless else "; left out"))
        if self.contradicting:
            text = f"raw values of {count_of(self.contradicting, 'measurement')} contradict the mean; left out"
            self.builder.warn(Severity.NOTE, f"{self.path}: {text}")

    def _models(self) -> None:
        for one in read_model_sets(self.root, self.builder.parameters):
            self.builder.modelers[one.name] = one.modeler
            known = [model for model in one.models if self.builder.knows(model.callpath, model.metric)]
            self.builder.models += known
            if len(known) < len(one.models):
                n = len(one.models) - len(known)
                lost = f"{count_of(n, 'model')} of series that do not exist"
                self.builder.warn(Severity.MISSING, f"{self.path}: {one.name}: {lost}")
            for text in dict.fromkeys(one.left_out):
                self.builder.warn(Severity.NOTE, f"{self.path}: {one.name}: left out: {text}")


def _statistics(node: Node) -> Statistics:
    """Return what is stored of a measurement; what is not there is unknown."""
    nodes = {key: node.get(key) for key in ("mean", "median", "minimum", "maximum", "std")}
    if nodes["mean"] is None:
        raise CorruptFile(node.path, node.place, expected="the key 'mean'", found=", ".join(node.members()) or "none")
    numbers = {key: number_of(one) if one is not None else math.nan for key, one in nodes.items()}
    if numbers["std"] < 0:
        raise node["std"].bad("a standard deviation, which is not negative")
    repetitions = node.get("repetitions")
    return Statistics(**numbers, repetitions=repetitions.whole() if repetitions is not None else -1)


def _agree(values: Array, mean: float) -> bool:
    with np.errstate(over="ignore", invalid="ignore"):  # values need not be finite
        return bool(np.isclose(values.mean(), mean, rtol=1e-6, atol=0.0, equal_nan=True))
