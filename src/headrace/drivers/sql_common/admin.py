"""Maintenance in SQL."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.contract.op import Op, Steps
from headrace.contract.values import Finding
from headrace.drivers.sql_common.procs import proc_of
from headrace.drivers.sql_common.topics import Head
from headrace.model.checks import seconds_of
from headrace.model.error_messages import unknown_topic
from headrace.model.topics import procs as rules
from headrace.model.topics.positions import Position
from headrace.model.topics.records import TopicInfo
from headrace.model.topics.retention import Collected, Retention, new_floor

if TYPE_CHECKING:
    from headrace.drivers.sql_common.context import SqlContext

MAX_ROWS = 1000


class SqlAdmin:
    """The part ``store.admin`` over a dialect's statements."""

    def __init__(self, context: SqlContext) -> None:
        self._context = context
        self.sql = context.sql
        self.clock = context.clock

    def set_retention(
        self, topic: str, min_age_ms: int | None, max_age_ms: int | None
    ) -> Op[TopicInfo]:
        def steps() -> Steps[TopicInfo]:
            head = yield from self._context.topics.head(topic)
            if head is None or head.next_seq == 0:
                raise unknown_topic(topic)
            yield self.sql.set_retention(topic=topic, min_age=min_age_ms, max_age=max_age_ms)
            return head._replace(min_age=min_age_ms, max_age=max_age_ms).info

        return Op("admin.set_retention", steps, repeatable=True)

    def default_retention(self) -> Op[Retention]:
        return Op("admin.default_retention", self._retention, writes=False)

    def _retention(self) -> Steps[Retention]:
        rows = yield self.sql.read_retention()
        if not rows:
            return Retention()
        [row] = rows
        return Retention(
            min_age=seconds_of(row["min_age"]),
            max_age=seconds_of(row["max_age"]),
            interval=row["every"] / 1000,
        )

    def set_default_retention(
        self, min_age_ms: int | None, max_age_ms: int | None, interval_ms: int
    ) -> Op[Retention]:
        def steps() -> Steps[Retention]:
            yield self.sql.save_retention(min_age=min_age_ms, max_age=max_age_ms, every=interval_ms)
            return (yield from self._retention())

        return Op("admin.set_default_retention", steps, repeatable=True)

    def prune(self, topic: str) -> Op[Collected]:
        return Op("admin.prune", lambda: self._collect(topic), repeatable=True)

    def _collect(self, topic: str) -> Steps[Collected]:
        heads = yield self.sql.lock_heads(names=[topic], now=self.clock())
        if not heads or heads[0]["next_seq"] == 0:
            raise unknown_topic(topic)
        head = Head(*(heads[0][field] for field in Head._fields))
        if head.min_age is None and head.max_age is None:
            for row in (yield self.sql.read_retention()):
                head = head._replace(min_age=row["min_age"], max_age=row["max_age"])
        # Read after the head is locked: no proc is made meanwhile, and none moves back.
        rows = yield self.sql.load_procs(topic=topic, names=None, now=self.clock())
        states = [proc_of(row).state for row in rows]
        floor = new_floor(
            first_seq=head.first_seq,
            next_seq=head.next_seq,
            needed=[need for state in states if (need := rules.needs_from(state)) is not None],
            old_enough=(yield from self._younger(head, head.min_age)),
            too_old=(yield from self._younger(head, head.max_age)),
        )
        yield (
            self.sql.move_floor(topic=head.id, first_seq=floor),
            self.sql.drop_batches(topic=head.id, first_seq=floor, limit=MAX_ROWS),
        )
        overtaken = tuple(
            state.name for state in states if state.cursor is not None and state.cursor < floor
        )
        return Collected(topic, head.first_seq, floor, overtaken)

    def _younger(self, head: Head, age: int | None) -> Steps[int | None]:
        """The first seq that is younger than an age."""
        if age is None:
            return None
        cut = yield from self._context.topics.cut(head.name, Position(ts=max(0, head.now - age)))
        assert cut is not None
        return cut.after

    def prunable(self) -> Op[list[str]]:
        def steps() -> Steps[list[str]]:
            rows = yield self.sql.prunable()
            return [row["name"] for row in rows]

        return Op("admin.prunable", steps, writes=False)

    def acquire_lease(self, task: str, holder: str, ttl_ms: int, force: bool) -> Op[bool]:
        def steps() -> Steps[bool]:
            rows = yield self.sql.acquire_lease(
                task=task, holder=holder, ttl=ttl_ms, force=force, now=self.clock()
            )
            return bool(rows)

        return Op("admin.acquire_lease", steps, relaxed=True)

    def expire(self) -> Op[list[str]]:
        def steps() -> Steps[list[str]]:
            rows = yield self.sql.drop_expired_procs(now=self.clock())
            for row in rows:
                yield self.sql.drop_claim(id=row["id"])
            yield self.sql.drop_expired_keys(now=self.clock(), limit=MAX_ROWS)
            if self._context.traits.has_commit_markers:
                yield self.sql.drop_markers(now=self.clock(), limit=MAX_ROWS)
            return sorted(row["name"] for row in rows)

        return Op("admin.expire", steps, repeatable=True)

    def diagnose(self, deep: bool) -> Op[list[Finding]]:
        return Op("admin.diagnose", lambda: self._context.examine(deep), writes=False)
