"""Genuine measurement files: the same bytes again, and every field as HPCToolkit's own dump tool prints it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from callgrove.binary.files import Source
from callgrove.formats.hpcrun.files import measurement_bytes, read_measurement
from callgrove.formats.hpcrun.format import FORMAT
from callgrove.formats.interface import DumpView
from tests.formats.hpcrun.hpcrun_dumps import DumpedFile, dumped, folders
from tests.requirements import SHARED, each_of_shared

HOW = {"BOTH": 0, "GEN LOCAL": 1, "GEN GLOBAL": 2, "SINGLE": 3}
SECTIONS = ("header", "loadmap", "cct", "metric table", "id dictionary", "sparse metrics")
PRINTED = ("hdr", "loadmap", "cct", "metric-tbl", "id-tuple dxnry", "sparse metrics")
TYPES = {"raw": "1", "final": "2", "derived": "3"}
VALUE_TYPES = {"none": "0", "inclusive": "1", "exclusive": "2"}
FORMATS = {"int": "1", "real": "2"}


def test_files_are_made_again_byte_for_byte(shared: Path) -> None:
    paths = sorted((shared / "data").rglob("*.hpcrun"))
    assert len(paths) == 77
    for path in paths:
        assert measurement_bytes(read_measurement(path)) == path.read_bytes(), path


def test_old_files_are_of_the_dialect_of_their_release(shared: Path) -> None:
    for release, dialect in (("2016.12", "A"), ("2018.09", "B")):
        paths = sorted((shared / "data/own/hpcrun-02.00" / release).rglob("*.hpcrun"))
        assert {read_measurement(path).dialect for path in paths} == {dialect}


@each_of_shared("folder", folders(SHARED / "data"), ids=lambda p: f"{p.parent.name}-{p.name}")
def test_every_field_is_what_the_tool_prints(folder: Path, shared: Path) -> None:
    known = dumped(folder)
    assert sorted(known) == sorted(path.name for path in folder.glob("*.hpcrun"))
    for name, want in known.items():
        have = json.loads("".join(FORMAT.dump_view(Source.of(folder / name), DumpView.JSON)))
        assert have["version"] == want.version
        assert [(p["name"], p["value"]) for p in have["header"]] == want.pairs
        if have["version"] == "04.00":
            _same_tables(have, want)
            _same_sparse(have, want)
        else:
            [epoch] = have["epochs"]
            _same_epoch(epoch, want)
            _same_tables(epoch, want)


def _same_epoch(have: dict[str, Any], want: DumpedFile) -> None:
    assert (hex(have["flags"]), str(have["granularity"])) == (want.epoch_flags, want.granularity)
    assert want.ra in ("", str(have["ra"]))  # not every release prints it
    assert [(p["name"], p["value"]) for p in have["pairs"]] == want.epoch_pairs
    assert [[str(v) for v in node["values"]] for node in have["cct"]] == want.node_values


def _same_tables(have: dict[str, Any], want: DumpedFile) -> None:
    metrics = [
        (
            m["name"],
            m["desc"],
            TYPES[m["ty"]],
            VALUE_TYPES[m["valty"]],
            FORMATS[m["fmt"]],
            *(str(m[word]) for word in ("partner", "show", "percent", "period", "formula", "format")),
        )
        for m in have["metrics"]
    ]
    assert metrics == want.metrics
    tails = [
        (str(m["freq"]), str(m["mux"]), f"{m['mean']:f}", str(m["samples"])) for m in have["metrics"] if "freq" in m
    ]
    assert tails == want.tails
    assert [(str(m["id"]), m["path"], hex(m["flags"])) for m in have["loadmap"]] == want.modules
    nodes = [(str(n["id"]), str(n["parent"]), str(n["lm"]), hex(n["ip"])) for n in have["cct"]]
    assert nodes == want.nodes
    assert {str(n["id"]): n["code"] for n in have["cct"] if n.get("code")} == want.codes


def _same_sparse(have: dict[str, Any], want: DumpedFile) -> None:
    assert [(str(k["kind"]), k["name"]) for k in have["idkinds"]] == want.kinds
    for own, (kind, how, first, second) in zip(have["tuple"], want.identifiers, strict=True):
        assert (own["kind"], own["interp"]) == (kind, HOW[how])
        assert [str(own["physical"]), str(own["logical"])] == ([first, second] if second else [first, first])
    reals = {k for k, m in enumerate(have["metrics"]) if m["fmt"] == "real"}
    flat = [(metric, number) for row in have["values"] for metric, number in row["values"]]
    assert [(f"{v:g}" if m in reals else str(v), str(m)) for m, v in flat] == want.values
    index, first_value = [], 0
    for row in have["values"]:
        index.append((str(row["node"]), str(first_value)))
        first_value += len(row["values"])
    assert [*index, ("END", str(first_value))] == want.index
    places = [(str(p["start"]), str(p["end"])) for p in have["footer"]]
    assert [p["section"] for p in have["footer"]] == list(SECTIONS)
    assert places == [want.footer[name] for name in PRINTED]
