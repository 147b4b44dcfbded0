"""The numbers of released databases in the model's words; reader and writer share them.

scope            type            propagation bit
point            1 point         -                  the very context
function         3 transitive    0                  set at contexts that are nested lexically
lex_aware        0 custom        -
execution        2 execution     -                  everything below
"""

from __future__ import annotations

from dataclasses import dataclass

from callgrove.model.contexts import ContextKind
from callgrove.model.metrics import Scope

__all__ = [
    "COLUMNS_FILE",
    "COMBINATIONS",
    "COPIED_FLAG",
    "COUNT",
    "ENTRY_POINTS",
    "HAS_FUNCTION",
    "HAS_PLACE",
    "HAS_POINT",
    "LEXICAL_TYPES",
    "MAXIMUM",
    "MINIMUM",
    "MOST_METRIC_IDS",
    "PHYSICAL_FLAG",
    "SCOPES",
    "SCOPE_RECORDS",
    "SQUARES",
    "SUM",
    "SUMMARIES",
    "SUMMARY_FLAG",
    "THREAD_VALUE",
    "UNKNOWN_ENTRY",
    "UNKNOWN_FUNCTION",
    "ScopeRecord",
    "storable",
]

COUNT, SUM, SQUARES, MINIMUM, MAXIMUM = "count", "sum", "sum of squares", "min", "max"  # statistics of summaries
UNUSED = 255
COLUMNS_FILE = "metrics/default.yaml"
MOST_METRIC_IDS = 1 << 16


@dataclass(frozen=True)
class ScopeRecord:
    """One scope as meta.db describes it."""

    scope: Scope
    name: str
    type: int
    propagation_index: int = UNUSED


SCOPE_RECORDS = (
    ScopeRecord(Scope.POINT, "point", 1),
    ScopeRecord(Scope.FUNCTION, "function", 3, 0),
    ScopeRecord(Scope.LEXICAL, "lex_aware", 0),
    ScopeRecord(Scope.INCLUSIVE, "execution", 2),
)
SCOPES = {record.name: record.scope for record in SCOPE_RECORDS}

LEXICAL_TYPES = (ContextKind.FUNCTION, ContextKind.LOOP, ContextKind.LINE, ContextKind.INSTRUCTION)
HAS_FUNCTION, HAS_PLACE, HAS_POINT = 1, 2, 4  # flags of a context: which flex words follow
COPIED_FLAG = 1  # of a file: its path leads to a copy inside the database
SUMMARY_FLAG = 1  # of a profile
PHYSICAL_FLAG = 1  # of an identifier: its physical number means something
THREAD_VALUE = "$$"  # the formula of plain sums
COMBINATIONS = ("sum", "min", "max")  # by the number that meta.db has for them
SUMMARIES = {  # statistic -> formula of the thread's value, and how threads are combined
    COUNT: ("1", "sum"),
    SUM: (THREAD_VALUE, "sum"),
    SQUARES: ("($$^2)", "sum"),
    MINIMUM: (THREAD_VALUE, "min"),
    MAXIMUM: (THREAD_VALUE, "max"),
}

ENTRY_POINTS = {"main thread": 1, "application thread": 2}
UNKNOWN_ENTRY = "unknown entry"  # entry point 0
UNKNOWN_FUNCTION = "<unknown function>"  # how a function context without a function is called


def storable(text: str) -> str:
    """Text as a NUL-terminated UTF-8 string can hold it: what cannot be encoded, and NUL, become escapes."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8").replace("\0", "\\x00")
