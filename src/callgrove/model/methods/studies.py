"""What can be asked of a study: comparisons, models, predictions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

from callgrove.model.methods.shared import SharedMethods

if TYPE_CHECKING:
    from callgrove.analysis.comparison.studies import StudyComparison
    from callgrove.analysis.explain import Explanation
    from callgrove.model.study.series import Study
    from callgrove.model.table import Table
    from callgrove.modeling.fitting import Models
    from callgrove.modeling.options import ModelOptions

__all__ = ["StudyMethods"]


class StudyMethods(SharedMethods):
    """The methods of `Study` that mirror the verbs of the command line."""

    def compare(
        self, *others: Study, metric: str | None = None, sort: str = "difference", only: str = ""
    ) -> StudyComparison:
        """Return this study compared with others at the points in common: `.sentence`, `.table(limit)`.

        metric         one for all, or "LEFT=RIGHT"; without it, all that the studies have in common
        sort, only     as in `Experiment.compare`

        Values are means over repetitions; `notes` name the points that only one study has.

            callgrove.open("before.txt").compare(callgrove.open("after.txt")).table(10)
        """
        from callgrove.analysis.comparison.studies import StudyQuestion, compare_studies

        return compare_studies([cast("Study", self), *others], StudyQuestion(metric, sort, only))

    def compare_models(self, other: Study, at: Mapping[str, float], metric: str | None = None) -> Table:
        """Return the scaling models of two studies side by side: functions, predictions at a point, their ratio, where
        they cross, and how far to trust them; the largest difference first.

        at             a value for every parameter: {"p": 4096, "n": 1e6}

            callgrove.open("before.txt").compare_models(callgrove.open("after.txt"), {"p": 4096})
        """
        from callgrove.modeling.comparison import compare_models
        from callgrove.modeling.prediction import target_of

        here = self.model(metric)
        return compare_models(here, other.model(metric), target_of(here.study, at).at).table()

    def explain(self, metric: str | None = None) -> Explanation:
        """Return what there is to know of the study, in a few sentences: what will not scale, what will cost most, what
        overtakes what, how far to trust that; each with its number and with the command that shows more.

        metric         what is explained (default: the first time, else the first metric that adds up)

            print(callgrove.open("scaling.txt").explain())
        """
        from callgrove.modeling.sentences import explain_study

        return explain_study(cast("Study", self), metric)

    def aggregate(self, rule: str = "sum") -> Study:
        """Return a study of what each call path has with all below it: the sum of the measurements, or the maximum."""
        from callgrove.model.study.arithmetic import aggregate

        return aggregate(cast("Study", self), rule)

    def model(
        self,
        metric: str | None = None,
        callpath: str | None = None,
        *,
        along: str | None = None,
        times: str | None = None,
        stored: str | None = None,
        refit: bool = False,
        options: ModelOptions | None = None,
    ) -> Models:
        """Return scaling models: of every series, or of those that are chosen.

        metric         only this one; a part of its name is enough
        callpath       only call paths that contain this text
        along          as if this were the only parameter
        times          model values times this parameter: the total of all processes
        stored         which of the stored sets of models (default: the last)
        refit          make new models even if the study has some
        options        how terms are searched and judged: `callgrove.ModelOptions`

            study.model("time").table()
        """
        from callgrove.modeling.options import ModelOptions
        from callgrove.modeling.prediction import models_of, prepare

        ready = prepare(cast("Study", self), along, times)
        return models_of(ready, options or ModelOptions(), metric, callpath, stored, refit)

    def predict(
        self,
        at: Mapping[str, float],
        metric: str | None = None,
        callpath: str | None = None,
        *,
        subtrees: bool = False,
        processes: str | None = None,
        noise_floor: float | None = None,
        limit: int | None = None,
        **model: Any,
    ) -> Table:
        """Return what models say about a point that was not measured, the largest cost first, with intervals and how
        far to trust them; what is not to be trusted, or is noise, comes last.

        at             a value for every parameter: {"p": 4096, "n": 1e6}
        subtrees       each call path with all below it
        processes      the parameter that counts processes (default: by its name)
        noise_floor    percent of a run below which series are noise (default: what repetitions differ by)

        metric, callpath and further keywords are those of `model`.

            study.predict({"p": 4096}, limit=5)
        """
        from dataclasses import replace

        from callgrove.model.study.from_runs import note_values
        from callgrove.modeling.prediction import far_from, fit_beside, predict, target_of

        models = self.model(metric, callpath, **model)
        target = target_of(models.study, at)
        notes = [f"{text}: functions that fit equally well part ways there" for text in far_from(models.study, target)]
        table = predict(models, target, subtrees, processes, noise_floor, fit_beside(models))
        return replace(table.head(limit), notes=(*notes, *note_values(models.study)))

    def export(self, table: str = "series") -> Table:
        """Return one of the tables that a study consists of: its series, or the parameters of its points."""
        from callgrove.analysis.tables import export
        from callgrove.model.table import Table

        return Table.concatenate(export(cast("Study", self), table))

    def to_pandas(self) -> Any:
        """Return the table of series as a pandas.DataFrame (extra `pandas`)."""
        return cast("Study", self).table().to_pandas()
