"""Where names come from beside structure files, and which paths mean which files."""

from __future__ import annotations

import lzma
import os
import struct
from pathlib import Path

import pytest

from callgrove.errors import UsageError
from callgrove.model.experiment import Experiment
from callgrove.prof.experiment import Attribution
from callgrove.prof.survey import Inputs, PathRule, default_target
from tests.formats.hpcrun.hpcrun_bytes import File04, text
from tests.prof.making import MAIN, experiment_of, measured, nodes, structure

KERNEL = "kernel_symbols/vmlinux.7f"
SYMBOLS = """ffffffff81000000 T startup_64
ffffffff81000100 d some_data
ffffffff81000200 t do_syscall
ffffffffc0000000 t probe [nfs]
"""


def names(experiment: Experiment) -> list[str]:
    return [experiment.contexts.name(c) for c in range(experiment.contexts.n_listed)]


@pytest.mark.parametrize("compressed", [False, True])
def test_kernel_symbols(compressed: bool, tmp_path: Path) -> None:
    folder = tmp_path / "kernel_symbols"
    folder.mkdir()
    (folder / "vmlinux.7f").write_bytes(lzma.compress(SYMBOLS.encode()) if compressed else SYMBOLS.encode())
    addresses = (0xFFFFFFFF80FFFFFF, 0xFFFFFFFF81000150, 0xFFFFFFFF81000200, 0xFFFFFFFFC0000010)
    tree = nodes((14, 12, 0, MAIN, 1), *((16 + 2 * k, 14, 1, a, 1) for k, a in enumerate(addresses)))
    measured(tmp_path, File04(tree, modules=((1, KERNEL),), values=()))
    assert sorted(names(experiment_of(tmp_path))) == [
        "do_syscall [vmlinux]",
        f"{KERNEL}+0xffffffff80ffffff",
        "main thread",
        "probe [nfs] [vmlinux]",
        "startup_64 [vmlinux]",
    ]


@pytest.mark.parametrize("content", [b"zzz T broken\n", b"\xfd7zXZ\x00 no xz"])
def test_broken_kernel_symbols_are_said(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "kernel_symbols").mkdir()
    (tmp_path / KERNEL).write_bytes(content)
    tree = nodes((14, 12, 0, MAIN, 1), (16, 14, 1, 0x10, 1))
    measured(tmp_path, File04(tree, modules=((1, KERNEL),), values=()))
    made = experiment_of(tmp_path)
    assert names(made) == ["main thread", f"{KERNEL}+0x10"]
    assert any("vmlinux.7f: symbols" in w.text for w in made.warnings)


def test_logical_files(tmp_path: Path) -> None:
    stanza = struct.pack(">I", 7) + text("solve") + b"\0" + text("/src/app.py") + struct.pack(">I", 3)
    (tmp_path / "HPCLOGICAL.python").write_bytes(stanza)
    addresses = (7 << 32 | 12, 7 << 32, 9 << 32 | 1)
    tree = nodes((14, 12, 0, MAIN, 1), *((16 + 2 * k, 14, 1, a, 1) for k, a in enumerate(addresses)))
    measured(tmp_path, File04(tree, modules=((1, "HPCLOGICAL.python"),), values=()))
    assert names(experiment_of(tmp_path)) == ["main thread", "solve", "/src/app.py:12", "<unknown function>"]


@pytest.mark.parametrize(
    ("rule", "path", "moved"),
    [
        ("/old=/new", "/old/a.c", "/new/a.c"),
        ("/old/=/new/", "/old/a.c", "/new/a.c"),
        ("/old=/new", "/older/a.c", None),
        ("/home/*/src=/src", "/home/me/src/a.c", "/src/a.c"),
        ("/home/*/src=/src", "/home/me/too/src/a.c", None),
        (r"/a\=b=/c", "/a=b/x", "/c/x"),
    ],
)
def test_path_rules(rule: str, path: str, moved: str | None) -> None:
    assert PathRule.parse(rule).apply(path) == moved


@pytest.mark.parametrize("rule", ["/old", "=/new", "/a=/b=/c"])
def test_rules_that_are_none(rule: str) -> None:
    with pytest.raises(UsageError, match="FROM=TO"):
        PathRule.parse(rule)


def test_files_are_found_where_they_lie_now(tmp_path: Path) -> None:
    folder, outside = tmp_path / "m", tmp_path / "lib.so"
    measured(folder, File04())
    (folder / "gpubins").mkdir()
    (folder / "gpubins" / "a.gpubin").touch()
    (folder / "original-path").write_text("/first/place/m\n")
    outside.touch()
    here = Inputs((folder,))
    assert here.locate("gpubins/a.gpubin") == folder / "gpubins" / "a.gpubin"
    assert here.locate("/first/place/m/gpubins/a.gpubin") == folder / "gpubins" / "a.gpubin"
    assert here.locate(str(outside)) == outside
    assert here.locate("/there/is/none") is None
    moved = Inputs((folder,), (PathRule.parse(f"/there={tmp_path}"),))
    assert moved.locate("/there/lib.so") == outside
    foreign = Inputs((folder,), is_foreign=True)
    assert foreign.locate(str(outside)) is None
    assert foreign.locate("../lib.so") is None
    assert foreign.locate("/first/place/m/gpubins/a.gpubin") is not None


@pytest.mark.parametrize("device", ["pipe", "/dev/zero"])
def test_only_a_file_says_where_a_directory_lay_first(device: str, tmp_path: Path) -> None:
    """A pipe would be waited for, and a device never ends."""
    measured(tmp_path, File04())
    if device == "pipe":
        os.mkfifo(tmp_path / "original-path")
    else:
        (tmp_path / "original-path").symlink_to(device)
    assert Inputs((tmp_path,)).candidates("/first/place/a") == ["/first/place/a"]


def test_structure_of_a_module_that_has_moved(tmp_path: Path) -> None:
    body = '<LM i="2" n="/first/place/gpubins/a.gpubin" has-calls="0" v="{}"><F i="3" n="k.cu">'
    body += '<P i="4" n="kernel" l="5" v="{[0x0-0x1)}"><S i="5" l="6" v="{[0x0-0x40)}"/></P></F></LM>'
    (tmp_path / "original-path").write_text("/first/place")
    structure(tmp_path, "a", body)
    tree = nodes((14, 12, 0, MAIN, 1), (16, 14, 1, 0x10, 1))
    measured(tmp_path, File04(tree, modules=((1, "gpubins/a.gpubin"),), values=()))
    assert names(experiment_of(tmp_path)) == ["main thread", "kernel", "k.cu:6"]


def measure_source(folder: Path, source: Path, program: str = "/bin/app") -> None:
    """Write a measurement whose structure file says that the program was made of a source."""
    body = f'<LM i="2" n="/bin/app" has-calls="0" v="{{}}"><F i="3" n="{source}">'
    body += '<P i="4" n="main" l="1" v="{[0x0-0x1)}"><S i="5" l="2" v="{[0x0-0x40)}"/></P></F></LM>'
    structure(folder, "app", body)
    tree = nodes((14, 12, 0, MAIN, 1), (16, 14, 1, 0x10, 1))
    header = (("program-name", "app"), ("program-path", program), ("mpi-rank", "0"))
    measured(folder, File04(tree, values=(), header=header))


def prepare(folder: Path, source_dirs: tuple[Path, ...] = (), rules: tuple[PathRule, ...] = ()) -> Experiment:
    """Return the experiment of a measurement whose sources and binaries may lie anywhere."""
    return experiment_of(attribution=Attribution(source_dirs=source_dirs), inputs=Inputs((folder,), rules))


@pytest.mark.parametrize(
    ("place", "program", "folder", "rule", "is_copied"),
    [
        ("m/app.c", "", "", "", True),
        ("elsewhere/secret.txt", "", "", "", False),
        ("elsewhere/secret.txt", "", "elsewhere", "", True),
        ("elsewhere/secret.txt", "", "", "elsewhere", True),
        ("build/src/app.c", "build/app", "", "", True),
        ("build/.git/config", "build/app", "", "", False),
        ("secret.txt", "build/app", "", "", False),
        ("settings/key", "settings/config", "", "", False),  # the program that a measurement names must be one
        (".hidden/key", ".hidden/app", "", "", False),
    ],
)
def test_sources_are_copied_from_folders_that_the_user_means(
    place: str, program: str, folder: str, rule: str, is_copied: bool, tmp_path: Path
) -> None:
    source = tmp_path / place
    for path in (source, tmp_path / program):
        path.parent.mkdir(parents=True, exist_ok=True)
    if program:
        (tmp_path / program).write_bytes(b"Host *" if program.endswith("config") else b"\x7fELF")
    measure_source(tmp_path / "m", source, str(tmp_path / program) if program else "/bin/app")
    source.write_text("text\n")
    rules = (PathRule.parse(f"/nowhere={tmp_path / rule}"),) if rule else ()
    made = prepare(tmp_path / "m", (tmp_path / folder,) if folder else (), rules)
    assert bool(made.sources.copies) == is_copied
    said = [str(warning.text) for warning in made.warnings if "source file lies" in str(warning.text)]
    assert len(said) == (not is_copied)
    assert all(str(source) in text for text in said)


def test_a_link_does_not_lead_out_of_such_a_folder(tmp_path: Path) -> None:
    (tmp_path / "secret.txt").write_text("secret\n")
    measure_source(tmp_path / "m", tmp_path / "m" / "app.c")
    (tmp_path / "m" / "app.c").symlink_to(tmp_path / "secret.txt")
    assert not prepare(tmp_path / "m").sources.copies


def test_sources_go_with_the_experiment(tmp_path: Path) -> None:
    source = tmp_path / "m" / "app.c"
    body = f'<LM i="2" n="/bin/app" has-calls="0" v="{{}}"><F i="3" n="{source}">'
    body += '<P i="4" n="main" l="1" v="{[0x0-0x1)}"><S i="5" l="2" v="{[0x0-0x40)}"/></P></F></LM>'
    structure(tmp_path / "m", "app", body)
    measured(tmp_path / "m", File04(nodes((14, 12, 0, MAIN, 1), (16, 14, 1, 0x10, 1)), values=()))
    source.write_text("int main() {\n}\n")
    made = experiment_of(tmp_path / "m")
    [file] = made.sources.copies
    assert made.sources.lines(file) == ["int main() {", "}"]
    assert not len(experiment_of(tmp_path / "m", attribution=Attribution(copies_sources=False)).sources)


@pytest.mark.parametrize(
    ("folder", "target"),
    [
        ("a/hpctoolkit-app-measurements", "hpctoolkit-app-database"),
        ("/scratch/hpctoolkit-app-measurements/", "hpctoolkit-app-database"),
        ("a/..", f"{Path.cwd().name}-database"),
        ("hpctoolkit-app-measurements-17", "hpctoolkit-app-database-17"),
        ("run.m", "run.m-database"),
    ],
)
def test_names_of_databases(folder: str, target: str) -> None:
    """They lie in the current folder, as those of hpcprof do."""
    assert default_target(Path(folder)) == Path(target)
