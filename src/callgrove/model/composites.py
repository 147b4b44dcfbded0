"""Values with several fields, by the names that profilers give them: their scalar reading and how two become one.

TAU_ATOMIC     n, min, max, sum, sum2      n, sum, sum2 add; min and max over those with n > 0     reads as: sum
RATE           numerator, denominator      add                                                     the ratio
COMPLEX        re, im                      add                                                     the modulus
HISTOGRAM(k)   min, max, bins              bins add where the ranges are equal                     sum of the bins
NDOUBLES(k)    values                      add                                                     their sum
SCALE_FUNC     terms, measurements         cannot be combined                                      number of terms
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from callgrove.errors import UsageError
from callgrove.model.arrays import Array, Bools, Floats
from callgrove.model.metrics import Composite

__all__ = [
    "COMPLEX",
    "COUNTS",
    "MEASUREMENT",
    "MOST_MEASUREMENTS",
    "MOST_TERMS",
    "RATE",
    "SCALE_FUNC",
    "TAU_ATOMIC",
    "TERM",
    "composite_named",
    "histogram",
    "n_doubles",
]

MOST_FIELDS = 1 << 20
MOST_TERMS, MOST_MEASUREMENTS = 30, 10
TERM = np.dtype([("a", "<f8"), ("b", "<i4"), ("c", "<u4"), ("d", "<i4")])
MEASUREMENT = np.dtype([("procs", "<u4"), ("mean", "<f8"), ("width", "<f8")])
COUNTS = np.dtype([("n_terms", "<u4"), ("n_measurements", "<u4")])


def _added(a: Array, b: Array) -> Array:
    out = a.copy()
    with np.errstate(invalid="ignore", over="ignore"):  # values need not be finite
        for name in a.dtype.names or ():
            out[name] = a[name] + b[name]
    return out


def _atomic(a: Array, b: Array) -> Array:
    out = _added(a, b)
    for name, better in (("min", np.minimum), ("max", np.maximum)):
        both = better(a[name], b[name])
        out[name] = np.where(a["n"] == 0, b[name], np.where(b["n"] == 0, a[name], both))
    return out


def _ratio(values: Array) -> Floats:
    with np.errstate(divide="ignore", invalid="ignore"):
        out: Floats = values["numerator"] / values["denominator"]
    return np.where(values["denominator"] == 0, 0.0, out)


def _modulus(values: Array) -> Floats:
    out: Floats = np.hypot(values["re"], values["im"])
    return out


def _histograms(a: Array, b: Array) -> Array:
    empty_a, empty_b = (~x["bins"].any(axis=-1) & (x["min"] == 0) & (x["max"] == 0) for x in (a, b))
    differ: Bools = ((a["min"] != b["min"]) | (a["max"] != b["max"])) & ~empty_a & ~empty_b
    if differ.any():
        raise UsageError("histograms over different ranges cannot be added: choose one profile and one context")
    out = _added(a, b)
    for name in ("min", "max"):
        out[name] = np.where(empty_a, b[name], a[name])
    return out


TAU_ATOMIC = Composite(
    np.dtype([("n", "<u4"), ("min", "<f8"), ("max", "<f8"), ("sum", "<f8"), ("sum2", "<f8")]),
    lambda values: values["sum"].astype(np.float64),
    _atomic,
)
RATE = Composite(np.dtype([("numerator", "<f8"), ("denominator", "<f8")]), _ratio, _added)
COMPLEX = Composite(np.dtype([("re", "<f8"), ("im", "<f8")]), _modulus, _added)
SCALE_FUNC = Composite(
    np.dtype([*COUNTS.descr, ("terms", TERM, MOST_TERMS), ("measurements", MEASUREMENT, MOST_MEASUREMENTS)]),
    lambda values: values["n_terms"].astype(np.float64),
    None,
    lambda value: _scale_function(value),
)


def histogram(n_bins: int) -> Composite:
    """A histogram of so many bins."""
    layout = np.dtype([("min", "<f8"), ("max", "<f8"), ("bins", "<f8", (n_bins,))])
    return Composite(layout, lambda values: values["bins"].sum(axis=-1), _histograms)


def n_doubles(count: int) -> Composite:
    """So many doubles."""
    return Composite(np.dtype([("values", "<f8", (count,))]), lambda values: values["values"].sum(axis=-1), _added)


def _scale_function(value: np.void) -> dict[str, Any]:
    """The terms and measurements that are there, without the empty places after them."""
    return {
        "terms": [dict(zip("abcd", term, strict=True)) for term in value["terms"][: value["n_terms"]].tolist()],
        "measurements": [
            dict(zip(("procs", "mean", "width"), one, strict=True))
            for one in value["measurements"][: value["n_measurements"]].tolist()
        ],
    }


TUPLES = {"COMPLEX": COMPLEX, "RATE": RATE, "TAU_ATOMIC": TAU_ATOMIC, "SCALE_FUNC": SCALE_FUNC}
SIZED = {"HISTOGRAM": histogram, "NDOUBLES": n_doubles}


def composite_named(name: str) -> Composite | None:
    """The type of that name, such as `TAU_ATOMIC` or `HISTOGRAM(16)`; None where it is not known."""
    word = " ".join(name.split()).upper()
    sized = re.fullmatch(r"(HISTOGRAM|NDOUBLES) ?\( ?([0-9]{1,7}) ?\)", word)
    if sized and 0 < int(sized[2]) <= MOST_FIELDS:
        return SIZED[sized[1]](int(sized[2]))
    return TUPLES.get(word)
