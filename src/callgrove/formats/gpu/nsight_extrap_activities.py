"""What devices did, as Extra-P sees it: kernels, copies and sets of one export, their names, and when they ran.

Specification: gpu-traces.md section 9. Every kernel counts once for each GPU of the node (D2); sets have no threads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cached_property

import numpy as np

from callgrove.formats.gpu.nsight_extrap_overlaps import Segments, segments_of
from callgrove.formats.gpu.nsight_extrap_paths import Strings, rows_of
from callgrove.formats.gpu.sqlite_file import MISSING, Cells, SqliteFile, Type
from callgrove.model.arrays import ABSENT, Ints

__all__ = ["Activities", "copy_kind"]

CUPTI = "CUPTI_ACTIVITY_KIND_"
COPY_KINDS = (
    *("UNKNOWN", "HOST_TO_DEVICE", "DEVICE_TO_HOST", "HOST_TO_DEVICE_ARRAY", "DEVICE_ARRAY_TO_HOST"),
    *("DEVICE_ARRAY_TO_DEVICE_ARRAY", "DEVICE_ARRAY_TO_DEVICE", "DEVICE_TO_DEVICE_ARRAY", "DEVICE_TO_DEVICE"),
    *("HOST_TO_HOST", "PEER_TO_PEER", "UMA_HOST_TO_DEVICE", "UMA_DEVICE_TO_HOST"),
)
PROPERTIES = {  # the table that tells how many threads a GPU runs at once, and its columns
    "TARGET_INFO_CUDA_GPU": (
        *("numMultiprocessors", "numThreadsPerWarp", "maxWarpsPerMultiprocessor", "computeCapabilityMajor"),
    ),
    "TARGET_INFO_GPU": ("smCount", "threadsPerWarp", "maxWarpsPerSm", "computeMajor"),
}
DIMENSIONS = tuple(f"{part}{axis}" for part in ("grid", "block") for axis in "XYZ")
KEYS = ("start", "end", "correlationId")


class Activities:
    """The activities of one export. `names` are numbered by the `name` of an activity."""

    def __init__(self, file: SqliteFile, strings: Strings) -> None:
        self._strings = strings
        self._number: dict[str, int] = {}
        self.kernels = _rows(file, "KERNEL", "shortName", *DIMENSIONS)
        self.copies = _rows(file, "MEMCPY", "bytes", "copyKind", "srcKind", "dstKind")
        self.sets = _rows(file, "MEMSET", "bytes", "value", "memKind")
        self.gpu_threads = _gpu_threads(file)
        self.kernel_names = self._name_ids(self.kernels["shortName"], strings)
        self.copy_names = self._name_ids(self.copies["copyKind"], lambda kinds: map(copy_kind, kinds.tolist()))
        self.set_names = self._name_ids(self.sets["value"], lambda values: map(_set_name, values.tolist()))

    def _name_ids(self, ids: Ints, texts: Callable[[Ints], Iterable[str | None]]) -> Ints:
        different, number = np.unique(ids, return_inverse=True)
        known = self._number
        names = [ABSENT if text is None else known.setdefault(text, len(known)) for text in texts(different)]
        return np.array(names, np.int64)[number]

    @property
    def names(self) -> list[str]:
        return list(self._number)

    @cached_property
    def all(self) -> Cells:
        """Kernels, copies and sets, one after the other."""
        parts = (self.kernels, self.copies, self.sets)
        return {
            **{name: np.concatenate([part[name] for part in parts]) for name in KEYS},
            "name": np.concatenate([self.kernel_names, self.copy_names, self.set_names]),
        }

    @cached_property
    def but_copies(self) -> Cells:
        """Kernels and sets."""
        kept = np.repeat([True, False, True], [len(part["start"]) for part in (self.kernels, self.copies, self.sets)])
        return {name: column[kept] for name, column in self.all.items()}

    @cached_property
    def busy(self) -> Segments:
        """While anything runs."""
        start, end, correlation = (self.all[name] for name in KEYS)
        return segments_of(start, end, correlation, np.zeros(len(start), np.int64))

    @cached_property
    def computing(self) -> Segments:
        """While kernels or sets run."""
        times = len(self.gpu_threads)
        start, end, correlation = (np.append(np.repeat(self.kernels[name], times), self.sets[name]) for name in KEYS)
        threads = np.append(self.kernel_threads.reshape(-1), np.zeros(len(self.sets["start"]), np.int64))
        return segments_of(start, end, correlation, threads)

    @cached_property
    def kernel_threads(self) -> Ints:
        """By kernel and GPU: the threads of the kernel, as many as can run at once."""
        launched = np.ones(len(self.kernels["start"]), np.int64)
        for name in DIMENSIONS:
            launched *= self.kernels[name]
        return np.minimum(launched[:, None], self.gpu_threads[None, :])


def copy_kind(kind: int) -> str:
    if 0 <= kind < len(COPY_KINDS):
        return COPY_KINDS[kind]
    return "UNKNOWN" if kind == MISSING else f"UNKNOWN_COPY_KIND_{kind}"


def _set_name(value: int) -> str | None:
    return None if value == MISSING else f"MEMSET {value}"


def _rows(file: SqliteFile, kind: str, *columns: str) -> Cells:
    return rows_of(file, CUPTI + kind, "correlationId", *columns)


def _gpu_threads(file: SqliteFile) -> Ints:
    """How many threads each GPU that runs any runs at once."""
    for table, columns in PROPERTIES.items():
        if file.has(table, *columns):
            rows = file.table(table, dict.fromkeys(columns, Type.INTEGER))
            cores, warp, warps, major = (rows[name] for name in columns)
            return (cores * warp * warps)[major > 0]
    return np.ones(1, np.int64)
