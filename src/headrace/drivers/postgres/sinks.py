"""Rows staged in the batch table itself: publishing them means numbering them.

Staging does not wait for a flush. Publishing does, and flushes everything written before. If a
crash lost staged rows, their count no longer matches.
"""

from __future__ import annotations

from collections.abc import Sequence

from headrace.contract.op import Op, Steps
from headrace.contract.sink_rules import check_stage, queues_of, records_of, topics_of
from headrace.contract.sinks import QUEUE, Publication, Published
from headrace.contract.values import CommitPart
from headrace.drivers.sql_common.sinks import MAX_STAGES, SqlSinks, outcome_of
from headrace.drivers.sql_common.statements import NoReply, Row, Statement
from headrace.drivers.sql_common.topics import Head
from headrace.model.tokens import batch_id

INSERT_ROWS = 16
NO_ROW = "00000000-0000-0000-0000-000000000000"


class PostgresSinks(SqlSinks):
    """Staging and publishing on PostgreSQL."""

    def stage(self, token: str, parts: Sequence[CommitPart]) -> Op[None]:
        # Made once, so that a row that is sent again keeps its id.
        ids = [batch_id() for _ in parts]
        return Op(
            "sinks.stage", lambda: self._stage(token, parts, ids), relaxed=True, repeatable=True
        )

    def _stage(self, token: str, parts: Sequence[CommitPart], ids: Sequence[str]) -> Steps[None]:
        names = sorted({part.topic for part in parts if not part.topic.startswith(QUEUE)})
        topics = {}
        if names:
            found = yield self.sql.find_topics(names=names, now=self.clock())
            if len(found) < len(names):
                _, found = yield (
                    self.sql.add_topics(names=names),
                    self.sql.find_topics(names=names, now=self.clock()),
                )
            topics = {row["name"]: row["id"] for row in found}
        yield tuple(
            self._staged(id, token, part, topics.get(part.topic))
            for id, part in zip(ids, parts, strict=True)
        )

    def _staged(self, id: str, token: str, part: CommitPart, topic: int | None) -> Statement:
        if topic is None:
            return self.sql.stage_documents(
                id=id,
                stage=token,
                queue=part.topic.removeprefix(QUEUE),
                count=part.count,
                documents=part.body,
                now=self.clock(),
            )
        return self.sql.stage_batch(
            id=id,
            topic=topic,
            count=part.count,
            body=part.body,
            headers=part.headers,
            stage=token,
            now=self.clock(),
        )

    def published(self, publication: Publication) -> Steps[Published]:
        tokens = [stage.token for stage in publication.stages]
        # Before any lock: an attempt that has reported stages no more rows.
        check_counts(publication, (yield self.sql.count_staged(tokens=tokens)))
        records = records_of(publication.stages)
        skipped = 0
        if queues_of(records):
            skipped = yield from self._push_all(publication)
            yield NoReply((self.sql.drop_staged_documents(tokens=tokens),))
        heads, ts = yield from self.heads_of(topics_of(records))
        if heads:
            yield NoReply(tuple(self._numbering(tokens, heads, records, ts)))
        return outcome_of(publication, heads, ts, skipped)

    def _numbering(
        self, tokens: list[str], heads: dict[str, Head], records: dict[str, int], ts: int
    ) -> list[Statement]:
        return [
            self.sql.number_staged(
                tokens=tokens,
                topics=[head.id for head in heads.values()],
                bases=[head.next_seq for head in heads.values()],
                ts=ts,
            ),
            *(
                self.sql.move_head(topic=head.id, next_seq=head.next_seq + records[name], ts=ts)
                for name, head in heads.items()
            ),
        ]

    def _push_all(self, publication: Publication) -> Steps[int]:
        skipped = 0
        for stage in publication.stages:
            after = NO_ROW
            while True:
                rows = yield self.sql.staged_documents(
                    stage=stage.token, after=after, limit=INSERT_ROWS
                )
                for row in rows:
                    skipped += yield from self.push_staged(
                        row["queue"], row["documents"], publication
                    )
                if len(rows) < INSERT_ROWS:
                    break
                after = rows[-1]["id"]
        return skipped

    def discard(self, tokens: Sequence[str]) -> Op[None]:
        def steps() -> Steps[None]:
            yield from self._drop_staged(list(tokens))

        return Op("sinks.discard", steps, relaxed=True, repeatable=True)

    def _drop_staged(self, tokens: list[str]) -> Steps[None]:
        yield (
            self.sql.drop_staged(tokens=tokens),
            self.sql.drop_staged_documents(tokens=tokens),
        )

    def prune_stages(self, age_ms: int) -> Op[int]:
        def steps() -> Steps[int]:
            rows = yield self.sql.old_stages(age=age_ms, now=self.clock(), limit=MAX_STAGES)
            tokens = [row["stage"] for row in rows]
            if tokens:
                yield from self._drop_staged(tokens)
            return len(tokens)

        return Op("sinks.prune_stages", steps, relaxed=True)


def check_counts(publication: Publication, rows: Sequence[Row]) -> None:
    """Raise ``StageLost`` unless every stage has as many rows as reported."""
    found: dict[str, dict[str, tuple[int, int]]] = {}
    for row in rows:
        found.setdefault(row["stage"], {})[row["target"]] = (row["rows"], row["records"])
    for stage in publication.stages:
        check_stage(stage, found.get(stage.token, {}))
