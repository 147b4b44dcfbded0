"""The one selection engine: some contexts of an experiment, and what becomes of the cost of the others.

    ContextSelection(query=["solve -> kernel"])      what is asked for
    select_contexts(experiment, selection)           the experiment with it

    1. name ... query     which contexts are selected
    2. exclude            without these subtrees; their cost is gone
    3. rest               path: what leads to a selected context stays, without own cost; drop: nothing else does;
                          fold: roots stay, and the nearest context that stays takes the cost of the others
    4. prune, fold, leaf  of what stays, without these subtrees, these contexts, what is below these contexts; the
                          nearest context above that stays takes the cost

All patterns are about the tree as it was. Steps 3 and 4 are one map from contexts to those that take their cost
(`folding.py`); where nothing above is left that could take it, a context stays.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property, partial
from typing import Any, NoReturn, TypedDict, Unpack, cast

import numpy as np

from callgrove.algebra.folding import Fold, apply_fold, climb
from callgrove.algebra.operands import some
from callgrove.arrays import ABSENT, Bools, Ids, Ints, combine_upwards
from callgrove.errors import CallgroveError, Parameter, UsageError
from callgrove.model.contexts import ContextKind, ContextTree
from callgrove.model.experiment import Experiment, InputWarning, Severity
from callgrove.model.selection import select, span_choice
from callgrove.model.traces.events import LABEL, SpanKind, Traces, Window
from callgrove.model.traces.selected import ALL_SPANS, SpanChoice
from callgrove.patterns.conditions import TextColumn, find_nearest
from callgrove.patterns.expressions import match_texts
from callgrove.patterns.hatchet import translate_query
from callgrove.patterns.matching import Matcher
from callgrove.patterns.syntax import NameTest, Pattern, parse_name

__all__ = [
    "RESTS",
    "ContextKeywords",
    "ContextSelection",
    "below",
    "choose_spans",
    "outermost",
    "refuse_no_spans",
    "select_contexts",
    "select_part",
    "select_spans",
]

RESTS = ("path", "drop", "fold")


Texts = str | Sequence[str]


class ContextKeywords(TypedDict, total=False):
    """The fields of `ContextSelection` as a caller gives them: one text, or several."""

    name: Texts
    file: Texts
    module: Texts
    kind: Texts
    under: Texts
    callers_of: Texts
    query: Texts
    exclude: Texts
    prune: Texts
    fold: Texts
    leaf: Texts
    rest: str


@dataclass(frozen=True, kw_only=True)
class ContextSelection:
    """Which contexts to keep, and what becomes of the rest. Texts of one field are "or", different fields are "and".

    name, file, module      globs or /regular expressions/, of what contexts belong to
    kind                    words such as function, loop, kernel; those of spans choose spans
    under, callers_of, query    patterns: what is found and all below; the paths to it; every context on a path
    exclude, prune, fold, leaf  patterns: without these subtrees; their callers take the cost; without the contexts
                            alone; without what lies below them
    rest                    "path": what leads to a selected context stays, without cost of its own; "drop": gone;
                            "fold": the nearest kept context above takes the cost
    """

    name: Sequence[str] = ()
    file: Sequence[str] = ()
    module: Sequence[str] = ()
    kind: Sequence[str] = ()
    under: Sequence[str] = ()
    callers_of: Sequence[str] = ()
    query: Sequence[str | Pattern] = ()
    exclude: Sequence[str] = ()
    prune: Sequence[str] = ()
    fold: Sequence[str] = ()
    leaf: Sequence[str] = ()
    rest: str = "path"

    @classmethod
    def of(cls, **keywords: Unpack[ContextKeywords]) -> ContextSelection:
        """Return the selection that keywords mean: a text is a list of one, and a query of steps that are not texts is
        one of Hatchet's."""
        rest = keywords.pop("rest", "path")
        lists = {field: _list_texts(field, texts) for field, texts in keywords.items()}
        return cls(**cast("Mapping[str, Any]", lists), rest=rest)

    @property
    def asks_anything(self) -> bool:
        """Whether any context, or kind of span, was asked for."""
        return any(getattr(self, one.name) for one in fields(self) if one.name != "rest")


def _list_texts(field: str, texts: object) -> Sequence[str | Pattern]:
    if isinstance(texts, str):
        return [texts]
    listed = list(texts) if isinstance(texts, Iterable) else [texts]
    asked = [text for text in listed if isinstance(text, str)]
    if len(asked) == len(listed):
        return asked
    if field == "query" and isinstance(texts, Sequence):
        return [translate_query(texts)]
    wrong = next(text for text in listed if not isinstance(text, str))
    raise UsageError(Parameter(field), f" takes a text or a list of texts, not {wrong!r:.80}")


def select_contexts(
    experiment: Experiment,
    selection: ContextSelection,
    spelling: Mapping[str, Parameter] | None = None,
    keeps_apart: bool = False,
) -> Experiment:
    """Return the experiment with the contexts that a selection keeps; lazy, but for names and the costs that conditions
    ask for. `keeps_apart`: siblings stay apart that look the same once contexts have moved.

    Errors begin with the parameter that they are about (`query=...: expected a name at character 10 of ...`), which the
    command line spells as its flag; `spelling` names parameters that are called otherwise, by field.
    """
    if selection.rest not in RESTS:
        raise UsageError(f"there is no rest {selection.rest!r}; there are {', '.join(RESTS)}")
    if not selection.asks_anything:
        return experiment
    if not len(experiment.contexts) and experiment.traces.n_spans:
        return select_spans(experiment, selection)
    experiment = _choose_spans_of_kinds(experiment, selection)
    chooser = _Chooser(experiment, selection, spelling or {})
    fold = chooser.fold()
    if fold is None:
        return experiment
    fold = replace(fold, keeps_apart=keeps_apart)
    whole = experiment.whole or replace(experiment, traces=Traces())
    made, losses = apply_fold(replace(experiment, whole=whole), fold)
    notes = (InputWarning(Severity.NOTE, text) for text in (*losses, *chooser.say(fold)))
    return replace(made, warnings=(*made.warnings, *notes))


def select_part(
    experiment: Experiment,
    contexts: ContextSelection,
    *,
    profiles: Ints | None = None,
    metrics: Sequence[str] | None = None,
    window: Window | None = None,
    traces: bool = True,
    drop_unused: bool = False,
    spans: SpanChoice = ALL_SPANS,
) -> Experiment:
    """Return a part of an experiment: profiles and times first, then contexts, whose conditions may ask for other
    metrics than those that stay."""
    if not contexts.asks_anything:
        return select(
            experiment,
            profiles=profiles,
            metrics=metrics,
            window=window,
            traces=traces,
            drop_unused=drop_unused,
            spans=spans,
        )
    part = select(experiment, profiles=profiles, window=window, traces=traces, spans=spans)
    if traces and not len(part.contexts) and experiment.traces.n_spans and not part.traces.n_spans:
        refuse_no_spans(experiment, contexts)
    part = select_contexts(part, contexts)
    return select(part, metrics=metrics, drop_unused=drop_unused) if metrics is not None or drop_unused else part


# -- spans -------------------------------------------------------------------------------------------------------------
# Spans have a name and a kind, and no place in a call tree.


@dataclass(frozen=True)
class _SpanNames:
    """Globs or /regular expressions/, one of which the name of a span must fit."""

    texts: tuple[str, ...]

    def __call__(self, names: Sequence[str], every: Sequence[str]) -> Bools:
        tests = (NameTest("exact", text) if text in every else parse_name(text) for text in self.texts)
        out = np.zeros(len(names), np.bool_)
        for test, text in zip(tests, self.texts, strict=True):
            out |= match_texts(test, text, names)
        return out


def _explain(field: str, error: CallgroveError | str, spelling: Mapping[str, Parameter] | None = None) -> UsageError:
    """Return an error that begins with the parameter it is about."""
    return UsageError((spelling or {}).get(field, Parameter(field)), ": ", error)


def choose_spans(experiment: Experiment, selection: ContextSelection) -> Experiment:
    """Return the experiment with the spans of the names and kinds that a selection asks for. All else that it may ask
    is about contexts, and refused."""
    for field in (one.name for one in fields(selection) if one.name not in ("name", "kind", "rest")):
        if getattr(selection, field):
            others = "; choose them by name, kind, window, rank, thread and stream"
            raise _explain(field, f"spans of a trace have no contexts{others}")
    for word in selection.kind:
        if word not in SPAN_KINDS:
            raise _explain("kind", f"{word!r} is not a kind of span; there are {', '.join(SPAN_KINDS)}")
    for text in selection.name:
        try:
            match_texts(parse_name(text), text, ())
        except UsageError as error:
            raise _explain("name", error) from None
    names = _SpanNames(tuple(selection.name)) if selection.name else None
    return select(experiment, spans=span_choice(selection.kind or None, None, names))


def select_spans(experiment: Experiment, selection: ContextSelection) -> Experiment:
    """Return what `choose_spans` does; that there are none is refused at once."""
    if not selection.asks_anything:
        return experiment
    part = choose_spans(experiment, selection)
    if experiment.traces.n_spans and not part.traces.n_spans:
        refuse_no_spans(experiment, selection)
    return part


def refuse_no_spans(whole: Experiment, selection: ContextSelection) -> NoReturn:
    """Refuse a selection that chose none of the spans of an experiment, with the nearest name or the kinds and
    categories there are. All names are read for that."""
    backend = whole.traces.spans_backend
    strings = () if backend is None else backend.strings
    used: set[int] = set()
    kinds: dict[int, set[int]] = {}
    for chunk in whole.traces.spans(("kind", "category", LABEL)):
        used.update(np.unique(chunk[LABEL]).tolist())
        for kind, category in np.unique(np.stack([chunk["kind"], chunk["category"]]), axis=1).T.tolist():
            kinds.setdefault(kind, set()).update([category] if category >= 0 else [])
    names = [strings[code] for code in used if code >= 0]
    for text in selection.name:
        if not _SpanNames((text,))(names, strings).any():
            raise _explain("name", f"there is no span {text!r}{find_nearest(text, names)}")
    there = sorted(
        _describe_kind(SpanKind(kind), sorted(strings[code] for code in codes)) for kind, codes in kinds.items()
    )
    place = f"{whole.path}: " if whole.path else ""
    raise UsageError(f"{place}no span is left; there are {', '.join(there) or 'none'}")


def _describe_kind(kind: SpanKind, categories: Sequence[str]) -> str:
    """Return a kind of spans with its categories, as text."""
    word = kind.name.lower()
    return f"{word} ({', '.join(categories)})" if categories else word


def _choose_spans_of_kinds(experiment: Experiment, selection: ContextSelection) -> Experiment:
    """Return the experiment with spans of the kinds that a selection names, where it names kinds of spans."""
    words = [word for word in selection.kind if word in SPAN_KINDS]
    if not words or not experiment.traces.n_spans:
        return experiment
    return select(experiment, spans=span_choice(words, None))


# -- parts of a tree ---------------------------------------------------------------------------------------------------


def below(tree: ContextTree, chosen: Bools) -> Bools:
    """Return what lies below some contexts of the tree."""
    heads = np.flatnonzero(chosen)
    steps = np.zeros(tree.n_listed + 2, np.int64)
    np.add.at(steps, heads + 1, 1)
    np.add.at(steps, tree.subtree_end[heads], -1)
    out: Bools = np.cumsum(steps)[: tree.n_listed] > 0
    return out


def outermost(tree: ContextTree, chosen: Bools) -> Bools:
    """Return those of some contexts that have none of them above."""
    return chosen & ~below(tree, chosen)


def subtrees(tree: ContextTree, chosen: Bools) -> Bools:
    """Return some contexts with all that lies below them."""
    return chosen | below(tree, chosen)


def above(tree: ContextTree, chosen: Bools) -> Bools:
    """Return some contexts with all that leads to them."""
    return combine_upwards(chosen, tree.parent[: tree.n_listed], tree.levels, np.logical_or)


# -- what a selection keeps --------------------------------------------------------------------------------------------


class _Chooser:
    """Answers a selection over the contexts of an experiment."""

    def __init__(self, experiment: Experiment, selection: ContextSelection, spelling: Mapping[str, Parameter]) -> None:
        self.experiment, self.tree, self.selection = experiment, experiment.contexts, selection
        self._spelling = spelling
        self._unmoved: Ints = np.empty(0, np.int64)  # contexts that stay, as nothing above could take their cost

    @cached_property
    def _matcher(self) -> Matcher:
        return Matcher(self.experiment)

    def fold(self) -> Fold | None:
        """Return what becomes of each context; None where only spans were chosen."""
        selected, excluded = self._select(), self._find_below("exclude")
        if selected is None and not any((*self.selection.exclude, *self.selection.prune, *self._removing)):
            return None
        if selected is None:
            selected = np.ones(self.tree.n_listed, np.bool_)
        selected &= ~excluded
        if not selected.any():
            raise UsageError("nothing is left: no context fulfils all that was asked for")
        stays, counts = self._keep(selected, excluded)
        stays = self._remove(stays)
        return self._assemble(stays, counts)

    @property
    def _removing(self) -> tuple[str, ...]:
        return (*self.selection.fold, *self.selection.leaf)

    def _keep(self, selected: Bools, excluded: Bools) -> tuple[Bools, Bools]:
        """Return which contexts stay, and whose cost does."""
        if self.selection.rest == "fold":
            roots = self.tree.parent[: self.tree.n_listed] < 0
            return (selected | roots) & ~excluded, ~excluded
        return (above(self.tree, selected) if self.selection.rest == "path" else selected), selected

    def _remove(self, stays: Bools) -> Bools:
        """Return which contexts stay without those that are pruned, folded or below a leaf, in this order."""
        if not (self.selection.prune or self.selection.callers_of or any(self._removing)):
            return stays
        found = self._find("prune")
        lone = found & (self._next_above(stays) < 0)
        self._unmoved = np.flatnonzero(lone & stays)
        stays = stays & ~subtrees(self.tree, found & ~lone)
        found, bodies = self._find("fold"), self._matcher.columns.bodies
        folded = self._without(stays, found | bodies.close(found & ~bodies.nested))
        self._unmoved = np.union1d(self._unmoved, np.flatnonzero(found & folded))
        leaves = self._find("leaf") | outermost(self.tree, self._find("callers_of"))
        return self._without(folded, below(self.tree, leaves))

    def _without(self, stays: Bools, unwanted: Bools) -> Bools:
        """Return which contexts stay without those that are not wanted, but for topmost ones: nothing is above them."""
        return stays & (~unwanted | (self._next_above(stays) < 0))

    def _next_above(self, stays: Bools) -> Ids:
        """Return the nearest context above each one that stays."""
        every = np.zeros(len(self.tree), np.bool_)
        every[: self.tree.n_listed] = stays
        return np.append(climb(self.tree, every), np.int32(ABSENT))[self.tree.parent[: self.tree.n_listed]]

    def _assemble(self, stays: Bools, counts: Bools) -> Fold:
        tree, n = self.tree, self.tree.n_listed
        every = np.full(len(tree), bool(counts.all()))  # elided contexts are contained in others, if all of these count
        every[:n] = stays
        into = climb(tree, every)
        into[:n][~counts] = ABSENT
        return Fold(tree, every, into)

    def say(self, fold: Fold) -> Iterator[str]:
        """Yield what there is to know about the result."""
        tree, gone = self.tree, fold.into < 0
        if n_elided := int(gone[tree.n_listed :].sum()):
            yield f"lost: {n_elided} elided contexts: nothing tells whether they lie below what was selected"
        if gone[: tree.n_listed].any() and self.experiment.traces.n_samples:
            yield "samples of contexts that were not selected read as idle"
        if self.experiment.traces.spans_backend is not None and not self.selection.kind:
            yield "spans of traces stay: they are chosen by their kind, not by contexts"
        if len(self._unmoved):
            names = some(list(dict.fromkeys(map(tree.label, self._unmoved.tolist()))))
            yield f"{names} is a root: it has no caller that could take its cost, and stays"

    # Which contexts a field names.

    def _select(self) -> Bools | None:
        """Return the contexts that fulfil all of name, file, module, kind, under, callers_of and query; None where
        nothing of it was asked."""
        bodies = self._matcher.columns.bodies
        parts: list[Bools] = []
        if self.selection.name:
            parts.append(bodies.close(self._match("name", self._matcher.columns.text("name"))))
        columns = (column for column in ("file", "module") if getattr(self.selection, column))
        parts += (self._match(column, self._matcher.columns.text(column)) for column in columns)
        if (kinds := self._find_kinds()) is not None:
            parts.append(bodies.close(kinds))
        if self.selection.under:
            parts.append(self._find_below("under"))
        if self.selection.callers_of:
            parts.append(self._find_below("callers_of"))
        if self.selection.query:
            parts.append(bodies.close(self._find("query", self._matcher.find_paths)))
        return np.logical_and.reduce(parts) if parts else None

    def _find(self, field: str, find: Callable[[str | Pattern], Bools] | None = None) -> Bools:
        """Return the contexts that one of the patterns of a field finds."""
        out = np.zeros(self.tree.n_listed, np.bool_)
        for text in getattr(self.selection, field):
            try:
                out |= (find or self._matcher.find)(text)
            except UsageError as error:
                raise self._explain(field, error) from None
        return out

    def _find_below(self, field: str) -> Bools:
        return subtrees(self.tree, self._find(field))

    def _explain(self, field: str, error: CallgroveError | str) -> UsageError:
        """Return an error that begins with the parameter it is about."""
        return _explain(field, error, self._spelling)

    def _match(self, field: str, column: TextColumn) -> Bools:
        """Return the contexts whose text in a column fits one of the globs or regular expressions of a field."""
        out = np.zeros(self.tree.n_listed, np.bool_)
        for text in getattr(self.selection, field):
            try:
                fits = column.where(partial(_fit, field, text))
            except UsageError as error:
                raise self._explain(field, error) from None
            if not fits.any():
                used = (column.texts[code] for code in np.unique(column.codes[column.codes >= 0]).tolist())
                word = "context" if field == "name" else field
                raise self._explain(field, f"there is no {word} {text!r}{find_nearest(text, used)}")
            out |= fits
        return out

    def _find_kinds(self) -> Bools | None:
        """Return the contexts of the kinds that were asked for; None where these are of spans alone."""
        for word in self.selection.kind:
            if word not in CONTEXT_KINDS and word not in SPAN_KINDS:
                known = dict.fromkeys((*CONTEXT_KINDS, *SPAN_KINDS))
                raise self._explain("kind", f"there is no kind {word!r}; there are {', '.join(known)}")
        numbers = [CONTEXT_KINDS[word] for word in self.selection.kind if word in CONTEXT_KINDS]
        kind = self.tree.kind[: self.tree.n_listed]
        chosen: Bools = np.isin(kind, numbers)
        if not numbers or (not chosen.any() and any(word in SPAN_KINDS for word in self.selection.kind)):
            return None if self.experiment.traces.n_spans else self._refuse_kinds()
        return chosen if chosen.any() else self._refuse_kinds()

    def _refuse_kinds(self) -> Bools | None:
        if not self.selection.kind:
            return None
        there = ", ".join(ContextKind(k).word for k in np.unique(self.tree.kind[: self.tree.n_listed]).tolist())
        asked = " or ".join(self.selection.kind)
        raise self._explain("kind", f"there is no context of kind {asked}; there are {there or 'no contexts'}")


CONTEXT_KINDS = {kind.word: kind for kind in ContextKind if kind != ContextKind.ELIDED}
SPAN_KINDS = tuple(kind.name.lower() for kind in SpanKind)


def _fit(field: str, text: str, names: Sequence[str]) -> Bools:
    """Return which names fit a glob or a regular expression. That of a file or module which has no slash is compared
    with the last part of a path, too."""
    test = parse_name(text)
    if field == "name" and text in names:
        return np.array([name == text for name in names], np.bool_)
    fits = match_texts(test, text, names)
    if field == "name" or test.kind == "regex" or "/" in text:
        return fits
    return fits | match_texts(test, text, [name.rpartition("/")[2] for name in names])
