"""SCALE_FUNC as it lies in a file: packed into 848 bytes, two counts, the terms, then the measurements, then zeros."""

from __future__ import annotations

import numpy as np

from callgrove.model.arrays import Array
from callgrove.model.composites import COUNTS, MEASUREMENT, MOST_MEASUREMENTS, MOST_TERMS, SCALE_FUNC, TERM

__all__ = ["SCALE_FUNC_BYTES", "pack_scale_functions", "unpack_scale_functions"]

SCALE_FUNC_BYTES = 848


def unpack_scale_functions(raw: Array, big: bool) -> Array:
    """From 848 bytes each (the last axis) to the structure above; ValueError where a count is too high."""
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
    """The way back, in little-endian: an array of bytes with one more axis."""
    flat = values.reshape(-1)
    out = np.zeros((len(flat), SCALE_FUNC_BYTES), np.uint8)
    for row, value in enumerate(flat):
        n, m = int(value["n_terms"]), int(value["n_measurements"])
        packed = np.array((n, m), COUNTS).tobytes() + value["terms"][:n].tobytes() + value["measurements"][:m].tobytes()
        out[row, : len(packed)] = np.frombuffer(packed, np.uint8)
    return out.reshape(*values.shape, SCALE_FUNC_BYTES)
