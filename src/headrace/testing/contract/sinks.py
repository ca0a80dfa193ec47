"""Staging and publishing: many tasks write, one call makes everything visible, once."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from headrace.contract.sinks import Fence, Publication, Published, Staged, StagedCount
from headrace.contract.values import CommitPart, SeqSpan
from headrace.errors import ClaimLost, SinkRewound, SinkTaken, StageLost, UnknownSink, UnknownTopic
from headrace.model.queues.items import Document
from headrace.model.tokens import claim_token
from headrace.testing.clocks import FakeClock
from headrace.testing.contract.base import Connect, Contract, bodies, fill, needs, seqs
from headrace.testing.contract.queue_base import StoreOps

DAY = 24 * 3600


def numbered(topic: str, *numbers: int) -> CommitPart:
    """A row of numbered records."""
    lines = [msgspec.json.encode({"n": n}).decode() for n in numbers]
    return CommitPart(topic, len(lines), "\n".join(lines))


def documents(queue: str, *subjects: str, payload: str = "{}") -> CommitPart:
    """A row of documents for a queue."""
    lines = [
        msgspec.json.encode(Document(payload=payload, subject=subject)).decode()
        for subject in subjects
    ]
    return CommitPart(f"queue/{queue}", len(lines), "\n".join(lines))


def counted(token: str, *parts: CommitPart) -> Staged:
    """The counts that a task reports for the rows it staged."""
    counts: dict[str, StagedCount] = {}
    for part in parts:
        before = counts.get(part.topic, StagedCount(part.topic, 0, 0))
        counts[part.topic] = StagedCount(part.topic, before.rows + 1, before.records + part.count)
    return Staged(token, tuple(counts.values()))


def fence(batch: int, query: str = "a", sink: str = "s", **more: Any) -> Fence:
    return Fence(sink=sink, query=query, batch=batch, **more)


class SinkContract(Contract):
    """Staged rows are invisible until they are published. Then all of them are visible, once."""

    needed_parts = frozenset({"sinks"})

    @pytest.fixture
    def ops(self, hr: Any) -> StoreOps:
        return StoreOps(hr)

    def _stage(self, ops: StoreOps, *parts: CommitPart) -> Staged:
        token = claim_token()
        for part in parts:
            ops.sinks.stage(token, [part])
        return counted(token, *parts)

    def _publish(self, ops: StoreOps, *stages: Staged, **more: Any) -> Published:
        published: Published = ops.sinks.publish(Publication(stages=stages, **more))
        return published

    def test_staged_rows_are_invisible(self, hr: Any, ops: StoreOps) -> None:
        """To ranges, lengths, times, procs and the list of topics."""
        fill(hr, 3)
        proc = hr.procs.create("p", "t")
        self._stage(ops, numbered("t", 10, 11), numbered("new", 1))
        assert seqs(hr.range("t")) == [0, 1, 2]
        assert seqs(hr.range("t", reverse=True)) == [2, 1, 0]
        assert hr.topic("t").length() == 3
        assert [info.name for info in hr.topics.list()] == ["t"]
        with pytest.raises(UnknownTopic):
            hr.range("new")
        assert seqs(proc.claim(count=9)) == [0, 1, 2]

    def test_a_commit_goes_before_staged_rows(self, hr: Any, ops: StoreOps) -> None:
        """Records are numbered when they are published, behind all records committed meanwhile."""
        staged = self._stage(ops, numbered("t", 10, 11))
        fill(hr, 2)
        published = self._publish(ops, staged, key="k")
        assert published.spans == (SeqSpan("t", 2, 2),)
        fill(hr, 1)
        assert [body["n"] for body in bodies(hr.range("t"))] == [0, 1, 10, 11, 0]
        assert seqs(hr.range("t")) == [0, 1, 2, 3, 4]

    @needs("transactions")
    def test_a_transaction_does_not_number_staged_rows(self, hr: Any, ops: StoreOps) -> None:
        """A store that numbers records at COMMIT numbers those of the transaction only."""
        staged = self._stage(ops, numbered("t", 10))
        with hr.transaction() as tx:
            tx.commit("t", {"n": 0})
        assert bodies(hr.range("t")) == [{"n": 0}]
        self._publish(ops, staged, key="k")
        assert bodies(hr.range("t")) == [{"n": 0}, {"n": 10}]

    def test_records_are_in_the_order_of_the_stages(self, hr: Any, ops: StoreOps) -> None:
        """Whichever was staged first. Within a stage, in the order of staging."""
        late, early = claim_token(), claim_token()
        ops.sinks.stage(late, [numbered("t", 3)])
        ops.sinks.stage(early, [numbered("t", 1), numbered("u", 7)])
        ops.sinks.stage(late, [numbered("t", 4, 5), numbered("t", 6)])
        ops.sinks.stage(early, [numbered("t", 2)])
        stages = (
            counted(early, numbered("t", 1), numbered("t", 2), numbered("u", 7)),
            counted(late, numbered("t", 3), numbered("t", 4, 5), numbered("t", 6)),
        )
        published = self._publish(ops, *stages, key="k")
        assert [body["n"] for body in bodies(hr.range("t"))] == [1, 2, 3, 4, 5, 6]
        assert bodies(hr.range("u")) == [{"n": 7}]
        assert published.spans == (SeqSpan("t", 0, 6), SeqSpan("u", 0, 1))
        assert published.records == {"t": 6, "u": 1}

    def test_the_timestamp_is_that_of_publishing(
        self, hr: Any, ops: StoreOps, clock: FakeClock
    ) -> None:
        """One for all topics, and never before the newest record of a topic."""
        staged = self._stage(ops, numbered("t", 1), numbered("u", 2))
        clock.advance(60)
        fill(hr, 1)
        newest = hr.topic("t").info().last_ts
        clock.advance(-30)
        published = self._publish(ops, staged, key="k")
        assert published.ts == newest
        assert {record.ts for record in [*hr.range("t"), *hr.range("u")]} == {newest}

    def test_headers_are_published(self, hr: Any, ops: StoreOps) -> None:
        part = CommitPart("t", 2, '{"n":1}\n{"n":2}', 'null\n{"a":"b"}')
        self._publish(ops, self._stage(ops, part), key="k")
        assert [record.headers for record in hr.range("t")] == [{}, {"a": "b"}]

    def test_publishing_notifies_procs_and_waiters(self, hr: Any, ops: StoreOps) -> None:
        waiter = ops.store.waiter("t")
        proc = hr.procs.create("p", "t")
        self._publish(ops, self._stage(ops, numbered("t", 1, 2)), key="k")
        assert ops.is_woken(waiter)
        waiter.close()
        assert bodies(proc.claim(count=9)) == [{"n": 1}, {"n": 2}]

    @pytest.mark.parametrize("wrong", ["rows", "records", "target", "more", "token"])
    def test_missing_rows_are_detected(self, hr: Any, ops: StoreOps, wrong: str) -> None:
        """Rows and records are counted per stage and target. Nothing is written on an error."""
        good = self._stage(ops, numbered("t", 1))
        parts = [numbered("t", 2, 3), numbered("t", 4)]
        token = self._stage(ops, *parts).token
        said = {
            "rows": counted(token, numbered("t", 2, 3, 4)),
            "records": counted(token, numbered("t", 2), numbered("t", 4)),
            "target": counted(token, *parts, numbered("u", 5)),
            "more": counted(token),
            "token": counted(claim_token(), *parts),
        }[wrong]
        with pytest.raises(StageLost, match="nothing was published"):
            self._publish(ops, good, said, fence=fence(0))
        assert hr.topics.list() == []
        with pytest.raises(UnknownSink):
            ops.sinks.info("s")
        self._publish(ops, good, counted(token, *parts), fence=fence(0))
        assert hr.topic("t").length() == 4

    def test_a_publication_with_a_key_is_applied_once(self, hr: Any, ops: StoreOps) -> None:
        """A publication whose answer was lost is simply sent again."""
        staged = self._stage(ops, numbered("t", 1, 2))
        first = self._publish(ops, staged, key="k")
        again = self._publish(ops, staged, key="k")
        assert not first.is_replay
        assert again == msgspec.structs.replace(first, is_replay=True)
        assert hr.topic("t").length() == 2

    def test_a_batch_is_published_once(self, hr: Any, ops: StoreOps, clock: FakeClock) -> None:
        """A query killed after publishing runs its last batch again, in new tasks."""
        first = self._publish(ops, self._stage(ops, numbered("t", 1, 2)), fence=fence(0))
        clock.advance(1)
        replay = self._stage(ops, numbered("t", 1), numbered("t", 2))
        again = self._publish(ops, replay, fence=fence(0))
        assert again == msgspec.structs.replace(first, is_replay=True)
        self._publish(ops, self._stage(ops, numbered("t", 3)), fence=fence(1))
        assert [body["n"] for body in bodies(hr.range("t"))] == [1, 2, 3]
        info = ops.sinks.info("s")
        assert (info.name, info.query, info.batch, info.at) == ("s", "a", 1, clock())
        assert info.published.spans == (SeqSpan("t", 2, 1),)

    def test_another_query_is_refused(self, hr: Any, ops: StoreOps) -> None:
        """A lost checkpoint starts again at batch 0. It must neither skip nor duplicate records."""
        self._publish(ops, self._stage(ops, numbered("t", 1)), fence=fence(4))
        other = self._stage(ops, numbered("t", 1))
        for batch in (0, 4, 5):
            with pytest.raises(SinkTaken, match="headrace sink reset s") as caught:
                self._publish(ops, other, fence=fence(batch, query="b"))
            assert (caught.value.query, caught.value.batch) == ("a", 4)
        assert hr.topic("t").length() == 1
        self._publish(ops, other, fence=fence(0, query="b", sink="another"))
        assert hr.topic("t").length() == 2

    def test_an_older_batch_is_refused(self, hr: Any, ops: StoreOps) -> None:
        """A restored checkpoint plans its batches again. Skipping them would lose records."""
        self._publish(ops, self._stage(ops, numbered("t", 1)), fence=fence(4))
        with pytest.raises(SinkRewound, match="checkpoint is older"):
            self._publish(ops, self._stage(ops, numbered("t", 2)), fence=fence(3))
        assert hr.topic("t").length() == 1

    def test_a_replay_with_other_numbers_is_refused(self, hr: Any, ops: StoreOps) -> None:
        """Unless the caller declares that the first results stand."""
        self._publish(ops, self._stage(ops, numbered("t", 1)), fence=fence(4))
        other = self._stage(ops, numbered("t", 1, 2))
        with pytest.raises(SinkRewound, match="on_replay"):
            self._publish(ops, other, fence=fence(4))
        assert self._publish(ops, other, fence=fence(4, on_replay="skip")).is_replay
        assert hr.topic("t").length() == 1

    def test_an_empty_batch_moves_the_fence(self, hr: Any, ops: StoreOps) -> None:
        published = self._publish(ops, Staged(claim_token(), ()), fence=fence(0))
        assert (published.spans, published.records) == ((), {})
        assert self._publish(ops, fence=fence(0)).is_replay
        assert hr.topics.list() == []

    def test_a_reset_sink_accepts_another_query(self, hr: Any, ops: StoreOps) -> None:
        self._publish(ops, self._stage(ops, numbered("t", 1)), fence=fence(4))
        assert hr.sinks.info("s").batch == 4
        assert [info.name for info in hr.sinks.list()] == ["s"]
        assert hr.sinks.reset("s").query == "a"
        assert hr.sinks.list() == []
        for call in (hr.sinks.info, hr.sinks.reset):
            with pytest.raises(UnknownSink):
                call("s")
        self._publish(ops, self._stage(ops, numbered("t", 2)), fence=fence(0, query="b"))
        assert hr.topic("t").length() == 2

    def test_documents_are_pushed_with_the_records(self, hr: Any, ops: StoreOps) -> None:
        """To topics and queues in one transaction, in order, and once."""
        hr.push("q", {}, subject="old")
        staged = self._stage(
            ops, documents("q", "a", "old"), numbered("t", 1), documents("q", "b", "a")
        )
        assert hr.queues.stats("q")[0].total == 1
        published = self._publish(ops, staged, fence=fence(0))
        assert published.records == {"queue/q": 4, "t": 1}
        assert published.skipped == 2
        replay = self._stage(
            ops, documents("q", "a", "old", "b"), numbered("t", 1), documents("q", "a")
        )
        assert self._publish(ops, replay, fence=fence(0)).is_replay
        subjects = [item.subject for item in hr.queues.create("q", exist_ok=True).claim(9)]
        assert subjects == ["old", "a", "b"]
        assert hr.topic("t").length() == 1

    def test_documents_can_replace(self, hr: Any, ops: StoreOps) -> None:
        hr.push("q", {"n": 1}, subject="a")
        staged = self._stage(ops, documents("q", "a", payload='{"n":2}'))
        published = self._publish(ops, staged, key="k", mode="upsert")
        assert published.skipped == 0
        [item] = hr.queues.create("q", exist_ok=True).claim(9)
        assert item.payload == {"n": 2}

    def test_missing_documents_are_detected(self, hr: Any, ops: StoreOps) -> None:
        token = self._stage(ops, documents("q", "a", "b")).token
        with pytest.raises(StageLost):
            self._publish(ops, counted(token, documents("q", "a")), key="k")
        with pytest.raises(StageLost):
            self._publish(ops, counted(token, numbered("t", 1, 2)), key="k")

    def test_ack_and_publish_happen_together(self, hr: Any, ops: StoreOps) -> None:
        """The proc moves behind its claim, and the records exist, once."""
        fill(hr, 2, "in")
        claim = hr.procs.create("p", "in").claim(2)
        staged = self._stage(ops, numbered("t", 1), documents("q", "a"))
        publication = Publication(stages=(staged,))
        result = ops.sinks.ack_publish("p", claim.token, publication)
        assert result.range == f"{claim[0].id}..{claim[1].id}"
        assert result.committed.spans == (SeqSpan("t", 0, 1),)
        assert ops.sinks.ack_publish("p", claim.token, publication) == result
        with pytest.raises(ClaimLost):
            ops.sinks.ack_publish("p", claim.token, Publication(stages=()))
        assert hr.topic("t").length() == 1
        assert len(hr.queues.create("q", exist_ok=True).claim(9)) == 1
        assert hr.proc("p").lag().records == 0

    def test_a_lost_claim_publishes_nothing(self, hr: Any, ops: StoreOps) -> None:
        """An incomplete stage acks nothing."""
        fill(hr, 1, "in")
        proc = hr.procs.create("p", "in")
        token = proc.claim().token
        staged = self._stage(ops, numbered("t", 1))
        with pytest.raises(StageLost):
            lost = counted(claim_token(), numbered("t", 1))
            ops.sinks.ack_publish("p", token, Publication(stages=(staged, lost)))
        assert proc.lag().records == 1
        proc.nack()
        with pytest.raises(ClaimLost):
            ops.sinks.ack_publish("p", token, Publication(stages=(staged,)))
        with pytest.raises(UnknownTopic):
            hr.range("t")

    def test_a_discarded_stage_cannot_be_published(self, hr: Any, ops: StoreOps) -> None:
        """Rows that were published stay."""
        gone = self._stage(ops, numbered("t", 1), documents("q", "a"))
        kept = self._stage(ops, numbered("t", 2))
        self._publish(ops, kept, key="k")
        ops.sinks.discard([gone.token, kept.token, claim_token()])
        with pytest.raises(StageLost):
            self._publish(ops, gone, key="l")
        assert hr.topic("t").length() == 1

    @needs("admin")
    def test_unpublished_rows_are_deleted(self, hr: Any, ops: StoreOps, clock: FakeClock) -> None:
        """A day after the last row was staged under the token."""
        old = self._stage(ops, numbered("t", 1), documents("q", "a"))
        growing = self._stage(ops, numbered("t", 2))
        published = self._stage(ops, numbered("t", 3))
        self._publish(ops, published, key="k")
        ops.sinks.discard([published.token])
        clock.advance(DAY / 2)
        ops.sinks.stage(growing.token, [numbered("t", 4)])
        clock.advance(DAY / 2)
        assert hr.admin.maintain(force=True).dropped_stages == 1
        with pytest.raises(StageLost):
            self._publish(ops, old, key="l")
        self._publish(ops, counted(growing.token, numbered("t", 2), numbered("t", 4)), key="m")
        assert [body["n"] for body in bodies(hr.range("t"))] == [3, 2, 4]

    def test_another_client_can_publish(self, ops: StoreOps, connect: Connect, hr: Any) -> None:
        """The client that stages and the client that publishes share only the store."""
        staged = self._stage(ops, numbered("t", 1))
        self._publish(StoreOps(connect()), staged, key="k")
        assert hr.topic("t").length() == 1
