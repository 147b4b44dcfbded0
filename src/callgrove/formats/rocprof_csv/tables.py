"""The files: names, columns, and what each cell is made of.

A column is (header, what). What a cell is made of:

    "=TEXT"         that text, quoted
    "@word"         of the profile, quoted: guid, agent, host
    "#word"         of the profile, a number: pid, tid, stream, queue, rank
    "$word"         a text of the record by its number, quoted: name, label, category, operation, ...
    "word"          a number of the record, empty where it is below 0
    "*word"         the product of word_x, word_y and word_z
    "0x word"       an address with all its digits, quoted
    "~word"         a number with a fraction
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["AGENT_FILE", "AGENT_INFO", "API", "COUNTERS", "FILES", "WIDE", "Columns", "FileTable", "agent_columns"]

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
API = {  # by the word that categories of the domain begin with
    domain: FileTable(
        f"{domain.lower()}_api_trace",
        (
            ("Guid", "@guid"),
            ("Domain", "$category"),
            ("Function", "$label"),
            ("Process_Id", "#pid"),
            ("Thread_Id", "#tid"),
            ("Correlation_Id", "correlation"),
            *TIMES,
        ),
    )
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
    "Max_Engine_Clk_Ccompute": "max_engine_clk_ccompute",
    "Max_Engine_Clk_Fcompute": "max_engine_clk_fcompute",
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


def agent_columns() -> list[tuple[str, str, bool]]:
    """Header, the profiler's word, and whether it is a text; the first column is the process's."""
    return [(name, AGENT_WORDS.get(name, name.lower()), name in AGENT_TEXTS) for name in AGENT_INFO[1:]]


FILES: tuple[FileTable, ...] = (KERNELS, COPIES, ALLOCATIONS, SCRATCH, *API.values(), COUNTERS, WIDE)
