"""Both passes on workers, into a writer.

    survey     batches of files -> surveys, merged pair by pair on the workers
    prepare    here: structure files, contexts, metrics
    costs      batches of files -> values and samples, written here in the order of profiles

Nothing depends on how many workers there are: batches are made from the files alone, and merging gives the same tree in
any order.
"""

from __future__ import annotations

import secrets
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from callgrove.errors import InputError
from callgrove.execute import Workers
from callgrove.formats.interface import LossReport, Progress, SampleChunk, Writer, silent
from callgrove.model.traces import Samples
from callgrove.model.values import SparseBlock
from callgrove.prof.costs import block_of, nodes_of_files, points_of
from callgrove.prof.experiment import Attribution, Prepared, prepared
from callgrove.prof.inputs import Inputs, bounded
from callgrove.prof.nodes import Flavour
from callgrove.prof.plan import Plan, load
from callgrove.prof.survey import Survey, SurveyedFile, combined, surveyed
from callgrove.prof.timelines import samples_of

__all__ = ["Converted", "Request", "convert", "prepare", "survey_of"]


@dataclass(frozen=True)
class Request:
    """What to convert, and how."""

    inputs: Inputs
    attribution: Attribution = field(default_factory=Attribution)
    flavour: Flavour = field(default_factory=Flavour)
    only_exe: str = ""
    wants_traces: bool = True


@dataclass
class Converted:
    """What was left out: samples on nodes that have no context, values of the root; and what the target cannot hold."""

    n_samples: int
    n_values: int
    losses: LossReport


def survey_of(request: Request, workers: Workers, progress: Progress = silent) -> Survey:
    """The first pass. A directory without any file that can be read is an error."""
    batches = request.inputs.batches(request.flavour, request.only_exe, request.wants_traces)
    survey = workers.reduce(surveyed, combined, batches, label="reading profiles", progress=progress)
    if survey is None or not survey.files:
        raise _nothing(request, survey)
    found = {file.folder for file in survey.files}
    for folder in request.inputs.folders:
        if str(folder) not in found and not request.only_exe:
            reasons = [text for path, text in survey.skipped if Path(path).parent == folder]
            raise InputError(f"{folder}: none of its measurement files can be read: {reasons[0]}")
    return survey


def _nothing(request: Request, survey: Survey | None) -> InputError:
    where = request.inputs.paths[0]
    if survey is not None and survey.n_others:
        return InputError(f"{where}: there is no measurement of the program {request.only_exe!r}")
    reason = f": {survey.skipped[0][1]}" if survey is not None and survey.skipped else ""
    return InputError(f"{where}: no measurement file can be read{reason}")


def prepare(request: Request, survey: Survey) -> Prepared:
    """The experiment of a survey."""
    return prepared(survey, request.inputs, request.attribution, request.flavour)


def convert(ready: Prepared, writer: Writer, workers: Workers, beside: Path, progress: Progress = silent) -> Converted:
    """The second pass, into a writer, which is closed. What workers need is kept in a folder next to `beside`, where
    all of them can read it."""
    try:
        writer.define(ready.experiment)
        n_samples = n_values = 0
        with _shared(ready.plan, beside, workers) as plan:
            tasks = _tasks(plan, ready.files)
            for done in workers.map(work_off, tasks, label="attributing costs", progress=progress):
                if len(done.values):
                    writer.write(done.values)
                for profile, samples in done.lines:
                    writer.write(SampleChunk(profile, -1, samples))
                n_samples += done.n_samples_left_out
                n_values += done.n_values_left_out
        report = writer.close()
    except BaseException:
        writer.abort()
        raise
    return Converted(n_samples, n_values, report)


@contextmanager
def _shared(plan: Plan, beside: Path, workers: Workers) -> Iterator[Plan | str]:
    """The plan, or the folder from which workers load it."""
    if not workers.are_elsewhere:
        yield plan
        return
    folder = beside.parent.resolve() / f".{beside.name}.{secrets.token_hex(4)}.plan"
    folder.mkdir()
    try:
        plan.save(folder)
        yield str(folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@dataclass(frozen=True)
class Task:
    """Files of consecutive profiles; `plan` is where it lies, or itself."""

    plan: Plan | str
    first: int
    paths: tuple[str, ...]
    has_trace: tuple[bool, ...]


@dataclass(frozen=True)
class Done:
    """Values of the profiles of a task, and their samples."""

    values: SparseBlock
    lines: list[tuple[int, Samples]]
    n_samples_left_out: int
    n_values_left_out: int


def _tasks(plan: Plan | str, files: Sequence[SurveyedFile]) -> list[Task]:
    sizes = [16 * file.n_values + 12 * (file.trace.n_samples if file.trace else 0) for file in files]
    return [
        Task(
            plan,
            first,
            tuple(file.path for file in files[first:last]),
            tuple(file.trace is not None and file.trace.n_samples > 0 for file in files[first:last]),
        )
        for first, last in bounded(sizes)
    ]


def work_off(task: Task) -> Done:
    """The second pass over the files of a task."""
    plan = load(task.plan) if isinstance(task.plan, str) else task.plan
    files = nodes_of_files(plan, plan.tree, [Path(path) for path in task.paths])
    profiles = np.arange(task.first, task.first + len(files))
    points = points_of(plan, files)
    values = block_of(plan, points, profiles)
    lines, n_left_out = [], 0
    for profile, file, has_trace in zip(profiles.tolist(), files, task.has_trace, strict=True):
        if has_trace:
            samples, left_out = samples_of(plan, file)
            lines.append((profile, samples))
            n_left_out += left_out
    return Done(values, lines, n_left_out, int(np.count_nonzero(points.context == 0)))
