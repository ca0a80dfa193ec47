"""Commits and rolls back transactions of several operations until it is killed."""

import asyncio
import itertools
import json
import random
import sys
from collections.abc import Sequence
from pathlib import Path

import headrace
from faults.children.committer import plan
from faults.polling import orphanhood
from headrace.testing.audit_log import AuditLog, body


class Undone(Exception):
    """Rolls a transaction back."""


def transact(hr: headrace.Headrace, log: AuditLog, name: str, wanted: Sequence[str]) -> None:
    """One transaction that is committed, recorded before and after."""
    log.intend(name, topics=list(wanted))
    with hr.transaction() as tx:
        receipt = tx.commit([(topic, body(name, place)) for place, topic in enumerate(wanted)])
    log.outcome(name, ids=hr.resolve(receipt))


def undo(hr: headrace.Headrace, name: str, wanted: Sequence[str]) -> None:
    """One that is rolled back. No audit log mentions it."""
    try:
        with hr.transaction() as tx:
            tx.commit([(topic, body(f"undone {name}", 0)) for topic in wanted])
            raise Undone
    except Undone:
        pass


async def atransact(
    hr: headrace.AsyncHeadrace, log: AuditLog, name: str, wanted: Sequence[str]
) -> None:
    """``transact`` on an event loop."""
    log.intend(name, topics=list(wanted))
    async with hr.transaction() as tx:
        receipt = await tx.commit([(t, body(name, place)) for place, t in enumerate(wanted)])
    log.outcome(name, ids=await hr.resolve(receipt))


async def aundo(hr: headrace.AsyncHeadrace, name: str, wanted: Sequence[str]) -> None:
    """``undo`` on an event loop."""
    try:
        async with hr.transaction() as tx:
            await tx.commit([(topic, body(f"undone {name}", 0)) for topic in wanted])
            raise Undone
    except Undone:
        pass


async def amain(url: str, log: AuditLog, name: str, topics: list[str], tasks: int) -> None:
    is_over = orphanhood()

    async def work(task: int) -> None:
        for number in itertools.count():
            if is_over():
                return
            wanted = plan(number, topics)
            if random.random() < 0.4:
                await aundo(hr, name, wanted)
            else:
                await atransact(hr, log, f"{name}-{task}-{number}", wanted)

    async with await headrace.aconnect(url) as hr, asyncio.TaskGroup() as group:
        for task in range(tasks):
            group.create_task(work(task))


def main(url: str, log_path: str, name: str, topics: list[str], tasks: int = 0) -> None:
    """With that many ``tasks`` on an event loop, or blocking if there are none."""
    if tasks:
        with AuditLog(Path(log_path)) as log:
            asyncio.run(amain(url, log, name, topics, tasks))
        return
    is_over = orphanhood()
    with AuditLog(Path(log_path)) as log, headrace.connect(url) as hr:
        for number in itertools.count():
            if is_over():
                return
            wanted = plan(number, topics)
            if random.random() < 0.4:
                undo(hr, name, wanted)
            else:
                transact(hr, log, f"{name}-{number}", wanted)


if __name__ == "__main__":
    main(**json.loads(sys.argv[1]))
