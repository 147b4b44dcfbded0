"""Findings on disk: the smallest input that still breaks the same place, with what it was asked, as one zip file."""

from __future__ import annotations

import json
import re
import shutil
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path

from tests.fuzz.asking import Finding, Questions
from tests.fuzz.server import ask_apart

__all__ = ["copy_of", "keep", "minimise", "name_of", "read_kept"]

ATTEMPTS = 150
ABOUT = "asked.json"


def name_of(format_: str, finding: Finding) -> str:
    """Return the name under which a finding is kept."""
    return re.sub(r"[^a-z0-9]+", "-", f"{format_} {finding.kind} {finding.place.replace('.py', '')}".lower()).strip(
        "-"
    )[:110]


def keep(path: Path, asked: Questions, finding: Finding, target: Path) -> None:
    """Write an input and what it is asked into one file, the same bytes for the same input."""
    about = json.dumps({"asked": asdict(asked), "finding": finding.key}, indent=1)
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(zipfile.ZipInfo(ABOUT), about)
        for file in [path] if path.is_file() else sorted(path.rglob("*")):
            name = f"data/{file.relative_to(path.parent).as_posix()}"
            archive.writestr(
                zipfile.ZipInfo(name + "/" * file.is_dir()),
                b"" if file.is_dir() else file.read_bytes(),
                zipfile.ZIP_DEFLATED,
            )


def read_kept(file: Path, folder: Path) -> tuple[Path, Questions]:
    """Unpack a finding into an empty folder; return the input and what it is asked."""
    with zipfile.ZipFile(file) as archive:
        archive.extractall(folder)
    about = json.loads((folder / ABOUT).read_text())["asked"]
    [path] = (folder / "data").iterdir()
    return path, Questions(**{**about, "verb": tuple(about["verb"])})


# -- smaller inputs ----------------------------------------------------------------------------------------------------


def minimise(path: Path, sound: Path | None, asked: Questions, key: str, scratch: Path) -> None:
    """Make an input smaller, or more like the sound one, for as long as it breaks the same place."""
    left = [ATTEMPTS]

    def still_breaks() -> bool:
        left[0] -= 1
        finding = ask_apart(path, asked, scratch).answer.finding
        return finding is not None and finding.key == key

    if path.is_dir():
        for file in sorted(path.rglob("*")):
            if file.is_file() and left[0] > 0:
                _without(file, still_breaks)
    files = [path] if path.is_file() else sorted(f for f in path.rglob("*") if f.is_file() and not f.is_symlink())
    for file in files:
        same = sound and sound / file.relative_to(path) if path.is_dir() else sound
        _minimise_file(file, same.read_bytes() if same and same.is_file() else b"", still_breaks, left)


def _without(file: Path, still_breaks: Callable[[], bool]) -> None:
    """Remove a file for good if the input breaks without it as well."""
    target = file.readlink() if file.is_symlink() else None
    content = b"" if target else file.read_bytes()
    file.unlink()
    if still_breaks():
        return
    if target:
        file.symlink_to(target)
    else:
        file.write_bytes(content)


def _minimise_file(file: Path, sound: bytes, still_breaks: Callable[[], bool], left: list[int]) -> None:
    content = file.read_bytes()
    if content == sound:
        return
    for smaller in _smaller(content, sound, lambda: left[0] > 0):
        now = smaller(content)
        if now == content:
            continue
        _replace(file, now)
        if still_breaks():
            content = now
        else:
            _replace(file, content)


def _replace(file: Path, content: bytes) -> None:
    file.unlink()
    file.write_bytes(content)


def _smaller(content: bytes, sound: bytes, goes_on: Callable[[], bool]) -> Iterator[Callable[[bytes], bytes]]:
    """Yield what to try: where the sizes agree, the sound bytes again, else fewer bytes; by halves, quarters, ..."""
    same_size, size = len(content) == len(sound), len(content)
    step = max(1, size // 2)
    while goes_on():
        for first in range(0, size, step):
            if not goes_on():
                return
            yield lambda now, a=first, b=first + step: now[:a] + (sound[a:b] if same_size else b"") + now[b:]  # type: ignore[misc]
        if step == 1:
            return
        step = max(1, step // 4)


def copy_of(path: Path, folder: Path) -> Path:
    """Copy an input into a folder: links to seeds become files of their own."""
    target = folder / path.name
    shutil.copytree(path, target, symlinks=True) if path.is_dir() else shutil.copyfile(path, target)
    return target
