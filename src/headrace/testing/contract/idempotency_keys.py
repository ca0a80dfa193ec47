"""Idempotency keys of commits and pushes."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.contract.items import PushConflict, PushWarning
from headrace.contract.values import CommitCall, CommitPart, KeyConflict
from headrace.errors import InvalidOption, KeyReused, UnknownQueue
from headrace.model.query.key_values import KeyValues
from headrace.model.queues.items import BYTES, Document
from headrace.testing.clocks import FakeClock
from headrace.testing.contract.base import Connect, bodies
from headrace.testing.contract.queue_base import (
    Queue,
    QueueContract,
    StoreOps,
    doc,
    outcome_of,
    payloads,
)

DAY = 24 * 3600
CHANNELS = [KeyValues.of({"n": n}).form for n in range(3)]
SHAPES: dict[str, tuple[Document, ...]] = {
    "one": (doc(1),),
    "several": (doc(1), doc(2), doc(3)),
    "bytes": (Document(payload="", format=BYTES),),
    "subject": (doc(1, subject="s"),),
    "unlike each other": (
        doc(1, subject="s\u0085", headers={"a": "b"}),
        doc(2, delay=5000),
        doc(3, priority=-2, overrides={"max_attempts": 2}),
        doc(4),
    ),
    "channel": (doc(1, key_values=CHANNELS[1]),),
    "channels": tuple(doc(n, key_values=CHANNELS[n % 3]) for n in range(7)),
}


def commit_call(topic: str, *numbers: int, **call: Any) -> CommitCall:
    """A call that commits each number by a part of its own."""
    return CommitCall(
        parts=tuple(CommitPart(topic, 1, f'{{"n":{number}}}') for number in numbers), **call
    )


class IdempotencyKeyContract(QueueContract):
    """A commit or a push with a key is applied once."""

    def test_the_same_key_and_content_returns_the_first_ids(
        self, hr: Any, clock: FakeClock
    ) -> None:
        first = hr.commit("t", {"n": 1}, key="k")
        clock.advance(5)
        assert hr.commit("t", {"n": 1}, key="k") == first
        assert hr.topic("t").length() == 1

    def test_a_key_applies_to_lists_and_to_other_clients(self, connect: Connect) -> None:
        entries = [("a", {"n": 1}), ("b", {"n": 2}), ("a", {"n": 3})]
        ids = connect().commit(entries, key="k")
        other = connect()
        assert other.commit(entries, key="k") == ids
        assert (other.topic("a").length(), other.topic("b").length()) == (2, 1)

    def test_other_content_is_refused_and_writes_nothing(self, hr: Any) -> None:
        hr.commit("t", {"n": 1}, key="k")
        for commit in (
            lambda: hr.commit("t", {"n": 2}, key="k"),
            lambda: hr.commit("u", {"n": 1}, key="k"),
            lambda: hr.commit("t", {"n": 1}, key="k", headers={"a": "b"}),
            lambda: hr.commit_many("t", [{"n": 1}, {"n": 1}], key="k"),
        ):
            with pytest.raises(KeyReused) as caught:
                commit()
            assert caught.value.key == "k"
        assert [info.name for info in hr.topics.list()] == ["t"]
        assert hr.topic("t").length() == 1

    def test_different_keys_are_different_commits(self, hr: Any) -> None:
        assert hr.commit("t", {}, key="a") != hr.commit("t", {}, key="b")

    def test_a_key_expires_after_a_day(self, hr: Any, clock: FakeClock) -> None:
        hr.commit("t", {"n": 1}, key="k")
        clock.advance(DAY - 0.001)
        hr.commit("t", {"n": 1}, key="k")
        assert hr.topic("t").length() == 1
        clock.advance(0.001)
        hr.commit("t", {"n": 2}, key="k")
        assert hr.topic("t").length() == 2

    def test_a_refused_commit_does_not_use_its_key(self, hr: Any) -> None:
        with pytest.raises(Exception, match="body"):
            hr.commit("t", None, key="k")
        hr.commit("t", {"n": 1}, key="k")
        assert hr.topic("t").length() == 1

    @pytest.mark.parametrize(
        "key", ["", 5, "x" * 501, "a\0b", "\ud800"], ids=lambda key: repr(key)[:10]
    )
    def test_an_invalid_key_is_refused(self, hr: Any, key: Any) -> None:
        with pytest.raises(InvalidOption) as caught:
            hr.commit("t", {}, key=key)
        assert caught.value.option == "key"
        assert hr.topics.list() == []

    def test_commits_of_one_operation_count_their_keys_separately(
        self, hr: Any, ops: StoreOps
    ) -> None:
        """Some keys are new, some were used with the same content and some with other content, and
        some calls have none. Each call gets its own answer."""
        [first] = ops.topics.commit([commit_call("t", 1, 2, key="old", digest="d")])
        calls = [
            commit_call("t", 3),
            commit_call("t", 1, 2, key="old", digest="d"),
            commit_call("t", 4, 5, key="new", digest="e"),
            commit_call("t", 9, key="old", digest="f"),
            commit_call("t", 6, 7),
            commit_call("t", 8, key="newer", digest="g"),
            commit_call("t", 4, 5, key="new", digest="e"),
        ]
        answers = ops.topics.commit(calls)
        assert (answers[1], answers[3]) == (first, KeyConflict("old"))
        assert answers[2] == answers[6]
        records = hr.range("t")
        assert [body["n"] for body in bodies(records)] == [1, 2, 3, 4, 5, 6, 7, 8]
        written = [id for n in (0, 2, 4, 5) for id in answers[n].ids()]
        assert written == [record.id for record in records[2:]]
        keyed = [calls[n] for n in (5, 1, 2)]
        assert ops.topics.commit(keyed) == [answers[n] for n in (5, 1, 2)]
        assert hr.topic("t").length() == 8

    def test_a_large_commit_with_a_key_is_applied_once(self, hr: Any) -> None:
        """However many rows a driver makes of it."""
        records = [{"text": "x" * 50_000, "n": n} for n in range(7)]
        ids = hr.commit_many("t", records, key="k")
        assert hr.commit_many("t", records, key="k") == ids
        assert [record.id for record in hr.range("t")] == ids

    def test_an_expired_key_beside_one_that_is_in_use(
        self, ops: StoreOps, clock: FakeClock
    ) -> None:
        """Each counts by its own time."""
        short = commit_call("t", 1, key="short", digest="d", key_ttl_ms=1000)
        long = commit_call("t", 2, key="long", digest="d", key_ttl_ms=2000)
        first, kept = ops.topics.commit([short, long])
        clock.advance(1)
        again, same = ops.topics.commit([short, long])
        assert same == kept
        assert again.ids() != first.ids()
        clock.advance(0.999)
        assert ops.topics.commit([long, short]) == [kept, again]

    def test_a_push_with_a_key_is_applied_once(self, q: Queue, clock: FakeClock) -> None:
        """A repeated push writes nothing and returns the first result, whatever happened to the
        items meanwhile."""
        q.push(doc(1, subject="s"))
        documents = (doc(2), doc(3, subject="s"))
        first = q.push(*documents, key="k", digest="d")
        assert first.notes == (PushWarning(1, "skipped", "exists"),)
        q.end("complete")
        clock.advance(3600)
        assert q.push(*documents, key="k", digest="d") == first
        assert q.counts().entered == 2

    def test_a_key_with_other_content_is_a_conflict(self, ops: StoreOps, q: Queue) -> None:
        """Nothing of that call is written, not even its queue. Other calls are not affected."""
        q.push(1, key="k", digest="d")
        r, s = Queue(ops, "r"), Queue(ops, "s")
        conflict, fine = ops.queues.push([r.call(2, key="k", digest="e"), s.call(3)])
        assert conflict == PushConflict("k")
        assert payloads([s.item(fine.ids[0])]) == [3]
        with pytest.raises(UnknownQueue):
            ops.queues.info("r")

    def test_a_key_twice_in_one_operation_counts_once(self, ops: StoreOps, q: Queue) -> None:
        """The later call finds the key of the earlier."""
        first, again, conflict = ops.queues.push(
            [
                q.call(1, key="k", digest="d"),
                q.call(1, key="k", digest="d"),
                q.call(2, key="k", digest="e"),
            ]
        )
        assert first == again
        assert conflict == PushConflict("k")
        assert q.claim_all() == [1]

    def test_a_key_expires(self, q: Queue, clock: FakeClock) -> None:
        """Exactly ``key_ttl_ms`` after its use."""
        first = q.push(1, key="k", digest="d", key_ttl_ms=5000)
        clock.advance(4.999)
        assert q.push(1, key="k", digest="d", key_ttl_ms=5000) == first
        clock.advance(0.001)
        assert q.push(2, key="k", digest="e").ids != first.ids
        assert q.claim_all() == [1, 2]

    def test_keys_of_pushes_and_of_commits_are_independent(self, hr: Any, q: Queue) -> None:
        """The same key may be used for both."""
        hr.commit("t", {"n": 1}, key="k")
        q.push(1, key="k", digest="d")
        hr.commit("u", {"n": 2}, key="l")
        q.push(2, key="l", digest="d")
        assert q.claim_all() == [1, 2]
        assert (hr.topic("t").length(), hr.topic("u").length()) == (1, 1)

    @pytest.mark.parametrize("shape", SHAPES)
    def test_a_key_covers_every_kind_of_document(self, q: Queue, shape: str) -> None:
        """The repeat returns the first ids, and the items are those of a push without a key."""
        q.push(doc("other", key_values=CHANNELS[0]))
        documents = SHAPES[shape]
        first = q.push(*documents, key="k", digest="d")
        assert len(set(first.ids)) == len(documents)
        items = [q.item(id) for id in first.ids]
        assert [item.payload for item in items] == [one.payload for one in documents]
        assert [item.key_values for item in items] == [one.key_values for one in documents]
        assert [item.subject for item in items] == [one.subject for one in documents]
        assert q.push(*documents, key="k", digest="d") == first
        assert q.counts().entered == 1 + len(documents)

    def test_a_key_covers_many_documents(self, ops: StoreOps, q: Queue) -> None:
        """More than a driver's statement has results for."""
        q.create()
        first = q.push(*range(1001), key="k", digest="d")
        assert q.push(*range(1001), key="k", digest="d") == first
        items = q.claim(1001)
        assert [item.id for item in items] == list(first.ids)
        ops.queues.settle("q", [outcome_of(item, "complete") for item in items])

    def test_pushes_of_one_operation_count_their_keys_separately(
        self, ops: StoreOps, q: Queue
    ) -> None:
        """Some keys are new, some were used with the same content and some with other content, and
        some calls have none. Each call gets its own answer."""
        first = q.push(1, 2, key="old", digest="d")
        calls = [
            q.call(3),
            q.call(1, 2, key="old", digest="d"),
            q.call(4, doc(5, subject="s"), key="new", digest="e"),
            q.call(9, key="old", digest="f"),
            q.call(6, 7),
            q.call(8, key="newer", digest="g"),
            q.call(4, doc(5, subject="s"), key="new", digest="e"),
        ]
        answers = ops.queues.push(calls)
        assert (answers[1], answers[3]) == (first, PushConflict("old"))
        assert answers[2] == answers[6]
        ids = [id for n in (0, 2, 4, 5) for id in answers[n].ids]
        assert payloads(map(q.item, ids)) == [3, 4, 5, 6, 7, 8]
        assert [answers[n].notes for n in (0, 2, 4, 5)] == [()] * 4
        keyed = [calls[n] for n in (5, 1, 2)]
        assert ops.queues.push(keyed) == [answers[n] for n in (5, 1, 2)]
        assert q.claim_all() == [1, 2, 3, 4, 5, 6, 7, 8]

    def test_a_subject_twice_under_one_key(self, q: Queue) -> None:
        """The second document is skipped, also in the answer to a repeat."""
        documents = (doc(1, subject="s"), doc(2, subject="s"))
        first = q.push(*documents, key="k", digest="d")
        assert first.notes == (PushWarning(1, "skipped", "exists"),)
        assert q.push(*documents, key="k", digest="d") == first
        assert q.claim_all() == [1]

    def test_a_key_is_free_after_a_push_by_old_settings(self, connect: Connect, q: Queue) -> None:
        """A client that has not heard of a change pushes by the new settings, once."""
        other = Queue(StoreOps(connect()))
        other.push(0)
        q.update(discipline="lifo")
        first = other.push(1, key="k", digest="d")
        q.update(metrics=False)
        second = other.push(2, key="l", digest="d")
        assert q.push(1, key="k", digest="d") == first
        assert q.push(2, key="l", digest="d") == second
        assert q.claim_all() == [2, 1, 0]
        q.update(metrics=True)

    def test_a_key_beside_an_item_that_newer_ones_replace(self, q: Queue) -> None:
        """A push to the channel of an updateable item keeps its key and its answer."""
        q.push(doc(1, key_values=CHANNELS[0], overrides={"updateable": True}))
        documents = (doc(2, key_values=CHANNELS[0]), doc(3, key_values=CHANNELS[0]))
        first = q.push(*documents, key="k", digest="d")
        assert first.notes == (PushWarning(0, "updated"),)
        assert q.push(*documents, key="k", digest="d") == first
        assert q.claim_all() == [2, 3]
