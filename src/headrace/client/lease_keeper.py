"""Heartbeats that extend a client's leases: one thread for all."""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic

from headrace.model.forks import renew_in_child
from headrace.services.loop import NEVER, NOW, Loop

HEARTBEATS_PER_LEASE = 3


class _Heartbeat:
    """One lease to extend."""

    __slots__ = ("due", "extend", "interval")

    def __init__(self, lease_ms: int, extend: Callable[[], bool]) -> None:
        self.interval = lease_ms / 1000 / HEARTBEATS_PER_LEASE
        self.extend = extend
        self.postpone()

    def postpone(self) -> None:
        self.due = monotonic() + self.interval


class LeaseKeeper:
    """Calls functions that extend leases, each at a third of its lease, until they return False.

    Its thread begins with the first lease and ends with the last, or on ``close`` if it
    ``is_lasting``. It runs nothing else.
    """

    def __init__(self, name: str = "headrace-leases", *, is_lasting: bool = False) -> None:
        self._loop = Loop(name, self._extend_next)
        self._due_when_empty = NEVER if is_lasting else None
        self._forget()
        # Leases from before a fork belong to the parent.
        renew_in_child(self, LeaseKeeper._forget)

    def _forget(self) -> None:
        self._heartbeats: dict[object, _Heartbeat] = {}

    def begin(self, holder: object, lease_ms: int, extend: Callable[[], bool]) -> None:
        """Call ``extend`` at a third of the lease from now on."""
        heartbeat = self._heartbeats[holder] = _Heartbeat(lease_ms, extend)
        self._loop.start(heartbeat.due)

    def end(self, holder: object) -> None:
        """Extend this lease no more. A call that is under way may still come."""
        self._heartbeats.pop(holder, None)
        if not self._heartbeats and self._due_when_empty is None:
            self._loop.poke()

    def close(self) -> None:
        """Extend no lease any longer, and wait for the call that is under way."""
        self._loop.end()
        self._heartbeats.clear()
        self._loop.join()

    def _extend_next(self) -> float | None:
        heartbeats = self._heartbeats.copy()
        if not heartbeats:
            return self._due_when_empty
        holder, heartbeat = min(heartbeats.items(), key=lambda each: each[1].due)
        if heartbeat.due > monotonic():
            return heartbeat.due
        heartbeat.postpone()
        if not heartbeat.extend():
            self.end(holder)
        return NOW
