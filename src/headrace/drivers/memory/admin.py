"""Maintenance in memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.contract import diagnosis
from headrace.contract.op import Op
from headrace.contract.values import Finding
from headrace.drivers.memory.topics import TopicData, immediate
from headrace.model.checks import milliseconds_of, seconds_of
from headrace.model.topics import procs as rules
from headrace.model.topics.records import TopicInfo
from headrace.model.topics.retention import Collected, Retention, new_floor

if TYPE_CHECKING:
    from headrace.drivers.memory.context import MemoryContext


class MemoryAdmin:
    """The part ``store.admin``."""

    def __init__(self, context: MemoryContext) -> None:
        self._context = context
        self.data = context.data
        self.now = context.now

    def set_retention(
        self, topic: str, min_age_ms: int | None, max_age_ms: int | None
    ) -> Op[TopicInfo]:
        def act() -> TopicInfo:
            self._context.topics.info_of(topic)
            data = self._context.topics.topic_data(topic)
            data.min_age, data.max_age = min_age_ms, max_age_ms
            return self._context.topics.info_of(topic)

        return immediate("admin.set_retention", act)

    def default_retention(self) -> Op[Retention]:
        return immediate("admin.default_retention", lambda: self.data.retention, writes=False)

    def set_default_retention(
        self, min_age_ms: int | None, max_age_ms: int | None, interval_ms: int
    ) -> Op[Retention]:
        def act() -> Retention:
            wanted = Retention(
                min_age=seconds_of(min_age_ms),
                max_age=seconds_of(max_age_ms),
                interval=interval_ms / 1000,
            )
            self.data.retention = wanted
            return wanted

        return immediate("admin.set_default_retention", act)

    def _ages(self, topic: TopicData) -> tuple[int | None, int | None]:
        """How long a topic keeps its records: by its own setting or by the default."""
        if topic.min_age is not None or topic.max_age is not None:
            return topic.min_age, topic.max_age
        every = self.data.retention
        return milliseconds_of(every.min_age), milliseconds_of(every.max_age)

    def prune(self, topic: str) -> Op[Collected]:
        def act() -> Collected:
            self._context.topics.info_of(topic)
            data, now = self._context.topics.topic_data(topic), self.now()
            min_age, max_age = self._ages(data)
            states = [state for state, _ in self.data.procs.values() if state.topic == topic]
            before = data.first_seq
            data.first_seq = new_floor(
                first_seq=before,
                next_seq=data.next_seq,
                needed=[need for state in states if (need := rules.needs_from(state)) is not None],
                old_enough=None if min_age is None else data.crossing(now - min_age).after,
                too_old=None if max_age is None else data.crossing(now - max_age).after,
            )
            data.batches = [b for b in data.batches if b.last_seq >= data.first_seq]
            overtaken = sorted(
                state.name
                for state in states
                if state.cursor is not None and state.cursor < data.first_seq
            )
            return Collected(topic, before, data.first_seq, tuple(overtaken))

        return immediate("admin.prune", act)

    def prunable(self) -> Op[list[str]]:
        def act() -> list[str]:
            return sorted(
                name
                for name, topic in self.data.topics.items()
                if topic.next_seq > 0 and self._ages(topic) != (None, None)
            )

        return immediate("admin.prunable", act, writes=False)

    def acquire_lease(self, task: str, holder: str, ttl_ms: int, force: bool) -> Op[bool]:
        def act() -> bool:
            now = self.now()
            if not force and self.data.leases.get(task, ("", 0))[1] > now:
                return False
            self._context.topics.put(self.data.leases, task, (holder, now + ttl_ms))
            return True

        return immediate("admin.acquire_lease", act)

    def expire(self) -> Op[list[str]]:
        def act() -> list[str]:
            now = self.now()
            gone = [
                name
                for name, (state, _) in self.data.procs.items()
                if state.expires_at is not None and state.expires_at <= now
            ]
            for name in gone:
                self._context.topics.put(self.data.procs, name, None)
            for key in [key for key, entry in self.data.once.items() if entry[0] <= now]:
                self._context.topics.put(self.data.once, key, None)
            pushed = self.data.once_pushed
            for key in [key for key, entry in pushed.items() if entry[0] <= now]:
                self._context.topics.put(pushed, key, None)
            published = self.data.once_published
            for key in [key for key, (until, _) in published.items() if until <= now]:
                self._context.topics.put(published, key, None)
            return sorted(gone)

        return immediate("admin.expire", act)

    def diagnose(self, deep: bool) -> Op[list[Finding]]:
        def act() -> list[Finding]:
            topics = self.data.topics.items()
            latest = max(topics, key=lambda item: item[1].last_ts, default=None)
            ahead = latest[1].last_ts - self.now() if latest else 0
            bodies = sum(len(batch.body) for _, topic in topics for batch in topic.batches)
            return [
                Finding(check="engine", verdict="ok", found="the memory of this process"),
                Finding(check="durability", verdict="ok", found="nothing outlives the process"),
                diagnosis.dated(latest[0] if latest else None, ahead),
                diagnosis.size({"bodies": bodies}),
            ]

        return immediate("admin.diagnose", act, writes=False)
