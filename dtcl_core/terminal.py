"""Output that cannot be written (closed streams, readers that leave, a full disk), and Ctrl-C."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, TextIO

STOPPED = 130  # the exit status shells give an interrupted command


class Steady:
    """A text stream that raises no error where it cannot be written any more.

    Attributes:
        failure: the error of the first write that failed. None if all was written, or if only the reader left, as `head` does.
    """

    def __init__(self, stream: TextIO | None):
        self.stream = stream if stream is not None else open(os.devnull, "w", encoding="utf-8")
        self.failure: OSError | None = None

    def write(self, text: str) -> int:
        with self._kept():
            self.stream.write(text)
        return len(text)

    def flush(self) -> None:
        with self._kept():
            self.stream.flush()

    @contextmanager
    def _kept(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            if not isinstance(error, BrokenPipeError):
                self.failure = self.failure or error
            # What is still in its buffer must not fail again when the interpreter ends.
            with suppress(OSError, ValueError):
                nowhere = os.open(os.devnull, os.O_WRONLY)
                os.dup2(nowhere, self.stream.fileno())
                os.close(nowhere)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)


@contextmanager
def steady_output() -> Iterator[Steady]:
    """Standard output and error as `Steady` streams; gives the first."""
    before = sys.stdout, sys.stderr
    output, errors = Steady(sys.stdout), Steady(sys.stderr)
    sys.stdout, sys.stderr = output, errors
    try:
        yield output
    finally:
        output.flush()
        errors.flush()
        sys.stdout, sys.stderr = before


@contextmanager
def interrupts_held() -> Iterator[None]:
    """Ctrl-C waits until the block is done: PyTorch may crash the process if interrupted while it is imported.

    Raises:
        KeyboardInterrupt: at the end of the block, if it was asked for.
    """
    if threading.current_thread() is not threading.main_thread():  # only that one gets signals
        yield
        return
    asked: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, frame: asked.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if asked:
        raise KeyboardInterrupt


def stop_requests(time_limit: float | None) -> Callable[[], bool]:
    """A function that returns True once SIGINT (Ctrl-C) or SIGTERM came or the time limit in seconds has passed.

    Both signals are taken over for the rest of the process, from the main thread only; a second one raises KeyboardInterrupt.
    """
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
