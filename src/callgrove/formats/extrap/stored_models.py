"""Models as `experiment.json` stores them.

    modelers [{name, modeler {$type, options}, models {call path: {metric: model}}}]
    model       {hypothesis {$type, function, RSS, ..., AR2, RE}, annotations}
    segmented   {$type: SegmentedModel, hypothesis, segment_models [2], changing_points [1 or 2]}
    function    {$type, constant_coefficient, compound_terms [...]}       see _terms

Specification: extrap.md section 10.2. Deviation: the type of a function is taken from what it has where `$type` is
missing, as it is in what Extra-P writes for refining models.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

from callgrove.errors import CorruptFile
from callgrove.formats.extrap.json_tree import Node
from callgrove.model.function_text import exponent_text, function_text, segments_text
from callgrove.model.study import Segment, StoredModel, Term

__all__ = ["COSTS", "ModelSet", "number_of", "read_model_sets"]

COSTS = {"RSS": "rss", "rRSS": "rrss", "nRSS": "nrss", "SMAPE": "smape", "AR2": "ar2", "RE": "re"}
TERM_TYPES = ("polynomial", "logarithm")


@dataclass(frozen=True)
class ModelSet:
    """Models that were made together, and how."""

    name: str
    modeler: dict[str, object]
    models: list[StoredModel]
    left_out: list[str]  # what of it cannot be held, in words


def read_model_sets(root: Node, parameters: tuple[str, ...]) -> Iterator[ModelSet]:
    """The sets of models of an experiment; names that come twice are numbered."""
    modelers = root.get("modelers")
    taken: set[str] = set()
    for one in modelers.elements() if modelers is not None else ():
        plain = name = one["name"].text()
        number = 1
        while name in taken:
            number += 1
            name = f"{plain} #{number}"
        taken.add(name)
        modeler = one.get("modeler")
        options = dict(modeler.members()) if modeler is not None else {}
        found, left_out = _models(one, name, parameters)
        yield ModelSet(name, options, found, left_out)


def _models(node: Node, name: str, parameters: tuple[str, ...]) -> tuple[list[StoredModel], list[str]]:
    found: list[StoredModel] = []
    left_out: list[str] = []
    models = node.get("models")
    for callpath, metrics in models.items() if models is not None else ():
        for metric, model in metrics.items():
            made = _model(model, callpath.partition("\x03")[0], metric.partition("\x03")[0], name, parameters)
            if made is None:
                left_out.append(f"the model of {callpath!r}, {metric!r}: it has a segmented term in one parameter")
            else:
                found.append(made)
            if (notes := model.get("annotations")) is not None and notes.value:
                left_out.append("annotations of models")
    return found, left_out


def _model(node: Node, callpath: str, metric: str, name: str, parameters: tuple[str, ...]) -> StoredModel | None:
    hypothesis = node["hypothesis"]
    function = hypothesis["function"]
    statistics = _statistics(hypothesis)
    if "segments" in function.members():
        segments = tuple(_segments(node, function, parameters))
        text = segments_text(segments, parameters[0])
        return StoredModel(callpath, metric, text, 0.0, (), statistics, name, segments)
    terms = _terms(function, parameters)
    if terms is None:
        return None
    constant = _constant(function)
    if not terms:
        statistics.setdefault("ar2", 1.0)
    return StoredModel(callpath, metric, function_text(constant, terms), constant, terms, statistics, name)


def _statistics(hypothesis: Node) -> dict[str, float]:
    """The costs of a hypothesis; those that are not there are unknown."""
    found = ((word, hypothesis.get(key)) for key, word in COSTS.items())
    return {word: number_of(node) for word, node in found if node is not None}


def _segments(node: Node, function: Node, parameters: tuple[str, ...]) -> Iterator[Segment]:
    intervals = [[number_of(end) for end in pair.elements()] for pair in function["intervals"].elements()]
    pieces = list(function["segments"].elements())
    models = node.get("segment_models")
    inner = list(models.elements()) if models is not None else []
    if len(intervals) != len(pieces) or any(len(pair) != 2 for pair in intervals) or not pieces:
        raise function.bad("an interval of two numbers for each segment")
    for number, (piece, (start, end)) in enumerate(zip(pieces, intervals, strict=True)):
        terms, constant = _terms(piece, parameters) or (), _constant(piece)
        statistics = _statistics(inner[number]["hypothesis"]) if number < len(inner) else {}
        yield Segment(start, end, function_text(constant, terms), constant, terms, statistics)


def _constant(function: Node) -> float:
    node = function.get("constant_coefficient")
    return number_of(node) if node is not None else 0.0


def _terms(function: Node, parameters: tuple[str, ...]) -> tuple[Term, ...] | None:
    """The terms of a function; None where one of them cannot be held."""
    terms = function.get("compound_terms")
    found: list[Term] = []
    for term in terms.elements() if terms is not None else ():
        coefficient = term.get("coefficient")
        factor = number_of(coefficient) if coefficient is not None else 1.0
        exponents: dict[str, tuple[str, str]] = {}
        for parameter, compound in _compounds(term, parameters):
            if "segments" in compound.members():
                return None
            if compound is not term and (inner := compound.get("coefficient")) is not None:
                factor *= number_of(inner)
            exponents[parameter] = _exponents(compound)
        found.append(Term(factor, exponents))
    return tuple(found)


def _compounds(term: Node, parameters: tuple[str, ...]) -> Iterator[tuple[str, Node]]:
    """The factors of a term, by parameter; a term of one parameter is its own only factor."""
    pairs = term.get("parameter_term_pairs")
    if pairs is None:
        yield parameters[0], term
        return
    for key, compound in pairs.items():
        if not key.isdecimal() or int(key) >= len(parameters):
            raise pairs.bad(f"numbers of parameters from 0 to {len(parameters) - 1} as keys")
        yield parameters[int(key)], compound


def _exponents(compound: Node) -> tuple[str, str]:
    """Power and logarithm of a factor; simple terms of one kind are multiplied, so their exponents add up."""
    sums = {"polynomial": Fraction(0), "logarithm": Fraction(0)}
    for simple in compound["simple_terms"].elements():
        kind = simple["term_type"].text()
        if kind not in sums:
            raise simple["term_type"].bad(f"one of {', '.join(TERM_TYPES)}")
        exponent = simple["exponent"]
        value = exponent.value if isinstance(exponent.value, str) else number_of(exponent)
        try:
            sums[kind] += Fraction(exponent_text(value))
        except ValueError:
            raise exponent.bad("an exponent") from None
    return str(sums["polynomial"]), str(sums["logarithm"])


def number_of(node: Node) -> float:
    """A number, which may be written as text: `nan`, `-inf`, `3/2`."""
    if isinstance(node.value, str) and "/" in node.value:
        try:
            return float(Fraction(node.value))
        except (ValueError, ZeroDivisionError, OverflowError):
            raise _no_number(node) from None
    return node.number()


def _no_number(node: Node) -> CorruptFile:
    return node.bad("a number or a fraction")
