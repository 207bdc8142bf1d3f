"""Ctrl-C, SIGTERM and time limits: asked for at any moment, answered at the end of an epoch."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Callable

STOPPED = 130  # the exit status shells give an interrupted command


def stop_requests(time_limit: float | None) -> Callable[[], bool]:
    """A function that returns True after Ctrl-C, after SIGTERM, or once the time limit in seconds has passed."""
    asked: list[int] = []
    end = None if time_limit is None else time.monotonic() + time_limit

    def remember(number: int, frame: object) -> None:
        if asked:  # a second Ctrl-C means it
            raise KeyboardInterrupt
        asked.append(number)
        print("\nStopping; Ctrl-C again to stop at once.", file=sys.stderr, flush=True)

    signal.signal(signal.SIGINT, remember)
    signal.signal(signal.SIGTERM, remember)
    return lambda: bool(asked) or (end is not None and time.monotonic() >= end)
