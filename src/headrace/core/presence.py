"""Changes among the live clients and workers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Generic, NamedTuple, Protocol, TypeVar

import msgspec

from headrace.contract.items import ClientInfo
from headrace.core.views import ALIVE_MS, WorkerInfo


class WorkersChange(msgspec.Struct, frozen=True, kw_only=True):
    """The live workers, and what has changed since the last time.

    ``joined`` are new, ``changed`` have another status (``current``), ``left`` have unregistered
    or sent no heartbeat for 15 seconds: a killed worker cannot unregister.
    """

    workers: tuple[WorkerInfo, ...]
    joined: tuple[WorkerInfo, ...] = ()
    changed: tuple[WorkerInfo, ...] = ()
    left: tuple[WorkerInfo, ...] = ()

    @property
    def all_running(self) -> bool:
        """Whether there are workers, and every one of them runs."""
        return bool(self.workers) and all(worker.current == "running" for worker in self.workers)

    @property
    def all_stopped(self) -> bool:
        """Whether no worker runs: each has stopped, or there is none."""
        return all(worker.current == "stopped" for worker in self.workers)


class ClientsChange(msgspec.Struct, frozen=True, kw_only=True):
    """The live clients with workers; those that ``joined`` and ``left`` since the last time.

    A client that sent no heartbeat for 15 seconds has left.
    """

    clients: tuple[ClientInfo, ...]
    joined: tuple[ClientInfo, ...] = ()
    left: tuple[ClientInfo, ...] = ()


class _Member(Protocol):
    @property
    def id(self) -> str: ...


M = TypeVar("M", bound=_Member)


class _Changes(NamedTuple, Generic[M]):
    there: tuple[M, ...]
    joined: tuple[M, ...]
    changed: tuple[M, ...]
    left: tuple[M, ...]


class _Watch(Generic[M]):
    """Compares the live members of each listing with those of the one before."""

    def __init__(self, silent_ms: Callable[[M], float], status: Callable[[M], str]) -> None:
        self._silent_ms = silent_ms
        self._status = status
        self._there: dict[str, M] | None = None

    def compare(self, members: Sequence[M]) -> _Changes[M] | None:
        """The changes, None if there are none; the first time, all live members have joined."""
        before = self._there
        there = {each.id: each for each in members if self._silent_ms(each) <= ALIVE_MS}
        self._there = there
        known = before or {}
        joined = tuple(member for id, member in there.items() if id not in known)
        left = tuple(member for id, member in known.items() if id not in there)
        changed = tuple(
            member
            for id, member in there.items()
            if id in known and self._status(member) != self._status(known[id])
        )
        if before is not None and not (joined or left or changed):
            return None
        return _Changes(tuple(there.values()), joined, changed, left)


class WorkerWatch:
    """Finds changes in listings of workers."""

    def __init__(self) -> None:
        self._watch: _Watch[WorkerInfo] = _Watch(
            lambda worker: worker.silent * 1000, lambda worker: worker.current
        )

    def compare(self, workers: Sequence[WorkerInfo]) -> WorkersChange | None:
        """The changes since the last listing, None if there are none."""
        found = self._watch.compare(workers)
        return found and WorkersChange(
            workers=found.there, joined=found.joined, changed=found.changed, left=found.left
        )


class ClientWatch:
    """Finds changes in listings of clients."""

    def __init__(self) -> None:
        self._watch: _Watch[ClientInfo] = _Watch(
            lambda client: client.silent_ms, lambda client: client.id
        )

    def compare(self, clients: Sequence[ClientInfo]) -> ClientsChange | None:
        """The changes since the last listing, None if there are none."""
        found = self._watch.compare(clients)
        return found and ClientsChange(clients=found.there, joined=found.joined, left=found.left)
