"""Claims items of queues with limits, and says from when until when each of them ran for certain."""

import itertools
import json
import random
import sys
import time
from pathlib import Path
from typing import Any

import headrace
from faults.waiting import orphanhood
from headrace.contract.items import Outcome, PushCall, Take
from headrace.errors import StoreBusy
from headrace.model.items import Document, ItemState, Kind
from headrace.model.tokens import claim_token
from headrace.testing.ledger import Ledger

LEASE_MS = 300
# What is done is pushed again by the same call, so that there is always something to do.
KINDS: tuple[Kind, ...] = ("complete", "complete", "reschedule", "reject", "release")


def said(item: ItemState, kind: Kind) -> Outcome:
    pushes: tuple[PushCall, ...] = ()
    if kind == "complete":
        document = Document(payload=item.payload, key_values=item.key_values)
        pushes = (PushCall(queue=item.queue, documents=(document,)),)
    token = item.token
    assert token is not None
    return Outcome(item=item.id, token=token, kind=kind, delay_ms=0, pushes=pushes)


def run(store: Any, book: Ledger, name: str, queues: list[str], is_over: Any) -> None:
    numbers = itertools.count()
    while not is_over():
        queue = random.choice(queues)
        select = random.choice([None, headrace.Query().form])
        take = Take(
            queue=queue,
            token=claim_token(),
            count=random.randint(1, 4),
            lease_ms=LEASE_MS,
            select=select,
        )
        claim = f"{name}-{next(numbers)}"
        asked = time.monotonic_ns()
        try:
            items = store.run(store.claim_items(take)).items
        except StoreBusy:
            continue
        got = time.monotonic_ns()
        if not items:
            time.sleep(0.005)
            continue
        channels = [item.key_values for item in items]
        book.intend(claim, asked=asked, got=got, channels=channels)
        time.sleep(random.choice([0, 0.002, 0.01]))
        kind = random.choice(KINDS)
        # Before it is sent: then they may still run, or not any more.
        book.outcome(claim, until=time.monotonic_ns())
        store.run(store.settle(queue, [said(item, kind) for item in items]))


def main(url: str, ledger: str, name: str, queues: list[str]) -> None:
    with Ledger(Path(ledger)) as book, headrace.connect(url) as hr:
        run(hr._store, book, name, queues, orphanhood())


if __name__ == "__main__":
    main(**json.loads(sys.argv[1]))
