"""`convert` with a selection: the part that is written is the part that views and exports show of the whole."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.cli.commands import Capture, rows, run, said
from tests.formats.samples import CORPUS

MPI4 = CORPUS / "hpctoolkit" / "release" / "mpi4.d"
PRERELEASE = CORPUS / "hpctoolkit" / "prerelease" / "mpi4.d"
LEGACY = CORPUS / "hpctoolkit" / "legacy" / "inlined22.d"
METRIC = "CPUTIME (sec)"


def converted(capsys: Capture, tmp_path: Path, source: Path, *options: str) -> Path:
    run(capsys, "convert", source, tmp_path / "part.d", "--to", "hpctoolkit-release", *options)
    run(capsys, "check", tmp_path / "part.d")
    return tmp_path / "part.d"


def costs(capsys: Capture, path: Path, *options: str) -> Counter[tuple[str, float, float]]:
    table = rows(capsys, "top", path, "--limit", "all", *options)
    return Counter((row["name"], round(row["exclusive"], 9), round(row["inclusive"], 9)) for row in table)


@pytest.mark.parametrize("options", [("--rank", "1"), ("--rank", "0-1,3", "--thread", "0"), ("--thread", "1-2")])
@pytest.mark.parametrize("source", [MPI4, PRERELEASE], ids=["release", "prerelease"])
def test_ranks_and_threads(source: Path, options: tuple[str, ...], capsys: Capture, tmp_path: Path) -> None:
    part = converted(capsys, tmp_path, source, *options)
    if source == MPI4:  # conversion from the other generation gives some contexts other names
        assert costs(capsys, part) == costs(capsys, source, *options)
    have, want = (
        sum(cost for _, cost, _ in found.elements()) for found in (costs(capsys, part), costs(capsys, source, *options))
    )
    assert have == pytest.approx(want)
    whole, cut = (
        Counter(
            (p["rank"], p["thread"])
            for p in rows(capsys, "export", path, "--table", "profiles")
            if p["kind"] != "summary"
        )
        for path in (source, part)
    )
    assert cut
    assert cut.items() <= whole.items()
    contexts = [{c["source_id"] for c in rows(capsys, "export", p, "--table", "contexts")} for p in (part, source)]
    assert len(contexts[0]) < len(contexts[1])


def test_contexts_can_be_kept(capsys: Capture, tmp_path: Path) -> None:
    part = converted(capsys, tmp_path, MPI4, "--rank", "1", "--keep-contexts")
    have, want = (
        sorted(
            (c["kind"], c["path"]) for c in rows(capsys, "export", p, "--table", "contexts") if c["kind"] != "elided"
        )
        for p in (part, MPI4)
    )
    assert have == want


def samples(capsys: Capture, path: Path) -> dict[tuple[Any, Any], list[tuple[int, Any]]]:
    profiles = {p["profile"]: p for p in rows(capsys, "export", path, "--table", "profiles")}
    found: dict[tuple[Any, Any], list[tuple[int, Any]]] = {}
    names = {c["context"]: (c["kind"], c["path"]) for c in rows(capsys, "export", path, "--table", "contexts")}
    for row in rows(capsys, "export", path, "--table", "samples"):
        key = profiles[row["profile"]]["rank"], profiles[row["profile"]]["thread"]
        found.setdefault(key, []).append((row["time_ns"], names.get(row["context"])))
    return found


@pytest.mark.parametrize("window", ["25%:50%", "800ms:1.6s", "{start}:{end}", "@{first}:@{last}"])
def test_a_window(window: str, capsys: Capture, tmp_path: Path) -> None:
    whole = samples(capsys, MPI4)
    begin = min(line[0][0] for line in whole.values())
    length = max(line[-1][0] for line in whole.values()) - begin
    first, last = begin + length // 4, begin + length // 2
    if window == "800ms:1.6s":
        first, last = begin + 800_000_000, begin + 1_600_000_000
    text = window.format(start=first - begin, end=last - begin, first=first, last=last)
    part = samples(capsys, converted(capsys, tmp_path, MPI4, "--window", text))
    for key, line in whole.items():
        inside = [sample for sample in line if first <= sample[0] < last]
        before = [sample for sample in line if sample[0] < first]
        if before and not (inside and inside[0][0] == first):
            inside.insert(0, (first, before[-1][1]))
        assert part.get(key, []) == inside, key
    assert rows(capsys, "export", tmp_path / "part.d", "--table", "values")  # values are of the whole run


def test_no_traces(capsys: Capture, tmp_path: Path) -> None:
    part = converted(capsys, tmp_path, MPI4, "--no-traces")
    assert not (part / "trace.db").exists()
    assert costs(capsys, part) == costs(capsys, MPI4)


@pytest.mark.parametrize("names", [("-m", "PAPI"), ("-m", "PAPI_TOT_CYC,CPUTIME"), ("-m", "PAPI", "-m", METRIC)])
def test_metrics(names: tuple[str, ...], capsys: Capture, tmp_path: Path) -> None:
    part = tmp_path / "part.d"
    run(capsys, "convert", LEGACY, part, "--to", "hpctoolkit-release", *names)
    wanted = {"PAPI_TOT_CYC"} if len(names) == 2 and "," not in names[1] else {"PAPI_TOT_CYC", METRIC}
    assert {m["name"] for m in rows(capsys, "export", part, "--table", "metrics")} == wanted


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--rank", "9"), "no profile has rank 9 (there are 0 to 3)"),
        (("-m", "CPUTME"), "did you mean CPUTIME (sec)?"),
        (("-m", "CPUTIME,x"), "there is no metric 'x'"),
        (("--window", "99s:"), "is empty; the traces last"),
        (("--window", "20%:10%"), "is empty"),
        (("--window", "10"), "is not a window like"),
        (("--window", "a:b"), "is not a window like"),
        (("--window", "1:2", "--no-traces"), "not allowed with"),
    ],
)
def test_wrong_selections(options: tuple[str, ...], says: str, capsys: Capture, tmp_path: Path) -> None:
    target = tmp_path / "out.d"
    assert says in said(capsys, "convert", MPI4, target, "--to", "hpctoolkit-release", *options, code=2)
    assert not target.exists()


def test_a_window_needs_traces(capsys: Capture, tmp_path: Path) -> None:
    part = converted(capsys, tmp_path, MPI4, "--no-traces")
    words = ("convert", part, tmp_path / "again.d", "--to", "hpctoolkit-release", "--window", "1:2")
    assert "has no traces" in said(capsys, *words, code=2)


def test_it_says_what_is_left(capsys: Capture, tmp_path: Path) -> None:
    from callgrove.cli.main import main

    capsys.readouterr()
    assert main(["convert", str(MPI4), str(tmp_path / "p"), "--to", "hpctoolkit-release", "--rank", "1"]) == 0
    assert "selected 4 of 16 profiles" in capsys.readouterr().err
