"""Tracks of a Chrome trace -> processes, devices and lanes of a data set.

Specification: more-inputs.md 1.4. A track is a pid and a tid, which may be any text:

    Kineto     one process per file, whose threads have its pid; a device has its number as pid and streams as tids,
               and events say themselves which device and stream they are of; "Spans" and "Traces" are the profiler's
    our own    threads, then "GPU 0 stream 2" and further lanes of the same track, "thread0 #1", which become one again;
               tracks of no thread say so
    others     a process per pid
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from callgrove.arrays import ABSENT
from callgrove.formats.events.dataset import OF_NO_STREAM, Lane, Process, name_device_lane
from callgrove.formats.timeline.chrome.decode import Decoder, TrackKey, text_of
from callgrove.model.profiles import ProfileKind

__all__ = ["add_places"]

OF_PROFILER = ("Spans", "Traces", "")
NO_STREAM = 2**32 - 1  # CUPTI's number for what waits for an event or a context, and for no stream
RANK_LABEL = re.compile(r"\brank (\d+)\b")
HOST_LABEL = re.compile(r"\bhost ([^,\s]+)")
STREAM_NAME = re.compile(r"GPU (\d{1,9}) (stream|queue) (\d{1,18})")
FURTHER_LANE = re.compile(r"(.*?)(?: #\d+| memory| memory #\d+)")
KINETO_KEYS = ("schemaVersion", "distributedInfo", "deviceProperties")


def add_places(decoder: Decoder) -> None:
    """Add the processes, devices and lanes of a file that was decoded to its data set."""
    _Places(decoder).add()


class _Places:
    def __init__(self, decoder: Decoder) -> None:
        self._decoder, self._data = decoder, decoder.data
        self._tracks: Sequence[TrackKey] = decoder.tracks.keys_in_order
        self._is_kineto = any(key in decoder.header for key in KINETO_KEYS)
        self._main = self._find_main_pid()
        self._process_of_pid: dict[str, int] = {}

    def add(self) -> None:
        lane_of = np.full(len(self._tracks), ABSENT, np.int32)
        names = {track: self._name(number) for number, track in enumerate(self._tracks)}
        first_of_name: dict[tuple[str, str], int] = {}
        for number, track in enumerate(self._tracks):
            process = self._process(number)
            shared = self._further_lane_of(track[0], names[track], first_of_name)
            lane_of[number] = shared if shared >= 0 else self._add_lane(process, number, names[track])
            first_of_name.setdefault((track[0], names[track]), int(lane_of[number]))
        if not self._data.processes:
            self._data.add_process(self._make_process(self._main))
        self._data.renumber_lanes(lane_of)
        self._describe_devices()

    def _find_main_pid(self) -> str:
        """Return the pid that launches most; else the first one of a thread."""
        calls = self._decoder.api_calls
        if calls:
            return self._tracks[calls.most_common(1)[0][0]][0]
        hosts = [pid for k, (pid, _) in enumerate(self._tracks) if not self._is_stream(k) and pid not in OF_PROFILER]
        return hosts[0] if hosts else self._tracks[0][0] if self._tracks else ""

    def _is_stream(self, track: int) -> bool:
        return track in self._decoder.device_of_track

    # -- processes -----------------------------------------------------------------------------------------------------

    def _process(self, track: int) -> int:
        pid = self._tracks[track][0]
        if self._is_kineto or self._is_stream(track) or pid in OF_PROFILER:
            pid = self._main
        if pid not in self._process_of_pid:
            self._process_of_pid[pid] = self._data.add_process(self._make_process(pid))
        return self._process_of_pid[pid]

    def _make_process(self, pid: str) -> Process:
        path = str(self._data.path)
        labels = text_of(self._said_of("process_labels", pid))
        rank, host = RANK_LABEL.search(labels), HOST_LABEL.search(labels)
        return Process(
            f"{path}#{pid}",
            int(pid) if pid.isascii() and pid.isdigit() and len(pid) < 19 else 0,
            text_of(self._decoder.header.get("host_name")) or (host[1] if host else ""),
            command=text_of(self._said_of("process_name", pid)),
            rank=self._told_rank(int(rank[1]) if rank and len(rank[1]) < 10 else ABSENT),
            session=path,
        )

    def _told_rank(self, otherwise: int) -> int:
        about = self._decoder.header.get("distributedInfo")
        rank = about.get("rank") if isinstance(about, dict) else None
        return rank if type(rank) is int and 0 <= rank < 1 << 31 else otherwise

    def _said_of(self, what: str, pid: str) -> object:
        return next((text for (key, track), text in self._decoder.meta.items() if key == what and track[0] == pid), "")

    # -- lanes ---------------------------------------------------------------------------------------------------------

    def _name(self, number: int) -> str:
        return text_of(self._decoder.meta.get(("thread_name", self._tracks[number]), ""))

    def _further_lane_of(self, pid: str, name: str, first_of_name: Mapping[tuple[str, str], int]) -> int:
        """Return the lane that a track of our own files is another lane of; -1 where it is none."""
        match = FURTHER_LANE.fullmatch(name)
        return first_of_name.get((pid, match[1]), ABSENT) if match and not self._is_kineto else ABSENT

    def _add_lane(self, process: int, number: int, name: str) -> int:
        pid, tid = self._tracks[number]
        if self._is_stream(number):
            device, stream = self._decoder.device_of_track[number]
            if stream == NO_STREAM:
                return self._add_device(process, device)
            return self._add_stream(process, device, _integer(tid, 0) if stream < 0 else stream)
        named = STREAM_NAME.fullmatch(name)
        if named:
            return self._add_stream(process, int(named[1]), int(named[3]))
        if named := OF_NO_STREAM.fullmatch(name):
            return self._add_device(process, int(named[1]))
        thread = _integer(tid, ABSENT)
        if thread >= 0 and pid not in OF_PROFILER and (pid, tid) not in self._decoder.no_threads:
            return self._data.lane_list.append(Lane(process, ProfileKind.THREAD, thread, name))
        is_profiler = (pid, tid) in self._decoder.profiler_tracks or (self._is_kineto and pid in OF_PROFILER)
        label = name or " ".join(filter(None, (pid if pid in OF_PROFILER else "", tid))) or "events of no thread"
        return self._data.lane_list.append(Lane(process, ProfileKind.OTHER, number, label, of_profiler=is_profiler))

    def _add_device(self, process: int, device: int) -> int:
        """Add the lane of what a device does on none of its streams."""
        number = self._decoder.device_number(device)
        lane = Lane(process, ProfileKind.GPU, device, name_device_lane(device), number)
        return self._data.lane_list.append(lane)

    def _add_stream(self, process: int, device: int, stream: int) -> int:
        number = self._decoder.device_number(device)
        return self._data.lane_list.append(Lane(process, ProfileKind.GPU_STREAM, stream, device=number))

    # -- devices -------------------------------------------------------------------------------------------------------

    def _describe_devices(self) -> None:
        """Give devices their process, and what the header says of them."""
        listed = self._decoder.header.get("deviceProperties")
        devices = [one for one in (listed if isinstance(listed, list) else ()) if isinstance(one, dict)]
        about: dict[int, dict[str, Any]] = {one["id"]: one for one in devices if isinstance(one.get("id"), int)}
        owner = self._process_of_pid.get(self._main, 0)
        for number, device in enumerate(self._data.devices):
            told = about.get(device.index, {})
            attributes = {key: text_of(value) for key, value in told.items() if key not in ("id", "name")}
            name = text_of(told.get("name"))
            self._data.devices[number] = replace(device, process=owner, name=name, attributes=attributes)


def _integer(text: str, otherwise: int) -> int:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 19 else otherwise
