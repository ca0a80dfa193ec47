"""The registry: the workers of each client in this process."""

from __future__ import annotations

import atexit
import os
import threading
from time import monotonic
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary, ref

from headrace.contract.store import Store
from headrace.worker.worker_view import DEFAULT_GRACE

if TYPE_CHECKING:
    from headrace.worker.client_workers import ClientWorkers

_registries: WeakKeyDictionary[Any, ClientWorkers] = WeakKeyDictionary()
_lock = threading.Lock()


def of(client: Any, store: Store) -> ClientWorkers:
    """The workers of a client, made when it is first asked for."""
    # Here, because most clients have no workers.
    from headrace.worker.client_workers import ClientWorkers

    with _lock:
        found = _registries.get(client)
        if found is None:
            # It must not keep its client alive, or it would never be collected.
            weak = ref(client)
            found = _registries[client] = ClientWorkers(store, lambda: _is_closed(weak()))
        return found


def _is_closed(client: Any) -> bool:
    return client is None or not client.status


def find(client: Any) -> ClientWorkers | None:
    """The workers of a client, if it ever had any."""
    with _lock:
        return _registries.get(client)


def close_workers(client: Any, grace: float = DEFAULT_GRACE) -> None:
    """Stop all workers of a client, which is about to be closed; the grace is one for all."""
    workers = find(client)
    if workers is None:
        return
    over = monotonic() + grace
    engines = workers.engines
    for engine in engines:
        engine.switch.begin_end()
    for engine in engines:
        engine.stop(max(over - monotonic(), 0.0))
    workers.close()


async def aclose_workers(client: Any, grace: float = DEFAULT_GRACE) -> None:
    """``close_workers`` for an async client."""
    from headrace.contract.threads import in_thread

    if find(client) is not None:
        await in_thread(close_workers, client, grace)


def _forget() -> None:
    """After a fork the child has no workers: their threads run in the parent."""
    global _lock
    _lock = threading.Lock()
    _registries.clear()


def _release_all() -> None:
    """The process ends, and with it all handlers: release their items before the leases end."""
    for found in list(_registries.values()):
        for engine in found.engines:
            engine.stop(0)
        found.close()


os.register_at_fork(after_in_child=_forget)
atexit.register(_release_all)
