"""Outcomes, leases and newer content of one item, in every order their steps can have."""

import pytest

from headrace.contract.items import PushCall
from headrace.contract.values import CommitCall, Part
from headrace.model.items import State
from headrace.testing.contract.queue_base import doc, payload, said
from interleaving.queue_words import LIVE, check_counts, every, payloads, queue

KINDS = ["complete", "reschedule", "reject", "kill", "drop", "release"]


def with_item_out(stage, number, **settings):
    """An item with the subject ``s`` is out, and its lease is over."""
    q = queue(stage.client, number)
    q.create(while_active="next", reject_delay=0, **settings)
    q.push(doc("old", subject="s"))
    item = q.claim_one(lease_ms=1000)
    stage.clock.advance(2)
    return item


def then(number):
    """What goes with an outcome."""
    return {
        "commits": (CommitCall(parts=(Part(f"t{number}", 1, "1"),)),),
        "pushes": (PushCall(queue=f"q{number}-then", documents=(doc("then"),)),),
    }


def effects(stage, number):
    """How often what goes with an outcome has happened."""
    is_there = bool(stage.client.topics(prefix=f"t{number}"))
    records = stage.client.range(f"t{number}") if is_there else []
    names = [info.name for info in queue(stage.client, number).desk.queues("", "", 10_000)]
    more = queue(stage.client, f"{number}-then")
    pushed = payloads(more) if more.name in names else []
    assert len(records) == len(pushed)
    return len(records)


@pytest.mark.parametrize("has_effects", [False, True], ids=["plain", "with effects"])
@pytest.mark.parametrize("kind", ["complete", "kill", "release"])
def test_outcome_and_end_of_the_lease_have_one_winner(stage, kind, has_effects):
    """The outcome counts, with all that goes with it; or the lease is ended, and nothing does."""
    stepper, (late, other) = stage.act(2)

    def script(number):
        item = with_item_out(stage, number)
        more = then(number) if has_effects else {}
        return (
            lambda: queue(late, number).settle(item, kind, **more).state,
            lambda: other._store.run(other._store.expire_leases(f"q{number}", 10)),
        )

    outcomes = set()
    for run in stepper.interleavings(script, interruptions=1 if has_effects else 2):
        assert run.errors == [None, None], run
        q = queue(stage.client, run.number)
        state, ended = run.results
        is_lost = state == "lost"
        outcomes.add(is_lost)
        assert is_lost == bool(ended), run
        assert len(q.errors()) == len(ended), run
        assert effects(stage, run.number) == (has_effects and not is_lost), run
        if is_lost:
            [item] = every(q)
            assert (item.state, item.crashes, item.attempts) == (State.PENDING, 1, 1), run
        check_counts(q)
    assert outcomes == {True, False}


@pytest.mark.parametrize("kind", ["complete", "reject"])
def test_zombie_and_its_successor_have_one_winner(stage, kind):
    """A late outcome counts, or the item is with the next one and the late one is lost."""
    stepper, (zombie, other) = stage.act(2)

    def script(number):
        item = with_item_out(stage, number)
        return (
            lambda: queue(zombie, number).settle(item, kind, **then(number)).state,
            lambda: queue(other, number).take(1, token="next"),
        )

    outcomes = set()
    for run in stepper.interleavings(script, interruptions=1):
        assert run.errors == [None, None], run
        state, taking = run.results
        outcomes.add(state)
        is_lost = state == "lost"
        assert effects(stage, run.number) == (not is_lost), run
        taken = list(taking.items)
        assert every(queue(stage.client, run.number), State.ACTIVE) == taken, run
        if is_lost:
            assert [item.crashes for item in taken] == [1], run
        elif kind == "complete":
            assert not taken, run
        check_counts(queue(stage.client, run.number))
    assert outcomes == {"lost", "completed" if kind == "complete" else "pending"}


@pytest.mark.parametrize("has_effects", [False, True], ids=["plain", "with effects"])
def test_outcome_sent_twice_at_once_counts_once(stage, has_effects):
    """One of two is told that it counts, the other that it is lost."""
    stepper, clients = stage.act(2)

    def script(number):
        item = with_item_out(stage, number)
        more = then(number) if has_effects else {}
        return [
            lambda client=client: queue(client, number).settle(item, "complete", **more).state
            for client in clients
        ]

    for run in stepper.interleavings(script, interruptions=1 if has_effects else 2):
        assert run.errors == [None, None], run
        assert sorted(run.results) == ["completed", "lost"], run
        q = queue(stage.client, run.number)
        assert q.counts().processed == 1, run
        assert effects(stage, run.number) == has_effects, run
        assert every(q) == [], run


@pytest.mark.parametrize("kind", KINDS)
def test_newer_content_is_never_lost(stage, kind):
    """Whether it comes before the outcome or after: there is one live item, and it has it."""
    stepper, (worker, pusher) = stage.act(2)

    def script(number):
        item = with_item_out(stage, number)
        return (
            lambda: queue(worker, number).settle(item, kind).state,
            lambda: queue(pusher, number).upsert(doc("new", subject="s")),
        )

    for run in stepper.interleavings(script, interruptions=2):
        assert run.errors == [None, None], run
        assert run.results[0] != "lost", run
        q = queue(stage.client, run.number)
        assert payloads(q, *LIVE) == ["new"], run
        assert payloads(q, State.DEAD) == ["old"] * (kind == "kill"), run
        check_counts(q)


def test_push_while_its_subject_ends_is_one_item_or_none(stage):
    """The push found the item, which then ended; or it came after that, and is a new one."""
    stepper, (worker, pusher) = stage.act(2)

    def script(number):
        item = with_item_out(stage, number)
        return (
            lambda: queue(worker, number).settle(item, "complete").state,
            lambda: queue(pusher, number).push(doc("new", subject="s")),
        )

    outcomes = set()
    for run in stepper.interleavings(script, interruptions=1):
        assert run.errors == [None, None], run
        q = queue(stage.client, run.number)
        is_new = not run.results[1].notes
        outcomes.add(is_new)
        assert payloads(q) == ["new"] * is_new, run
        assert q.counts().entered == 1 + is_new, run
        check_counts(q)
    assert outcomes == {True, False}


def test_extension_and_end_of_the_lease_have_one_winner(stage):
    """The claim lasts longer, or it is over; never is an ended one extended."""
    stepper, (worker, other) = stage.act(2)

    def script(number):
        item = with_item_out(stage, number)
        store = worker._store
        return (
            lambda: store.run(store.extend_items(f"q{number}", item.token, [item.id], 5000)),
            lambda: other._store.run(other._store.expire_leases(f"q{number}", 10)),
        )

    outcomes = set()
    for run in stepper.interleavings(script, interruptions=1):
        assert run.errors == [None, None], run
        extended, ended = map(bool, run.results)
        outcomes.add(extended)
        assert extended != ended, run
        [item] = every(queue(stage.client, run.number))
        assert (item.lease_until == stage.clock.now + 5000) == extended, run
        assert item.crashes == ended, run
    assert outcomes == {True, False}


def test_items_of_one_claim_settled_from_two_sides(stage):
    """Two sessions settle all items of one claim, in opposite orders: each counts once."""
    stepper, clients = stage.act(2)

    def script(number):
        q = queue(stage.client, number)
        q.fill(3)
        items = q.claim(3)

        def settle(client, ordered):
            q = queue(client, number)
            outcomes = [said(item, "kill") for item in ordered]
            return [one.state for one in q.desk.settle(q.name, outcomes)]

        return (
            lambda: settle(clients[0], items),
            lambda: settle(clients[1], items[::-1]),
        )

    for run in stepper.interleavings(script, interruptions=1):
        assert run.errors == [None, None], run
        q = queue(stage.client, run.number)
        forth, back = run.results
        assert all({a, b} == {"dead", "lost"} for a, b in zip(forth, back[::-1], strict=True)), run
        assert [payload(item) for item in q.dead()] == [0, 1, 2], run
        check_counts(q)
