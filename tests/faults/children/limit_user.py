"""Claims items under limits, and records from when until when each of them ran for certain."""

import itertools
import json
import random
import sys
import time
from pathlib import Path
from typing import Any

import headrace
from faults.polling import orphanhood
from headrace.contract.items import ClaimRequest, Outcome, PushCall
from headrace.errors import StoreBusy
from headrace.model.queues.items import Document, ItemState, Kind
from headrace.model.tokens import claim_token
from headrace.testing.audit_log import AuditLog

LEASE_MS = 300
# The call that completes an item pushes it again, so that there is always something to do.
KINDS: tuple[Kind, ...] = ("complete", "complete", "reschedule", "reject", "release")


def said(item: ItemState, kind: Kind) -> Outcome:
    pushes: tuple[PushCall, ...] = ()
    if kind == "complete":
        document = Document(payload=item.payload, key_values=item.key_values)
        pushes = (PushCall(queue=item.queue, documents=(document,)),)
    token = item.token
    assert token is not None
    return Outcome(item=item.id, token=token, kind=kind, delay_ms=0, pushes=pushes)


def run(store: Any, log: AuditLog, name: str, queues: list[str], is_over: Any) -> None:
    numbers = itertools.count()
    while not is_over():
        queue = random.choice(queues)
        select = random.choice([None, headrace.types.Query().form])
        take = ClaimRequest(
            queue=queue,
            token=claim_token(),
            count=random.randint(1, 4),
            lease_ms=LEASE_MS,
            select=select,
        )
        claim = f"{name}-{next(numbers)}"
        asked = time.monotonic_ns()
        try:
            items = store.run(store.queues.claim(take)).items
        except StoreBusy:
            continue
        got = time.monotonic_ns()
        if not items:
            time.sleep(0.005)
            continue
        channels = [item.key_values for item in items]
        log.intend(claim, asked=asked, got=got, channels=channels)
        time.sleep(random.choice([0, 0.002, 0.01]))
        kind = random.choice(KINDS)
        # Before it is sent. Afterwards it is unknown whether they still run.
        log.outcome(claim, until=time.monotonic_ns())
        store.run(store.queues.settle(queue, [said(item, kind) for item in items]))


def main(url: str, log_path: str, name: str, queues: list[str]) -> None:
    with AuditLog(Path(log_path)) as log, headrace.connect(url) as hr:
        run(hr._store, log, name, queues, orphanhood())


if __name__ == "__main__":
    main(**json.loads(sys.argv[1]))
