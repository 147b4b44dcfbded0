"""Both passes on workers, into a writer.

    survey     batches of files -> surveys, merged pair by pair on the workers
    prepare    here: structure files, contexts, metrics
    costs      batches of files -> values and samples, written here in the order of profiles

Nothing depends on how many workers there are: batches are made from the files alone, and merging gives the same tree in
any order.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from callgrove.arrays import Floats, Ints
from callgrove.errors import CallgroveError, InputError
from callgrove.execute import Progress, Workers, silent
from callgrove.formats.interface import LossReport, SampleChunk, SamplePlaces, TakesPackedSamples, Writer
from callgrove.model.metrics import Scope
from callgrove.prof.experiment import Attribution, Prepared, prepare_experiment
from callgrove.prof.nodes import Flavour
from callgrove.prof.samples import pack_samples
from callgrove.prof.second_pass import (
    PLAIN,
    Plan,
    block_of,
    load,
    nodes_of_files,
    plain_samples,
    points_of,
)
from callgrove.prof.spool import Done, Meeting, meeting, spool
from callgrove.prof.survey import (
    FileTables,
    Inputs,
    Programs,
    Survey,
    SurveyedFile,
    bound_ranges,
    combine_surveys,
    survey_batch,
)

__all__ = ["Converted", "Request", "convert", "prepare", "run_conversion", "survey_of"]

KEPT_BYTES = 32 << 20  # of the tables of small files, between the passes of one process


@dataclass(frozen=True)
class Request:
    """What to convert, and how."""

    inputs: Inputs
    attribution: Attribution = field(default_factory=Attribution)
    flavour: Flavour = field(default_factory=Flavour)
    only_exe: Programs = ()
    wants_traces: bool = True


@dataclass
class Converted:
    """What was left out: samples on nodes that have no context, values of the root; and what the target cannot hold."""

    n_samples: int
    n_values: int
    losses: LossReport


def survey_of(request: Request, workers: Workers, progress: Progress = silent, place: Meeting | None = None) -> Survey:
    """Do the first pass. A directory without any file that can be read is an error."""
    keeps = 0 if workers.are_elsewhere else KEPT_BYTES
    batches = request.inputs.batches(request.flavour, request.only_exe, request.wants_traces, keeps, place)
    watched = _in_files(progress, [len(batch.files) for batch in batches])
    survey = workers.reduce(survey_batch, combine_surveys, batches, label="reading files", progress=watched)
    if survey is None or not survey.files:
        raise _nothing(request, survey)
    folders = {file.folder for file in survey.files}
    for folder in request.inputs.folders:
        if str(folder) not in folders and not request.only_exe:
            reasons = [text for path, text in survey.skipped if Path(path).parent == folder]
            raise InputError(f"{folder}: none of its measurement files can be read: {reasons[0]}")
    return survey


def _in_files(progress: Progress, sizes: Sequence[int]) -> Progress:
    """Return progress in files, of work that goes on in batches of them."""
    before = [0, *np.cumsum(sizes).tolist()]
    return lambda label, done, total: progress(label, before[done], before[-1])


def _nothing(request: Request, survey: Survey | None) -> InputError:
    where = request.inputs.paths[0]
    if survey is not None and survey.others:
        there, wanted = ", ".join(sorted(set(survey.others))), " or ".join(map(repr, request.only_exe))
        return InputError(
            f"{where}: there is no measurement of the program {wanted}; there are measurements of {there}"
        )
    if survey is None or not survey.skipped:
        return InputError(f"{where}: no measurement file can be read")
    path, reason = survey.skipped[0]
    return InputError(reason if path == str(where.resolve()) else f"{where}: no measurement file can be read: {reason}")


def prepare(request: Request, survey: Survey, progress: Progress = silent) -> Prepared:
    """Return the experiment of a survey."""
    return prepare_experiment(survey, request.inputs, request.attribution, request.flavour, progress)


def run_conversion(
    request: Request, writer: Writer, workers: Workers, target: Path, progress: Progress = silent
) -> tuple[Survey, Prepared, Converted]:
    """Do both passes, into a writer for the target, which is closed; after an error it is given up."""
    try:
        with meeting(target, workers) as place:
            survey = survey_of(request, workers, progress, place)
            ready = prepare(request, survey, progress)
            done = convert(ready, writer, workers, progress, place if survey.all_meet else None)
    except OSError as error:  # beside the target, here or on a worker: inputs have errors of their own
        writer.abort()
        reason = error.strerror or str(error)
        raise CallgroveError(f"{target}: cannot be written: {reason}; nothing was changed") from error
    except BaseException:
        writer.abort()
        raise
    return survey, ready, done


def convert(
    ready: Prepared, writer: Writer, workers: Workers, progress: Progress = silent, place: Meeting | None = None
) -> Converted:
    """Do the second pass. Without a place to meet, workers get the plan with every task and send what they make."""
    writer.define(ready.experiment)
    plan, places, n_samples, n_values = ready.plan, None, 0, 0
    if isinstance(writer, TakesPackedSamples):
        plan = replace(plan, layout=writer.sample_layout())
        places = writer.sample_places(_n_samples(ready.files)) if workers.are_near else None
    if place is not None:
        plan.save(place.plan)
    tasks = _tasks(plan if place is None else place, ready.files, places)
    work = work_off_and_copy if place is None and workers.are_elsewhere else work_off
    watched = _in_files(progress, [len(task.files) for task in tasks])
    measured = np.zeros(len(plan.metrics.is_derived))
    for done in workers.map(work, tasks, label="attributing costs", progress=watched):
        n_samples += _write(done, writer)
        n_values += done.n_left_out
        measured += done.measured
    report = writer.close()
    report.unexplained.extend(_differences(plan, measured, writer))
    return Converted(n_samples, n_values, report)


def _differences(plan: Plan, measured: Floats, writer: Writer) -> Iterator[str]:
    """Yield quantities of which the writer was given something else than the files hold."""
    if (books := writer.books) is None:
        return
    given = books.given.totals
    for scope in (Scope.FUNCTION, Scope.INCLUSIVE) if given.are_costs else (Scope.POINT,):
        rows = plan.metrics.rows.get(scope, np.empty(0, np.int32))
        held = given.like()
        here = np.flatnonzero(rows >= 0)
        held.total[rows[here]] = measured[here]
        for row in rows[here].tolist():
            if given.adds_up[row] and not given.agrees(row, held):
                before, after = held.total[row], given.total[row]
                yield f"{books.metrics[row].label}: the files hold {before:g}, their call paths {after:g}"


def _write(done: Done, writer: Writer) -> int:
    """Write what a task made; return how many samples were left out."""
    n_left_out, block = 0, done.block
    packing = writer if isinstance(writer, TakesPackedSamples) else None  # which takes long to find out
    if len(block):
        writer.write(block)
    for packed, left_out in done.lines:
        n_left_out += left_out
        if packing is not None:
            packing.write_packed(packed)
        else:
            records = packed.records if isinstance(packed.records, np.ndarray) else packed.records.array(PLAIN)
            writer.write(SampleChunk(packed.profile, -1, plain_samples(records)))
    done.forget()
    return n_left_out


@dataclass(frozen=True)
class Task:
    """Files of consecutive profiles, by what was kept of them or where they lie; the plan, or where it is."""

    plan: Plan | Meeting
    first: int
    files: tuple[FileTables | str, ...]
    n_samples: tuple[int, ...]  # that each had in the first pass
    places: SamplePlaces | None = None  # of the samples of these profiles in the target


def _n_samples(files: Sequence[SurveyedFile]) -> Ints:
    return np.array([file.trace.n_samples if file.trace else 0 for file in files], np.int64)


def _tasks(plan: Plan | Meeting, files: Sequence[SurveyedFile], places: SamplePlaces | None = None) -> list[Task]:
    n_samples = _n_samples(files)
    sizes = 16 * np.array([file.n_values for file in files], np.int64) + 12 * n_samples
    return [
        Task(
            plan,
            first,
            tuple(file.tables or file.path for file in files[first:last]),
            tuple(n_samples[first:last].tolist()),
            None if places is None else _cut(places, slice(first, last)),
        )
        for first, last in bound_ranges(sizes.tolist())
    ]


def _cut(places: SamplePlaces, part: slice) -> SamplePlaces:
    return replace(places, offsets=places.offsets[part], counts=places.counts[part])


def work_off(task: Task) -> Done:
    """Do the second pass over the files of a task."""
    if isinstance(task.plan, Plan):
        return _convert_files(task.plan, task)
    if not task.plan.is_seen():
        text = "a worker does not see this folder, though others do; put OUT where all nodes see it"
        raise CallgroveError(f"{task.plan.folder}: {text}")
    return spool(_convert_files(load(str(task.plan.plan)), task), task.plan, task.first, task.places)


def work_off_and_copy(task: Task) -> Done:
    """Do a task on a worker that has to send its result."""
    return work_off(task).copy_lines()


def _convert_files(plan: Plan, task: Task) -> Done:
    files = nodes_of_files(plan, task.files)
    points, measured = points_of(plan, files)
    at_root = points.context == 0
    measured -= np.bincount(points.quantity[at_root], points.value[at_root], len(measured))
    values = block_of(plan, points, np.arange(task.first, task.first + len(files)))
    traced = [(task.first + k, file, task.n_samples[k]) for k, file in enumerate(files) if task.n_samples[k]]
    return Done(values, pack_samples(plan, traced), int(np.count_nonzero(at_root)), measured)
