"""The socket, the address that is printed, and when the server ends: on Ctrl-C, or when nobody asked for long."""

from __future__ import annotations

import asyncio
import os
import secrets
import socket
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass, field
from threading import Thread
from time import monotonic
from typing import Any, cast
from urllib.parse import urlsplit

from callgrove.errors import UsageError
from callgrove.viewer.server.app import Work, make_app
from callgrove.viewer.server.guard import Guard
from callgrove.viewer.server.inputs import Input

__all__ = ["Address", "Viewer", "find_proxy"]

LOOPBACK = "127.0.0.1"
REQUEST_WITHIN_S = 20.0  # a client that has not said what it wants by then is let go
MOST_CONNECTIONS = 1_000
LOOK_S = 0.5  # how often the server looks whether it should end


@dataclass(frozen=True)
class Address:
    """Where the page is."""

    port: int
    token: str

    @property
    def url(self) -> str:
        return f"http://{LOOPBACK}:{self.port}/?token={self.token}"

    def forwarding(self, user: str, host: str) -> str:
        """Return the command that makes the page reachable from another machine."""
        return f"ssh -L {self.port}:{LOOPBACK}:{self.port} {user}@{host}"


def find_proxy(environment: Mapping[str, str], address: Address) -> tuple[str, str] | None:
    """Return the name and the address of the proxy of a hosted editor or notebook server that this runs in, where it
    says what these are; the name is empty where only the path is known."""
    if template := environment.get("VSCODE_PROXY_URI", ""):
        url = template.replace("{{port}}", str(address.port)).rstrip("/") + f"/?token={address.token}"
        return urlsplit(url).hostname or "", url
    if prefix := environment.get("JUPYTERHUB_SERVICE_PREFIX", ""):
        hub = environment.get("JUPYTERHUB_PUBLIC_URL", "") or environment.get("JUPYTERHUB_HOST", "")
        path = f"{prefix.rstrip('/')}/proxy/{address.port}/?token={address.token}"
        name = urlsplit(hub).hostname or ""
        origin = f"{urlsplit(hub).scheme}://{urlsplit(hub).netloc}" if name else ""
        return name, f"{origin}{path}"
    return None


@dataclass
class Viewer:
    """A server for some inputs, bound to a port of this machine's loopback. Port 0 is any that is free."""

    inputs: Sequence[Input]
    title: str
    port: int = 0
    hosts: tuple[str, ...] = ()
    idle_s: float = float("inf")
    complain: Callable[[str], None] = lambda text: None
    token: str = field(default_factory=lambda: secrets.token_urlsafe(24))
    work: Work = field(default_factory=Work)
    has_all_failed: bool = False
    _asked: float = field(default_factory=monotonic)
    _server: Any = None

    def __post_init__(self) -> None:
        self._socket = _bind(self.port)
        self.address = Address(self._socket.getsockname()[1], self.token)
        proxy = find_proxy(os.environ, self.address)
        if proxy is not None and proxy[0]:
            self.hosts = (*self.hosts, proxy[0].lower())

    def run(self, is_ready: Callable[[], None] = lambda: None) -> None:
        """Answer requests until somebody or nobody wants otherwise. Where this thread runs a loop already, as that of a
        notebook does, the server gets a thread of its own, and this one waits for it."""
        if _runs_a_loop():
            self._run_aside(is_ready)
        else:
            self._run_here(is_ready)

    def _run_aside(self, is_ready: Callable[[], None]) -> None:
        running: Future[None] = Future()
        try:
            Thread(target=self._settle, args=(running, is_ready), name="callgrove-view", daemon=True).start()
            while not running.done():  # Ctrl-C does not end a wait on every system
                wait([running], LOOK_S)
        finally:
            if running.cancel():  # interrupted before it began
                self._socket.close()
            while not running.done():  # perhaps there is no server to stop as yet
                self.stop()
                wait([running], LOOK_S)
        running.result()

    def _settle(self, running: Future[None], is_ready: Callable[[], None]) -> None:
        """Answer requests, and say in `running` how that ended."""
        if not running.set_running_or_notify_cancel():
            return
        try:
            self._run_here(is_ready)
        except BaseException as error:
            running.set_exception(error)
        else:
            running.set_result(None)

    def _run_here(self, is_ready: Callable[[], None]) -> None:
        asyncio.run(self._serve(is_ready))

    def stop(self) -> None:
        """End soon; for whoever runs the server on another thread."""
        if self._server is not None:
            self._server.should_exit = True

    async def _serve(self, is_ready: Callable[[], None]) -> None:
        import uvicorn

        cookie = f"callgrove-{secrets.token_hex(4)}"
        app = make_app(self.inputs, self.title, self.work, self.complain)
        guard = Guard(app, self.token, cookie, self.hosts, self._touch)
        config = uvicorn.Config(
            cast(Any, guard),
            http=cast(Any, _impatient_protocol),
            ws="none",
            lifespan="off",
            log_config=None,
            log_level="critical",
            access_log=False,
            proxy_headers=False,
            server_header=False,
            limit_concurrency=MOST_CONNECTIONS,
            timeout_graceful_shutdown=2,
        )
        self._server = uvicorn.Server(config)
        watching = asyncio.create_task(self._watch())
        try:
            is_ready()
            await self._server.serve(sockets=[self._socket])
        finally:
            watching.cancel()
            for one in self.inputs:
                one.close()
            self._socket.close()

    def _touch(self) -> None:
        self._asked = monotonic()

    async def _watch(self) -> None:
        """End the server when nobody asked for long, or when nothing could be opened."""
        while not self._server.should_exit:
            await asyncio.sleep(min(LOOK_S, self.idle_s))
            if self.work.n_waiting:
                self._touch()
            self.has_all_failed = all(one.has_failed for one in self.inputs)
            if monotonic() - self._asked > self.idle_s or self.has_all_failed:
                self._server.should_exit = True


def _runs_a_loop() -> bool:
    """Return whether this thread is inside an event loop, where no other can be run."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def _bind(port: int) -> socket.socket:
    made = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        made.bind((LOOPBACK, port))
        made.listen()  # whoever is told the address may ask at once, and waits until the server runs
    except OSError as error:
        made.close()
        reason = error.strerror or str(error)
        raise UsageError(f"port {port} cannot be used: {reason}; choose another, or leave it out for any") from None
    return made


def _impatient_protocol(**how: Any) -> asyncio.Protocol:
    """Return uvicorn's protocol for one connection. It closes connections between two requests after some seconds, but
    not those that send a request byte by byte: one that asks nothing at two looks in a row is closed here."""
    from uvicorn.protocols.http.h11_impl import H11Protocol

    made: Any = H11Protocol(**how)
    loop = asyncio.get_running_loop()

    def look(answered: object) -> None:
        transport, cycle = made.transport, made.cycle
        if transport is None or transport.is_closing():
            return
        is_silent = cycle is None or cycle.response_complete
        if is_silent and cycle is answered:
            transport.close()
        else:
            loop.call_later(REQUEST_WITHIN_S, look, cycle)

    loop.call_later(REQUEST_WITHIN_S, look, None)
    protocol: asyncio.Protocol = made
    return protocol
