"""Runs, profiles with their identifier tuples, and where they live, as tables, and back."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from callgrove.arrays import ABSENT, Ids, freeze
from callgrove.formats.columnar.attributes import Attributes
from callgrove.formats.columnar.folder import Folder
from callgrove.formats.columnar.schema import Cells, Words
from callgrove.model.experiment import Experiment
from callgrove.model.profiles import IDENTITY, IdentifierTuples, ProfileKind, Profiles, System, Topology
from callgrove.model.runs import Run

__all__ = ["place_tables", "read_profiles", "read_runs", "read_system"]

KINDS = [kind.word for kind in ProfileKind]
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
        "kind": Words(profiles.kind, KINDS),
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
    given = folder.or_warn(lambda: _read_parameters(folder, len(rows)), none)
    columns = rows.names("name"), rows.numbers("repetition").tolist(), rows.names("source")
    return tuple(
        Run(name, given.get(number, {}), repetition, source, dict(attributes.of("run", number)))
        for number, (name, repetition, source) in enumerate(zip(*columns, strict=True))
    )


def _read_parameters(folder: Folder, n_runs: int) -> dict[int, dict[str, float]]:
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
        freeze(folder.codes(table, rows, "kind", KINDS)),
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
    """(place, coordinate) of every dimension of every place, topology by topology."""
    table = folder.table("coordinates")
    rows = table.whole()
    place = folder.ids(table, rows, "place", n_places, lowest=0).astype(np.int32)
    number = folder.ids(table, rows, "topology", n, lowest=0)
    coordinate = rows.numbers("coordinate")
    return [(place[number == one], coordinate[number == one]) for one in range(n)]
