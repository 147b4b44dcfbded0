"""A viewer that runs on a thread of the test, and requests to it."""

from __future__ import annotations

import http.client
import json
import struct
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Thread
from time import monotonic, sleep
from typing import Any, Protocol
from urllib.parse import urlencode

import numpy as np

from callgrove.formats.registry import open_path
from callgrove.model.experiment import Experiment
from callgrove.model.study.series import Study
from callgrove.viewer.server.inputs import Input, Wanted
from callgrove.viewer.server.running import Address, Viewer
from tests.timing import HANG_SEC

__all__ = ["Reply", "Served", "ask", "ask_raw", "made_input", "path_input", "serving", "unpacked"]

Reply = tuple[int, dict[str, str], bytes]


class Served(Protocol):
    """A viewer that runs, in this process or another."""

    @property
    def address(self) -> Address: ...
    @property
    def token(self) -> str: ...


def made_input(opened: Experiment | Study, path: str = "made.d") -> Input:
    """An input that is there already."""
    return Input(Wanted((path,), lambda progress: opened))


def path_input(path: object) -> Input:
    """An input that lies in a file."""
    return Input(Wanted((str(path),), lambda progress: open_path(str(path))))


@contextmanager
def serving(*inputs: Input, **how: Any) -> Iterator[Viewer]:
    """Run a viewer until the block ends; all inputs are open when it begins."""
    viewer = Viewer(list(inputs), "made", **how)
    for one in inputs:
        one.start()
    for one in inputs:
        assert one.settled.wait(HANG_SEC)
    thread = Thread(target=viewer.run)
    thread.start()
    try:
        _wait_for(lambda: viewer._server is not None and viewer._server.started)
        yield viewer
    finally:
        viewer.stop()
        thread.join(HANG_SEC)
        assert not thread.is_alive(), "it ends when it is told to"


def _wait_for(is_so: Callable[[], bool]) -> None:
    began = monotonic()
    while not is_so():
        assert monotonic() - began < HANG_SEC
        sleep(0.01)


def ask_raw(
    viewer: Served, target: str, headers: Mapping[str, str] | None = None, method: str = "GET", token: bool = True
) -> Reply:
    """The answer to a request with these very headers, and the token unless it is left out."""
    connection = http.client.HTTPConnection("127.0.0.1", viewer.address.port, timeout=HANG_SEC)
    given = {"X-Callgrove-Token": viewer.token} if token else {}
    connection.putrequest(method, target, skip_host="Host" in (headers or {}))
    for name, value in {**given, **(headers or {})}.items():
        connection.putheader(name, value)
    connection.endheaders()
    answer = connection.getresponse()
    body = answer.read()
    connection.close()
    return answer.status, {name.lower(): value for name, value in answer.getheaders()}, body


def ask(viewer: Served, name: str, **parameters: str | int | float | Sequence[str]) -> tuple[int, Any]:
    """The status and the document of an answer, or what it says instead."""
    query = urlencode({"input": 0, **parameters}, doseq=True) if name not in ("outline", "status") else ""
    status, _, body = ask_raw(viewer, f"/api/{name}{'?' if query else ''}{query}")
    return status, unpacked(body) if status == 200 and name != "status" else json.loads(body)


@dataclass(frozen=True)
class _Source:
    large: bytes
    data: bytes
    strings: list[str]


def unpacked(answer: bytes) -> Any:
    """A document with columns in their places, as a page has it."""
    n_large, n_text = struct.unpack_from("<II", answer)
    body = json.loads(answer[8 + n_large : 8 + n_large + n_text])
    data = zlib.decompress(answer[8 + n_large + n_text :])
    at, size = body.pop("strings")
    body.pop("version")
    return _filled(body, _Source(answer[8 : 8 + n_large], data, json.loads(data[at : at + size])))


def _filled(value: Any, source: _Source) -> Any:
    if isinstance(value, list):
        return [_filled(part, source) for part in value]
    if not isinstance(value, dict):
        return value
    if "$a" in value:
        return _column(value["$a"], source)
    if "$t" in value:
        return [source.strings[number] for number in _column(value["$t"], source)]
    return {name: _filled(part, source) for name, part in value.items()}


def _column(place: Sequence[Any], source: _Source) -> list[Any]:
    kind, offset, length, *large = place
    width = np.dtype(kind).itemsize
    if large:
        assert offset % 8 == 0, "pages take it where it lies"
        plain: list[Any] = np.frombuffer(source.large, f"<{kind}", length, offset).tolist()
        return plain
    planes = np.frombuffer(source.data, np.uint8, width * length, offset).reshape(width, length)
    out: list[Any] = np.ascontiguousarray(planes.T).view(f"<{kind}").ravel().tolist()
    return out
