"""Nodes that are no addresses: module 0, and eight characters where others have an instruction pointer.

02.00 has no such codes but two numbers, 0 for the root and 1 for the root of partial call paths; here they become the
codes that 04.00 has for them. Any other node of module 0 there is an address in no known module, unless it is a code.
"""

from __future__ import annotations

import re

import numpy as np

from callgrove.arrays import Offsets
from callgrove.model.contexts import ContextKind

__all__ = ["NO_ACTIVITY", "PARTIAL", "ROOT", "code_number", "code_of", "code_text", "describe", "list_codes"]

ROOT, PARTIAL, UNKNOWN, NO_ACTIVITY = "^Primary", "^Partial", "*Unnorm ", "NoActvty"
SPECIAL = {
    ROOT: (ContextKind.ENTRY, "<root>"),
    PARTIAL: (ContextKind.UNKNOWN, "<partial call paths>"),
    UNKNOWN: (ContextKind.UNKNOWN, "<unknown>"),
    NO_ACTIVITY: (ContextKind.PLACEHOLDER, "<no activity>"),
}
NAMES = {
    "| Main  ": "<program root>",
    "| Thread": "<thread root>",
    "OMP Idle": "<omp idle>",
    "OMPOvrHd": "<omp overhead>",
    "OMPBarrW": "<omp barrier wait>",
    "OMPTaskW": "<omp task wait>",
    "OMPMtexW": "<omp mutex wait>",
    "OMP Work": "<omp work>",
    "OMPETask": "<omp expl task>",
    "OMPITask": "<omp impl task>",
    "OMTAlloc": "<omp tgt alloc>",
    "OMTDelte": "<omp tgt delete>",
    "OMTCpIn ": "<omp tgt copyin>",
    "OMTCpOut": "<omp tgt copyout>",
    "OMTKernl": "<omp tgt kernel>",
    "OMPUresv": "<omp region unresolved>",
    "GPUCp?2?": "<gpu copy>",
    "GPUCpH2D": "<gpu copyin>",
    "GPUCpD2H": "<gpu copyout>",
    "GPUAlloc": "<gpu alloc>",
    "GPUDelte": "<gpu delete>",
    "GPUTrace": "<gpu kernel>",
    "GPUKernl": "<gpu kernel>",  # the last of equal names is the one that is written
    "GPUMemst": "<gpu memset>",
    "GPU Sync": "<gpu sync>",
}
# What databases call their entry points.
ENTRIES = {"main thread": "| Main  ", "application thread": "| Thread", "unknown entry": PARTIAL}
CODES = {name: code for code, (_, name) in SPECIAL.items()} | {name: code for code, name in NAMES.items()} | ENTRIES
ESCAPE = re.compile(r"\\([0-9a-f]{2})")


def code_number(code: str) -> int:
    """Return the instruction pointer that stands for a code."""
    return int.from_bytes(code.encode("latin-1"), "big")


def code_text(ip: int) -> str:
    """Return the eight characters of a code; what cannot be printed, and the backslash, as \\hex."""
    return "".join(chr(b) if 32 <= b < 127 and b != 92 else f"\\{b:02x}" for b in ip.to_bytes(8, "big"))


def describe(ip: int) -> tuple[ContextKind, str]:
    """Return what a node of module 0 is, and its name."""
    text = code_text(ip)
    return SPECIAL.get(text) or (ContextKind.PLACEHOLDER, NAMES.get(text, text))


def code_of(name: str) -> int | None:
    """Return the instruction pointer of the placeholder with that name; None where no eight characters can say it."""
    if name in CODES:
        return code_number(CODES[name])
    plain = ESCAPE.sub(lambda match: chr(int(match[1], 16)), name)
    return code_number(plain) if len(plain) == 8 and all(ord(c) < 256 for c in plain) else None


def list_codes() -> Offsets:
    """Return the instruction pointers of all codes with a meaning."""
    return np.array([code_number(code) for code in (*SPECIAL, *NAMES)], np.uint64)
