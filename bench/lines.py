"""Reading another process's output line by line, with a limit on the wait."""

from __future__ import annotations

import os
import select
import subprocess
import time


class LineReader:
    """Lines of a process's standard output."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdout is not None
        self._process = process
        self._stream = process.stdout.fileno()
        self._rest = b""

    def next(self, seconds: float) -> bytes:
        """The next line; ``TimeoutError`` if none comes, ``RuntimeError`` if the process ended."""
        give_up = time.monotonic() + seconds
        while b"\n" not in self._rest:
            left = give_up - time.monotonic()
            if left <= 0 or not select.select([self._stream], [], [], left)[0]:
                raise TimeoutError(f"no line within {seconds:g} s")
            some = os.read(self._stream, 65536)
            if not some:
                raise RuntimeError(f"the process ended with {self._process.wait(5)}")
            self._rest += some
        line, _, self._rest = self._rest.partition(b"\n")
        return line
