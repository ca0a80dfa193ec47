"""What selections that are registered promise: nothing changes but the cost."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.contract.items import Deleted
from headrace.core.where import where
from headrace.errors import UnknownQueue
from headrace.model.channels import MOST_SELECTIONS
from headrace.model.queries import Query
from headrace.testing.clocks import FakeClock
from headrace.testing.contract.queue_base import Desk, Queue, QueueContract, doc, payloads
from headrace.testing.contract.queue_channels import EVERY, LINUX, of

MAC = where(os="mac").form
SMALL = where(n__lt=3).form


def register(q: Queue, *selections: str) -> None:
    for select in selections:
        q.desk.register_selection(q.name, select)


def host(os: str, n: int) -> dict[str, Any]:
    return {"os": os, "n": n}


class SelectionContract(QueueContract):
    """Queries that claims select by."""

    def test_channels_before_and_after(self, q: Queue) -> None:
        """Those that were there are found, and those that come later."""
        q.push(of(host("linux", 1), 1), of(host("mac", 2), 2), doc(0))
        register(q, LINUX)
        q.push(of(host("linux", 3), 3), of(host("mac", 4), 4), of(host("linux", 1), 5))
        assert payloads(q.claim(10, select=LINUX)) == [1, 5, 3]
        assert q.take(10, select=LINUX).state == "empty"
        q.push(of(host("linux", 6), 6), of(host("mac", 6), 7), of(host("linux", 1), 8))
        assert payloads(q.claim(10, select=LINUX)) == [6, 8]

    def test_selections_that_overlap(self, q: Queue) -> None:
        """Each finds all of its own, whichever was registered when; so do others, and all."""
        q.create()
        nine = where(n=9).form
        register(q, nine)
        for n in range(4):
            q.push(of(host("linux", n), f"l{n}"), of(host("mac", n), f"m{n}"))
            q.push(of(host("bsd", 9), "x"))
            # Channels are put into lanes by what is registered now.
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
        """One at a time."""
        q.create(serial=True)
        register(q, LINUX)
        q.push(of(host("linux", 1), 1), of(host("linux", 1), 2), of(host("linux", 2), 3))
        one, _ = q.claim(10, select=LINUX)
        assert q.take(10, select=LINUX).state == "empty"
        q.settle(one, "complete")
        assert payloads(q.claim(10, select=LINUX)) == [2]

    def test_many_channels(self, q: Queue) -> None:
        """More than are looked at together."""
        for start in range(0, 1200, 200):
            q.push(*[of(host("mac", n), n) for n in range(start, start + 200)])
        q.push(of(host("linux", 0), "found"))
        register(q, LINUX)
        assert payloads(q.claim(10, select=LINUX)) == ["found"]
        assert q.desk.delete_channels("q", MAC, 2000) == Deleted(1200, 1200)

    def test_what_is_registered_is_listed_and_forgotten(self, q: Queue, clock: FakeClock) -> None:
        """By form; claims go on without it."""
        q.push(of(host("linux", 1), 1), of(host("linux", 2), 2))
        register(q, MAC, LINUX, EVERY)
        clock.advance(1)
        register(q, MAC)
        found = [(row.select, row.seen_at) for row in q.desk.selections("q")]
        assert found == [(LINUX, clock.now - 1000), (MAC, clock.now)]
        assert payloads(q.claim(1, select=LINUX)) == [1]
        assert q.desk.forget_selection("q", LINUX)
        assert not q.desk.forget_selection("q", LINUX)
        assert payloads(q.claim(1, select=LINUX)) == [2]
        register(q, LINUX)
        q.push(of(host("linux", 2), 3))
        assert payloads(q.claim(1, select=LINUX)) == [3]

    def test_the_version_tells_of_changes(self, q: Queue) -> None:
        """Of new and forgotten ones, not of those that are there."""
        version = q.create().version
        register(q, EVERY)
        assert q.desk.queue_info("q").version == version
        register(q, LINUX, LINUX)
        assert q.desk.queue_info("q").version == version + 1
        q.desk.forget_selection("q", LINUX)
        assert q.desk.queue_info("q").version == version + 2

    def test_what_nobody_registers_is_forgotten(self, q: Queue, clock: FakeClock) -> None:
        """After a day; or when there are too many, the oldest first."""
        q.create()
        register(q, LINUX)
        clock.advance(24 * 3600)
        register(q, MAC)
        q.desk.tend_queue("q", 100)
        assert [row.select for row in q.desk.selections("q")] == [MAC]
        clock.advance(1)
        many = [where(n=n).form for n in range(MOST_SELECTIONS)]
        register(q, *many)
        assert [row.select for row in q.desk.selections("q")] == sorted(many)

    def test_a_queue_dropped_with_its_selections(self, q: Queue) -> None:
        """Kept data has them again; otherwise nothing is left."""
        q.push(of(host("linux", 1), 1))
        register(q, LINUX)
        q.desk.drop_queue("q", True)
        q.create()
        assert payloads(q.claim(1, select=LINUX)) == [1]
        q.desk.drop_queue("q", False)
        q.create()
        assert q.desk.selections("q") == []

    def test_selections_of_an_unknown_queue(self, desk: Desk) -> None:
        """Are refused like all else."""
        for build in (
            lambda: desk.register_selection("none", Query().form),
            lambda: desk.forget_selection("none", LINUX),
            lambda: desk.selections("none"),
        ):
            with pytest.raises(UnknownQueue):
                build()
