"""Limits under several sessions, in every order their steps can have."""

from typing import Any

import pytest

from headrace.contract.limits import RuleRow
from headrace.model.queries import Query
from headrace.model.typed import ANY
from headrace.testing.contract.limit_claims import MAC, form
from headrace.testing.contract.limit_rules import pattern
from headrace.testing.contract.queue_base import doc
from interleaving.queue_words import Queue, check_counts, queue

EVERY = Query().form
OTHER = form(os="mac", x=1)


def limit(q: Queue, number: int, most: int, **options: Any) -> None:
    rule = RuleRow(id=f"r{number}", key_values=pattern(os=ANY), limit=most, queue=q.name, **options)
    q.desk.create_limits([rule])


def check_used(q: Queue, number: int) -> int:
    """The total is what counting gives; it."""
    out = len(q.in_state(2))
    assert sum(usage.used for usage in q.desk.limit_usage(f"r{number}", 0)) == out
    check_counts(q)
    return out


@pytest.mark.parametrize(
    "options",
    [{}, {"select": EVERY}, {"select": EVERY, "order": "line"}],
    ids=["line", "fair", "selected"],
)
def test_two_claims_share_what_fits(stage, options):
    """Of several channels that count together; all of it, and no more."""
    stepper, (one, two) = stage.act(2)

    def script(number):
        q = queue(stage.client, number)
        limit(q, number, 2)
        q.push(doc(1, key_values=MAC), doc(2, key_values=OTHER), doc(3, key_values=MAC))
        # The total is there: to make it is to wait for each other anyway.
        q.settle(q.claim_one(), "release")
        return (
            lambda: queue(one, number).claim(2, **options),
            lambda: queue(two, number).claim(2, **options),
        )

    for run in stepper.interleavings(script, interruptions=1):
        assert run.errors == [None, None], run
        q = queue(stage.client, run.number)
        q.claim(9, **options)
        assert check_used(q, run.number) == 2, run


@pytest.mark.parametrize("kind", ["complete", "release"])
def test_a_slot_that_is_given_back_is_not_lost(stage, kind):
    """Whoever claims meanwhile has it, or is told that there is room."""
    stepper, (worker, claimer) = stage.act(2)

    def script(number):
        q = queue(stage.client, number)
        limit(q, number, 1)
        q.push(doc(1, key_values=MAC), doc(2, key_values=OTHER))
        item = q.claim_one()
        return (
            lambda: queue(worker, number).settle(item, kind),
            lambda: queue(claimer, number).claim(9),
        )

    for run in stepper.interleavings(script, interruptions=2):
        assert run.errors == [None, None], run
        q = queue(stage.client, run.number)
        q.claim(9)
        assert check_used(q, run.number) == 1, run


def test_a_lower_limit_holds_when_it_is_said(stage):
    """A claim at the same time is before it or after it."""
    stepper, (ruler, claimer) = stage.act(2)

    def script(number):
        q = queue(stage.client, number)
        limit(q, number, 3)
        q.push(*(doc(n, key_values=MAC) for n in range(4)))
        return (
            lambda: queue(ruler, number).desk.change_limit(f"r{number}", None, 1),
            lambda: queue(claimer, number).claim(9),
        )

    for run in stepper.interleavings(script, interruptions=2):
        assert run.errors == [None, None], run
        q = queue(stage.client, run.number)
        assert len(run.results[1]) in (1, 3), run
        assert q.claim(9) == [], run
        check_used(q, run.number)


def test_a_new_rule_counts_what_others_do_meanwhile(stage):
    """What goes out, what ends, and the first channel of a queue."""
    stepper, (ruler, worker) = stage.act(2)

    def script(number):
        q = queue(stage.client, number)
        q.push(doc(1, key_values=MAC), doc(2, key_values=MAC), doc(3, key_values=MAC))
        item = q.claim_one()

        def work():
            mine = queue(worker, number)
            mine.claim(1)
            mine.settle(item, "complete")

        return lambda: limit(queue(ruler, number), number, 1), work

    for run in stepper.interleavings(script, interruptions=2):
        assert run.errors == [None, None], run
        q = queue(stage.client, run.number)
        q.claim(9)
        assert check_used(q, run.number) == 1, run


def test_the_first_channel_of_a_queue_is_not_missed(stage):
    """By a rule that is made at the same time."""
    stepper, (ruler, pusher) = stage.act(2)

    def script(number):
        q = queue(stage.client, number)
        q.create()
        return (
            lambda: limit(queue(ruler, number), number, 1, on="enqueued"),
            lambda: queue(pusher, number).push(doc(1, key_values=MAC)),
        )

    for run in stepper.interleavings(script, interruptions=2):
        assert run.errors == [None, None], run
        q = queue(stage.client, run.number)
        [usage] = q.desk.limit_usage(f"r{run.number}", 0)
        assert usage.used == 1, run
        [outcome] = q.desk.push([q.call(doc(2, key_values=MAC))])
        assert outcome.rule == f"r{run.number}", run
