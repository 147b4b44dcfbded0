"""Every format that is read, with a fault at every call that reads an input, and with files that change meanwhile.

Of a fault it is asked afterwards: is the answer the same, or does a sentence say what is wrong, with the name of the
file? A file may become shorter or longer at any call; an answer without a word is that of the file before or after.
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from callgrove.examples import example
from callgrove.formats.interface import WriteOptions
from callgrove.formats.registry import writer_of
from callgrove.formats.writing.transfer import write_experiment
from tests.faults.injection import INTERNAL, READS, Call, Done, Fault, list_calls, run
from tests.fuzz.seeds import Seed, make_seeds, readable_formats

__all__ = ["GROW", "SHRINK", "Reading", "find_faults", "make_readings", "name_readings", "try_fault"]

SHRINK, GROW = "shrink", "grow"
QUESTIONS = {  # what is asked of most formats, and of those that hold something else
    "": ("tree", "IN", "--limit", "all", "--format", "csv"),
    "hpctrace": ("export", "IN", "--table", "samples"),
    "hpcstruct": ("info", "IN"),
    **dict.fromkeys(("rocpd", "rocpd-draft", "rpd", "nsight", "perfetto", "chrome-json", "otf2"), ("summary", "IN")),
    **dict.fromkeys(
        ("extrap-text", "extrap-talpas", "extrap-json", "extrap-json-old", "extrap-jsonl", "extrap-experiment",
         "extrap-binary3", "runs"),
        ("export", "IN", "--table", "series"),
    ),
}  # fmt: skip


@dataclass(frozen=True)
class Reading:
    """A command that reads an input; `kept` is a copy of it."""

    name: str
    format: str
    kept: Path

    @property
    def path(self) -> Path:
        return self.kept.parent / "in" / self.kept.name

    def words(self) -> list[str]:
        words = QUESTIONS.get(self.format, QUESTIONS[""])
        return [str(self.path) if word == "IN" else word for word in words] + ["--from", self.format]

    def restore(self) -> None:
        """Put the sound input in place."""
        shutil.rmtree(self.path.parent, ignore_errors=True)
        self.path.parent.mkdir()
        shutil.copytree(self.kept, self.path) if self.kept.is_dir() else shutil.copyfile(self.kept, self.path)

    def calls(self) -> list[Call]:
        """Return the calls that read the input, in order."""
        self.restore()
        return list_calls(self.words(), READS, [self.path])


LARGE = (("hpctoolkit-release", "large.d"), ("cube", "large.cubex"), ("folded", "large.folded"))


def name_readings() -> list[str]:
    """Return the names of all readings."""
    return [*readable_formats(), *(f"large {format_}" for format_, _ in LARGE)]


def make_readings(folder: Path) -> list[Reading]:
    """Return readings of a small input of every format, and of some that are large enough to be mapped."""
    (folder / "seeds").mkdir()
    small = {name: min(_take_asked(seeds), key=_size) for name, seeds in make_seeds(folder / "seeds").items()}
    readings = [_make_reading(folder, name, seed.format, seed.path) for name, seed in small.items()]
    for format_, name in LARGE:
        write_experiment(example(ranks=40, threads=8), writer_of(format_), folder / name, WriteOptions())
        readings.append(_make_reading(folder, f"large {format_}", format_, folder / name))
    return readings


def _take_asked(seeds: Sequence[Seed]) -> list[Seed]:
    """Return the inputs that the question of their format is about: our own folders hold studies and traces as well."""
    return [seed for seed in seeds if seed.format != "callgrove" or not seed.path.name.startswith(("study", "gpu"))]


def _size(seed: Seed) -> int:
    return sum((seed.path / name).stat().st_size for name in seed.files)


def _make_reading(folder: Path, name: str, format_: str, path: Path) -> Reading:
    place = folder / "readings" / name
    place.mkdir(parents=True)
    shutil.copytree(path, place / path.name) if path.is_dir() else shutil.copyfile(path, place / path.name)
    return Reading(name, format_, place / path.name)


def find_faults(reading: Reading, calls: Iterable[Call]) -> Iterator[Fault]:
    """Yield all faults of some calls: a device that fails, a file of a server that is gone, files that change. OTF2's
    library reads in a process of its own, which cannot be stopped by us."""
    changes = () if reading.format == "otf2" else (SHRINK, GROW)
    for call in calls:
        for what in ("EIO", "ESTALE", *changes):
            yield Fault(call, what)
        if call.name in ("read", "pread64", "openat"):
            yield Fault(call, "EINTR")
        if call.name == "mmap":
            yield Fault(call, "ENOMEM")


# -- what came of it ---------------------------------------------------------------------------------------------------


def try_fault(reading: Reading, fault: Fault, sound: Done, outcomes: Counter[str]) -> Iterator[str]:
    """Read with a fault, count what came of it, and yield what must not be, in sentences."""
    reading.restore()
    answers = [sound]
    if fault.what in (SHRINK, GROW):
        done = run(reading.words(), fault, at_stop=lambda: change(fault, reading))
        answers.append(run(reading.words()))  # of the file as it is now
    else:
        done = run(reading.words(), fault)
    outcomes[_name_outcome(done, answers)] += 1
    if done.code < 0 or done.code == INTERNAL:
        yield f"ends with {done.code}: {done.said}"
    elif done.code:
        yield from _judge_words(reading, done)
    elif not any((done.printed, done.said) == (answer.printed, answer.said) for answer in answers):
        if done.said == sound.said:
            yield "gives another answer without a word"
        yield from _judge_words(reading, done)


def _name_outcome(done: Done, answers: list[Done]) -> str:
    if done.code:
        return "refused" if done.code > 0 else "ended"
    return "same" if any(done.printed == answer.printed for answer in answers) else "said"


def _judge_words(reading: Reading, done: Done) -> Iterator[str]:
    if any(not line.startswith("callgrove: ") or "this is a bug" in line for line in done.said.splitlines()):
        yield f"says what is not for users: {done.said}"
    if reading.path.name not in done.said:
        yield f"does not name the input: {done.said}"


def change(fault: Fault, reading: Reading) -> None:
    """Change the file of a call, or the largest one: half of it is gone, or it is half as long again."""
    files = [file for file in [reading.path, *reading.path.rglob("*")] if file.is_file()]
    named = [file for file in files if str(file) in fault.call.text]
    file = max(named or files, key=lambda path: path.stat().st_size)
    content = file.read_bytes()
    if fault.what == SHRINK:
        with file.open("r+b") as opened:
            opened.truncate(len(content) // 2)
    else:
        with file.open("ab") as opened:
            opened.write(content[: len(content) // 2])
