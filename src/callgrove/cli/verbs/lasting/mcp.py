"""`callgrove mcp`: answers for an assistant, over the Model Context Protocol."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from callgrove.cli.parser import Command
from callgrove.errors import UsageError


@dataclass(frozen=True, kw_only=True)
class Options:
    folders: Sequence[str]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    told = "what may be read: folders, and files (default: the current folder)"
    parser.add_argument("folders", metavar="FOLDER", nargs="*", help=told)


def run(options: Options) -> int:
    from callgrove.assistant.folders import Folders
    from callgrove.assistant.serving import serve

    if not options.folders and Path.cwd() in (Path.home(), Path(Path.cwd().anchor)):
        raise UsageError(f"name the folders that may be read: the current one, {Path.cwd()}, holds more than was meant")
    serve(Folders.of(options.folders or ["."]))
    return 0


MCP = Command(Options, add_arguments, run)
