"""Structure files: every address of every real one is looked up as a naive reading of the XML does it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from callgrove.binary.files import Source
from callgrove.errors import CorruptFile, NotRecognised, RefusedInput, UnsupportedVersion
from callgrove.formats.hpcrun.hpcstruct import FORMAT, ScopeKind, Structure, read_structure, without_overlaps
from callgrove.formats.interface import ReadOptions
from callgrove.formats.registry import open_path
from callgrove.model.contexts import ContextKind, Relation
from callgrove.model.experiment import Experiment
from tests.exhaustive import exhaustive
from tests.formats.damage import Case, answers, chance, survives, wrong_attributes
from tests.formats.samples import CORPUS

MADE_UP = CORPUS / "hpcstruct" / "made-up.hpcstruct"
Scope = tuple[str, str, str, int]  # kind, name, file, line
START = '<?xml version="1.0"?><HPCToolkitStructure version="4.9"><LM n="a.out">'
END = "</LM></HPCToolkitStructure>"


def written(path: Path, body: str) -> Path:
    path.write_text(START + body + END)
    return path


# -- a naive reading ------------------------------------------------------------------------------------------------


def statements(
    tag: ElementTree.Element, chain: tuple[Scope, ...] = (), file: str = ""
) -> Iterator[tuple[str, tuple[Scope, ...]]]:
    """(ranges, scopes from the procedure down) of every S and C, in the order of the file."""
    for child in tag:
        get = child.attrib.get
        line = int(get("l", "0").partition("-")[0])
        inner = get("f", file)
        if child.tag in ("LM", "F"):
            yield from statements(child, (), get("n", "") if child.tag == "F" else "")
            continue
        if child.tag == "A":
            kind = "inlined" if chain and chain[-1][0] == "call site" else "call site"
        else:
            kind = {"P": "procedure", "L": "loop", "S": "statement", "C": "call"}[child.tag]
        here = (*chain, (kind, get("n", "") if kind in ("procedure", "inlined") else "", inner, line))
        if child.tag in "SC":
            yield get("v", ""), here
        yield from statements(child, here, inner)


def painted(
    module: ElementTree.Element,
) -> tuple[int, np.ndarray[tuple[int], np.dtype[np.int64]], list[tuple[Scope, ...]]]:
    """The lowest address, the statement that owns each address from there on, and the chains of the statements."""
    chains: list[tuple[Scope, ...]] = []
    ranges: list[tuple[int, int, int]] = []
    for text, chain in statements(module):
        for part in text.strip("{}").split():
            lo, hi = (int(number, 16) for number in part.strip("[)").split("-"))
            ranges.append((lo, hi, len(chains)))
        chains.append(chain)
    base = min((lo for lo, _, _ in ranges), default=0)
    owner = np.full(max((hi for _, hi, _ in ranges), default=0) - base + 2, -1)
    for lo, hi, number in ranges:
        if (owner[lo - base : hi - base] == -1).all():
            owner[lo - base : hi - base] = number
    return base, owner, chains


def described(structure: Structure, scopes: list[int]) -> tuple[Scope, ...]:
    s = structure.scopes
    return tuple(
        (
            ScopeKind(int(s.kind[k])).name.lower().replace("_", " "),
            structure.text(int(s.name[k])),
            structure.text(int(s.file[k])),
            int(s.line[k]),
        )
        for k in scopes
    )


def compare(path: Path) -> int:
    """Every address of every module, looked up both ways; gives the number of addresses."""
    structure, n = read_structure(path), 0
    for number, module in enumerate(ElementTree.parse(path).getroot()):
        base, owner, wanted = painted(module)
        addresses = np.arange(len(owner), dtype=np.uint64) + np.uint64(base)
        found = structure.lookup(number, addresses)
        assert np.array_equal(found >= 0, owner >= 0)
        pairs = {(int(f), int(w)) for f, w in zip(found[found >= 0], owner[owner >= 0], strict=True)}
        assert len(pairs) == len({f for f, _ in pairs}) == len({w for _, w in pairs})
        scopes = [f for f, _ in pairs]
        chains = structure.chains(np.array(scopes, np.int32))
        for k, (_, w) in enumerate(pairs):
            assert described(structure, chains.scope[chains.bounds[k] : chains.bounds[k + 1]].tolist()) == wanted[w]
        n += len(owner)
    return n


@exhaustive
def test_every_address_of_real_structures(shared: Path) -> None:
    paths = sorted((shared / "data").rglob("*.hpcstruct"))
    assert len(paths) >= 13
    assert sum(compare(path) for path in paths) > 1_000_000


def test_every_address_of_the_corpus() -> None:
    assert compare(MADE_UP) > 0


# -- what single tags mean -------------------------------------------------------------------------------------------


def chain_of(structure: Structure, module: int, address: int) -> tuple[Scope, ...]:
    chains = structure.chains(structure.lookup(module, np.array([address], np.uint64)))
    return described(structure, chains.scope.tolist())


def test_inlined_functions_and_their_files() -> None:
    found = chain_of(read_structure(MADE_UP), 0, 0x1031)
    assert found == (
        ("procedure", "solve(double*)", "/opt/app/stencil.c", 120),
        ("loop", "", "/opt/app/kernels.h", 123),
        ("call site", "", "/opt/app/kernels.h", 124),
        ("inlined", "axpy", "/opt/app/blas.h", 7),
        ("call site", "", "/opt/app/blas.h", 9),
        ("inlined", "fma", "/opt/app/simd.h", 70),
        ("statement", "", "/opt/app/simd.h", 71),
    )


def test_a_later_overlapping_range_goes_and_the_tag_s_others_stay() -> None:
    structure = read_structure(MADE_UP)
    assert chain_of(structure, 0, 0x1045)[-1][3] == 71  # not 42, whose second range overlaps
    assert chain_of(structure, 0, 0x1056)[-1][3] == 42
    assert chain_of(structure, 0, 0x1065)[-1][3] == 42
    assert structure.problems == ("1 ranges overlap earlier ones and are left out",)


def test_gaps_and_edges() -> None:
    structure = read_structure(MADE_UP)
    asked = np.array([0, 0xFFF, 0x1000, 0x100F, 0x1070, 0x108F, 0x1090, 0x113F, 0x1140, 2**64 - 1], np.uint64)
    assert (structure.lookup(0, asked) >= 0).tolist() == [0, 0, 1, 1, 0, 0, 1, 1, 0, 0]
    assert structure.lookup(0, np.empty(0, np.uint64)).tolist() == []
    assert structure.chains(np.array([-1, -1])).bounds.tolist() == [0, 0, 0]


def test_modules_entries_and_calls() -> None:
    structure = read_structure(MADE_UP)
    s = structure.scopes
    assert structure.modules.path == ("/opt/app/stencil", "gpubins/0123.gpubin")
    assert structure.modules.has_calls == (False, True)
    assert (structure.module("gpubins/0123.gpubin"), structure.module("other")) == (1, -1)
    (call,) = structure.calls(1).tolist()
    assert structure.text(int(s.device[call])) == "NVIDIA sm_80"
    assert int(s.address[call]) == 0xFFFFFFFF80000000
    caller, callee = int(s.procedure[call]), structure.entries[1, int(s.target[call])]
    assert [structure.text(int(s.name[p])) for p in (caller, callee)] == ["kernel", "device_function"]
    nested = structure.entries[0, 0x1100]
    assert structure.text(int(s.name[s.parent[nested]])) == "solve(double*)"
    assert int(s.procedure[nested]) == nested


def test_the_experiment_is_the_tree_of_the_code() -> None:
    experiment = open_path(MADE_UP)
    assert isinstance(experiment, Experiment)
    tree = experiment.contexts
    assert (len(experiment.profiles), len(experiment.metrics)) == (0, 0)
    by_id = {int(i): c for c, i in enumerate(tree.source_id)}
    fma = by_id[12]
    assert (tree.kind[fma], tree.relation[fma]) == (ContextKind.INLINED, Relation.INLINED)
    assert tree.path(fma).split("->") == [
        "solve(double*)",
        "loop at /opt/app/kernels.h:123",
        "/opt/app/kernels.h:124",
        "axpy",
        "/opt/app/blas.h:9",
        "fma",
    ]
    assert tree.kind[by_id[15]] == ContextKind.CALL
    assert tree.regions.details[int(tree.region[by_id[15]])] == {"target": "0x2000"}
    assert tree.regions.details[int(tree.region[by_id[4]])] == {"mangled name": "_Z5solvePd"}


def test_dump_gives_every_attribute_where_its_tag_lies() -> None:
    data = MADE_UP.read_bytes()
    found = list(FORMAT.dump(Source.of(MADE_UP)))
    assert len(found) == sum(len(tag.attrib) for tag in ElementTree.parse(MADE_UP).iter())
    for field in found:
        assert data[field.offset :].startswith(f"<{field.section} ".encode())
        tag = data[field.offset : data.index(b">", field.offset)].decode()
        assert f'{field.name}="{field.value}' in tag.replace("&gt;", ">")


def test_check_names_what_contradicts_itself(tmp_path: Path) -> None:
    path = written(
        tmp_path / "s",
        '<P n="a" v="{[0x1-0x2)}"/><P n="b" v="{[0x1-0x2)}"/><P n="c"/><Z/><Z/>'
        '<P n="d" v="{[0x9-0xa)}"><C l="1" t="0x77" v="{[0x9-0xa)}"/><S l="2" v="{[0x20-0x10)}"/></P>',
    )
    problems = list(FORMAT.check(Source.of(path), ReadOptions()))
    assert {p.severity.value for p in problems} == {"note"}
    assert sorted(p.text for p in problems) == [
        "1 call leads to addresses where no procedure begins",
        "1 procedures begin at the address of an earlier one",
        "1 procedures have no address",
        "1 ranges are empty or end before they begin",
        "2 tags <Z> are not known",
    ]


@pytest.mark.parametrize(
    ("text", "error", "words"),
    [
        ("<HPCToolkitExperiment version='4.9'/>", NotRecognised, "root is <HPCToolkitExperiment>"),
        ("<HPCToolkitStructure version='5.0'/>", UnsupportedVersion, "'5.0'"),
        ("<HPCToolkitStructure/>", UnsupportedVersion, "''"),
        (START + '\n<P l="x"/>' + END, CorruptFile, "at line 2: expected a line number, found 'x'"),
        (START + '<S v="{[0x10-20)}"/>' + END, CorruptFile, "ranges like"),
        (START + f'<S v="{{[0x{"f" * 17}-0x20)}}"/>' + END, CorruptFile, "ranges like"),
        (START + '<C t="12"/>' + END, CorruptFile, "hexadecimal"),
        ('<HPCToolkitStructure version="4.9"><P/></HPCToolkitStructure>', CorruptFile, "<LM>"),
        (START + "<P>", CorruptFile, "well-formed"),
        ("", CorruptFile, "well-formed"),
        ('<!DOCTYPE a [<!ENTITY b "c">]>' + START + END, RefusedInput, "entities"),
    ],
)
def test_bad_files_are_refused_in_one_sentence(tmp_path: Path, text: str, error: type[Exception], words: str) -> None:
    path = tmp_path / "s"
    path.write_text(text)
    with pytest.raises(error) as raised:
        read_structure(path)
    assert words in str(raised.value)
    assert "\n" not in str(raised.value)


def test_what_comes_before_a_break_can_be_saved(tmp_path: Path) -> None:
    path = tmp_path / "s"
    path.write_bytes(MADE_UP.read_bytes()[:1300])
    with pytest.raises(CorruptFile):
        open_path(path)
    found = open_path(path, options=ReadOptions(salvage=True))
    assert isinstance(found, Experiment)
    assert len(found.contexts) > 5
    assert len(found.damage) == 1


def test_lines_beyond_any_text_are_unknown(tmp_path: Path) -> None:
    structure = read_structure(written(tmp_path / "s", f'<P l="{"9" * 30}"/><P l="7-9"/><P/>'))
    assert structure.scopes.line.tolist() == [0, 7, 0]


def test_very_deep_nesting(tmp_path: Path) -> None:
    n = 30_000
    path = written(tmp_path / "s", "<P>" + "<L>" * n + '<S l="3" v="{[0x1-0x2)}"/>' + "</L>" * n + "</P>")
    structure = read_structure(path)
    chains = structure.chains(structure.lookup(0, np.array([1])))
    assert chains.scope.tolist() == list(range(n + 2))
    assert len(open_path(path).contexts) == n + 2  # type: ignore[union-attr]


def test_damaged_structures_are_survived(tmp_path: Path) -> None:
    data, rng = MADE_UP.read_bytes(), chance("hpcstruct")
    cases = wrong_attributes(MADE_UP, 60)
    cases += [Case(f"cut at {at}", data[:at]) for at in range(0, len(data), 97)]
    for k in range(30):
        broken = bytearray(data)
        broken[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        cases.append(Case(f"flip {k}", bytes(broken)))
    for number, case in enumerate(cases):
        damaged = tmp_path / str(number)
        damaged.write_bytes(case.data)
        survives(damaged, case.label)
        survives(damaged, case.label, salvage=True)
        if number % 20 == 0:
            answers(damaged, case.label, ("check",), ("info",))


# -- ranges ----------------------------------------------------------------------------------------------------------


@given(st.lists(st.tuples(st.integers(0, 60), st.integers(1, 8)), max_size=60), st.integers(1, 70))
def test_the_first_of_overlapping_ranges_wins(ranges: list[tuple[int, int]], batch: int) -> None:
    lo = np.array([first for first, _ in ranges], np.uint64)
    hi = lo + np.array([size for _, size in ranges], np.uint64)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("callgrove.formats.hpcrun.hpcstruct.RANGES_AT_ONCE", batch)
        found = without_overlaps(lo, hi)
    taken: set[int] = set()
    wanted = []
    for number, (first, size) in enumerate(ranges):
        places = set(range(first, first + size))
        if not places & taken:
            taken |= places
            wanted.append(number)
    assert sorted(found.tolist()) == wanted
    assert lo[found].tolist() == sorted(lo[found].tolist())


def test_many_ranges_below_a_large_one() -> None:
    n = 200_000
    lo = np.append(np.random.default_rng(1).permutation(n).astype(np.uint64) * np.uint64(4), np.uint64(0))
    hi = np.append(lo[:-1] + np.uint64(4), np.uint64(4 * n))
    assert without_overlaps(lo, hi).tolist() == np.argsort(lo[:-1], kind="stable").tolist()
