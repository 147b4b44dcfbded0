"""HPCToolkit databases by `struct` and arithmetic alone: an oracle that shares no code with the readers.

    profile.db, cct.db    {(profile, context, metric): bits of the value}, by the file's own ids
    trace.db              {profile: [(time, context)]}

Offsets are those of the specification, A.2 to A.4 and B.3 to B.4. Nothing is checked: the files are sound.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path

Key = tuple[int, int, int]  # profile, context, metric: ids of the file
Bits = dict[Key, int]


def values_by_profile(folder: Path) -> Bits:
    data = (folder / "profile.db").read_bytes()
    return dict(_released_profiles(data) if data.startswith(b"HPCTOOLKIT") else _prereleased_profiles(data))


def values_by_context(folder: Path) -> Bits:
    data = (folder / "cct.db").read_bytes()
    return dict(_released_contexts(data) if data.startswith(b"HPCTOOLKIT") else _prereleased_contexts(data))


def _runs(starts: list[tuple[int, int]], n: int) -> Iterator[tuple[int, range]]:
    """(id, positions) of index pairs, the last one ending at `n`."""
    for k, (id_, start) in enumerate(starts):
        yield id_, range(start, starts[k + 1][1] if k + 1 < len(starts) else n)


def _prereleased_profiles(data: bytes) -> Iterator[tuple[Key, int]]:
    (n_profiles,) = struct.unpack_from(">I", data, 18)
    for profile in range(n_profiles):
        n_values, n_contexts, at = struct.unpack_from(">QIQ", data, 128 + 52 * profile + 32)
        index = [struct.unpack_from(">IQ", data, at + 10 * n_values + 12 * k) for k in range(n_contexts)]
        for context, positions in _runs(index, n_values):
            for k in positions:
                bits, metric = struct.unpack_from(">QH", data, at + 10 * k)
                yield (profile, context, metric), bits


def _prereleased_contexts(data: bytes) -> Iterator[tuple[Key, int]]:
    (n_contexts,) = struct.unpack_from(">I", data, 18)
    for record in range(n_contexts):
        context, n_values, n_metrics, at = struct.unpack_from(">IQHQ", data, 128 + 22 * record)
        index = [struct.unpack_from(">HQ", data, at + 12 * n_values + 10 * k) for k in range(n_metrics)]
        for metric, positions in _runs(index, n_values):
            for k in positions:
                bits, profile = struct.unpack_from(">QI", data, at + 12 * k)
                yield (profile, context, metric), bits


def _released_profiles(data: bytes) -> Iterator[tuple[Key, int]]:
    (section,) = struct.unpack_from("<Q", data, 0x18)
    first, n_profiles, stride = struct.unpack_from("<QIB", data, section)
    for profile in range(n_profiles):
        n_values, values, n_contexts, indices = struct.unpack_from("<QQI4xQ", data, first + stride * profile)
        index = [struct.unpack_from("<IQ", data, indices + 12 * k) for k in range(n_contexts)]
        for context, positions in _runs(index, n_values):
            for k in positions:
                metric, bits = struct.unpack_from("<HQ", data, values + 10 * k)
                yield (profile, context, metric), bits


def _released_contexts(data: bytes) -> Iterator[tuple[Key, int]]:
    (section,) = struct.unpack_from("<Q", data, 0x18)
    first, n_contexts, stride = struct.unpack_from("<QIB", data, section)
    for context in range(n_contexts):
        n_values, values, n_metrics, indices = struct.unpack_from("<QQH6xQ", data, first + stride * context)
        index = [struct.unpack_from("<HQ", data, indices + 10 * k) for k in range(n_metrics)]
        for metric, positions in _runs(index, n_values):
            for k in positions:
                profile, bits = struct.unpack_from("<IQ", data, values + 12 * k)
                yield (profile, context, metric), bits


def samples(folder: Path) -> dict[int, list[tuple[int, int]]]:
    data = (folder / "trace.db").read_bytes()
    released = data.startswith(b"HPCTOOLKIT")
    found: dict[int, list[tuple[int, int]]] = {}
    for profile, start, end in _released_lines(data) if released else _prereleased_lines(data):
        record = "<QI" if released else ">QI"
        found[profile] = [struct.unpack_from(record, data, at) for at in range(start, end, 12)]
    return found


def _prereleased_lines(data: bytes) -> Iterator[tuple[int, int, int]]:
    (n,) = struct.unpack_from(">I", data, 18)
    for k in range(n):
        profile, _, start, end = struct.unpack_from(">IHQQ", data, 128 + 22 * k)
        yield profile, start, end


def _released_lines(data: bytes) -> Iterator[tuple[int, int, int]]:
    (section,) = struct.unpack_from("<Q", data, 0x18)
    first, n, stride = struct.unpack_from("<QIB", data, section)
    for k in range(n):
        profile, start, end = struct.unpack_from("<I4xQQ", data, first + stride * k)
        yield profile, start, end
