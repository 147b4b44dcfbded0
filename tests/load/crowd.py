"""Many processes on the same inputs, caches and targets at once.

All begin at the same moment, with empty caches. Each asks one of a few questions; several write the same target.
The answer must be that of a process by itself; afterwards the target is sound, and neither it nor the caches have
anything half beside them.
"""

from __future__ import annotations

import hashlib
import os
import select
import shutil
import sys
import tempfile
import traceback
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from callgrove.analysis.timeline_index.cache import IndexCache
from callgrove.analysis.timeline_index.index import TimelineIndex
from callgrove.cli.main import main
from callgrove.examples import example, gpu_example
from callgrove.formats.interface import WriteOptions
from callgrove.formats.registry import open_path, writer_of
from callgrove.formats.writing.transfer import write_experiment
from callgrove.model.experiment import Experiment
from tests.formats.samples import CORPUS

__all__ = ["Crowd", "make_questions", "run_crowd"]

QUESTIONS = (
    "index gpu.db",
    "index stencil.d",
    "timeline stencil.d --format csv",
    "top stencil.d --format csv",
    "summary gpu.db --format csv",
    "sql gpu.db SELECT_count(*)_FROM_spans --format csv",
    "convert gpu.db out.pftrace --force -j 1",
    "convert stencil.d out.d --force -j 1",
    "prof pth4.m prof.d --force -j 1",
    "export stencil.d --table values -o values.csv",
)


@dataclass
class Crowd:
    """What came of it: how many processes, what was wrong with them, and what was left."""

    n_processes: int
    findings: list[str] = field(default_factory=list)


def make_questions(folder: Path) -> list[list[str]]:
    """Put inputs into a folder, and return the words of all questions."""
    write_experiment(example(), writer_of("hpctoolkit-release"), folder / "stencil.d", WriteOptions())
    write_experiment(gpu_example(), writer_of("rocpd"), folder / "gpu.db", WriteOptions())
    shutil.copytree(CORPUS / "hpcrun" / "04.00" / "pth4.m", folder / "pth4.m")
    return [[_place(word, folder) for word in line.split()] for line in QUESTIONS]


def _place(word: str, folder: Path) -> str:
    is_name = "." in word and not word.startswith("-")
    return str(folder / word) if is_name else word.replace("_", " ")


def run_crowd(n_processes: int, folder: Path) -> Crowd:
    """Let so many processes ask at once, and compare what they say with what one says by itself."""
    (folder / "in").mkdir()
    questions = make_questions(folder / "in")
    alone = [_answer_of(words, folder / "cache-alone") for words in questions]
    assert [code for code, _ in alone] == [0] * len(questions), alone
    targets = _digest(folder / "in")
    crowd = Crowd(n_processes)
    chosen = [k % len(questions) for k in range(n_processes)]
    for k, answer in zip(chosen, _ask_at_once([questions[k] for k in chosen], folder / "cache"), strict=True):
        if answer != alone[k]:
            crowd.findings.append(f"{QUESTIONS[k]}: {answer[0]} instead of {alone[k][0]}: {answer[1][-1500:]}")
    crowd.findings += [f"is another one than before: {name}" for name in _differences(targets, _digest(folder / "in"))]
    crowd.findings += [f"was left: {path}" for path in sorted(folder.rglob("*")) if _is_half(path)]
    if len(list((folder / "cache" / "timelines").glob("*"))) != 2:
        crowd.findings.append("there are not two indexes in the cache")
    again = [_answer_of(words, folder / "cache") for words in questions]  # with the caches that the crowd left
    crowd.findings += [f"{QUESTIONS[k]}: another answer afterwards" for k, one in enumerate(again) if one != alone[k]]
    return crowd


def _is_half(path: Path) -> bool:
    return ".partial" in path.name or ".gone-" in path.name or path.name.endswith((".old", ".part", ".tmp"))


def _differences(before: dict[str, str], after: dict[str, str]) -> list[str]:
    return sorted(name for name in before.keys() | after.keys() if before.get(name) != after.get(name))


def _digest(folder: Path) -> dict[str, str]:
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


# -- processes ---------------------------------------------------------------------------------------------------------

Answer = tuple[int, str]


def _answer_of(words: Sequence[str], cache: Path) -> Answer:
    [answer] = _ask_at_once([words], cache)
    return answer


def _ask_at_once(all_words: Sequence[Sequence[str]], cache: Path) -> Iterator[Answer]:
    """Yield the exit code of each, and a digest of what it printed. None begins before all are there."""
    waiting, starting = os.pipe()
    with tempfile.TemporaryDirectory() as printed:
        children = []
        for k, words in enumerate(all_words):
            child = os.fork()
            if not child:
                os.close(starting)
                select.select([waiting], [], [])
                _be_child(words, Path(printed) / str(k), cache)
            children.append(child)
        os.close(waiting)
        os.close(starting)  # that is the sign
        for k, child in enumerate(children):
            code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            yield code, (Path(printed) / str(k)).read_text()


def _be_child(words: Sequence[str], printed: Path, cache: Path) -> None:
    code = 99  # where anything escapes
    try:
        os.environ["CALLGROVE_CACHE"] = str(cache)
        with printed.open("w") as file:
            sys.stdout = sys.stderr = file
            try:
                code = _sum_with_index(Path(words[1])) if words[0] == "index" else main(list(words))
            except BaseException:
                traceback.print_exc(file=file)
    finally:
        os._exit(code)


def _sum_with_index(path: Path) -> int:
    """Print what the index in the cache says of all times; whoever finds none builds it."""
    experiment = open_path(path)
    assert isinstance(experiment, Experiment)
    with TimelineIndex.open(experiment, [path], cache=IndexCache(), in_background=False) as index:
        sys.stdout.write(repr(index.legend(index.window)))
    return 0
