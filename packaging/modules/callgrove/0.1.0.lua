-- callgrove for Lmod. Install once, then put this file where MODULEPATH leads, as callgrove/0.1.0.lua:
--     python3.11 -m venv PREFIX && PREFIX/bin/python -m pip install callgrove-0.1.0-py3-none-any.whl
--     mkdir PREFIX/libexec && ln -s ../bin/callgrove ../bin/rocprofv3-merge PREFIX/libexec
local version = "0.1.0"
local prefix = os.getenv("CALLGROVE_PREFIX") or pathJoin("/opt/callgrove", version)

help([[callgrove opens what HPC profilers write. Begin with: callgrove PATH; callgrove help lists the pages.]])
whatis("Name: callgrove")
whatis("Version: " .. version)
whatis("Description: open, query, compare, convert and model what HPC profilers write")
conflict("callgrove")

-- Only its programs: the environment's python must not hide the user's. man finds its pages beside them.
prepend_path("PATH", pathJoin(prefix, "libexec"))
