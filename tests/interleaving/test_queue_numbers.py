"""Running counts while other sessions work, in every order their steps can have."""

import pytest

from headrace.testing.contract.queue_base import doc
from interleaving.queue_words import check_counts, queue


def tend(q):
    return q.ops.queues.maintain(q.name, 100)


def consolidate(q):
    return len(q.ops.queues.consolidate([q.name]))


@pytest.mark.parametrize("care", [tend, consolidate])
def test_counts_stay_exact_while_they_are_folded(stepped, care):
    """Nothing is counted twice or missed, whatever is pushed and settled meanwhile."""
    stepper, (keeper, pusher, worker) = stepped.sessions(3)

    def script(number):
        q = queue(stepped.client, number)
        q.push(doc(0), doc(1, subject="s"))
        item = q.claim_one()
        return (
            lambda: care(queue(keeper, number)),
            lambda: queue(pusher, number).upsert(doc(2, subject="s"), doc(3)),
            lambda: queue(worker, number).settle(item, "complete").state,
        )

    for run in stepper.interleavings(script, interruptions=1):
        assert run.errors == [None, None, None], run
        q = queue(stepped.client, run.number)
        assert (q.counts().entered, q.counts().processed) == (3, 1), run
        check_counts(q)


def test_counts_folded_twice_concurrently_stay_exact(stepped):
    """Two sessions fold, and one pushes."""
    stepper, (one, two, pusher) = stepped.sessions(3)

    def script(number):
        q = queue(stepped.client, number)
        q.fill(1)
        q.fill(1)
        return (
            lambda: tend(queue(one, number)),
            lambda: tend(queue(two, number)),
            lambda: queue(pusher, number).push(2),
        )

    for run in stepper.interleavings(script, interruptions=1):
        assert run.errors == [None, None, None], run
        q = queue(stepped.client, run.number)
        assert q.counts().entered == 3, run
        check_counts(q)
