"""Writing pre-release databases: what was given comes back, and the bytes follow the rules."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given

from callgrove.arrays import ABSENT
from callgrove.errors import UsageError
from callgrove.examples import example
from callgrove.formats.interface import WriteOptions
from callgrove.model.builder import ExperimentBuilder
from callgrove.model.contexts import ContextKind, Relation
from callgrove.model.experiment import Experiment
from callgrove.model.metrics import Metric, Scope
from callgrove.model.profiles import ProfileKind
from callgrove.model.traces.events import ArraySamples, Samples
from tests.exhaustive import EXAMPLES_IN_CI, try_examples
from tests.formats.hpctoolkit.pieces import Writing, writings
from tests.formats.hpctoolkit.prerelease_layout import check_layout
from tests.formats.samples import databases
from tests.formats.written import PRERELEASE, assert_equal, bits, damage, described, read, sound_but_for_sums, write
from tests.model.strategies import experiments
from tests.requirements import SHARED

GENUINE = sorted({*databases("prerelease"), *SHARED.glob("data/own/hpctoolkit-prerelease/*.d")})
DIALECTS = ("genuine", "document")


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("path", GENUINE, ids=lambda path: f"{path.parent.name}-{path.name}")
def test_prerelease_databases_survive(path: Path, dialect: str, tmp_path: Path) -> None:
    old = read(path)
    assert write(old, tmp_path / "new.d", PRERELEASE, WriteOptions(dialect)).losses == []
    new = read(tmp_path / "new.d")
    assert_equal(old, new)
    assert new.metrics == old.metrics
    assert described(new.contexts) == described(old.contexts)
    for column in ("within", "call_file", "call_line"):
        assert getattr(new.contexts, column).tolist() == getattr(old.contexts, column).tolist()
    assert [new.sources.lines(file) for file in new.sources.copies] == [
        old.sources.lines(file) for file in old.sources.copies
    ]
    assert damage(tmp_path / "new.d") == []
    assert new.warnings == ()
    check_layout(tmp_path / "new.d", dialect)


@pytest.mark.parametrize("path", GENUINE, ids=lambda path: f"{path.parent.name}-{path.name}")
def test_bytes_of_genuine_files(path: Path, tmp_path: Path) -> None:
    """The specification fixes all of cct.db; in profile.db and trace.db the genuine tool chooses the order of blocks
    and of lines, and keeps entries without values in the summary, so that these are compared one by one."""
    write(read(path), tmp_path / "new.d", PRERELEASE)
    new = tmp_path / "new.d"
    assert (new / "cct.db").read_bytes() == (path / "cct.db").read_bytes()
    for name in ("profile.db", "trace.db"):
        assert (new / name).read_bytes()[:128] == (path / name).read_bytes()[:128]
    ours = check_layout(new)
    theirs = _genuine_parts(path)
    assert ours.blocks[1:] == theirs[0][1:]
    assert ours.lines == theirs[1]
    tuples_at = 128 + 52 * len(ours.blocks)
    tuples_at += -tuples_at % 8
    size = sum(2 + 18 * len(one) for one in ours.tuples)
    written, genuine = ((folder / "profile.db").read_bytes() for folder in (new, path))
    assert written[tuples_at : tuples_at + size] == genuine[tuples_at : tuples_at + size]


def _genuine_parts(path: Path) -> tuple[list[bytes], list[bytes]]:
    """Blocks of profiles and lines of traces, cut out with the numbers of the specification."""
    profiles, traces = (path / "profile.db").read_bytes(), (path / "trace.db").read_bytes()
    number = int.from_bytes

    def at(data: bytes, offset: int, size: int) -> int:
        return number(data[offset : offset + size], "big")

    blocks, found = [], []
    for profile in range(at(profiles, 18, 4)):
        info = 128 + 52 * profile
        start, n_values, n_contexts = at(profiles, info + 44, 8), at(profiles, info + 32, 8), at(profiles, info + 40, 4)
        blocks.append(profiles[start : start + 10 * n_values + 12 * (n_contexts + 1)])
    for line in range(at(traces, 18, 4)):
        header = 128 + 22 * line
        found.append(traces[at(traces, header + 6, 8) : at(traces, header + 14, 8)])
    return blocks, found


def test_the_example_survives(tmp_path: Path) -> None:
    """What both generations hold; the example is a released database."""
    old = example()
    write(old, tmp_path / "new.d", PRERELEASE)
    new = read(tmp_path / "new.d")
    check_layout(tmp_path / "new.d")
    assert damage(tmp_path / "new.d") == []
    for quantity in old.metrics.quantities:
        assert new.root_total(quantity) == old.root_total(quantity)
        assert by_id(new, quantity) == pytest.approx(by_id(old, quantity))


def by_id(experiment: Experiment, quantity: str) -> dict[int, float]:
    totals = experiment.totals(quantity, Scope.EXCLUSIVE).tolist()
    return {i: v for i, v in zip(experiment.contexts.source_id.tolist(), totals, strict=True) if v}


def test_dialects(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="has genuine, document, not 'modern'"):
        write(example(ranks=1), tmp_path / "new.d", PRERELEASE, WriteOptions("modern"))
    write(example(ranks=1), tmp_path / "a.d", PRERELEASE)
    write(example(ranks=1), tmp_path / "b.d", PRERELEASE, WriteOptions("document"))
    genuine, document = (
        check_layout(tmp_path / name, dialect) for name, dialect in zip(("a.d", "b.d"), DIALECTS, strict=True)
    )
    assert genuine == document
    assert (tmp_path / "a.d" / "trace.db").stat().st_size + 8 == (tmp_path / "b.d" / "trace.db").stat().st_size


# -- shapes --------------------------------------------------------------------------------------------------------


def chain(*links: tuple[ContextKind, Relation]) -> ExperimentBuilder:
    """One profile, and contexts of these kinds one below the other; lines are numbered."""
    out = ExperimentBuilder("made up", title="made up")
    file, module = out.file("/a.c"), out.module("/bin/app")
    for number, (kind, relation) in enumerate(links):
        in_source, in_code = kind in (ContextKind.LINE, ContextKind.LOOP), kind == ContextKind.INSTRUCTION
        name = "main thread" if kind == ContextKind.ENTRY else "" if in_source or in_code else f"f{number}"
        region = out.region(
            kind,
            name,
            file=file if in_source else ABSENT,
            line=number if in_source else ABSENT,
            module=module if in_code else ABSENT,
            offset=16 * number + 16 if in_code else None,
        )
        out.add_context(number - 1, kind, region, relation, source_id=number + 1)
    out.add_profile(ProfileKind.THREAD, [(1, 77, 0, 0), (3, 5, 5, 3)])
    return out


ENTRY, FUNCTION, LINE, LOOP = ContextKind.ENTRY, ContextKind.FUNCTION, ContextKind.LINE, ContextKind.LOOP
CALL, LEXICAL, INLINED = Relation.CALL, Relation.LEXICAL, Relation.INLINED


def test_what_a_line_calls_hangs_beside_it(tmp_path: Path) -> None:
    """entry > f1 > line > f3 > line: the call from the first line needs a call site, and lines keep their own cost."""
    made = chain((ENTRY, CALL), (FUNCTION, CALL), (LINE, LEXICAL), (FUNCTION, CALL), (LINE, LEXICAL))
    made.add_metric(Metric("time", Scope.FUNCTION, source_id=0))
    made.add_metric(Metric("time", Scope.INCLUSIVE, source_id=1))
    made.add_values(0, [1, 2, 3, 4], 0, [2.0, 2.0, 5.0, 5.0])
    made.add_values(0, [0, 1, 2, 3, 4], 1, [7.0, 7.0, 7.0, 5.0, 5.0])
    report = write(made.build(), tmp_path / "new.d", PRERELEASE)
    found = check_layout(tmp_path / "new.d")
    assert found.signed_ids == {1, -1, 2, 3, 4, 5, 7}  # 6 is left for <no activity>
    values = {(c, m): float(np.uint64(v).view(np.float64)) for (p, c, m), v in found.values.items() if p == 1}
    own, all_ = 1, 2  # ids of (E) and (I)
    assert values == {
        (0, all_): 7.0,
        (1, all_): 7.0,
        (2, own): 2.0,
        (2, all_): 7.0,
        (3, own): 2.0,
        (3, all_): 2.0,
        (7, all_): 5.0,
        (4, own): 5.0,
        (4, all_): 5.0,
        (5, own): 5.0,
        (5, all_): 5.0,
    }
    assert "inclusive values of 1 line: what is called from there stands beside them" in report.losses
    new = read(tmp_path / "new.d")
    assert new.totals("time", Scope.EXCLUSIVE).sum() == 7
    assert damage(tmp_path / "new.d") == []


def test_idle_samples_get_a_context(tmp_path: Path) -> None:
    made = chain((ENTRY, CALL), (FUNCTION, CALL))
    samples = Samples(np.array([5, 7, 9]), np.array([ABSENT, 1, ABSENT], np.int32))
    made.set_traces(ArraySamples(np.zeros(1, np.int32), np.full(1, ABSENT, np.int32), (samples,)))
    write(made.build(), tmp_path / "new.d", PRERELEASE)
    assert check_layout(tmp_path / "new.d").times == (5, 9)
    new = read(tmp_path / "new.d")
    [line] = [line for _, _, line in new.traces.lines()]
    assert [new.contexts.label(context) for context in line.context] == ["<no activity>", "f1", "<no activity>"]
    write(new, tmp_path / "back.d")
    [line] = [line for _, _, line in read(tmp_path / "back.d").traces.lines()]
    assert (line.time_ns.tolist(), line.context.tolist()) == ([5, 7, 9], [ABSENT, 1, ABSENT])


@pytest.mark.parametrize("traces", [False, True])
def test_a_trace_without_samples(traces: bool, tmp_path: Path) -> None:
    made = chain((ENTRY, CALL))
    if traces:
        nothing = Samples(np.empty(0, np.int64), np.empty(0, np.int32))
        made.set_traces(ArraySamples(np.zeros(1, np.int32), np.full(1, ABSENT, np.int32), (nothing,)))
    write(made.build(), tmp_path / "new.d", PRERELEASE)
    assert check_layout(tmp_path / "new.d").times is None
    assert (tmp_path / "new.d" / "trace.db").stat().st_size == 128 + 22
    assert read(tmp_path / "new.d").traces.n_samples == 0


def test_an_empty_experiment(tmp_path: Path) -> None:
    write(ExperimentBuilder("nothing").build(), tmp_path / "new.d", PRERELEASE)
    found = check_layout(tmp_path / "new.d")
    assert (found.values, found.signed_ids, found.metric_dbs) == ({}, set(), {})
    assert damage(tmp_path / "new.d") == []


def test_awkward_names_are_read_as_written(tmp_path: Path) -> None:
    made = ExperimentBuilder("made up", title="a<b>&'c'\n\"d\"")
    for name in ("operator<<", "\t tab", "日本", "a\x00b", "]]>"):
        made.add_context(ABSENT, FUNCTION, made.region(FUNCTION, name))
    made.add_profile(ProfileKind.THREAD, [(1, 77, 0, 0)])
    write(made.build(), tmp_path / "new.d", PRERELEASE)
    new = read(tmp_path / "new.d")
    assert new.title == "a<b>&'c'\n\"d\""
    names = [new.contexts.label(context) for context in range(len(new.contexts))]
    assert names == ["operator<<", "\t tab", "日本", "a\\x00b", "]]>"]


# -- random experiments --------------------------------------------------------------------------------------------


@try_examples(EXAMPLES_IN_CI, HealthCheck.function_scoped_fixture)
@given(writing=writings(Scope.INCLUSIVE, Scope.FUNCTION))
def test_random_experiments_survive(writing: Writing, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target, experiment = tmp_path / "new.d", writing.experiment
    writing.to(target, PRERELEASE, monkeypatch)
    check_layout(target, genuine_nesting=False)
    assert sound_but_for_sums(target)
    old, new = bits(experiment), bits(read(target))
    numbers = {int(i): k + 1 for k, i in enumerate(experiment.contexts.source_id)}
    tree = experiment.contexts
    lines_above = {int(tree.source_id[p]) for p in tree.parent.tolist() if p >= 0 and tree.kind[p] == LINE}
    nested = (tree.relation == Relation.LEXICAL) | ~np.isin(tree.kind, (LINE, ContextKind.LOOP)) | (tree.parent < 0)
    for (profile, context, name, scope), value in old.items():
        if scope == "function" and not nested.all():
            continue  # loops and lines are always nested there, so what contains them is computed anew
        if context not in lines_above or scope != "inclusive":
            assert new[profile, numbers[context], name, scope] == value
    assert len(read(target).profiles.measured) == len(experiment.profiles.measured)


@try_examples(50, HealthCheck.function_scoped_fixture)
@given(experiment=experiments(composite=True, n_runs=2, deep=True))
def test_anything_can_be_written(experiment: Experiment, tmp_path: Path) -> None:
    target = tmp_path / "new.d"
    shutil.rmtree(target, ignore_errors=True)
    report = write(experiment, target, PRERELEASE)
    check_layout(target, genuine_nesting=False)
    new = read(target)
    assert not new.damage
    assert sound_but_for_sums(target)
    assert "attributes: made by" in report.losses
    assert new.contexts.n_listed >= experiment.contexts.n_listed
