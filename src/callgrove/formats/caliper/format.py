"""The format `caliper`: a .cali file, a JSON-split, several of them, or a folder with any number of them.

Files of a folder are opened one after the other, so that thousands need no more memory than their numbers. Those that
are not files of Caliper are left alone; one that is broken is damage, and the others are read.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from callgrove.binary.files import Source, open_regular
from callgrove.errors import InputError
from callgrove.formats.caliper.cali import CaliReader, Dialect, fields_of
from callgrove.formats.caliper.experiment import CaliperExperiment
from callgrove.formats.caliper.json_split import KEYS, read_json_split
from callgrove.formats.caliper.records import Records
from callgrove.formats.interface import Field, Grade, Match, ReadOptions
from callgrove.formats.text_profiles import CheckedByReading, cut_blocks, text_blocks
from callgrove.model.builder import ExperimentBuilder
from callgrove.model.experiment import Experiment, Severity

__all__ = ["FORMAT", "read_file"]

RECORD = b"__rec="
HEAD = 16 << 10  # bytes of JSON in which the keys stand, or the first of them and numbers
LOOKED_AT = 64  # files of a folder that are tried for a match
DEPTH = 3  # levels of folders that are searched
ENDINGS = (".cali", ".json")


def is_json_split(head: bytes) -> bool:
    """Return whether JSON begins as cali-query writes it: with rows of numbers, or with all four keys."""
    text = head.lstrip()
    if text[:1] != b"{":
        return False
    return all(b'"%s"' % key.encode() in text for key in KEYS) or _begins_with_rows(text)


def _begins_with_rows(text: bytes) -> bool:
    compact = b"".join(text[:512].split())
    return compact.startswith(b'{"data":[[') and compact[10:11] in b"-0123456789n" and b'"ph"' not in text


class CaliperFormat(CheckedByReading):
    """Reads, checks and prints what Caliper writes."""

    name = "caliper"
    title = "Caliper records (.cali), or JSON-split of cali-query; also folders of them"

    def match(self, source: Source) -> Match | None:
        if source.is_folder:
            files = islice(_walk(source.path), LOOKED_AT)
            if any(_is_caliper(source, file) for file in files if file.name.endswith(ENDINGS)):
                return Match(Grade.STRONG, "files of Caliper lie in it")
            return None
        if source.head(len(RECORD)) == RECORD:
            return Match(Grade.EXACT, "it begins with __rec=")
        if source.head(1) in (b"{", b"\n", b" ") and is_json_split(source.head(HEAD)):
            return Match(Grade.STRONG, "an object with data, columns, column_metadata and nodes")
        return None

    def read(self, source: Source, options: ReadOptions) -> Experiment:
        """Return an experiment with a run for each file."""
        builder = ExperimentBuilder(self.name, title=source.name, path=str(source.path))
        made, dialect, n_read = CaliperExperiment(builder), Dialect(), 0
        files = _files_of(source)
        for number, file in enumerate(files):
            options.progress("reading files", number, len(files))
            try:
                records = read_file(file, dialect)
            except InputError as error:
                if options.strict or len(files) == 1:
                    raise
                builder.warn(Severity.DAMAGE, f"a file was left out: {error}")
                continue
            n_read += 1
            records.left_out.report(builder, file)
            made.add(records, file)
            if number == 0 and (version := records.globals.get("cali.caliper.version")):
                builder.version = version.value
        if not n_read:
            raise InputError(f"{source.path}: none of its {len(files)} files can be read")
        made.finish()
        made.left_out.report(builder, source.path)
        return builder.build()

    def dump(self, source: Source) -> Iterator[Field]:
        """Yield the fields of every line; of JSON, every row and node."""
        for file in _files_of(source):
            with open_regular(file) as opened:
                is_text = opened.read(len(RECORD)) == RECORD
            if is_text:
                index, last = -1, -1
                for block in text_blocks(file):
                    for at, name, text in fields_of(block):
                        index += at != last
                        last = at
                        yield Field(file.name, "records", index, at, name, text)
            else:
                yield from _dump_json(file)


FORMAT = CaliperFormat()


def _dump_json(file: Path) -> Iterator[Field]:
    records = read_file(file)
    for number, value in enumerate(records.paths.value):
        yield Field(file.name, "nodes", number, -1, "label", value)
        yield Field(file.name, "nodes", number, -1, "parent", records.paths.parent[number])
    for table in records.tables:
        for name, column in table.columns.items():
            for index, value in enumerate(column.tolist()):
                yield Field(file.name, "data", index, -1, name, value)


def _walk(folder: Path, depth: int = DEPTH) -> Iterator[Path]:
    """Yield the files below a folder in the order of their names, those of a folder before those of inner ones."""
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
        folders = [entry.path for entry in entries if entry.is_dir() and not entry.name.startswith(".")]
        yield from (Path(entry.path) for entry in entries if entry.is_file() and not entry.name.startswith("."))
    except OSError:  # not ours to read
        return
    if depth > 1:
        for inner in folders:
            yield from _walk(Path(inner), depth - 1)


def _is_caliper(source: Source, file: Path) -> bool:
    inner = source.inside(file)
    return inner.head(len(RECORD)) == RECORD or (inner.head(1) == b"{" and _begins_with_rows(inner.head(512)))


def _files_of(source: Source) -> list[Path]:
    """Return the files of Caliper at a place, each once."""
    out: list[Path] = []
    for path in source.paths:
        out += [file for file in _walk(path) if _begins_as_caliper(file)] if path.is_dir() else [path]
    if not out:
        raise InputError(f"{source.path}: no file of Caliper was found in it")
    return list(dict.fromkeys(out))


def _begins_as_caliper(file: Path) -> bool:
    if not file.name.endswith(ENDINGS):
        return False
    try:
        with open_regular(file, 0) as opened:
            head = opened.read(512)
    except OSError:  # reading it will say why
        return True
    return head.startswith(RECORD) or (file.name.endswith(".json") and is_json_split(head))


def read_file(file: Path, dialect: Dialect | None = None) -> Records:
    """Return the records of one file, of which others may have taught a dialect. One that holds none is an error."""
    dialect = dialect or Dialect()
    dialect.forget()
    records = Records(dialect.vocabulary)
    try:
        with open_regular(file) as opened:
            is_json = opened.read(64).lstrip()[:1] == b"{"
            opened.seek(0)
            if is_json:
                read_json_split(opened.read(), file, records)
            else:
                CaliReader(records, dialect).read(cut_blocks(opened, file))
    except OSError as error:
        raise InputError(f"{file}: cannot be read: {error.strerror or error}") from error
    if not records.tables:
        reasons = "; ".join(f"{n:,} {reason}" for (_, reason), n in records.left_out.counts.items())
        raise InputError(f"{file}: no record with a number was found in it{reasons and f' (left out: {reasons})'}")
    return records
