"""Commits of several sessions, in every order their steps can have."""

from itertools import pairwise

import pytest

from headrace.contract.values import CommitCall, CommitPart
from headrace.errors import KeyReused, UnknownTopic


def seqs(records) -> list[int]:
    return [record.seq for record in records]


def read_topic(client, topic):
    """A reader's view. A topic without records looks empty to it."""
    try:
        return client.range(topic)
    except UnknownTopic:
        return []


@pytest.mark.parametrize(
    ("is_new", "looks", "interruptions"),
    # Creating a topic takes so many steps that all their orders would take a minute.
    [(False, 2, None), (True, 1, 3)],
    ids=["known topic", "new topic"],
)
def test_no_record_appears_below_one_that_was_read(stepped, is_new, looks, interruptions):
    """T2: whatever two writers do, a topic only grows at its end for a reader."""
    stepper, (one, two, reader) = stepped.sessions(3, readers=1)

    def script(number):
        topic = f"t{number}"
        if not is_new:
            stepped.client.commit(topic, {"by": "nobody"})
        return (
            lambda: one.commit(topic, {"by": "one"}),
            lambda: two.commit_many(topic, [{"by": "two"}, {"by": "two"}]),
            lambda: [read_topic(reader, topic) for _ in range(looks)],
        )

    for run in stepper.interleavings(script, interruptions=interruptions):
        assert run.errors == [None, None, None], run
        assert [run.begun(name) for name in stepped.names] == [1, 1, looks], run
        views = [*run.results[2], stepped.client.range(f"t{run.number}")]
        for before, after in pairwise(views):
            assert after[: len(before)] == before, run
        assert seqs(views[-1]) == list(range(3 if is_new else 4)), run
        ids = [run.results[0], *run.results[1]]
        assert sorted(ids) == [r.id for r in views[-1] if r.body["by"] != "nobody"], run


def test_commits_to_two_new_topics_in_opposite_order_do_not_collide(stepped):
    """There is no deadlock and no retry, and both topics have the records in one order."""
    stepper, (one, two) = stepped.sessions(2)

    def script(number):
        x, y = f"x{number}", f"y{number}"
        return (
            lambda: one.commit([(x, {"by": 1}), (y, {"by": 1})]),
            lambda: two.commit([(y, {"by": 2}), (x, {"by": 2})]),
        )

    for run in stepper.interleavings(script):
        check_both(stepped, run, "xy")


@pytest.mark.parametrize("held", ["x", "y"])
def test_commits_over_two_topics_in_opposite_order_do_not_collide(stepped, held):
    """Heads are locked in one order, also by sessions that queue behind a third commit.

    A statement locks both heads in one step. To be caught with only one of them, a session must
    wait for the other, so a third session holds it.
    """
    stepper, (one, two, third) = stepped.sessions(3)

    def script(number):
        x, y = f"x{number}", f"y{number}"
        stepped.client.commit([(x, {"by": 0}), (y, {"by": 0})])
        return (
            lambda: one.commit([(x, {"by": 1}), (y, {"by": 1})]),
            lambda: two.commit([(y, {"by": 2}), (x, {"by": 2})]),
            lambda: third.commit(f"{held}{number}", {"by": 3}),
        )

    for run in stepper.interleavings(script):
        check_both(stepped, run, "xy")


def check_both(stepped, run, topics):
    """The session that was first in one topic was first in the other, and no session retried."""
    assert not any(run.errors), run
    assert {run.begun(name) for name in stepped.names} == {1}, run
    orders = []
    for topic in topics:
        records = stepped.client.range(f"{topic}{run.number}")
        assert seqs(records) == list(range(len(records))), run
        orders.append([r.body["by"] for r in records if r.body["by"] in (1, 2)])
    assert orders in ([[1, 2]] * 2, [[2, 1]] * 2), run


@pytest.mark.parametrize("is_same", [True, False], ids=["same content", "other content"])
def test_a_key_used_twice_concurrently_writes_once(stepped, is_same):
    """Two sessions with one key: one writes, the other gets its ids or a refusal."""
    stepper, (one, two) = stepped.sessions(2)

    def script(number):
        topic = f"t{number}"
        other = {"n": 1} if is_same else {"n": 2}
        stepped.client.commit(topic, {"n": 0})
        return (
            lambda: one.commit(topic, {"n": 1}, key=f"k{number}"),
            lambda: two.commit(topic, other, key=f"k{number}"),
        )

    for run in stepper.interleavings(script):
        records = stepped.client.range(f"t{run.number}")
        assert seqs(records) == [0, 1], run
        if is_same:
            assert run.errors == [None, None], run
            assert run.results == [records[1].id] * 2, run
        else:
            [refusal] = [error for error in run.errors if error is not None]
            assert isinstance(refusal, KeyReused), run
            winner = next(i for i, error in enumerate(run.errors) if error is None)
            assert run.results[winner] == records[1].id, run
            assert records[1].body == {"n": winner + 1}, run


def test_keys_in_opposite_order_do_not_collide(stepped):
    """Two sessions commit groups of calls with the same keys. Each key writes once, and a call
    without a key always does."""
    stepper, (one, two) = stepped.sessions(2)

    def group(client, number, keys):
        def call(key):
            part = CommitPart(f"t{number}", 1, f'{{"key":"{key}"}}')
            return CommitCall(parts=(part,), key=key and f"{key}{number}", digest=key)

        store = client._store
        return store.run(store.topics.commit([call(key) for key in keys]))

    def script(number):
        stepped.client.commit(f"t{number}", {"key": "z"}, key=f"z{number}")
        return (
            lambda: group(one, number, ("a", "b", None)),
            lambda: group(two, number, ("b", "a", None)),
        )

    for run in stepper.interleavings(script, interruptions=2):
        assert not any(run.errors), run
        (a, b, alone), (again_b, again_a, other) = run.results
        assert (a, b) == (again_a, again_b), run
        records = stepped.client.range(f"t{run.number}")[1:]
        assert sorted(r.body["key"] for r in records) == ["None", "None", "a", "b"], run
        written = {id for outcome in (a, b, alone, other) for id in outcome.ids()}
        assert written == {r.id for r in records}, run
