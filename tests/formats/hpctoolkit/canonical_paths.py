"""Call paths that do not depend on which generation of a database was read.

The two generations nest the same contexts differently (specification, A.5 and B.5):

    pre-release    function > call site (with its line) > function        line beside its call sites
    released       function > line > function                             call instructions are left out
    pre-release    `<program root>`, `<thread root>`                      placeholders
    released       `main thread`, `application thread`                    entry points
    pre-release    function > instruction, where no line is known
    released       instructions nested in functions are left out

A canonical path has functions, lines, loops, entries and the instructions that no function encloses. A line's
inclusive cost is its own and that of the calls made from it, which the pre-release file stores at the call sites.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from callgrove.model.contexts import ContextKind, Relation
from callgrove.model.experiment import Experiment
from callgrove.model.metrics import Scope

Element = tuple[object, ...]
Path = tuple[Element, ...]
NO_ACTIVITY: Path = (("entry", "<no activity>"),)  # a context in pre-release files only; released ones use id 0
ENTRIES = {"<program root>": "main thread", "<thread root>": "application thread"}


@dataclass(frozen=True)
class Canonical:
    """For one context: where it lies, whether it is a context in both generations, and the line that it is called
    from, where the file has no context for that."""

    path: Path
    kept: bool
    call_line: Path | None = None


def canonical(experiment: Experiment) -> list[Canonical]:
    """The canonical path of every context of the tree."""
    found: list[Canonical] = []
    for context, parent in enumerate(experiment.contexts.parent[: experiment.contexts.n_listed].tolist()):
        found.append(_place(experiment, context, found[parent].path if parent >= 0 else ()))
    return found


def _place(experiment: Experiment, context: int, above: Path) -> Canonical:
    tree, regions = experiment.contexts, experiment.contexts.regions
    kind, region = ContextKind(int(tree.kind[context])), int(tree.region[context])
    file = regions.files.paths[regions.file[region]] if regions.file[region] >= 0 else None
    line = int(regions.line[region]) if file else None
    module = regions.modules[regions.module[region]] if regions.module[region] >= 0 else None
    offset = int(regions.offset[region]) if module else None
    label = regions.label(region)
    if not above:
        return Canonical((("entry", ENTRIES.get(label, label)),), True)
    if kind == ContextKind.CALL:
        path = (*above, ("line", file, line)) if file else above
        return Canonical(path, False, path if file else None)
    if kind == ContextKind.INSTRUCTION:
        nested = tree.relation[context] == Relation.LEXICAL
        return Canonical(above, False) if nested else Canonical((*above, ("instruction", module, offset)), True)
    if kind in (ContextKind.LINE, ContextKind.LOOP):
        return Canonical((*above, (kind.word, file, line)), True)
    function = ("function", label, file, line, module, offset)
    if tree.call_file[context] < 0:
        return Canonical((*above, function), True)
    called = (*above, ("line", regions.files.paths[tree.call_file[context]], int(tree.call_line[context])))
    return Canonical((*called, function), True, called)


def profile_names(experiment: Experiment) -> list[object]:
    """(rank, thread) of every profile, or its number where that names several."""
    identity = list(zip(*(experiment.profiles.identity_list(c) for c in ("rank", "thread")), strict=True))
    unique = len(set(identity)) == len(identity)
    return list(identity) if unique else list(range(len(identity)))


def costs(experiment: Experiment, quantity: str, scope: Scope) -> dict[tuple[object, Path], float]:
    """{(profile, canonical path): cost} over the measured profiles; equal paths are added up."""
    places, names = canonical(experiment), profile_names(experiment)
    row = experiment.metrics.find(quantity, scope)
    found: dict[tuple[object, Path], float] = defaultdict(float)
    for block in experiment.values.blocks():
        part = block.triples().take(block.triples().metric == row)
        rows = zip(part.profile.tolist(), part.context.tolist(), part.value.tolist(), strict=True)
        for profile, context, value in rows:
            if context >= len(places):
                continue  # elided
            place = places[context]
            if place.kept:
                found[names[profile], place.path] += value
            if place.call_line is not None and scope == Scope.INCLUSIVE:
                found[names[profile], place.call_line] += value
    return dict(found)


def paths(experiment: Experiment) -> set[Path]:
    """Every canonical path of the tree."""
    places = canonical(experiment)
    return {p.path for p in places if p.kept} | {p.call_line for p in places if p.call_line is not None}


def samples(experiment: Experiment) -> dict[object, list[tuple[int, Path]]]:
    """{profile: [(time, canonical path)]}; the path of idle is empty."""
    places, names = canonical(experiment), profile_names(experiment)
    found: dict[object, list[tuple[int, Path]]] = {}
    for profile, _, line in experiment.traces.lines():
        at = [places[c].path if 0 <= c < len(places) else () for c in line.context.tolist()]
        at = [() if path == NO_ACTIVITY else path for path in at]
        found[names[profile]] = list(zip(line.time_ns.tolist(), at, strict=True))
    return found
