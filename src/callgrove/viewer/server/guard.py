"""Who may ask: the token, the host and the origin of a request. Login nodes are shared, and so is their loopback.

    token    in the address that is printed, once; then in a cookie that scripts cannot read and other sites never get
    host     the name that the browser went to: loopback, or that of a proxy which the user names. A page elsewhere
             whose name was made to point to this machine has another
    origin   the page that asks. Other pages on this machine, on another port, may ask nothing, with or without cookie

Every answer says what the page may do: load its own modules, ask its own server, and nothing else.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from dataclasses import dataclass
from hmac import compare_digest
from http.cookies import CookieError, SimpleCookie
from typing import Any
from urllib.parse import parse_qs, urlsplit

__all__ = ["LOOPBACK", "Guard"]

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
TOKEN_HEADER = b"x-callgrove-token"
METHODS = ("GET", "HEAD", "POST")
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'self'"
)
HEADERS = (
    (b"content-security-policy", POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cache-control", b"no-store"),
)
NO_TOKEN = (
    "This page needs the token that callgrove printed when it started: open the whole address, with ?token=... at its "
    "end.\n"
)


@dataclass
class Guard:
    """Lets requests through to the application that may come. `touch` hears of each that may."""

    app: App
    token: str
    cookie: str  # its name: two viewers on one machine must not take each other's
    hosts: tuple[str, ...]
    touch: Callable[[], None]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if scope["type"] != "http":
            return  # the server closes what nobody accepts
        problem = self._find_problem(scope)
        if problem is not None:
            await _refuse(send, *problem)
            return
        self.touch()
        await self.app(scope, receive, self._adding_headers(scope, send))

    def _find_problem(self, scope: Scope) -> tuple[int, str] | None:
        headers: list[tuple[bytes, bytes]] = scope["headers"]
        if scope["method"] not in METHODS:
            return 405, "Only GET, HEAD and POST are answered here.\n"
        host = _single(headers, b"host")
        name = _name_of(host)
        if name not in (*LOOPBACK, *self.hosts):
            return 421, (
                f"This viewer answers at {', '.join((*LOOPBACK, *self.hosts))} only. Behind a proxy, start it with "
                "the name of the proxy: callgrove view --allow-host NAME\n"
            )
        if not self._may_origin(scope, headers, host):
            return 403, "This request comes from another page.\n"
        if not self._has_token(scope, headers):
            return 403, NO_TOKEN
        return None

    def _may_origin(self, scope: Scope, headers: list[tuple[bytes, bytes]], host: str) -> bool:
        """Return whether a request comes from our own page, or from nobody's: an address that was typed or followed."""
        origins = [value.decode("latin-1") for name, value in headers if name == b"origin"]
        if any(_place_of(origin) != host.lower() for origin in origins):
            return False
        if scope["method"] == "POST" and not origins:
            return False
        site = _single(headers, b"sec-fetch-site")
        follows_link = _single(headers, b"sec-fetch-mode") == "navigate" and scope["method"] == "GET"
        return site in ("", "same-origin", "none") or follows_link

    def _has_token(self, scope: Scope, headers: list[tuple[bytes, bytes]]) -> bool:
        given = [_single(headers, TOKEN_HEADER), self._cookie_in(headers)]
        if scope["path"] == "/" and scope["method"] != "POST":
            given += _parameters(scope).get("token", [])[:1]
        return any(compare_digest(one.encode(), self.token.encode()) for one in given)

    def _cookie_in(self, headers: list[tuple[bytes, bytes]]) -> str:
        for name, value in headers:
            if name == b"cookie":
                try:
                    cookies = SimpleCookie(value.decode("latin-1"))
                except CookieError:
                    continue
                if self.cookie in cookies:
                    return cookies[self.cookie].value
        return ""

    def _adding_headers(self, scope: Scope, send: Send) -> Send:
        """Return what sends an answer with our headers; that to the address with the token sets the cookie. It has no
        path, which makes it that of the page, wherever a proxy puts it."""
        more = list(HEADERS)
        if scope["path"] == "/" and "token" in _parameters(scope):
            more.append((b"set-cookie", f"{self.cookie}={self.token}; HttpOnly; SameSite=Strict".encode()))

        async def add(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", ()), *more]
            await send(message)

        return add


def _single(headers: Iterable[tuple[bytes, bytes]], wanted: bytes) -> str:
    """Return a header that may come once; what comes twice is as good as none."""
    values = [value for name, value in headers if name == wanted]
    return values[0].decode("latin-1") if len(values) == 1 else ""


def _name_of(host: str) -> str:
    """Return the name in `name:port`, in lower case."""
    name, colon, port = host.rpartition(":")
    return (name if colon and port.isdigit() else host).lower()


def _place_of(origin: str) -> str:
    """Return the name and the port in an origin, in lower case; nothing where it is none."""
    try:
        return urlsplit(origin).netloc.lower()
    except ValueError:
        return ""


def _parameters(scope: Scope) -> dict[str, list[str]]:
    try:
        return parse_qs(scope["query_string"].decode("ascii"), max_num_fields=64)
    except ValueError:
        return {}


async def _refuse(send: Send, status: int, text: str) -> None:
    headers = [(b"content-type", b"text/plain; charset=utf-8"), *HEADERS]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": text.encode()})
