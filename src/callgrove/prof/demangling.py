"""C++ names as people write them, by the C++ runtime of this machine."""

from __future__ import annotations

import ctypes
import ctypes.util
from functools import lru_cache
from typing import Any

__all__ = ["demangled"]

NO_FUNCTIONS = ("T", "G")  # after _Z: tables, thunks, guards
ANONYMOUS = "(anonymous namespace)"


@lru_cache(maxsize=1)
def _demangler() -> Any:
    """The C++ runtime's own, where there is one."""
    for name in ("libstdc++.so.6", "libc++abi.so.1", ctypes.util.find_library("stdc++")):
        try:
            library = ctypes.CDLL(name) if name else None
        except OSError:
            continue
        if library is not None and hasattr(library, "__cxa_demangle"):
            function = library["__cxa_demangle"]
            function.restype = ctypes.c_void_p
            function.argtypes = [ctypes.c_char_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.POINTER(ctypes.c_int)]
            free = ctypes.CDLL(None).free
            free.argtypes = [ctypes.c_void_p]
            return function, free
    return None


def demangled(name: str) -> str:
    """A C++ name as people write it, with its parameters and without its return type; any other name as it is."""
    if not name.startswith("_Z") or _demangler() is None:
        return name
    demangle, free = _demangler()
    status = ctypes.c_int()
    made = demangle(name.encode("utf-8", "replace"), None, None, ctypes.byref(status))
    if not made:
        return name
    text = ctypes.string_at(made).decode("utf-8", "backslashreplace")
    free(made)
    return _without_return_type(text) if name[2:3] not in NO_FUNCTIONS else text


def _without_return_type(text: str) -> str:
    """Only templates have one: what stands before the last space outside of brackets, up to the parameters. Names of
    operators have spaces and brackets of their own, and are left as they are."""
    if "operator" in text or text.startswith("decltype"):
        return text
    depth, start = 0, 0
    for at, character in enumerate(text):
        if character == "(" and depth == 0 and not text.startswith(ANONYMOUS, at):
            return text[start:]
        depth += (character in "<({[") - (character in ">)}]")
        if character == " " and depth == 0:
            start = at + 1
    return text
