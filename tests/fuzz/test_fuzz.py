"""The fuzzer itself: damage is the same for the same number, children stay within limits, findings become small files
that break the same place, an interrupted run goes on; and what was found is asked again."""

from __future__ import annotations

import os
import random
import signal
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import cast

import numpy as np
import pytest

from tests.formats.damage import run
from tests.fuzz import campaign, findings, flips, server
from tests.fuzz.asking import Answer, Finding, Questions, choose_questions
from tests.fuzz.campaign import Campaign, Count, summarise
from tests.fuzz.cases import Case, break_content, make_input
from tests.fuzz.seeds import Seed, make_seeds, readable_formats
from tests.fuzz.server import Report, ask_apart
from tests.requirements import ROOT
from tests.timing import HANG_SEC

KEPT = sorted((ROOT / "tests" / "corpus" / "fuzz").glob("*.zip"))
NOTHING = Questions("", False, 0, ())
SOUND = Report(Answer("read"), 0.0, 0)


@pytest.fixture(scope="module")
def seeds(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Seed]]:
    return make_seeds(tmp_path_factory.mktemp("seeds"))


@pytest.mark.parametrize("name", readable_formats())
def test_every_format_has_sound_seeds(name: str, seeds: dict[str, list[Seed]]) -> None:
    assert seeds[name]
    for seed in seeds[name]:
        code, _, said = run("check", str(seed.path), "--from", name)
        assert code == 0, said


@pytest.mark.parametrize("name", readable_formats())
def test_damage_follows_from_the_number(name: str, seeds: dict[str, list[Seed]], tmp_path: Path) -> None:
    contents = []
    for turn in range(2):
        folder = tmp_path / f"{turn}"
        made = []
        for number in range(20):
            (folder / f"{number}").mkdir(parents=True)
            path = make_input(Case(name, number), seeds, folder / f"{number}")
            files = [path] if path.is_file() else sorted(f for f in path.rglob("*") if f.is_file())
            made.append([(file.relative_to(folder), file.read_bytes()) for file in files])
        contents.append(made)
    assert contents[0] == contents[1]
    assert len({str(files) for files in contents[0]}) > 10
    asked = {choose_questions(name, Case(name, number).chance("questions")) for number in range(50)}
    assert len(asked) > 20


def test_seeds_stay_as_they_are(seeds: dict[str, list[Seed]], tmp_path: Path) -> None:
    """Files that are not damaged are links to the seeds: nobody may write into them."""
    [seed, *_] = seeds["hpctoolkit-release"]
    before = [(file, file.read_bytes()) for file in sorted(seed.path.rglob("*")) if file.is_file()]
    for number in range(60):
        (tmp_path / f"{number}").mkdir()
        make_input(Case("hpctoolkit-release", number), seeds, tmp_path / f"{number}")
    assert before == [(file, file.read_bytes()) for file in sorted(seed.path.rglob("*")) if file.is_file()]


@pytest.mark.parametrize(
    "data", [b"", b"\0", b"x", b"SQLite format 3\0", b"PK\x03\x04", b"PAR1", b"<", b"{", b"\x1f\x8b"]
)
def test_mutators_take_anything(data: bytes) -> None:
    for seed in range(200):
        assert isinstance(break_content(data, random.Random(seed)), bytes)
        for name in ("perfetto", "otf2"):
            assert isinstance(break_content(data, random.Random(seed), name), bytes)


def test_a_damaged_name_of_a_table_can_be_damaged_further() -> None:
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as database:
        database.execute("CREATE TABLE a (x)")
        database.execute("CREATE TABLE b (y)")
        database.execute("PRAGMA writable_schema = ON")
        database.execute("UPDATE sqlite_master SET name = CAST(name AS BLOB) WHERE name = 'a'")
        data = database.serialize()
    for seed in range(50):
        assert isinstance(break_content(data, random.Random(seed)), bytes)


# -- the server --------------------------------------------------------------------------------------------------------


def serve(work: server.Work, folder: Path, n: int = 3) -> list[tuple[int, Report]]:
    return list(server._serve(range(n), work, folder))


def test_reports_come_in_order(tmp_path: Path) -> None:
    assert serve(lambda number, _: SOUND, tmp_path) == [(number, SOUND) for number in range(3)]


def test_a_child_that_dies_is_a_finding(tmp_path: Path) -> None:
    def work(number: int, folder: Path) -> Report:
        if number == 1:
            os.kill(os.getpid(), signal.SIGSEGV)
        return SOUND

    [first, (number, second)] = serve(work, tmp_path)
    assert (first, number) == ((0, SOUND), 1)
    assert second.answer.finding is not None
    assert second.answer.finding.kind == "ended by SIGSEGV"


def test_a_silent_child_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "SILENCE_SEC", 0.5)

    def work(number: int, folder: Path) -> Report:
        time.sleep(600)
        return SOUND

    [(_, report)] = serve(work, tmp_path)
    assert report.answer.finding is not None
    assert report.answer.finding.kind == "ended by SIGABRT"


@pytest.mark.parametrize(
    ("defect", "kind"), [("memory", "MemoryError"), ("hang", "Hang"), ("text", "ZeroDivisionError")]
)
def test_defects_are_found(defect: str, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a reader might do wrong, done by one."""
    from callgrove.formats.stacks.folded import FORMAT

    def read(self: object, source: object, options: object) -> object:
        if defect == "memory":
            return np.ones(1 << 27)
        while defect == "hang":
            pass
        return 1 // 0

    monkeypatch.setattr(type(FORMAT), "read", read)
    monkeypatch.setattr(server, "CPU_SEC", 0.2)
    path = tmp_path / "x.folded"
    path.write_text("a;b 1\n")
    (tmp_path / "work").mkdir()
    finding = ask_apart(path, Questions("folded", False, 0, ()), tmp_path / "work").answer.finding
    assert finding is not None
    assert finding.kind == kind


# -- findings ----------------------------------------------------------------------------------------------------------


def test_inputs_become_small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = Finding("KeyError", "a.py:f", "")
    path, sound = tmp_path / "in", tmp_path / "sound"
    for folder, text in ((path, b"x" * 400 + b"BAD" + b"y" * 300), (sound, b"x" * 400 + b"good"), (path, b"")):
        folder.mkdir(exist_ok=True)
        (folder / ("data" if text else "other")).write_bytes(text)
    (path / "other").write_bytes(b"not needed")

    def pretend(path: Path, asked: Questions, scratch: Path) -> Report:
        breaks = b"BAD" in (path / "data").read_bytes() if (path / "data").exists() else False
        return Report(Answer("broken", broken) if breaks else Answer("read"), 0, 0)

    monkeypatch.setattr(findings, "ask_apart", pretend)
    findings.minimise(path, sound, NOTHING, broken.key, tmp_path)
    assert [file.name for file in path.iterdir()] == ["data"]
    assert len((path / "data").read_bytes()) < 30
    for name in ("a.zip", "b.zip"):
        findings.keep(path, NOTHING, broken, tmp_path / name)
    assert (tmp_path / "a.zip").read_bytes() == (tmp_path / "b.zip").read_bytes()
    again, asked = findings.read_kept(tmp_path / "a.zip", tmp_path / "out")
    assert (asked, (again / "data").read_bytes()) == (NOTHING, (path / "data").read_bytes())


@pytest.mark.parametrize("file", KEPT, ids=[file.stem for file in KEPT])
def test_what_was_found_stays_mended(file: Path, tmp_path: Path) -> None:
    path, asked = findings.read_kept(file, tmp_path / "kept")
    (tmp_path / "work").mkdir()
    assert ask_apart(path, asked, tmp_path / "work").answer.finding is None


# -- campaigns ---------------------------------------------------------------------------------------------------------


def test_a_campaign_goes_on(seeds: dict[str, list[Seed]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(campaign, "BATCH", 15)
    monkeypatch.setattr(campaign, "make_seeds", lambda folder: seeds)
    formats = ["folded", "extrap-text"]
    for folder, n in (("at-once", 60), ("twice", 30), ("twice", 60)):
        campaign.run_campaign(tmp_path / folder, 0, n, HANG_SEC, formats)
    states = [Campaign.load(tmp_path / folder, 0).counts for folder in ("at-once", "twice")]
    seen = [{name: (c.cases, c.read, c.damaged, c.refused) for name, c in counts.items()} for counts in states]
    assert seen[0] == seen[1]
    assert {name: counts[0] for name, counts in seen[0].items()} == {"folded": 30, "extrap-text": 30}
    with pytest.raises(SystemExit, match="is of campaign 0"):
        Campaign.load(tmp_path / "twice", 7)


def test_formats_get_evenly_much_time(
    seeds: dict[str, list[Seed]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def answer(cases: list[Case], _seeds: object, _work: object) -> Iterator[tuple[Case, Report]]:
        for case in cases:
            yield case, Report(Answer("read"), 3.0 if case.format == "folded" else 1.0, 0)

    monkeypatch.setattr(campaign, "BATCH", 10)
    monkeypatch.setattr(campaign, "make_seeds", lambda folder: seeds)
    monkeypatch.setattr(campaign, "run_cases", answer)
    state = campaign.run_campaign(tmp_path, 0, 400, HANG_SEC, ["folded", "extrap-text"], "time")
    assert {name: count.cases for name, count in state.counts.items()} == {"folded": 100, "extrap-text": 300}


def test_the_table_has_findings() -> None:
    state = Campaign(counts={"folded": Count()}, total_cpu_sec=2.0)
    state.counts["folded"].add(Report(Answer("broken", Finding("KeyError", "a.py:f", "x")), 0.5, 3 << 20))
    state.findings["KeyError at a.py:f"] = cast(
        "dict[str, object]", {"count": 1, "format": "folded", "case": 4, "text": "x"}
    )
    lines = list(summarise(state))
    assert "| folded | 1 | 0 | 0 | 0 | 1 | 0.5 | 3 | 2 |" in lines
    assert lines[-1] == "1 x folded: KeyError at a.py:f (case 4): x"


# -- flips -------------------------------------------------------------------------------------------------------------


def test_flips_are_judged_by_what_is_said_and_shown(seeds: dict[str, list[Seed]], tmp_path: Path) -> None:
    note, damage, strange = ("note", "x"), ("damage", "y"), ("note", "strange")
    sound = flips.Look((note,), frozenset(), "digest")
    assert flips.judge(sound, sound) == flips.NONE
    assert flips.judge(sound, flips.Look((note,), frozenset(), "other")) == flips.SILENT
    assert flips.judge(sound, flips.Look((damage,), frozenset(), "digest")) == flips.SAID
    assert flips.judge(sound, flips.Look((note, strange), frozenset([strange]), "other")) == flips.BY_NOTES
    assert flips.judge(sound, flips.Look((note, damage, strange), frozenset([strange]), "other")) == flips.SAID
    counts = [flips.count_flips("folded", seeds["folded"], 12, tmp_path) for _ in range(2)]
    assert counts[0] == counts[1]
    assert sum(counts[0].values()) == 12
    assert counts[0][flips.SILENT] > 0
