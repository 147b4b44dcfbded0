#!/usr/bin/env bash
# Run tests with the oldest versions that pyproject.toml declares, or with the newest, on a Python of your choice:
#
#     bash .ci/oldest.sh [oldest|newest] [PYTHON] [TEST...]      python3.11 and the tests below by default
#
# The environment is build/VERSIONS-PYTHON, made anew.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
versions=${1:-oldest}
python=${2:-python3.11}
shift $(($# > 2 ? 2 : $#))
tests=("$@")
if [ "${#tests[@]}" = 0 ]; then
    tests=(tests/model tests/algebra tests/frames tests/query tests/formats/columnar tests/formats/timeline tests/cli/test_verbs.py tests/test_library.py)
fi

folder=build/$versions-$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
rm -rf "$folder"
"$python" -m venv "$folder"
run() { "$folder/bin/python" "$@"; }
# What runs the tests is new; what callgrove uses is as old as it may be.
run -m pip install --quiet pytest pytest-timeout hypothesis pytest-xdist pyyaml
if [ "$versions" = oldest ]; then
    run packaging/oldest.py >"$folder/oldest.txt"
    # mpi4py has wheels since 4.1; older ones are compiled with the MPI of the machine.
    command -v mpicc >/dev/null || sed -i '/^mpi4py/d' "$folder/oldest.txt"
    run -m pip install --quiet --requirement "$folder/oldest.txt"
    run -m pip install --quiet --no-deps .
else
    run -m pip install --quiet --upgrade '.[all]'
fi
run -m pip list 2>/dev/null | grep -iE '^(numpy|pandas|pyarrow|duckdb|polars|networkx|dask|otf2|textual|starlette) '
run -m pytest -q -n "${WORKERS:-2}" -m 'not exhaustive' "${tests[@]}"
