"""Files as profiles of the model: identifier tuples with their generated numbers, kinds and names."""

from __future__ import annotations

from collections.abc import Sequence

from callgrove.formats.hpcrun.regions import readable
from callgrove.model.builder import ExperimentBuilder
from callgrove.model.profiles import DEFAULT_ID_NAMES, Identifier, Interpretation, ProfileKind
from callgrove.prof.survey import SurveyedFile

__all__ = ["add_profiles", "with_logical_numbers"]

GPU_KINDS = ("GPUCONTEXT", "GPUSTREAM")
MOST_KINDS = 256
Tuple = tuple[Identifier, ...]


def add_profiles(builder: ExperimentBuilder, files: Sequence[SurveyedFile]) -> None:
    """One profile for each file, in their order."""
    builder.id_names = _id_names(files)
    tuples = with_logical_numbers([file.identifiers for file in files])
    for number, identifiers in enumerate(tuples, 1):
        words = {builder.id_names[kind] for kind, _, _, _ in identifiers if kind < len(builder.id_names)}
        kind = ProfileKind.GPU_STREAM if words & set(GPU_KINDS) else ProfileKind.THREAD
        kind = ProfileKind.AGGREGATE if "SUMMARY" in words else kind
        builder.add_profile(kind, identifiers, source_id=number)


def with_logical_numbers(tuples: Sequence[Tuple]) -> list[Tuple]:
    """Tuples in which numbers that are only known physically have a logical one: their order number below what comes
    before them in the tuple, or among all of their kind."""
    local: dict[tuple[object, int], set[int]] = {}
    overall: dict[int, set[int]] = {}
    for one in tuples:
        for position, (kind, physical, _, how) in enumerate(one):
            if how == Interpretation.LOGICAL_LOCAL:
                local.setdefault((_before(one, position), kind), set()).add(physical)
            elif how == Interpretation.LOGICAL_GLOBAL:
                overall.setdefault(kind, set()).add(physical)
    ranks = {key: _ranks(found) for key, found in local.items()}
    ranks_overall = {kind: _ranks(found) for kind, found in overall.items()}
    out: list[Tuple] = []
    for one in tuples:
        made: list[Identifier] = []
        for position, (kind, physical, logical, how) in enumerate(one):
            if how == Interpretation.LOGICAL_LOCAL:
                logical, how = ranks[_before(one, position), kind][physical], Interpretation.BOTH
            elif how == Interpretation.LOGICAL_GLOBAL:
                logical, how = ranks_overall[kind][physical], Interpretation.BOTH
            made.append((kind, physical, logical, int(how)))
        out.append(tuple(made))
    return out


def _before(one: Tuple, position: int) -> tuple[tuple[int, int], ...]:
    return tuple((kind, physical) for kind, physical, _, _ in one[:position])


def _ranks(found: set[int]) -> dict[int, int]:
    return {physical: rank for rank, physical in enumerate(sorted(found))}


def _id_names(files: Sequence[SurveyedFile]) -> tuple[str, ...]:
    """The names of identifier kinds, from all dictionaries; what is said first stays."""
    named: dict[int, str] = {}
    for kinds in dict.fromkeys(file.id_kinds for file in files):
        for kind, name in kinds:
            if kind < MOST_KINDS:
                named.setdefault(kind, readable(name))
    return tuple(named.get(kind, "") for kind in range(max(named) + 1)) if named else DEFAULT_ID_NAMES
