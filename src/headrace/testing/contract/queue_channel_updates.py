"""How newer content in a channel replaces older content."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.model.query.key_values import KeyValues
from headrace.model.query.queries import Query
from headrace.model.queues.items import Document, State
from headrace.testing.clocks import FakeClock
from headrace.testing.contract.queue_base import (
    Queue,
    QueueContract,
    doc,
    outcome_of,
    payload,
    payloads,
)

A, B = (KeyValues.of({"name": name}).form for name in "ab")
EVERY = Query().form
UPDATEABLE = {"updateable": True}


def of(payload: Any, *, updateable: bool | None = None, **fields: Any) -> Document:
    """A document for channel ``a``."""
    overrides = dict(fields.pop("overrides", {}))
    if updateable is not None:
        overrides["updateable"] = updateable
    if overrides:
        fields["overrides"] = overrides
    return doc(payload, **{"key_values": A, **fields})


def waiting(q: Queue) -> list[Any]:
    """The pending payloads, in the order of the line."""
    found = q.in_state(State.PENDING)
    return payloads(sorted(found, key=lambda item: item.position))


class ChannelUpdateContract(QueueContract):
    """Updates in place, and the table of failures."""

    @pytest.fixture(autouse=True)
    def oldest_first(self, q: Queue) -> None:
        q.create(discipline="fifo", reject_delay=0)

    def test_newer_content_replaces_the_last_in_line(self, q: Queue, clock: FakeClock) -> None:
        """The id and the place stay. Everything else comes from the newer document."""
        [id] = q.push(of(1, updateable=True, headers={"a": "1"}, priority=5)).ids
        q.push(doc("other"))
        clock.advance(1)
        pushed = q.push(of(2, updateable=True, headers={"b": "2"}))
        assert pushed.ids == (id,)
        [note] = pushed.notes
        assert (note.outcome, note.reason) == ("updated", None)
        item = q.item(id)
        assert (payload(item), item.headers, item.priority) == (2, '{"b":"2"}', 0)
        assert waiting(q) == [2, "other"]

    def test_the_existing_item_decides(self, q: Queue) -> None:
        """A document that may not be updated can replace an item that may. From then on the item
        stays."""
        q.push(of(1, updateable=True))
        assert q.push(of(2)).notes != ()
        assert q.push(of(3, updateable=True)).notes == ()
        assert q.push(of(4, updateable=False)).notes != ()
        assert waiting(q) == [2, 4]

    @pytest.mark.parametrize("flag", [None, False])
    def test_only_items_that_allow_it_are_replaced(self, q: Queue, flag: bool | None) -> None:
        """An upsert of a subject is different: it replaces unless the item forbids it."""
        q.push(of(1, updateable=flag))
        assert q.push(of(2, updateable=True)).notes == ()
        assert waiting(q) == [1, 2]

    def test_only_the_last_is_replaced(self, q: Queue) -> None:
        """An item with another one behind it is never replaced."""
        q.push(of(1, updateable=True))
        q.push(of(2, subject="s"))
        q.push(of(3))
        assert waiting(q) == [1, 2, 3]

    def test_other_channels_and_subjects_are_left_alone(self, q: Queue) -> None:
        """The rule concerns items without a subject, within one channel."""
        q.push(of(1, updateable=True), of(2, updateable=True, key_values=B), doc(3))
        q.push(of(4, subject="s"), doc(5))
        assert waiting(q) == [1, 2, 3, 4, 5]
        q.push(of(6, key_values=B))
        assert waiting(q) == [1, 6, 3, 4, 5]

    def test_items_in_flight_or_planned_are_left_alone(self, q: Queue) -> None:
        """They are not in line."""
        q.push(of(1, updateable=True))
        item = q.claim_one()
        q.push(of(2, updateable=True, delay=1000))
        q.push(of(3, updateable=True))
        q.push(of(4, updateable=True, delay=1000))
        assert (waiting(q), payloads(q.in_state(State.PLANNED))) == ([3], [2, 4])
        assert payload(q.item(item.id)) == 1

    def test_within_one_push(self, q: Queue) -> None:
        """The documents of a push are processed one by one, as if pushed one after the other."""
        pushed = q.push(*[of(n, updateable=True) for n in range(4)], of(4), of(5))
        assert len(set(pushed.ids)) == 2
        assert [note.index for note in pushed.notes] == [1, 2, 3, 4]
        assert waiting(q) == [4, 5]

    def test_replaced_content_resets_the_attempts(self, q: Queue) -> None:
        """The newer content has not failed yet."""
        q.push(of(1, updateable=True))
        q.end("reject", failure="no")
        assert q.in_state(State.PENDING)[0].attempts == 1
        q.push(of(2, updateable=True))
        [item] = q.in_state(State.PENDING)
        assert (payload(item), item.attempts, item.error) == (2, 0, None)

    def test_replaced_content_goes_to_a_topic(self, q: Queue, hr: Any) -> None:
        """If the queue has a setting for it."""
        q.update(keep_superseded="old")
        q.push(of(1, updateable=True), of(2, updateable=True))
        q.push(of(3))
        assert [record.body["payload"] for record in hr.range("old")] == [1, 2]

    @pytest.mark.parametrize("way", ["reject", "lease"])
    @pytest.mark.parametrize("position", ["front", "back", None])
    @pytest.mark.parametrize("own", [True, False])
    @pytest.mark.parametrize("behind", [None, True, False])
    def test_the_table_of_failures(
        self,
        q: Queue,
        clock: FakeClock,
        way: str,
        position: str | None,
        own: bool,
        behind: bool | None,
    ) -> None:
        """For each combination, the failed item returns, or newer content replaces it."""
        where = {} if position is None else {"retry_position": position}
        q.push(of("failed", updateable=own, overrides=where))
        item = q.claim_one(lease_ms=1000)
        if behind is not None:
            q.push(of("newer", updateable=behind))
        is_dropped = behind is not None and (own if position == "front" else behind)
        before = q.counts()
        if way == "reject":
            answer = q.settle(item, "reject").state
            assert answer == ("dropped" if is_dropped else "pending")
        else:
            clock.advance(1)
            assert q.ops.queues.expire_leases("q", 9) == [item.id]
        line = ["failed"] if behind is None else ["newer"]
        if behind is not None and not is_dropped:
            # By default, an expired lease returns the item to its old place.
            is_first = position == "front" or (position is None and way == "lease")
            line = ["failed", "newer"] if is_first else ["newer", "failed"]
        assert waiting(q) == line
        after = q.counts()
        assert after.dropped - before.dropped == is_dropped
        assert after.errors - before.errors == 1

    def test_an_item_without_attempts_left_dies(self, q: Queue) -> None:
        """Newer content does not matter: dead letters are kept."""
        q.push(of(1, updateable=True, overrides={"max_attempts": 1, "retry_position": "front"}))
        item = q.claim_one()
        q.push(of(2))
        assert q.settle(item, "reject").state == "dead"

    def test_only_failures_are_dropped(self, q: Queue) -> None:
        """Released items, rescheduled items and items with a subject are kept."""
        front = {"retry_position": "front", **UPDATEABLE}
        for kind in ("release", "reschedule"):
            q.push(of(kind, overrides=front))
            item = q.claim_one()
            q.push(of("newer"))
            assert q.settle(item, kind).state == "pending"
            q.claim_all()
        q.push(of("s", subject="s", overrides=front))
        item = q.claim_one()
        q.push(of("newer"))
        assert q.settle(item, "reject").state == "pending"

    def test_several_failures_in_one_call(self, q: Queue) -> None:
        """The later ones find the earlier ones in line."""
        q.push(of(1), of(2, updateable=True))
        one, two = q.claim(2)
        q.push(of(3))
        three = q.claim_one()
        answers = q.ops.queues.settle(
            "q", [outcome_of(item, "reject") for item in (one, two, three)]
        )
        # An item that may be updated is the last in line when the third item returns.
        assert [answer.state for answer in answers] == ["pending", "pending", "dropped"]
        assert waiting(q) == [1, 2]

    def test_dropped_content_goes_to_a_topic(self, q: Queue, hr: Any) -> None:
        """Like all content that is replaced."""
        q.update(keep_superseded="old")
        q.push(of(1, overrides={"retry_position": "front", **UPDATEABLE}))
        item = q.claim_one()
        q.push(of(2))
        q.settle(item, "reject")
        assert [record.body["payload"] for record in hr.range("old")] == [1]
