"""The settings of a queue change while other sessions use it: none keeps using the old ones."""

import itertools
import sqlite3

import psycopg
import pytest

from headrace.contract.items import ClientInfo, ItemFilter, WorkerRow
from headrace.errors import UpdateRefused
from headrace.testing.contract.queue_base import doc
from interleaving.queue_words import Queue, check_counts, every, payloads, queue

_serial = itertools.count(1_000_000)


def push(q: Queue) -> None:
    q.push("new")


def push_several(q: Queue) -> None:
    q.push("new", doc("other", subject="t"))


def upsert(q: Queue) -> None:
    q.upsert(doc("new", subject="u"))


def claim(q: Queue) -> None:
    q.claim(1)


def settle(kind: str):
    def work(q: Queue) -> None:
        [item] = [item for item in q.in_state(2) if item.subject == "a"]
        q.settle(item, kind, delay_ms=0 if kind == "reject" else None)

    return work


def redrive(q: Queue) -> None:
    q.ops.queues.redrive(q.name, ItemFilter(), None, 10)


def expire(q: Queue) -> None:
    q.ops.queues.expire_leases(q.name, 10)


WORK = {
    "push": push,
    "push several": push_several,
    "upsert": upsert,
    "claim": claim,
    "complete": settle("complete"),
    "reject": settle("reject"),
    "kill": settle("kill"),
    "redrive": redrive,
    "expire": expire,
}


def prepare(q: Queue, **settings) -> None:
    """One item is dead, one in flight, one has an expired lease, two are pending."""
    q.create(**{"while_active": "next", "reject_delay": 0, **settings})
    q.push(doc("dead", subject="d"))
    q.settle(q.claim_one(), "kill")
    q.push(doc("out", subject="a"))
    q.claim_one()
    q.push(doc("late", subject="l"))
    q.claim_one(lease_ms=0)
    q.push(doc(0), doc(1))


def after_each_other(client, prepared, *acts) -> list:
    """The result without interruptions, in either order."""
    results = []
    for order in (acts, acts[::-1]):
        q = prepared(client, next(_serial))
        for act in order:
            act(q)
        results.append(outcome(q))
    return results


def outcome(q: Queue) -> tuple:
    """Where every item is, and in which order the rest is claimed."""
    check_counts(q)
    kept = [(item.subject, item.state) for item in every(q, 2)]
    return kept, payloads(q, -1), q.claim_all()


@pytest.mark.parametrize("work", WORK.values(), ids=WORK)
@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({"discipline": "fifo"}, {"discipline": "lifo"}),
        ({"metrics": False}, {"metrics": True}),
    ],
    ids=["discipline", "metrics"],
)
def test_work_goes_by_the_settings_before_or_after_their_change(stepped, work, before, after):
    """All pending items are in one order, and the counts are right from the moment they are
    kept."""
    stepper, (keeper, worker) = stepped.sessions(2)

    def prepared(client, number):
        q = queue(client, number)
        prepare(q, **before)
        return q

    def script(number):
        prepared(stepped.client, number)
        return (
            lambda: queue(keeper, number).update(**after),
            lambda: work(queue(worker, number)),
        )

    right = after_each_other(stepped.client, prepared, work, lambda q: q.update(**after))
    for run in stepper.interleavings(script, interruptions=3):
        assert run.errors == [None, None], run
        assert outcome(queue(stepped.client, run.number)) in right, run


def test_dead_letter_queues_added_concurrently_are_all_kept(stepped):
    """Neither replaces the other."""
    stepper, clients = stepped.sessions(2)

    def script(number):
        queue(stepped.client, number).create()
        return [
            lambda client=client, to=to: queue(client, number).ops.queues.add_dead_queue(
                f"q{number}", to
            )
            for client, to in zip(clients, ("one", "two"), strict=True)
        ]

    for run in stepper.interleavings(script):
        assert run.errors == [None, None], run
        settings = queue(stepped.client, run.number).ops.queues.info(f"q{run.number}").settings
        assert sorted(settings.dead_to) == ["one", "two"], run


@pytest.mark.parametrize("work", [push, push_several, upsert])
def test_push_leaves_nothing_behind_in_a_dropped_queue(stepped, work):
    """If the queue was dropped before, it is created again. If it is dropped later, the item is
    deleted with it."""
    stepper, (pusher, dropper) = stepped.sessions(2)

    def script(number):
        queue(stepped.client, number).fill(1)
        return (
            lambda: work(queue(pusher, number)),
            lambda: queue(dropper, number).ops.queues.drop(f"q{number}", False),
        )

    for run in stepper.interleavings(script):
        assert run.errors == [None, None], run
        assert orphans(stepped.url) == 0, run


def orphans(url: str) -> int:
    """The number of items that belong to no queue."""
    if url.startswith("sqlite"):
        connection = sqlite3.connect(url.removeprefix("sqlite:///"))
        item, of = "headrace_item", "headrace_queue"
    else:
        place, _, schema = url.partition("?schema=")
        connection = psycopg.connect(place, autocommit=True)
        item, of = f"{schema}.item", f"{schema}.queue"
    try:
        query = f"select count(*) from {item} where queue not in (select id from {of})"
        [(count,)] = connection.execute(query).fetchall()
        return count
    finally:
        connection.close()


def test_the_end_of_an_abandoned_freeze_undoes_no_change(stepped):
    """A client finds that an abandoned freeze is over while another one changes the settings."""
    stepper, (client, other) = stepped.sessions(2)

    def script(number):
        q = queue(stepped.client, number)
        q.create()
        q.ops.queues.freeze(q.name, 1000, "stopped")
        stepped.clock.advance(2)
        row = ClientInfo(id=f"c{number}", name="c", host="here", pid=1)
        worker = WorkerRow(id=f"w{number}", client=row.id, queue=q.name)
        return (
            lambda: queue(client, number).ops.queues.heartbeat(row, [worker]),
            lambda: queue(other, number).ops.queues.update(q.name, {"lease": 77.0}),
        )

    for run in stepper.interleavings(script, interruptions=2):
        assert run.errors == [None, None], run
        q = queue(stepped.client, run.number)
        info = q.ops.queues.info(q.name)
        assert (info.settings.lease, info.version) == (77.0, 2), run
        q.push("new")
        assert payloads(q) == ["new"], run
        assert q.claim(1), run


def test_an_update_finds_every_worker_that_has_claimed(stepped):
    """A worker registers, then claims under the settings it knows. An update that starts at any
    moment of that keeps the items back, or waits for the worker. Then it runs."""
    stepper, (worker, keeper) = stepped.sessions(2)
    claimed = {}

    def register(client, number):
        q = queue(client, number)
        row = ClientInfo(id=f"c{number}", name="c", host="here", pid=1)
        return q.ops.queues.heartbeat(
            row, [WorkerRow(id=f"w{number}", client=row.id, queue=q.name)]
        )

    def begin(number):
        register(worker, number)
        claimed[number] = queue(worker, number).claim(1, version=1)

    def script(number):
        queue(stepped.client, number).create()
        queue(stepped.client, number).push("x")
        return (
            lambda: begin(number),
            lambda: keeper.queue(f"q{number}").update(lease=77.0, time_limit=0, strict=True),
        )

    for run in stepper.interleavings(script, interruptions=1):
        assert run.errors[0] is None, run
        if claimed[run.number]:
            assert isinstance(run.errors[1], UpdateRefused), run
        orders = register(stepped.client, run.number)
        assert orders.desired == {f"w{run.number}": "running"}, run
