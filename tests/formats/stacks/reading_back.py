"""Small readers of the files that writers of stacks make, which share no code with these; and the tree of analysis.md.

Each reader returns what a file says: stacks of names, from the root, with what they cost.
"""

from __future__ import annotations

import gzip
import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

from callgrove.model.builder import ExperimentBuilder
from callgrove.model.contexts import ContextKind, Relation
from callgrove.model.experiment import Experiment
from callgrove.model.metrics import Metric, Scope
from callgrove.model.profiles import Interpretation, ProfileKind
from tests.requirements import need_module

Stacks = Counter[tuple[str, ...]]

TREE = """
main           1  1  1  1
  init         2  2  2  2
    MPI_Bcast  1  2  2  3
  solve        3  3  3  3
    kernel    20 22 24 34
      exp      5  5  5  5
    MPI_Allreduce 12 10 8 2
    solve      1  1  1  1
      kernel   4  4  4  4
      MPI_Allreduce 2 2 2 2
  write        8  0  0  0
    fwrite     4  0  0  0
"""


def tree_t(renamed: dict[str, str] | None = None, unit: str = "sec") -> Experiment:
    """The tree T of analysis.md, 224 s on four ranks; `renamed` gives functions other names."""
    builder = ExperimentBuilder("example", title="T")
    time = builder.add_metric(Metric("time", Scope.EXCLUSIVE, unit))
    for rank in range(4):
        builder.add_profile(ProfileKind.THREAD, [(2, rank, rank, int(Interpretation.SINGLE))], source_id=rank + 1)
    path: list[int] = []
    for line in TREE.strip("\n").splitlines():
        name, *costs = line.split()
        level = (len(line) - len(line.lstrip())) // 2
        region = builder.region(ContextKind.FUNCTION, (renamed or {}).get(name, name))
        context = builder.add_context(path[level - 1] if level else -1, ContextKind.FUNCTION, region, Relation.CALL)
        path[level:] = [context]
        builder.add_values(np.arange(4), context, time, np.array(costs, np.float64))
    return builder.build()


# -- folded ----------------------------------------------------------------------------------------------------------


def read_folded(path: Path) -> Stacks:
    stacks: Stacks = Counter()
    for line in path.read_text("utf-8").splitlines():
        stack, _, number = line.rpartition(" ")
        names = tuple(stack.split(";"))
        assert names not in stacks, "equal stacks are one line"
        stacks[names] = int(number)
    return stacks


# -- speedscope ------------------------------------------------------------------------------------------------------


UNITS = {"none", "nanoseconds", "microseconds", "milliseconds", "seconds", "bytes"}
FILE_KEYS = {"$schema", "exporter", "name", "activeProfileIndex", "profiles", "shared"}
PROFILE_KEYS = {"type", "name", "unit", "startValue", "endValue"}


def read_speedscope(path: Path) -> dict[str, Any]:
    """The file, after a check of all that speedscope's schema demands, and of what its importer does besides."""
    text = gzip.decompress(path.read_bytes()).decode() if path.suffix == ".gz" else path.read_text()
    file: dict[str, Any] = json.loads(text, parse_constant=_refuse)
    assert file["$schema"] == "https://www.speedscope.app/file-format-schema.json"
    assert file.keys() <= FILE_KEYS
    frames = file["shared"]["frames"]
    for frame in frames:
        assert frame.keys() <= {"name", "file", "line", "col"}
        assert isinstance(frame["name"], str)
        assert isinstance(frame.get("file", ""), str)
        assert type(frame.get("line", 0)) is int
    assert len({json.dumps(frame) for frame in frames}) == len(frames)
    assert 0 <= file["activeProfileIndex"] < max(1, len(file["profiles"]))
    for profile in file["profiles"]:
        _check_profile(profile, len(frames))
    return file


def _refuse(text: str) -> None:
    raise AssertionError(f"{text} is not JSON")


def _check_profile(profile: dict[str, Any], n_frames: int) -> None:
    own = {"sampled": {"samples", "weights"}, "evented": {"events"}}[profile["type"]]
    assert profile.keys() == PROFILE_KEYS | own
    assert profile["unit"] in UNITS
    assert profile["endValue"] >= profile["startValue"]
    if profile["type"] == "sampled":
        assert len(profile["samples"]) == len(profile["weights"])
        assert all(0 <= frame < n_frames for stack in profile["samples"] for frame in stack)
        assert all(weight > 0 for weight in profile["weights"])
        return
    stack: list[int] = []
    now = profile["startValue"]
    for event in profile["events"]:
        assert event.keys() == {"type", "at", "frame"}
        assert event["at"] >= now
        now = event["at"]
        if event["type"] == "O":
            assert 0 <= event["frame"] < n_frames
            stack.append(event["frame"])
        else:
            assert stack.pop() == event["frame"], "a frame is closed that is not the innermost one"
    assert not stack
    assert now <= profile["endValue"]


def stacks_of(file: dict[str, Any], profile: dict[str, Any]) -> Stacks:
    names = [frame["name"] for frame in file["shared"]["frames"]]
    stacks: Stacks = Counter()
    for stack, weight in zip(profile["samples"], profile["weights"], strict=True):
        stacks[tuple(names[frame] for frame in stack)] += weight
    return stacks


def spans_of(file: dict[str, Any], profile: dict[str, Any]) -> list[tuple[int, int, int, str]]:
    """(begin, end, depth, name) of what an evented profile shows, by begin and depth."""
    names = [frame["name"] for frame in file["shared"]["frames"]]
    stack: list[int] = []
    out = []
    for event in profile["events"]:
        if event["type"] == "O":
            stack.append(event["at"])
        else:
            out.append((stack.pop(), event["at"], len(stack), names[event["frame"]]))
    return sorted(out)


# -- pprof -----------------------------------------------------------------------------------------------------------
# The messages of profile.proto, as google.protobuf knows them: i a number, u an unsigned one, b a truth, s a text.


MESSAGES = {
    "ValueType": "type=1i unit=2i",
    "Label": "key=1i str=2i num=3i num_unit=4i",
    "Sample": "location_id=1u* value=2i* label=3Label*",
    "Mapping": "id=1u memory_start=2u memory_limit=3u file_offset=4u filename=5i build_id=6i has_functions=7b "
    "has_filenames=8b has_line_numbers=9b has_inline_frames=10b",
    "Line": "function_id=1u line=2i column=3i",
    "Location": "id=1u mapping_id=2u address=3u line=4Line* is_folded=5b",
    "Function": "id=1u name=2i system_name=3i filename=4i start_line=5i",
    "Profile": "sample_type=1ValueType* sample=2Sample* mapping=3Mapping* location=4Location* function=5Function* "
    "string_table=6s* drop_frames=7i keep_frames=8i time_nanos=9i duration_nanos=10i period_type=11ValueType "
    "period=12i comment=13i* default_sample_type=14i doc_url=15i",
}
TYPES = {"i": 3, "u": 4, "b": 8, "s": 9}  # FieldDescriptorProto.Type


def _profile_class() -> Any:
    descriptor_pb2 = need_module("google.protobuf.descriptor_pb2")
    file = descriptor_pb2.FileDescriptorProto(name="profile.proto", package="perftools", syntax="proto3")
    for name, fields in MESSAGES.items():
        message = file.message_type.add(name=name)
        for field, number, type_, star in re.findall(r"(\w+)=(\d+)(\w+?)(\*?)(?: |$)", fields):
            one = message.field.add(name=field, number=int(number), label=3 if star else 1, type=TYPES.get(type_, 11))
            if type_ not in TYPES:
                one.type_name = f".perftools.{type_}"
    pool = need_module("google.protobuf.descriptor_pool").DescriptorPool()
    pool.Add(file)
    return need_module("google.protobuf.message_factory").GetMessageClass(
        pool.FindMessageTypeByName("perftools.Profile")
    )


def read_pprof(path: Path) -> Any:
    """The message, after the checks that Go's `profile.CheckValid` makes."""
    profile = _profile_class()()
    profile.ParseFromString(gzip.decompress(path.read_bytes()))
    assert len(need_module("google.protobuf.unknown_fields").UnknownFieldSet(profile)) == 0
    texts = profile.string_table
    assert texts[0] == ""
    assert len(set(texts)) == len(texts)
    ids = {}
    for name in ("mapping", "location", "function"):
        rows = getattr(profile, name)
        ids[name] = {row.id: row for row in rows}
        assert len(ids[name]) == len(rows)
        assert 0 not in ids[name]
    for location in profile.location:
        assert location.mapping_id == 0 or location.mapping_id in ids["mapping"]
        assert all(line.function_id in ids["function"] for line in location.line)
    for sample in profile.sample:
        assert len(sample.value) == len(profile.sample_type)
        assert sample.location_id
        assert all(location in ids["location"] for location in sample.location_id)
        for label in sample.label:
            assert texts[label.key]
    return profile


def pprof_stacks(profile: Any, type_: int = 0, **labels: int) -> Stacks:
    """Stacks of names with the sum of one value; of samples with these labels."""
    texts, functions = profile.string_table, {one.id: one for one in profile.function}
    names = {place.id: texts[functions[place.line[0].function_id].name] for place in profile.location}
    stacks: Stacks = Counter()
    for sample in profile.sample:
        told = {texts[label.key]: label.num for label in sample.label}
        if all(told.get(key) == value for key, value in labels.items()):
            stacks[tuple(names[place] for place in reversed(sample.location_id))] += sample.value[type_]
    return stacks


# -- dot -------------------------------------------------------------------------------------------------------------


TOKEN = re.compile(r'"((?:[^"\\]|\\.)*)"|([A-Za-z_][A-Za-z_0-9]*|-?[0-9.]+)|(->|[\[\]{},=])|\s+')


def read_dot(text: str) -> tuple[dict[str, dict[str, str]], dict[tuple[str, str, bool], dict[str, str]]]:
    """Nodes and edges with their attributes; an edge is told by its ends and whether it is direct."""
    tokens = _tokens(text)
    assert tokens[:3] == ["digraph", "callgrove", "{"]
    assert tokens[-1] == "}"
    nodes: dict[str, dict[str, str]] = {}
    edges: dict[tuple[str, str, bool], dict[str, str]] = {}
    at = 3
    while at < len(tokens) - 1:
        name, other = tokens[at], ""
        at += 1
        if tokens[at] == "->":
            other, at = tokens[at + 1], at + 2
        attributes, at = _attributes(tokens, at)
        if other:
            key = name, other, attributes.get("style") != "dashed"
            assert key not in edges
            edges[key] = attributes
        elif name not in ("graph", "node", "edge"):
            assert name not in nodes
            nodes[name] = attributes
    assert all(end in nodes for caller, callee, _ in edges for end in (caller, callee))
    return nodes, edges


def _tokens(text: str) -> list[str]:
    tokens, at = [], 0
    while at < len(text):
        match = TOKEN.match(text, at)
        assert match is not None, f"no token at {text[at : at + 20]!r}"
        at = match.end()
        if match[1] is not None:
            tokens.append(re.sub(r"\\(.)", lambda m: "\n" if m[1] == "n" else m[1], match[1]))
        elif match[2] or match[3]:
            tokens.append(match[2] or match[3])
    return tokens


def _attributes(tokens: list[str], at: int) -> tuple[dict[str, str], int]:
    assert tokens[at] == "["
    out, at = {}, at + 1
    while tokens[at] != "]":
        assert tokens[at + 1] == "="
        out[tokens[at]] = tokens[at + 2]
        at += 3
        at += tokens[at] == ","
    return out, at + 1
