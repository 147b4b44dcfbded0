"""GPUs of Nsight exports: every generation tells them by other tables and columns.

Specification: gpu-traces.md 5.3.

    TARGET_INFO_GPU          id, name, cuDevice, smCount, threadsPerWarp, ...          since 2022
    TARGET_INFO_CUDA_DEVICE  gpuId, cudaId, pid: CUDA's number in a process -> id      since 2025
    TARGET_INFO_CUDA_GPU     id, name, numMultiprocessors, numThreadsPerWarp, ...      before 2021
    TARGET_INFO_CUDA_NULL_STREAM, TARGET_INFO_CUDA_CONTEXT_INFO (nullStreamId)         which stream is the default one
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from callgrove.formats.gpu.sqlite_file import MISSING, SqliteFile, Type

__all__ = ["Gpu", "Gpus", "null_streams"]

INTEGER, TEXT = Type.INTEGER, Type.TEXT
PROPERTIES = {  # ours: since 2022, before 2021
    "multiprocessors": ("smCount", "numMultiprocessors"),
    "threads_per_warp": ("threadsPerWarp", "numThreadsPerWarp"),
    "warps_per_multiprocessor": ("maxWarpsPerSm", "maxWarpsPerMultiprocessor"),
    "compute_major": ("computeMajor", "computeCapabilityMajor"),
    "compute_minor": ("computeMinor", "computeCapabilityMinor"),
    "clock_rate": ("clockRate", "coreClockRate"),
    "memory": ("totalMemory", "globalMemorySize"),
}


@dataclass(frozen=True)
class Gpu:
    name: str = ""
    attributes: Mapping[str, str] = field(default_factory=dict)


class Gpus:
    """What is known of the GPUs, by CUDA's numbers."""

    def __init__(self, file: SqliteFile) -> None:
        self._of_process = _numbers_by_process(file)
        self._by_id: dict[int, Gpu] = {}
        self._by_number: dict[int, Gpu] = {}
        for table, generation, numbers in (
            ("TARGET_INFO_CUDA_GPU", 1, ("id", "deviceId")),
            ("TARGET_INFO_GPU", 0, ("cuDevice", "id", "deviceId")),
        ):
            self._read(file, table, generation, next((n for n in numbers if file.has(table, n)), ""))

    def _read(self, file: SqliteFile, table: str, generation: int, number: str) -> None:
        """Rows of GPUs that run CUDA: others have its number 0 as well. The first row of a number counts, and a table
        that tells properties goes before one that tells only names."""
        if not number:
            return
        columns = {ours: names[generation] for ours, names in PROPERTIES.items()}
        rows = file.table(
            table, {"id": INTEGER, number: INTEGER, "name": TEXT, **dict.fromkeys(columns.values(), INTEGER)}
        )
        for row in range(len(rows["name"])):
            if rows[columns["compute_major"]][row] == 0:
                continue
            known = {ours: int(rows[column][row]) for ours, column in columns.items()}
            gpu = Gpu(rows["name"][row] or "", {ours: str(n) for ours, n in known.items() if n != MISSING})
            for by, key in ((self._by_id, int(rows["id"][row])), (self._by_number, int(rows[number][row]))):
                if key not in by or (gpu.attributes and not by[key].attributes):
                    by[key] = gpu

    def of(self, pid: int, number: int) -> Gpu:
        """The GPU that a process knows by a number."""
        told = self._of_process.get((pid, number))
        return self._by_id.get(told, Gpu()) if told is not None else self._by_number.get(number, Gpu())


def _numbers_by_process(file: SqliteFile) -> dict[tuple[int, int], int]:
    rows = file.table("TARGET_INFO_CUDA_DEVICE", dict.fromkeys(("gpuId", "cudaId", "pid"), INTEGER))
    keys = zip(rows["pid"].tolist(), rows["cudaId"].tolist(), strict=True)
    return dict(zip(keys, rows["gpuId"].tolist(), strict=True))


def null_streams(file: SqliteFile) -> set[tuple[int, int]]:
    """(process number, stream) of the streams that are used where a program names none."""
    for table, stream in (
        ("TARGET_INFO_CUDA_NULL_STREAM", "streamId"),
        ("TARGET_INFO_CUDA_CONTEXT_INFO", "nullStreamId"),
    ):
        if file.has(table, stream, "processId"):
            rows = file.table(table, {stream: INTEGER, "processId": INTEGER})
            return set(zip(rows["processId"].tolist(), rows[stream].tolist(), strict=True))
    return set()
