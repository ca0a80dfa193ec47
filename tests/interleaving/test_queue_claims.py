"""Claims on one queue by several sessions, in every order their steps can have."""

import pytest

from headrace.contract.items import ClaimResponse
from headrace.model.queues.items import State
from headrace.testing.contract.queue_base import doc, payload
from interleaving.queue_words import (
    check_counts,
    check_held,
    claim_in_transaction,
    every,
    payloads,
    queue,
)

WAYS = {
    "alone": lambda client, q, token: q.claim_response(2, token=token),
    "in a transaction": lambda client, q, token: claim_in_transaction(client, q, token, 2),
}


def chosen(stepped, way):
    # A transaction on SQLite waits for the file where the stepper cannot see it.
    return WAYS["alone" if stepped.url.startswith("sqlite") else way]


@pytest.mark.parametrize("ways", [("alone", "alone"), ("alone", "in a transaction")], ids=str)
def test_two_concurrent_claims_never_share_an_item(stepped, ways):
    """Every item is claimed once, and neither session gets an error."""
    stepper, clients = stepped.sessions(2)
    chosen_ways = [chosen(stepped, way) for way in ways]

    def script(number):
        queue(stepped.client, number).fill(3)
        return [
            lambda way=way, client=client, token=token: way(client, queue(client, number), token)
            for way, client, token in zip(chosen_ways, clients, "AB", strict=True)
        ]

    for run in stepper.interleavings(script, interruptions=2):
        assert run.errors == [None, None], run
        claimed = [item for response in run.results for item in response.items]
        assert sorted(payload(item) for item in claimed) == [0, 1, 2], run
        assert all(item.attempts == 1 for item in claimed), run
        check_held(queue(stepped.client, run.number), claimed)


def test_planned_items_become_due_once(stepped):
    """Two sessions that put the same planned item in line claim it once."""
    stepper, clients = stepped.sessions(2)

    def script(number):
        queue(stepped.client, number).push(doc(0, delay=1000), doc(1, delay=1000))
        stepped.clock.advance(2)
        return [lambda client=client: queue(client, number).claim_response(1) for client in clients]

    for run in stepper.interleavings(script, interruptions=1):
        assert run.errors == [None, None], run
        claimed = [item for response in run.results for item in response.items]
        assert len({item.id for item in claimed}) == len(claimed) >= 1, run
        check_held(queue(stepped.client, run.number), claimed)


@pytest.mark.parametrize("while_active", ["skip", "next"])
@pytest.mark.parametrize("way", WAYS)
def test_item_in_flight_is_never_changed(stepped, way, while_active):
    """An upsert replaces pending content. The claimed content is the stored one."""
    stepper, (claimer, pusher) = stepped.sessions(2)

    def script(number):
        queue(stepped.client, number).push(doc("old", subject="s"))
        return (
            lambda: chosen(stepped, way)(claimer, queue(claimer, number), "A"),
            lambda: queue(pusher, number).upsert(
                doc("new", subject="s"), while_active=while_active
            ),
        )

    outcomes = set()
    for run in stepper.interleavings(script, interruptions=1):
        assert run.errors == [None, None], run
        q = queue(stepped.client, run.number)
        response, pushed = run.results
        [item] = every(q)
        [note] = pushed.notes
        outcomes.add((payload(item), note.outcome))
        if response.items:
            assert payload(response.items[0]) == payload(item), run
            assert item.state == State.ACTIVE, run
        assert (note.outcome == "updated") == (payload(item) == "new"), run
        assert bool(item.successor) == (note.outcome == "next"), run
        check_counts(q)
    assert outcomes == {
        ("new", "updated"),
        ("old", "skipped" if while_active == "skip" else "next"),
    }


def test_the_item_of_an_expired_lease_is_claimed_once(stepped):
    """Two claims find the lease expired: one crash is counted, and one claim gets the item."""
    stepper, clients = stepped.sessions(2)

    def script(number):
        q = queue(stepped.client, number)
        q.fill(1)
        q.claim_response(1, lease_ms=1000)
        stepped.clock.advance(2)
        return [lambda client=client: queue(client, number).claim_response(1) for client in clients]

    for run in stepper.interleavings(script, interruptions=1):
        assert run.errors == [None, None], run
        q = queue(stepped.client, run.number)
        claimed = [item for response in run.results for item in response.items]
        [item] = every(q)
        assert item.crashes == 1, run
        assert len(q.errors()) == 1, run
        assert [item] == claimed, run
        check_counts(q)


CHANGES = {
    "pause": lambda q: q.ops.queues.pause(q.name, None),
    "freeze": lambda q: q.ops.queues.freeze(q.name, 60_000, "stopped"),
    "turn round": lambda q: q.update(discipline="lifo"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_claim_and_change_have_an_order(stepped, change):
    """The claim came first and got the first items, or came after the change and follows it."""
    stepper, (claimer, other) = stepped.sessions(2)

    def script(number):
        q = queue(stepped.client, number)
        q.create(discipline="fifo")
        q.fill(3)
        return (
            lambda: queue(claimer, number).claim_response(1, version=1),
            lambda: CHANGES[change](queue(other, number)),
        )

    outcomes = set()
    late = "stale" if change == "turn round" else "paused"
    for run in stepper.interleavings(script):
        assert run.errors == [None, None], run
        response: ClaimResponse = run.results[0]
        outcomes.add(response.state)
        assert [payload(item) for item in response.items] == [0] * (response.state == "claimed"), (
            run
        )
        q = queue(stepped.client, run.number)
        check_held(q, list(response.items))
        assert len(payloads(q)) == 3, run
    # While the order is reversed, all items are locked and skipped.
    assert outcomes - {"empty"} == {"claimed", late}
