"""The vocabulary of Cube files: attribute names, data types, orders of rows, and what their metrics say beyond the
model.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from callgrove.arrays import Array, Ids, Ints
from callgrove.formats.cube.anchor import RawMetric
from callgrove.model.metrics import (
    COUNTS,
    MEASUREMENT,
    MOST_MEASUREMENTS,
    MOST_TERMS,
    SCALE_FUNC,
    TERM,
    Aggregation,
    Composite,
    Metric,
    Scope,
    composite_named,
)

__all__ = [
    "CLUSTERING",
    "CREATOR",
    "DERIVED",
    "GHOST",
    "KNOWN_VERSIONS",
    "LARGEST",
    "MIRRORS",
    "SCALE_FUNC_BYTES",
    "SCOPES",
    "TITLE",
    "VOID",
    "WIDE",
    "CubeMetric",
    "ValueType",
    "pack_scale_functions",
    "unpack_scale_functions",
    "value_type",
    "wide_order",
]


KNOWN_VERSIONS = ("4.0", "4.1", "4.2", "4.3", "4.4", "4.5", "4.7")
SCOPES = {
    "EXCLUSIVE": Scope.EXCLUSIVE,
    "INCLUSIVE": Scope.INCLUSIVE,
    "SIMPLE": Scope.INCLUSIVE,  # CubeLib stores and treats it exactly like an inclusive metric
    "PREDERIVED_EXCLUSIVE": Scope.EXCLUSIVE,
    "PREDERIVED_INCLUSIVE": Scope.INCLUSIVE,
    "POSTDERIVED": Scope.NONE,
}
WIDE = ("INCLUSIVE", "SIMPLE")  # types whose rows are in the wide order
DERIVED = ("PREDERIVED_EXCLUSIVE", "PREDERIVED_INCLUSIVE", "POSTDERIVED")
GHOST, VOID = "GHOST", "VOID"

# Attributes of an experiment that no <attr> holds.
TITLE = "cube: title of "  # and the section: metrics, program, system
MIRRORS = "cube: mirrors"  # separated by newlines
CREATOR, CLUSTERING = "Creator", "CLUSTERING"


# -- attributes of metrics ---------------------------------------------------------------------------------------------
# What a file says of a metric beyond the model's own columns is an attribute of its row, and is written back.


PREFIX = "cube: "
FORMULA = "cubepl"  # kept here where a metric has values beside it
GIVEN = ("type", "viztype", "convertible", "cacheable")  # attributes of the element
TEXTS = ("disp_name", "val", FORMULA, "cubeplinit")
RULE = "cubeplaggr "
UNIT, ROW_WISE = "uom", "rowwise"


@dataclass(frozen=True)
class CubeMetric:
    """The words of one metric: XML attributes, texts, aggregation rules, other attributes."""

    given: dict[str, str] = field(default_factory=dict)
    texts: dict[str, str] = field(default_factory=dict)
    rules: tuple[tuple[str, str], ...] = ()
    row_wise: str | None = None
    unit: str | None = None  # where the file says something wrong
    others: tuple[tuple[str, str], ...] = ()

    @property
    def kind(self) -> str:
        """The type in capitals, such as PREDERIVED_EXCLUSIVE; empty where none is said."""
        return self.given.get("type", "").strip().upper()

    @classmethod
    def of_raw(cls, raw: RawMetric, unit: str | None = None) -> CubeMetric:
        given = {word: raw.given[word] for word in GIVEN if word in raw.given}
        texts = {word: raw.texts[word] for word in TEXTS if raw.texts.get(word)}
        if given.get("type", "").strip().upper() in DERIVED:  # then it is the metric's formula
            texts.pop(FORMULA, None)
        if raw.texts.get("disp_name") == raw.texts.get("uniq_name"):
            texts.pop("disp_name", None)
        return cls(given, texts, tuple(raw.rules), raw.row_wise, unit, tuple(raw.attributes))

    @classmethod
    def of_row(cls, metric: Metric) -> CubeMetric:
        attributes = [(key.removeprefix(PREFIX), value) for key, value in metric.attributes if key.startswith(PREFIX)]
        words = dict(attributes)
        return cls(
            {word: words[word] for word in GIVEN if word in words},
            {word: words[word] for word in TEXTS if word in words},
            tuple((key.removeprefix(RULE), value) for key, value in attributes if key.startswith(RULE)),
            words.get(ROW_WISE),
            words.get(UNIT),
            tuple((key, value) for key, value in metric.attributes if not key.startswith(PREFIX)),
        )

    def without_formula(self, keeps_init: bool) -> CubeMetric:
        """Return the words of a metric that was a formula once, and has values now; others may need its init block."""
        given = {word: text for word, text in self.given.items() if word != "type"}
        left_out = (FORMULA,) if keeps_init else (FORMULA, "cubeplinit")
        texts = {word: text for word, text in self.texts.items() if word not in left_out}
        return CubeMetric(given, texts, (), None, self.unit, self.others)

    def attributes(self) -> tuple[tuple[str, str], ...]:
        """Return the attributes for the metric's row in the model."""
        pairs = [*self.given.items(), *self.texts.items(), *((RULE + kind, text) for kind, text in self.rules)]
        pairs += [(word, value) for word, value in ((ROW_WISE, self.row_wise), (UNIT, self.unit)) if value is not None]
        return (*self.others, *((PREFIX + word, value) for word, value in pairs))


# -- orders of rows ----------------------------------------------------------------------------------------------------
# Which cnode a row belongs to:
#
#     preorder   a cnode, then each child with all below it                              exclusive metrics
#     wide       each root: itself; then all its children, then each child's children
#                in turn, with all below them before the next child's                   inclusive and simple metrics
#
#         0                    preorder   0 1 2 3 4 5 6
#         |-- 1 -- 2, 3        wide       0 1 4 6 2 3 5
#         |-- 4 -- 5
#         `-- 6
#
# Wide is not breadth-first: what lies below 1 comes whole before what lies below 4.


def wide_order(parent: Ids) -> Ints:
    """Return for every position in the wide order the cnode that stands there; `parent` is in preorder.

    The children of x are emitted right after everything emitted for the earlier siblings of x and below them, that is:
    the list of emitted families is the preorder of the parents.
    """
    n = len(parent)
    roots = np.flatnonzero(parent < 0)
    # A family is the children of one cnode. Families follow one another in preorder of their parents; a root stands
    # before all families of its tree.
    tree = np.searchsorted(roots, np.arange(n), side="right") - 1
    is_root = parent < 0
    family = np.where(is_root, -1, parent)
    return np.lexsort((np.arange(n), family, tree))


# -- SCALE_FUNC --------------------------------------------------------------------------------------------------------
# Packed into 848 bytes: two counts, the terms, then the measurements, then zeros.


SCALE_FUNC_BYTES = 848


def unpack_scale_functions(raw: Array, big: bool) -> Array:
    """Unpack 848 bytes each (the last axis) to the structure above; ValueError where a count is too high."""
    counts_type, term, measurement = (t.newbyteorder(">" if big else "<") for t in (COUNTS, TERM, MEASUREMENT))
    flat = np.ascontiguousarray(raw).reshape(-1, SCALE_FUNC_BYTES)
    counts = np.ascontiguousarray(flat[:, : COUNTS.itemsize]).view(counts_type)[:, 0]
    if (counts["n_terms"] > MOST_TERMS).any() or (counts["n_measurements"] > MOST_MEASUREMENTS).any():
        raise ValueError(f"a scaling function of more than {MOST_TERMS} terms or {MOST_MEASUREMENTS} measurements")
    out = np.zeros(len(flat), SCALE_FUNC.dtype)
    for name in COUNTS.names or ():
        out[name] = counts[name]
    for n in np.unique(counts["n_terms"]).tolist():
        rows, at = np.flatnonzero(counts["n_terms"] == n), COUNTS.itemsize
        end = at + n * TERM.itemsize
        out["terms"][rows, :n] = np.ascontiguousarray(flat[rows, at:end]).view(term)
        for m in range(int(counts["n_measurements"][rows].max())):
            some = rows[counts["n_measurements"][rows] > m]
            place = slice(end + m * MEASUREMENT.itemsize, end + (m + 1) * MEASUREMENT.itemsize)
            out["measurements"][some, m] = np.ascontiguousarray(flat[some, place]).view(measurement)[:, 0]
    return out.reshape(raw.shape[:-1])


def pack_scale_functions(values: Array) -> Array:
    """Pack such values, in little-endian: an array of bytes with one more axis."""
    flat = values.reshape(-1)
    out = np.zeros((len(flat), SCALE_FUNC_BYTES), np.uint8)
    for row, value in enumerate(flat):
        n, m = int(value["n_terms"]), int(value["n_measurements"])
        packed = np.array((n, m), COUNTS).tobytes() + value["terms"][:n].tobytes() + value["measurements"][:m].tobytes()
        out[row, : len(packed)] = np.frombuffer(packed, np.uint8)
    return out.reshape(*values.shape, SCALE_FUNC_BYTES)


# -- data types --------------------------------------------------------------------------------------------------------
# Known by the names that files use; packed, in the byte order that the index announces.


LARGEST = float(np.finfo(np.float64).max)  # stands for an absent minimum; its negative for an absent maximum
PLAIN = {
    "i1": ("INT8", "CHAR"),
    "u1": ("UINT8",),
    "i2": ("INT16", "SHORT INT", "SIGNED SHORT INT"),
    "u2": ("UINT16", "UNSIGNED SHORT INT"),
    "i4": ("INT32", "INT", "SIGNED INT"),
    "u4": ("UINT32", "UNSIGNED INT"),
    "i8": ("INT64", "INTEGER", "SIGNED INTEGER"),
    "u8": ("UINT64", "UNSIGNED INTEGER"),
    "f8": ("DOUBLE", "FLOAT", "MINDOUBLE", "MAXDOUBLE"),
}
NUMBERS = {name: np.dtype(f"<{code}") for code, names in PLAIN.items() for name in names}


@dataclass(frozen=True)
class ValueType:
    """One data type: `item` is its size in the file, `dtype` what a value is in memory."""

    name: str
    dtype: np.dtype[Any]
    item: int
    aggregation: Aggregation
    composite: Composite | None = None

    @property
    def absent(self) -> float:
        """What the file stores where there is no value."""
        return {Aggregation.MINIMUM: LARGEST, Aggregation.MAXIMUM: -LARGEST}.get(self.aggregation, 0.0)

    @property
    def is_scale_function(self) -> bool:
        return self.composite is SCALE_FUNC

    def decode(self, raw: Array, big: bool) -> Array:
        """Decode bytes (rows x bytes of a row) to values (rows x locations); little-endian ones are not copied."""
        if self.is_scale_function:
            return unpack_scale_functions(raw.reshape(len(raw), -1, self.item), big)
        values: Array = raw.view(self.dtype.newbyteorder(">" if big else "<"))
        return values.astype(self.dtype) if big else values

    def encode(self, values: Array) -> Array:
        """Return the bytes of values, in little-endian: rows x bytes of a row."""
        if self.is_scale_function:
            return pack_scale_functions(values).reshape(len(values), -1)
        fitting = np.ascontiguousarray(values, self.dtype)
        return fitting.view(np.uint8).reshape(len(values), -1)


def value_type(name: str) -> ValueType | None:
    """Return the type of that name, None where it is not known."""
    word = " ".join(name.split()).upper()
    if word in NUMBERS:
        rules = {"MINDOUBLE": Aggregation.MINIMUM, "MAXDOUBLE": Aggregation.MAXIMUM}
        return ValueType(word, NUMBERS[word], NUMBERS[word].itemsize, rules.get(word, Aggregation.SUM))
    if (composite := composite_named(name)) is None:
        return None
    item = SCALE_FUNC_BYTES if composite is SCALE_FUNC else composite.dtype.itemsize
    return ValueType(word, composite.dtype, item, Aggregation.COMPOSITE, composite)
