"""Work to be done on every engine, and a verb that does it: `python -m tests.execution.work sums -j 2`.

The sums of doubles depend on the order of adding, so that equal bytes mean equal trees.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import signal
import sys
import time
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from callgrove.cli.main import Verb, main
from callgrove.cli.options import ExecutionOptions, add_execution, engine
from callgrove.cli.parser import Command
from callgrove.errors import CorruptFile
from callgrove.execute import Engine, Workers, executor
from callgrove.model.table import Table
from callgrove.render.text_formats import csv_text
from tests.timing import HANG_SEC

Floats = npt.NDArray[np.float64]
SLOW_SEC = 2 * HANG_SEC  # nobody waits for it, unless what should end it does not


def noise(seed: int) -> Floats:
    """Numbers of very different sizes."""
    chance = np.random.default_rng(seed)
    return chance.standard_normal(50) * 10.0 ** chance.integers(-8, 8, 50)


def add(left: Floats, right: Floats) -> Floats:
    return left + right


def length(text: str) -> int:
    return len(text)


def is_loaded(module: str) -> bool:
    return module in sys.modules


def broken(number: int) -> int:
    if number == 3:
        raise CorruptFile("b.hpcrun", "footer", offset=1024, expected="a magic", found="zeros")
    return number


def deadly(number: int) -> int:
    if number == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    return number


def die(_: object) -> str:
    """End the process that is to write rows of a table."""
    os.kill(os.getpid(), signal.SIGKILL)
    return ""


def die_once(mark: Path, table: Table) -> str:
    """End the process that is the first to write rows, and leave a mark; the next one writes them."""
    if not mark.exists():
        mark.touch()
        die(table)
    return "".join(csv_text([table])).partition("\n")[2]


def kill_and_wait(pid: int, _: object) -> str:
    """End another process, and take long to write rows."""
    os.kill(pid, signal.SIGKILL)
    time.sleep(SLOW_SEC)
    return ""


def slow(path: str) -> int:
    """Leaves its process number, then takes its time."""
    with Path(path).open("a") as file:
        file.write(f"{os.getpid()}\n")
    time.sleep(SLOW_SEC)
    return 0


def fingerprint(workers: Workers, n: int) -> str:
    """Of a reduction and of a map over n items."""
    total = workers.reduce(noise, add, range(n))
    found = hashlib.sha256(b"" if total is None else total.tobytes())
    for part in workers.map(noise, range(n)):
        found.update(part.tobytes())
    return found.hexdigest()


def expected(n: int) -> str:
    """The same in this process."""
    with executor(Engine(jobs=1)) as workers:
        return fingerprint(workers, n)


@dataclass(frozen=True, kw_only=True)
class Options(ExecutionOptions):
    items: int
    do: str
    note: str


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_execution(parser)
    parser.add_argument("--items", type=int, default=200)
    parser.add_argument("--do", choices=("sums", "broken", "deadly", "slow", "refuse"), default="sums")
    parser.add_argument("--note", default="")


def run(options: Options) -> int:
    with nullcontext(options.workers) if options.workers else executor(engine(options)) as workers:
        if options.do == "refuse":
            raise CorruptFile("a.hpcrun", "header", expected="a magic", found="nothing")
        if options.do == "sums":
            sys.stdout.write(f"{fingerprint(workers, options.items)} {workers.n_workers}\n")
        elif options.do == "slow":
            list(workers.map(slow, [options.note] * 8))
        else:
            list(workers.map(broken if options.do == "broken" else deadly, range(options.items)))
    return 0


COMMAND = Command(Options, add_arguments, run)


if __name__ == "__main__":
    sys.exit(main(verbs=(Verb("sums", "work", "tests.execution.work"),)))
