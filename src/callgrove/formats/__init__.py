"""Formats: one package per tool, found through the registry.

The modules, in the order to read them:

    interface.py  what a format is: match, read, dump, check, write
    registry.py   the list of formats, and opening a path
    detection.py  which format a path holds, and files that are not supported
    run_names.py  names of runs that say their parameters; the one input in a folder
    plausibility.py  what `check` finds strange in experiments of any format
    plugins.py    formats that other packages bring
    text_profiles.py  what readers of text profiles share: blocks of lines, call paths, what was left out
    runs.py       folders of runs at several parameter points, in any format that holds an execution
    writing/      from an experiment to a target
    hpctoolkit/   HPCToolkit databases: pre-release, released and legacy
    hpcrun/       HPCToolkit measurements, traces and structure files
    cube/         Cube 4 of Score-P, Scalasca and CubeLib
    extrap/       Extra-P's files of series
    events/       recorded events of any tool: data sets -> experiment
    gpu/          GPU traces in SQLite: rocpd, its draft, RPD, Nsight Systems
    timeline/     traces for viewers: Perfetto, Chrome, OTF2
    caliper/      records and JSON-split of Caliper
    tau.py        profiles of TAU
    extra_prof.py profiles of Extra-Prof, Extra-P's own profiler
    stacks/       costs of call stacks: folded, perf script; for viewers speedscope, pprof, Graphviz
    rocprof_csv/  the CSV files of rocprofv3
    columnar/     our own folder of Parquet tables
"""
