"""Claims on one queue by several sessions, in every order their steps can have."""

import pytest

from headrace.contract.items import Taking
from headrace.model.items import State
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
    "alone": lambda client, q, token: q.take(2, token=token),
    "in a transaction": lambda client, q, token: claim_in_transaction(client, q, token, 2),
}


def chosen(stage, way):
    # A transaction on SQLite waits for the file where the stepper cannot see it.
    return WAYS["alone" if stage.url.startswith("sqlite") else way]


@pytest.mark.parametrize("ways", [("alone", "alone"), ("alone", "in a transaction")], ids=str)
def test_two_claims_at_once_never_share_an_item(stage, ways):
    """All is handed out, each item once, and neither session gets an error."""
    stepper, clients = stage.act(2)
    chosen_ways = [chosen(stage, way) for way in ways]

    def script(number):
        queue(stage.client, number).fill(3)
        return [
            lambda way=way, client=client, token=token: way(client, queue(client, number), token)
            for way, client, token in zip(chosen_ways, clients, "AB", strict=True)
        ]

    for run in stepper.interleavings(script, interruptions=2):
        assert run.errors == [None, None], run
        taken = [item for taking in run.results for item in taking.items]
        assert sorted(payload(item) for item in taken) == [0, 1, 2], run
        assert all(item.attempts == 1 for item in taken), run
        check_held(queue(stage.client, run.number), taken)


def test_planned_items_become_due_once(stage):
    """Two sessions that let the same planned item into the line hand it out once."""
    stepper, clients = stage.act(2)

    def script(number):
        queue(stage.client, number).push(doc(0, delay=1000), doc(1, delay=1000))
        stage.clock.advance(2)
        return [lambda client=client: queue(client, number).take(1) for client in clients]

    for run in stepper.interleavings(script, interruptions=1):
        assert run.errors == [None, None], run
        taken = [item for taking in run.results for item in taking.items]
        assert len({item.id for item in taken}) == len(taken) >= 1, run
        check_held(queue(stage.client, run.number), taken)


@pytest.mark.parametrize("while_active", ["skip", "next"])
@pytest.mark.parametrize("way", WAYS)
def test_item_in_flight_is_never_changed(stage, way, while_active):
    """An upsert replaces what waits; who has claimed the item has what is stored."""
    stepper, (claimer, pusher) = stage.act(2)

    def script(number):
        queue(stage.client, number).push(doc("old", subject="s"))
        return (
            lambda: chosen(stage, way)(claimer, queue(claimer, number), "A"),
            lambda: queue(pusher, number).upsert(
                doc("new", subject="s"), while_active=while_active
            ),
        )

    outcomes = set()
    for run in stepper.interleavings(script, interruptions=1):
        assert run.errors == [None, None], run
        q = queue(stage.client, run.number)
        taking, pushed = run.results
        [item] = every(q)
        [note] = pushed.notes
        outcomes.add((payload(item), note.outcome))
        if taking.items:
            assert payload(taking.items[0]) == payload(item), run
            assert item.state == State.ACTIVE, run
        assert (note.outcome == "updated") == (payload(item) == "new"), run
        assert bool(item.successor) == (note.outcome == "next"), run
        check_counts(q)
    assert outcomes == {
        ("new", "updated"),
        ("old", "skipped" if while_active == "skip" else "next"),
    }


def test_what_an_expired_lease_gives_back_is_handed_out_once(stage):
    """Two claims that both find a lease over: one crash is counted, and one gets the item."""
    stepper, clients = stage.act(2)

    def script(number):
        q = queue(stage.client, number)
        q.fill(1)
        q.take(1, lease_ms=1000)
        stage.clock.advance(2)
        return [lambda client=client: queue(client, number).take(1) for client in clients]

    for run in stepper.interleavings(script, interruptions=1):
        assert run.errors == [None, None], run
        q = queue(stage.client, run.number)
        taken = [item for taking in run.results for item in taking.items]
        [item] = every(q)
        assert item.crashes == 1, run
        assert len(q.errors()) == 1, run
        assert [item] == taken, run
        check_counts(q)


CHANGES = {
    "pause": lambda q: q.desk.pause_queue(q.name, None),
    "hold": lambda q: q.desk.hold_queue(q.name, 60_000, "stopped"),
    "turn round": lambda q: q.update(discipline="lifo"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_claim_and_change_have_an_order(stage, change):
    """The claim came first and got the first items, or after the change and got what it says."""
    stepper, (claimer, other) = stage.act(2)

    def script(number):
        q = queue(stage.client, number)
        q.create(discipline="fifo")
        q.fill(3)
        return (
            lambda: queue(claimer, number).take(1, version=1),
            lambda: CHANGES[change](queue(other, number)),
        )

    outcomes = set()
    late = "stale" if change == "turn round" else "paused"
    for run in stepper.interleavings(script):
        assert run.errors == [None, None], run
        taking: Taking = run.results[0]
        outcomes.add(taking.state)
        assert [payload(item) for item in taking.items] == [0] * (taking.state == "claimed"), run
        q = queue(stage.client, run.number)
        check_held(q, list(taking.items))
        assert len(payloads(q)) == 3, run
    # While they are turned round all items are locked, and passed over.
    assert outcomes - {"empty"} == {"claimed", late}
