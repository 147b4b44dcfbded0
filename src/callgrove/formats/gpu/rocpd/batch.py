"""The events of many small rocpd databases, read at once.

What reader.py does for one data set is done here for several, table by table: rows of all data sets in one array, and
beside each row the number of the data set that owns it. Ids mean something in their data set only, so every look-up is
by owner and id.

Only sound data is read like this. Whatever would need a warning, a name that is missing or a rule for rows without an
event is `Unusual`; then each data set is read by itself, which gives the same events and says what is wrong with them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property

import numpy as np

from callgrove.arrays import ABSENT, Array, Ids, Ints, Names
from callgrove.binary.sqlite.batch import JoinedFiles, JoinedTable
from callgrove.binary.sqlite.cells import MISSING, is_json, json_strings
from callgrove.binary.sqlite.pages import Unusual
from callgrove.formats.gpu.dataset import Events
from callgrove.formats.gpu.event_tables import or_absent
from callgrove.formats.gpu.rocpd.reader import RocpdData, kernel_name
from callgrove.formats.gpu.rocpd.tables import kind_of_category
from callgrove.model.traces.events import SideTable, SpanKind

__all__ = ["ByOwner", "RocpdTogether"]

KINDS = {
    "region": SpanKind.REGION,
    "kernel_dispatch": SpanKind.KERNEL,
    "memory_copy": SpanKind.COPY,
    "memory_allocate": SpanKind.ALLOC,
}
SMALL = ("string", "info_kernel_symbol", "sample", "memory_allocate")  # as a rule
LARGEST = 1 << 22  # cells of a look-up
NO_MESSAGE = NO_STACK = "{}"


class ByOwner:
    """From an id of one of several data sets to a number; -1 for ids that it does not have. The first of equal ids
    counts."""

    def __init__(self, ids: Sequence[Ints], numbers: Sequence[Ints] | None = None) -> None:
        n = np.array([len(own) for own in ids], np.int64)
        owner = np.repeat(np.arange(len(ids)), n)
        every = np.concatenate([*ids, np.empty(0, np.int64)])
        self._low = np.array([int(own.min()) if len(own) else 0 for own in ids], np.int64)
        place = every - self._low[owner]
        self._width = int(place.max(initial=-1)) + 2  # the last cell is for all other ids
        if place.min(initial=0) < 0 or self._width * len(ids) > LARGEST:
            raise Unusual("ids that lie far apart")
        self._table = np.full(self._width * len(ids), ABSENT, np.int64)
        values = np.arange(len(every)) if numbers is None else np.concatenate([*numbers, np.empty(0, np.int64)])
        self._table[(owner * self._width + place)[::-1]] = values[::-1]
        self.is_unique = int((self._table >= 0).sum()) == len(every)

    def places(self, n: Ints, ids: Ints) -> Ints:
        """Where in the table ids stand: n[k] of them are of data set k, and these come one after the other."""
        firsts = np.arange(len(n)) * self._width
        if self._has_all(n, ids):
            return ids + np.repeat(firsts - self._low, n)
        with np.errstate(over="ignore"):
            place = (ids - np.repeat(self._low, n)).view(np.uint64)  # what lies below wraps around to far above
        return np.minimum(place, np.uint64(self._width - 1)).view(np.int64) + np.repeat(firsts, n)

    def _has_all(self, n: Ints, ids: Ints) -> bool:
        """Lie all ids where the table has cells for them?"""
        some = n > 0
        if not some.any():
            return False
        firsts, low = (np.cumsum(n) - n)[some], self._low[some]
        least, largest = np.minimum.reduceat(ids, firsts), np.maximum.reduceat(ids, firsts)
        return bool((least >= low).all() and (largest < low + self._width).all())

    def __call__(self, n: Ints, ids: Ints) -> Ints:
        return self._table.take(self.places(n, ids))

    @property
    def n_cells(self) -> int:
        return len(self._table)

    def at(self, places: Ints) -> Ints:
        """What stands at places of the table."""
        return self._table.take(places)

    def found(self, n: Ints, ids: Ints) -> Ints:
        """Return the numbers of ids that are all there."""
        out = self(n, ids)
        if len(out) and int(out.min()) < 0:
            raise Unusual("ids that lead to no row")
        return out


class RocpdTogether:
    """Several data sets, each in a file of its own; their bytes are read once. Events number `names`."""

    def __init__(self, datasets: Sequence[RocpdData], names: Names) -> None:
        self._datasets = datasets
        self._files = JoinedFiles([dataset.file for dataset in datasets])
        self._names = names

    def _table(self, base: str) -> JoinedTable:
        return self._files.table(base, self._table_name)

    def _table_name(self, base: str, k: int) -> str:
        return self._datasets[k].table_name(base)

    def give_back(self) -> None:
        """Forget what was read; only names stay, which others know by their numbers."""
        self._files.give_back()
        self.__dict__ = {name: self.__dict__[name] for name in ("_datasets", "_files", "_names")}

    # -- what is listed once -------------------------------------------------------------------------------------------

    @cached_property
    def counts(self) -> Mapping[str, Ints]:
        """Events of every data set, by table."""
        self._files.read(SMALL, self._table_name)
        if self.has_samples:
            raise Unusual("samples")
        return {base: self._table(base).n for base in KINDS}

    @property
    def has_samples(self) -> bool:
        return len(self._table("sample")) > 0

    def firsts(self) -> list[int]:
        """The number of the first event of every data set, and of the one after the last."""
        return [0, *np.cumsum(sum(self.counts.values())).tolist()]

    def _spans(self, base: str) -> Ints:
        """The numbers of the events of a table."""
        first, table = np.array(self.firsts()[:-1]), self._table(base)
        for other in KINDS:
            if other == base:
                break
            first = first + self.counts[other]
        return np.arange(len(table)) + np.repeat(first - table.firsts, table.n)

    @cached_property
    def _threads(self) -> ByOwner:
        first = self._first_lanes
        lanes = [d.thread_lanes + first[k] for k, d in enumerate(self._datasets)]
        return ByOwner([d.thread_ids for d in self._datasets], lanes)

    @cached_property
    def _first_lanes(self) -> Ints:
        n = np.array([len(dataset.lanes) for dataset in self._datasets], np.int64)
        return np.cumsum(n) - n

    @cached_property
    def _agents(self) -> ByOwner:
        """From an agent to the number of a device, over all data sets."""
        return ByOwner([dataset.agent_ids for dataset in self._datasets])

    @cached_property
    def _is_gpu(self) -> Array:
        kinds = [device.kind == "GPU" for dataset in self._datasets for device in dataset.devices]
        return np.array([*kinds, False], np.bool_)

    @cached_property
    def _first_devices(self) -> Ints:
        n = np.array([len(dataset.devices) for dataset in self._datasets], np.int64)
        return np.cumsum(n) - n

    @cached_property
    def _streams(self) -> tuple[ByOwner, int]:
        """From device * width + stream to the lane, over all data sets; and that width."""
        used = [list(dataset.streams.items()) for dataset in self._datasets]
        every = [stream for own in used for (_, stream), _ in own]
        devices = [device for own in used for (device, _), _ in own]
        if min(every, default=0) < 0 or max(every, default=0) > LARGEST or min(devices, default=0) < 0:
            raise Unusual("streams without a number")
        width = max(every, default=0) + 1
        ids = [np.array([device * width + stream for (device, stream), _ in own], np.int64) for own in used]
        lanes = [np.array([lane for _, lane in own], np.int64) + self._first_lanes[k] for k, own in enumerate(used)]
        return ByOwner(ids, lanes), width

    def _symbols(self, n: Ints, ids: Ints) -> Ints:
        if any(dataset.kernel_names for dataset in self._datasets):
            raise Unusual("kernels under names that are in JSON")
        table = self._table("info_kernel_symbol")
        every = np.arange(len(table))
        columns = [table.integers("id", MISSING).tolist()]
        texts = [table.objects(name, every) for name in ("display_name", "kernel_name")]
        if not all(cell is None or isinstance(cell, str) for column in texts for cell in column):
            raise Unusual("names that are no text")
        names = self._names.numbers([kernel_name(*row) for row in zip(*columns, *texts, strict=True)])
        known = _unique(ByOwner(_by_owner(table, table.integers("id", MISSING)), _by_owner(table, names)))
        return known.found(n, ids)

    @cached_property
    def _string_rows(self) -> ByOwner:
        table = self._table("string")
        return _unique(ByOwner(_by_owner(table, table.integers("id", MISSING))))

    def _name_strings(self, n: Ints, ids: Ints) -> Ints:
        """The names of strings; only those that are used are read."""
        places = self._string_rows.places(n, ids)
        used = np.zeros(self._string_rows.n_cells, np.bool_)
        used[places] = True
        cells = np.flatnonzero(used)
        rows = self._string_rows.at(cells)
        if len(rows) and int(rows.min()) < 0:
            raise Unusual("strings that are missing")
        texts = self._table("string").objects("string", rows)
        if not all(isinstance(text, str) for text in texts):
            raise Unusual("strings that are no text")
        numbers = np.zeros(len(used), np.int64)
        numbers[cells] = self._names.numbers(texts)  # type: ignore[arg-type]
        return numbers.take(places)

    # -- events --------------------------------------------------------------------------------------------------------

    def events(self, columns: Sequence[str]) -> list[Events]:
        """Chunks of events, table by table; `lane` counts over all data sets."""
        return [self._events(base, columns) for base in KINDS if len(self._table(base))]

    def _events(self, base: str, columns: Sequence[str]) -> Events:
        table = self._table(base)
        event: dict[str, Ints] = {}
        kinds: list[Ids] = []

        def of_event(name: str) -> Ints:
            if "place" not in event:
                event["place"] = self._event_places(table)
            if name not in event:
                event[name] = self._event_column(name).take(event["place"])
            return event[name]

        def category() -> Ints:
            if "category" not in event:
                event["category"] = self._name_strings(table.n, of_event("category_id"))
            return event["category"]

        def kind() -> Ids:
            if not kinds:
                kinds.append(
                    self._kinds(category()) if base == "region" else np.full(len(table), KINDS[base], np.int32)
                )
            return kinds[0]

        make: dict[str, Callable[[], Array]] = {
            "start_ns": lambda: table.integers("start", MISSING),
            "end_ns": lambda: table.integers("end", MISSING),
            "name": lambda: self._name(base, table),
            "label": lambda: self._label(base, table, kind, of_event),
            "category": category,
            "correlation": lambda: or_absent(of_event("stack_id")),
            "parent_correlation": lambda: or_absent(of_event("parent_stack_id")),
            "kind": kind,
            "lane": lambda: self._lane(base, table),
        }
        return {"span": self._spans(base), **{name: make[name]() for name in columns}}

    def _event_column(self, name: str) -> Ints:
        """A column of the event table, which all tables of events refer to."""
        if name not in self._event_columns:
            self._event_columns[name] = self._table("event").integers(name, MISSING)
        return self._event_columns[name]

    @cached_property
    def _event_columns(self) -> dict[str, Ints]:
        return {}

    def _event_places(self, table: JoinedTable) -> Ints:
        """The row of the event table that each event refers to: ids count these rows."""
        events, first = self._table("event"), self._first_events
        ids, some = table.integers("event_id", MISSING), table.n > 0
        if some.any():
            low, high = (ends.reduceat(ids, table.firsts[some]) for ends in (np.minimum, np.maximum))
            if (low < first[some]).any() or (high >= (first + events.n)[some]).any():
                raise Unusual("events without a row in the event table")
        return ids + np.repeat(events.firsts - first, table.n)

    @cached_property
    def _first_events(self) -> Ints:
        """The id of the first row of the event table, for every data set."""
        events = self._table("event")
        ids, some = events.integers("id", MISSING), events.n > 0
        first = np.zeros(len(events.n), np.int64)
        first[some] = ids[events.firsts[some]]
        if (ids != events.within + np.repeat(first, events.n)).any():
            raise Unusual("event ids with gaps")
        return first

    def _kinds(self, category: Ints) -> Ids:
        return np.array([kind_of_category(text) for text in self._names.all], np.int32).take(category)

    def _name(self, base: str, table: JoinedTable) -> Ids:
        if base == "kernel_dispatch":
            return self._symbols(table.n, table.integers("kernel_id", MISSING)).astype(np.int32)
        if base == "memory_allocate":
            types = table.objects("type", np.arange(len(table)))
            if not all(isinstance(text, str) for text in types):
                raise Unusual("types that are no text")
            return self._names.numbers(types)  # type: ignore[arg-type]
        return self._name_strings(table.n, table.integers("name_id", MISSING)).astype(np.int32)

    def _label(self, base: str, table: JoinedTable, kind: Callable[[], Ids], of_event: Callable[[str], Ints]) -> Ids:
        """The name; of markers, the message that the event carries."""
        names = self._name(base, table)
        rows = np.flatnonzero(kind() == SpanKind.MARKER) if base == "region" else np.empty(0, np.int64)
        if not len(rows):
            return names
        texts = self._table("event").objects("extdata", of_event("place")[rows])
        if not all(isinstance(text, str) and is_json(text) for text in set(texts)):
            raise Unusual("texts that are no JSON")
        message = {text: json_strings(str(text)).get("message") for text in set(texts) if text != NO_MESSAGE}
        found = self._names.numbers([message.get(text) for text in texts])
        names = names.copy()
        names[rows] = np.where(found >= 0, found, names[rows])
        return names

    def _lane(self, base: str, table: JoinedTable) -> Ids:
        if base in ("region", "memory_allocate"):
            return self._threads.found(table.n, table.integers("tid", MISSING)).astype(np.int32)
        streams, width = self._streams
        device = self._device(base, table) - np.repeat(self._first_devices, table.n)
        stream = table.integers("stream_id", MISSING)
        if len(stream) and (int(stream.min()) < 0 or int(stream.max()) >= width):
            raise Unusual("streams without a number")
        return streams.found(table.n, device * width + stream).astype(np.int32)

    def _device(self, base: str, table: JoinedTable) -> Ints:
        """The device that an event ran on: the agent, or for copies the GPU at either end."""
        if base == "kernel_dispatch":
            return self._agents.found(table.n, table.integers("agent_id", MISSING))
        to, origin = (self._end(table, name) for name in ("dst_agent_id", "src_agent_id"))
        device = np.where(self._is_gpu[to], to, np.where(self._is_gpu[origin], origin, to))
        if len(device) and int(device.min()) < 0:
            raise Unusual("copies without a device")
        return device

    def _end(self, table: JoinedTable, name: str) -> Ints:
        """The device at one end of copies; -1 where it is not said."""
        ids = table.integers(name, MISSING)
        found = self._agents(table.n, ids)
        if ((found < 0) & (ids != MISSING)).any():
            raise Unusual("agents that are missing")
        return found

    # -- what only some events have ------------------------------------------------------------------------------------

    @property
    def has_stacks(self) -> bool:
        """May any event carry the functions that led to it?"""
        return not self._table("event").is_everywhere("call_stack", NO_STACK)

    def sizes(self, name: str) -> SideTable | None:
        """The bytes of copies or of allocations."""
        base = {"copy": "memory_copy", "alloc": "memory_allocate"}[name]
        table = self._table(base)
        if not len(table):
            return None
        return SideTable(self._spans(base), {"bytes": or_absent(table.integers("size", MISSING))})


def _unique(known: ByOwner) -> ByOwner:
    if not known.is_unique:
        raise Unusual("ids that are there twice")
    return known


def _by_owner(table: JoinedTable, column: Array) -> list[Array]:
    return np.split(column, table.firsts[1:])
