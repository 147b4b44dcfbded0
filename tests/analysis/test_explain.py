"""Explanations name the cause first, and their numbers are those of the views that they name."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import numpy as np
import pytest

import callgrove
from callgrove.analysis.explain import Explanation, explain, why
from callgrove.analysis.explain.gpus import PARTS, read_devices
from callgrove.analysis.explain.programs import read_program
from callgrove.cli.main import main
from callgrove.errors import UsageError
from callgrove.model.builder import ExperimentBuilder
from callgrove.model.contexts import ContextKind
from callgrove.model.experiment import Experiment
from callgrove.model.metrics import Aggregation, Metric, Scope
from callgrove.model.profiles import ProfileKind
from callgrove.model.runs import Run
from tests.analysis.gates import make_run
from tests.analysis.planted import PAIRS, CpuRun, GpuRun, Pair
from tests.analysis.spread_trees import tree_t
from tests.exhaustive import exhaustive

MOST_MISSED = 2  # of twenty
SENTENCES = range(3, 9)


def names_cause(pair: Pair, explained: Explanation) -> bool:
    first = explained.findings[0] if explained.findings else None
    return first is not None and first.cause == pair.cause and pair.subject in ("", first.subject)


def sentences(explained: Explanation) -> list[str]:
    return explained.table()["sentence"]


# -- planted causes ----------------------------------------------------------------------------------------------------


def test_the_planted_cause_comes_first() -> None:
    explained = {pair.name: (pair, why(*pair.make(seed))) for seed, pair in enumerate(PAIRS)}
    assert len(explained) >= 20
    missed = [name for name, (pair, one) in explained.items() if not names_cause(pair, one)]
    assert len(missed) <= MOST_MISSED, missed
    assert all(len(one.all) in SENTENCES for _, one in explained.values())


@exhaustive
@pytest.mark.parametrize("seed", range(1, 9))
def test_the_planted_cause_comes_first_whatever_the_noise(seed: int) -> None:
    missed = [pair.name for k, pair in enumerate(PAIRS) if not names_cause(pair, why(*pair.make(100 * seed + k)))]
    assert len(missed) <= MOST_MISSED, missed


@pytest.mark.parametrize("run", [GpuRun(), CpuRun()])
def test_the_same_run_again_has_no_cause(run: GpuRun | CpuRun) -> None:
    experiment = run.make(1)
    explained = why(experiment, experiment)
    assert explained.findings == ()
    told = sentences(explained)
    assert "takes as long as" in told[0]
    assert re.fullmatch(r"No (kernel|function) differs; \d+ (kernel|function)s in common were compared\.", told[1])
    assert " in both runs: " in told[2]
    assert len(told) in SENTENCES


def test_a_slower_kernel_in_words() -> None:
    pair = next(pair for pair in PAIRS if pair.name == "kernel launched more often")
    table = why(*pair.make(3)).table()
    assert "softmax takes" in table["sentence"][1]
    assert "done 6 times as often" in table["sentence"][1]
    assert table["command"][1] == "callgrove summary after --section kernels --name softmax"


def test_counts_are_had_and_not_taken() -> None:
    left, right = CpuRun(calls=100).make(1), CpuRun(calls=150).make(2)
    table = why(left, right, "visits").table()
    assert table["sentence"][0].startswith("run.d costs 10% more than run.d: ")
    assert table["sentence"][1] == "solve has 50 more on each rank: 150 instead of 100."
    assert table["command"][1] == "callgrove diff run.d run.d --name solve -m visits"


def test_waiting_is_no_cause_where_one_rank_is_slow() -> None:
    pair = next(pair for pair in PAIRS if pair.name == "one of four ranks is slow")
    left, right = pair.make(1)
    assert left.compare(right, flat=True).table(1)["path"] == ["MPI_Allreduce"], "what grows most only waits"
    first, second = why(left, right).findings[:2]
    assert (first.cause, first.subject, second.cause, second.subject) == (
        "imbalance",
        "rank 3",
        "waiting",
        "MPI_Allreduce",
    )


def test_changes_of_functions_add_up_to_the_change() -> None:
    """All weights of functions, with waiting whole, are the change of the mean rank."""
    left, right = PAIRS[12].make(1)
    before, after = read_program(left), read_program(right)
    assert before.total == pytest.approx(left.root_total("time"))
    assert before.cells.sum() == pytest.approx(before.total)
    finding = why(left, right).findings[0]
    assert finding.number.value == pytest.approx(after.of("assemble").mean() - before.of("assemble").mean())
    assert finding.weight == pytest.approx(finding.number.value / before.mean)


def test_parts_of_devices_add_up_to_the_run() -> None:
    for pair in PAIRS[:12]:
        devices = read_devices(pair.make(1)[1])
        assert devices is not None
        whole = sum(devices.parts[part] for part in PARTS)
        assert np.all(whole == devices.wall_ns)


@pytest.mark.parametrize("run", [GpuRun(), CpuRun()])
def test_what_differs_least_is_said_with_its_amount(run: GpuRun | CpuRun) -> None:
    left, right = run.make(1), run.make(2)  # noise of 1%
    explained = why(left, right)
    rest = next((one for one in explained.background if one.cause == "same"), None)
    assert len(explained.all) in SENTENCES
    if isinstance(run, CpuRun):
        assert rest is not None
        before, after = read_program(left), read_program(right)
        changes = {name: abs(after.of(name).mean() - before.of(name).mean()) for name in before.names}
        said = {one.subject for one in explained.findings}
        assert rest.number.value == pytest.approx(max(changes[name] for name in changes if name not in said))


# -- one run -----------------------------------------------------------------------------------------------------------


def test_a_run_in_words() -> None:
    """The tree of the specification: kernel 116 s of 224 s; work by rank 48 38 40 50."""
    explained = explain(tree_t())
    assert sentences(explained) == [
        "time is 224 s in all, on 4 ranks with 56 s each on average.",
        "kernel has 52% of it, 116 s in all.",
        "The hot path is main -> solve -> kernel, with 54% of the cost at its end.",
        "21% of it goes into communication and synchronisation, most of that in MPI_Allreduce.",
        "Work is uneven: rank 3 has 6 s more of it than the mean rank, 11% of the time of a rank, most of that in "
        "kernel.",
    ]


@pytest.mark.parametrize("costs", [(40, 35, 25), (30, 30, 30)])
def test_the_costliest_function_is_said_before_those_that_follow(costs: tuple[int, ...]) -> None:
    """Together the others have more than the first one."""
    said = sentences(explain(make_run(dict(zip("abc", costs, strict=True)))))
    first = next(k for k, text in enumerate(said) if text.startswith("a has "))
    assert said[first + 1].startswith("Then come b with ")


def test_devices_in_words() -> None:
    experiment = GpuRun(n_ranks=1, pause_us=300).make(1)
    table = experiment.explain().table()
    devices = read_devices(experiment)
    assert devices is not None
    assert table["cause"][:2] == ["total", "kernel"]
    assert "Gaps between operations take" in " ".join(table["sentence"])
    idle = table["number"][table["cause"].index("gap")]
    rows = experiment.summary().where("section = 'gaps'")
    assert idle == sum(rows["total_ns"]) == devices.parts["idle"].sum()


def test_what_will_not_scale() -> None:
    builder = ExperimentBuilder("made", path="runs")
    names = ("kernel", "MPI_Allreduce")
    contexts = [builder.add_context(-1, ContextKind.FUNCTION, builder.region(ContextKind.FUNCTION, n)) for n in names]
    row = builder.add_metric(Metric("time", Scope.EXCLUSIVE, "sec"))
    for number, p in enumerate((2, 4, 8)):
        builder.add_run(Run(f"p{p}", {"p": float(p)}))
        for rank in range(p):
            profile = builder.add_profile(ProfileKind.THREAD, [(2, rank, rank, 3)], run=number)
            builder.add_values(profile, contexts, row, [8.0, 0.5 * p])
    finding = next(one for one in explain(builder.build()).findings if one.cause == "scaling")
    assert finding.subject == "MPI_Allreduce"
    assert "from p=2 to p=8" in str(finding.sentence[0])
    assert finding.weight == pytest.approx((4 - 1) / 12)


SAMPLES = (
    "own/chrome/torch_ddp",
    "own/folded/pth8.folded",
    "own/hpctoolkit-release/mpi4.d",
    "own/rocpd/small",
    "public/caliper/example-profile.cali",
    "public/extrap/cubeset/allowed_formats/mm.x1y1z1/profile1.cubex",
    "public/extrap/text/strong_scaling/two_parameter_1.txt",
    "public/extrap/text/two_parameter_1.txt",
    "public/extrap/text/one_parameter_1.txt",
    "public/extrap/text/three_parameter_1.txt",
    "public/pycubexr/call_tree_test/call_tree_test.cubex",
    "public/tau/cpi-mpi",
)


@pytest.mark.parametrize("sample", SAMPLES)
def test_three_to_eight_sentences_of_every_sample(shared: Path, sample: str) -> None:
    opened = callgrove.open(shared / "data" / sample)
    explained = [opened.explain(), *([why(opened, opened)] if isinstance(opened, Experiment) else [])]
    for one in explained:
        told = sentences(one)
        assert len(told) in SENTENCES
        assert len(set(told)) == len(told)


def test_a_single_function_is_told_with_what_is_not_known() -> None:
    assert sentences(explain(_alone("solve"))) == [
        "time is 1 s in all.",
        "solve has 100% of it, 1 s in all.",
        "No other function has any of it.",
    ]


def test_more_ranks_are_said() -> None:
    left, right = CpuRun(n_ranks=4).make(1), CpuRun(n_ranks=8).make(2)
    explained = why(left, right)
    assert "costs" in sentences(explained)[0]
    assert any("8 ranks instead of 4: an efficiency of 50%" in text for text in sentences(explained))


def test_what_cannot_be_explained_is_refused() -> None:
    builder = ExperimentBuilder("made", path="made")
    context = builder.add_context(-1, ContextKind.FUNCTION, builder.region(ContextKind.FUNCTION, "main"))
    row = builder.add_metric(Metric("peak", Scope.EXCLUSIVE, "bytes", aggregation=Aggregation.MAXIMUM))
    builder.add_values(builder.add_profile(ProfileKind.THREAD), [context], row, [1.0])
    with pytest.raises(UsageError, match="peak does not add up"):
        builder.build().explain()
    with pytest.raises(UsageError, match="no functions in common"):
        why(CpuRun().make(1), _alone("other"))
    with pytest.raises(UsageError, match="no time that could be explained"):
        explain(_alone("idle", 0.0))


def _alone(name: str, seconds: float = 1.0) -> Experiment:
    builder = ExperimentBuilder("made", path=name)
    context = builder.add_context(-1, ContextKind.FUNCTION, builder.region(ContextKind.FUNCTION, name))
    row = builder.add_metric(Metric("time", Scope.EXCLUSIVE, "sec"))
    builder.add_values(builder.add_profile(ProfileKind.THREAD), [context], row, [seconds])
    return builder.build()


def opened(path: str) -> Experiment:
    experiment = callgrove.open(path)
    assert isinstance(experiment, Experiment)
    return experiment


# -- the command line --------------------------------------------------------------------------------------------------


@pytest.fixture
def files(tmp_path: Path) -> tuple[str, str]:
    """A lost overlap, in databases of rocprofv3's format."""
    pair = next(pair for pair in PAIRS if pair.name == "a lost overlap")
    paths = [str(tmp_path / f"{word} run.db") for word in ("before", "after")]
    for experiment, path in zip(pair.make(1), paths, strict=True):
        callgrove.write(experiment, path, "rocpd")
    return paths[0], paths[1]


def test_files_are_explained_as_runs_in_memory_are(files: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["why", *files, "--format", "json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [rows[0]["cause"], rows[1]["cause"]] == ["total", "overlap"]
    assert rows[1]["sentence"].startswith("Copies no longer run beside kernels: ")
    library = why(opened(files[0]), opened(files[1]))
    assert [row["sentence"] for row in rows] == sentences(library)


@pytest.mark.parametrize("verb", ["why", "explain"])
def test_every_command_can_be_copied(
    verb: str, files: tuple[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cubes = [str(tmp_path / name) for name in ("before.cubex", "after.cubex")]
    others = [str(tmp_path / name) for name in ("new.cubex", "gone.cubex")]
    copies = next(pair for pair in PAIRS if pair.cause == "new")
    uneven = next(pair for pair in PAIRS if pair.name == "one of four ranks is slow")
    for experiment, path in zip((*uneven.make(1), *reversed(copies.make(1))), (*cubes, *others), strict=True):
        callgrove.write(experiment, path)
    cases = [files, cubes, [*cubes, "-m", "time"], others, others[::-1]]
    for paths in cases:
        assert main([verb, *(paths if verb == "why" else paths[1:])]) == 0
        commands = [line.strip() for line in capsys.readouterr().out.splitlines() if line.startswith("    callgrove ")]
        assert len(commands) >= 2
        for command in commands:
            assert main(shlex.split(command)[1:]) == 0, command
        capsys.readouterr()


def test_formats_and_refusals(files: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", files[0], "--format", "markdown"]) == 0
    text = capsys.readouterr().out
    assert text.startswith("- The run takes ")
    assert f"\n  `callgrove summary '{files[0]}'`\n" in text
    assert text == opened(files[0]).explain().to_markdown()
    assert main(["why", files[0]]) == 2
    assert "two inputs are compared, before and after, and 1 is named" in capsys.readouterr().err


def test_reports_have_the_same_sentences(files: tuple[str, str], tmp_path: Path) -> None:
    experiment, other = (opened(path) for path in files)
    page, change = tmp_path / "page.html", tmp_path / "change.html"
    experiment.report(page)
    experiment.compare(other).report(change)
    for text, explained in ((page, experiment.explain()), (change, why(experiment, other))):
        shown = text.read_text()
        assert all(sentence in shown for sentence in sentences(explained))
