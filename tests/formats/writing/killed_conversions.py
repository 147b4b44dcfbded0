"""Kills a conversion at every one of its steps: `python -m tests.formats.writing.killed_conversions IN FORMAT FOLDER`.

A step is anything that Python does to files beside or in the target, as it tells audit hooks. Each time a fresh process
converts and kills itself there; then the state of the target is printed: empty where there is none, else a digest.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import sys
from pathlib import Path
from typing import Any

from callgrove.formats.interface import WriteOptions, Writes
from callgrove.formats.registry import load, open_path
from callgrove.formats.writing.transfer import transfer
from callgrove.model.experiment import Experiment

STEPS = ("open", "os.rename", "os.mkdir", "os.remove", "os.rmdir", "shutil.copyfile", "os.truncate")


def convert(source: str, to: str, target: Path) -> None:
    opened, format_ = open_path(source), load(to)
    assert isinstance(opened, Experiment)
    assert isinstance(format_, Writes)
    transfer(opened, format_.open_writer(target, WriteOptions(overwrite=True)))


def convert_until(step: int, source: str, to: str, target: Path) -> None:
    """In a child: dies at that step."""
    left = [step]
    folder = str(target.parent)

    def count() -> None:
        left[0] -= 1
        if not left[0]:
            os.kill(os.getpid(), signal.SIGKILL)

    def hook(event: str, args: tuple[Any, ...]) -> None:
        if event in STEPS and args and str(args[0]).startswith(folder):
            count()

    sys.addaudithook(hook)
    convert(source, to, target)


def digest(folder: Path) -> str:
    found = hashlib.sha256()
    for path in sorted(p for p in folder.rglob("*") if p.is_file()):
        found.update(f"{path.relative_to(folder)}\0".encode() + path.read_bytes())
    return found.hexdigest()


def main(source: str, to: str, folder: Path) -> None:
    target = folder / "new.d"
    convert(source, to, target)
    states = [digest(target)]
    shutil.rmtree(target)
    step = 0
    while True:
        step += 1
        child = os.fork()
        if not child:
            convert_until(step, source, to, target)
            os._exit(0)
        finished = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        states.append(digest(target) if target.exists() else "")
        if target.exists():
            shutil.rmtree(target)
        if finished:
            break
    hidden = [path.name for path in folder.iterdir()]
    sys.stdout.write(json.dumps({"states": states, "left": hidden}))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]))
