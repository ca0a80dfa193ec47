"""Claims items of a queue and settles them in all ways, until it is killed."""

import itertools
import json
import random
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import headrace
from faults.polling import orphanhood
from headrace.contract.items import ClaimRequest, Outcome
from headrace.model.queues.items import ItemState, Kind
from headrace.model.tokens import claim_token
from headrace.testing.audit_log import AuditLog
from headrace.testing.queue_audit_log import place_of

LEASE_MS = 100
KINDS: Sequence[Kind] = (*["complete"] * 6, "reject", "kill", "release", "reschedule", "drop")


def settle(
    store: Any,
    log: AuditLog,
    name: str,
    items: Sequence[ItemState],
    kind: Kind,
    seconds: float = 0,
) -> list[str]:
    """Work on items for some time and settle them, recorded before and after."""
    queue, token = items[0].queue, items[0].token
    assert token is not None
    log.intend(name, token=token, kind=kind, items=[place_of(item) for item in items])
    time.sleep(seconds)
    said = [Outcome(item=item.id, token=token, kind=kind, delay_ms=1) for item in items]
    log.send(name)
    states = [one.state for one in store.run(store.queues.settle(queue, said))]
    log.outcome(name, states=states)
    return states


def claim(store: Any, queue: str, count: int, lease_ms: int = LEASE_MS) -> list[ItemState]:
    take = ClaimRequest(queue=queue, token=claim_token(), count=count, lease_ms=lease_ms)
    return list(store.run(store.queues.claim(take)).items)


def run(store: Any, log: AuditLog, name: str, queue: str, is_over: Callable[[], bool]) -> None:
    numbers = itertools.count()
    while not is_over():
        items = claim(store, queue, random.randint(1, 4))
        if not items:
            time.sleep(0.002)
            continue
        # Now and then too late, when another consumer may have them.
        is_late = random.random() < 0.05
        seconds = 2 * LEASE_MS / 1000 if is_late else random.choice([0, 0, 0.001, 0.005])
        settle(store, log, f"{name}-{next(numbers)}", items, random.choice(KINDS), seconds)


def main(url: str, log_path: str, name: str, queue: str) -> None:
    with AuditLog(Path(log_path)) as log, headrace.connect(url) as hr:
        run(hr._store, log, name, queue, orphanhood())


if __name__ == "__main__":
    main(**json.loads(sys.argv[1]))
