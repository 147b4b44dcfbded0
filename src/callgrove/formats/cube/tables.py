"""From the anchor to the model: metrics, regions and contexts, the system with its profiles and topologies."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from callgrove.arrays import ABSENT, Ids, Ints
from callgrove.binary.files import IdMap
from callgrove.errors import CorruptFile
from callgrove.formats.cube.anchor import PLACES, Anchor, Level, RawCart, RawMetric, RawPlace, RawRegion
from callgrove.formats.cube.vocabulary import DERIVED, GHOST, MIRRORS, SCOPES, TITLE, VOID, CubeMetric, value_type
from callgrove.model.builder import ExperimentBuilder
from callgrove.model.contexts import LAST_LINE, MANGLED, ContextKind
from callgrove.model.cubepl import Definition, Program, Surroundings, compile_metrics
from callgrove.model.experiment import Severity
from callgrove.model.metrics import Aggregation, Metric, Scope
from callgrove.model.profiles import Identifier, ProfileKind
from callgrove.model.system import System, Topology

__all__ = ["add_attributes", "add_contexts", "add_metrics", "add_system", "metric_of"]

PARADIGMS = frozenset(
    (
        "mpi",
        "openmp",
        "omp",
        "compiler",
        "user",
        "measurement",
        "shmem",
        "pthread",
        "openacc",
        "opencl",
        "cuda",
        "hip",
        "io",
        "memory",
    )
)
NODE, RANK, THREAD, DEVICE, STREAM = 1, 2, 3, 4, 6  # kinds of identifiers
SINGLE = 3  # both numbers of an identifier are the same
KINDS = {"thread": ProfileKind.THREAD, "metric": ProfileKind.METRIC}
STREAMS = ("accelerator stream", "gpu")


def add_attributes(builder: ExperimentBuilder, anchor: Anchor) -> None:
    builder.attributes.update(anchor.attributes)
    builder.attributes.update({TITLE + section: title for section, title in anchor.titles.items()})
    if anchor.mirrors:
        builder.attributes[MIRRORS] = "\n".join(anchor.mirrors)


def check_unique(path: Path, what: str, ids: Sequence[int] | Ints, lines: Sequence[int]) -> None:
    """Raise where two of a kind have one id."""
    numbers = np.asarray(ids, np.int64)
    order = np.argsort(numbers, kind="stable")
    twice = np.flatnonzero(np.diff(numbers[order]) == 0)
    if len(twice):
        row = int(order[twice[0] + 1])
        found = f"{what} {int(numbers[row])} twice"
        raise CorruptFile(path, "anchor.xml", line=lines[row], expected=f"every {what} once", found=found)


# -- metrics -----------------------------------------------------------------------------------------------------------


def add_metrics(
    path: Path, builder: ExperimentBuilder, metrics: Sequence[RawMetric], around: Surroundings | None = None
) -> Program:
    """Add one row for each metric, in the order of the document; return the program of their formulas, for which
    `around` is what else the file says."""
    check_unique(path, "metric", [m.id for m in metrics], [m.line for m in metrics])
    names: set[str] = set()
    untyped: list[str] = []
    definitions: list[Definition] = []
    for raw in metrics:
        row = metric_of(raw)
        if row.name in names:
            found = f"a second {row.name!r}"
            raise CorruptFile(path, "anchor.xml", line=raw.line, expected="every unique name once", found=found)
        names.add(row.name)
        if "type" not in raw.given:
            untyped.append(row.name)
        if type_of(raw) in DERIVED and not row.is_derived:
            builder.warn(Severity.DAMAGE, f"{path}: metric {row.name} is {type_of(raw)} and has no formula")
        definitions.append(
            Definition(row, type_of(raw), raw.texts.get("cubeplinit", ""), tuple(raw.rules), is_void(raw))
        )
    compiled = compile_metrics(definitions, around)
    for row in compiled.rows:
        builder.add_metric(row)
    for note in compiled.notes:
        builder.warn(Severity.NOTE, f"{path}: {note}")
    if untyped:
        some = ", ".join(untyped[:5]) + (", ..." if len(untyped) > 5 else "")
        builder.warn(Severity.NOTE, f"{path}: metrics without a type are taken as exclusive: {some}")
    return compiled.program


def type_of(raw: RawMetric) -> str:
    return raw.given.get("type", "EXCLUSIVE").strip().upper()


def is_void(raw: RawMetric) -> bool:
    return raw.texts.get("val", "").strip() == VOID


def metric_of(raw: RawMetric) -> Metric:
    """Return the row of a metric."""
    texts, kind = raw.texts, type_of(raw)
    spelling = texts.get("dtype", "").strip()
    type_ = value_type(spelling)
    name = texts.get("uniq_name", "").strip() or texts.get("disp_name", "").strip() or f"metric#{raw.id}"
    unit, scope = texts.get("uom", "").strip(), SCOPES.get(kind, Scope.NONE)
    aggregation = Aggregation.SUM if type_ is None or kind in DERIVED else type_.aggregation
    if kind == "POSTDERIVED":
        aggregation = Aggregation.NONE
    formula = texts.get("cubepl", "") if kind in DERIVED else ""
    if kind in DERIVED and not formula.strip():
        scope = Scope.NONE  # nobody knows its values
    said = CubeMetric.of_raw(raw)
    if name == "time" and type_ is not None and type_.name == "TAU_ATOMIC" and scope == Scope.EXCLUSIVE:
        # Score-P's thread tuples: ticks of the timer, inclusive, whatever the anchor says
        said, unit, scope = CubeMetric.of_raw(raw, unit), "ticks", Scope.INCLUSIVE
    return Metric(
        name,
        scope,
        unit=unit,
        dtype=spelling,
        aggregation=aggregation,
        description=texts.get("descr", ""),
        url=texts.get("url", ""),
        visible=raw.given.get("viztype", "") != GHOST and not is_void(raw),
        parent=raw.parent,
        formula=formula,
        source_id=raw.id,
        id_of_quantity=True,
        composite=type_.composite if type_ is not None and kind not in DERIVED else None,
        attributes=said.attributes(),
    )


# -- regions and contexts ----------------------------------------------------------------------------------------------


def add_contexts(path: Path, builder: ExperimentBuilder, anchor: Anchor) -> None:
    """Add regions, then cnodes in document order, which is preorder."""
    check_unique(path, "region", [r.id for r in anchor.regions], [r.line for r in anchor.regions])
    check_unique(path, "cnode", np.frombuffer(anchor.cnode_id, np.int64), anchor.cnode_xml_line)
    regions = np.array([_region(builder, raw) for raw in anchor.regions], np.int64)
    known = IdMap(np.array([raw.id for raw in anchor.regions], np.int64))
    callee = np.array(anchor.cnode_callee, np.int64)
    row = known[callee].astype(np.int64)
    if len(missing := np.flatnonzero(row < 0)):
        cnode = int(missing[0])
        line, wanted = anchor.cnode_xml_line[cnode], f"a region that is called by cnode {anchor.cnode_id[cnode]}"
        raise CorruptFile(path, "anchor.xml", line=line, expected=wanted, found=f"no region {int(callee[cnode])}")
    kinds = np.array([int(_kind(raw)) for raw in anchor.regions], np.int64)
    n = len(callee)
    call_file = np.full(n, ABSENT, np.int64)
    for cnode, mod in anchor.cnode_mod.items():
        call_file[cnode] = builder.file(mod)
    lines = np.array(anchor.cnode_line, np.int64)
    added = builder.add_contexts(
        parent=np.array(anchor.cnode_parent, np.int64),
        kind=kinds[row] if n else row,
        region=regions[row] if n else row,
        call_file=call_file,
        call_line=np.where((lines < 0) | (lines > LAST_LINE), ABSENT, lines),
        source_id=np.array(anchor.cnode_id, np.int64),
    )
    _describe_contexts(path, builder, anchor, added)


def _describe_contexts(path: Path, builder: ExperimentBuilder, anchor: Anchor, added: range) -> None:
    odd: set[str] = set()
    for cnode, given in anchor.parameters.items():
        odd |= {kind for kind, _, _ in given if kind not in ("numeric", "string")}
        builder.describe_context(added[cnode], [(key, _parameter(kind, value)) for kind, key, value in given])
    if odd:
        builder.warn(Severity.NOTE, f"{path}: parameters of unknown types are kept as texts: {', '.join(sorted(odd))}")
    for cnode, pairs in anchor.cnode_attributes.items():
        builder.describe_context(added[cnode], attributes=dict(pairs))


def _parameter(kind: str, value: str) -> str | float:
    """Return the value of a parameter: numeric ones are numbers, integers where they can be."""
    if kind != "numeric":
        return value
    digits = value.strip().removeprefix("-")
    if digits.isascii() and digits.isdigit():
        return int(value) if len(digits) < 20 else value
    try:
        number = float(value)
    except ValueError:
        return value
    return number if np.isfinite(number) else value


def _kind(raw: RawRegion) -> ContextKind:
    return ContextKind.LOOP if raw.texts.get("role", "").strip() == "loop" else ContextKind.FUNCTION


def _region(builder: ExperimentBuilder, raw: RawRegion) -> int:
    texts, mod = raw.texts, raw.mod
    paradigm = texts.get("paradigm", "")
    is_module = mod.lower() in PARADIGMS or (bool(mod) and mod.lower() == paradigm.lower())
    details = {
        word: value
        for word, value in (
            (MANGLED, texts.get("mangled_name", "")),
            ("description", texts.get("descr", "")),
            ("url", texts.get("url", "")),
            *raw.attributes,
        )
        if value
    }
    return builder.region(
        _kind(raw),
        texts.get("name", ""),
        file=builder.file(mod) if mod and not is_module else ABSENT,
        line=raw.begin if 0 <= raw.begin <= LAST_LINE else ABSENT,
        end_line=raw.end if 0 <= raw.end <= LAST_LINE else ABSENT,
        module=builder.module(mod) if is_module else ABSENT,
        role=texts.get("role", ""),
        paradigm=paradigm,
        details=details,
    )


# -- the system --------------------------------------------------------------------------------------------------------


def add_system(path: Path, builder: ExperimentBuilder, anchor: Anchor) -> tuple[System, Ids, Ints]:
    """Add the system tree with its topologies, and a profile for each location in ascending order of ids; return the
    tree, the places of locations in it, and their ids."""
    places = _renumber(anchor.places)
    locations = [k for k, place in enumerate(places) if place.level == Level.LOCATION]
    check_unique(path, "location", [places[k].id for k in locations], [places[k].line for k in locations])
    order = sorted(locations, key=lambda k: places[k].id)
    for place in order:
        _add_profile(builder, places, place)
    system = System(
        np.array([p.parent for p in places], np.int32),
        tuple(_kind_of_place(p) for p in places),
        tuple(p.texts.get("name", "") for p in places),
        np.array([_rank(p) for p in places], np.int64),
        {k: attributes for k, p in enumerate(places) if (attributes := _attributes(p))},
        source_id=np.array([p.id for p in places], np.int64),
    )
    topologies = [
        t for cart in anchor.carts if (t := _topology(path, builder, cart, anchor.places, places)) is not None
    ]
    system = replace(system, topologies=tuple(topologies))
    builder.set_system(system, np.array(order, np.int32))
    return system, np.array(order, np.int32), np.array([places[k].id for k in order], np.int64)


def _renumber(places: list[RawPlace]) -> list[RawPlace]:
    """Return the places with ids that differ: machines and nodes of old anchors are numbered by themselves."""
    out = list(places)
    for level in (Level.NODE, Level.GROUP):
        rows = [k for k, place in enumerate(places) if place.level == level]
        if len({places[k].id for k in rows}) < len(rows):
            for number, k in enumerate(rows):
                out[k] = replace(places[k], id=number)
    return out


def _kind_of_place(place: RawPlace) -> str:
    word = "class" if place.level == Level.NODE else "type"
    return place.texts.get(word, "").strip() or PLACES[place.element][1] or "node"


def _rank(place: RawPlace) -> int:
    text = place.texts.get("rank", "").strip()
    digits = text.removeprefix("-")
    return int(text) if digits.isascii() and digits.isdigit() and len(digits) < 19 else ABSENT


def _attributes(place: RawPlace) -> dict[str, str]:
    described = place.texts.get("descr", "")
    return {**dict(place.attributes), **({"description": described} if described else {})}


def _add_profile(builder: ExperimentBuilder, places: Sequence[RawPlace], leaf: int) -> None:
    """Add a profile that is identified by a location, its process (or device) and its node: the nearest of class node,
    else the innermost."""
    location, group = places[leaf], places[places[leaf].parent]
    above, at = [], group.parent
    while at >= 0:
        above.append(at)
        at = places[at].parent
    node = next((k for k in above if _kind_of_place(places[k]) == "node"), above[0])
    kind = _kind_of_place(location)
    identifiers: list[Identifier] = list(_identifier(NODE, places[node].id))
    if _kind_of_place(group) == "accelerator":
        identifiers += [*_identifier(DEVICE, _rank(group)), *_identifier(STREAM, _rank(location))]
    else:
        identifiers += [*_identifier(RANK, _rank(group)), *_identifier(THREAD, _rank(location))]
    profile_kind = ProfileKind.GPU_STREAM if kind in STREAMS else KINDS.get(kind, ProfileKind.OTHER)
    builder.add_profile(profile_kind, identifiers, name=location.texts.get("name", ""), source_id=location.id)


def _identifier(kind: int, number: int) -> Iterable[Identifier]:
    return [(kind, number, number, SINGLE)] if number >= 0 else []


def _topology(
    path: Path, builder: ExperimentBuilder, cart: RawCart, old: Sequence[RawPlace], places: Sequence[RawPlace]
) -> Topology | None:
    """Return a topology without the coordinates that mean nothing; what was dropped is told."""
    sizes = tuple(int(d["size"]) if d.get("size", "").isdigit() and len(d["size"]) < 10 else -1 for d in cart.dims)
    if not sizes or min(sizes) < 0 or cart.n_dims.strip() != str(len(sizes)):
        wanted = f"{cart.n_dims or 'no'} dimensions"
        builder.warn(Severity.NOTE, f"{path}: topology {cart.name!r} is left out: {wanted}, sizes {sizes}")
        return None
    known = {(place.level, place.element, str(place.id)): k for k, place in enumerate(old)}
    by_level = {(place.level, str(place.id)): k for k, place in enumerate(places)}
    who, where, dropped = [], [], 0
    for level, word, id_, text in cart.coordinates:
        element = {"nodeId": "node", "machId": "machine"}.get(word, "")
        place = known.get((level, element, id_.strip())) if element else by_level.get((level, id_.strip()))
        numbers = text.split()
        fits = len(numbers) == len(sizes) and all(
            n.isascii() and n.isdigit() and len(n) < 10 and int(n) < size
            for n, size in zip(numbers, sizes, strict=True)
        )
        if place is None or not fits:
            dropped += 1
            continue
        who.append(place)
        where.append([int(n) for n in numbers])
    if dropped:
        text = f"{dropped} coordinates of topology {cart.name!r} are left out: unknown places, or outside of {sizes}"
        builder.warn(Severity.NOTE, f"{path}: {text}")
    return Topology(
        cart.name,
        sizes,
        tuple(d.get("periodic", "").strip() in ("true", "1") for d in cart.dims),
        tuple(d.get("name", "") for d in cart.dims),
        _ids(who),
        np.array(where, np.int64).reshape(len(who), len(sizes)),
    )


def _ids(numbers: Sequence[int]) -> Ids:
    return np.array(numbers, np.int32)
