"""Limits on PostgreSQL: what one statement counts, and what others count meanwhile."""

import threading
from typing import Any

import psycopg
import pytest

import headrace
from headrace import ANY
from headrace.contract.items import ClaimRequest, ClaimResponse, Outcome
from headrace.core.channels import form_of
from headrace.testing.postgres import PrivatePostgres
from headrace.types import Query

TIMEOUT = 30
WAYS = pytest.mark.parametrize(
    ("channel", "select"),
    [(None, None), ({"os": "mac"}, Query()), ({"os": "mac"}, None)],
    ids=["no channels", "by turns", "in line"],
)
SELECTS = pytest.mark.parametrize("select", [Query(), None], ids=["by turns", "in line"])


def used(postgres: PrivatePostgres, schema: str) -> list[int]:
    return [
        row[0] for row in postgres.execute(f"select used from {schema}.limit_counter order by id")
    ]


def fill(hr: headrace.Headrace, *channels: dict[str, object] | None) -> headrace.Queue:
    """A queue with an item in each of some channels, from which the client has claimed before."""
    queue = hr.queue("q")
    for channel in channels:
        queue.push(1, channel=channel)
        queue.complete(queue.claim(1, select=None if channel is None else Query()))
    for channel in channels:
        queue.push(2, channel=channel)
    return queue


def confirmable(select: Query | None = None, **fields: Any) -> ClaimRequest:
    """A claim that may be answered before it is durable, and be confirmed later."""
    choice = {} if select is None else {"select": form_of(select)}
    given = {"queue": "q", "token": "mine", "count": 1, "may_confirm": True}
    return ClaimRequest(**given | choice | fields)


def confirmed(store: Any, response: ClaimResponse, item: int) -> bool:
    """Confirm a claim by one of its items; whether that is still claimed."""
    assert response.confirm is not None
    op = response.confirm(item)
    return op is None or store.run(op)


@pytest.mark.usefixtures("slow_wal_writer")
@WAYS
def test_counted_claims_and_outcomes_are_durable(
    hr: headrace.Headrace,
    postgres: PrivatePostgres,
    channel: dict[str, object] | None,
    select: Query | None,
) -> None:
    """Otherwise a crash could free a slot of a running item, or lose an outcome."""
    hr.limits.create(None, 5)
    queue = fill(hr, channel)
    [[written]] = postgres.execute("select pg_current_wal_insert_lsn()")
    items = queue.claim(1, select=select)
    assert items
    assert postgres.execute(f"select pg_current_wal_flush_lsn() > '{written}'") == [(True,)]
    [[written]] = postgres.execute("select pg_current_wal_insert_lsn()")
    queue.complete(items)
    assert postgres.execute(f"select pg_current_wal_flush_lsn() > '{written}'") == [(True,)]


@pytest.mark.usefixtures("slow_wal_writer")
@WAYS
def test_a_claim_is_durable_when_it_is_confirmed(
    hr: headrace.Headrace,
    postgres: PrivatePostgres,
    channel: dict[str, object] | None,
    select: Query | None,
) -> None:
    """And not before, which is the purpose."""
    hr.limits.create(None, 5)
    fill(hr, channel)
    store: Any = hr._store
    response = store.run(store.queues.claim(confirmable(select)))
    [item] = response.items
    [[claimed, is_flushed]] = postgres.execute(
        "select lsn, pg_current_wal_flush_lsn() >= lsn from pg_current_wal_insert_lsn() lsn"
    )
    assert not is_flushed
    assert confirmed(store, response, item.id)
    assert postgres.execute(f"select pg_current_wal_flush_lsn() >= '{claimed}'") == [(True,)]


def test_a_claim_is_confirmed_only_while_it_is_valid(hr: headrace.Headrace) -> None:
    """By any of its items: not by settled items, items of other claims or unknown items."""
    hr.limits.create(None, 5)
    hr.queue("q").push_many([1, 2, 3])
    store: Any = hr._store
    response = store.run(store.queues.claim(confirmable(count=2)))
    a, b = (item.id for item in response.items)
    [other] = store.run(store.queues.claim(confirmable(token="other"))).items
    assert [confirmed(store, response, id) for id in (a, b, a, b)] == [True] * 4
    store.run(store.queues.settle("q", [Outcome(item=a, token="mine", kind="complete")]))
    asked = [a, b, other.id, 10**9]
    assert [confirmed(store, response, id) for id in asked] == [False, True, False, False]
    hr.queue("q").drop()
    hr.push("q", 4)
    assert not confirmed(store, response, b)


@pytest.mark.usefixtures("slow_wal_writer")
@pytest.mark.parametrize("by", ["settle", "confirm"])
def test_a_later_flush_confirms_a_claim(
    hr: headrace.Headrace, postgres: PrivatePostgres, schema: str, by: str
) -> None:
    """No second flush is needed. An invalid claim is not confirmed."""
    hr.limits.create(None, 5)
    fill(hr, None, None, None)
    store: Any = hr._store
    gone = store.run(store.queues.claim(confirmable(token="gone")))
    postgres.execute(f"update {schema}.item set token = 'another' where token = 'gone'")
    first = store.run(store.queues.claim(confirmable(token="first")))
    mine = store.run(store.queues.claim(confirmable()))
    [[claimed, is_flushed]] = postgres.execute(
        "select lsn, pg_current_wal_flush_lsn() >= lsn from pg_current_wal_insert_lsn() lsn"
    )
    assert not is_flushed
    if by == "settle":
        outcome = Outcome(item=mine.items[0].id, token="mine", kind="complete")
        store.run(store.queues.settle("q", [outcome]))
    else:
        assert store.run(mine.confirm(mine.items[0].id))
    assert postgres.execute(f"select pg_current_wal_flush_lsn() >= '{claimed}'") == [(True,)]
    assert first.confirm(first.items[0].id) is None
    assert not store.run(gone.confirm(gone.items[0].id))


@WAYS
def test_claims_have_to_be_confirmed_only_if_necessary(
    hr: headrace.Headrace, channel: dict[str, object] | None, select: Query | None
) -> None:
    """Without rules, losing a claim does no harm. An empty claim has nothing to lose."""
    fill(hr, channel)
    store: Any = hr._store
    response = store.run(store.queues.claim(confirmable(select)))
    assert (len(response.items), response.confirm) == (1, None)
    hr.limits.create(None, 5)
    for may_confirm in (False, True):
        hr.queue("q").push(3, channel=channel)
        request = confirmable(select, token=f"mine-{may_confirm}", may_confirm=may_confirm)
        response = store.run(store.queues.claim(request))
        assert (len(response.items), response.confirm is not None) == (1, may_confirm)
    response = store.run(store.queues.claim(confirmable(select, token="another")))
    assert (len(response.items), response.confirm) == (0, None)


@WAYS
@pytest.mark.parametrize("counters", [1, 2])
def test_a_claim_rechecks_a_counter_after_waiting_for_it(
    hr: headrace.Headrace,
    postgres: PrivatePostgres,
    schema: str,
    channel: dict[str, object] | None,
    select: Query | None,
    counters: int,
) -> None:
    """Another session counts after the claim has found a free slot. Then there is none."""
    for queue_name in (None, "q")[:counters]:
        hr.limits.create(None, 1, queue=queue_name)
    queue = fill(hr, channel)
    found: list[headrace.ClaimedItem] = []
    claim = threading.Thread(target=lambda: found.extend(queue.claim(1, select=select)))
    with psycopg.connect(postgres.url) as other:
        [[pid]] = other.execute("select pg_backend_pid()").fetchall()
        other.execute(f"update {schema}.limit_counter set used = used + 1")
        claim.start()
        waiting = (
            f"select count(*) > 0 from pg_stat_activity where {pid} = any(pg_blocking_pids(pid))"
        )
        for _ in range(TIMEOUT * 100):
            if postgres.execute(waiting) == [(True,)] or not claim.is_alive():
                break
            claim.join(0.01)
        other.commit()
    claim.join(TIMEOUT)
    assert not claim.is_alive()
    assert found == []
    assert used(postgres, schema) == [1] * counters


@SELECTS
def test_a_claim_fills_the_free_slots(
    hr: headrace.Headrace, postgres: PrivatePostgres, schema: str, select: Query | None
) -> None:
    """Channels without a free slot are skipped in favour of others."""
    hr.limits.create({"os": "mac"}, 2)
    hr.limits.create({"branch": ANY}, 1)
    channels = [{"os": os, "branch": n} for os in ("mac", "linux") for n in range(4)]
    queue = fill(hr, *channels)
    items = queue.claim(99, select=select)
    assert sorted((item.channel.plain["os"], item.channel.plain["branch"]) for item in items) == [
        ("linux", 2), ("linux", 3), ("mac", 0), ("mac", 1),
    ]  # fmt: skip
    assert sum(used(postgres, schema)) == 6
    queue.complete(items)
    assert sum(used(postgres, schema)) == 0
    assert len(queue.claim(99, select=select)) == 4


@SELECTS
@pytest.mark.parametrize(
    ("others", "counted"),
    [({"os": "mac", "n": 1}, [2]), ({"os": "linux"}, [1, 1]), ({"n": 1}, [1]), (None, [1])],
    ids=["the same", "another", "none", "no channel"],
)
def test_items_count_in_the_counter_of_their_channel(
    hr: headrace.Headrace,
    postgres: PrivatePostgres,
    schema: str,
    select: Query | None,
    others: dict[str, object] | None,
    counted: list[int],
) -> None:
    """Whichever items they are claimed with."""
    hr.limits.create({"os": ANY}, 5)
    queue = fill(hr, {"os": "mac"}, others)
    items = queue.claim(99, select=select)
    if len(items) == 1:
        # Those without a channel have no turn.
        items += queue.claim(99)
    assert len(items) == 2
    assert [number for number in used(postgres, schema) if number] == counted
    queue.complete(items)
    assert not any(used(postgres, schema))


@SELECTS
def test_a_part_of_a_claim_releases_its_own_slots(
    hr: headrace.Headrace, postgres: PrivatePostgres, schema: str, select: Query | None
) -> None:
    """Not all the slots that the claim counted."""
    hr.limits.create({"os": ANY}, 5)
    queue = fill(hr, {"os": "mac"}, {"os": "linux"}, {"os": "bsd"})
    items = queue.claim(99, select=select)
    queue.complete(items[:1])
    assert sorted(used(postgres, schema)) == [0, 1, 1]
    queue.complete(items[1:])
    assert used(postgres, schema) == [0, 0, 0]


@SELECTS
def test_claims_completed_together_release_all_their_slots(
    hr: headrace.Headrace, postgres: PrivatePostgres, schema: str, select: Query | None
) -> None:
    """In counters that they share, and in others."""
    hr.limits.create(None, 5)
    hr.limits.create({"os": ANY}, 5)
    queue = fill(hr, {"os": "mac"}, {"os": "linux"}, {"os": "bsd"})
    items = [*queue.claim(2, select=select), *queue.claim(2, select=select)]
    assert sorted(used(postgres, schema)) == [1, 1, 1, 3]
    queue.complete(items)
    assert used(postgres, schema) == [0, 0, 0, 0]


@SELECTS
def test_a_claim_that_lost_an_item_releases_the_rest(
    hr: headrace.Headrace, postgres: PrivatePostgres, schema: str, select: Query | None
) -> None:
    """The slot of the lost item belongs to another claim by now."""
    hr.limits.create({"os": ANY}, 5)
    queue = fill(hr, {"os": "mac"}, {"os": "linux"})
    items = queue.claim(99, select=select)
    store: Any = hr._store
    said = Outcome(item=items[0].id, token=items[0].token, kind="release")
    store.run(store.queues.settle("q", [said]))
    [again] = queue.claim(1, select=select)
    answers = queue.settle([item.outcome("complete") for item in items])
    assert sorted(answer.state for answer in answers) == ["completed", "lost"]
    assert sorted(used(postgres, schema)) == [0, 1]
    queue.complete([again])
    assert used(postgres, schema) == [0, 0]


@SELECTS
def test_claims_under_old_rules_release_by_new_ones(
    hr: headrace.Headrace, postgres: PrivatePostgres, schema: str, select: Query | None
) -> None:
    """All items in flight were counted again when the rules changed."""
    rule = hr.limits.create({"os": ANY}, 5)
    queue = fill(hr, {"os": "mac", "n": 1}, {"os": "mac", "n": 2})
    items = queue.claim(99, select=select)
    hr.limits.create({"n": ANY}, 5)
    hr.limits.delete(rule.id)
    hr.limits.create({"os": ANY}, 7)
    assert sorted(used(postgres, schema)) == [1, 1, 2]
    # The client learns of it.
    assert queue.claim(1, select=select) == []
    queue.complete(items)
    assert sorted(used(postgres, schema)) == [0, 0, 0]


@SELECTS
def test_channels_with_different_limits_share_a_counter(
    hr: headrace.Headrace, postgres: PrivatePostgres, schema: str, select: Query | None
) -> None:
    """Both count in it, and each checks its own limit."""
    hr.limits.create(None, 2, name="all")
    hr.limits.override("all", {"os": "mac"}, 1)
    queue = fill(hr, {"os": "linux"}, {"os": "mac"})
    items = queue.claim(99, select=select)
    assert [item.channel.plain["os"] for item in items] == ["linux", "mac"]
    assert sorted(used(postgres, schema)) == [1, 2]
    queue.complete(items)
    assert used(postgres, schema) == [0, 0]


@SELECTS
def test_deleted_counters_are_created_again(
    hr: headrace.Headrace, postgres: PrivatePostgres, schema: str, select: Query | None
) -> None:
    """Maintenance deletes unused counters. Channels refer to them by number."""
    hr.limits.create({"os": ANY}, 1)
    queue = fill(hr, {"os": "mac"}, {"os": "linux"})
    postgres.execute(f"delete from {schema}.limit_counter")
    assert len(queue.claim(9, select=select)) == 2
    assert used(postgres, schema) == [1, 1]
    assert queue.claim(9, select=select) == []


def test_items_in_no_channel_count_with_the_others(
    hr: headrace.Headrace, postgres: PrivatePostgres, schema: str
) -> None:
    """A rule about everything counts both. An item in no channel has no values to count by."""
    hr.limits.create(None, 3)
    hr.limits.create({"os": ANY}, 1)
    queue = fill(hr, {"os": "mac"}, None, {"os": "mac"}, None, None)
    items = queue.claim(99)
    assert [item.channel is None for item in items] == [False, True, True]
    assert sorted(used(postgres, schema)) == [1, 3]
    queue.complete(items[1:])
    assert [item.channel for item in queue.claim(99)] == [None]
    assert queue.claim(99) == []
    queue.complete(items[:1])
    assert [item.channel is None for item in queue.claim(99)] == [False]
