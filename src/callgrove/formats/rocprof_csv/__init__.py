"""The CSV files of rocprofv3: a file for each domain, a row for each event.

Specification: gpu-traces.md 3.9, trace-outputs.md 4 and 9.

    OUT_kernel_trace.csv              kernels                         OUT is a folder: the same names without OUT_
    OUT_memory_copy_trace.csv         copies
    OUT_memory_allocation_trace.csv   allocations, but scratch        OUT_scratch_memory_trace.csv   scratch
    OUT_hip_api_trace.csv             calls; also hsa, marker, rccl, rocdecode, rocjpeg (2026: OUT_regions_trace.csv)
    OUT_counter_collection.csv        a row for each counter of each kernel (2026: OUT_counter_collection_trace.csv)
    OUT_counter_wide.csv              ours: a row for each kernel, a column for each counter
    OUT_agent_info.csv                what is known of devices

The modules, in the order to read them:

    format.py  the format of the registry: spans in, files out
    tables.py  the columns of every file in both layouts (2025, 2026), and what each cell is made of
    rows.py    spans as rows of the file that they belong to, and the file about devices

Rows are in the order of processes, then of start, then of spans. UTF-8, lines end with LF; texts are quoted, with
quotes inside doubled (rocprofv3 leaves them as they are); numbers are not; what is not known is empty, such as the end
of what never ended. A file appears only if it has a row. Cells that a spreadsheet takes for a formula are not altered.
Spans that end before they start, or lie outside of 63 bits, are left out and counted, as is what has no file (memsets,
synchronisation, samples, quantities over time; in 2025 host regions and calls of other domains) or no column.
"""
