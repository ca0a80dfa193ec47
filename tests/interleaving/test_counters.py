"""Counters under several sessions, in every order their steps can have."""

import pytest

from headrace.contract.counters import CounterCall
from headrace.contract.limits import RuleRow
from headrace.model.keyvalues import KeyValues
from headrace.testing.contract.queue_base import Desk, doc
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
    return Desk(client).acquire_counter(call)


def used(stage, number):
    return [usage.used for usage in Desk(stage.client).limit_usage(f"r{number}", 0)]


@pytest.mark.parametrize("other", ["code", "item"])
def test_the_last_slot_goes_to_one(stage, other):
    """Of two who ask for it, or of one who asks and a claim on an item."""
    stepper, (one, two) = stage.act(2)

    def claim(number):
        if other == "code":
            return ask(two, number, "b").state == "granted"
        return bool(queue(two, number).take(1).items)

    def script(number):
        Desk(stage.client).create_limits([rule(number)])
        queue(stage.client, number).push(doc(1, key_values=name(number)))
        return lambda: ask(one, number, "a").state == "granted", lambda: claim(number)

    for run in stepper.interleavings(script, interruptions=2):
        assert run.errors == [None, None], run
        assert sorted(run.results) == [False, True], run
        assert used(stage, run.number) == [1], run


def test_a_rule_that_comes_while_slots_come_and_go(stage):
    """It counts what is there, neither more nor less."""
    stepper, (ruler, holder) = stage.act(2)

    def script(number):
        ask(stage.client, number, "a", 2)
        ask(stage.client, number, "b", 3)
        desk = Desk(holder)
        return (
            lambda: Desk(ruler).create_limits([rule(number, 9)]),
            lambda: (desk.give_back(f"a{number}"), ask(holder, number, "c").state),
        )

    for run in stepper.interleavings(script, interruptions=2):
        assert run.errors == [None, None], run
        assert run.results[1] == (True, "granted"), run
        assert used(stage, run.number) == [4], run
