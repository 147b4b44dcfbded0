# `make recipes` fills in version and digest, and writes build/recipes/spack/py_callgrove/package.py.
from spack.package import *
from spack_repo.builtin.build_systems.python import PythonPackage


class PyCallgrove(PythonPackage):
    """Opens what HPC profilers write (HPCToolkit, Score-P, rocprofv3, Nsight Systems, Extra-P and others) as one kind
    of experiment: query, compare, convert and model it."""

    pypi = "callgrove/callgrove-@VERSION@.tar.gz"

    license("BSD-3-Clause", checked_by="callgrove")

    version("@VERSION@", sha256="@SHA256@")

    # No variants for extras whose packages Spack lacks (sql, otf2, mcp, zstd) or has in versions too old (elf, fast).
    variant("arrow", default=False, description="Read and write Parquet and Arrow tables")
    variant("dask", default=False, description="Work on a Dask cluster")
    variant("explore", default=False, description="Look around in a terminal")
    variant("mpi", default=False, description="Work on MPI processes")
    variant("networkx", default=False, description="Give call trees as graphs")
    variant("pandas", default=False, description="Give tables as data frames")
    variant("plots", default=False, description="Write pictures as PNG and PDF")
    variant("polars", default=False, description="Give tables as Polars frames")
    variant("viewer", default=False, description="Serve pages to a browser")

    depends_on("python@3.11:", type=("build", "run"))
    depends_on("py-hatchling@1.27:", type="build")
    depends_on("py-numpy@2.0:", type=("build", "run"))

    depends_on("py-pyarrow@16:", when="+arrow", type="run")
    depends_on("py-dask@2024.4:", when="+dask", type="run")
    depends_on("py-distributed@2024.4:", when="+dask", type="run")
    depends_on("py-textual@1.0:", when="+explore", type="run")
    depends_on("py-mpi4py@4.0:", when="+mpi", type="run")
    depends_on("py-networkx@3.2:", when="+networkx", type="run")
    depends_on("py-pandas@2.2.2:", when="+pandas", type="run")
    depends_on("py-cairosvg@2.7:", when="+plots", type="run")
    depends_on("py-polars@1.0:", when="+polars", type="run")
    depends_on("py-starlette@0.40:", when="+viewer", type="run")
    depends_on("py-uvicorn@0.31.1:", when="+viewer", type="run")
