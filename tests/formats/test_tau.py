"""Profiles of TAU: arithmetic on the lines, call paths counted once, several metrics, and what is broken."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from callgrove.binary.files import Source
from callgrove.formats.interface import Dumps, Grade
from callgrove.formats.registry import detect, open_path
from callgrove.model.experiment import Experiment
from callgrove.model.metrics import Aggregation, Scope
from tests.cli.commands import Capture, run, said
from tests.formats.damage import answers, chance

META = "<metadata><attribute><name>CPU Cores</name><value>16 &amp; 2</value></attribute>"
META += "<attribute><name>Hostname</name><value>secret</value></attribute></metadata>"
LINES = """\
5 templated_functions_MULTI_TIME
# Name Calls Subrs Excl Incl ProfileCalls # {meta}
"main [{{m.c}} {{12,1}}-{{20,2}}]" 1 2 10 100 0 GROUP="TAU_DEFAULT"
"f()  " 3 0 60 60 0 GROUP="TAU_USER"
"main [{{m.c}} {{12,1}}-{{20,2}}] => f()  " 3 0 60 60 0 GROUP="TAU_CALLPATH|TAU_USER"
"g \\"x\\"" 1 0 30 30 0 GROUP="TAU_USER"
"main [{{m.c}} {{12,1}}-{{20,2}}]  =>  g \\"x\\"" 1 0 30 30 0 GROUP="TAU_CALLPATH|TAU_USER"
0 aggregates
2 userevents
# eventname numevents max min mean sumsqr
"Message size" 2 8 4 6 80
"Heap : main [{{m.c}} {{12,1}}-{{20,2}}] => f()" 5 9 1 3 99
"""
TEXT = LINES.format(meta=META)


def read(path: Path) -> Experiment:
    opened = open_path(path)
    assert isinstance(opened, Experiment)
    return opened


def write(folder: Path, text: str = TEXT, name: str = "profile.3.0.1") -> Path:
    folder.mkdir(exist_ok=True, parents=True)
    (folder / name).write_text(text)
    return folder / name


def costs(experiment: Experiment, metric: str, scope: Scope = Scope.EXCLUSIVE) -> dict[str, float]:
    values = experiment.totals(metric, scope)
    return {experiment.contexts.path(c): values[c] for c in np.flatnonzero(values).tolist()}


def test_contexts_are_counted_once(tmp_path: Path) -> None:
    experiment = read(write(tmp_path))
    assert experiment.damage == ()
    assert costs(experiment, "TIME") == {"main": 10, "main->f()": 60, 'main->g \\"x\\"': 30}
    assert costs(experiment, "TIME", Scope.INCLUSIVE) == {"main": 100, "main->f()": 60, 'main->g \\"x\\"': 30}
    assert costs(experiment, "calls") == {"main": 1, "main->f()": 3, 'main->g \\"x\\"': 1}
    assert experiment.metrics.first("TIME").unit == "us"
    regions = experiment.contexts.regions
    assert (regions.files.paths, regions.line[0], regions.end_line[0]) == (("m.c",), 12, 20)
    numbers = [(kind, logical) for kind, _, logical, _ in experiment.profiles.identifiers.rows(0)]
    assert numbers == [(2, 3), (8, 0), (3, 1)]


def test_events_stand_where_their_name_says(tmp_path: Path) -> None:
    experiment = read(write(tmp_path))
    assert costs(experiment, "Message size count") == {"main": 2}
    assert costs(experiment, "Heap count") == {"main->f()": 5}
    rules = {m.name: m.aggregation for m in experiment.metrics if m.name.startswith("Heap")}
    assert rules == {
        "Heap count": Aggregation.SUM,
        "Heap max": Aggregation.MAXIMUM,
        "Heap min": Aggregation.MINIMUM,
        "Heap mean": Aggregation.NONE,
    }


def test_metadata_without_hosts(tmp_path: Path) -> None:
    experiment = read(write(tmp_path))
    assert experiment.attributes["CPU Cores"] == "16 & 2"
    assert "secret" not in repr(experiment.attributes)
    hostile = TEXT.replace("<metadata>", '<metadata><!ENTITY a "b">')
    assert "declares entities" in str(read(write(tmp_path, hostile)).damage[0].text)


def test_several_metrics(tmp_path: Path) -> None:
    for metric, factor in (("TIME", 1), ("PAPI_TOT_CYC", 1000)):
        text = TEXT.replace("_MULTI_TIME", f"_MULTI_{metric}").replace(" 60 60 ", f" {60 * factor} {60 * factor} ")
        for rank in range(2):
            write(tmp_path / f"MULTI__{metric}", text, f"profile.{rank}.0.0")
    assert detect(Source.of(tmp_path))[1].grade == Grade.EXACT
    experiment = read(tmp_path)
    assert len(experiment.profiles) == 2
    assert costs(experiment, "PAPI_TOT_CYC")["main->f()"] == 120_000
    assert costs(experiment, "TIME")["main->f()"] == 120
    assert costs(experiment, "calls")["main->f()"] == 6
    assert experiment.metrics.first("PAPI_TOT_CYC").unit == ""


def test_flat_profiles_keep_their_total(tmp_path: Path) -> None:
    text = "\n".join(line for line in TEXT.splitlines() if "CALLPATH" not in line and " : " not in line)
    experiment = read(write(tmp_path, text.replace("5 templ", "3 templ")))
    assert experiment.root_total("TIME") == 100
    assert costs(experiment, "TIME (inclusive)", Scope.INCLUSIVE) == {"main": 100, "f()": 60, 'g \\"x\\"': 30}
    assert experiment.root_total("TIME (inclusive)") == 100
    assert "inclusive costs" in str(experiment.warnings[-1].text)


def test_inclusive_costs_of_flat_profiles_are_those_of_the_slowest_thread(tmp_path: Path) -> None:
    for rank, cost in enumerate((70, 90)):
        write(tmp_path, entries(f"main|10 {cost + 10}|D", f"f|{cost} {cost}|D"), f"profile.{rank}.0.0")
    experiment = read(tmp_path)
    assert experiment.default_metric == "TIME"
    assert costs(experiment, "TIME") == {"main": 20, "f": 160}
    assert costs(experiment, "TIME (inclusive)", Scope.INCLUSIVE) == {"main": 100, "f": 90}


def entries(*lines: str) -> str:
    """Return the text of a file with these functions, each given as name, costs and group."""
    text = "".join(
        f'"{name}" 1 0 {cost} 0 GROUP="{group}"\n' for name, cost, group in (line.split("|") for line in lines)
    )
    return (
        f"{len(lines)} templated_functions_MULTI_TIME\n# Name Calls Subrs Excl Incl ProfileCalls\n{text}0 aggregates\n"
    )


def test_paths_that_begin_in_the_middle(tmp_path: Path) -> None:
    """TAU records two functions of a path unless told otherwise: f calls g, wherever f was called from."""
    flat = ["main|10 100|D", "f|60 90|D", "g|30 30|D"]
    paths = ["main => f|60 90|TAU_CALLPATH", "f => g|30 30|TAU_CALLPATH"]
    experiment = read(write(tmp_path, entries(*flat, *paths)))
    assert costs(experiment, "TIME") == {"main": 10, "main->f": 60, "main->f->g": 30}
    assert costs(experiment, "TIME", Scope.INCLUSIVE) == {"main": 100, "main->f": 90, "main->f->g": 30}
    assert experiment.warnings == ()


def test_paths_with_several_callers(tmp_path: Path) -> None:
    """Nobody knows which f called g; inclusive costs would count g twice."""
    paths = ["main => f|20 50|TAU_CALLPATH", "main => e|0 40|TAU_CALLPATH", "e => f|40 40|TAU_CALLPATH"]
    text = entries("main|10 100|D", "e|0 40|D", "f|60 90|D", "g|30 30|D", *paths, "f => g|30 30|TAU_CALLPATH")
    experiment = read(write(tmp_path, text))
    assert costs(experiment, "TIME") == {"main": 10, "main->f": 20, "main->e->f": 40, "f->g": 30}
    assert experiment.root_total("TIME") == 100
    assert "several callers" in str(experiment.warnings[-1].text)


def test_paths_that_go_in_circles(tmp_path: Path) -> None:
    paths = ["a => b|5 5|TAU_CALLPATH", "b => a|7 7|TAU_CALLPATH", "c => c|1 1|TAU_CALLPATH"]
    experiment = read(write(tmp_path, entries("a|7 7|D", "b|5 5|D", "c|1 1|D", *paths)))
    assert experiment.root_total("TIME") == 13


def test_throttled_functions_and_parameters(tmp_path: Path) -> None:
    source = "f() [{/a/f.c} {3,0}]"
    lines = f"{source} [THROTTLED]|6 6|D", f"{source} [ <n> = <10> ]|4 4|TAU_PARAM", "g|1 1|D", "g |2 2|D"
    experiment = read(write(tmp_path, entries(*lines)))
    assert costs(experiment, "TIME") == {"f()": 6, "g": 3}
    regions = experiment.contexts.regions
    assert (regions.files.paths, regions.line[0]) == (("/a/f.c",), 3)
    notes = " ".join(str(warning.text) for warning in experiment.warnings)
    assert "1 function was throttled" in notes
    assert "1 entries for values of parameters" in notes
    assert experiment.damage == ()


def test_places_of_openmp(tmp_path: Path) -> None:
    experiment = read(write(tmp_path, entries("for (loop body) [OpenMP location: file:/a b/p.c <28, 31>]|6 6|OpenMP")))
    regions = experiment.contexts.regions
    assert (regions.files.paths, regions.line[0], regions.end_line[0]) == (("/a b/p.c",), 28, 31)
    assert costs(experiment, "TIME") == {"for (loop body)": 6}


@pytest.mark.parametrize(
    "name", ["f [{a} {1} " * 5000 + "x", "f" + " " * 50_000 + "x => y", "[OpenMP location: file:a <" * 2000]
)
def test_names_that_patterns_could_get_lost_in(name: str, tmp_path: Path) -> None:
    lines = [f"{k}{name}|1 1|TAU_CALLPATH" for k in range(20)]
    assert read(write(tmp_path, entries("main|1 21|D", *lines))).root_total("TIME") == 21


def test_events_with_colons_in_their_names(tmp_path: Path) -> None:
    events = '1 userevents\n# eventname\n"data size : group size" 2 8 4 6 80\n'
    experiment = read(write(tmp_path, entries("main|6 6|D") + events))
    assert costs(experiment, "data size : group size count") == {"main": 2}
    assert len(experiment.contexts) == 1


def test_what_is_broken_is_counted(tmp_path: Path, capsys: Capture) -> None:
    path = write(tmp_path, TEXT.replace('"f()  " 3', '"f()  " x').replace("0 aggregates", "nonsense"))
    text = run(capsys, "check", path, code=3)
    assert "left out: 2 lines" in text
    assert "left out: 1 functions of 5" in text
    write(tmp_path, "3 templated_functions_MULTI_TIME\n# Name\n", "profile.0.0.0")
    assert "there is no function" in said(capsys, "info", tmp_path / "profile.0.0.0", code=3)


def test_sums_of_lines(shared: Path) -> None:
    """Exclusive cost of all contexts is the inclusive cost of the roots, and what the lines say."""
    folder = shared / "data" / "public" / "tau" / "cpi-mpi"
    experiment = read(folder)
    total = 0.0
    for file in sorted(folder.iterdir()):
        rows = re.findall(r'^"(.*?)" \S+ \S+ (\S+) (\S+) \S+ GROUP="([^"]*)"', file.read_text(), re.MULTILINE)
        total += sum(float(exclusive) for _, exclusive, _, group in rows if "CALLPATH" in group)
        total += sum(float(exclusive) for name, exclusive, _, _ in rows if name == ".TAU application")
    assert total == 214_047
    assert experiment.root_total("TIME") == sum(costs(experiment, "TIME").values()) == total


def test_damage(tmp_path: Path) -> None:
    data, rng = TEXT.encode(), chance("tau")
    for k in range(12):
        broken = bytearray(data[: rng.randrange(len(data))] if k % 2 else data)
        for _ in range(0 if k % 2 else 8):
            broken[rng.randrange(len(broken))] ^= 1 << rng.randrange(8)
        (tmp_path / "data").write_bytes(broken)
        answers(tmp_path / "data", f"case {k}", ("info",), ("check",), ("export", "--table", "values"))


def test_dump(tmp_path: Path) -> None:
    path = write(tmp_path)
    format_ = detect(Source.of(path))[0]
    assert isinstance(format_, Dumps)
    assert [field.value for field in format_.dump(Source.of(path))] == [line.rstrip() for line in TEXT.splitlines()]


@pytest.mark.parametrize("text", ["templated_functions\n", "x templated_functions\n", "3 functions\n"])
def test_other_texts(text: str, tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "data").write_text(text)
    said(capsys, "info", tmp_path / "data", code=3)
