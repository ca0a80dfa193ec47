"""Maintenance in memory."""

from __future__ import annotations

from headrace.contract.op import Op
from headrace.drivers.memory.procs import MemoryProcs
from headrace.drivers.memory.topics import immediate
from headrace.model import procs as rules
from headrace.model.collecting import Collected, new_floor
from headrace.model.record import TopicInfo


class MemoryMaintenance(MemoryProcs):
    """The chores."""

    def set_ages(self, topic: str, min_age_ms: int | None, max_age_ms: int | None) -> Op[TopicInfo]:
        def act() -> TopicInfo:
            self.info_of(topic)
            data = self.topic_data(topic)
            data.min_age, data.max_age = min_age_ms, max_age_ms
            return self.info_of(topic)

        return immediate("set_ages", act)

    def collect(self, topic: str) -> Op[Collected]:
        def act() -> Collected:
            self.info_of(topic)
            data, now = self.topic_data(topic), self.now()
            states = [state for state, _ in self.data.procs.values() if state.topic == topic]
            before = data.first_seq
            data.first_seq = new_floor(
                first_seq=before,
                next_seq=data.next_seq,
                needed=[need for state in states if (need := rules.needs_from(state)) is not None],
                old_enough=None
                if data.min_age is None
                else data.crossing(now - data.min_age).after,
                too_old=None if data.max_age is None else data.crossing(now - data.max_age).after,
            )
            data.batches = [b for b in data.batches if b.last_seq >= data.first_seq]
            overtaken = sorted(
                state.name
                for state in states
                if state.cursor is not None and state.cursor < data.first_seq
            )
            return Collected(topic, before, data.first_seq, tuple(overtaken))

        return immediate("collect", act)

    def collectable(self) -> Op[list[str]]:
        def act() -> list[str]:
            return sorted(
                name
                for name, topic in self.data.topics.items()
                if topic.min_age is not None or topic.max_age is not None
            )

        return immediate("collectable", act, writes=False)

    def take_lease(self, task: str, holder: str, ttl_ms: int, force: bool) -> Op[bool]:
        def act() -> bool:
            now = self.now()
            if not force and self.data.leases.get(task, ("", 0))[1] > now:
                return False
            self.put(self.data.leases, task, (holder, now + ttl_ms))
            return True

        return immediate("take_lease", act)

    def expire(self) -> Op[list[str]]:
        def act() -> list[str]:
            now = self.now()
            gone = [
                name
                for name, (state, _) in self.data.procs.items()
                if state.expires_at is not None and state.expires_at <= now
            ]
            for name in gone:
                self.put(self.data.procs, name, None)
            for key in [key for key, entry in self.data.once.items() if entry[0] <= now]:
                self.put(self.data.once, key, None)
            pushed = self.data.once_pushed
            for key in [key for key, entry in pushed.items() if entry[0] <= now]:
                self.put(pushed, key, None)
            published = self.data.once_published
            for key in [key for key, (until, _) in published.items() if until <= now]:
                self.put(published, key, None)
            return sorted(gone)

        return immediate("expire", act)
