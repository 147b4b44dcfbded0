"""JSON in cells: text as a rule, but a column of that type turns what looks like a number into one."""

from __future__ import annotations

import json

__all__ = ["is_json", "json_object", "json_scalars", "json_strings"]


def json_object(text: str | None) -> dict[str, object]:
    """An object; anything else, and what is no JSON, is an empty one."""
    try:
        found = json.loads(text or "{}")
    except (ValueError, RecursionError):
        return {}
    return {str(key): value for key, value in found.items()} if isinstance(found, dict) else {}


def is_json(text: str | None) -> bool:
    """Does a cell hold JSON, or nothing at all?"""
    try:
        json.loads(text or "{}")
    except (ValueError, RecursionError):
        return False
    return True


def json_strings(text: str | None) -> dict[str, str]:
    """An object of strings."""
    return {key: str(value) for key, value in json_object(text).items()}


def json_scalars(text: str | None) -> dict[str, str]:
    """The numbers and texts of an object, and those of objects in it (`size_x`); what lies deeper is left out."""
    out: dict[str, str] = {}
    for key, value in json_object(text).items():
        inner = {f"{key}_{name}": cell for name, cell in value.items()} if isinstance(value, dict) else {key: value}
        out |= {name: str(cell) for name, cell in inner.items() if isinstance(cell, int | float | str)}
    return out
