"""RPD databases as the tracers of today write them; those of schema 2 are tested with the other families."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from callgrove.analysis.tables import export
from tests.formats.gpu.gpu_truth import gpu_time, opened


def schema_3(path: Path) -> Path:
    """What the tracers of today write: domains, arguments in a table of their own, counters, stacks."""
    words = "hip torch rpd_tracer roctx range function UserMarker hipMemcpyAsync aten::add flush KernelExecution Memcpy"
    words += " MEMORY_COPY_HOST_TO_DEVICE Memset Fill k GRBM_COUNT main(int) 0x7f35"
    texts = ["", *words.split()]
    texts[texts.index("main(int)")] = "in main(int) at /home/main.cpp:7:3"
    texts[texts.index("0x7f35")] = "0x00007f35 at /opt/lib.so"
    number = {text: k + 1 for k, text in enumerate(["", *words.split()])}
    apis = [
        (1, "rpd_tracer", "function", "flush", 1, 0, 5),
        (2, "roctx", "range", "UserMarker", 2, 10, 500),
        (3, "torch", "function", "aten::add", 1, 20, 400),
        (4, "hip", "", "hipMemcpyAsync", 1, 30, 40),
        (5, "hip", "", "hipMemcpyAsync", 1, 600, 610),
    ]
    types = [("KernelExecution", "k"), ("Memcpy", ""), ("MEMORY_COPY_HOST_TO_DEVICE", ""), ("Memcpy", "Fill")]
    ops = [(k + 1, *type_, 1000 + 100 * k, 1010 + 100 * k) for k, type_ in enumerate([*types, ("Memset", "")])]
    with closing(sqlite3.connect(path)) as database:
        database.execute("CREATE TABLE rocpd_metadata (id, tag, value)")
        database.executemany(
            "INSERT INTO rocpd_metadata VALUES (0, ?, ?)", [("schema_version", "3"), ("gpu_stride", "1000")]
        )
        database.execute("CREATE TABLE rocpd_string (id INTEGER PRIMARY KEY, string)")
        database.executemany("INSERT INTO rocpd_string (string) VALUES (?)", [(text,) for text in texts])
        database.execute("CREATE TABLE rocpd_ustring (id INTEGER PRIMARY KEY, string)")
        database.execute("INSERT INTO rocpd_ustring (string) VALUES (''), ('epoch')")
        database.execute(
            "CREATE TABLE rocpd_api (id, pid, tid, start, end, apiName_id, category_id, domain_id, args_id)"
        )
        for id_, domain, category, name, args, start, end in apis:
            row = (id_, 7, 8, start, end, number[name], number[category] if category else 1, number[domain], args)
            database.execute(f"INSERT INTO rocpd_api VALUES ({', '.join('?' * len(row))})", row)
        database.execute(
            "CREATE TABLE rocpd_op (id, gpuId, queueId, sequenceId, start, end, description_id, opType_id)"
        )
        for id_, type_, text, start, end in ops:
            operation = (id_, 0, 1, 0, start, end, number[text] if text else 1, number[type_])
            database.execute(f"INSERT INTO rocpd_op VALUES ({', '.join('?' * len(operation))})", operation)
        database.execute("CREATE TABLE rocpd_api_ops (id, api_id, op_id)")
        database.executemany("INSERT INTO rocpd_api_ops VALUES (0, 5, ?)", [(op[0],) for op in ops])
        database.execute("CREATE TABLE rocpd_counter (id, value, op_id, name_id)")
        database.execute("INSERT INTO rocpd_counter VALUES (1, 2.5, 1, ?)", (number["GRBM_COUNT"],))
        database.execute("CREATE TABLE rocpd_stackframe (id, api_ptr_id, depth, name_id)")
        frames = [(5, 0, "0x7f35"), (5, 1, "k"), (5, 2, "main(int)")]
        database.executemany(
            "INSERT INTO rocpd_stackframe VALUES (0, ?, ?, ?)", [(a, d, number[n]) for a, d, n in frames]
        )
        database.commit()
    return path


def test_what_rpd_records_since_schema_3(tmp_path: Path) -> None:
    experiment = opened(schema_3(tmp_path / "r.rpd"))
    parts = list(export(experiment, "spans"))
    found = [
        row for p in parts for row in zip(*(p.column(c).plain() for c in ("name", "kind", "category")), strict=True)
    ]
    assert found == [
        ("flush", "overhead", "overhead"),
        ("epoch", "marker", "MARKER"),
        ("aten::add", "marker", "torch/function"),
        ("hipMemcpyAsync", "api", "HIP"),
        ("hipMemcpyAsync", "api", "HIP"),
        ("k", "kernel", "KernelExecution"),
        ("Memcpy", "copy", "Memcpy"),
        ("MEMORY_COPY_HOST_TO_DEVICE", "copy", "MEMORY_COPY_HOST_TO_DEVICE"),
        ("Fill", "memset", "Memcpy"),
        ("Memset", "memset", "Memset"),
    ]
    assert gpu_time(experiment) == 5 * 10
    assert experiment.root_total("overhead_time") == pytest.approx(5e-9)
    paths = {path for part in export(experiment, "contexts") for path in part.column("path").plain()}
    assert {"epoch->aten::add->hipMemcpyAsync", "main(int)->k->hipMemcpyAsync->Memcpy"} <= paths
    counters = experiment.traces.side("counter")
    assert counters is not None
    kept = (counters.span, counters.columns["name"], counters.columns["value"])
    assert [list(cells) for cells in kept] == [[5], ["GRBM_COUNT"], [2.5]]
