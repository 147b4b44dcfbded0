"""HPCToolkit databases against outside oracles.

The text dumps of HPCToolkit's own tool, the public projects' readable copy of two databases, an independent reader
made of `struct` alone, and the same run in the other generation of the format.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from callgrove.analysis.tables import Selection, export
from callgrove.model.contexts import ContextKind, Relation
from callgrove.model.experiment import Experiment
from callgrove.model.metrics import Scope
from tests.formats import text_dumps
from tests.formats.hpctoolkit import by_source_id, canonical_paths, raw_databases
from tests.formats.hpctoolkit.by_source_id import open_database
from tests.formats.samples import CORPUS, samples
from tests.requirements import SHARED

OWN = ("gxx_s.d", "mpi4.d", "pth4.d")
FOREIGN = ("gxx_s.foreign.d", "mpi4.foreign.d", "pth4.foreign.d")
GENERATIONS = ("prerelease", "release")
DATABASES = [s.path for s in samples() if s.format.startswith("hpctoolkit-") and s.path.is_dir()]
every_database = pytest.mark.parametrize("path", DATABASES, ids=lambda p: f"{p.parent.name}/{p.name}")
SPARSE = [path for path in DATABASES if (path / "profile.db").is_file()]  # legacy ones are tested by their own tests
every_sparse_database = pytest.mark.parametrize("path", SPARSE, ids=lambda p: f"{p.parent.name}/{p.name}")
dumped = pytest.mark.parametrize("name", [f"hpctoolkit-{g}/{d}" for g in GENERATIONS for d in OWN])


def own(shared: Path, name: str) -> Path:
    return shared / "data" / "own" / name


# -- HPCToolkit's own text dumps -------------------------------------------------------------------------------------


def as_printed(values: by_source_id.Values) -> text_dumps.Texts:
    return {key: f"{value:g}" for key, value in values.items()}


@dumped
def test_values_of_profiles_as_dumped(name: str, shared: Path) -> None:
    path = own(shared, name)
    printed = text_dumps.values_by_profile(path)
    assert len(printed) > 100
    assert as_printed(by_source_id.values_by_profile(open_database(path))) == printed


@dumped
def test_values_of_contexts_as_dumped(name: str, shared: Path) -> None:
    path = own(shared, name)
    printed = text_dumps.values_by_context(path)
    assert len(printed) > 50
    of_contexts = {key: text for key, text in printed.items() if key[1] != 0}  # the file's root is not a context
    assert as_printed(by_source_id.values_by_context(open_database(path))) == of_contexts


@dumped
def test_identifiers_as_dumped(name: str, shared: Path) -> None:
    path = own(shared, name)
    tuples = open_database(path).profiles.identifiers
    found = [
        [(tuples.name(k), physical if both == 0 else None, logical) for k, physical, logical, both in tuples.rows(p)]
        for p in range(len(tuples))
    ]
    found[0] = []  # the summary; pre-release files give it an identifier without a number
    assert found == text_dumps.identifiers(path)
    assert any(identifier[0] == "NODE" and identifier[1] == 0x7F0100 for one in found for identifier in one)


@dumped
def test_samples_as_dumped(name: str, shared: Path) -> None:
    path = own(shared, name)
    printed = text_dumps.samples(path)
    found = {profile: line for profile, line in by_source_id.samples(open_database(path)).items() if line}
    assert found == {profile: line for profile, line in printed.items() if line}


KIND_WORDS = {"function": (ContextKind.FUNCTION, ContextKind.INLINED, ContextKind.PLACEHOLDER)}
RELATIONS = {"lexical nest": Relation.LEXICAL, "call": Relation.CALL, "inlined call": Relation.INLINED}


@pytest.mark.parametrize("name", [f"hpctoolkit-release/{d}" for d in OWN])
def test_tree_as_dumped(name: str, shared: Path) -> None:
    path = own(shared, name)
    experiment = open_database(path)
    tree, regions = experiment.contexts, experiment.contexts.regions
    printed = text_dumps.contexts(path)
    assert [c.id for c in printed] == tree.source_id[: tree.n_listed].tolist()
    for context, want in enumerate(printed):
        parent, region = int(tree.parent[context]), int(tree.region[context])
        assert (int(tree.source_id[parent]) if parent >= 0 else None) == want.parent
        assert tree.relation[context] == RELATIONS[want.relation]
        assert tree.kind[context] in KIND_WORDS.get(want.kind, (ContextKind[want.kind.upper()],))
        if want.function is not None:
            assert regions.label(region) == want.function
            continue
        file = regions.files.paths[regions.file[region]] if regions.file[region] >= 0 else None
        assert file == (f"/{want.file.removeprefix('src/')}" if want.file and want.file[:4] == "src/" else want.file)
        assert (int(regions.line[region]) if file else None) == want.line
        assert (regions.modules[regions.module[region]] if regions.module[region] >= 0 else None) == want.module
        assert want.offset is None or int(regions.offset[region]) == want.offset


# -- the readable copies that HPCToolkit keeps of two of its test databases ------------------------------------------


class AnyTag(yaml.SafeLoader):
    """YAML in which every tag stands for the plain mapping, sequence or scalar that it adorns."""


def _plain(loader: yaml.SafeLoader, suffix: str, node: yaml.Node) -> Any:
    if isinstance(node, yaml.MappingNode):
        return loader.construct_mapping(node, deep=True)
    if isinstance(node, yaml.SequenceNode):
        return loader.construct_sequence(node, deep=True)
    assert isinstance(node, yaml.ScalarNode)
    return loader.construct_scalar(node)


AnyTag.add_multi_constructor("!", _plain)
SCOPES = {"point": "point", "function": "function", "lex_aware": "lexical", "execution": "inclusive"}
YAML_RELATIONS = {"lexical": Relation.LEXICAL, "call": Relation.CALL, "inlined_call": Relation.INLINED}


@pytest.fixture(scope="module", params=["small", "small.nostruct"])
def described(request: pytest.FixtureRequest, shared: Path) -> tuple[Experiment, dict[str, Any]]:
    folder = shared / "data" / "public" / "hpctoolkit" / "dbase"
    with (folder / f"{request.param}.yaml").open() as file:
        described: dict[str, Any] = yaml.load(file, AnyTag)
    return open_database(folder / f"{request.param}.d"), described


def test_metrics_as_described(described: tuple[Experiment, dict[str, Any]]) -> None:
    experiment, want = described
    metrics = [
        (metric["name"], SCOPES[one["scope"]["scope_name"]], one["prop_metric_id"])
        for metric in want["meta"]["metrics"]["metrics"]
        for one in metric["scope_insts"]
    ]
    assert [(m.name, m.scope.word, m.source_id) for m in experiment.metrics] == metrics
    assert experiment.title == want["meta"]["general"]["title"]
    assert list(experiment.profiles.identifiers.names) == want["meta"]["id_names"]["names"]


def test_tree_as_described(described: tuple[Experiment, dict[str, Any]]) -> None:
    experiment, want = described
    tree = experiment.contexts
    pending: list[tuple[dict[str, Any], int]] = [(e, -1) for e in reversed(want["meta"]["context"]["entry_points"])]
    context = 0
    while pending:
        one, parent = pending.pop()
        assert tree.source_id[context] == one["ctx_id"]
        assert tree.parent[context] == parent
        _same_place(experiment, context, one)
        pending.extend((child, context) for child in reversed(one["children"]))
        context += 1
    assert context == tree.n_listed


def _same_place(experiment: Experiment, context: int, want: dict[str, Any]) -> None:
    tree, regions = experiment.contexts, experiment.contexts.regions
    region = int(tree.region[context])
    if "pretty_name" in want:
        assert tree.kind[context] == ContextKind.ENTRY
        assert tree.label(context) == want["pretty_name"]
        return
    assert tree.kind[context] == ContextKind[want["lexical_type"].upper()]
    assert tree.relation[context] == YAML_RELATIONS[want["relation"]]
    place = want if want["function"] is None else want["function"]
    if want["function"] is not None:
        assert tree.label(context) == place["name"]
    if place["file"] is not None:
        assert regions.files.paths[regions.file[region]] == place["file"]["path"]
        assert regions.line[region] == place["line"]
    if place["module"] is not None:
        assert regions.modules[regions.module[region]] == place["module"]["path"]
        assert regions.offset[region] == place["offset"]


def test_profiles_and_values_as_described(described: tuple[Experiment, dict[str, Any]]) -> None:
    experiment, want = described
    profiles = want["profile"]["profile_infos"]["profiles"]
    values = {
        (profile, context, metric): value
        for profile, one in enumerate(profiles)
        for context, row in one["values"].items()
        for metric, value in row.items()
    }
    assert by_source_id.values_by_profile(experiment) == values
    for profile, one in enumerate(profiles):
        assert bool(experiment.profiles.is_summary[profile]) == ("is_summary" in one["flags"])
        found = [
            (kind, physical, logical, interpretation == 0)
            for kind, physical, logical, interpretation in experiment.profiles.identifiers.rows(profile)
        ]
        ids = one["id_tuple"]["ids"] if one["id_tuple"] else []
        assert found == [(i["kind"], i["physical_id"], i["logical_id"], "is_physical" in i["flags"]) for i in ids]


def test_contexts_as_described(described: tuple[Experiment, dict[str, Any]]) -> None:
    experiment, want = described
    values = {
        (profile, context, metric): value
        for context, one in enumerate(want["context"]["ctx_infos"]["contexts"])
        for metric, row in one["values"].items()
        for profile, value in row.items()
        if context != 0
    }
    assert by_source_id.values_by_context(experiment) == values


def test_traces_as_described(described: tuple[Experiment, dict[str, Any]]) -> None:
    experiment, want = described
    traces = want["trace"]["ctx_traces"]
    assert experiment.traces.time_range == (traces["timestamp_range"]["min"], traces["timestamp_range"]["max"])
    lines = {t["prof_index"]: [(s["timestamp"], s["ctx_id"]) for s in t["line"]] for t in traces["traces"]}
    assert by_source_id.samples(experiment) == lines


# -- by struct alone -------------------------------------------------------------------------------------------------


def bits(values: by_source_id.Values) -> raw_databases.Bits:
    return {key: struct.unpack("<Q", struct.pack("<d", value))[0] for key, value in values.items()}


@every_sparse_database
def test_nothing_is_dropped_or_changed(path: Path) -> None:
    """Every value of both files, bit for bit, and as many rows in the export."""
    experiment = open_database(path)
    stored = raw_databases.values_by_profile(path)
    assert bits(by_source_id.values_by_profile(experiment)) == stored
    assert experiment.values.n_stored() == len(stored)
    exported = sum(len(chunk) for chunk in export(experiment, "values"))
    assert exported == sum(context != 0 for _, context, _ in stored)
    transposed = {key: b for key, b in raw_databases.values_by_context(path).items() if key[1] != 0}
    assert bits(by_source_id.values_by_context(experiment)) == transposed


@every_sparse_database
def test_no_sample_is_dropped_or_changed(path: Path) -> None:
    experiment = open_database(path)
    stored = raw_databases.samples(path) if (path / "trace.db").is_file() else {}
    assert by_source_id.samples(experiment) == stored
    assert sum(len(chunk) for chunk in export(experiment, "samples")) == sum(map(len, stored.values()))


# -- computed costs --------------------------------------------------------------------------------------------------


@every_database
def test_exclusive_adds_up_to_inclusive_at_the_roots(path: Path) -> None:
    """For every quantity and profile, over the contexts of the tree."""
    experiment = open_database(path)
    tree = experiment.contexts
    for quantity in experiment.metrics.quantities:
        if experiment.metrics.find(quantity, Scope.INCLUSIVE) is None:
            continue
        for profile in experiment.profiles.measured:
            chosen = np.array([profile])
            exclusive = experiment.totals(quantity, Scope.EXCLUSIVE, chosen)[: tree.n_listed]
            inclusive = experiment.totals(quantity, Scope.INCLUSIVE, chosen)[tree.roots]
            assert exclusive.sum() == pytest.approx(inclusive.sum(), rel=1e-9, abs=0)
            assert (exclusive >= -1e-12 * inclusive.sum()).all()


@every_database
def test_exported_scopes_add_up_too(path: Path) -> None:
    experiment = open_database(path)
    sums: dict[str, Counter[tuple[int, str]]] = {}
    names = next(iter(export(experiment, "metrics"))).column("name").plain()
    roots = set(experiment.contexts.roots.tolist())
    for scope in ("exclusive", "inclusive"):
        found = sums[scope] = Counter()
        for chunk in export(experiment, "values", Selection(scope=scope)):
            for profile, context, metric, value in chunk.rows():
                if scope == "exclusive" or context in roots:
                    found[profile, names[metric]] += value
    assert sums["exclusive"].keys() == sums["inclusive"].keys()
    for key, value in sums["exclusive"].items():
        assert value == pytest.approx(sums["inclusive"][key], rel=1e-9, abs=0)


# -- the same run in both generations --------------------------------------------------------------------------------


def pairs() -> list[str]:
    there = (*OWN, *FOREIGN) if SHARED.is_dir() else (*OWN[1:], *FOREIGN[1:])
    return sorted(there)


def both(name: str) -> tuple[Experiment, Experiment]:
    """The database `name` as the two tools wrote it: (pre-release, release)."""
    if not name.startswith("gxx"):
        old, new = (open_database(CORPUS / "hpctoolkit" / g / name) for g in GENERATIONS)
    else:
        old, new = (open_database(SHARED / "data" / "own" / f"hpctoolkit-{g}" / name) for g in GENERATIONS)
    return old, new


same_run = pytest.mark.parametrize("name", pairs())


@same_run
def test_same_totals_in_both_generations(name: str) -> None:
    old, new = both(name)
    assert old.metrics.quantities == new.metrics.quantities
    totals: list[dict[object, float]] = []
    for experiment in (old, new):
        names = canonical_paths.profile_names(experiment)
        quantity = experiment.metrics.quantities[0]
        totals.append({names[p]: experiment.root_total(quantity, np.array([p])) for p in experiment.profiles.measured})
    assert totals[0].keys() == totals[1].keys()
    for profile, total in totals[0].items():
        assert total == pytest.approx(totals[1][profile], rel=1e-12, abs=0)
    assert sum(totals[0].values()) > 0


@same_run
def test_same_call_paths_in_both_generations(name: str) -> None:
    """Only `<no activity>` is a context of its own in the older one (A.5)."""
    old, new = both(name)
    assert canonical_paths.paths(old) - canonical_paths.paths(new) == {canonical_paths.NO_ACTIVITY}
    assert canonical_paths.paths(new) <= canonical_paths.paths(old)


@same_run
@pytest.mark.parametrize("scope", [Scope.FUNCTION, Scope.INCLUSIVE])
def test_same_costs_of_call_paths_in_both_generations(name: str, scope: Scope) -> None:
    """These runs are among those that A.6 found identical: no line, no function and no cost differs."""
    old, new = (canonical_paths.costs(e, e.metrics.quantities[0], scope) for e in both(name))
    assert old.keys() == new.keys()
    for key, value in old.items():
        assert value == pytest.approx(new[key], rel=1e-9, abs=0), key


@same_run
def test_same_samples_in_both_generations(name: str) -> None:
    """The newer tool drops an idle sample that follows an idle one; nothing else differs."""
    old, new = (canonical_paths.samples(e) for e in both(name))
    assert old.keys() == new.keys()
    for profile, line in old.items():
        merged = [s for k, s in enumerate(line) if not (k and s[1] == () == line[k - 1][1])]
        assert new[profile] in (line, merged)


def test_the_pairs_are_not_equal_by_accident() -> None:
    """The two generations do nest differently, so canonical paths are needed."""
    kinds: Callable[[Experiment], set[int]] = lambda e: set(e.contexts.kind.tolist())  # noqa: E731
    old, new = both("pth4.d")
    assert ContextKind.CALL in kinds(old) - kinds(new)
    assert ContextKind.ENTRY in kinds(new) - kinds(old)
