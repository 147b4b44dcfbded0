"""Samples of call stacks in Perfetto: at every moment the slices of a thread are the stack of its last sample."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from callgrove.formats.interface import WriteOptions
from callgrove.formats.registry import open_path, writer_of
from callgrove.formats.timeline.content import Losses, Process, ProcessTracks, Track, TrackKind
from callgrove.formats.timeline.slices import StackSlices
from callgrove.formats.timeline.source import Annotations
from callgrove.formats.writing.transfer import write_experiment
from callgrove.model.builder import ExperimentBuilder
from callgrove.model.contexts import ContextKind, Relation
from callgrove.model.experiment import Experiment
from callgrove.model.profiles import ProfileKind
from callgrove.model.selection import select
from callgrove.model.traces.events import Samples, Traces
from callgrove.model.traces.sampled_stacks import SampledStacks
from tests.exhaustive import some_of
from tests.formats.samples import CORPUS
from tests.outside import perfetto_trace
from tests.outside.perfetto_trace import Slice, Trace
from tests.outside.trace_processor import processed

FOLDED = (ContextKind.LINE, ContextKind.INSTRUCTION, ContextKind.CALL)


def stack_of(experiment: Experiment, context: int) -> list[str]:
    """Names of functions and loops, and of addresses in no known function, from the outside in, found one by one."""
    tree, out = experiment.contexts, []
    if context >= 0 and tree.label(context) == "<no activity>":
        return []
    while context >= 0:
        if tree.kind[context] not in FOLDED or tree.relation[context] != Relation.LEXICAL or tree.parent[context] < 0:
            name = tree.label(context)
            place = re.fullmatch(r"(loop at )?/.*/([^/]+)", name)
            out.append(f"{place[1] or ''}{place[2]}" if place else name)
        context = int(tree.parent[context])
    return out[::-1]


def changes(slices: list[Slice]) -> Iterator[tuple[int, list[str]]]:
    """(time, stack from then on), from slices alone."""
    events = sorted(
        [(one.start, 1, k) for k, one in enumerate(slices)] + [(one.end, 0, k) for k, one in enumerate(slices)]
    )
    stack: list[int] = []
    for time, opens, k in events:
        if opens and slices[k].end > time:
            stack.append(k)
        elif not opens and k in stack:
            stack.remove(k)
        yield time, [slices[j].name for j in sorted(stack, key=lambda j: slices[j].depth)]


def check_line(experiment: Experiment, profile: int, samples: Samples, slices: list[Slice]) -> None:
    time, context = samples.time_ns.tolist(), samples.context.tolist()
    expected = {t: stack_of(experiment, c) for t, c in zip(time[:-1], context[:-1], strict=True)}
    found = dict(changes(slices))
    last: list[str] = []
    for moment in sorted(set(expected) | set(found)):
        last = found.get(moment, last)
        if moment in expected:
            assert last == expected[moment], f"profile {profile} at {moment}"


def track_of(trace: Trace, experiment: Experiment, profile: int) -> int:
    """The track of a profile, by its rank and thread."""
    ranks, threads = (experiment.profiles.identity_list(name) for name in ("rank", "thread"))
    own = list(zip(ranks, threads, strict=True))
    process = experiment.title if ranks[profile] is None else f"rank {ranks[profile]}"
    again = own[:profile].count(own[profile]) - bool(own[0] == own[profile] and experiment.profiles.is_summary[0])
    name = f"thread {threads[profile]}" + (f" ({again + 1})" if again else "")
    return next(uuid for uuid in trace.tracks if trace.path(uuid) == (process, name))


DATABASES = (
    "hpctoolkit-prerelease/mpi4.d",
    "hpctoolkit-release/pth4.d",
    "hpctoolkit-prerelease/gxx_s.d",
    "hpcrun-04.00/mpi4.m",
)


@pytest.mark.parametrize("name", some_of(DATABASES, lambda name: name.startswith("hpctoolkit") and "4.d" in name))
def test_stacks_over_time_are_those_of_the_samples(shared: Path, tmp_path: Path, name: str) -> None:
    experiment = open_path(shared / "data" / "own" / name)
    assert isinstance(experiment, Experiment)
    report = write_experiment(experiment, writer_of("perfetto"), tmp_path / "t.pftrace", WriteOptions())
    assert report.losses == ["values of metrics: only what happened over time is written"]
    data = (tmp_path / "t.pftrace").read_bytes()
    trace = perfetto_trace.read(data)
    lines = {
        profile: samples
        for profile, _, samples in experiment.traces.lines()
        if any(stack_of(experiment, context) for context in set(samples.context.tolist()))
    }
    assert lines
    tracks = {profile: track_of(trace, experiment, profile) for profile in lines}
    assert set(tracks.values()) == {one.track for one in trace.slices}
    for profile, samples in lines.items():
        check_line(experiment, profile, samples, [one for one in trace.slices if one.track == tracks[profile]])
    if name.endswith("gxx_s.d"):
        return
    (rows,) = processed(data, "select ts as ts, dur as dur, name as name, depth as depth from slice")
    assert sorted(rows) == sorted((one.start, one.end - one.start, one.name, one.depth) for one in trace.slices)


def test_measurements_show_addresses_and_no_idle_time(shared: Path, tmp_path: Path) -> None:
    """No function is known there, so the program counters of the calls are the stack; expected from hpcproftt's dump:
    the program's main at mpiomp+0x11e5 calls into libgomp."""
    experiment = open_path(shared / "data" / "own" / "hpcrun-04.00" / "mpi4.m")
    assert isinstance(experiment, Experiment)
    write_experiment(experiment, writer_of("perfetto"), tmp_path / "t.pftrace", WriteOptions())
    names = {(one.depth, one.name) for one in perfetto_trace.read((tmp_path / "t.pftrace").read_bytes()).slices}
    assert {(0, "<root>"), (1, "<program root>"), (2, "mpiomp+0x11e5"), (3, "libgomp.so.1.0.0+0x1e2fc")} <= names
    assert "<no activity>" not in {name for _, name in names}


def test_a_window_between_two_samples_shows_what_went_on(tmp_path: Path) -> None:
    """The sample before the window holds all through it, and not beyond."""
    experiment = open_path(CORPUS / "hpctoolkit" / "release" / "pth4.d")
    assert isinstance(experiment, Experiment)
    profile, context, first, last = next(
        (profile, context, first, last)
        for profile, _, line in experiment.traces.lines()
        for context, (first, last) in zip(line.context.tolist(), pairwise(line.time_ns.tolist()), strict=False)
        if stack_of(experiment, context) and last - first > 20
    )
    window = (first + 10, last - 10)
    part = select(experiment, profiles=np.array([profile]), window=window)
    write_experiment(part, writer_of("perfetto"), tmp_path / "t.pftrace", WriteOptions())
    slices = perfetto_trace.read((tmp_path / "t.pftrace").read_bytes()).slices
    assert [one.name for one in slices] == stack_of(experiment, context)
    assert {(one.start, one.end) for one in slices} == {window}


def tree() -> Experiment:
    """main -> a -> line, main -> a -> b, main -> c, other: with a line that is folded."""
    builder = ExperimentBuilder("made up")
    builder.add_profile(ProfileKind.THREAD)

    def context(parent: int, kind: ContextKind, name: str) -> int:
        return builder.add_context(parent, kind, builder.region(kind, name))

    main = context(-1, ContextKind.FUNCTION, "main")
    a = context(main, ContextKind.FUNCTION, "a")
    context(a, ContextKind.LINE, "a.c:3")
    context(a, ContextKind.FUNCTION, "b")
    context(main, ContextKind.LOOP, "c")
    context(-1, ContextKind.FUNCTION, "other")
    return builder.build()


TREE = tree()


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(-1, len(TREE.contexts) - 1)), max_size=40), st.integers(1, 12))
def test_pieces_of_a_line_do_not_show(steps: list[tuple[int, int]], piece: int) -> None:
    """Any line, cut into pieces of any size: the same slices, and every sample's stack."""
    time = np.cumsum([dt for dt, _ in steps]).astype(np.int64)
    samples = Samples(time, np.array([c for _, c in steps], np.int32))
    whole, parts = (list(made(samples, size)) for size in (10**6, piece))
    assert whole == parts
    for k in range(len(steps) - 1):
        if time[k] < time[k + 1]:
            # slices come from the outside in, so those that are open make up the stack in the order given
            assert [n for s, e, n in whole if s <= time[k] < e] == stack_of(TREE, int(samples.context[k]))


def made(samples: Samples, piece: int) -> Iterator[tuple[int, int, str]]:
    tracks = ProcessTracks(Process(0, "p", 1), [Track(0, TrackKind.PROCESS, "p")])
    maker = StackSlices(TREE.contexts, Annotations.DEFAULT, Losses())
    for slices in maker.of(tracks, 1, samples, piece):
        columns = (slices.start_ns.tolist(), slices.end_ns.tolist(), slices.name.index.tolist())
        for start, end, name in zip(*columns, strict=True):
            yield start, end, slices.name.all[name]


@pytest.mark.parametrize("what", ["a line", "a slice"])
def test_lost_samples_are_noticed(what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Samples are counted, and the time that they show something is that of the outermost slices."""
    experiment = open_path(CORPUS / "hpctoolkit" / "release" / "mpi4.d")
    report = write_experiment(experiment, writer_of("perfetto"), tmp_path / "whole.pftrace", WriteOptions())
    assert report.unexplained == []
    lines, runs = Traces.lines, SampledStacks._runs
    if what == "a line":
        monkeypatch.setattr(Traces, "lines", lambda traces: list(lines(traces))[1:])
    else:
        dropped = staticmethod(lambda *given: tuple(column[1:] for column in runs(*given)))
        monkeypatch.setattr(SampledStacks, "_runs", dropped)
    report = write_experiment(experiment, writer_of("perfetto"), tmp_path / "part.pftrace", WriteOptions())
    assert len(report.unexplained) >= 1
    assert "samples: " in report.unexplained[0] if what == "a line" else "of samples: " in report.unexplained[0]
