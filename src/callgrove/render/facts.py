"""What is in an experiment or a study, as words for a person: `info` and reports say the same."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from callgrove.analysis.overview import Hottest, Overview
from callgrove.errors import count_of
from callgrove.model.system import Topology
from callgrove.model.table import Table
from callgrove.render.units import amount, duration_ns

if TYPE_CHECKING:
    from callgrove.model.study.series import Study

__all__ = [
    "facts_of",
    "next_commands",
    "quote_word",
    "study_facts",
    "study_metrics",
    "study_next",
]


# -- names that can be copied into a shell -----------------------------------------------------------------------------


NAMED = {"\t": "\\t", "\n": "\\n", "\r": "\\r", "'": "\\'", "\\": "\\\\"}
BYTES = range(0xDC80, 0xDD00)  # how Python keeps bytes of a name that are not text


def quote_word(word: str) -> str:
    """Return one word; with what a screen would obey instead of showing it, or cannot show, as $'...' of bash and
    zsh."""
    if all(letter.isprintable() for letter in word):
        return shlex.quote(word)
    return f"$'{''.join(map(_escape_letter, word))}'"


def _escape_letter(letter: str) -> str:
    if letter in NAMED:
        return NAMED[letter]
    if ord(letter) in BYTES:
        return f"\\x{ord(letter) - 0xDC00:02x}"
    return letter if letter.isprintable() else "".join(f"\\x{byte:02x}" for byte in letter.encode())


# -- facts about an experiment -----------------------------------------------------------------------------------------


MOST_METRICS = 8
MOST_WARNINGS = 12
MOST_TOPOLOGIES = 4
ADJECTIVES = ("inlined", "elided", "unknown", "other")  # kinds that have no plural


def facts_of(facts: Overview) -> Iterator[tuple[str, str]]:
    """Yield one line each: a word and what there is to say; warnings come last, under their severity."""
    yield "title", facts.title
    yield "format", f"{facts.format} {facts.version}".rstrip()
    if facts.n_runs > 1 or facts.parameters:
        yield "runs", f"{facts.n_runs:,}" + (f" over {', '.join(facts.parameters)}" if facts.parameters else "")
    places = [f"{n:,} {word}" for n, word in ((facts.n_nodes, "nodes"), (facts.n_ranks, "ranks")) if n > 1]
    yield "profiles", ", ".join([*_counts(facts.profiles), *places]) or "none"
    for topology in facts.topologies[:MOST_TOPOLOGIES]:
        yield "topology", _describe_topology(topology)
    if len(facts.topologies) > MOST_TOPOLOGIES:
        yield "topology", f"{len(facts.topologies) - MOST_TOPOLOGIES:,} more"
    yield (
        "contexts",
        ", ".join([*_counts(facts.contexts), *([f"depth {facts.depth}"] if facts.depth else [])]) or "none",
    )
    shown = ", ".join(facts.metrics[:MOST_METRICS])
    more = (
        len(facts.metrics) - MOST_METRICS + facts.n_hidden_metrics
        if len(facts.metrics) > MOST_METRICS
        else facts.n_hidden_metrics
    )
    yield "metrics", (shown or "none") + (f" and {more} more" if more > 0 else "")
    if facts.n_derived:
        yield "derived", _describe_derived(facts)
    if facts.n_values is not None:
        yield "values", f"{facts.n_values:,} stored"
    if facts.n_samples or facts.n_spans:
        events = [f"{n:,} {word}" for n, word in ((facts.n_samples, "samples"), (facts.n_spans, "spans")) if n]
        span = f" over {duration_ns(facts.time_range[1] - facts.time_range[0])}" if facts.time_range else ""
        yield "traces", ", ".join(events) + span
    if facts.n_counters:
        yield "counters", f"{count_of(facts.n_counters, 'value')} over time"
    if facts.n_sources or facts.n_missing_sources:
        missing = (
            f"{facts.n_missing_sources:,} more" if facts.n_sources else count_of(facts.n_missing_sources, "copied file")
        )
        parts = [count_of(facts.n_sources, "copied file")] if facts.n_sources else []
        parts += [f"{missing} that the input names, but does not hold"] if facts.n_missing_sources else []
        yield "sources", ", ".join(parts)
    if facts.hottest is not None:
        word, told = _find_hottest(facts.hottest)
        yield word, told + (f", {facts.n_runs:,} runs added up" if facts.n_runs > 1 else "")
    for warning in facts.warnings[:MOST_WARNINGS]:
        yield warning.severity.value, warning.text
    if len(facts.warnings) > MOST_WARNINGS:
        yield "and", f"{len(facts.warnings) - MOST_WARNINGS} more of these; `callgrove check` lists them all"


def _describe_topology(topology: Topology) -> str:
    """Return the name of a topology, its dimensions, and of how many places it says where they are."""
    names = topology.dimension_names if any(topology.dimension_names) else ()
    sizes = [
        f"{f'{name} ' if name else ''}{size}{' periodic' * periodic}"
        for name, size, periodic in zip(
            names or [""] * len(topology.sizes), topology.sizes, topology.periodic, strict=True
        )
    ]
    return f"{topology.name or 'unnamed'}: {' x '.join(sizes)}, {count_of(len(topology.system), 'place')}"


def _describe_derived(facts: Overview) -> str:
    """Return how many metrics are formulas over others, and how many of these have no values."""
    said = f"{count_of(facts.n_derived, 'metric')} computed from others"
    return said + (f", {facts.n_unavailable:,} of which cannot be evaluated" if facts.n_unavailable else "")


def _find_hottest(h: Hottest) -> tuple[str, str]:
    """Return the costliest function; of differences, the one that changed most."""
    write = amount(h.unit)
    if h.loss and h.percent is not None:
        of = f"{abs(h.percent):.1f}% of all changes of {h.metric}, {write(h.gain)} more and {write(-h.loss)} less"
        return "changed", f"{h.name}: {write(h.exclusive)} ({of})"
    share = f" of {write(h.total)} {h.metric} ({h.percent:.1f}%)" if h.percent is not None else f" {h.metric}"
    return "hottest", f"{h.name}: {write(h.exclusive)}{share}"


def _counts(numbers: dict[str, int]) -> list[str]:
    return [count_of(n, word, word if word in ADJECTIVES else "") for word, n in numbers.items()]


def next_commands(facts: Overview, path: str, options: Sequence[str] = ()) -> Iterator[str]:
    """Yield commands for this very input; `options` are how it is read."""
    where = " ".join(map(quote_word, (path, *options)))
    if facts.parameters and facts.n_runs > 1:  # nothing scales in one run
        metric = f" -m {quote_word(facts.hottest.metric)}" if facts.hottest is not None else ""
        yield f"callgrove model {where}{metric}"
        yield f"callgrove export {where} --table series"
    if facts.is_measurement:
        yield f"callgrove prof {where} database.d"
    if facts.hottest is not None:
        yield f"callgrove top {where}"
        yield f"callgrove tree {where}"
        yield f"callgrove hot {where}"
        yield f"callgrove report {where} -o report.html"
    if facts.another_metric:
        yield f"callgrove top {where} -m {quote_word(facts.another_metric)}"
    if facts.n_spans or facts.n_counters:
        yield f"callgrove summary {where}"
    if facts.n_counters:
        yield f"callgrove export {where} --table counters --limit 10"
    if facts.n_samples:
        yield f"callgrove export {where} --table samples --limit 10"
    if any(w.severity.value == "damage" for w in facts.warnings):
        yield f"callgrove check {where}"
    if facts.hottest is None and not facts.n_counters:
        yield f"callgrove export {where} --table contexts"


# -- facts about a study -----------------------------------------------------------------------------------------------


MOST_NAMES = 8


def study_facts(study: Study) -> Iterator[tuple[str, str]]:
    """Yield one line each: what was measured, where, how often, and which models there are."""
    yield "title", study.title
    yield "format", f"{study.format} {study.version}".rstrip()
    for number, name in enumerate(study.parameters):
        values = sorted(set(study.points[:, number].tolist()))
        yield "parameter", f"{name}: {_some([f'{v:g}' for v in values])}"
    yield "points", f"{study.n_points:,}"
    of = f"{count_of(len(study.callpaths), 'call path')}, {count_of(len(study.metrics), 'metric')}"
    yield "series", f"{len(study):,} ({of})"
    yield "metrics", _some([name or "<default>" for name in study.metrics])
    known = study.repetitions[study.repetitions > 0]
    if len(known):
        low, high = int(known.min()), int(known.max())
        yield "repetitions", str(low) if low == high else f"{low} to {high}"
    yield "values", f"{len(study.raw.values):,} raw values" if study.raw is not None else "statistics only"
    if study.scaling:
        yield "scaling", study.scaling
    for name in dict.fromkeys(model.name for model in study.models):
        n = sum(model.name == name for model in study.models)
        yield "models", f"{n:,} in {name or 'one set'}"
    for warning in study.warnings[:MOST_WARNINGS]:
        yield warning.severity.value, warning.text
    if len(study.warnings) > MOST_WARNINGS:
        yield "and", f"{len(study.warnings) - MOST_WARNINGS} more of these; `callgrove check` lists them all"


def study_next(study: Study, path: str | None) -> Iterator[str]:
    """Yield commands for this very input."""
    if path is not None:
        yield f"callgrove model {quote_word(path)}"
        yield f"callgrove report {quote_word(path)} -o report.html"
        yield f"callgrove export {quote_word(path)} --table series --limit 10"
        yield f"callgrove convert {quote_word(path)} {study.suggested_target}"


def study_metrics(study: Study) -> Table:
    """Return the metrics of a study, with the number of their series."""
    rows = []
    for number, name in enumerate(study.metrics):
        n_series = int((study.series_metric == number).sum())
        tags = ", ".join(f"{key}={value}" for key, value in study.metric_tags.get(name, {}).items())
        rows.append((name, study.units.get(name) or None, n_series, tags or None))
    return Table.from_rows(("name", "unit", "series", "tags"), rows)


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
    return ", ".join(names[:MOST_NAMES]) + more
