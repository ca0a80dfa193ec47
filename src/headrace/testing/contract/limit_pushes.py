"""Limits on what is enqueued: how many items wait and run at once."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.contract.items import Pushed, PushFull
from headrace.contract.limits import RuleRow
from headrace.errors import QueueFull
from headrace.model.typed import ANY
from headrace.testing.clocks import FakeClock
from headrace.testing.contract.limit_claims import LINUX, MAC, fill, form, used
from headrace.testing.contract.limit_rules import override, pattern, rule
from headrace.testing.contract.queue_base import Desk, Queue, QueueContract, doc, payloads


def full(id: str, limit: int, values: str) -> PushFull:
    return PushFull("q", limit, values, id)


class LimitPushContract(QueueContract):
    """A push that a rule has no room for."""

    def test_no_more_than_fits(self, q: Queue, desk: Desk) -> None:
        """What waits and what is out counts; a call comes whole or not at all."""
        desk.create_limits([rule("two", 2, os=ANY, on="enqueued")])
        fill(q, MAC, 1)
        calls = [
            q.call(doc(2, key_values=MAC), doc(3, key_values=MAC)),
            q.call(doc(4, key_values=MAC), doc(5, key_values=LINUX), doc(6)),
            q.call(doc(7, key_values=MAC)),
        ]
        refusal = full("two", 2, MAC)
        assert [type(o) for o in desk.push(calls)] == [PushFull, Pushed, PushFull]
        items = q.claim(9)
        assert sorted(payloads(items)) == [1, 4, 5, 6]
        assert desk.push([calls[2]]) == [refusal]
        q.settle(items[0], "reject", delay_ms=60_000)
        assert desk.push([calls[2]]) == [refusal]
        q.settle(items[1], "complete")
        assert isinstance(desk.push([calls[2]])[0], Pushed)
        assert used(desk, "two") == {MAC: 2, LINUX: 1}

    def test_the_first_channel_of_a_queue(self, q: Queue, desk: Desk) -> None:
        """Counts as all others do."""
        desk.create_limits([rule("one", 1, os=ANY, on="enqueued")])
        q.create()
        two = q.call(doc(1, key_values=MAC), doc(2, key_values=MAC))
        assert desk.push([two]) == [full("one", 1, MAC)]
        fill(q, MAC, 3)
        assert desk.push([q.call(doc(4, key_values=MAC))]) == [full("one", 1, MAC)]
        assert used(desk, "one") == {MAC: 1}

    def test_every_end_gives_room(self, q: Queue, desk: Desk) -> None:
        """However an item goes."""
        q.create(dead_threshold=1)
        desk.create_limits([rule("one", 1, os=ANY, on="enqueued")])
        for kind in ("complete", "drop", "kill", "reject"):
            fill(q, MAC, 1)
            q.settle(q.claim_one(), kind)
        [id] = q.push(doc(2, key_values=MAC)).ids
        desk.cancel_item("q", id)
        fill(q, MAC, 3)
        q.claim_one()
        desk.delete_channels("q", None, 9)
        fill(q, MAC, 4)
        assert used(desk, "one") == {MAC: 1}
        desk.drop_queue("q", False)
        fill(q, MAC, 5)

    @pytest.mark.parametrize("way", ["reject", "lease"])
    def test_what_gives_way_to_newer_content_gives_room(
        self, q: Queue, desk: Desk, clock: FakeClock, way: str
    ) -> None:
        """A failed item that is dropped for what stands behind it is counted no longer."""
        desk.create_limits([rule("two", 2, os=ANY, on="enqueued")])
        overrides = {"updateable": True, "retry_position": "front"}
        q.push(doc(1, key_values=MAC, overrides=overrides))
        item = q.claim_one(lease_ms=1000)
        fill(q, MAC, 2)
        assert desk.push([q.call(doc(3, key_values=MAC))]) == [full("two", 2, MAC)]
        if way == "reject":
            assert q.settle(item, "reject").state == "dropped"
        else:
            clock.advance(1)
            assert desk.expire_leases("q", 9) == [item.id]
        assert used(desk, "two") == {MAC: 1}
        fill(q, MAC, 3)

    def test_updates_are_free_and_move(self, q: Queue, desk: Desk) -> None:
        """An upsert that goes to another channel counts there."""
        desk.create_limits([rule("one", 1, os=ANY, on="enqueued")])
        q.push(doc(1, subject="s", key_values=MAC))
        q.upsert(doc(2, subject="s", key_values=MAC))
        assert q.push(doc(3, subject="s", key_values=MAC)).notes[0].reason == "exists"
        q.upsert(doc(4, subject="s", key_values=LINUX))
        assert used(desk, "one") == {LINUX: 1}
        fill(q, MAC, 5)

    def test_what_moves_in_the_same_call_counts(self, q: Queue, desk: Desk) -> None:
        """Where it goes, and no longer where it was: new items get what it leaves."""
        desk.create_limits([rule("one", 1, os=ANY, on="enqueued")])
        q.push(doc(1, subject="s", key_values=MAC))
        moves = doc(2, subject="s", key_values=LINUX)
        both = q.call(moves, doc(3, key_values=LINUX), mode="upsert")
        assert desk.push([both]) == [full("one", 1, LINUX)]
        assert used(desk, "one") == {MAC: 1}
        q.upsert(moves, doc(3, key_values=MAC))
        assert used(desk, "one") == {LINUX: 1, MAC: 1}

    def test_what_comes_by_itself_comes(self, q: Queue, desk: Desk) -> None:
        """And counts: what is made live again, copies of the dead."""
        desk.create_limits([rule("one", 1, os=ANY, on="enqueued")])
        fill(q, MAC, 1)
        q.settle(q.claim_one(), "kill")
        fill(q, MAC, 2)
        [dead] = q.dead()
        desk.retry_item("q", dead.item.id)
        assert used(desk, "one") == {MAC: 2}
        q.create(dead_to=("other",))
        q.settle(q.claim_one(), "kill")
        assert used(desk, "one") == {MAC: 2}

    def test_a_new_rule_counts_what_is_there(self, q: Queue, desk: Desk) -> None:
        """In all queues, waiting or not."""
        other = Queue(desk, "other")
        fill(q, MAC, 1, 2)
        fill(other, MAC, 3)
        q.claim(1)
        desk.create_limits([rule("r", 3, os="mac", on="enqueued")])
        assert used(desk, "r") == {MAC: 3}
        assert desk.push([q.call(doc(4, key_values=MAC))]) == [full("r", 3, MAC)]
        desk.change_limit("r", None, 4)
        fill(q, MAC, 4)
        desk.add_override("r", override("o", -1, os="mac", x=1))
        fill(q, form(os="mac", x=1), 5, 6)
        assert used(desk, "r") == {MAC: 6}

    def test_a_rule_about_everything(self, q: Queue, desk: Desk) -> None:
        """Items in no channel too, pushed in whatever way."""
        desk.create_limits(
            [RuleRow(id="all", key_values=pattern(), limit=3, queue="q", on="enqueued")]
        )
        fill(q, None, 1)
        q.push(doc(2, subject="s"))
        assert desk.push([q.call(3, 4)]) == [full("all", 3, "{}")]
        fill(q, MAC, 3)
        assert desk.push([q.call(4)]) == [full("all", 3, "{}")]
        q.settle(q.claim_one(), "complete")
        fill(q, None, 4)
        assert used(desk, "all") == {"{}": 3}

    def test_with_something_else_it_fails_as_a_whole(self, q: Queue, desk: Desk) -> None:
        """As a full queue does."""
        desk.create_limits([rule("one", 1, os="mac", on="enqueued")])
        fill(q, MAC, 1)
        fill(q, LINUX, 2)
        item = next(item for item in q.claim(9) if item.key_values == LINUX)
        with pytest.raises(QueueFull) as caught:
            q.settle(item, "complete", pushes=(q.call(doc(3, key_values=MAC)),))
        assert (caught.value.rule, caught.value.limit) == ("one", 1)
        assert q.settle(item, "complete").state == "completed"
        assert used(desk, "one") == {MAC: 1}

    def test_in_a_transaction(self, hr: Any, q: Queue, desk: Desk) -> None:
        """Counted with it, or not at all."""
        desk.create_limits([rule("two", 2, os="mac", on="enqueued")])
        fill(q, MAC, 1)
        with pytest.raises(ZeroDivisionError), hr.transaction() as tx:
            fill(Queue(Desk(tx)), MAC, 2)
            raise ZeroDivisionError
        with hr.transaction() as tx:
            mine = Queue(Desk(tx))
            fill(mine, MAC, 3)
            assert Desk(tx).push([q.call(doc(4, key_values=MAC))]) == [full("two", 2, MAC)]
        assert used(desk, "two") == {MAC: 2}
