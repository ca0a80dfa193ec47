"""Topics in SQL."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from headrace.contract.op import Op, Steps
from headrace.contract.shared import check_seq, new_calls, page
from headrace.contract.values import (
    CommitCall,
    CommitOutcome,
    Committed,
    Page,
    Part,
    RangeQuery,
    Span,
)
from headrace.drivers.relational.keys import Keys
from headrace.drivers.relational.sql import Evidence, Row, Sql
from headrace.model.position import Crossing, Position, highest, is_beyond, lowest
from headrace.model.record import Batch, TopicInfo
from headrace.model.refusals import unknown_topic
from headrace.model.tokens import batch_id

ENTIRE = 2**31


class Head(NamedTuple):
    """A topic's row, locked or just read."""

    id: int
    name: str
    first_seq: int
    next_seq: int
    last_ts: int
    now: int


class Topics:
    """The topic operations over a dialect's statements."""

    sql: Sql
    keys: Keys

    def clock(self) -> int | None:
        """The time for tests; None lets the database say."""
        raise NotImplementedError

    def commit(self, calls: Sequence[CommitCall]) -> Op[list[CommitOutcome]]:
        # With a key on every call a second run answers with the first one's outcome.
        has_keys = all(call.key is not None for call in calls)
        return Op("commit", lambda: self._commit(calls), repeatable=has_keys)

    def _commit(self, calls: Sequence[CommitCall]) -> Steps[list[CommitOutcome]]:
        settled = yield from self.keys.take(calls, self.clock())
        fresh = new_calls(calls, settled)
        written = yield from self.append([part for call in fresh for part in call.parts])
        outcomes: dict[int, CommitOutcome] = {}
        taken = 0
        for call in fresh:
            spans = written.spans[taken : taken + len(call.parts)]
            taken += len(spans)
            outcomes[id(call)] = (
                Committed(written.ts, spans, written.ahead_ms) if spans else Committed(0, ())
            )
        yield from self.keys.settle(fresh, [outcomes[id(call)] for call in fresh])
        return self.keys.answer(calls, outcomes, settled)

    def append(self, parts: Sequence[Part]) -> Steps[Committed]:
        """Number the parts and store them; the heads stay locked until the transaction ends."""
        if not parts:
            return Committed(0, ())
        heads = yield from self._lock_heads(sorted({part.topic for part in parts}))
        now = max(head.now for head in heads.values())
        ts = max(now, *(head.last_ts for head in heads.values()))
        next_seq = {name: head.next_seq for name, head in heads.items()}
        spans, statements = [], []
        for part in parts:
            seq = next_seq[part.topic]
            next_seq[part.topic] += part.count
            spans.append(Span(part.topic, seq, part.count))
            statements.append(
                self.sql.add_batch(
                    id=batch_id(),
                    topic=heads[part.topic].id,
                    base_seq=seq,
                    count=part.count,
                    ts=ts,
                    body=part.body,
                    headers=part.headers,
                )
            )
        first = statements[0].parameters
        proof = self.sql.find_batch(
            topic=first["topic"], base_seq=first["base_seq"], id=first["id"]
        )
        moves = [
            self.sql.move_head(topic=head.id, next_seq=next_seq[name], ts=ts)
            for name, head in heads.items()
        ]
        yield Evidence(proof)
        yield (*statements, *moves)
        return Committed(ts, tuple(spans), ts - now)

    def _lock_heads(self, names: list[str]) -> Steps[dict[str, Head]]:
        rows = yield self.sql.lock_heads(names=names, now=self.clock())
        if len(rows) < len(names):
            known = {row["name"] for row in rows}
            yield self.sql.add_topics(names=[name for name in names if name not in known])
            rows = yield self.sql.lock_heads(names=names, now=self.clock())
        return {row["name"]: _head(row) for row in rows}

    def read(self, query: RangeQuery) -> Op[Page]:
        return Op("read", lambda: self._read(query), writes=False)

    def _read(self, query: RangeQuery) -> Steps[Page]:
        low = lowest(query.start, query.exclusive, (yield from self._cut(query.topic, query.start)))
        high = highest(query.end, query.exclusive, (yield from self._cut(query.topic, query.end)))
        head, batches = yield from self.rows(
            query.topic,
            low,
            high,
            span=query.limit,
            max_bytes=query.max_bytes,
            descending=query.descending,
        )
        return page(head, low, high, batches, query)

    def rows(
        self,
        topic: str,
        low: int,
        high: int,
        *,
        span: int,
        max_bytes: int,
        descending: bool = False,
    ) -> Steps[tuple[TopicInfo, list[Batch]]]:
        """The head and the batches that cover ``low..high``; ``UnknownTopic`` without records."""
        read = self.sql.read_down if descending else self.sql.read_up
        known = self._last_rows.get(topic)
        rows = yield read(
            topic=topic,
            low=low,
            high=high,
            span=min(span, ENTIRE),
            max_bytes=max_bytes,
            known=known[0] if known else "",
        )
        if not rows:
            raise unknown_topic(topic)
        head = rows[0]
        batches = []
        for row in rows:
            if row["base_seq"] is None:
                break
            body = row["body"]
            if body is None:
                assert known is not None
                body = known[1]
            batches.append(Batch(row["base_seq"], row["count"], row["ts"], body, row["headers"]))
        if batches:
            self._remember(topic, str(rows[len(batches) - 1]["id"]), batches[-1].body)
        return TopicInfo(topic, head["first_seq"], head["next_seq"], head["last_ts"]), batches

    # Small claims read the same large row again and again: its text is kept, the last row
    # of each topic, and not sent again. Exact, because a row with an id never changes.
    _last_rows: dict[str, tuple[str, str]]

    def _remember(self, topic: str, row_id: str, body: str) -> None:
        if len(self._last_rows) > 64:
            self._last_rows.clear()
        self._last_rows[topic] = (row_id, body)

    def _cut(self, topic: str, end: Position) -> Steps[Crossing | None]:
        if end.ts is None:
            return None
        rows = yield self.sql.time_cut(topic=topic, ts=end.ts)
        if not rows:
            raise unknown_topic(topic)
        return Crossing(rows[0]["first"], rows[0]["after"])

    def topics(self, prefix: str, after: str, limit: int) -> Op[list[TopicInfo]]:
        def steps() -> Steps[list[TopicInfo]]:
            rows = yield self.sql.list_topics(prefix=prefix, after=after, limit=limit)
            return [
                TopicInfo(row["name"], row["first_seq"], row["next_seq"], row["last_ts"])
                for row in rows
            ]

        return Op("topics", steps, writes=False)

    def topic_info(self, topic: str) -> Op[TopicInfo]:
        def steps() -> Steps[TopicInfo]:
            head = yield from self.head(topic)
            if head is None or head.next_seq == 0:
                raise unknown_topic(topic)
            return TopicInfo(topic, head.first_seq, head.next_seq, head.last_ts)

        return Op("topic_info", steps, writes=False)

    def head(self, topic: str) -> Steps[Head | None]:
        """A topic's row as it is now, if there is one."""
        rows = yield self.sql.head(topic=topic, now=self.clock())
        return _head(rows[0]) if rows else None

    def position_after(self, topic: str, position: Position, head: Head) -> Steps[int | None]:
        """The seq that comes after a position; None while it lies beyond the topic's end."""
        if position.is_seq:
            seq = position.seq or 0
            check_seq(topic, seq, head.first_seq, head.next_seq)
            return seq + 1
        cut = yield from self._cut(topic, position)
        assert cut is not None
        if is_beyond(position, cut, head.next_seq):
            return None
        return lowest(position, True, cut)


def _head(row: Row) -> Head:
    return Head(
        row["id"], row["name"], row["first_seq"], row["next_seq"], row["last_ts"], row["now"]
    )
