"""Everything that writes files, with a fault at every call that changes one.

Of a fault it is asked afterwards: is there the old target or the new one, and nothing else that anybody sees? Did the
command say in a sentence what failed, with the name of the target, where there is the old one, and nothing of the kind
where there is the new one? Is all that is hidden gone, at the latest when the same is written again?
"""

from __future__ import annotations

import hashlib
import re
import shutil
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from callgrove.examples import example, gpu_example, study_example
from callgrove.formats.interface import WriteOptions
from callgrove.formats.registry import FORMATS, writer_of
from callgrove.formats.writing.transfer import write_experiment
from tests.faults.injection import CHANGES, INTERNAL, KILL, NAMES, REMOVALS, WRITES, Call, Done, Fault, list_calls, run
from tests.formats.samples import CORPUS

__all__ = ["WRITERS", "Trial", "Writer", "find_faults", "make_inputs", "name_writers", "try_fault"]


@dataclass(frozen=True)
class Writer:
    """A command that writes: IN is an input of a kind, OUT the target below a folder of its own."""

    name: str
    kind: str
    words: tuple[str, ...]
    target: str = "out"
    replaces: bool = True
    n_targets: int = 1  # several are moved one after the other: a process that is killed meanwhile leaves some of them
    one_by_one: bool = False  # and an error with the second one leaves the first

    @property
    def ways(self) -> tuple[bool, ...]:
        """With a target that is there already, and without."""
        return (False, True) if self.replaces else (True,)


TRACES = ("rocpd", "rocpd-draft", "perfetto", "chrome-json", "otf2", "rocprof-csv", "speedscope")


def _convert(format_: str) -> Writer:
    kind = "gpu" if format_ in TRACES else "study" if format_.startswith("extrap") else "profile"
    kind = "database" if format_.startswith(("hpc", "cube")) else kind
    target = "out.d" if format_ in ("hpcrun", "hpctrace") else "out"
    part = ("--rank", "0", "--thread", "0") if format_ == "hpctrace" else ()
    words = ("convert", "IN", "OUT", "--to", format_, "-j", "1", "--force", *part)
    return Writer(format_, kind, words, target, n_targets=5 if format_ == "rocprof-csv" else 1)


WRITERS = (
    *(_convert(entry.name) for entry in FORMATS if entry.writes),
    Writer("report", "profile", ("report", "IN", "-o", "OUT", "--force"), "out.html"),
    Writer("table as CSV", "profile", ("export", "IN", "--table", "values", "-o", "OUT"), "out.csv"),
    Writer("table as Parquet", "profile", ("export", "IN", "--table", "values", "-o", "OUT"), "out.parquet"),
    Writer("flame graph", "profile", ("tree", "IN", "-o", "OUT"), "out.svg"),
    Writer("digests", "profile", ("check", "IN", "--record", "OUT"), "out.json", replaces=False),
    Writer(
        "convert --record",
        "profile",
        ("convert", "IN", "OUT", "--record", "-j", "1", "--force"),
        "out.cubex",
        n_targets=2,
        one_by_one=True,
    ),
    Writer(
        "anonymize --map",
        "profile",
        ("anonymize", "IN", "OUT", "--map", "MAP"),
        "out.cubex",
        replaces=False,
        n_targets=2,
        one_by_one=True,
    ),
    Writer("prof", "measurements", ("prof", "IN", "OUT", "-j", "1", "--force"), "out.d"),
)


def name_writers() -> list[str]:
    """Return the names of all writers."""
    return [writer.name for writer in WRITERS]


def make_inputs(folder: Path) -> dict[str, tuple[Path, Path]]:
    """Return two inputs of each kind: what the old target is made of, and the new one."""
    inputs = {}
    for kind, format_, name, old, new in (
        ("profile", "cube", "in.cubex", example(seed=1, ranks=2), example(ranks=1)),
        ("database", "hpctoolkit-release", "in.d", example(seed=1, ranks=2), example(ranks=1)),
        ("gpu", "rocpd", "in.db", gpu_example(ranks=2), gpu_example(ranks=1)),
        ("study", "extrap-text", "in.txt", study_example(), study_example(seed=12)),
    ):
        for which, opened in (("old", old), ("new", new)):
            (folder / which).mkdir(exist_ok=True)
            write_experiment(opened, writer_of(format_), folder / which / name, WriteOptions())
        inputs[kind] = folder / "old" / name, folder / "new" / name
    inputs["measurements"] = CORPUS / "hpcrun" / "04.00" / "pth4.m", CORPUS / "hpcrun" / "2018.09" / "pth4.m"
    return inputs


State = dict[str, str]
Outcomes = Counter[tuple[str, str]]


class Trial:
    """A writer with its two inputs, a folder for the target, and what is seen there before and after."""

    def __init__(self, writer: Writer, inputs: dict[str, tuple[Path, Path]], folder: Path) -> None:
        self.writer, self._inputs, self.folder = writer, inputs[writer.kind], folder / "work"
        self._kept = folder / "kept"
        shutil.rmtree(self._kept, ignore_errors=True)
        self._write(0)
        self.old = read_state(self.folder)
        shutil.copytree(self.folder, self._kept)
        self.new = self._write_new_twice()

    def words(self, which: int = 1) -> list[str]:
        """Return the command with its paths."""
        places = {"IN": self._inputs[which], "OUT": self.target, "MAP": self.folder / "names.json"}
        return [str(places.get(word, word)) for word in self.writer.words]

    @property
    def target(self) -> Path:
        return self.folder / self.writer.target

    def _write(self, which: int) -> None:
        self._make_empty()
        done = run(self.words(which))
        assert done.code == 0, f"{self.writer.name}: {done.said}"

    def _write_new_twice(self) -> State:
        """Return the new state: what a command writes must be the same every time, or nothing can be said."""
        states = []
        for fresh in (not self.writer.replaces, True):
            self.restore(fresh=fresh)
            done = run(self.words())
            assert done.code == 0, f"{self.writer.name}: {done.said}"
            states.append(read_state(self.folder))
        assert states[0] == states[1], f"{self.writer.name}: writes something else every time"
        assert states[0] != self.old, f"{self.writer.name}: the old target and the new one are the same"
        return states[0]

    def _make_empty(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)

    def restore(self, *, fresh: bool = False) -> None:
        """Put the old target in place, or nothing."""
        self._make_empty()
        if not fresh:
            shutil.copytree(self._kept, self.folder, dirs_exist_ok=True)

    def calls(self, *, fresh: bool = False) -> list[Call]:
        """Return the calls that change files of the target, in order."""
        self.restore(fresh=fresh)
        calls = list_calls(self.words(), CHANGES, [self.folder])
        made = {match[1] for call in calls if call.creates and (match := re.search(r"= \d+<(.*)>$", call.text))}
        return [call for call in calls if _is_change(call, made)]


def _is_change(call: Call, made: set[str]) -> bool:
    """Return whether a call changes a file; closing one that was written may be where an error is told."""
    if call.name == "close":
        return any(f"<{path}>" in call.text for path in made)
    return call.name != "openat" or call.creates


def read_state(folder: Path) -> State:
    """Return the digests of all files that are not hidden, by name; folders end with a slash."""
    state = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if not name.startswith("."):
            state[name + "/" * path.is_dir()] = "" if path.is_dir() else hashlib.sha256(path.read_bytes()).hexdigest()
    return state


def list_hidden(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.name.startswith("."))


# -- faults ------------------------------------------------------------------------------------------------------------


def find_faults(calls: Iterable[Call]) -> Iterator[Fault]:
    """Yield all faults of some calls: a kill at each, and errors that the call can have."""
    for call in calls:
        yield Fault(call, KILL)
        is_made = call.name in (*WRITES, *NAMES) or call.creates
        if is_made:
            yield Fault(call, "ENOSPC", stays=call.name in WRITES)
        yield Fault(call, "EIO")
        if call.name in WRITES or call.creates:
            yield Fault(call, "EINTR")
        if call.name in REMOVALS:
            yield Fault(call, "EACCES")


def try_fault(trial: Trial, fault: Fault, outcomes: Outcomes, *, fresh: bool = False) -> Iterator[str]:
    """Write with a fault, count what came of it, and yield what must not be, in sentences."""
    trial.restore(fresh=fresh)
    before = {} if fresh else trial.old
    done = run(trial.words(), fault)
    after, hidden = read_state(trial.folder), list_hidden(trial.folder)
    yield from _judge(trial, fault, done, before, after, outcomes)
    if hidden and fault.what != KILL and fault.call.name not in REMOVALS:
        yield f"leaves {', '.join(hidden)}"
    if not hidden and after in (before, trial.new):
        return
    if not trial.writer.replaces:
        trial.target.unlink(missing_ok=True)
    again = run(trial.words())
    if again.code or read_state(trial.folder) != trial.new:
        yield f"the next run ends with {again.code}, and not with the new target: {again.said}"
    if hidden := list_hidden(trial.folder):
        yield f"the next run leaves {', '.join(hidden)}"


def _judge(trial: Trial, fault: Fault, done: Done, before: State, after: State, outcomes: Outcomes) -> Iterator[str]:
    if (done.code < 0 and fault.what != KILL) or done.code == INTERNAL:
        yield f"ends with {done.code}: {done.said}"
    state = "old" if after == before else "new" if after == trial.new else "mixed"
    outcomes["killed" if done.code < 0 else "done" if not done.code else "refused", state] += 1
    if state == "mixed" and not _may_be_mixed(trial, done, before, after):
        differences = sorted(set(after.items()) ^ set(trial.new.items()))
        yield f"is neither the old nor the new target: {[name for name, _ in differences]}"
    if done.code == 0 and state == "old":
        yield "says that it is done, and the old target is there"
    if done.code > 0:
        yield from _judge_words(trial, done, state)


def _may_be_mixed(trial: Trial, done: Done, before: State, after: State) -> bool:
    """Return whether a target of several files may be some of the old and some of the new ones, none of them half."""
    is_told = done.code < 0 or (done.code > 0 and trial.writer.one_by_one)
    are_whole = all(digest in (before.get(name), trial.new.get(name)) for name, digest in after.items())
    return trial.writer.n_targets > 1 and is_told and are_whole


def _judge_words(trial: Trial, done: Done, state: str) -> Iterator[str]:
    lines = done.said.splitlines()
    errors = [line for line in lines if "lost: " not in line and not line.startswith("[OTF2]")]  # its library's words
    if done.code not in (1, INTERNAL):
        yield f"ends with the exit code {done.code}: {done.said}"
    if any(not line.startswith("callgrove: ") or "this is a bug" in line for line in errors):
        yield f"says what is not for users: {done.said}"
    if state == "new":
        yield f"says that it failed, and the new target is there: {done.said}"
    if not any(str(trial.folder) in line for line in errors):
        yield f"does not name the target: {done.said}"
