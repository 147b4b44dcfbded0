"""The format `perf-script`: what Linux's `perf script` prints of a recording.

    app 4711/4712 [003] 12.000000100:        250 cycles:u:      comm pid/tid [cpu] seconds: period event:
            401136 leaf+0x6 (/opt/app/app)                      address symbol+0xoffset (module), innermost first
            401180 main+0x10 (/opt/app/app)
                                                                an empty line ends a sample

Specification: perf-script(1), and what the samples show. The command may hold blanks; a single number before the time
is the thread, and the process is not known; the period may be missing (1). Without call graphs a sample is one line,
with its frame at the end. Without a time (`-F comm,pid,event,ip,sym`, and what perf printed before 2013) there is a
profile and no trace. The module is the last group in parentheses, which may hold others, as in
`(/opt/app/app (deleted))`; `(inlined)` is a function that was inlined into the next one. With `-F +srcline` a line
`  file.c:12` follows each frame.

A thread is a profile. Every event is a metric, the sum of its periods; `samples` counts them. Contexts are functions,
and for the innermost one the source line where it is known. Frames are known by their text: a line that was parsed
once is looked up.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from callgrove.arrays import ABSENT, Array
from callgrove.binary.files import Source
from callgrove.errors import InputError
from callgrove.formats.interface import Field, Grade, Match, ReadOptions
from callgrove.formats.text_profiles import (
    LONGEST_NAME,
    CheckedByReading,
    ContextsByPath,
    LeftOut,
    TextBlock,
    add_up_values,
    head_lines,
    text_blocks,
)
from callgrove.model.builder import ExperimentBuilder
from callgrove.model.contexts import LAST_LINE, ContextKind, Relation
from callgrove.model.experiment import Experiment, Severity
from callgrove.model.metrics import Metric, Scope
from callgrove.model.profiles import DEFAULT_ID_NAMES, Interpretation, ProfileKind
from callgrove.model.traces.events import ArraySamples, Samples

__all__ = ["FORMAT"]


# -- lines -------------------------------------------------------------------------------------------------------------


HEADER = re.compile(
    rb"\s*(?P<command>\S(?:.*?\S)??)\s+(?P<first>-?\d{1,18})(?:/(?P<second>-?\d{1,18}))?\s+(?:\[\d+\]\s+)?"
    rb"(?:(?P<seconds>\d{1,9})\.(?P<fraction>\d{6,9}):\s+)?(?:(?P<period>\d{1,18})\s+)?(?P<event>\S+?):(?:\s+(?P<rest>.*))?"
)
FRAME = re.compile(rb"\s*(?:0x)?[0-9a-f]+(?:\s+(\S.*?))?\s*")
OFFSET = re.compile(rb"\+0x[0-9a-f]+$")
SOURCE_LINE = re.compile(rb"\s+(\S.*):(\d{1,9})\s*")
TIME = re.compile(rb"\s\d+\.\d{6,9}:\s")
BRANCHES = re.compile(rb"\s*0x[0-9a-f]+/0x[0-9a-f]+/")
RECORD = re.compile(rb"\bPERF_RECORD_|\bLOST\b")
INLINED = b"inlined"
UNKNOWN = "[unknown]"
IGNORED, NEW_SAMPLE = -1, -2  # what a line is that is not a frame
MOST_LINES = 1 << 20  # that are remembered
NO_FRAMES = "lines in samples that are neither frames nor source lines"
NO_SAMPLES = "blocks that do not begin like a sample: comm pid time: event:"
OTHER_TIMES = "samples without a time among those with one, or the other way round"


class Frame(NamedTuple):
    """What a line of a stack says. A source line has a file; it belongs to the frame before it."""

    name: str
    module: str = ""
    is_inlined: bool = False
    file: str = ""
    line: int = ABSENT


def parse_header(line: bytes) -> re.Match[bytes] | None:
    """Return the parts of the line that begins a sample. Without a time it has a frame, or is not indented."""
    match = HEADER.fullmatch(line) if len(line) <= LONGEST_NAME else None
    if match is None or match["seconds"] is not None or _frame_of(match) is not None:
        return match
    return match if not match["rest"] and not line[:1].isspace() and not TIME.search(line) else None


def _frame_of(header: re.Match[bytes]) -> Frame | None:
    """Return the frame at the end of a line that begins a sample, as without call graphs."""
    rest = header["rest"]
    return parse_frame(rest) if rest and (b"+0x" in rest or rest.endswith(b")")) else None


def parse_frame(text: bytes) -> Frame | None:
    """Return the function that an address with a symbol and a module names; None where this is not a frame."""
    match = FRAME.fullmatch(text) if len(text) <= LONGEST_NAME else None
    if match is None:
        return None
    symbol, module = _split_module(match[1] or b"")
    name = OFFSET.sub(b"", symbol.strip()).decode("utf-8", "backslashreplace") or UNKNOWN
    inlined = module == INLINED
    return Frame(name, "" if inlined else module.decode("utf-8", "backslashreplace"), inlined)


def _split_module(text: bytes) -> tuple[bytes, bytes]:
    """Return symbol and module: the last group of balanced parentheses, if a blank or nothing stands before it."""
    if not text.endswith(b")"):
        return text, b""
    depth = 0
    for at in range(len(text) - 1, -1, -1):
        depth += (text[at] == ord(")")) - (text[at] == ord("("))
        if depth == 0:
            is_group = at == 0 or text[at - 1 : at].isspace()
            return (text[:at], text[at + 1 : -1]) if is_group else (text, b"")
    return text, b""


def ends_with_frame(text: bytes) -> bool:
    """Return whether a text without the end of its last line ends with a frame and its module, as nothing does that is
    cut in a name."""
    last = text[text.rfind(b"\n") + 1 :].rstrip()
    frame = parse_frame(last) if last.endswith(b")") else None
    return frame is not None and (frame.module != "" or frame.is_inlined)


def _parse_source_line(line: bytes) -> Frame | None:
    match = SOURCE_LINE.fullmatch(line) if len(line) <= LONGEST_NAME else None
    if match is None:
        return None
    return Frame("", file=match[1].decode("utf-8", "backslashreplace"), line=min(int(match[2]), LAST_LINE))


class FrameNumbers(dict[bytes, int]):
    """The numbers of frames by their lines. Lines of other kinds are told by numbers below 0."""

    def __init__(self, left_out: LeftOut) -> None:
        super().__init__()
        self.frames: list[Frame] = []
        self.has_source_lines = False
        self._number: dict[Frame, int] = {}
        self._left_out = left_out

    def __missing__(self, line: bytes) -> int:
        if not line.strip() or line.startswith(b"#"):
            return IGNORED
        frame = parse_frame(line) or _parse_source_line(line)
        if frame is None:
            return self._explain(line)
        if len(self) >= MOST_LINES:
            self.clear()
        number = self[line] = self.number(frame)
        return number

    def number(self, frame: Frame) -> int:
        """Return the number of a frame."""
        number = self._number.setdefault(frame, len(self.frames))
        if number == len(self.frames):
            self.frames.append(frame)
            self.has_source_lines |= bool(frame.file)
        return number

    def _explain(self, line: bytes) -> int:
        """Return what a line is that is not a frame, and count it where it is not a sample either."""
        if parse_header(line) is not None:
            return NEW_SAMPLE
        if BRANCHES.match(line) or RECORD.search(line):
            self._left_out.note("branch stacks, PERF_RECORD and LOST lines", line)
        else:
            self._left_out.damage(NO_FRAMES, line)
        return IGNORED


# -- samples -----------------------------------------------------------------------------------------------------------


def end_of_samples(data: bytes) -> int:
    """Return where the last sample that is surely complete ends: at an empty line; without any, before the last sample
    of one line."""
    if end := data.rfind(b"\n\n") + 2:
        return end if end > 1 else 0
    if b"\n\r\n" in data:
        return data.rfind(b"\n\r\n") + 3
    end = data.rfind(b"\n")
    start = data.rfind(b"\n", 0, max(0, end)) + 1
    return start if end > 0 and parse_header(data[start:end]) is not None else 0


@dataclass
class PerfSamples:
    """All samples of a text, by column."""

    builder: ExperimentBuilder
    left_out: LeftOut = field(default_factory=LeftOut)
    time_ns: array[int] = field(default_factory=lambda: array("q"))
    period: array[int] = field(default_factory=lambda: array("q"))
    profile: array[int] = field(default_factory=lambda: array("i"))
    context: array[int] = field(default_factory=lambda: array("i"))
    event: array[int] = field(default_factory=lambda: array("i"))
    profiles: dict[tuple[bytes, bytes], int] = field(default_factory=dict)
    events: dict[bytes, int] = field(default_factory=dict)
    without_period: set[int] = field(default_factory=set)  # events of which a sample tells no period

    def __post_init__(self) -> None:
        self.numbers = FrameNumbers(self.left_out)
        self.contexts = ContextsByPath(self._add_context)
        self._regions: dict[tuple[int, int], int] = {}  # by frame and module
        self._modules: dict[int, int] = {}  # of contexts, as inlined functions lie in that of their caller

    def read(self, blocks: Iterator[TextBlock]) -> None:
        """Add the samples of a file. What follows the last end of a line may be cut, and is read only if it ends as a
        frame does."""
        tail = b""
        for block in blocks:
            data = block.data.replace(b"\r\n", b"\n") if b"\r" in block.data else block.data
            whole = len(data) if ends_with_frame(data) else data.rfind(b"\n") + 1
            tail = data[whole:]
            for chunk in data[:whole].split(b"\n\n"):
                self._add_chunk(chunk)
        if tail.strip():
            self._drop_cut_sample(tail)

    def _drop_cut_sample(self, tail: bytes) -> None:
        """Leave out a line that has no end, and the sample that it belongs to, which lacks frames."""
        self.left_out.damage("samples at the end of the file, which breaks off in them", tail)
        if tail[:1].isspace() and parse_header(tail) is None and self.profile:
            for column in (self.time_ns, self.period, self.profile, self.context, self.event):
                del column[-1:]

    def _add_chunk(self, chunk: bytes) -> None:
        """Add what stands between empty lines: a sample with its stack, or samples of one line each."""
        lines = chunk.split(b"\n")
        start = 0
        while start < len(lines) and (not lines[start].strip() or lines[start].startswith(b"#")):
            start += 1
        if start == len(lines):
            return
        header = parse_header(lines[start])
        if header is None:
            self._skip_chunk(lines[start:])
            return
        numbers = list(map(self.numbers.__getitem__, lines[start + 1 :]))
        if NEW_SAMPLE not in numbers:
            self._add_sample(header, numbers)
            return
        bounds = [at for at, number in enumerate(numbers) if number == NEW_SAMPLE]
        for first, last in zip([-1, *bounds], [*bounds, len(numbers)], strict=True):
            header = parse_header(lines[start + 1 + first])
            assert header is not None
            self._add_sample(header, numbers[first + 1 : last])

    def _skip_chunk(self, lines: list[bytes]) -> None:
        """Leave out a block without a header; a header further on begins a block by itself."""
        if RECORD.search(lines[0]):
            self.left_out.note("branch stacks, PERF_RECORD and LOST lines", lines[0])
        else:
            self.left_out.damage(NO_SAMPLES, lines[0])
        at = next((k for k, line in enumerate(lines) if k and parse_header(line) is not None), len(lines))
        if at < len(lines):
            self._add_chunk(b"\n".join(lines[at:]))

    def _add_sample(self, header: re.Match[bytes], numbers: list[int]) -> None:
        _, first, second, seconds, fraction, period, event, _ = header.groups()
        if self.profile and (seconds is None) != (not self.time_ns):
            self.left_out.damage(OTHER_TIMES, header[0])
            return
        if (frame := _frame_of(header)) is not None:
            numbers = [self.numbers.number(frame), *numbers]
        key = (first, second) if second is not None else (b"", first)
        profile = self.profiles.get(key)
        if profile is None:
            profile = self.profiles[key] = self._add_profile(header, key)
        self.profile.append(profile)
        self.event.append(self.events.setdefault(event, len(self.events)))
        if seconds is not None:
            self.time_ns.append(int(seconds) * 1_000_000_000 + int(fraction.ljust(9, b"0")))
        self.period.append(1 if period is None else int(period))
        if period is None:
            self.without_period.add(self.event[-1])
        self.context.append(self._context(numbers))

    def _add_profile(self, header: re.Match[bytes], key: tuple[bytes, bytes]) -> int:
        process, thread = key
        number = int(thread)
        kind = DEFAULT_ID_NAMES.index("THREAD")
        identifiers = [(kind, number, number, int(Interpretation.SINGLE))] if number >= 0 else []
        attributes = [("process id", process.decode())] if process else []
        name = header["command"].decode("utf-8", "backslashreplace")
        return self.builder.add_profile(ProfileKind.THREAD, identifiers, name=name, attributes=attributes)

    # -- contexts ------------------------------------------------------------------------------------------------------

    def _context(self, numbers: list[int]) -> int:
        """Return the context of a stack, given from the innermost frame on; -1 without any."""
        if IGNORED in numbers or self.numbers.has_source_lines:
            return self._context_of_line(numbers)
        return self.contexts.descend(reversed(numbers))

    def _context_of_line(self, numbers: list[int]) -> int:
        """Return the context of a stack in which not every line is a frame: the source line of the innermost frame."""
        known = [number for number in numbers if number >= 0]
        is_line = [bool(self.numbers.frames[number].file) for number in known]
        context = self.contexts.descend(
            number for number, line in zip(known[::-1], is_line[::-1], strict=True) if not line
        )
        inner = is_line.index(False) + 1 if False in is_line else len(known)
        return self.contexts.descend(known[inner : inner + 1], context) if any(is_line[inner : inner + 1]) else context

    def _add_context(self, parent: int, number: int) -> int:
        frame, builder = self.numbers.frames[number], self.builder
        if frame.file:
            region = builder.region(ContextKind.LINE, file=builder.file(frame.file), line=frame.line)
            return builder.add_context(parent, ContextKind.LINE, region, Relation.LEXICAL)
        module = self._modules.get(parent, ABSENT) if frame.is_inlined else builder.module(frame.module)
        kind = ContextKind.INLINED if frame.is_inlined else ContextKind.FUNCTION
        relation = Relation.INLINED if frame.is_inlined and parent >= 0 else Relation.CALL
        key = number, module
        if key not in self._regions:
            self._regions[key] = builder.region(kind, frame.name, module=module)
        context = builder.add_context(parent, kind, self._regions[key], relation)
        self._modules[context] = module
        return context


# -- the experiment ----------------------------------------------------------------------------------------------------


TIMES = ("cpu-clock", "task-clock")  # events whose periods are nanoseconds
NO_STACK = "[no stack]"


def _unit_of(event: str) -> str:
    return "ns" if event.partition(":")[0] in TIMES else ""


def _add_values(read: PerfSamples) -> None:
    """Add the periods of every event and the number of samples, by thread and context."""
    builder = read.builder
    profile, context, event = (np.array(column, np.int64) for column in (read.profile, read.context, read.event))
    if (context < 0).any():
        region = builder.region(ContextKind.PLACEHOLDER, NO_STACK)
        context = np.where(context < 0, builder.add_context(ABSENT, ContextKind.PLACEHOLDER, region), context)
        read.context = array("i", context.astype(np.int32).tobytes())
    period = np.array(read.period, np.int64)
    for number, name in enumerate(read.events):
        text = name.decode("utf-8", "backslashreplace")
        unit = "" if number in read.without_period else _unit_of(text)  # samples that count as 1 are not times
        metric = builder.add_metric(Metric(text, Scope.EXCLUSIVE, unit, dtype="int64"))
        rows = event == number
        add_up_values(builder, profile[rows], context[rows], metric, period[rows])
    samples = builder.add_metric(Metric("samples", Scope.EXCLUSIVE, dtype="int64"))
    add_up_values(builder, profile, context, samples, np.ones(len(profile), np.int64))


def _add_trace(read: PerfSamples) -> None:
    """Add a line of samples for every thread, in the order of time."""
    final = read.builder.order()
    profile, time = np.array(read.profile, np.int32), np.array(read.time_ns, np.int64)
    context = final[np.array(read.context, np.int32)].astype(np.int32)
    order = np.lexsort((time, profile))
    bounds = np.searchsorted(profile[order], np.arange(len(read.profiles) + 1))
    lines = tuple(
        Samples(_part(time, order, low, high), _part(context, order, low, high))
        for low, high in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True)
    )
    numbers = np.arange(len(lines), dtype=np.int32)
    samples = ArraySamples(numbers, np.full(len(lines), -1, np.int32), lines)
    read.builder.set_traces(samples, time_range=(int(time.min()), int(time.max())))


def _part(column: Array, order: Array, low: int, high: int) -> Array:
    return column[order[low:high]]


class PerfScriptFormat(CheckedByReading):
    """Samples of Linux perf as text."""

    name = "perf-script"
    title = "samples of Linux perf, as `perf script` prints them"

    def match(self, source: Source) -> Match | None:
        if _hold_samples(head_lines(source)):
            return Match(Grade.STRONG, "it holds samples as perf script prints them")
        return None

    def read(self, source: Source, options: ReadOptions) -> Experiment:
        """Return threads with their samples, over time and added up."""
        builder = ExperimentBuilder(self.name, title=source.name, path=str(source.path))
        read = PerfSamples(builder)
        read.read(text_blocks(source.path, end_of_samples))
        if not read.profile:
            raise InputError(f"{source.path}: no sample was found in it; print them with `perf script -i perf.data`")
        _add_values(read)
        if read.time_ns:
            _add_trace(read)
        else:
            builder.warn(Severity.NOTE, "samples have no times (perf script -F +time): there is no trace of them")
        read.left_out.report(builder, source.path)
        return builder.build()

    def dump(self, source: Source) -> Iterator[Field]:
        """Yield the parts of every header, and the frames and other lines below it."""
        index = -1
        for block in text_blocks(source.path, end_of_samples):
            at = block.offset
            for line in block.data.splitlines(keepends=True):
                header = parse_header(line.rstrip())
                index += header is not None
                for name, value in _fields_of(line.rstrip(), header):
                    yield Field(source.path.name, "samples", index, at, name, value)
                at += len(line)


FORMAT = PerfScriptFormat()


def _fields_of(line: bytes, header: re.Match[bytes] | None) -> Iterator[tuple[str, str]]:
    """Yield the fields of one line, as the file spells them."""
    if header is not None:
        given = {name: text for name, text in header.groupdict().items() if text}
        if "second" not in given:
            given["second"] = given.pop("first")
        names = {"first": "process", "second": "thread", "rest": "frame"}
        yield from ((names.get(name, name), text.decode("utf-8", "backslashreplace")) for name, text in given.items())
    elif line.strip():
        frame = parse_frame(line)
        name = "comment" if line.startswith(b"#") else "line" if frame is None else "frame"
        yield name, line.strip().decode("utf-8", "backslashreplace")


def _hold_samples(lines: list[bytes]) -> bool:
    """Return whether a header is followed by a frame, on the next line or on its own."""
    for number, line in enumerate(lines):
        header = parse_header(line.rstrip())
        if header is None:
            continue
        after = lines[number + 1].rstrip() if number + 1 < len(lines) else b""
        if (after[:1].isspace() or after.endswith(b")")) and parse_frame(after) is not None:
            return True
        if header["rest"] and b"(" in header["rest"] and parse_frame(header["rest"]) is not None:
            return True
    return False
