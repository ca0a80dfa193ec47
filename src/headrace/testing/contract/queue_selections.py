"""The guarantees of registered selections: they change the cost and nothing else."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.contract.items import Deleted
from headrace.core.where import where
from headrace.errors import UnknownQueue
from headrace.model.query.queries import Query
from headrace.model.queues.channels import MAX_SELECTIONS
from headrace.testing.clocks import FakeClock
from headrace.testing.contract.queue_base import Queue, QueueContract, StoreOps, doc, payloads
from headrace.testing.contract.queue_channels import EVERY, LINUX, of

MAC = where(os="mac").form
SMALL = where(n__lt=3).form


def register(q: Queue, *selections: str) -> None:
    for select in selections:
        q.ops.channels.register_selection(q.name, select)


def host(os: str, n: int) -> dict[str, Any]:
    return {"os": os, "n": n}


class SelectionContract(QueueContract):
    """Queries that claims select by."""

    needed_parts = frozenset({"channels"})

    def test_channels_before_and_after(self, q: Queue) -> None:
        """A selection finds channels that existed before it, and those created later."""
        q.push(of(host("linux", 1), 1), of(host("mac", 2), 2), doc(0))
        register(q, LINUX)
        q.push(of(host("linux", 3), 3), of(host("mac", 4), 4), of(host("linux", 1), 5))
        assert payloads(q.claim(10, select=LINUX)) == [1, 5, 3]
        assert q.claim_response(10, select=LINUX).state == "empty"
        q.push(of(host("linux", 6), 6), of(host("mac", 6), 7), of(host("linux", 1), 8))
        assert payloads(q.claim(10, select=LINUX)) == [6, 8]

    def test_selections_that_overlap(self, q: Queue) -> None:
        """Each finds all of its channels, whichever was registered first. So do queries that are
        not registered."""
        q.create()
        nine = where(n=9).form
        register(q, nine)
        for n in range(4):
            q.push(of(host("linux", n), f"l{n}"), of(host("mac", n), f"m{n}"))
            q.push(of(host("bsd", 9), "x"))
            # Channels are sorted into lanes by the selections registered now.
            assert payloads(q.claim(1, select=nine)) == ["x"]
            register(q, (LINUX, SMALL, MAC, where(n__gt=2).form)[n])
        assert payloads(q.claim(3, select=SMALL)) == ["l0", "m0", "l1"]
        assert payloads(q.claim(1, select=LINUX)) == ["l2"]
        assert payloads(q.claim(1, select=where(n=2).form)) == ["m2"]
        assert payloads(q.claim(1, select=where(n__gt=2).form)) == ["l3"]
        assert payloads(q.claim(9, select=EVERY)) == ["m1", "m3"]

    def test_turns_are_the_same(self, q: Queue) -> None:
        """Over all lanes of a selection."""
        q.create()
        register(q, LINUX, SMALL)
        for n in range(5):
            q.push(*[of(host("linux", n), f"{n}{m}") for m in range(2)], of(host("mac", n), "mac"))
        assert payloads(q.claim(4, select=LINUX, quantum=1)) == ["00", "10", "20", "30"]
        assert payloads(q.claim(4, select=LINUX, quantum=1)) == ["40", "01", "11", "21"]
        assert payloads(q.claim(4, select=LINUX, quantum=1)) == ["31", "41"]

    def test_strict_channels(self, q: Queue) -> None:
        """They have one item in flight at a time."""
        q.create(serial=True)
        register(q, LINUX)
        q.push(of(host("linux", 1), 1), of(host("linux", 1), 2), of(host("linux", 2), 3))
        one, _ = q.claim(10, select=LINUX)
        assert q.claim_response(10, select=LINUX).state == "empty"
        q.settle(one, "complete")
        assert payloads(q.claim(10, select=LINUX)) == [2]

    def test_many_channels(self, q: Queue) -> None:
        """More than one statement examines."""
        for start in range(0, 1200, 200):
            q.push(*[of(host("mac", n), n) for n in range(start, start + 200)])
        q.push(of(host("linux", 0), "found"))
        register(q, LINUX)
        assert payloads(q.claim(10, select=LINUX)) == ["found"]
        assert q.ops.channels.delete("q", MAC, 2000) == Deleted(1200, 1200)

    def test_selections_are_listed_and_unregistered(self, q: Queue, clock: FakeClock) -> None:
        """By their form. Claims work without them."""
        q.push(of(host("linux", 1), 1), of(host("linux", 2), 2))
        register(q, MAC, LINUX, EVERY)
        clock.advance(1)
        register(q, MAC)
        found = [(row.select, row.seen_at) for row in q.ops.channels.selections("q")]
        assert found == [(LINUX, clock.now - 1000), (MAC, clock.now)]
        assert payloads(q.claim(1, select=LINUX)) == [1]
        assert q.ops.channels.forget_selection("q", LINUX)
        assert not q.ops.channels.forget_selection("q", LINUX)
        assert payloads(q.claim(1, select=LINUX)) == [2]
        register(q, LINUX)
        q.push(of(host("linux", 2), 3))
        assert payloads(q.claim(1, select=LINUX)) == [3]

    def test_the_version_changes_with_the_selections(self, q: Queue) -> None:
        """When one is registered or deleted, and not when one is registered again."""
        version = q.create().version
        register(q, EVERY)
        assert q.ops.queues.info("q").version == version
        register(q, LINUX, LINUX)
        assert q.ops.queues.info("q").version == version + 1
        q.ops.channels.forget_selection("q", LINUX)
        assert q.ops.queues.info("q").version == version + 2

    def test_unused_selections_are_deleted(self, q: Queue, clock: FakeClock) -> None:
        """After a day, or the oldest first if there are too many."""
        q.create()
        register(q, LINUX)
        clock.advance(24 * 3600)
        register(q, MAC)
        q.ops.queues.maintain("q", 100)
        assert [row.select for row in q.ops.channels.selections("q")] == [MAC]
        clock.advance(1)
        many = [where(n=n).form for n in range(MAX_SELECTIONS)]
        register(q, *many)
        assert [row.select for row in q.ops.channels.selections("q")] == sorted(many)

    def test_a_queue_dropped_with_its_selections(self, q: Queue) -> None:
        """A queue created again over kept data has them again. Otherwise nothing is left."""
        q.push(of(host("linux", 1), 1))
        register(q, LINUX)
        q.ops.queues.drop("q", True)
        q.create()
        assert payloads(q.claim(1, select=LINUX)) == [1]
        q.ops.queues.drop("q", False)
        q.create()
        assert q.ops.channels.selections("q") == []

    def test_selections_of_an_unknown_queue(self, ops: StoreOps) -> None:
        """The call is refused, like any other on an unknown queue."""
        for build in (
            lambda: ops.channels.register_selection("none", Query().form),
            lambda: ops.channels.forget_selection("none", LINUX),
            lambda: ops.channels.selections("none"),
        ):
            with pytest.raises(UnknownQueue):
                build()
