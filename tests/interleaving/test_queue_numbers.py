"""Running counts while others work, in every order their steps can have."""

import pytest

from headrace.testing.contract.queue_base import doc
from interleaving.queue_words import check_counts, queue


def tend(q):
    return q.desk.tend_queue(q.name, 100)


def consolidate(q):
    return len(q.desk.consolidate([q.name]))


@pytest.mark.parametrize("care", [tend, consolidate])
def test_counts_stay_exact_while_they_are_folded(stage, care):
    """Nothing is counted twice or not at all, whatever is pushed and settled meanwhile."""
    stepper, (keeper, pusher, worker) = stage.act(3)

    def script(number):
        q = queue(stage.client, number)
        q.push(doc(0), doc(1, subject="s"))
        item = q.claim_one()
        return (
            lambda: care(queue(keeper, number)),
            lambda: queue(pusher, number).upsert(doc(2, subject="s"), doc(3)),
            lambda: queue(worker, number).settle(item, "complete").state,
        )

    for run in stepper.interleavings(script, interruptions=1):
        assert run.errors == [None, None, None], run
        q = queue(stage.client, run.number)
        assert (q.counts().entered, q.counts().processed) == (3, 1), run
        check_counts(q)


def test_counts_folded_twice_at_once_stay_exact(stage):
    """Two keepers at once, and one who pushes."""
    stepper, (one, two, pusher) = stage.act(3)

    def script(number):
        q = queue(stage.client, number)
        q.fill(1)
        q.fill(1)
        return (
            lambda: tend(queue(one, number)),
            lambda: tend(queue(two, number)),
            lambda: queue(pusher, number).push(2),
        )

    for run in stepper.interleavings(script, interruptions=1):
        assert run.errors == [None, None, None], run
        q = queue(stage.client, run.number)
        assert q.counts().entered == 3, run
        check_counts(q)
