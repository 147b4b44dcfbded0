"""What one may type, verb by verb: the end of each `--help`. Names are those that `callgrove demo --keep .` leaves."""

from __future__ import annotations

__all__ = ["EXAMPLES"]

EXAMPLES: dict[str, tuple[str, ...]] = {
    "info": ("callgrove stencil.d", "callgrove info stencil.d --metrics"),
    "formats": ("callgrove formats --format csv",),
    "top": ("callgrove top stencil.d --by line --limit 5", "callgrove top stencil.d -m cycles --rank 0-1"),
    "tree": ("callgrove tree stencil.d --rank 3", "callgrove tree stencil.d --bottom-up --limit 8"),
    "hot": ("callgrove hot stencil.d", "callgrove hot train.db --share 0.3"),
    "diff": (
        "callgrove diff before.d after.d --limit 10",
        "callgrove diff run.cubex run.d --flat -m time=CPUTIME  # of two profilers, by function",
        "callgrove diff before.d after.d --write change.d  # an experiment of the differences",
    ),
    "model": (
        "callgrove model scaling.txt",
        "callgrove model runs -m time  # a folder of runs: runs/app.p4.n100.r1, ...",
        "callgrove model --point p=4 a.d --point p=8 b.d --scaling strong",
    ),
    "predict": ("callgrove predict scaling.txt --at p=4096,n=500",),
    "summary": (
        "callgrove summary train.db --section kernels --by rank",
        "callgrove summary train.db --start 10% --end 60% --format csv -o window.csv",
    ),
    "report": ("callgrove report stencil.d -o stencil.html", "callgrove report stencil.d train.db -o both.html"),
    "export": (
        "callgrove export stencil.d --table values --scope exclusive -o values.csv",
        "callgrove export train.db --table spans --format jsonl",
    ),
    "sql": (
        "callgrove sql train.db --tables",
        'callgrove sql train.db "SELECT name, count(*) AS n FROM kernels GROUP BY name"',
    ),
    "convert": (
        "callgrove convert stencil.d stencil.cubex  # the ending chooses the format",
        "callgrove convert stencil.d part.d --rank 0-1 --window 10%:20%",
        "callgrove convert train.db train.pftrace  # a trace for Perfetto",
    ),
    "prof": ("callgrove prof hpctoolkit-app-measurements app.d",),
    "merge": ("callgrove merge low.d high.d whole.d", "callgrove merge a.d b.d runs.d --system side-by-side"),
    "mean": ("callgrove mean first.d second.d third.d mean.d",),
    "cut": (
        "callgrove cut stencil.d solve.d --root 'main->solve'",
        "callgrove cut stencil.d short.d --prune '/^MPI_/'",
    ),
    "part": ("callgrove part stencil.d first.d --rank 0-1",),
    "common": ("callgrove common before.d after.d both.d",),
    "dump": ("callgrove dump stencil.d --section ProfileInfos", "callgrove dump stencil.m --tree"),
    "check": ("callgrove check stencil.d",),
    "demo": ("callgrove demo --keep .",),
}
