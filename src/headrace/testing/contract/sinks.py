"""Staging and publishing: many write, one makes it appear, once."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from headrace.contract.sinks import Fence, Publication, Published, Staged, StagedCount
from headrace.contract.values import Part, Span
from headrace.errors import ClaimLost, SinkRewound, SinkTaken, StageLost, UnknownSink, UnknownTopic
from headrace.model.items import Document
from headrace.model.tokens import claim_token
from headrace.testing.clocks import FakeClock
from headrace.testing.contract.base import Connect, Contract, bodies, fill, seqs
from headrace.testing.contract.queue_base import Desk

DAY = 24 * 3600


def numbered(topic: str, *numbers: int) -> Part:
    """A row of numbered records."""
    lines = [msgspec.json.encode({"n": n}).decode() for n in numbers]
    return Part(topic, len(lines), "\n".join(lines))


def documents(queue: str, *subjects: str, payload: str = "{}") -> Part:
    """A row of documents for a queue."""
    lines = [
        msgspec.json.encode(Document(payload=payload, subject=subject)).decode()
        for subject in subjects
    ]
    return Part(f"queue/{queue}", len(lines), "\n".join(lines))


def counted(token: str, *parts: Part) -> Staged:
    """What a task says that has staged these rows."""
    counts: dict[str, StagedCount] = {}
    for part in parts:
        before = counts.get(part.topic, StagedCount(part.topic, 0, 0))
        counts[part.topic] = StagedCount(part.topic, before.rows + 1, before.records + part.count)
    return Staged(token, tuple(counts.values()))


def fence(batch: int, query: str = "a", sink: str = "s", **more: Any) -> Fence:
    return Fence(sink=sink, query=query, batch=batch, **more)


class SinkContract(Contract):
    """What was staged is seen by nobody until it is published, and then by all, once."""

    @pytest.fixture
    def desk(self, hr: Any) -> Desk:
        return Desk(hr)

    def _stage(self, desk: Desk, *parts: Part) -> Staged:
        token = claim_token()
        for part in parts:
            desk.stage(token, [part])
        return counted(token, *parts)

    def _publish(self, desk: Desk, *stages: Staged, **more: Any) -> Published:
        published: Published = desk.publish(Publication(stages=stages, **more))
        return published

    def test_nobody_sees_what_is_staged(self, hr: Any, desk: Desk) -> None:
        """No range, no length, no time, no proc, no list of topics."""
        fill(hr, 3)
        proc = hr.proc("p", topic="t")
        self._stage(desk, numbered("t", 10, 11), numbered("new", 1))
        assert seqs(hr.range("t")) == [0, 1, 2]
        assert seqs(hr.revrange("t")) == [2, 1, 0]
        assert hr.length("t") == 3
        assert [info.name for info in hr.topics()] == ["t"]
        with pytest.raises(UnknownTopic):
            hr.range("new")
        assert seqs(proc.claim(count=9)) == [0, 1, 2]

    def test_a_commit_passes_what_is_staged(self, hr: Any, desk: Desk) -> None:
        """Numbers are given when it is published, behind all that came meanwhile."""
        staged = self._stage(desk, numbered("t", 10, 11))
        fill(hr, 2)
        published = self._publish(desk, staged, key="k")
        assert published.spans == (Span("t", 2, 2),)
        fill(hr, 1)
        assert [body["n"] for body in bodies(hr.range("t"))] == [0, 1, 10, 11, 0]
        assert seqs(hr.range("t")) == [0, 1, 2, 3, 4]

    def test_a_transaction_leaves_alone_what_is_staged(self, hr: Any, desk: Desk) -> None:
        """Where numbers are given at COMMIT, they are given to its own records only."""
        staged = self._stage(desk, numbered("t", 10))
        with hr.transaction() as tx:
            tx.commit("t", {"n": 0})
        assert bodies(hr.range("t")) == [{"n": 0}]
        self._publish(desk, staged, key="k")
        assert bodies(hr.range("t")) == [{"n": 0}, {"n": 10}]

    def test_records_stand_in_the_order_of_the_stages(self, hr: Any, desk: Desk) -> None:
        """Whichever of them was staged first; within a stage, in the order of staging."""
        late, early = claim_token(), claim_token()
        desk.stage(late, [numbered("t", 3)])
        desk.stage(early, [numbered("t", 1), numbered("u", 7)])
        desk.stage(late, [numbered("t", 4, 5), numbered("t", 6)])
        desk.stage(early, [numbered("t", 2)])
        stages = (
            counted(early, numbered("t", 1), numbered("t", 2), numbered("u", 7)),
            counted(late, numbered("t", 3), numbered("t", 4, 5), numbered("t", 6)),
        )
        published = self._publish(desk, *stages, key="k")
        assert [body["n"] for body in bodies(hr.range("t"))] == [1, 2, 3, 4, 5, 6]
        assert bodies(hr.range("u")) == [{"n": 7}]
        assert published.spans == (Span("t", 0, 6), Span("u", 0, 1))
        assert published.records == {"t": 6, "u": 1}

    def test_the_timestamp_is_that_of_publishing(
        self, hr: Any, desk: Desk, clock: FakeClock
    ) -> None:
        """One for all topics, and never before what a topic holds."""
        staged = self._stage(desk, numbered("t", 1), numbered("u", 2))
        clock.advance(60)
        fill(hr, 1)
        newest = hr.topic_info("t").last_ts
        clock.advance(-30)
        published = self._publish(desk, staged, key="k")
        assert published.ts == newest
        assert {record.ts for record in [*hr.range("t"), *hr.range("u")]} == {newest}

    def test_headers_travel_along(self, hr: Any, desk: Desk) -> None:
        part = Part("t", 2, '{"n":1}\n{"n":2}', 'null\n{"a":"b"}')
        self._publish(desk, self._stage(desk, part), key="k")
        assert [record.headers for record in hr.range("t")] == [{}, {"a": "b"}]

    def test_procs_and_waiters_get_what_is_published(self, hr: Any, desk: Desk) -> None:
        waiter = desk.store.waiter("t")
        proc = hr.proc("p", topic="t")
        self._publish(desk, self._stage(desk, numbered("t", 1, 2)), key="k")
        assert desk.is_woken(waiter)
        waiter.close()
        assert bodies(proc.claim(count=9)) == [{"n": 1}, {"n": 2}]

    @pytest.mark.parametrize("wrong", ["rows", "records", "target", "more", "token"])
    def test_what_is_missing_is_missed(self, hr: Any, desk: Desk, wrong: str) -> None:
        """Rows and records are counted per stage and target; nothing is written on error."""
        good = self._stage(desk, numbered("t", 1))
        parts = [numbered("t", 2, 3), numbered("t", 4)]
        token = self._stage(desk, *parts).token
        said = {
            "rows": counted(token, numbered("t", 2, 3, 4)),
            "records": counted(token, numbered("t", 2), numbered("t", 4)),
            "target": counted(token, *parts, numbered("u", 5)),
            "more": counted(token),
            "token": counted(claim_token(), *parts),
        }[wrong]
        with pytest.raises(StageLost, match="nothing was published"):
            self._publish(desk, good, said, fence=fence(0))
        assert hr.topics() == []
        with pytest.raises(UnknownSink):
            desk.sink_info("s")
        self._publish(desk, good, counted(token, *parts), fence=fence(0))
        assert hr.length("t") == 4

    def test_a_key_counts_once(self, hr: Any, desk: Desk) -> None:
        """A publication whose answer was lost is simply sent again."""
        staged = self._stage(desk, numbered("t", 1, 2))
        first = self._publish(desk, staged, key="k")
        again = self._publish(desk, staged, key="k")
        assert not first.is_replay
        assert again == msgspec.structs.replace(first, is_replay=True)
        assert hr.length("t") == 2

    def test_a_batch_is_published_once(self, hr: Any, desk: Desk, clock: FakeClock) -> None:
        """A query that was killed after publishing runs its last batch again, in new tasks."""
        first = self._publish(desk, self._stage(desk, numbered("t", 1, 2)), fence=fence(0))
        clock.advance(1)
        replay = self._stage(desk, numbered("t", 1), numbered("t", 2))
        again = self._publish(desk, replay, fence=fence(0))
        assert again == msgspec.structs.replace(first, is_replay=True)
        self._publish(desk, self._stage(desk, numbered("t", 3)), fence=fence(1))
        assert [body["n"] for body in bodies(hr.range("t"))] == [1, 2, 3]
        info = desk.sink_info("s")
        assert (info.name, info.query, info.batch, info.at) == ("s", "a", 1, clock())
        assert info.published.spans == (Span("t", 2, 1),)

    def test_another_query_is_refused(self, hr: Any, desk: Desk) -> None:
        """A lost checkpoint begins again at batch 0: it must neither skip nor double."""
        self._publish(desk, self._stage(desk, numbered("t", 1)), fence=fence(4))
        other = self._stage(desk, numbered("t", 1))
        for batch in (0, 4, 5):
            with pytest.raises(SinkTaken, match="headrace pipeline reset s") as caught:
                self._publish(desk, other, fence=fence(batch, query="b"))
            assert (caught.value.query, caught.value.batch) == ("a", 4)
        assert hr.length("t") == 1
        self._publish(desk, other, fence=fence(0, query="b", sink="another"))
        assert hr.length("t") == 2

    def test_an_older_batch_is_refused(self, hr: Any, desk: Desk) -> None:
        """A checkpoint that was put back plans its batches anew: to skip them would lose some."""
        self._publish(desk, self._stage(desk, numbered("t", 1)), fence=fence(4))
        with pytest.raises(SinkRewound, match="checkpoint is older"):
            self._publish(desk, self._stage(desk, numbered("t", 2)), fence=fence(3))
        assert hr.length("t") == 1

    def test_a_replay_with_other_numbers_is_refused(self, hr: Any, desk: Desk) -> None:
        """Unless it is told that the first results stand."""
        self._publish(desk, self._stage(desk, numbered("t", 1)), fence=fence(4))
        other = self._stage(desk, numbered("t", 1, 2))
        with pytest.raises(SinkRewound, match="on_replay"):
            self._publish(desk, other, fence=fence(4))
        assert self._publish(desk, other, fence=fence(4, on_replay="skip")).is_replay
        assert hr.length("t") == 1

    def test_an_empty_batch_moves_the_fence(self, hr: Any, desk: Desk) -> None:
        published = self._publish(desk, Staged(claim_token(), ()), fence=fence(0))
        assert (published.spans, published.records) == ((), {})
        assert self._publish(desk, fence=fence(0)).is_replay
        assert hr.topics() == []

    def test_a_reset_sink_takes_another_query(self, hr: Any, desk: Desk) -> None:
        self._publish(desk, self._stage(desk, numbered("t", 1)), fence=fence(4))
        sink = hr.sink("s")
        assert sink.info().batch == 4
        assert [info.name for info in hr.sinks()] == ["s"]
        assert sink.reset().query == "a"
        assert hr.sinks() == []
        for call in (sink.info, sink.reset):
            with pytest.raises(UnknownSink):
                call()
        self._publish(desk, self._stage(desk, numbered("t", 2)), fence=fence(0, query="b"))
        assert hr.length("t") == 2

    def test_documents_are_pushed_with_the_records(self, hr: Any, desk: Desk) -> None:
        """To topics and queues in one transaction, in order, and once."""
        hr.push("q", {}, subject="old")
        staged = self._stage(
            desk, documents("q", "a", "old"), numbered("t", 1), documents("q", "b", "a")
        )
        assert hr.stats("q")[0].total == 1
        published = self._publish(desk, staged, fence=fence(0))
        assert published.records == {"queue/q": 4, "t": 1}
        assert published.skipped == 2
        replay = self._stage(
            desk, documents("q", "a", "old", "b"), numbered("t", 1), documents("q", "a")
        )
        assert self._publish(desk, replay, fence=fence(0)).is_replay
        subjects = [item.subject for item in hr.ref("q").claim(9)]
        assert subjects == ["old", "a", "b"]
        assert hr.length("t") == 1

    def test_documents_can_replace(self, hr: Any, desk: Desk) -> None:
        hr.push("q", {"n": 1}, subject="a")
        staged = self._stage(desk, documents("q", "a", payload='{"n":2}'))
        published = self._publish(desk, staged, key="k", mode="upsert")
        assert published.skipped == 0
        [item] = hr.ref("q").claim(9)
        assert item.payload == {"n": 2}

    def test_missing_documents_are_missed(self, hr: Any, desk: Desk) -> None:
        token = self._stage(desk, documents("q", "a", "b")).token
        with pytest.raises(StageLost):
            self._publish(desk, counted(token, documents("q", "a")), key="k")
        with pytest.raises(StageLost):
            self._publish(desk, counted(token, numbered("t", 1, 2)), key="k")

    def test_ack_and_publish_happen_together(self, hr: Any, desk: Desk) -> None:
        """The proc moves behind its claim, and the records are there, once."""
        fill(hr, 2, "in")
        claim = hr.proc("p", topic="in").claim(2)
        staged = self._stage(desk, numbered("t", 1), documents("q", "a"))
        publication = Publication(stages=(staged,))
        result = desk.ack_publish("p", claim.token, publication)
        assert result.range == f"{claim[0].id}..{claim[1].id}"
        assert result.committed.spans == (Span("t", 0, 1),)
        assert desk.ack_publish("p", claim.token, publication) == result
        with pytest.raises(ClaimLost):
            desk.ack_publish("p", claim.token, Publication(stages=()))
        assert hr.length("t") == 1
        assert len(hr.ref("q").claim(9)) == 1
        assert hr.proc("p").lag().records == 0

    def test_a_lost_claim_publishes_nothing(self, hr: Any, desk: Desk) -> None:
        """And a stage that is not whole acks nothing."""
        fill(hr, 1, "in")
        proc = hr.proc("p", topic="in")
        token = proc.claim().token
        staged = self._stage(desk, numbered("t", 1))
        with pytest.raises(StageLost):
            lost = counted(claim_token(), numbered("t", 1))
            desk.ack_publish("p", token, Publication(stages=(staged, lost)))
        assert proc.lag().records == 1
        proc.reclaim()
        with pytest.raises(ClaimLost):
            desk.ack_publish("p", token, Publication(stages=(staged,)))
        with pytest.raises(UnknownTopic):
            hr.range("t")

    def test_what_is_discarded_cannot_be_published(self, hr: Any, desk: Desk) -> None:
        """But what was published stays."""
        gone = self._stage(desk, numbered("t", 1), documents("q", "a"))
        kept = self._stage(desk, numbered("t", 2))
        self._publish(desk, kept, key="k")
        desk.discard([gone.token, kept.token, claim_token()])
        with pytest.raises(StageLost):
            self._publish(desk, gone, key="l")
        assert hr.length("t") == 1

    def test_what_nobody_published_is_collected(
        self, hr: Any, desk: Desk, clock: FakeClock
    ) -> None:
        """A day after the last row was staged under the token."""
        old = self._stage(desk, numbered("t", 1), documents("q", "a"))
        growing = self._stage(desk, numbered("t", 2))
        published = self._stage(desk, numbered("t", 3))
        self._publish(desk, published, key="k")
        desk.discard([published.token])
        clock.advance(DAY / 2)
        desk.stage(growing.token, [numbered("t", 4)])
        clock.advance(DAY / 2)
        assert hr.maintain(force=True).dropped_stages == 1
        with pytest.raises(StageLost):
            self._publish(desk, old, key="l")
        self._publish(desk, counted(growing.token, numbered("t", 2), numbered("t", 4)), key="m")
        assert [body["n"] for body in bodies(hr.range("t"))] == [3, 2, 4]

    def test_another_client_publishes(self, desk: Desk, connect: Connect, hr: Any) -> None:
        """Who stages and who publishes need share nothing but the store."""
        staged = self._stage(desk, numbered("t", 1))
        self._publish(Desk(connect()), staged, key="k")
        assert hr.length("t") == 1
