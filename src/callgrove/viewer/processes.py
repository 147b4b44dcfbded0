"""Processes that say the same of themselves: identifier tuples are not unique, so they are counted."""

from __future__ import annotations

from collections import Counter

from callgrove.model.experiment import Experiment

__all__ = ["process_numbers"]


def process_numbers(experiment: Experiment) -> list[int]:
    """For every profile, how many before it have its run and its identifier tuple: 0 almost always."""
    profiles = experiment.profiles
    seen: Counter[tuple[int, str]] = Counter()
    numbers = []
    for profile, run in enumerate(profiles.run.tolist()):
        key = run, profiles.described(profile)
        numbers.append(seen[key])
        seen[key] += 1
    return numbers
