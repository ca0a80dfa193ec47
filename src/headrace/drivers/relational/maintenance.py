"""Maintenance in SQL."""

from __future__ import annotations

from headrace.contract.op import Op, Steps
from headrace.drivers.relational.procs import Procs, proc_of
from headrace.drivers.relational.topics import Head
from headrace.model import procs as rules
from headrace.model.collecting import Collected, new_floor
from headrace.model.position import Position
from headrace.model.record import TopicInfo
from headrace.model.refusals import unknown_topic

MOST_ROWS = 1000


class Maintenance(Procs):
    """The chores over a dialect's statements."""

    def set_ages(self, topic: str, min_age_ms: int | None, max_age_ms: int | None) -> Op[TopicInfo]:
        def steps() -> Steps[TopicInfo]:
            head = yield from self.head(topic)
            if head is None or head.next_seq == 0:
                raise unknown_topic(topic)
            yield self.sql.set_ages(topic=topic, min_age=min_age_ms, max_age=max_age_ms)
            return head._replace(min_age=min_age_ms, max_age=max_age_ms).info

        return Op("set_ages", steps, repeatable=True)

    def collect(self, topic: str) -> Op[Collected]:
        return Op("collect", lambda: self._collect(topic), repeatable=True)

    def _collect(self, topic: str) -> Steps[Collected]:
        heads = yield self.sql.lock_heads(names=[topic], now=self.clock())
        if not heads or heads[0]["next_seq"] == 0:
            raise unknown_topic(topic)
        head = Head(*(heads[0][field] for field in Head._fields))
        # Read only now: with the head locked no proc is made, and none moves back.
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
            self.sql.drop_batches(topic=head.id, first_seq=floor, limit=MOST_ROWS),
        )
        overtaken = tuple(
            state.name for state in states if state.cursor is not None and state.cursor < floor
        )
        return Collected(topic, head.first_seq, floor, overtaken)

    def _younger(self, head: Head, age: int | None) -> Steps[int | None]:
        """The first seq that is younger than an age."""
        if age is None:
            return None
        cut = yield from self.cut(head.name, Position(ts=max(0, head.now - age)))
        assert cut is not None
        return cut.after

    def collectable(self) -> Op[list[str]]:
        def steps() -> Steps[list[str]]:
            rows = yield self.sql.collectable()
            return [row["name"] for row in rows]

        return Op("collectable", steps, writes=False)

    def take_lease(self, task: str, holder: str, ttl_ms: int, force: bool) -> Op[bool]:
        def steps() -> Steps[bool]:
            rows = yield self.sql.take_lease(
                task=task, holder=holder, ttl=ttl_ms, force=force, now=self.clock()
            )
            return bool(rows)

        return Op("take_lease", steps, relaxed=True)

    def expire(self) -> Op[list[str]]:
        def steps() -> Steps[list[str]]:
            rows = yield self.sql.drop_expired_procs(now=self.clock())
            for row in rows:
                yield self.sql.release(id=row["id"])
            yield self.sql.drop_expired_keys(now=self.clock(), limit=MOST_ROWS)
            yield from self.tidy()
            return sorted(row["name"] for row in rows)

        return Op("expire", steps, repeatable=True)

    def tidy(self) -> Steps[None]:
        """Remove what a driver keeps for itself, and does not need any more."""
        yield from ()
