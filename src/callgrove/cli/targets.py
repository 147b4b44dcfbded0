"""What is to be written is looked at before anything is read: reading may take long, and inputs are never modified.

refuse_outputs  -o FILE of every verb (tables, texts, pages) and --plot FILE, before the verb runs
refuse_target   OUT of verbs that write an experiment

FILE shows what an input holds and can be made again at any time, so it is replaced, when it is complete. OUT may be all
that there is of an experiment, so it is replaced only with --force.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from callgrove.cli.options import FileOutput, PathOptions
from callgrove.errors import UsageError

__all__ = ["really", "refuse_outputs", "refuse_target"]

STDOUT = "-"


def refuse_outputs(options: object) -> None:
    """FILE must not be an input or a file in one, and its folder has to be there."""
    files = options.files if isinstance(options, FileOutput) else {}
    inputs = options.inputs if isinstance(options, PathOptions) else []
    for option, file in files.items():
        if file == "":
            raise UsageError(f"{option} needs the name of a file")
        if file is not None:
            _refuse_file(Path(file), inputs)


def _refuse_file(path: Path, inputs: Sequence[str]) -> None:
    if path.is_dir():
        raise UsageError(f"{path}: is a folder, and a file is to be written; choose another name")
    where = really(path)
    if path.exists() and any(where.is_relative_to(source) for source in _sources(inputs)):
        raise UsageError(f"{path}: is an input or a part of one, which is never modified; name another FILE")
    _refuse_folder(path)


def refuse_target(target: str, inputs: Iterable[str], names: Sequence[str] = (), *, overwrite: bool) -> None:
    """OUT must not be an input, a part of one or a folder around one; what is there already is replaced only if that
    was asked for, and if it is of the same kind. `names` are the formats it may be written in, as far as that is known
    yet."""
    from callgrove.formats.registry import entry_of
    from callgrove.formats.writing.targets import refuse_existing

    if target == STDOUT:
        return
    path = Path(target)
    where, sources = really(path), _sources(inputs)
    fills = bool(names) and all(entry_of(name).adds_to_folder for name in names)
    if any(where.is_relative_to(source) for source in sources):
        raise UsageError(f"{target}: is the input itself or a part of it, which is never modified; name another OUT")
    if fills and path.is_dir():
        return
    if any(source.is_relative_to(where) for source in sources):
        raise UsageError(f"{target}: holds the input, which is never modified; name another OUT")
    if not fills:
        refuse_existing(path, overwrite)
        if path.exists():
            _refuse_kind(path, names)
    _refuse_folder(path)


def _refuse_kind(path: Path, names: Sequence[str]) -> None:
    """A folder is never replaced by a file, nor a file by a folder."""
    from callgrove.formats.interface import ChoosesTargets
    from callgrove.formats.registry import load
    from callgrove.formats.writing.targets import refuse_folder

    for format_ in map(load, names):
        if isinstance(format_, ChoosesTargets):
            format_.refuse_target(path)
        else:
            refuse_folder(path)


def really(path: str | Path) -> Path:
    """Where a path leads to in the end. Links that lead nowhere are no error here: whoever opens them says so."""
    return Path(os.path.realpath(path))


def _refuse_folder(path: Path) -> None:
    folder = really(path).parent
    if not folder.is_dir():
        raise UsageError(f"{path}: cannot be written: there is no folder {path.parent}; make it first")
    if not os.access(folder, os.W_OK | os.X_OK) and not path.exists():
        raise UsageError(f"{path}: cannot be written: no files can be created in the folder {path.parent}")


def _sources(inputs: Iterable[str]) -> list[Path]:
    """Inputs that are there; a query is among the paths of `sql`."""
    return [really(path) for path in inputs if os.path.lexists(path)]
