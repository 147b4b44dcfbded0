"""The protocol's own client, with a server as a user starts it."""

from __future__ import annotations

import json
import sys
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import anyio

from tests.requirements import need_module

__all__ = ["call", "with_session"]


def with_session(folders: Sequence[Path], work: Callable[[Any], Awaitable[None]]) -> None:
    """Run `work` with a session of the client; warnings of the server are errors."""
    client = need_module("mcp")
    arguments = ["-W", "error", "-m", "callgrove", "mcp", *map(str, folders)]
    parameters = client.StdioServerParameters(command=sys.executable, args=arguments)

    async def run() -> None:
        async with client.stdio_client(parameters) as streams, client.ClientSession(*streams) as session:
            await session.initialize()
            await work(session)

    anyio.run(run)


async def call(session: Any, tool: str, **arguments: Any) -> dict[str, Any]:
    """Return the document that a tool answers with; its text and its data are the same."""
    answer = await session.call_tool(tool, arguments)
    document: dict[str, Any] = json.loads(answer.content[0].text)
    assert document == answer.structured_content
    assert answer.is_error == ("error" in document)
    return document
