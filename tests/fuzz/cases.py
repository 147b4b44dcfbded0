"""Which seed is damaged how. A case is a number: the same number of the same format gives the same input, always."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.fuzz.containers import break_gzip, break_tar, break_zip, compress
from tests.fuzz.databases import break_parquet, break_sqlite
from tests.fuzz.records import break_fields, break_otf2, break_protobuf
from tests.fuzz.seeds import Seed
from tests.fuzz.texts import break_bytes, break_json, break_lines, break_xml

__all__ = ["Case", "break_content", "make_input"]

TIMES = (1, 1, 1, 1, 2, 2, 4)  # how often an input is damaged


@dataclass(frozen=True)
class Case:
    """One damaged input. `campaign` is the number of a whole run of cases."""

    format: str
    number: int
    campaign: int = 0

    def chance(self, what: str) -> random.Random:
        return random.Random(f"{self.campaign}/{self.format}/{self.number}/{what}")


def make_input(case: Case, seeds: dict[str, list[Seed]], folder: Path) -> Path:
    """Make the input of a case in an empty folder. Files that stay as they are become links to those of the seed."""
    rng = case.chance("damage")
    seed = rng.choice(seeds[case.format])
    target = folder / seed.path.name
    if seed.path.is_file():
        content = _break_file(seed, "", seed.path.read_bytes(), rng)
        target.write_bytes(compress(content, rng) if rng.random() < 0.03 else content)
        return target
    shutil.copytree(seed.path, target, copy_function=os.link)
    if rng.random() < 0.06:
        _break_folder(target, rng.choice(seed.files), rng.choice(seed.files), rng)
    else:
        file = rng.choice(seed.files)
        content = _break_file(seed, file, (seed.path / file).read_bytes(), rng)
        (target / file).unlink()  # a link to the seed's
        (target / file).write_bytes(content)
    return target


def _break_file(seed: Seed, file: str, content: bytes, rng: random.Random) -> bytes:
    for _ in range(rng.choice(TIMES)):
        offsets = seed.offsets.get(file, ())
        is_container = content[:4] in (b"SQLi", b"PK\x03\x04", b"PAR1") or content[257:262] == b"ustar"
        if len(offsets) > 8 and not is_container and rng.random() < 0.5:
            content = break_fields(content, rng, offsets)
        else:
            content = break_content(content, rng, seed.format)
    return content


def break_content(data: bytes, rng: random.Random, format_: str = "") -> bytes:
    """Return a file's content, damaged as its kind deserves."""
    if data.startswith(b"SQLite format 3\0"):
        return break_sqlite(data, rng)
    if data[257:262] == b"ustar":
        return break_tar(data, rng, break_content)
    if data.startswith(b"PK\x03\x04"):
        return break_zip(data, rng, break_content)
    if data.startswith(b"\x1f\x8b"):
        return break_gzip(data, rng, break_content)
    if data.startswith(b"PAR1"):
        return break_parquet(data, rng)
    if format_ in BY_FORMAT:
        return BY_FORMAT[format_](data, rng)
    head = data[:64].lstrip()
    if head[:1] == b"<":
        return break_xml(data, rng)
    if head[:1] in (b"{", b"["):
        return break_json(data, rng)
    is_text = data and sum(byte >= 32 or byte in b"\t\r\n" for byte in data[:512]) == len(data[:512])
    return break_lines(data, rng) if is_text else break_bytes(data, rng)


BY_FORMAT: dict[str, Callable[[bytes, random.Random], bytes]] = {"perfetto": break_protobuf, "otf2": break_otf2}


def _break_folder(target: Path, file: str, other: str, rng: random.Random) -> None:
    """Damage what is in a folder: a file is missing, empty, another one, a folder, or a link that leads nowhere."""
    content = (target / other).read_bytes()
    (target / file).unlink()
    what = rng.randrange(5)
    if what == 0:
        (target / file).write_bytes(b"")
    elif what == 1:
        (target / file).write_bytes(content)
    elif what == 2:
        (target / file).mkdir()
    elif what == 3:
        (target / file).symlink_to(target / "nowhere")
