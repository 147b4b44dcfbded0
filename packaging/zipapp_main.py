"""What runs first in callgrove.pyz. It must be readable for any Python, old ones included, to say what is missing.

The archive is unpacked once into the user's cache: modules of a zip file are compiled at every start, and NumPy, where
it was put into the archive, can only be imported from files. Where nothing can be written, it runs from the archive.
"""

import os
import sys

OLDEST = (3, 11)
OLDEST_NUMPY = 2


def fail(message):
    sys.exit("callgrove.pyz: " + message)


def find_cache(archive):
    """Return the folder for this very archive: another size or time is another folder."""
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    about = os.stat(archive)
    name = "pyz-%d-%d-%d%d" % (about.st_size, about.st_mtime_ns, sys.version_info[0], sys.version_info[1])
    return os.path.join(base, "callgrove", name)


def unpack(archive, folder):
    """Unpack the package, and a NumPy that fits if there is one, into a folder that is then complete or absent."""
    import shutil
    import tempfile
    import zipfile

    os.makedirs(os.path.dirname(folder), mode=0o700, exist_ok=True)
    beside = tempfile.mkdtemp(dir=os.path.dirname(folder))
    try:
        with zipfile.ZipFile(archive) as members:
            members.extractall(beside, [name for name in members.namelist() if name.startswith("callgrove")])
            for name in members.namelist():
                if name.startswith("wheels/") and "-cp%d%d-" % sys.version_info[:2] in name:
                    with members.open(name) as wheel, zipfile.ZipFile(wheel) as inner:
                        inner.extractall(os.path.join(beside, "bundled"))
        os.rename(beside, folder)
    except BaseException as error:
        shutil.rmtree(beside, ignore_errors=True)
        if not (isinstance(error, OSError) and os.path.isdir(folder)):  # somebody else was faster
            raise


def has_numpy():
    try:
        import numpy
    except ImportError:
        return False
    return int(numpy.__version__.split(".")[0]) >= OLDEST_NUMPY


def prepare(archive):
    """Put the package on the path, and a NumPy if this Python has none."""
    if sys.version_info < OLDEST:
        fail(
            "it needs Python 3.11 or newer, and this is %d.%d (%s); name another one, as in: python3.11 %s"
            % (sys.version_info[0], sys.version_info[1], sys.executable, sys.argv[0])
        )
    folder = find_cache(archive)
    try:
        if not os.path.isdir(folder):
            unpack(archive, folder)
        sys.path.insert(0, folder)
    except OSError:
        folder = ""  # a home that is full, or cannot be written
    if folder and os.path.isdir(os.path.join(folder, "bundled")):
        sys.path.append(os.path.join(folder, "bundled"))  # after a NumPy that is there already
    if not has_numpy():
        fail(
            "it needs NumPy 2.0 or newer, which %s does not have. On a cluster, `module load` a Python with it; else "
            "`%s -m pip install --user 'numpy>=2'`, or on a machine with network `pip install --target FOLDER "
            "'numpy>=2'` and PYTHONPATH=FOLDER here" % (sys.executable, sys.executable)
        )


if __name__ == "__main__":
    prepare(os.path.dirname(os.path.abspath(__file__)))
    from callgrove.cli.main import main

    sys.exit(main())
