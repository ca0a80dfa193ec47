"""When a run through what is there is over: no thread has found anything since the last one moved.

What a pipeline commits may be what another one reads. So a thread that finds its topic empty waits
for the others, and looks again after each of them that got something done.
"""

from __future__ import annotations

import threading


class Ends:
    """Shared by the threads of one run."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._working = 0
        self._resting = 0
        self._is_given_up = False
        self.moves = 0
        """Read this before you look; tell ``is_end`` what it was."""

    def expect(self, threads: int) -> None:
        """So many will take part. Said before the first of them begins."""
        with self._changed:
            self._working += threads

    def moved(self) -> None:
        """Something was processed: there may be more for others."""
        with self._changed:
            self.moves += 1
            self._changed.notify_all()

    def leave(self) -> None:
        """A thread looks no more."""
        with self._changed:
            self._working -= 1
            self._changed.notify_all()

    def give_up(self) -> None:
        """Nobody is to wait any longer."""
        with self._changed:
            self._is_given_up = True
            self._changed.notify_all()

    def is_end(self, seen: int) -> bool:
        """Having found nothing: wait for the others; whether none of them moved since ``seen``."""
        with self._changed:
            self._resting += 1
            self._changed.notify_all()
            while self.moves == seen and self._resting < self._working and not self._is_given_up:
                self._changed.wait()
            self._resting -= 1
            return self.moves == seen or self._is_given_up
