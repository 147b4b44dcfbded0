"""Chrome traces -> data sets -> an experiment; what `check` and `dump` say.

Specification: more-inputs.md 1, 9. What real writers do is a note: open spans, ends alone, events without duration,
phases that no table holds, an array without its end. Text that breaks off or is not JSON is damage.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from callgrove.arrays import ABSENT, Array, Ints
from callgrove.binary.compressed import compression_of, inflate_head
from callgrove.binary.files import HEAD_BUDGET, LEAST_HEAD, Source
from callgrove.errors import CorruptFile, InputError, NotRecognised, count_of
from callgrove.formats.events.columns import ColumnData, ColumnStore, RegionFacts
from callgrove.formats.events.experiment import experiment_of
from callgrove.formats.interface import Field, Grade, Match, ReadOptions
from callgrove.formats.timeline.chrome.categories import KindOfCategory, read_source_place
from callgrove.formats.timeline.chrome.decode import (
    FLOWS,
    INSTANTS,
    MARKS,
    MEMORY,
    Decoder,
    by_phase,
    count_phases,
    text_of,
)
from callgrove.formats.timeline.chrome.pairing import PairedMarks, bind_flows, pair_marks
from callgrove.formats.timeline.chrome.places import add_places
from callgrove.formats.timeline.chrome.stream import BEFORE_JSON, Event, EventStream, looks_like_events
from callgrove.formats.timeline.chrome.times import read_spans, read_times
from callgrove.model.experiment import Experiment, InputWarning, Severity
from callgrove.model.traces.events import FLOW, SideTable

__all__ = ["dump_events", "match_source", "read_source"]

ENDINGS = (".json", ".json.gz", ".json.zst", ".json.xz", ".json.bz2")
LOOKED_AT = 8  # files of a folder that detection looks into
KNOWN = {"X", "C", "M", *INSTANTS, *FLOWS, *MARKS}
LAUNCHES = ("ac2g", "launch")  # flows that say what correlations say
ATTRIBUTES = (
    "traceName",
    "displayTimeUnit",
    "trace_id",
    "cuda_runtime_version",
    "cuda_driver_version",
    "cupti_version",
)


# -- recognising -------------------------------------------------------------------------------------------------------


def match_source(source: Source) -> Match | None:
    """Return the claim on a file, or on a folder of such files."""
    if not source.is_folder:
        reason = _look_into(source, HEAD_BUDGET)
        return Match(Grade.STRONG, reason) if reason else None
    names = [name for name, is_file in sorted((source.listing or {}).items()) if is_file and name.endswith(ENDINGS)]
    reasons = [_look_into(source, HEAD_BUDGET // LOOKED_AT, name) for name in names[:LOOKED_AT]]
    if not reasons or not all(reasons):
        return None
    return Match(Grade.STRONG, f"{names[0]} in it: {reasons[0]}")


def _look_into(source: Source, most: int, name: str = "") -> str:
    """Return why a file is a Chrome trace; empty where it is none. The budget of detection, which others spend from,
    too, is only spent on what begins like JSON or is compressed."""
    first = source.head(LEAST_HEAD, name)
    if not compression_of(first) and first.lstrip(BEFORE_JSON)[:1] not in (b"", b"{", b"["):
        return ""
    return looks_like_events(inflate_head(source.head(most, name), HEAD_BUDGET))


def find_files(paths: Sequence[Path]) -> list[Path]:
    """Return the files behind paths, each once."""
    out: dict[Path, Path] = {}
    for path in paths:
        inside = [file for file in path.iterdir() if file.name.endswith(ENDINGS)] if path.is_dir() else [path]
        for file in sorted(inside):
            out.setdefault(file.resolve(), file)
    return list(out.values())


# -- reading -----------------------------------------------------------------------------------------------------------


def read_source(source: Source, options: ReadOptions, format_name: str) -> Experiment:
    """Return all files of a source as one experiment, a rank each."""
    files, store = find_files(source.paths), ColumnStore()
    datasets: list[ColumnData] = []
    skipped: list[InputWarning] = []
    headers: list[dict[str, Any]] = []
    for file in files:
        options.progress("decoding events", len(datasets), len(files))
        try:
            data, header = read_file(file, store)
        except InputError as error:
            if len(files) == 1:
                raise
            skipped.append(InputWarning(Severity.DAMAGE, str(error)))
        else:
            datasets.append(data)
            headers.append(header)
    if not datasets:
        raise InputError(skipped[0].text) if skipped else NotRecognised(f"{source.path}: holds no Chrome trace")
    experiment = experiment_of(format_name, source.path, datasets, options, skipped)
    return replace(experiment, attributes={**experiment.attributes, **_attributes(headers[0])})


def read_file(path: Path, store: ColumnStore) -> tuple[ColumnData, dict[str, Any]]:
    """Decode one file; return its data set, and what stands beside its events."""
    decoder = Decoder(path, store)
    decoder.run()
    data, stream = decoder.data, decoder.stream
    if not decoder.phases:
        _refuse_empty(stream)
    marks = _pair_marks(decoder)
    _refuse_unusable(decoder)
    _refuse_only_samples(decoder)
    data.version = _version(decoder.header)
    data.base_ns = _base_ns(decoder.header)
    add_places(decoder)
    data.add_lazy_side("argument", partial(read_arguments, path, marks))
    if len(decoder.flows) or len(decoder.links):
        data.add_lazy_side(FLOW, partial(bind_flows, data, decoder.flows, _launches(decoder), decoder.links))
    data.regions = dict(_sources(decoder))
    _warn(decoder, marks)
    return data, decoder.header


def _refuse_empty(stream: EventStream) -> None:
    if stream.cut or stream.n_broken or stream.n_deep:
        raise CorruptFile(
            stream.path, "events", expected="at least one event", found=stream.cut or "text that is not JSON"
        )
    if stream.n_others or not (stream.header or stream.is_open):
        raise NotRecognised(f"{stream.path}: is JSON, but holds no trace events")


def _refuse_unusable(decoder: Decoder) -> None:
    n = sum(n for phase, n in decoder.phases.items() if phase != "M")
    if n and not decoder.data.count() and not decoder.data.has_counters:
        reasons = "; ".join(f"{n} {reason}" for reason, n in decoder.dropped.items() if n)
        raise CorruptFile(
            decoder.data.path, "events", expected="spans or counters", found=reasons or "only other phases"
        )


def _refuse_only_samples(decoder: Decoder) -> None:
    """Raise an error for a file in which JavaScript's samples of stacks are all that there is."""
    if _count_samples(decoder.header) and not decoder.data.count() and not decoder.data.has_counters:
        raise InputError(f"{decoder.data.path}: holds samples of call stacks and no events; such samples are not read")


def _count_samples(header: dict[str, Any]) -> int:
    samples = header.get("samples")
    return len(samples) if isinstance(samples, list) else 0


def _pair_marks(decoder: Decoder) -> PairedMarks:
    if not len(decoder.marks):
        return PairedMarks(np.empty(0, np.int64))
    last = np.full(len(decoder.tracks.keys_in_order), np.iinfo(np.int64).min, np.int64)
    for block in decoder.data.stored(("lane", "end_ns")):
        np.maximum.at(last, block["lane"], block["end_ns"])
    kinds, strings = KindOfCategory(), decoder.data.strings
    numbers = {number for block in decoder.marks.blocks(("category",)) for number in block["category"].tolist()}
    kind_of = {number: kinds[strings[number] if number >= 0 else None] for number in numbers}
    return pair_marks(decoder.data, decoder.marks, kind_of, last)


def _launches(decoder: Decoder) -> Array:
    """Return, by number of a name, which flows only repeat correlations; the last entry is for no name."""
    names = [*decoder.data.strings, ""]
    if not decoder.n_correlated:
        return np.zeros(len(names), np.bool_)
    return np.array([name in LAUNCHES for name in names], np.bool_)


def _sources(decoder: Decoder) -> Iterator[tuple[str, RegionFacts]]:
    """Yield the names of functions that tell where these are defined, with that place."""
    for number in sorted(decoder.sourced - {ABSENT}):
        name = decoder.data.strings[number]
        if (place := read_source_place(name)) is not None:
            yield name, RegionFacts(*place)


def _version(header: dict[str, Any]) -> str:
    if "viztracer_metadata" in header:
        about = header["viztracer_metadata"]
        return f"viztracer {text_of(about.get('version')) if isinstance(about, dict) else ''}".strip()
    if "schemaVersion" in header:
        return f"Kineto {text_of(header['schemaVersion'])}"
    return ""


def _base_ns(header: dict[str, Any]) -> int:
    """Return what is added to all times: Kineto's base, or the origin of our own files."""
    other = header.get("otherData")
    told = header.get("baseTimeNanoseconds", other.get("time_origin_ns") if isinstance(other, dict) else None)
    try:
        base = int(told) if isinstance(told, int | str) else 0
    except ValueError:
        return 0
    return base if abs(base) < 1 << 62 else 0


def _attributes(header: dict[str, Any]) -> dict[str, str]:
    about = header.get("distributedInfo")
    told = {key: header[key] for key in ATTRIBUTES if key in header}
    told |= {key: about[key] for key in ("backend", "world_size") if key in about} if isinstance(about, dict) else {}
    return {key: text_of(value) for key, value in told.items() if not isinstance(value, dict | list)}


def _warn(decoder: Decoder, marks: PairedMarks) -> None:
    data, stream = decoder.data, decoder.stream
    if stream.cut:
        data.warn(Severity.DAMAGE, f"{stream.cut}; the events before are read")
    damages = [
        (stream.n_broken, "piece of text is not JSON; it is", "pieces of text are not JSON; they are"),
        (stream.n_deep, "event is nested too deeply; it is", "events are nested too deeply; they are"),
    ]
    for n, one, many in damages:
        if n:
            data.warn(Severity.DAMAGE, f"{count_of(n, one, many)} left out")
    notes = [
        (
            stream.n_others,
            "value among the events is not an object; it is left out",
            "values among the events are not objects; they are left out",
        ),
        (
            _count_samples(decoder.header),
            "sample of call stacks stands beside the events; it is not read",
            "samples of call stacks stand beside the events; they are not read",
        ),
        (
            marks.n_open,
            "span has no end; it ends with the last event of its thread",
            "spans have no end; they end with the last event of their thread",
        ),
        (marks.n_alone, "end has no begin; it is left out", "ends have no begin; they are left out"),
        *((n, text, text) for text, n in decoder.dropped.items()),
    ]
    for phase in sorted(phase for phase in decoder.phases if phase not in KNOWN):
        of_phase = f"of phase {phase!r}"
        one, many = f"event {of_phase} is kept in no table", f"events {of_phase} are kept in no table"
        notes.append((decoder.phases[phase], one, many))
    for n, one, many in notes:
        if n:
            data.warn(Severity.NOTE, count_of(n, one, many))
    if stream.is_open:
        data.warn(Severity.NOTE, "the array of events has no end; what is there is read")
    about = decoder.header.get("viztracer_metadata")
    if isinstance(about, dict) and about.get("overflow") is True:
        data.warn(Severity.NOTE, "viztracer's buffer overflowed: earlier events are lost")


# -- arguments, read again ---------------------------------------------------------------------------------------------


def read_arguments(path: Path, marks: PairedMarks) -> Iterator[SideTable]:
    """Yield the arguments of spans, from the file: first those of events that are spans at once, then those of begins
    and ends, whose spans come after all of these."""
    spans, mark = 0, 0
    later: list[SideTable] = []
    for batch in EventStream(path, _float_or_text).batches():
        for phase, events in by_phase(batch).items():
            if phase == "X" or phase in INSTANTS:
                usable = _usable(phase, events)
                yield from _argument_rows(usable, np.arange(spans, spans + len(usable)))
                spans += len(usable)
            elif phase in MARKS:
                usable = _usable(phase, events)
                later += _argument_rows(usable, marks.span[mark : mark + len(usable)])
                mark += len(usable)
    if later:
        columns = {name: np.concatenate([np.asarray(t.columns[name]) for t in later]) for name in later[0].columns}
        table = SideTable(np.concatenate([t.span for t in later]), columns)
        yield table.take(np.argsort(table.span, kind="stable"))


def _float_or_text(text: str) -> float:
    return float(text)


def _usable(phase: str, events: Sequence[Event]) -> list[Event]:
    """Return the events that became spans, in the order of these."""
    times = [e.get("ts") for e in events]
    good = read_spans(times, [e.get("dur") for e in events])[2] if phase == "X" else read_times(times)[1]
    kept = [e for e, is_good in zip(events, good.tolist(), strict=True) if is_good]
    if phase in INSTANTS:  # allocations come before the others of their batch
        kept.sort(key=lambda e: not (e.get("name") == MEMORY and type(e.get("args")) is dict))
    return kept


def _argument_rows(events: Sequence[Event], span: Ints) -> Iterator[SideTable]:
    rows = [
        (number, k, key, value)
        for number, event in zip(span.tolist(), events, strict=True)
        if number != ABSENT and isinstance(args := event.get("args"), dict)
        for k, (key, value) in enumerate(args.items())
    ]
    if rows:
        numbers, positions, names, values = zip(*rows, strict=True)
        columns = {
            "position": np.array(positions, np.int64),
            "type": np.array([type(value).__name__ for value in values], np.object_),
            "name": np.array(names, np.object_),
            "value": np.array([text_of(value) for value in values], np.object_),
        }
        yield SideTable(np.array(numbers, np.int64), columns)


# -- dump --------------------------------------------------------------------------------------------------------------


FIRST_EVENTS = 20
LONGEST = 200  # characters of a value that are shown


def dump_events(source: Source) -> Iterator[Field]:
    """Yield the phases of every file, its first events, and what stands beside them."""
    for path in find_files(source.paths):
        stream, first = EventStream(path), list[Event]()
        phases: dict[str, int] = {}
        for batch in stream.batches():
            first += islice(batch, max(0, FIRST_EVENTS - len(first)))
            for phase, n in count_phases(batch).items():
                phases[phase] = phases.get(phase, 0) + n
        for key, value in stream.header.items():
            yield Field(path.name, "header", -1, -1, key, _shorten(value))
        for phase, n in phases.items():
            yield Field(path.name, "phases", -1, -1, phase, n)
        for number, event in enumerate(first):
            for key, value in event.items():
                yield Field(path.name, "events", number, -1, str(key), _shorten(value))


def _shorten(value: object) -> int | str:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    text = text_of(value)
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}..."
