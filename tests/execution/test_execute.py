"""Ordered maps and reductions of a fixed shape, on threads, which can be watched, and on a pool of processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
import tracemalloc
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callgrove.errors import CallgroveError, CorruptFile, MissingExtra, UsageError
from callgrove.execute import Engine, Workers, engines, executor, executor_when_needed, usable_cores, workers
from tests.execution import work
from tests.requirements import ROOT
from tests.timing import HANG_SEC

N = 200


class Watched(Executor):
    """Threads, and how many tasks they were given and have not finished."""

    def __init__(self, n: int) -> None:
        self._pool, self._lock = ThreadPoolExecutor(n), threading.Lock()
        self.outside = self.most = self.n_tasks = 0

    def submit(self, function: Callable[..., Any], /, *args: Any, **options: Any) -> Future[Any]:
        with self._lock:
            self.outside += 1
            self.n_tasks += 1
            self.most = max(self.most, self.outside)
        future = self._pool.submit(function, *args, **options)
        future.add_done_callback(lambda _: self._done())
        return future

    def _done(self) -> None:
        with self._lock:
            self.outside -= 1

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        self._pool.shutdown(wait, cancel_futures=cancel_futures)


def pairs(texts: list[str]) -> str:
    """The reduction as the documentation draws it: level by level, the last one of an odd level goes up as it is."""
    while len(texts) > 1:
        texts = [f"({''.join(texts[k : k + 2])})" if k + 1 < len(texts) else texts[k] for k in range(0, len(texts), 2)]
    return texts[0]


def joined(left: str, right: str) -> str:
    return f"({left}{right})"


def word(number: int) -> str:
    return f"{number} "


def unsteady(number: int) -> int:
    time.sleep(0.002 * (number % 3))
    return number


# -- threads ---------------------------------------------------------------------------------------------------------


@given(n=st.integers(1, 300), n_workers=st.integers(1, 5), largest=st.sampled_from((1, 4, 64)))
def test_the_shape_of_a_reduction_depends_on_the_number_of_items_alone(n: int, n_workers: int, largest: int) -> None:
    wanted = pairs([word(k) for k in range(n)])
    assert Workers(None, 1).reduce(word, joined, range(n)) == wanted
    with pytest.MonkeyPatch.context() as patch, ThreadPoolExecutor(n_workers) as pool:
        patch.setattr(workers, "LARGEST_BLOCK", largest)
        assert Workers(pool, n_workers).reduce(word, joined, range(n)) == wanted


def test_nothing_reduces_to_nothing() -> None:
    assert Workers(None, 1).reduce(word, joined, []) is None
    with ThreadPoolExecutor(1) as pool:
        assert Workers(pool, 1).reduce(word, joined, []) is None
        assert list(Workers(pool, 1).map(word, [])) == []


def test_a_map_keeps_the_order_and_hands_out_few_tasks() -> None:
    with Watched(4) as pool:
        assert list(Workers(pool, 4).map(unsteady, range(500))) == list(range(500))
    assert pool.most <= 4 * workers.TASKS_PER_WORKER + 1


def test_a_map_does_not_run_ahead_of_its_reader() -> None:
    with Watched(2) as pool:
        found = Workers(pool, 2).map(word, range(10_000))
        assert next(found) == "0 "
        assert pool.n_tasks <= 2 * workers.TASKS_PER_WORKER + 1
        found.close()  # type: ignore[attr-defined]


def test_a_reduction_hands_out_few_tasks_and_keeps_few_results(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "LARGEST_BLOCK", 1)
    kept = 0
    really = workers._Reduction._receive

    def arrived(self: Any, node: Any, result: Any) -> None:
        nonlocal kept
        really(self, node, result)
        kept = max(kept, len(self._waiting))

    monkeypatch.setattr(workers._Reduction, "_receive", arrived)
    with Watched(3) as pool:
        Workers(pool, 3).reduce(word, joined, range(2000))
    assert pool.most <= 3 * workers.TASKS_PER_WORKER
    assert kept <= 11 + 3 * workers.TASKS_PER_WORKER  # log2(2000) and those that run


def test_progress_ends_at_the_total() -> None:
    with ThreadPoolExecutor(2) as pool:
        for workers in (Workers(None, 1), Workers(pool, 2)):
            seen = progress_of(workers)
            assert seen[-1] == ("working", 30, 30)
            reading = [done for label, done, total in seen if (label, total) == ("reading", 50)]
            assert reading == sorted(reading)
            assert reading[-1] == 50


def progress_of(workers: Workers) -> list[tuple[str, int, int]]:
    seen: list[tuple[str, int, int]] = []

    def watch(label: str, done: int, total: int) -> None:
        seen.append((label, done, total))

    workers.reduce(word, joined, range(50), label="reading", progress=watch)
    list(workers.map(word, range(30), progress=watch))
    return seen


def test_after_an_error_nothing_more_is_handed_out() -> None:
    begun = []

    def fails(number: int) -> int:
        begun.append(number)
        time.sleep(0.01)
        return work.broken(number)

    with ThreadPoolExecutor(1) as pool, pytest.raises(CorruptFile):
        list(Workers(pool, 1).map(fails, range(100)))
    assert len(begun) <= 3 + 1 + workers.TASKS_PER_WORKER
    with ThreadPoolExecutor(1) as pool, pytest.raises(CorruptFile):
        Workers(pool, 1).reduce(work.broken, lambda a, b: a + b, range(100))


def test_memory_that_is_kept_is_asked_for_and_never_held(monkeypatch: pytest.MonkeyPatch) -> None:
    """One block of the size that the C library learns from; who works in this process asks before the first item."""
    tracemalloc.start()
    try:
        workers.keep_freed_memory()
        held, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held < 1 << 20 < 31 << 20 < most <= 33 << 20
    order: list[object] = []
    monkeypatch.setattr(workers, "keep_freed_memory", lambda: order.append("asked"))
    list(Workers(None, 1).map(order.append, [1, 2]))
    Workers(None, 1).reduce(order.append, lambda left, right: None, [3, 4])
    assert order == ["asked", 1, 2, "asked", 3, 4]


# -- processes -------------------------------------------------------------------------------------------------------


def test_one_process_is_this_one() -> None:
    with executor(Engine(jobs=1)) as workers:
        assert workers.n_workers == 1
        assert list(workers.map(lambda _: os.getpid(), [1])) == [os.getpid()]  # not even pickled


def test_processes_give_the_same_bytes_as_one() -> None:
    with executor(Engine(jobs=3)) as workers:
        for n in (0, 1, 2, 7, N):
            assert work.fingerprint(workers, n) == work.expected(n)


def test_errors_come_back_as_they_are() -> None:
    with executor(Engine(jobs=2)) as workers, pytest.raises(CorruptFile) as raised:
        list(workers.map(work.broken, range(20)))
    assert (raised.value.path, raised.value.offset) == ("b.hpcrun", 1024)


def test_a_worker_that_dies_is_one_clear_error() -> None:
    with pytest.raises(CallgroveError, match=r"a worker process died .* fewer workers"), executor(Engine(2)) as workers:
        list(workers.map(work.deadly, range(20)))
    with pytest.raises(CallgroveError, match="a worker process died"), executor(Engine(2)) as workers:
        workers.reduce(work.deadly, max, range(20))


@pytest.mark.parametrize("whom", ["all of a terminal", "the main process"])
def test_an_interruption_ends_all_workers(whom: str, tmp_path: Path) -> None:
    notes = tmp_path / "workers"
    command = [sys.executable, "-m", "tests.execution.work", "sums", "-j", "2", "--do", "slow", "--note", str(notes)]
    process = subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True, start_new_session=True)
    try:
        pids = list(_noted(notes, 2))
        (os.killpg if whom == "all of a terminal" else os.kill)(process.pid, signal.SIGINT)
        _, err = process.communicate(timeout=HANG_SEC)
    finally:
        process.kill()
    assert (process.returncode, err) == (130, "callgrove: interrupted\n")
    assert [pid for pid in pids if _runs(pid)] == []


@pytest.mark.parametrize(
    ("number", "code", "said"),
    [(signal.SIGTERM, 143, "callgrove: ended by SIGTERM\n"), (signal.SIGKILL, -signal.SIGKILL, None)],
)
def test_workers_end_with_the_process_that_they_work_for(
    number: int, code: int, said: str | None, tmp_path: Path
) -> None:
    notes = tmp_path / "workers"
    command = [sys.executable, "-m", "tests.execution.work", "sums", "-j", "2", "--do", "slow", "--note", str(notes)]
    with (tmp_path / "said").open("w") as err:  # no pipe: workers that stay would keep it open
        process = subprocess.Popen(command, cwd=ROOT, stderr=err)
        try:
            pids = list(_noted(notes, 2))
            process.send_signal(number)
            assert process.wait(HANG_SEC) == code
        finally:
            process.kill()
    assert said is None or (tmp_path / "said").read_text() == said  # of one that was killed, Python itself may say more
    end = time.monotonic() + HANG_SEC
    while [pid for pid in pids if _runs(pid)] and time.monotonic() < end:
        time.sleep(0.02)
    assert [pid for pid in pids if _runs(pid)] == []


def test_an_interruption_before_the_workers_are_ready(tmp_path: Path) -> None:
    (tmp_path / "slow_to_import.py").write_text(SLOW_TO_IMPORT)
    script = tmp_path / "script.py"
    script.write_text(INTERRUPTED)
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{tmp_path}"}
    command = [sys.executable, str(script)]
    process = subprocess.Popen(
        command, cwd=tmp_path, env=environment, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    try:
        next(_noted(tmp_path / "begun", 1))
        os.killpg(process.pid, signal.SIGINT)
        _, err = process.communicate(timeout=HANG_SEC)
    finally:
        process.kill()
    assert err == "interrupted\n"


SLOW_TO_IMPORT = """
import time
from pathlib import Path

Path("begun").write_text("1")
time.sleep(1)
"""
INTERRUPTED = f"""
import sys, time
from callgrove.execute import Engine, executor

if __name__ == "__main__":
    try:
        with executor(Engine(2), preload=["slow_to_import"]):
            time.sleep({work.SLOW_SEC})
    except KeyboardInterrupt:
        sys.stderr.write("interrupted\\n")
"""


def _noted(path: Path, n: int) -> Iterator[int]:
    end = time.monotonic() + HANG_SEC
    while time.monotonic() < end:
        lines = path.read_text().split() if path.exists() else []
        if len(lines) >= n:
            return iter([int(line) for line in lines])
        time.sleep(0.05)
    raise AssertionError("the workers did not begin")


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    stat = Path(f"/proc/{pid}/stat")
    return not stat.exists() or stat.read_text().rpartition(")")[2].split()[0] != "Z"


# -- choices ---------------------------------------------------------------------------------------------------------


def test_choices_that_contradict_each_other_are_refused() -> None:
    for jobs, mpi, dask in ((2, True, ""), (None, True, "tcp://a:1"), (0, False, ""), (-1, False, "")):
        with pytest.raises(UsageError):
            Engine(jobs, mpi, dask)


def test_the_default_is_one_process_for_each_usable_core(monkeypatch: pytest.MonkeyPatch) -> None:
    assert 1 <= usable_cores() <= (os.cpu_count() or 1)
    monkeypatch.setattr(engines, "usable_cores", lambda: 5)
    with executor(Engine()) as workers:
        assert workers.n_workers == 5


@pytest.mark.parametrize(
    ("engine", "module", "extra"),
    [(Engine(mpi=True), "mpi4py", "mpi"), (Engine(dask="tcp://a:1"), "distributed", "dask")],
)
def test_a_missing_package_is_named(engine: Engine, module: str, extra: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingExtra, match=rf"callgrove\[{extra}\]"), executor(engine):
        pass


PRELOADED = """
import sys
from callgrove.execute import Engine, executor
from tests.execution.work import is_loaded

if __name__ == "__main__":
    with executor(Engine(2), preload=["wave"]) as workers:
        print(list(workers.map(is_loaded, ["wave", "aifc"])), "wave" in sys.modules)
"""


NO_GUARD = """
from pathlib import Path
from callgrove.execute import Engine, executor
from tests.execution.work import length

with Path("begun").open("a") as file:
    file.write("1 ")
with executor(Engine(2), preload=["tests.execution.work"]) as workers:
    print(list(workers.map(length, ["a", "bc", "def"])))
"""


def test_the_program_is_not_imported_again(tmp_path: Path) -> None:
    """Also one that does not ask whether it is the main program."""
    script = tmp_path / "script.py"
    script.write_text(NO_GUARD)
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, script],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=HANG_SEC,
        check=False,
    )
    assert (done.stdout, done.stderr) == ("[1, 2, 3]\n", "")
    assert (tmp_path / "begun").read_text() == "1 "


def test_modules_are_imported_before_processes_begin(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(PRELOADED)
    done = subprocess.run(
        [sys.executable, script],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=HANG_SEC,
        check=False,
    )
    assert (done.stdout, done.stderr) == ("[True, False] False\n", "")


def test_workers_begin_with_the_first_work_for_several() -> None:
    asked: list[str] = []

    def engine() -> Engine:
        asked.append("engine")
        return Engine(jobs=2)

    with executor_when_needed(engine) as late:
        assert list(late.map(work.length, ["one"])) == [3]
        assert not asked
        assert not late.are_elsewhere
        assert list(late.map(work.length, ["one", "three"])) == [3, 5]
        assert late.are_elsewhere
        assert late.n_workers == 2
        assert (
            late.reduce(work.noise, work.add, [1, 2, 3]).tolist()
            == ((work.noise(1) + work.noise(2)) + work.noise(3)).tolist()
        )
    assert asked == ["engine"]


def test_nothing_begins_where_one_core_is_asked_for() -> None:
    with executor_when_needed(lambda: Engine(jobs=1)) as late:
        assert list(late.map(work.length, ["one", "three"])) == [3, 5]
        assert not late.are_elsewhere
