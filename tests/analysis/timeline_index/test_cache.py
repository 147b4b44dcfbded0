"""Indexes on disk: found again, never taken for another file's, never wrong after damage, and of limited size."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import threading
import zlib
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest

from callgrove.analysis.timeline_index import builder, index, layout
from callgrove.analysis.timeline_index.answers import IndexOptions, LineKind
from callgrove.analysis.timeline_index.cache import IndexCache, fingerprint
from callgrove.analysis.timeline_index.index import TimelineIndex
from callgrove.errors import CallgroveError, UsageError
from callgrove.model.experiment import Experiment
from callgrove.model.traces.events import SpanKind
from callgrove.user_cache import cache_folder
from tests.analysis.timeline_index.brute_force import legend_of, moments_of
from tests.analysis.traced import Span, sampled, spanned
from tests.timing import HANG_SEC

WINDOW = 3, 700


def made(n: int = 60) -> Experiment:
    """Some calls, and what runs on a device."""
    spans: list[Span] = [(0, SpanKind.REGION, k % 5, 10 * k, 10 * k + 7 + 13 * (k % 3)) for k in range(n)]
    spans.append((0, SpanKind.REGION, 8, 0, 20 * n))
    spans += [(0, SpanKind.REGION, 7, 3 * k % 600, 3 * k % 600 + 2) for k in range(400)]
    return spanned([*spans, *((1, SpanKind.KERNEL, k % 7, 9 * k, 9 * k + 15) for k in range(n))])


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A file that stands for what was read."""
    path = tmp_path / "run.db"
    path.write_bytes(os.urandom(200_000))
    return path


@pytest.fixture
def cache(tmp_path: Path) -> IndexCache:
    return IndexCache(tmp_path / "cache")


def opened(source: Path, cache: IndexCache, **more: Any) -> TimelineIndex:
    return TimelineIndex.open(made(), [source], cache=cache, in_background=False, **more)


def is_right(index: TimelineIndex) -> bool:
    return legend_of(index, index.legend(WINDOW)) == moments_of(made()).sums(WINDOW)


def test_an_index_is_built_once(source: Path, cache: IndexCache) -> None:
    with opened(source, cache) as first:
        assert is_right(first)
        assert not first.is_stale
    with mock.patch.object(index, "build", side_effect=AssertionError), opened(source, cache) as second:
        assert second.progress.is_complete
        assert is_right(second)
    assert [folder.name for folder in cache.folder.iterdir()] == [first.key]


@pytest.mark.parametrize("change", ["replace", "grow", "cut", "middle", "touch", "options", "reading"])
def test_what_changed_has_another_index(source: Path, cache: IndexCache, change: str) -> None:
    options = IndexOptions()
    before = fingerprint([source], "", options)
    data, status, reading = bytearray(source.read_bytes()), source.stat(), ""
    if change == "replace":
        source.unlink()
        source.with_name("other").write_bytes(data)
        source.with_name("other").rename(source)
    elif change == "grow":
        source.write_bytes(data + b"x")
    elif change == "cut":
        source.write_bytes(data[:-1])
    elif change == "middle":
        data[0] ^= 1
        source.write_bytes(data)
        os.utime(source, ns=(status.st_atime_ns, status.st_mtime_ns))
    elif change == "touch":
        os.utime(source, ns=(1, 1))
    elif change == "options":
        options = IndexOptions(depth=2)
    else:
        reading = "align=first"
    assert fingerprint([source], reading, options) != before


def test_a_folder_is_known_by_all_its_files(tmp_path: Path) -> None:
    folder = tmp_path / "run.d"
    (folder / "deep").mkdir(parents=True)
    (folder / "deep" / "trace.db").write_bytes(b"a")
    before = fingerprint([folder], "", IndexOptions())
    assert fingerprint([folder], "", IndexOptions()) == before
    (folder / "deep" / "more.db").write_bytes(b"")
    assert fingerprint([folder], "", IndexOptions()) != before


def test_a_file_that_changes_while_it_is_read_has_no_index(source: Path, cache: IndexCache) -> None:
    def build_slowly(*given: Any) -> Any:
        source.write_bytes(b"another run")
        return builder.build(*given)

    with (
        mock.patch.object(index, "build", build_slowly),
        pytest.raises(CallgroveError, match="changed while its timeline was read"),
    ):
        opened(source, cache)
    assert list(cache.folder.iterdir()) == []


def test_who_asked_while_it_was_built_goes_on_asking(source: Path, cache: IndexCache) -> None:
    """What was read of the folder that was renamed is forgotten, and the index is not built again."""
    is_written, may_finish, n_built = threading.Event(), threading.Event(), []

    def build_and_wait(*given: Any) -> Any:
        n_built.append(1)
        state = builder.build(*given)
        is_written.set()
        assert may_finish.wait(HANG_SEC)
        return state

    with (
        mock.patch.object(index, "build", build_and_wait),
        TimelineIndex.open(made(), [source], cache=cache) as one,
    ):
        assert is_written.wait(HANG_SEC)
        assert len(one.lines)
        may_finish.set()
        one.wait()
        assert len(one.names)
        assert is_right(one)
    assert len(n_built) == 1


def test_an_index_that_is_renamed_while_it_is_opened_is_there(source: Path, cache: IndexCache) -> None:
    """Between the state of a folder and its columns, the folder gets its last name."""
    with opened(source, cache) as first:
        expected = len(first.lines)
        complete = cache.folder / first.key
        partial = cache.folder / f"{first.key}.partial-0-0"
    with TimelineIndex.open(made(), [source], cache=cache) as one:
        one._folder = partial
        with mock.patch.object(index, "read_state", return_value=layout.read_state(complete)):
            assert len(one.lines) == expected
        assert not one.n_lost


def test_what_was_there_and_is_gone_is_counted() -> None:
    """Who puts an answer together of several knows by that whether they are those of one index."""
    with TimelineIndex.open(made(), in_background=False) as one:
        assert len(one.lines)
        assert one.n_lost == 0
        one.close()
        assert not len(one.lines)
        assert one.n_lost == 1


def test_a_file_that_is_gone_makes_an_index_stale(source: Path, cache: IndexCache) -> None:
    with opened(source, cache) as one:
        source.unlink()
        assert one.is_stale
        assert is_right(one)


FILES = [name for name in layout.COLUMNS if not name.startswith(("hist", "entry", "wide", "long"))]


@pytest.mark.parametrize("name", [*FILES, "state.json", "names.json", "checks"])
@pytest.mark.parametrize("damage", ["flip", "cut", "remove"])
def test_damage_is_never_shown(source: Path, cache: IndexCache, name: str, damage: str) -> None:
    """A byte that is not what was written leads to a new index, wherever it is."""
    with opened(source, cache) as first:
        file = cache.folder / first.key / name
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 0x10
    if damage == "remove":
        file.unlink()
    else:
        file.write_bytes(data if damage == "flip" else data[: len(data) // 2])
    with opened(source, cache) as second:
        for _ in range(2):
            assert second.picture(WINDOW, 50) is not None
            assert second.legend(WINDOW) is not None
            assert second.spans_in(WINDOW) is not None
            second.wait()
        assert is_right(second)
        assert second.spans_in(WINDOW).n == sum(
            start < WINDOW[1] and end > WINDOW[0]
            for chunk in made().traces.spans()
            for start, end in zip(chunk["start_ns"].tolist(), chunk["end_ns"].tolist(), strict=True)
        )


def test_another_version_is_built_anew(source: Path, cache: IndexCache) -> None:
    with opened(source, cache) as first:
        state = cache.folder / first.key / "state.json"
    text = state.read_text().partition("\n")[2].replace('"version": 1', '"version": 99')
    state.write_text(f"{zlib.crc32(text.encode())}\n{text}")
    with pytest.raises(layout.DamagedIndex, match="version 99, where 1 is expected"):
        layout.read_state(state.parent)
    with opened(source, cache) as second:
        assert is_right(second)


KILLED = """
import os, signal, sys
from pathlib import Path
from unittest import mock
from callgrove.analysis.timeline_index import builder, index, tracks
from callgrove.analysis.timeline_index.cache import IndexCache
from tests.analysis.timeline_index.test_cache import made, opened
mock.patch.object(builder, "BATCH", 4).start()
mock.patch.object(tracks, "BATCH", 4).start()
mock.patch.object(builder, "COMMIT_SEC", 0).start()
def hear(self, state):
    if state.n_tracks_done:
        os.kill(os.getpid(), signal.SIGKILL)
mock.patch.object(index.TimelineIndex, "_hear", hear).start()
opened(Path(sys.argv[1]), IndexCache(Path(sys.argv[2])))
"""


def test_a_killed_builder_leaves_nothing_that_counts(source: Path, cache: IndexCache) -> None:
    command = [sys.executable, "-c", KILLED, str(source), str(cache.folder)]
    done = subprocess.run(command, timeout=HANG_SEC, check=False)
    assert done.returncode == -9
    (left,) = cache.folder.iterdir()
    assert ".partial-" in left.name
    with opened(source, cache) as one:
        assert is_right(one)
    assert [folder.name for folder in cache.folder.iterdir()] == [one.key]


def test_many_open_the_same_index_at_once(source: Path, cache: IndexCache) -> None:
    right: list[bool] = []

    def ask() -> None:
        with opened(source, cache) as one:
            right.append(is_right(one))

    threads = [threading.Thread(target=ask) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(HANG_SEC)
    assert right == [True] * 6
    assert len(list(cache.folder.iterdir())) == 1


def test_who_finishes_second_uses_the_first_index(source: Path, cache: IndexCache) -> None:
    with opened(source, cache) as first, cache.begin(first.key) as partial:
        builder.build(made(), IndexOptions(), partial.folder, first.key)
        assert cache.finish(first.key, partial) == cache.folder / first.key
    with opened(source, cache) as second:
        assert is_right(second)
    assert len(list(cache.folder.iterdir())) == 1


def test_closing_stops_building(source: Path, cache: IndexCache) -> None:
    with mock.patch.object(builder, "COMMIT_SEC", 0):
        one = TimelineIndex.open(made(3000), [source], cache=cache)
        one.close()
    assert all(".partial-" not in folder.name for folder in cache.folder.glob("*"))


def test_the_least_recently_used_go(tmp_path: Path) -> None:
    folder = tmp_path / "cache"
    keys = []
    for number in range(4):
        source = tmp_path / f"{number}.db"
        source.write_bytes(b"%d" % number)
        with opened(source, IndexCache(folder)) as one:
            keys.append(one.key)
        os.utime(folder / one.key / "used", ns=(number, number))
    assert {path.name for path in folder.iterdir()} == set(keys)
    assert IndexCache(folder).find(keys[0]) is not None  # which makes it the one that was used last
    size = sum(file.stat().st_size for file in (folder / keys[0]).iterdir())
    IndexCache(folder, 2 * size + size // 2).evict(keys[3])
    assert {path.name for path in folder.iterdir()} == {keys[0], keys[3]}


def test_without_a_home_nothing_is_kept_where_others_could_write(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("callgrove.analysis.timeline_index.cache.cache_folder", lambda kind: None)
    cache = IndexCache()
    folder = cache.folder
    assert folder.stat().st_mode & 0o777 == 0o700
    assert folder != IndexCache().folder
    del cache
    assert not folder.exists()


def test_where_indexes_are_kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("CALLGROVE_CACHE", raising=False)
    assert cache_folder("timelines") == tmp_path / "callgrove" / "timelines"
    monkeypatch.setenv("CALLGROVE_CACHE", str(tmp_path / "mine"))
    assert cache_folder("timelines") == tmp_path / "mine" / "timelines"


def test_no_place_for_an_index(source: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(CallgroveError, match="name another folder with CALLGROVE_CACHE"):
        opened(source, IndexCache(tmp_path / "file" / "cache"))


def test_lines_that_are_done_answer_while_others_are_built(source: Path, cache: IndexCache) -> None:
    """After every step, what is there is right and the rest is said to be missing."""
    lines = [[(k * 3 + line, (k + line) % 9) for k in range(40)] for line in range(6)]
    experiment = sampled(*lines)
    truth = moments_of(experiment)
    seen: list[int] = []

    def hear(self: TimelineIndex, state: layout.IndexState) -> None:
        progress = self.progress
        n = progress.n_tracks_done
        seen.append(n)
        if progress.n_tracks:
            assert progress.profiles_missing.tolist() == list(range(n, 6))
            for line in range(len(self.lines)):
                track = int(self.lines.profile[line]), LineKind(int(self.lines.kind[line]))
                assert legend_of(self, self.legend(WINDOW, np.array([line]))) == truth.sums(WINDOW, [track])
            assert self.picture(WINDOW, 20).name.shape[0] == len(self.lines) == n

    with (
        mock.patch.object(builder, "BATCH", 4),
        mock.patch.object(builder, "COMMIT_SEC", 0),
        mock.patch.object(TimelineIndex, "_hear", hear),
        TimelineIndex.open(experiment, [source], cache=cache, in_background=False) as one,
    ):
        assert one.progress.is_complete
    assert sorted(set(seen)) == list(range(7))


def test_lines_that_are_not_there() -> None:
    with TimelineIndex.open(made(), in_background=False) as one:
        with pytest.raises(UsageError, match=f"line 99 does not exist; there are {len(one.lines)} lines"):
            one.legend(WINDOW, np.array([99]))
        with pytest.raises(UsageError, match="ends before it begins"):
            one.legend((5, 4))
        with pytest.raises(UsageError, match="at least one column"):
            one.picture((5, 9), 0)


def test_a_folder_that_is_just_made_is_nobody_elses(cache: IndexCache, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another process may sweep at any moment, also before the lock is taken."""
    lock, seen = fcntl.flock, list[Path]()

    def sweep_first(file: Any, how: int) -> None:
        monkeypatch.setattr(fcntl, "flock", lock)
        cache.sweep()
        seen.extend(cache.folder.glob("*.partial-*"))
        lock(file, how)

    monkeypatch.setattr(fcntl, "flock", sweep_first)
    with cache.begin("key") as partial:
        assert seen == [partial.folder]
        assert cache.building("key") == partial.folder
