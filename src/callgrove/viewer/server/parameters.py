"""What a request may ask: texts and numbers of an address, checked and bounded before anything is computed.

A parameter that is missing has a default or is refused; one that is given twice is refused, unless it is a list.
Requests that are refused are mistakes of a page or of whoever plays with addresses: the answer says which parameter.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from urllib.parse import parse_qsl

from callgrove.errors import UsageError

__all__ = ["BadRequest", "Parameters"]

LONGEST_QUERY = 16_000  # characters of all parameters
LONGEST_TEXT = 4_000
MOST_PARAMETERS = 64


class BadRequest(UsageError):
    """A request that no page of ours makes."""


@dataclass(frozen=True)
class Parameters:
    """The parameters of one request."""

    pairs: tuple[tuple[str, str], ...]

    @classmethod
    def parse(cls, query: bytes) -> Parameters:
        """Return the parameters of the query of an address."""
        if len(query) > LONGEST_QUERY:
            raise BadRequest(f"the address has more than {LONGEST_QUERY:,} characters of parameters")
        try:
            pairs = parse_qsl(
                query.decode("ascii"),
                keep_blank_values=True,
                strict_parsing=bool(query),
                errors="strict",
                max_num_fields=MOST_PARAMETERS,
            )
        except ValueError as error:
            raise BadRequest(f"the parameters of the address cannot be read: {error}") from None
        return cls(tuple(pairs))

    def texts(self, name: str, most: int) -> tuple[str, ...]:
        """Return all texts that a parameter was given."""
        given = tuple(text for key, text in self.pairs if key == name)
        if len(given) > most:
            raise BadRequest(f"{name}: is given more than {most} times")
        for text in given:
            if len(text) > LONGEST_TEXT:
                raise BadRequest(f"{name}: has more than {LONGEST_TEXT:,} characters")
        return given

    def text(self, name: str, default: str | None = None) -> str:
        """Return the text of a parameter."""
        given = self.texts(name, 1)
        if not given and default is None:
            raise BadRequest(f"{name}: is missing")
        return given[0] if given else default or ""

    def choice(self, name: str, words: Sequence[str], default: str | None = None) -> str:
        """Return one of some words."""
        text = self.text(name, default)
        if text not in words:
            raise BadRequest(f"{name}: is none of {', '.join(words)}")
        return text

    def integer(self, name: str, lowest: int, highest: int, default: int | None = None) -> int:
        """Return a whole number between two others."""
        text = self.text(name, None if default is None else str(default))
        number = int(text) if text.isascii() and text.removeprefix("-").isdigit() and len(text) < 20 else None
        if number is None or not lowest <= number <= highest:
            raise BadRequest(f"{name}: is not a whole number from {lowest} to {highest}")
        return number

    def integers(self, name: str, lowest: int, highest: int, most: int) -> list[int]:
        """Return all whole numbers that a parameter was given."""
        alone = [Parameters(((name, text),)) for text in self.texts(name, most)]
        return [one.integer(name, lowest, highest) for one in alone]

    def real(self, name: str, lowest: float, highest: float, default: float | None = None) -> float:
        """Return a number between two others."""
        text = self.text(name, None if default is None else repr(default))
        try:
            number = float(text)
        except ValueError:
            number = float("nan")
        if not lowest <= number <= highest:
            raise BadRequest(f"{name}: is not a number from {lowest} to {highest}")
        return number

    def refuse_unknown(self, known: Iterable[str]) -> None:
        """Refuse parameters that nothing heeds."""
        if strange := {name for name, _ in self.pairs} - set(known):
            raise BadRequest(f"{min(strange)[:80]}: is not a parameter of this request")
