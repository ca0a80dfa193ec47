"""Running counts while others work, in every order their steps can have."""

import pytest

from headrace.testing.contract.queue_base import doc
from interleaving.queue_words import check_counts, queue

UNDER_WAY = (
    "a push that is under way on PostgreSQL while its queue changes goes by the old settings: "
    "it takes no lock on the queue"
)


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


def test_counts_are_right_from_the_moment_they_are_kept(stage, request):
    """Metrics are turned on while somebody pushes."""
    if stage.url.startswith("postgresql"):
        request.applymarker(pytest.mark.xfail(reason=UNDER_WAY))
    stepper, (keeper, pusher) = stage.act(2)

    def script(number):
        q = queue(stage.client, number)
        q.create(metrics=False)
        return (
            lambda: queue(keeper, number).update(metrics=True),
            lambda: queue(pusher, number).upsert(doc(1, subject="s")),
        )

    for run in stepper.interleavings(script):
        assert run.errors == [None, None], run
        q = queue(stage.client, run.number)
        [running], [computed] = q.desk.backlogs([q.name], False), q.desk.backlogs([q.name], True)
        assert running.counts.pending == computed.counts.pending == 1, run


def test_push_stands_where_the_discipline_says(stage, request):
    """The discipline changes while somebody pushes: the last in line is first all the same."""
    if stage.url.startswith("postgresql"):
        request.applymarker(pytest.mark.xfail(reason=UNDER_WAY))
    stepper, (keeper, pusher) = stage.act(2)

    def script(number):
        q = queue(stage.client, number)
        q.create(discipline="fifo")
        q.fill(2)
        return (
            lambda: queue(keeper, number).update(discipline="lifo"),
            lambda: queue(pusher, number).push("new"),
        )

    for run in stepper.interleavings(script):
        assert run.errors == [None, None], run
        q = queue(stage.client, run.number)
        assert q.claim_all() == ["new", 1, 0], run
