"""The manifest `callgrove.json`: what a folder holds, and what no table has a place for.

    {"format": "callgrove", "version": 1, "minor": 1, "holds": "experiment", "title": ..., "origin": {...},
     "tables": {"contexts": 1234, ...}, ...}

`tables` gives the rows of every table, whose file is NAME.parquet. Other keys depend on what the folder holds.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from callgrove.errors import CorruptFile, InputError, NotRecognised, UnsupportedVersion
from callgrove.formats.columnar.schema import FORMAT_MINOR, FORMAT_NAME, FORMAT_VERSION, MANIFEST
from callgrove.model.experiment import InputWarning, Severity

__all__ = ["BEGINNING", "Manifest", "warnings_from", "warnings_in"]

LARGEST = 256 << 20  # bytes; a study with tags on every call path may need some
BEGINNING = re.compile(rb'\s*\{\s*"format":\s*"callgrove"')
TABLE_NAME = re.compile(r"[a-z][a-z0-9_-]*")
OWN_KEYS = ("format", "version", "minor", "holds", "title", "origin", "tables")
REMEDY = "write the folder again with `callgrove convert`"


@dataclass
class Manifest:
    """What a folder says of itself. `more` is what only experiments, or only studies, have."""

    holds: str
    title: str = ""
    origin: tuple[str, str] = ("", "")  # format and version of what it was made from
    tables: dict[str, int] = field(default_factory=dict)
    more: dict[str, Any] = field(default_factory=dict)
    minor: int = FORMAT_MINOR

    def write(self, folder: Path) -> None:
        text = json.dumps(
            {
                "format": FORMAT_NAME,
                "version": FORMAT_VERSION,
                "minor": self.minor,
                "holds": self.holds,
                "title": self.title,
                "origin": {"format": self.origin[0], "version": self.origin[1]},
                "tables": self.tables,
                **self.more,
            },
            indent=1,
            allow_nan=False,
        )
        (folder / MANIFEST).write_text(text + "\n", "ascii")

    @classmethod
    def read(cls, folder: Path) -> Manifest:
        path = folder / MANIFEST
        found = _Json(path, _parsed(path))
        if found.get("format", str) != FORMAT_NAME:
            raise NotRecognised(f"{path}: is not the manifest of a callgrove folder")
        version = found.get("version", int)
        if version != FORMAT_VERSION:
            newer = "was written by a newer callgrove" if version > FORMAT_VERSION else "has an unknown version"
            raise UnsupportedVersion(
                f"{path}: {newer}: version {version} of the format, and {FORMAT_VERSION} is read here"
                + ("; update callgrove" if version > FORMAT_VERSION else "")
            )
        origin = found.inner("origin")
        tables = found.get("tables", dict)
        for name, rows in tables.items():
            if not TABLE_NAME.fullmatch(name) or type(rows) is not int or not 0 <= rows < 2**63:
                raise found.wrong("tables", "names of tables with their numbers of rows", f"{name!r}: {rows!r}")
        holds = found.get("holds", str)
        if holds not in ("experiment", "study"):
            raise found.wrong("holds", "experiment or study", repr(holds))
        return cls(
            holds,
            found.get("title", str),
            (origin.get("format", str), origin.get("version", str)),
            tables,
            {k: v for k, v in found.content.items() if k not in OWN_KEYS},
            found.get("minor", int) if "minor" in found.content else 0,
        )

    def get(self, folder: Path, key: str, kind: type[Any], default: Any = None) -> Any:
        """One of `more`, which must be of that kind; without a default it must be there."""
        if default is not None and key not in self.more:
            return default
        return _Json(folder / MANIFEST, self.more).get(key, kind)


class _Json:
    """An object whose members are checked when they are asked for."""

    def __init__(self, path: Path, content: Any) -> None:
        self.path = path
        if not isinstance(content, dict):
            raise self.wrong("the whole", "an object", type(content).__name__)
        self.content: dict[str, Any] = content

    def get(self, key: str, kind: type[Any]) -> Any:
        value = self.content.get(key)
        if type(value) is not kind:
            raise self.wrong(key, f"{kind.__name__} under this key", "nothing" if value is None else repr(value)[:60])
        return value

    def inner(self, key: str) -> _Json:
        return _Json(self.path, self.get(key, dict))

    def wrong(self, section: str, expected: str, found: str) -> CorruptFile:
        return CorruptFile(self.path, section, expected=expected, found=found, remedy=REMEDY)


def _parsed(path: Path) -> Any:
    try:
        if path.exists() and not path.is_file():
            raise InputError(f"{path}: is no file")
        if path.stat().st_size > LARGEST:
            raise InputError(f"{path}: is larger than any manifest ({path.stat().st_size:,} bytes)")
        return json.loads(path.read_bytes())
    except OSError as error:
        raise InputError(f"{path}: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise CorruptFile(
            path, "manifest", expected="JSON", found="other bytes than text", offset=error.start, remedy=REMEDY
        ) from error
    except (ValueError, RecursionError) as error:
        reason = str(error).splitlines()[0][:200] if str(error) else "nesting without an end"
        raise CorruptFile(path, "manifest", expected="JSON", found=reason, remedy=REMEDY) from error


def warnings_in(warnings: tuple[InputWarning, ...]) -> list[list[str]]:
    return [[warning.severity.value, warning.text] for warning in warnings]


def warnings_from(manifest: Manifest, folder: Path) -> list[InputWarning]:
    found = []
    for one in manifest.get(folder, "warnings", list, []):
        try:
            severity, text = one
            found.append(InputWarning(Severity(severity), str(text)))
        except (TypeError, ValueError) as error:
            path = folder / MANIFEST
            raise CorruptFile(path, "warnings", expected="pairs of severity and text", found=repr(one)[:60]) from error
    return found
