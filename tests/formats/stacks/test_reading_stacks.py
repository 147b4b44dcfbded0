"""Folded stacks and samples of perf, read: by hand, and against stackcollapse-perf.pl, whose output lies beside."""

from __future__ import annotations

import gzip
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from callgrove.binary.files import Source
from callgrove.cli.main import main
from callgrove.errors import InputError
from callgrove.formats import text_profiles
from callgrove.formats.interface import Dumps, Grade, ReadOptions
from callgrove.formats.registry import detect, load, open_path
from callgrove.formats.stacks.perf_script import parse_frame, parse_header
from callgrove.model.contexts import ContextKind
from callgrove.model.experiment import Experiment, Severity
from callgrove.model.metrics import Scope
from tests.cli.commands import Capture, notes, run, said
from tests.formats.damage import scratch_folder

Stacks = dict[tuple[str, ...], float]


def read(path: Path, format_name: str = "") -> Experiment:
    opened = open_path(path, format_name)
    assert isinstance(opened, Experiment)
    return opened


def read_text(text: str, folder: Path, format_name: str = "") -> Experiment:
    path = folder / "data"
    path.write_bytes(text.encode())
    return read(path, format_name)


def stacks(experiment: Experiment, metric: str, drop: int = 0) -> Stacks:
    """Exclusive costs by the names of functions, without the first `drop` of them."""
    tree, costs, out = experiment.contexts, experiment.totals(metric, Scope.EXCLUSIVE), Counter[tuple[str, ...]]()
    for context in np.flatnonzero(costs).tolist():
        names, above = [], context
        while above >= 0:
            names.append(tree.regions.strings[tree.regions.name[tree.region[above]]])
            above = int(tree.parent[above])
        out[tuple(names[::-1][drop:])] += costs[context]
    return dict(out)


# -- folded ----------------------------------------------------------------------------------------------------------


def test_equal_stacks_add_up_and_frames_keep_their_blanks(tmp_path: Path) -> None:
    text = "# by hand\na;operator new(unsigned long) 7\r\n\n  a;b 2  \na 3\na;b 5\nnaïve;ζ 1\n"
    experiment = read_text(text, tmp_path)
    assert stacks(experiment, "samples") == {
        ("a", "operator new(unsigned long)"): 7,
        ("a", "b"): 7,
        ("a",): 3,
        ("naïve", "ζ"): 1,
    }
    assert experiment.totals("samples", Scope.EXCLUSIVE).dtype.kind == "i"
    assert experiment.warnings == ()


def test_decimals_and_large_numbers(tmp_path: Path) -> None:
    text = "a;b 1.5\na;c 2\na;d .25\na;e 1e3\n"
    assert sum(stacks(read_text(text, tmp_path), "samples").values()) == 1003.75
    huge = f"a;b {2**62}\na;b {2**62}\na;b 7\n"
    assert stacks(read_text(huge, tmp_path), "samples")["a", "b"] == float(2**63)
    assert stacks(read_text(f"a;b {2**53 + 1}\n", tmp_path), "samples")["a", "b"] == 2**53 + 1


def test_two_numbers_on_every_line_are_two_metrics(tmp_path: Path) -> None:
    text = "a;b 3 5\na;b 3 7\na;c 1 0\n"
    both = read_text(text, tmp_path)
    assert both.metrics.quantities == ("samples", "samples 2")
    assert stacks(both, "samples") == {("a", "b"): 6, ("a", "c"): 1}
    assert stacks(both, "samples 2") == {("a", "b"): 12}
    one = read_text(text + "a;d 4\n", tmp_path)
    assert one.metrics.quantities == ("samples",)
    assert stacks(one, "samples") == {("a", "b 3"): 12, ("a", "d"): 4}


def test_suffixes_become_roles_and_stay_in_names(tmp_path: Path) -> None:
    experiment = read_text("a;read_[k] 1\na;f_[i] 1\na;g_[j] 1\n", tmp_path)
    regions = experiment.contexts.regions
    roles = {regions.strings[n]: regions.strings[r] for n, r in zip(regions.name, regions.role, strict=True) if r >= 0}
    assert roles == {"read_[k]": "kernel", "f_[i]": "inlined", "g_[j]": "jit"}
    assert run_folded(experiment, tmp_path) == "a;read_[k] 1\na;f_[i] 1\na;g_[j] 1\n"


def test_frames_without_a_name_stay_apart_from_each_other(tmp_path: Path) -> None:
    experiment = read_text("a;;b 1\n;;a 2\na;; 4\n", tmp_path)
    tree = experiment.contexts
    assert tree.parent.tolist() == [-1, 0, 1, 1, -1, 4, 5]
    assert [experiment.contexts.regions.name[region] >= 0 for region in tree.region.tolist()] == [
        *(True, False, True, False),
        *(False, False, True),
    ]
    assert experiment.totals("samples", Scope.EXCLUSIVE).tolist() == [0, 0, 1, 4, 0, 0, 2]


def run_folded(experiment: Experiment, folder: Path) -> str:
    from callgrove import write

    write(experiment, folder / "o.folded", overwrite=True)
    return (folder / "o.folded").read_text()


def test_a_line_without_a_number_is_damage(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "x.folded"
    path.write_text("a;b 1\n" * 9000 + "nothing here\na;c inf\na;c 1_0\n")
    experiment = read(path)
    assert stacks(experiment, "samples") == {("a", "b"): 9000}
    assert [w.severity for w in experiment.damage] == [Severity.DAMAGE]
    assert "left out: 3 lines that do not end in a blank and a number, the first is 'nothing here'" in str(
        experiment.damage[0].text
    )
    assert "left out: 3 lines" in notes(capsys, "top", path)
    assert main(["top", str(path), "--strict"]) == 3
    assert "left out: 3 lines" in run(capsys, "check", path, code=3)


@pytest.mark.parametrize(
    "text", ["The answer is 42\nChapter 7\n", "a;b\n", "a;b x\n", "", "# only a comment; 3\n", "12\n13\n", "a;b\0 1\n"]
)
def test_other_texts_are_not_folded(text: str, tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "data").write_text(text)
    assert load("folded").match(Source.of(tmp_path / "data")) is None
    said(capsys, "info", tmp_path / "data", code=3)


@pytest.mark.parametrize("name", ["flat.folded", "flat.folded.gz"])
def test_stacks_of_one_frame_are_known_by_the_name_of_the_file(name: str, tmp_path: Path) -> None:
    """Nothing was called by another: what `convert` writes of a profile without call paths opens again."""
    text = b"int main(int, char **) C 132\nMPI_Init() 2093\n"
    (tmp_path / name).write_bytes(gzip.compress(text) if name.endswith(".gz") else text)
    found = open_path(tmp_path / name)
    assert isinstance(found, Experiment)
    assert found.root_total("samples") == 132 + 2093
    (tmp_path / "notes.folded").write_text("The answer is 42\nthat is all\n")
    assert load("folded").match(Source.of(tmp_path / "notes.folded")) is None


def test_folded_is_the_weakest_claim(tmp_path: Path) -> None:
    """Every other format that knows such a file is surer; names in braces are not JSON."""
    (tmp_path / "data").write_text("{main};load 3\n")
    chosen, match = detect(Source.of(tmp_path / "data"))
    assert (chosen.name, match.grade) == ("folded", Grade.WEAK)


def test_nothing_to_read_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no line holds a stack and a number"):
        read_text("words\n", tmp_path, "folded")


names = st.text(st.characters(blacklist_categories=("Cs", "Cc"), blacklist_characters=";#\x85\u2028\u2029"), min_size=1)
frames = names.map(str.strip).filter(lambda name: name and not name[-1:].isdigit())


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.lists(frames, min_size=1, max_size=5), st.integers(1, 10**6)), min_size=1, max_size=20))
def test_sums_of_lines(lines: list[tuple[list[str], int]]) -> None:
    """What is read is what the lines add up to, however they are cut into blocks."""
    expected: Counter[tuple[str, ...]] = Counter()
    for stack, n in lines:
        expected[tuple(stack)] += n
    text = "".join(f"{';'.join(stack)} {n}\n" for stack, n in lines)
    with scratch_folder() as folder:
        assert stacks(read_text(text, folder, "folded"), "samples") == dict(expected)


def test_what_is_written_reads_back_equal(tmp_path: Path) -> None:
    from callgrove.examples import example

    text = run_folded(example(), tmp_path)
    (tmp_path / "o.folded").rename(tmp_path / "first")
    assert run_folded(read(tmp_path / "first"), tmp_path) == text


def test_blocks_of_lines_are_joined(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "".join(f"a;b{k % 7} {k}\n" for k in range(200))
    whole = stacks(read_text(text, tmp_path), "samples")
    defaults = text_profiles.text_blocks.__defaults__
    assert defaults is not None
    monkeypatch.setattr(text_profiles.text_blocks, "__defaults__", (defaults[0], 13))
    assert stacks(read_text(text, tmp_path), "samples") == whole


# -- perf script -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "name", "module", "inlined"),
    [
        ("\t 401136 leaf+0x6 (/opt/app/app)", "leaf", "/opt/app/app", False),
        ("\t 4011f0 operator new(unsigned long)+0x4 (inlined)", "operator new(unsigned long)", "", True),
        ("\tffffffff81000000 [unknown] ([kernel.kallsyms])", "[unknown]", "[kernel.kallsyms]", False),
        ("\t 401190 [unknown] (/opt/app/app (deleted))", "[unknown]", "/opt/app/app (deleted)", False),
        ("\t 401190 f(int (*)(char))+0x1 (/a (b)/c)", "f(int (*)(char))", "/a (b)/c", False),
        ("\t 401190 operator new(unsigned long)", "operator new(unsigned long)", "", False),
        ("\t 401190 (/opt/app)", "[unknown]", "/opt/app", False),
        ("\t 401190", "[unknown]", "", False),
    ],
)
def test_frames(line: str, name: str, module: str, inlined: bool) -> None:
    frame = parse_frame(line.encode())
    assert frame is not None
    assert (frame.name, frame.module, frame.is_inlined) == (name, module, inlined)


@pytest.mark.parametrize(
    ("line", "parts"),
    [
        (
            "pth 23269  2387.318081:    1003009 cpu-clock: ",
            ("pth", "23269", None, "2387.318081", "1003009", "cpu-clock"),
        ),
        (
            "a b 1 4711/4712 [003] 12.000000100: 250 cycles:u: ",
            ("a b 1", "4711", "4712", "12.000000100", "250", "cycles:u"),
        ),
        (":-1    -1 [000]  12.000500:  250 cycles: 401 f+0x1 (x)", (":-1", "-1", None, "12.000500", "250", "cycles")),
        (
            "  swapper 0 [000] 1.000001: sched:sched_switch: a=b",
            ("swapper", "0", None, "1.000001", None, "sched:sched_switch"),
        ),
        ("java  3244 cpu-clock: ", ("java", "3244", None, None, None, "cpu-clock")),
        ("a b 1/2 [003] 250 cycles:u:", ("a b", "1", "2", None, "250", "cycles:u")),
        ("   lone 9 cycles:  40 f+0x1 (/app)", ("lone", "9", None, None, None, "cycles")),
    ],
)
def test_headers(line: str, parts: tuple[str | None, ...]) -> None:
    header = parse_header(line.encode())
    assert header is not None
    texts = [text and text.decode() for text in header.groups()]
    assert (*texts[:3], f"{texts[3]}.{texts[4]}" if texts[3] else None, *texts[5:7]) == parts


@pytest.mark.parametrize(
    "line",
    [
        "  a note 12 b:",
        "what 3 is: this",
        "file.c:12",
        "f 12: g",
        "app x/2 [000] 1.000000: 1 cycles:",
        "a" + " " * 60_000,
    ],
)
def test_other_lines_begin_no_sample(line: str) -> None:
    assert parse_header(line.encode()) is None


def sample(time: str, *frames: str, thread: str = "7/8", event: str = "10 cycles:u") -> str:
    return f"app {thread} [000] {time}: {event}: \n" + "".join(f"\t  40 {frame}\n" for frame in frames) + "\n"


def test_samples_become_threads_metrics_and_a_trace(tmp_path: Path) -> None:
    text = (
        "# a comment\n#\n"
        + sample("12.000000100", "leaf+0x6 (/app)", "main+0x1 (/app)")
        + sample("12.000002", "leaf+0x9 (/app)", "main+0x1 (/app)", event="page-faults")
        + sample("12.000001", "f+0x1 (inlined)", "main+0x2 (/app)", thread="7/9", event="5 cycles:u")
        + sample("11.5", "main (/app)").replace("11.5:", "11.500000:")
        + "app 9 [000] 13.000000: 1 cycles:u: 40 lone+0x1 (/app)\n"
        + "app 9 [000] 13.000001: 2 cycles:u: 40 lone+0x2 (/app)\n"
    )
    experiment = read_text(text, tmp_path)
    assert experiment.warnings == ()
    assert stacks(experiment, "cycles:u") == {("main", "leaf"): 10, ("main", "f"): 5, ("main",): 10, ("lone",): 3}
    assert stacks(experiment, "page-faults") == {("main", "leaf"): 1}
    assert sum(stacks(experiment, "samples").values()) == 6
    assert experiment.profiles.name == ("app", "app", "app")
    assert [experiment.profiles.identifiers.rows(p)[0][2] for p in range(3)] == [8, 9, 9]
    line = experiment.traces.samples.line(0) if experiment.traces.samples else None
    assert line is not None
    assert line.time_ns.tolist() == [11_500_000_000, 12_000_000_100, 12_000_002_000]
    tree = experiment.contexts
    inlined = np.flatnonzero(tree.kind == ContextKind.INLINED)
    assert tree.regions.modules[tree.regions.module[tree.region[inlined[0]]]] == "/app"


def test_source_lines_belong_to_the_innermost_frame(tmp_path: Path) -> None:
    text = "a 1 1.000000: 5 cycles: \n\t 40 leaf+0x1 (/app)\n  leaf.c:12\n\t 50 main+0x1 (/app)\n  main.c:3\n\n"
    plain = "a 1 1.000000: 7 cycles: \n\t 40 leaf+0x1 (/app)\n\t 50 main+0x1 (/app)\n\n"
    experiment = read_text(text + plain, tmp_path)
    labels = [experiment.contexts.short_label(c) for c in range(len(experiment.contexts))]
    assert labels == ["main", "leaf", "leaf.c:12"]
    assert experiment.totals("cycles", Scope.INCLUSIVE).tolist() == [12, 12, 5]


def test_what_perf_prints_beside_samples_is_a_note(tmp_path: Path) -> None:
    good = sample("1.000000", "f (/app)")
    text = good + "app 7 [000] 1.000000: PERF_RECORD_LOST lost 42\n\n" + good + "\n\n" + good
    experiment = read_text(text, tmp_path)
    assert [w.severity for w in experiment.warnings] == [Severity.NOTE]
    assert stacks(experiment, "samples") == {("f",): 3}


def test_a_last_line_without_its_end_is_read_where_it_is_a_whole_frame(tmp_path: Path) -> None:
    text = "app 7/8 1.000001: 10 cycles:u:\n\t 40 leaf (/opt/app)\n\t 41 main (/opt/app)"
    assert stacks(read_text(text, tmp_path), "cycles:u") == {("main", "leaf"): 10}
    with pytest.raises(InputError, match="no sample"):
        read_text(text[:-3], tmp_path)  # cut in the name of the module
    with pytest.raises(InputError, match="no sample"):
        read_text(text.removesuffix(" (/opt/app)"), tmp_path)


def test_samples_without_a_period_are_counted_and_no_times(tmp_path: Path) -> None:
    experiment = read_text(sample("1.000001", "f (/a)", event="cpu-clock") * 3, tmp_path)
    metric = experiment.metrics.rows[0]
    assert (metric.name, metric.unit) == ("cpu-clock", "")
    assert stacks(experiment, "cpu-clock") == {("f",): 3}


def test_samples_without_times_are_a_profile(tmp_path: Path) -> None:
    """As `perf script -F comm,pid,event,ip,sym,dso` prints them, and perf did before it had times by default."""
    text = (
        "java  3244 cpu-clock: \n\t 40 leaf (/app)\n\t 50 main (/app)\n\n" * 2 + "java 3245 cpu-clock:\n40 f (/app)\n\n"
    )
    experiment = read_text(text, tmp_path)
    assert stacks(experiment, "samples") == {("main", "leaf"): 2, ("f",): 1}
    assert len(experiment.profiles) == 2
    assert (experiment.damage, experiment.traces.n_samples) == ((), 0)
    assert "no times" in str(experiment.warnings[0].text)
    assert detect(Source.of(tmp_path / "data"))[0].name == "perf-script"
    timed = read_text(text + sample("1.000000", "f (/app)"), tmp_path)
    assert "without a time" in str(timed.damage[0].text)
    assert stacks(timed, "samples") == {("main", "leaf"): 2, ("f",): 1}


def test_what_is_broken_is_damage_and_counted(tmp_path: Path) -> None:
    good = sample("1.000000", "g+0x1 (/app)", "f (/app)")
    experiment = read_text(good + "what is this\n\t 40 f (/app)\n\n" + good, tmp_path)
    assert len(experiment.damage) == 1
    assert "left out: 1 blocks" in str(experiment.damage[0].text)
    assert stacks(experiment, "samples") == {("f", "g"): 2}
    cut = read_text(good + good[:-12], tmp_path)
    assert "breaks off" in str(cut.damage[0].text)
    assert stacks(cut, "samples") == {("f", "g"): 1}


def test_folded_and_perf_agree_in_every_path(shared: Path) -> None:
    data = shared / "data" / "own"
    folded = stacks(read(data / "folded" / "pth8.folded"), "samples", drop=1)
    samples = read(data / "perf" / "pth8.script.txt")
    assert stacks(samples, "cpu-clock") == folded
    assert sum(folded.values()) == 712_136_390
    assert (samples.traces.n_samples, len(samples.profiles)) == (710, 8)


def test_blocks_of_samples_are_joined(shared: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = shared / "data" / "own" / "perf" / "pth8.script.txt"
    whole = stacks(read(path), "cpu-clock")
    defaults = text_profiles.text_blocks.__defaults__
    assert defaults is not None
    monkeypatch.setattr(text_profiles.text_blocks, "__defaults__", (defaults[0], 3001))
    assert stacks(read(path), "cpu-clock") == whole


def test_dumps_name_every_line(shared: Path) -> None:
    for name, n in (("perf-variants/variants.script.txt", 5), ("folded/quirks.folded", 10)):
        path = shared / "data" / "own" / name
        format_ = detect(Source.of(path))[0]
        assert isinstance(format_, Dumps)
        fields = list(format_.dump(Source.of(path)))
        data = path.read_bytes()
        for one in fields:
            if one.name in ("stack", "frame", "command"):
                assert str(one.value).encode()[:4] in data[one.offset :].split(b"\n", 1)[0]
        assert sum(one.name in ("thread", "number") for one in fields) == n
        assert format_.read(Source.of(path), ReadOptions()).format == format_.name
