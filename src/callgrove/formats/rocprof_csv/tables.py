"""The files: names, columns, and what each cell is made of.

There are two layouts, each that of a converter of rocprofv3's databases (`rocpd convert --output-format csv`):

    2025    that of rocprofiler-sdk 1.0.0, ROCm 7.0: a file for the calls of each domain
    2026    that of rocm-systems at commit 219e01e: one file for all regions, Duration, and graph ids of kernels and
            copies where the database has them; words of headers begin with one capital letter

A column is (header, what). What a cell is made of:

    "=TEXT"         that text, quoted
    "@word"         of the profile, quoted: guid, agent, host
    "#word"         of the profile, a number: pid, tid, stream, queue, rank
    "$word"         a text of the record by its number, quoted: name, label, category, operation, ...
    "word"          a number of the record, empty where it is below 0
    "*word"         the product of word_x, word_y and word_z
    "0x word"       an address with all its digits, quoted; with large letters "0X word"
    "~word"         a number with a fraction
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

__all__ = ["AGENT_FILE", "ALL_FILES", "Columns", "FileTable", "Layout", "layout_of"]

Columns = tuple[tuple[str, str], ...]

AGENT_FILE = "agent_info.csv"

TIMES: Columns = (("Start_Timestamp", "start_ns"), ("End_Timestamp", "end"))
REGISTERS: Columns = (
    ("LDS_Block_Size", "lds"),
    ("Scratch_Size", "scratch"),
    ("VGPR_Count", "vgpr"),
    ("Accum_VGPR_Count", "accum_vgpr"),
    ("SGPR_Count", "sgpr"),
)
WHO: Columns = (("Rank", "#rank"), ("Host", "@host"))


@dataclass(frozen=True)
class FileTable:
    """One file. `sides`: the columns that records take from the side table of that name; `extended` ones come last."""

    name: str
    columns: Columns
    side: str = ""
    sides: tuple[str, ...] = ()
    extended: Columns = WHO

    @property
    def file(self) -> str:
        return f"{self.name}.csv"


SHAPE = tuple(f"{word}_{axis}" for word in ("workgroup", "grid") for axis in "xyz")
KERNEL_SIDES = ("dispatch", "kernel", "queue", "thread", "lds", "scratch", "vgpr", "accum_vgpr", "sgpr", *SHAPE)

KERNELS = FileTable(
    "kernel_trace",
    (
        ("Guid", "@guid"),
        ("Kind", "=KERNEL_DISPATCH"),
        ("Agent_Id", "@agent"),
        ("Queue_Id", "queue"),
        ("Stream_Id", "#stream"),
        ("Thread_Id", "thread"),
        ("Dispatch_Id", "dispatch"),
        ("Kernel_Id", "kernel"),
        ("Kernel_Name", "$name"),
        ("Correlation_Id", "correlation"),
        *TIMES,
        *REGISTERS,
        *((f"Workgroup_Size_{axis}", f"workgroup_{axis.lower()}") for axis in "XYZ"),
        *((f"Grid_Size_{axis}", f"grid_{axis.lower()}") for axis in "XYZ"),
    ),
    side="kernel",
    sides=KERNEL_SIDES,
)
COPIES = FileTable(
    "memory_copy_trace",
    (
        ("Guid", "@guid"),
        ("Kind", "=MEMORY_COPY"),
        ("Direction", "$name"),
        ("Stream_Id", "#stream"),
        ("Source_Agent_Id", "$source"),
        ("Destination_Agent_Id", "$destination"),
        ("Correlation_Id", "correlation"),
        *TIMES,
    ),
    side="copy",
    sides=("source", "destination", "bytes"),
    extended=(*WHO, ("Size", "bytes"), ("Bandwidth_GBs", "~bandwidth")),
)
ALLOCATIONS = FileTable(
    "memory_allocation_trace",
    (
        ("Guid", "@guid"),
        ("Kind", "=MEMORY_ALLOCATION"),
        ("Operation", "$operation"),
        ("Agent_Id", "$device"),
        ("Allocation_Size", "bytes"),
        ("Address", "0x address"),
        ("Correlation_Id", "correlation"),
        *TIMES,
    ),
    side="alloc",
    sides=("bytes", "address", "device"),
)
SCRATCH = FileTable(
    "scratch_memory_trace",
    (
        ("Kind", "=SCRATCH_MEMORY"),
        ("Operation", "$scratch_operation"),
        ("Agent_Id", "$device"),
        ("Queue_Id", "queue"),
        ("Thread_Id", "#tid"),
        ("Alloc_Flags", "flags"),
        *TIMES,
    ),
    side="alloc",
    sides=("device", "queue", "flags"),
)
CALLS: Columns = (
    ("Guid", "@guid"),
    ("Domain", "$category"),
    ("Function", "$label"),
    ("Process_Id", "#pid"),
    ("Thread_Id", "#tid"),
    ("Correlation_Id", "correlation"),
    *TIMES,
)
API = {  # by the word that categories of the domain begin with
    domain: FileTable(f"{domain.lower()}_api_trace", CALLS)
    for domain in ("HIP", "HSA", "MARKER", "RCCL", "ROCDECODE", "ROCJPEG")
}
OF_DISPATCH: Columns = (
    ("Pid", "@guid"),  # rocprofv3 puts the identifier there as well
    ("Correlation_Id", "correlation"),
    ("Dispatch_Id", "dispatch"),
    ("Agent_Id", "@agent"),
    ("Queue_Id", "queue"),
    ("Process_Id", "#pid"),
    ("Thread_Id", "thread"),
    ("Grid_Size", "*grid"),
    ("Kernel_Id", "kernel"),
    ("Kernel_Name", "$name"),
    ("Workgroup_Size", "*workgroup"),
    *REGISTERS,
)
COUNTERS = FileTable(
    "counter_collection",
    (*OF_DISPATCH, ("Counter_Name", "$counter"), ("Counter_Value", "~value"), *TIMES),
    side="kernel",
    sides=KERNEL_SIDES,
)
WIDE = FileTable("counter_wide", (*OF_DISPATCH, *TIMES), side="kernel", sides=KERNEL_SIDES)  # then the counters

# Of a device: header -> the word of the profiler, where it is not the header in small letters.
AGENT_WORDS = {
    "Node_Id": "absolute_index",
    "Logical_Node_Id": "logical_index",
    "Agent_Type": "type",
}
AGENT_TEXTS = ("Agent_Type", "Name", "Vendor_Name", "Product_Name", "Model_Name")
AGENT_INFO: tuple[str, ...] = (
    *("Guid", "Node_Id", "Logical_Node_Id", "Agent_Type", "Cpu_Cores_Count", "Simd_Count", "Cpu_Core_Id_Base"),
    *("Simd_Id_Base", "Max_Waves_Per_Simd", "Lds_Size_In_Kb", "Gds_Size_In_Kb", "Num_Gws", "Wave_Front_Size"),
    *("Num_Xcc", "Cu_Count", "Array_Count", "Num_Shader_Banks", "Simd_Arrays_Per_Engine", "Cu_Per_Simd_Array"),
    *("Simd_Per_Cu", "Max_Slots_Scratch_Cu", "Gfx_Target_Version", "Vendor_Id", "Device_Id", "Location_Id"),
    *("Domain", "Drm_Render_Minor", "Num_Sdma_Engines", "Num_Sdma_Xgmi_Engines", "Num_Sdma_Queues_Per_Engine"),
    *("Num_Cp_Queues", "Max_Engine_Clk_Ccompute", "Max_Engine_Clk_Fcompute", "Sdma_Fw_Version", "Fw_Version"),
    *("Capability", "Cu_Per_Engine", "Max_Waves_Per_Cu", "Family_Id", "Workgroup_Max_Size", "Grid_Max_Size"),
    *("Local_Mem_Size", "Hive_Id", "Gpu_Id", "Workgroup_Max_Dim_X", "Workgroup_Max_Dim_Y"),
    *("Workgroup_Max_Dim_Z", "Grid_Max_Dim_X", "Grid_Max_Dim_Y", "Grid_Max_Dim_Z", "Name", "Vendor_Name"),
    *("Product_Name", "Model_Name"),
)


CAPABILITIES = (  # of an agent, in the order of the converter of 2026
    *("HotPluggable", "HSAMMUPresent", "SharedWithGraphics", "QueueSizePowerOfTwo", "QueueSize32bit"),
    *("QueueIdleEvent", "VALimit", "WatchPointsSupported", "WatchPointsTotalBits", "DoorbellType"),
    *("AQLQueueDoubleMap", "DebugTrapSupported", "WaveLaunchTrapOverrideSupported", "WaveLaunchModeSupported"),
    *("PreciseMemoryOperationsSupported", "DEPRECATED_SRAM_EDCSupport", "Mem_EDCSupport", "RASEventNotify"),
    *("ASICRevision", "SRAM_EDCSupport", "SVMAPISupported", "CoherentHostAccess", "DebugSupportedFirmware"),
    *("PreciseALUOperationsSupported", "PerQueueResetSupported"),
)
GRAPH_SIDES = ("graph_exec", "graph_node")
GRAPHS: Columns = (("Graph_Exec_Id", "graph_exec"), ("Graph_Node_Id", "graph_node"))


@dataclass(frozen=True)
class Layout:
    """All files of one converter. `calls` are by the word that categories begin with; `regions` is for all of them.
    `agents`: header, the profiler's word, and whether it is a text, of all columns but the first."""

    kernels: FileTable
    copies: FileTable
    allocations: FileTable
    scratch: FileTable
    counters: FileTable
    wide: FileTable
    agents: tuple[tuple[str, str, bool], ...]
    calls: Mapping[str, FileTable] = field(default_factory=dict)
    regions: FileTable | None = None

    @property
    def files(self) -> tuple[FileTable, ...]:
        """In the order in which they are written."""
        calls = (*self.calls.values(), *([self.regions] if self.regions else []))
        return (self.kernels, self.copies, self.allocations, self.scratch, *calls, self.counters, self.wide)


def layout_of(year: str, *, graphs: bool = False) -> Layout:
    """Return the layout of a year; that of 2026 with or without graph ids."""
    return _of_2026(graphs) if year == "2026" else _OF_2025


def _agent_columns(headers: tuple[str, ...], words: Mapping[str, str]) -> tuple[tuple[str, str, bool], ...]:
    words = {**AGENT_WORDS, **words}
    return tuple((name, words.get(name, name.lower()), name in AGENT_TEXTS) for name in headers)


_OF_2025 = Layout(KERNELS, COPIES, ALLOCATIONS, SCRATCH, COUNTERS, WIDE, _agent_columns(AGENT_INFO[1:], {}), calls=API)


def _of_2026(graphs: bool) -> Layout:
    kernels, copies = _with_titles(KERNELS), _with_titles(COPIES)
    kernels = _insert_columns(kernels, "End_Timestamp", (("Duration", "duration"),))
    if graphs:
        kernels, copies = (_insert_columns(table, "Stream_Id", GRAPHS, GRAPH_SIDES) for table in (kernels, copies))
    allocations = replace(
        ALLOCATIONS,
        columns=tuple(
            (name, {"$operation": "$leveled_operation", "0x address": "0X address"}.get(what, what))
            for name, what in ALLOCATIONS.columns
        ),
        sides=(*ALLOCATIONS.sides, "virtual"),
    )
    guid = ("Guid", "@guid")
    first = AGENT_INFO.index("Capability")
    headers = (*AGENT_INFO[1:first], *(f"Cap_{word}".title() for word in CAPABILITIES), *AGENT_INFO[first + 1 :])
    words = {f"Cap_{word}".title(): f"capability_{word}" for word in CAPABILITIES}
    words |= {"Sdma_Fw_Version": "sdma_fw_version_uCodeSDMA", "Fw_Version": "fw_version_uCode"}
    return Layout(
        kernels,
        copies,
        allocations,
        replace(SCRATCH, columns=(guid, *SCRATCH.columns)),
        replace(
            _with_titles(COUNTERS), name="counter_collection_trace", columns=(guid, *_with_titles(COUNTERS).columns[1:])
        ),
        replace(_with_titles(WIDE), columns=(guid, *_with_titles(WIDE).columns[1:])),
        _agent_columns(_swap(headers, "Family_Id", "Workgroup_Max_Size"), words),
        regions=FileTable("regions_trace", CALLS),
    )


def _with_titles(table: FileTable) -> FileTable:
    return replace(table, columns=tuple((name.title(), what) for name, what in table.columns))


def _insert_columns(table: FileTable, after: str, columns: Columns, sides: tuple[str, ...] = ()) -> FileTable:
    """Return the table with further columns behind one of them."""
    place = [name for name, _ in table.columns].index(after) + 1
    made = (*table.columns[:place], *columns, *table.columns[place:])
    return replace(table, columns=made, sides=(*table.sides, *sides))


def _swap(names: tuple[str, ...], one: str, other: str) -> tuple[str, ...]:
    return tuple({one: other, other: one}.get(name, name) for name in names)


ALL_FILES = tuple(dict.fromkeys([table.file for year in ("2025", "2026") for table in layout_of(year).files]))
