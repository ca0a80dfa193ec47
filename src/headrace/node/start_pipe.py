"""A pipe by which a worker process reports that it has started, or why it cannot run."""

from __future__ import annotations

import os
import select

VARIABLE = "HEADRACE_START_PIPE"
MAX_BYTES = 4096


class StartPipe:
    """The side of the process that starts a worker."""

    def __init__(self) -> None:
        self._reader, self.writer = os.pipe()

    def close_writer(self) -> None:
        """The worker has its own copy now: the pipe ends with it."""
        os.close(self.writer)
        self.writer = -1

    def read(self, seconds: float) -> str:
        """What the worker reports, at most so many seconds later.

        A sentence says why it cannot run. It is empty if the worker has started, has crashed, or
        needs longer.
        """
        if not select.select([self._reader], [], [], seconds)[0]:
            return ""
        return os.read(self._reader, MAX_BYTES).decode(errors="replace").strip()

    def close(self) -> None:
        for fd in (self._reader, self.writer):
            if fd >= 0:
                os.close(fd)
        self._reader = self.writer = -1


def report_start(problem: str = "") -> None:
    """Report that this process has started, or why it cannot run, if its starter asked for that.

    Only the first report counts.
    """
    given = os.environ.pop(VARIABLE, None)
    if given is None or not given.isdigit():
        return
    try:
        os.write(int(given), f"{problem}\n".encode()[:MAX_BYTES])
        os.close(int(given))
    except OSError:
        return  # the starter no longer waits
