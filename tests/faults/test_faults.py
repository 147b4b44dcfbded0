"""A sample of all faults; `python -m tests.faults writers` and `readers` try all of them."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

import pytest

from callgrove.cli.main import main
from tests.exhaustive import some_of
from tests.faults import readers, writers
from tests.faults.injection import KILL, Fault, need_strace, read_log, run
from tests.faults.readers import SHRINK, Reading
from tests.faults.writers import Trial, Writer, name_writers

need_strace()

N_FAULTS = 5  # of one writer or reader
GUARDED = ("hpctoolkit-release", "cube", "rocprof-csv", "rocpd", "report")  # a folder, a file, several, SQLite, text
READ = ("hpctoolkit-release", "rocpd", "large cube")
Inputs = dict[str, tuple[Path, Path]]
T = TypeVar("T")


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Inputs:
    return writers.make_inputs(tmp_path_factory.mktemp("inputs"))


@pytest.fixture(scope="module")
def readings(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Reading]:
    return {reading.name: reading for reading in readers.make_readings(tmp_path_factory.mktemp("readings"))}


def import_what_it_needs(writer: Writer, inputs: Inputs, folder: Path) -> None:
    """Run it once in this process, whose children then have it; what starts threads must not run before a fork."""
    if writer.name not in ("callgrove", "table as Parquet"):
        places = {"IN": inputs[writer.kind][0], "OUT": folder / writer.target, "MAP": folder / "names.json"}
        assert main([str(places.get(word, word)) for word in writer.words]) == 0


def choose(faults: Sequence[T], name: str) -> list[T]:
    return random.Random(name).sample(faults, min(N_FAULTS, len(faults)))


@pytest.mark.parametrize("name", some_of(name_writers(), lambda name: name in GUARDED))
def test_a_writer_leaves_the_old_target_or_the_new_one(name: str, inputs: Inputs, tmp_path: Path) -> None:
    [writer] = [writer for writer in writers.WRITERS if writer.name == name]
    import_what_it_needs(writer, inputs, tmp_path)
    trial = Trial(writer, inputs, tmp_path)
    outcomes: writers.Outcomes = Counter()
    for fresh in writer.ways[:1]:
        faults = choose(list(writers.find_faults(trial.calls(fresh=fresh))), name)
        findings = [(fault, list(writers.try_fault(trial, fault, outcomes, fresh=fresh))) for fault in faults]
        assert [(fault, found) for fault, found in findings if found] == []
    assert sum(outcomes.values()) == N_FAULTS


@pytest.mark.parametrize("name", some_of(readers.name_readings(), lambda name: name in READ))
def test_a_reader_gives_the_answer_or_says_why_not(name: str, readings: dict[str, Reading]) -> None:
    reading, outcomes = readings[name], Counter[str]()
    calls, sound = reading.calls(), run(reading.words())
    faults = choose(list(readers.find_faults(reading, calls)), name)
    findings = [(fault, list(readers.try_fault(reading, fault, sound, outcomes))) for fault in faults]
    assert [(fault, found) for fault, found in findings if found] == []
    assert sum(outcomes.values()) == N_FAULTS


def test_a_mapped_file_that_becomes_shorter_is_named(readings: dict[str, Reading]) -> None:
    """There is no call that fails: the system would end the program without a word."""
    reading = readings["large cube"]
    [call] = [call for call in reading.calls() if call.name == "mmap"]
    fault = Fault(call, SHRINK)
    done = run(reading.words(), fault, at_stop=lambda: readers.change(fault, reading))
    assert done.code == 3
    assert done.said.startswith(f"callgrove: {reading.path}: became shorter while it was read; ")
    assert done.said.count("\n") == 1


# -- the faults themselves ---------------------------------------------------------------------------------------------


def test_faults_are_seen(inputs: Inputs, tmp_path: Path) -> None:
    """A writer that writes in place would be found out."""
    target = tmp_path / "work" / "o.csv"
    trial = Trial(
        writers.Writer("x", "profile", ("export", "IN", "--table", "values", "-o", "OUT"), "o.csv"), inputs, tmp_path
    )
    trial.restore()
    [rename] = [call for call in trial.calls() if call.name == "rename"]
    outcomes: writers.Outcomes = Counter()
    assert list(writers.try_fault(trial, Fault(rename, KILL), outcomes)) == []
    assert outcomes == {("killed", "old"): 1}
    trial.old = {}
    assert next(writers.try_fault(trial, Fault(rename, KILL), outcomes)).startswith("is neither the old nor the new")
    assert target.is_file()


def test_calls_are_numbered_by_name_and_thread() -> None:
    log = '7 write(3</a/x>, ""..., 4) = 4\n8 write(3</a/y>, ""..., 4 <unfinished ...>\n7 write(1</b>, "", 1) = 1\n'
    log += '8 <... write resumed>) = 4\n7 write(3</a/x>, ""..., 4) = 4\n7 +++ exited with 0 +++\n'
    assert [(call.name, call.number) for call in read_log(log, ["/a/"])] == [("write", 1), ("write", 1), ("write", 3)]
