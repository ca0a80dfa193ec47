"""Counters under several sessions, in every order their steps can have."""

import pytest

from headrace.contract.counters import CounterCall
from headrace.contract.limits import RuleRow
from headrace.model.query.key_values import KeyValues
from headrace.testing.contract.queue_base import StoreOps, doc
from interleaving.queue_words import queue


def name(number):
    return KeyValues.of({"run": number}).form


def rule(number, limit=1):
    pattern = KeyValues.of({"run": number}, allow_any=True).form
    return RuleRow(id=f"r{number}", key_values=pattern, limit=limit)


def ask(client, number, session, count=1):
    call = CounterCall(
        key_values=name(number), session=f"{session}{number}", count=count, lease_ms=10_000
    )
    return StoreOps(client).counters.acquire(call)


def used(stepped, number):
    return [usage.used for usage in StoreOps(stepped.client).limits.usage(f"r{number}", 0)]


@pytest.mark.parametrize("other", ["code", "item"])
def test_the_last_slot_goes_to_one_request(stepped, other):
    """Of two requests, or of a request and a claim on an item."""
    stepper, (one, two) = stepped.sessions(2)

    def claim(number):
        if other == "code":
            return ask(two, number, "b").state == "granted"
        return bool(queue(two, number).claim_response(1).items)

    def script(number):
        StoreOps(stepped.client).limits.create([rule(number)])
        queue(stepped.client, number).push(doc(1, key_values=name(number)))
        return lambda: ask(one, number, "a").state == "granted", lambda: claim(number)

    for run in stepper.interleavings(script, interruptions=2):
        assert run.errors == [None, None], run
        assert sorted(run.results) == [False, True], run
        assert used(stepped, run.number) == [1], run


def test_additions_share_the_last_slot(stepped):
    """One of two callers gets it. The count is that of all who got one."""
    stepper, (one, two) = stepped.sessions(2)

    def script(number):
        StoreOps(stepped.client).limits.create([rule(number, 2)])
        StoreOps(stepped.client).counters.add(name(number), 1)
        return [
            lambda client=client: StoreOps(client).counters.add(name(number), 1).refusal is None
            for client in (one, two)
        ]

    for run in stepper.interleavings(script, interruptions=2):
        assert run.errors == [None, None], run
        assert sorted(run.results) == [False, True], run
        assert used(stepped, run.number) == [2], run


@pytest.mark.parametrize(
    "other", [lambda ops, name: ops.set(name, 2), lambda ops, name: ops.add(name, 2).count]
)
def test_a_count_that_is_removed_meanwhile(stepped, other):
    """Whoever comes second finds none, and makes it again: nobody fails, and nothing is lost."""
    stepper, (one, two) = stepped.sessions(2)

    def script(number):
        StoreOps(stepped.client).limits.create([rule(number, 9)])
        StoreOps(stepped.client).counters.set(name(number), 3)
        return (
            lambda: StoreOps(one).counters.set(name(number), 0),
            lambda: other(StoreOps(two).counters, name(number)),
        )

    for run in stepper.interleavings(script, interruptions=2):
        assert run.errors == [None, None], run
        assert used(stepped, run.number) in ([], [2]), run


def test_a_rule_created_while_slots_change_counts_exactly(stepped):
    """It counts the slots that are held, neither more nor fewer."""
    stepper, (ruler, holder) = stepped.sessions(2)

    def script(number):
        ask(stepped.client, number, "a", 2)
        ask(stepped.client, number, "b", 3)
        ops = StoreOps(holder)
        return (
            lambda: StoreOps(ruler).limits.create([rule(number, 9)]),
            lambda: (ops.counters.release(f"a{number}"), ask(holder, number, "c").state),
        )

    for run in stepper.interleavings(script, interruptions=2):
        assert run.errors == [None, None], run
        assert run.results[1] == (True, "granted"), run
        assert used(stepped, run.number) == [4], run
