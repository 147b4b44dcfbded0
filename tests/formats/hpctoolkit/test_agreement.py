"""`check` compares both orders of the values, the file's root, the summary and the traces: one changed number is found
and told with the number that it should be."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from callgrove.examples import example
from callgrove.model.experiment import Experiment
from callgrove.model.metrics import Scope
from tests.formats.samples import databases
from tests.formats.written import PRERELEASE, RELEASE, damage, read, write
from tests.requirements import SHARED

ORDER = {RELEASE: "<", PRERELEASE: ">"}
GENUINE = sorted(p.parent for n in ("meta.db", "experiment.xml") for p in SHARED.glob(f"data/**/{n}"))


def change(path: Path, at: int, code: str, edit: Callable[[float], float]) -> tuple[float, float]:
    """One number of a file by another; gives both."""
    data = bytearray(path.read_bytes())
    (old,) = struct.unpack_from(code, data, at)
    struct.pack_into(code, data, at, edit(old))
    path.write_bytes(data)
    return old, edit(old)


@pytest.fixture(params=[RELEASE, PRERELEASE])
def written(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Path, str]:
    write(example(), tmp_path / "a.d", request.param)
    assert damage(tmp_path / "a.d") == []
    return tmp_path / "a.d", ORDER[request.param]


def first_value(found: Experiment, context: int) -> int:
    """Where in cct.db the first value of a context id lies, without the number of its profile before or after it."""
    blocks = found.values.backend.by_context  # type: ignore[attr-defined]
    return int(blocks.values_at[context]) + int(blocks.layout.value.fields["value"][1])


def test_another_value_in_the_other_order(written: tuple[Path, str]) -> None:
    path, order = written
    found = read(path)
    at = first_value(found, int(found.contexts.source_id[1]))
    old, new = change(path / "cct.db", at, f"{order}d", lambda value: value * 1.5)
    [text] = damage(path)
    assert "1 context has other values here than in profile.db" in text
    assert f"{new:g} here, {old:g} there" in text


def test_another_value_of_the_root_in_the_other_order(written: tuple[Path, str]) -> None:
    path, order = written
    old, new = change(path / "cct.db", first_value(read(path), 0), f"{order}d", lambda value: value + 1)
    [text] = damage(path)
    assert text.startswith("context 0: the root has other values here than in profile.db")
    assert f"{new:g} here, {old:g} there" in text


def test_another_root_in_the_summary(written: tuple[Path, str]) -> None:
    """Nothing below the root says so: contexts of the summary are all right."""
    path, order = written
    blocks = read(path).values.backend.by_profile  # type: ignore[attr-defined]
    layout = blocks.layout.value
    at = int(blocks.values_at[0]) + int(layout.fields["value"][1])  # context 0 comes first
    change(path / "profile.db", at, f"{order}d", lambda value: value * 2)
    assert any("the summary's root is" in text for text in damage(path))


@pytest.mark.parametrize(("factor", "is_damage"), [(1 + 1e-7, True), (1 + 1e-11, False)])
def test_another_sum_in_the_summary(written: tuple[Path, str], factor: float, is_damage: bool) -> None:
    """Sums may have been added up in another order: what differs in the last digits is the same."""
    path, order = written
    found = read(path)
    blocks = found.values.backend.by_profile  # type: ignore[attr-defined]
    n_root = len(found.values.backend.root(0)[0])  # type: ignore[attr-defined]
    layout = blocks.layout.value
    at = int(blocks.values_at[0]) + n_root * layout.itemsize + int(layout.fields["value"][1])
    change(path / "profile.db", at, f"{order}d", lambda value: value * factor)
    assert any("1 context differs from the threads" in text for text in damage(path)) is is_damage


def test_a_sample_on_a_context_that_cannot_be(written: tuple[Path, str]) -> None:
    path, order = written
    found = read(path)
    n = len(found.values.backend.by_context)  # type: ignore[attr-defined]
    samples = found.traces.samples
    offset = samples._record.fields["ctx"][1]  # type: ignore[union-attr]
    at = int(samples._start[0]) + int(offset)  # type: ignore[union-attr]
    change(path / "trace.db", at, f"{order}I", lambda _: n + 5)
    [text] = damage(path)
    assert f"a sample is on context {n + 5}; cct.db ends with context {n - 1}" in text


def test_time_that_runs_backwards(written: tuple[Path, str]) -> None:
    path, order = written
    samples = read(path).traces.samples
    at = int(samples._start[0]) + int(samples._record.fields["time"][1])  # type: ignore[union-attr]
    change(path / "trace.db", at, f"{order}Q", lambda time: int(time) + 10**12)
    assert any("time runs backwards" in text for text in damage(path))


@pytest.mark.parametrize("path", [*GENUINE, *databases("release"), *databases("prerelease")], ids=lambda p: p.name)
def test_genuine_databases_are_sound(path: Path) -> None:
    assert damage(path) == []


def test_a_loop_that_is_called_is_nested_in_what_is_written(tmp_path: Path) -> None:
    """Pre-release databases have no relation for loops: function scope is written as it will be read."""
    from callgrove.model.builder import ExperimentBuilder
    from callgrove.model.contexts import ContextKind, Relation
    from callgrove.model.metrics import Metric
    from callgrove.model.profiles import ProfileKind

    out = ExperimentBuilder("made up", title="a loop that is called")
    for number, kind in enumerate((ContextKind.FUNCTION, ContextKind.FUNCTION, ContextKind.LOOP)):
        region = out.region(kind, f"f{number}", file=out.file("/a.c"), line=number + 1)
        out.add_context(number - 1, kind, region, Relation.CALL)
    out.add_profile(ProfileKind.THREAD, [(3, 0, 0, 3)])
    out.add_values(0, [0, 1, 2], out.add_metric(Metric("time", Scope.EXCLUSIVE)), [1.0, 2.0, 4.0])
    old = out.build()
    for to in (PRERELEASE, RELEASE):
        write(old, tmp_path / to, to)
        assert damage(tmp_path / to) == []
        new = read(tmp_path / to)
        assert new.root_total("time") == new.totals("time", Scope.EXCLUSIVE).sum() == 7.0


def test_what_was_never_traced_has_no_trace(tmp_path: Path) -> None:
    """A pre-release database always has a trace.db; there and back adds none to a released one."""
    from dataclasses import replace

    from callgrove.model.traces.events import Traces

    write(replace(example(), traces=Traces()), tmp_path / "a.d", RELEASE)
    assert not (tmp_path / "a.d" / "trace.db").exists()
    write(read(tmp_path / "a.d"), tmp_path / "b.d", PRERELEASE)
    assert (tmp_path / "b.d" / "trace.db").exists()
    write(read(tmp_path / "b.d"), tmp_path / "c.d", RELEASE)
    assert not (tmp_path / "c.d" / "trace.db").exists()
