"""Hatchet's queries in this language: lists of steps, and `MATCH (...)->(...) WHERE ...` texts."""

from __future__ import annotations

from collections.abc import Sequence

from callgrove.patterns.syntax import Pattern

__all__ = ["is_hatchet_query", "translate_query"]


def is_hatchet_query(query: object) -> bool:
    """Return whether a query is one of Hatchet's: a list, or a text that begins with MATCH."""
    raise NotImplementedError


def translate_query(query: str | Sequence[object]) -> Pattern:
    """Return the pattern that means what a query of Hatchet does. Raises UsageError, which names what has no
    counterpart."""
    raise NotImplementedError
