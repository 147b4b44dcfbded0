"""What kind of span a category means, where a trace says no more than that.

Specification: more-inputs.md 5; words of rocprofv3, rocprof-sys, Kokkos, Kineto, OTF2 and our own writers.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import numpy as np

from callgrove.arrays import Ids
from callgrove.model.traces.events import SpanKind

__all__ = ["kind_of_category", "kinds_of_categories"]

RULES: tuple[tuple[SpanKind, str], ...] = (  # the first one that fits
    (SpanKind.KERNEL, r"kernel|kernel_dispatch|device_kernel|gpu_kernel|.*_kernel_dispatch"),
    (SpanKind.COPY, r"copy|memcpy|gpu_memcpy|memory_copy|device_memory_copy|data_transfer"),
    (SpanKind.MEMSET, r"memset|gpu_memset"),
    (SpanKind.ALLOC, r"alloc|memory_allocation|memory_allocate|scratch_memory|(de|re)?allocate"),
    (SpanKind.SYNC, r"sync|cuda_sync|synchronization"),
    (SpanKind.OVERHEAD, r"overhead"),
    (SpanKind.REGION, r"region|host_region|user_region"),
    (SpanKind.MARKER, r"marker|marker_.*|.*_marker|nvtx.*|roctx.*|user_annotation|gpu_user_annotation"),
    (
        SpanKind.API,
        r"api|hip_.*|hsa_.*|cuda_.*|.*_(api|api_ext|runtime|driver)|rocclr.*|ompt|rocdecode.*|rocjpeg.*",
    ),
)


def kind_of_category(category: str) -> SpanKind:
    """Return the kind of spans of a category; a region where it says nothing."""
    word = category.lower()
    return next((kind for kind, rule in RULES if re.fullmatch(rule, word)), SpanKind.REGION)


def kinds_of_categories(category: Ids, strings: Sequence[str], kind_of: Callable[[str], int] = kind_of_category) -> Ids:
    """Return the kinds of spans whose categories number some texts; -1 is none. `kind_of` is the vocabulary."""
    used = np.unique(category)
    kinds = np.full(len(strings) + 1, SpanKind.REGION, np.int32)
    for number in used[used >= 0].tolist():
        kinds[number] = kind_of(strings[number])
    return kinds[category]
