"""Files that profilers wrote, anonymized: no text of them is in the result but those of a list.

Looked for is every word of six letters and more in the bytes of the input, with all packing taken off, and every whole
text in its tables and beside its spans, however short. The list is explicit: words that formats consist of, for each
format that is written, and what `docs/cli.md` says to stay (names of metrics and calls of public interfaces)."""

from __future__ import annotations

import lzma
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from callgrove.algebra.anonymizing import CATEGORIES, KEPT_NAMES, NUMBER, ROLE
from callgrove.analysis.tables import TABLES, export
from callgrove.formats.registry import entry_of, open_path
from callgrove.model.experiment import Experiment
from callgrove.model.study.series import Study
from tests.algebra.test_anonymizing import contents
from tests.exhaustive import exhaustive
from tests.formats.damage import run

QUICK = {
    "caliper": ["public/caliper/lulesh-annotation-profile.json", "public/caliper/spotdb_0.cali"],
    "chrome-json": ["own/chrome/viztracer.json.gz", "own/chrome/torch_stack.json.gz"],
    "cube": ["public/cubelib/proxy.cubex"],
    "extrap-binary3": ["public/extrap/input/experiment_3"],
    "extrap-experiment": ["public/extrap/experiments/two_parameter3.txt.extra-p"],
    "extrap-json": ["public/extrap/json/new/input2.json"],
    "folded": ["own/folded/quirks.folded"],
    "hpcrun": ["public/hpctoolkit/meas/small.m"],
    "hpcstruct": ["public/hpctoolkit/meas/small.m/structs/testmeas-small.hpcstruct"],
    "hpctoolkit-legacy": ["public/hatchet/hpctoolkit-cpi-database"],
    "hpctoolkit-release": ["own/hpctoolkit-release/mpi4.d"],
    "nsight": ["public/extrap/nsight/concurrent_example/concurrent.s1/profile1.sqlite"],
    "otf2": ["own/otf2/otf2_2"],
    "perf-script": ["own/perf-variants/variants.script.txt"],
    "perfetto": ["own/perfetto/sdk_like.pftrace"],
    "rocpd": ["own/rocpd4/v410_rank0.db.xz"],
    "tau": ["public/tau/cpi-mpi"],
}
MORE = {
    "caliper": [
        "public/caliper/timeseries.cali",
        "public/caliper/example-profile.cali",
        "public/caliper/cpi-callpath-profile.json",
        "public/caliper/caliper_cuda_activity_profile_summary_v2.cali",
    ],
    "chrome-json": [
        "own/chrome/phases.json",
        "own/chrome/array.json",
        "own/chrome/torch_cpu.json",
        "own/chrome/torch_ddp",
        "public/kineto/alexnet.json.gz",
        "public/kineto/cupti_profiler.json.gz",
        "public/kineto/mi250_minitoy_train_ROCm6_2_kineto.json.gz",
        "public/kineto/triton_example.json.gz",
    ],
    "cube": ["public/cubelib/test0.0.cubex"],
    "extrap-json-old": ["public/extrap/json/input_7.JSON"],
    "extrap-jsonl": ["public/extrap/jsonlines/test2.jsonl"],
    "extrap-talpas": ["public/extrap/talpas/talpas_9.txt"],
    "extrap-text": ["public/extrap/text/three_parameter_3.txt"],
    "folded": ["own/folded/pth8.folded"],
    "hpcrun": ["own/hpcrun-04.00/pth4.m"],
    "hpctoolkit-prerelease": ["own/hpctoolkit-prerelease/mpi4.d", "own/hpctoolkit-prerelease/pth4.d"],
    "hpctoolkit-release": ["own/hpctoolkit-release/pth4.d"],
    "hpcstruct": ["public/hpctoolkit/meas/loops-cputime-t.m/structs/libc-2.31.so.hpcstruct"],
    "hpctrace": ["public/hpctoolkit/meas/small.m/testmeas-small-000000-000-11ac0300-5560-0.hpctrace"],
    "perf-script": ["own/perf/pth8.script.txt"],
    "rocpd": ["own/rocpd4/v400_rank0.db.xz"],
    "runs": ["own/scaling/runs", "public/extrap/nsight/concurrent_example"],
}
SAMPLES = [
    *(pytest.param(name, file, id=f"{name}-{Path(file).name}") for name, files in QUICK.items() for file in files),
    *(
        pytest.param(name, file, id=f"{name}-{Path(file).name}", marks=exhaustive)
        for name, files in MORE.items()
        for file in files
    ),
]
WORD = re.compile(rb"(?<![A-Za-z0-9_])[A-Za-z_][A-Za-z0-9_]{5,}")  # shorter ones are in numbers by chance

# Words that formats consist of, where they are in inputs as well, for each format that is written.
FORMATS = {
    "callgrove": (
        "DOUBLE GPUCONTEXT INTEGER MAXDOUBLE MINDOUBLE MultiParameterModeler SQ_WAVES UINT64 activity "
        "allow_combinations_of_sums_and_products anonymous application caliper callpaths coefficient "
        "collective command compare_with_RSS destination device double experiment extrap format hpcrun "
        "hpctoolkit implicit inclusive mangled_name measurements metrics modelers models modules number p "
        "parameters procedure program regions registers samples single_parameter_point_selection source "
        "string topologies use_measure use_median values version viztracer written"
    ),
    "chrome-json": (
        "displayTimeUnit labels process_labels process_name process_sort_index sort_index thread_name "
        "thread_sort_index traceEvents"
    ),
    "cube": (
        "CubePL EXCLUSIVE INTEGER Version calleeId collective disp_name encoding implicit location "
        "locationgroup mangled_name metrics mirrors paradigm periodic program system systemtreenode "
        "topologies uniq_name version"
    ),
    "extrap-experiment": (
        "MultiParameterFunction MultiParameterHypothesis MultiParameterModeler SingleParameterFunction "
        "_costs_are_calculated _use_measure _use_median allow_combinations_of_sums_and_products "
        "annotations coefficient compare_with_RSS compound_terms constant_coefficient coordinate exponent "
        "hypothesis logarithm maximum measurements median minimum modeler modelers models "
        "parameter_term_pairs parameters polynomial repetitions simple_terms "
        "single_parameter_point_selection term_type use_measure use_median values"
    ),
    "extrap-json": "measurements parameters values",
    "extrap-json-old": (
        "callpath_id callpaths coordinate_id coordinates measurements metric_id metrics parameter_id "
        "parameter_value parameter_value_pairs parameters"
    ),
    "extrap-jsonl": "params",
    "extrap-talpas": "callpath parameters",
    "extrap-text": "PARAMETER POINTS",
    "folded": "",
    "hpcrun": (
        "GPUCONTEXT HPCRUN HPCRUNsm NoActvty Primary Thread disorder hpcrun hpctrace profile____04 program "
        "trace______01"
    ),
    "hpctoolkit-prerelease": (
        "FileTable GPUCONTEXT HPCPROF HPCToolkitExperiment Header Identifier IdentifierNameTable LoadModule "
        "LoadModuleTable MetricDB MetricDBTable MetricFormula MetricTable PARTIAL Procedure ProcedureTable "
        "SecCallPathProfile SecCallPathProfileData SecHeader TraceDB TraceDBTable activity cctdb___ combine "
        "derived exclusive experiment inclusive module partner percent procedure profdb__ program rtfBDTCC "
        "tfBDFORP tracedb_ version"
    ),
    "hpctoolkit-release": (
        "CPUTIMEx20_x28_secx29_ GPUCONTEXT HPCTOOLKITctxt HPCTOOLKITmeta HPCTOOLKITprof HPCTOOLKITtrce "
        "application combine custom default description exclusive execution formula inclusive inputs "
        "lex_aware metrics number percent procedure render standard variants version x5b_0x0x5d_"
    ),
    "hpctrace": "HPCRUN trace______01",
    "otf2": "traces written",
    "perfetto": "",
    "rocpd": "Linux schema_version unknown thread",
}
# Words of our own tables: kinds of contexts and places, what places without a name are called, what is left out.
TABLES_HAVE = (
    "aggregate all call counters elided entry events gpu instruction lexical line machine no node of placeholder"
    " process profile profiles rank stream summary thread CONTEXT CPU GPU GPUDEVICE GPUSTREAM NODE RANK SUMMARY THREAD"
)
PLAIN = re.compile(
    rf"{KEPT_NAMES}|<elided \d+>|kernel_\d+|smsp__\w+"
)  # what stays, counters of GPUs, one of our names that an input has too
WORDS = re.compile(rf"{CATEGORIES.pattern}|{ROLE.pattern}", re.IGNORECASE)


def is_allowed(text: str, target: str) -> bool:
    """Tell whether a word, a name, a path of names or a place consists of what may stay."""
    return all(PLAIN.fullmatch(one) or WORDS.fullmatch(one) or _consists(one, target) for one in text.split("->"))


def _consists(text: str, target: str) -> bool:
    known = {*TABLES_HAVE.split(), *FORMATS[target].split()}
    return all(not word or word in known or bool(NUMBER.fullmatch(word)) for word in re.split("[ /]", text))


def names_of_metrics(opened: Experiment | Study) -> str:
    return " ".join(opened.metrics if isinstance(opened, Study) else [row.name for row in opened.metrics.rows])


def texts_in(opened: Experiment | Study) -> set[str]:
    """Every text of every table and beside every span, also in lists."""
    texts: set[str] = set()
    for name in TABLES if isinstance(opened, Experiment) else ("series",):
        if name != "metrics" and (name != "series" or isinstance(opened, Study)):
            for chunk in export(opened, name):
                for column in chunk.names:
                    texts.update(flat(chunk.column(column).plain()))
    if isinstance(opened, Experiment):
        texts.update(opened.system.name, opened.contexts.regions.strings, opened.contexts.regions.files.paths)
        texts.update(opened.contexts.regions.modules, opened.profiles.name)
        for read in opened.traces.tables.values():
            for one in read().columns:
                texts.update(flat(one.plain()))
    return texts


def flat(cells: Any) -> Iterator[str]:
    """Yield the texts of cells, of lists in cells, and of dictionaries there."""
    for cell in cells:
        if isinstance(cell, str):
            yield cell
        elif isinstance(cell, dict):
            yield from flat([*cell, *cell.values()])
        elif isinstance(cell, list | tuple):
            yield from flat(cell)


def unpack(path: Path, folder: Path) -> Path:
    if path.suffix != ".xz":
        return path
    out = folder / path.stem
    out.write_bytes(lzma.decompress(path.read_bytes()))
    return out


def words_left(path: Path, name: str, target: str, folder: Path, original: Path | None = None) -> set[str]:
    """Return what of an input is in what is made of it, and is not on the list; words are those of the original."""
    out = folder / "written"
    code, _, text = run("anonymize", str(path), str(out), "--from", name, "--to", target)
    assert code == 0, text
    before, after = open_path(path, from_format=name), open_path(out, from_format=target)
    words = {word.decode() for word in set(WORD.findall(contents(original or path))) & set(WORD.findall(contents(out)))}
    texts = {text for text in texts_in(before) & texts_in(after) if re.search("[A-Za-z]", text)}
    metrics = names_of_metrics(before)
    return {one for one in words | texts if one not in metrics and not is_allowed(one, target)}


@pytest.mark.parametrize("own", [False, True], ids=["callgrove", "own"])
@pytest.mark.parametrize(("name", "file"), SAMPLES)
def test_no_text_of_a_sample_is_left(name: str, file: str, own: bool, shared: Path, tmp_path: Path) -> None:
    target = "callgrove"
    if own:
        target = name if entry_of(name).writes else NATIVE[name]
    left = words_left(unpack(shared / "data" / file, tmp_path), name, target, tmp_path)
    assert left == set()


@pytest.mark.parametrize("file", [QUICK["cube"][0], QUICK["chrome-json"][1], QUICK["extrap-json"][0]])
def test_no_text_of_a_sample_is_left_of_our_own_folder(file: str, shared: Path, tmp_path: Path) -> None:
    code, _, text = run("convert", str(shared / "data" / file), str(tmp_path / "in.cgrove"))
    assert code == 0, text
    assert words_left(tmp_path / "in.cgrove", "callgrove", "callgrove", tmp_path, shared / "data" / file) == set()


# For formats that are only read: one that is written.
NATIVE = {
    "caliper": "cube",
    "extrap-binary3": "extrap-experiment",
    "hpcstruct": "hpctoolkit-release",
    "hpctoolkit-legacy": "hpctoolkit-release",
    "nsight": "rocpd",
    "perf-script": "folded",
    "runs": "extrap-text",
    "tau": "cube",
}
