"""Outcomes, leases and newer content of one item, in every order their steps can have."""

import pytest

from headrace.contract.items import PushCall
from headrace.contract.values import CommitCall, CommitPart
from headrace.model.queues.items import State
from headrace.testing.contract.queue_base import doc, outcome_of, payload
from interleaving.queue_words import LIVE, check_counts, every, payloads, queue

KINDS = ["complete", "reschedule", "reject", "kill", "drop", "release"]


def with_expired_item(stepped, number, **settings):
    """An item with the subject ``s`` is in flight, and its lease has expired."""
    q = queue(stepped.client, number)
    q.create(while_active="next", reject_delay=0, **settings)
    q.push(doc("old", subject="s"))
    item = q.claim_one(lease_ms=1000)
    stepped.clock.advance(2)
    return item


def then(number):
    """The follow-ups of an outcome."""
    return {
        "commits": (CommitCall(parts=(CommitPart(f"t{number}", 1, "1"),)),),
        "pushes": (PushCall(queue=f"q{number}-then", documents=(doc("then"),)),),
    }


def effects(stepped, number):
    """How often the follow-ups of an outcome were applied."""
    is_there = bool(stepped.client.topics.list(prefix=f"t{number}"))
    records = stepped.client.range(f"t{number}") if is_there else []
    names = [info.name for info in queue(stepped.client, number).ops.queues.list("", "", 10_000)]
    more = queue(stepped.client, f"{number}-then")
    pushed = payloads(more) if more.name in names else []
    assert len(records) == len(pushed)
    return len(records)


@pytest.mark.parametrize("has_effects", [False, True], ids=["plain", "with effects"])
@pytest.mark.parametrize("kind", ["complete", "kill", "release"])
def test_outcome_and_end_of_the_lease_have_one_winner(stepped, kind, has_effects):
    """The outcome counts with all its follow-ups, or the lease is ended and none of them does."""
    stepper, (late, other) = stepped.sessions(2)

    def script(number):
        item = with_expired_item(stepped, number)
        more = then(number) if has_effects else {}
        return (
            lambda: queue(late, number).settle(item, kind, **more).state,
            lambda: other._store.run(other._store.queues.expire_leases(f"q{number}", 10)),
        )

    outcomes = set()
    for run in stepper.interleavings(script, interruptions=1 if has_effects else 2):
        assert run.errors == [None, None], run
        q = queue(stepped.client, run.number)
        state, ended = run.results
        is_lost = state == "lost"
        outcomes.add(is_lost)
        assert is_lost == bool(ended), run
        assert len(q.errors()) == len(ended), run
        assert effects(stepped, run.number) == (has_effects and not is_lost), run
        if is_lost:
            [item] = every(q)
            assert (item.state, item.crashes, item.attempts) == (State.PENDING, 1, 1), run
        check_counts(q)
    assert outcomes == {True, False}


@pytest.mark.parametrize("kind", ["complete", "reject"])
def test_zombie_and_its_successor_have_one_winner(stepped, kind):
    """A late outcome counts, or another claim has the item and the late outcome is lost."""
    stepper, (zombie, other) = stepped.sessions(2)

    def script(number):
        item = with_expired_item(stepped, number)
        return (
            lambda: queue(zombie, number).settle(item, kind, **then(number)).state,
            lambda: queue(other, number).claim_response(1, token="next"),
        )

    outcomes = set()
    for run in stepper.interleavings(script, interruptions=1):
        assert run.errors == [None, None], run
        state, response = run.results
        outcomes.add(state)
        is_lost = state == "lost"
        assert effects(stepped, run.number) == (not is_lost), run
        claimed = list(response.items)
        assert every(queue(stepped.client, run.number), State.ACTIVE) == claimed, run
        if is_lost:
            assert [item.crashes for item in claimed] == [1], run
        elif kind == "complete":
            assert not claimed, run
        check_counts(queue(stepped.client, run.number))
    assert outcomes == {"lost", "completed" if kind == "complete" else "pending"}


@pytest.mark.parametrize("has_effects", [False, True], ids=["plain", "with effects"])
def test_outcome_sent_twice_concurrently_counts_once(stepped, has_effects):
    """One of the two counts, the other is lost."""
    stepper, clients = stepped.sessions(2)

    def script(number):
        item = with_expired_item(stepped, number)
        more = then(number) if has_effects else {}
        return [
            lambda client=client: queue(client, number).settle(item, "complete", **more).state
            for client in clients
        ]

    for run in stepper.interleavings(script, interruptions=1 if has_effects else 2):
        assert run.errors == [None, None], run
        assert sorted(run.results) == ["completed", "lost"], run
        q = queue(stepped.client, run.number)
        assert q.counts().processed == 1, run
        assert effects(stepped, run.number) == has_effects, run
        assert every(q) == [], run


@pytest.mark.parametrize("kind", KINDS)
def test_newer_content_is_never_lost(stepped, kind):
    """Whether it comes before the outcome or after it, one live item has it."""
    stepper, (worker, pusher) = stepped.sessions(2)

    def script(number):
        item = with_expired_item(stepped, number)
        return (
            lambda: queue(worker, number).settle(item, kind).state,
            lambda: queue(pusher, number).upsert(doc("new", subject="s")),
        )

    for run in stepper.interleavings(script, interruptions=2):
        assert run.errors == [None, None], run
        assert run.results[0] != "lost", run
        q = queue(stepped.client, run.number)
        assert payloads(q, *LIVE) == ["new"], run
        assert payloads(q, State.DEAD) == ["old"] * (kind == "kill"), run
        check_counts(q)


def test_push_while_its_subject_ends_is_one_item_or_none(stepped):
    """The push found the item, which then ended, or came later and is a new item."""
    stepper, (worker, pusher) = stepped.sessions(2)

    def script(number):
        item = with_expired_item(stepped, number)
        return (
            lambda: queue(worker, number).settle(item, "complete").state,
            lambda: queue(pusher, number).push(doc("new", subject="s")),
        )

    outcomes = set()
    for run in stepper.interleavings(script, interruptions=1):
        assert run.errors == [None, None], run
        q = queue(stepped.client, run.number)
        is_new = not run.results[1].notes
        outcomes.add(is_new)
        assert payloads(q) == ["new"] * is_new, run
        assert q.counts().entered == 1 + is_new, run
        check_counts(q)
    assert outcomes == {True, False}


def test_extension_and_end_of_the_lease_have_one_winner(stepped):
    """The lease is longer, or it is over. An ended lease is never extended."""
    stepper, (worker, other) = stepped.sessions(2)

    def script(number):
        item = with_expired_item(stepped, number)
        store = worker._store
        return (
            lambda: store.run(store.queues.extend(f"q{number}", item.token, [item.id], 5000)),
            lambda: other._store.run(other._store.queues.expire_leases(f"q{number}", 10)),
        )

    outcomes = set()
    for run in stepper.interleavings(script, interruptions=1):
        assert run.errors == [None, None], run
        extended, ended = map(bool, run.results)
        outcomes.add(extended)
        assert extended != ended, run
        [item] = every(queue(stepped.client, run.number))
        assert (item.lease_until == stepped.clock.now + 5000) == extended, run
        assert item.crashes == ended, run
    assert outcomes == {True, False}


def test_items_of_one_claim_settled_from_two_sides(stepped):
    """Two sessions settle all items of one claim in opposite orders: each counts once."""
    stepper, clients = stepped.sessions(2)

    def script(number):
        q = queue(stepped.client, number)
        q.fill(3)
        items = q.claim(3)

        def settle(client, ordered):
            q = queue(client, number)
            outcomes = [outcome_of(item, "kill") for item in ordered]
            return [one.state for one in q.ops.queues.settle(q.name, outcomes)]

        return (
            lambda: settle(clients[0], items),
            lambda: settle(clients[1], items[::-1]),
        )

    for run in stepper.interleavings(script, interruptions=1):
        assert run.errors == [None, None], run
        q = queue(stepped.client, run.number)
        forth, back = run.results
        assert all({a, b} == {"dead", "lost"} for a, b in zip(forth, back[::-1], strict=True)), run
        assert [payload(item) for item in q.dead()] == [0, 1, 2], run
        check_counts(q)
