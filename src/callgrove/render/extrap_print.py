"""Models as Extra-P's command line prints them (`--print`): its presets, and its format strings.

    all, callpaths, metrics, parameters, functions; all-python, functions-latex, ...
    {callpath} {metric} {model} {model:python} {model:latex} {smape:.3f} {rss} {rrss} {ar2} {re}
    {parameters: sep:', '}   {points: sep:' | '; format:'{point: format:'{parameter}={coordinate}'}'}
    {measurements: sep:'\\n'; format:'{point} {mean:.2E} {median} {std} {min} {max}'}

`{?callpath}`, `{?metric}`, `{?points}` and `{?parameters}` are blanks where the text is that of the line before. Braces
are written twice. Specification: Extra-P's page "Output formatting", checked against Extra-P 4.2.5.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from callgrove.errors import UsageError
from callgrove.model.table import visible
from callgrove.modeling.fitting import Models
from callgrove.modeling.model_tables import function_text

__all__ = ["PRESETS", "extrap_report", "print_models"]

NOTATIONS = {"": "extrap", "-python": "python", "-latex": "latex"}
PRESETS = (
    *(f"all{ending}" for ending in NOTATIONS),
    "callpaths",
    "metrics",
    "parameters",
    *(f"functions{ending}" for ending in NOTATIONS),
)
COSTS = ("smape", "rrss", "rss", "ar2", "re")
STATISTICS = {"mean": "mean", "median": "median", "std": "std", "min": "minimum", "max": "maximum"}


def print_models(models: Models, text: str) -> Iterator[str]:
    """Yield models as a preset or a format string says."""
    preset = text.lower()
    if preset not in PRESETS:
        yield from _Printer(models, _parse(text)).lines()
        return
    word, _, notation = preset.partition("-")
    style = NOTATIONS[f"-{notation}" if notation else ""]
    if word == "all":
        yield from extrap_report(models, style)
        return
    study = models.study
    numbers = range(len(models))
    listed = {
        "callpaths": list(dict.fromkeys(map(models.callpath, numbers))),
        "metrics": list(dict.fromkeys(map(models.metric, numbers))),
        "parameters": study.parameters,
    }.get(word)
    functions = (function_text(models.functions, number, style) for number in numbers)
    for line in functions if listed is None else listed:
        yield f"{visible(line)}\n"


# -- all of it ---------------------------------------------------------------------------------------------------------


def extrap_report(models: Models, style: str = "extrap") -> Iterator[str]:
    """Yield pieces of text, one per model."""
    study = models.study
    by_callpath: dict[int, list[int]] = {}
    for number, callpath in enumerate(study.series_callpath[models.series].tolist()):
        by_callpath.setdefault(callpath, []).append(number)
    for callpath, numbers in by_callpath.items():
        yield f"Callpath: {visible(study.callpaths[callpath])}\n"
        for number in numbers:
            yield _model(models, number, style)


def _model(models: Models, number: int, style: str) -> str:
    study, series = models.study, int(models.series[number])
    lines = [f"\tMetric: {visible(models.metric(number))}"]
    for point in np.flatnonzero(study.present[series]).tolist():
        at = ",".join(f"{x:.2E}" for x in study.points[point].tolist())
        known = f"Mean: {study.mean[series, point]:.2E} Median: {study.median[series, point]:.2E}"
        lines.append(f"\t\tMeasurement point: ({at}) {known}")
    lines.append(f"\t\tModel: {visible(function_text(models.functions, number, style))}")
    lines.append(f"\t\tRSS: {models.costs.rss[number]:.2E}")
    lines.append(f"\t\tAdjusted R^2: {models.costs.ar2[number]:.2E}")
    return "\n".join(lines) + "\n"


# -- format strings ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Placeholder:
    """What stands between braces: `name`, and what follows behind a colon."""

    name: str
    options: str


Part = str | _Placeholder


def _parse(text: str) -> list[Part]:
    """Return a format string as texts and placeholders; braces inside of these belong to them."""
    parts: list[Part] = []
    plain, at = "", 0
    while at < len(text):
        if text[at : at + 2] in ("{{", "}}"):
            plain, at = plain + text[at], at + 2
        elif text[at] == "{":
            end = _find_end(text, at)
            name, _, options = text[at + 1 : end].partition(":")
            parts += [plain, _Placeholder(name.strip(), options.replace("\\n", "\n").replace("\\t", "\t"))]
            plain, at = "", end + 1
        elif text[at] == "}":
            raise UsageError(f"{text!r}: a brace is closed that was not opened; a brace itself is written twice")
        else:
            plain, at = plain + text[at], at + 1
    return [*parts, plain]


def _find_end(text: str, start: int) -> int:
    depth = 0
    for at in range(start, len(text)):
        depth += (text[at] == "{") - (text[at] == "}")
        if not depth:
            return at
    raise UsageError(f"{text!r}: a brace is opened and not closed")


def _read_option(options: str, word: str) -> str | None:
    """Return the text in quotes behind `sep:` or `format:`; quotes inside of braces belong to these."""
    start = options.find(f"{word}:")
    if start < 0:
        return None
    rest = options[start + len(word) + 1 :].lstrip()
    if not rest.startswith("'"):
        raise UsageError(f"{word}: takes a text in single quotes, not {rest[:20]!r}")
    value, depth, at = "", 0, 1
    while at < len(rest):
        if rest[at : at + 2] == "\\'" and not depth:
            value, at = value + "'", at + 2
            continue
        depth += (rest[at] == "{") - (rest[at] == "}")
        if rest[at] == "'" and not depth:
            return value
        value, at = value + rest[at], at + 1
    raise UsageError(f"{word}: the text {rest[:20]!r} has no closing quote")


@dataclass
class _Printer:
    """Writes a line for each model; remembers what was written for the placeholders with a question mark."""

    models: Models
    parts: Sequence[Part]
    before: dict[str, str] = field(default_factory=dict)

    def lines(self) -> Iterator[str]:
        """Yield a line for each model, metric by metric as Extra-P does."""
        study, series = self.models.study, self.models.series
        for number in np.lexsort([study.series_callpath[series], study.series_metric[series]]).tolist():
            yield "".join(part if isinstance(part, str) else self._fill(part, number) for part in self.parts) + "\n"

    def _fill(self, part: _Placeholder, number: int) -> str:
        name, once = part.name.removeprefix("?"), part.name.startswith("?")
        text = self._write(name, part.options, number)
        if once and self.before.get(name) == text:
            return " " * len(text)
        self.before[name] = text
        return text

    def _write(self, name: str, options: str, number: int) -> str:
        models = self.models
        if name in COSTS:
            return _format(float(getattr(models.costs, name)[number]), options, name)
        writers: dict[str, Callable[[], str]] = {
            "callpath": lambda: visible(models.callpath(number)),
            "metric": lambda: visible(models.metric(number)),
            "model": lambda: visible(function_text(models.functions, number, _notation(options))),
            "parameters": lambda: self._parameters(options),
            "points": lambda: self._points(options),
            "measurements": lambda: self._measurements(options, number),
        }
        if name not in writers:
            known = ", ".join([*writers, *COSTS])
            raise UsageError(f"there is no placeholder {{{name}}}; there are {known}")
        return writers[name]()

    def _parameters(self, options: str) -> str:
        form = _read_option(options, "format")
        names = [
            name if form is None else _fill_all(_parse(form), {"parameter": name}) for name in self._parameter_names
        ]
        return _join(names, options, " ")

    @property
    def _parameter_names(self) -> Sequence[str]:
        return [visible(name) for name in self.models.study.parameters]

    def _points(self, options: str) -> str:
        form = _read_option(options, "format")
        texts = []
        for point in self.models.study.points.tolist():
            if form is None:
                texts.append(f"({self._point('', point)})")
            else:
                texts.append(self._fill_point(form, point, {}))
        return _join(texts, options, " | ")

    def _measurements(self, options: str, number: int) -> str:
        study, series = self.models.study, int(self.models.series[number])
        form = _read_option(options, "format")
        texts = []
        for k, point in enumerate(study.points.tolist()):
            there = bool(study.present[series, k])
            known = {w: float(getattr(study, n)[series, k]) if there else 0.0 for w, n in STATISTICS.items()}
            if form is None:
                numbers = f"Mean: {known['mean']:.2E} Median: {known['median']:.2E}"
                texts.append(f"({self._point('', point)}) {numbers}")
            else:
                texts.append(self._fill_point(form, point, known))
        return _join(texts, options, "\n")

    def _fill_point(self, form: str, point: Sequence[float], known: dict[str, float]) -> str:
        """Return a text in which {point} and statistics are filled in."""
        out = ""
        for part in _parse(form):
            if isinstance(part, str):
                out += part
            elif part.name == "point":
                out += self._point(part.options, point)
            elif part.name in known:
                out += _format(known[part.name], part.options, part.name)
            else:
                raise UsageError(
                    f"there is no placeholder {{{part.name}}} here; there are {', '.join(['point', *known])}"
                )
        return out

    def _point(self, options: str, point: Sequence[float]) -> str:
        form = _read_option(options, "format")
        if form is None:
            return _join([f"{x:.2E}" for x in point], options, ", ")
        parts = _parse(form)
        pairs = zip(self._parameter_names, point, strict=True)
        return _join([_fill_all(parts, {"parameter": name, "coordinate": x}) for name, x in pairs], options, ", ")


def _join(texts: Sequence[str], options: str, usual: str) -> str:
    separator = _read_option(_without_format(options), "sep")
    return (usual if separator is None else separator).join(texts)


def _without_format(options: str) -> str:
    """Return options without the text of `format`, which may have a `sep` of its own."""
    start = options.find("format:")
    if start < 0:
        return options
    opening = options.find("'", start)
    depth = 0
    for at in range(opening + 1, len(options)):
        depth += (options[at] == "{") - (options[at] == "}")
        if options[at] == "'" and not depth and options[at - 1] != "\\":
            return options[:start] + options[at + 1 :]
    return options[:start]


def _fill_all(parts: Sequence[Part], values: dict[str, str | float]) -> str:
    out = ""
    for part in parts:
        if isinstance(part, str):
            out += part
        elif part.name in values:
            out += _format(values[part.name], part.options, part.name)
        else:
            raise UsageError(f"there is no placeholder {{{part.name}}} here; there are {', '.join(values)}")
    return out


def _format(value: str | float, spec: str, name: str) -> str:
    try:
        return format(value, spec)
    except ValueError as error:
        raise UsageError(f"{{{name}:{spec}}}: {str(error).rstrip('.')}") from error


def _notation(options: str) -> str:
    word = options.strip()
    if word not in ("", "python", "latex"):
        raise UsageError(f"{{model:{word}}}: functions are written as python or latex")
    return word or "extrap"
