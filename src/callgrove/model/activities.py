"""What contexts are busy with: an activity for each, which is a node of Scalasca's metric tree, and its coarser class.

    time
      execution
        comp      io_time, libwrap_time, cuda_kernel_executions, ...
        mpi       mpi_point2point, mpi_collective, mpi_sync_collective, mpi_init_exit, ...
        omp_time, pthread_time, shmem_time, cuda_time, hip_time, ...
      overhead, omp_idle_threads, idle_gpus, idle

The activity of a context is the first of

 - what the paradigm and role of its region say, where it has a paradigm (Score-P). Regions of other paradigms, such as
   `compiler`, compute, even where a communication library called them;
 - what it is, on a device or as a placeholder: a kernel, a copy, `<gpu copy>`, `<no activity>`;
 - the activity of the nearest caller that has one: whatever MPI_Send calls is part of it, locks and other MPI functions
   included, and so are the lines and loops of all these. Work that an OpenMP runtime starts (parallel regions, and
   tasks from inside a barrier) is not: it lies in another module;
 - what its name says: `MPI_Send`, `mpi_send_`, `GOMP_barrier`, `cudaMemcpy`, `fread` of the C library;
 - what its module says: libmpi, libgomp. A name says more where it lies below that in the tree, whoever calls it;
 - `comp`.

Old databases of HPCToolkit name the module as well: `PMPI_Recv [libmpi.so.12]`. Lines and loops lie in the module of
their function.

Scalasca's own formulas (`remapping.spec` of Score-P) have the same masks. MPI functions that none of its leaves names
(MPI_Wtime, MPI_Type_commit) are `mpi` itself there, and here. `gaspi_time`, `nccl_time` and `idle` are ours.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from callgrove.arrays import ABSENT, Array, Bools, Ids
from callgrove.model.contexts import NO_ACTIVITY, ContextKind, ContextTree, Regions, Relation

__all__ = [
    "ACTIVITIES",
    "ACTIVITY_IDS",
    "Activity",
    "ActivityClass",
    "activities_below",
    "classify_call",
    "find_activities",
    "find_classes",
    "find_sources",
    "is_collective",
]


# -- the tree of activities --------------------------------------------------------------------------------------------


class ActivityClass(StrEnum):
    """What activities come to, in the words of timelines."""

    COMPUTE = "compute"
    COMMUNICATION = "communication"
    SYNCHRONISATION = "synchronisation"
    IO = "io"
    COPY = "copy"
    IDLE = "idle"


CHILDREN = {
    "time": "execution overhead omp_idle_threads idle_gpus idle",
    "execution": "comp mpi shmem_time gaspi_time nccl_time omp_time pthread_time"
    " openacc_time opencl_time cuda_time hip_time",
    "comp": "io_time libwrap_time opencl_kernel_executions cuda_kernel_executions hip_kernel_executions",
    "io_time": "io_meta_time io_reading_time io_writing_time",
    "mpi": "mpi_management mpi_synchronization mpi_communication mpi_io mpi_request_handling",
    "mpi_management": "mpi_init_exit mpi_mgmt_comm mpi_mgmt_file mpi_mgmt_win",
    "mpi_synchronization": "mpi_sync_collective mpi_rma_synchronization",
    "mpi_rma_synchronization": "mpi_rma_sync_active mpi_rma_sync_passive",
    "mpi_communication": "mpi_point2point mpi_collective mpi_rma_communication",
    "mpi_io": "mpi_io_individual mpi_io_collective",
    "mpi_request_handling": "mpi_request_start mpi_request_completion",
    "shmem_time": "shmem_mgmt_time shmem_comm_time shmem_sync_time shmem_memory_time shmem_event_time shmem_cache_time",
    "shmem_mgmt_time": "shmem_mgmt_initfini_time shmem_mgmt_activesets_time shmem_mgmt_query_time",
    "shmem_comm_time": "shmem_comm_rma_time shmem_comm_atomic_time shmem_comm_coll_time",
    "shmem_sync_time": "shmem_sync_rma_time shmem_sync_coll_time shmem_sync_locking_time",
    "shmem_memory_time": "shmem_memory_mgmt_time shmem_memory_ordering_time",
    "omp_time": "omp_synchronization omp_flush",
    "omp_synchronization": "omp_barrier omp_critical omp_lock_api omp_ordered omp_taskwait",
    "omp_barrier": "omp_ebarrier omp_ibarrier",
    "pthread_time": "pthread_management pthread_synchronization",
    "pthread_synchronization": "pthread_lock_api pthread_conditional",
    "openacc_time": "openacc_setup openacc_comm openacc_sync openacc_kernel_launches",
    "opencl_time": "opencl_setup opencl_comm opencl_sync opencl_kernel_launches",
    "cuda_time": "cuda_setup cuda_comm cuda_sync cuda_kernel_launches",
    "hip_time": "hip_stream hip_malloc hip_memcpy hip_sync hip_kernel_launches",
    "omp_idle_threads": "omp_limited_parallelism",
}
# Classes of nodes and of all below them, unless these are named as well.
CLASSES = {
    ActivityClass.COMPUTE: "time",
    ActivityClass.COMMUNICATION: "mpi shmem_time gaspi_time nccl_time",
    ActivityClass.SYNCHRONISATION: "mpi_synchronization mpi_request_completion shmem_sync_time shmem_event_time"
    " omp_time pthread_time openacc_sync opencl_sync cuda_sync hip_sync",
    ActivityClass.IO: "io_time mpi_io mpi_mgmt_file",
    ActivityClass.COPY: "openacc_comm opencl_comm cuda_comm hip_memcpy",
    ActivityClass.IDLE: "overhead omp_idle_threads idle_gpus idle",  # a program does not advance in any of them
}


@dataclass(frozen=True)
class Activity:
    """A node of the tree: its name among Scalasca's metrics, that of the node above it, and its class."""

    name: str
    parent: str
    klass: ActivityClass


def _list_activities(name: str = "time", parent: str = "", above: ActivityClass | None = None) -> Iterator[Activity]:
    """Yield a node and all below it, in preorder."""
    klass = next((klass for klass, names in CLASSES.items() if name in names.split()), above)
    assert klass is not None
    yield Activity(name, parent, klass)
    for child in CHILDREN.get(name, "").split():
        yield from _list_activities(child, name, klass)


ACTIVITIES: tuple[Activity, ...] = tuple(_list_activities())  # parents first
ACTIVITY_IDS: Mapping[str, int] = {activity.name: number for number, activity in enumerate(ACTIVITIES)}


def activities_below(*names: str) -> Ids:
    """Return the numbers of these activities and of all below them in the tree, ascending."""
    chosen = set(names)
    assert chosen <= ACTIVITY_IDS.keys(), chosen
    for activity in ACTIVITIES:
        if activity.parent in chosen:
            chosen.add(activity.name)
    return np.array(sorted(ACTIVITY_IDS[name] for name in chosen), np.int32)


def _relate_activities() -> Bools:
    """Return which activities (rows) lie below which others (columns), or are the same."""
    out = np.zeros((len(ACTIVITIES), len(ACTIVITIES)), np.bool_)
    for number, activity in enumerate(ACTIVITIES):
        out[activities_below(activity.name), number] = True
    return out


IS_BELOW = _relate_activities()


def find_classes(activities: Ids) -> Array:
    """Return the class of each context, as a number among ActivityClass in its order; -1 stays."""
    order = list(ActivityClass)
    numbers = [order.index(activity.klass) for activity in ACTIVITIES]
    return np.array([*numbers, ABSENT], np.int8)[activities]


# -- of a tree ---------------------------------------------------------------------------------------------------------


def find_activities(tree: ContextTree) -> Ids:
    """Return the activity of every context, as its number in ACTIVITIES; -1 for contexts outside of the tree."""
    return find_sources(tree)[0]


def find_sources(tree: ContextTree) -> tuple[Ids, Ids]:
    """Return the activity of every context, and the context that it is taken from, itself or a caller; -1 where
    nothing says one, so that it computes."""
    by_region, is_sure = _classify_regions(tree.regions)
    stated = by_region[tree.region]
    by_module, owner = _classify_modules(tree)
    own = np.where(stated >= 0, stated, by_module)
    source = _follow_callers(tree, own, stated >= 0, is_sure[tree.region], owner)
    taken = np.where(source >= 0, own[source], np.int32(ACTIVITY_IDS["comp"]))
    taken[tree.n_listed :] = ABSENT
    return taken, source


def _follow_callers(tree: ContextTree, own: Ids, has_name: Bools, is_sure: Bools, owner: Ids) -> Ids:
    """Return for every context the one that its activity is taken from, itself or a caller; -1 where there is none.
    `own` is the activity that it says by itself, `has_name`: by its name; `is_sure`: it takes none of a caller."""
    source = np.where(own >= 0, np.arange(len(tree)), ABSENT).astype(np.int32)
    lets_work = np.isin(own, activities_below("omp_time"))
    for level in tree.levels[1:]:
        above = source[tree.parent[level]]
        is_other = (owner[level] >= 0) & (owner[level] != owner[above])
        is_strange = (owner[level] == UNKNOWN_OWNER) & ~has_name[above]  # nobody said that it waits
        works = lets_work[above] & (is_other | is_strange)
        refines = has_name[level] & ~has_name[above] & IS_BELOW[own[level], own[above]]
        source[level] = np.where(is_sure[level] | (above < 0) | works | refines, source[level], above)
    return source


def _classify_modules(tree: ContextTree) -> tuple[Ids, Ids]:
    """Return the activity that the module of each context says by itself, and whose code it is: the number of the
    module, SYSTEM_OWNER in libraries of the system, which work for all. Lines, loops and inlined functions lie where
    what they are in does."""
    names, module = _name_modules(tree.regions)
    module = module[tree.region]
    for level in tree.levels[1:]:
        is_part = (module[level] == ABSENT) & (tree.relation[level] != Relation.CALL)
        module[level] = np.where(is_part, module[tree.parent[level]], module[level])
    activity = [next((ACTIVITY_IDS[a] for pattern, a in MODULES if pattern.search(name)), ABSENT) for name in names]
    files = {name: name.rpartition("/")[2] for name in names}
    numbers = {file: number for number, file in enumerate(files.values())}
    owner = [SYSTEM_OWNER if SYSTEM.search(name) else numbers[files[name]] for name in names]
    return np.array([*activity, ABSENT], np.int32)[module], np.array([*owner, UNKNOWN_OWNER], np.int32)[module]


def _name_modules(regions: Regions) -> tuple[list[str], Ids]:
    """Return modules, and the number of that of each region with a -1 behind: the one that its name ends with where
    there is no other."""
    module = np.append(regions.module, np.int32(ABSENT))
    added: dict[str, int] = {}
    for region in np.flatnonzero((regions.module < 0) & (regions.name >= 0)).tolist():
        if match := IN_MODULE.search(regions.strings[regions.name[region]]):
            module[region] = added.setdefault(match[1], len(regions.modules) + len(added))
    return [*regions.modules, *added], module


def _classify_regions(regions: Regions) -> tuple[Ids, Bools]:
    """Return the activity that each region says by itself, -1 where it says none, and whether its caller's matters
    not; with a row behind for contexts without a region."""
    modules, module_of = _name_modules(regions)
    is_system = [*(bool(SYSTEM.search(name)) for name in modules), False]
    device = "hip" if any(HIP.match(text) for text in regions.strings) else "cuda"
    known: dict[tuple[int | str, ...], int] = {}
    out, is_sure = np.full(len(regions) + 1, ABSENT, np.int32), np.zeros(len(regions) + 1, np.bool_)
    columns = (regions.kind.tolist(), regions.name.tolist(), module_of[:-1].tolist())
    rows = zip(*columns, regions.text("paradigm"), regions.text("role"), strict=True)
    for region, (kind, name, module, paradigm, role) in enumerate(rows):
        if name < 0:
            continue
        has_paradigm = paradigm.lower() not in ("", "unknown")
        place = _find_place(regions, region) if has_paradigm else ""
        key = kind, name, is_system[module], paradigm, role, place
        if key not in known:
            text = regions.strings[name]
            if has_paradigm:
                activity = _classify_paradigm(paradigm.lower(), role.lower(), text, place)
            else:
                activity = (
                    _classify_name(text, is_system[module]) if kind in NAMED else _classify_kind(kind, text, device)
                )
            known[key] = ACTIVITY_IDS[activity] if activity else ABSENT
        out[region] = known[key]
        is_sure[region] = known[key] >= 0 and (has_paradigm or kind not in NAMED)
    return out, is_sure


def _find_place(regions: Regions, region: int) -> str:
    """Return the file or module of a region: Score-P says there what device operations are."""
    file, module = int(regions.file[region]), int(regions.module[region])
    return regions.files.paths[file] if file >= 0 else regions.modules[module] if module >= 0 else ""


# -- by paradigm and role ----------------------------------------------------------------------------------------------


MPI_ROLES = {
    "barrier": "mpi_sync_collective",
    "point2point": "mpi_point2point",
    **dict.fromkeys(("one2all", "all2one", "all2all", "other collective"), "mpi_collective"),
    **dict.fromkeys(("rma", "atomic"), "mpi_rma_communication"),
}
OPENMP_ROLES = {
    "barrier": "omp_ebarrier",
    "implicit barrier": "omp_ibarrier",
    **dict.fromkeys(("atomic", "critical"), "omp_critical"),
    "ordered": "omp_ordered",
    "taskwait": "omp_taskwait",
    "flush": "omp_flush",
}
SHMEM_ROLES = {
    "rma": "shmem_comm_rma_time",
    "atomic": "shmem_comm_atomic_time",
    **dict.fromkeys(("one2all", "all2one", "all2all", "other collective"), "shmem_comm_coll_time"),
    "barrier": "shmem_sync_coll_time",
    **dict.fromkeys(("allocate", "deallocate", "reallocate"), "shmem_memory_mgmt_time"),
}
IDLE_DEVICE, FLUSHES = "COMPUTE IDLE", ("BUFFER FLUSH", "TRACE BUFFER FLUSH")


def _classify_paradigm(paradigm: str, role: str, name: str, place: str) -> str:
    """Return the activity of a region of Score-P. What no rule names computes."""
    if paradigm in ("measurement", "opencl", "cuda") and name in FLUSHES:
        return "overhead"
    if paradigm == "mpi":
        plain = name.lower().removeprefix("mpi_")
        return (
            _classify_mpi_management(plain)
            or MPI_ROLES.get(role)
            or ("" if role else _classify_mpi_transfer(plain))
            or "mpi"
        )
    if paradigm == "shmem":
        return SHMEM_ROLES.get(role) or _classify_shmem(name) or "shmem_time"
    if paradigm == "openmp":
        return OPENMP_ROLES.get(role) or ("omp_lock_api" if OMP_LOCK.match(name) else "comp")
    if paradigm == "pthread":
        return _classify_pthread(name, SCORE_P_PTHREAD) or "comp"
    if paradigm == "io":
        return "io_meta_time" if role == "file io metadata" else _classify_io(name) or "io_time"
    if paradigm in DEVICE_RULES:
        return _classify_device_region(paradigm, name, place.upper())
    return "libwrap_time" if paradigm.startswith("libwrap:") else "comp"


def _classify_device_region(paradigm: str, name: str, place: str) -> str:
    """Return the activity of a region of an accelerator, whose place may say what it is: `CUDA_KERNEL`."""
    if name == IDLE_DEVICE:
        return "idle_gpus"
    if place == f"{paradigm}_KERNEL".upper() and paradigm != "openacc":
        return f"{paradigm}_kernel_executions"
    if paradigm == "hip" and place in ("HIP_MALLOC", "HIP_MEMCPY", "HIP_SYNC"):
        return place.lower()
    if name in ("DEVICE SYNCHRONIZE", "WAIT FOR COMMAND QUEUE"):
        return f"{paradigm}_sync"
    return _classify_call(paradigm, name) or f"{paradigm}_time"


# -- by name -----------------------------------------------------------------------------------------------------------


NAMED = (ContextKind.FUNCTION, ContextKind.INLINED, ContextKind.REGION)  # whose names are those of functions
PLACEHOLDERS = {
    NO_ACTIVITY: "idle",
    "<omp idle>": "omp_idle_threads",
    "<omp overhead>": "omp_time",
    "<omp barrier wait>": "omp_barrier",
    "<omp task wait>": "omp_taskwait",
    "<omp mutex wait>": "omp_synchronization",
    "<omp tgt alloc>": "alloc",
    "<omp tgt delete>": "alloc",
    "<omp tgt copyin>": "copy",
    "<omp tgt copyout>": "copy",
    "<omp tgt kernel>": "kernel",
    "<gpu alloc>": "alloc",
    "<gpu delete>": "alloc",
    "<gpu copy>": "copy",
    "<gpu copyin>": "copy",
    "<gpu copyout>": "copy",
    "<gpu memset>": "copy",
    "<gpu kernel>": "kernel",
    "<gpu sync>": "sync",
}
OPERATIONS = {
    "cuda": {"alloc": "cuda_comm", "copy": "cuda_comm", "kernel": "cuda_kernel_executions", "sync": "cuda_sync"},
    "hip": {"alloc": "hip_malloc", "copy": "hip_memcpy", "kernel": "hip_kernel_executions", "sync": "hip_sync"},
}
COLLECTIVES = ("nccl", "rccl")  # in the names of kernels
CCL = re.compile(r"(p?nccl|rccl)(?=[A-Z_])|ncclDevKernel|ncclKernel|rcclGenericKernel")


def is_collective(kernel: str) -> bool:
    """Return whether a kernel is one of NCCL or RCCL: it communicates."""
    return any(word in kernel.lower() for word in COLLECTIVES)


def _classify_kind(kind: int, name: str, device: str) -> str:
    """Return the activity of an operation on a device, or of a placeholder."""
    if kind == ContextKind.KERNEL:
        return "nccl_time" if is_collective(name) else OPERATIONS[device]["kernel"]
    if kind == ContextKind.COPY:
        return OPERATIONS[device]["copy"]
    word = PLACEHOLDERS.get(name, "")
    return OPERATIONS[device].get(word, word)


def classify_call(name: str) -> int:
    """Return the activity that the name of a call, a marker or a region says by itself, as its number in ACTIVITIES;
    -1 where it says none."""
    activity = _classify_name(name, False)
    return ACTIVITY_IDS[activity] if activity else ABSENT


PREFIXES = re.compile(r"^_*(GI_+)?(libc_|IO_|new_)?")
CALLED = re.compile(r"(?<=^MPI_)(\w+)\(\)$")  # TAU's own names of MPI functions: `MPI_Init()`
SUFFIXES = re.compile(r"(@.*|_nocancel|_v\d+)$")


def _classify_name(name: str, is_system: bool) -> str:
    """Return the activity that the name of a function says, empty where it says none. `is_system`: it lies in a library
    of the system, such as that of C."""
    if name.startswith("!$omp"):
        return OPENMP_ROLES.get(_read_construct(name), "comp")
    name = CALLED.sub(r"\1", IN_MODULE.sub("", name))
    if "(" in name or " " in name:  # a demangled function of C++
        return ""
    plain = SUFFIXES.sub("", name)
    for rule in RULES:
        if activity := rule(plain):
            return activity
    bare = PREFIXES.sub("", plain)
    return _classify_pthread(bare, PTHREAD) or (_classify_io(bare.removesuffix("64")) if is_system else "")


def _read_construct(name: str) -> str:
    """Return the construct in the name of an OpenMP region: `!$omp implicit barrier @a.c:7`."""
    words = name.removeprefix("!$omp").split("@")[0].strip()
    return {"ibarrier": "implicit barrier", "end parallel": "implicit barrier"}.get(words, words)


MPI_NAME = re.compile(r"(?:pmpix?|mpix?)_(\w+?)_*$", re.IGNORECASE)
MPI_ENDINGS = re.compile(r"(_f08(ts)?|_c)$")


def _classify_mpi(name: str) -> str:
    match = MPI_NAME.match(name)
    if not match:
        return ""
    plain = MPI_ENDINGS.sub("", match[1].lower())
    known = _classify_mpi_management(plain) or _classify_mpi_transfer(plain)
    return known or ("mpi" if name.startswith(("MPI", "PMPI")) else "")  # modules of users begin with mpi_ as well


MPI_REQUESTS = {
    **dict.fromkeys(("start", "startall"), "mpi_request_start"),
    **dict.fromkeys([f"{verb}{which}" for verb in ("test", "wait") for which in ("", "all", "any", "some")], ""),
    **dict.fromkeys(("cancel", "request_free", "request_get_status"), ""),
    "test_cancelled": "mpi_request_handling",
}
ACTIVE, PASSIVE = ("complete", "fence", "post", "start", "test", "wait"), ("flush", "lock", "unlock", "sync")
MPI_STARTUP = re.compile(r"(init(_thread|ialized)?|finalized?|session_\w+)$")
MPI_COMMUNICATORS = re.compile(
    r"(comm|cart|cartdim|dims|dist_graph|graph|graphdims|intercomm|topo)_\w+$|\w+_(port|name)$"
)


def _classify_mpi_management(name: str) -> str:
    """Return the activity of an MPI function, in lower case without its prefix, that moves no message itself: set-up,
    requests, files, windows."""
    if name in MPI_REQUESTS:
        return MPI_REQUESTS[name] or "mpi_request_completion"
    if "errhandler" in name:
        return ""
    if name.startswith("file_") or name == "register_datarep":
        return _classify_mpi_file(name)
    if name.startswith("win_"):
        word = name.removeprefix("win_").split("_")[0]
        return (
            f"mpi_rma_sync_{'active' if word in ACTIVE else 'passive'}"
            if word in (*ACTIVE, *PASSIVE)
            else "mpi_mgmt_win"
        )
    if MPI_STARTUP.match(name):
        return "mpi_init_exit"
    return "mpi_mgmt_comm" if MPI_COMMUNICATORS.match(name) and name != "get_processor_name" else ""


def _classify_mpi_file(name: str) -> str:
    if not re.match(r"file_i?(read|write)", name):
        return "mpi_mgmt_file"
    return "mpi_io_collective" if re.search(r"_(all|ordered)", name) else "mpi_io_individual"


POINT_TO_POINT = re.compile(
    r"(i?[bsr]?send|i?m?recv|i?sendrecv(_replace)?|i?m?probe|parrived|pready(_list|_range)?|p?([bsr]?send|recv)_init)$"
)
COLLECTIVE = re.compile(
    r"i?(neighbor_)?(bcast|scatterv?|gatherv?|(all)?reduce|reduce_scatter(_block)?|allgatherv?|alltoall[vw]?|(ex)?scan)"
    r"(_init)?$"
)
ONE_SIDED = re.compile(r"r?(put|get|accumulate|get_accumulate)$|fetch_and_op$|compare_and_swap$")


def _classify_mpi_transfer(name: str) -> str:
    """Return the activity of an MPI function, in lower case without its prefix, that moves data or synchronises."""
    if re.match(r"i?barrier(_init)?$", name):
        return "mpi_sync_collective"
    if POINT_TO_POINT.match(name):
        return "mpi_point2point"
    if COLLECTIVE.match(name):
        return "mpi_collective"
    return "mpi_rma_communication" if ONE_SIDED.match(name) else ""


# -- by name, from tables of patterns ----------------------------------------------------------------------------------
# The first pattern that a name begins with counts; patterns end with $ where the whole name must match.


def _make_table(**patterns: str) -> list[tuple[str, re.Pattern[str]]]:
    return [(activity, re.compile(pattern)) for activity, pattern in patterns.items()]


def _look_up(table: list[tuple[str, re.Pattern[str]]], name: str) -> str:
    return next((activity for activity, pattern in table if pattern.match(name)), "")


SHMEM = _make_table(
    shmem_mgmt_initfini_time=r"shmem_(init|finalize)|start_pes$",
    shmem_mgmt_activesets_time=r"(shmem_|_)?(my_pe|num_pes|n_pes)$|shmem_team_(?!sync)",
    shmem_mgmt_query_time=r"shmem_((pe|adr|addr)_accessible|ptr)$",
    shmem_sync_coll_time=r"shmem_(barrier|sync|team_sync)",
    shmem_sync_rma_time=r"shmem_?\w*wait",
    shmem_sync_locking_time=r"shmem_(set|test|clear)_lock",
    shmem_memory_ordering_time=r"shmem_(fence|quiet)",
    shmem_event_time=r"shmem_(set|test|clear|wait)_event",
    shmem_cache_time=r"shmem_((clear|set)_cache|udcflush)",
    shmem_memory_mgmt_time=r"shmem_(malloc|calloc|free|align|realloc)|shmalloc$|shfree$|shmemalign$|shrealloc$",
    shmem_comm_atomic_time=r"shmem_\w*(atomic|swap|fadd|finc|fetch|_inc$|_add$)",
    shmem_comm_coll_time=r"shmem_\w*(broadcast|f?collect|alltoall|to_all|reduce)",
    shmem_comm_rma_time=r"shmem_\w*(put|get|_p$|_g$)",
    shmem_time=r"shmem_",
)
OMP_LOCK = re.compile(r"omp_(destroy|init|set|test|unset)(_nest)?_lock$")
OPENMP = _make_table(
    omp_lock_api=OMP_LOCK.pattern,
    omp_ebarrier=r"GOMP_barrier|__kmpc_barrier|__kmpc_cancel_barrier|_mp_barrier|gomp_(team_)?barrier_wait(?!_end)",
    omp_ibarrier=r"GOMP_(loop|sections)_end(?!_nowait)|gomp_team_end|gomp_(team_)?barrier_wait_end|gomp_simple_barrier"
    r"|__kmp_(join_|fork_|hyper_|linear_|tree_|hierarchical_|dist_)?barrier|__kmp_wait|__kmp_suspend|__kmp_\w*_wait",
    omp_critical=r"GOMP_(critical(_name)?|atomic)_start|__kmpc_critical|__kmp_acquire_\w*lock|gomp_mutex_lock",
    omp_ordered=r"GOMP_(doacross_)?ordered_start|__kmpc_ordered|GOMP_doacross_wait|__kmpc_doacross_wait",
    omp_taskwait=r"GOMP_(taskwait|taskgroup_end)|__kmpc_(omp_taskwait|end_taskgroup)",
    omp_flush=r"__kmpc_flush",
)
SCORE_P_PTHREAD = _make_table(
    pthread_management=r"pthread_(cancel|create|detach|exit|join)$",
    pthread_lock_api=r"pthread_mutex_(destroy|init|lock|trylock|unlock)$",
    pthread_conditional=r"pthread_cond_(broadcast|destroy|init|signal|timedwait|wait)$",
)
PTHREAD = [
    *SCORE_P_PTHREAD,
    *_make_table(
        pthread_management=r"pthread_(\w*join\w*|timedjoin)$",
        pthread_lock_api=r"pthread_(mutex|rwlock|spin)_\w*lock$|lll_lock_wait",
        pthread_conditional=r"pthread_cond_\w*wait|futex_\w*wait",
        pthread_synchronization=r"pthread_barrier_wait|pthread_\w+_wait$|sem_(timed|clock)?wait$",
    ),
]
IO = _make_table(
    io_reading_time=r"(aio_read|fgetw?[cs]|fread|v?f?scanf|getw?c|getchar|getline|getdelim|gets|pread(v2?)?|readv?)"
    r"(_unlocked|_chk)?$",
    io_writing_time=r"(aio_write|fflush|v?f?printf|fputw?[cs]|fwrite|putw?c|putchar|puts|pwrite(v2?)?|writev?|fsync"
    r"|fdatasync)(_unlocked|_chk)?$",
    io_meta_time=r"(open(at)?|creat|close|fopen|fdopen|freopen|fclose|l?seek|fseeko?|ftello?|rewind|[fl]?stat|fstatat"
    r"|unlink(at)?|rename|mkdir|truncate|ftruncate|opendir|readdir|closedir)$",
)
IO_LIBRARIES = _make_table(
    io_writing_time=r"(H5[A-Z]+|nc(mpi)?)_?\w*([wW]rite|_put_)",
    io_reading_time=r"(H5[A-Z]+|nc(mpi)?)_?\w*([rR]ead|_get_var)",
    io_meta_time=r"H5[A-Z]{1,2}[a-z_]\w*$|nc(mpi)?_[a-z]\w*$",
)
CUDA_MEMORY = r"Memcpy|Malloc|Free|Host(Alloc|Get|Register|Unregister)|Mem(?!set)|Array|Mipmapped|Ipc|Pointer|GetSymbol"
CUDA_SET_UP = (
    r"Init|Device|GetDevice|SetDevice|ChooseDevice|SetValid|Thread|Stream|Event|Ctx|Func|Occupancy|Driver|Runtime|Module"
    r"|Library|Kernel|Graph|Primary|Link|Profiler|GetLastError|PeekAtLastError|GetError|GetProcAddress"
)
DEVICE_RULES = {
    "cuda": _make_table(
        cuda_sync=r"cu(da)?[A-Z]\w*Synchronize|cu(da)?StreamWaitEvent",
        cuda_kernel_launches=r"cu(da)?(Launch|Memset|GraphLaunch|GetParameterBuffer)",
        cuda_comm=rf"cu(da)?({CUDA_MEMORY})",
        cuda_setup=rf"cu(da)?({CUDA_SET_UP})",
        cuda_time=r"cuda[A-Z]",
    ),
    "hip": _make_table(
        hip_sync=r"hip\w*Synchronize|hipStreamWaitEvent|hsa_signal_wait|hsa_amd_signal_wait",
        hip_kernel_launches=r"hip(Ext|Hcc)?(Module)?Launch|hipGraphLaunch",
        hip_malloc=r"hip(Ext)?(Host)?(Malloc|Free|HostAlloc)|hipMemAlloc|hsa_(amd_)?memory_(pool_)?(allocate|free)",
        hip_memcpy=r"hip(Memcpy|Memset|MemPrefetch)|hsa_(amd_)?memory_(async_)?copy",
        hip_stream=r"hip(Init|ExtStream|Stream|SetDevice|GetDevice|Device|Event)",
        hip_time=r"hip[A-Z]|hsa_",
    ),
    "opencl": _make_table(
        opencl_sync=r"cl(Finish|WaitForEvents|Enqueue(WaitForEvents|Barrier|Marker))",
        opencl_kernel_launches=r"cl(SetKernel|Enqueue(NDRangeKernel|Task|NativeKernel))",
        opencl_comm=r"cl(Enqueue(Read|Write|Fill|Copy|Map|Unmap|Migrate|SVM)|SVM|Create(Buffer|SubBuffer|Pipe|Image|Sampler))"
        r"|cl(Retain|Release)(MemObject|Sampler)",
        opencl_setup=r"cl(Get|Create|Retain|Release|Build|Compile|Link|Set|Flush|Unload|Clone)[A-Z]?",
    ),
    "openacc": _make_table(
        openacc_setup=r"acc_(init|shutdown)(@|$)",
        openacc_comm=r"acc_(upload|download)(@|$)",
        openacc_sync=r"acc_wait(@|$)",
        openacc_kernel_launches=r"acc_launch_kernel(@|$)",
    ),
}
HIP = re.compile(r"hip[A-Z]|hsa_")


def _classify_shmem(name: str) -> str:
    return _look_up(SHMEM, name.removeprefix("p") if name.startswith("pshmem_") else name)


def _classify_openmp(name: str) -> str:
    return _look_up(OPENMP, name)


def _classify_pthread(name: str, table: list[tuple[str, re.Pattern[str]]]) -> str:
    return _look_up(table, name)


def _classify_io(name: str) -> str:
    return _look_up(IO, name)


def _classify_io_library(name: str) -> str:
    return _look_up(IO_LIBRARIES, name)


def _classify_call(paradigm: str, name: str) -> str:
    return _look_up(DEVICE_RULES[paradigm], name)


def _classify_device_call(name: str) -> str:
    return next((found for paradigm in DEVICE_RULES if (found := _classify_call(paradigm, name))), "")


def _classify_other_library(name: str) -> str:
    """Return the activity of a function of GASPI, NCCL or RCCL."""
    return "nccl_time" if CCL.match(name) else "gaspi_time" if re.match(r"p?gaspi_", name) else ""


RULES: tuple[Callable[[str], str], ...] = (
    *(
        _classify_mpi,
        _classify_shmem,
        _classify_openmp,
        _classify_device_call,
        _classify_io_library,
        _classify_other_library,
    ),
)


# -- by module ---------------------------------------------------------------------------------------------------------


SYSTEM_OWNER, UNKNOWN_OWNER = -2, -1
IN_MODULE = re.compile(r"(?<=\S) \[(?!clone )([^\[\]]+)\]$")
_LIBRARY = r"(^|/)lib(%s)[-.\d_]*(so|a\b|dylib)"
MPI_LIBRARIES = r"p?mpi(_\w+|P|cxx|fort|g[cfi]|ilp64|java)?|mpich\w*|open-(pal|rte)|pmix|mca\w*"
NETWORKS = r"uc[pmst]|psm\w*|fabric|ibverbs|mlx\d|dmapp|ugni"
MODULES = (
    (re.compile(_LIBRARY % rf"{MPI_LIBRARIES}|{NETWORKS}" + r"|(^|/)mca_\w+\.so"), "mpi"),
    (re.compile(_LIBRARY % r"gomp|i?omp\d?|nvomp|xlsmp\w*|craymp"), "omp_time"),
    (re.compile(_LIBRARY % r"[nr]ccl(-net)?"), "nccl_time"),
)
SYSTEM = re.compile(r"(^|/)(lib(c|pthread|rt|m|dl)[-.]|ld-|ld64|linux-vdso|\[?vdso|vmlinu)|^<?\[?(linux[ _])?kernel")
