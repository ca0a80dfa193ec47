"""The settings of a queue change while somebody works on it: nobody goes by the old ones."""

import itertools
import sqlite3

import psycopg
import pytest

from headrace.contract.items import ClientRow, Filter, WorkerRow
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
    q.desk.redrive(q.name, Filter(), None, 10)


def expire(q: Queue) -> None:
    q.desk.expire_leases(q.name, 10)


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
    """One is dead, one is out, one's time is over, two wait."""
    q.create(**{"while_active": "next", "reject_delay": 0, **settings})
    q.push(doc("dead", subject="d"))
    q.settle(q.claim_one(), "kill")
    q.push(doc("out", subject="a"))
    q.claim_one()
    q.push(doc("late", subject="l"))
    q.claim_one(lease_ms=0)
    q.push(doc(0), doc(1))


def after_each_other(client, prepared, *acts) -> list:
    """What comes of it when nobody is interrupted, in either order."""
    results = []
    for order in (acts, acts[::-1]):
        q = prepared(client, next(_serial))
        for act in order:
            act(q)
        results.append(outcome(q))
    return results


def outcome(q: Queue) -> tuple:
    """Where everything is, and in which order the rest is handed out."""
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
def test_work_goes_by_the_settings_before_or_after_their_change(stage, work, before, after):
    """All that waits is in one order, and the counts are right from the moment they are kept."""
    stepper, (keeper, worker) = stage.act(2)

    def prepared(client, number):
        q = queue(client, number)
        prepare(q, **before)
        return q

    def script(number):
        prepared(stage.client, number)
        return (
            lambda: queue(keeper, number).update(**after),
            lambda: work(queue(worker, number)),
        )

    right = after_each_other(stage.client, prepared, work, lambda q: q.update(**after))
    for run in stepper.interleavings(script, interruptions=3):
        assert run.errors == [None, None], run
        assert outcome(queue(stage.client, run.number)) in right, run


def test_queues_for_the_dead_that_are_added_at_once_are_all_there(stage):
    """Neither takes the place of the other."""
    stepper, clients = stage.act(2)

    def script(number):
        queue(stage.client, number).create()
        kinds = [client.ack_queue(f"q{number}") for client in clients]
        return [
            lambda kind=kind, to=to: kind.register_dead_letter_queue(to)
            for kind, to in zip(kinds, ("one", "two"), strict=True)
        ]

    for run in stepper.interleavings(script):
        assert run.errors == [None, None], run
        settings = queue(stage.client, run.number).desk.queue_info(f"q{run.number}").settings
        assert sorted(settings.dead_to) == ["one", "two"], run


@pytest.mark.parametrize("work", [push, push_several, upsert])
def test_push_leaves_nothing_behind_in_a_queue_that_is_gone(stage, work):
    """Dropped before, the queue is made anew; dropped after, the item goes with it."""
    stepper, (pusher, dropper) = stage.act(2)

    def script(number):
        queue(stage.client, number).fill(1)
        return (
            lambda: work(queue(pusher, number)),
            lambda: queue(dropper, number).desk.drop_queue(f"q{number}", False),
        )

    for run in stepper.interleavings(script):
        assert run.errors == [None, None], run
        assert orphans(stage.url) == 0, run


def orphans(url: str) -> int:
    """How many items belong to no queue."""
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


def test_the_end_of_a_hold_that_was_left_undoes_no_change(stage):
    """A client finds that a hold is over which nobody has ended, while somebody changes the
    settings."""
    stepper, (client, other) = stage.act(2)

    def script(number):
        q = queue(stage.client, number)
        q.create()
        q.desk.hold_queue(q.name, 1000, "stopped")
        stage.clock.advance(2)
        row = ClientRow(id=f"c{number}", name="c", host="here", pid=1)
        worker = WorkerRow(id=f"w{number}", client=row.id, queue=q.name)
        return (
            lambda: queue(client, number).desk.beat(row, [worker]),
            lambda: queue(other, number).desk.update_queue(q.name, {"lock_duration": 77.0}),
        )

    for run in stepper.interleavings(script, interruptions=2):
        assert run.errors == [None, None], run
        q = queue(stage.client, run.number)
        info = q.desk.queue_info(q.name)
        assert (info.settings.lock_duration, info.version) == (77.0, 2), run
        q.push("new")
        assert payloads(q) == ["new"], run
        assert q.claim(1), run
