"""When a run with ``once`` is over: every thread found its topic empty since the last progress.

One pipeline may commit the records that another one reads. So a thread that finds its topic empty
waits for the others, and polls again whenever one of them has made progress.
"""

from __future__ import annotations

import threading


class DrainBarrier:
    """Shared by the threads of one run."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._threads = 0
        self._idle = 0
        self._is_aborted = False
        self.progress_count = 0
        """Read this before a poll, and pass it to ``is_drained``."""

    def add_threads(self, count: int) -> None:
        """Announce the threads of the run, before the first of them starts."""
        with self._changed:
            self._threads += count

    def notify_progress(self) -> None:
        """A thread has processed records: there may be more for the others."""
        with self._changed:
            self.progress_count += 1
            self._changed.notify_all()

    def remove_thread(self) -> None:
        """A thread has ended."""
        with self._changed:
            self._threads -= 1
            self._changed.notify_all()

    def abort(self) -> None:
        """End the wait of all threads."""
        with self._changed:
            self._is_aborted = True
            self._changed.notify_all()

    def is_drained(self, progress_count: int) -> bool:
        """After an empty poll: wait for the others; whether the run is over.

        It is over when all threads wait and none has made progress since ``progress_count``. It
        is not when one makes progress: then the caller polls again.
        """
        with self._changed:
            self._idle += 1
            self._changed.notify_all()
            while (
                self.progress_count == progress_count
                and self._idle < self._threads
                and not self._is_aborted
            ):
                self._changed.wait()
            self._idle -= 1
            return self.progress_count == progress_count or self._is_aborted
