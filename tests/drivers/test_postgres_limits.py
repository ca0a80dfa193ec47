"""Limits on PostgreSQL: what one statement counts, and what others count meanwhile."""

import threading
from typing import Any

import psycopg
import pytest
from msgspec.structs import replace

import headrace
from headrace import ANY, Query
from headrace.contract.items import Outcome, Take
from headrace.core.channels import form_of
from headrace.testing.postgres import PrivatePostgres

TIMEOUT = 30
WAYS = pytest.mark.parametrize(
    ("channel", "select"),
    [(None, None), ({"os": "mac"}, Query()), ({"os": "mac"}, None)],
    ids=["no channels", "by turns", "in line"],
)
SELECTS = pytest.mark.parametrize("select", [Query(), None], ids=["by turns", "in line"])


def used(postgres: PrivatePostgres, schema: str) -> list[int]:
    return [row[0] for row in postgres.execute(f"select used from {schema}.bucket order by id")]


def fill(hr: headrace.Headrace, *channels: dict[str, object] | None) -> headrace.Queue:
    """A queue with an item in each of some channels, which has been claimed from before."""
    queue = hr.queue("q")
    for channel in channels:
        queue.push(1, channel=channel)
        queue.complete(queue.claim(1, select=None if channel is None else Query()))
    for channel in channels:
        queue.push(2, channel=channel)
    return queue


def loosely(select: Query | None) -> Take:
    """A claim on that queue whose answer may come before it is on the disk."""
    choice = {} if select is None else {"select": form_of(select)}
    return Take(queue="q", token="mine", count=1, may_be_loose=True, **choice)


@pytest.mark.usefixtures("lazy_disk")
@WAYS
def test_what_is_counted_is_on_the_disk(
    hr: headrace.Headrace,
    postgres: PrivatePostgres,
    channel: dict[str, object] | None,
    select: Query | None,
) -> None:
    """Else a crash would give a slot back while somebody still runs, or take a result away."""
    hr.create_limit(None, 5)
    queue = fill(hr, channel)
    [[written]] = postgres.execute("select pg_current_wal_insert_lsn()")
    items = queue.claim(1, select=select)
    assert items
    assert postgres.execute(f"select pg_current_wal_flush_lsn() > '{written}'") == [(True,)]
    [[written]] = postgres.execute("select pg_current_wal_insert_lsn()")
    queue.complete(items)
    assert postgres.execute(f"select pg_current_wal_flush_lsn() > '{written}'") == [(True,)]


@pytest.mark.usefixtures("lazy_disk")
@WAYS
def test_a_loose_claim_is_on_the_disk_when_it_is_secured(
    hr: headrace.Headrace,
    postgres: PrivatePostgres,
    channel: dict[str, object] | None,
    select: Query | None,
) -> None:
    """And not before, which is what it is for."""
    hr.create_limit(None, 5)
    fill(hr, channel)
    store: Any = hr._store
    take = loosely(select)
    taking = store.run(store.claim_items(take))
    [item] = taking.items
    assert taking.is_loose
    [[claimed, is_flushed]] = postgres.execute(
        "select lsn, pg_current_wal_flush_lsn() >= lsn from pg_current_wal_insert_lsn() lsn"
    )
    assert not is_flushed
    assert store.run(store.secure_claim("q", "mine", item.id))
    assert postgres.execute(f"select pg_current_wal_flush_lsn() >= '{claimed}'") == [(True,)]


@pytest.mark.usefixtures("lazy_disk")
@pytest.mark.parametrize("by", ["settle", "secure_claim"])
def test_a_loose_claim_is_secured_by_what_is_brought_to_the_disk_behind_it(
    hr: headrace.Headrace, postgres: PrivatePostgres, schema: str, by: str
) -> None:
    """Nobody need wait for the disk a second time. One that does not stand is not secured."""
    hr.create_limit(None, 5)
    fill(hr, None, None, None)
    store: Any = hr._store
    take = loosely(None)
    store.run(store.claim_items(replace(take, token="gone")))
    postgres.execute(f"update {schema}.item set token = 'another' where token = 'gone'")
    [first] = store.run(store.claim_items(replace(take, token="first"))).items
    [mine] = store.run(store.claim_items(take)).items
    [[claimed, is_flushed]] = postgres.execute(
        "select lsn, pg_current_wal_flush_lsn() >= lsn from pg_current_wal_insert_lsn() lsn"
    )
    assert not is_flushed
    assert not any(map(store.is_secured, ("gone", "first", "mine")))
    if by == "settle":
        store.run(store.settle("q", [Outcome(item=mine.id, token="mine", kind="complete")]))
    else:
        assert store.run(store.secure_claim("q", "mine", mine.id))
    assert postgres.execute(f"select pg_current_wal_flush_lsn() >= '{claimed}'") == [(True,)]
    assert store.is_secured("first")
    assert not store.is_secured("gone")
    assert store.run(store.secure_claim("q", "first", first.id))


@WAYS
def test_nothing_is_loose_without_need(
    hr: headrace.Headrace, channel: dict[str, object] | None, select: Query | None
) -> None:
    """Without rules a claim that is lost is no loss; one that brings nothing has nothing to lose."""
    fill(hr, channel)
    store: Any = hr._store
    take = loosely(select)
    taking = store.run(store.claim_items(take))
    assert (len(taking.items), taking.is_loose) == (1, False)
    hr.create_limit(None, 5)
    for may_be_loose in (False, True):
        hr.queue("q").push(3, channel=channel)
        token = f"mine-{may_be_loose}"
        another = replace(take, token=token, may_be_loose=may_be_loose)
        taking = store.run(store.claim_items(another))
        assert (len(taking.items), taking.is_loose) == (1, may_be_loose)
    taking = store.run(store.claim_items(replace(take, token="another")))
    assert (len(taking.items), taking.is_loose) == (0, False)


@WAYS
@pytest.mark.parametrize("totals", [1, 2])
def test_who_has_waited_for_a_total_looks_at_it_anew(
    hr: headrace.Headrace,
    postgres: PrivatePostgres,
    schema: str,
    channel: dict[str, object] | None,
    select: Query | None,
    totals: int,
) -> None:
    """Somebody counts when a claim has seen that there is room: then there is none."""
    for queue_name in (None, "q")[:totals]:
        hr.create_limit(None, 1, queue=queue_name)
    queue = fill(hr, channel)
    found: list[headrace.Item] = []
    claim = threading.Thread(target=lambda: found.extend(queue.claim(1, select=select)))
    with psycopg.connect(postgres.url) as other:
        [[pid]] = other.execute("select pg_backend_pid()").fetchall()
        other.execute(f"update {schema}.bucket set used = used + 1")
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
    assert used(postgres, schema) == [1] * totals


@SELECTS
def test_a_claim_takes_what_there_is_room_for(
    hr: headrace.Headrace, postgres: PrivatePostgres, schema: str, select: Query | None
) -> None:
    """Channels of which nothing fits are passed over, and what others have is taken."""
    hr.create_limit({"os": "mac"}, 2)
    hr.create_limit({"branch": ANY}, 1)
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
def test_items_count_in_the_total_of_their_channel(
    hr: headrace.Headrace,
    postgres: PrivatePostgres,
    schema: str,
    select: Query | None,
    others: dict[str, object] | None,
    counted: list[int],
) -> None:
    """Whichever those are that come with them."""
    hr.create_limit({"os": ANY}, 5)
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
def test_part_of_a_claim_gives_back_what_is_its(
    hr: headrace.Headrace, postgres: PrivatePostgres, schema: str, select: Query | None
) -> None:
    """Not what all of it has counted, which is known."""
    hr.create_limit({"os": ANY}, 5)
    queue = fill(hr, {"os": "mac"}, {"os": "linux"}, {"os": "bsd"})
    items = queue.claim(99, select=select)
    queue.complete(items[:1])
    assert sorted(used(postgres, schema)) == [0, 1, 1]
    queue.complete(items[1:])
    assert used(postgres, schema) == [0, 0, 0]


@SELECTS
def test_claims_that_are_completed_together_give_back_what_all_have_counted(
    hr: headrace.Headrace, postgres: PrivatePostgres, schema: str, select: Query | None
) -> None:
    """In totals that they share, and in others."""
    hr.create_limit(None, 5)
    hr.create_limit({"os": ANY}, 5)
    queue = fill(hr, {"os": "mac"}, {"os": "linux"}, {"os": "bsd"})
    items = [*queue.claim(2, select=select), *queue.claim(2, select=select)]
    assert sorted(used(postgres, schema)) == [1, 1, 1, 3]
    queue.complete(items)
    assert used(postgres, schema) == [0, 0, 0, 0]


@SELECTS
def test_whoever_has_lost_an_item_gives_back_the_rest(
    hr: headrace.Headrace, postgres: PrivatePostgres, schema: str, select: Query | None
) -> None:
    """Its slot is that of another claim by now."""
    hr.create_limit({"os": ANY}, 5)
    queue = fill(hr, {"os": "mac"}, {"os": "linux"})
    items = queue.claim(99, select=select)
    store: Any = hr._store
    said = Outcome(item=items[0].id, token=items[0].token, kind="release")
    store.run(store.settle("q", [said]))
    [again] = queue.claim(1, select=select)
    answers = queue.settle([item.outcome("complete") for item in items])
    assert sorted(answer.state for answer in answers) == ["completed", "lost"]
    assert sorted(used(postgres, schema)) == [0, 1]
    queue.complete([again])
    assert used(postgres, schema) == [0, 0]


@SELECTS
def test_claims_under_old_rules_give_back_by_new_ones(
    hr: headrace.Headrace, postgres: PrivatePostgres, schema: str, select: Query | None
) -> None:
    """All that is out was counted anew when they changed."""
    rule = hr.create_limit({"os": ANY}, 5)
    queue = fill(hr, {"os": "mac", "n": 1}, {"os": "mac", "n": 2})
    items = queue.claim(99, select=select)
    hr.create_limit({"n": ANY}, 5)
    hr.delete_limit(rule.id)
    hr.create_limit({"os": ANY}, 7)
    assert sorted(used(postgres, schema)) == [1, 1, 2]
    # The client hears of it.
    assert queue.claim(1, select=select) == []
    queue.complete(items)
    assert sorted(used(postgres, schema)) == [0, 0, 0]


@SELECTS
def test_channels_with_other_limits_share_a_total(
    hr: headrace.Headrace, postgres: PrivatePostgres, schema: str, select: Query | None
) -> None:
    """Both count in it, and each looks at its own limit."""
    hr.create_limit(None, 2, name="all")
    hr.override_limit("all", {"os": "mac"}, 1)
    queue = fill(hr, {"os": "linux"}, {"os": "mac"})
    items = queue.claim(99, select=select)
    assert [item.channel.plain["os"] for item in items] == ["linux", "mac"]
    assert sorted(used(postgres, schema)) == [1, 2]
    queue.complete(items)
    assert used(postgres, schema) == [0, 0]


@SELECTS
def test_totals_that_were_forgotten_are_made_again(
    hr: headrace.Headrace, postgres: PrivatePostgres, schema: str, select: Query | None
) -> None:
    """Maintenance removes totals that nothing counts in; channels know them by number."""
    hr.create_limit({"os": ANY}, 1)
    queue = fill(hr, {"os": "mac"}, {"os": "linux"})
    postgres.execute(f"delete from {schema}.bucket")
    assert len(queue.claim(9, select=select)) == 2
    assert used(postgres, schema) == [1, 1]
    assert queue.claim(9, select=select) == []


def test_items_in_no_channel_count_beside_others_in_line(
    hr: headrace.Headrace, postgres: PrivatePostgres, schema: str
) -> None:
    """A rule about everything counts both; what is in no channel has no values to count by."""
    hr.create_limit(None, 3)
    hr.create_limit({"os": ANY}, 1)
    queue = fill(hr, {"os": "mac"}, None, {"os": "mac"}, None, None)
    items = queue.claim(99)
    assert [item.channel is None for item in items] == [False, True, True]
    assert sorted(used(postgres, schema)) == [1, 3]
    queue.complete(items[1:])
    assert [item.channel for item in queue.claim(99)] == [None]
    assert queue.claim(99) == []
    queue.complete(items[:1])
    assert [item.channel is None for item in queue.claim(99)] == [False]
