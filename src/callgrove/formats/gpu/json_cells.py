"""JSON in cells: text as a rule, but a column of that type turns what looks like a number into one."""

from __future__ import annotations

import json

__all__ = ["json_object", "json_strings"]


def json_object(text: str | None) -> dict[str, object]:
    """An object; anything else, and what is no JSON, is an empty one."""
    try:
        found = json.loads(text or "{}")
    except (ValueError, RecursionError):
        return {}
    return {str(key): value for key, value in found.items()} if isinstance(found, dict) else {}


def json_strings(text: str | None) -> dict[str, str]:
    """An object of strings."""
    return {key: str(value) for key, value in json_object(text).items()}
