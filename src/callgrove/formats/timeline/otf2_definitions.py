"""Definitions of an OTF2 archive: where events happen, and what is entered.

Specification: trace-outputs.md 5. The library knows definitions by all of their fields, so a region of one name in two
roles is two regions. A metric event names a class of metrics, never a member of one.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from callgrove.arrays import Ints
from callgrove.formats.timeline.content import Slices
from callgrove.formats.timeline.places import ProcessTracks, Track, TrackKind
from callgrove.model.traces.events import SpanKind

__all__ = ["Locations", "Regions"]

Key = tuple[int, int]  # process, track


class Locations:
    """The locations of tracks, made when they are first used."""

    def __init__(self, trace: Any) -> None:
        import otf2

        self._trace, self._otf2 = trace, otf2
        self._machine = trace.definitions.system_tree_node("machine", class_name="machine")
        self._nodes: dict[str, Any] = {}
        self._processes: dict[int, Any] = {}
        self._taken: set[str] = set()  # names of processes: the library takes equal definitions for one
        self._groups: dict[Key, Any] = {}
        self._writers: dict[Key, Any] = {}
        self._metrics: dict[Key, Any] = {}

    def describe(self, tracks: ProcessTracks) -> Any:
        """Return the group of a process."""
        process = tracks.process
        if process.index not in self._processes:
            kinds = self._otf2.LocationGroupType
            name = process.name if process.name not in self._taken else f"{process.name} ({process.index})"
            self._taken.add(name)
            self._processes[process.index] = self._trace.definitions.location_group(
                name, location_group_type=kinds.PROCESS, system_tree_parent=self._node(process.host)
            )
        return self._processes[process.index]

    def _node(self, host: str) -> Any:
        if host not in self._nodes:
            name = host or "node"
            self._nodes[host] = self._trace.definitions.system_tree_node(name, class_name="node", parent=self._machine)
        return self._nodes[host]

    def writer(self, tracks: ProcessTracks, track: int) -> Any:
        """Return the writer of a track's events."""
        key = (tracks.process.index, track)
        if key not in self._writers:
            location = self._location(tracks, tracks.tracks[track])
            self._writers[key] = self._trace.event_writer_from_location(location)
        return self._writers[key]

    def _location(self, tracks: ProcessTracks, track: Track) -> Any:
        kinds = self._otf2.LocationType
        group, kind = self.describe(tracks), kinds.CPU_THREAD
        if track.kind is TrackKind.COUNTER:
            kind = kinds.METRIC
        else:
            for above in _path(tracks, track):
                if above.kind is TrackKind.GROUP:
                    group, kind = self._device(tracks, above), kinds.ACCELERATOR_STREAM
        name = f"{track.name} #{track.lane}" if track.lane else track.name
        return self._trace.definitions.location(name, type=kind, group=group)

    def _device(self, tracks: ProcessTracks, track: Track) -> Any:
        key = (tracks.process.index, track.number)
        if key not in self._groups:
            owner = self.describe(tracks)
            self._groups[key] = self._trace.definitions.location_group(
                track.name,
                location_group_type=self._otf2.LocationGroupType.ACCELERATOR,
                system_tree_parent=self._node(tracks.process.host),
                creating_location_group=owner,
            )
        return self._groups[key]

    def metric(self, tracks: ProcessTracks, track: int, is_float: bool) -> tuple[Any, Any]:
        """Return the writer of a counter, and the class of metrics that its events name."""
        key = (tracks.process.index, track)
        if key not in self._metrics:
            otf2, counter = self._otf2, tracks.tracks[track]
            member = self._trace.definitions.metric_member(
                counter.name,
                description="",
                metric_type=otf2.MetricType.OTHER,
                metric_mode=otf2.MetricMode.ABSOLUTE_POINT,
                value_type=otf2.Type.DOUBLE if is_float else otf2.Type.INT64,
                unit=counter.unit,
            )
            self._metrics[key] = self._trace.definitions.metric_class(
                (member,),
                occurrence=otf2.MetricOccurrence.ASYNCHRONOUS,
                recorder_kind=otf2.RecorderKind.UNKNOWN,
            )
        return self.writer(tracks, track), self._metrics[key]


def _path(tracks: ProcessTracks, track: Track) -> list[Track]:
    """Return the tracks that a track lies below of; the process is none of them."""
    out = []
    while track.parent > 0:
        track = tracks.tracks[track.parent]
        out.append(track)
    return out


class Regions:
    """What is entered: names with a role and a paradigm, by number."""

    def __init__(self, definitions: Any, paradigm: str) -> None:
        import otf2

        self._definitions, self._otf2, self._paradigm = definitions, otf2, paradigm
        self.all: list[Any] = []
        self._known: dict[tuple[str, str, str], int] = {}

    def of(self, slices: Slices) -> Ints:
        """Return the number of every slice's region."""
        kind = np.full(len(slices), -1) if slices.kind is None else slices.kind.astype(np.int64)
        n_names, n_categories = len(slices.name.all), len(slices.category.all)
        packed = ((kind + 1) * n_categories + slices.category.index) * n_names + slices.name.index
        different, number = np.unique(packed, return_inverse=True)
        regions = []
        for key in different.tolist():
            rest, name = divmod(key, n_names)
            above, category = divmod(rest, n_categories)
            regions.append(self._region(slices.name.all[name], above - 1, slices.category.all[category]))
        out: Ints = np.array(regions, np.int64)[number.reshape(-1)]
        return out

    def _region(self, name: str, kind: int, category: str) -> int:
        key = (name, *self._role(name, kind, category))
        if key not in self._known:
            otf2, (_, role, paradigm) = self._otf2, key
            self._known[key] = len(self.all)
            self.all.append(
                self._definitions.region(
                    name,
                    canonical_name=name,
                    region_role=getattr(otf2.RegionRole, role),
                    paradigm=getattr(otf2.Paradigm, paradigm),
                )
            )
        return self._known[key]

    def _role(self, name: str, kind: int, category: str) -> tuple[str, str]:
        """Role and paradigm, in the words of the library."""
        if kind < 0:  # a function that samples show
            return ("LOOP" if category == "loop" else "FUNCTION"), "SAMPLING"
        if kind == SpanKind.MARKER:
            return "CODE", "USER"
        if kind in (SpanKind.REGION, SpanKind.OVERHEAD):
            return "FUNCTION", "UNKNOWN"
        if kind == SpanKind.ALLOC:
            return _memory_role(name), self._paradigm
        if kind == SpanKind.API and category.startswith(("OMPT", "MPI")):
            return "FUNCTION", "OPENMP" if category.startswith("OMPT") else "MPI"
        roles = {SpanKind.KERNEL: "KERNEL", SpanKind.COPY: "DATA_TRANSFER", SpanKind.MEMSET: "KERNEL"}
        return roles.get(SpanKind(kind), "FUNCTION"), self._paradigm


def _memory_role(name: str) -> str:
    upper = name.upper()
    if "REALLOC" in upper:
        return "REALLOCATE"
    return "DEALLOCATE" if "FREE" in upper or "RECLAIM" in upper else "ALLOCATE"
