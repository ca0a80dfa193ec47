"""Claims, and acks or passes on what it claimed, for as long as it lives."""

import itertools
import json
import random
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal

import headrace
from faults.waiting import orphanhood
from headrace.errors import ClaimLost
from headrace.testing.ledger import Entry, Ledger, check_order

Mode = Literal["ack", "ack_commit"]
TIMEOUT = 0.1


def target(proc: str) -> str:
    """The topic that a proc passes records on to."""
    return f"{proc}-out"


def make(hr: headrace.Headrace, proc: str, topic: str, timeout: float = TIMEOUT) -> headrace.Proc:
    """A proc that outlives its workers: their claims run out soon, and it never gives up."""
    return hr.proc(proc, topic=topic, reclaim_timeout=timeout, on_max_reclaims_reached="continue")


def settle(claim: headrace.Claim, book: Ledger, name: str, mode: Mode, seconds: float = 0) -> None:
    """Work on a claim for some time and ack it, in the ledger before and after."""
    assert claim.deadline is not None
    book.intend(
        name,
        proc=claim.proc.name,
        first=claim[0].seq,
        last=claim[-1].seq,
        until=round(claim.deadline.timestamp() * 1000),
    )
    time.sleep(seconds)
    ids: list[str] = []
    book.send(name)
    try:
        if mode == "ack":
            claim.ack()
        else:
            out = target(claim.proc.name)
            ids = claim.ack_commit([(out, {"of": record.seq}) for record in claim]).ids
    except ClaimLost:
        book.outcome(name, acked=False)
    else:
        book.outcome(name, acked=True, ids=ids)


def replenish(proc: headrace.Proc) -> None:
    """Commit more if all is done; else another's claim is out, and soon over."""
    if proc.lag().records:
        time.sleep(0.01)
    else:
        proc._client.commit_many(proc.topic, [{}] * 50)


def run(
    proc: headrace.Proc,
    book: Ledger,
    name: str,
    mode: Mode,
    is_over: Callable[[], bool],
    late: float = 0,
) -> None:
    numbers = itertools.count()
    while not is_over():
        claim = proc.claim(random.randint(1, 3))
        if claim is None:
            replenish(proc)
            continue
        # Now and then too late, when somebody else may have taken the claim over.
        seconds = random.choice([0, 0.001, 0.003, 0.01]) if random.random() < 0.9 else late
        settle(claim, book, f"{name}-{next(numbers)}", mode, seconds)


def check_passed_on(
    records: Sequence[headrace.Record], count: int, entries: Sequence[Entry]
) -> None:
    """The target has one record for each of the first ``count``, under the ids told."""
    check_order(records)
    assert [record.body["of"] for record in records] == list(range(count))
    for entry in entries:
        if entry.outcome and entry.outcome["acked"]:
            told = records[entry.intent["first"] : entry.intent["last"] + 1]
            assert entry.outcome["ids"] == [record.id for record in told]


def main(url: str, ledger: str, name: str, proc: str, mode: Mode) -> None:
    with Ledger(Path(ledger)) as book, headrace.connect(url) as hr:
        run(hr.proc(proc), book, name, mode, orphanhood(), late=TIMEOUT * 2)


if __name__ == "__main__":
    main(**json.loads(sys.argv[1]))
