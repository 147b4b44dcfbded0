"""Commands that show the same as a page: of an input that was opened from several paths, or of which a part was chosen,
a command with the first path alone would print other numbers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from callgrove.analysis.explain.findings import name_inputs
from callgrove.render.facts import quote_word

__all__ = ["FLAGS_OF_LOOKS", "Given"]

Option = tuple[str, str]  # a flag, and its value or nothing

FLAGS_OF_LOOKS = ("--derive", "--query")  # what is typed into a page


@dataclass(frozen=True)
class Given:
    """What was given to see an input, beside its paths.

    words      what commands call the input, where that is not its paths
    chosen     the options that choose a part of it
    by_verb    all options, of each verb those that it takes
    refused    of each verb, the flags that it does not take
    """

    words: tuple[str, ...] = ()
    chosen: tuple[Option, ...] = ()
    by_verb: Mapping[str, tuple[Option, ...]] = field(default_factory=dict)
    refused: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def name_input(self, paths: Sequence[str]) -> tuple[str, ...]:
        """Return what commands call the input."""
        return self.words or name_inputs(paths)

    def looked_at(self, derive: Iterable[str], pattern: str) -> Given:
        """Return the same with what was typed into a page."""
        derived = tuple(("--derive", text) for text in derive)
        matched = (("--query", pattern),) if pattern.strip() else ()
        typed = (*derived, *matched)
        by_verb = {
            verb: (*options, *(one for one in typed if one[0] not in self.refused.get(verb, ())))
            for verb, options in self.by_verb.items()
        }
        return Given(self.words, (*self.chosen, *matched), by_verb, self.refused)

    def complete(self, command: str) -> str:
        """Return a command with the options that its verb takes; where it does not take what chooses a part, the
        command says so."""
        verb = command.split()[1]
        options = [one for one in self.by_verb.get(verb, ()) if f" {one[0]} " not in f"{command} "]
        missing = [one for one in self.chosen if one[0] in self.refused.get(verb, ())]
        remark = f" # of everything: {verb} has no {' and no '.join(flag for flag, _ in missing)}" if missing else ""
        return " ".join((command, *map(_write, options))) + remark

    @property
    def part(self) -> str:
        """The options that choose a part, as text; empty where all of the input is seen."""
        return " ".join(map(_write, self.chosen))

    @property
    def data(self) -> dict[str, Any]:
        """What a page needs to make commands itself."""
        return {"options": dict(self.by_verb), "refused": dict(self.refused)}


def _write(option: Option) -> str:
    flag, text = option
    return f"{flag} {quote_word(text)}" if text else flag
