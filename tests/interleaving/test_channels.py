"""Channels under several sessions, in every order their steps can have."""

import time

import pytest

from headrace.contract.items import ClaimRequest, Deleted
from headrace.contract.op import Op
from headrace.core.where import where
from headrace.drivers.postgres.fastpath import push
from headrace.drivers.postgres.round_trip import send
from headrace.model.query.key_values import KeyValues
from headrace.model.query.queries import Query
from headrace.testing.contract.queue_base import doc, payload
from interleaving.queue_words import check_counts, check_held, every, queue

EVERY = Query().form
A = KeyValues.of({"name": "a"}).form
B = KeyValues.of({"name": "b"}).form

# A transaction of the user keeps all others from writing to SQLite until its end.
several_writers = pytest.mark.parametrize("durable_url", ["postgres"], indirect=True)


def fair(q, count=10, **options):
    return q.claim_response(count, select=EVERY, **options)


def test_an_item_pushed_while_its_channel_empties_is_not_stuck(stepped):
    """A claim takes the last item and removes the channel from the turns while another session
    pushes."""
    stepper, (claimer, pusher) = stepped.sessions(2)

    def script(number):
        queue(stepped.client, number).push(doc(0, key_values=A))
        return (
            lambda: fair(queue(claimer, number)),
            lambda: queue(pusher, number).push(doc(1, key_values=A)),
        )

    for run in stepper.interleavings(script, interruptions=2):
        assert run.errors == [None, None], run
        q = queue(stepped.client, run.number)
        claimed = [payload(item) for item in run.results[0].items]
        claimed += [payload(item) for item in fair(q).items]
        assert sorted(claimed) == [0, 1], run
        check_counts(q)


@pytest.mark.parametrize("kind", ["release", "reject"])
def test_an_item_returned_while_its_channel_empties_is_not_stuck(stepped, kind):
    """The same for an item that its worker releases."""
    stepper, (claimer, worker) = stepped.sessions(2)

    def script(number):
        q = queue(stepped.client, number)
        q.create(reject_delay=0)
        q.push(doc(0, key_values=A), doc(1, key_values=A))
        [item] = fair(q, 1).items
        return (
            lambda: fair(queue(claimer, number)),
            lambda: queue(worker, number).settle(item, kind),
        )

    for run in stepper.interleavings(script, interruptions=2):
        assert run.errors == [None, None], run
        q = queue(stepped.client, run.number)
        claimed = [payload(item) for item in run.results[0].items]
        claimed += [payload(item) for item in fair(q).items]
        assert sorted(claimed) == [0, 1], run
        check_counts(q)


@several_writers
def test_an_item_pushed_in_a_long_transaction_is_not_stuck(stepped):
    """Claims meanwhile find the channel empty. They do not wait, and it has its turn later."""
    q = queue(stepped.client, 1)
    q.push(doc(0, key_values=A))
    [other] = stepped.sessions(1)[1]
    with other._store.transaction() as session:
        session.run(session.queues.push([q.call(doc(1, key_values=A))]))
        assert [payload(item) for item in fair(q).items] == [0]
        assert fair(q).state == "empty"
    assert [payload(item) for item in fair(q).items] == [1]
    # A channel that a transaction has emptied blocks no claim.
    q.push(doc(2, key_values=A))
    with other._store.transaction() as session:
        request = ClaimRequest(queue=q.name, token="t", count=9, select=EVERY)
        assert [payload(i) for i in session.run(session.queues.claim(request)).items] == [2]
        q.push(doc(3, key_values=A))
    assert [payload(item) for item in fair(q).items] == [3]


@several_writers
def test_an_item_pushed_in_one_statement_while_its_channel_empties_is_not_stuck(stepped):
    """The same for a push of one statement that is not committed yet."""
    q = queue(stepped.client, 1)
    q.push(doc(0, key_values=A))
    [other] = (client._store for client in stepped.sessions(1)[1])
    known = other.run(Op("known", lambda: other.queue_cache.queue(q.name)))
    statement = push.push_statement(other, known, [doc(1, key_values=A)], None)
    with other.connections.connect(time.monotonic() + 30) as connection, connection.transaction():
        assert len(send(connection, (statement,))[0]) == 1
        assert [payload(item) for item in fair(q).items] == [0]
        assert fair(q).state == "empty"
    assert [payload(item) for item in fair(q).items] == [1]


@several_writers
def test_a_channel_that_cannot_be_put_into_its_lane_is_found(stepped):
    """Another session has locked it for long, or is about to do the same. The claim still finds
    it."""
    q = queue(stepped.client, 1)
    select = where(name="a").form
    q.create()
    q.ops.channels.register_selection(q.name, select)
    q.push(doc(0, key_values=A), doc(1, key_values=B))
    assert q.claim_response(1, select=where(name="b").form).items
    [other] = (client._store for client in stepped.sessions(1)[1])
    with other.connections.connect(time.monotonic() + 30) as connection, connection.transaction():
        schema = other.schema
        connection.execute(f"select from {schema}.ready_channel for no key update")
        assert [payload(item) for item in q.claim_response(1, select=select).items] == [0]


@several_writers
def test_an_item_pushed_long_before_its_commit_is_found(stepped):
    """Claims with a selection have already passed its turn."""
    q = queue(stepped.client, 1)
    q.push(doc(0, key_values=B))
    select = where(name__ne="b").form
    assert q.claim_response(1, select=select).state == "empty"
    [other] = stepped.sessions(1)[1]
    with other._store.transaction() as session:
        session.run(session.queues.push([q.call(doc(1, key_values=A))]))
        q.push(*[doc(n, key_values=KeyValues.of({"name": f"c{n}"}).form) for n in (2, 3, 4)])
        assert [payload(item) for item in q.claim_response(2, select=select).items] == [2, 3]
    assert [payload(item) for item in q.claim_response(1, select=select).items] == [4]
    assert [payload(item) for item in q.claim_response(1, select=select).items] == [1]


@several_writers
def test_a_strict_channel_in_a_long_transaction_blocks_other_claims(stepped):
    """Although no other session can see yet that an item is claimed."""
    q = queue(stepped.client, 1)
    q.create(serial=True)
    q.push(doc("first", key_values=KeyValues.of({"name": "c"}).form))
    # From here on the client knows that the queue has channels.
    assert len(fair(q).items) == 1
    q.push(doc(0, key_values=A), doc(1, key_values=A), doc(2, key_values=B))
    one, two = (client._store for client in stepped.sessions(2)[1])
    with one.transaction() as session, two.transaction() as other:
        request = ClaimRequest(queue=q.name, token="t", count=1, select=where(name="a").form)
        assert [payload(i) for i in session.run(session.queues.claim(request)).items] == [0]
        assert other.run(other.queues.claim(request)).state == "empty"
        assert [payload(item) for item in fair(q).items] == [2]
    assert fair(q).state == "empty"


def test_two_fair_claims_never_share_an_item(stepped):
    """Every item is claimed once, and neither session gets an error."""
    stepper, clients = stepped.sessions(2)

    def script(number):
        documents = [doc(n, key_values=A if n % 2 else B) for n in range(4)]
        queue(stepped.client, number).push(*documents)
        return [lambda client=client: fair(queue(client, number), 3) for client in clients]

    for run in stepper.interleavings(script, interruptions=2):
        assert run.errors == [None, None], run
        claimed = [item for response in run.results for item in response.items]
        assert len({item.id for item in claimed}) == len(claimed), run
        q = queue(stepped.client, run.number)
        check_held(q, claimed)
        rest = fair(q).items
        assert len(claimed) + len(rest) == 4, run


@pytest.mark.parametrize("options", [{"select": EVERY}, {"select": EVERY, "order": "line"}, {}])
def test_a_strict_channel_never_has_two_items_in_flight(stepped, options):
    """However two claims on it interleave."""
    stepper, clients = stepped.sessions(2)

    def script(number):
        q = queue(stepped.client, number)
        q.create(serial=True)
        q.push(doc(0, key_values=A), doc(1, key_values=A))
        return [
            lambda client=client: queue(client, number).claim_response(2, **options)
            for client in clients
        ]

    for run in stepper.interleavings(script, interruptions=2):
        assert run.errors == [None, None], run
        claimed = [payload(item) for response in run.results for item in response.items]
        assert claimed == [0], run
        check_counts(queue(stepped.client, run.number))


def test_two_pushes_create_one_channel(stepped):
    """Even if it is the first of the queue."""
    stepper, clients = stepped.sessions(2)

    def script(number):
        queue(stepped.client, number).create()
        return [
            lambda client=client, n=n: queue(client, number).push(
                doc(n, key_values=A), doc(n, key_values=B)
            )
            for n, client in enumerate(clients)
        ]

    for run in stepper.interleavings(script, interruptions=2):
        assert run.errors == [None, None], run
        q = queue(stepped.client, run.number)
        found = [(row.waiting, row.active) for row in q.ops.channels.list(q.name, None, "", 9)]
        assert found == [(2, 0), (2, 0)], run
        assert len(fair(q).items) == 4, run


def test_a_push_to_a_channel_that_is_deleted(stepped):
    """It came before and is deleted, or it came after and exists."""
    stepper, (deleter, pusher) = stepped.sessions(2)

    def script(number):
        queue(stepped.client, number).push(doc(0, key_values=A))
        q = queue(deleter, number)
        return (
            lambda: q.ops.channels.delete(q.name, None, 9),
            lambda: queue(pusher, number).push(doc(1, key_values=A)),
        )

    for run in stepper.interleavings(script, interruptions=2):
        assert run.errors == [None, None], run
        q = queue(stepped.client, run.number)
        left = [payload(item) for item in fair(q).items]
        assert run.results[0] in (Deleted(1, 2), Deleted(1, 1)), run
        assert left == ([] if run.results[0].items == 2 else [1]), run
        check_counts(q)


@pytest.mark.parametrize("kind", ["complete", "release", "kill"])
def test_an_outcome_of_an_item_whose_channel_is_deleted(stepped, kind):
    """It counts, or its worker learns that the item was deleted. Never neither."""
    stepper, (deleter, worker) = stepped.sessions(2)

    def script(number):
        q = queue(stepped.client, number)
        q.push(doc(0, key_values=A))
        [item] = fair(q).items
        other = queue(deleter, number)
        return (
            lambda: other.ops.channels.delete(q.name, None, 9),
            lambda: queue(worker, number).settle(item, kind),
        )

    for run in stepper.interleavings(script, interruptions=2):
        assert run.errors == [None, None], run
        q = queue(stepped.client, run.number)
        deleted, settled = run.results
        assert settled.is_lost == (settled.state == "gone"), run
        if settled.state == "gone":
            assert (deleted.items, every(q)) == (1, []), run
        check_counts(q)


def test_newer_content_is_never_lost(stepped):
    """After two pushes to one channel, the last item has the later content, or is already in
    flight."""
    stepper, (claimer, one, two) = stepped.sessions(3)
    updateable = {"updateable": True}

    def script(number):
        queue(stepped.client, number).push(doc(0, key_values=A, overrides=updateable))
        return (
            lambda: fair(queue(claimer, number), 1),
            lambda: queue(one, number).push(doc(1, key_values=A, overrides=updateable)),
            lambda: queue(two, number).push(doc(2, key_values=A, overrides=updateable)),
        )

    for run in stepper.interleavings(script, interruptions=1):
        assert run.errors == [None, None, None], run
        q = queue(stepped.client, run.number)
        response, *pushed = run.results
        items = {item.id: item for item in every(q)}
        # Each push created an item or replaced a payload. A claimed item stays as it was.
        for number, result in enumerate(pushed, 1):
            item = items[result.ids[0]]
            assert payload(item) == number or payload(item) in (1, 2), run
        for item in response.items:
            assert payload(items[item.id]) == payload(item), run
        assert {1, 2} & {payload(item) for item in items.values()}, run
        check_counts(q)


def test_two_pushes_never_fill_a_queue_beyond_its_limit(stepped):
    """One of them finds it full."""
    stepper, clients = stepped.sessions(2)

    def script(number):
        queue(stepped.client, number).create(max_items=1)
        return [
            lambda client=client: queue(client, number).ops.queues.push(
                [queue(client, number).call(1)]
            )
            for client in clients
        ]

    for run in stepper.interleavings(script, interruptions=2):
        assert run.errors == [None, None], run
        q = queue(stepped.client, run.number)
        kinds = sorted(type(result[0]).__name__ for result in run.results)
        assert kinds == ["PushFull", "Pushed"], run
        assert len(every(q)) == 1, run
