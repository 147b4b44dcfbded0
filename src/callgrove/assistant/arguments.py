"""What a tool may be asked: the types and bounds of its arguments, checked here, and shown to clients as a schema.

One table serves both: a `Argument` knows how a value is checked, and how JSON Schema describes it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from callgrove.errors import UsageError
from callgrove.model.table import visible

__all__ = ["Argument", "Arguments", "read_arguments", "schema_of"]

LONGEST_TEXT = 20_000  # characters of a text, such as a query
MOST_ITEMS = 64  # of a list or an object

Arguments = dict[str, Any]
WORDS = {"string": "a text", "integer": "a whole number", "number": "a number", "boolean": "true or false"}
LISTS = {"strings": "a text or a list of texts", "point": 'an object of numbers, like {"p": 4096}'}


@dataclass(frozen=True)
class Argument:
    """One argument of a tool. `kind` is a type of JSON Schema, `strings` for one text or several, or `point` for a
    number for each name."""

    name: str
    kind: str
    told: str
    default: Any = None
    least: float | None = None
    most: float | None = None
    choices: Sequence[str] = ()
    required: bool = False

    @property
    def schema(self) -> dict[str, Any]:
        """How JSON Schema describes it."""
        text: dict[str, Any] = {"type": "string", **({"enum": list(self.choices)} if self.choices else {})}
        told: dict[str, Any] = {"description": self.told}
        if self.default is not None:
            told["default"] = self.default
        if self.kind == "strings":
            return {"anyOf": [text, {"type": "array", "items": text, "maxItems": MOST_ITEMS}], **told}
        if self.kind == "point":
            return {"type": "object", "additionalProperties": {"type": "number"}, **told}
        bounds = {"minimum": self.least, "maximum": self.most}
        plain = text if self.kind == "string" else {"type": self.kind}
        return {**plain, **{word: bound for word, bound in bounds.items() if bound is not None}, **told}

    def check(self, value: Any) -> Any:
        """Return a value that is of the right type and within bounds; refuse any other."""
        if self.kind == "strings":
            return [self._check_text(item) for item in self._items(value)]
        if self.kind == "point":
            return self._check_point(value)
        if self.kind == "string":
            return self._check_text(value)
        if self.kind == "boolean":
            if not isinstance(value, bool):
                raise self._refuse(value)
            return value
        return self._check_number(value)

    def _items(self, value: Any) -> list[Any]:
        items = value if isinstance(value, list) else [value]
        if len(items) > MOST_ITEMS:
            raise UsageError(f"{self.name}: {len(items):,} texts are more than {MOST_ITEMS}")
        return items

    def _check_text(self, value: Any) -> str:
        if not isinstance(value, str):
            raise self._refuse(value)
        if len(value) > LONGEST_TEXT:
            raise UsageError(f"{self.name}: a text of {len(value):,} characters is longer than {LONGEST_TEXT:,}")
        if self.choices and value not in self.choices:
            raise UsageError(f"{self.name}: there is no {visible(value)!r}; there are {', '.join(self.choices)}")
        return value

    def _check_number(self, value: Any) -> float:
        whole = isinstance(value, int) and not isinstance(value, bool)
        if not whole and (self.kind == "integer" or not isinstance(value, float)):
            raise self._refuse(value)
        if not math.isfinite(value):
            raise self._refuse(value)
        if (self.least is not None and value < self.least) or (self.most is not None and value > self.most):
            raise UsageError(f"{self.name}: {_shorten(value)} is not between {self.least:,g} and {self.most:,.0f}")
        number: float = value
        return number

    def _check_point(self, value: Any) -> dict[str, float]:
        if not isinstance(value, dict) or not 0 < len(value) <= MOST_ITEMS:
            raise self._refuse(value)
        number = Argument(self.name, "number", "")
        return {self._check_text(name): number._check_number(one) for name, one in value.items()}

    def _refuse(self, value: Any) -> UsageError:
        wanted = WORDS.get(self.kind) or LISTS[self.kind]
        return UsageError(f"{self.name}: {_shorten(value)} is not {wanted}")


def _shorten(value: Any) -> str:
    text = visible(repr(value) if not isinstance(value, int) or abs(value) < 10**40 else "a number of many digits")
    return text if len(text) <= 60 else f"{text[:60]}..."


def schema_of(parameters: Sequence[Argument]) -> dict[str, Any]:
    """Return the JSON Schema of a tool's arguments."""
    return {
        "type": "object",
        "properties": {one.name: one.schema for one in parameters},
        "required": [one.name for one in parameters if one.required],
        "additionalProperties": False,
    }


def read_arguments(tool: str, parameters: Sequence[Argument], given: Mapping[str, Any] | None) -> Arguments:
    """Return all arguments of a tool, checked; those that were not given have their defaults. An explicit null is as
    good as none."""
    known = {one.name: one for one in parameters}
    named = {name: value for name, value in (given or {}).items() if value is not None}
    for name in named:
        if name not in known:
            near = get_close_matches(name, known, 1)
            hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(known)}"
            raise UsageError(f"{tool} has no argument {_shorten(name)}; {hint}")
    for one in parameters:
        if one.required and one.name not in named:
            raise UsageError(f"{tool} needs {one.name}: {one.told}")
    return {name: one.check(named[name]) if name in named else one.default for name, one in known.items()}
