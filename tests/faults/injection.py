"""One command in a forked child, at one of whose system calls a fault happens.

    calls = list_calls(words, folders)          the calls of a sound run that concern files below some folders
    done = run(words, Fault(call, "ENOSPC"))    the same run, with a fault at one of them

The package is imported once, and children are forked. A child stops before it begins; `strace` is attached to it, and
injects an error or a signal at the Nth call of a name. A call at which the child is killed does not happen.
"""

from __future__ import annotations

import io
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from callgrove.cli.main import main
from tests.requirements import need

__all__ = [
    "CHANGES",
    "INTERNAL",
    "KILL",
    "NAMES",
    "READS",
    "REMOVALS",
    "WRITES",
    "Call",
    "Done",
    "Fault",
    "list_calls",
    "need_strace",
    "run",
]

WRITES = ("write", "pwrite64", "writev", "ftruncate", "fallocate", "copy_file_range", "sendfile")
NAMES = ("rename", "renameat", "renameat2", "mkdir", "mkdirat", "link", "linkat", "symlink", "symlinkat")
REMOVALS = ("unlink", "unlinkat", "rmdir")
CHANGES = (*WRITES, *NAMES, *REMOVALS, "openat", "fsync", "fdatasync", "close", "chmod", "fchmod", "utimensat")
READS = (
    "openat",
    "read",
    "pread64",
    "readv",
    "preadv",
    "preadv2",
    "newfstatat",
    "fstat",
    "statx",
    "getdents64",
    "mmap",
    "lseek",
)
CREATES = re.compile(r"O_(CREAT|TRUNC|WRONLY|RDWR|TMPFILE)")
KILL, STOP = "SIGKILL", "SIGSTOP"
INTERNAL = 99  # the exit code of a child in which something escaped
HANG_SEC = 60.0


@dataclass(frozen=True)
class Call:
    """The `number`th call of a name in its thread, and what strace prints of it."""

    name: str
    number: int
    text: str = ""

    @property
    def creates(self) -> bool:
        return self.name == "openat" and bool(CREATES.search(self.text))


@dataclass(frozen=True)
class Fault:
    """What happens at a call: an error by its name, a kill, or (any other word) something that is done by us while the
    command is stopped there. With `stays`, all later calls of that name fail too."""

    call: Call
    what: str
    stays: bool = False

    def __str__(self) -> str:
        return f"{self.what} at {self.call.name} {self.call.number} ({self.call.text[-120:]})"

    def option(self) -> str:
        """Return the option of strace."""
        is_error = self.what.startswith("E")
        how = f"error={self.what}" if is_error else f"signal={KILL if self.what == KILL else STOP}"
        return f"inject={self.call.name}:{how}:when={self.call.number}{'+' if self.stays else ''}"


@dataclass(frozen=True)
class Done:
    """How a command ended: its exit code (negative: the signal), what it printed and what it said."""

    code: int
    printed: str
    said: str


def need_strace() -> None:
    """End the running test where there is no strace, or where nothing may be traced."""
    if shutil.which("strace") is None:
        need("strace", "strace is not installed")
    if subprocess.run(["strace", "-qq", "-o", os.devnull, "true"], capture_output=True).returncode:
        need("ptrace", "processes may not be traced here")


def list_calls(words: Sequence[str], names: Sequence[str], folders: Sequence[Path]) -> list[Call]:
    """Return the calls of some names that a command makes for files below some folders, in order."""
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "log"
        done = run(words, trace=["-y", "-s", "0", "-o", str(log), "-e", f"trace={','.join(names)}"])
        assert done.code == 0, done.said
        return list(dict.fromkeys(read_log(log.read_text(errors="replace"), [str(path) for path in folders])))


def read_log(log: str, folders: Sequence[str]) -> list[Call]:
    """Return the calls in a log of strace that name files below some folders."""
    counts: Counter[tuple[str, str]] = Counter()
    calls = []
    for line in log.splitlines():
        match = re.match(r"(\d+)\s+(\w+)\((.*)", line)
        if match is None:  # the rest of a call that was interrupted, signals, the end
            continue
        thread, name, text = match.groups()
        counts[thread, name] += 1
        if any(folder in text for folder in folders):
            calls.append(Call(name, counts[thread, name], text))
    return calls


def run(
    words: Sequence[str],
    fault: Fault | None = None,
    trace: Sequence[str] = (),
    at_stop: Callable[[], None] = lambda: None,
) -> Done:
    """Run a command of callgrove in a child of its own. Where a fault stops it, `at_stop` is called."""
    options = [*trace, *(["-o", os.devnull, "-e", f"trace={fault.call.name}", "-e", fault.option()] if fault else [])]
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as said:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12 and later: of threads, which only wait
            child = os.fork()
        if not child:
            _be_child(words, out.fileno(), said.fileno(), stops=bool(options))
        try:
            code = _trace(child, options, at_stop) if options else _wait(child)
        finally:
            with suppress(ProcessLookupError, ChildProcessError):
                os.kill(child, signal.SIGKILL)
                os.waitpid(child, 0)
        out.seek(0)
        said.seek(0)
        return Done(code, out.read().decode(errors="replace"), said.read().decode(errors="replace"))


def _be_child(words: Sequence[str], out: int, said: int, *, stops: bool) -> None:
    """Run the command, and end without whatever the parent would do at its end. What it prints is kept in memory until
    then, and leaves by a call that nothing else makes: faults are for files."""
    code = INTERNAL
    sys.stdout, sys.stderr = io.StringIO(), io.StringIO()
    try:
        os.dup2(os.open(os.devnull, os.O_RDWR), 0)
        os.dup2(0, 1)
        os.dup2(said, 2)
        if stops:
            os.kill(os.getpid(), signal.SIGSTOP)
        code = main(list(words))
    except BaseException as error:
        sys.stderr.write(repr(error))
    finally:
        os.pwritev(out, [sys.stdout.getvalue().encode("utf-8", "backslashreplace")], 0)
        os.pwritev(said, [sys.stderr.getvalue().encode("utf-8", "backslashreplace")], os.fstat(said).st_size)
        os._exit(code)


def _trace(child: int, options: Sequence[str], at_stop: Callable[[], None]) -> int:
    os.waitpid(child, os.WUNTRACED)
    tracer = subprocess.Popen(["strace", "-qq", "-f", *options, "-p", str(child)], stderr=subprocess.PIPE, text=True)
    try:
        _await_tracer(child, tracer)
        os.kill(child, signal.SIGCONT)
        return _wait(child, at_stop)
    finally:
        if tracer.stderr is not None:
            tracer.stderr.close()
        tracer.terminate() if tracer.poll() is None and not Path(f"/proc/{child}").exists() else None
        tracer.wait()


def _await_tracer(child: int, tracer: subprocess.Popen[str]) -> None:
    status = Path(f"/proc/{child}/status")
    while "TracerPid:\t0\n" in status.read_text():
        if tracer.poll() is not None:
            raise AssertionError(f"strace: {tracer.stderr.read() if tracer.stderr else ''}")
        time.sleep(0.001)


def _wait(child: int, at_stop: Callable[[], None] = lambda: None) -> int:
    """Return the exit code of a child, as subprocess does; one that stops goes on, one that hangs is killed."""
    deadline = time.monotonic() + HANG_SEC
    while time.monotonic() < deadline:
        pid, status = os.waitpid(child, os.WNOHANG | os.WUNTRACED)
        if pid and os.WIFSTOPPED(status):
            at_stop()
            os.kill(child, signal.SIGCONT)
        elif pid:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.002)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    raise AssertionError(f"{HANG_SEC:.0f} s without an end")
