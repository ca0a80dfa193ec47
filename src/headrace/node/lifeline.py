"""A pipe by which a process learns that the one that started it has ended, however it ended.

The starter keeps the writing end and writes nothing. The kernel closes it with the process, and the
reading end is at its end of file.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable

from headrace.model.forks import renew_in_child

VARIABLE = "HEADRACE_LIFELINE"


class Lifeline:
    """The starter's side."""

    def __init__(self) -> None:
        self.reader, self._writer = os.pipe()
        # The child of a fork may outlive this process, and must not keep it alive for others.
        renew_in_child(self, Lifeline.cut)

    def cut(self) -> None:
        """Tell the process to end, as the end of this process would."""
        for fd in (self.reader, self._writer):
            if fd >= 0:
                os.close(fd)
        self.reader = self._writer = -1


def watch_lifeline(fd: int, on_end: Callable[[], None]) -> None:
    """Call ``on_end`` in a thread when the starter of this process has ended."""
    os.set_inheritable(fd, False)

    def watch() -> None:
        while os.read(fd, 1):
            pass
        on_end()

    threading.Thread(target=watch, name="headrace-lifeline", daemon=True).start()


def watch_given_lifeline(on_end: Callable[[], None]) -> None:
    """Do so if the starter gave this process a lifeline; processes of its own do not inherit it."""
    given = os.environ.pop(VARIABLE, None)
    if given is not None and given.isdigit():
        watch_lifeline(int(given), on_end)
