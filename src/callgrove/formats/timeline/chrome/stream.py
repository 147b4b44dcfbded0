"""The text of a Chrome trace as a stream of events: one block of text and one event are in memory at a time.

Specification: more-inputs.md 1.1, 1.7 and 9. Two containers:

    {"key": value, ..., "traceEvents": [event, event, ...], "key": value, ...}      keys in any order
    [event, event, ...                                                              the end may be missing

Events are decoded one by one by the standard library (`scan_once`), which was measured as fast as any other way and
keeps the text of numbers (`parse_float=str`): times have up to 19 digits, more than a double. An event that the block
ends in is tried again with more text. What is not JSON is left out up to the next event, and counted.
"""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from callgrove.binary.compressed import Stream, open_stream
from callgrove.errors import RefusedInput

__all__ = ["BATCH", "BEFORE_JSON", "Event", "EventStream", "looks_like_events"]

Event = dict[str, Any]
BLOCK = 1 << 22  # bytes of text that are read at a time
MOST_OF_EVENT = 8 << 20  # bytes that the text and the values of one event take, about; real ones have kilobytes
MOST_OF_MEMBER = 64 << 20  # the same of one value beside the events: stacks of samples, texts of sources
MEMBER_BY_SIZE = 3  # or so many times the bytes of the file, which may be nothing but such a value
WEIGHTS = {"{": 64, "[": 56, ",": 8}  # bytes of what a character stands for, once it is decoded
BATCH = 1024  # events that are given at a time
CHUNK = 1 << 19  # characters that are decoded at once: fewer cost more calls for each event, more do not stay in caches
EVENTS_KEY = "traceEvents"
NEAR_END = 16  # characters: the longest word of JSON, cut off
CLOSING = '"]}'  # what strings and containers end with
EXPONENT = ".eE+-"  # what a number may be cut after, though it would be one without that
SHOWN = 60  # characters of a value that is refused
BLANKS = re.compile(r"[\s\ufeff]*")
SEPARATORS = re.compile(r"[\s,]*")
BETWEEN = " \t\r\n,"
BEGIN = re.compile(r'\{\s*"[^"\\]{0,40}"')  # of an event: its first key
NEXT_EVENT = re.compile(r"\}\s*,\s*(?=\{)")

OBJECT_OF_EVENTS = re.compile(rb'"traceEvents"\s*:\s*\[')
BEFORE_JSON = b"\xef\xbb\xbf \t\r\n"  # a mark of the encoding, and white space
PHASE = re.compile(rb'[{,]\s*"ph"\s*:\s*"')


def looks_like_events(head: bytes) -> str:
    """Return why a file that begins so is a Chrome trace; empty where it does not look like one."""
    text = head.lstrip(BEFORE_JSON)
    if text[:1] == b"{" and OBJECT_OF_EVENTS.search(text):
        return "a JSON object with the key traceEvents"
    if text[:1] in (b"{", b"[") and PHASE.search(text):
        return "JSON objects with the key ph"
    return ""


class _Cut(Exception):
    """The text ends inside of a value."""


@dataclass
class EventStream:
    """The events of one file, and what stands beside them; all of that is known after the last event.

    `floats` makes numbers with a fraction or an exponent of their text. `n_broken` counts pieces of text that are no
    events, `n_others` values that are JSON and no objects, `n_deep` events whose values are nested too deeply.
    """

    path: Path
    floats: Callable[[str], Any] = str
    header: dict[str, Any] = field(default_factory=dict)
    n_broken: int = 0
    n_others: int = 0
    n_deep: int = 0
    is_open: bool = False  # an array without its end
    cut: str = ""  # why the text ends before its end

    def __post_init__(self) -> None:
        decoder: Any = json.JSONDecoder(parse_float=self.floats)
        self._scan: Callable[[str, int], tuple[Any, int]] = decoder.scan_once
        self._stream: Stream = open_stream(self.path)
        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        self._text = ""
        self._at = 0
        self._is_whole = False  # whether all of the file is in the text
        self._boundary = ""  # what stood last between two events, with the first key of the second

    # -- text ----------------------------------------------------------------------------------------------------------

    def _read_on(self, n_bytes: int = 0) -> bool:
        """Append a block to what is left of the text; return whether there was any."""
        if self._is_whole:
            return False
        pieces = [self._text[self._at :]]
        wanted = n_bytes or BLOCK
        while wanted > 0 and (content := self._stream.read(min(wanted, BLOCK))):
            pieces.append(self._decode(content))
            wanted -= len(content)
        if wanted > 0:
            self._is_whole = True
            pieces.append(self._decode(b"", True))
            self.cut = self._stream.problem
        self._text, self._at = "".join(pieces), 0
        return True

    def _skip(self, pattern: re.Pattern[str]) -> str:
        """Skip what a pattern matches; return the next character, which is empty at the end."""
        while True:
            match = pattern.match(self._text, self._at)
            self._at = match.end() if match else self._at
            if self._at < len(self._text):
                return self._text[self._at]
            if not self._read_on():
                return ""

    def _value(self, most: int | None = None) -> Any:
        """Return the value that begins here, reading on where the text ends in it."""
        while True:
            try:
                value, end = self._scan(self._text, self._at)
            except StopIteration as stop:
                self._demand_more(int(stop.value), most or MOST_OF_EVENT)
            except json.JSONDecodeError as error:
                open_end = error.msg.startswith(("Unterminated", "Invalid \\"))
                self._demand_more(len(self._text) if open_end else error.pos, most or MOST_OF_EVENT)
            else:
                at_end = len(self._text) - end <= len(EXPONENT) and not self._text[end:].strip(EXPONENT)
                may_go_on = at_end and self._text[end - 1] not in CLOSING  # a number
                if not may_go_on or not self._read_on():
                    self._at = end
                    return value

    def _demand_more(self, failed_at: int, most: int) -> None:
        """Read on if the value was cut by the end of the text; raise `_Cut` at the end of the file, and `ValueError`
        where it is not JSON. A value that takes more room than any record is refused."""
        length = len(self._text) - self._at
        if failed_at < len(self._text) - NEAR_END:
            raise ValueError
        if length + sum(n * self._text.count(char, self._at) for char, n in WEIGHTS.items()) > most:
            begin = self._text[self._at : self._at + SHOWN]
            raise RefusedInput(
                f"{self.path}: the value at about byte {self._stream.n_read - length:,} of the text, which begins with "
                f"{begin!r}, takes more than {most >> 20} MiB of memory, far more than any record; if it is right, "
                "take it out of the file (jq can), or split it"
            )
        if not self._read_on(max(BLOCK, length)):
            raise _Cut

    # -- events --------------------------------------------------------------------------------------------------------

    def batches(self) -> Iterator[list[Event]]:
        """Yield all events, some at a time."""
        first = self._skip(BLANKS)
        try:
            if first == "[":
                self._at += 1
                yield from self._array(is_root=True)
            elif first == "{":
                self._at += 1
                yield from self._members()
        except _Cut:
            self.cut = self.cut or "the text breaks off"
        except (ValueError, RecursionError):  # nested too deeply where a key or a member should stand
            self.n_broken += 1
            self.cut = self.cut or "what follows is not JSON"

    def _members(self) -> Iterator[list[Event]]:
        """Yield the events of the object, keeping its other members."""
        while (char := self._skip(SEPARATORS)) != "}":
            if not char:
                raise _Cut
            key = self._value()
            if self._skip(BLANKS) != ":":
                raise ValueError
            self._at += 1
            begins = self._skip(BLANKS)
            if key == EVENTS_KEY and begins == "[":
                self._at += 1
                yield from self._array()
            elif isinstance(key, str):
                self.header[key] = self._member()

    def _member(self) -> Any:
        return self._value(max(MOST_OF_MEMBER, MEMBER_BY_SIZE * self.path.stat().st_size))

    def _array(self, *, is_root: bool = False) -> Iterator[list[Event]]:
        """Yield the events of an array, which follow here."""
        while True:
            batch = self._batch()
            if batch:
                yield batch
            char = self._skip(SEPARATORS)
            if char == "]":
                self._at += 1
                return
            if not char:
                if is_root and not self._stream.problem:
                    self.is_open = True
                    return
                raise _Cut
            if char != "{":
                self._step_over_other()
                continue
            try:
                yield [self._value()]  # the one that the text ended in
            except ValueError:
                self.n_broken += 1
                self._resume()
            except RecursionError:
                self.n_deep += 1
                self._resume()

    def _batch(self) -> list[Event]:
        """Decode events until something else than an event follows, the text ends, or there are enough of them."""
        return self._decode_at_once() or self._decode_one_by_one()

    def _decode_at_once(self) -> list[Event]:
        """Decode the events before the last boundary of the next `CHUNK` characters by one call, in which equal keys
        are one text; none where that fails. A boundary inside of an event leaves no JSON before it, so none is missed
        and none is made up."""
        cut = self._text.rfind(self._boundary, self._at, self._at + CHUNK) if self._boundary else -1
        if cut < self._at:
            return []
        text = f"[{self._text[self._at : cut + 1].lstrip(BETWEEN)}]"
        try:
            events, end = self._scan(text, 0)
        except (StopIteration, ValueError, RecursionError):
            return []
        if end < len(text) or set(map(type, events)) != {dict}:
            return []
        self._at = cut + 1
        return list(events)

    def _decode_one_by_one(self) -> list[Event]:
        out: list[Event] = []
        scan, text, at = self._scan, self._text, self._at
        find, append = text.find, out.append
        known = {",", "", ",\n", ",\n  "}
        between, start = "", at
        try:
            while len(out) < BATCH:
                start = find("{", at)
                if start < 0:
                    break
                between = text[at:start]
                if between not in known:
                    if between.strip(BETWEEN):
                        break
                    known.add(between)
                event, at = scan(text, start)
                append(event)
        except (StopIteration, ValueError, RecursionError):  # whoever goes on from here says what it is
            pass
        self._at = at
        if len(out) > 1 and (begin := BEGIN.match(text, start)):
            self._boundary = f"}}{between}{begin[0]}"
        return out

    def _step_over_other(self) -> None:
        """Step over a value that is not an object."""
        try:
            self._value()
            self.n_others += 1
        except (ValueError, RecursionError):
            self.n_broken += 1
            self._resume()

    def _resume(self) -> None:
        """Go to where the next event seems to begin."""
        while True:
            match = NEXT_EVENT.search(self._text, self._at)
            if match:
                self._at = match.end()
                return
            self._at = max(self._at, len(self._text) - (1 << 10))  # the pattern may be cut by the end of the text
            if not self._read_on():
                self._at = len(self._text)
                raise _Cut
