"""What is asked of a damaged input: to be opened, some questions of the library, and often a verb of the command line.

An answer is a finding where anything but an error for users escapes, where a message is not one for users, or where the
input is another one afterwards. Warnings count as errors.
"""

from __future__ import annotations

import contextlib
import io
import os
import random
import shutil
import traceback
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import patch

import callgrove
from callgrove.binary.files import Source
from callgrove.cli import main as command_line
from callgrove.cli.messages import exit_code_of
from callgrove.errors import CallgroveError, InvalidExperiment
from callgrove.formats.interface import Dumps
from callgrove.formats.registry import check_path, open_path, settle_format
from callgrove.model.experiment import Experiment, Severity
from callgrove.model.study.series import Study
from tests.formats.damage import questions

__all__ = ["Answer", "Finding", "Hang", "Questions", "ask", "choose_questions", "find_place"]

PACKAGE = str(Path(callgrove.__file__).parent)
N_QUESTIONS = 3
COMMANDS = """\
info
info --metrics
info --format json
check
dump --format csv
dump --limit 9
top
top --by line
tree --limit all
tree --bottom-up
hot
imbalance
summary
timeline
timeline --phases
pop
model
export --table values --scope inclusive
export --table spans
export --table counters
export --table samples
sql SELECT_count(*)_FROM_contexts
report -o OUT.html
convert OUT.cgrove
convert OUT.cubex
convert OUT.pftrace
convert OUT.json --to chrome-json
convert OUT.folded
convert OUT.d --to hpctoolkit-release
convert OUT.txt --to extrap-text
"""
VERBS = [tuple(word.replace("_", " ") for word in line.split()) for line in COMMANDS.splitlines()]


class Hang(BaseException):
    """An input takes longer than any of its size deserves. Not an Exception: nothing may catch it on the way."""


@dataclass(frozen=True)
class Questions:
    """What one case asks: as which format, how many questions of the library beginning where, and which verb."""

    from_format: str
    salvage: bool
    first: int
    verb: tuple[str, ...]


@dataclass(frozen=True)
class Finding:
    """Something that must not happen: `place` says where in the package, for telling findings apart."""

    kind: str
    place: str
    text: str

    @property
    def key(self) -> str:
        return f"{self.kind} at {self.place}"


@dataclass(frozen=True)
class Answer:
    """How an input was taken: read, damaged (read in part), or refused; and what must not happen, if anything did."""

    outcome: str
    finding: Finding | None = None


def choose_questions(format_: str, rng: random.Random) -> Questions:
    """Choose what to ask; one in three inputs must be recognised, the others are taken as what they were."""
    from_format = format_ if rng.random() < 0.67 else ""
    verb = rng.choice(VERBS) if rng.random() < 0.4 else ()
    return Questions(from_format, rng.random() < 0.2, rng.randrange(60), verb)


def ask(path: Path, asked: Questions, scratch: Path) -> Answer:
    """Ask an input all of it. Whatever is written goes below `scratch`."""
    before = _look_at(path)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            outcome = _ask_library(path, asked)
            if asked.verb:
                _ask_command_line(path, asked, scratch)
    except _Found as error:
        return Answer("broken", error.finding)
    except CallgroveError as error:  # from opening
        return Answer("refused", _judge(error))
    except (Exception, Hang) as error:
        return Answer("broken", _judge(error))
    if _look_at(path) != before:
        return Answer(
            "broken", Finding("modified input", " ".join(asked.verb[:1]), "the input is another one than before")
        )
    return Answer(outcome)


class _Found(Exception):
    def __init__(self, finding: Finding) -> None:
        super().__init__(finding.text)
        self.finding = finding


def _look_at(path: Path) -> list[tuple[str, int, int]]:
    """Return names, sizes and times of change below a path."""
    files = [path, *sorted(path.rglob("*"))] if path.is_dir() else sorted(path.parent.iterdir())
    looks = ((str(file), file.lstat()) for file in files)
    return [(name, 0 if file.st_mode & 0o40000 else file.st_size, file.st_mtime_ns) for name, file in looks]


def _judge(error: BaseException) -> Finding | None:
    """Return what is wrong with an error, if anything is."""
    if isinstance(error, CallgroveError) and not isinstance(error, InvalidExperiment):
        text = str(error)
        return Finding("message of several lines", find_place(error), text) if "\n" in text else None
    return Finding(type(error).__name__, find_place(error), f"{type(error).__name__}: {error}"[:500])


def find_place(error: BaseException) -> str:
    """Return the innermost place of the package that an error passed: module and function."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename.startswith(PACKAGE)]
    if not frames:
        return "outside"
    return f"{Path(frames[-1].filename).relative_to(PACKAGE).as_posix()}:{frames[-1].name}"


# -- the library -------------------------------------------------------------------------------------------------------


def _ask_library(path: Path, asked: Questions) -> str:
    opened = open_path(path, from_format=asked.from_format, salvage=asked.salvage)
    is_damaged = any(warning.severity == Severity.DAMAGE for warning in opened.warnings)
    choices = list(_of_study(opened) if isinstance(opened, Study) else _of_experiment(opened))
    choices += [lambda: check_path(path, asked.from_format), lambda: _dump(path, asked.from_format)]
    for k in range(min(N_QUESTIONS, len(choices))):
        _attempt(choices[(asked.first + 7 * k) % len(choices)])
    return "damaged" if is_damaged else "read"


def _attempt(question: Callable[[], object]) -> None:
    try:
        question()
    except CallgroveError as error:
        if finding := _judge(error):
            raise _Found(finding) from error


def _of_experiment(experiment: Experiment) -> Iterator[Callable[[], object]]:
    for _, question in questions(experiment):
        yield question


def _of_study(study: Study) -> Iterator[Callable[[], object]]:
    yield study.validate
    yield lambda: list(study.table().rows())


def _dump(path: Path, from_format: str) -> None:
    chosen, source = settle_format(Source.of(path), from_format)
    if isinstance(chosen, Dumps):
        for _ in chosen.dump(source):
            pass


# -- the command line --------------------------------------------------------------------------------------------------


def _ask_command_line(path: Path, asked: Questions, scratch: Path) -> None:
    verb, *options = asked.verb
    words = [verb, str(path), *(str(scratch / word) if word.startswith("OUT") else word for word in options)]
    if asked.from_format:
        words += ["--from", asked.from_format]
    errors: list[BaseException] = []

    def note_error(error: BaseException, *, debug: bool) -> int:
        errors.append(error)
        return exit_code_of(error, debug=debug)

    said = io.StringIO()
    with (
        open(os.devnull, "w", encoding="utf-8", errors="surrogateescape") as nowhere,  # noqa: PTH123
        contextlib.redirect_stdout(nowhere),
        contextlib.redirect_stderr(said),
        patch.object(command_line, "exit_code_of", note_error),
    ):
        command_line.main(words)
    _judge_words(verb, said.getvalue(), errors)
    for written in scratch.iterdir():
        shutil.rmtree(written) if written.is_dir() else written.unlink()


def _judge_words(verb: str, said: str, errors: list[BaseException]) -> None:
    for error in errors:
        if finding := _judge(error):
            raise _Found(finding) from error
    for line in said.splitlines():
        if not line.startswith("callgrove: ") or "this is a bug in" in line:
            raise _Found(Finding("words not for users", verb, line[:300]))
