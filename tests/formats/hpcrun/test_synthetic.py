"""What no genuine sample has, made with `struct` alone: epochs, logical unwinding, reals, formulas, dialects."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from callgrove.binary.files import Source
from callgrove.formats.hpcrun.files import measurement_bytes, more_sensible, read_measurement
from callgrove.formats.hpcrun.format import FORMAT
from callgrove.formats.hpcrun.measurement import Measurement
from callgrove.formats.hpcrun.regions import Regions
from callgrove.formats.interface import DumpView
from callgrove.model.metrics import Scope
from tests.formats.hpcrun.hpcrun_bytes import INT, MODULES, REAL, File04, RawEpoch, RawMetric, RawNode, file_02
from tests.formats.hpcrun.hpcrun_opening import opened, values_by_label, written
from tests.formats.hpcrun.hpcrun_synthetic import FILES, FIRST_EPOCH, FOLDER, FORMULAS, LOGICAL, MIXED_04, SECOND_EPOCH

ROOT_ID = 2


def read(folder: Path, data: bytes) -> Measurement:
    return read_measurement(written(folder, data))


def shown(folder: Path, data: bytes) -> dict[str, Any]:
    found: dict[str, Any] = json.loads("".join(FORMAT.dump_view(Source.of(written(folder, data)), DumpView.JSON)))
    return found


def test_the_corpus_holds_what_is_made_here() -> None:
    assert {path.name: path.read_bytes() for path in FOLDER.iterdir()} == FILES


@pytest.mark.parametrize("name", list(FILES))
def test_synthetic_files_are_made_again_byte_for_byte(name: str, tmp_path: Path) -> None:
    assert measurement_bytes(read(tmp_path, FILES[name])) == FILES[name]


@pytest.mark.parametrize("dialect", ["A", "B"])
@pytest.mark.parametrize("epochs", [(FIRST_EPOCH,), (FIRST_EPOCH, SECOND_EPOCH), (FORMULAS, LOGICAL, FIRST_EPOCH)])
def test_dialects_are_told_apart(dialect: str, epochs: tuple[RawEpoch, ...], tmp_path: Path) -> None:
    data = file_02(*epochs, dialect=dialect)
    found = read(tmp_path, data)
    assert found.dialect == dialect
    assert len(found.epochs) == len(epochs)
    assert measurement_bytes(found) == data


def test_version_03_is_read_like_dialect_b(tmp_path: Path) -> None:
    data = file_02(FIRST_EPOCH, version="03.00")
    found = read(tmp_path, data)
    assert (found.version, found.dialect) == ("03.00", "B")
    assert measurement_bytes(found) == data


def test_a_file_without_epochs_is_an_empty_profile(tmp_path: Path) -> None:
    experiment = opened(written(tmp_path, file_02()))
    assert (len(experiment.contexts), len(experiment.metrics), len(experiment.profiles)) == (0, 0, 1)


def test_of_two_dialects_that_fit_the_more_sensible_one_is_taken(tmp_path: Path) -> None:
    """By the loadmap, then by the metrics; where both are sensible it is B, whichever comes first."""
    sound = read(tmp_path, file_02(FIRST_EPOCH, dialect="A"))
    [epoch] = sound.epochs
    gap = replace(sound, epochs=(replace(epoch, modules=(replace(epoch.modules[0], id=7),)),))
    absent = replace(sound, epochs=(replace(epoch, modules=epoch.modules[:1]),))
    tiny = replace(sound, epochs=(replace(epoch, metrics=(replace(epoch.metrics[0], threshold_mean=5e-324),)),))
    odd = replace(sound, epochs=(replace(epoch, metrics=(replace(epoch.metrics[0], is_frequency=77),)),))
    garbled = replace(sound, epochs=(replace(epoch, metrics=(replace(epoch.metrics[0], name="\0x"),)),))
    b = replace(sound, dialect="B")
    for worse in (gap, absent, tiny, odd, garbled):
        assert more_sensible(sound, worse) is sound
        assert more_sensible(worse, sound) is sound
    assert more_sensible(gap, tiny) is tiny
    assert more_sensible(sound, b) is b


def test_a_table_without_metrics_is_the_same_in_both_dialects(tmp_path: Path) -> None:
    found = read(tmp_path, file_02(RawEpoch(metrics=(), nodes=(RawNode(ROOT_ID, 0, 0, 0),)), dialect="A"))
    assert found.dialect == "B"
    assert len(found.epochs[0].nodes) == 1


def test_epochs_are_kept_apart_by_dump(tmp_path: Path) -> None:
    found = shown(tmp_path, file_02(FIRST_EPOCH, SECOND_EPOCH))
    first, second = found["epochs"]
    assert [m["name"] for m in first["metrics"]] == ["CYCLES", "TIME (usec)"]
    assert [m["name"] for m in second["metrics"]] == ["TIME (usec)", "BRANCHES"]
    assert [m["path"] for m in second["loadmap"]] == ["/lib/libm.so", "/bin/app"]
    assert (second["granularity"], second["ra"]) == (2, 1)
    assert first["cct"][2] == {"id": -5, "parent": 4, "lm": 1, "ip": 0x2000, "values": [7, 1.5]}
    assert second["cct"][2]["values"] == [10.0, 2**63 + 1]


def test_epochs_are_merged_by_metric_name_and_module_path(tmp_path: Path) -> None:
    experiment = opened(written(tmp_path, file_02(FIRST_EPOCH, SECOND_EPOCH)))
    assert [m.name for m in experiment.metrics] == ["CYCLES", "TIME (usec)", "BRANCHES"]
    assert values_by_label(experiment) == {
        ("/bin/app+0x2000", "CYCLES"): 7000,
        ("/bin/app+0x2000", "TIME (usec)"): 11.5,
        ("/bin/app+0x2000", "BRANCHES"): 2**63 + 1,
        ("/lib/libm.so+0x30", "TIME (usec)"): 2.75,
        ("/lib/libm.so+0x30", "BRANCHES"): 3,
        ("<partial call paths>", "CYCLES"): 1000,
    }
    tree = experiment.contexts
    ids = {tree.label(c): int(tree.source_id[c]) for c in range(len(tree))}
    assert ids == {  # 4 means two things, and the call site has two ids
        "<root>": 2,
        "<partial call paths>": 8,
        "/bin/app+0x1005": -1,
        "/bin/app+0x2000": 5,
        "/lib/libm.so+0x30": -1,
    }


def test_logical_unwinding_is_printed_and_read(tmp_path: Path) -> None:
    path = written(tmp_path, file_02(LOGICAL))
    text = "".join(FORMAT.dump_text(Source.of(path)))
    assert "epoch 0 flags=0x1 granularity=1 ra=0\n" in text
    lip = bytes(range(16, 32)).hex()
    assert f"  -5 parent=2 assoc=2 lm=1 ip=0x2000 lip={lip} values=[1.25]\n" in text
    assert values_by_label(opened(path)) == {("/bin/app+0x2000", "TIME (usec)"): 1.25}


def test_formulas_name_rows_of_the_experiment(tmp_path: Path) -> None:
    """A second file has the metrics in another order."""
    written(tmp_path, file_02(FORMULAS))
    other = replace(
        FORMULAS, metrics=(RawMetric("WRITES", INT), replace(FORMULAS.metrics[2], formula="@0+1", name="X"))
    )
    other = replace(other, nodes=(RawNode(2, 0, 0, 0, (0, 0.0)), RawNode(-5, 2, 1, 0x2000, (6, 0.0))))
    written(tmp_path, file_02(other, header=(("program-name", "z"), ("mpi-rank", "9"))), "b.hpcrun")
    experiment = opened(tmp_path)
    rows = {m.name: (m.formula, m.scope) for m in experiment.metrics}
    assert rows == {
        "READS": ("", Scope.POINT),
        "WRITES": ("", Scope.POINT),
        "BALANCE": ("#0-#1", Scope.NONE),
        "X": ("#1+1", Scope.NONE),
    }
    assert experiment.values.totals(0).sum() == 30
    assert experiment.values.totals(1).sum() == 10


def test_integers_and_reals_of_one_file_stay_what_they_are(tmp_path: Path) -> None:
    experiment = opened(written(tmp_path, MIXED_04.packed()))
    types = {block.triples().value.dtype.kind: len(block) for block in experiment.values.blocks()}
    assert types == {"u": 2, "f": 3}
    found = values_by_label(experiment)
    assert found["/bin/app+0x2000", "PAPI_TOT_INS"] == (2**30 + 1) * 10**8
    assert found["/lib/libm.so+0xffffffff81000000", "PAPI_TOT_INS"] == 3 * 10**8
    assert found["<unknown>", "CPUTIME (sec)"] == 0.125
    blind = [c for c in range(len(experiment.contexts)) if experiment.contexts.attributes.get(c) == {"unwound": "no"}]
    assert [experiment.contexts.label(c) for c in blind] == ["/lib/libm.so+0xffffffff81000000"]


def test_products_beyond_64_bits_become_doubles(tmp_path: Path) -> None:
    metric = RawMetric("EVENTS", INT, period=2**40)
    experiment = opened(written(tmp_path, File04().changed(metrics=(metric,), values=((18, ((0, 2**30),)),))))
    assert values_by_label(experiment) == {("/bin/app+0x2000", "EVENTS"): float(2**70)}


def test_return_addresses_are_taken_back_into_the_call(tmp_path: Path) -> None:
    """02.00 only: an interior node at 0x1006 is the call that ends at 0x1005; the dump shows what is stored."""
    path = written(tmp_path, file_02(FIRST_EPOCH))
    labels = [opened(path).contexts.label(c) for c in range(5)]
    assert labels == ["<root>", "/bin/app+0x1005", "/bin/app+0x2000", "/lib/libm.so+0x30", "<partial call paths>"]
    assert "  4 parent=2 lm=1 ip=0x1006 values=[0, 0.0]\n" in "".join(FORMAT.dump_text(Source.of(path)))


def test_the_identifier_tuple_of_old_files_is_that_of_their_header(tmp_path: Path) -> None:
    experiment = opened(written(tmp_path, file_02(FIRST_EPOCH)))
    assert experiment.profiles.identifiers.rows(0) == [(1, 0x7F, 0, 1), (2, 3, 3, 3), (3, 1, 1, 3)]


def test_two_metrics_of_one_name_are_kept_apart(tmp_path: Path) -> None:
    metrics = (RawMetric("EVENT"), RawMetric("EVENT"), RawMetric("EVENT"))
    values = ((18, ((0, 1), (1, 2), (2, 4))),)
    experiment = opened(written(tmp_path, File04().changed(metrics=metrics, values=values)))
    assert [m.name for m in experiment.metrics] == ["EVENT", "EVENT [2]", "EVENT [3]"]
    assert [experiment.values.totals(m).sum() for m in range(3)] == [1, 2, 4]


def test_early_nodes_have_no_flags(tmp_path: Path) -> None:
    nodes = read(tmp_path, File04(has_flags=False).packed()).epochs[0].nodes
    assert nodes.flags is None
    assert nodes.id.tolist() == [12, 14, 16, 18, 21]


def test_nodes_with_wide_gaps_between_ids(tmp_path: Path) -> None:
    ids = {12: 12, 14: 4_000_000_000, 16: 7, 18: 2**32 - 1, 21: 900_000}
    nodes = tuple((ids[n[0]], ids.get(n[1], 0), *n[2:]) for n in File04().nodes)
    data = File04().changed(nodes=nodes, values=((900_000, ((0, 0.5),)),))
    experiment = opened(written(tmp_path, data))
    assert sorted(experiment.contexts.source_id.tolist()) == sorted(ids.values())
    assert values_by_label(experiment) == {("/lib/libm.so+0x30", "CPUTIME (sec)"): 0.5}


def test_strings_that_are_no_utf8_survive(tmp_path: Path) -> None:
    data = File04(modules=((1, "/bin/app"), (2, "/lib/x"))).packed().replace(b"/lib/x", b"/lib/\xff")
    assert measurement_bytes(read(tmp_path, data)) == data
    labels = [opened(tmp_path / "a.hpcrun").contexts.label(c) for c in range(5)]
    assert labels[-1] == "/lib/\\xff+0x30"
    assert '"/lib/\\udcff"' in "".join(FORMAT.dump_text(Source.of(tmp_path / "a.hpcrun")))


def test_folders_merge_call_paths_and_keep_profiles_apart(tmp_path: Path) -> None:
    """Brute force: the paths of all nodes of all files, each once."""
    other = File04(
        nodes=(*File04().nodes[:3], (30, 16, 2, 0x30, 1), (32, 16, 2, 0x30, 1), (34, 14, 2, 0x1000, 1)),
        modules=((1, "/bin/app"), (2, "/lib/libm.so"), (3, "/lib/other.so")),
        values=((32, ((0, 8.0),)), (30, ((0, 4.0),)), (34, ((0, 1.0),))),
        identifiers=((1, 0x7F, 0, 1), (2, 0, 0, 3), (3, 0, 0, 3)),
    )
    written(tmp_path, File04().packed())
    written(tmp_path, other.packed(), "b.hpcrun")
    experiment = opened(tmp_path)
    tree = experiment.contexts
    paths = sorted(tree.path(c) for c in range(len(tree)))
    call = "<root>-><thread root>->/bin/app+0x1000"
    assert paths == sorted(
        [
            "<root>",
            "<root>-><thread root>",
            call,
            f"{call}->/bin/app+0x2000",
            f"{call}->/lib/libm.so+0x30",
            "<root>-><thread root>->/lib/libm.so+0x1000",
        ]
    )
    assert (tree.source_id == -1).all()
    assert experiment.profiles.identity_list("rank") == [0, 3]
    rows = [experiment.values.profile(p) for p in range(2)]
    labels = [{tree.label(int(c)): float(v) for c, v in zip(b.context, b.value, strict=True)} for b in rows]
    assert labels[0] == {"/lib/libm.so+0x30": 12.0, "/lib/libm.so+0x1000": 1.0}  # two nodes became one context
    assert labels[1] == {"/lib/libm.so+0x30": 0.5, "/bin/app+0x2000": 0.25}
    one = int(np.flatnonzero([tree.label(c) == "/lib/libm.so+0x30" for c in range(len(tree))])[0])
    found = experiment.values.context(one)
    assert dict(zip(found.profile.tolist(), found.value.tolist(), strict=True)) == {0: 12.0, 1: 0.5}


def test_profiles_with_equal_tuples_are_named_by_program_and_process(tmp_path: Path) -> None:
    for name, process in (("a", "7"), ("b", "9")):
        header = (("program-name", name), ("process-id", process))
        written(tmp_path, File04().changed(header=header), f"{name}-000000-000-0000007f-{process}-0.hpcrun")
    experiment = opened(tmp_path)
    assert experiment.profiles.name == ("a 7", "b 9")
    assert experiment.title == "a"


def test_times_of_old_traces_are_microseconds(tmp_path: Path) -> None:
    """Ids of traces mean the last epoch that has them."""
    written(tmp_path, file_02(FIRST_EPOCH, SECOND_EPOCH))
    records = b"".join(t.to_bytes(8, "big") + n.to_bytes(4, "big") for t, n in ((5, 5), (7, 4), (9, 6)))
    (tmp_path / "a.hpctrace").write_bytes(b"HPCRUN-trace______01.01b" + bytes(8) + records)
    experiment = opened(tmp_path / "a.hpcrun")
    [(profile, metric, line)] = list(experiment.traces.lines())
    assert (profile, metric, line.time_ns.tolist()) == (0, -1, [5000, 7000, 9000])
    labels = [experiment.contexts.label(c) for c in line.context.tolist()]
    assert labels == ["/bin/app+0x2000", "/lib/libm.so+0x30", "/lib/libm.so+0x30"]
    assert experiment.traces.time_range == (5000, 9000)


def test_modules_that_nothing_uses_are_kept(tmp_path: Path) -> None:
    data = File04().changed(modules=(*MODULES, (3, "/lib/unused.so")))
    assert opened(written(tmp_path, data)).contexts.regions.modules == ("/bin/app", "/lib/libm.so", "/lib/unused.so")


def test_real_metrics_of_old_files(tmp_path: Path) -> None:
    epoch = RawEpoch(
        (RawMetric("T (usec)", REAL, period=2),), (RawNode(2, 0, 0, 0, (0.0,)), RawNode(-4, 2, 1, 9, (1.5,)))
    )
    assert values_by_label(opened(written(tmp_path, file_02(epoch)))) == {("/bin/app+0x9", "T (usec)"): 3.0}


@given(
    st.lists(st.tuples(st.integers(0, 3) | st.just(70_000), st.sampled_from([0, 1, 7, 2**48 - 1, 2**48, 2**64 - 1]))),
    st.integers(0, 5),
)
def test_regions_are_sorted_and_kept_once(pairs: list[tuple[int, int]], split: int) -> None:
    """Also where places and addresses do not fit into one number."""
    regions = Regions()
    owns = [
        regions.add(np.array([p for p, _ in part], np.int64), np.array([o for _, o in part], np.uint64))
        for part in (pairs[:split], pairs[split:])
    ]
    known, maps = regions.all()
    found = list(zip(known.place.tolist(), known.offset.tolist(), strict=True))
    assert found == sorted(set(pairs))
    numbers = [number for own, numbered in zip(owns, maps, strict=True) for number in numbered[own].tolist()]
    assert [found[number] for number in numbers] == pairs
