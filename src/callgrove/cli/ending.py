"""A batch system that ends a job, or a terminal that closes, is like Ctrl-C: what was begun is taken back first.

By default these signals end the program on the spot, and hidden folders and worker processes would stay behind.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

__all__ = ["Ended", "tidy_ending"]

SIGNALS = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]


class Ended(KeyboardInterrupt):
    """Somebody wants the program to end."""

    def __init__(self, number: int) -> None:
        super().__init__(f"ended by {signal.Signals(number).name}")
        self.exit_code = 128 + number  # as a shell reports it


@contextmanager
def tidy_ending() -> Iterator[None]:
    """Inside, the signals raise `Ended`. Those that somebody handles or ignores already (nohup) are left alone."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    ours = [number for number in SIGNALS if signal.getsignal(number) == signal.SIG_DFL]
    for number in ours:
        signal.signal(number, _end)
    try:
        yield
    finally:
        for number in ours:
            signal.signal(number, signal.SIG_DFL)


def _end(number: int, frame: FrameType | None) -> None:
    signal.signal(number, signal.SIG_IGN)  # once is enough: taking back must not be cut short
    raise Ended(number)
