"""Topics in SQL."""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import replace

from headrace.contract.commit_rules import (
    check_seq,
    merged,
    new_calls,
    page,
    shares,
    spans,
    stored_page,
)
from headrace.contract.op import Op, Steps
from headrace.contract.values import (
    CommitCall,
    CommitOutcome,
    CommitPart,
    Committed,
    Page,
    Promised,
    PromisedRow,
    RangeQuery,
    StoredPage,
)
from headrace.drivers.sql_common.statements import NoReply, Notify, Row, Separate
from headrace.model.checks import seconds_of
from headrace.model.error_messages import unknown_topic
from headrace.model.tokens import batch_id
from headrace.model.topics.positions import Crossing, Position, highest, is_beyond, lowest
from headrace.model.topics.records import Batch, StoredBatch, TopicInfo

if TYPE_CHECKING:
    from headrace.drivers.sql_common.context import SqlContext

ENTIRE = 2**31


class Head(NamedTuple):
    """A topic's row, locked or just read."""

    id: int
    name: str
    first_seq: int
    next_seq: int
    last_ts: int
    min_age: int | None
    max_age: int | None
    now: int

    @property
    def info(self) -> TopicInfo:
        return TopicInfo(
            self.name,
            self.first_seq,
            self.next_seq,
            self.last_ts,
            seconds_of(self.min_age),
            seconds_of(self.max_age),
        )


class SqlTopics:
    """The topic operations over a dialect's statements."""

    def __init__(self, context: SqlContext) -> None:
        self._context = context
        self.sql = context.sql
        self.clock = context.clock

    def commit(self, calls: Sequence[CommitCall]) -> Op[builtins.list[CommitOutcome]]:
        fast = self._context.fastpath.commit(calls)
        # With a key on every call a second run returns the outcome of the first.
        is_repeatable = self._context.traits.repeats_commits
        if fast is None:
            is_repeatable = all(call.key is not None for call in calls)
        return Op("topics.commit", lambda: self._commit(calls), repeatable=is_repeatable, fast=fast)

    def _commit(self, calls: Sequence[CommitCall]) -> Steps[builtins.list[CommitOutcome]]:
        settled = yield from self._context.commit_keys.reserve(calls, self.clock())
        fresh = new_calls(calls, settled)
        written = yield from self.append([part for call in fresh for part in call.parts])
        outcomes = {
            id(call): mine for call, mine in zip(fresh, shares(fresh, written), strict=True)
        }
        yield from self._context.commit_keys.settle(fresh, list(outcomes.values()))
        for key, (digest, before) in settled.items():
            settled[key] = (digest, (yield from self.kept(before)))
        return self._context.commit_keys.answer(calls, outcomes, settled)

    def append(self, parts: Sequence[CommitPart]) -> Steps[Committed | Promised]:
        """Store the parts at the end of their topics."""
        if not parts:
            return Committed(0, ())
        yield Notify(frozenset(part.topic for part in parts))
        if self._context.traits.numbers_at_commit:
            return (yield from self._append_late(parts))
        return (yield from self._append_now(parts))

    def _append_late(self, parts: Sequence[CommitPart]) -> Steps[Promised]:
        """Store the parts without numbers; a trigger numbers them at COMMIT."""
        names = sorted({part.topic for part in parts})
        found = yield self.sql.find_topics(names=names, now=self.clock())
        if len(found) < len(names):
            # Separate, or other commits to the same new topic would wait for this transaction.
            found = yield Separate(
                (
                    self.sql.add_topics(names=names),
                    self.sql.find_topics(names=names, now=self.clock()),
                )
            )
        ids = {row["name"]: row["id"] for row in found}
        firsts: dict[str, PromisedRow] = {}
        statements = []
        for row in merged(parts):
            row_id = batch_id()
            firsts.setdefault(row.topic, PromisedRow(row.topic, row_id))
            statements.append(
                self.sql.add_unnumbered(
                    id=row_id,
                    topic=ids[row.topic],
                    count=row.count,
                    body=row.body,
                    headers=row.headers,
                )
            )
        yield (self.sql.set_clock(now=self.clock()), *statements)
        counts = tuple((part.topic, part.count) for part in parts)
        return Promised(tuple(firsts.values()), counts, min(row["now"] for row in found))

    def resolve(self, promised: Promised) -> Op[Committed | None]:
        return Op("topics.resolve", lambda: self._resolve(promised), writes=False)

    def _resolve(self, promised: Promised) -> Steps[Committed | None]:
        next_seq: dict[str, int] = {}
        ts = 0
        for row in promised.rows:
            found = yield self.sql.find_numbered(topic=row.topic, since=promised.since, id=row.id)
            if not found:
                return None
            next_seq[row.topic], ts = found[0]["base_seq"], found[0]["ts"]
        parts = [CommitPart(topic, count, "") for topic, count in promised.counts]
        return Committed(ts, spans(parts, next_seq))

    def kept(self, outcome: Committed | Promised) -> Steps[Committed | Promised]:
        """The outcome of an earlier transaction, whose ``Promised`` records are numbered by now.

        Inside a transaction it may be this one's own ``Promised``, and stays as it is.
        """
        if isinstance(outcome, Committed) or self._context.traits.numbers_at_commit:
            return outcome
        committed = yield from self._resolve(outcome)
        assert committed is not None, "seen, so it is committed"
        return committed

    def _append_now(self, parts: Sequence[CommitPart]) -> Steps[Committed]:
        """Number the parts and store them; the heads stay locked until the transaction ends."""
        heads = yield from self.lock_heads(sorted({part.topic for part in parts}))
        now = max(head.now for head in heads.values())
        ts = max(now, *(head.last_ts for head in heads.values()))
        next_seq = {name: head.next_seq for name, head in heads.items()}
        rows = merged(parts)
        places = spans(rows, next_seq)
        statements = [
            self.sql.add_batch(
                id=batch_id(),
                topic=heads[row.topic].id,
                base_seq=place.first_seq,
                count=row.count,
                ts=ts,
                body=row.body,
                headers=row.headers,
            )
            for row, place in zip(rows, places, strict=True)
        ]
        ends = {place.topic: place.first_seq + place.count for place in places}
        moves = [
            self.sql.move_head(topic=head.id, next_seq=ends[name], ts=ts)
            for name, head in heads.items()
        ]
        yield NoReply((*statements, *moves))
        return Committed(ts, spans(parts, next_seq), ts - now)

    def lock_heads(self, names: builtins.list[str]) -> Steps[dict[str, Head]]:
        rows = yield self.sql.lock_heads(names=names, now=self.clock())
        if len(rows) < len(names):
            known = {row["name"] for row in rows}
            yield self.sql.add_topics(names=[name for name in names if name not in known])
            rows = yield self.sql.lock_heads(names=names, now=self.clock())
        return {row["name"]: _head(row) for row in rows}

    def read(self, query: RangeQuery) -> Op[Page]:
        return Op("topics.read", lambda: self._read(query), writes=False)

    def _read(self, query: RangeQuery) -> Steps[Page]:
        low = lowest(query.start, query.exclusive, (yield from self.cut(query.topic, query.start)))
        high = highest(query.end, query.exclusive, (yield from self.cut(query.topic, query.end)))
        head, batches = yield from self.rows(
            query.topic,
            low,
            high,
            span=query.limit,
            max_bytes=query.max_bytes,
            descending=query.descending,
        )
        return page(head, low, high, batches, query)

    def read_stored(
        self, topic: str, low: int, high: int, limit: int, max_bytes: int
    ) -> Op[StoredPage]:
        def steps() -> Steps[StoredPage]:
            reading = self.sql.read_up(
                topic=topic,
                low=low,
                high=high,
                span=min(limit, ENTIRE),
                max_bytes=max_bytes,
                known="",
            )
            rows = yield replace(reading, as_stored=True)
            if not rows:
                raise unknown_topic(topic)
            batches = [_stored(row) for row in rows if row["base_seq"] is not None]
            return stored_page(_info(topic, rows[0]), low, high, limit, batches)

        return Op("topics.read_stored", steps, writes=False)

    def rows(
        self,
        topic: str,
        low: int,
        high: int,
        *,
        span: int,
        max_bytes: int,
        descending: bool = False,
    ) -> Steps[tuple[TopicInfo, builtins.list[Batch]]]:
        """The head and the batches that cover ``low..high``; ``UnknownTopic`` without records."""
        read = self.sql.read_down if descending else self.sql.read_up
        known = self.known_row(topic)
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
            self.remember_row(topic, str(rows[len(batches) - 1]["id"]), batches[-1].body)
        return _info(topic, head), batches

    # Small claims read the same large row again and again. So the text of the last row that each
    # reader has read is cached, and not sent again. A row with an id never changes.

    def known_row(self, reader: str) -> tuple[str, str] | None:
        """The id and text of the row that was last read for a reader, if it is still cached."""
        return self._context.last_rows.get(reader)

    def remember_row(self, reader: str, row_id: str, body: str) -> None:
        """Cache a row's text for the reader's next claim."""
        if len(self._context.last_rows) > 64:
            self._context.last_rows.clear()
        self._context.last_rows[reader] = (row_id, body)

    def cut(self, topic: str, end: Position) -> Steps[Crossing | None]:
        if end.ts is None:
            return None
        rows = yield self.sql.time_cut(topic=topic, ts=end.ts)
        if not rows:
            raise unknown_topic(topic)
        return Crossing(rows[0]["first"], rows[0]["after"])

    def list(self, prefix: str, after: str, limit: int) -> Op[builtins.list[TopicInfo]]:
        def steps() -> Steps[list[TopicInfo]]:
            rows = yield self.sql.list_topics(prefix=prefix, after=after, limit=limit)
            return [
                TopicInfo(
                    row["name"],
                    row["first_seq"],
                    row["next_seq"],
                    row["last_ts"],
                    seconds_of(row["min_age"]),
                    seconds_of(row["max_age"]),
                )
                for row in rows
            ]

        return Op("topics.list", steps, writes=False)

    def info(self, topic: str) -> Op[TopicInfo]:
        def steps() -> Steps[TopicInfo]:
            head = yield from self.head(topic)
            if head is None or head.next_seq == 0:
                raise unknown_topic(topic)
            return head.info

        return Op("topics.info", steps, writes=False)

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
        cut = yield from self.cut(topic, position)
        assert cut is not None
        if is_beyond(position, cut, head.next_seq):
            return None
        return max(lowest(position, True, cut), head.first_seq)


def _head(row: Row) -> Head:
    return Head(*(row[field] for field in Head._fields))


def _info(topic: str, row: Row) -> TopicInfo:
    return TopicInfo(topic, row["first_seq"], row["next_seq"], row["last_ts"])


def _stored(row: Row) -> StoredBatch:
    body, headers = _encoded(row["body"]), row["headers"]
    beside = None if headers is None else _encoded(headers)
    return StoredBatch(row["base_seq"], row["count"], row["ts"], body, beside)


def _encoded(text: str | bytes) -> bytes:
    """The text as bytes; a user's own connection returns ``str``."""
    return text if isinstance(text, bytes) else text.encode()
