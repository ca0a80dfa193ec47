"""Channels under several sessions, in every order their steps can have."""

import pytest

from headrace.contract.items import Deleted, Take
from headrace.contract.op import Op
from headrace.core.where import where
from headrace.drivers.postgres import item_pushes
from headrace.drivers.postgres.sending import send
from headrace.model.keyvalues import KeyValues
from headrace.model.queries import Query
from headrace.testing.contract.queue_base import doc, payload
from interleaving.queue_words import check_counts, check_held, every, queue

EVERY = Query().form
A = KeyValues.of({"name": "a"}).form
B = KeyValues.of({"name": "b"}).form

# A transaction of the user's keeps all others from writing to SQLite, and they wait for its end.
several_writers = pytest.mark.parametrize("durable_url", ["postgres"], indirect=True)


def fair(q, count=10, **options):
    return q.take(count, select=EVERY, **options)


def test_what_is_pushed_while_its_channel_empties_is_not_stuck(stage):
    """A claim takes the last item and the channel out of the turns, somebody pushes the next."""
    stepper, (claimer, pusher) = stage.act(2)

    def script(number):
        queue(stage.client, number).push(doc(0, key_values=A))
        return (
            lambda: fair(queue(claimer, number)),
            lambda: queue(pusher, number).push(doc(1, key_values=A)),
        )

    for run in stepper.interleavings(script, interruptions=2):
        assert run.errors == [None, None], run
        q = queue(stage.client, run.number)
        taken = [payload(item) for item in run.results[0].items]
        taken += [payload(item) for item in fair(q).items]
        assert sorted(taken) == [0, 1], run
        check_counts(q)


@pytest.mark.parametrize("kind", ["release", "reject"])
def test_what_comes_back_while_its_channel_empties_is_not_stuck(stage, kind):
    """The same for an item that its worker hands back."""
    stepper, (claimer, worker) = stage.act(2)

    def script(number):
        q = queue(stage.client, number)
        q.create(reject_delay=0)
        q.push(doc(0, key_values=A), doc(1, key_values=A))
        [item] = fair(q, 1).items
        return (
            lambda: fair(queue(claimer, number)),
            lambda: queue(worker, number).settle(item, kind),
        )

    for run in stepper.interleavings(script, interruptions=2):
        assert run.errors == [None, None], run
        q = queue(stage.client, run.number)
        taken = [payload(item) for item in run.results[0].items]
        taken += [payload(item) for item in fair(q).items]
        assert sorted(taken) == [0, 1], run
        check_counts(q)


@several_writers
def test_what_is_pushed_in_a_long_transaction_is_not_stuck(stage):
    """Claims meanwhile find the channel empty; they do not wait, and it has its turn later."""
    q = queue(stage.client, 1)
    q.push(doc(0, key_values=A))
    [other] = stage.act(1)[1]
    with other._store.transaction() as session:
        session.run(session.push([q.call(doc(1, key_values=A))]))
        assert [payload(item) for item in fair(q).items] == [0]
        assert fair(q).state == "empty"
    assert [payload(item) for item in fair(q).items] == [1]
    # A channel that a transaction has emptied holds nobody up.
    q.push(doc(2, key_values=A))
    with other._store.transaction() as session:
        take = Take(queue=q.name, token="t", count=9, select=EVERY)
        assert [payload(i) for i in session.run(session.claim_items(take)).items] == [2]
        q.push(doc(3, key_values=A))
    assert [payload(item) for item in fair(q).items] == [3]


@several_writers
def test_what_is_pushed_at_once_while_its_channel_empties_is_not_stuck(stage):
    """The same where a push is one statement, which is not committed yet."""
    q = queue(stage.client, 1)
    q.push(doc(0, key_values=A))
    [other] = (client._store for client in stage.act(1)[1])
    known = other.run(Op("known", lambda: other.known.queue(q.name)))
    statement = item_pushes.push_statement(other, known, [doc(1, key_values=A)], None)
    with other.connect() as connection, connection.transaction():
        assert len(send(connection, (statement,))[0]) == 1
        assert [payload(item) for item in fair(q).items] == [0]
        assert fair(q).state == "empty"
    assert [payload(item) for item in fair(q).items] == [1]


@several_writers
def test_a_channel_that_cannot_be_put_into_its_lane_is_found(stage):
    """Somebody holds it for long, or is just about to do the same: nobody goes without."""
    q = queue(stage.client, 1)
    select = where(name="a").form
    q.create()
    q.desk.register_selection(q.name, select)
    q.push(doc(0, key_values=A), doc(1, key_values=B))
    assert q.take(1, select=where(name="b").form).items
    [other] = (client._store for client in stage.act(1)[1])
    with other.connect() as connection, connection.transaction():
        schema = other.schema
        connection.execute(f"select from {schema}.ready for no key update")
        assert [payload(item) for item in q.take(1, select=select).items] == [0]


@several_writers
def test_what_was_pushed_long_before_its_commit_is_found(stage):
    """Claims that select have passed the place where it has its turn."""
    q = queue(stage.client, 1)
    q.push(doc(0, key_values=B))
    select = where(name__ne="b").form
    assert q.take(1, select=select).state == "empty"
    [other] = stage.act(1)[1]
    with other._store.transaction() as session:
        session.run(session.push([q.call(doc(1, key_values=A))]))
        q.push(*[doc(n, key_values=KeyValues.of({"name": f"c{n}"}).form) for n in (2, 3, 4)])
        assert [payload(item) for item in q.take(2, select=select).items] == [2, 3]
    assert [payload(item) for item in q.take(1, select=select).items] == [4]
    assert [payload(item) for item in q.take(1, select=select).items] == [1]


@several_writers
def test_a_strict_channel_in_a_long_transaction_hands_out_nothing_else(stage):
    """Nobody sees yet that an item is out."""
    q = queue(stage.client, 1)
    q.create(serial=True)
    q.push(doc("first", key_values=KeyValues.of({"name": "c"}).form))
    # From here on it is known that the queue has channels.
    assert len(fair(q).items) == 1
    q.push(doc(0, key_values=A), doc(1, key_values=A), doc(2, key_values=B))
    one, two = (client._store for client in stage.act(2)[1])
    with one.transaction() as session, two.transaction() as other:
        take = Take(queue=q.name, token="t", count=1, select=where(name="a").form)
        assert [payload(i) for i in session.run(session.claim_items(take)).items] == [0]
        assert other.run(other.claim_items(take)).state == "empty"
        assert [payload(item) for item in fair(q).items] == [2]
    assert fair(q).state == "empty"


def test_two_fair_claims_never_share_an_item(stage):
    """All is handed out, each item once, and neither session gets an error."""
    stepper, clients = stage.act(2)

    def script(number):
        documents = [doc(n, key_values=A if n % 2 else B) for n in range(4)]
        queue(stage.client, number).push(*documents)
        return [lambda client=client: fair(queue(client, number), 3) for client in clients]

    for run in stepper.interleavings(script, interruptions=2):
        assert run.errors == [None, None], run
        taken = [item for taking in run.results for item in taking.items]
        assert len({item.id for item in taken}) == len(taken), run
        q = queue(stage.client, run.number)
        check_held(q, taken)
        rest = fair(q).items
        assert len(taken) + len(rest) == 4, run


@pytest.mark.parametrize("options", [{"select": EVERY}, {"select": EVERY, "order": "line"}, {}])
def test_a_strict_channel_never_hands_out_two_items(stage, options):
    """However two claims on it meet."""
    stepper, clients = stage.act(2)

    def script(number):
        q = queue(stage.client, number)
        q.create(serial=True)
        q.push(doc(0, key_values=A), doc(1, key_values=A))
        return [
            lambda client=client: queue(client, number).take(2, **options) for client in clients
        ]

    for run in stepper.interleavings(script, interruptions=2):
        assert run.errors == [None, None], run
        taken = [payload(item) for taking in run.results for item in taking.items]
        assert taken == [0], run
        check_counts(queue(stage.client, run.number))


def test_two_pushes_make_one_channel(stage):
    """Also if it is the first of the queue."""
    stepper, clients = stage.act(2)

    def script(number):
        queue(stage.client, number).create()
        return [
            lambda client=client, n=n: queue(client, number).push(
                doc(n, key_values=A), doc(n, key_values=B)
            )
            for n, client in enumerate(clients)
        ]

    for run in stepper.interleavings(script, interruptions=2):
        assert run.errors == [None, None], run
        q = queue(stage.client, run.number)
        found = [(row.waiting, row.active) for row in q.desk.channels(q.name, None, "", 9)]
        assert found == [(2, 0), (2, 0)], run
        assert len(fair(q).items) == 4, run


def test_a_push_to_a_channel_that_is_deleted(stage):
    """It came before, and is gone, or it came after, and is there."""
    stepper, (deleter, pusher) = stage.act(2)

    def script(number):
        queue(stage.client, number).push(doc(0, key_values=A))
        q = queue(deleter, number)
        return (
            lambda: q.desk.delete_channels(q.name, None, 9),
            lambda: queue(pusher, number).push(doc(1, key_values=A)),
        )

    for run in stepper.interleavings(script, interruptions=2):
        assert run.errors == [None, None], run
        q = queue(stage.client, run.number)
        left = [payload(item) for item in fair(q).items]
        assert run.results[0] in (Deleted(1, 2), Deleted(1, 1)), run
        assert left == ([] if run.results[0].items == 2 else [1]), run
        check_counts(q)


@pytest.mark.parametrize("kind", ["complete", "release", "kill"])
def test_an_outcome_of_an_item_whose_channel_is_deleted(stage, kind):
    """It counts, or its worker hears that the item is gone; never neither."""
    stepper, (deleter, worker) = stage.act(2)

    def script(number):
        q = queue(stage.client, number)
        q.push(doc(0, key_values=A))
        [item] = fair(q).items
        other = queue(deleter, number)
        return (
            lambda: other.desk.delete_channels(q.name, None, 9),
            lambda: queue(worker, number).settle(item, kind),
        )

    for run in stepper.interleavings(script, interruptions=2):
        assert run.errors == [None, None], run
        q = queue(stage.client, run.number)
        deleted, settled = run.results
        assert settled.is_lost == (settled.state == "gone"), run
        if settled.state == "gone":
            assert (deleted.items, every(q)) == (1, []), run
        check_counts(q)


def test_newer_content_is_never_lost(stage):
    """Of two pushes to one channel the last in line has the later one's, or is out already."""
    stepper, (claimer, one, two) = stage.act(3)
    updateable = {"updateable": True}

    def script(number):
        queue(stage.client, number).push(doc(0, key_values=A, overrides=updateable))
        return (
            lambda: fair(queue(claimer, number), 1),
            lambda: queue(one, number).push(doc(1, key_values=A, overrides=updateable)),
            lambda: queue(two, number).push(doc(2, key_values=A, overrides=updateable)),
        )

    for run in stepper.interleavings(script, interruptions=1):
        assert run.errors == [None, None, None], run
        q = queue(stage.client, run.number)
        taking, *pushed = run.results
        items = {item.id: item for item in every(q)}
        # Each push made an item, or replaced what one carries; what was claimed stays as it was.
        for number, result in enumerate(pushed, 1):
            item = items[result.ids[0]]
            assert payload(item) == number or payload(item) in (1, 2), run
        for item in taking.items:
            assert payload(items[item.id]) == payload(item), run
        assert {1, 2} & {payload(item) for item in items.values()}, run
        check_counts(q)


def test_two_pushes_never_fill_a_queue_beyond_its_limit(stage):
    """One of them finds it full."""
    stepper, clients = stage.act(2)

    def script(number):
        queue(stage.client, number).create(max_items=1)
        return [
            lambda client=client: queue(client, number).desk.push([queue(client, number).call(1)])
            for client in clients
        ]

    for run in stepper.interleavings(script, interruptions=2):
        assert run.errors == [None, None], run
        q = queue(stage.client, run.number)
        kinds = sorted(type(result[0]).__name__ for result in run.results)
        assert kinds == ["PushFull", "Pushed"], run
        assert len(every(q)) == 1, run
