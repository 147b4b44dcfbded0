"""anchor.xml in the dialect that CubeLib's own parser accepts.

Newlines are LF, quotes are double, nothing is commented; `attr`, `parameter` and `dim` close themselves, every other
element has an end tag even if it is empty. Parameters stand before child cnodes, texts before children.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

import numpy as np

from callgrove._version import __version__
from callgrove.formats.cube.anchor import Level
from callgrove.formats.cube.plan import CnodePlan, MetricPlan, Place, Places, PlannedMetric
from callgrove.formats.cube.vocabulary import CLUSTERING, CREATOR, MIRRORS, TITLE
from callgrove.model.contexts import MANGLED, ContextKind, ContextTree, Regions
from callgrove.model.experiment import Experiment
from callgrove.model.metrics import Metric
from callgrove.model.system import Topology

__all__ = ["anchor_pieces"]

VERSION, VERSION_WITH_ACCELERATORS = "4.4", "4.7"
CUBE_VERSION, CUBEPL_VERSION = "4.8.2", "1.1"
CLUSTERED_IDS = ("CLUSTER ROOT CNODE ID", "CLUSTER MAPPING ")
WRITTEN_BY = "callgrove version"
OWN_DETAILS = (MANGLED, "description", "url")
UNKNOWN_REGION = "<unknown>"
NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
ENTITIES = {"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&apos;"}
SPECIAL = re.compile("[&<>\"']")


def escape(text: str) -> str:
    """Return a text for XML; characters that XML has no place for become U+FFFD."""
    plain = NOT_XML.sub("\ufffd", text) if not text.isascii() or not text.isprintable() else text
    return SPECIAL.sub(lambda match: ENTITIES[match[0]], plain)


def in_quotes(text: str) -> str:
    """Return a text for an attribute, in quotes; line ends need entities to survive."""
    return escape(text).replace("\n", "&#10;").replace("\t", "&#9;").replace("\r", "&#13;")


def element(name: str, text: str, given: str = "") -> str:
    return f"<{name}{given}>{escape(text).replace(chr(13), '&#13;')}</{name}>\n"


def attribute(key: str, value: str) -> str:
    return f'<attr key="{in_quotes(key)}" value="{in_quotes(value)}"/>\n'


def attributes(pairs: Mapping[str, str] | Iterable[tuple[str, str]]) -> str:
    items = pairs.items() if isinstance(pairs, Mapping) else pairs
    return "".join(attribute(key, value) for key, value in items)


def anchor_pieces(experiment: Experiment, metrics: MetricPlan, cnodes: CnodePlan, places: Places) -> Iterator[str]:
    """Yield the whole document, piece by piece."""
    version = VERSION_WITH_ACCELERATORS if places.has_accelerators else VERSION
    yield f'<?xml version="1.0" encoding="UTF-8"?>\n<cube version="{version}">\n'
    yield _document_attributes(experiment, version, cnodes)
    yield "<doc>\n<mirrors>\n"
    yield "".join(element("murl", url) for url in experiment.attributes.get(MIRRORS, "").split("\n") if url)
    yield "</mirrors>\n</doc>\n"
    yield f"<metrics{_title(experiment, 'metrics')}>\n"
    yield from _metrics(experiment, metrics)
    yield f"</metrics>\n<program{_title(experiment, 'program')}>\n"
    yield from _regions(experiment.contexts)
    yield from _cnodes(cnodes)
    yield f"</program>\n<system{_title(experiment, 'system')}>\n"
    yield from _system(places.roots)
    yield "<topologies>\n"
    for topology in experiment.system.topologies:
        yield from _topology(topology, places)
    yield "</topologies>\n</system>\n</cube>\n"


def _document_attributes(experiment: Experiment, version: str, cnodes: CnodePlan) -> str:
    kept = {key: value for key, value in experiment.attributes.items() if not key.startswith("cube: ")}
    if not cnodes.keeps_ids:
        kept |= _renumber_clusters(kept, cnodes)
    written = {"CubePL Version": CUBEPL_VERSION, "Cube Version": CUBE_VERSION, CREATOR: f"callgrove {__version__}"}
    written |= kept | {"Cube anchor.xml syntax version": version, WRITTEN_BY: __version__}
    written.setdefault(CLUSTERING, "OFF")
    return attributes(written)


def _renumber_clusters(attributes: dict[str, str], cnodes: CnodePlan) -> dict[str, str]:
    """Return the attributes that name cnodes of clusters, with the ids that these have now."""
    new = dict(zip(map(str, cnodes.tree.source_id.tolist()), map(str, cnodes.id.tolist()), strict=False))
    return {
        key: ",".join(new.get(id_.strip(), id_) for id_ in value.split(","))
        for key, value in attributes.items()
        if key.startswith(CLUSTERED_IDS)
    }


def _title(experiment: Experiment, section: str) -> str:
    title = experiment.attributes.get(TITLE + section)
    return "" if title is None else f' title="{in_quotes(title)}"'


# -- metrics -----------------------------------------------------------------------------------------------------------


def _metrics(experiment: Experiment, plan: MetricPlan) -> Iterator[str]:
    below: dict[int, list[int]] = {}
    for number, metric in enumerate(plan.metrics):
        below.setdefault(metric.parent, []).append(number)
    stack = list(reversed(below.get(-1, [])))
    while stack:
        number = stack.pop()
        if number < 0:
            yield "</metric>\n"
            continue
        planned = plan.metrics[number]
        yield _metric(experiment.metrics[planned.row], planned)
        stack.append(-1)
        stack.extend(reversed(below.get(number, [])))


def _metric(metric: Metric, planned: PlannedMetric) -> str:
    said = planned.said
    given = {"type": planned.kind, **{k: v for k, v in planned.given.items() if k != "type"}}
    start = f'<metric id="{planned.id}"' + "".join(f' {k}="{in_quotes(v)}"' for k, v in given.items()) + ">\n"
    out = [
        start,
        element("disp_name", said.texts.get("disp_name", metric.name)),
        element("uniq_name", planned.name),
        element("dtype", planned.type.name),
        element("uom", metric.unit if said.unit is None else said.unit),
    ]
    if "val" in said.texts:
        out.append(element("val", said.texts["val"]))
    out += [element("url", metric.url), element("descr", metric.description)]
    if formula := planned.formula or said.texts.get("cubepl", ""):
        row_wise = "" if said.row_wise is None else f' rowwise="{in_quotes(said.row_wise)}"'
        out.append(element("cubepl", formula, row_wise))
    if "cubeplinit" in said.texts:
        out.append(element("cubeplinit", said.texts["cubeplinit"]))
    out += [element("cubeplaggr", text, f' cubeplaggrtype="{in_quotes(kind)}"') for kind, text in said.rules]
    return "".join([*out, attributes(said.others)])


# -- program -----------------------------------------------------------------------------------------------------------


def _regions(tree: ContextTree) -> Iterator[str]:
    regions = tree.regions
    for number in range(len(regions)):
        yield _region(regions, number)
    if (tree.region[: tree.n_listed] < 0).any():
        yield f'<region id="{len(regions)}" mod="" begin="-1" end="-1">\n{element("name", UNKNOWN_REGION)}</region>\n'


def _region(regions: Regions, number: int) -> str:
    file, module = int(regions.file[number]), int(regions.module[number])
    mod = regions.files.paths[file] if file >= 0 else regions.modules[module] if module >= 0 else ""
    given = f'mod="{in_quotes(mod)}" begin="{int(regions.line[number])}" end="{int(regions.end_line[number])}"'
    details = regions.details.get(number, {})
    role, paradigm = (int(column[number]) for column in (regions.role, regions.paradigm))
    kind = ContextKind(int(regions.kind[number]))
    named = int(regions.name[number]) < 0 or kind not in (ContextKind.FUNCTION, ContextKind.LOOP)
    name = regions.label(number) if int(regions.name[number]) >= 0 or named else ""
    texts = {
        "mangled_name": details.get(MANGLED, ""),
        "paradigm": regions.strings[paradigm] if paradigm >= 0 else "",
        "role": regions.strings[role] if role >= 0 else "loop" if kind == ContextKind.LOOP else "",
    }
    return "".join(
        [
            f'<region id="{number}" {given}>\n',
            element("name", name),
            *(element(word, text) for word, text in texts.items()),
            element("url", details.get("url", "")),
            element("descr", details.get("description", "")),
            attributes((key, value) for key, value in details.items() if key not in OWN_DETAILS),
            "</region>\n",
        ]
    )


def _cnodes(plan: CnodePlan) -> Iterator[str]:
    tree, n = plan.tree, len(plan)
    files, unknown = tree.regions.files.paths, len(tree.regions)
    region = np.where(tree.region[:n] < 0, unknown, tree.region[:n]).tolist()
    columns = (plan.id, tree.call_line[:n], tree.call_file[:n], tree.subtree_end[:n])
    open_ends: list[int] = []
    for cnode, (id_, line, file, end) in enumerate(zip(*(c.tolist() for c in columns), strict=True)):
        closing = 0
        while open_ends and open_ends[-1] <= cnode:
            open_ends.pop()
            closing += 1
        where = f' line="{line}"' if line >= 0 else ""
        where += f' mod="{in_quotes(files[file])}"' if file >= 0 else ""
        yield "</cnode>\n" * closing + f'<cnode id="{id_}"{where} calleeId="{region[cnode]}">\n'
        for key, value in tree.parameters.get(cnode, ()):
            kind = "string" if isinstance(value, str) else "numeric"
            yield f'<parameter partype="{kind}" parkey="{in_quotes(key)}" parvalue="{in_quotes(str(value))}"/>\n'
        if cnode in tree.attributes:
            yield attributes(tree.attributes[cnode])
        open_ends.append(end)
    yield "</cnode>\n" * len(open_ends)


# -- system ------------------------------------------------------------------------------------------------------------

ELEMENTS = {Level.NODE: "systemtreenode", Level.GROUP: "locationgroup", Level.LOCATION: "location"}


def _system(roots: tuple[Place, ...]) -> Iterator[str]:
    stack: list[Place | str] = list(reversed(roots))
    while stack:
        place = stack.pop()
        if isinstance(place, str):
            yield place
            continue
        yield _place(place)
        stack.append(f"</{ELEMENTS[place.level]}>\n")
        groups_first = sorted(place.below, key=lambda child: child.level == Level.NODE)
        stack.extend(reversed(groups_first if place.level == Level.NODE else place.below))


def _place(place: Place) -> str:
    others = {key: value for key, value in place.attributes.items() if key != "description"}
    out = [f'<{ELEMENTS[place.level]} Id="{place.id}">\n', element("name", place.name)]
    if place.level == Level.NODE:
        out.append(element("class", place.kind))
        if "description" in place.attributes:
            out.append(element("descr", place.attributes["description"]))
    else:
        out += [element("rank", str(place.rank)), element("type", place.kind)]
    return "".join([*out, attributes(others)])


def _topology(topology: Topology, places: Places) -> Iterator[str]:
    name = f' name="{in_quotes(topology.name)}"' if topology.name else ""
    yield f'<cart{name} ndims="{len(topology.sizes)}">\n'
    for label, size, periodic in zip(topology.dimension_names, topology.sizes, topology.periodic, strict=True):
        named = f' name="{in_quotes(label)}"' if label else ""
        yield f'<dim{named} size="{size}" periodic="{"true" if periodic else "false"}"/>\n'
    for source, where in zip(topology.system.tolist(), topology.coordinates.tolist(), strict=True):
        place = places.of_source.get(source)
        if place is not None and place.level != Level.NODE:
            word = "locId" if place.level == Level.LOCATION else "lgId"
            yield f'<coord {word}="{place.id}">{" ".join(map(str, where))}</coord>\n'
    yield "</cart>\n"
