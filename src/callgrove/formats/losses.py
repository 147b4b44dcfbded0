"""What more than one format cannot hold, in the same words; only what is there is named."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import zip_longest

from callgrove.model.runs import Run
from callgrove.model.traces import Traces

__all__ = ["NOTHING_RENAMED", "group_lines", "losses_of_events", "losses_of_runs", "some"]

SHOWN = 5  # names in one sentence, and lines of one kind
LOST = "lost: "  # how notes about losses begin
NOTHING_RENAMED = "--kernel-rename: changes nothing, as no kernel here tells the range that it was launched in"


def some(names: Iterable[str]) -> str:
    """The first few of some names, each once."""
    found = list(dict.fromkeys(names))
    more = f" and {len(found) - SHOWN} more" if len(found) > SHOWN else ""
    return ", ".join(found[:SHOWN]) + more


def group_lines(lines: Iterable[str]) -> list[str]:
    """The same lines, with one instead of more than a few of one kind. `WHAT NAME: TEXT` are of one kind where only the
    name differs: it lists some names and counts the others. `WHAT: TEXT` are where only the text does: it counts
    them and gives the first."""
    out = list(dict.fromkeys(lines))
    return _merge(_merge(out, _sentence, _merge_names), _subject, _merge_texts)


def _merge(lines: list[str], key: Callable[[str], object], merge: Callable[[list[str]], str]) -> list[str]:
    """Lines with equal keys as one, at the place of the first, where there are more than a few."""
    groups: dict[object, list[str]] = {}
    for line in lines:
        groups.setdefault(key(line) if ": " in line else line, []).append(line)
    return [
        line
        for group in groups.values()
        for line in ([merge(group)] if len(group) > SHOWN and ": " in group[0] else group)
    ]


def _parts(line: str) -> tuple[list[str], str]:
    """The words before the colon, and the text behind it."""
    head, _, text = line.removeprefix(LOST).partition(": ")
    return head.split(" "), text


def _sentence(line: str) -> object:
    words, text = _parts(line)
    return line.startswith(LOST), words[0], text


def _subject(line: str) -> object:
    return line.startswith(LOST), tuple(_parts(line)[0])


def _merge_names(lines: list[str]) -> str:
    heads, text = [_parts(line)[0] for line in lines], _parts(lines[0])[1]
    n_shared = next(k for k, words in enumerate(zip_longest(*heads)) if len(set(words)) > 1)
    names = some(" ".join(head[n_shared:]) for head in heads)
    prefix = LOST if lines[0].startswith(LOST) else ""
    return f"{prefix}{' '.join([*heads[0][:n_shared], names])}: {text}"


def _merge_texts(lines: list[str]) -> str:
    prefix = LOST if lines[0].startswith(LOST) else ""
    head, text = _parts(lines[0])
    return f"{prefix}{' '.join(head)}: {len(lines)} of them, the first is {text}"


def losses_of_runs(runs: tuple[Run, ...]) -> Iterator[str]:
    """For formats that hold one run and not its parameters."""
    if len(runs) > 1:
        yield f"runs: {len(runs)} become one"
    if any(run.parameters for run in runs):
        yield "parameters of runs"


def losses_of_events(traces: Traces) -> Iterator[str]:
    """For formats that hold neither spans nor quantities over time."""
    if traces.n_spans:
        yield f"spans: {traces.n_spans} are left out"
    if traces.counters is not None and len(traces.counters):
        yield f"counters over time: {len(traces.counters)} values are left out"
