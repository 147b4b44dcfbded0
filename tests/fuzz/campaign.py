"""Long runs: a folder with their state, which can be interrupted and continued, their findings, and their table."""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path

from tests.fuzz.asking import Finding, choose_questions
from tests.fuzz.cases import Case, make_input
from tests.fuzz.findings import copy_of, keep, minimise, name_of
from tests.fuzz.seeds import Seed, make_seeds
from tests.fuzz.server import Report, ask_apart, cpu_sec, run_cases

__all__ = ["Campaign", "Count", "run_campaign", "scratch_folder", "summarise"]

BATCH = 200
SHARE = {"otf2": 0.05}  # of the cases that others have: its library runs in a process of its own for each input
MEMORY_FOLDER = Path("/dev/shm")


@dataclass
class Count:
    """What was seen of one format."""

    cases: int = 0
    read: int = 0
    damaged: int = 0
    refused: int = 0
    broken: int = 0
    cpu_sec: float = 0.0
    slowest_sec: float = 0.0
    peak_bytes: int = 0

    def add(self, report: Report) -> None:
        self.cases += 1
        outcome = report.answer.outcome
        setattr(self, outcome, getattr(self, outcome) + 1)
        self.cpu_sec += report.cpu_sec
        self.slowest_sec = max(self.slowest_sec, report.cpu_sec)
        self.peak_bytes = max(self.peak_bytes, report.peak_bytes)


@dataclass
class Campaign:
    """The state of a run. `total_cpu_sec` is all that the fuzzer took, making inputs and children included."""

    number: int = 0
    counts: dict[str, Count] = field(default_factory=dict)
    findings: dict[str, dict[str, object]] = field(default_factory=dict)
    total_cpu_sec: float = 0.0

    @property
    def n_cases(self) -> int:
        return sum(count.cases for count in self.counts.values())

    @classmethod
    def load(cls, folder: Path, number: int) -> Campaign:
        file = folder / "state.json"
        if not file.exists():
            return cls(number)
        state = json.loads(file.read_text())
        if state["number"] != number:
            raise SystemExit(f"{file}: is of campaign {state['number']}; name another folder for campaign {number}")
        counts = {name: Count(**count) for name, count in state.pop("counts").items()}
        return cls(**state, counts=counts)

    def save(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "state.new").write_text(json.dumps(asdict(self), indent=1))
        (folder / "state.new").replace(folder / "state.json")


def scratch_folder() -> tempfile.TemporaryDirectory[str]:
    """Return a folder for inputs, in memory where the system has such a place."""
    return tempfile.TemporaryDirectory(prefix="callgrove-fuzz-", dir=MEMORY_FOLDER if MEMORY_FOLDER.is_dir() else None)


def run_campaign(
    folder: Path, number: int, n_cases: int, seconds: float, formats: list[str], even: str = "cases"
) -> Campaign:
    """Go on with a campaign until it has had so many cases, or for so long; the state is saved after every batch.

    Formats get evenly many cases, or evenly much processor time.
    """
    campaign, begin, cpu = Campaign.load(folder, number), time.monotonic(), cpu_sec()
    before = campaign.total_cpu_sec
    with scratch_folder() as name:
        seeds = make_seeds(_subfolder(name, "seeds"))
        work = _subfolder(name, "work")
        while campaign.n_cases < n_cases and time.monotonic() - begin < seconds:
            for case, report in run_cases(_next_batch(campaign, formats, n_cases, even), seeds, work):
                campaign.counts.setdefault(case.format, Count()).add(report)
                if report.answer.finding is not None:
                    _note(campaign, case, report.answer.finding, seeds, folder, Path(name))
            campaign.total_cpu_sec = before + cpu_sec() - cpu
            campaign.save(folder)
    return campaign


def _subfolder(folder: str, name: str) -> Path:
    path = Path(folder) / name
    path.mkdir()
    return path


def _next_batch(campaign: Campaign, formats: list[str], n_cases: int, even: str) -> list[Case]:
    """Return the next cases of the format that has had the fewest for its share, or the least time."""

    def had(name: str) -> float:
        count = campaign.counts.get(name, Count())
        return count.cpu_sec if even == "time" else count.cases / SHARE.get(name, 1.0)

    format_ = min(formats, key=had)
    first = campaign.counts.get(format_, Count()).cases
    size = min(int(BATCH * SHARE.get(format_, 1.0)), n_cases - campaign.n_cases)
    return [Case(format_, first + k, campaign.number) for k in range(size)]


def _note(
    campaign: Campaign, case: Case, finding: Finding, seeds: dict[str, list[Seed]], folder: Path, scratch: Path
) -> None:
    """Count a finding; the first one at its place is asked again by itself, made smaller and kept."""
    known = campaign.findings.setdefault(
        finding.key, {"count": 0, "format": case.format, "case": case.number, "text": finding.text}
    )
    known["count"] = int(str(known["count"])) + 1
    if known["count"] != 1:
        return
    with tempfile.TemporaryDirectory(dir=scratch) as name:
        made = _subfolder(name, "made")
        path = copy_of(make_input(case, seeds, made), _subfolder(name, "copy"))
        asked = choose_questions(case.format, case.chance("questions"))
        again = ask_apart(path, asked, _subfolder(name, "again")).answer.finding
        known["alone"] = again.key if again else "not seen again by itself"
        if again is not None and again.key == finding.key:
            sound = case.chance("damage").choice(seeds[case.format]).path
            minimise(path, sound, asked, finding.key, _subfolder(name, "small"))
        kept = folder / "findings"
        kept.mkdir(parents=True, exist_ok=True)
        keep(path, asked, finding, kept / f"{name_of(case.format, finding)}.zip")


# -- the table ---------------------------------------------------------------------------------------------------------

COLUMNS = ("format", "cases", "read", "damaged", "refused", "findings", "slowest s", "peak MB", "cases per CPU s")


def summarise(campaign: Campaign) -> Iterator[str]:
    """Yield the lines of a table in Markdown: counts by format, then findings."""
    yield f"| {' | '.join(COLUMNS)} |"
    yield "|" + "---|" * len(COLUMNS)
    for name, count in sorted(campaign.counts.items()):
        yield _row(name, count, count.cpu_sec)
    yield _row("all", _sum(campaign), campaign.total_cpu_sec)
    for key, finding in campaign.findings.items():
        yield f"{finding['count']} x {finding['format']}: {key} (case {finding['case']}): {finding['text']}"


def _row(name: str, count: Count, cpu_sec: float) -> str:
    speed = f"{count.cases / cpu_sec:.0f}" if cpu_sec else "-"
    cells = (
        name,
        count.cases,
        count.read,
        count.damaged,
        count.refused,
        count.broken,
        f"{count.slowest_sec:.1f}",
        count.peak_bytes >> 20,
        speed,
    )
    return f"| {' | '.join(map(str, cells))} |"


def _sum(campaign: Campaign) -> Count:
    total = Count()
    for count in campaign.counts.values():
        for name in ("cases", "read", "damaged", "refused", "broken"):
            setattr(total, name, getattr(total, name) + getattr(count, name))
        total.slowest_sec = max(total.slowest_sec, count.slowest_sec)
        total.peak_bytes = max(total.peak_bytes, count.peak_bytes)
    return total
