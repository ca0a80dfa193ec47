"""Pushes to one queue by several sessions, in every order their steps can have."""

import pytest

from headrace.contract.items import ItemFilter, Pushed
from headrace.model.queues.items import State
from headrace.testing.contract.queue_base import doc
from interleaving.queue_words import LIVE, check_counts, payloads, queue

EVERYTHING = ItemFilter()
MODES = {
    "push": lambda q, *docs: q.push(*docs),
    "upsert": lambda q, *docs: q.upsert(*docs),
}


@pytest.mark.parametrize(
    ("modes", "unique"),
    [
        (("push", "push"), "live"),
        (("push", "upsert"), "live"),
        (("upsert", "upsert"), "live"),
        (("push", "push"), "forever"),
    ],
)
def test_two_pushes_of_one_subject_create_one_item(stepped, modes, unique):
    """Both get the same id. One created the item, the other found it."""
    stepper, clients = stepped.sessions(2)

    def script(number):
        queue(stepped.client, number).create(unique=unique)
        return [
            lambda mode=mode, client=client: MODES[mode](
                queue(client, number), doc(mode, subject="s")
            )
            for mode, client in zip(modes, clients, strict=True)
        ]

    for run in stepper.interleavings(script, interruptions=2):
        assert run.errors == [None, None], run
        one, two = run.results
        assert one.ids == two.ids, run
        assert sorted(map(len, (one.notes, two.notes))) == [0, 1], run
        q = queue(stepped.client, run.number)
        assert len(payloads(q)) == 1, run
        assert q.counts().entered == 1, run
        check_counts(q)


@pytest.mark.parametrize("mode", MODES)
def test_overlapping_pushes_in_opposite_order_both_succeed(stepped, mode):
    """No deadlock reaches a caller, and there is one item per subject."""
    stepper, clients = stepped.sessions(2)

    def script(number):
        q = queue(stepped.client, number)
        q.push(doc("old", subject="a"), doc("old", subject="b"), doc("old", subject="c"))
        orders = ["abcdef", "fedcba"]
        return [
            lambda order=order, client=client: MODES[mode](
                queue(client, number), *(doc(order, subject=s) for s in order)
            )
            for order, client in zip(orders, clients, strict=True)
        ]

    for run in stepper.interleavings(script, interruptions=2):
        assert run.errors == [None, None], run
        forth, back = run.results
        assert forth.ids == back.ids[::-1], run
        q = queue(stepped.client, run.number)
        assert len(payloads(q, *LIVE)) == 6, run
        assert q.counts().entered == 6, run
        check_counts(q)


def test_push_with_a_key_sent_twice_concurrently_pushes_once(stepped):
    """Both get the first result. Different content under the key is refused."""
    stepper, clients = stepped.sessions(3)

    def script(number):
        queue(stepped.client, number).create()

        def push(client, digest):
            q = queue(client, number)
            [outcome] = q.ops.queues.push([q.call(digest, key=f"k{number}", digest=digest)])
            return outcome

        return [lambda c=c, d=d: push(c, d) for c, d in zip(clients, "aab", strict=True)]

    for run in stepper.interleavings(script, interruptions=1):
        assert run.errors == [None, None, None], run
        one, two, other = run.results
        assert one == two, run
        assert isinstance(one, Pushed) != isinstance(other, Pushed), run
        assert len(payloads(queue(stepped.client, run.number))) == 1, run


def test_keys_in_opposite_order_do_not_collide(stepped):
    """Two sessions push groups of calls with the same keys. Each key pushes once, and a call
    without a key always does."""
    stepper, clients = stepped.sessions(2)

    def script(number):
        queue(stepped.client, number).create()

        def push(client, keys):
            q = queue(client, number)
            calls = [
                q.call(doc(str(key), subject=key), key=key and f"{key}{number}", digest=key)
                for key in keys
            ]
            return q.ops.queues.push(calls)

        orders = (("a", "b", None), ("b", "a", None))
        return [lambda c=c, o=o: push(c, o) for c, o in zip(clients, orders, strict=True)]

    for run in stepper.interleavings(script, interruptions=2):
        assert run.errors == [None, None], run
        (a, b, _), (again_b, again_a, _) = run.results
        assert (a, b) == (again_a, again_b), run
        found = payloads(queue(stepped.client, run.number))
        assert found == ["None", "None", "a", "b"], run


def test_a_key_and_a_subject_that_another_push_uses(stepped):
    """One of the two pushes creates the item; the other finds it, and its key keeps that answer."""
    stepper, clients = stepped.sessions(2)

    def push(client, number, place):
        q = queue(client, number)
        [outcome] = q.ops.queues.push(
            [q.call(doc(place, subject="s"), key=f"{place} {number}", digest="d")]
        )
        return outcome

    def script(number):
        queue(stepped.client, number).create()
        return [lambda c=c, p=p: push(c, number, p) for p, c in enumerate(clients)]

    for run in stepper.interleavings(script, interruptions=2):
        assert run.errors == [None, None], run
        one, two = run.results
        assert one.ids == two.ids, run
        assert sorted(map(len, (one.notes, two.notes))) == [0, 1], run
        assert [push(stepped.client, run.number, place) for place in range(2)] == [one, two], run


def test_subject_that_counts_for_ever_is_pushed_once(stepped):
    """Although its item came and went while another session was about to push it."""
    stepper, (one, two) = stepped.sessions(2)

    def come_and_go(number):
        q = queue(two, number)
        q.push(doc(2, subject="s"))
        claimed = q.claim(1)
        return [q.settle(item, "complete").state for item in claimed]

    def script(number):
        queue(stepped.client, number).create(unique="forever")
        return (
            lambda: queue(one, number).push(doc(1, subject="s")),
            lambda: come_and_go(number),
        )

    for run in stepper.interleavings(script, interruptions=1):
        assert run.errors == [None, None], run
        q = queue(stepped.client, run.number)
        assert q.counts().entered == 1, run
        check_counts(q)


@pytest.mark.parametrize("keep_data", [True, False])
def test_push_and_drop_of_its_queue_are_serialisable(stepped, keep_data):
    """The push came first, or created the queue again. The next push works in both cases."""
    stepper, (pusher, dropper) = stepped.sessions(2)

    def script(number):
        queue(stepped.client, number).fill(1)
        store = dropper._store
        return (
            lambda: queue(pusher, number).upsert(doc(1, subject="s")),
            lambda: store.run(store.queues.drop(f"q{number}", keep_data)),
        )

    for run in stepper.interleavings(script, interruptions=1):
        assert run.errors == [None, None], run
        q = queue(stepped.client, run.number)
        assert q.push(doc(2, subject="t")).notes == (), run
        assert 2 in payloads(q), run
        check_counts(q)


def test_queue_created_twice_concurrently_is_one_queue(stepped):
    """Both pushes go into it."""
    stepper, clients = stepped.sessions(2)

    def script(number):
        return [lambda client=client: queue(client, number).push(1) for client in clients]

    for run in stepper.interleavings(script, interruptions=1):
        assert run.errors == [None, None], run
        q = queue(stepped.client, run.number)
        assert payloads(q) == [1, 1], run
        check_counts(q)


def redrive(q):
    return q.ops.queues.redrive(q.name, EVERYTHING, None, 10)


def redrive_elsewhere(q):
    return q.ops.queues.redrive(q.name, EVERYTHING, f"{q.name}-other", 10)


def retry(q):
    [dead] = q.dead()
    return q.ops.queues.retry_item(q.name, dead.item.id)


@pytest.mark.parametrize("act", [redrive, retry])
def test_dead_item_and_new_one_of_its_subject_do_not_meet(stepped, act):
    """One of them is live, and nothing is lost: an item that was not retried is still dead."""
    stepper, (digger, pusher) = stepped.sessions(2)

    def script(number):
        q = queue(stepped.client, number)
        q.push(doc("dead", subject="s"))
        q.end("kill")
        return (
            lambda: act(queue(digger, number)),
            lambda: queue(pusher, number).push(doc("new", subject="s")),
        )

    outcomes = set()
    for run in stepper.interleavings(script, interruptions=2):
        assert run.errors[1] is None, run
        q = queue(stepped.client, run.number)
        is_new = not run.results[1].notes
        outcomes.add(is_new)
        assert payloads(q, *LIVE) == (["new"] if is_new else ["dead"]), run
        assert payloads(q, State.DEAD) == ["dead"] * is_new, run
        if act is redrive:
            assert run.results[0] == (not is_new), run
        check_counts(q)
    assert outcomes == {True, False}


def test_redrive_to_another_queue_loses_nothing(stepped):
    """If a push uses the subject there at that moment, the dead item stays where it is."""
    stepper, (digger, pusher) = stepped.sessions(2)

    def script(number):
        q = queue(stepped.client, number)
        queue(stepped.client, f"{number}-other").create()
        q.push(doc("dead", subject="s"))
        q.end("kill")
        return (
            lambda: redrive_elsewhere(queue(digger, number)),
            lambda: queue(pusher, f"{number}-other").push(doc("new", subject="s")),
        )

    for run in stepper.interleavings(script, interruptions=2):
        assert run.errors == [None, None], run
        q, other = queue(stepped.client, run.number), queue(stepped.client, f"{run.number}-other")
        is_new = not run.results[1].notes
        assert run.results[0] == (not is_new), run
        assert payloads(other, *LIVE) == (["new"] if is_new else ["dead"]), run
        assert payloads(q, State.DEAD) == ["dead"] * is_new, run
        check_counts(q)
        check_counts(other)


def test_copy_of_a_dead_item_is_never_lost(stepped):
    """If a push uses the subject in that queue at that moment, the copy has no subject."""
    stepper, (worker, pusher) = stepped.sessions(2)

    def script(number):
        q, other = queue(stepped.client, number), queue(stepped.client, f"{number}-other")
        other.create()
        q.create(dead_to=[other.name])
        q.push(doc("dead", subject="s"))
        item = q.claim_one()
        return (
            lambda: queue(worker, number).settle(item, "kill").state,
            lambda: queue(pusher, f"{number}-other").push(doc("new", subject="s")),
        )

    for run in stepper.interleavings(script, interruptions=2):
        assert run.errors == [None, None], run
        assert run.results[0] == "dead", run
        other = queue(stepped.client, f"{run.number}-other")
        is_new = not run.results[1].notes
        assert payloads(other, *LIVE) == ["dead", *["new"] * is_new], run
        check_counts(other)


@pytest.mark.parametrize("act", [redrive, retry])
def test_two_retries_of_one_dead_item_retry_it_once(stepped, act):
    """It is live once, and counted once."""
    stepper, clients = stepped.sessions(2)

    def script(number):
        q = queue(stepped.client, number)
        q.push(doc("dead"))
        q.end("kill")
        [dead] = q.dead()
        return (
            lambda: act(queue(clients[0], number)) if act is redrive else brought(clients[0], dead),
            lambda: brought(clients[1], dead),
        )

    def brought(client, dead):
        store = client._store
        return store.run(store.queues.retry_item(dead.item.queue, dead.item.id))

    for run in stepper.interleavings(script, interruptions=1):
        assert run.errors == [None, None], run
        q = queue(stepped.client, run.number)
        assert payloads(q) == payloads(q, State.PENDING) == ["dead"], run
        check_counts(q)
