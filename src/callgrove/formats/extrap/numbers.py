"""Numbers that files hold: JSON numbers, numeric strings, lists of them. Whoever reads says where."""

from __future__ import annotations

import math
from collections.abc import Sequence

__all__ = ["NotANumber", "as_number", "as_repetitions", "as_words", "shown"]

LONGEST = 80  # characters of a value in a message


class NotANumber(Exception):
    """What was found instead; the reader makes an error of it that names the place."""

    def __init__(self, found: object) -> None:
        self.found = found
        super().__init__(shown(found))


def shown(value: object) -> str:
    """A value in a message, not longer than a line can bear."""
    text = (
        {True: "true", False: "false"}[value] if isinstance(value, bool) else "null" if value is None else repr(value)
    )
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 3]}..."


def as_number(value: object) -> float:
    """A number, or a string that is one."""
    if isinstance(value, float):
        return value
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise NotANumber(value)
    try:
        return float(value)
    except (ValueError, OverflowError):
        raise NotANumber(value) from None


def as_repetitions(value: object) -> Sequence[object]:
    """The repetitions that a value holds: itself, or those of a list. A list in the list is one repetition with
    several values."""
    if not isinstance(value, list):
        return [as_number(value)]
    found: list[object] = [one if type(one) is float else _nested(one) for one in value]
    if not found or [] in found:
        raise NotANumber(value)
    return found


def _nested(value: object) -> object:
    """The numbers of a repetition, however deep they lie."""
    if not isinstance(value, list):
        return as_number(value)
    flat: list[float] = []
    pending = [value]
    while pending:
        one = pending.pop()
        if isinstance(one, list):
            pending.extend(reversed(one))
        else:
            flat.append(as_number(one))
    return flat


def as_words(value: float) -> str:
    """The shortest text that is read back as the same number; whole numbers without a point."""
    if math.isfinite(value) and value == int(value) and abs(value) < 1e16:
        return str(int(value)) if value or math.copysign(1, value) > 0 else "-0.0"
    return repr(float(value))
