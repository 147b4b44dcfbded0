"""Contexts with their code, runs, profiles and where they live, as tables, and back.

They come back exactly as the builder had made them, with the same numbers: what is converted on from a folder is what
would have been converted from the original. The tree is checked before it is believed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any

import numpy as np

from callgrove.arrays import ABSENT, Array, Ids, freeze
from callgrove.formats.columnar.folder import Folder, StoredTable
from callgrove.formats.columnar.metric_tables import Attributes
from callgrove.formats.columnar.schema import Cells, Words
from callgrove.model.contexts import ContextKind, ContextTree, Regions, Relation, SourceFiles
from callgrove.model.experiment import Experiment, problems_of_contexts
from callgrove.model.profiles import IDENTITY, IdentifierTuples, ProfileKind, Profiles
from callgrove.model.runs import Run
from callgrove.model.system import System, Topology

__all__ = ["place_tables", "program_tables", "read_contexts", "read_profiles", "read_runs", "read_system"]


# -- contexts, regions, files, modules and strings ---------------------------------------------------------------------


CONTEXT_KINDS = [kind.word for kind in ContextKind]
RELATIONS = [relation.word for relation in Relation]
Parameters = dict[int, tuple[tuple[str, str | float], ...]]


def program_tables(tree: ContextTree) -> Iterator[tuple[str, Mapping[str, Cells]]]:
    """Yield every table of these with its columns."""
    regions, files = tree.regions, tree.regions.files
    n_files, n_strings, n_modules = len(files.paths), len(regions.strings), len(regions.modules)
    yield "strings", {"string": np.arange(n_strings), "text": regions.strings}
    copies = [files.copied.get(file) for file in range(n_files)]
    yield "files", {"file": np.arange(n_files), "path": files.paths, "copy": copies}
    yield "modules", {"module": np.arange(n_modules), "name": regions.modules}
    yield "regions", _region_columns(regions)
    yield "contexts", _context_columns(tree)
    yield "context_parameters", _parameter_columns(tree)


def _region_columns(regions: Regions) -> Mapping[str, Cells]:
    ids = {f"{name}_id": getattr(regions, name) for name in ("name", "file", "module", "role", "paradigm")}
    shown = {name: Words(getattr(regions, name), regions.strings) for name in ("name", "role", "paradigm")}
    return {
        "region": np.arange(len(regions)),
        "kind": Words(regions.kind, CONTEXT_KINDS),
        "line": regions.line,
        "end_line": regions.end_line,
        "offset": regions.offset,
        "file": Words(regions.file, regions.files.paths),
        "module": Words(regions.module, regions.modules),
        **shown,
        **ids,
    }


def _context_columns(tree: ContextTree) -> Mapping[str, Cells]:
    regions, n = tree.regions, len(tree)
    plain = ("parent", "subtree_end", "region", "within", "call_line", "source_id")
    return {
        "context": np.arange(n),
        **{name: getattr(tree, name) for name in plain},
        "depth": tree.depth,
        "kind": Words(tree.kind, CONTEXT_KINDS),
        "relation": Words(tree.relation, RELATIONS),
        "name": _names(tree),
        "file": Words(tree.column("file"), regions.files.paths),
        "line": tree.column("line"),
        "module": Words(tree.column("module"), regions.modules),
        "offset": tree.column("offset"),
        "call_file": Words(tree.call_file, regions.files.paths),
        "call_file_id": tree.call_file,
    }


def _names(tree: ContextTree) -> Words:
    """Return the name of each region once; contexts without one have a name of their own."""
    labels = [tree.regions.label(region) for region in range(len(tree.regions))]
    ids = tree.region.astype(np.int64)
    alone = np.flatnonzero(ids < 0)
    ids[alone] = len(labels) + np.arange(len(alone))
    return Words(ids, labels + [tree.name(context) for context in alone.tolist()])


def _parameter_columns(tree: ContextTree) -> Mapping[str, Cells]:
    rows = [(c, name, value) for c, given in sorted(tree.parameters.items()) for name, value in given]
    return {
        "context": np.array([c for c, _, _ in rows], np.int32),
        "name": [name for _, name, _ in rows],
        "text": [value if isinstance(value, str) else None for _, _, value in rows],
        "number": [None if isinstance(value, str) else float(value) for _, _, value in rows],
        "integer": [value if isinstance(value, int) and abs(value) < 2**63 else None for _, _, value in rows],
    }


# -- reading -----------------------------------------------------------------------------------------------------------


def read_contexts(folder: Folder, attributes: Attributes) -> ContextTree:
    """Return the tree with its regions; these tables must be whole."""
    table = folder.table("contexts")
    rows = folder.read_numbered("contexts", "context")
    regions = _read_regions(folder, attributes)
    columns: dict[str, Any] = {
        name: rows.numbers(name) for name in ("parent", "region", "within", "call_line", "source_id")
    }
    columns["kind"] = folder.codes(table, rows, "kind", CONTEXT_KINDS)
    columns["relation"] = folder.codes(table, rows, "relation", RELATIONS)
    columns["call_file"] = rows.numbers("call_file_id")
    if problems := problems_of_contexts(columns, len(regions), len(regions.files)):
        raise table.damage("rows", "contexts that fit together", problems[0])
    ends = rows.numbers("subtree_end")
    _check_preorder(table, columns["parent"], columns["kind"], ends)
    parameters: Parameters = {}
    return ContextTree(
        subtree_end=freeze(ends),
        **{name: freeze(column) for name, column in columns.items()},
        regions=regions,
        parameters=folder.or_warn(lambda: _read_context_parameters(folder, len(ends)), parameters),
        attributes=attributes.mappings("context", len(ends)),
    )


def _check_preorder(table: StoredTable, parent: Ids, kind: Ids, ends: Ids) -> None:
    """Check that each subtree is a slice: what follows a context is its first child, what follows its subtree its
    sibling."""
    n, context = len(parent), np.arange(len(parent))
    elided = np.flatnonzero(kind == ContextKind.ELIDED)
    n_listed = int(elided[0]) if len(elided) else n
    sound = bool((kind[n_listed:] == ContextKind.ELIDED).all() and (parent < context).all())
    if sound and bool(((ends > context) & (ends <= n)).all()):
        bound = np.where(parent >= 0, np.append(ends, n)[parent], np.where(context < n_listed, n_listed, n))
        after = np.append(parent, -2)
        child = (ends == context + 1) | (after[context + 1] == context)
        sibling = (ends == bound) | (after[np.minimum(ends, n)] == parent)
        roots_end = ends[n_listed:] == context[n_listed:] + 1
        if (child & sibling & (ends <= bound)).all() and roots_end.all():
            return
    raise table.damage("rows", "contexts in preorder with the ends of their subtrees", "another order")


def _read_regions(folder: Folder, attributes: Attributes) -> Regions:
    table, rows = folder.table("regions"), folder.read_numbered("regions", "region")
    strings = folder.read_numbered("strings", "string").names("text")
    files = folder.read_numbered("files", "file")
    modules = folder.read_numbered("modules", "module").names("name")
    paths = files.names("path")
    copied = {k: text for k, text in enumerate(files.texts("copy")) if text is not None}
    ids: dict[str, Array] = {}
    for name, known in (
        *((name, strings) for name in ("name", "role", "paradigm")),
        ("file", paths),
        ("module", modules),
    ):
        ids[name] = folder.ids(table, rows, f"{name}_id", len(known))
    return Regions(
        freeze(folder.codes(table, rows, "kind", CONTEXT_KINDS)),
        freeze(ids["name"]),
        freeze(ids["file"]),
        freeze(rows.numbers("line")),
        freeze(rows.numbers("end_line")),
        freeze(ids["module"]),
        freeze(rows.numbers("offset")),
        freeze(ids["role"]),
        freeze(ids["paradigm"]),
        strings,
        SourceFiles(paths, copied),
        modules,
        attributes.mappings("region", len(rows)),
    )


def _read_context_parameters(folder: Folder, n_contexts: int) -> Parameters:
    table = folder.table("context_parameters")
    rows = table.whole()
    context = folder.ids(table, rows, "context", n_contexts, lowest=0)
    columns = rows.texts("text"), rows.cells("integer"), rows.numbers("number").tolist()
    values = [next((one for one in row if one is not None), np.nan) for row in zip(*columns, strict=True)]
    cells = list(zip(rows.names("name"), values, strict=True))
    starts = np.flatnonzero(np.append(True, np.diff(context) != 0)).tolist() if len(context) else []
    out: Parameters = {}
    for first, last in pairwise([*starts, len(cells)]):
        out[int(context[first])] = tuple(cells[first:last])
    return out


# -- runs, profiles with their identifier tuples, and places -----------------------------------------------------------


PROFILE_KINDS = [kind.word for kind in ProfileKind]
MOST_DIMENSIONS = 1 << 10


def place_tables(tables: Experiment, part: Ids) -> Iterator[tuple[str, Mapping[str, Cells]]]:
    """Yield every table of these with its columns; `part` is the part of the spans that each profile belongs to."""
    runs = tables.runs
    yield (
        "runs",
        {
            "run": np.arange(len(runs)),
            "name": [run.name or None for run in runs],
            "repetition": np.array([run.repetition for run in runs], np.int64),
            "source": [run.source or None for run in runs],
        },
    )
    given = [(k, name, float(value)) for k, run in enumerate(runs) for name, value in run.parameters.items()]
    yield (
        "parameters",
        {
            "run": np.array([k for k, _, _ in given], np.int32),
            "name": [name for _, name, _ in given],
            "value": np.array([value for _, _, value in given], np.float64),
        },
    )
    yield "profiles", _profile_columns(tables.profiles, part)
    yield "identifiers", _identifier_columns(tables.profiles.identifiers)
    yield "places", _place_columns(tables.system)
    yield "topologies", _topology_columns(tables.system)
    yield "coordinates", _coordinate_columns(tables.system)


def _profile_columns(profiles: Profiles, part: Ids) -> Mapping[str, Cells]:
    n = len(profiles)
    return {
        "profile": np.arange(n),
        "source_id": profiles.source_id,
        "run": profiles.run,
        "kind": Words(profiles.kind, PROFILE_KINDS),
        "name": [name or None for name in profiles.name],
        "label": [profiles.label(profile) for profile in range(n)],
        **{column: profiles.identity_list(column) for column in IDENTITY},
        "place": profiles.system,
        "part": part,
    }


def _identifier_columns(tuples: IdentifierTuples) -> Mapping[str, Cells]:
    kinds, number = np.unique(tuples.kind, return_inverse=True)
    return {
        "profile": np.repeat(np.arange(len(tuples)), np.diff(tuples.bounds)),
        "kind": Words(number.reshape(-1), [tuples.name(kind) for kind in kinds.tolist()]),
        "physical": tuples.physical,
        "logical": tuples.logical,
        "interpretation": tuples.interpretation,
        "kind_id": tuples.kind,
    }


def _place_columns(system: System) -> Mapping[str, Cells]:
    n = len(system)
    source_ids = system.source_id if len(system.source_id) else np.full(n, ABSENT, np.int64)
    return {
        "place": np.arange(n),
        "parent": system.parent,
        "kind": [kind or None for kind in system.kind],
        "name": [name or None for name in system.name],
        "rank": system.rank,
        "source_id": source_ids,
    }


def _topology_columns(system: System) -> Mapping[str, Cells]:
    """Return a row per dimension; a topology without any has one row that says so."""
    rows: list[tuple[int, str | None, int, str | None, int, bool | None]] = []
    for number, topology in enumerate(system.topologies):
        names = [*topology.dimension_names, *[None] * len(topology.sizes)]
        for k, (size, periodic) in enumerate(zip(topology.sizes, topology.periodic, strict=True)):
            rows.append((number, topology.name or None, k, names[k], size, periodic))
        if not topology.sizes:
            rows.append((number, topology.name or None, ABSENT, None, ABSENT, None))
    columns = list(zip(*rows, strict=True)) if rows else [()] * 6
    return {
        "topology": np.array(columns[0], np.int32),
        "name": columns[1],
        "dimension": np.array(columns[2], np.int32),
        "dimension_name": columns[3],
        "size": np.array(columns[4], np.int64),
        "periodic": columns[5],
    }


def _coordinate_columns(system: System) -> Mapping[str, Cells]:
    none = [np.empty(0, np.int64)]
    parts: list[list[np.typing.NDArray[np.int64]]] = [[], [], [], []]
    for number, topology in enumerate(system.topologies):
        n, dimensions = topology.coordinates.shape
        parts[0].append(np.full(n * dimensions, number, np.int64))
        parts[1].append(np.repeat(topology.system, dimensions).astype(np.int64))
        parts[2].append(np.tile(np.arange(dimensions), n))
        parts[3].append(topology.coordinates.reshape(-1).astype(np.int64))
    names = ("topology", "place", "dimension", "coordinate")
    return {name: np.concatenate(part or none) for name, part in zip(names, parts, strict=True)}


# -- reading -----------------------------------------------------------------------------------------------------------


def read_runs(folder: Folder, attributes: Attributes) -> tuple[Run, ...]:
    rows = folder.read_numbered("runs", "run")
    none: dict[int, dict[str, float]] = {}
    given = folder.or_warn(lambda: _read_run_parameters(folder, len(rows)), none)
    columns = rows.names("name"), rows.numbers("repetition").tolist(), rows.names("source")
    return tuple(
        Run(name, given.get(number, {}), repetition, source, dict(attributes.of("run", number)))
        for number, (name, repetition, source) in enumerate(zip(*columns, strict=True))
    )


def _read_run_parameters(folder: Folder, n_runs: int) -> dict[int, dict[str, float]]:
    table = folder.table("parameters")
    rows = table.whole()
    run = folder.ids(table, rows, "run", n_runs, lowest=0).tolist()
    out: dict[int, dict[str, float]] = {}
    for number, name, value in zip(run, rows.names("name"), rows.numbers("value").tolist(), strict=True):
        out.setdefault(number, {})[name] = value
    return out


def read_profiles(folder: Folder, attributes: Attributes, n_runs: int, n_places: int) -> tuple[Profiles, Ids]:
    """Return the profiles, and the part of the spans that each belongs to."""
    table, rows = folder.table("profiles"), folder.read_numbered("profiles", "profile")
    n = len(rows)
    names = folder.manifest.get(folder.path, "identifier_kinds", list)
    attributed = tuple(attributes.of("profile", profile) for profile in range(n))
    profiles = Profiles(
        freeze(folder.ids(table, rows, "run", n_runs, lowest=0)),
        freeze(folder.codes(table, rows, "kind", PROFILE_KINDS)),
        rows.names("name"),
        freeze(folder.ids(table, rows, "place", n_places)),
        freeze(rows.numbers("source_id")),
        _read_identifiers(folder, n, tuple(map(str, names))),
        attributed if any(attributed) else (),
    )
    return profiles, rows.numbers("part")


def _read_identifiers(folder: Folder, n_profiles: int, names: tuple[str, ...]) -> IdentifierTuples:
    table = folder.table("identifiers")
    rows = table.whole()
    owner = folder.ids(table, rows, "profile", n_profiles, lowest=0)
    if (np.diff(owner) < 0).any():
        raise table.damage("column profile", "tuples in the order of their profiles", "another order")
    return IdentifierTuples(
        np.searchsorted(owner, np.arange(n_profiles + 1)).astype(np.int64),
        folder.ids(table, rows, "kind_id", 2**31 - 1, lowest=0),
        rows.numbers("physical"),
        rows.numbers("logical"),
        rows.numbers("interpretation"),
        names,
    )


def read_system(folder: Folder, attributes: Attributes) -> System:
    table, rows = folder.table("places"), folder.read_numbered("places", "place")
    n = len(rows)
    parent = folder.ids(table, rows, "parent", n)
    if (parent >= np.arange(n)).any():
        raise table.damage("column parent", "parents before their children", "another order")
    source_ids = rows.numbers("source_id")
    return System(
        freeze(parent),
        rows.names("kind"),
        rows.names("name"),
        freeze(rows.numbers("rank")),
        attributes.mappings("place", n),
        folder.or_warn(lambda: _read_topologies(folder, n), ()),
        freeze(source_ids) if (source_ids != ABSENT).any() else np.empty(0, np.int64),
    )


def _read_topologies(folder: Folder, n_places: int) -> tuple[Topology, ...]:
    table = folder.table("topologies")
    rows = table.whole()
    number, name, labels = rows.numbers("topology"), rows.names("name"), rows.texts("dimension_name")
    size, periodic = rows.numbers("size"), rows.numbers("periodic")
    dimension = rows.numbers("dimension")
    if len(number) and (number[0] != 0 or not np.isin(np.diff(number), (0, 1)).all()):
        raise table.damage("column topology", "topologies one after the other", "another order")
    places = _read_coordinates(folder, n_places, int(number[-1]) + 1 if len(number) else 0)
    out = []
    for one, (who, where) in enumerate(places):
        rows_of_topology = np.flatnonzero(number == one)
        here = rows_of_topology[dimension[rows_of_topology] >= 0].tolist()
        sizes = tuple(size[here].tolist())
        shape = (len(where) // max(1, len(here)), len(here))
        if len(here) > MOST_DIMENSIONS or shape[0] * shape[1] != len(where) or (len(where) and min(sizes) < 1):
            raise table.damage(f"topology {one}", f"{len(here)} coordinates for each place", f"{len(where)} in all")
        coordinates, system = where.reshape(shape), who.reshape(shape)
        inside = (coordinates >= 0) & (coordinates < np.array(sizes)) if len(where) else np.ones(shape, np.bool_)
        if not inside.all() or (system != system[:, :1]).any():
            raise table.damage(f"topology {one}", f"coordinates inside of {sizes}", "others")
        dims = tuple(label for label in (labels[k] for k in here) if label is not None)
        out.append(
            Topology(
                name[int(rows_of_topology[0])],
                sizes,
                tuple(periodic[here].tolist()),
                dims,
                system[:, 0].copy(),
                coordinates.copy(),
            )
            if here
            else Topology(name[int(rows_of_topology[0])], (), (), (), np.empty(0, np.int32), np.empty((0, 0), np.int64))
        )
    return tuple(out)


def _read_coordinates(folder: Folder, n_places: int, n: int) -> list[tuple[Ids, np.typing.NDArray[np.int64]]]:
    """Return (place, coordinate) of every dimension of every place, topology by topology."""
    table = folder.table("coordinates")
    rows = table.whole()
    place = folder.ids(table, rows, "place", n_places, lowest=0).astype(np.int32)
    number = folder.ids(table, rows, "topology", n, lowest=0)
    coordinate = rows.numbers("coordinate")
    return [(place[number == one], coordinate[number == one]) for one in range(n)]
