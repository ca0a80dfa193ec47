"""Limits under several sessions, in every order their steps can have."""

from typing import Any

import pytest

from headrace.contract.limits import RuleRow
from headrace.model.query.queries import Query
from headrace.model.query.typed_values import ANY
from headrace.testing.contract.limit_claims import MAC, form
from headrace.testing.contract.limit_rules import pattern
from headrace.testing.contract.queue_base import doc
from interleaving.queue_words import Queue, check_counts, queue

EVERY = Query().form
OTHER = form(os="mac", x=1)


def limit(q: Queue, number: int, most: int, **options: Any) -> None:
    rule = RuleRow(id=f"r{number}", key_values=pattern(os=ANY), limit=most, queue=q.name, **options)
    q.ops.limits.create([rule])


def check_used(q: Queue, number: int) -> int:
    """The counter equals the computed number. Return it."""
    out = len(q.in_state(2))
    assert sum(usage.used for usage in q.ops.limits.usage(f"r{number}", 0)) == out
    check_counts(q)
    return out


@pytest.mark.parametrize(
    "options",
    [{}, {"select": EVERY}, {"select": EVERY, "order": "line"}],
    ids=["line", "fair", "selected"],
)
def test_two_claims_share_the_free_slots(stepped, options):
    """Of several channels with one counter. All slots are used, and no more."""
    stepper, (one, two) = stepped.sessions(2)

    def script(number):
        q = queue(stepped.client, number)
        limit(q, number, 2)
        q.push(doc(1, key_values=MAC), doc(2, key_values=OTHER), doc(3, key_values=MAC))
        # The counter exists: creating it would make them wait for each other anyway.
        q.settle(q.claim_one(), "release")
        return (
            lambda: queue(one, number).claim(2, **options),
            lambda: queue(two, number).claim(2, **options),
        )

    for run in stepper.interleavings(script, interruptions=1):
        assert run.errors == [None, None], run
        q = queue(stepped.client, run.number)
        q.claim(9, **options)
        assert check_used(q, run.number) == 2, run


@pytest.mark.parametrize("kind", ["complete", "release"])
def test_a_released_slot_is_not_lost(stepped, kind):
    """A claim meanwhile gets it, or its queue is notified of it."""
    stepper, (worker, claimer) = stepped.sessions(2)

    def script(number):
        q = queue(stepped.client, number)
        limit(q, number, 1)
        q.push(doc(1, key_values=MAC), doc(2, key_values=OTHER))
        item = q.claim_one()
        return (
            lambda: queue(worker, number).settle(item, kind),
            lambda: queue(claimer, number).claim(9),
        )

    for run in stepper.interleavings(script, interruptions=2):
        assert run.errors == [None, None], run
        q = queue(stepped.client, run.number)
        q.claim(9)
        assert check_used(q, run.number) == 1, run


def test_a_lower_limit_holds_as_soon_as_it_is_set(stepped):
    """A concurrent claim is before it or after it."""
    stepper, (ruler, claimer) = stepped.sessions(2)

    def script(number):
        q = queue(stepped.client, number)
        limit(q, number, 3)
        q.push(*(doc(n, key_values=MAC) for n in range(4)))
        return (
            lambda: queue(ruler, number).ops.limits.change(f"r{number}", None, 1),
            lambda: queue(claimer, number).claim(9),
        )

    for run in stepper.interleavings(script, interruptions=2):
        assert run.errors == [None, None], run
        q = queue(stepped.client, run.number)
        assert len(run.results[1]) in (1, 3), run
        assert q.claim(9) == [], run
        check_used(q, run.number)


def test_a_new_rule_counts_what_others_do_meanwhile(stepped):
    """Items that are claimed, items that end, and the first channel of a queue."""
    stepper, (ruler, worker) = stepped.sessions(2)

    def script(number):
        q = queue(stepped.client, number)
        q.push(doc(1, key_values=MAC), doc(2, key_values=MAC), doc(3, key_values=MAC))
        item = q.claim_one()

        def work():
            mine = queue(worker, number)
            mine.claim(1)
            mine.settle(item, "complete")

        return lambda: limit(queue(ruler, number), number, 1), work

    for run in stepper.interleavings(script, interruptions=2):
        assert run.errors == [None, None], run
        q = queue(stepped.client, run.number)
        q.claim(9)
        assert check_used(q, run.number) == 1, run


def test_the_first_channel_of_a_queue_is_not_missed(stepped):
    """By a rule that is created at the same time."""
    stepper, (ruler, pusher) = stepped.sessions(2)

    def script(number):
        q = queue(stepped.client, number)
        q.create()
        return (
            lambda: limit(queue(ruler, number), number, 1, on="enqueued"),
            lambda: queue(pusher, number).push(doc(1, key_values=MAC)),
        )

    for run in stepper.interleavings(script, interruptions=2):
        assert run.errors == [None, None], run
        q = queue(stepped.client, run.number)
        [usage] = q.ops.limits.usage(f"r{run.number}", 0)
        assert usage.used == 1, run
        [outcome] = q.ops.queues.push([q.call(doc(2, key_values=MAC))])
        assert outcome.rule == f"r{run.number}", run


def test_two_first_pushes_to_channels_count(stepped):
    """The queue has no channel yet, so that neither push has found a rule that applies to it."""
    stepper, (one, two) = stepped.sessions(2)

    def script(number):
        q = queue(stepped.client, number)
        q.create()
        limit(q, number, 9, on="enqueued")
        return (
            lambda: queue(one, number).push(doc(1, key_values=MAC)),
            lambda: queue(two, number).push(doc(2, key_values=OTHER)),
        )

    for run in stepper.interleavings(script, interruptions=1):
        assert run.errors == [None, None], run
        q = queue(stepped.client, run.number)
        assert sum(usage.used for usage in q.ops.limits.usage(f"r{run.number}", 0)) == 2, run


@pytest.mark.parametrize("channel", [MAC, None], ids=["channel", "none"])
def test_two_pushes_share_the_last_slot(stepped, channel):
    """One of them is stored and the other refused, however their steps mix."""
    stepper, (one, two) = stepped.sessions(2)

    def script(number):
        q = queue(stepped.client, number)
        q.push(doc(0, key_values=OTHER))
        values = pattern(os=ANY) if channel else pattern()
        rule = RuleRow(id=f"r{number}", key_values=values, limit=2, queue=q.name, on="enqueued")
        q.ops.limits.create([rule])
        return tuple(
            lambda session=session: queue(session, number).ops.queues.push(
                [queue(session, number).call(doc(1, key_values=channel))]
            )
            for session in (one, two)
        )

    for run in stepper.interleavings(script, interruptions=2):
        assert run.errors == [None, None], run
        q = queue(stepped.client, run.number)
        live = len(q.in_state(1))
        assert live == 2, run
        assert sum(usage.used for usage in q.ops.limits.usage(f"r{run.number}", 0)) == live, run
