"""What categories and arguments of events mean: the vocabulary of PyTorch's Kineto, and of our own files.

Specification: more-inputs.md 1.5, and section 5 for the categories of rocprofv3. A category that is not known is a
region of the program.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from callgrove.arrays import ABSENT, Array, Ints
from callgrove.formats.timeline.chrome.times import read_numbers
from callgrove.model.traces.events import SpanKind

__all__ = [
    "ON_STREAMS",
    "WITH_SOURCES",
    "KindOfCategory",
    "copy_columns",
    "describe_copy",
    "kernel_columns",
    "kind_of_event_category",
    "read_memory",
    "read_source_place",
]

KINDS: Mapping[str, SpanKind] = {
    **dict.fromkeys(("kernel", "kernel_dispatch", "mtia_kernel"), SpanKind.KERNEL),
    **dict.fromkeys(("gpu_memcpy", "memory_copy"), SpanKind.COPY),
    **dict.fromkeys(("gpu_memset", "memory_set"), SpanKind.MEMSET),
    **dict.fromkeys(("memory_allocation", "memory_allocate", "scratch_memory"), SpanKind.ALLOC),
    **dict.fromkeys(("cuda_runtime", "cuda_driver", "xpu_runtime", "mtia_runtime", "mtia_ccp_events"), SpanKind.API),
    "cuda_sync": SpanKind.SYNC,
    **dict.fromkeys(("user_annotation", "gpu_user_annotation"), SpanKind.MARKER),
    "overhead": SpanKind.REGION,
}
API = re.compile(r"(hip|hsa|rccl|roctx|rocdecode|rocjpeg)_.*|.*_api(_ext)?")
MARKERS = re.compile(r"marker.*|.*_marker|nvtx|roctx")
ON_STREAMS = frozenset((*KINDS,)) & {
    *("kernel", "kernel_dispatch", "mtia_kernel", "gpu_memcpy", "gpu_memset", "cuda_sync", "gpu_user_annotation"),
}
WITH_SOURCES = frozenset(("python_function", "FEE"))  # of Kineto and of viztracer: names tell files and lines
SOURCES = (
    re.compile(r"(?P<file>[^()]+)\((?P<line>\d{1,9})\): .+"),
    re.compile(r".+ \((?P<file>.+):(?P<line>\d{1,9})\)"),
)
COPY = re.compile(r"(Host|Device|Peer|[HDPA])(?:tod?|To|to)(Host|Device|Peer|[HDPA])")
SIZES = ("bytes", "size")
GRID, BLOCK = "grid", "block"
UNKNOWN = (ABSENT, ABSENT, ABSENT)
Args = Mapping[str, Any]


def kind_of_event_category(category: str) -> int:
    """Return the kind of spans of a category; a region where it says nothing."""
    return KindOfCategory()[category]


class KindOfCategory(dict[object, int]):
    """The kinds of spans by category, each found out once."""

    def __missing__(self, category: object) -> int:
        text = category.lower() if isinstance(category, str) else ""
        kind = KINDS.get(text)
        if kind is None:
            marker, api = MARKERS.fullmatch(text), API.fullmatch(text)
            kind = SpanKind.MARKER if marker else SpanKind.API if api else SpanKind.REGION
        self[category] = int(kind)
        return int(kind)


# -- kernels and copies ------------------------------------------------------------------------------------------------


def kernel_columns(args: Sequence[Args]) -> dict[str, Array]:
    """Return the columns of the side table `kernel`. Kineto gives grids in blocks; our own files, as text, in
    work-items."""
    given = [a.get(GRID) for a in args]
    blocks, grids = _threes([a.get(BLOCK) for a in args]), _threes(given)
    in_blocks = np.array([cell.__class__ is list for cell in given], np.bool_)[:, None]
    known = in_blocks & (grids >= 0) & (blocks >= 0)
    grids = np.where(known, grids * np.where(known, blocks, 1), grids)
    out: dict[str, Array] = {f"grid_{axis}": grids[:, k] for k, axis in enumerate("xyz")}
    out |= {f"workgroup_{axis}": blocks[:, k] for k, axis in enumerate("xyz")}
    out["lds"] = read_numbers([a.get("shared memory", ABSENT) for a in args])
    out["vgpr"] = read_numbers([a.get("registers per thread", ABSENT) for a in args])
    return out


def _threes(cells: Sequence[Any]) -> Ints:
    """Return the three numbers of each cell as a matrix; -1 where a cell is no such list or text."""
    if set(map(type, cells)) == {list}:
        try:
            out = np.array(cells, np.int64)
        except (ValueError, TypeError, OverflowError):
            out = np.zeros(0, np.int64)
        if out.shape == (len(cells), 3):
            return np.where((out < 1 << 31).all(axis=1, keepdims=True), out, ABSENT)
    return np.array([_three(cell) for cell in cells], np.int64).reshape(-1, 3)


def _three(cell: object) -> tuple[int, int, int]:
    parts = cell.split(",") if isinstance(cell, str) else cell
    if not isinstance(parts, list) or len(parts) != 3:
        return UNKNOWN
    x, y, z = read_numbers(parts).tolist()
    return (x, y, z) if max(x, y, z) < 1 << 31 else UNKNOWN


def copy_columns(names: Sequence[object], args: Sequence[Args], device: Ints) -> dict[str, Array]:
    """Return the columns of the side table `copy`; `device` is that of the stream of each copy."""
    size = read_numbers([next((a[key] for key in SIZES if key in a), ABSENT) for a in args])
    directions = [describe_copy(name) for name in names]
    source = np.array([first in ("D", "P", "A") for first, _ in directions], np.bool_)
    target = np.array([second in ("D", "P", "A") for _, second in directions], np.bool_)
    return {
        "bytes": size,
        "source": np.where(source, device, ABSENT),
        "destination": np.where(target, device, ABSENT),
    }


def describe_copy(name: object) -> tuple[str, str]:
    """Return the letters of where a copy comes from and goes to (H, D, P, A); empty where its name does not say."""
    match = COPY.search(name) if isinstance(name, str) else None
    return (match[1][0], match[2][0]) if match else ("", "")


def read_source_place(name: str) -> tuple[str, int] | None:
    """Return the file and line in the name of a Python function: `file(line): function` in Kineto's words, `function
    (file:line)` in viztracer's; None where it has none, as built-in functions."""
    match = next((match for rule in SOURCES if (match := rule.fullmatch(name))), None)
    return (match["file"], int(match["line"])) if match else None


def read_memory(args: Sequence[Args]) -> tuple[Ints, Ints, Ints]:
    """Return the bytes, addresses and devices of Kineto's `[memory]` events; bytes below 0 were freed."""
    return (
        np.array([_signed(a.get("Bytes")) for a in args], np.int64),
        read_numbers([a.get("Addr", ABSENT) for a in args]),
        np.array([_signed(a.get("Device Id", ABSENT)) for a in args], np.int64),
    )


def _signed(cell: object) -> int:
    return cell if isinstance(cell, int) and abs(cell) < 1 << 62 else 0
