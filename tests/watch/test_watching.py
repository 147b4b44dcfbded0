"""A folder that is being written: clocks that stand still, files in pieces, replaced, removed; never half of one."""

from __future__ import annotations

import os
import shutil
import sqlite3
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest

import callgrove as cg
from callgrove.errors import InputError
from callgrove.examples import example, gpu_example
from callgrove.watch.contributions import KEPT_FUNCTIONS, Contribution, Incomplete, Names, read_contribution
from callgrove.watch.watching import Look, State, Watch
from tests.requirements import ROOT

MEASUREMENTS = ROOT / "tests" / "corpus" / "hpcrun" / "04.00"


@dataclass
class Clock:
    """A clock that goes on when it is told to."""

    seconds: float = 1000.0
    read: list[str] = field(default_factory=list)

    def watch(self, folder: Path) -> Watch:
        def read(path: Path, names: Names) -> Contribution:
            self.read.append(path.name)
            return read_contribution(path, names)

        return Watch(folder, lambda: self.seconds, lambda: int(self.seconds * 1e9), 2.0, read)

    def look(self, watch: Watch) -> Look:
        self.seconds += 2
        return watch.look()


def put(path: Path, content: bytes | str, changed_s: float = 1000.0) -> None:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    os.utime(path, ns=(int(changed_s * 1e9), int(changed_s * 1e9)))


def happened(look: Look) -> list[tuple[str, str]]:
    return [(event.path, event.what) for event in look.events]


def total(look: Look) -> float:
    return sum(look.totals.costs.values())


def test_a_file_is_read_once_it_stayed_the_same(tmp_path: Path) -> None:
    clock = Clock()
    watch = clock.watch(tmp_path)
    assert happened(clock.look(watch)) == []
    put(tmp_path / "a.folded", "main;work 3\n", clock.seconds)
    first, second, third = clock.look(watch), clock.look(watch), clock.look(watch)
    assert happened(first) == [("a.folded", "new")]
    assert (total(first), first.counts) == (0, {State.GROWING: 1})
    assert happened(second) == [("a.folded", "complete")]
    assert total(second) == 3
    assert happened(third) == []
    assert third.is_quiet
    assert clock.read == ["a.folded"]


def test_at_the_first_look_old_files_are_read_and_young_ones_not(tmp_path: Path) -> None:
    clock = Clock()
    put(tmp_path / "old.folded", "main;work 3\n", 900)
    put(tmp_path / "young.folded", "main;work 4\n", 1001)
    put(tmp_path / "later.folded", "main;work 5\n", 2000)  # by a clock that is ahead
    look = clock.look(clock.watch(tmp_path))
    assert total(look) == 3
    assert look.counts == {State.COMPLETE: 1, State.GROWING: 2}


def test_a_file_that_grows_is_not_read_until_it_rests(tmp_path: Path) -> None:
    clock = Clock()
    watch = clock.watch(tmp_path)
    clock.look(watch)
    for n in range(1, 5):
        put(tmp_path / "a.folded", "main;work 3\n" * n, clock.seconds)
        assert total(clock.look(watch)) == 0
    assert total(clock.look(watch)) == 12
    assert clock.read == ["a.folded"]


def test_what_a_file_added_is_taken_back(tmp_path: Path) -> None:
    clock = Clock()
    put(tmp_path / "a.folded", "main;work 3\n", 900)
    put(tmp_path / "b.folded", "main;wait 4\n", 900)
    watch = clock.watch(tmp_path)
    assert total(clock.look(watch)) == 7
    put(tmp_path / "new", "main;work 10\n", 900)
    (tmp_path / "new").rename(tmp_path / "a.folded")  # another file with the same date
    changed = clock.look(watch)
    assert happened(changed) == [("a.folded", "changed")]
    assert total(changed) == 4
    assert total(clock.look(watch)) == 14
    (tmp_path / "b.folded").unlink()
    removed = clock.look(watch)
    assert happened(removed) == [("b.folded", "removed")]
    assert dict(removed.totals.functions[next(iter(removed.totals.functions))]) == {"work": 10}


def test_measurements_without_their_footer_are_incomplete(tmp_path: Path) -> None:
    whole = next(MEASUREMENTS.rglob("*.hpcrun")).read_bytes()
    clock = Clock()
    watch = clock.watch(tmp_path)
    put(tmp_path / "rank0.hpcrun", whole[: len(whole) // 2], 900)
    look = clock.look(watch)
    ((path, why),) = look.incomplete
    assert path == "rank0.hpcrun"
    assert "still writing" in why
    assert look.totals.n_profiles == 0
    clock.look(watch)
    assert clock.read == ["rank0.hpcrun"], "what did not change is not read again"
    put(tmp_path / "rank0.hpcrun", whole, clock.seconds)
    clock.look(watch)
    assert clock.look(watch).totals.n_profiles == 1


def test_measurements_come_to_what_the_folder_has(tmp_path: Path) -> None:
    folder = next(path.parent for path in MEASUREMENTS.rglob("*.hpcrun"))
    shutil.copytree(folder, tmp_path / "m", copy_function=shutil.copyfile)
    for path in (tmp_path / "m").iterdir():
        os.utime(path, ns=(0, 0))
    clock = Clock()
    look = clock.look(clock.watch(tmp_path))
    experiment = cg.open(folder)
    assert isinstance(experiment, cg.Experiment)
    expected = experiment.top()["exclusive"]
    assert np.isclose(total(look), sum(expected), rtol=1e-12)
    assert look.totals.n_profiles == len(experiment.profiles.measured)
    assert look.totals.time_range == experiment.traces.time_range


@pytest.fixture(scope="module")
def examples(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("examples")
    example().write(folder / "run.cubex")
    gpu_example().write(folder / "train.db", "rocpd")
    return folder


def test_databases_with_a_log_beside_them_are_incomplete(tmp_path: Path, examples: Path) -> None:
    clock, path = Clock(), tmp_path / "rank0.db"
    put(path, (examples / "train.db").read_bytes(), 900)
    put(tmp_path / "rank0.db-journal", b"", 900)
    watch = clock.watch(tmp_path)
    assert "its writer has not finished" in clock.look(watch).incomplete[0][1]
    (tmp_path / "rank0.db-journal").unlink()
    clock.look(watch)
    look = clock.look(watch)
    assert look.incomplete == ()
    assert look.totals.formats == {"rocpd": 1}
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("CREATE TABLE more (x)")
    connection.commit()
    assert clock.look(watch).totals.formats == {}, "somebody writes again"
    connection.close()


@pytest.mark.parametrize("name", ["train.db", "run.cubex"])
def test_no_beginning_of_a_file_is_taken_for_the_whole(tmp_path: Path, examples: Path, name: str) -> None:
    whole = (examples / name).read_bytes().rstrip(b"\0")  # archives end with zeros
    for part in np.linspace(1, len(whole) - 1, 12).astype(int).tolist():
        put(tmp_path / name, whole[:part], 900)
        clock = Clock()
        look = clock.look(clock.watch(tmp_path))
        assert look.totals.n_profiles == 0, part
        assert look.counts.get(State.COMPLETE, 0) == 0, part


def test_a_file_that_changes_while_it_is_read_is_not_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from callgrove.formats.registry import open_paths

    path = tmp_path / "a.folded"
    put(path, "main;work 3\n")

    def write_meanwhile(paths: list[str]) -> object:
        opened = open_paths(paths)
        put(path, "main;work 3\nmain;work 4\n", 1001)
        return opened

    monkeypatch.setattr("callgrove.watch.contributions.open_paths", write_meanwhile)
    with pytest.raises(Incomplete, match="changed while it was read"):
        read_contribution(path, Names())


def test_what_is_kept_of_a_file_is_bounded_and_adds_up(tmp_path: Path) -> None:
    put(tmp_path / "wide.folded", "".join(f"main;function_{k} {k}\n" for k in range(1, 2001)))
    names = Names()
    added = read_contribution(tmp_path / "wide.folded", names)
    assert len(added.functions) == KEPT_FUNCTIONS + 1
    assert added.costs.sum() == sum(range(1, 2001))
    assert added.costs.max() == sum(range(1, 2001 - KEPT_FUNCTIONS)), "the rest is one number"
    assert len(names.numbers) == KEPT_FUNCTIONS + 1


def test_a_thousand_files_are_each_read_once(tmp_path: Path) -> None:
    clock, n_read = Clock(), [0]

    def read(path: Path, names: Names) -> Contribution:
        n_read[0] += 1
        clock.seconds += 0.01
        rank = frozenset([int(path.stem)])
        work = np.array([names.number("work")], np.int32)
        return Contribution("hpcrun", rank, 1, None, "time", "sec", work, np.array([2.0]))

    for rank in range(1000):
        put(tmp_path / f"{rank}.hpcrun", b"x", 900)
    watch = Watch(tmp_path, lambda: clock.seconds, lambda: int(clock.seconds * 1e9), 2.0, read)
    first = watch.look(seconds_to_read=2.0)
    assert 100 <= n_read[0] <= 300, "a look takes no longer than it may"
    assert first.counts[State.WAITING] == 1000 - n_read[0]
    assert not first.is_quiet
    for _ in range(10):
        look = watch.look(seconds_to_read=2.0)
    assert n_read[0] == 1000
    assert (total(look), look.totals.ranks) == (2000, tuple(range(1000)))
    put(tmp_path / "7.hpcrun", b"xx", clock.seconds)
    watch.look()
    watch.look()
    assert n_read[0] == 1001, "only what changed is read again"


def test_what_is_no_folder_is_refused(tmp_path: Path) -> None:
    clock = Clock()
    with pytest.raises(InputError, match="no such folder"):
        clock.look(clock.watch(tmp_path / "nothing"))
