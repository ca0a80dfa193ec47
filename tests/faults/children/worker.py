"""Claims records, and acks or forwards them, until it is killed."""

import itertools
import json
import random
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal

import headrace
from faults.polling import orphanhood
from headrace.errors import ClaimLost
from headrace.testing.audit_log import AuditEntry, AuditLog, check_order

Mode = Literal["ack", "ack_commit"]
TIMEOUT = 0.1


def target(proc: str) -> str:
    """The topic to which a proc forwards records."""
    return f"{proc}-out"


def make(hr: headrace.Headrace, proc: str, topic: str, timeout: float = TIMEOUT) -> headrace.Proc:
    """A proc that outlives its workers: their claims expire soon, and it is never disabled."""
    return hr.procs.create(proc, topic, lease=timeout, on_exhausted="continue")


def settle(claim: headrace.Claim, log: AuditLog, name: str, mode: Mode, seconds: float = 0) -> None:
    """Work on a claim for some time and ack it, recorded before and after."""
    assert claim.deadline is not None
    log.intend(
        name,
        proc=claim.proc.name,
        first=claim[0].seq,
        last=claim[-1].seq,
        until=round(claim.deadline.timestamp() * 1000),
    )
    time.sleep(seconds)
    ids: list[str] = []
    log.send(name)
    try:
        if mode == "ack":
            claim.ack()
        else:
            out = target(claim.proc.name)
            ids = claim.ack_commit([(out, {"of": record.seq}) for record in claim]).ids
    except ClaimLost:
        log.outcome(name, acked=False)
    else:
        log.outcome(name, acked=True, ids=ids)


def replenish(proc: headrace.Proc) -> None:
    """Commit more if everything is done. Otherwise another claim is in flight and expires soon."""
    if proc.lag().records:
        time.sleep(0.01)
    else:
        proc._client.commit_many(proc.info().topic, [{}] * 50)


def run(
    proc: headrace.Proc,
    log: AuditLog,
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
        # Now and then too late, when another worker may have taken the claim over.
        seconds = random.choice([0, 0.001, 0.003, 0.01]) if random.random() < 0.9 else late
        settle(claim, log, f"{name}-{next(numbers)}", mode, seconds)


def check_passed_on(
    records: Sequence[headrace.Record], count: int, entries: Sequence[AuditEntry]
) -> None:
    """The target has one record for each of the first ``count``, under the ids that were
    answered."""
    check_order(records)
    assert [record.body["of"] for record in records] == list(range(count))
    for entry in entries:
        if entry.outcome and entry.outcome["acked"]:
            stored = records[entry.intent["first"] : entry.intent["last"] + 1]
            assert entry.outcome["ids"] == [record.id for record in stored]


def main(url: str, log_path: str, name: str, proc: str, mode: Mode) -> None:
    with AuditLog(Path(log_path)) as log, headrace.connect(url) as hr:
        run(hr.proc(proc), log, name, mode, orphanhood(), late=TIMEOUT * 2)


if __name__ == "__main__":
    main(**json.loads(sys.argv[1]))
