"""Random clicking: requests of all kinds, in any order, as pages make them, and what memory does.

python -m tests.viewer.soak FOLDER SECONDS [PER_SECOND]

runs `callgrove view` on copies of everything in a folder, and makes so many requests a second (5) for so long. Some are
abandoned; every now and then a file is replaced, removed, written to or cut off, and soon put back and opened again. It
prints memory and answers of the server every minute, and at the end why requests were refused and what memory was in
each quarter.
"""

from __future__ import annotations

import gc
import http.client
import os
import random
import re
import shutil
import socket
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Lock
from time import monotonic, sleep
from urllib.parse import parse_qs, urlencode, urlsplit

from callgrove.cli.opening import group_paths
from callgrove.viewer.server.running import Address
from tests.timing import HANG_SEC
from tests.viewer.serving import Served, ask, ask_raw

__all__ = ["Clicking"]

Query = dict[str, str | int | float | Sequence[str]]

CLIENTS = 6
ABANDONED = 0.03  # of all requests
DISTURBED_S, MENDED_S, SAID_S = 20.0, 6.0, 60.0
EXPECTED = {200, 409, 422}
NO_ROWS = ("node: there is no such row", "row: is not a whole number")  # of a metric that others have, or of before
WORDS = ("a", "MPI", "gemm", "/^s/", "nothing has this name")
FILTERS = ("", "", "", "** -> MPI_*", "main -> **")
QUERIES = (
    "SELECT * FROM contexts LIMIT 100",
    "SELECT count(*) FROM spans",
    "SELECT name, sum(end_ns - start_ns) AS ns FROM spans GROUP BY name ORDER BY ns DESC",
    "SELECT m.name, sum(v.value) FROM exclusive_values v JOIN metrics m ON m.metric = v.metric GROUP BY m.name",
    "SELECT nothing",
)
SHAPES: tuple[Query, ...] = (
    {"shape": "calls"},
    {"shape": "callers"},
    {"shape": "above", "function": 0},
    {"shape": "below", "function": 0},
)
PARTS = ("Overview", "Flame graph", "Call tree", "Timelines")


@dataclass
class Clicking:
    """Random requests to an input of a viewer; `statuses` counts what it answered, `refusals` why it did not, and
    `surprises` has answers that no page should get."""

    viewer: Served
    seed: int = 0
    number: int = 0  # of the input
    n_inputs: int = 1
    length_ns: int = 1
    n_lines: int = 1
    n_rows: int = 1
    tabs: tuple[str, ...] = ()
    has_contexts: bool = False
    metrics: tuple[str, ...] = ()
    nodes: list[str] = field(default_factory=lambda: [""])
    statuses: Counter[int] = field(default_factory=Counter)
    refusals: Counter[str] = field(default_factory=Counter)
    surprises: list[str] = field(default_factory=list)

    def begin(self) -> None:
        """Ask which tabs the input has, and for the timeline until its index is complete."""
        _, outline = ask(self.viewer, "outline")
        section = outline["sections"][self.number]
        self.tabs = tuple(tab["title"] for tab in section["tabs"])
        self.has_contexts, self.metrics = section["has_contexts"], tuple(section["metrics"])
        while "Timeline" in self.tabs:
            status, picture = ask(self.viewer, "timeline", input=self.number)
            if status not in (200, 409):
                self.surprises.append(f"timeline: {status} {picture}")
            if status != 200 or picture["progress"]["complete"]:
                break
            sleep(0.05)
        else:
            return
        if status == 200:
            self.length_ns = max(1, picture["length_ns"])
            self.n_lines, self.n_rows = max(1, picture["n_lines"]), max(1, picture["n_rows"])

    def run(self, n: int) -> None:
        """Make so many requests, several at a time."""
        chance = random.Random(self.seed)
        self.seed += 1
        requests = [self.choose_request(chance) for _ in range(n)]
        with ThreadPoolExecutor(CLIENTS) as pool:
            list(pool.map(lambda one: self.make(*one), requests))

    def make(self, name: str, query: Query) -> None:
        """Make a request, and note what came."""
        status, said = ask(self.viewer, name, **{"input": self.number, **query})
        self.statuses[status] += 1
        if status != 200:
            self.refusals[f"{name}: {said['error']}"] += 1
        if status not in EXPECTED and not (status == 400 and said["error"].startswith(NO_ROWS)):
            self.surprises.append(f"{name} {query}: {status} {said}")
        elif status == 200 and name == "rows" and not query["filter"] and query["view"] == "tree":
            self.nodes = ["", *said["key"][:50]]

    def choose_request(self, chance: random.Random) -> tuple[str, Query]:
        """Return a request that this input can be asked."""
        makers = self._about_tabs(chance)
        if self.has_contexts:
            makers |= self._about_costs(chance)
        if "Timeline" in self.tabs:
            makers |= self._about_time(chance)
        name = chance.choice(list(makers))
        return name, makers[name]()

    def _about_tabs(self, chance: random.Random) -> dict[str, Callable[[], Query]]:
        tabs = [tab for tab in self.tabs if tab != "Timeline"] or ["Overview"]
        return {
            "tab": lambda: {"tab": chance.choice(tabs), "filter": chance.choice(FILTERS) if self.has_contexts else ""},
            "sql": lambda: {"query": chance.choice(QUERIES)},
        }

    def _about_costs(self, chance: random.Random) -> dict[str, Callable[[], Query]]:
        look: Query = {"filter": chance.choice(FILTERS), "metric": chance.choice((*self.metrics, ""))}
        whole: Query = {"metric": look["metric"], "filter": ""}
        begin = chance.randrange(self.length_ns)
        window = f"{begin}:{self.length_ns}" if "Timeline" in self.tabs and chance.random() < 0.2 else ""
        node: Query = {"view": "tree", "node": chance.choice(self.nodes), **whole}
        makers: dict[str, Callable[[], Query]] = {
            "rows": lambda: {"view": chance.choice(("tree", "callers", "flat")), "window": window, **look},
            "search": lambda: {"text": chance.choice(WORDS), **look},
            "flame": lambda: {**chance.choice(SHAPES), **whole},
            "spread": lambda: node,
            "grid": lambda: node,
            "topology": lambda: node,
        }  # fmt: skip
        if rows := self.nodes[1:]:
            makers |= {
                "source": lambda: {**node, "node": chance.choice(rows)},
                "path": lambda: {"node": chance.choice(rows), **whole},
            }
        if "Compare" in self.tabs:
            other = chance.randrange(self.n_inputs)
            makers |= {
                "compare": lambda: {"with": other, "part": chance.choice(PARTS)},
                "columns": lambda: {"others": [str(other)]},
            }
        return makers

    def _about_time(self, chance: random.Random) -> dict[str, Callable[[], Query]]:
        begin = chance.randrange(self.length_ns)
        end = begin + max(1, int((self.length_ns - begin) * 10 ** -chance.uniform(0, 6)))
        window: Query = {"from": begin, "to": end, "lines": self.n_lines, "depth": chance.choice((0, 0, 0, 1, 3))}
        row = chance.randrange(self.n_rows)
        return {
            "timeline": lambda: {**window, "width": chance.randrange(10, 2_000), "rows": chance.randrange(1, 300)},
            "timelegend": lambda: {**window, "exact": chance.randrange(2), "top": chance.randrange(self.n_lines)},
            "timedurations": lambda: window,
            "timecurves": lambda: {**window, "width": chance.randrange(10, 2_000)},
            "timestack": lambda: {"row": row, "time": begin, "lines": self.n_lines},
            "timefind": lambda: {**window, "text": chance.choice(WORDS), "time": begin},
            "timelinks": lambda: window,
        }


# -- a viewer of its own process ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Process:
    """A viewer that runs by itself."""

    address: Address
    token: str
    pid: int

    def resident(self) -> int:
        """Return the bytes of memory that it has now."""
        found = re.search(r"VmRSS:\s*(\d+) kB", Path(f"/proc/{self.pid}/status").read_text())
        assert found is not None
        return int(found[1]) * 1024

    def used_seconds(self) -> float:
        """Return the processor time that it took."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextmanager
def view(paths: Sequence[Path], cache: Path) -> Iterator[Process]:
    """Run `callgrove view` on some inputs, with an empty cache, until the block ends."""
    command = [sys.executable, "-m", "callgrove", "view", *map(str, paths), "--no-browser"]
    environment = {**os.environ, "CALLGROVE_CACHE": str(cache)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment, text=True) as process:
        assert process.stdout is not None
        try:
            url = urlsplit(process.stdout.readline().strip())
            token = parse_qs(url.query)["token"][0]
            yield Process(Address(url.port or 0, token), token, process.pid)
        finally:
            process.terminate()


def open_again(viewer: Served, number: int) -> None:
    """Open an input again, as the button of the page does."""
    ours = f"http://127.0.0.1:{viewer.address.port}"
    assert ask_raw(viewer, f"/api/open?input={number}", {"Origin": ours}, method="POST")[0] == 200


def wait_until_open(viewer: Served, number: int) -> None:
    """Wait until an input is open, or cannot be opened."""
    began = monotonic()
    while ask(viewer, "status")[1]["inputs"][number]["state"] == "opening":
        assert monotonic() - began < HANG_SEC
        sleep(0.1)


def abandon(viewer: Served, name: str, query: Query) -> None:
    """Make a request, and go before the answer is there."""
    connection = http.client.HTTPConnection("127.0.0.1", viewer.address.port, timeout=HANG_SEC)
    connection.request(
        "GET", f"/api/{name}?{urlencode(query, doseq=True)}", headers={"X-Callgrove-Token": viewer.token}
    )
    assert connection.sock is not None
    connection.sock.shutdown(socket.SHUT_RDWR)
    connection.close()


def disturb(path: Path, chance: random.Random) -> str:
    """Do something to a file; return what."""
    how = chance.choice(("replaced", "removed", "written to", "cut off"))
    if how == "removed":
        path.unlink()
    elif how == "replaced":
        copy = path.with_name(f"{path.name}.copy")
        shutil.copyfile(path, copy)
        copy.replace(path)
    elif how == "written to":
        with path.open("ab") as file:
            file.write(b"\0" * 100)
    else:  # never in place: what is mapped would be gone
        copy = path.with_name(f"{path.name}.copy")
        copy.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
        copy.replace(path)
    return how


# -- clicking for long -------------------------------------------------------------------------------------------------


@dataclass
class Soak:
    """Clicks on all inputs of a viewer by turns, whose files change meanwhile. Originals is a folder of what they were
    copied from."""

    viewer: Process
    groups: Sequence[Sequence[str]]  # paths of each input
    originals: Path
    per_second: float
    chance: random.Random = field(default_factory=lambda: random.Random("soak"))
    disturbances: Counter[str] = field(default_factory=Counter)
    n_abandoned: int = 0
    levels: list[int] = field(default_factory=list)
    _stale: tuple[int, float] | None = None

    def __post_init__(self) -> None:
        n = len(self.groups)
        self.inputs = [Clicking(self.viewer, number=k, n_inputs=n) for k in range(n)]
        self._guard = Lock()

    def run(self, seconds: float) -> None:
        """Click for so long."""
        for one in self.inputs:
            wait_until_open(self.viewer, one.number)
            one.begin()
        began = latest = said = monotonic()
        n = 0
        with ThreadPoolExecutor(CLIENTS) as pool:
            while (now := monotonic()) - began < seconds:
                pool.submit(self._click)
                n += 1
                sleep(max(0.0, began + n / self.per_second - monotonic()))
                if self._stale is None and now - latest > DISTURBED_S:
                    self._disturb()
                    latest = now
                elif self._stale is not None and now - self._stale[1] > MENDED_S:
                    self._mend()
                if now - said > SAID_S:
                    said = now
                    self._say(now - began)
        self._say(monotonic() - began)

    def _click(self) -> None:
        with self._guard:
            one = self.chance.choice(self.inputs)
            name, query = one.choose_request(self.chance)
            is_abandoned = self.chance.random() < ABANDONED
            self.n_abandoned += is_abandoned
        try:
            if is_abandoned:
                abandon(self.viewer, name, {"input": one.number, **query})
            else:
                one.make(name, query)
        except Exception as error:  # of a thread: it would be lost
            one.surprises.append(f"{name} {query}: {type(error).__name__}: {error}")

    def _disturb(self) -> None:
        number = self.chance.randrange(len(self.groups))
        path = Path(self.chance.choice(self.groups[number]))
        files = sorted(file for file in path.rglob("*") if file.is_file()) if path.is_dir() else [path]
        self.disturbances[disturb(self.chance.choice(files), self.chance)] += 1
        self._stale = (number, monotonic())
        if self.chance.random() < 0.5:  # the page is opened again while the file is not what it should be
            open_again(self.viewer, number)

    def _mend(self) -> None:
        assert self._stale is not None
        number, self._stale = self._stale[0], None
        for path in map(Path, self.groups[number]):
            copy_input(self.originals / path.name, path)
        wait_until_open(self.viewer, number)
        open_again(self.viewer, number)
        wait_until_open(self.viewer, number)
        self.inputs[number].begin()

    def _say(self, seconds: float) -> None:
        self.levels.append(self.viewer.resident())
        statuses: Counter[int] = sum((one.statuses for one in self.inputs), Counter())
        sys.stdout.write(
            f"{seconds:6.0f} s {self.viewer.used_seconds():6.0f} s of the processor "
            f"{self.levels[-1] / 1e6:7.1f} MB answers {dict(sorted(statuses.items()))}, "
            f"{self.n_abandoned} abandoned, files {dict(self.disturbances)}\n"
        )
        for one in self.inputs:
            for surprise in one.surprises:
                sys.stdout.write(f"  {Path(self.groups[one.number][0]).name}: {surprise[:600]}\n")
            one.surprises.clear()
        sys.stdout.flush()


def copy_input(path: Path, target: Path) -> None:
    """Copy a file or a folder over another."""
    if path.is_dir():
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(path, target)
    else:
        copy = target.with_name(f"{target.name}.copy")
        shutil.copyfile(path, copy)
        copy.replace(target)


def main(folder: str, seconds: str, per_second: str = "5") -> None:
    """Click for so long, and say what memory was in each quarter."""
    originals = sorted(path.resolve() for path in Path(folder).iterdir())
    with TemporaryDirectory() as name:
        place = Path(name) / "inputs"
        place.mkdir()
        paths = [place / path.name for path in originals]
        for path, copy in zip(originals, paths, strict=True):
            copy_input(path, copy)
        with view(paths, Path(name) / "cache") as viewer:
            groups = group_paths([str(path) for path in paths], "")
            soak = Soak(viewer, groups, Path(folder).resolve(), float(per_second))
            soak.run(float(seconds))
        refusals: Counter[str] = sum((one.refusals for one in soak.inputs), Counter())
    for reason, n in refusals.most_common():
        sys.stdout.write(f"{n:6d} x {reason[:200]}\n")
    levels = [level / 1e6 for level in soak.levels]
    quarter = max(1, len(levels) // 4)
    for k in range(4):
        part = levels[k * quarter : (k + 1) * quarter if k < 3 else None] or levels[-1:]
        sys.stdout.write(f"quarter {k + 1}: {sum(part) / len(part):.1f} MB on average, {max(part):.1f} MB at most\n")


if __name__ == "__main__":
    gc.collect()
    main(*sys.argv[1:])
