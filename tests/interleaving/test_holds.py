"""Channels that are held, under several sessions, in every order their steps can have."""

import pytest

from headrace.model.keyvalues import KeyValues
from headrace.model.queries import Query
from headrace.testing.contract.queue_base import doc, payload
from interleaving.queue_words import check_counts, queue

EVERY = Query().form
A = KeyValues.of({"name": "a"}).form
B = KeyValues.of({"name": "b"}).form


@pytest.mark.parametrize("options", [{"select": EVERY}, {"select": EVERY, "order": "line"}, {}])
def test_what_comes_back_with_a_hold_is_not_handed_out(stage, options):
    """Whoever sees it in line sees the hold; other channels are not held up."""
    stepper, (worker, claimer) = stage.act(2)

    def script(number):
        q = queue(stage.client, number)
        q.push(doc(0, key_values=A), doc(1, key_values=B))
        [item] = q.claim(1)
        return (
            lambda: queue(worker, number).settle(item, "release", hold_ms=60_000),
            lambda: queue(claimer, number).take(5, **options),
        )

    for run in stepper.interleavings(script, interruptions=2):
        assert run.errors == [None, None], run
        assert [payload(item) for item in run.results[1].items] == [1], run
        q = queue(stage.client, run.number)
        taking = q.take(5, **options)
        assert (taking.state, taking.next_due is None) == ("empty", False), run
        check_counts(q)
