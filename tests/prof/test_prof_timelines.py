"""Samples of traces, in any order and in pieces of any size, against the rules taken one by one."""

from __future__ import annotations

import tempfile
from itertools import groupby
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from callgrove.cli.main import main
from callgrove.errors import InputError
from callgrove.formats.hpcrun.hpctrace import write_trace
from callgrove.formats.hpcrun.measurement import Positions
from callgrove.model.experiment import Experiment
from callgrove.prof import samples as timelines
from callgrove.prof.nodes import Flavour
from tests.formats.hpcrun.hpcrun_bytes import REAL, File04, RawEpoch, RawMetric, RawNode, file_02
from tests.prof.making import IDLE, MAIN, experiment_of, measured, nodes, opened, put

TREE = nodes((14, 12, 0, MAIN, 1), (16, 14, 1, 0x1000, 1), (18, 16, 1, 0x1010, 1), (20, 12, 0, IDLE, 1))
NAMES = {16: 0x1000, 18: 0x1010, 12: None, 20: None}  # the address that a sample is at; nothing is idle
UNKNOWN = (17, 99, 4_000_000_000)
SAMPLES = st.lists(st.tuples(st.integers(0, 40), st.sampled_from([*NAMES, *UNKNOWN])), min_size=1, max_size=30)
Found = list[tuple[int, int | None]]


def expected(samples: list[tuple[int, int]], keeps_idle: bool) -> Found:
    """Known nodes in the order of time; of idle ones in a row the first."""
    known = sorted(((time, NAMES[node]) for time, node in samples if node in NAMES), key=lambda sample: sample[0])
    if keeps_idle:
        return known
    out: Found = []
    for address, run in groupby(known, key=lambda sample: sample[1]):
        same = list(run)
        out += same[:1] if address is None else same
    return out


def found_in(experiment: Experiment) -> Found:
    offset = experiment.contexts.column("offset").tolist()
    is_idle = [experiment.contexts.label(c) == "<no activity>" for c in range(len(offset))]
    lines = experiment.traces.samples
    if lines is None or not len(lines.profile):
        return []
    line = lines.line(0)
    return [
        (time, None if context < 0 or is_idle[context] else offset[context])
        for time, context in zip(line.time_ns.tolist(), line.context.tolist(), strict=True)
    ]


@given(SAMPLES, st.integers(1, 8), st.booleans())
def test_samples_of_any_order_in_pieces_of_any_size(samples: list[tuple[int, int]], piece: int, is_early: bool) -> None:
    with tempfile.TemporaryDirectory() as name, patch.object(timelines, "PIECE", piece):
        folder = Path(name) / "m"
        path = measured(folder, File04(TREE, values=()))
        write_trace(path.with_suffix(".hpctrace"), 0, [t for t, _ in samples], [node for _, node in samples])
        flavour = Flavour(demotes=not is_early, has_idle=is_early)
        assert found_in(experiment_of(folder, flavour=flavour)) == expected(samples, is_early)


@pytest.mark.parametrize("to", ["hpctoolkit-release", "hpctoolkit-prerelease"])
@pytest.mark.parametrize("jobs", ["1", "2"])
def test_what_is_written(to: str, jobs: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Packed by workers or not, the database holds the same samples."""
    samples = [(30, 18), (10, 16), (20, 20), (21, 20), (22, 77), (23, 12), (31, 20), (99, 20)]
    for rank in range(3):
        path = measured(tmp_path / "m", File04(TREE, values=((18, ((0, 1.0),)),)), rank)
        if rank != 1:  # one without a trace
            write_trace(path.with_suffix(".hpctrace"), 0, [t for t, _ in samples], [node for _, node in samples])
    target = tmp_path / "made.d"
    assert main(["prof", str(tmp_path / "m"), str(target), "--to", to, "--foreign", "-j", jobs]) == 0
    assert "left out: 2 samples of traces, on nodes that their profiles do not have" in capsys.readouterr().err
    made = opened(target)
    assert found_in(made) == expected(samples, to == "hpctoolkit-prerelease")
    assert made.traces.samples is not None
    assert made.traces.time_range == (10, 99)  # also of samples that are not stored, and that is not damage
    assert main(["check", str(target)]) == 0
    assert len(made.traces.samples.line(1)) in (0, len(found_in(made)))


NODE_IDS = st.lists(st.integers(1, 60) | st.integers(2**31, 2**32 - 1), unique=True, max_size=20)
ASKED = st.lists(st.integers(0, 70) | st.integers(2**31 - 3, 2**32 - 1), min_size=1, max_size=30)


@given(NODE_IDS, ASKED)
def test_words_of_node_ids_are_those_at_their_positions(ids: list[int], asked: list[int]) -> None:
    """Nearly dense ids have a table, others are searched; what no node has is missing."""
    positions = Positions(np.array(ids, np.uint32))
    words = 100 + np.arange(len(ids), dtype=np.uint32)
    wanted = np.array([*asked, *ids], np.uint32)
    found = positions.give(words, 7)[wanted]
    at = positions[wanted].tolist()
    assert found.tolist() == [100 + place if place >= 0 else 7 for place in at]
    assert found.dtype == np.uint32


def old_tree(*leaves: tuple[int, int]) -> RawEpoch:
    """An epoch of 02.00 with these leaves below its root."""
    rows = (RawNode(-id_, 2, 1, address, (1.0,)) for id_, address in leaves)
    return RawEpoch((RawMetric("CPUTIME (usec)", REAL),), (RawNode(2, 0, 0, 0, (0.0,)), *rows))


@pytest.mark.parametrize("far", [0, 1 << 30])
def test_an_id_means_the_last_epoch_that_has_it(far: int, tmp_path: Path) -> None:
    epochs = old_tree((5, 0x50), (7, 0x70)), old_tree((5, 0x55), (far + 9, 0x90))
    path = put(tmp_path, file_02(*epochs))
    write_trace(path.with_suffix(".hpctrace"), 0, [1, 2, 3, 4], [5, 7, far + 9, 8], time_scale=1)
    assert found_in(experiment_of(tmp_path)) == [(1000, 0x55), (2000, 0x70), (3000, 0x90)]


def test_a_trace_that_became_shorter_since_it_was_surveyed(tmp_path: Path) -> None:
    """What is there by then is taken; a trace that is gone is an error."""
    path = measured(tmp_path, File04(TREE, values=()))
    trace = path.with_suffix(".hpctrace")
    write_trace(trace, 0, [10, 20, 30], [16, 18, 16])
    made = experiment_of(tmp_path)
    trace.write_bytes(trace.read_bytes()[:-12])
    assert found_in(made) == [(10, 0x1000), (20, 0x1010)]
    trace.unlink()
    with pytest.raises(InputError, match="cannot be read: No such file or directory"):
        found_in(made)
