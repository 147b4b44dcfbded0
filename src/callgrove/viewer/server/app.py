"""The application: the page, its modules, and answers, each computed on a thread of which there are only so many.

GET /                 the page; its own address is unknown behind a proxy, so every address in it is relative
GET static/NAME       a module or the style: files of the package, by their names
GET api/status        how far opening is
GET api/outline       the page before anything of it is drawn
GET api/NAME?...      the answer to a request (answers.py)
POST api/open?input=K open an input again
"""

from __future__ import annotations

import asyncio
import ctypes
import html
import sys
import threading
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from time import monotonic
from typing import TYPE_CHECKING, Any, TypeVar

from callgrove._version import __version__
from callgrove.errors import CallgroveError, InputError, Parameter, Wording, compose_text
from callgrove.model.table import visible
from callgrove.viewer.page import encode_answer, modules, style
from callgrove.viewer.server.answers import answer, outline, save_report
from callgrove.viewer.server.inputs import Input, StaleInput
from callgrove.viewer.server.parameters import BadRequest, Parameters

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response

__all__ = ["Busy", "Work", "make_app"]

T = TypeVar("T")

THREADS = 4
MOST_WAITING = 400  # requests; more of them are refused at once
M_ARENA_MAX, ARENAS = -8, 2  # glibc's number of that option, and how many arenas it may have
GIVE_BACK_S = 1.0  # between two times that freed memory is given back
STYLE = "theme.css"
AS_FILE = 'attachment; filename="report.html"'
CONTROLS: Mapping[str | Parameter, str] = {  # what the page calls parameters; whoever opened the inputs names others
    Parameter("metric"): "the list of metrics",
    Parameter("metric", "LEFT=RIGHT"): "`callgrove diff -m LEFT=RIGHT`",  # the page has one metric for all
    Parameter("query"): "Filter",
}
FILTER = "Filter: "  # not said: what is wrong with a filter is shown below its box
CLOSED = 499  # nobody reads it: the client has gone

_PAGE = """\
<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="generator" content="callgrove {version}">
<title>{title}</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="static/theme.css">
<script type="module" src="static/serve.js"></script>
</head>
<body>
<noscript>This page draws its pictures with JavaScript, which is switched off here.</noscript>
</body>
</html>
"""


class Busy(CallgroveError):
    """More requests wait than a page ever makes."""


class Abandoned(CallgroveError):
    """Whoever asked has gone."""


# -- work --------------------------------------------------------------------------------------------------------------


class _Memory:
    """Gives freed memory back to the system, now and then. glibc keeps what was freed for the thread that had it, and
    every request has a thread of its own: after 1,000 requests a viewer of 10^6 spans had 2 GB, of which 180 MB were in
    use. Few arenas keep it together: 800 requests to 75,000 spans left 223 MB, and with two arenas 119. Elsewhere
    nothing is done."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._latest = 0.0
        library = ctypes.CDLL(None) if sys.platform == "linux" else None
        self._trim = getattr(library, "malloc_trim", None)
        if self._trim is not None and (set_option := getattr(library, "mallopt", None)) is not None:
            set_option(M_ARENA_MAX, ARENAS)

    def give_back(self) -> None:
        """Give back what is free, unless that was done just now."""
        if self._trim is None or monotonic() - self._latest < GIVE_BACK_S or not self._guard.acquire(blocking=False):
            return
        try:
            self._trim(0)
            self._latest = monotonic()
        finally:
            self._guard.release()


@dataclass
class Work:
    """Threads that compute answers. A request whose client went away while it waited is not computed. Threads are
    daemons, so that the program ends when it is asked to, whatever it computes."""

    n_threads: int = THREADS
    most_waiting: int = MOST_WAITING
    n_waiting: int = 0
    _turn: asyncio.Semaphore | None = field(default=None, repr=False)
    _memory: _Memory = field(default_factory=_Memory, repr=False)

    async def run(self, request: Request, compute: Callable[[], T]) -> T:
        """Return what a function returns, once there is a thread for it."""
        if self.n_waiting >= self.most_waiting:
            raise Busy("the viewer is busy with other requests; try again in a moment")
        self._turn = self._turn or asyncio.Semaphore(self.n_threads)
        self.n_waiting += 1
        try:
            async with self._turn:
                if await request.is_disconnected():
                    raise Abandoned("the client has gone")
                return await _on_thread(compute, self._memory)
        finally:
            self.n_waiting -= 1


async def _on_thread(compute: Callable[[], T], memory: _Memory) -> T:
    """Return what a function returns on a thread of its own."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()

    def settle(result: T | None, error: BaseException | None) -> None:
        if done.cancelled():
            return
        if error is not None:
            done.set_exception(error)
        else:
            done.set_result(result)  # type: ignore[arg-type]

    def run() -> None:
        result: T | None = None
        error: BaseException | None = None
        try:
            result = compute()
        except Exception as problem:
            error = problem
        loop.call_soon_threadsafe(settle, result, error)
        del result, error
        memory.give_back()

    threading.Thread(target=run, daemon=True).start()
    return await asyncio.shield(done)


# -- answers -----------------------------------------------------------------------------------------------------------


def make_app(inputs: Sequence[Input], title: str, work: Work, complain: Callable[[str], None]) -> Starlette:
    """Return the application for some inputs. `complain` hears of errors that are ours."""
    from starlette.applications import Starlette
    from starlette.responses import HTMLResponse, JSONResponse, Response
    from starlette.routing import Route

    page = _PAGE.format(version=__version__, title=html.escape(visible(title)))
    texts = {**modules(), STYLE: style()}

    async def send_page(request: Request) -> Response:
        return HTMLResponse(page)

    async def send_module(request: Request) -> Response:
        name = request.path_params["name"]
        if name not in texts:
            return JSONResponse({"error": "there is no such file"}, 404)
        kind = "text/css" if name == STYLE else "text/javascript"
        return Response(texts[name], media_type=kind)

    async def send_status(request: Request) -> Response:
        return JSONResponse({"inputs": [one.status for one in inputs]})

    async def send_answer(request: Request) -> Response:
        name = request.path_params["name"]
        is_report = name == "report"

        def compute() -> str | bytes:
            parameters = Parameters.parse(request.scope["query_string"])
            if is_report:
                return save_report(inputs, parameters)
            document = outline(inputs, __version__) if name == "outline" else answer(inputs, name, parameters)
            return encode_answer(document)

        try:
            body = await work.run(request, compute)
        except Exception as error:
            status, problem = _describe(error, complain, inputs[0].spell)
            return JSONResponse(problem, status)
        if is_report:
            return Response(
                body, media_type="text/html", headers={"content-disposition": 'attachment; filename="report.html"'}
            )
        return Response(body, media_type="application/octet-stream")

    async def open_again(request: Request) -> Response:
        try:
            number = Parameters.parse(request.scope["query_string"]).integer("input", 0, len(inputs) - 1)
        except BadRequest as error:
            return JSONResponse({"error": compose_text(error)}, 400)
        if inputs[number].settled.is_set():
            inputs[number].start()
        return JSONResponse({"inputs": [one.status for one in inputs]})

    return Starlette(
        routes=[
            Route("/", send_page),
            Route("/static/{name}", send_module),
            Route("/api/status", send_status),
            Route("/api/open", open_again, methods=["POST"]),
            Route("/api/{name}", send_answer),
        ]
    )


def _describe(
    error: Exception, complain: Callable[[str], None], spell: Callable[[str], str]
) -> tuple[int, dict[str, Any]]:
    """Return the status and what to say of an error; texts that were typed say where they are wrong."""
    if not isinstance(error, CallgroveError):
        complain("".join(traceback.format_exception(error)))
        return 500, {"error": f"this is a bug in callgrove: {type(error).__name__}: {error}"}
    problem: dict[str, Any] = {"error": spell(_name_controls(error.message)).removeprefix(FILTER)}
    text, position = getattr(error, "text", None), getattr(error, "position", None)
    if isinstance(text, str) and isinstance(position, int):
        problem |= {"text": text, "position": position}
    statuses: tuple[tuple[type[CallgroveError], int], ...] = (
        (BadRequest, 400),
        (Busy, 503),
        (Abandoned, CLOSED),
        (StaleInput, 409),
        (InputError, 409),
    )
    return next((status for kind, status in statuses if isinstance(error, kind)), 422), problem


def _name_controls(text: str) -> str:
    """Return a text with the words of the page for parameters that the page lets choose."""
    return compose_text(*(CONTROLS.get(part, part) for part in text.parts)) if isinstance(text, Wording) else text
