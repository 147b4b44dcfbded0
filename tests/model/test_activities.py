"""What contexts are busy with: by paradigm and role, by name, by caller, by module."""

from __future__ import annotations

import re
import tarfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import callgrove
from callgrove.model.activities import (
    ACTIVITIES,
    ACTIVITY_IDS,
    ActivityClass,
    activities_below,
    find_activities,
    find_classes,
)
from callgrove.model.builder import ExperimentBuilder
from callgrove.model.contexts import ContextKind, ContextTree, Relation
from callgrove.model.experiment import Experiment
from callgrove.model.metrics import Scope

LIBC, LIBMPI, LIBGOMP, LIBOMP, APP = (
    "/lib64/libc.so.6",
    "/opt/libmpi.so.40",
    "libgomp.so.1.0.0",
    "libomp.so",
    "/home/app",
)
Row = tuple[int, str, str, str]  # parent, name, module, "paradigm role"


def opened(path: Path) -> Experiment:
    experiment = callgrove.open(path)
    assert isinstance(experiment, Experiment)
    return experiment


def tree_of(rows: Sequence[Row], kind: ContextKind = ContextKind.FUNCTION) -> ContextTree:
    builder = ExperimentBuilder("test")
    for parent, name, module, of in rows:
        paradigm, _, role = of.partition(" ")
        region = builder.region(kind, name, module=builder.module(module), paradigm=paradigm, role=role)
        builder.add_context(parent, kind, region)
    return builder.build().contexts


def names_of(tree: ContextTree) -> list[str]:
    return [ACTIVITIES[number].name for number in find_activities(tree).tolist()]


def activity(name: str, module: str = "", of: str = "", kind: ContextKind = ContextKind.FUNCTION) -> str:
    return names_of(tree_of([(-1, name, module, of)], kind))[0]


NAMES = {
    "mpi_point2point": "MPI_Send PMPI_Isend mpi_sendrecv_replace__ mpi_send_ MPI_RECV mpi_recv_f08_ MPI_Improbe"
    " MPI_Ssend_init MPI_Send_c",
    "mpi_collective": "MPI_Allreduce mpi_ialltoallw_ MPI_Exscan MPI_Neighbor_allgatherv_init MPI_Reduce_scatter_block",
    "mpi_sync_collective": "MPI_Barrier PMPI_Ibarrier",
    "mpi_rma_communication": "MPI_Put MPI_Compare_and_swap",
    "mpi_rma_sync_active": "MPI_Win_fence",
    "mpi_rma_sync_passive": "MPI_Win_unlock_all",
    "mpi_mgmt_win": "MPI_Win_create",
    "mpi_mgmt_file": "MPI_File_open",
    "mpi_mgmt_comm": "MPI_Comm_split",
    "mpi_io_collective": "MPI_File_write_at_all",
    "mpi_io_individual": "MPI_File_iread_shared",
    "mpi_init_exit": "MPI_Init_thread mpi_finalize_ MPI_Init()",
    "mpi_request_completion": "MPI_Waitall",
    "mpi_request_start": "MPI_Startall",
    "mpi_request_handling": "MPI_Test_cancelled",
    "mpi": "MPI_Wtime MPI_Get_processor_name MPI_Reduce_local",
    "comp": "mpi_my_module_solve_ MPI_Init(int) mpitest GOMP_loop_end_nowait cuCadd cublasDgemm_v2 main"
    " read std::read(int)",
    "omp_ebarrier": "GOMP_barrier __kmpc_barrier",
    "omp_ibarrier": "__kmp_join_barrier GOMP_loop_end",
    "omp_critical": "GOMP_critical_start",
    "omp_lock_api": "omp_set_nest_lock",
    "omp_taskwait": "GOMP_taskwait",
    "omp_flush": "__kmpc_flush",
    "pthread_conditional": "pthread_cond_wait@@GLIBC_2.3.2",
    "pthread_lock_api": "__pthread_mutex_lock",
    "pthread_management": "pthread_join",
    "pthread_synchronization": "pthread_barrier_wait",
    "shmem_sync_coll_time": "shmem_barrier_all",
    "shmem_comm_rma_time": "shmem_double_put",
    "shmem_comm_atomic_time": "shmem_int_atomic_add",
    "shmem_memory_ordering_time": "shmem_quiet",
    "nccl_time": "ncclAllReduce",
    "gaspi_time": "gaspi_write",
    "cuda_comm": "cudaMemcpyAsync",
    "cuda_sync": "cudaDeviceSynchronize",
    "cuda_kernel_launches": "cuLaunchKernel",
    "cuda_setup": "cudaGetDevice",
    "hip_malloc": "hipMalloc",
    "hip_memcpy": "hipMemcpy",
    "hip_sync": "hipStreamSynchronize hsa_signal_wait_scacquire",
    "hip_kernel_launches": "hipLaunchKernel",
    "opencl_comm": "clEnqueueReadBuffer",
    "opencl_sync": "clFinish",
    "io_writing_time": "H5Dwrite",
    "io_meta_time": "nc_open",
}
CONSTRUCTS = [
    ("!$omp barrier @a.c:3", "omp_ebarrier"),
    ("!$omp ibarrier @a.c:3", "omp_ibarrier"),
    ("!$omp for @a.c:3", "comp"),
    ("!$omp implicit barrier @a.c:3", "omp_ibarrier"),
    ("!$omp atomic @a.c:3", "omp_critical"),
    ("!$omp critical sblock @a.c:3", "comp"),
    ("!$omp ordered @a.c:3", "omp_ordered"),
]
EVERY = [(name, activity) for activity, names in NAMES.items() for name in names.split()] + CONSTRUCTS


@pytest.mark.parametrize(("name", "expected"), EVERY, ids=lambda text: text)
def test_names(name: str, expected: str) -> None:
    assert activity(name) == expected


@pytest.mark.parametrize(
    ("name", "module", "expected"),
    [
        ("read", LIBC, "io_reading_time"),
        ("__GI___libc_write", LIBC, "io_writing_time"),
        ("_IO_fread", LIBC, "io_reading_time"),
        ("__open64_nocancel", LIBC, "io_meta_time"),
        ("read", APP, "comp"),
        ("memcpy", LIBC, "comp"),
        ("opal_progress", "/opt/lib/libopen-pal.so.40.2", "mpi"),
        ("ucp_worker_progress", "libucp.so.0", "mpi"),
        ("f", "libmpi_usempif08.so.40", "mpi"),
        ("f", "/usr/lib/openmpi/mca_btl_vader.so", "mpi"),
        ("f", "libpmix.so.2.6.0", "mpi"),
        ("f", "libmpiapp.so", "comp"),
        ("gomp_thread_start", LIBGOMP, "omp_time"),
        ("", LIBGOMP, "omp_time"),
        ("f", "/home/mpi/libmpiapp/app", "comp"),
    ],
)
def test_modules(name: str, module: str, expected: str) -> None:
    assert activity(name, module) == expected


@pytest.mark.parametrize(
    ("of", "name", "expected"),
    [
        ("mpi point2point", "MPI_Send", "mpi_point2point"),
        ("mpi other collective", "MPI_Scan", "mpi_collective"),
        ("mpi atomic", "MPI_Accumulate", "mpi_rma_communication"),
        ("mpi function", "MPI_Waitany", "mpi_request_completion"),
        ("mpi function", "MPI_Reduce_local", "mpi"),
        ("mpi file io", "MPI_File_sync", "mpi_mgmt_file"),
        ("mpi", "MPI_Send", "mpi_point2point"),  # no role
        ("MPI barrier", "MPI_Barrier", "mpi_sync_collective"),
        ("openmp implicit barrier", "!$omp x", "omp_ibarrier"),
        ("openmp parallel", "!$omp parallel", "comp"),
        ("openmp function", "omp_set_lock", "omp_lock_api"),
        ("pthread function", "pthread_cond_wait", "pthread_conditional"),
        ("shmem barrier", "shmem_barrier", "shmem_sync_coll_time"),
        ("io file io metadata", "open", "io_meta_time"),
        ("io file io", "fread", "io_reading_time"),
        ("io file io", "sendfile", "io_time"),
        ("libwrap:fftw function", "fftw_execute", "libwrap_time"),
        ("measurement artificial", "TRACE BUFFER FLUSH", "overhead"),
        ("measurement artificial", "MEASUREMENT OFF", "comp"),
        ("cuda function", "COMPUTE IDLE", "idle_gpus"),
        ("cuda function", "cudaMalloc", "cuda_comm"),
        ("compiler function", "MPI_Send", "comp"),
        ("user", "main", "comp"),
        ("unknown", "MPI_Send", "mpi_point2point"),
    ],
)
def test_paradigms(of: str, name: str, expected: str) -> None:
    assert activity(name, of=of) == expected


def test_what_score_p_calls_a_kernel_by_its_place() -> None:
    assert activity("saxpy", "CUDA_KERNEL", "cuda function") == "cuda_kernel_executions"
    assert activity("hipMalloc", "HIP_MALLOC", "hip function") == "hip_malloc"


def test_devices_and_placeholders() -> None:
    kind = ContextKind.PLACEHOLDER
    assert activity("<no activity>", kind=kind) == "idle"
    assert activity("<gpu copyin>", kind=kind) == "cuda_comm"
    assert activity("<omp barrier wait>", kind=kind) == "omp_barrier"
    assert activity("saxpy(float*)", kind=ContextKind.KERNEL) == "cuda_kernel_executions"
    assert activity("ncclDevKernel_AllReduce", kind=ContextKind.KERNEL) == "nccl_time"
    assert activity("copy", kind=ContextKind.COPY) == "cuda_comm"
    assert activity("MPI_Send", kind=ContextKind.LINE) == "comp"


def test_one_hip_function_makes_kernels_those_of_hip() -> None:
    builder = ExperimentBuilder("test")
    launch = builder.region(ContextKind.FUNCTION, "hipLaunchKernel")
    kernel = builder.region(ContextKind.KERNEL, "saxpy")
    builder.add_context(-1, ContextKind.FUNCTION, launch)
    builder.add_context(0, ContextKind.KERNEL, kernel)
    assert names_of(builder.build().contexts) == ["hip_kernel_launches", "hip_kernel_executions"]


def test_what_a_function_of_a_library_calls_belongs_to_it() -> None:
    rows = [
        (-1, "main", APP, ""),
        (0, "MPI_Allreduce", LIBMPI, ""),
        (1, "PMPI_Send", LIBMPI, ""),
        (2, "pthread_mutex_lock", LIBC, ""),
        (1, "memcpy", LIBC, ""),
        (0, "work", APP, ""),
    ]
    assert names_of(tree_of(rows)) == ["comp", *["mpi_collective"] * 4, "comp"]


def test_work_inside_a_barrier_is_no_waiting() -> None:
    rows = [
        (-1, "main", APP, ""),
        (0, "__kmpc_barrier", LIBOMP, ""),
        (1, "__kmp_execute_tasks", LIBOMP, ""),
        (2, "task", APP, ""),
        (3, "MPI_Send", LIBMPI, ""),
        (1, "pthread_cond_wait", LIBC, ""),
        (0, "MPI_Send", LIBMPI, ""),
        (6, "operation", APP, ""),  # of the user, called by MPI
    ]
    barrier, send = "omp_ebarrier", "mpi_point2point"
    assert names_of(tree_of(rows)) == ["comp", barrier, barrier, "comp", send, barrier, send, send]


def test_what_score_p_measured_below_mpi_computes() -> None:
    rows = [(-1, "MPI_Reduce", "", "mpi all2one"), (0, "operation", "", "compiler function")]
    assert names_of(tree_of(rows)) == ["mpi_collective", "comp"]


def test_contexts_outside_of_the_tree_have_none() -> None:
    builder = ExperimentBuilder("test")
    builder.add_context(-1, ContextKind.FUNCTION, builder.region(ContextKind.FUNCTION, "main"))
    builder.add_context(-1, ContextKind.ELIDED, source_id=7)
    found = find_activities(builder.build().contexts)
    assert found.tolist() == [ACTIVITY_IDS["comp"], -1]
    assert find_classes(found).tolist() == [0, -1]


def test_classes() -> None:
    classes = {activity.name: activity.klass for activity in ACTIVITIES}
    assert classes["comp"] == classes["cuda_kernel_executions"] == ActivityClass.COMPUTE
    assert classes["mpi_point2point"] == classes["nccl_time"] == ActivityClass.COMMUNICATION
    assert classes["mpi_sync_collective"] == classes["mpi_request_completion"] == ActivityClass.SYNCHRONISATION
    assert classes["omp_ibarrier"] == classes["pthread_conditional"] == ActivityClass.SYNCHRONISATION
    assert classes["mpi_io_collective"] == classes["io_reading_time"] == classes["mpi_mgmt_file"] == ActivityClass.IO
    assert classes["cuda_comm"] == classes["hip_memcpy"] == ActivityClass.COPY
    assert classes["idle"] == classes["omp_idle_threads"] == ActivityClass.IDLE


def test_the_tree_of_activities() -> None:
    assert len(ACTIVITY_IDS) == len(ACTIVITIES)
    assert set(activities_below("time").tolist()) == set(range(len(ACTIVITIES)))
    parts = [activities_below(name) for name in ("execution", "overhead", "omp_idle_threads", "idle_gpus", "idle")]
    assert sum(map(len, parts)) == len(ACTIVITIES) - 1


CHOICES = [
    *(("main", APP), ("MPI_Send", LIBMPI), ("GOMP_barrier", LIBGOMP), ("memcpy", LIBC), ("", LIBMPI), ("task", "")),
    *(("", LIBGOMP), ("MPI_Send [libmpi.so.40]", ""), ("task [app]", ""), ("memcpy [libc.so.6]", "")),
]
BY_NAME = {"MPI_Send": "mpi_point2point", "GOMP_barrier": "omp_ebarrier"}
BY_MODULE = {"libmpi.so.40": "mpi", "libgomp.so.1.0.0": "omp_time"}


@given(st.lists(st.tuples(st.integers(0, 100), st.sampled_from(CHOICES)), min_size=1, max_size=30))
def test_columns_give_what_a_walk_up_gives(drawn: list[tuple[int, tuple[str, str]]]) -> None:
    rows = [(at % k - (k == 0) if k else -1, name, module, "") for k, (at, (name, module)) in enumerate(drawn)]
    tree = tree_of(rows)
    regions, module_of = tree.regions, tree.column("module").tolist()
    texts = [regions.strings[n] if n >= 0 else "" for n in tree.column("name").tolist()]
    names = [text.partition(" [")[0] for text in texts]
    modules = [
        regions.modules[module].rpartition("/")[2] if module >= 0 else text.partition(" [")[2].removesuffix("]")
        for module, text in zip(module_of, texts, strict=True)
    ]

    def own(context: int) -> str:
        return BY_NAME.get(names[context]) or BY_MODULE.get(modules[context], "")

    def source(context: int) -> int:
        """The context that an activity is taken from, one step up at a time."""
        alone = context if own(context) else -1
        parent = int(tree.parent[context])
        above = source(parent) if parent >= 0 else -1
        if above < 0:
            return alone
        says = names[above] in BY_NAME
        waits = own(above).startswith("omp")
        if waits and modules[context] not in ("", "libc.so.6", modules[above]):
            return alone
        if waits and not says and not modules[context]:
            return alone
        refines = not says and names[context] in BY_NAME and own(context)[:3] == own(above)[:3]
        return context if refines else above

    for context, found in enumerate(names_of(tree)):
        assert found == (own(source(context)) if source(context) >= 0 else "comp")


def test_modules_that_names_end_with() -> None:
    """Old databases of HPCToolkit have such names, and lines and loops without a module."""
    builder = ExperimentBuilder("test")
    main = builder.add_context(-1, ContextKind.FUNCTION, builder.region(ContextKind.FUNCTION, "main [ping-pong]"))

    def call(parent: int, name: str) -> int:
        """Add a function and a line in a loop of it, and return the line."""
        region = builder.region(ContextKind.FUNCTION, name)
        function = builder.add_context(parent, ContextKind.FUNCTION, region)
        loop = builder.region(ContextKind.LOOP, line=3)
        inner = builder.add_context(function, ContextKind.LOOP, loop, Relation.LEXICAL)
        line = builder.region(ContextKind.LINE, line=4)
        return builder.add_context(inner, ContextKind.LINE, line, Relation.LEXICAL)

    call(call(call(main, "PMPI_Recv [libmpi.so.12.1.1]"), "psm2_poll [libpsm2.so.2.2]"), "readv [libc-2.17.so]")
    call(call(main, "psm_progress_wait [libmpi.so.12.1.1]"), "__GI_process_vm_readv [libc-2.17.so]")
    line = call(main, "<unknown procedure> 0x1f [libgomp.so.1]")
    builder.add_context(line, ContextKind.INLINED, builder.region(ContextKind.INLINED, "spin"), Relation.INLINED)
    call(line, "main._omp_fn.0 [ping-pong]")
    call(main, "fread [libc-2.17.so]")
    call(main, "solve(int) [clone .isra.0]")
    expected = [
        *(["comp"] + ["mpi_point2point"] * 9 + ["mpi"] * 6 + ["omp_time"] * 4 + ["comp"] * 3),
        *(["io_reading_time"] * 3 + ["comp"] * 3),
    ]
    assert names_of(builder.build().contexts) == expected


def test_what_a_library_calls_by_any_name() -> None:
    """A name says more than the module of its caller where both are of one library."""
    rows = [
        (-1, "start_thread", LIBC, ""),
        (0, "opal_progress", LIBMPI, ""),
        (1, "pthread_mutex_lock", LIBC, ""),
        (1, "PMPI_Barrier", LIBMPI, ""),
        (0, "gomp_thread_start", LIBGOMP, ""),
        (4, "gomp_team_barrier_wait", LIBGOMP, ""),
        (4, "futex_wait", LIBC, ""),
        (4, "region", APP, ""),
        (4, "region", "", ""),  # whose it is, nobody knows: not said to wait
    ]
    assert names_of(tree_of(rows)) == [
        *("comp", "mpi", "mpi", "mpi_sync_collective"),
        *("omp_time", "omp_ebarrier", "omp_time", "comp", "comp"),
    ]


# -- real files --------------------------------------------------------------------------------------------------------


def test_every_metric_of_a_remapped_profile(shared: Path) -> None:
    """CubeLib wrote the second file from the first by the specification that Score-P had put there."""
    folder = shared / "data" / "own" / "cube" / "mpi4"
    profile, remapped = opened(folder / "profile.cubex"), opened(folder / "remapped.cubex")
    activities = find_activities(profile.contexts)
    time = profile.matrix("time", Scope.EXCLUSIVE)
    compared = [name for name in remapped.metrics.quantities if name in ACTIVITY_IDS and name != "time"]
    compared = [name for name in compared if not name.startswith("omp_idle") and name != "omp_limited_parallelism"]
    assert {"comp", "mpi", "mpi_init_exit", "omp_ibarrier", "mpi_point2point"} <= set(compared)
    for name in compared:
        chosen = np.isin(activities, activities_below(name))
        expected = remapped.matrix(name, Scope.EXCLUSIVE)
        np.testing.assert_allclose(time * chosen[:, None], expected, rtol=1e-12, atol=1e-15, err_msg=name)


def test_every_formula_of_a_profile_with_the_specification_inside(shared: Path) -> None:
    """The same, of formulas that are evaluated here."""
    experiment = opened(shared / "acceptance" / "inputs" / "cube" / "mpi4-derived.cubex")
    activities, time = find_activities(experiment.contexts), experiment.matrix("time", Scope.EXCLUSIVE)
    formulas = [metric.name for metric in experiment.metrics if metric.derivation and metric.name in ACTIVITY_IDS]
    assert {"execution", "comp", "mpi", "omp_time", "overhead"} <= set(formulas)
    for name in formulas:
        chosen = np.isin(activities, activities_below(name))
        found = experiment.matrix(name, Scope.EXCLUSIVE)
        np.testing.assert_allclose(time * chosen[:, None], found, rtol=1e-12, atol=1e-15, err_msg=name)


MASKS = {
    "mpi_mgmt_startup": "mpi_init_exit",
    "mpi_sync_rma_active": "mpi_rma_sync_active",
    "mpi_sync_rma_passive": "mpi_rma_sync_passive",
    "mpi_file_individual": "mpi_io_individual",
    "mpi_file_collective": "mpi_io_collective",
    "pthread_mgmt": "pthread_management",
    "pthread_sync_mutex": "pthread_lock_api",
    "pthread_sync_condition": "pthread_conditional",
    "fileio_reading": "io_reading_time",
    "fileio_writing": "io_writing_time",
    **{name: name for name in ("mpi_mgmt_comm", "mpi_mgmt_file", "mpi_mgmt_win", "cuda_sync", "hip_kernel_launches")},
}


def test_masks_of_the_specification(shared: Path) -> None:
    """Names of functions that Score-P knows fall into the masks of its specification, and into no other."""
    inside, regions = shared / "data" / "own" / "cube" / "mpi8" / "profile.cubex", set[tuple[str, str]]()
    newer = shared / "data" / "public" / "pycubexr" / "bt-mz_sum.p2.r1" / "cube4.8_with_checksum_bug.cubex"
    for path in (inside, newer):
        known = opened(path).contexts.regions
        regions |= {(known.label(r), p) for r, p in enumerate(known.text("paradigm")) if p in ("mpi", "openmp")}
    regions |= {(name, "pthread") for name, _ in EVERY if name.startswith("pthread")}
    regions |= {(name, "io") for name in ("read", "fread", "pwrite", "puts", "scanf", "lseek", "stat", "mkdir")}
    with tarfile.open(inside) as archive:
        member = archive.extractfile("remapping.spec")
        assert member is not None
        text = member.read().decode()
    rules = re.findall(r"\$\{name\} =~ /([^/]+)/ \)\s*\{\s*\$\{(\w+)\}\[", text)
    compared = 0
    for pattern, mask in rules:
        paradigm = {"fileio": "io"}.get(mask.split("_")[0], mask.split("_")[0])
        for name, of in regions:
            if mask in MASKS and of == paradigm:
                compared += 1
                found = activity(name, of=f"{of} function") == MASKS[mask]
                assert found == bool(re.search(pattern, name)), (name, mask)
    assert compared > 1000


def test_everything_below_mpi_init_is_part_of_it(shared: Path) -> None:
    tree = opened(shared / "data" / "public" / "hatchet" / "hpctoolkit-cpi-database").contexts
    found = names_of(tree)
    top = [
        c for c in range(tree.n_listed) if tree.name(c) in ("MPI_Init", "PMPI_Init", "MPI_Finalize", "PMPI_Finalize")
    ]
    assert top
    for context in top:
        assert set(found[context : int(tree.subtree_end[context])]) == {"mpi_init_exit"}


def test_everything_below_mpi_in_names_with_modules(shared: Path) -> None:
    """The program does nothing but send and receive: what is below its two functions is all of its time."""
    experiment = opened(shared / "data" / "public" / "pipit" / "ping-pong-hpctoolkit")
    tree, found = experiment.contexts, names_of(experiment.contexts)
    top = [c for c in range(tree.n_listed) if tree.name(c).startswith(("PMPI_Recv [", "PMPI_Send ["))]
    assert len(top) == 4
    for context in top:
        assert set(found[context : int(tree.subtree_end[context])]) == {"mpi_point2point"}
    time = experiment.totals("CPUTIME (sec)", Scope.EXCLUSIVE)
    assert time[np.array(found) == "comp"].sum() == 0 < time[np.array(found) == "mpi_point2point"].sum()


@pytest.mark.parametrize("version", ["2016.12", "2018.09"])
def test_what_mpi_calls_without_names(shared: Path, version: str) -> None:
    """Threads of Open MPI poll in the C library, called by libevent: nothing but modules says so."""
    experiment = opened(shared / "data" / "own" / "hpcrun-02.00" / version / "mpi4.m")
    tree = experiment.contexts
    modules = [tree.regions.modules[m] if m >= 0 else "" for m in tree.column("module").tolist()]
    found = names_of(tree)
    for context in range(tree.n_listed):
        above = [modules[c] for c in tree.ancestors(context)]
        if any("libopen-pal" in module or "libpmix" in module for module in above):
            assert found[context] == "mpi"
        elif modules[context].endswith("/mpiomp"):
            assert found[context] == "comp"
    time = experiment.totals("REALTIME (usec)", Scope.EXCLUSIVE)
    assert time[np.array(found) == "comp"].sum() < 0.01 * time.sum()


def test_operations_of_devices(shared: Path) -> None:
    tree = opened(shared / "data" / "own" / "rocpd" / "small").contexts
    found = names_of(tree)
    kinds = {ContextKind.KERNEL: {"hip_kernel_executions", "nccl_time"}, ContextKind.COPY: {"hip_memcpy"}}
    for kind, expected in kinds.items():
        assert {found[c] for c in np.flatnonzero(tree.kind == kind).tolist()} == expected
