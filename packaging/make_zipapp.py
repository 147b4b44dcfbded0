"""Make callgrove.pyz of a wheel: one file that a Python 3.11 or newer runs, for login nodes without pip.

`python packaging/make_zipapp.py WHEEL TARGET [NUMPY_WHEEL ...]`. The archive has our own code and documentation, and
runs with the NumPy of whichever Python starts it. Wheels of NumPy that are named as well are put into it, one for each
version of Python; they make it work where there is no NumPy at all, on machines of their kind.
"""

from __future__ import annotations

import sys
import tempfile
import zipapp
import zipfile
from pathlib import Path
from shutil import copyfile

MAIN = Path(__file__).with_name("zipapp_main.py")


def make_zipapp(wheel: Path, target: Path, bundled: list[Path]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        staging = Path(folder)
        with zipfile.ZipFile(wheel) as members:
            inside = [name for name in members.namelist() if name.startswith("callgrove/")]
            about = [name for name in members.namelist() if ".dist-info/" in name]
            members.extractall(staging, [*inside, *about])
        copyfile(MAIN, staging / "__main__.py")
        for numpy in bundled:
            (staging / "wheels").mkdir(exist_ok=True)
            copyfile(numpy, staging / "wheels" / numpy.name)
        target.parent.mkdir(parents=True, exist_ok=True)
        zipapp.create_archive(staging, target, "/usr/bin/env python3", compressed=True)


if __name__ == "__main__":
    make_zipapp(Path(sys.argv[1]), Path(sys.argv[2]), [Path(name) for name in sys.argv[3:]])
